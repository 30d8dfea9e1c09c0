//! Capacities and policies of the Content Store, PIT, FIB and dead nonce list.

use std::path::PathBuf;
use std::time::Duration;

use ndn_caching::PolicyKind;
use ndn_packet::Name;
use ndn_types::ByteSize;

use crate::declaration::RestartReason::Memory;
use crate::declaration::{live, restart, settings, table};
use crate::value::words;

/// Maximum number of entries of a table: entry numbers in PIT tokens have 24 bits.
pub(crate) const TABLE_ENTRIES_MAX: usize = 1 << 24;

settings! {
    /// Capacities of the tables of all workers together.
    pub struct Tables {
        /// Maximum number of PIT entries.
        pit_capacity: usize = 1 << 18 => restart(Memory).within(64..=TABLE_ENTRIES_MAX),
        /// Maximum number of FIB entries. Further routes are rejected.
        fib_capacity: usize = 1 << 20 => restart(Memory).within(16..=TABLE_ENTRIES_MAX),
        /// Time for which the dead nonce list remembers the nonce of a finished Interest, to detect loops.
        dead_nonce_lifetime: Duration = Duration::from_secs(6) =>
            restart(Memory).within(Duration::from_millis(50)..=Duration::from_secs(3600)),
        /// Names of the regions of this forwarder, such as `["/net/example"]`. A forwarding hint that is a prefix of
        /// one of them has reached its region and is ignored.
        network_regions: Vec<Name> = Vec::new() => live(),
        /// The Content Store.
        cs: Cs = Cs::default() => table(),
    }
}

settings! {
    /// The Content Store, which caches Data to satisfy later Interests.
    pub struct Cs {
        /// Maximum number of Data packets. Memory is allocated as the store fills; 0 disables the store. At a reload
        /// and by `namewire cs config` it can become at most the value at the start, or 65536 if that is larger and
        /// `capacity_bytes` has room for them.
        capacity_packets: usize = 65_536 => live().within(0..=TABLE_ENTRIES_MAX),
        /// Maximum memory for Data packets. The default has room for `capacity_packets`, and at least for 65536, of any
        /// length: 9363 bytes for each.
        capacity_bytes: Option<ByteSize> = None => restart(Memory).example("\"1GiB\""),
        /// Choice of the Data that a full store evicts. `"lru"`: the least recently used. `"priority-fifo"`, which can be
        /// written `"priority_fifo"` as in NFD: unsolicited, then stale, then the oldest. `"random"`: any. `"sieve"`,
        /// `"s3-fifo"`, `"w-tinylfu"`, `"arc"`, `"lfu"`, `"windowed-lfu"`: by recency and frequency of requests; `"gdsf"`: by
        /// size, too; `"vip"`: whole objects by the scores of `[caching.vip]`, which programs built with the cargo feature `vip`
        /// have. The page on caching says what each is good for. A change evicts nothing.
        policy: PolicyKind = PolicyKind::Lru => live(),
        /// Whether forwarded Data is added to the store.
        admit: bool = true => live(),
        /// Whether Interests are satisfied from the store.
        serve: bool = true => live(),
        /// Treatment of unsolicited Data: `"drop-all"` drops it, `"admit-local"` adds it to the store if it arrived on
        /// a local face, `"admit-network"` if it arrived on a non-local face, `"admit-all"` always.
        unsolicited: UnsolicitedPolicy = UnsolicitedPolicy::DropAll => restart(Memory),
        /// The disk tier.
        disk: Disk = Disk::default() => table(),
    }
}

settings! {
    /// The disk tier of the Content Store, for Data that memory evicts. It is kept over a restart with the same size and
    /// number of workers.
    pub struct Disk {
        /// File or block device, which is locked. A file is created; contents of others are not overwritten. Without a
        /// path there is no disk tier.
        path: Option<PathBuf> = None => restart(Memory).example("\"/var/cache/namewire/content\""),
        /// Size of the file, or the part of the device that is used: at least 3 MiB, and 2 MiB more for each further
        /// worker. Required for a file; of a device, all is used without it.
        size: Option<ByteSize> = None => restart(Memory).example("\"100GiB\""),
        /// Data packets for which the index in memory has room, of all workers together. Each takes up to 32 bytes.
        /// The default is one for each KiB of the disk.
        packets: Option<usize> = None => restart(Memory).example("10000000"),
        /// Data that is written. `"second-touch"`: Data that was requested again while it was in memory, or that memory
        /// evicts for the second time. `"all"`: all Data that memory evicts.
        admission: DiskAdmission = DiskAdmission::SecondTouch => restart(Memory),
        /// Maximum number of reads in progress for each worker. Interests beyond it are forwarded.
        reads: usize = 128 => restart(Memory).within(1..=4096),
        /// Threads that read for each worker, beside one that writes. With 0, one thread reads and writes by io_uring;
        /// where the kernel refuses that, or is older than 6.1, 16 threads read.
        threads: usize = 0 => restart(Memory).within(0..=64),
    }
}

/// Which Data is written to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskAdmission {
    /// Data that was requested again, or is evicted for the second time.
    SecondTouch,
    /// All Data that memory evicts.
    All,
}

words!(DiskAdmission { "second-touch" => Self::SecondTouch, "all" => Self::All });

words!(PolicyKind {
    "lru" => Self::Lru,
    "priority-fifo" => Self::PriorityFifo,
    "priority_fifo" => Self::PriorityFifo,
    "lfu" => Self::Lfu,
    "windowed-lfu" => Self::WindowedLfu,
    "w-tinylfu" => Self::WTinyLfu,
    "s3-fifo" => Self::S3Fifo,
    "sieve" => Self::Sieve,
    "arc" => Self::Arc,
    "gdsf" => Self::Gdsf,
    "random" => Self::Random,
    "vip" => Self::Vip,
});

/// The treatment of Data that matches no PIT entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsolicitedPolicy {
    /// It is dropped.
    DropAll,
    /// It is cached if it arrives on a local face.
    AdmitLocal,
    /// It is cached if it arrives on a non-local face.
    AdmitNetwork,
    /// It is cached.
    AdmitAll,
}

words!(UnsolicitedPolicy {
    "drop-all" => Self::DropAll,
    "admit-local" => Self::AdmitLocal,
    "admit-network" => Self::AdmitNetwork,
    "admit-all" => Self::AdmitAll,
});
