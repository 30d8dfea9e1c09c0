//! `ControlParameters`: the arguments of a command, and the body of most responses
//! (NFD wiki, `ControlCommand`).

use ndn_packet::tlv::Reader;
use ndn_packet::{DecodeError, Name, NameRef};

use crate::block::Structure;
use crate::dataset::declare::dataset;
use crate::dataset::{DatasetField, DatasetValue};
use crate::numbers;
use crate::types::{DRIVER_WORD, PERSISTENCY_WORD, route_origin};

/// Declares the parameters of commands: from the declaration follow their block, the names by which the rules of commands
/// refer to them, and the arguments in GraphQL.
macro_rules! parameters {
    ($(
        $(#[doc = $help:literal])+
        $Parameter:ident $field:ident: $Field:ty = $number:ident $(as $form:path)?,
    )+) => {
        dataset! {
            /// The parameters of a command. Those that the command does not have are absent.
            #[derive(Debug, Clone, Default, PartialEq, Eq)]
            pub struct ControlParameters {
                $(
                    $(#[doc = $help])+
                    pub $field: Option<$Field> = $number $(as $form)?,
                )+
            }
        }

        /// A field of [`ControlParameters`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Parameter {
            $(
                $(#[doc = $help])+
                $Parameter,
            )+
        }

        impl Parameter {
            /// Every parameter, in the order in which they are written.
            pub const ALL: &[Self] = &[$( Self::$Parameter ),+];

            /// Whether `parameters` has the parameter.
            #[must_use]
            pub const fn is_in(self, parameters: &ControlParameters) -> bool {
                match self {
                    $( Self::$Parameter => parameters.$field.is_some(), )+
                }
            }
        }

        impl ControlParameters {
            /// Sets a parameter to a value in the form of its declaration, or removes it.
            ///
            /// # Errors
            /// The value has another type, or stands for nothing; the text is the reason.
            pub fn set(&mut self, parameter: Parameter, value: DatasetValue) -> Result<(), String> {
                let value = parameter.info().form.remove(value)?;
                match parameter {
                    $( Parameter::$Parameter => self.$field = FromValue::from_value(value)?, )+
                }
                Ok(())
            }
        }
    };
}

parameters! {
    /// Prefix.
    Name name: Name = NAME,
    /// FaceId; 0 is the requester's own face.
    FaceId face_id: u64 = FACE_ID,
    /// Remote face URI.
    Uri uri: String = URI,
    /// Local face URI.
    LocalUri local_uri: String = LOCAL_URI,
    /// Origin of the route: a word such as `static`, or a number.
    Origin origin: u64 = ORIGIN as route_origin::WORD,
    /// Cost of the route or next hop; lower is preferred.
    Cost cost: u64 = COST,
    /// Capacity of the Content Store, packets; in the result of `cs/erase`, the limit of one command.
    Capacity capacity: u64 = CAPACITY,
    /// Maximum number of packets; in the result, their number.
    Count count: u64 = COUNT,
    /// Flags, whose meaning depends on the module.
    Flags flags: u64 = FLAGS,
    /// The bits of `flags` that are to be changed.
    Mask mask: u64 = MASK,
    /// Name of the strategy, with version and parameters if they are given.
    Strategy strategy: Name = STRATEGY,
    /// Lifetime of the route, milliseconds.
    ExpirationPeriod expiration_period_ms: u64 = EXPIRATION_PERIOD,
    /// When the face closes: `persistent` or `permanent`.
    Persistency persistency: u64 = FACE_PERSISTENCY as PERSISTENCY_WORD,
    /// Interval of congestion marking, nanoseconds.
    BaseCongestionMarkingInterval base_congestion_marking_interval_ns: u64 =
        BASE_CONGESTION_MARKING_INTERVAL,
    /// Queue length at which congestion marking starts, bytes.
    DefaultCongestionThreshold default_congestion_threshold: u64 = DEFAULT_CONGESTION_THRESHOLD,
    /// Maximum length of a packet, bytes.
    Mtu mtu: u64 = MTU,
    /// Driver of an Ethernet face: `packet` or `xdp`. An extension that NFD ignores.
    Driver driver: u64 = DRIVER as DRIVER_WORD,
}

impl Parameter {
    /// The declaration.
    #[must_use]
    pub const fn info(self) -> &'static DatasetField {
        &ControlParameters::INFO.fields[self as usize]
    }
}

impl ControlParameters {
    /// The block on the wire, type and length included.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Appends the block to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.append_block(numbers::CONTROL_PARAMETERS, out);
    }

    /// Decodes one block that fills `wire`.
    ///
    /// Fields may come in any order, as NFD takes them. The first of a repeated field counts; unknown fields are skipped.
    ///
    /// # Errors
    /// If `wire` is not exactly one `ControlParameters` block, or a field's value is malformed.
    pub fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        let block = Reader::new(wire).read_only(numbers::CONTROL_PARAMETERS)?;
        let parameters = Self::read_in_any_order(block.reader())?;
        // Clients of ndn-cxx take no origin of more than 16 bits, nor a list that has one.
        if parameters.origin.is_some_and(|origin| origin > route_origin::NONE) {
            return Err(block.invalid_value());
        }
        Ok(parameters)
    }

    /// The value of a flag bit that the sender wants changed (`Mask` has the bit).
    #[must_use]
    pub fn flag(&self, bit: u64) -> Option<bool> {
        (self.mask.unwrap_or(0) & bit != 0).then(|| self.flags.unwrap_or(0) & bit != 0)
    }

    /// Asks for a flag bit to be set or cleared: `Flags` and `Mask` both.
    pub fn set_flag(&mut self, bit: u64, value: bool) {
        self.mask = Some(self.mask.unwrap_or(0) | bit);
        let flags = self.flags.unwrap_or(0);
        self.flags = Some(if value { flags | bit } else { flags & !bit });
    }

    /// The prefix, or the empty name where the command has none.
    #[must_use]
    pub fn prefix(&self) -> NameRef<'_> {
        self.name.as_ref().map(Name::as_ref).unwrap_or(NameRef::ROOT)
    }
}

/// A type of parameters, made of a value in the form of the parameter.
trait FromValue: Sized {
    /// The value; `None` if it is absent.
    fn from_value(value: DatasetValue) -> Result<Option<Self>, String>;
}

impl FromValue for u64 {
    fn from_value(value: DatasetValue) -> Result<Option<Self>, String> {
        match value {
            DatasetValue::None => Ok(None),
            DatasetValue::Number(number) => Ok(Some(number)),
            DatasetValue::Text(_) | DatasetValue::List(_) | DatasetValue::Structure(..) => {
                Err("not a number".to_owned())
            }
        }
    }
}

impl FromValue for String {
    fn from_value(value: DatasetValue) -> Result<Option<Self>, String> {
        match value {
            DatasetValue::None => Ok(None),
            DatasetValue::Text(text) => Ok(Some(text)),
            DatasetValue::Number(_) | DatasetValue::List(_) | DatasetValue::Structure(..) => {
                Err("not a text".to_owned())
            }
        }
    }
}

impl FromValue for Name {
    fn from_value(value: DatasetValue) -> Result<Option<Self>, String> {
        let uri = String::from_value(value)?;
        let parse = |uri: String| {
            Self::from_uri(&uri).map_err(|error| format!("{uri} is not a name: {error}"))
        };
        uri.map(parse).transpose()
    }
}

#[cfg(test)]
mod tests;
