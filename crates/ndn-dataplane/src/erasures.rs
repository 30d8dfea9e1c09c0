//! Erasing from the Content Stores of several workers as from one.

use std::collections::HashMap;

use ndn_packet::Name;

use crate::command::Command;
use crate::event::Event;

/// An erasure, which proceeds from worker to worker, so that its limit holds for all together.
#[derive(Debug)]
struct Erasure {
    prefix: Name,
    is_whole_name: bool,
    left: usize,
    erased: usize,
    worker: usize,
}

impl Erasure {
    /// The command for the next worker.
    fn command(&self, ticket: u64) -> Command {
        let (prefix, is_whole_name) = (self.prefix.clone(), self.is_whole_name);
        Command::EraseCs { ticket, prefix, limit: self.left, is_whole_name }
    }
}

/// Erasures in progress, by ticket.
#[derive(Debug, Default)]
pub(crate) struct Erasures(HashMap<u64, Erasure>);

/// The next action.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Send this command to this worker.
    Ask(usize, Command),
    /// The erasure has ended.
    Done(Event),
}

impl Erasures {
    /// Begins an erasure. Returns the command for the first worker.
    pub(crate) fn begin(
        &mut self,
        ticket: u64,
        prefix: Name,
        limit: usize,
        is_whole_name: bool,
    ) -> Command {
        let erasure = Erasure { prefix, is_whole_name, left: limit, erased: 0, worker: 0 };
        let command = erasure.command(ticket);
        self.0.insert(ticket, erasure);
        command
    }

    /// Handles the result of a worker: packets erased, and whether more are under the prefix.
    pub(crate) fn advance(
        &mut self,
        ticket: u64,
        erased: usize,
        more: bool,
        worker_count: usize,
    ) -> Progress {
        let Some(erasure) = self.0.get_mut(&ticket) else {
            return Progress::Done(Event::CsErased { ticket, erased, more });
        };
        erasure.erased += erased;
        erasure.left -= erased.min(erasure.left);
        erasure.worker += 1;
        if more || erasure.worker == worker_count {
            let erased = erasure.erased;
            self.0.remove(&ticket);
            return Progress::Done(Event::CsErased { ticket, erased, more });
        }
        // With a limit of 0, the worker only reports whether there are more.
        Progress::Ask(erasure.worker, erasure.command(ticket))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Erases from stores of these sizes. Returns the number erased, and whether there are more.
    fn erase(mut stores: Vec<usize>, limit: usize) -> (usize, bool) {
        let mut erasures = Erasures::default();
        let mut command = erasures.begin(7, Name::from_uri("/a").unwrap(), limit, false);
        let mut worker = 0;
        loop {
            let Command::EraseCs { ticket: 7, limit, .. } = command else { panic!("{command:?}") };
            let erased = stores[worker].min(limit);
            stores[worker] -= erased;
            match erasures.advance(7, erased, stores[worker] > 0, stores.len()) {
                Progress::Ask(next, asked) => (worker, command) = (next, asked),
                Progress::Done(Event::CsErased { ticket: 7, erased, more }) => {
                    assert!(erasures.0.is_empty());
                    return (erased, more);
                }
                Progress::Done(event) => panic!("{event:?}"),
            }
        }
    }

    #[test]
    fn limit_holds_across_several_stores() {
        for limit in 0..10 {
            for stores in [[0, 0, 0], [3, 0, 2], [0, 5, 0], [1, 1, 1], [0, 0, 4]] {
                let total: usize = stores.iter().sum();
                assert_eq!(
                    erase(stores.to_vec(), limit),
                    (total.min(limit), total > limit),
                    "{limit} of {stores:?}"
                );
            }
        }
    }
}
