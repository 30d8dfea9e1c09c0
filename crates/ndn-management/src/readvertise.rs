//! Tells somebody else which prefixes are served here (NFD, "readvertise"): `rib/register` and
//! `rib/unregister`, again and again until they are answered, and regularly after that. Either to a
//! routing daemon on this host, under `/localhost/nlsr`, or to the router that `/localhop/nfd` leads to
//! (`auto_prefix_propagate`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ndn_packet::{Interest, Name, NameRef};
use ndn_types::{duration_ms, duration_ns};

use crate::client::CommandBuilder;
use crate::command::{TopPrefix, Verb};
use crate::response::ControlResponse;
use crate::types::route_origin;
use crate::{ControlParameters, Now};

/// Signs the commands that the forwarder itself issues, and knows who it may be.
///
/// It may have to look its keys up first, on some other thread: whoever owns it calls
/// [`ControlState::handle_timeout`](crate::ControlState::handle_timeout) when it knows more.
pub trait CommandSigner {
    /// Signs a command (packet specification 0.3), as `identity` or as the default one.
    fn sign(&mut self, now: Now, command: &UnsignedCommand<'_>, identity: Option<&Name>)
    -> Signing;

    /// The identities whose keys can sign; none while they are being looked up.
    fn identities(&mut self, now: Now) -> Option<Vec<Name>>;
}

/// What became of a command to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signing {
    /// The Interest.
    Signed(Vec<u8>),
    /// The key is being looked up.
    Later,
    /// There is no such key, or it cannot be used.
    Impossible,
}

/// A command to be signed.
#[derive(Debug, Clone, Copy)]
pub struct UnsignedCommand<'a> {
    /// Where it goes.
    pub builder: &'a CommandBuilder,
    /// What it asks for.
    pub verb: Verb,
    /// And about what.
    pub parameters: &'a ControlParameters,
    /// Different each time.
    pub nonce: u64,
    /// SignatureTime, milliseconds since 1970; later each time.
    pub time_ms: u64,
}

/// Signs with DigestSha256, and is nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DigestCommandSigner;

impl CommandSigner for DigestCommandSigner {
    fn sign(
        &mut self,
        _now: Now,
        command: &UnsignedCommand<'_>,
        identity: Option<&Name>,
    ) -> Signing {
        if identity.is_some() {
            return Signing::Impossible;
        }
        let UnsignedCommand { builder, verb, parameters, nonce, time_ms } = *command;
        match builder.digest_signed_interest(verb, parameters, nonce, time_ms) {
            Ok(wire) => Signing::Signed(wire),
            Err(_) => Signing::Impossible,
        }
    }

    fn identities(&mut self, _now: Now) -> Option<Vec<Name>> {
        Some(Vec::new())
    }
}

/// Whom to tell, what, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadvertiseOptions {
    /// The first components of the commands.
    pub prefix: Name,
    /// Cost of the routes; that of the receiver if there is none.
    pub cost: Option<u64>,
    /// Origin of the routes; that of the receiver if there is none.
    pub origin: Option<u64>,
    /// How long a command waits for its answer.
    pub timeout: Duration,
    /// How long a prefix is known there before it is told again.
    pub refresh: Duration,
    /// First wait before another attempt; twice the one before from then on.
    pub retry_min: Duration,
    /// Longest wait before another attempt.
    pub retry_max: Duration,
    /// Commands that wait for their answer at one time.
    pub unanswered_max: usize,
}

impl ReadvertiseOptions {
    /// A daemon that speaks as NLSR does: told again once an hour.
    #[must_use]
    pub fn nlsr() -> Self {
        let mut prefix = Name::new();
        prefix.push_generic("localhost").push_generic("nlsr");
        Self {
            prefix,
            cost: None,
            origin: None,
            timeout: Duration::from_secs(10),
            refresh: Duration::from_secs(3600),
            retry_min: Duration::from_secs(50),
            retry_max: Duration::from_secs(3600),
            unanswered_max: 64,
        }
    }

    /// The router that `/localhop/nfd` leads to, with NFD's defaults.
    #[must_use]
    pub fn gateway() -> Self {
        Self {
            prefix: TopPrefix::Localhop.to_name(),
            cost: Some(15),
            origin: Some(route_origin::CLIENT),
            refresh: Duration::from_secs(25),
            unanswered_max: 32,
            ..Self::nlsr()
        }
    }
}

/// What is to be known about one prefix.
#[derive(Debug)]
struct Entry {
    /// There is a route; otherwise it is to be withdrawn.
    is_wanted: bool,
    /// Who signs.
    identity: Option<Name>,
    /// When it is to be told (again), or when waiting for an answer ends.
    at_ns: u64,
    /// The wait after the next failure.
    retry_ns: u64,
    /// The command that waits for its answer.
    unanswered: Option<Unanswered>,
    /// Its last command was refused because another one had overtaken it.
    is_overtaken: bool,
}

/// A command that waits for its answer.
#[derive(Debug, Clone)]
struct Unanswered {
    name: Name,
    /// The time that it was signed with.
    time_ms: u64,
}

/// Keeps somebody informed. Pure: the caller sends what [`Readvertise::poll`] gives.
#[derive(Debug)]
pub struct Readvertise {
    options: ReadvertiseOptions,
    commands: CommandBuilder,
    is_available: bool,
    entries: BTreeMap<Name, Entry>,
    /// Prefixes to be told, by time.
    due: BTreeSet<(u64, Name)>,
    /// Prefixes that wait for an answer, by the end of patience.
    waiting: BTreeSet<(u64, Name)>,
    /// The prefixes that commands are about.
    unanswered: BTreeMap<Name, Name>,
    nonce: u64,
    /// The time that was signed last.
    time_ms: u64,
    /// The latest time that was signed in a command that is answered.
    answered_time_ms: u64,
    /// The signer looks a key up; nothing can be sent until it knows more.
    is_signer_busy: bool,
}

impl Readvertise {
    /// For nobody who is there yet.
    #[must_use]
    pub fn new(options: ReadvertiseOptions) -> Self {
        let timeout_ms = duration_ms(options.timeout);
        Self {
            commands: CommandBuilder::new(options.prefix.clone()).lifetime_ms(timeout_ms),
            options,
            is_available: false,
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            waiting: BTreeSet::new(),
            unanswered: BTreeMap::new(),
            nonce: 0,
            time_ms: 0,
            answered_time_ms: 0,
            is_signer_busy: false,
        }
    }

    /// Whom it tells, what and how often.
    #[must_use]
    pub const fn options(&self) -> &ReadvertiseOptions {
        &self.options
    }

    /// The receiver came, or went. One that comes is told everything.
    pub fn set_available(&mut self, now: Now, is_available: bool) {
        let retry_ns = duration_ns(self.options.retry_min);
        if is_available && !self.is_available {
            let prefixes: Vec<Name> = self.entries.keys().cloned().collect();
            for prefix in prefixes {
                self.update(&prefix, |entry| {
                    entry.at_ns = now.monotonic_ns;
                    entry.retry_ns = retry_ns;
                    entry.unanswered = None;
                });
            }
        }
        if !is_available && self.is_available {
            // What was to be withdrawn is gone with it.
            let gone = self.entries.iter().filter(|(_, entry)| !entry.is_wanted);
            let gone: Vec<Name> = gone.map(|(prefix, _)| prefix.clone()).collect();
            gone.iter().for_each(|prefix| self.forget(prefix));
        }
        self.is_available = is_available;
    }

    /// A prefix has a route to be told of, or has none any more. `identity` signs; none for the default
    /// one.
    pub fn set_wanted(
        &mut self,
        now: Now,
        prefix: &Name,
        is_wanted: bool,
        identity: Option<&Name>,
    ) {
        let known = self.entries.get(prefix.value()).map(|entry| entry.is_wanted);
        let retry_ns = duration_ns(self.options.retry_min);
        match known {
            None if is_wanted => {
                let entry = Entry {
                    is_wanted,
                    identity: identity.cloned(),
                    at_ns: now.monotonic_ns,
                    retry_ns,
                    unanswered: None,
                    is_overtaken: false,
                };
                self.due.insert((entry.at_ns, prefix.clone()));
                self.entries.insert(prefix.clone(), entry);
            }
            Some(true) if !is_wanted && !self.is_available => self.forget(prefix),
            Some(was_wanted) if was_wanted != is_wanted => self.update(prefix, |entry| {
                entry.is_wanted = is_wanted;
                if is_wanted {
                    entry.identity = identity.cloned();
                }
                entry.at_ns = now.monotonic_ns;
                entry.retry_ns = retry_ns;
                entry.unanswered = None;
            }),
            None | Some(_) => {}
        }
    }

    /// When [`Readvertise::poll`] has something to do. While the signer looks a key up, only the end of
    /// patience counts: it tells its owner when to try again.
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let due = self.due.first().filter(|_| self.has_room() && !self.is_signer_busy);
        let next = due.into_iter().chain(self.waiting.first()).map(|(at_ns, _)| *at_ns).min()?;
        self.is_available.then_some(next)
    }

    /// The next command to be sent.
    pub fn poll(&mut self, now: Now, signer: &mut dyn CommandSigner) -> Option<Vec<u8>> {
        self.is_signer_busy = false;
        while let Some((at_ns, prefix)) = self.waiting.first().cloned()
            && at_ns <= now.monotonic_ns
        {
            self.failed(now, &prefix);
        }
        while self.is_available && self.has_room() {
            let (at_ns, prefix) = self.due.first().cloned()?;
            if at_ns > now.monotonic_ns {
                return None;
            }
            let signing = self.sign(now, &prefix, signer);
            self.is_signer_busy = signing == Signing::Later;
            let wire = match signing {
                Signing::Signed(wire) => wire,
                Signing::Later => return None,
                Signing::Impossible => {
                    self.failed(now, &prefix);
                    continue;
                }
            };
            let Ok(name) = Interest::parse(&wire).map(|interest| interest.name().to_name()) else {
                self.failed(now, &prefix);
                continue;
            };
            let patience_ns = duration_ns(self.options.timeout);
            let time_ms = self.time_ms;
            self.update(&prefix, |entry| {
                entry.unanswered = Some(Unanswered { name, time_ms });
                entry.at_ns = now.monotonic_ns.saturating_add(patience_ns);
            });
            return Some(wire);
        }
        None
    }

    fn has_room(&self) -> bool {
        self.unanswered.len() < self.options.unanswered_max
    }

    /// There is no answer, or a bad one, or nobody to sign: it is tried again, later each time.
    fn failed(&mut self, now: Now, prefix: &Name) {
        let retry_ns_max = duration_ns(self.options.retry_max);
        self.update(prefix, |entry| {
            entry.unanswered = None;
            entry.at_ns = now.monotonic_ns.saturating_add(entry.retry_ns.max(1));
            entry.retry_ns = entry.retry_ns.saturating_mul(2).min(retry_ns_max);
        });
    }

    /// The command about a prefix.
    fn sign(&mut self, now: Now, prefix: &Name, signer: &mut dyn CommandSigner) -> Signing {
        self.nonce += 1;
        self.time_ms = now.unix_ms().max(self.time_ms + 1);
        let Some(entry) = self.entries.get(prefix.value()) else { return Signing::Impossible };
        let is_wanted = entry.is_wanted;
        let verb = if is_wanted { Verb::RibRegister } else { Verb::RibUnregister };
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            origin: self.options.origin,
            cost: self.options.cost.filter(|_| is_wanted),
            ..ControlParameters::default()
        };
        let nonce = now.unix_us.rotate_left(20) ^ self.nonce;
        let (builder, time_ms) = (&self.commands, self.time_ms);
        let command = UnsignedCommand { builder, verb, parameters: &parameters, nonce, time_ms };
        signer.sign(now, &command, entry.identity.as_ref())
    }

    /// Takes an answer; false if it is to something else.
    pub fn handle_data(&mut self, now: Now, name: NameRef<'_>, content: &[u8]) -> bool {
        let Some(prefix) = self.unanswered.get(name.value()).cloned() else { return false };
        let is_ok = ControlResponse::decode(content).is_ok_and(|response| response.is_ok());
        let Some(entry) = self.entries.get(prefix.value()) else { return false };
        let is_wanted = entry.is_wanted;
        let time_ms = entry.unanswered.as_ref().map_or(0, |command| command.time_ms);
        // Replay protection lets the times of a key's commands only grow.
        let is_overtaken = time_ms < self.answered_time_ms && !entry.is_overtaken;
        self.answered_time_ms = self.answered_time_ms.max(time_ms);
        let (refresh_ns, retry_ns) =
            (duration_ns(self.options.refresh), duration_ns(self.options.retry_min));
        match (is_ok, is_wanted) {
            (false, _) if is_overtaken => self.update(&prefix, |entry| {
                entry.unanswered = None;
                entry.is_overtaken = true;
                entry.at_ns = now.monotonic_ns;
            }),
            (false, _) => self.failed(now, &prefix),
            (true, false) => self.forget(&prefix),
            (true, true) => self.update(&prefix, |entry| {
                entry.unanswered = None;
                entry.is_overtaken = false;
                entry.at_ns = now.monotonic_ns.saturating_add(refresh_ns);
                entry.retry_ns = retry_ns;
            }),
        }
        true
    }

    fn forget(&mut self, prefix: &Name) {
        let Some(entry) = self.entries.remove(prefix.value()) else { return };
        self.unschedule(prefix, &entry);
    }

    fn update(&mut self, prefix: &Name, change: impl FnOnce(&mut Entry)) {
        let Some(mut entry) = self.entries.remove(prefix.value()) else { return };
        self.unschedule(prefix, &entry);
        change(&mut entry);
        let place = (entry.at_ns, prefix.clone());
        if let Some(command) = &entry.unanswered {
            self.unanswered.insert(command.name.clone(), prefix.clone());
            self.waiting.insert(place);
        } else {
            self.due.insert(place);
        }
        self.entries.insert(prefix.clone(), entry);
    }

    /// Takes an entry out of its queue. An answer to what was said before counts no more.
    fn unschedule(&mut self, prefix: &Name, entry: &Entry) {
        let place = (entry.at_ns, prefix.clone());
        match &entry.unanswered {
            Some(command) => {
                self.waiting.remove(&place);
                self.unanswered.remove(command.name.value());
            }
            None => {
                self.due.remove(&place);
            }
        }
    }
}

#[cfg(test)]
mod tests;
