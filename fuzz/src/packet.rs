//! The packet parser: every view, the tree for people, and the ingress of the forwarder.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Arc;

use ndn_forwarding::{
    Burst, Counters, DropReason, FaceProperties, Ingress, LpFields, PacketKind, PitToken, RxFace,
};
use ndn_packet::data::{CommonData, PlainData};
use ndn_packet::dissect::dissect;
use ndn_packet::interest::{CommonInterest, PlainInterest};
use ndn_packet::name::CommonComponents;
use ndn_packet::tlv::{Reader, append_tlv, decode_number, frame_len};
use ndn_packet::{
    Component, DEFAULT_LIFETIME_MS, Data, DecodeError, Interest, LpPacket, MAX_PACKET_SIZE,
    NameRef, Packet, types,
};
use ndn_ring::{PacketPool, PagePreference};
use ndn_table::{FaceIndex, NameHasher};
use ndn_types::Scope;

/// Takes the bytes as a packet from the network.
pub(crate) fn packet(bytes: &[u8]) {
    let stream = frame_len(bytes);
    let dissection = dissect(bytes);
    if let Ok(packet) = LpPacket::parse(bytes) {
        lp_packet(&packet, bytes);
    }
    match Packet::parse(bytes) {
        Ok(parsed) => {
            assert_eq!(stream, Ok(Some(bytes.len())));
            let nested_well = match &parsed {
                Packet::Interest(parsed) => {
                    interest(parsed);
                    parsed.signature_info().is_ok()
                }
                Packet::Data(parsed) => {
                    data(parsed);
                    parsed.signature_info().is_ok()
                }
            };
            assert!(!nested_well || dissection.error().is_none(), "{dissection}");
        }
        Err(error) => {
            assert!(has_text(&error));
            // Several packets in a row are none, but make a tree without fault.
            let trailing = matches!(error, DecodeError::TrailingBytes { .. });
            if matches!(bytes.first(), Some(5 | 6)) && !trailing {
                assert!(dissection.error().is_some(), "{error} is not in\n{dissection}");
            }
        }
    }
    general_parser(bytes);
    thread_local!(static FIXTURE: RefCell<Fixture> = RefCell::new(Fixture::new()));
    FIXTURE.with_borrow_mut(|fixture| {
        common_forms(bytes, &mut fixture.front);
        ingress(bytes, fixture);
    });
    let _ = NameRef::parse(bytes);
}

/// Whether the text of an error is not empty; nothing is allocated for it.
fn has_text(error: &DecodeError) -> bool {
    struct Length(usize);
    impl std::fmt::Write for Length {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    write!(length, "{error}").is_ok() && length.0 > 0
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

fn lp_packet(packet: &LpPacket<'_>, bytes: &[u8]) {
    assert_eq!(packet.fragment(), packet.fragment_offset().map(|offset| &bytes[offset..]));
    assert!(packet.pit_token().is_none_or(|token| (1..=32).contains(&token.len())));
    assert!(packet.acks().count() <= bytes.len() / 12);
    if packet.is_bare() {
        assert!(matches!(bytes.first(), Some(5 | 6)));
    }
}

/// The first element of a type, by a plain walk over the elements without kept offsets.
fn element(wire: &[u8], ty: u32) -> Option<&[u8]> {
    let mut reader = Reader::new(wire).read().ok()?.reader();
    while let Ok(Some(tlv)) = reader.next_tlv() {
        if tlv.ty() == ty {
            return Some(tlv.value());
        }
    }
    None
}

fn name(name: NameRef<'_>, range: core::ops::Range<usize>, wire: &[u8]) {
    assert_eq!(&wire[range], name.value());
    assert_eq!(Some(name.value()), element(wire, types::NAME));
    assert_eq!(NameRef::from_value(name.value()).map(|again| again.len()), Ok(name.len()));
    let mut value = Vec::new();
    for component in name.components() {
        append_tlv(&mut value, component.ty().tlv_type(), component.value());
    }
    assert_eq!(value, name.value(), "components make up the value");
    assert_eq!(name.components().count(), name.len());
    let digest = name.last().and_then(|last: Component<'_>| last.implicit_digest());
    assert_eq!(name.implicit_digest(), digest);
}

fn interest(interest: &Interest<'_>) {
    let wire = interest.wire();
    assert!(!interest.name().is_empty());
    name(interest.name(), interest.name_value_range(), wire);
    let digest = interest.name().implicit_digest();
    assert_eq!(interest.name_ends_in_implicit_digest(), digest.is_some());
    if let (Some(nonce), Some(offset)) = (interest.nonce(), interest.nonce_offset()) {
        assert_eq!(wire[offset..offset + 4], nonce.to_be_bytes());
    }
    if let (Some(hop_limit), Some(offset)) = (interest.hop_limit(), interest.hop_limit_offset()) {
        assert_eq!(wire[offset], hop_limit);
    }
    let lifetime_ms = element(wire, types::INTEREST_LIFETIME).and_then(decode_number);
    assert_eq!(interest.lifetime_ms(), lifetime_ms.unwrap_or(DEFAULT_LIFETIME_MS));
    assert_eq!(interest.has_forwarding_hint(), interest.forwarding_hint().next().is_some());
    if let Some(portion) = interest.parameters_portion() {
        assert!(wire.ends_with(portion));
        assert_eq!(portion.first(), Some(&36));
    }
    if let Some([_, parameters]) = interest.signed_portion() {
        assert_eq!(parameters.first(), Some(&36));
    }
    with_nonce(interest);
}

fn with_nonce(interest: &Interest<'_>) {
    const NONCE: u32 = 0x1234_5678;
    let mut out = vec![0; interest.encoded_len_with_nonce()];
    assert_eq!(interest.write_with_nonce(NONCE, &mut out), Ok(out.len()));
    let again = Interest::parse(&out).expect("an Interest with a Nonce added is valid");
    assert_eq!(again.nonce(), Some(NONCE));
    assert_eq!(again.name(), interest.name());
    assert_eq!(again.can_be_prefix(), interest.can_be_prefix());
    assert_eq!(again.must_be_fresh(), interest.must_be_fresh());
    assert_eq!(again.lifetime_ms(), interest.lifetime_ms());
    assert_eq!(again.hop_limit(), interest.hop_limit());
    assert_eq!(again.parameters_portion(), interest.parameters_portion());
    assert_eq!(again.signature_value(), interest.signature_value());
    assert!(again.forwarding_hint().eq(interest.forwarding_hint()));
}

fn data(data: &Data<'_>) {
    let wire = data.wire();
    name(data.name(), data.name_value_range(), wire);
    let digest = data.name().implicit_digest();
    assert_eq!(data.name_ends_in_implicit_digest(), digest.is_some());
    assert_eq!(data.content(), element(wire, types::CONTENT));
    assert_eq!(data.content(), data.content_range().map(|range| &wire[range]));
    assert_eq!(Some(data.signature_value()), element(wire, types::SIGNATURE_VALUE));
    assert_eq!(data.signed_portion().first(), Some(&7));
    let meta_info = element(wire, types::META_INFO).unwrap_or_default();
    let mut whole = Vec::new();
    append_tlv(&mut whole, types::META_INFO, meta_info);
    let freshness_ms = element(&whole, types::FRESHNESS_PERIOD).and_then(decode_number);
    assert_eq!(data.freshness_ms(), freshness_ms);
    assert_eq!(data.final_block_id().is_some(), element(&whole, types::FINAL_BLOCK_ID).is_some());
    match data.signature_info() {
        Ok(_) => {}
        Err(DecodeError::Missing { offset, .. }) => assert!(offset as usize <= wire.len()),
        Err(error) => assert!(has_text(&error)),
    }
}
