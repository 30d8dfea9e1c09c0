//! Caching and forwarding by virtual Interests.

use std::time::Duration;

use ndn_packet::Name;
use ndn_types::{ByteSize, FaceUri};

use crate::declaration::RestartReason::ManagementSetup;
use crate::declaration::{Reload, list_item, live, restart, settings, table, tables, value};
use crate::faces::{check_depth, check_peer, example_prefix, example_uri};
use crate::management::TrustRules;
use crate::value::words;

settings! {
    /// Caches that cooperate.
    pub struct Caching {
        /// Caching and forwarding by virtual Interests (VIP).
        vip: Vip = Vip::default() => table(),
    }
}

settings! {
    /// Caching and forwarding by virtual Interests (VIP): forwarders count requests by object, exchange the counts, and derive
    /// next hops (strategy `vip`) and the objects to be cached from them. **The method is patented in the United States
    /// (US 12155738 B2). Only programs built with the cargo feature `vip` have it; whether you need a licence is yours to
    /// decide before you enable it.** The replacement policy `vip` of the Content Store (`tables.cs.policy`) uses the scores. An
    /// object is the name of its Data without the segment, or what `rules` say.
    pub struct Vip {
        /// Whether this forwarder takes part.
        enabled: bool = false => restart(ManagementSetup),
        /// Signers whose reports of counts, and whose acknowledgements of reports, are accepted from neighbours, as
        /// `management.localhop_rib`. Those of this forwarder are signed by `management.identity`. A reload reads the trust
        /// anchors again. `"nobody"`: only the requests of this host count.
        signers: TrustRules = TrustRules::Nobody => live(),
        /// Duration of a slot, in which counts are exchanged once. Neighbours have the same; their slots need not start at
        /// the same time.
        slot: Duration = Duration::from_secs(1) =>
            restart(ManagementSetup).within(Duration::from_millis(100)..=Duration::from_secs(60)),
        /// Number of slots over which arrived and sent VIPs are averaged.
        window_slots: usize = 100 => restart(ManagementSetup).within(1..=10_000),
        /// Maximum number of objects. Neighbours and this host share them.
        objects: usize = 1024 => restart(ManagementSetup).within(16..=65_536),
        /// Size of objects until it is known: the FinalBlockId of a first segment or the metadata of a file show it, or a
        /// neighbour reports it.
        object_size: ByteSize = ByteSize::mebibytes(1) =>
            restart(ManagementSetup).within(ByteSize::kibibytes(1)..=ByteSize::mebibytes(1 << 20)),
        /// Rate at which a link carries Data in each direction, per second. `links` sets that of single ones.
        link_rate: ByteSize = ByteSize::mebibytes(125) =>
            restart(ManagementSetup).within(ByteSize::kibibytes(1)..=ByteSize::mebibytes(1 << 20)),
        /// Size of the cache that objects are chosen for. The default is 8KiB for each packet of
        /// `tables.cs.capacity_packets`.
        cache_size: Option<ByteSize> = None => restart(ManagementSetup).example("\"20GiB\""),
        /// Rate at which the cache is read, per second.
        read_rate: ByteSize = ByteSize::mebibytes(125) =>
            restart(ManagementSetup).within(ByteSize::kibibytes(1)..=ByteSize::mebibytes(1 << 20)),
        /// Score by which objects are cached. `"count"`: the VIPs that wait here (VIP). `"arrivals"`: the mean of those that
        /// arrived in the window (VIP2).
        score: VipScore = VipScore::Count => restart(ManagementSetup),
        /// Score that a cached object costs, in thousandths of a request. Objects whose score does not exceed it are evicted
        /// first. With `score = "arrivals"`, scores are requests per slot.
        read_penalty: u32 = 0 => restart(ManagementSetup).within(0..=1_000_000_000),
        /// Score that writing an object costs, in addition, in thousandths of a request. An object takes the place of one with
        /// a score only if its score per byte, after this cost, is higher.
        write_penalty: u32 = 0 => restart(ManagementSetup).within(0..=1_000_000_000),
        /// Rates of links that differ from `link_rate`.
        links: Vec<VipLink> = Vec::new() => tables(Reload::Restart(ManagementSetup)),
        /// Objects of names under a prefix, at most 64. The longest prefix decides.
        rules: Vec<ObjectRule> = Vec::new() => tables(Reload::Restart(ManagementSetup)),
    }
}

list_item! {
    /// The rate of the link to a peer.
    pub struct VipLink {
        /// Remote URI of the face, as `namewire faces` prints it.
        uri: FaceUri = example_uri() => value().required().checked(check_remote),
        /// Rate at which the link carries Data in each direction, per second.
        rate: ByteSize = ByteSize::mebibytes(25) =>
            value().required().within(ByteSize::kibibytes(1)..=ByteSize::mebibytes(1 << 20)),
    }
}

/// Checks that a URI is the remote URI of a face, which has no host name.
fn check_remote(uri: &FaceUri) -> Result<(), String> {
    match uri.has_host_name() {
        true => Err(format!("{uri} has a host name: the remote URI of a face has an address")),
        false => check_peer(uri),
    }
}

list_item! {
    /// The objects of the names under a prefix: the name with `components` components after the prefix, or blocks of
    /// `block_segments` segments. A rule has one of the two. Interests for the object itself, and for first segments under it,
    /// are its requests. Sizes of objects are not learned if several names with segments belong to one.
    pub struct ObjectRule {
        /// Name prefix.
        prefix: Name = example_prefix() => value().required().checked(check_depth),
        /// Number of components after the prefix.
        components: Option<usize> = None => value().within(Some(0)..=Some(32)).example("2"),
        /// Number of segments of a block: the first block of a file, the next one and so on are objects of their own, so
        /// that parts of large files are cached.
        block_segments: Option<u32> = None =>
            value().within(Some(1)..=Some(1_000_000_000)).example("8192"),
    }
}

/// The score of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VipScore {
    /// VIPs that wait.
    Count,
    /// Mean of the VIPs that arrived.
    Arrivals,
}

words!(VipScore { "count" => Self::Count, "arrivals" => Self::Arrivals });
