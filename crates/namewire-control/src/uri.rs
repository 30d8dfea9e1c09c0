//! Names in JSON, as URIs: `#[serde(with = "crate::uri")]`.

use ndn_packet::Name;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(name: &Name, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(name)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    let uri = String::deserialize(deserializer)?;
    Name::from_uri(&uri).map_err(|error| D::Error::custom(format!("{uri} is no name: {error}")))
}
