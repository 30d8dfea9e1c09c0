//! Readvertisement of prefixes (NFD, "readvertise"): `rib/register` and `rib/unregister`, repeated until they are answered,
//! and refreshed after that. The receiver is a routing daemon on this host, under `/localhost/nlsr`, or the router that
//! `/localhop/nfd` leads to (`auto_prefix_propagate`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ndn_packet::{Interest, Name, NameRef};
use ndn_types::{Now, Timestamp, duration_ms};

use crate::ControlParameters;
use crate::client::CommandBuilder;
use crate::command::{TopPrefix, Verb};
use crate::response::ControlResponse;
use crate::types::route_origin;

/// Signs the commands that the forwarder itself issues, and knows its identities.
///
/// It may look keys up on another thread; its owner calls
/// [`ControlState::handle_timeout`](crate::ControlState::handle_timeout) when a look-up has finished.
pub trait CommandSigner {
    /// Signs a command (packet specification 0.3), as `identity` or as the default one.
    fn sign(&mut self, now: Now, command: &UnsignedCommand<'_>, identity: Option<&Name>)
    -> Signing;

    /// The identities whose keys can sign; `None` while they are being looked up.
    fn identities(&mut self, now: Now) -> Option<Vec<Name>>;
}

/// The result of signing a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signing {
    /// The Interest.
    Signed(Vec<u8>),
    /// The key is being looked up.
    Later,
    /// The key does not exist, or cannot be used.
    Impossible,
}

/// A command to be signed.
#[derive(Debug, Clone, Copy)]
pub struct UnsignedCommand<'a> {
    /// Prefix of the command.
    pub builder: &'a CommandBuilder,
    /// Verb of the command.
    pub verb: Verb,
    /// Its parameters.
    pub parameters: &'a ControlParameters,
    /// Nonce, different for each command.
    pub nonce: u64,
    /// SignatureTime, milliseconds since 1970; increases with each command.
    pub time_ms: u64,
}

/// Signs with DigestSha256, without an identity.
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

/// Receiver, route properties and timing of a readvertisement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadvertiseOptions {
    /// Prefix of the commands.
    pub prefix: Name,
    /// Cost of the routes; `None`: the receiver's default.
    pub cost: Option<u64>,
    /// Origin of the routes; `None`: the receiver's default.
    pub origin: Option<u64>,
    /// Time that a command waits for its answer.
    pub timeout: Duration,
    /// Time after which a registration is refreshed.
    pub refresh: Duration,
    /// Wait before the first retry; it doubles with each further one.
    pub retry_min: Duration,
    /// Maximum wait before a retry.
    pub retry_max: Duration,
    /// Maximum number of commands that wait for their answers.
    pub unanswered_max: usize,
}

impl ReadvertiseOptions {
    /// A routing daemon with the protocol of NLSR, refreshed once an hour.
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

/// The readvertisement of one prefix.
#[derive(Debug)]
struct Entry {
    /// The prefix has a route; otherwise it is to be withdrawn.
    is_advertised: bool,
    /// The identity that signs.
    identity: Option<Name>,
    /// The time of the next command, or the deadline of the answer.
    at: Timestamp,
    /// Wait after the next failure.
    retry: Duration,
    /// The command that waits for its answer.
    unanswered: Option<Unanswered>,
    /// The last command was refused because a later one had arrived before it.
    is_overtaken: bool,
}

/// A command that waits for its answer.
#[derive(Debug, Clone)]
struct Unanswered {
    name: Name,
    /// Its SignatureTime.
    time_ms: u64,
}

/// The readvertisement to one receiver. Pure: the caller sends the commands that [`Readvertise::poll`] returns.
#[derive(Debug)]
pub struct Readvertise {
    options: ReadvertiseOptions,
    commands: CommandBuilder,
    is_available: bool,
    entries: BTreeMap<Name, Entry>,
    /// Prefixes with a command to be sent, by time.
    due: BTreeSet<(Timestamp, Name)>,
    /// Prefixes that wait for an answer, by deadline.
    waiting: BTreeSet<(Timestamp, Name)>,
    /// The prefix of each unanswered command.
    unanswered: BTreeMap<Name, Name>,
    nonce: u64,
    /// The latest SignatureTime.
    time_ms: u64,
    /// The latest SignatureTime of an answered command.
    answered_time_ms: u64,
    /// The signer is looking a key up; nothing is sent until it has finished.
    is_signer_busy: bool,
}

impl Readvertise {
    /// A readvertisement whose receiver is not available.
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

    /// The options.
    #[must_use]
    pub const fn options(&self) -> &ReadvertiseOptions {
        &self.options
    }

    /// Sets whether the receiver is available. A receiver that becomes available gets all prefixes.
    pub fn set_available(&mut self, now: Now, is_available: bool) {
        let retry = self.options.retry_min;
        if is_available && !self.is_available {
            let prefixes: Vec<Name> = self.entries.keys().cloned().collect();
            for prefix in prefixes {
                self.update(&prefix, |entry| {
                    entry.at = now.monotonic;
                    entry.retry = retry;
                    entry.unanswered = None;
                });
            }
        }
        if !is_available && self.is_available {
            // The receiver has lost the prefixes that were to be withdrawn.
            let gone = self.entries.iter().filter(|(_, entry)| !entry.is_advertised);
            let gone: Vec<Name> = gone.map(|(prefix, _)| prefix.clone()).collect();
            gone.iter().for_each(|prefix| self.forget(prefix));
        }
        self.is_available = is_available;
    }

    /// Sets whether a prefix is to be registered. `identity` signs; `None`: the default identity.
    pub fn set_advertised(
        &mut self,
        now: Now,
        prefix: &Name,
        is_advertised: bool,
        identity: Option<&Name>,
    ) {
        let known = self.entries.get(prefix.value()).map(|entry| entry.is_advertised);
        let retry = self.options.retry_min;
        match known {
            None if is_advertised => {
                let entry = Entry {
                    is_advertised,
                    identity: identity.cloned(),
                    at: now.monotonic,
                    retry,
                    unanswered: None,
                    is_overtaken: false,
                };
                self.due.insert((entry.at, prefix.clone()));
                self.entries.insert(prefix.clone(), entry);
            }
            Some(true) if !is_advertised && !self.is_available => self.forget(prefix),
            Some(was_advertised) if was_advertised != is_advertised => {
                self.update(prefix, |entry| {
                    entry.is_advertised = is_advertised;
                    if is_advertised {
                        entry.identity = identity.cloned();
                    }
                    entry.at = now.monotonic;
                    entry.retry = retry;
                    entry.unanswered = None;
                })
            }
            None | Some(_) => {}
        }
    }

    /// The time of the next call of [`Readvertise::poll`]. While the signer is looking a key up, only the deadlines of answers
    /// count; the owner of the signer calls when it has finished.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let due = self.due.first().filter(|_| self.has_room() && !self.is_signer_busy);
        let next = due.into_iter().chain(self.waiting.first()).map(|(at, _)| *at).min()?;
        self.is_available.then_some(next)
    }

    /// The next command to be sent.
    pub fn poll(&mut self, now: Now, signer: &mut dyn CommandSigner) -> Option<Vec<u8>> {
        self.is_signer_busy = false;
        while let Some((at, prefix)) = self.waiting.first().cloned()
            && at <= now.monotonic
        {
            self.failed(now, &prefix);
        }
        while self.is_available && self.has_room() {
            let (at, prefix) = self.due.first().cloned()?;
            if at > now.monotonic {
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
            let timeout = self.options.timeout;
            let time_ms = self.time_ms;
            self.update(&prefix, |entry| {
                entry.unanswered = Some(Unanswered { name, time_ms });
                entry.at = now.monotonic + timeout;
            });
            return Some(wire);
        }
        None
    }

    fn has_room(&self) -> bool {
        self.unanswered.len() < self.options.unanswered_max
    }

    /// Schedules a retry after a missing answer, an error or a failure to sign.
    fn failed(&mut self, now: Now, prefix: &Name) {
        let retry_max = self.options.retry_max;
        self.update(prefix, |entry| {
            entry.unanswered = None;
            entry.at = now.monotonic + entry.retry.max(Duration::from_nanos(1));
            entry.retry = entry.retry.saturating_mul(2).min(retry_max);
        });
    }

    /// The command for a prefix.
    fn sign(&mut self, now: Now, prefix: &Name, signer: &mut dyn CommandSigner) -> Signing {
        self.nonce += 1;
        self.time_ms = now.unix_ms().max(self.time_ms + 1);
        let Some(entry) = self.entries.get(prefix.value()) else { return Signing::Impossible };
        let is_advertised = entry.is_advertised;
        let verb = if is_advertised { Verb::RibRegister } else { Verb::RibUnregister };
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            origin: self.options.origin,
            cost: self.options.cost.filter(|_| is_advertised),
            ..ControlParameters::default()
        };
        let nonce = now.unix_us().rotate_left(20) ^ self.nonce;
        let (builder, time_ms) = (&self.commands, self.time_ms);
        let command = UnsignedCommand { builder, verb, parameters: &parameters, nonce, time_ms };
        signer.sign(now, &command, entry.identity.as_ref())
    }

    /// Handles the answer to a command; false if the Data is something else.
    pub fn handle_data(&mut self, now: Now, name: NameRef<'_>, content: &[u8]) -> bool {
        let Some(prefix) = self.unanswered.get(name.value()).cloned() else { return false };
        let is_ok = ControlResponse::decode(content).is_ok_and(|response| response.is_ok());
        let Some(entry) = self.entries.get(prefix.value()) else { return false };
        let is_advertised = entry.is_advertised;
        let time_ms = entry.unanswered.as_ref().map_or(0, |command| command.time_ms);
        // Replay protection requires the times of a key's commands to increase.
        let is_overtaken = time_ms < self.answered_time_ms && !entry.is_overtaken;
        self.answered_time_ms = self.answered_time_ms.max(time_ms);
        let (refresh, retry) = (self.options.refresh, self.options.retry_min);
        match (is_ok, is_advertised) {
            (false, _) if is_overtaken => self.update(&prefix, |entry| {
                entry.unanswered = None;
                entry.is_overtaken = true;
                entry.at = now.monotonic;
            }),
            (false, _) => self.failed(now, &prefix),
            (true, false) => self.forget(&prefix),
            (true, true) => self.update(&prefix, |entry| {
                entry.unanswered = None;
                entry.is_overtaken = false;
                entry.at = now.monotonic + refresh;
                entry.retry = retry;
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
        let place = (entry.at, prefix.clone());
        if let Some(command) = &entry.unanswered {
            self.unanswered.insert(command.name.clone(), prefix.clone());
            self.waiting.insert(place);
        } else {
            self.due.insert(place);
        }
        self.entries.insert(prefix.clone(), entry);
    }

    /// Removes an entry from its queue. The answer to its command is ignored from now on.
    fn unschedule(&mut self, prefix: &Name, entry: &Entry) {
        let place = (entry.at, prefix.clone());
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
