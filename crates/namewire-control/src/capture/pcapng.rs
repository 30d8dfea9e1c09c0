//! Writes the subset of pcapng (draft-ietf-opsawg-pcapng) that captures of NDN faces need.
//!
//! Each face is an interface. Packets get an Ethernet header with EtherType 0x8624 (LINKTYPE_ETHERNET), which
//! Wireshark's NDN dissector, tshark and ndndump recognize, independent of the face's transport. The name of an
//! interface is the URI of the peer, its description the FaceId and the application. The artificial addresses begin with
//! "ND", which no vendor has: the last four bytes of the peer's address are the FaceId, those of the forwarder are zero.

use std::collections::HashMap;
use std::io::{self, Write};

use super::{CapturedPacket, CapturedPeer, Direction};

/// EtherType of NDN.
pub const ETHERTYPE_NDN: u16 = 0x8624;

const SECTION_HEADER_BLOCK: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION_BLOCK: u32 = 1;
const INTERFACE_STATISTICS_BLOCK: u32 = 5;
const ENHANCED_PACKET_BLOCK: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;

const OPTION_END: u16 = 0;
const SHB_USER_APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TIMESTAMP_RESOLUTION: u16 = 9;
const ISB_DROPPED: u16 = 5;
const EPB_FLAGS: u16 = 2;
const TIMESTAMP_IN_NANOSECONDS: u8 = 9;

/// Between the FaceId and the application, in the description of an interface.
pub(super) const APPLICATION: &str = ", ";

const ETHERNET_HEADER_LEN: usize = 14;
const FORWARDER_ADDRESS: [u8; 6] = [b'N', b'D', 0, 0, 0, 0];

/// Writes a capture. All numbers are little-endian.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    output: W,
    snap_len: u32,
    /// FaceId to interface number.
    interfaces: HashMap<u64, u32>,
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a capture with at most `snap_len` bytes per packet.
    ///
    /// # Errors
    /// The output fails.
    pub fn new(output: W, snap_len: usize) -> io::Result<Self> {
        let snap_len =
            u32::try_from(snap_len.saturating_add(ETHERNET_HEADER_LEN)).unwrap_or(u32::MAX);
        let mut writer = Self { output, snap_len, interfaces: HashMap::new(), block: Vec::new() };
        writer.begin(SECTION_HEADER_BLOCK);
        writer.put_u32(BYTE_ORDER_MAGIC);
        writer.put_u16(1);
        writer.put_u16(0);
        writer.put_u64(u64::MAX);
        writer.put_option(
            SHB_USER_APPLICATION,
            concat!("namewire ", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        writer.put_option(OPTION_END, &[]);
        writer.finish()?;
        Ok(writer)
    }

    /// Appends one packet. `peer` is that of its face, and used if the face is new.
    ///
    /// # Errors
    /// The output fails.
    pub fn write(&mut self, packet: &CapturedPacket, peer: &CapturedPeer) -> io::Result<()> {
        let interface = match self.interfaces.get(&packet.face_id) {
            Some(interface) => *interface,
            None => self.add_interface(packet.face_id, peer)?,
        };
        let address = peer_address(packet.face_id);
        let (destination, source, flags) = match packet.direction {
            Direction::Received => (FORWARDER_ADDRESS, address, 1),
            Direction::Sent => (address, FORWARDER_ADDRESS, 2),
        };
        self.begin(ENHANCED_PACKET_BLOCK);
        self.put_u32(interface);
        self.put_u32(u32::try_from(packet.unix_ns >> 32).unwrap_or(u32::MAX));
        self.put_u32(u32::try_from(packet.unix_ns & 0xffff_ffff).unwrap_or(u32::MAX));
        self.put_len(ETHERNET_HEADER_LEN + packet.bytes.len());
        self.put_len(ETHERNET_HEADER_LEN + packet.original_len);
        self.block.extend_from_slice(&destination);
        self.block.extend_from_slice(&source);
        self.block.extend_from_slice(&ETHERTYPE_NDN.to_be_bytes());
        self.block.extend_from_slice(&packet.bytes);
        self.pad();
        self.put_option(EPB_FLAGS, &u32::to_le_bytes(flags));
        self.put_option(OPTION_END, &[]);
        self.finish()
    }

    /// Writes the number of lost packets at `unix_ns`. Belongs at the end of the capture.
    ///
    /// # Errors
    /// The output fails.
    pub fn write_dropped(&mut self, unix_ns: u64, dropped: u64) -> io::Result<()> {
        if self.interfaces.is_empty() {
            self.put_interface("any face", "any face")?;
        }
        self.begin(INTERFACE_STATISTICS_BLOCK);
        self.put_u32(0);
        self.put_u32(u32::try_from(unix_ns >> 32).unwrap_or(u32::MAX));
        self.put_u32(u32::try_from(unix_ns & 0xffff_ffff).unwrap_or(u32::MAX));
        self.put_option(ISB_DROPPED, &dropped.to_le_bytes());
        self.put_option(OPTION_END, &[]);
        self.finish()
    }

    /// The output, from which what was written so far can be taken.
    pub const fn output(&mut self) -> &mut W {
        &mut self.output
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// The output fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    /// Writes the interface of a face before its first packet. Readers reject a section without an interface as
    /// damaged.
    ///
    /// # Errors
    /// The output fails.
    pub fn describe_face(&mut self, face_id: u64, peer: &CapturedPeer) -> io::Result<()> {
        self.add_interface(face_id, peer).map(|_| ())
    }

    fn add_interface(&mut self, face_id: u64, peer: &CapturedPeer) -> io::Result<u32> {
        let interface = u32::try_from(self.interfaces.len()).unwrap_or(u32::MAX);
        let mut description = format!("face {face_id}");
        if let Some(application) = &peer.application {
            description.extend([APPLICATION, application]);
        }
        self.put_interface(&peer.uri, &description)?;
        self.interfaces.insert(face_id, interface);
        Ok(interface)
    }

    fn put_interface(&mut self, name: &str, description: &str) -> io::Result<()> {
        self.begin(INTERFACE_DESCRIPTION_BLOCK);
        self.put_u16(LINKTYPE_ETHERNET);
        self.put_u16(0);
        self.put_u32(self.snap_len);
        self.put_option(IF_NAME, name.as_bytes());
        self.put_option(IF_DESCRIPTION, description.as_bytes());
        self.put_option(IF_TIMESTAMP_RESOLUTION, &[TIMESTAMP_IN_NANOSECONDS]);
        self.put_option(OPTION_END, &[]);
        self.finish()
    }

    fn begin(&mut self, block_type: u32) {
        self.block.clear();
        self.put_u32(block_type);
        self.put_u32(0); // the length, known in `finish`
    }

    fn finish(&mut self) -> io::Result<()> {
        let len = u32::try_from(self.block.len() + 4).unwrap_or(u32::MAX);
        self.block[4..8].copy_from_slice(&len.to_le_bytes());
        self.put_u32(len);
        self.output.write_all(&self.block)
    }

    fn put_u16(&mut self, number: u16) {
        self.block.extend_from_slice(&number.to_le_bytes());
    }

    fn put_u32(&mut self, number: u32) {
        self.block.extend_from_slice(&number.to_le_bytes());
    }

    fn put_u64(&mut self, number: u64) {
        self.block.extend_from_slice(&number.to_le_bytes());
    }

    fn put_len(&mut self, len: usize) {
        self.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    }

    fn put_option(&mut self, code: u16, value: &[u8]) {
        self.put_u16(code);
        self.put_u16(u16::try_from(value.len()).unwrap_or(u16::MAX));
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }
}

fn peer_address(face_id: u64) -> [u8; 6] {
    let mut address = FORWARDER_ADDRESS;
    address[2..].copy_from_slice(&face_id.to_be_bytes()[4..]);
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a capture into blocks of (type, body), checking the lengths at both ends of each.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let len = number(&bytes[4..]) as usize;
            assert_eq!(len % 4, 0);
            assert_eq!(number(&bytes[len - 4..]) as usize, len);
            blocks.push((number(bytes), bytes[8..len - 4].to_vec()));
            bytes = &bytes[len..];
        }
        blocks
    }

    fn packet(face_id: u64, direction: Direction, bytes: &[u8]) -> CapturedPacket {
        let (bytes, original_len) = (bytes.to_vec(), bytes.len() + 10);
        CapturedPacket { face_id, direction, unix_ns: 0x1122_3344_5566_7788, bytes, original_len }
    }

    #[test]
    fn capture_has_one_interface_per_face_and_all_packets() {
        let mut output = Vec::new();
        let mut writer = PcapngWriter::new(&mut output, 9000).unwrap();
        writer
            .write(&packet(300, Direction::Received, &[5, 1, 0]), &"udp4://192.0.2.1:6363".into())
            .unwrap();
        writer.write(&packet(0x0102_0304, Direction::Sent, &[6, 0]), &"fd://9".into()).unwrap();
        writer.write(&packet(300, Direction::Sent, &[6, 2, 7, 0]), &"".into()).unwrap();
        writer.write_dropped(5, 9).unwrap();
        let blocks = blocks(&output);
        let types: Vec<u32> = blocks.iter().map(|(block_type, _)| *block_type).collect();
        assert_eq!(types, [SECTION_HEADER_BLOCK, 1, 6, 1, 6, 6, 5]);

        let (_, second) = &blocks[4];
        assert_eq!(second[..4], [1, 0, 0, 0], "the second face is interface 1");
        assert_eq!(second[4..12], [0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55]);
        assert_eq!(second[12..20], [16, 0, 0, 0, 26, 0, 0, 0], "captured and original length");
        let described = String::from_utf8_lossy(&blocks[1].1).into_owned();
        assert!(described.contains("udp4://192.0.2.1:6363") && described.contains("face 300"));
        let frame = [b'N', b'D', 1, 2, 3, 4, b'N', b'D', 0, 0, 0, 0, 0x86, 0x24, 6, 0];
        assert_eq!(second[20..36], frame);
        assert_eq!(second[36..], [2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0], "outbound, end of options");

        let (_, first) = &blocks[2];
        assert_eq!(first[20 + 17..20 + 20], [0, 0, 0], "3 bytes of padding after 17");
        let (_, statistics) = blocks.last().unwrap();
        assert_eq!(statistics[12..24], [5, 0, 8, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn empty_capture_has_the_interface_of_its_face() {
        for (face, interface) in [(None, "any face"), (Some(300), "face 300")] {
            let mut output = Vec::new();
            let mut writer = PcapngWriter::new(&mut output, 9000).unwrap();
            if let Some(face_id) = face {
                writer.describe_face(face_id, &"udp4://192.0.2.1:6363".into()).unwrap();
            }
            writer.write_dropped(5, 0).unwrap();
            let blocks = blocks(&output);
            let types: Vec<u32> = blocks.iter().map(|(block_type, _)| *block_type).collect();
            assert_eq!(types, [SECTION_HEADER_BLOCK, 1, 5]);
            let described = String::from_utf8_lossy(&blocks[1].1).into_owned();
            assert!(described.contains(interface), "{described}");
        }
    }
}
