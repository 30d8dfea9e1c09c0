//! Which threads the workers run on.

use std::io;
use std::time::Duration;

use ndn_sys::cpu;
use ndn_table::Timestamp;

use super::Dataplane;
use crate::threads::{Load, Threads};
use crate::view::WorkerView;

/// Which threads workers run on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThreadUse {
    /// One for all, as long as it keeps up or one each would not forward a third more; one each of more than eight.
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
    /// When the kernel does not tell how busy the processors are: then each worker gets its own thread for good.
    pub fn share_threads(&mut self, now: Timestamp) -> io::Result<Option<bool>> {
        let Some(policy) = &mut self.policy else { return Ok(None) };
        match load(&self.workers, &self.threads, now) {
            Ok(load) => {
                let change = policy.look(load);
                if let Some(are_together) = change {
                    self.threads.gather(are_together);
                }
                Ok(change)
            }
            Err(error) => {
                // Who cannot tell when one thread is too little, had better not rely on it.
                self.policy = None;
                self.threads.never_gather();
                Err(error)
            }
        }
    }

    /// Has one thread run all workers from now on, or each its own, until [`share_threads`](Self::share_threads)
    /// finds something else better; for tests. Workers that do not share keep theirs.
    pub fn gather(&mut self, are_together: bool) {
        if self.policy.is_some() {
            self.threads.gather(are_together);
        }
    }
}

/// What there was to do up to now, and who did it.
fn load(workers: &[WorkerView], threads: &Threads, now: Timestamp) -> io::Result<Load> {
    let mut load = Load { at: now, ..Load::default() };
    for worker in workers {
        let waited_ns = worker.worker_counters.waited_until(now);
        load.busy += Duration::from_nanos(now.as_nanos().saturating_sub(waited_ns));
        load.packets += worker.counters.out_interests.value() + worker.counters.out_data.value();
    }
    for thread in threads.thread_ids() {
        load.waiting += cpu::thread_wait(thread)?;
    }
    load.idle = cpu::idle_time(&cpu::allowed_cpus()?)?;
    Ok(load)
}
