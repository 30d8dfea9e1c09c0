//! VIP in networks of whole forwarders on virtual time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use namewire_config::{ByteSize, Config, ObjectRule, TrustRules, VipLink};
use namewire_control::{VipObject, VipStatus};
use namewire_daemon::{Environment, Management, Seeds, SteppedForwarder};
use ndn_caching::PolicyKind;
use ndn_dataplane::MemoryFaceOptions;
use ndn_face::InternalEnd;
use ndn_management::{DataSigner, DigestSigner};
use ndn_packet::tlv::{append_name, append_number};
use ndn_packet::{
    Component, Data, DataBuilder, Interest, InterestBuilder, LpPacket, Name, SignatureInfo,
};
use ndn_security::Signer;
use ndn_sys::clock::ManualClock;
use ndn_types::{FaceUri, LinkType, Persistency, Scope, Timestamp};
use ndn_vip::{Entry, REQUEST, Report, Score, Settings, VirtualPlane};

/// No listeners, independent of the machine. Three objects of a MiB are cached, and a link carries ten per slot.
const SETTINGS: &str = "control.enabled = false\n\
    [forwarder]\nworkers = 1\n\
    [pool]\ncapacity = \"16 MiB\"\npages = \"ordinary\"\n\
    [tables]\npit_capacity = 1000\nfib_capacity = 1000\n\
    [tables.cs]\ncapacity_packets = 0\n\
    [caching.vip]\nenabled = true\nsigners = \"any\"\nslot = \"1s\"\nwindow_slots = 10\nobjects = 32\n\
    link_rate = \"10MiB\"\ncache_size = \"3MiB\"\nread_rate = \"3MiB\"\n\
    [listeners]\nudp.enabled = false\ntcp.enabled = false\nwebsocket.enabled = false\n\
    multicast.enabled = false\n";

const SLOT: Duration = Duration::from_secs(1);
const OBJECTS: u64 = 8;
const PREFIX: &str = "/objects";
/// Prefix of the objects whose Data has a FinalBlockId, and their number of segments of 7 bytes.
const SIZED: &str = "/objects/sized";
const SIZED_SEGMENTS: u64 = 300_000;
/// A file whose metadata has its length. Its Data has a FinalBlockId; the last segment is shorter than the others.
const FILE: &str = "/objects/file/v=1";
const FILE_BYTES: u64 = 123_456;

fn config(workers: usize) -> Config {
    // `parse` also rejects a configuration without listeners.
    let text = SETTINGS.replace("workers = 1", &format!("workers = {workers}"));
    let mut config = namewire_config::parse("test", &text).unwrap();
    config.listeners.unix.enabled = false;
    config
}

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn object(number: u64) -> Name {
    let mut object = name(PREFIX);
    object.push_generic(number.to_string()).push_version(1);
    object
}

fn face(number: u64, scope: Scope) -> MemoryFaceOptions {
    MemoryFaceOptions {
        number,
        link_type: LinkType::PointToPoint,
        scope,
        principal: None,
        persistency: Persistency::Permanent,
        mtu: 8800,
        queue_frames_max: 1024,
    }
}

/// A forwarder with a consumer, and its ends of links.
struct Node {
    forwarder: SteppedForwarder,
    consumer: InternalEnd,
    producer: Option<InternalEnd>,
    /// FaceId and the other end of the face, by neighbour.
    links: BTreeMap<usize, (u64, InternalEnd)>,
    /// Objects that the producer was asked for.
    produced: u64,
    /// Data that the consumer has got.
    consumed: u64,
}

struct Network {
    clock: ManualClock,
    nodes: Vec<Node>,
    /// Nodes that answer nothing.
    dead: Vec<usize>,
    nonce: u32,
}

impl Network {
    fn new(configs: Vec<Config>, links: &[(usize, usize)]) -> Self {
        let clock =
            ManualClock::new(Timestamp::from_millis(1000), Duration::from_secs(1_767_225_600));
        let nodes = configs.iter().zip(0..).map(|(config, seed)| {
            let environment =
                Environment { clock: clock.clone().into(), seeds: Seeds::from_number(seed) };
            let mut forwarder = SteppedForwarder::new(config, &environment).unwrap();
            let (_, consumer) = forwarder.add_memory_face(&face(1, Scope::Local)).unwrap();
            let (links, producer) = (BTreeMap::new(), None);
            Node { forwarder, consumer, producer, links, produced: 0, consumed: 0 }
        });
        let nodes = nodes.collect();
        let mut network = Self { clock, nodes, dead: Vec::new(), nonce: 0 };
        for &(a, b) in links {
            for (node, neighbour) in [(a, b), (b, a)] {
                let options = face(10 + neighbour as u64, Scope::NonLocal);
                let added = network.nodes[node].forwarder.add_memory_face(&options).unwrap();
                network.nodes[node].links.insert(neighbour, added);
            }
        }
        let (id, end) = network.nodes[0].forwarder.add_memory_face(&face(2, Scope::Local)).unwrap();
        network.nodes[0].forwarder.add_route(&name(PREFIX), id, 0).unwrap();
        network.nodes[0].producer = Some(end);
        network
    }

    /// Adds a route, in the order of costs.
    fn route(&mut self, node: usize, next_hops: &[usize]) {
        for (cost, next_hop) in next_hops.iter().enumerate() {
            let face_id = self.nodes[node].links[next_hop].0;
            let forwarder = &mut self.nodes[node].forwarder;
            forwarder.add_route(&name(PREFIX), face_id, cost as u64).unwrap();
        }
    }

    fn set_strategy(&mut self, node: usize, strategy: &str) {
        let strategy = name(&format!("/localhost/nfd/strategy/{strategy}"));
        self.nodes[node].forwarder.set_strategy(&name(PREFIX), &strategy).unwrap();
    }

    /// Requests the first segment of an object.
    fn request(&mut self, node: usize, number: u64) {
        self.request_object(node, object(number));
    }

    fn request_object(&mut self, node: usize, object: Name) {
        let mut segment = object;
        segment.push_segment(0);
        self.request_name(node, &segment);
    }

    fn request_name(&mut self, node: usize, name: &Name) {
        self.nonce += 1;
        let interest = InterestBuilder::new(name).nonce(self.nonce).lifetime_ms(900);
        self.nodes[node].consumer.send(interest.to_vec().unwrap()).unwrap();
        self.settle();
    }

    /// Moves frames and steps forwarders until nothing happens.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut is_active = false;
            for node in 0..self.nodes.len() {
                is_active |= self.nodes[node].forwarder.step().unwrap();
                is_active |= self.move_frames(node);
            }
            if !is_active {
                return;
            }
        }
        panic!("the network never rests");
    }

    fn move_frames(&mut self, node: usize) -> bool {
        let mut has_moved = false;
        let neighbours: Vec<usize> = self.nodes[node].links.keys().copied().collect();
        for neighbour in neighbours {
            while let Some(frame) = self.nodes[node].links.get_mut(&neighbour).unwrap().1.receive()
            {
                has_moved = true;
                if !self.dead.contains(&node) && !self.dead.contains(&neighbour) {
                    let far = self.nodes[neighbour].links.get_mut(&node).unwrap();
                    far.1.send(frame).unwrap();
                }
            }
        }
        let Node { producer, produced, consumer, consumed, .. } = &mut self.nodes[node];
        while let Some(frame) = producer.as_mut().and_then(InternalEnd::receive) {
            let packet = LpPacket::parse(&frame).unwrap();
            let interest = Interest::parse(packet.fragment().unwrap()).unwrap();
            let segments = [(SIZED, SIZED_SEGMENTS), (FILE, FILE_BYTES.div_ceil(7))];
            let requested = interest.name();
            let sized = segments.iter().find(|one| requested.starts_with(name(one.0).as_ref()));
            let mut last = Name::new();
            if let Some((_, count)) = sized {
                last.push_segment(count - 1);
            }
            let metadata = Component::keyword(b"metadata");
            let is_metadata = interest.name().components().any(|one| one == metadata);
            let content = if is_metadata { file_metadata() } else { b"content".to_vec() };
            let mut data = DataBuilder::new(interest.name()).content(&content);
            if let Some(last) = last.as_ref().last() {
                data = data.final_block_id(last);
            }
            producer.as_mut().unwrap().send(DigestSigner.sign(&data).unwrap()).unwrap();
            *produced += 1;
            has_moved = true;
        }
        while let Some(frame) = consumer.receive() {
            let packet = LpPacket::parse(&frame).unwrap();
            *consumed += u64::from(Data::parse(packet.fragment().unwrap()).is_ok());
            has_moved = true;
        }
        has_moved
    }

    fn run(&mut self, duration: Duration) {
        let end = self.clock.now() + duration;
        loop {
            self.settle();
            let deadlines = self.nodes.iter().filter_map(|node| node.forwarder.next_deadline());
            let next = deadlines.map(|(at, _)| at).min().unwrap();
            if next > end {
                self.clock.advance_to(end);
                return;
            }
            self.clock.advance_to(next.max(self.clock.now().plus_nanos(1)));
        }
    }

    /// Slots in which `node` requests object `n` twice as often as object `n + 1`, from 8 times.
    fn load(&mut self, node: usize, slots: u32) {
        for _ in 0..slots {
            for number in 0..4 {
                (0..requests(number)).for_each(|_| self.request(node, number));
            }
            self.run(SLOT);
        }
    }

    fn status(&self, node: usize) -> VipStatus {
        self.nodes[node].forwarder.vip().unwrap()
    }

    fn object(&self, node: usize, number: u64) -> Option<VipObject> {
        let uri = object(number).to_uri();
        self.status(node).objects.into_iter().find(|object| object.name == uri)
    }

    /// VIPs sent over the window to a neighbour.
    fn sent(&self, node: usize, neighbour: usize) -> u64 {
        let face_id = self.nodes[node].links[&neighbour].0;
        let objects = self.status(node).objects;
        objects.iter().filter_map(|object| object.sent.get(&face_id)).sum()
    }
}

/// The metadata of the file as file servers encode it.
fn file_metadata() -> Vec<u8> {
    let mut content = Vec::new();
    append_name(&mut content, name(FILE).as_ref());
    append_number(&mut content, 0xF500, 8000);
    append_number(&mut content, 0xF502, FILE_BYTES);
    content
}

/// Five forwarders; node 0 has the producer, node 4 the consumer.
fn line(config: &Config) -> Network {
    line_of(vec![config.clone(); 5])
}

fn line_of(configs: Vec<Config>) -> Network {
    let links: Vec<_> = (1..5).map(|node| (node - 1, node)).collect();
    let mut network = Network::new(configs, &links);
    (1..5).for_each(|node| network.route(node, &[node - 1]));
    network
}

#[test]
fn requests_of_a_line_of_five_reach_the_source_as_vips() {
    for workers in [1, 3] {
        let mut network = line(&config(workers));
        network.load(4, 30);
        let status = network.status(4);
        // All requests are counted, but those since the last exchange with the workers.
        let requested = status.counters["requested"] / 1_000_000;
        assert!((15 * 27..=15 * 30).contains(&requested), "{requested}");
        assert!(status.neighbours.iter().all(|one| one.is_connected && one.is_reporting));
        let source = network.status(0);
        assert!(source.counters["absorbed"] > 20_000_000, "{:?}", source.counters);
        assert!(source.objects.iter().all(|object| object.is_source && object.count == 0));
        // Only node 4 has local requests.
        assert_eq!(network.status(2).counters["requested"], 0);
        assert_eq!(network.nodes[4].consumed, network.nodes[0].produced);
    }
}

/// A link that carries two objects per slot, where others carry ten.
#[test]
fn link_with_a_rate_of_its_own_carries_fewer_vips() {
    let sent = |links: Vec<VipLink>| {
        let mut configs = vec![config(1); 5];
        configs[4].caching.vip.links = links;
        let mut network = line_of(configs);
        network.load(4, 30);
        network.sent(4, 3) / REQUEST
    };
    let rate = ByteSize(2 << 20);
    let link = |neighbour: u64| VipLink { uri: FaceUri::memory(10 + neighbour), rate };
    // The window has ten slots.
    let (slow, fast) = (sent(vec![link(3)]), sent(vec![link(2)]));
    assert!((1..=20).contains(&slow) && fast > 20, "{slow} {fast}");
}

/// Requests for object `number` in a slot.
fn requests(number: u64) -> u64 {
    8 >> number
}

/// The objects that each node of the line caches, in the order of their scores, by the equations with
/// slots that are synchronised and an exchange that takes no time.
fn predicted(slots: u32) -> Vec<Vec<u64>> {
    let plane = |node: usize| {
        let mut plane = VirtualPlane::new(Settings {
            slot_ms: 1000,
            cache_bytes: 3 << 20,
            read_bytes_per_s: 3 << 20,
            window_slots: 10,
            score: Score::Arrivals,
            read_penalty: 0,
            write_penalty: 0,
        });
        for _ in 0..4 {
            plane.add_object(1 << 20, node == 0);
        }
        // Neighbour 0 is closer to the source, neighbour 1 farther away.
        for neighbour in 0..2 {
            plane.add_neighbour(10 << 20, 10 << 20);
            (0..4).for_each(|object| plane.set_routable(neighbour, object, neighbour == 0));
        }
        plane.set_present(0, node > 0);
        plane.set_present(1, node < 4);
        plane
    };
    let mut planes: Vec<VirtualPlane> = (0..5).map(plane).collect();
    for _ in 0..slots {
        for (number, object) in (0..4).zip(0..) {
            planes[4].request(object, requests(number) * REQUEST);
        }
        planes.iter_mut().for_each(VirtualPlane::end_slot);
        for node in 0..5 {
            let counts: Vec<_> =
                (0..4).map(|object| (object, planes[node].count(object))).collect();
            if node > 0 {
                planes[node - 1].receive_counts(1, &counts);
            }
            if node < 4 {
                planes[node + 1].receive_counts(0, &counts);
            }
        }
        for node in 1..5 {
            for transfer in planes[node].start_slot() {
                planes[node - 1].receive_vips(1, transfer.object, transfer.amount);
            }
        }
        planes[0].start_slot();
    }
    let order = |plane: &VirtualPlane| {
        let objects = (0..4).zip(0..).filter(|(_, object)| plane.is_cached(*object));
        let mut objects: Vec<(u64, usize)> = objects.collect();
        objects.sort_by_key(|&(_, object)| Reverse(plane.score(object)));
        objects.into_iter().map(|(number, _)| number).collect()
    };
    planes.iter().map(order).collect()
}

#[test]
fn objects_are_cached_in_the_order_that_the_equations_predict() {
    let mut config = config(1);
    config.caching.vip.score = namewire_config::VipScore::Arrivals;
    let mut network = line(&config);
    network.load(4, 60);
    let predicted = predicted(60);
    assert_eq!(predicted[4], [0, 1, 2]);
    // The third one varies with the times at which slots start, since it is requested rarely.
    for (node, predicted) in predicted.iter().enumerate().skip(1) {
        let status = network.status(node);
        let number = |uri: &str| (0..4).find(|&number| object(number).to_uri() == uri).unwrap();
        let objects = status.objects.iter().filter(|one| one.is_cached);
        let objects: Vec<u64> = objects.map(|one| number(&one.name)).collect();
        assert_eq!(objects[..2], predicted[..2], "{node}");
    }
}

/// A popular object among objects that are requested once, at a Content Store of two packets.
#[test]
fn content_store_keeps_the_object_of_highest_score() {
    let produced = |policy: PolicyKind, capacity_packets: usize| {
        let mut with_store = config(1);
        with_store.tables.cs.capacity_packets = capacity_packets;
        with_store.tables.cs.policy = policy;
        with_store.caching.vip.score = namewire_config::VipScore::Arrivals;
        let mut network = Network::new(vec![config(1), with_store], &[(0, 1)]);
        network.route(1, &[0]);
        let mut once = 100;
        let mut slot = |network: &mut Network| {
            let before = network.nodes[0].produced;
            for _ in 0..8 {
                network.request(1, 0);
                (0..3).for_each(|number| network.request(1, once + number));
                once += 3;
            }
            network.run(SLOT);
            network.nodes[0].produced - before
        };
        for _ in 0..10 {
            slot(&mut network);
        }
        let produced = (0..10).map(|_| slot(&mut network)).sum::<u64>();
        assert_eq!(network.nodes[1].consumed, 20 * 32);
        produced
    };
    assert_eq!(produced(PolicyKind::Lru, 2), 10 * 32);
    assert_eq!(produced(PolicyKind::Vip, 2), 10 * 24);
    assert_eq!(produced(PolicyKind::Vip, 0), 10 * 32, "without a store");
}

/// A second object takes the place of the first only if the gain exceeds the write penalty.
#[test]
fn content_store_replaces_an_object_if_the_gain_exceeds_the_penalty() {
    let produced = |write_penalty: u32| {
        let mut with_store = config(1);
        with_store.tables.cs.capacity_packets = 1;
        with_store.tables.cs.policy = PolicyKind::Vip;
        with_store.caching.vip.score = namewire_config::VipScore::Arrivals;
        with_store.caching.vip.write_penalty = write_penalty;
        let mut network = Network::new(vec![config(1), with_store], &[(0, 1)]);
        network.route(1, &[0]);
        let mut slot = |requests: [u64; 2]| {
            let before = network.nodes[0].produced;
            for (number, count) in (0..).zip(requests) {
                (0..count).for_each(|_| network.request(1, number));
            }
            network.run(SLOT);
            network.nodes[0].produced - before
        };
        (0..10).for_each(|_| _ = slot([4, 0]));
        (0..15).for_each(|_| _ = slot([4, 6]));
        (0..10).map(|_| slot([4, 6])).sum::<u64>()
    };
    // Scores of 4 and 6 requests per slot.
    assert_eq!([0, 1500, 2500].map(produced), [40, 40, 60]);
}

#[test]
fn sizes_of_objects_are_those_of_their_data() {
    let mut network = line(&config(1));
    let mut sized = name(SIZED);
    sized.push_version(1);
    let (metadata, file) = (name("/objects/file/32=metadata/v=1"), name(FILE));
    assert_ne!(FILE_BYTES % 7, 0, "the size by the FinalBlockId is another one");
    for _ in 0..20 {
        network.request_object(4, metadata.clone());
        (0..8).for_each(|_| network.request_object(4, sized.clone()));
        (0..8).for_each(|_| network.request_object(4, file.clone()));
        network.request(4, 0);
        network.run(SLOT);
    }
    let known = [(sized.to_uri(), 7 * SIZED_SEGMENTS), (file.to_uri(), FILE_BYTES)];
    let mut nodes = [0; 2];
    for node in 0..5 {
        for object in network.status(node).objects {
            let place = known.iter().position(|(uri, _)| *uri == object.name);
            place.into_iter().for_each(|place| nodes[place] += 1);
            // Without a FinalBlockId or metadata, the size stays that of the settings.
            let default_bytes = config(1).caching.vip.object_size.0;
            let expected = place.map_or(default_bytes, |place| known[place].1);
            assert_eq!(object.size_bytes, expected, "{node}: {}", object.name);
        }
    }
    assert!(nodes.iter().all(|nodes| *nodes >= 3), "{nodes:?} nodes know the objects");
}

/// Blocks of a file are requested, exchanged, sized and cached as objects of their own.
#[test]
fn blocks_of_a_file_are_objects() {
    const BLOCK: u32 = 200_000;
    let mut configs = vec![config(1); 5];
    for config in &mut configs {
        config.caching.vip.rules = vec![ObjectRule {
            prefix: name(PREFIX),
            components: None,
            block_segments: Some(BLOCK),
        }];
    }
    let store = &mut configs[4];
    store.tables.cs.capacity_packets = 2;
    store.tables.cs.policy = PolicyKind::Vip;
    store.caching.vip.score = namewire_config::VipScore::Arrivals;
    let mut network = line_of(configs);
    let mut file = name(SIZED);
    file.push_version(1);
    let segment = |number: u64| {
        let mut segment = file.clone();
        segment.push_segment(number);
        segment
    };
    let second = u64::from(BLOCK);
    let slot = |network: &mut Network| {
        let before = network.nodes[0].produced;
        for round in 0..8 {
            // The second block is requested more often; the last segment of it is no first one.
            let segments = [second, second + 1, 0, 1];
            segments[..if round < 2 { 4 } else { 2 }]
                .iter()
                .for_each(|&number| network.request_name(4, &segment(number)));
        }
        network.run(SLOT);
        network.nodes[0].produced - before
    };
    (0..15).for_each(|_| _ = slot(&mut network));
    assert_eq!(slot(&mut network), 4, "the second block is cached, the first one is not");
    for node in 0..5 {
        let objects = network.status(node).objects.into_iter();
        let objects: Vec<_> = objects.map(|object| (object.name, object.size_bytes)).collect();
        let rest = SIZED_SEGMENTS - second;
        let expected = [(segment(0).to_uri(), 7 * second), (segment(second).to_uri(), 7 * rest)];
        let is_known = |object: &(String, u64)| expected.contains(object);
        assert!(objects.iter().all(is_known), "{node}: {objects:?}");
        assert!(node != 4 || objects.len() == 2, "{objects:?}");
    }
}

#[test]
fn object_of_a_rule_has_the_requests_for_all_its_names() {
    let mut config = config(1);
    config.caching.vip.rules =
        vec![ObjectRule { prefix: name(PREFIX), components: Some(0), block_segments: None }];
    let mut network = line(&config);
    network.load(4, 20);
    for node in 0..5 {
        let status = network.status(node);
        let names: Vec<&str> = status.objects.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, [PREFIX], "{node}");
    }
    assert!(network.status(0).counters["absorbed"] > 20_000_000);
}

/// 4 is connected with 0 by 1 and by 2 and 3.
fn diamond() -> Network {
    let links = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)];
    let mut network = Network::new(vec![config(1); 5], &links);
    network.route(1, &[0]);
    network.route(2, &[0]);
    network.route(3, &[1, 2]);
    network.route(4, &[3]);
    (1..5).for_each(|node| network.set_strategy(node, "vip"));
    network
}

#[test]
fn interests_follow_the_vips_over_both_ways() {
    let mut network = diamond();
    network.load(4, 40);
    assert!(network.sent(3, 1) > 0 && network.sent(3, 2) > 0);
    let interests = |network: &mut Network, neighbour: usize| {
        let face_id = network.nodes[3].links[&neighbour].0;
        let faces = network.nodes[3].forwarder.faces().unwrap();
        let face = faces.iter().find(|face| face.properties.face_id == face_id).unwrap();
        face.counters.out_interests
    };
    // For each object, the Interests of one slot leave for the neighbour that was sent most VIPs.
    for number in 0..4 {
        let sent = network.object(3, number).unwrap().sent;
        let of = |neighbour: usize| {
            sent.get(&network.nodes[3].links[&neighbour].0).copied().unwrap_or(0)
        };
        let (first, second) = (of(1), of(2));
        if first == second {
            continue;
        }
        let chosen = if first > second { 1 } else { 2 };
        let before = interests(&mut network, chosen);
        network.request(4, number);
        assert_eq!(interests(&mut network, chosen), before + 1, "{number} {sent:?}");
    }
}

#[test]
fn failed_neighbour_is_avoided_and_used_again_after_recovery() {
    let mut network = diamond();
    network.load(4, 20);
    for dead in [1, 2] {
        network.dead = vec![dead];
        network.load(4, 20);
        assert_eq!(network.sent(3, dead), 0, "VIPs to {dead}");
        assert!(network.sent(3, 3 - dead) > 0);
        // Objects without VIPs are forwarded as by best-route, which does not leave a next hop.
        let mut count = 0;
        for number in 0..4 {
            if network.object(3, number).is_some_and(|object| !object.sent.is_empty()) {
                let before = network.nodes[4].consumed;
                network.request(4, number);
                assert_eq!(network.nodes[4].consumed, before + 1, "{number} without {dead}");
                count += 1;
            }
        }
        assert!(count > 0);
        network.dead.clear();
        network.run(Duration::from_secs(70));
        network.load(4, 20);
        assert!(network.sent(3, dead) > 0, "{dead} is sent VIPs again");
    }
}

#[test]
fn false_reports_of_a_neighbour_have_bounded_effect() {
    let mut network = diamond();
    // A liar beside node 3, by a link that the test plays.
    let (liar, mut end) =
        network.nodes[3].forwarder.add_memory_face(&face(99, Scope::NonLocal)).unwrap();
    network.load(4, 10);
    let (mut time_ms, mut sequence) = (1_767_225_600_000, 1);
    for _ in 0..20 {
        for _ in 0..40 {
            let entry = |number: u64| Entry {
                name: object(1000 + number),
                size_bytes: 1,
                count: u64::MAX,
                sent: u64::MAX,
            };
            // The first report of a session has no entries.
            let names = if sequence == 1 { 0..0 } else { sequence * 40..sequence * 40 + 40 };
            let entries = names.map(entry).collect();
            time_ms += 1;
            let report = Report { session: 1, sequence, slot_ms: 1000, entries };
            end.send(signed_report(&report, time_ms)).unwrap();
            network.settle();
            let is_data = |frame: Vec<u8>| {
                LpPacket::parse(&frame).unwrap().fragment().is_some_and(|wire| wire[0] == 6)
            };
            while let Some(frame) = end.receive() {
                sequence += u64::from(is_data(frame));
            }
        }
        network.load(4, 1);
    }
    assert!((20 * 16..=22 * 16).contains(&sequence), "{sequence} reports were accepted");
    let status = network.status(3);
    assert_eq!(status.objects_count, 32, "the limit of objects holds");
    assert!(status.counters["reports_refused"] > 0 && status.counters["objects_evicted"] > 0);
    for number in 0..4 {
        assert!(network.object(3, number).is_some(), "{number} stays");
    }
    let liar_sent = |object: &VipObject| object.sent.contains_key(&liar);
    assert!(!status.objects.iter().any(liar_sent), "it is no next hop");
    assert!(network.sent(3, 1) > 0 || network.sent(3, 2) > 0);
    let before = network.nodes[4].consumed;
    network.load(4, 10);
    assert_eq!(network.nodes[4].consumed - before, 150);
}

fn signed_report(report: &Report, time_ms: u64) -> Vec<u8> {
    let signer = ndn_security::DigestSigner;
    let nonce = time_ms.to_be_bytes();
    let info =
        SignatureInfo { nonce: Some(&nonce), time_ms: Some(time_ms), ..signer.signature_info() };
    let sign = |parts: &[&[u8]], out: &mut [u8]| signer.sign(parts, out).ok();
    InterestBuilder::new(&ndn_vip::prefix())
        .nonce(u32::try_from(time_ms % 1_000_000).unwrap())
        .lifetime_ms(500)
        .parameters(&report.to_vec())
        .to_vec_signed(&info, signer.signature_len_max(), sign, ndn_security::sha256)
        .unwrap()
}

#[test]
fn peer_of_an_on_demand_face_is_a_neighbour_only_by_an_accepted_report() {
    let report = Report { session: 1, sequence: 1, slot_ms: 1000, entries: Vec::new() };
    for (signers, expected) in [(TrustRules::Any, 1), (TrustRules::Nobody, 0)] {
        let mut config = config(1);
        config.caching.vip.signers = signers;
        let mut network = Network::new(vec![config], &[]);
        let options =
            MemoryFaceOptions { persistency: Persistency::OnDemand, ..face(100, Scope::NonLocal) };
        let (_, mut end) = network.nodes[0].forwarder.add_memory_face(&options).unwrap();
        network.settle();
        assert!(network.status(0).neighbours.is_empty());
        end.send(signed_report(&report, 1_767_225_600_001)).unwrap();
        network.settle();
        assert_eq!(network.status(0).neighbours.len(), expected);
    }
}

#[test]
fn reports_that_no_rule_accepts_have_no_effect() {
    let mut strict = config(1);
    strict.caching.vip.signers = TrustRules::Nobody;
    let mut network = Network::new(vec![strict, config(1)], &[(0, 1)]);
    network.route(1, &[0]);
    network.load(1, 10);
    // Acknowledgements are refused, too.
    assert!(network.status(0).neighbours.iter().all(|one| !one.is_reporting && !one.is_connected));
    assert!(network.status(1).neighbours.iter().all(|one| one.is_reporting && !one.is_connected));
    assert!(network.status(0).objects.is_empty());
    assert_eq!(network.status(1).counters["sent"], 0, "it does not confirm");
}

#[test]
fn forwarder_without_vip_receives_probes_only() {
    let mut without = config(1);
    without.caching.vip.enabled = false;
    let mut network = Network::new(vec![without, config(1)], &[(0, 1)]);
    network.route(1, &[0]);
    network.load(1, 100);
    assert!(network.nodes[0].forwarder.vip().is_none());
    let status = network.status(1);
    assert!(status.neighbours.iter().all(|one| !one.is_reporting && !one.is_connected));
    // At intervals that double, from a quarter of a second up to a minute.
    assert!((5..=12).contains(&status.counters["reports_sent"]), "{:?}", status.counters);
    assert_eq!(network.nodes[1].consumed, 100 * 15);
}

#[test]
fn restarted_forwarder_takes_part_again() {
    let mut network = line(&config(1));
    network.load(4, 10);
    // Its faces stay: only the exchange is lost, as after a restart behind a datagram link.
    network.dead = vec![2];
    network.run(Duration::from_secs(30));
    assert!(network.status(1).neighbours.iter().any(|one| !one.is_reporting));
    network.dead.clear();
    network.run(Duration::from_secs(70));
    network.load(4, 20);
    for node in 0..5 {
        let neighbours = network.status(node).neighbours;
        assert!(neighbours.iter().all(|one| one.is_connected && one.is_reporting), "{node}");
    }
    let objects = network.status(0).objects_count;
    assert!((1..=OBJECTS).contains(&objects), "{objects}");
}
