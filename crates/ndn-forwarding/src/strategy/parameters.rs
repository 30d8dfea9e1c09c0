//! The `name~value` components at the end of a strategy instance name.

use ndn_packet::NameRef;
use thiserror::Error;

/// Why the parameters in a strategy name were rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// Not of the form `name~value`, or not text.
    #[error("strategy parameter `{0}` is not of the form name~value")]
    Form(String),
    /// The strategy has no such parameter.
    #[error("the strategy has no parameter `{0}`")]
    Unknown(String),
    /// Given twice.
    #[error("strategy parameter `{0}` is given twice")]
    Repeated(String),
    /// An invalid value, reported in NFD's words.
    #[error("{0}")]
    Refused(&'static str),
    /// An invalid value.
    #[error("strategy parameter {name} cannot be `{value}`: {reason}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// The given value.
        value: String,
        /// The expected value.
        reason: &'static str,
    },
}

/// Parameters that have not been read yet.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    pairs: Vec<(String, String)>,
    /// Names and defaults of the parameters read.
    read: Vec<(&'static str, String)>,
}

impl Parameters {
    /// Parses the components of `name`, the part after the version of a strategy name. If
    /// `last_counts`, a parameter may be given twice.
    pub(crate) fn parse(name: NameRef<'_>, last_counts: bool) -> Result<Self, ParameterError> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for component in name.components() {
            let text = String::from_utf8_lossy(component.value());
            match text.split_once('~') {
                Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                    if let Some(position) = pairs.iter().position(|(other, _)| other == key) {
                        if !last_counts {
                            return Err(ParameterError::Repeated(key.to_owned()));
                        }
                        pairs.remove(position);
                    }
                    pairs.push((key.to_owned(), value.to_owned()));
                }
                Some(_) | None => return Err(ParameterError::Form(text.into_owned())),
            }
        }
        Ok(Self { pairs, read: Vec::new() })
    }

    /// An integer, or the default.
    pub(crate) fn take_u64(
        &mut self,
        name: &'static str,
        default: u64,
    ) -> Result<u64, ParameterError> {
        self.take(name, default, "a whole number is expected")
    }

    /// Text, or the default.
    pub(crate) fn take_text(
        &mut self,
        name: &'static str,
        default: &str,
    ) -> Result<String, ParameterError> {
        self.take(name, default.to_owned(), "text is expected")
    }

    /// A number, or the default.
    pub(crate) fn take_f32(
        &mut self,
        name: &'static str,
        default: f32,
    ) -> Result<f32, ParameterError> {
        self.take(name, default, "a number is expected")
    }

    /// Names and defaults of the parameters that the strategy reads.
    pub(crate) fn into_read(self) -> Vec<(&'static str, String)> {
        self.read
    }

    fn take<T: std::str::FromStr + ToString>(
        &mut self,
        name: &'static str,
        default: T,
        reason: &'static str,
    ) -> Result<T, ParameterError> {
        self.read.push((name, default.to_string()));
        let Some(position) = self.pairs.iter().position(|(key, _)| key == name) else {
            return Ok(default);
        };
        let (_, value) = self.pairs.swap_remove(position);
        value.parse().map_err(|_| ParameterError::Value { name, value, reason })
    }

    /// Checks that every parameter was read.
    pub(crate) fn finish(mut self) -> Result<(), ParameterError> {
        match self.pairs.pop() {
            Some((name, _)) => Err(ParameterError::Unknown(name)),
            None => Ok(()),
        }
    }
}
