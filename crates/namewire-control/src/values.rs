//! Values of counters in JSON: each under the name of its declaration.
//!
//! Used as `#[serde(with = "crate::values")]` on a field whose type implements [`CounterValues`]. Unknown names are
//! ignored, and names that are missing leave 0: the other end may be of another version.

use std::fmt;
use std::marker::PhantomData;

use ndn_types::CounterValues;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};

pub(crate) fn serialize<T: CounterValues, S: Serializer>(
    values: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (info, value) in { *values }.entries() {
        map.serialize_entry(info.name, value)?;
    }
    map.end()
}

pub(crate) fn deserialize<'de, T: CounterValues, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_map(ValuesVisitor(PhantomData))
}

struct ValuesVisitor<T>(PhantomData<T>);

impl<'de, T: CounterValues> Visitor<'de> for ValuesVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("counters by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut values = T::default();
        let mut entries = values.entries();
        while let Some(name) = map.next_key::<String>()? {
            match entries.iter_mut().find(|(info, _)| info.name == name) {
                Some((_, value)) => **value = map.next_value()?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        drop(entries);
        Ok(values)
    }
}
