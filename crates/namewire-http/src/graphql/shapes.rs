//! From declared types to GraphQL types, and from JSON values to GraphQL values.
//!
//! The control protocol and this crate declare structures with `results!`, management its datasets with `dataset!`, and
//! counters are declared with `counters!`. An object type
//! follows from each declaration: its fields in lower camel case, with the declared help texts. A resolver takes the
//! value of its field from the JSON object that the operation has returned.

use std::collections::BTreeMap;

use async_graphql::Value as GraphValue;
use async_graphql::dynamic::{
    Field, FieldFuture, FieldValue, Object, Scalar, SchemaBuilder, TypeRef,
};
use namewire_control::{FieldInfo, ResultInfo};
use ndn_types::CounterInfo;
use serde_json::Value;

/// The scalar of unsigned numbers: GraphQL's Int ends at 2^31.
pub(super) const NUMBER: &str = "UInt64";

/// The shape of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// A text.
    Text,
    /// A truth value.
    Truth,
    /// A number.
    Number,
    /// A value, or null.
    Optional(Box<Shape>),
    /// A list.
    List(Box<Shape>),
    /// A map from texts or numbers: a list of entries in GraphQL.
    Map(Box<Shape>),
    /// A declared structure or set of counters.
    Object(String),
}

impl Shape {
    /// The shape of a type in Rust, as the declarations write it.
    ///
    /// # Errors
    /// The type is not one of those that declarations use.
    pub(super) fn parse(of: &str) -> Result<Self, String> {
        let of: String = of.chars().filter(|c| !c.is_whitespace()).collect();
        let inner = |start: &str| of.strip_prefix(start)?.strip_suffix('>');
        // Bytes are base64.
        if of == "Vec<u8>" {
            return Ok(Self::Text);
        }
        if let Some(of) = inner("Option<") {
            return Ok(Self::Optional(Box::new(Self::parse(of)?)));
        }
        if let Some(of) = inner("Vec<") {
            return Ok(Self::List(Box::new(Self::parse(of)?)));
        }
        if let Some(of) = inner("BTreeMap<") {
            let (key, of) = of.split_once(',').ok_or_else(|| format!("{of} is no map"))?;
            return match key {
                "String" | "u64" => Ok(Self::Map(Box::new(Self::parse(of)?))),
                _ => Err(format!("keys of type {key} have no shape")),
            };
        }
        if let Some(of) = of.strip_prefix('[') {
            let (of, _) = of.split_once(';').ok_or_else(|| format!("{of} is no array"))?;
            return Ok(Self::List(Box::new(Self::parse(of)?)));
        }
        match of.as_str() {
            "String" | "Name" | "Scope" | "Persistency" | "LinkType" => Ok(Self::Text),
            "bool" => Ok(Self::Truth),
            "u8" | "u16" | "u32" | "u64" | "usize" => Ok(Self::Number),
            name if name.chars().all(|c| c.is_ascii_alphanumeric()) => {
                Ok(Self::Object(name.to_owned()))
            }
            _ => Err(format!("{of} has no shape")),
        }
    }

    /// The type in GraphQL.
    pub(super) fn type_ref(&self) -> TypeRef {
        if let Self::Optional(inner) = self {
            return inner.nullable();
        }
        TypeRef::NonNull(Box::new(self.nullable()))
    }

    fn nullable(&self) -> TypeRef {
        match self {
            Self::Text => TypeRef::named(TypeRef::STRING),
            Self::Truth => TypeRef::named(TypeRef::BOOLEAN),
            Self::Number => TypeRef::named(NUMBER),
            Self::Optional(inner) => inner.nullable(),
            Self::List(inner) => TypeRef::List(Box::new(inner.type_ref())),
            Self::Map(_) => TypeRef::List(Box::new(TypeRef::named_nn(self.entry_name()))),
            Self::Object(name) => TypeRef::named(name.as_str()),
        }
    }

    /// The name of the type of a map's entries.
    fn entry_name(&self) -> String {
        let Self::Map(inner) = self else { return String::new() };
        if let Self::Object(name) = &**inner {
            format!("{name}Entry")
        } else {
            "NumberEntry".to_owned()
        }
    }

    /// The maps in the shape, each with the shape of its values.
    fn maps(&self) -> Option<(String, &Self)> {
        match self {
            Self::Map(inner) => Some((self.entry_name(), inner)),
            Self::Optional(inner) | Self::List(inner) => inner.maps(),
            Self::Text | Self::Truth | Self::Number | Self::Object(_) => None,
        }
    }

    /// The GraphQL value of a JSON value; `None` for null.
    pub(super) fn value(&self, json: &Value) -> Option<FieldValue<'static>> {
        match (self, json) {
            (_, Value::Null) => None,
            (Self::Optional(inner), _) => inner.value(json),
            (Self::List(inner), Value::Array(items)) => {
                Some(FieldValue::list(items.iter().filter_map(|item| inner.value(item))))
            }
            (Self::Map(_), Value::Object(entries)) => {
                let entry = |(key, value): (&String, &Value)| {
                    FieldValue::owned_any(serde_json::json!({ "key": key, "value": value }))
                };
                Some(FieldValue::list(entries.iter().map(entry)))
            }
            (Self::Object(_), Value::Object(_)) => Some(FieldValue::owned_any(json.clone())),
            _ => GraphValue::from_json(json.clone()).ok().map(FieldValue::value),
        }
    }
}

/// A name of the control protocol in GraphQL's lower camel case.
pub(super) fn camel(name: &str) -> String {
    let mut words = name.split(['_', '.', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        name + &first.map(String::from).unwrap_or_default() + letters.as_str()
    })
}

/// The object types of declared structures and counters.
#[derive(Debug, Default)]
pub(super) struct Types {
    counters: BTreeMap<&'static str, Vec<&'static CounterInfo>>,
    objects: BTreeMap<String, Object>,
}

impl Types {
    /// Types that refer to these sets of counters, by the name of the type in Rust.
    pub(super) fn new(counters: BTreeMap<&'static str, Vec<&'static CounterInfo>>) -> Self {
        Self { counters, objects: BTreeMap::new() }
    }

    /// Adds the types of declared structures.
    ///
    /// # Errors
    /// A field has a type without a shape.
    pub(super) fn declare(&mut self, results: &[ResultInfo]) -> Result<(), String> {
        for result in results {
            let mut object = Object::new(result.name).description(result.help);
            for field in result.fields {
                object = self.with_field(object, field)?;
            }
            self.objects.insert(result.name.to_owned(), object);
        }
        Ok(())
    }

    /// Adds a type with these fields: name, help text, shape.
    pub(super) fn add(
        &mut self,
        name: &str,
        help: &str,
        fields: Vec<(&'static str, &'static str, Shape)>,
    ) {
        let mut object = Object::new(name).description(help);
        for (name, help, shape) in fields {
            self.declare_parts(&shape);
            object = object.field(plain(name, help, shape));
        }
        self.objects.insert(name.to_owned(), object);
    }

    fn with_field(&mut self, mut object: Object, field: &FieldInfo) -> Result<Object, String> {
        if field.is_flat {
            for info in
                self.counters.get(field.of).ok_or_else(|| format!("{} is flat", field.of))?
            {
                object = object.field(plain(info.name, info.help, Shape::Number));
            }
            return Ok(object);
        }
        let shape = Shape::parse(field.of)?;
        self.declare_parts(&shape);
        Ok(object.field(plain(field.name, field.help, shape)))
    }

    /// Adds the types that a shape needs: entries of maps, sets of counters.
    pub(super) fn declare_parts(&mut self, shape: &Shape) {
        if let Some((name, inner)) = shape.maps() {
            let entry = Object::new(&name).description("An entry of a map.");
            let entry = entry.field(plain("key", "The key.", Shape::Text));
            let entry = entry.field(plain("value", "The value.", inner.clone()));
            self.objects.entry(name).or_insert(entry);
        }
        if let Shape::Object(name) = shape
            && let Some(infos) = self.counters.get(name.as_str())
        {
            let object = Object::new(name).description("Values of counters.");
            let add = |object: Object, info: &&'static CounterInfo| {
                object.field(plain(info.name, info.help, Shape::Number))
            };
            self.objects.insert(name.clone(), infos.iter().fold(object, add));
        }
    }

    /// Adds all types to a schema.
    pub(super) fn register(self, builder: SchemaBuilder) -> SchemaBuilder {
        let number =
            Scalar::new(NUMBER).description("An unsigned integer of 64 bits, as a JSON number.");
        let number = number
            .validator(|value| matches!(value, GraphValue::Number(number) if number.is_u64()));
        let builder = builder.register(number);
        self.objects.into_values().fold(builder, SchemaBuilder::register)
    }
}

/// A field whose value is that of the same name in the JSON object of its parent.
pub(super) fn plain(name: &'static str, help: &'static str, shape: Shape) -> Field {
    let of = shape.type_ref();
    let resolve = move |json: Option<&Value>| json.and_then(|json| shape.value(json));
    Field::new(camel(name), of, move |context| {
        let parent = context.parent_value.downcast_ref::<Value>();
        let value = resolve(parent.and_then(|parent| parent.get(name)));
        FieldFuture::new(async move { Ok(value) })
    })
    .description(help)
}

/// A GraphQL argument as JSON.
pub(super) fn json_of(value: &GraphValue) -> Value {
    value.clone().into_json().unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_declarations_have_shapes() {
        let object = |name: &str| Shape::Object(name.to_owned());
        for (of, shape, graph) in [
            ("u64", Shape::Number, "UInt64!"),
            ("Option<String>", Shape::Optional(Box::new(Shape::Text)), "String"),
            (
                "Vec < WaitingFace >",
                Shape::List(Box::new(object("WaitingFace"))),
                "[WaitingFace!]!",
            ),
            ("[u64; BURST_SIZE_CLASSES]", Shape::List(Box::new(Shape::Number)), "[UInt64!]!"),
            ("BTreeMap<String, u64>", Shape::Map(Box::new(Shape::Number)), "[NumberEntry!]!"),
            (
                "BTreeMap<u64, LinkCounters>",
                Shape::Map(Box::new(object("LinkCounters"))),
                "[LinkCountersEntry!]!",
            ),
        ] {
            let found = Shape::parse(of).unwrap();
            assert_eq!(found, shape, "{of}");
            assert_eq!(found.type_ref().to_string(), graph, "{of}");
        }
        Shape::parse("HashMap<String, u64>").unwrap_err();
        Shape::parse("BTreeMap<bool, u64>").unwrap_err();
    }

    #[test]
    fn names_are_in_camel_case() {
        for (name, expected) in [
            ("face_id", "faceId"),
            ("log.set", "logSet"),
            ("faces.waiting_for", "facesWaitingFor"),
            ("add-nexthop", "addNexthop"),
            ("limits", "limits"),
        ] {
            assert_eq!(camel(name), expected);
        }
    }
}
