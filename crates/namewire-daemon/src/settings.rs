//! Converts the configuration into data-plane options.

use ndn_caching::PolicyKind;
use ndn_dataplane::{
    DataplaneOptions, OnDemandOptions, OverloadOptions, ShedAction, WorkerOptions, WorkerPlacement,
};
use ndn_face::{FaceSetOptions, LinkOptions, ReassemblyLimits, ReconnectWaits};
use ndn_forwarding::{PitTokenPolicy, ShardConfig, UnsolicitedPolicy};
use ndn_ring::{BLOCK_SIZE, PagePreference};
use ndn_sys::udp::UdpSocket;
use ndn_table::{NameHasher, PcctConfig};
use ndn_types::{Reserves, Timestamp, duration_ms};

use crate::config::{self, Config, FaceDefaults, Limits};
use crate::environment::Environment;

/// Minimum of the Content Store's maximum capacity at run time, if its bytes suffice. It is not larger because the index
/// is spread over its whole range, and a small index stays in the CPU cache.
const CS_PACKETS_MIN: usize = 65_536;
/// Bytes that the smallest cached packet takes.
const CS_PACKET_BYTES_MIN: usize = 128;
/// Nonces remembered per PIT entry.
const DEAD_NONCES_PER_PIT_ENTRY: usize = 2;
/// Number of name components for dispatch to workers.
pub const DISPATCH_DEPTH: usize = 2;
/// Minimum packet buffer blocks per worker: those that its UDP input holds for receiving, and the same number for
/// streams, copies and packets in transit, so that neither starves the other. Of the latter, each other worker may hold one block
/// until the end of its round.
const POOL_BLOCKS_MIN: u32 = 64;
/// Minimum bytes per worker for the output of peers that do not read, and for incomplete messages. However many workers
/// there are, a burst of large packets fits.
const OUTPUT_BYTES_MIN: usize = 16 << 20;
const REASSEMBLY_BYTES_MIN: usize = 4 << 20;
/// Maximum concurrent strategy timers.
const STRATEGY_TIMERS: usize = 65_536;

/// Returns the options of the data plane.
pub(super) fn dataplane_options(
    config: &Config,
    places: &[WorkerPlacement],
    channels: Vec<Vec<(UdpSocket, bool)>>,
    environment: &Environment,
) -> DataplaneOptions {
    let count = places.len();
    let hasher = NameHasher::new(environment.seeds.name_hash_key);
    let now = environment.clock.now();
    let forwarding = places.iter().filter(|place| place.roles.forwards).count();
    let defaults = FaceSetOptions::default();
    DataplaneOptions {
        shard: shard_config(config, hasher, forwarding, now),
        pool_blocks: saturate(share(config.pool.capacity.0, count) / BLOCK_SIZE as u64)
            .max(POOL_BLOCKS_MIN),
        pool_pages: match config.pool.pages {
            config::Pages::Best => PagePreference::Best,
            config::Pages::Transparent => PagePreference::Transparent,
            config::Pages::Ordinary => PagePreference::Ordinary,
        },
        faces: FaceSetOptions {
            first_sequence: environment.seeds.first_sequence,
            reconnect_waits: ReconnectWaits {
                first: config.faces.reconnect_min,
                longest: config.faces.reconnect_max,
            },
            output_bytes_max: (defaults.output_bytes_max / count).max(OUTPUT_BYTES_MIN),
            reassembly_bytes_max: (defaults.reassembly_bytes_max / count).max(REASSEMBLY_BYTES_MIN),
            reserves: reserves(&config.limits),
        },
        faces_max: config.limits.faces,
        workers: worker_options(places, channels),
        dispatch_depth: DISPATCH_DEPTH,
        on_demand: OnDemandOptions {
            mtu: mtu(&config.faces),
            link: LinkOptions {
                interests_per_second: config.limits.interests_per_second,
                ..datagram_link(&config.faces, &config.limits)
            },
            idle_timeout: config.faces.idle_timeout,
            pit_tokens: PitTokenPolicy::WhenSeen,
            per_peer_max: config.limits.faces_per_peer,
        },
        spin: config.forwarder.spin,
        overload: overload_options(&config.overload),
        nonce_seed: environment.seeds.nonce,
        interest_lifetime_max: config.limits.interest_lifetime,
        remote_lifetime_max: config.limits.remote_interest_lifetime,
        default_hop_limit: config.forwarder.default_hop_limit,
        clock: environment.clock.clone(),
    }
}

/// The reserves of every resource that principals share.
pub(crate) fn reserves(limits: &Limits) -> Reserves {
    Reserves {
        management: limits.management_reserve,
        local: limits.local_reserve,
        neighbour: limits.neighbour_reserve,
    }
}

fn overload_options(overload: &config::Overload) -> OverloadOptions {
    let config::Overload { mark_after, shed_after, interval, shed, answers_first } = *overload;
    let shed = match shed {
        config::Shed::Nack => ShedAction::Nack,
        config::Shed::Drop => ShedAction::Drop,
        config::Shed::Never => ShedAction::Never,
    };
    OverloadOptions { mark_after, shed_after, interval, shed, answers_first }
}

/// Returns the options of each worker; workers with faces get a set of sockets each.
fn worker_options(
    places: &[WorkerPlacement],
    channels: Vec<Vec<(UdpSocket, bool)>>,
) -> Vec<WorkerOptions> {
    let mut channels = channels.into_iter();
    let worker = |place: &WorkerPlacement| WorkerOptions {
        channels: if place.roles.has_faces() { channels.next() } else { None }.unwrap_or_default(),
        cpu: place.cpu,
        node: place.node,
        roles: place.roles,
        disk: None,
    };
    places.iter().map(worker).collect()
}

/// Returns the share of each of `count` workers.
fn share(total: u64, count: usize) -> u64 {
    total.div_ceil(count as u64)
}

/// Returns the configuration of one of `count` shards.
fn shard_config(config: &Config, hasher: NameHasher, count: usize, now: Timestamp) -> ShardConfig {
    let tables = &config.tables;
    let packets = cs_capacity_max(config).div_ceil(count);
    let pit_capacity = tables.pit_capacity.div_ceil(count);
    let pit_entries = saturate(pit_capacity as u64);
    let sized = PcctConfig::with_capacity(pit_entries, saturate(packets as u64), now);
    let bytes = cs_bytes(config, count).min(super::memory::cs_bytes_max()).div_ceil(count);
    ShardConfig {
        shard: 0,
        hasher,
        pcct: PcctConfig {
            reserves: reserves(&config.limits),
            cs_bytes_max: bytes,
            cs_policy: super::vip::policy_at_start(config),
            ..sized
        },
        dead_nonce_lifetime_ms: duration_ms(tables.dead_nonce_lifetime),
        dead_nonce_capacity: pit_capacity.saturating_mul(DEAD_NONCES_PER_PIT_ENTRY),
        strategy_timer_capacity: STRATEGY_TIMERS,
        unsolicited: match tables.cs.unsolicited {
            config::UnsolicitedPolicy::DropAll => UnsolicitedPolicy::DropAll,
            config::UnsolicitedPolicy::AdmitLocal => UnsolicitedPolicy::AdmitLocal,
            config::UnsolicitedPolicy::AdmitNetwork => UnsolicitedPolicy::AdmitNetwork,
            config::UnsolicitedPolicy::AdmitAll => UnsolicitedPolicy::AdmitAll,
        },
    }
}

/// Returns the memory for packets of the Content Store that the configuration asks for, for `count` shards together.
pub(super) fn cs_bytes(config: &Config, count: usize) -> usize {
    let packets = saturate(cs_capacity_max(config).div_ceil(count) as u64);
    let bytes_of_packets =
        || PcctConfig::with_capacity(0, packets, Timestamp::default()).cs_bytes_max;
    match config.tables.cs.capacity_bytes {
        Some(size) => usize::try_from(size.0).unwrap_or(usize::MAX),
        None => bytes_of_packets().saturating_mul(count),
    }
}

/// Returns the reason why this system has no memory for a replacement policy of the Content Store: it may take a quarter
/// of what the system has.
pub(super) fn policy_excess(config: &Config, policy: PolicyKind) -> Option<String> {
    let packets = cs_capacity_max(config);
    let bytes = packets.saturating_mul(policy.entry_bytes_max());
    let most = usize::try_from(super::memory::system_bytes() / 4).unwrap_or(usize::MAX);
    let reason = || {
        format!(
            "tables.cs.policy: {policy} needs {} MiB for up to {packets} packets, more than a quarter of the memory of this \
             system",
            bytes >> 20
        )
    };
    (bytes > most).then(reason)
}

/// Maximum prefixes in the shards' FIB: all prefixes with next hops and all with a strategy choice, so that an
/// accepted choice can always be applied.
pub(super) const fn fib_entries_max(config: &Config) -> usize {
    config.tables.fib_capacity + ndn_management::STRATEGY_CHOICES_MAX
}

/// Maximum Content Store capacity at run time, in packets.
pub(super) fn cs_capacity_max(config: &Config) -> usize {
    let cs = &config.tables.cs;
    let bytes = cs.capacity_bytes.and_then(|size| usize::try_from(size.0).ok());
    let fitting = bytes.map_or(usize::MAX, |bytes| bytes / CS_PACKET_BYTES_MIN);
    cs.capacity_packets.max(CS_PACKETS_MIN.min(fitting))
}

/// Link service options of a stream face.
pub(super) fn stream_link(faces: &FaceDefaults, limits: &Limits) -> LinkOptions {
    LinkOptions {
        congestion_marking: faces.congestion_marking,
        congestion_interval: faces.congestion_interval,
        congestion_threshold: size(faces.congestion_threshold),
        queue_bytes_max: size(faces.send_queue),
        reassembly: ReassemblyLimits {
            fragments_max: limits.reassembly_fragments,
            messages_max: limits.reassembly_packets,
            timeout: limits.reassembly_timeout,
        },
        ..LinkOptions::stream()
    }
}

/// Link service options of a datagram face.
pub(super) fn datagram_link(faces: &FaceDefaults, limits: &Limits) -> LinkOptions {
    LinkOptions { mtu: Some(mtu(faces)), ..stream_link(faces, limits) }
}

/// Largest frame of a datagram face.
pub(super) fn mtu(faces: &FaceDefaults) -> usize {
    size(faces.mtu)
}

fn size(size: config::ByteSize) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}

fn saturate(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
