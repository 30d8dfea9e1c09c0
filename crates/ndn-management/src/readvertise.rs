//! Tells a routing daemon on this host which prefixes applications serve (NFD, "readvertise"):
//! `rib/register` and `rib/unregister` under `/localhost/nlsr` for the routes of origin `client`,
//! again and again until they are answered, and once an hour after that.

use std::collections::{BTreeMap, BTreeSet};

use ndn_packet::{Interest, Name, NameRef};

use crate::client::CommandBuilder;
use crate::command::Verb;
use crate::response::ControlResponse;
use crate::{ControlParameters, Now};

/// Commands that wait for their answer.
const UNANSWERED_MAX: usize = 64;
/// How long one waits.
const PATIENCE_NS: u64 = 10 * SECOND_NS;
/// Waits between attempts; each is twice the one before.
const RETRY_NS_MIN: u64 = 50 * SECOND_NS;
const RETRY_NS_MAX: u64 = 3600 * SECOND_NS;
/// How long a prefix is known to the daemon before it is told again.
const REFRESH_NS: u64 = 3600 * SECOND_NS;
const SECOND_NS: u64 = 1_000_000_000;

/// What the daemon is to know about one prefix.
#[derive(Debug)]
struct Entry {
    /// There is a route; otherwise it is to be withdrawn.
    is_wanted: bool,
    due_ns: u64,
    retry_ns: u64,
    /// The name of the command that waits for its answer.
    unanswered: Option<Name>,
}

/// Keeps a routing daemon informed. Pure: the caller sends what [`Readvertise::poll`] gives.
#[derive(Debug)]
pub struct Readvertise {
    commands: CommandBuilder,
    /// Where the daemon listens.
    prefix: Name,
    is_available: bool,
    entries: BTreeMap<Name, Entry>,
    due: BTreeSet<(u64, Name)>,
    unanswered: BTreeMap<Name, Name>,
    nonce: u64,
}

impl Readvertise {
    /// For a daemon that speaks as NLSR does, `/localhost/nlsr`.
    #[must_use]
    pub fn to_nlsr() -> Self {
        let mut prefix = Name::new();
        prefix.push_generic("localhost").push_generic("nlsr");
        Self {
            commands: CommandBuilder::new(prefix.clone()),
            prefix,
            is_available: false,
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            unanswered: BTreeMap::new(),
            nonce: 0,
        }
    }

    /// Whether routes of `prefix` tell where the daemon is.
    #[must_use]
    pub fn is_about_daemon(&self, prefix: NameRef<'_>) -> bool {
        prefix.starts_with(self.prefix.as_ref())
    }

    /// The daemon came, or went. One that comes is told everything.
    pub fn set_available(&mut self, now: Now, is_available: bool) {
        if is_available && !self.is_available {
            let prefixes: Vec<Name> = self.entries.keys().cloned().collect();
            for prefix in prefixes {
                self.update(&prefix, |entry| {
                    entry.due_ns = now.monotonic_ns;
                    entry.retry_ns = RETRY_NS_MIN;
                });
            }
        }
        self.is_available = is_available;
    }

    /// A prefix has a route to be told of, or has none any more.
    pub fn set_wanted(&mut self, now: Now, prefix: &Name, is_wanted: bool) {
        let known = self.entries.get(prefix.value()).map(|entry| entry.is_wanted);
        match known {
            None if is_wanted => {
                let entry = Entry {
                    is_wanted,
                    due_ns: now.monotonic_ns,
                    retry_ns: RETRY_NS_MIN,
                    unanswered: None,
                };
                self.due.insert((entry.due_ns, prefix.clone()));
                self.entries.insert(prefix.clone(), entry);
            }
            Some(was_wanted) if was_wanted != is_wanted => self.update(prefix, |entry| {
                entry.is_wanted = is_wanted;
                entry.due_ns = now.monotonic_ns;
                entry.retry_ns = RETRY_NS_MIN;
                entry.unanswered = None;
            }),
            None | Some(_) => {}
        }
    }

    /// When [`Readvertise::poll`] has something to do.
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let first = self.due.first().map(|(due_ns, _)| *due_ns)?;
        self.is_available.then_some(first)
    }

    /// The next command to be sent.
    pub fn poll(&mut self, now: Now) -> Option<Vec<u8>> {
        if !self.is_available || self.unanswered.len() >= UNANSWERED_MAX {
            return None;
        }
        let (due_ns, prefix) = self.due.first().cloned()?;
        if due_ns > now.monotonic_ns {
            return None;
        }
        self.nonce += 1;
        let is_wanted = self.entries.get(prefix.value()).is_some_and(|entry| entry.is_wanted);
        let verb = if is_wanted { Verb::RibRegister } else { Verb::RibUnregister };
        let parameters =
            ControlParameters { name: Some(prefix.clone()), ..ControlParameters::default() };
        let nonce = now.unix_us.rotate_left(20) ^ self.nonce;
        let wire =
            self.commands.digest_signed_interest(verb, &parameters, nonce, now.unix_ms()).ok()?;
        let name = Interest::parse(&wire).ok()?.name().to_name();
        self.unanswered.insert(name.clone(), prefix.clone());
        self.update(&prefix, |entry| {
            entry.unanswered = Some(name);
            // Should there be no answer, this is when it is tried again.
            entry.due_ns = now.monotonic_ns + PATIENCE_NS + entry.retry_ns;
            entry.retry_ns = (entry.retry_ns * 2).min(RETRY_NS_MAX);
        });
        Some(wire)
    }

    /// Takes an answer; false if it is to something else.
    pub fn handle_data(&mut self, now: Now, name: NameRef<'_>, content: &[u8]) -> bool {
        let Some(prefix) = self.unanswered.remove(name.value()) else { return false };
        let is_ok = ControlResponse::decode(content).is_ok_and(|response| response.is_ok());
        let Some(entry) = self.entries.get(prefix.value()) else { return true };
        if !is_ok || entry.unanswered.as_ref().is_none_or(|wanted| *wanted != name) {
            return true;
        }
        if entry.is_wanted {
            self.update(&prefix, |entry| {
                entry.unanswered = None;
                entry.due_ns = now.monotonic_ns + REFRESH_NS;
                entry.retry_ns = RETRY_NS_MIN;
            });
        } else {
            self.due.remove(&(entry.due_ns, prefix.clone()));
            self.entries.remove(prefix.value());
        }
        true
    }

    fn update(&mut self, prefix: &Name, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(prefix.value()) else { return };
        self.due.remove(&(entry.due_ns, prefix.clone()));
        let before = entry.unanswered.clone();
        change(entry);
        // An answer to what was said before counts no more.
        if let Some(before) = before.filter(|before| entry.unanswered.as_ref() != Some(before)) {
            self.unanswered.remove(before.value());
        }
        self.due.insert((entry.due_ns, prefix.clone()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::testing::name;

    struct Scene {
        readvertise: Readvertise,
        now: Now,
    }

    impl Scene {
        fn new() -> Self {
            let now = Now { monotonic_ns: 1 << 40, unix_us: 1_700_000_000_000_000 };
            Self { readvertise: Readvertise::to_nlsr(), now }
        }

        fn wait(&mut self, seconds: u64) {
            self.now.monotonic_ns += seconds * SECOND_NS;
            self.now.unix_us += seconds * 1_000_000;
        }

        /// The commands that are due: verb and prefix, and the name to answer.
        fn sent(&mut self) -> Vec<(String, Name)> {
            std::iter::from_fn(|| self.readvertise.poll(self.now))
                .map(|wire| {
                    let interest = Interest::parse(&wire).unwrap();
                    let verb = interest.name().component(3).unwrap().to_string();
                    let parameters = interest.name().component(4).unwrap().value();
                    let prefix = ControlParameters::decode(parameters).unwrap().name.unwrap();
                    (format!("{verb} {prefix}"), interest.name().to_name())
                })
                .collect()
        }

        fn answer(&mut self, name: &Name, code: u32) -> bool {
            let content = ControlResponse::new(code, "").to_vec();
            self.readvertise.handle_data(self.now, name.as_ref(), &content)
        }
    }

    #[test]
    fn prefixes_are_told_refreshed_and_withdrawn() {
        let mut scene = Scene::new();
        scene.readvertise.set_wanted(scene.now, &name("/a"), true);
        assert!(scene.sent().is_empty(), "nobody listens");
        assert_eq!(scene.readvertise.next_deadline_ns(), None);
        scene.readvertise.set_available(scene.now, true);
        let sent = scene.sent();
        assert_eq!(sent[0].0, "register /a");
        assert!(scene.answer(&sent[0].1, 200));
        scene.wait(3599);
        assert!(scene.sent().is_empty());
        scene.wait(1);
        let again = scene.sent();
        assert_eq!(again[0].0, "register /a");
        scene.readvertise.set_wanted(scene.now, &name("/a"), false);
        assert!(!scene.answer(&again[0].1, 200), "that counts no more");
        let withdrawn = scene.sent();
        assert_eq!(withdrawn[0].0, "unregister /a");
        scene.answer(&withdrawn[0].1, 200);
        scene.wait(100_000);
        assert!(scene.sent().is_empty());
        assert!(scene.readvertise.entries.is_empty() && scene.readvertise.due.is_empty());
    }

    #[test]
    fn what_is_not_answered_or_refused_is_tried_again_ever_more_slowly() {
        let mut scene = Scene::new();
        scene.readvertise.set_available(scene.now, true);
        scene.readvertise.set_wanted(scene.now, &name("/a"), true);
        let mut waits = Vec::new();
        for round in 0..9 {
            let sent = scene.sent();
            assert_eq!(sent.len(), 1);
            if round == 3 {
                scene.answer(&sent[0].1, 403);
            }
            let at = scene.readvertise.next_deadline_ns().unwrap();
            let wait = (at - scene.now.monotonic_ns) / SECOND_NS;
            waits.push(wait);
            scene.wait(wait);
        }
        assert_eq!(waits, [60, 110, 210, 410, 810, 1610, 3210, 3610, 3610]);
        assert!(scene.readvertise.unanswered.len() <= 1);
    }

    #[test]
    fn a_daemon_that_comes_back_is_told_everything() {
        let mut scene = Scene::new();
        scene.readvertise.set_available(scene.now, true);
        for n in 0..200 {
            let mut prefix = name("/p");
            prefix.push_segment(n);
            scene.readvertise.set_wanted(scene.now, &prefix, true);
        }
        let mut told = 0;
        loop {
            let sent = scene.sent();
            if sent.is_empty() {
                break;
            }
            assert!(sent.len() <= UNANSWERED_MAX);
            told += sent.len();
            for (_, name) in sent {
                scene.answer(&name, 200);
            }
        }
        assert_eq!(told, 200);
        scene.readvertise.set_available(scene.now, false);
        scene.wait(10);
        assert!(scene.sent().is_empty());
        scene.readvertise.set_available(scene.now, true);
        assert_eq!(scene.sent().len(), UNANSWERED_MAX);
    }
}
