//! The few packets that the relay bench sends, written and read by hand.
//!
//! The generator shares one core with both ends of every exchange, so it must cost much less than
//! the forwarder under test: names have a fixed shape, and only the bytes that change are written.
//! Shape of a name: `/relay/<face, 4>/<sequence, 8>[/<filler, 1..=32>]/<slot, 4>`, all Generic.

/// Largest Interest that [`write_interest`] makes, in bytes.
pub(super) const INTEREST_LENGTH_MAX: usize = 128;

const TYPE_INTEREST: u8 = 0x05;
const TYPE_DATA: u8 = 0x06;
const TYPE_NAME: u8 = 0x07;
const TYPE_GENERIC: u8 = 0x08;
const TYPE_LP_PACKET: u8 = 0x64;
const TYPE_LP_FRAGMENT: u64 = 0x50;
const TYPE_LP_PIT_TOKEN: u64 = 0x62;
const TYPE_LP_NACK: u64 = 0x0320;

/// Result of parsing a frame from the forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceivedPacket<'a> {
    /// An Interest: its name TLV and the PIT token to echo.
    Interest { name: &'a [u8], pit_token: &'a [u8] },
    /// A Data: the slot and sequence its name carries.
    Data { slot: u32, sequence: u64 },
    /// A Nack for an Interest with this slot and sequence.
    Nack { slot: u32, sequence: u64 },
    /// Anything else.
    Other,
}

/// The first component of every name of the bench.
pub(crate) const PREFIX: &[u8] = b"relay";

fn component(out: &mut [u8], at: usize, value: &[u8]) -> usize {
    out[at] = TYPE_GENERIC;
    out[at + 1] = length_byte(value.len());
    out[at + 2..at + 2 + value.len()].copy_from_slice(value);
    at + 2 + value.len()
}

fn length_byte(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}

/// Writes an Interest into `out` (at least [`INTEREST_LENGTH_MAX`] bytes); returns its length.
pub(super) fn write_interest(
    out: &mut [u8],
    face: u32,
    slot: u32,
    sequence: u64,
    mixed: bool,
) -> usize {
    let mut at = component(out, 4, PREFIX);
    at = component(out, at, &face.to_be_bytes());
    at = component(out, at, &sequence.to_be_bytes());
    if mixed {
        let filler = [b'x'; 32];
        let length = usize::try_from(sequence % 32).unwrap_or(0) + 1;
        at = component(out, at, &filler[..length]);
    }
    at = component(out, at, &slot.to_be_bytes());
    out[2] = TYPE_NAME;
    out[3] = length_byte(at - 4);
    let [.., n0, n1, n2, n3] = sequence.to_be_bytes();
    out[at..at + 6].copy_from_slice(&[0x0A, 4, n0, n1, n2, n3]);
    out[at + 6..at + 10].copy_from_slice(&[0x0C, 2, 0x0F, 0xA0]);
    at += 10;
    out[0] = TYPE_INTEREST;
    out[1] = length_byte(at - 2);
    at
}

/// Appends the Data that answers `name` (a whole Name TLV) with `payload_length` bytes of content.
pub(super) fn write_data(out: &mut Vec<u8>, name: &[u8], pit_token: &[u8], payload: &[u8]) {
    let content_header = if payload.len() < 253 { 2 } else { 4 };
    let inner = name.len() + content_header + payload.len() + 5 + 34;
    if !pit_token.is_empty() {
        let data_length = inner + if inner < 253 { 2 } else { 4 };
        let fragment_header = if data_length < 253 { 2 } else { 4 };
        push_header(out, TYPE_LP_PACKET, 2 + pit_token.len() + fragment_header + data_length);
        push_header(out, 0x62, pit_token.len());
        out.extend_from_slice(pit_token);
        push_header(out, 0x50, data_length);
    }
    push_header(out, TYPE_DATA, inner);
    out.extend_from_slice(name);
    push_header(out, 0x15, payload.len());
    out.extend_from_slice(payload);
    out.extend_from_slice(&[0x16, 3, 0x1B, 1, 0, 0x17, 32]);
    out.extend_from_slice(&[0; 32]);
}

/// Mean length of the Data that answer the Interests of [`write_interest`], in bytes.
pub(super) fn data_length(payload_length: usize, mixed: bool) -> u64 {
    let mut interest = [0; INTEREST_LENGTH_MAX];
    let sequences = if mixed { 32 } else { 1 };
    let payload = vec![0; payload_length];
    let lengths = (0..sequences).map(|sequence| {
        write_interest(&mut interest, 0, 0, sequence, mixed);
        let mut data = Vec::new();
        if let ReceivedPacket::Interest { name, .. } = read_frame(&interest) {
            write_data(&mut data, name, &[], &payload);
        }
        data.len() as u64
    });
    lengths.sum::<u64>() / sequences
}

fn push_header(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    match u16::try_from(length) {
        Ok(length) if length < 253 => out.push(length.to_be_bytes()[1]),
        Ok(length) => {
            out.push(0xFD);
            out.extend_from_slice(&length.to_be_bytes());
        }
        Err(_) => out.push(0),
    }
}

fn var_number(bytes: &[u8]) -> Option<(u64, usize)> {
    match *bytes.first()? {
        short @ 0..=252 => Some((u64::from(short), 1)),
        0xFD => Some((u64::from(u16::from_be_bytes([*bytes.get(1)?, *bytes.get(2)?])), 3)),
        0xFE => Some((u64::from(u32::from_be_bytes(bytes.get(1..5)?.try_into().ok()?)), 5)),
        _ => None,
    }
}

/// Splits one TLV off `bytes`: its type, its value and its whole length; none when incomplete.
pub(super) fn split_tlv(bytes: &[u8]) -> Option<(u64, &[u8], usize)> {
    let (kind, kind_length) = var_number(bytes)?;
    let (length, length_length) = var_number(&bytes[kind_length..])?;
    let start = kind_length + length_length;
    let end = start + usize::try_from(length).ok()?;
    Some((kind, bytes.get(start..end)?, end))
}

/// Reads one whole TLV received from the forwarder.
pub(super) fn read_frame(tlv: &[u8]) -> ReceivedPacket<'_> {
    if tlv.first() != Some(&TYPE_LP_PACKET) {
        return read_network(tlv, &[], false);
    }
    let Some((_, mut fields, _)) = split_tlv(tlv) else { return ReceivedPacket::Other };
    let (mut token, mut nack): (&[u8], bool) = (&[], false);
    while let Some((kind, value, length)) = split_tlv(fields) {
        match kind {
            TYPE_LP_PIT_TOKEN => token = value,
            TYPE_LP_NACK => nack = true,
            TYPE_LP_FRAGMENT => return read_network(value, token, nack),
            _ => {}
        }
        fields = &fields[length..];
    }
    ReceivedPacket::Other
}

fn read_network<'a>(tlv: &'a [u8], pit_token: &'a [u8], nack: bool) -> ReceivedPacket<'a> {
    let Some((kind, inner, _)) = split_tlv(tlv) else { return ReceivedPacket::Other };
    let Some((name_kind, name, name_length)) = split_tlv(inner) else {
        return ReceivedPacket::Other;
    };
    if name_kind != u64::from(TYPE_NAME) {
        return ReceivedPacket::Other;
    }
    if kind == u64::from(TYPE_INTEREST) && !nack {
        return ReceivedPacket::Interest { name: &inner[..name_length], pit_token };
    }
    let Some((slot, sequence)) = slot_and_sequence(name) else { return ReceivedPacket::Other };
    if nack {
        ReceivedPacket::Nack { slot, sequence }
    } else {
        ReceivedPacket::Data { slot, sequence }
    }
}

/// The number of the consumer that a bare Interest or Data of the bench belongs to.
pub(super) fn face_number(tlv: &[u8]) -> Option<u32> {
    let (_, inner, _) = split_tlv(tlv)?;
    let (_, name, _) = split_tlv(inner)?;
    let at = 2 + PREFIX.len() + 2;
    Some(u32::from_be_bytes(name.get(at..at + 4)?.try_into().ok()?))
}

/// The slot (last component) and the sequence (third) of a name of the bench.
fn slot_and_sequence(name: &[u8]) -> Option<(u32, u64)> {
    let sequence_at = 2 + PREFIX.len() + 6 + 2;
    let sequence = name.get(sequence_at..sequence_at + 8)?;
    let slot = name.get(name.len().checked_sub(4)?..)?;
    Some((u32::from_be_bytes(slot.try_into().ok()?), u64::from_be_bytes(sequence.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_answers_the_interest_whose_name_it_carries() {
        for mixed in [false, true] {
            let mut interest = [0; INTEREST_LENGTH_MAX];
            let sequence = ndn_types::random::mix(7);
            let length = write_interest(&mut interest, 3, 41, sequence, mixed);
            assert_eq!(split_tlv(&interest).map(|tlv| tlv.2), Some(length));
            let ReceivedPacket::Interest { name, pit_token } = read_frame(&interest[..length])
            else {
                panic!("not an Interest");
            };
            assert!(pit_token.is_empty());
            for token in [&b""[..], b"abcdef"] {
                for payload in [100, 4000] {
                    let mut data = Vec::new();
                    write_data(&mut data, name, token, &vec![1; payload]);
                    assert_eq!(split_tlv(&data).map(|tlv| tlv.2), Some(data.len()));
                    assert_eq!(read_frame(&data), ReceivedPacket::Data { slot: 41, sequence });
                }
            }
        }
    }
}
