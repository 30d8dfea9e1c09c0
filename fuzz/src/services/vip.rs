//! Messages of VIP's exchange of counts.

use std::ops::ControlFlow;

use ndn_packet::NameRef;
use ndn_types::{Now, Timestamp};
use ndn_vip::{
    Acknowledgement, Entry, Node, NodeSettings, ObjectRoutes, REPORT_LEN_MAX, REQUEST, Report,
    Score, Settings,
};

const NEIGHBOUR: u64 = 300;
const OBJECTS_MAX: usize = 8;
const SLOT_MS: u64 = 1000;
/// Slots in one call.
const SLOTS_MAX: u64 = 64;

fn node() -> Node {
    let settings = NodeSettings {
        plane: Settings {
            slot_ms: SLOT_MS,
            cache_bytes: 1 << 20,
            read_bytes_per_s: 1 << 20,
            window_slots: 4,
            score: Score::Arrivals,
            read_penalty: 0,
            write_penalty: 0,
        },
        objects_max: OBJECTS_MAX,
        neighbours_max: 2,
        object_bytes: 1 << 20,
    };
    let mut node = Node::new(settings, Timestamp::ZERO);
    node.add_neighbour(NEIGHBOUR, 1 << 24, both(Timestamp::ZERO));
    node
}

fn routes(name: NameRef<'_>) -> ObjectRoutes {
    ObjectRoutes { is_source: name.len() == 1, neighbours: vec![NEIGHBOUR] }
}

/// Decodes a message in both ways; what was decoded survives encoding.
fn decode(bytes: &[u8]) {
    if let Ok(report) = Report::parse(bytes) {
        let wire = report.to_vec();
        assert!(wire.len() <= REPORT_LEN_MAX, "elements that were skipped add nothing");
        assert_eq!(Report::parse(&wire).as_ref(), Ok(&report));
        let entries: usize = report.entries.iter().map(Entry::encoded_len).sum();
        assert!(wire.len() <= Report::HEADER_LEN_MAX + entries);
    }
    if let Ok(acknowledgement) = Acknowledgement::parse(bytes) {
        assert_eq!(Acknowledgement::parse(&acknowledgement.to_vec()), Ok(acknowledgement));
    }
}

/// Both clocks at this time.
fn both(monotonic: Timestamp) -> Now {
    Now { monotonic, unix: monotonic.since(Timestamp::ZERO) }
}

/// One step of a neighbour: a kind, a length, and that number of bytes.
fn step(node: &mut Node, now: &mut Timestamp, bytes: &mut &[u8]) -> ControlFlow<()> {
    let Some((&[kind, high, low], rest)) = bytes.split_first_chunk() else {
        return ControlFlow::Break(());
    };
    let length = usize::from(u16::from_be_bytes([high, low])).min(rest.len());
    let (message, rest) = rest.split_at(length);
    *bytes = rest;
    match kind % 4 {
        0 => {
            if node.admits_report(NEIGHBOUR) {
                let _ = node.handle_report(NEIGHBOUR, message, *now, routes);
            }
        }
        1 => {
            if node.admits_acknowledgement(NEIGHBOUR, message) {
                let _ = node.handle_acknowledgement(NEIGHBOUR, message, both(*now));
            }
        }
        2 => {
            if let Ok(name) = NameRef::parse(message) {
                node.request(name, u64::from(kind), routes);
            }
        }
        _ => {
            *now = node.next_deadline();
            node.handle_timeout(both(*now), routes);
        }
    }
    while let Some(transmission) = node.poll_transmission() {
        assert!(Report::parse(&transmission.report).is_ok());
    }
    ControlFlow::Continue(())
}

/// Takes the bytes as a message, and as steps of a neighbour: the limits of a node hold, and no VIP is lost or made.
pub(crate) fn vip(bytes: &[u8]) {
    decode(bytes);
    let (mut node, mut now, mut rest) = (node(), Timestamp::ZERO, bytes);
    while step(&mut node, &mut now, &mut rest).is_continue() {
        if node.slots() > SLOTS_MAX {
            return;
        }
    }
    // The arrivals of the last slot count.
    let slot = node.slots();
    while node.slots() == slot {
        now = node.next_deadline();
        node.handle_timeout(both(now), routes);
    }
    assert!(node.objects().count() <= OBJECTS_MAX, "{}", node.objects().count());
    let sums = node.plane().counters();
    let counts: u64 = node.objects().map(|object| object.count).sum();
    if sums.received.max(sums.requested) < u64::MAX / 2 {
        assert_eq!(
            sums.requested + sums.received,
            sums.sent + sums.drained + sums.absorbed + counts,
            "{sums:?}"
        );
    }
    assert!(sums.requested.is_multiple_of(REQUEST) || sums.requested > 1 << 59);
}
