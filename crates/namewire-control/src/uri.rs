//! Names in JSON, as URIs: `#[serde(with = "crate::uri")]`.

use ndn_packet::Name;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(name: &Name, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(name)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    let uri = String::deserialize(deserializer)?;
    Name::from_uri(&uri).map_err(|error| D::Error::custom(format!("{uri} is no name: {error}")))
}

/// The same for a name or null.
pub(crate) mod optional {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        name: &Option<Name>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        name.as_ref().map(ToString::to_string).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Name>, D::Error> {
        #[derive(Deserialize)]
        struct Uri(#[serde(with = "crate::uri")] Name);
        Ok(Option::<Uri>::deserialize(deserializer)?.map(|Uri(name)| name))
    }
}
