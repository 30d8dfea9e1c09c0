//! The parsers of the forwarder: those for common forms of packets, and its ingress, find what the general parser finds.

use std::cell::RefCell;
use std::sync::Arc;

use ndn_forwarding::{
    Burst, Counters, DropReason, FaceProperties, Ingress, LpFields, PacketKind, PitToken, RxFace,
};
use ndn_packet::data::{CommonData, PlainData};
use ndn_packet::interest::{CommonInterest, PlainInterest};
use ndn_packet::name::CommonComponents;
use ndn_packet::{DEFAULT_LIFETIME_MS, Data, Interest, MAX_PACKET_SIZE};
use ndn_ring::{PacketPool, PagePreference};
use ndn_table::{FaceIndex, NameHasher};
use ndn_types::Scope;

/// Takes the bytes as a packet from the network.
pub(crate) fn parsers(bytes: &[u8]) {
    general_parser(bytes);
    thread_local!(static FIXTURE: RefCell<Fixture> = RefCell::new(Fixture::new()));
    FIXTURE.with_borrow_mut(|fixture| {
        common_forms(bytes, &mut fixture.front);
        ingress(bytes, fixture);
    });
}

/// The parsers that try the common form first accept the same packets as the general ones, and
/// find the same.
fn general_parser(bytes: &[u8]) {
    assert_eq!(Interest::parse(bytes).ok(), Interest::parse_general(bytes).ok());
    assert_eq!(Data::parse(bytes).ok(), Data::parse_general(bytes).ok());
}

/// The description of a packet by the ingress of a forwarder: its kind, and the hashes of its name.
type Described = Result<(PacketKind, Vec<u64>), DropReason>;

/// The ingress describes the packet as the common form and in general alike.
fn ingress(bytes: &[u8], fixture: &mut Fixture) {
    if bytes.is_empty() || bytes.len() > MAX_PACKET_SIZE {
        return;
    }
    // A long PIT token is not in the common form.
    let [common, general] = [&[][..], &[0; 32]].map(|token| fixture.describe(bytes, token));
    assert_eq!(common, general);
    if let Ok((kind, hashes)) = common {
        let name = match kind {
            PacketKind::Data => Data::parse_general(bytes).expect("a valid Data").name(),
            PacketKind::Interest | PacketKind::Nack => {
                Interest::parse_general(bytes).expect("a valid Interest").name()
            }
        };
        let mut expected = vec![0; hashes.len()];
        assert_eq!(fixture.hasher.hash_prefixes(name, &mut expected), Some(hashes.len()));
        assert_eq!(hashes, expected);
    }
}

const HASH_KEY: [u8; 16] = *b"key of a fuzzer.";

/// Bytes behind a packet in its block, at least.
const BEHIND: usize = 64;

/// The objects that are made once, as that takes longer than all the rest. They keep nothing of an input: blocks and the burst are
/// released, and what the counters say is not read.
struct Fixture {
    pool: PacketPool,
    burst: Burst,
    hasher: NameHasher,
    counters: Arc<Counters>,
    /// For a packet with other bytes behind it.
    front: Vec<u8>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            pool: PacketPool::with_pages(4, PagePreference::Best, 0).expect("memory"),
            burst: Burst::new(),
            hasher: NameHasher::new(HASH_KEY),
            counters: Arc::default(),
            front: Vec::with_capacity(2 * MAX_PACKET_SIZE),
        }
    }

    fn describe(&mut self, bytes: &[u8], token: &[u8]) -> Described {
        let Self { pool, burst, .. } = self;
        let mut ingress = Ingress::new(self.hasher, Arc::clone(&self.counters), 1);
        let properties = FaceProperties::point_to_point(300, Scope::NonLocal);
        let face = RxFace::new(FaceIndex::new(3, 1), &properties);
        let pit_token = PitToken::new(token).expect("a token");
        let lp = LpFields { pit_token, ..LpFields::default() };
        let mut block = pool.allocate_block().expect("a free block");
        let (room, behind) = block.spare_mut().split_at_mut(bytes.len());
        room.copy_from_slice(bytes);
        // The ingress reads beyond the packet, where another input may have been.
        behind[..BEHIND].fill(0);
        block.commit(bytes.len());
        let result = ingress.push(burst, pool, &mut block, bytes.len(), &lp, &face);
        let described = result.map(|()| (burst.kind(0), burst.prefix_hashes(0).to_vec()));
        burst.release(pool);
        ingress.release_blocks(pool);
        pool.finish(block);
        described
    }
}

/// A packet in the common form is valid, and has the same fields as the view.
fn common_forms(bytes: &[u8], front: &mut Vec<u8>) {
    let has_common_name = |name: std::ops::Range<usize>| {
        let mut components = CommonComponents::within(bytes, name);
        let count = std::iter::from_fn(|| components.next_component()).count();
        components.is_at_end() && count > 0
    };
    if let Some(common) = CommonInterest::read(bytes)
        && has_common_name(common.name.clone())
    {
        let interest = Interest::parse_general(bytes).expect("the common form is valid");
        assert_eq!(common.name, interest.name_value_range());
        assert_eq!(common.can_be_prefix, interest.can_be_prefix());
        assert_eq!(common.must_be_fresh, interest.must_be_fresh());
        assert_eq!(Some(common.nonce), interest.nonce());
        assert_eq!(common.lifetime_ms.is_some(), interest.has_lifetime());
        assert_eq!(common.lifetime_ms.unwrap_or(DEFAULT_LIFETIME_MS), interest.lifetime_ms());
        assert_eq!(common.hop_limit, interest.hop_limit());
        assert!(!interest.has_forwarding_hint() && interest.parameters().is_none());
        assert!(!interest.name_ends_in_implicit_digest());
    }
    if let Some(common) = CommonData::read(bytes)
        && has_common_name(common.name.clone())
    {
        let data = Data::parse_general(bytes).expect("the common form is valid");
        assert_eq!(common.name, data.name_value_range());
        assert_eq!(common.freshness_ms, data.freshness_ms());
        assert!(!data.name_ends_in_implicit_digest());
    }
    for behind in [&[][..], &[34, 1, 7, 10, 4], &[0; 16]] {
        front.clear();
        front.extend_from_slice(bytes);
        front.extend_from_slice(behind);
        plain_forms(bytes, front);
    }
}

/// The plain forms are common forms, whatever follows the packet in its block.
fn plain_forms(bytes: &[u8], front: &[u8]) {
    if let Some(plain) = PlainInterest::read(front, bytes.len()) {
        let common = CommonInterest::read(bytes).expect("a common form");
        assert_eq!((plain.name, plain.nonce), (common.name, common.nonce));
        assert_eq!(Some(u64::from(plain.lifetime_ms)), common.lifetime_ms);
        assert_eq!(plain.hop_limit, common.hop_limit);
        assert!(!common.can_be_prefix && !common.must_be_fresh);
    }
    if let Some(plain) = PlainData::read(front, bytes.len()) {
        let common = CommonData::read(bytes).expect("a common form");
        assert_eq!(plain.name, common.name);
        assert_eq!(Some(u64::from(plain.freshness_ms)), common.freshness_ms);
    }
}
