//! Netlink messages: a header of 16 bytes, a fixed part that depends on the type, and attributes.

/// `struct nlmsghdr`.
pub(super) const HEADER_LENGTH: usize = 16;
/// `struct nlattr`: length and type.
const ATTRIBUTE_HEADER_LENGTH: usize = 4;
/// Flags of an attribute's type: nested, and in network byte order.
const TYPE_MASK: u16 = 0x3fff;

/// A request that is being put together.
#[derive(Debug)]
pub(super) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A message of this type with flags of `NLM_F_*`, and its fixed part.
    pub(super) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_LENGTH];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        pad(&mut bytes);
        Self { bytes }
    }

    /// Adds an attribute; values are short here.
    pub(super) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(ATTRIBUTE_HEADER_LENGTH + value.len()).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        pad(&mut self.bytes);
        self
    }

    /// The message with this sequence number.
    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// A received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    /// The payload.
    pub(super) payload: &'a [u8],
}

/// The messages of one datagram; ends at the first that is malformed.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(read_u32(bytes, 0)?).ok()?;
        let message = bytes.get(..length).filter(|_| length >= HEADER_LENGTH)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Message {
            kind: read_u16(message, 4)?,
            flags: read_u16(message, 6)?,
            sequence: read_u32(message, 8)?,
            payload: &message[HEADER_LENGTH..],
        })
    })
}

/// Attributes, by type and value; ends at the first that is malformed.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(read_u16(bytes, 0)?);
        let kind = read_u16(bytes, 2)? & TYPE_MASK;
        let value = bytes.get(ATTRIBUTE_HEADER_LENGTH..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// A text that ends in a zero byte.
pub(super) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

pub(super) fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_request_is_decoded() {
        let first = Request::new(16, 0x301, &[1, 2, 3]).attribute(7, b"abc").attribute(9, &[]);
        let mut bytes = first.finish(5);
        let second = Request::new(3, 2, &[]).finish(6);
        bytes.extend_from_slice(&second);
        let found: Vec<Message<'_>> = messages(&bytes).collect();
        let [first, second] = found[..] else { panic!("{found:?}") };
        assert_eq!((first.kind, first.flags, first.sequence), (16, 0x301, 5));
        assert_eq!(&first.payload[..4], [1, 2, 3, 0]);
        let list: Vec<_> = attributes(&first.payload[4..]).collect();
        assert_eq!(list, [(7, b"abc".as_slice()), (9, b"".as_slice())]);
        assert_eq!((second.kind, second.payload), (3, [].as_slice()));
    }

    #[test]
    fn truncated_message_ends_the_list() {
        let bytes = Request::new(16, 0, &[0; 8]).attribute(1, b"abcdefg").finish(1);
        for length in 0..bytes.len() {
            assert_eq!(messages(&bytes[..length]).count(), 0, "{length}");
            if length >= 24 {
                assert!(attributes(&bytes[24..length]).count() <= 1);
            }
        }
        // A length below that of a header would never get anywhere.
        assert_eq!(attributes(&[0; 64]).count(), 0);
        assert_eq!(attributes(&[3, 0, 1, 0, 0, 0, 0, 0]).count(), 0);
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(text(b"eth0\0junk"), "eth0");
    }
}
