//! The declaration of datasets: structures whose fields have a TLV-TYPE and a help text. From the declaration follow the
//! encoder, the decoder, and the description for representations other than the blocks of the protocol.

/// Declares a structure: each field with its help text, type and TLV-TYPE (a constant of [`numbers`](crate::numbers)).
///
/// The elements stand in a block in the order of the fields. A field without a TLV-TYPE is a structure whose elements
/// stand in its place; `after NUMBER` has a field, and those that are declared after it, follow one of these elements.
/// `as FORM` is the [form](crate::dataset::Form) of a number in other representations.
/// A structure with a TLV-TYPE is a block, which is an [item](crate::dataset::DatasetItem) of a dataset.
macro_rules! dataset {
    (
        $(#[doc = $help:literal])+
        #[derive($($derive:ident),+)]
        pub struct $Structure:ident $(= $block:ident)? {
            $(
                $(#[doc = $field_help:literal])+
                pub $field:ident: $Field:ty $(= $number:ident $(after $before:ident)? $(as $form:path)?)?,
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
                    part: match $crate::dataset::declare::number!($($number)?) {
                        $crate::block::PART => <$Field as $crate::dataset::Described>::STRUCTURE,
                        _ => None,
                    },
                    form: $crate::dataset::declare::form!($($($form)?)?),
                }, )+],
            };
        }

        impl $crate::block::Structure for $Structure {
            type Found<'a> = [
                Option<::ndn_packet::tlv::Tlv<'a>>;
                <$Structure as $crate::block::WireField<{ $crate::block::PART }>>::ORDER.len()
            ];
        }

        impl $crate::block::WireField<{ $crate::block::PART }> for $Structure {
            const ORDER: $crate::block::ElementOrder = $crate::block::ElementOrder::NONE
                $(
                    $($( .after($crate::numbers::$before) )?)?
                    .with_all(&<$Field as $crate::block::WireField<
                        { $crate::dataset::declare::number!($($number)?) }
                    >>::ORDER)
                )+;

            #[inline]
            fn append(&self, ty: u32, out: &mut Vec<u8>) {
                $( <$Field as $crate::block::WireField<
                    { $crate::dataset::declare::number!($($number)?) }
                >>::append(&self.$field, ty, out); )+
            }

            #[inline]
            fn read(
                elements: &$crate::block::Elements<'_, '_>,
            ) -> Result<Self, ::ndn_packet::DecodeError> {
                Ok(Self {
                    $( $field: <$Field as $crate::block::WireField<
                        { $crate::dataset::declare::number!($($number)?) }
                    >>::read(elements)?, )+
                })
            }
        }

        $(
            impl $crate::dataset::DatasetItem for $Structure {
                const TYPE: u32 = $crate::numbers::$block;

                fn encode(&self, out: &mut Vec<u8>) {
                    $crate::block::Structure::append_block(self, Self::TYPE, out);
                }

                fn decode_fields(
                    block: ::ndn_packet::tlv::Tlv<'_>,
                ) -> Result<Self, ::ndn_packet::DecodeError> {
                    $crate::block::Structure::read_in_order(block.reader())
                }
            }
        )?

        impl $crate::dataset::Described for $Structure {
            const STRUCTURE: Option<&'static $crate::dataset::DatasetInfo> = Some(Self::INFO);

            fn value(&self) -> $crate::dataset::DatasetValue {
                $crate::dataset::DatasetValue::Structure(Self::INFO, vec![$(
                    $crate::dataset::declare::form!($($($form)?)?)
                        .apply($crate::dataset::Described::value(&self.$field)),
                )+])
            }
        }
    };
}

/// The TLV-TYPE of a field.
macro_rules! number {
    () => {
        $crate::block::PART
    };
    ($number:ident) => {
        $crate::numbers::$number
    };
}

/// The form of a field.
macro_rules! form {
    () => {
        $crate::dataset::Form::Plain
    };
    ($form:path) => {
        $form
    };
}

pub(crate) use {dataset, form, number};
