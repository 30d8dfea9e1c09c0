//! Interests that the disk tier of the Content Store may answer. An Interest whose Data is read is pending as any other;
//! when the read ends, the Data is sent to all who wait, or the Interest goes to its strategy.

use ndn_disk::{Completion, ReadResult, Request, Share};
use ndn_packet::Data;
use ndn_table::{DataKey, DiskLookup, FibEntry, PREFIX_HASHES_MAX, PitIndex, PitPhase, Token};
use ndn_types::{NANOS_PER_MILLI, Timestamp};

use crate::descriptor::Flags;
use crate::incoming::{Incoming, Joined, Matches, choose_next_hops};
use crate::outgoing::{Outgoing, outgoing_data};
use crate::packet::{RxPacket, sha256};
use crate::tables::{Ending, Tables};
use crate::{CONTENT_STORE_FACE_ID, Shard, TxKind, TxPacket, TxSink, scope};

/// Time after which an Interest that its downstream sends again goes upstream, although its read has not ended.
const READ_TIMEOUT_MS: u64 = 200;

/// Disk tier of the Content Store. The worker adds a recovered share, carries its requests out on other threads, and
/// returns their completions.
impl Shard {
    /// Adds a disk tier.
    pub fn attach_disk(&mut self, disk: Box<Share>) {
        self.tables.pcct.attach_disk(disk);
    }

    /// The disk tier, if there is one.
    #[must_use]
    pub fn disk(&self) -> Option<&Share> {
        self.tables.pcct.disk()
    }

    /// The disk tier, if there is one, for its owner's commands.
    pub fn disk_mut(&mut self) -> Option<&mut Share> {
        self.tables.pcct.disk_mut()
    }

    /// The next request of the disk tier. To be called after each burst.
    pub fn poll_disk_request(&mut self) -> Option<Request> {
        self.tables.pcct.disk_mut()?.poll_request()
    }

    /// Accepts the end of a request of the disk tier, and answers the Interests that wait for it.
    pub fn complete_disk_request(
        &mut self,
        now: Timestamp,
        completion: Completion,
        tx: &mut impl TxSink,
    ) {
        let Some(disk) = self.tables.pcct.disk_mut() else { return };
        let mut next = disk.complete(now, completion);
        // If the disk was given up, reads that were requested do not take place.
        while let Some(answer) =
            next.take().or_else(|| self.tables.pcct.disk_mut().and_then(Share::abandon_read))
        {
            let outgoing = Outgoing { now, tables: &mut self.tables, tx };
            let mut incoming = Incoming::new(outgoing, &self.fib, &self.strategies);
            incoming.disk_answer(&answer, &mut self.matches);
            if let Some(disk) = self.tables.pcct.disk_mut() {
                disk.recycle(answer);
            }
        }
    }
}

impl Incoming<'_> {
    /// Passes an Interest that memory does not answer to the disk. Returns false if it goes upstream.
    #[cold]
    pub(crate) fn disk_interest(
        &mut self,
        rx: &RxPacket<'_>,
        pending: Option<&Joined>,
        is_pending: bool,
        route: &FibEntry,
    ) -> bool {
        if rx.has(Flags::NEXT_HOP) {
            return false;
        }
        match pending {
            Some(pending) => is_pending && self.join_disk_read(rx, pending, route),
            None => self.search_disk(rx, route),
        }
    }

    /// An Interest that joins one whose Data is being read waits with it.
    fn join_disk_read(&mut self, rx: &RxPacket<'_>, pending: &Joined, route: &FibEntry) -> bool {
        let hash = rx.interest_key().disk_hash();
        let waiter = waiter(self.tables(), pending.entry);
        let now = self.now();
        let Some(disk) = self.tables_mut().pcct.disk_mut() else { return false };
        let Some(began) = disk.read_began(hash, waiter) else { return false };
        let is_repeated = pending.downstreams.own.is_some();
        if is_repeated && now.nanos_since(began) > READ_TIMEOUT_MS * NANOS_PER_MILLI {
            disk.leave_read(hash, waiter);
            return false;
        }
        disk.counters().joined.increment();
        if let Err(reason) = self.join(rx, Some(pending), route.strategy()) {
            self.refuse_for_room(rx, reason);
        }
        true
    }

    fn search_disk(&mut self, rx: &RxPacket<'_>, route: &FibEntry) -> bool {
        let key = rx.interest_key();
        let tables = &mut *self.context.outgoing.tables;
        let hash = match tables.pcct.find_on_disk(&key) {
            DiskLookup::Found(packet) if key.accepts_digest(|| sha256(packet.wire)) => {
                let fresh_until = packet.fresh_until;
                let length = packet.wire.len();
                let Some(copy) = tables.scratch.get_mut(..length) else { return false };
                copy.copy_from_slice(packet.wire);
                self.serve_unwritten(rx, length, fresh_until);
                return true;
            }
            DiskLookup::Read(hash) => hash,
            DiskLookup::Found(_) | DiskLookup::Miss => {
                count_miss(tables);
                return false;
            }
        };
        let entry = match self.join(rx, None, route.strategy()) {
            Ok(entry) => entry,
            Err(reason) => {
                self.refuse_for_room(rx, reason);
                return true;
            }
        };
        let waiter = waiter(self.tables(), entry);
        let disk = self.tables_mut().pcct.disk_mut();
        if !disk.is_some_and(|disk| disk.begin_read(hash, waiter)) {
            count_miss(self.tables());
            self.tables().counters.cs_misses.increment();
            self.run_strategy(rx, entry, route);
        }
        true
    }

    /// Answers an Interest with a Data that is not written yet, and that the scratch buffer has.
    fn serve_unwritten(&mut self, rx: &RxPacket<'_>, length: usize, fresh_until: Timestamp) {
        let Outgoing { now, tables, tx } = &mut self.context.outgoing;
        tables.counters.cs_hits.increment();
        tables.counters.satisfied_interests.increment();
        count_hit(tables);
        let wire = &tables.scratch[..length];
        let data = TxPacket {
            incoming_face_id: Some(CONTENT_STORE_FACE_ID),
            ..TxPacket::new(TxKind::Data, wire, None)
        };
        let is_localhost = rx.has(Flags::LOCALHOST);
        outgoing_data(tables, &mut **tx, data, is_localhost, rx.descriptor.face, rx.token());
        promote(tables, length, fresh_until, *now);
    }

    /// The end of a read: sends the Data to all who wait for it. Interests that it does not satisfy go upstream.
    fn disk_answer(&mut self, answer: &ReadResult, matches: &mut Matches) {
        if let Some(packet) = answer.packet() {
            self.satisfy_from_disk(answer.hash, packet.wire, packet.fresh_until, matches);
        }
        for &waiter in answer.waiters() {
            let token = token(self.tables(), waiter);
            let Some(entry) = self.tables().pcct.find_token(token) else { continue };
            if self.tables().pcct.entry(entry).expiry() <= self.now() {
                self.context.outgoing.finalize_unsatisfied(entry, Ending::Expiry);
                continue;
            }
            count_miss(self.tables());
            self.tables().counters.cs_misses.increment();
            self.with_pending(entry, |context, strategy, interest| {
                choose_next_hops(context, strategy, interest);
            });
        }
    }

    fn satisfy_from_disk(
        &mut self,
        hash: u64,
        wire: &[u8],
        fresh_until: Timestamp,
        matches: &mut Matches,
    ) {
        let Ok(data) = Data::parse(wire) else { return };
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = self.tables().hasher.hash_prefixes(data.name(), &mut hashes);
        let Some(hashes) = count.map(|count| &hashes[..count]) else { return };
        let key = DataKey::new(data.name(), hashes);
        if key.name_hash() != hash {
            return;
        }
        matches.find(self.tables(), &key, wire);
        let (entries, copies) = matches.parts();
        copies.clear();
        let now = self.now();
        let is_localhost = scope::is_localhost(data.name());
        let freshness_ms = fresh_until.nanos_since(now) / NANOS_PER_MILLI;
        let mut is_requested = false;
        for &entry in entries {
            let tables = &*self.context.outgoing.tables;
            let pending = tables.pcct.entry(entry);
            if pending.expiry() <= now {
                self.context.outgoing.finalize_unsatisfied(entry, Ending::Expiry);
                continue;
            }
            if pending.must_be_fresh() && fresh_until <= now {
                continue;
            }
            is_requested = true;
            tables.counters.cs_hits.increment();
            tables.counters.cs_hits_of_pending.increment();
            count_hit(tables);
            let packet = TxPacket {
                incoming_face_id: Some(CONTENT_STORE_FACE_ID),
                ..TxPacket::new(TxKind::Data, wire, None)
            };
            for record in tables.pcct.in_records(entry) {
                let record_token = tables.pcct.token_bytes(record);
                if record.expiry() > now
                    && tables.faces.find(record.face).is_some()
                    && copies.insert(record.face, tables.hasher.hash_value(record_token))
                {
                    let tx = &mut *self.context.outgoing.tx;
                    outgoing_data(tables, tx, packet, is_localhost, record.face, record_token);
                }
            }
            if tables.pcct.entry(entry).phase() == PitPhase::Held {
                self.context.outgoing.drop_held(entry);
                self.tables_mut().pcct.entry_mut(entry).set_phase(PitPhase::Pending);
            }
            self.context.outgoing.finalize_satisfied(entry, freshness_ms);
        }
        if is_requested {
            self.tables_mut().pcct.promote_data(&key, wire, fresh_until, now);
        }
    }
}

/// Inserts a Data in the scratch buffer into memory.
fn promote(tables: &mut Tables, length: usize, fresh_until: Timestamp, now: Timestamp) {
    let Tables { scratch, pcct, hasher, .. } = tables;
    let wire = &scratch[..length];
    let Ok(data) = Data::parse(wire) else { return };
    let mut hashes = [0; PREFIX_HASHES_MAX];
    if let Some(count) = hasher.hash_prefixes(data.name(), &mut hashes) {
        let key = DataKey::new(data.name(), &hashes[..count]);
        pcct.promote_data(&key, wire, fresh_until, now);
    }
}

fn count_hit(tables: &Tables) {
    tables.pcct.disk().into_iter().for_each(|disk| disk.counters().hits.increment());
}

fn count_miss(tables: &Tables) {
    tables.pcct.disk().into_iter().for_each(|disk| disk.counters().misses.increment());
}

/// The number that stands for a PIT entry in a read.
fn waiter(tables: &Tables, entry: PitIndex) -> u64 {
    let Token { entry, generation, .. } = tables.pcct.token(entry, tables.shard);
    u64::from(entry) << 16 | u64::from(generation)
}

fn token(tables: &Tables, waiter: u64) -> Token {
    let [g0, g1, e0, e1, e2, e3, ..] = waiter.to_le_bytes();
    Token {
        shard: tables.shard,
        entry: u32::from_le_bytes([e0, e1, e2, e3]),
        generation: u16::from_le_bytes([g0, g1]),
    }
}
