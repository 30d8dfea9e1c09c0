//! A Content Store: a list, least recently used first.

use super::{Time, is_prefix};
use crate::wire::{Data, Interest, Name};

#[derive(Clone, Debug)]
struct Cached {
    data: Data,
    /// Not fresh from this time on.
    stale_at: Time,
}

#[derive(Clone, Debug)]
pub struct Store {
    capacity: usize,
    cached: Vec<Cached>,
}

impl Store {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, cached: Vec::new() }
    }

    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// The Data that satisfies `interest`; `choose` selects one of several.
    pub fn find(
        &mut self,
        interest: &Interest,
        now: Time,
        choose: &mut dyn FnMut(&[Data]) -> Data,
    ) -> Option<Data> {
        let answers = |cached: &&Cached| {
            let name = &cached.data.name;
            let matches = *name == interest.name
                || (interest.can_be_prefix && is_prefix(&interest.name, name))
                || (interest.name.len() == name.len() + 1
                    && cached.data.full_name() == interest.name);
            matches && (!interest.must_be_fresh || now < cached.stale_at)
        };
        let found: Vec<Data> =
            self.cached.iter().filter(answers).map(|cached| cached.data.clone()).collect();
        if found.is_empty() {
            return None;
        }
        let chosen = choose(&found);
        let position = self.cached.iter().position(|cached| cached.data == chosen).unwrap();
        let used = self.cached.remove(position);
        self.cached.push(used);
        Some(chosen)
    }

    /// Erases Data at or below a name.
    pub fn erase(&mut self, prefix: &Name) {
        self.cached.retain(|cached| !is_prefix(prefix, &cached.data.name));
    }

    /// Caches `data`, beside other Data of the same name.
    pub fn insert(&mut self, data: &Data, now: Time) {
        self.cached.retain(|cached| cached.data != *data);
        let stale_at = now + data.freshness_ms.unwrap_or(0);
        self.cached.push(Cached { data: data.clone(), stale_at });
        if self.cached.len() > self.capacity {
            self.cached.remove(0);
        }
    }
}
