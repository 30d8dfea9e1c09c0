//! Counters of a share: written by its thread, read by any thread.

ndn_types::counters! {
    /// Counters of the disk tier of one shard.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub struct DiskCounters, DiskValues {
        /// Whether the disk is in use. It is not before its index is rebuilt, and after an error.
        in_use: Gauge(Entries),
        /// Interests that the disk answered.
        hits: Monotone(Packets) as "disk hits",
        /// Interests that neither memory nor disk answered.
        misses: Monotone(Packets) as "disk misses",
        /// Interests that joined a read in progress.
        joined: Monotone(Packets),
        /// Interests sent upstream because too many reads were in progress.
        reads_refused: Monotone(Packets),
        /// Reads of the disk for Interests.
        reads: Monotone(Requests),
        /// Time from the begin of such a read to its end.
        read_ns: Monotone(Nanoseconds),
        /// Reads for Interests that took longer than 10 ms.
        reads_slow: Monotone(Requests),
        /// Reads that failed.
        read_errors: Monotone(Requests),
        /// Records read with a wrong checksum, each a miss.
        checksum_errors: Monotone(Packets),
        /// Records read that were another packet, erased, or no longer fresh enough, each a miss.
        mismatches: Monotone(Packets),
        /// Packets evicted from memory.
        offered: Monotone(Packets),
        /// Packets not written because they were offered for the first time.
        first_offers: Monotone(Packets),
        /// Packets not written because the disk has them.
        unchanged: Monotone(Packets),
        /// Packets written.
        admitted: Monotone(Packets),
        /// Bytes of these packets.
        admitted_bytes: Monotone(Bytes),
        /// Packets not written because the disk was behind.
        writes_refused: Monotone(Packets),
        /// Packets written again because they were read since they were written.
        survivors: Monotone(Packets),
        /// Bytes written to the disk. Divided by `admitted_bytes`, the write amplification.
        written_bytes: Monotone(Bytes) as "disk bytes written",
        /// Packets removed because their segment was the oldest, or the index was full.
        evicted: Monotone(Packets),
        /// Packets of which the index had no room for another one.
        displaced: Monotone(Packets),
        /// Packets in the index.
        packets: Gauge(Packets) as "disk packets",
        /// Memory of the index and of the lists of segments.
        index_bytes: Gauge(Bytes),
        /// Bytes of the share.
        capacity_bytes: Gauge(Bytes),
        /// Packets found again at the start.
        recovered: Monotone(Packets),
        /// Prefixes erased.
        erasures: Monotone(Requests),
    }
}
