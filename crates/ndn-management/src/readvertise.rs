//! Readvertisement of prefixes (NFD, "readvertise"): `rib/register` and `rib/unregister`, repeated until they are answered,
//! and refreshed after that. The receiver is a routing daemon on this host, under `/localhost/nlsr`, or the router that
//! `/localhop/nfd` leads to (`auto_prefix_propagate`).
//!
//! A prefix belongs to the owner of its route. Owners take turns, and each leaves room to others among the commands that wait
//! for their answers. A prefix whose route has ended is kept until its withdrawal is confirmed, if the receiver may know it;
//! these are charged to their owners, of whose withdrawals the oldest give way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ndn_packet::{Interest, Name, NameRef};
use ndn_types::{
    LedgerReport, Now, PrincipalIndex, PrincipalKey, Reserves, Timestamp, duration_ms,
};

use crate::ControlParameters;
use crate::client::CommandBuilder;
use crate::command::{TopPrefix, Verb};
use crate::response::ControlResponse;
use crate::share::{Charge, Share, places};
use crate::types::route_origin;

/// Number of places for withdrawals, see [`places`].
const WITHDRAWALS_MAX: usize = 16_384;

ndn_types::resource! {
    /// Places for prefixes that are to be withdrawn.
    pub struct WithdrawalPlaces = "withdrawals";
}

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

/// The owner of the route of a prefix; `None`: an operator.
type Owner = Option<PrincipalKey>;

/// The source of a prefix.
#[derive(Debug, Clone, Copy, Default)]
pub struct Registrant<'a> {
    /// The identity that signs; `None`: the default one.
    pub identity: Option<&'a Name>,
    /// The owner of the route; `None`: an operator.
    pub owner: Option<PrincipalKey>,
}

/// The readvertisement of one prefix.
#[derive(Debug)]
struct Entry {
    /// The prefix has a route; otherwise it is to be withdrawn.
    is_advertised: bool,
    /// The receiver may know the prefix.
    was_sent: bool,
    owner: Owner,
    /// The charge for a prefix that is to be withdrawn, and its number.
    withdrawal: Option<(Charge, u64)>,
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
    /// Prefixes with a command to be sent, by owner and time.
    due: BTreeMap<Owner, BTreeSet<(Timestamp, Name)>>,
    /// Prefixes that wait for an answer, by deadline.
    waiting: BTreeSet<(Timestamp, Name)>,
    /// The prefix of each unanswered command.
    unanswered: BTreeMap<Name, Name>,
    /// Number of unanswered commands by owner.
    unanswered_of: BTreeMap<Owner, usize>,
    withdrawals: Share<WithdrawalPlaces>,
    /// Prefixes that are to be withdrawn, by principal and number.
    withdrawn: BTreeMap<(PrincipalIndex, u64), Name>,
    last_withdrawal: u64,
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
    pub fn new(options: ReadvertiseOptions, reserves: Reserves) -> Self {
        let places = (WITHDRAWALS_MAX, WITHDRAWALS_MAX);
        let timeout_ms = duration_ms(options.timeout);
        Self {
            commands: CommandBuilder::new(options.prefix.clone()).lifetime_ms(timeout_ms),
            options,
            is_available: false,
            entries: BTreeMap::new(),
            due: BTreeMap::new(),
            waiting: BTreeSet::new(),
            unanswered: BTreeMap::new(),
            unanswered_of: BTreeMap::new(),
            withdrawals: Share::new(WithdrawalPlaces, places, reserves),
            withdrawn: BTreeMap::new(),
            last_withdrawal: 0,
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

    /// Returns the places for prefixes to be withdrawn that each principal holds.
    #[must_use]
    pub fn report(&self) -> LedgerReport<1> {
        self.withdrawals.report()
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
            self.entries.values_mut().for_each(|entry| entry.was_sent = false);
        }
        self.is_available = is_available;
    }

    /// Sets whether a prefix is to be registered.
    pub fn set_advertised(
        &mut self,
        now: Now,
        prefix: &Name,
        is_advertised: bool,
        Registrant { identity, owner }: Registrant<'_>,
    ) {
        let known = self.entries.get(prefix.value());
        let known_owner = known.and_then(|entry| entry.owner);
        let known = known.map(|entry| (entry.is_advertised, entry.was_sent));
        let (at, retry) = (now.monotonic, self.options.retry_min);
        match known {
            None if is_advertised => {
                let entry = Entry {
                    is_advertised,
                    was_sent: false,
                    owner,
                    withdrawal: None,
                    identity: identity.cloned(),
                    at,
                    retry,
                    unanswered: None,
                    is_overtaken: false,
                };
                self.schedule(prefix, &entry);
                self.entries.insert(prefix.clone(), entry);
            }
            Some((true, was_sent)) if !is_advertised => {
                if !self.is_available || !was_sent {
                    return self.forget(prefix);
                }
                self.update(prefix, |entry| {
                    entry.is_advertised = false;
                    entry.at = at;
                    entry.retry = retry;
                    entry.unanswered = None;
                });
                self.charge_withdrawal(prefix);
            }
            Some((false, _)) if is_advertised => {
                self.release_withdrawal(prefix);
                self.update(prefix, |entry| {
                    entry.is_advertised = true;
                    entry.owner = owner;
                    entry.identity = identity.cloned();
                    entry.at = at;
                    entry.retry = retry;
                    entry.unanswered = None;
                });
            }
            // Another one has a route for it now.
            Some((true, _)) if known_owner != owner => {
                self.update(prefix, |entry| entry.owner = owner);
            }
            None | Some(_) => {}
        }
    }

    /// Charges a prefix that is to be withdrawn to its owner, whose oldest ones give way to it.
    fn charge_withdrawal(&mut self, prefix: &Name) {
        let Some(owner) = self.entries.get(prefix.value()).and_then(|entry| entry.owner) else {
            return;
        };
        let places = places(prefix.as_ref());
        while self.withdrawals.check(owner, places).is_err() {
            let index = self.withdrawals.index_of(owner);
            let mut own = self.withdrawn.range((index, 0)..=(index, u64::MAX));
            let Some(oldest) = own.next().map(|(_, oldest)| oldest.clone()) else {
                return self.forget(prefix);
            };
            self.forget(&oldest);
        }
        let charge = self.withdrawals.charge(owner, places);
        self.last_withdrawal += 1;
        self.withdrawn.insert((charge.owner, self.last_withdrawal), prefix.clone());
        if let Some(entry) = self.entries.get_mut(prefix.value()) {
            entry.withdrawal = Some((charge, self.last_withdrawal));
        }
    }

    fn release_withdrawal(&mut self, prefix: &Name) {
        let entry = self.entries.get_mut(prefix.value());
        if let Some((charge, number)) = entry.and_then(|entry| entry.withdrawal.take()) {
            self.withdrawn.remove(&(charge.owner, number));
            self.withdrawals.release(charge);
        }
    }

    /// The time of the next call of [`Readvertise::poll`]. While the signer is looking a key up, only the deadlines of answers
    /// count; the owner of the signer calls when it has finished.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let due = self.next_due().filter(|_| !self.is_signer_busy);
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
        while self.is_available {
            let (_, prefix) = self.next_of_turn(now.monotonic).cloned()?;
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
                entry.was_sent = true;
                entry.at = now.monotonic + timeout;
            });
            return Some(wire);
        }
        None
    }

    /// Whether one more command of this owner may wait for its answer. All but operators leave as many places as they take.
    fn has_room(&self, owner: Owner) -> bool {
        let free = self.options.unanswered_max.saturating_sub(self.unanswered.len());
        free > if owner.is_none() { 0 } else { self.unanswered_by(owner) }
    }

    fn unanswered_by(&self, owner: Owner) -> usize {
        self.unanswered_of.get(&owner).copied().unwrap_or_default()
    }

    /// The earliest command that may be sent.
    fn next_due(&self) -> Option<&(Timestamp, Name)> {
        let with_room = self.due.iter().filter(|(owner, _)| self.has_room(**owner));
        with_room.filter_map(|(_, due)| due.first()).min()
    }

    /// The command whose turn it is: that of the owner with the fewest unanswered ones.
    fn next_of_turn(&self, now: Timestamp) -> Option<&(Timestamp, Name)> {
        let with_room = self.due.iter().filter(|(owner, _)| self.has_room(**owner));
        let due = with_room.filter_map(|(owner, due)| Some((*owner, due.first()?)));
        let due = due.filter(|(_, (at, _))| *at <= now);
        let next = due.min_by_key(|(owner, first)| (self.unanswered_by(*owner), *first))?;
        Some(next.1)
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
        self.release_withdrawal(prefix);
        let Some(entry) = self.entries.remove(prefix.value()) else { return };
        self.unschedule(prefix, &entry);
    }

    fn update(&mut self, prefix: &Name, change: impl FnOnce(&mut Entry)) {
        let Some(mut entry) = self.entries.remove(prefix.value()) else { return };
        self.unschedule(prefix, &entry);
        change(&mut entry);
        self.schedule(prefix, &entry);
        self.entries.insert(prefix.clone(), entry);
    }

    fn schedule(&mut self, prefix: &Name, entry: &Entry) {
        let place = (entry.at, prefix.clone());
        match &entry.unanswered {
            Some(command) => {
                self.unanswered.insert(command.name.clone(), prefix.clone());
                *self.unanswered_of.entry(entry.owner).or_default() += 1;
                self.waiting.insert(place);
            }
            None => {
                self.due.entry(entry.owner).or_default().insert(place);
            }
        }
    }

    /// Removes an entry from its queue. The answer to its command is ignored from now on.
    fn unschedule(&mut self, prefix: &Name, entry: &Entry) {
        let place = (entry.at, prefix.clone());
        match &entry.unanswered {
            Some(command) => {
                self.waiting.remove(&place);
                self.unanswered.remove(command.name.value());
                let Some(count) = self.unanswered_of.get_mut(&entry.owner) else { return };
                *count -= 1;
                if *count == 0 {
                    self.unanswered_of.remove(&entry.owner);
                }
            }
            None => {
                let Some(due) = self.due.get_mut(&entry.owner) else { return };
                due.remove(&place);
                if due.is_empty() {
                    self.due.remove(&entry.owner);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
