//! The packet path does not allocate: 100,000 packets of all kinds under a counting allocator.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use ndn_forwarding::{
    BURST_SIZE, Burst, Counters, FaceProperties, Ingress, LinkEvent, LpFields, PitToken,
    PitTokenPolicy, RxFace, Shard, ShardConfig, StrategyTable, TxPacket, TxSink, UnsolicitedPolicy,
};
use ndn_packet::tlv::Writer;
use ndn_packet::{InterestBuilder, NackReason, Name, types};
use ndn_ring::PacketPool;
use ndn_sys::allocation::CountingAllocator;
use ndn_table::{FaceIndex, FibConfig, FibWriter, NameHasher, PcctConfig};
use ndn_types::{Scope, Timestamp};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const PACKET_COUNT: usize = 100_000;

/// Bursts between two changes of links.
const BURSTS_PER_LINK_STATE: usize = 32;

/// The next received packet and its arrival face.
struct Received {
    wire: Vec<u8>,
    face: usize,
    lp: LpFields,
}

#[derive(Default)]
struct Sink {
    packets: u64,
    bytes: u64,
}

impl TxSink for Sink {
    fn send(&mut self, _: FaceIndex, packet: &TxPacket<'_>) {
        self.packets += 1;
        self.bytes += packet.wire.len() as u64;
    }
}

/// One namespace each.
const STRATEGIES: [&str; 9] = [
    "best-route",
    "multicast",
    "access",
    "asf",
    "random",
    "round-robin",
    "weighted",
    "sequential",
    "fast-route",
];

/// Names in the namespaces of all strategies; they repeat, so that packets affect each other.
fn name(number: usize) -> Name {
    let namespace = STRATEGIES[number % STRATEGIES.len()];
    let uri = format!("/{namespace}/object-{}/segment-{}", number / 3 % 50, number / 150 % 40);
    Name::from_uri(&uri).unwrap()
}

fn interest(number: usize, name: &Name) -> Vec<u8> {
    let builder = InterestBuilder::new(name)
        .can_be_prefix(number.is_multiple_of(7))
        .must_be_fresh(number.is_multiple_of(5))
        .lifetime_ms(20 + number as u64 % 500)
        .hop_limit(9);
    // Some Interests leave the Nonce to the forwarder.
    if number.is_multiple_of(11) {
        builder.to_vec().unwrap()
    } else {
        builder.nonce(u32::try_from(number % 30_000).unwrap()).to_vec().unwrap()
    }
}

fn data(number: usize, name: &Name) -> Vec<u8> {
    let mut value = vec![0; 3000];
    let mut writer = Writer::new(&mut value);
    writer.name(name.as_ref()).unwrap();
    writer.tlv(types::META_INFO, &[25, 1, 100]).unwrap();
    writer.tlv(types::CONTENT, &vec![7; number % 2000]).unwrap();
    writer.tlv(types::SIGNATURE_INFO, &[27, 1, 0]).unwrap();
    writer.tlv(types::SIGNATURE_VALUE, &[0; 32]).unwrap();
    let length = writer.len();
    let mut wire = vec![0; length + 4];
    let mut writer = Writer::new(&mut wire);
    writer.tlv(types::DATA, &value[..length]).unwrap();
    let length = writer.len();
    wire.truncate(length);
    wire
}

fn received(number: usize) -> Received {
    let scatter = |number: usize| {
        let mixed = (number ^ (number >> 7)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        name((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33)
    };
    let name = scatter(number);
    let mut lp = LpFields::default();
    let (wire, face) = match number % 8 {
        0..4 => {
            let token = [number.to_le_bytes()[0]; 32];
            lp.pit_token = PitToken::new(&token[..number % 33]).unwrap();
            (interest(number, &name), number % 3)
        }
        4..7 => (data(number, &name), 3 + number % 3),
        _ => {
            // For the Interest seven packets ago, from the face that it was sent to first.
            lp.nack = Some(NackReason::NO_ROUTE);
            (interest(number - 7, &scatter(number - 7)), 3)
        }
    };
    Received { wire, face, lp }
}

#[test]
fn no_packet_allocates() {
    let hasher = NameHasher::new([1; 16]);
    let (mut strategies, default_strategy) = StrategyTable::with_best_route();
    let mut fib = FibWriter::new(&FibConfig { entries_max: 100, hasher, default_strategy });
    for strategy in STRATEGIES {
        let full_name = Name::from_uri(&format!("/localhost/nfd/strategy/{strategy}")).unwrap();
        let id = strategies.insert(full_name.as_ref()).unwrap();
        let prefix = Name::from_uri(&format!("/{strategy}")).unwrap();
        fib.set_strategy(prefix.as_ref(), id).unwrap();
        for slot in 3..6 {
            let face = FaceIndex::new(slot, 1);
            fib.set_next_hop(prefix.as_ref(), face, u64::from(slot)).unwrap();
        }
    }
    let counters: Arc<Counters> = Arc::default();
    let config = ShardConfig {
        shard: 0,
        hasher,
        pcct: PcctConfig::with_capacity(2000, 1000, Timestamp::ZERO),
        dead_nonce_lifetime_ms: 6000,
        dead_nonce_capacity: 10_000,
        strategy_timer_capacity: 2000,
        unsolicited: UnsolicitedPolicy::AdmitNetwork,
    };
    let (fib, strategies) = (fib.publish(), Arc::new(strategies));
    let mut shard = Shard::new(&config, fib, strategies, Arc::clone(&counters), Timestamp::ZERO);
    let properties = FaceProperties {
        pit_tokens: PitTokenPolicy::Always,
        ..FaceProperties::point_to_point(300, Scope::NonLocal)
    };
    let faces: Vec<RxFace> = (0..6)
        .map(|slot| {
            let index = FaceIndex::new(slot, 1);
            shard.set_face(index, &properties);
            RxFace::new(index, &properties)
        })
        .collect();
    let mut ingress = Ingress::new(hasher, Arc::clone(&counters), 7);
    let (pool, mut burst, mut sink) = (PacketPool::new(16).unwrap(), Burst::new(), Sink::default());

    let mut allocated = 0;
    for start in (0..PACKET_COUNT).step_by(BURST_SIZE / 4) {
        let packets: Vec<_> = (start..start + BURST_SIZE / 4).map(received).collect();
        let now = Timestamp::from_millis(start as u64 / 40);
        // What waits for one face alone is sent again, and another one is probed then.
        let link_events = match start / (BURST_SIZE / 4) % (2 * BURSTS_PER_LINK_STATE) {
            0 => [Some((4, LinkEvent::Doubted)), Some((3, LinkEvent::Lost))],
            BURSTS_PER_LINK_STATE => {
                [Some((4, LinkEvent::Reached)), Some((3, LinkEvent::Restored))]
            }
            _ => [None; 2],
        };
        for (slot, event) in link_events.into_iter().flatten() {
            shard.handle_link_event(now, FaceIndex::new(slot, 1), event);
        }
        let before = CountingAllocator::count_of_thread();
        let mut block = pool.allocate_block().unwrap();
        for packet in &packets {
            let length = packet.wire.len();
            block.spare_mut()[..length].copy_from_slice(&packet.wire);
            block.commit(length);
            let face = &faces[packet.face];
            let _ = ingress.push(&mut burst, &pool, &mut block, length, &packet.lp, face);
        }
        pool.finish(block);
        while shard.poll_timers(now, &mut sink) {}
        shard.process_burst(now, &mut burst, &pool, &mut sink);
        burst.release(&pool);
        shard.end_burst();
        let _ = shard.next_deadline();
        allocated += CountingAllocator::count_of_thread() - before;
    }
    assert_eq!(allocated, 0, "allocations in {PACKET_COUNT} packets");

    // The result is meaningful only if everything below has happened.
    let must_have_happened = [
        ("Interests", counters.out_interests.value()),
        ("Data", counters.out_data.value()),
        ("Nacks", counters.out_nacks.value()),
        ("hits", counters.cs_hits.value()),
        ("evictions", counters.cs_evictions.value()),
        ("expiries", counters.unsatisfied_interests.value()),
        ("satisfied", counters.satisfied_interests.value()),
        ("dead nonces", counters.dead_nonces.value()),
        ("unsolicited", counters.unsolicited_data.value()),
        ("sent again", counters.resent_interests.value()),
        ("suppressed", counters.dropped(ndn_forwarding::DropReason::RetransmissionSuppressed)),
    ];
    for (what, count) in must_have_happened {
        assert!(count > 100, "only {count} {what}");
    }
    assert!(sink.packets > 10_000 && sink.bytes > 1_000_000);
}
