//! A worker without a thread: the embedder runs its rounds.

use ndn_packet::NameRef;
use ndn_sys::poll::Events;
use ndn_table::FaceIndex;
use ndn_types::Timestamp;

use crate::command::WorkerLedgers;
use crate::worker::{EVENTS_PER_ROUND, Worker};

/// A worker that runs in [`step`](Self::step) only. It never blocks: sockets are polled with a timeout of
/// zero, and the time is that of the clock in [`DataplaneOptions`](crate::DataplaneOptions).
///
/// A simulation steps all workers until none did anything, then advances its clock to the earliest
/// [`next_deadline`](Self::next_deadline). The faults that it can plant (`lose_…`) verify that its checks find them;
/// they change queues and timers between two steps, so the packet path has no code for them.
#[derive(Debug)]
pub struct SteppedWorker {
    /// None once it was stopped and has ended.
    worker: Option<Box<Worker>>,
    events: Events,
    /// The deadline after the last step.
    deadline: Option<Timestamp>,
}

impl SteppedWorker {
    pub(crate) fn new(worker: Worker) -> Self {
        let events = Events::with_capacity(EVENTS_PER_ROUND);
        Self { worker: Some(Box::new(worker)), events, deadline: Some(Timestamp::ZERO) }
    }

    /// Runs one round if anything is ready or due. Returns whether it did anything: carried out a command, moved a packet,
    /// took a message of another worker or ran a timer.
    pub fn step(&mut self) -> bool {
        let Some(worker) = &mut self.worker else { return false };
        let now = worker.clock.now();
        let is_due = self.deadline.is_some_and(|deadline| deadline <= now);
        if !is_due && !worker.may_have_work(self.events.len()) {
            return false;
        }
        let is_active = worker.step(now, &mut self.events) || is_due;
        self.deadline = worker.next_deadline(now, self.events.len());
        if worker.is_stopping() {
            self.end();
        }
        is_active
    }

    /// When the next step has something to do if nothing arrives before: the present time if the last
    /// step left work, `None` if there is no deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let worker = self.worker.as_ref()?;
        if worker.has_messages() { Some(worker.clock.now()) } else { self.deadline }
    }

    /// Returns spare and partly filled packet blocks to their pools, and cached references to those of other workers. The
    /// next packets get new ones.
    pub fn release_blocks(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.release_blocks();
        }
    }

    /// Blocks of its pool that are in use, once those that other workers have returned are counted.
    #[must_use]
    pub fn blocks_in_use(&self) -> u32 {
        let Some(worker) = &self.worker else { return 0 };
        worker.pool.reclaim();
        worker.pool.counters().blocks_in_use()
    }

    /// Tables of its shard and memory of its faces that principals hold; `None` once it has ended.
    #[must_use]
    pub fn ledgers(&self) -> Option<WorkerLedgers> {
        self.worker.as_ref().map(|worker| worker.ledgers(true))
    }

    /// The next hops of exactly `prefix` in the FIB that its shard reads; none without such an entry.
    #[must_use]
    pub fn next_hops(&self, prefix: NameRef<'_>) -> Vec<FaceIndex> {
        let hops = self.worker.as_ref().map_or(&[][..], |worker| worker.shard.next_hops(prefix));
        hops.iter().map(|hop| hop.face).collect()
    }

    /// The FaceId of one of its faces.
    #[must_use]
    pub fn face_id(&self, face: FaceIndex) -> Option<u64> {
        self.worker.as_ref()?.admission.numbers.face_id(face)
    }

    /// Whether it has ended, because [`Dataplane::stop`](crate::Dataplane::stop) was called or the handle
    /// was dropped.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.worker.is_none()
    }

    /// Plants a fault: the oldest message of another worker disappears from its ring, uncounted. Returns whether a
    /// message waited.
    #[cfg(feature = "planted-faults")]
    pub fn lose_message(&mut self) -> bool {
        let Some(worker) = &mut self.worker else { return false };
        let inter_worker = worker.inter_worker.as_mut();
        inter_worker.is_some_and(|one| one.exchange.lose_message(&worker.pool))
    }

    /// Plants a fault: the timer of a PIT entry that has expired disappears, so that nothing removes the entry.
    /// Returns whether an entry had expired.
    #[cfg(feature = "planted-faults")]
    pub fn lose_expiry(&mut self) -> bool {
        let Some(worker) = &mut self.worker else { return false };
        let now = worker.clock.now();
        let mut budget = u32::MAX;
        worker.shard.pcct_mut().pop_expired(now, &mut budget).is_some()
    }

    /// Plants a fault: cached Data stay fresh. Returns whether there are any whose freshness ends.
    #[cfg(feature = "planted-faults")]
    pub fn keep_fresh(&mut self) -> bool {
        let Some(worker) = &mut self.worker else { return false };
        let now = worker.clock.now();
        worker.shard.pcct_mut().keep_fresh(now)
    }

    /// Plants a fault: the strategies of its shard forget Interests. Returns whether they did not before.
    #[cfg(feature = "planted-faults")]
    pub fn forget_interests(&mut self) -> bool {
        self.worker.as_mut().is_some_and(|worker| worker.shard.forget_interests())
    }

    /// Plants a fault: a packet block is in use for ever. Returns whether there was one.
    #[cfg(feature = "planted-faults")]
    pub fn leak_block(&mut self) -> bool {
        let Some(worker) = &self.worker else { return false };
        let Some(mut block) = worker.pool.allocate_block() else { return false };
        block.commit(1);
        // A handle that is dropped is not released.
        drop(block.carve(1));
        worker.pool.finish(block);
        true
    }

    /// Plants a fault: a table of its shard is not shared between principals, but first come, first served.
    #[cfg(feature = "planted-faults")]
    pub fn stop_sharing(&mut self, resource: ndn_table::Resource) {
        if let Some(worker) = &mut self.worker {
            worker.shard.pcct_mut().ledger_mut().stop_sharing(resource);
        }
    }

    /// Plants a fault: a place of a table of its shard is charged, and never given back.
    #[cfg(feature = "planted-faults")]
    pub fn leak_charge(&mut self, resource: ndn_table::Resource) {
        let nobody = ndn_types::PrincipalIndex::OTHER;
        if let Some(worker) = &mut self.worker {
            worker.shard.pcct_mut().ledger_mut().charge(nobody, resource, 1);
        }
    }

    /// Ends what [`leak_charge`](Self::leak_charge) has begun.
    #[cfg(feature = "planted-faults")]
    pub fn release_leaked_charge(&mut self, resource: ndn_table::Resource) {
        let nobody = ndn_types::PrincipalIndex::OTHER;
        if let Some(worker) = &mut self.worker {
            worker.shard.pcct_mut().ledger_mut().release(nobody, resource, 1);
        }
    }

    fn end(&mut self) {
        self.worker.take().into_iter().for_each(|worker| worker.finish());
    }
}

impl Drop for SteppedWorker {
    /// Closes its faces and returns its buffers, as after an orderly stop.
    fn drop(&mut self) {
        self.end();
    }
}
