//! Which threads the workers run on.

use std::io;
use std::time::Duration;

use ndn_sys::cpu;
use ndn_table::Timestamp;

use super::Dataplane;
use crate::threads::Load;

/// Which threads workers run on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThreadUse {
    /// One for all, as long as it keeps up or more would not forward more.
    #[default]
    AsNeeded,
    /// One each.
    Each,
}

impl Dataplane {
    /// Looks at what there is to do, and has the workers share a thread or not. Says which, if that is
    /// something else than before.
    ///
    /// # Errors
    /// When the kernel does not tell how busy the processors are.
    pub fn share_threads(&mut self, now: Timestamp) -> io::Result<Option<bool>> {
        let Self { policy: Some(policy), threads, workers, .. } = self else { return Ok(None) };
        let mut load = Load { at: now, ..Load::default() };
        for worker in workers.iter() {
            let waited_ns = worker.worker_counters.waited_until(now);
            load.busy += Duration::from_nanos(now.as_nanos().saturating_sub(waited_ns));
            load.packets += worker.counters.in_interests.value() + worker.counters.in_data.value();
        }
        for thread in threads.thread_ids() {
            load.waiting += cpu::thread_wait(thread)?;
        }
        load.idle = cpu::idle_time(&cpu::allowed_cpus()?)?;
        let change = policy.look(load);
        if let Some(are_together) = change {
            threads.gather(are_together);
        }
        Ok(change)
    }

    /// Has one thread run all workers from now on, or each its own. Pinned ones keep theirs. Nothing is lost by it, and nobody
    /// waits for it.
    pub fn gather(&mut self, are_together: bool) {
        if self.policy.is_some() {
            self.threads.gather(are_together);
        }
    }
}
