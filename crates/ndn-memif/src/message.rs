//! The messages on the socket (`memif.h` of libmemif and of DPDK): 128 bytes each, fields in the byte
//! order of the host without padding between them, zeros at the end.

use std::fmt;

use crate::disconnect::DisconnectReason;
use crate::secret::Secret;
use crate::text::{padded, printable};

/// Bytes of a message.
pub const MESSAGE_LENGTH: usize = 128;
const NAME_LENGTH: usize = 32;

const TYPE_ACK: u16 = 1;
const TYPE_HELLO: u16 = 2;
const TYPE_INIT: u16 = 3;
const TYPE_ADD_REGION: u16 = 4;
const TYPE_ADD_RING: u16 = 5;
const TYPE_CONNECT: u16 = 6;
const TYPE_CONNECTED: u16 = 7;
const TYPE_DISCONNECT: u16 = 8;

/// Flag of ADD_RING: its frames go to the server.
const RING_TO_SERVER: u16 = 1;

/// The name of a program or an interface, at most 32 bytes. It ends at the first zero; invalid UTF-8 and characters that
/// are not printable are shown as `?`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Name([u8; NAME_LENGTH]);

impl Name {
    /// The first 31 bytes of `text`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(padded(text.as_bytes()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&printable(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", printable(&self.0))
    }
}

/// A message between client and server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The last message was accepted.
    Ack,
    /// The first message, from the server.
    Hello {
        /// Its program.
        name: Name,
        /// Lowest and highest version of the protocol.
        versions: (u16, u16),
        /// Highest index of a region.
        region_max: u16,
        /// Highest index of a ring to the client.
        ring_to_client_max: u16,
        /// Highest index of a ring to the server.
        ring_to_server_max: u16,
        /// Largest binary logarithm of the size of a ring.
        log2_ring_size_max: u8,
    },
    /// The client requests an interface.
    Init {
        /// Of the protocol.
        version: u16,
        /// Which interface.
        id: u32,
        /// Content of frames: 0 for Ethernet, 1 for IP.
        mode: u8,
        /// The secret of the interface, or none.
        secret: Secret,
        /// The client's program.
        name: Name,
    },
    /// The client shares memory; its descriptor accompanies the message.
    AddRegion {
        /// Its number.
        index: u16,
        /// Bytes.
        size: u64,
    },
    /// The client adds a ring; its eventfd accompanies the message.
    AddRing {
        /// Its frames go to the server.
        to_server: bool,
        /// Its number among those of the direction.
        index: u16,
        /// Its region.
        region: u16,
        /// Its offset in the region, bytes.
        offset: u32,
        /// Binary logarithm of its size.
        log2_size: u8,
    },
    /// The client is ready.
    Connect {
        /// Its interface.
        interface: Name,
    },
    /// The server is ready.
    Connected {
        /// Its interface.
        interface: Name,
    },
    /// The sender ends the connection.
    Disconnect(DisconnectReason),
}

/// Why bytes are no valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Their length is wrong.
    #[error("a message of {0} bytes")]
    Length(usize),
    /// The type is unknown.
    #[error("a message of the unknown type {0}")]
    Type(u16),
}

impl Message {
    /// The encoded message.
    #[must_use]
    pub fn encode(&self) -> [u8; MESSAGE_LENGTH] {
        let mut writer = Writer { bytes: [0; MESSAGE_LENGTH], at: 0 };
        match self {
            Self::Ack => writer.put(&TYPE_ACK.to_ne_bytes()),
            Self::Hello {
                name,
                versions,
                region_max,
                ring_to_client_max,
                ring_to_server_max,
                log2_ring_size_max,
            } => {
                writer.put(&TYPE_HELLO.to_ne_bytes());
                writer.put(&name.0);
                for number in
                    [versions.0, versions.1, *region_max, *ring_to_client_max, *ring_to_server_max]
                {
                    writer.put(&number.to_ne_bytes());
                }
                writer.put(&[*log2_ring_size_max]);
            }
            Self::Init { version, id, mode, secret, name } => {
                writer.put(&TYPE_INIT.to_ne_bytes());
                writer.put(&version.to_ne_bytes());
                writer.put(&id.to_ne_bytes());
                writer.put(&[*mode]);
                writer.put(secret.field());
                writer.put(&name.0);
            }
            Self::AddRegion { index, size } => {
                writer.put(&TYPE_ADD_REGION.to_ne_bytes());
                writer.put(&index.to_ne_bytes());
                writer.put(&size.to_ne_bytes());
            }
            Self::AddRing { to_server, index, region, offset, log2_size } => {
                let flags = if *to_server { RING_TO_SERVER } else { 0 };
                for number in [TYPE_ADD_RING, flags, *index, *region] {
                    writer.put(&number.to_ne_bytes());
                }
                writer.put(&offset.to_ne_bytes());
                writer.put(&[*log2_size]);
            }
            Self::Connect { interface } => {
                writer.put(&TYPE_CONNECT.to_ne_bytes());
                writer.put(&interface.0);
            }
            Self::Connected { interface } => {
                writer.put(&TYPE_CONNECTED.to_ne_bytes());
                writer.put(&interface.0);
            }
            Self::Disconnect(reason) => {
                writer.put(&TYPE_DISCONNECT.to_ne_bytes());
                writer.put(&reason.code.to_ne_bytes());
                writer.put(reason.text());
            }
        }
        writer.bytes
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// See [`MessageError`]. Values are not checked.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let bytes: &[u8; MESSAGE_LENGTH] =
            bytes.try_into().map_err(|_| MessageError::Length(bytes.len()))?;
        let mut reader = Reader { bytes, at: 0 };
        Ok(match reader.u16() {
            TYPE_ACK => Self::Ack,
            TYPE_HELLO => Self::Hello {
                name: Name(reader.take()),
                versions: (reader.u16(), reader.u16()),
                region_max: reader.u16(),
                ring_to_client_max: reader.u16(),
                ring_to_server_max: reader.u16(),
                log2_ring_size_max: reader.u8(),
            },
            TYPE_INIT => Self::Init {
                version: reader.u16(),
                id: reader.u32(),
                mode: reader.u8(),
                secret: Secret::of_field(reader.take()),
                name: Name(reader.take()),
            },
            TYPE_ADD_REGION => {
                Self::AddRegion { index: reader.u16(), size: u64::from_ne_bytes(reader.take()) }
            }
            TYPE_ADD_RING => Self::AddRing {
                to_server: reader.u16() & RING_TO_SERVER != 0,
                index: reader.u16(),
                region: reader.u16(),
                offset: reader.u32(),
                log2_size: reader.u8(),
            },
            TYPE_CONNECT => Self::Connect { interface: Name(reader.take()) },
            TYPE_CONNECTED => Self::Connected { interface: Name(reader.take()) },
            TYPE_DISCONNECT => {
                Self::Disconnect(DisconnectReason::of_fields(reader.u32(), reader.take()))
            }
            unknown => return Err(MessageError::Type(unknown)),
        })
    }
}

struct Writer {
    bytes: [u8; MESSAGE_LENGTH],
    at: usize,
}

impl Writer {
    /// All fields of the longest message fit.
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }
}

struct Reader<'a> {
    bytes: &'a [u8; MESSAGE_LENGTH],
    at: usize,
}

impl Reader<'_> {
    /// All fields of the longest message lie in it.
    fn take<const LENGTH: usize>(&mut self) -> [u8; LENGTH] {
        let mut field = [0; LENGTH];
        field.copy_from_slice(&self.bytes[self.at..self.at + LENGTH]);
        self.at += LENGTH;
        field
    }

    fn u8(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_a_round_trip() {
        let name = Name::new("namewire");
        for message in [
            Message::Ack,
            Message::Hello {
                name,
                versions: (0x200, 0x201),
                region_max: 3,
                ring_to_client_max: 4,
                ring_to_server_max: 5,
                log2_ring_size_max: 14,
            },
            Message::Init {
                version: 0x200,
                id: 77,
                mode: 1,
                secret: Secret::new("nine").unwrap(),
                name,
            },
            Message::AddRegion { index: 1, size: 1 << 40 },
            Message::AddRing { to_server: true, index: 1, region: 2, offset: 3, log2_size: 4 },
            Message::AddRing { to_server: false, index: 0, region: 0, offset: 0, log2_size: 0 },
            Message::Connect { interface: name },
            Message::Connected { interface: name },
            Message::Disconnect(DisconnectReason::new(5, "tired")),
        ] {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn fields_are_at_the_offsets_of_memif_h() {
        let init = Message::Init {
            version: 0x200,
            id: 0x0403_0201,
            mode: 0,
            secret: Secret::new(&"s".repeat(24)).unwrap(),
            name: Name::new("me"),
        };
        let bytes = init.encode();
        assert_eq!(bytes[..2], 3_u16.to_ne_bytes());
        assert_eq!(bytes[2..4], 0x200_u16.to_ne_bytes());
        assert_eq!(bytes[4..8], 0x0403_0201_u32.to_ne_bytes());
        assert_eq!((bytes[8], bytes[9], bytes[32], &bytes[33..36]), (0, b's', b's', &b"me\0"[..]));
        let ring =
            Message::AddRing { to_server: true, index: 2, region: 1, offset: 640, log2_size: 10 };
        let bytes = ring.encode();
        assert_eq!(bytes[2..4], 1_u16.to_ne_bytes());
        assert_eq!(bytes[4..6], 2_u16.to_ne_bytes());
        assert_eq!(bytes[8..12], 640_u32.to_ne_bytes());
        assert_eq!(bytes[12..16], [10, 0, 0, 0]);
        let region = Message::AddRegion { index: 0, size: 7 }.encode();
        assert_eq!(region[4..12], 7_u64.to_ne_bytes());
    }

    #[test]
    fn names_end_at_zero_or_the_end_of_the_field() {
        let long = "x".repeat(100);
        assert_eq!(Name::new(&long).to_string().len(), NAME_LENGTH - 1);
        assert_eq!(Name([b'y'; NAME_LENGTH]).to_string(), "y".repeat(NAME_LENGTH));
        let mut odd = [0; NAME_LENGTH];
        odd[..5].copy_from_slice(b"a\xff\n\x1bb");
        assert_eq!(Name(odd).to_string(), "a???b");
    }

    #[test]
    fn invalid_messages_are_rejected() {
        for length in [0, 1, 127, 129] {
            assert_eq!(Message::decode(&vec![1; length]), Err(MessageError::Length(length)));
        }
        assert_eq!(Message::decode(&[0; MESSAGE_LENGTH]), Err(MessageError::Type(0)));
        let unknown = u16::from_ne_bytes([0xee; 2]);
        assert_eq!(Message::decode(&[0xee; MESSAGE_LENGTH]), Err(MessageError::Type(unknown)));
    }
}
