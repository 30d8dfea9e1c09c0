//! SignatureInfo of Data and of signed Interests, with the elements that certificates add
//! (packet specification, section "Signature"; NDN certificate format, version 2).

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

/// Where the verification key is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLocator<'a> {
    /// Name of the key, of a certificate, or a prefix of one.
    Name(NameRef<'a>),
    /// Digest of the key.
    Digest(&'a [u8]),
}

impl<'a> KeyLocator<'a> {
    /// `None` for a locator that is empty or holds only elements to be ignored.
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

/// Time span of a certificate, both ends included, as `YYYYMMDDThhmmss` in UTC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ValidityPeriod {
    /// First second.
    pub not_before: [u8; 15],
    /// Last second.
    pub not_after: [u8; 15],
}

impl ValidityPeriod {
    /// From seconds since 1970; `None` outside the years 0 to 9999.
    #[must_use]
    pub fn from_unix_seconds(not_before: i64, not_after: i64) -> Option<Self> {
        Some(Self { not_before: format_time(not_before)?, not_after: format_time(not_after)? })
    }

    /// First second, in seconds since 1970; `None` when the text is not a time.
    #[must_use]
    pub fn not_before_unix_s(&self) -> Option<i64> {
        parse_time(&self.not_before)
    }

    /// Last second, in seconds since 1970; `None` when the text is not a time.
    #[must_use]
    pub fn not_after_unix_s(&self) -> Option<i64> {
        parse_time(&self.not_after)
    }

    /// Whether `unix_s` lies in the period.
    #[must_use]
    pub fn contains(&self, unix_s: i64) -> bool {
        matches!(
            (self.not_before_unix_s(), self.not_after_unix_s()),
            (Some(first), Some(last)) if first <= unix_s && unix_s <= last
        )
    }

    fn parse(tlv: &Tlv<'_>) -> Result<Self, DecodeError> {
        const ORDER: [Field; 2] = [Field::once(types::NOT_BEFORE), Field::once(types::NOT_AFTER)];
        let (mut not_before, mut not_after) = (None, None);
        let mut fields = Fields::new(tlv.reader(), &ORDER);
        while let Some(inner) = fields.next_field()? {
            let text = *inner.array::<15>()?;
            if parse_time(&text).is_none() {
                return Err(inner.invalid_value());
            }
            if inner.ty() == types::NOT_BEFORE {
                not_before = Some(text)
            } else {
                not_after = Some(text)
            }
        }
        match (not_before, not_after) {
            (Some(not_before), Some(not_after)) => Ok(Self { not_before, not_after }),
            (None, _) => Err(tlv.missing(types::NOT_BEFORE)),
            (_, None) => Err(tlv.missing(types::NOT_AFTER)),
        }
    }

    const VALUE_LEN: usize = tlv_len(types::NOT_BEFORE, 15) + tlv_len(types::NOT_AFTER, 15);

    fn write(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.header(types::VALIDITY_PERIOD, Self::VALUE_LEN)?;
        writer.tlv(types::NOT_BEFORE, &self.not_before)?;
        writer.tlv(types::NOT_AFTER, &self.not_after)
    }
}

impl fmt::Display for ValidityPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.not_before.escape_ascii(), self.not_after.escape_ascii())
    }
}

impl fmt::Debug for ValidityPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Seconds since 1970 of `YYYYMMDDThhmmss`.
fn parse_time(text: &[u8; 15]) -> Option<i64> {
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0_i64, |n, byte| {
            byte.is_ascii_digit().then(|| n * 10 + i64::from(byte - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let valid = text[8] == b'T'
        && (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    valid.then(|| days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn format_time(unix_s: i64) -> Option<[u8; 15]> {
    let (days, second_of_day) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    let (year, month, day) = date_of(days);
    if !(0..=9999).contains(&year) {
        return None;
    }
    let text = format!(
        "{year:04}{month:02}{day:02}T{:02}{:02}{:02}",
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60
    );
    text.into_bytes().try_into().ok()
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the Gregorian calendar. Years are counted from March, so that the leap
/// day comes last and the day of the year follows from the month alone.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + day_of_year - 719_468
}

/// Year, month and day of a day counted from 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    // A guess from the mean year length is at most one year off.
    let mut year = 1970 + days.div_euclid(366);
    while days_since_1970(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut left = days - days_since_1970(year, 1, 1);
    let mut month = 1;
    while left >= days_in_month(year, month) {
        left -= days_in_month(year, month);
        month += 1;
    }
    (year, month, left + 1)
}

/// AdditionalDescription of a certificate: pairs of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdditionalDescription<'a> {
    /// The checked value of the element: DescriptionEntry elements.
    value: &'a [u8],
}

impl<'a> AdditionalDescription<'a> {
    const ENTRY: [Field; 2] =
        [Field::once(types::DESCRIPTION_KEY), Field::once(types::DESCRIPTION_VALUE)];

    fn parse(tlv: &Tlv<'a>) -> Result<Self, DecodeError> {
        let mut reader = tlv.reader();
        while let Some(entry) = reader.next_tlv()? {
            if entry.ty() == types::DESCRIPTION_ENTRY {
                Self::entry(&entry)?;
            } else {
                entry.skip_unrecognized()?;
            }
        }
        Ok(Self { value: tlv.value() })
    }

    fn entry(entry: &Tlv<'a>) -> Result<(&'a str, &'a str), DecodeError> {
        let (mut key, mut text) = (None, None);
        let mut fields = Fields::new(entry.reader(), &Self::ENTRY);
        while let Some(field) = fields.next_field()? {
            let target = if field.ty() == types::DESCRIPTION_KEY { &mut key } else { &mut text };
            *target = Some(field.text()?);
        }
        match (key, text) {
            (Some(key), Some(text)) => Ok((key, text)),
            (None, _) => Err(entry.missing(types::DESCRIPTION_KEY)),
            (_, None) => Err(entry.missing(types::DESCRIPTION_VALUE)),
        }
    }

    /// Writes pairs as the value of an AdditionalDescription, to be given to [`AdditionalDescription::new`].
    #[must_use]
    pub fn encode(pairs: &[(&str, &str)]) -> Vec<u8> {
        use crate::tlv::{append_nested, append_tlv};
        let mut value = Vec::new();
        for (key, text) in pairs {
            append_nested(&mut value, types::DESCRIPTION_ENTRY, |entry| {
                append_tlv(entry, types::DESCRIPTION_KEY, key.as_bytes());
                append_tlv(entry, types::DESCRIPTION_VALUE, text.as_bytes());
            });
        }
        value
    }

    /// From the value of an AdditionalDescription.
    ///
    /// # Errors
    /// When an entry is malformed.
    pub fn new(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        while let Some(entry) = reader.next_tlv()? {
            if entry.ty() == types::DESCRIPTION_ENTRY {
                Self::entry(&entry)?;
            } else {
                entry.skip_unrecognized()?;
            }
        }
        Ok(Self { value })
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut reader = Reader::new(self.value);
        core::iter::from_fn(move || {
            while let Ok(Some(entry)) = reader.next_tlv() {
                if entry.ty() == types::DESCRIPTION_ENTRY {
                    return Self::entry(&entry).ok();
                }
            }
            None
        })
    }
}

/// SignatureInfo or InterestSignatureInfo: read from a packet, or filled in to be written.
///
/// Elements that are unknown and not critical are skipped in reading, and so not written again.
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
        // Meant to be non-critical, whatever its number says; libraries treat it so.
        Field::once(types::VALIDITY_PERIOD).non_critical(),
        Field::once(types::ADDITIONAL_DESCRIPTION),
    ];

    /// Only a type.
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

    /// Reads the elements nested in `tlv`, whatever its own type.
    ///
    /// # Errors
    /// When SignatureType is absent, or an element breaks the rules.
    pub fn from_tlv(tlv: &Tlv<'a>) -> Result<Self, DecodeError> {
        Self::from_reader(tlv.reader())
    }

    /// Reads the value of a SignatureInfo or InterestSignatureInfo.
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
                    info.validity_period = Some(ValidityPeriod::parse(&field)?)
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
    /// format does not say which is right.
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
            .map(|description| tlv_len(types::ADDITIONAL_DESCRIPTION, description.value.len()));
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
            writer.tlv(types::ADDITIONAL_DESCRIPTION, description.value)?;
        }
        Ok(())
    }
}
