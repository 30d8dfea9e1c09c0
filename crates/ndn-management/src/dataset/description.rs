//! Descriptions of declared structures, from which representations other than the blocks of the protocol follow.

use ndn_packet::Name;
use ndn_types::{LinkType, Persistency, Scope};

/// A declared structure.
#[derive(Debug)]
pub struct DatasetInfo {
    /// Its name.
    pub name: &'static str,
    /// Its documentation, as sentences.
    pub help: &'static str,
    /// Its fields.
    pub fields: &'static [DatasetField],
}

/// A declared field.
#[derive(Debug)]
pub struct DatasetField {
    /// Its name.
    pub name: &'static str,
    /// Its type, in Rust.
    pub of: &'static str,
    /// Its meaning, as sentences.
    pub help: &'static str,
    /// The structure whose fields stand in the place of the field.
    pub part: Option<&'static DatasetInfo>,
    /// The form of a number in other representations.
    pub form: Form,
}

/// The form of a number in representations other than the blocks of the protocol.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// A number, or what else the type has.
    Plain,
    /// A word.
    Word {
        /// The word for a number.
        text_of: fn(u64) -> String,
        /// The number that a word stands for.
        number_of: fn(&str) -> Option<u64>,
    },
    /// Bits, each a truth value.
    Flags(&'static [Flag]),
}

/// A bit of flags.
#[derive(Debug)]
pub struct Flag {
    /// Its name.
    pub name: &'static str,
    /// Its meaning, as sentences.
    pub help: &'static str,
    /// The bit.
    pub bit: u64,
}

impl Form {
    /// The value in this form.
    pub(crate) fn apply(self, value: DatasetValue) -> DatasetValue {
        match (self, value) {
            (Self::Word { text_of, .. }, DatasetValue::Number(number)) => {
                DatasetValue::Text(text_of(number))
            }
            (_, value) => value,
        }
    }

    /// The value without this form.
    ///
    /// # Errors
    /// The word is unknown.
    pub(crate) fn remove(self, value: DatasetValue) -> Result<DatasetValue, String> {
        match (self, value) {
            (Self::Word { number_of, .. }, DatasetValue::Text(word)) => {
                let number = number_of(&word).ok_or_else(|| format!("`{word}` is unknown"))?;
                Ok(DatasetValue::Number(number))
            }
            (_, value) => Ok(value),
        }
    }
}

/// The value of a declared field.
#[derive(Debug, Clone)]
pub enum DatasetValue {
    /// An absent value.
    None,
    /// A number.
    Number(u64),
    /// A text: names as URIs, enumerations by their words.
    Text(String),
    /// A list.
    List(Vec<DatasetValue>),
    /// A structure, with the values of its fields in their order.
    Structure(&'static DatasetInfo, Vec<DatasetValue>),
}

/// A type of fields.
pub trait Described {
    /// The declaration of a structure.
    const STRUCTURE: Option<&'static DatasetInfo> = None;

    /// Its value.
    fn value(&self) -> DatasetValue;
}

impl Described for u64 {
    fn value(&self) -> DatasetValue {
        DatasetValue::Number(*self)
    }
}

impl<T: Described> Described for Option<T> {
    fn value(&self) -> DatasetValue {
        self.as_ref().map_or(DatasetValue::None, Described::value)
    }
}

impl<T: Described> Described for Vec<T> {
    fn value(&self) -> DatasetValue {
        DatasetValue::List(self.iter().map(Described::value).collect())
    }
}

macro_rules! described_by_text {
    ($($Type:ty),+) => {$(
        impl $crate::dataset::description::Described for $Type {
            fn value(&self) -> $crate::dataset::description::DatasetValue {
                $crate::dataset::description::DatasetValue::Text(self.to_string())
            }
        }
    )+};
}

described_by_text!(String, Name, Scope, Persistency, LinkType);

pub(crate) use described_by_text;
