//! [`Share`]: the disk tier of one shard, as a state machine.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use ndn_types::{NANOS_PER_MILLI, Timestamp};

use crate::counters::DiskCounters;
use crate::erasures::{Erasures, Position};
use crate::format::{PACKET_BYTES_MAX, Record, Superblock, name_of};
use crate::ghosts::Ghosts;
use crate::index::{Index, Place};
use crate::log::{Log, Segment};
use crate::reads::{Purpose, Read, Reads, WAITERS_MAX};
use crate::request::{Buffer, Completion, ReadFault, Request, blocks};

/// Time after which records that wait for a whole write are written.
const FLUSH_AFTER_MS: u64 = 1000;
/// Reads that fail one after the other until the disk is given up.
const READ_ERRORS_MAX: u32 = 64;
/// Reads for Interests that take longer are counted.
const SLOW_READ_MS: u64 = 10;
/// Part of each segment that is given to packets written again, so that writes are at most this much more.
const SURVIVOR_PART: u64 = 10;
/// Packets of the next segment that are examined for each packet appended, so that the turn of a segment takes little
/// time at once.
const CLEANED_PER_APPEND: usize = 4;
/// First component of names that are not written to the disk: they are of this host.
const LOCALHOST: &[u8] = b"\x08\x09localhost";

/// Which packets that memory evicts are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Those that were requested again since they arrived, or that were evicted before: a scan is not written.
    #[default]
    SecondTouch,
    /// All.
    All,
}

/// Settings of a share.
#[derive(Clone, Copy, Debug)]
pub struct ShareOptions {
    /// Description of the file.
    pub superblock: Superblock,
    /// Number of the share.
    pub share: u32,
    /// Number of packets for which the index has room. A packet takes at most 32 bytes of memory.
    pub packets_max: usize,
    /// Maximum number of reads in progress for Interests.
    pub reads_max: usize,
    /// Admission.
    pub admission: Admission,
    /// The time 0 of the clock, in milliseconds since 1970.
    pub unix_origin_ms: u64,
}

/// A cached packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The whole Data.
    pub wire: &'a [u8],
    /// End of its freshness; [`Timestamp::ZERO`] for Data that was never fresh.
    pub fresh_until: Timestamp,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// There is no Data.
    Miss,
    /// The Data, which has not left memory yet. The caller compares the name.
    Buffered(Packet<'a>),
    /// There may be Data on the disk: [`Share::begin_read`].
    OnDisk,
}

/// End of a read that Interests waited for.
#[derive(Debug)]
pub struct ReadResult {
    /// Hash of the name.
    pub hash: u64,
    waiters: [u64; WAITERS_MAX],
    waiter_count: usize,
    buffer: Buffer,
    packet: Option<(std::ops::Range<usize>, Timestamp)>,
}

impl ReadResult {
    /// The waiters, as passed to [`Share::begin_read`] and [`Share::join_read`].
    #[must_use]
    pub fn waiters(&self) -> &[u64] {
        &self.waiters[..self.waiter_count]
    }

    /// The Data; `None` if the read failed. Its name has the right hash, and is to be compared.
    #[must_use]
    pub fn packet(&self) -> Option<Packet<'_>> {
        let (range, fresh_until) = self.packet.as_ref()?;
        let wire = self.buffer.bytes().get(range.clone())?;
        Some(Packet { wire, fresh_until: *fresh_until })
    }
}

/// Removal of the oldest segment, while the one before it is filled.
#[derive(Debug, Default)]
struct Cleaning {
    slot: u32,
    /// The next hash of the segment.
    next: usize,
    /// Bytes left for packets that are written again.
    survivor_bytes: u64,
    /// Packets that are being read to be written again.
    surviving: Vec<u64>,
}

/// Disk tier of one shard.
///
/// The owner calls [`offer`](Self::offer) for packets that leave memory, [`find`](Self::find) and
/// [`begin_read`](Self::begin_read) for Interests that memory does not answer, passes each [`Request`] of
/// [`poll_request`](Self::poll_request) to a thread that carries it out, and returns its [`Completion`] to
/// [`complete`](Self::complete).
#[derive(Debug)]
pub struct Share {
    options: ShareOptions,
    log: Log,
    index: Index,
    ghosts: Ghosts,
    reads: Reads,
    erasures: Erasures,
    /// End of the record of the last erasure.
    last_erasure: Position,
    cleaning: Cleaning,
    requests: VecDeque<Request>,
    now: Timestamp,
    flush_at: Option<Timestamp>,
    is_flushing: bool,
    read_errors: u32,
    /// Why the disk was given up.
    failure: Option<String>,
    counters: Arc<DiskCounters>,
}

/// Contents of a share, as recovered.
pub(crate) struct Contents {
    pub(crate) segments: Vec<Segment>,
    pub(crate) next_sequence: u64,
    pub(crate) index: Index,
    pub(crate) erasures: Erasures,
}

impl Share {
    pub(crate) fn with_contents(options: ShareOptions, contents: Contents) -> Self {
        let Contents { segments, next_sequence, index, erasures } = contents;
        let log = Log::new(options.superblock, options.share, segments, next_sequence);
        let slot = log.next_slot();
        let survivor_bytes = u64::from(options.superblock.segment_bytes) / SURVIVOR_PART;
        let counters = Arc::<DiskCounters>::default();
        counters.recovered.set(index.len() as u64);
        counters.capacity_bytes.set(
            u64::from(options.superblock.segments) * u64::from(options.superblock.segment_bytes),
        );
        let share = Self {
            options,
            log,
            index,
            ghosts: Ghosts::new(options.packets_max / 4),
            reads: Reads::new(options.reads_max),
            erasures,
            last_erasure: Position::default(),
            cleaning: Cleaning { slot, survivor_bytes, ..Cleaning::default() },
            requests: VecDeque::with_capacity(options.reads_max * 2),
            now: Timestamp::ZERO,
            flush_at: None,
            is_flushing: false,
            read_errors: 0,
            failure: None,
            counters,
        };
        share.counters.in_use.set(1);
        share.publish_levels();
        share
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Arc<DiskCounters> {
        &self.counters
    }

    /// Why the disk was given up; `None` while it is in use.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Number of packets in the index.
    #[must_use]
    pub fn packet_count(&self) -> usize {
        self.index.len()
    }

    /// Bytes of memory per packet of the index, when it has as many as it has room for.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.index.bytes() + self.ghosts.bytes() + self.log.bytes()
    }
}

// Packets that memory evicts.
impl Share {
    /// Offers a Data that leaves memory. `was_requested` is whether it answered an Interest since it arrived.
    pub fn offer(&mut self, hash: u64, packet: Packet<'_>, was_requested: bool) {
        if self.failure.is_some() || packet.wire.len() > PACKET_BYTES_MAX {
            return;
        }
        let Some(name) = name_of(packet.wire).filter(|name| !name.starts_with(LOCALHOST)) else {
            return;
        };
        self.counters.offered.increment();
        let fresh_until_ms = self.unix_ms(packet.fresh_until);
        let record = Record { is_erasure: false, hash, fresh_until_ms, bytes: packet.wire };
        match self.index.find(hash) {
            Some(place) if self.has_same(place, name, &record, packet.fresh_until) => {
                self.counters.unchanged.increment();
                return;
            }
            Some(_) => {}
            None => {
                let is_admitted = match self.options.admission {
                    Admission::All => true,
                    Admission::SecondTouch => was_requested || self.ghosts.is_second(hash),
                };
                if !is_admitted {
                    self.counters.first_offers.increment();
                    return;
                }
            }
        }
        if self.append(&record) {
            self.counters.admitted.increment();
            self.counters.admitted_bytes.add(packet.wire.len() as u64);
        } else {
            self.counters.writes_refused.increment();
        }
    }

    /// Whether the disk has the packet already, and it is as fresh there.
    fn has_same(&self, place: Place, name: &[u8], record: &Record<'_>, fresh: Timestamp) -> bool {
        place.units() == Record::units_of(record.bytes.len())
            && place.tag() == record.tag()
            && (place.may_be_fresh() || fresh <= self.now)
            && !self.erasures.cover(name, self.log.position(place))
    }

    /// Appends a record to the log. Returns false if the disk is behind.
    fn append(&mut self, record: &Record<'_>) -> bool {
        if self.log.needs_segment(Record::units_of(record.bytes.len())) {
            if !self.log.can_open() {
                return false;
            }
            self.open_segment();
        }
        let Some(appended) = self.log.append(record) else { return false };
        if record.is_erasure {
            let units = u32::from(u8::try_from(appended.place.units()).unwrap_or(0));
            let Position { sequence, unit } = appended.position;
            self.last_erasure = Position { sequence, unit: unit + units };
        } else {
            let end = appended.place.location();
            let units = self.log.units();
            let has_displaced = self.index.insert(record.hash, appended.place, end, units);
            self.counters.displaced.add(u64::from(has_displaced));
        }
        if self.flush_at.is_none() {
            self.flush_at = Some(self.now.plus_millis(FLUSH_AFTER_MS));
        }
        self.clean(CLEANED_PER_APPEND);
        true
    }

    /// Opens the next segment, in the place of the oldest.
    fn open_segment(&mut self) {
        self.finish_cleaning();
        self.log.open_next();
        self.erasures.forget_before(self.log.oldest());
        let segment_bytes = u64::from(self.options.superblock.segment_bytes);
        self.cleaning.slot = self.log.next_slot();
        self.cleaning.next = 0;
        self.cleaning.survivor_bytes = segment_bytes / SURVIVOR_PART;
    }

    /// Removes up to `count` packets of the oldest segment from the index, or has them read, to be written again.
    fn clean(&mut self, count: usize) {
        for _ in 0..count {
            let slot = self.cleaning.slot;
            let hashes = &self.log.segments[slot as usize].hashes;
            let Some(&hash) = hashes.get(self.cleaning.next) else { return };
            self.cleaning.next += 1;
            let Some(place) = self.index.find(hash).filter(|&p| self.log.split(p).0 == slot) else {
                continue;
            };
            if place.is_hot() && self.begin_survival(hash, place) {
                continue;
            }
            self.index.remove(hash, place.location());
            self.counters.evicted.increment();
        }
    }

    /// Reads a packet that is to be written again; false if there is no room for it.
    fn begin_survival(&mut self, hash: u64, place: Place) -> bool {
        let bytes = (place.units() * crate::format::UNIT) as u64;
        if bytes > self.cleaning.survivor_bytes || !self.request_read(hash, place, Purpose::Survive)
        {
            return false;
        }
        self.cleaning.survivor_bytes -= bytes;
        self.cleaning.surviving.push(hash);
        true
    }

    /// Removes what is left of the oldest segment from the index.
    fn finish_cleaning(&mut self) {
        self.clean(usize::MAX);
        let slot = self.log.next_slot();
        for hash in std::mem::take(&mut self.cleaning.surviving) {
            if let Some(place) = self.index.find(hash).filter(|&p| self.log.split(p).0 == slot) {
                self.index.remove(hash, place.location());
                self.counters.evicted.increment();
            }
        }
    }

    /// A packet of the oldest segment was read.
    fn survive(&mut self, read: &Read, packet: Packet<'_>) {
        let is_current =
            self.index.find(read.hash).is_none_or(|p| p.location() == read.place.location());
        let is_erased =
            name_of(packet.wire).is_none_or(|name| self.erasures.cover(name, read.position));
        let fresh_until_ms = self.unix_ms(packet.fresh_until);
        let record =
            Record { is_erasure: false, hash: read.hash, fresh_until_ms, bytes: packet.wire };
        if is_current && !is_erased && self.append(&record) {
            self.counters.survivors.increment();
        }
    }
}

// Interests.
impl Share {
    /// The Data of a name, by the hash of the name. `must_be_fresh` is that of the Interest.
    pub fn find(&mut self, hash: u64, must_be_fresh: bool) -> Lookup<'_> {
        let Some(place) = self.index.find(hash) else { return Lookup::Miss };
        if must_be_fresh && !place.may_be_fresh() {
            return Lookup::Miss;
        }
        let Some(record) = self.log.buffered(place) else { return Lookup::OnDisk };
        let fresh_until = timestamp(record.fresh_until_ms, self.options.unix_origin_ms);
        let position = self.log.position(place);
        let is_erased =
            name_of(record.bytes).is_none_or(|name| self.erasures.cover(name, position));
        if is_erased || record.hash != hash || must_be_fresh && fresh_until <= self.now {
            return Lookup::Miss;
        }
        self.index.update(hash, place.hot());
        Lookup::Buffered(Packet { wire: record.bytes, fresh_until })
    }

    /// Begins the read of a record that [`find`](Self::find) has found [on the disk](Lookup::OnDisk), for `waiter`,
    /// or joins the read in progress. Returns false, and counts it, if there is no room.
    pub fn begin_read(&mut self, hash: u64, waiter: u64) -> bool {
        if self.join_read(hash, waiter) {
            return true;
        }
        let has_begun = match self.index.find(hash) {
            Some(place) if self.reads.serving_mut(hash).is_none() => {
                self.request_read(hash, place, Purpose::Serve)
            }
            Some(_) | None => false,
        };
        if has_begun && let Some(read) = self.reads.serving_mut(hash) {
            self.counters.reads.increment();
            return read.add_waiter(waiter);
        }
        self.counters.reads_refused.increment();
        false
    }

    /// Adds `waiter` to the read in progress of a hash; false if there is none, or too many wait for it.
    pub fn join_read(&mut self, hash: u64, waiter: u64) -> bool {
        let has_joined = self.reads.serving_mut(hash).is_some_and(|read| read.add_waiter(waiter));
        self.counters.joined.add(u64::from(has_joined));
        has_joined
    }

    /// When the read that `waiter` waits for has begun; `None` if it waits for none.
    #[must_use]
    pub fn read_began(&mut self, hash: u64, waiter: u64) -> Option<Timestamp> {
        let read = self.reads.serving_mut(hash)?;
        read.waiters().contains(&waiter).then_some(read.began)
    }

    /// `waiter` no longer waits for a read.
    pub fn leave_read(&mut self, hash: u64, waiter: u64) {
        if let Some(read) = self.reads.serving_mut(hash) {
            read.remove_waiter(waiter);
        }
    }

    fn request_read(&mut self, hash: u64, place: Place, purpose: Purpose) -> bool {
        let position = self.log.position(place);
        let read = Read {
            hash,
            place,
            position,
            purpose,
            began: self.now,
            waiters: [0; WAITERS_MAX],
            waiter_count: 0,
        };
        let Some((ticket, buffer)) = self.reads.begin(read) else { return false };
        let (from, length, skip) = blocks(place.location(), place.units());
        self.requests.push_back(Request::Read {
            ticket,
            segment: self.log.id(position.sequence),
            unit: position.unit,
            hash,
            offset: self.log.offset() + from,
            length,
            skip,
            buffer,
        });
        true
    }
}

// Requests and their ends.
impl Share {
    /// Sets the time, and does what is due. To be called in every round.
    pub fn poll(&mut self, now: Timestamp) {
        self.now = now;
        if self.failure.is_some() {
            return;
        }
        if self.flush_at.is_some_and(|at| at <= now) {
            self.flush();
        }
        self.write_erasures();
        self.publish_levels();
    }

    /// When [`poll`](Self::poll) next has work.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.flush_at.filter(|_| self.failure.is_none())
    }

    /// Writes everything that is in memory as soon as possible.
    pub fn flush(&mut self) {
        self.flush_at = None;
        self.is_flushing = true;
    }

    /// Whether everything that was appended is on the disk.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.failure.is_some() || self.log.is_flushed()
    }

    /// The next request to be carried out.
    pub fn poll_request(&mut self) -> Option<Request> {
        if self.failure.is_some() {
            return None;
        }
        if let Some(request) = self.requests.pop_front() {
            return Some(request);
        }
        let write = self.log.next_write(self.is_flushing);
        if write.is_none() && !self.log.has_unwritten() {
            self.is_flushing = false;
        }
        write
    }

    /// Accepts the end of a request. Returns what the Interests that wait for it get; [`recycle`](Self::recycle) it
    /// afterwards.
    pub fn complete(&mut self, now: Timestamp, completion: Completion) -> Option<ReadResult> {
        self.now = now;
        match completion {
            Completion::Write { sequence, end, length, result, buffer } => {
                self.log.return_buffer(buffer);
                match result {
                    Ok(()) => {
                        self.counters.written_bytes.add(length as u64);
                        self.log.note_written(sequence, end);
                    }
                    Err(error) => self.fail(format!("cannot write: {error}")),
                }
                None
            }
            Completion::Read { ticket, result, buffer } => {
                let Some(read) = self.reads.end(ticket) else {
                    self.reads.recycle(buffer);
                    return None;
                };
                let found = match result {
                    Ok(found) => {
                        self.read_errors = 0;
                        let until = timestamp(found.fresh_until_ms, self.options.unix_origin_ms);
                        let wire = buffer.bytes().get(found.packet.clone()).unwrap_or_default();
                        self.accept(&read, Packet { wire, fresh_until: until })
                            .then_some((found.packet, until))
                    }
                    Err(fault) => {
                        self.note_fault(&read, fault);
                        None
                    }
                };
                self.end_read(&read, buffer, found)
            }
        }
    }

    /// Returns the memory of an answer.
    pub fn recycle(&mut self, answer: ReadResult) {
        self.reads.recycle(answer.buffer);
    }

    /// Whether a packet that was read may be used.
    fn accept(&mut self, read: &Read, packet: Packet<'_>) -> bool {
        let is_valid =
            name_of(packet.wire).is_some_and(|name| !self.erasures.cover(name, read.position));
        if !is_valid {
            self.index.remove(read.hash, read.place.location());
            self.counters.mismatches.increment();
            return false;
        }
        if read.purpose == Purpose::Serve
            && let Some(place) = self.index.find(read.hash)
            && place.location() == read.place.location()
        {
            let is_stale = packet.fresh_until <= self.now;
            let place = if is_stale { place.stale() } else { place };
            self.index.update(read.hash, place.hot());
        }
        true
    }

    fn note_fault(&mut self, read: &Read, fault: ReadFault) {
        self.index.remove(read.hash, read.place.location());
        match fault {
            // Its segment was overwritten while the read waited.
            ReadFault::Checksum if self.log.position(read.place) != read.position => {
                self.counters.mismatches.increment();
            }
            ReadFault::Checksum => self.counters.checksum_errors.increment(),
            ReadFault::Other => self.counters.mismatches.increment(),
            ReadFault::Io(error) => {
                self.counters.read_errors.increment();
                self.read_errors += 1;
                if self.read_errors >= READ_ERRORS_MAX {
                    self.fail(format!("cannot read: {error}"));
                }
            }
        }
    }

    fn end_read(
        &mut self,
        read: &Read,
        buffer: Buffer,
        packet: Option<(std::ops::Range<usize>, Timestamp)>,
    ) -> Option<ReadResult> {
        if read.purpose == Purpose::Survive {
            if let Some((range, fresh_until)) = packet
                && let Some(wire) = buffer.bytes().get(range)
            {
                self.survive(read, Packet { wire, fresh_until });
            }
            self.reads.recycle(buffer);
            return None;
        }
        let took_ns = self.now.nanos_since(read.began);
        self.counters.read_ns.add(took_ns);
        self.counters.reads_slow.add(u64::from(took_ns > SLOW_READ_MS * NANOS_PER_MILLI));
        let Read { hash, waiters, waiter_count, .. } = *read;
        Some(ReadResult { hash, waiters, waiter_count, buffer, packet })
    }

    /// Gives the disk up, because of an error that it or its threads reported. Interests that wait are answered
    /// when their reads end.
    pub fn fail(&mut self, reason: String) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(reason);
        self.index.clear();
        self.log.clear();
        self.cleaning = Cleaning::default();
        self.counters.in_use.set(0);
        self.publish_levels();
    }

    /// Reads that were requested and not passed on, when the disk was given up: their Interests go upstream.
    pub fn abandon_read(&mut self) -> Option<ReadResult> {
        self.failure.as_ref()?;
        loop {
            match self.requests.pop_front()? {
                Request::Read { ticket, buffer, .. } => {
                    let Some(read) = self.reads.end(ticket) else { continue };
                    if let Some(answer) = self.end_read(&read, buffer, None) {
                        return Some(answer);
                    }
                }
                Request::Write { buffer, .. } => self.log.return_buffer(buffer),
            }
        }
    }

    /// The end of a read in progress, once the threads have ended without its result.
    pub fn lost_read(&self) -> Option<Completion> {
        let ticket = self.reads.any()?;
        let result = Err(ReadFault::Io(io::ErrorKind::BrokenPipe.into()));
        Some(Completion::Read { ticket, result, buffer: Buffer::new(0) })
    }

    fn publish_levels(&self) {
        self.counters.packets.set(self.index.len() as u64);
        self.counters.index_bytes.set(self.memory_bytes() as u64);
    }

    fn unix_ms(&self, time: Timestamp) -> u64 {
        match time {
            Timestamp::ZERO => 0,
            time => time.as_millis().saturating_add(self.options.unix_origin_ms),
        }
    }
}

// Erasures.
impl Share {
    /// Erases all Data under a prefix, given as the value of its Name TLV. It takes effect at once, and stays in effect
    /// after a restart once [`erasures_are_durable`](Self::erasures_are_durable).
    pub fn erase(&mut self, prefix: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        self.counters.erasures.increment();
        if !self.erasures.add(prefix, self.log.end(), false) {
            // More prefixes than can be remembered: all Data is erased, which one erasure expresses.
            self.erasures.clear();
            self.erasures.add(&[], self.log.end(), false);
        }
        self.write_erasures();
        self.flush();
    }

    /// Forgets the Data of one name, given by its hash. Nothing is written: a restart may find it again.
    pub fn forget(&mut self, hash: u64) {
        if let Some(place) = self.index.find(hash) {
            self.index.remove(hash, place.location());
        }
    }

    /// Whether all erasures are on the disk.
    #[must_use]
    pub fn erasures_are_durable(&self) -> bool {
        self.failure.is_some()
            || self.erasures.unwritten().is_none() && self.log.is_durable(self.last_erasure)
    }

    fn write_erasures(&mut self) {
        while let Some(prefix) = self.erasures.unwritten() {
            let prefix = prefix.to_vec();
            let record = Record { is_erasure: true, hash: 0, fresh_until_ms: 0, bytes: &prefix };
            if !self.append(&record) {
                return;
            }
            self.erasures.note_written(self.last_erasure);
            self.flush();
        }
    }
}

/// A time in milliseconds since 1970 on the clock; 0 is never.
fn timestamp(unix_ms: u64, origin_ms: u64) -> Timestamp {
    match unix_ms.saturating_sub(origin_ms) {
        0 => Timestamp::ZERO,
        since_origin => Timestamp::from_millis(since_origin),
    }
}
