//! Messages of the exchange of counts (docs/reference/vip-protocol.md).

use ndn_packet::tlv::{
    DecodeError, Field, Fields, Reader, append_name, append_nested, append_number, number_tlv_len,
    tlv_len,
};
use ndn_packet::{Name, NameRef};
use thiserror::Error;

use crate::plane::Amount;

/// Version of the protocol, also the last component of [`prefix`].
pub const VERSION: u64 = 1;
/// Maximum length of a report, in bytes.
pub const REPORT_LEN_MAX: usize = 4096;
/// Maximum length of the name of an object, in bytes of its components.
pub const OBJECT_NAME_LEN_MAX: usize = 512;

/// TLV-TYPE numbers, of the range for applications. All are critical.
mod numbers {
    pub(crate) const REPORT: u32 = 129;
    pub(crate) const ACKNOWLEDGEMENT: u32 = 131;
    pub(crate) const VERSION: u32 = 133;
    pub(crate) const SESSION: u32 = 135;
    pub(crate) const SEQUENCE: u32 = 137;
    pub(crate) const SLOT_DURATION: u32 = 139;
    pub(crate) const ENTRY: u32 = 141;
    pub(crate) const OBJECT_SIZE: u32 = 143;
    pub(crate) const COUNT: u32 = 145;
    pub(crate) const SENT: u32 = 147;
}
const NAME: u32 = ndn_packet::types::NAME;

/// Prefix of the Interests that carry reports: `/localhop/vip/v=1`.
#[must_use]
pub fn prefix() -> Name {
    let mut name = Name::new();
    name.push_generic("localhop").push_generic("vip").push_version(VERSION);
    name
}

/// The reason why a message was not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Longer than [`REPORT_LEN_MAX`].
    #[error("the report has {0} bytes, more than {REPORT_LEN_MAX}")]
    TooLong(usize),
    /// Malformed.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// Another version.
    #[error("version {0} of the exchange is not supported")]
    Version(u64),
}

/// The state of an object at the sender of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the object: that of its Data without the segment.
    pub name: Name,
    /// Size, in bytes.
    pub size_bytes: u64,
    /// `V` of the object, in millionths of a request.
    pub count: Amount,
    /// VIPs that leave for the receiver with this report, in millionths of a request.
    pub sent: Amount,
}

impl Entry {
    fn value_len(&self) -> usize {
        tlv_len(NAME, self.name.value().len())
            + number_tlv_len(numbers::OBJECT_SIZE, self.size_bytes)
            + number_tlv_len(numbers::COUNT, self.count)
            + number_tlv_len(numbers::SENT, self.sent)
    }

    /// Encoded length, in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        tlv_len(numbers::ENTRY, self.value_len())
    }

    fn append(&self, out: &mut Vec<u8>) {
        append_nested(out, numbers::ENTRY, |out| {
            append_name(out, self.name.as_ref());
            append_number(out, numbers::OBJECT_SIZE, self.size_bytes);
            append_number(out, numbers::COUNT, self.count);
            append_number(out, numbers::SENT, self.sent);
        });
    }

    fn read(reader: Reader<'_>) -> Result<Self, DecodeError> {
        const FIELDS: [Field; 4] = [
            Field::once(NAME),
            Field::once(numbers::OBJECT_SIZE),
            Field::once(numbers::COUNT),
            Field::once(numbers::SENT),
        ];
        let mut fields = Fields::new(reader, &FIELDS);
        let (mut name, mut size, mut count, mut sent) = (None, None, None, None);
        while let Some(tlv) = fields.next_field()? {
            match tlv.ty() {
                NAME => {
                    if tlv.value_len() > OBJECT_NAME_LEN_MAX {
                        return Err(tlv.invalid_length());
                    }
                    name = Some(NameRef::from_tlv(&tlv)?.to_name());
                }
                numbers::OBJECT_SIZE => size = Some(tlv.number()?),
                numbers::COUNT => count = Some(tlv.number()?),
                _ => sent = Some(tlv.number()?),
            }
        }
        let missing = |ty| missing(ty, fields.offset());
        Ok(Self {
            name: name.ok_or_else(|| missing(NAME))?,
            size_bytes: size.ok_or_else(|| missing(numbers::OBJECT_SIZE))?,
            count: count.ok_or_else(|| missing(numbers::COUNT))?,
            sent: sent.ok_or_else(|| missing(numbers::SENT))?,
        })
    }
}

/// Counts that have changed, and VIPs. It is the ApplicationParameters of a signed Interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Number of the series of reports that this one belongs to; a later series has a larger one.
    pub session: u64,
    /// Number in the series, from 1. The first report has no entries.
    pub sequence: u64,
    /// Duration of the sender's slots, in milliseconds.
    pub slot_ms: u64,
    /// Entries, of different objects.
    pub entries: Vec<Entry>,
}

impl Report {
    /// Length of a report without entries, at most, in bytes.
    pub const HEADER_LEN_MAX: usize = 3 + 2 + 4 * 10;

    /// The encoded report.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        append_nested(&mut out, numbers::REPORT, |out| {
            append_number(out, numbers::VERSION, VERSION);
            append_number(out, numbers::SESSION, self.session);
            append_number(out, numbers::SEQUENCE, self.sequence);
            append_number(out, numbers::SLOT_DURATION, self.slot_ms);
            self.entries.iter().for_each(|entry| entry.append(out));
        });
        out
    }

    /// Decodes a report.
    ///
    /// # Errors
    /// See [`MessageError`].
    pub fn parse(wire: &[u8]) -> Result<Self, MessageError> {
        const FIELDS: [Field; 4] = [
            Field::once(numbers::SESSION),
            Field::once(numbers::SEQUENCE),
            Field::once(numbers::SLOT_DURATION),
            Field::repeated(numbers::ENTRY),
        ];
        if wire.len() > REPORT_LEN_MAX {
            return Err(MessageError::TooLong(wire.len()));
        }
        let mut reader = Reader::new(wire).read_only(numbers::REPORT)?.reader();
        read_version(&mut reader)?;
        let mut fields = Fields::new(reader, &FIELDS);
        let (mut session, mut sequence, mut slot_ms) = (None, None, None);
        let mut entries = Vec::new();
        while let Some(tlv) = fields.next_field()? {
            match tlv.ty() {
                numbers::SESSION => session = Some(tlv.number()?),
                numbers::SEQUENCE => sequence = Some(tlv.number()?),
                numbers::SLOT_DURATION => slot_ms = Some(tlv.number()?),
                _ => entries.push(Entry::read(tlv.reader())?),
            }
        }
        let missing = |ty| missing(ty, fields.offset());
        Ok(Self {
            session: session.ok_or_else(|| missing(numbers::SESSION))?,
            sequence: sequence.ok_or_else(|| missing(numbers::SEQUENCE))?,
            slot_ms: slot_ms.ok_or_else(|| missing(numbers::SLOT_DURATION))?,
            entries,
        })
    }
}

/// The answer to a report: the Content of the Data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Session of the report.
    pub session: u64,
    /// Number of the last accepted report of this session; 0 if the session is unknown.
    pub sequence: u64,
}

impl Acknowledgement {
    /// The encoded acknowledgement.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        append_nested(&mut out, numbers::ACKNOWLEDGEMENT, |out| {
            append_number(out, numbers::VERSION, VERSION);
            append_number(out, numbers::SESSION, self.session);
            append_number(out, numbers::SEQUENCE, self.sequence);
        });
        out
    }

    /// Decodes an acknowledgement.
    ///
    /// # Errors
    /// See [`MessageError`].
    pub fn parse(wire: &[u8]) -> Result<Self, MessageError> {
        const FIELDS: [Field; 2] = [Field::once(numbers::SESSION), Field::once(numbers::SEQUENCE)];
        let mut reader = Reader::new(wire).read_only(numbers::ACKNOWLEDGEMENT)?.reader();
        read_version(&mut reader)?;
        let mut fields = Fields::new(reader, &FIELDS);
        let (mut session, mut sequence) = (None, None);
        while let Some(tlv) = fields.next_field()? {
            match tlv.ty() {
                numbers::SESSION => session = Some(tlv.number()?),
                _ => sequence = Some(tlv.number()?),
            }
        }
        let missing = |ty| missing(ty, fields.offset());
        Ok(Self {
            session: session.ok_or_else(|| missing(numbers::SESSION))?,
            sequence: sequence.ok_or_else(|| missing(numbers::SEQUENCE))?,
        })
    }
}

/// Reads the first field of a message.
fn read_version(reader: &mut Reader<'_>) -> Result<(), MessageError> {
    match reader.read_expected(numbers::VERSION)?.number()? {
        VERSION => Ok(()),
        other => Err(MessageError::Version(other)),
    }
}

fn missing(ty: u32, offset: usize) -> DecodeError {
    DecodeError::Missing { ty, offset: u32::try_from(offset).unwrap_or(u32::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        Name::from_uri(uri).unwrap()
    }

    fn report() -> Report {
        let entry =
            |uri: &str, count| Entry { name: name(uri), size_bytes: 1 << 30, count, sent: 7 };
        let entries = vec![entry("/a/v=1", 1_000_000), entry("/b", u64::MAX)];
        Report { session: 1 << 50, sequence: 3, slot_ms: 1000, entries }
    }

    #[test]
    fn messages_survive_encoding() {
        let report = report();
        let wire = report.to_vec();
        assert_eq!(Report::parse(&wire), Ok(report.clone()));
        let entries: usize = report.entries.iter().map(Entry::encoded_len).sum();
        assert!(wire.len() <= Report::HEADER_LEN_MAX + entries);
        let empty = Report {
            entries: Vec::new(),
            session: u64::MAX,
            sequence: u64::MAX,
            slot_ms: u64::MAX,
        };
        assert!(empty.to_vec().len() <= Report::HEADER_LEN_MAX);
        let acknowledgement = Acknowledgement { session: 9, sequence: 300 };
        assert_eq!(Acknowledgement::parse(&acknowledgement.to_vec()), Ok(acknowledgement));
    }

    #[test]
    fn other_versions_and_cut_off_messages_are_refused() {
        let wire = report().to_vec();
        for len in 0..wire.len() {
            assert!(Report::parse(&wire[..len]).is_err(), "{len}");
        }
        let mut other = wire;
        // Report, its length, Version, its length.
        assert_eq!((other[0], other[2], other[4]), (129, 133, 1));
        other[4] = 2;
        assert_eq!(Report::parse(&other), Err(MessageError::Version(2)));
        let long = vec![0; REPORT_LEN_MAX + 1];
        assert_eq!(Report::parse(&long), Err(MessageError::TooLong(REPORT_LEN_MAX + 1)));
    }

    #[test]
    fn long_name_of_an_object_is_refused() {
        let mut report = report();
        report.entries[0].name = name("/");
        report.entries[0].name.push_generic(vec![b'x'; OBJECT_NAME_LEN_MAX]);
        assert!(matches!(Report::parse(&report.to_vec()), Err(MessageError::Malformed(_))));
    }
}
