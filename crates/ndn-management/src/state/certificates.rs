//! Certificates that commands and prefix announcements wait for: what waits, with a share of the places for each
//! principal, and the Interests that fetch the certificates.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ndn_packet::{Data, Interest, InterestBuilder, Name, NameRef};
use ndn_security::trust::Search;
use ndn_security::{Certificate, SHA256_LEN, identity_of_key};
use ndn_types::{
    Capacity, LedgerReport, Limits, Now, PrincipalIndex, PrincipalKey, RankedLedger, Reserves,
    ShareVerdict, Timestamp, duration_ms,
};

use super::action::Action;
use super::outbox::Outbox;
use super::pending::PendingTable;
use crate::announcement::PrefixAnnouncement;
use crate::authorize::Requester;
use crate::command::Verb;
use crate::fib::Fib;
use crate::types::CS_ERASE_LIMIT;

/// Maximum number of commands and announcements that wait.
pub(super) const WAITING_MAX: usize = 256;
/// Maximum number of commands that wait from one face, and of announcements.
pub(super) const WAITING_PER_FACE_MAX: usize = 16;
/// Maximum number of certificates of one command that its chains consist of so far.
const CERTIFICATES_MAX: usize = 25;
/// Maximum number of certificates from one principal that are judged for one command and prove nothing.
const REJECTED_PER_SOURCE_MAX: usize = 8;
/// The time for which a command waits if every certificate that it requires has arrived, and none proves it: they may be
/// forged, and another source may have the right ones.
const DOUBT_TIME: Duration = Duration::from_secs(1);
/// The time after the arrival of a certificate in which those of its issuers should arrive.
const ISSUERS_TIME: Duration = Duration::from_secs(1);
/// Maximum number of next hops that a certificate is requested from one by one.
const NEXT_HOPS_MAX: usize = 8;
/// The time in which the certificates of one command, or of one announcement, have to arrive.
pub(super) const FETCH_TIME_MAX: Duration = Duration::from_secs(4);
/// The same for a command whose Interest has a shorter lifetime: its successor finds the certificates.
const FETCH_TIME_MIN: Duration = Duration::from_secs(1);
/// Time between the first two Interests for a certificate. It doubles with each, up to the maximum. Both exceed the
/// retransmission suppression of the strategies (10 ms to 250 ms), so that each Interest is forwarded.
const RETRY_MIN: Duration = Duration::from_millis(30);
const RETRY_MAX: Duration = Duration::from_millis(500);
/// Time between Interests to one next hop after the other, for a certificate that a forged one has arrived for.
const NEXT_HOP_PAUSE: Duration = Duration::from_millis(80);
/// The time for which a certificate that did not arrive is not requested again for the same face.
pub(super) const FAILURE_TIME: Duration = Duration::from_secs(1);
/// Maximum number of such failures.
const FAILURES_MAX: usize = 1024;

ndn_types::resource! {
    /// Places for commands and announcements that wait, which principals share.
    pub struct WaitingPlaces = "waiting_for_certificates";
}

/// A certificate from the network.
#[derive(Debug, Clone)]
pub(super) struct ReceivedCertificate {
    pub(super) certificate: Arc<Certificate>,
    digest: [u8; SHA256_LEN],
    /// The principal that sent it.
    source: PrincipalKey,
}

impl ReceivedCertificate {
    pub(super) fn new(certificate: Certificate, source: PrincipalKey) -> Self {
        let digest = ndn_security::sha256(certificate.wire());
        Self { certificate: Arc::new(certificate), digest, source }
    }
}

/// Progress of the search for a required certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Requested,
    /// One has arrived, or the last request has just failed.
    Answered,
}

/// The search for the certificates of a command or an announcement. A certificate of any name can be forged, so each is
/// awaited until the command is accepted or its time is over, also if one of its name has arrived.
#[derive(Debug)]
pub(super) struct Progress {
    /// Prefixes of names; the last is that of the key that signed the command.
    required: Vec<(Name, Stage)>,
    /// Certificates of keys that signed the command, or one of these certificates.
    fetched: Vec<ReceivedCertificate>,
    /// Certificates that prove nothing.
    rejected: Vec<([u8; SHA256_LEN], PrincipalKey)>,
    /// Why the last of them does not.
    refusal: Option<String>,
    /// The one that has arrived last, until the command is judged by it.
    last: Option<ReceivedCertificate>,
    deadline: Timestamp,
    /// An earlier deadline, while there is nothing that has not arrived.
    doubt_until: Option<Timestamp>,
}

impl Progress {
    pub(super) fn new(deadline: Timestamp) -> Self {
        let (required, fetched, rejected) = (Vec::new(), Vec::new(), Vec::new());
        Self { required, fetched, rejected, refusal: None, last: None, deadline, doubt_until: None }
    }

    /// The time until which the command waits.
    pub(super) fn deadline(&self) -> Timestamp {
        self.doubt_until.map_or(self.deadline, |doubt_until| doubt_until.min(self.deadline))
    }

    /// The time until which certificates are fetched.
    pub(super) const fn fetch_deadline(&self) -> Timestamp {
        self.deadline
    }

    /// The required certificates.
    pub(super) fn names(&self) -> Vec<Name> {
        self.required.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Whether the command has not been judged.
    pub(super) const fn is_new(&self) -> bool {
        self.required.is_empty()
    }

    /// Whether a certificate belongs to the chains of this search.
    pub(super) fn is_followed(&self, search: &Search, arrival: &ReceivedCertificate) -> bool {
        let position = self.fetched.iter().position(|one| one.digest == arrival.digest);
        position.is_some_and(|position| search.followed.contains(&position))
    }

    pub(super) fn requires(&self, name: &Name) -> bool {
        self.required.iter().any(|(required, _)| required == name)
    }

    /// The certificates to judge the command by.
    pub(super) fn certificates(&self) -> Vec<Arc<Certificate>> {
        self.fetched.iter().map(|one| Arc::clone(&one.certificate)).collect()
    }

    /// Takes the certificate that the command is to be judged by now; a new command has none.
    pub(super) fn take_last(&mut self) -> Option<ReceivedCertificate> {
        self.last.take()
    }

    fn holds(&self, arrival: &ReceivedCertificate) -> bool {
        self.fetched.iter().any(|one| one.digest == arrival.digest)
    }

    /// Whether this is a required certificate that is to be judged: it has not arrived before, and its source may send more.
    pub(super) fn awaits(&self, arrival: &ReceivedCertificate) -> bool {
        let is_required = |name: &Name| is_certificate_of(&arrival.certificate, name.as_ref());
        let is_rejected = self.rejected.iter().any(|(digest, _)| *digest == arrival.digest);
        let of_source = self.rejected.iter().filter(|(_, source)| *source == arrival.source);
        self.required.iter().any(|(name, _)| is_required(name))
            && !is_rejected
            && !self.holds(arrival)
            && of_source.count() < REJECTED_PER_SOURCE_MAX
    }

    /// Adds a certificate that it [awaits](Self::awaits). The oldest one of the principal that sent most makes room.
    pub(super) fn add(&mut self, arrival: &ReceivedCertificate) {
        for (name, stage) in &mut self.required {
            if is_certificate_of(&arrival.certificate, name.as_ref()) {
                *stage = Stage::Answered;
            }
        }
        if self.fetched.len() == CERTIFICATES_MAX {
            let number_of = |source: &PrincipalKey| {
                self.fetched.iter().filter(|one| one.source == *source).count()
            };
            let numbers = self.fetched.iter().map(|one| number_of(&one.source));
            let most = numbers.max().unwrap_or_default();
            let oldest = self.fetched.iter().position(|one| number_of(&one.source) == most);
            if let Some(position) = oldest {
                let ReceivedCertificate { digest, source, .. } = self.fetched.remove(position);
                self.rejected.push((digest, source));
            }
        }
        self.fetched.push(arrival.clone());
        self.last = Some(arrival.clone());
    }

    /// Takes the result of a judgement by these [certificates](Self::certificates).
    pub(super) fn update(&mut self, search: Search) {
        let Search { names, followed, refusal } = search;
        let mut position = 0;
        for one in self.fetched.extract_if(.., |_| {
            position += 1;
            !followed.contains(&(position - 1))
        }) {
            self.rejected.push((one.digest, one.source));
        }
        self.refusal = refusal.map(|error| error.to_string());
        let known = std::mem::take(&mut self.required);
        let stage_of =
            |name: &Name| known.iter().find(|(one, _)| one == name).map(|(_, stage)| *stage);
        let stages = names.into_iter().map(|name| {
            let stage = stage_of(&name).unwrap_or(Stage::New);
            (name, stage)
        });
        self.required = stages.collect();
    }

    /// The names that are to be requested.
    pub(super) fn take_new(
        &mut self,
        now: Timestamp,
        has_failed: impl Fn(&Name) -> bool,
    ) -> Vec<Name> {
        let mut new = Vec::new();
        for (name, stage) in self.required.iter_mut().filter(|(_, stage)| *stage == Stage::New) {
            *stage = if has_failed(name) { Stage::Answered } else { Stage::Requested };
            if *stage == Stage::Requested {
                new.push(name.clone());
            }
        }
        let is_answered = self.required.iter().all(|(_, stage)| *stage == Stage::Answered);
        let doubt_until = self.doubt_until.unwrap_or(now + DOUBT_TIME);
        self.doubt_until = is_answered.then_some(doubt_until);
        new
    }

    /// Why the command is refused.
    pub(super) fn refusal(&self) -> String {
        let name = self.required.first().map(|(name, _)| name.to_uri()).unwrap_or_default();
        self.refusal.clone().unwrap_or_else(|| format!("certificate {name} was not found"))
    }
}

/// Whether `name`, which is that of a key or a prefix of a certificate's name, stands for this certificate. Names of other
/// keys may begin with that of a key.
fn is_certificate_of(certificate: &Certificate, name: NameRef<'_>) -> bool {
    let is_of_key = identity_of_key(name).is_none() || certificate.key_name() == name;
    is_of_key && certificate.name().starts_with(name)
}

/// The time until which the certificates of a command have to arrive, so that the answer arrives within the lifetime of
/// the command's Interest.
pub(super) fn command_deadline(now: Timestamp, interest: &Interest<'_>) -> Timestamp {
    let lifetime = Duration::from_millis(interest.lifetime_ms());
    now + (lifetime - lifetime / 8).clamp(FETCH_TIME_MIN, FETCH_TIME_MAX)
}

/// A command that waits for a certificate.
#[derive(Debug)]
pub(super) struct WaitingCommand {
    pub(super) wire: Vec<u8>,
    pub(super) requester: Requester,
    pub(super) verb: Verb,
    pub(super) signer: String,
    pub(super) progress: Progress,
}

/// An announcement that waits for a certificate.
#[derive(Debug)]
pub(super) struct WaitingAnnouncement {
    pub(super) wire: Vec<u8>,
    pub(super) face_id: u64,
    pub(super) progress: Progress,
}

impl WaitingAnnouncement {
    /// Whether it announces a prefix of this name.
    pub(super) fn covers(&self, name: NameRef<'_>) -> bool {
        let announcement = Data::parse(&self.wire).ok();
        let announcement = announcement.and_then(|data| PrefixAnnouncement::from_data(&data).ok());
        announcement.is_some_and(|announcement| name.starts_with(announcement.prefix.as_ref()))
    }
}

/// Something that waits for certificates, or is to be judged by those that have arrived.
#[derive(Debug)]
pub(super) enum WaitingRequest {
    Command(Box<WaitingCommand>),
    Announcement(Box<WaitingAnnouncement>),
}

impl WaitingRequest {
    /// The face that it came from.
    pub(super) fn face_id(&self) -> u64 {
        match self {
            Self::Command(command) => command.requester.face_id,
            Self::Announcement(announcement) => announcement.face_id,
        }
    }

    pub(super) fn wire(&self) -> &[u8] {
        match self {
            Self::Command(command) => &command.wire,
            Self::Announcement(announcement) => &announcement.wire,
        }
    }

    pub(super) fn progress(&self) -> &Progress {
        match self {
            Self::Command(command) => &command.progress,
            Self::Announcement(announcement) => &announcement.progress,
        }
    }

    pub(super) fn progress_mut(&mut self) -> &mut Progress {
        match self {
            Self::Command(command) => &mut command.progress,
            Self::Announcement(announcement) => &mut announcement.progress,
        }
    }

    fn is_command(&self) -> bool {
        matches!(self, Self::Command(_))
    }
}

/// Whether something may wait.
#[derive(Debug)]
pub(super) enum Admission {
    /// It waits. The table was full if there is another one: that of a principal above its share, which waits no longer.
    Admitted(Option<WaitingRequest>),
    /// There is no room for it.
    Refused(WaitingRequest),
}

/// Commands and announcements that wait for certificates, in the order of arrival.
#[derive(Debug)]
pub(super) struct WaitingTable {
    entries: VecDeque<(PrincipalIndex, WaitingRequest)>,
    ledger: RankedLedger<WaitingPlaces, 1>,
}

impl WaitingTable {
    pub(super) fn new(reserves: Reserves) -> Self {
        let ledger = RankedLedger::new([Capacity::of(WAITING_MAX)], reserves);
        Self { entries: VecDeque::new(), ledger }
    }

    /// Returns the holdings of all principals.
    pub(super) fn report(&self) -> LedgerReport<1> {
        self.ledger.report()
    }

    /// Adds something of a principal, which is charged until it is taken.
    pub(super) fn add(&mut self, key: PrincipalKey, waiting: WaitingRequest) -> Admission {
        let is_like = |(_, entry): &&(PrincipalIndex, WaitingRequest)| {
            entry.face_id() == waiting.face_id() && entry.is_command() == waiting.is_command()
        };
        if self.entries.iter().filter(is_like).count() >= WAITING_PER_FACE_MAX {
            return Admission::Refused(waiting);
        }
        let principal = self.ledger.attach(key);
        let displaced = match self.ledger.verdict(principal, WaitingPlaces, 1) {
            ShareVerdict::Room => None,
            ShareVerdict::Evict(limits) => self.take_oldest(limits),
            ShareVerdict::Refused => {
                self.ledger.detach(principal);
                return Admission::Refused(waiting);
            }
        };
        self.ledger.charge(principal, WaitingPlaces, 1);
        self.entries.push_back((principal, waiting));
        Admission::Admitted(displaced)
    }

    /// Takes the oldest entry of the principal that is above these limits by most.
    fn take_oldest(&mut self, limits: Limits) -> Option<WaitingRequest> {
        let victim = self.ledger.victim(WaitingPlaces, limits)?;
        let oldest = self.entries.iter().position(|(principal, _)| *principal == victim)?;
        let (principal, displaced) = self.entries.remove(oldest)?;
        self.forget(principal);
        Some(displaced)
    }

    fn forget(&mut self, principal: PrincipalIndex) {
        self.ledger.release(principal, WaitingPlaces, 1);
        self.ledger.detach(principal);
    }

    /// Takes what waits for this certificate.
    pub(super) fn take_awaiting(&mut self, arrival: &ReceivedCertificate) -> Vec<WaitingRequest> {
        self.take_if(|entry| entry.progress().awaits(arrival))
    }

    /// Takes what has waited for its time.
    pub(super) fn take_expired(&mut self, now: Timestamp) -> Vec<WaitingRequest> {
        self.take_if(|entry| entry.progress().deadline() <= now)
    }

    /// Whether something from this face waits for this certificate.
    pub(super) fn has(&self, name: &Name, face_id: u64) -> bool {
        let mut of_face = self.entries.iter().filter(|(_, entry)| entry.face_id() == face_id);
        of_face.any(|(_, entry)| entry.progress().requires(name))
    }

    pub(super) fn face_destroyed(&mut self, face_id: u64) {
        self.take_if(|entry| entry.face_id() == face_id);
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.entries.iter().map(|(_, entry)| entry.progress().deadline()).min()
    }

    pub(super) fn take_if(
        &mut self,
        is_selected: impl Fn(&WaitingRequest) -> bool,
    ) -> Vec<WaitingRequest> {
        let all = std::mem::take(&mut self.entries).into_iter();
        let (taken, kept): (Vec<_>, Vec<_>) = all.partition(|(_, entry)| is_selected(entry));
        self.entries = kept.into();
        let taken = taken.into_iter().map(|(principal, entry)| {
            self.forget(principal);
            entry
        });
        taken.collect()
    }
}

/// A certificate that is being fetched for a face.
#[derive(Debug)]
struct Fetch {
    name: Name,
    face_id: u64,
    /// Interests sent.
    attempts: usize,
    /// Time to the Interest after the next one.
    pause: Duration,
    next_attempt: Timestamp,
    deadline: Timestamp,
    /// Next hops that are asked in turn, in addition to the requester and the strategy, once a certificate has arrived that
    /// proves nothing.
    next_hops: Vec<u64>,
    /// Interests left until each next hop has been asked.
    turns_left: usize,
    /// Whether certificates of the name have arrived that prove nothing, or not enough in time.
    is_doubted: bool,
    /// A certificate of the name has arrived.
    is_answered: bool,
    /// The name of one that a command continues with, while the Content Store may have it.
    used: Option<Name>,
}

/// The parts of the control plane that a fetch uses.
pub(super) struct FetchContext<'a> {
    pub(super) now: Now,
    pub(super) fib: &'a Fib,
    pub(super) pending: &'a mut PendingTable,
    pub(super) outbox: &'a mut Outbox,
}

/// A certificate that did not arrive for a face.
#[derive(Debug)]
struct Failure {
    name: Name,
    face_id: u64,
    ends_at: Timestamp,
}

/// The certificates that are being fetched. Each is requested again and again until its time is over or nothing waits for
/// it, less often once one has arrived: from the face that requires it, which usually has it, and in turn from the
/// network. If what arrived proves nothing, each next hop is asked, too. There is one fetch for each
/// certificate and face that something waits for, so that their number is bounded by those of the waiting commands and
/// announcements.
#[derive(Debug, Default)]
pub(super) struct CertificateFetches {
    fetches: Vec<Fetch>,
    /// In the order of their ends.
    failures: VecDeque<Failure>,
}

impl CertificateFetches {
    /// Whether the certificate has just failed to arrive for this face.
    pub(super) fn has_failed(&self, now: Timestamp, name: &Name, face_id: u64) -> bool {
        let is_same = |failure: &&Failure| failure.face_id == face_id && failure.name == *name;
        self.failures.iter().filter(is_same).any(|failure| failure.ends_at > now)
    }

    /// Fetches a certificate, at least until `deadline`.
    pub(super) fn begin(
        &mut self,
        name: &Name,
        (face_id, deadline): (u64, Timestamp),
        cx: &mut FetchContext<'_>,
    ) {
        let now = cx.now.monotonic;
        let known = self.fetches.iter_mut().find(|one| one.face_id == face_id && one.name == *name);
        if let Some(fetch) = known {
            fetch.deadline = fetch.deadline.max(deadline);
            if fetch.is_answered {
                fetch.doubt_used(cx);
                fetch.next_attempt = now;
            }
            return;
        }
        let mut fetch = Fetch {
            name: name.clone(),
            face_id,
            attempts: 0,
            pause: RETRY_MIN,
            next_attempt: now,
            deadline,
            next_hops: Vec::new(),
            turns_left: 0,
            is_doubted: false,
            is_answered: false,
            used: None,
        };
        fetch.attempt(now, cx.outbox);
        self.fetches.push(fetch);
    }

    /// Notes a certificate for these faces. If a command or an announcement continues with it, it is requested again after a
    /// while, unless nothing waits for it any more. Otherwise it is erased and requested again; from then on nothing delays
    /// the requests.
    pub(super) fn arrived(
        &mut self,
        certificate: &Certificate,
        is_for: impl Fn(u64) -> bool,
        is_used: bool,
        cx: &mut FetchContext<'_>,
    ) {
        let mut is_erased = false;
        for fetch in self.fetches.iter_mut().filter(|fetch| is_for(fetch.face_id)) {
            if !is_certificate_of(certificate, fetch.name.as_ref()) {
                continue;
            }
            fetch.is_answered = true;
            is_erased |= !is_used;
            if fetch.is_doubted {
                continue;
            }
            if is_used {
                fetch.next_attempt = cx.now.monotonic + ISSUERS_TIME;
                fetch.used = Some(certificate.name().to_name());
            } else if fetch.used.is_none() {
                fetch.doubt(cx);
            }
        }
        if is_erased {
            cx.erase(certificate.name().to_name());
        }
        self.failures.retain(|failure| !is_certificate_of(certificate, failure.name.as_ref()));
    }

    /// Ends a fetch that nothing waits for.
    pub(super) fn cancel(&mut self, name: &Name, face_id: u64) {
        self.fetches.retain(|fetch| fetch.face_id != face_id || fetch.name != *name);
    }

    pub(super) fn face_destroyed(&mut self, face_id: u64) {
        self.fetches.retain(|fetch| fetch.face_id != face_id);
        self.failures.retain(|failure| failure.face_id != face_id);
    }

    /// Sends the Interests that are due, and ends the fetches whose time is over.
    pub(super) fn handle_timeout(&mut self, cx: &mut FetchContext<'_>) {
        let now = cx.now.monotonic;
        while self.failures.front().is_some_and(|failure| failure.ends_at <= now) {
            self.failures.pop_front();
        }
        let ends_at = now + FAILURE_TIME;
        for fetch in self.fetches.extract_if(.., |fetch| fetch.deadline <= now) {
            if self.failures.len() == FAILURES_MAX {
                self.failures.pop_front();
            }
            let Fetch { name, face_id, is_answered, .. } = fetch;
            if !is_answered {
                self.failures.push_back(Failure { name, face_id, ends_at });
            }
        }
        for fetch in &mut self.fetches {
            if fetch.next_attempt <= now {
                fetch.doubt_used(cx);
                fetch.attempt(now, cx.outbox);
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = self.fetches.iter().map(|fetch| fetch.next_attempt.min(fetch.deadline));
        deadlines.min()
    }
}

impl FetchContext<'_> {
    /// Makes the Content Store forget a certificate.
    fn erase(&mut self, prefix: Name) {
        if let Some(ticket) = self.pending.add_erasure(self.now, prefix.clone()) {
            let limit = CS_ERASE_LIMIT;
            self.outbox.push(Action::EraseCs { ticket, prefix, limit, is_whole_name: true });
        }
    }
}

impl Fetch {
    /// Requests the certificate soon, also from each next hop for its name.
    fn doubt(&mut self, cx: &FetchContext<'_>) {
        let name = self.name.as_ref();
        let mut prefixes = (0..=name.len()).rev().map(|length| name.prefix(length));
        let next_hops = prefixes.find_map(|prefix| cx.fib.find(prefix)).unwrap_or_default();
        let next_hops = next_hops.iter().map(|hop| hop.face_id);
        let other = next_hops.filter(|&face_id| face_id != self.face_id);
        self.next_hops = other.take(NEXT_HOPS_MAX).collect();
        self.is_doubted = true;
        self.turns_left = self.next_hops.len() + 2;
        self.pause = NEXT_HOP_PAUSE;
        self.next_attempt = cx.now.monotonic + RETRY_MIN;
    }

    /// Erases the certificate that a command continues with, if there is one: it may be forged.
    fn doubt_used(&mut self, cx: &mut FetchContext<'_>) {
        if let Some(used) = self.used.take() {
            cx.erase(used);
            self.doubt(cx);
        }
    }

    /// Sends one Interest. It has no Nonce: the forwarder adds a new one to each.
    fn attempt(&mut self, now: Timestamp, outbox: &mut Outbox) {
        let left = self.deadline - now;
        let wire = InterestBuilder::new(&self.name)
            .can_be_prefix(true)
            .must_be_fresh(true)
            .lifetime_ms(duration_ms(left.max(RETRY_MIN)))
            .to_vec();
        if let Ok(wire) = wire {
            // The requester, the strategy, then each next hop.
            let turn = self.attempts % (self.next_hops.len() + 2);
            let next_hop = match turn.checked_sub(2) {
                Some(place) => self.next_hops.get(place).copied(),
                None => (turn == 0).then_some(self.face_id),
            };
            outbox.push(Action::SendInterest { wire, next_hop });
        }
        self.attempts += 1;
        self.next_attempt = now + self.pause;
        self.turns_left = self.turns_left.saturating_sub(1);
        if self.turns_left == 0 {
            self.pause = (self.pause * 2).min(RETRY_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use ndn_security::KeyType;
    use ndn_types::Scope;

    use super::*;
    use crate::access::tests::Identity;
    use crate::sign::DigestSigner;
    use crate::testing::name;

    fn command(face_id: u64) -> WaitingRequest {
        WaitingRequest::Command(Box::new(WaitingCommand {
            wire: Vec::new(),
            requester: Requester { face_id, scope: Scope::NonLocal },
            verb: Verb::RibRegister,
            signer: String::new(),
            progress: Progress::new(Timestamp::ZERO),
        }))
    }

    fn announcement(face_id: u64) -> WaitingRequest {
        let progress = Progress::new(Timestamp::ZERO);
        WaitingRequest::Announcement(Box::new(WaitingAnnouncement {
            wire: Vec::new(),
            face_id,
            progress,
        }))
    }

    #[test]
    fn few_addresses_leave_places_to_others() {
        let mut waiting = WaitingTable::new(Reserves::default());
        let address =
            |last: u8| PrincipalKey::remote(std::net::SocketAddr::from(([192, 0, 2, last], 6363)));
        let mut add = |entry, principal| waiting.add(principal, entry);
        // Eight ports of one address take all that is open to remote peers.
        let entries = (0..8 * 16).flat_map(|number| {
            let face_id = 1000 + number / 16;
            [command(face_id), announcement(face_id)]
        });
        let admitted = entries.filter_map(|entry| {
            matches!(add(entry, address(1)), Admission::Admitted(None)).then_some(())
        });
        assert_eq!(admitted.count(), WAITING_MAX - 2 - 25 - 51);
        let share = (WAITING_MAX - 2 - 25 - 51) / 2;
        for number in 0..share as u64 {
            let admission = add(announcement(2000 + number / 16), address(2));
            assert!(matches!(admission, Admission::Admitted(Some(_))), "{number}: {admission:?}");
        }
        let refused = add(command(2100), address(2));
        assert!(matches!(refused, Admission::Refused(_)), "it has its share");
        let neighbour = PrincipalKey::Neighbour { face_id: 1 };
        let admission = add(command(1), neighbour);
        assert!(matches!(admission, Admission::Admitted(None)), "it has a reserve");
        for face_id in (1000..1008).chain(2000..2016).chain([1]) {
            waiting.face_destroyed(face_id);
        }
        assert!(waiting.entries.is_empty() && waiting.ledger.report().is_zero());
    }

    #[test]
    fn announcements_of_a_face_leave_places_to_its_commands() {
        let mut waiting = WaitingTable::new(Reserves::default());
        let neighbour = PrincipalKey::Neighbour { face_id: 1 };
        let mut add = |entry| matches!(waiting.add(neighbour, entry), Admission::Admitted(None));
        assert_eq!((0..100).filter(|_| add(announcement(1))).count(), WAITING_PER_FACE_MAX);
        assert_eq!((0..100).filter(|_| add(command(1))).count(), WAITING_PER_FACE_MAX);
    }

    /// The parts of the control plane that a fetch uses, in tests.
    struct Surroundings {
        outbox: Outbox,
        fib: Fib,
        pending: PendingTable,
    }

    impl Surroundings {
        fn new() -> Self {
            let outbox = Outbox::new(Box::new(DigestSigner));
            Self { outbox, fib: Fib::new(9), pending: PendingTable::new(Reserves::default()) }
        }

        fn at(&mut self, monotonic: Timestamp) -> FetchContext<'_> {
            let Self { outbox, fib, pending } = self;
            FetchContext { now: Now { monotonic, ..Now::default() }, fib, pending, outbox }
        }

        /// The next hops of the Interests sent.
        fn asked(&mut self) -> Vec<Option<u64>> {
            let actions = std::iter::from_fn(|| self.outbox.pop());
            let next_hops = actions.filter_map(|action| {
                let Action::SendInterest { next_hop, wire } = action else { return None };
                assert_eq!(Interest::parse(&wire).unwrap().nonce(), None);
                Some(next_hop)
            });
            next_hops.collect()
        }
    }

    #[test]
    fn fetch_is_repeated_until_its_deadline_and_then_fails_for_a_while() {
        let mut around = Surroundings::new();
        let mut fetches = CertificateFetches::default();
        let key = name("/net/site/KEY/k");
        let deadline = Timestamp::from_millis(4000);
        fetches.begin(&key, (300, deadline), &mut around.at(Timestamp::ZERO));
        fetches.begin(&key, (300, deadline), &mut around.at(Timestamp::ZERO));
        let mut sent = Vec::new();
        let mut now = Timestamp::ZERO;
        loop {
            sent.extend(around.asked().into_iter().map(|next_hop| (now.as_millis(), next_hop)));
            let Some(next) = fetches.next_deadline() else { break };
            now = next;
            fetches.handle_timeout(&mut around.at(now));
        }
        let expected = [(0, Some(300)), (30, None), (90, Some(300)), (210, None), (450, Some(300))];
        assert_eq!(sent[..5], expected);
        assert_eq!((sent.len(), sent.last().unwrap().0), (12, 3930));
        let failed =
            |at_ms: u64, face_id| fetches.has_failed(Timestamp::from_millis(at_ms), &key, face_id);
        assert!(failed(4000, 300) && failed(4999, 300) && !failed(5000, 300));
        assert!(!failed(4000, 301), "a failure is that of a face");
    }

    #[test]
    fn certificate_delays_the_fetches_of_its_key() {
        let mut around = Surroundings::new();
        let mut fetches = CertificateFetches::default();
        let [a, b, below] = ["/a", "/b", "/a/KEY/k"].map(|uri| Identity::new(uri, KeyType::Ecdsa));
        let key = name("/a/KEY/k");
        let deadline = Timestamp::from_millis(4000);
        for face_id in [300, 301] {
            fetches.begin(&key, (face_id, deadline), &mut around.at(Timestamp::ZERO));
        }
        let of_b = b.certificate.name().to_name();
        fetches.begin(&of_b, (300, deadline), &mut around.at(Timestamp::ZERO));
        assert_eq!(below.certificate.name().prefix(3), a.certificate.key_name());
        let due_ms = |fetches: &CertificateFetches| {
            let due = fetches.fetches.iter().map(|fetch| fetch.next_attempt.as_millis());
            due.collect::<Vec<_>>()
        };
        fetches.arrived(&below.certificate, |_| true, true, &mut around.at(Timestamp::ZERO));
        assert_eq!(due_ms(&fetches), [30, 30, 30], "another key");
        fetches.arrived(
            &a.certificate,
            |face_id| face_id == 300,
            true,
            &mut around.at(Timestamp::ZERO),
        );
        assert_eq!(due_ms(&fetches), [1000, 30, 30], "a command of one face continues with it");
        // Another command of the same face needs the certificate.
        fetches.begin(&key, (300, deadline), &mut around.at(Timestamp::from_millis(1)));
        assert_eq!(due_ms(&fetches), [1, 30, 30]);
        fetches.cancel(&key, 301);
        fetches.face_destroyed(300);
        assert_eq!(fetches.next_deadline(), None);
    }

    #[test]
    fn doubted_certificate_is_erased_and_requested_from_each_next_hop() {
        let mut around = Surroundings::new();
        let mut fetches = CertificateFetches::default();
        let identity = Identity::new("/a", KeyType::Ecdsa);
        let key = name("/a/KEY/k");
        for face_id in [300, 301, 302] {
            let next_hop = crate::rib::NextHop { face_id, cost: 1 };
            around.fib.add_next_hop(&name("/a"), next_hop).unwrap();
        }
        fetches.begin(&key, (300, Timestamp::from_millis(4000)), &mut around.at(Timestamp::ZERO));
        let mut asked: Vec<_> = around.asked().into_iter().map(|next_hop| (0, next_hop)).collect();
        let mut now = Timestamp::ZERO;
        for _ in 0..5 {
            // Every Interest is answered with the same certificate.
            fetches.arrived(&identity.certificate, |_| true, false, &mut around.at(now));
            let erased = around.outbox.pop();
            let name = identity.certificate.name();
            assert!(
                matches!(&erased, Some(Action::EraseCs { prefix, is_whole_name: true, .. }) if *prefix == name),
                "{erased:?}"
            );
            now = fetches.next_deadline().unwrap();
            fetches.handle_timeout(&mut around.at(now));
            let sent = around.asked().into_iter();
            asked.extend(sent.map(|next_hop| (now.as_millis(), next_hop)));
        }
        let (first, second, third) = (Some(300), Some(301), Some(302));
        let expected =
            [(0, first), (30, None), (110, second), (190, third), (270, first), (350, None)];
        assert_eq!(asked, expected);
    }
}
