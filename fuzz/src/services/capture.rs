//! Captures of other programs, and what is shown of their packets.

use std::io::ErrorKind;

use namewire_control::capture::{
    CaptureFilter, CaptureRecord, CapturedFrame, CapturedPacket, CapturedPeer, Direction,
    PacketIdentity, PacketSummary, PcapngReader, PcapngWriter, SNAP_LEN_MAX,
};

/// Takes the bytes as a capture. Packets of it are described, selected, and written to another capture, which must have
/// the same.
pub(crate) fn capture(bytes: &[u8]) {
    let mut reader = PcapngReader::new(bytes);
    let mut rest = bytes;
    loop {
        match reader.next_record() {
            Ok(Some(CaptureRecord::Frame(frame))) => show(&frame),
            Ok(Some(
                CaptureRecord::Dropped(_) | CaptureRecord::Interface | CaptureRecord::Other,
            )) => {}
            Ok(None) => break,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof));
                return;
            }
        }
        rest = rest.strip_prefix(reader.block()).expect("blocks are passed on as they are");
    }
    assert!(rest.is_empty());
}

fn show(frame: &CapturedFrame<'_>) {
    let summary = PacketSummary::new(frame.packet);
    let Some(packet) = frame.packet else { return };
    assert_eq!(summary.length, packet.len());
    // The filter reads packets without describing them.
    let name = summary.name.clone();
    let types = [summary.kind].into_iter().collect();
    let filter = CaptureFilter { name, types, ..CaptureFilter::new(None, SNAP_LEN_MAX, None) };
    assert!(filter.selects(&PacketIdentity::of(packet)));
    write_and_read(frame, packet);
}

fn write_and_read(frame: &CapturedFrame<'_>, packet: &[u8]) {
    let written = CapturedPacket {
        face_id: frame.face_id.unwrap_or(300),
        direction: frame.direction.unwrap_or(Direction::Received),
        unix_ns: frame.unix_ns,
        bytes: packet.to_vec(),
        original_len: packet.len() + usize::from(frame.is_truncated),
    };
    let mut output = Vec::new();
    let mut writer = PcapngWriter::new(&mut output, SNAP_LEN_MAX).expect("memory");
    writer.write(&written, &CapturedPeer::from(frame.interface)).expect("memory");
    let mut reader = PcapngReader::new(&output[..]);
    loop {
        match reader.next_record().expect("a capture").expect("a packet") {
            CaptureRecord::Frame(read) => {
                assert_eq!(read.interface, frame.interface);
                assert_eq!(read.face_id, Some(written.face_id));
                assert_eq!(read.direction, Some(written.direction));
                assert_eq!(read.unix_ns, frame.unix_ns);
                assert_eq!(read.is_truncated, frame.is_truncated);
                // Behind the first element, an Ethernet device could have padded it.
                assert!(read.packet.is_some_and(|read| packet.starts_with(read)));
                return;
            }
            CaptureRecord::Dropped(_) | CaptureRecord::Interface | CaptureRecord::Other => {}
        }
    }
}
