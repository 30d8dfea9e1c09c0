//! The packet path's side of VIP: counts of local requests and sizes of objects for the control thread, and its decisions.

use std::collections::HashMap;
use std::sync::Arc;

use ndn_caching::ObjectScores;
use ndn_packet::tlv::Reader;
use ndn_packet::{Component, Data, NameRef, types};
use ndn_table::{FaceIndex, NamedObject, ObjectRules};
use ndn_types::random::mix;

use crate::descriptor::Flags;
use crate::packet::RxPacket;

/// Maximum length of the names in [`VipRequests`], on average, in bytes.
const NAME_LEN_MEAN: usize = 128;
/// Keyword component before the version of metadata (Realtime Data Retrieval protocol).
const METADATA: Component<'static> = Component::keyword(b"metadata");
/// TLV-TYPE of the length of a file in the metadata of file servers.
const FILE_SIZE: u32 = 0xF502;
/// Makes keys of metadata from the hashes of the names of files without versions. An arbitrary number.
const METADATA_KEY: u64 = 0x6d65_7461_6461_7461;

/// Decisions of a slot: the VIPs that were lately sent to next hops, by object, and the scores of objects. The control
/// thread makes it, and the shards read it.
#[derive(Debug, Default)]
pub struct VipDecisions {
    /// The objects of names.
    rules: Arc<ObjectRules>,
    /// By the key of the object.
    objects: HashMap<u64, Vec<(FaceIndex, u64)>>,
    /// Scores of objects, for the Content Store.
    scores: Arc<ObjectScores>,
}

impl VipDecisions {
    /// Scores without VIPs. The keys are those of the rules.
    #[must_use]
    pub fn new(rules: Arc<ObjectRules>, scores: ObjectScores) -> Self {
        Self { rules, objects: HashMap::new(), scores: Arc::new(scores) }
    }

    /// Sets the VIPs sent to each next hop, in millionths of a request, for the object with this key.
    pub fn insert(&mut self, object: u64, sent: Vec<(FaceIndex, u64)>) {
        self.objects.insert(object, sent);
    }

    /// The key of the object that an Interest belongs to, by the hashes of the prefixes of its name and its segment: that of
    /// the rules, or that of the name without the last component, or of the whole name.
    fn find_object(
        &self,
        prefix_hashes: &[u64],
        segment: impl FnOnce() -> Option<u64>,
    ) -> Option<u64> {
        if let Some(object) = self.rules.find(prefix_hashes, segment) {
            return Some(object.key(prefix_hashes)).filter(|key| self.objects.contains_key(key));
        }
        let longest = prefix_hashes.iter().rev().copied();
        let (whole, object) = (longest.clone().take(1), longest.skip(1).take(1));
        object.chain(whole).find(|hash| self.objects.contains_key(hash))
    }

    fn sent(&self, object: u64, face: FaceIndex) -> u64 {
        let next_hops = self.objects.get(&object).map_or(&[][..], Vec::as_slice);
        next_hops.iter().find(|(hop, _)| *hop == face).map_or(0, |(_, sent)| *sent)
    }
}

/// Requests of local applications by object: Interests for first segments, and for objects that are single Data; and sizes
/// of objects whose first segments or metadata have arrived. It has room for a fixed number of objects, and does not allocate
/// when it counts.
#[derive(Debug)]
pub struct VipRequests {
    objects: Vec<Requested>,
    /// Position in `objects`, by the key of the object, or by that of its metadata.
    positions: HashMap<u64, usize>,
    /// The names of the objects.
    names: Vec<u8>,
    uncounted: u64,
}

#[derive(Debug, Clone, Copy)]
struct Requested {
    requests: u64,
    /// 0 if it was not learned.
    size_bytes: u64,
    is_exact: bool,
    name_start: usize,
    name_end: usize,
}

/// The size of an object, as Data showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnedSize<'a> {
    /// Name of the object.
    pub object: NameRef<'a>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether it is the length in the metadata of a file. Otherwise it is the number of segments × the length of the first,
    /// which is longer than the object by up to a segment.
    pub is_exact: bool,
}

impl VipRequests {
    /// Room for this number of objects.
    #[must_use]
    pub fn with_capacity(objects: usize) -> Self {
        Self {
            objects: Vec::with_capacity(objects),
            positions: HashMap::with_capacity(objects),
            names: Vec::with_capacity(objects * NAME_LEN_MEAN),
            uncounted: 0,
        }
    }

    /// The number of objects for which there is room.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.objects.capacity()
    }

    /// The objects that were requested, in the order of their first requests, and the numbers of requests.
    pub fn iter(&self) -> impl Iterator<Item = (NameRef<'_>, u64)> {
        let counts = self.named().map(|(name, object)| (name, object.requests));
        counts.filter(|(_, requests)| *requests > 0)
    }

    /// The sizes that were learned. An object can have an exact one and another one.
    pub fn sizes(&self) -> impl Iterator<Item = LearnedSize<'_>> {
        let sizes = self.named().map(|(object, &Requested { size_bytes, is_exact, .. })| {
            LearnedSize { object, size_bytes, is_exact }
        });
        sizes.filter(|size| size.size_bytes > 0)
    }

    fn named(&self) -> impl Iterator<Item = (NameRef<'_>, &Requested)> {
        self.objects.iter().filter_map(|object| {
            let name = self.names.get(object.name_start..object.name_end)?;
            Some((NameRef::from_value(name).ok()?, object))
        })
    }

    /// Requests for which there was no room.
    #[must_use]
    pub fn uncounted(&self) -> u64 {
        self.uncounted
    }

    fn count(&mut self, key: u64, object: NameRef<'_>) {
        match self.find_or_add(key, object) {
            Some(position) => self.objects[position].requests += 1,
            None => self.uncounted += 1,
        }
    }

    /// Notes a size, unless the key is that of another object: of an earlier version of a file.
    fn learn(&mut self, key: u64, size: LearnedSize<'_>) {
        let Some(position) = self.find_or_add(key, size.object) else { return };
        let requested = &mut self.objects[position];
        if self.names[requested.name_start..requested.name_end] == *size.object.value() {
            (requested.size_bytes, requested.is_exact) = (size.size_bytes, size.is_exact);
        }
    }

    fn find_or_add(&mut self, key: u64, object: NameRef<'_>) -> Option<usize> {
        if let Some(&position) = self.positions.get(&key) {
            return Some(position);
        }
        let name = object.value();
        let has_room = self.objects.len() < self.objects.capacity()
            && self.positions.len() < self.positions.capacity()
            && name.len() <= self.names.capacity() - self.names.len();
        if !has_room {
            return None;
        }
        let name_start = self.names.len();
        self.names.extend_from_slice(name);
        let (name_end, position) = (self.names.len(), self.objects.len());
        self.positions.insert(key, position);
        let (requests, size_bytes, is_exact) = (0, 0, false);
        self.objects.push(Requested { requests, size_bytes, is_exact, name_start, name_end });
        Some(position)
    }
}

/// The state of a shard.
#[derive(Debug, Default)]
pub(crate) struct Vip {
    decisions: Arc<VipDecisions>,
    /// `None` until the control thread asks for counts.
    requests: Option<Box<VipRequests>>,
}

impl Vip {
    /// Follows other decisions, and counts into `requests` from now on. Returns the counts so far.
    pub(crate) fn exchange(
        &mut self,
        decisions: Arc<VipDecisions>,
        requests: Box<VipRequests>,
    ) -> Option<Box<VipRequests>> {
        self.decisions = decisions;
        self.requests.replace(requests)
    }

    /// Counts an Interest of a local application for the first segment of an object.
    #[inline]
    pub(crate) fn count_request(&mut self, interest: &RxPacket<'_>) {
        let scopes = Flags::LOCALHOST.union(Flags::LOCALHOP);
        if interest.has(Flags::FROM_LOCAL) && !interest.descriptor.flags.intersects(scopes) {
            self.count_local(interest);
        }
    }

    fn count_local(&mut self, interest: &RxPacket<'_>) {
        let Some(requests) = &mut self.requests else { return };
        let (name, hashes, rules) = (interest.name(), interest.hashes(), &self.decisions.rules);
        let object = match name.segment() {
            Some(segment) => {
                Some(rules.object(name, hashes)).filter(|object| object.first_segment() == segment)
            }
            None => rules.find(hashes, || None).filter(|object| object.len == name.len()),
        };
        if let Some(object) = object {
            requests.count(object.key(hashes), object_name(&object, name));
        }
    }

    /// Learns the size of an object from the FinalBlockId of its first segment, unless a rule maps several such names to one
    /// object, or from the metadata of a file.
    #[inline]
    pub(crate) fn learn_size(&mut self, data: &RxPacket<'_>) {
        let scopes = Flags::LOCALHOST.union(Flags::LOCALHOP);
        if self.requests.is_none() || data.descriptor.flags.intersects(scopes) {
            return;
        }
        let is_first = match data.name().segment() {
            Some(0) => true,
            Some(segment) => self.decisions.rules.has_blocks() && self.is_first(data, segment),
            None => false,
        };
        if is_first {
            self.learn_from_first(data);
        }
    }

    /// Whether a segment is the first one of a block.
    fn is_first(&self, data: &RxPacket<'_>, segment: u64) -> bool {
        let object = self.decisions.rules.find(data.hashes(), || Some(segment));
        object.is_some_and(|object| object.first_segment() == segment)
    }

    #[cold]
    fn learn_from_first(&mut self, data: &RxPacket<'_>) {
        match metadata_prefix_len(data.name()) {
            Some(prefix_len) => self.learn_from_metadata(data, prefix_len),
            None => self.learn_from_segment(data),
        }
    }

    /// Learns from `/PREFIX/32=metadata/VERSION/SEGMENT` the size of a version of PREFIX, and of no other name: the signature
    /// was not verified.
    fn learn_from_metadata(&mut self, data: &RxPacket<'_>, prefix_len: usize) {
        let Some(requests) = &mut self.requests else { return };
        let (name, hashes, object_len) = (data.name(), data.hashes(), prefix_len + 1);
        let of_rule = self.decisions.rules.find(hashes, || name.segment());
        if of_rule.is_some_and(|object| object.block.is_some() || object.len != object_len) {
            // The file is no object: it has several, or is a part of one.
            return;
        }
        let Ok(packet) = Data::parse(data.wire()) else { return };
        let Some((object, size_bytes)) = packet.content().and_then(file_size) else { return };
        let is_own = object.len() == object_len
            && object.starts_with(name.prefix(prefix_len))
            && object.ends_in_version();
        if is_own {
            // Metadata has a new version at each request: all have one key.
            let key = mix(hashes[prefix_len] ^ METADATA_KEY);
            requests.learn(key, LearnedSize { object, size_bytes, is_exact: true });
        }
    }

    fn learn_from_segment(&mut self, data: &RxPacket<'_>) {
        let (Some(requests), name) = (&mut self.requests, data.name()) else { return };
        let object = self.decisions.rules.object(name, data.hashes());
        let is_first = name.segment() == Some(object.first_segment());
        if !is_first || object.len + 1 != name.len() {
            return;
        }
        let Ok(packet) = Data::parse(data.wire()) else { return };
        let Some(content) = packet.content() else { return };
        let Some(last) = packet.final_block_id().and_then(|last| last.as_segment()) else { return };
        let rest = last.saturating_add(1).saturating_sub(object.first_segment());
        let segments = object.block.map_or(rest, |block| rest.min(block.segments.get()));
        let (key, size_bytes) =
            (object.key(data.hashes()), segments.saturating_mul(content.len() as u64));
        let object = object_name(&object, name);
        requests.learn(key, LearnedSize { object, size_bytes, is_exact: false });
    }

    /// The key of the object that an Interest belongs to, by the hashes of the prefixes of its name, if VIPs were sent for it.
    pub(crate) fn find_object(&self, prefix_hashes: &[u64], wire: &[u8]) -> Option<u64> {
        // Decoded only if a rule divides names into blocks.
        let segment = || interest_name(wire)?.segment();
        self.decisions.find_object(prefix_hashes, segment)
    }

    /// Scores of objects.
    pub(crate) fn scores(&self) -> Arc<ObjectScores> {
        Arc::clone(&self.decisions.scores)
    }

    /// VIPs sent to a next hop.
    pub(crate) fn sent(&self, object: u64, face: FaceIndex) -> u64 {
        self.decisions.sent(object, face)
    }
}

/// The name of an Interest, of which nothing else is decoded.
fn interest_name(wire: &[u8]) -> Option<NameRef<'_>> {
    let interest = Reader::new(wire).read_expected(types::INTEREST).ok()?;
    let name = Reader::new(interest.value()).read_expected(types::NAME).ok()?;
    NameRef::from_tlv(&name).ok()
}

/// Number of components before the keyword, if this is the name of a segment of metadata.
fn metadata_prefix_len(name: NameRef<'_>) -> Option<usize> {
    let len = name.len().checked_sub(3)?;
    (name.component(len) == Some(METADATA)).then_some(len)
}

/// The name of an object, by that of its first segment.
fn object_name<'a>(object: &NamedObject, first: NameRef<'a>) -> NameRef<'a> {
    first.prefix(object.len + usize::from(object.block.is_some()))
}

/// The versioned name of a file and its length in bytes, in the metadata of a file server.
fn file_size(content: &[u8]) -> Option<(NameRef<'_>, u64)> {
    let mut reader = Reader::new(content);
    let name = NameRef::from_tlv(&reader.read_expected(types::NAME).ok()?).ok()?;
    while let Some(element) = reader.next_tlv().ok()? {
        if element.ty() == FILE_SIZE {
            return Some((name, element.number().ok()?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use ndn_packet::Name;

    use super::*;

    #[test]
    fn requests_beyond_the_room_are_not_counted_by_object() {
        let mut requests = VipRequests::with_capacity(3);
        let room = requests.objects.capacity().min(requests.positions.capacity()) as u64;
        let (names, places) = (requests.names.capacity(), requests.positions.capacity());
        for number in 0..room + 5 {
            let mut name = Name::from_uri("/a").unwrap();
            name.push_version(number);
            (0..=number).for_each(|_| requests.count(number, name.as_ref()));
        }
        let counted: Vec<u64> = requests.iter().map(|(_, count)| count).collect();
        assert_eq!(counted, (1..=room).collect::<Vec<_>>());
        assert_eq!(requests.uncounted(), (room + 1..=room + 5).sum::<u64>());
        assert_eq!((requests.names.capacity(), requests.positions.capacity()), (names, places));
        let mut long = Name::new();
        long.push_generic(vec![b'x'; 4000]);
        let mut requests = VipRequests::with_capacity(3);
        requests.count(1, long.as_ref());
        assert_eq!((requests.iter().count(), requests.uncounted()), (0, 1));
    }

    #[test]
    fn object_of_a_segment_is_found_before_one_of_its_name() {
        let mut next_hops = VipDecisions::default();
        let face = FaceIndex::new(3, 1);
        next_hops.insert(20, vec![(face, 7)]);
        assert_eq!(next_hops.find_object(&[1, 20, 30], || None), Some(20));
        assert_eq!(next_hops.find_object(&[1, 20], || None), Some(20));
        assert_eq!(next_hops.find_object(&[20, 2, 3], || None), None);
        assert_eq!(next_hops.find_object(&[], || None), None);
        assert_eq!((next_hops.sent(20, face), next_hops.sent(20, FaceIndex::new(4, 1))), (7, 0));
    }
}
