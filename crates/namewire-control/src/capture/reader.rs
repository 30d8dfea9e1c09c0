//! Reads pcapng captures (draft-ietf-opsawg-pcapng): those of this program, and NDN over Ethernet or UDP in captures of
//! other programs.

use std::io::{self, BufReader, Read};

use super::pcapng::APPLICATION;
use super::{Direction, ETHERTYPE_NDN};

/// The first bytes of a capture: the type of its section header.
pub const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Blocks of captures are shorter.
const BLOCK_LEN_MAX: usize = 16 << 20;
/// More interfaces than faces of a forwarder.
const INTERFACES_MAX: usize = 1 << 20;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;
/// Ports of NDN over UDP, unicast and multicast.
const UDP_PORTS: [u16; 2] = [6363, 56363];
const PROTOCOL_UDP: u8 = 17;

/// An interface of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Interface {
    link_type: u16,
    name: String,
    face_id: Option<u64>,
    application: Option<String>,
    /// Units of timestamps in a second.
    ticks_per_second: u64,
}

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedFrame<'a> {
    /// Name of the interface: in captures of this program the URI of the peer.
    pub interface: &'a str,
    /// The face, in captures of this program.
    pub face_id: Option<u64>,
    /// The process of an application on the host of the forwarder, likewise.
    pub application: Option<&'a str>,
    /// Direction, if the capture has it.
    pub direction: Option<Direction>,
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    /// The NDN packet, possibly truncated; `None` for a frame of another protocol.
    pub packet: Option<&'a [u8]>,
    /// The capture has only the beginning of the frame.
    pub is_truncated: bool,
}

/// The content of a block of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureRecord<'a> {
    /// A packet.
    Frame(CapturedFrame<'a>),
    /// Number of packets that were lost, over the whole capture.
    Dropped(u64),
    /// An interface. Packets name it by its number in the section.
    Interface,
    /// Another block.
    Other,
}

/// Reads a capture block by block.
#[derive(Debug)]
pub struct PcapngReader<R> {
    input: BufReader<R>,
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    block: Vec<u8>,
}

impl<R: Read> PcapngReader<R> {
    /// A reader of a capture from its first byte.
    pub fn new(input: R) -> Self {
        Self {
            input: BufReader::with_capacity(64 << 10, input),
            is_big_endian: false,
            interfaces: Vec::new(),
            block: Vec::new(),
        }
    }

    /// Whether all bytes received so far were returned: the next block has to be waited for.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.input.buffer().is_empty()
    }

    /// The bytes of the block that was read last.
    #[must_use]
    pub fn block(&self) -> &[u8] {
        &self.block
    }

    /// Reads the next block; `None` at the end.
    ///
    /// # Errors
    /// The input fails or ends within a block (`UnexpectedEof`), or is not pcapng (`InvalidData`).
    pub fn next_record(&mut self) -> io::Result<Option<CaptureRecord<'_>>> {
        if !self.read_block()? {
            return Ok(None);
        }
        let body = &self.block[8..self.block.len() - 4];
        let order = Order { is_big_endian: self.is_big_endian };
        let number = order.u32(&self.block[..4]);
        match number {
            // Interfaces are those of the section.
            0x0a0d_0d0a => self.interfaces.clear(),
            1 if self.interfaces.len() >= INTERFACES_MAX => {
                return Err(malformed("too many interfaces"));
            }
            1 => {
                let interface =
                    interface(order, body).ok_or_else(|| malformed("a bad interface"))?;
                self.interfaces.push(interface);
                return Ok(Some(CaptureRecord::Interface));
            }
            5 => {
                let dropped = body.get(12..).and_then(|options| option_of(order, options, 5));
                let dropped = dropped.and_then(|value| Some(order.u64(value.get(..8)?)));
                return Ok(Some(dropped.map_or(CaptureRecord::Other, CaptureRecord::Dropped)));
            }
            6 => {
                let frame = frame(order, &self.interfaces, body);
                return frame
                    .map(|frame| Some(CaptureRecord::Frame(frame)))
                    .ok_or_else(|| malformed("a bad packet block"));
            }
            _ => {}
        }
        Ok(Some(CaptureRecord::Other))
    }

    /// Reads a block; false at the end of the input.
    fn read_block(&mut self) -> io::Result<bool> {
        self.block.clear();
        let read = self.input.by_ref().take(12).read_to_end(&mut self.block)?;
        if read == 0 {
            return Ok(false);
        }
        if read < 12 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if self.block[..4] == PCAPNG_MAGIC {
            let magic = self.block[8..12].try_into().unwrap_or_default();
            self.is_big_endian = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
                (BYTE_ORDER_MAGIC, _) => false,
                (_, BYTE_ORDER_MAGIC) => true,
                _ => return Err(malformed("no byte order")),
            };
        }
        let order = Order { is_big_endian: self.is_big_endian };
        let length = usize::try_from(order.u32(&self.block[4..8])).unwrap_or(usize::MAX);
        if !(12..=BLOCK_LEN_MAX).contains(&length) || length % 4 != 0 {
            return Err(malformed("a block of a bad length"));
        }
        let rest = length - 12;
        // A length that is only claimed reserves no memory.
        let limit = u64::try_from(rest).unwrap_or(u64::MAX);
        if self.input.by_ref().take(limit).read_to_end(&mut self.block)? < rest {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if order.u32(&self.block[length - 4..]) as usize != length {
            return Err(malformed("a block with two lengths"));
        }
        Ok(true)
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a pcapng capture: {what}"))
}

#[derive(Clone, Copy)]
struct Order {
    is_big_endian: bool,
}

impl Order {
    /// The number in `bytes`, which has the length of one; shorter input reads as zero.
    fn u16(self, bytes: &[u8]) -> u16 {
        let bytes = bytes.try_into().unwrap_or_default();
        if self.is_big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    fn u32(self, bytes: &[u8]) -> u32 {
        let bytes = bytes.try_into().unwrap_or_default();
        if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn u64(self, bytes: &[u8]) -> u64 {
        let bytes = bytes.try_into().unwrap_or_default();
        if self.is_big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }
}

/// The value of the first option with this code.
fn option_of(order: Order, mut options: &[u8], code: u16) -> Option<&[u8]> {
    loop {
        let found = order.u16(options.get(..2)?);
        let length = usize::from(order.u16(options.get(2..4)?));
        let value = options.get(4..4 + length)?;
        match found {
            0 => return None,
            found if found == code => return Some(value),
            _ => options = options.get(4 + length.next_multiple_of(4)..)?,
        }
    }
}

fn interface(order: Order, body: &[u8]) -> Option<Interface> {
    let options = body.get(8..)?;
    let text = |code| {
        option_of(order, options, code).map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let resolution =
        option_of(order, options, 9).and_then(|value| value.first().copied()).unwrap_or(6);
    let ticks_per_second = match resolution & 0x80 {
        0 => 10_u64.checked_pow(u32::from(resolution))?,
        _ => 1_u64.checked_shl(u32::from(resolution & 0x7f))?,
    };
    let description = text(3).unwrap_or_default();
    let of_face = description.strip_prefix("face ").unwrap_or_default();
    let (face_id, application) = match of_face.split_once(APPLICATION) {
        Some((face_id, application)) => (face_id, Some(application.to_owned())),
        None => (of_face, None),
    };
    Some(Interface {
        link_type: order.u16(body.get(..2)?),
        name: text(2).unwrap_or_default(),
        face_id: face_id.parse().ok(),
        application,
        ticks_per_second,
    })
}

fn frame<'a>(
    order: Order,
    interfaces: &'a [Interface],
    body: &'a [u8],
) -> Option<CapturedFrame<'a>> {
    let interface = interfaces.get(order.u32(body.get(..4)?) as usize)?;
    let (high, low) = (order.u32(body.get(4..8)?), order.u32(body.get(8..12)?));
    let ticks = u128::from(high) << 32 | u128::from(low);
    let unix_ns = ticks * 1_000_000_000 / u128::from(interface.ticks_per_second);
    let length = order.u32(body.get(12..16)?) as usize;
    let is_truncated = order.u32(body.get(16..20)?) as usize > length;
    let bytes = body.get(20..20_usize.checked_add(length)?)?;
    let options = body.get(20 + length.next_multiple_of(4)..).unwrap_or_default();
    let flags = option_of(order, options, 2).and_then(|value| Some(order.u32(value.get(..4)?)));
    let direction = match flags.unwrap_or(0) & 3 {
        1 => Some(Direction::Received),
        2 => Some(Direction::Sent),
        _ => None,
    };
    Some(CapturedFrame {
        interface: &interface.name,
        face_id: interface.face_id,
        application: interface.application.as_deref(),
        direction,
        unix_ns: u64::try_from(unix_ns).unwrap_or(u64::MAX),
        packet: (interface.link_type == LINKTYPE_ETHERNET)
            .then(|| ndn_of_ethernet(bytes))
            .flatten(),
        is_truncated,
    })
}

/// The NDN packet of an Ethernet frame: by its EtherType, or over UDP.
fn ndn_of_ethernet(frame: &[u8]) -> Option<&[u8]> {
    let network = Order { is_big_endian: true };
    let mut ethertype = network.u16(frame.get(12..14)?);
    let mut payload = frame.get(14..)?;
    if ethertype == 0x8100 {
        ethertype = network.u16(payload.get(2..4)?);
        payload = payload.get(4..)?;
    }
    let datagram = match ethertype {
        ETHERTYPE_NDN => return Some(without_padding(payload)),
        // Later fragments have no UDP header.
        0x0800 if network.u16(payload.get(6..8)?) & 0x1fff != 0 => return None,
        0x0800 if *payload.get(9)? == PROTOCOL_UDP => {
            payload.get(usize::from(payload.first()? & 0xf) * 4..)?
        }
        0x86dd if *payload.get(6)? == PROTOCOL_UDP => payload.get(40..)?,
        _ => return None,
    };
    let ports = [network.u16(datagram.get(..2)?), network.u16(datagram.get(2..4)?)];
    let length = usize::from(network.u16(datagram.get(4..6)?));
    let is_ndn = ports.iter().any(|port| UDP_PORTS.contains(port));
    is_ndn.then(|| datagram.get(8..length.min(datagram.len()))).flatten()
}

/// The first TLV, without what an Ethernet device appends to short frames.
fn without_padding(payload: &[u8]) -> &[u8] {
    match ndn_packet::tlv::Reader::new(payload).read() {
        Ok(tlv) => tlv.wire(),
        // Truncated by the capture.
        Err(_) => payload,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CapturedPacket, CapturedPeer, PcapngWriter};
    use super::*;

    fn packet(face_id: u64, direction: Direction, bytes: &[u8]) -> CapturedPacket {
        let (bytes, original_len) = (bytes.to_vec(), bytes.len());
        CapturedPacket {
            face_id,
            direction,
            unix_ns: 1_700_000_000_123_456_789,
            bytes,
            original_len,
        }
    }

    #[test]
    fn written_captures_are_read() {
        let mut output = Vec::new();
        let mut writer = PcapngWriter::new(&mut output, 9000).unwrap();
        writer
            .write(
                &packet(300, Direction::Received, &[5, 3, 7, 1, 0]),
                &"udp4://192.0.2.1:6363".into(),
            )
            .unwrap();
        let application = CapturedPeer {
            uri: "unix:///run/x".to_owned(),
            application: Some("process 7 (a, b)".to_owned()),
        };
        writer.write(&packet(301, Direction::Sent, &[6, 0]), &application).unwrap();
        writer.write_dropped(5, 9).unwrap();
        let mut reader = PcapngReader::new(&output[..]);
        let mut frames = Vec::new();
        let mut dropped = 0;
        let mut copy = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            match record {
                CaptureRecord::Frame(frame) => frames.push((
                    frame.interface.to_owned(),
                    frame.face_id,
                    frame.direction,
                    frame.unix_ns,
                    frame.packet.map(<[u8]>::to_vec),
                    frame.application.map(str::to_owned),
                )),
                CaptureRecord::Dropped(count) => dropped = count,
                CaptureRecord::Interface | CaptureRecord::Other => {}
            }
            copy.extend_from_slice(reader.block());
        }
        let time = 1_700_000_000_123_456_789;
        assert_eq!(
            frames,
            [
                (
                    "udp4://192.0.2.1:6363".to_owned(),
                    Some(300),
                    Some(Direction::Received),
                    time,
                    Some(vec![5, 3, 7, 1, 0]),
                    None
                ),
                (
                    "unix:///run/x".to_owned(),
                    Some(301),
                    Some(Direction::Sent),
                    time,
                    Some(vec![6, 0]),
                    application.application
                ),
            ]
        );
        assert_eq!(dropped, 9);
        assert!(copy == output, "blocks are passed on as they are");
    }

    #[test]
    fn ndn_is_found_in_frames_of_other_programs() {
        let ethernet =
            |ethertype: [u8; 2], payload: &[u8]| [&[0; 12][..], &ethertype, payload].concat();
        let padded = [&[6, 0][..], &[0; 44]].concat();
        assert_eq!(ndn_of_ethernet(&ethernet([0x86, 0x24], &padded)), Some(&[6, 0][..]));
        let tagged = [&[0, 5, 0x86, 0x24][..], &padded].concat();
        assert_eq!(ndn_of_ethernet(&ethernet([0x81, 0], &tagged)), Some(&[6, 0][..]));
        let udp = |port: [u8; 2]| [&port[..], &[0x18, 0xdb], &[0, 10, 0, 0, 6, 0, 0, 0]].concat();
        let mut ipv4 = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17];
        ipv4.resize(20, 0);
        ipv4.extend(udp([0x12, 0x34]));
        assert_eq!(ndn_of_ethernet(&ethernet([8, 0], &ipv4)), Some(&[6, 0][..]));
        ipv4[7] = 1;
        assert_eq!(ndn_of_ethernet(&ethernet([8, 0], &ipv4)), None, "a later fragment");
        let mut ipv6 = vec![0x60, 0, 0, 0, 0, 0, 17];
        ipv6.resize(40, 0);
        ipv6.extend(udp([0x18, 0xdb]));
        assert_eq!(ndn_of_ethernet(&ethernet([0x86, 0xdd], &ipv6)), Some(&[6, 0][..]));
        ipv6[6] = 6;
        assert_eq!(ndn_of_ethernet(&ethernet([0x86, 0xdd], &ipv6)), None, "TCP");
    }

    #[test]
    fn malformed_captures_are_refused_at_every_byte() {
        let mut output = Vec::new();
        let mut writer = PcapngWriter::new(&mut output, 9000).unwrap();
        writer
            .write(&packet(300, Direction::Received, &[5, 3, 7, 1, 0]), &"udp4://192.0.2.1".into())
            .unwrap();
        let all = |bytes: &[u8]| {
            let mut reader = PcapngReader::new(bytes);
            loop {
                match reader.next_record() {
                    Ok(Some(_)) => {}
                    Ok(None) => return Ok(()),
                    Err(error) => return Err(error.kind()),
                }
            }
        };
        let boundaries = (0..=output.len()).filter(|end| all(&output[..*end]).is_ok()).count();
        assert_eq!(boundaries, 1 + 3, "an end is between blocks");
        for at in 0..output.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = output.clone();
                changed[at] = value;
                // No panic; a result of any kind.
                let _ = all(&changed);
            }
        }
        assert_eq!(all(b"hello, this is text"), Err(io::ErrorKind::InvalidData));
    }
}
