//! `ControlResponse`: the answer to a command (NFD wiki, `ControlCommand`).

use ndn_packet::DecodeError;
use ndn_packet::tlv::{self, Reader};

use crate::ControlParameters;
use crate::block::{self, OrderedFields};
use crate::numbers;

/// Status codes of NFD 24.07.
pub mod status {
    /// The command was carried out.
    pub const OK: u32 = 200;
    /// The parameters are malformed, incomplete or not for this command.
    pub const BAD_REQUEST: u32 = 400;
    /// The signer may not do this.
    pub const FORBIDDEN: u32 = 403;
    /// There is no such face or strategy.
    pub const NOT_FOUND: u32 = 404;
    /// The request is well-formed but this cannot be done here.
    pub const NOT_ACCEPTABLE: u32 = 406;
    /// It exists already, or the properties do not go together.
    pub const CONFLICT: u32 = 409;
    /// The face is gone (FIB commands).
    pub const GONE: u32 = 410;
    /// The prefix has too many components.
    pub const NAME_TOO_LONG: u32 = 414;
    /// Something failed inside the forwarder.
    pub const INTERNAL_ERROR: u32 = 500;
    /// The connection to the remote end failed.
    pub const CONNECT_FAILED: u32 = 504;
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlResponse {
    /// [`status`] code.
    pub code: u32,
    /// One line for people.
    pub text: String,
    /// One whole block (usually [`ControlParameters`]), or empty.
    pub body: Vec<u8>,
}

impl ControlResponse {
    /// A response without a body.
    #[must_use]
    pub fn new(code: u32, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), body: Vec::new() }
    }

    /// The same response with `parameters` as its body.
    #[must_use]
    pub fn with_body(mut self, parameters: &ControlParameters) -> Self {
        self.body = parameters.to_vec();
        self
    }

    /// Whether the command was carried out.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        self.code == status::OK
    }

    /// The body as [`ControlParameters`].
    ///
    /// # Errors
    /// If the body is absent or something else.
    pub fn parameters(&self) -> Result<ControlParameters, DecodeError> {
        ControlParameters::decode(&self.body)
    }

    /// The block on the wire: the Content of the answering Data.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::append_nested(&mut out, numbers::CONTROL_RESPONSE, |out| {
            tlv::append_number(out, numbers::STATUS_CODE, u64::from(self.code));
            block::append_text(out, numbers::STATUS_TEXT, &self.text);
            out.extend_from_slice(&self.body);
        });
        out
    }

    /// Decodes one block that fills `wire`. Text that is not UTF-8 is shown with replacement
    /// characters.
    ///
    /// # Errors
    /// If `wire` is not exactly one `ControlResponse` block with code and text in order.
    pub fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(wire).read_only(numbers::CONTROL_RESPONSE)?.reader();
        let mut fields = OrderedFields::new(reader);
        let code = fields.required(numbers::STATUS_CODE)?;
        let text = fields.required(numbers::STATUS_TEXT)?;
        let body = fields.next_tlv()?.map_or(&[][..], |tlv| tlv.wire());
        Ok(Self {
            code: u32::try_from(code.number()?).map_err(|_| code.invalid_value())?,
            text: String::from_utf8_lossy(text.value()).into_owned(),
            body: body.to_vec(),
        })
    }
}
