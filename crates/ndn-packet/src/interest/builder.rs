//! Interest encoder.

use crate::error::EncodeError;
use crate::name::NameRef;
use crate::signature::SignatureInfo;
use crate::span::{finish_packet, write_signature};
use crate::tlv::{Writer, header_len, number_tlv_len, tlv_len};
use crate::types;

const DIGEST_TLV_LEN: usize = 34;

/// Collects the elements of an Interest, then writes them.
#[derive(Clone, Copy, Debug)]
pub struct InterestBuilder<'a> {
    name: NameRef<'a>,
    can_be_prefix: bool,
    must_be_fresh: bool,
    forwarding_hint: &'a [NameRef<'a>],
    nonce: Option<u32>,
    lifetime_ms: Option<u64>,
    hop_limit: Option<u8>,
    parameters: Option<&'a [u8]>,
}

/// The value of the encoded Name: `before`, the digest component, `after`.
struct NameLayout<'a> {
    before: &'a [u8],
    with_digest: bool,
    after: &'a [u8],
}

impl NameLayout<'_> {
    const fn value_len(&self) -> usize {
        self.before.len() + if self.with_digest { DIGEST_TLV_LEN } else { 0 } + self.after.len()
    }

    /// Offset of the name's value from the start of the Name TLV.
    const fn value_offset(&self) -> usize {
        header_len(types::NAME, self.value_len())
    }
}

impl<'a> InterestBuilder<'a> {
    /// An Interest for `name` without optional elements.
    #[must_use]
    pub fn new(name: impl Into<NameRef<'a>>) -> Self {
        Self {
            name: name.into(),
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: &[],
            nonce: None,
            lifetime_ms: None,
            hop_limit: None,
            parameters: None,
        }
    }

    /// Sets CanBePrefix.
    #[must_use]
    pub const fn can_be_prefix(mut self, can_be_prefix: bool) -> Self {
        self.can_be_prefix = can_be_prefix;
        self
    }

    /// Sets MustBeFresh.
    #[must_use]
    pub const fn must_be_fresh(mut self, must_be_fresh: bool) -> Self {
        self.must_be_fresh = must_be_fresh;
        self
    }

    /// Sets ForwardingHint; nothing is written for an empty list.
    #[must_use]
    pub const fn forwarding_hint(mut self, names: &'a [NameRef<'a>]) -> Self {
        self.forwarding_hint = names;
        self
    }

    /// Sets Nonce.
    #[must_use]
    pub const fn nonce(mut self, nonce: u32) -> Self {
        self.nonce = Some(nonce);
        self
    }

    /// Sets InterestLifetime.
    #[must_use]
    pub const fn lifetime_ms(mut self, lifetime_ms: u64) -> Self {
        self.lifetime_ms = Some(lifetime_ms);
        self
    }

    /// Sets HopLimit.
    #[must_use]
    pub const fn hop_limit(mut self, hop_limit: u8) -> Self {
        self.hop_limit = Some(hop_limit);
        self
    }

    /// Sets ApplicationParameters. A ParametersSha256Digest is then written: in place of such a
    /// component if the name has one, otherwise after the last component.
    #[must_use]
    pub const fn parameters(mut self, parameters: &'a [u8]) -> Self {
        self.parameters = Some(parameters);
        self
    }

    fn plain_name(&self) -> NameLayout<'a> {
        NameLayout { before: self.name.value(), with_digest: false, after: &[] }
    }

    /// The digest replaces the digest component of the name, if there is one; otherwise it is
    /// appended.
    fn parameterized_name(&self) -> NameLayout<'a> {
        let index = self.name.parameters_digest().map_or(self.name.len(), |(index, _)| index);
        NameLayout {
            before: self.name.prefix(index).value(),
            with_digest: true,
            after: self.name.suffix(index + 1).value(),
        }
    }

    /// A name with one digest.
    fn checked_name(&self) -> Result<NameLayout<'a>, EncodeError> {
        let layout = self.parameterized_name();
        match self.name.parameters_digest() {
            Some((index, _)) if self.name.suffix(index + 1).parameters_digest().is_some() => {
                Err(EncodeError::InvalidField { ty: types::PARAMETERS_SHA256_DIGEST_COMPONENT })
            }
            Some(_) | None => Ok(layout),
        }
    }

    /// The name of a signed Interest ends with the digest.
    fn signed_name(&self) -> Result<NameLayout<'a>, EncodeError> {
        let layout = self.parameterized_name();
        if layout.after.is_empty() {
            return Ok(layout);
        }
        Err(EncodeError::InvalidField { ty: types::PARAMETERS_SHA256_DIGEST_COMPONENT })
    }

    /// Length of the elements up to HopLimit, including the name.
    fn front_len(&self, name: &NameLayout<'_>) -> usize {
        let hint = if self.forwarding_hint.is_empty() {
            0
        } else {
            tlv_len(
                types::FORWARDING_HINT,
                self.forwarding_hint.iter().map(NameRef::encoded_len).sum(),
            )
        };
        tlv_len(types::NAME, name.value_len())
            + if self.can_be_prefix { 2 } else { 0 }
            + if self.must_be_fresh { 2 } else { 0 }
            + hint
            + self.nonce.map_or(0, |_| 6)
            + self.lifetime_ms.map_or(0, |ms| number_tlv_len(types::INTEREST_LIFETIME, ms))
            + self.hop_limit.map_or(0, |_| 3)
    }

    fn write_front(
        &self,
        name: &NameLayout<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), EncodeError> {
        writer.header(types::NAME, name.value_len())?;
        writer.bytes(name.before)?;
        if name.with_digest {
            writer.tlv(types::PARAMETERS_SHA256_DIGEST_COMPONENT, &[0; 32])?;
        }
        writer.bytes(name.after)?;
        if self.can_be_prefix {
            writer.tlv(types::CAN_BE_PREFIX, &[])?;
        }
        if self.must_be_fresh {
            writer.tlv(types::MUST_BE_FRESH, &[])?;
        }
        if !self.forwarding_hint.is_empty() {
            let len = self.forwarding_hint.iter().map(NameRef::encoded_len).sum();
            writer.header(types::FORWARDING_HINT, len)?;
            self.forwarding_hint.iter().try_for_each(|name| writer.name(*name))?;
        }
        if let Some(nonce) = self.nonce {
            writer.tlv(types::NONCE, &nonce.to_be_bytes())?;
        }
        if let Some(lifetime_ms) = self.lifetime_ms {
            writer.number(types::INTEREST_LIFETIME, lifetime_ms)?;
        }
        if let Some(hop_limit) = self.hop_limit {
            writer.tlv(types::HOP_LIMIT, &[hop_limit])?;
        }
        Ok(())
    }

    /// Length of what [`InterestBuilder::write`] or [`InterestBuilder::write_with_parameters`] writes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let value_len = match self.parameters {
            None => self.front_len(&self.plain_name()),
            Some(parameters) => {
                self.front_len(&self.parameterized_name())
                    + tlv_len(types::APPLICATION_PARAMETERS, parameters.len())
            }
        };
        tlv_len(types::INTEREST, value_len)
    }

    /// Upper bound of the length that [`InterestBuilder::write_signed`] writes.
    #[must_use]
    pub fn encoded_len_signed(&self, info: &SignatureInfo<'_>, signature_len_max: usize) -> usize {
        let front = self.front_len(&self.parameterized_name());
        let parameters =
            tlv_len(types::APPLICATION_PARAMETERS, self.parameters.map_or(0, <[u8]>::len));
        let signature = info.encoded_len(types::INTEREST_SIGNATURE_INFO)
            + tlv_len(types::INTEREST_SIGNATURE_VALUE, signature_len_max);
        tlv_len(types::INTEREST, front + parameters + signature)
    }

    /// Writes an Interest without ApplicationParameters and returns its length.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`]; [`EncodeError::InvalidField`] for an empty name, or if
    /// parameters are set, which require a digest.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        if self.name.is_empty() {
            return Err(EncodeError::InvalidField { ty: types::NAME });
        }
        if self.parameters.is_some() {
            return Err(EncodeError::InvalidField { ty: types::APPLICATION_PARAMETERS });
        }
        let name = self.plain_name();
        let mut writer = Writer::new(out);
        writer.header(types::INTEREST, self.front_len(&name))?;
        self.write_front(&name, &mut writer)?;
        Ok(writer.len())
    }

    /// Writes an Interest, with ApplicationParameters if set, and returns its length.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`]; [`EncodeError::InvalidField`] for an empty name without
    /// parameters, or a name with several parameters digests.
    pub fn write_with_parameters(
        &self,
        out: &mut [u8],
        sha256: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<usize, EncodeError> {
        let Some(parameters) = self.parameters else {
            return self.write(out);
        };
        let name = self.checked_name()?;
        let front_len = self.front_len(&name);
        let value_len = front_len + tlv_len(types::APPLICATION_PARAMETERS, parameters.len());
        let mut writer = Writer::new(out);
        writer.header(types::INTEREST, value_len)?;
        let value_start = writer.len();
        self.write_front(&name, &mut writer)?;
        writer.tlv(types::APPLICATION_PARAMETERS, parameters)?;
        let end = writer.len();
        write_digest(&mut out[..end], value_start, value_start + front_len, &name, sha256);
        Ok(end)
    }

    /// Writes a signed Interest and returns its length. ApplicationParameters is written empty if not set.
    ///
    /// `sign` receives the signed portion in slices, and a buffer of `signature_len_max` bytes; it
    /// returns the length of the signature written there, or `None` if signing fails.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`] if `out` is shorter than [`InterestBuilder::encoded_len_signed`];
    /// [`EncodeError::InvalidField`] when the name has a parameters digest that is not its last
    /// component; [`EncodeError::SigningFailed`].
    pub fn write_signed(
        &self,
        out: &mut [u8],
        info: &SignatureInfo<'_>,
        signature_len_max: usize,
        sign: impl FnOnce(&[&[u8]], &mut [u8]) -> Option<usize>,
        sha256: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<usize, EncodeError> {
        let name = self.signed_name()?;
        let total_max = self.encoded_len_signed(info, signature_len_max);
        let out = out.get_mut(..total_max).ok_or(EncodeError::BufferTooSmall)?;
        let front_len = self.front_len(&name);
        let parameters = self.parameters.unwrap_or_default();
        let value_len_max = front_len
            + tlv_len(types::APPLICATION_PARAMETERS, parameters.len())
            + info.encoded_len(types::INTEREST_SIGNATURE_INFO)
            + tlv_len(types::INTEREST_SIGNATURE_VALUE, signature_len_max);
        let value_start = header_len(types::INTEREST, value_len_max);
        let mut writer = Writer::new(&mut out[value_start..]);
        self.write_front(&name, &mut writer)?;
        writer.tlv(types::APPLICATION_PARAMETERS, parameters)?;
        info.write(types::INTEREST_SIGNATURE_INFO, &mut writer)?;
        let signature_start = value_start + writer.len();

        let parameters_start = value_start + front_len;
        let end = write_signature(
            out,
            types::INTEREST_SIGNATURE_VALUE,
            signature_start,
            signature_len_max,
            |packet, signature| sign(&[name.before, &packet[parameters_start..]], signature),
        )?;
        write_digest(&mut out[..end], value_start, parameters_start, &name, sha256);
        finish_packet(out, types::INTEREST, value_start, end)
    }

    /// [`InterestBuilder::write`] into a new vector.
    ///
    /// # Errors
    /// As [`InterestBuilder::write`].
    pub fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = vec![0; self.encoded_len()];
        let len = self.write(&mut out)?;
        out.truncate(len);
        Ok(out)
    }

    /// [`InterestBuilder::write_with_parameters`] into a new vector.
    ///
    /// # Errors
    /// As [`InterestBuilder::write_with_parameters`].
    pub fn to_vec_with_parameters(
        &self,
        sha256: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<Vec<u8>, EncodeError> {
        let mut out = vec![0; self.encoded_len()];
        let len = self.write_with_parameters(&mut out, sha256)?;
        out.truncate(len);
        Ok(out)
    }

    /// [`InterestBuilder::write_signed`] into a new vector.
    ///
    /// # Errors
    /// As [`InterestBuilder::write_signed`].
    pub fn to_vec_signed(
        &self,
        info: &SignatureInfo<'_>,
        signature_len_max: usize,
        sign: impl FnOnce(&[&[u8]], &mut [u8]) -> Option<usize>,
        sha256: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<Vec<u8>, EncodeError> {
        let mut out = vec![0; self.encoded_len_signed(info, signature_len_max)];
        let len = self.write_signed(&mut out, info, signature_len_max, sign, sha256)?;
        out.truncate(len);
        Ok(out)
    }
}

/// Computes the digest over `packet[parameters_start..]` and writes it into the name, the first
/// element of the value.
fn write_digest(
    packet: &mut [u8],
    value_start: usize,
    parameters_start: usize,
    name: &NameLayout<'_>,
    sha256: impl FnOnce(&[u8]) -> [u8; 32],
) {
    let digest = sha256(&packet[parameters_start..]);
    let start = value_start + name.value_offset() + name.before.len() + 2;
    packet[start..start + 32].copy_from_slice(&digest);
}
