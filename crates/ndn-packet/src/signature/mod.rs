//! SignatureInfo of Data and of signed Interests, with the elements that certificates add
//! (packet specification, section "Signature"; NDN certificate format, version 2).

mod description;
#[cfg(test)]
mod tests;
mod validity;

pub use description::AdditionalDescription;
pub use validity::ValidityPeriod;

use crate::error::{DecodeError, EncodeError, saturate};
use crate::name::NameRef;
use crate::tlv::{Field, Fields, Reader, Tlv, Writer, number_tlv_len, tlv_len};
use crate::types;
use core::fmt;

/// The algorithm of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignatureType(pub u64);

impl SignatureType {
    /// SHA-256 digest: integrity only.
    pub const DIGEST_SHA256: Self = Self(0);
    /// RSA PKCS#1 v1.5 with SHA-256.
    pub const SHA256_WITH_RSA: Self = Self(1);
    /// ECDSA with SHA-256.
    pub const SHA256_WITH_ECDSA: Self = Self(3);
    /// HMAC with SHA-256.
    pub const HMAC_WITH_SHA256: Self = Self(4);
    /// Ed25519.
    pub const ED25519: Self = Self(5);
    /// No signature, empty value.
    pub const NULL: Self = Self(200);
}

impl fmt::Display for SignatureType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::DIGEST_SHA256 => "DigestSha256",
            Self::SHA256_WITH_RSA => "SignatureSha256WithRsa",
            Self::SHA256_WITH_ECDSA => "SignatureSha256WithEcdsa",
            Self::HMAC_WITH_SHA256 => "SignatureHmacWithSha256",
            Self::ED25519 => "SignatureEd25519",
            Self::NULL => "NullSignature",
            Self(other) => return write!(f, "SignatureType {other}"),
        })
    }
}

/// KeyLocator: identifies the verification key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLocator<'a> {
    /// Name of the key, of a certificate, or a prefix of one.
    Name(NameRef<'a>),
    /// Digest of the key.
    Digest(&'a [u8]),
}

impl<'a> KeyLocator<'a> {
    /// `None` for a locator that is empty or contains only ignored elements.
    fn parse(tlv: &Tlv<'a>) -> Result<Option<Self>, DecodeError> {
        let mut reader = tlv.reader();
        let mut locator = None;
        while let Some(inner) = reader.next_tlv()? {
            match inner.ty() {
                types::NAME | types::KEY_DIGEST if locator.is_some() => {
                    return Err(inner.out_of_order());
                }
                types::NAME => locator = Some(Self::Name(NameRef::from_tlv(&inner)?)),
                types::KEY_DIGEST => locator = Some(Self::Digest(inner.value())),
                _ => inner.skip_unrecognized()?,
            }
        }
        Ok(locator)
    }

    fn value_len(&self) -> usize {
        match self {
            Self::Name(name) => name.encoded_len(),
            Self::Digest(digest) => tlv_len(types::KEY_DIGEST, digest.len()),
        }
    }

    fn write(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.header(types::KEY_LOCATOR, self.value_len())?;
        match self {
            Self::Name(name) => writer.name(*name),
            Self::Digest(digest) => writer.tlv(types::KEY_DIGEST, digest),
        }
    }
}

/// SignatureInfo or InterestSignatureInfo: parsed from a packet, or built to be written.
///
/// Unknown non-critical elements are skipped by the parser, and so not written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureInfo<'a> {
    /// SignatureType.
    pub signature_type: SignatureType,
    /// KeyLocator.
    pub key_locator: Option<KeyLocator<'a>>,
    /// SignatureNonce, at least one byte.
    pub nonce: Option<&'a [u8]>,
    /// SignatureTime in milliseconds since 1970.
    pub time_ms: Option<u64>,
    /// SignatureSeqNum.
    pub sequence_num: Option<u64>,
    /// ValidityPeriod of a certificate.
    pub validity_period: Option<ValidityPeriod>,
    /// AdditionalDescription of a certificate.
    pub additional_description: Option<AdditionalDescription<'a>>,
}

impl<'a> SignatureInfo<'a> {
    const ORDER: [Field; 7] = [
        Field::once(types::SIGNATURE_TYPE),
        Field::once(types::KEY_LOCATOR),
        Field::once(types::SIGNATURE_NONCE),
        Field::once(types::SIGNATURE_TIME),
        Field::once(types::SIGNATURE_SEQ_NUM),
        // Treated as non-critical, whatever its type number; libraries do the same.
        Field::once(types::VALIDITY_PERIOD).non_critical(),
        Field::once(types::ADDITIONAL_DESCRIPTION),
    ];

    /// A SignatureInfo with only a type.
    #[must_use]
    pub const fn new(signature_type: SignatureType) -> Self {
        Self {
            signature_type,
            key_locator: None,
            nonce: None,
            time_ms: None,
            sequence_num: None,
            validity_period: None,
            additional_description: None,
        }
    }

    /// Parses the elements nested in `tlv`, of any type.
    ///
    /// # Errors
    /// When SignatureType is absent, or an element is invalid.
    pub fn from_tlv(tlv: &Tlv<'a>) -> Result<Self, DecodeError> {
        Self::from_reader(tlv.reader())
    }

    /// Parses the value of a SignatureInfo or InterestSignatureInfo.
    ///
    /// # Errors
    /// As [`SignatureInfo::from_tlv`]; offsets count from the start of `value`.
    pub fn from_value(value: &'a [u8]) -> Result<Self, DecodeError> {
        Self::from_reader(Reader::new(value))
    }

    pub(crate) fn from_reader(reader: Reader<'a>) -> Result<Self, DecodeError> {
        let mut info = Self::new(SignatureType::NULL);
        let mut has_type = false;
        let mut order = Self::ORDER;
        if Self::description_comes_first(&reader) {
            order.swap(5, 6);
        }
        let mut fields = Fields::new(reader, &order);
        while let Some(field) = fields.next_field()? {
            match field.ty() {
                types::SIGNATURE_TYPE => {
                    info.signature_type = SignatureType(field.number()?);
                    has_type = true;
                }
                types::KEY_LOCATOR => info.key_locator = KeyLocator::parse(&field)?,
                types::SIGNATURE_NONCE if field.value_len() == 0 => {
                    return Err(field.invalid_length());
                }
                types::SIGNATURE_NONCE => info.nonce = Some(field.value()),
                types::SIGNATURE_TIME => info.time_ms = Some(field.number()?),
                types::SIGNATURE_SEQ_NUM => info.sequence_num = Some(field.number()?),
                types::VALIDITY_PERIOD => {
                    info.validity_period = Some(ValidityPeriod::from_tlv(&field)?)
                }
                _ => info.additional_description = Some(AdditionalDescription::parse(&field)?),
            }
        }
        if has_type {
            return Ok(info);
        }
        Err(DecodeError::Missing { ty: types::SIGNATURE_TYPE, offset: saturate(fields.offset()) })
    }

    /// ndn-cxx writes AdditionalDescription before ValidityPeriod, others after it; the certificate
    /// format does not specify the order.
    fn description_comes_first(reader: &Reader<'a>) -> bool {
        let mut reader = *reader;
        while let Ok(Some(tlv)) = reader.next_tlv() {
            match tlv.ty() {
                types::ADDITIONAL_DESCRIPTION => return true,
                types::VALIDITY_PERIOD => return false,
                _ => {}
            }
        }
        false
    }

    fn value_len(&self) -> usize {
        let locator =
            self.key_locator.map(|locator| tlv_len(types::KEY_LOCATOR, locator.value_len()));
        let nonce = self.nonce.map(|nonce| tlv_len(types::SIGNATURE_NONCE, nonce.len()));
        let time = self.time_ms.map(|time| number_tlv_len(types::SIGNATURE_TIME, time));
        let sequence = self.sequence_num.map(|n| number_tlv_len(types::SIGNATURE_SEQ_NUM, n));
        let validity = self
            .validity_period
            .map(|_| tlv_len(types::VALIDITY_PERIOD, ValidityPeriod::VALUE_LEN));
        let description = self
            .additional_description
            .map(|description| tlv_len(types::ADDITIONAL_DESCRIPTION, description.value().len()));
        number_tlv_len(types::SIGNATURE_TYPE, self.signature_type.0)
            + [locator, nonce, time, sequence, validity, description]
                .into_iter()
                .flatten()
                .sum::<usize>()
    }

    /// Length of the element in bytes, with `ty` (SignatureInfo or InterestSignatureInfo) as its type.
    #[must_use]
    pub fn encoded_len(&self, ty: u32) -> usize {
        tlv_len(ty, self.value_len())
    }

    /// Writes the element with `ty` as its type.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`]; [`EncodeError::InvalidField`] for an empty nonce.
    pub fn write(&self, ty: u32, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.header(ty, self.value_len())?;
        writer.number(types::SIGNATURE_TYPE, self.signature_type.0)?;
        if let Some(locator) = &self.key_locator {
            locator.write(writer)?;
        }
        if let Some(nonce) = self.nonce {
            if nonce.is_empty() {
                return Err(EncodeError::InvalidField { ty: types::SIGNATURE_NONCE });
            }
            writer.tlv(types::SIGNATURE_NONCE, nonce)?;
        }
        if let Some(time_ms) = self.time_ms {
            writer.number(types::SIGNATURE_TIME, time_ms)?;
        }
        if let Some(sequence_num) = self.sequence_num {
            writer.number(types::SIGNATURE_SEQ_NUM, sequence_num)?;
        }
        if let Some(validity_period) = &self.validity_period {
            validity_period.write(writer)?;
        }
        if let Some(description) = &self.additional_description {
            writer.tlv(types::ADDITIONAL_DESCRIPTION, description.value())?;
        }
        Ok(())
    }
}
