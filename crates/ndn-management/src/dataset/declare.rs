//! The declaration of datasets: structures with help texts for their fields, from which representations other than the
//! blocks of the protocol follow.

use ndn_packet::Name;

use crate::types::{LinkType, Persistency, Scope};

/// A declared structure.
#[derive(Debug, PartialEq, Eq)]
pub struct DatasetInfo {
    /// Its name.
    pub name: &'static str,
    /// What it describes, as sentences.
    pub help: &'static str,
    /// Its fields.
    pub fields: &'static [DatasetField],
}

/// A declared field.
#[derive(Debug, PartialEq, Eq)]
pub struct DatasetField {
    /// Its name.
    pub name: &'static str,
    /// Its type, in Rust.
    pub of: &'static str,
    /// Its meaning, as sentences.
    pub help: &'static str,
    /// The structure whose fields stand in the place of the field.
    pub part: Option<&'static DatasetInfo>,
}

/// The value of a declared field.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The structure, for a type whose fields stand in the place of the field.
    const PART: Option<&'static DatasetInfo> = None;

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
        impl Described for $Type {
            fn value(&self) -> DatasetValue {
                DatasetValue::Text(self.to_string())
            }
        }
    )+};
}

described_by_text!(String, Name, Scope, Persistency, LinkType);

/// Declares a structure. A `part` stands in other structures in the place of a field.
macro_rules! dataset {
    (part: $($structure:tt)+) => {
        $crate::dataset::declare::dataset!(true, $($structure)+);
    };
    (item: $($structure:tt)+) => {
        $crate::dataset::declare::dataset!(false, $($structure)+);
    };
    ($is_part:literal,
        $(#[doc = $help:literal])+
        #[derive($($derive:ident),+)]
        pub struct $Structure:ident {
            $(
                $(#[doc = $field_help:literal])+
                pub $field:ident: $Field:ty,
            )+
        }
    ) => {
        $(#[doc = $help])+
        #[derive($($derive),+)]
        pub struct $Structure {
            $(
                $(#[doc = $field_help])+
                pub $field: $Field,
            )+
        }

        impl $Structure {
            /// Its declaration.
            pub const INFO: &'static $crate::dataset::DatasetInfo = &$crate::dataset::DatasetInfo {
                name: stringify!($Structure),
                help: concat!($($help),+).trim_ascii(),
                fields: &[$( $crate::dataset::DatasetField {
                    name: stringify!($field),
                    of: stringify!($Field),
                    help: concat!($($field_help),+).trim_ascii(),
                    part: <$Field as $crate::dataset::Described>::PART,
                }, )+],
            };
        }

        impl $crate::dataset::Described for $Structure {
            const PART: Option<&'static $crate::dataset::DatasetInfo> =
                if $is_part { Some(Self::INFO) } else { None };

            fn value(&self) -> $crate::dataset::DatasetValue {
                use $crate::dataset::{DatasetValue, Described};
                DatasetValue::Structure(Self::INFO, vec![$( Described::value(&self.$field) ),+])
            }
        }
    };
}

pub(crate) use dataset;
