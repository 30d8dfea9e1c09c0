//! The exchange with one neighbour: reports that leave, one at a time, and reports that arrive.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ndn_types::Timestamp;

use crate::message::{Acknowledgement, Entry, REPORT_LEN_MAX, Report};
use crate::plane::{Amount, ObjectId};

/// Reports to a neighbour per slot, and reports of a neighbour that are accepted per slot in the long run.
pub const REPORTS_PER_SLOT: u32 = 16;
/// Reports of a neighbour that are accepted at once.
const REPORTS_BURST: u32 = 2 * REPORTS_PER_SLOT;
/// Acknowledgements of a neighbour per slot whose signatures are verified.
const VERIFICATIONS_PER_SLOT: u32 = 2 * REPORTS_PER_SLOT;
/// Transmissions of a report without an answer after which the session ends.
const TRANSMISSIONS_MAX: u32 = 8;
/// Time until the second transmission of a report. It doubles with each transmission, up to a slot.
const RETRY_MIN: Duration = Duration::from_millis(250);
/// Maximum time between two transmissions of the first report of a session.
const PROBE_MAX: Duration = Duration::from_secs(60);
/// Slots without a report after which a neighbour's session is forgotten.
pub(crate) const FORGET_SLOTS: u64 = 10;

/// The reports that leave for a neighbour.
#[derive(Debug)]
pub(crate) struct Sender {
    session: u64,
    /// Number of the last report.
    sequence: u64,
    /// The first report was acknowledged.
    is_connected: bool,
    in_flight: Option<InFlight>,
    /// Counts other than 0 in the reports of this session; `None` if the count is to be reported again.
    reported: BTreeMap<ObjectId, Option<Amount>>,
    /// VIPs for the neighbour that no report has.
    waiting: BTreeMap<ObjectId, Amount>,
    /// Names of removed objects whose count was reported as other than 0.
    removed: VecDeque<Entry>,
    /// Reports that may leave in this slot.
    left: u32,
    /// Acknowledgements whose signatures may be verified in this slot.
    verifications_left: u32,
    /// The next object to report.
    next: ObjectId,
}

/// A report without an answer.
#[derive(Debug)]
struct InFlight {
    wire: Vec<u8>,
    /// The VIPs in it.
    sent: Amount,
    transmissions: u32,
    interval: Duration,
    retry_at: Timestamp,
}

/// The result of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    /// The report in flight has arrived.
    Report,
    /// Of another report.
    Other,
    /// The neighbour has lost the session.
    Lost,
}

/// The objects as a sender reports them.
pub(crate) trait Reported {
    /// Number of objects, and of those that were removed.
    fn objects(&self) -> usize;
    /// Its count at the start of the slot.
    fn count(&self, object: ObjectId) -> Amount;
    /// An entry with this count, and with these VIPs; `None` of a removed object.
    fn entry(&self, object: ObjectId, count: Amount, sent: Amount) -> Option<Entry>;
}

impl Sender {
    /// Starts a session; the first report leaves at once.
    pub(crate) fn new(session: u64, slot_ms: u64, now: Timestamp) -> Self {
        let mut sender = Self {
            session,
            sequence: 0,
            is_connected: false,
            in_flight: None,
            reported: BTreeMap::new(),
            waiting: BTreeMap::new(),
            removed: VecDeque::new(),
            left: 0,
            verifications_left: VERIFICATIONS_PER_SLOT,
            next: 0,
        };
        sender.put_in_flight(Vec::new(), slot_ms, 0, now);
        sender
    }

    pub(crate) const fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// VIPs that the neighbour has not confirmed.
    pub(crate) fn unconfirmed(&self) -> Amount {
        let in_flight = self.in_flight.as_ref().map_or(0, |report| report.sent);
        self.waiting.values().fold(in_flight, |sum, amount| sum.saturating_add(*amount))
    }

    fn put_in_flight(&mut self, entries: Vec<Entry>, slot_ms: u64, sent: Amount, now: Timestamp) {
        self.sequence += 1;
        let Self { session, sequence, .. } = *self;
        let wire = Report { session, sequence, slot_ms, entries }.to_vec();
        let interval = RETRY_MIN.min(Duration::from_millis(slot_ms));
        self.in_flight = Some(InFlight { wire, sent, transmissions: 0, interval, retry_at: now });
    }

    /// Adds VIPs for the neighbour.
    pub(crate) fn add(&mut self, object: ObjectId, amount: Amount) {
        let waiting = self.waiting.entry(object).or_default();
        *waiting = waiting.saturating_add(amount);
    }

    /// Whether nothing of an object was reported, or is to be.
    pub(crate) fn is_silent_about(&self, object: ObjectId) -> bool {
        !self.reported.contains_key(&object) && !self.waiting.contains_key(&object)
    }

    /// Drops an object; `entry` reports a count of 0. Returns the VIPs that did not leave.
    pub(crate) fn remove(&mut self, object: ObjectId, entry: impl FnOnce() -> Entry) -> Amount {
        if self.reported.remove(&object).is_some() {
            self.removed.push_back(entry());
        }
        self.waiting.remove(&object).unwrap_or(0)
    }

    /// All counts are reported again.
    pub(crate) fn refresh(&mut self) {
        self.reported.values_mut().for_each(|count| *count = None);
    }

    /// A slot starts: changes are reported; without any, an empty report leaves.
    pub(crate) fn start_slot(&mut self, objects: &impl Reported, slot_ms: u64, now: Timestamp) {
        self.left = REPORTS_PER_SLOT;
        self.verifications_left = VERIFICATIONS_PER_SLOT;
        if self.is_connected && self.in_flight.is_none() {
            let (entries, sent) = self.take_changes(objects);
            self.left -= 1;
            self.put_in_flight(entries, slot_ms, sent, now);
        }
    }

    /// Whether an acknowledgement would have an effect, and its signature may be verified now.
    pub(crate) fn admit(&mut self, acknowledgement: Acknowledgement) -> bool {
        let Acknowledgement { session, sequence } = acknowledgement;
        let is_lost = sequence == 0 && self.sequence > 1;
        let is_awaited = sequence == self.sequence && self.in_flight.is_some();
        if session != self.session || !(is_lost || is_awaited) || self.verifications_left == 0 {
            return false;
        }
        self.verifications_left -= 1;
        true
    }

    /// An acknowledgement has arrived. The next report is put in flight if there are changes.
    pub(crate) fn acknowledge(
        &mut self,
        acknowledgement: Acknowledgement,
        objects: &impl Reported,
        slot_ms: u64,
        now: Timestamp,
    ) -> Acknowledged {
        if acknowledgement.session != self.session {
            return Acknowledged::Other;
        }
        if acknowledgement.sequence == 0 && self.sequence > 1 {
            return Acknowledged::Lost;
        }
        if acknowledgement.sequence != self.sequence || self.in_flight.take().is_none() {
            return Acknowledged::Other;
        }
        self.is_connected = true;
        if self.left > 0 {
            let (entries, sent) = self.take_changes(objects);
            if !entries.is_empty() {
                self.left -= 1;
                self.put_in_flight(entries, slot_ms, sent, now);
            }
        }
        Acknowledged::Report
    }

    /// Takes changes for one report: VIPs first, then counts in turn. Returns also the sum of the VIPs.
    fn take_changes(&mut self, objects: &impl Reported) -> (Vec<Entry>, Amount) {
        let mut room = REPORT_LEN_MAX - Report::HEADER_LEN_MAX;
        let mut entries = Vec::new();
        let mut sum: Amount = 0;
        while let Some(entry) = self.removed.pop_front() {
            let len = entry.encoded_len();
            if len > room {
                self.removed.push_front(entry);
                return (entries, sum);
            }
            room -= len;
            entries.push(entry);
        }
        let first: Vec<ObjectId> = self.waiting.keys().copied().collect();
        let count = objects.objects();
        let in_turn = (0..count).map(|step| (self.next + step) % count);
        for object in first.into_iter().chain(in_turn) {
            let sent = self.waiting.get(&object).copied().unwrap_or(0);
            let value = objects.count(object);
            let reported = self.reported.get(&object).copied().unwrap_or(Some(0));
            if sent == 0 && reported == Some(value) {
                continue;
            }
            let Some(entry) = objects.entry(object, value, sent) else { continue };
            let len = entry.encoded_len();
            if len > room {
                self.next = object;
                break;
            }
            room -= len;
            entries.push(entry);
            sum = sum.saturating_add(sent);
            self.waiting.remove(&object);
            if value == 0 {
                self.reported.remove(&object);
            } else {
                self.reported.insert(object, Some(value));
            }
        }
        (entries, sum)
    }

    /// Time of the next transmission.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.in_flight.as_ref().map(|report| report.retry_at)
    }

    /// Transmits the first report of the session at once: the neighbour takes part.
    pub(crate) fn hurry(&mut self, now: Timestamp) {
        if !self.is_connected
            && let Some(report) = &mut self.in_flight
            && report.transmissions > 0
        {
            report.retry_at = report.retry_at.min(now + RETRY_MIN);
        }
    }

    /// Returns the report that is to be transmitted now; the error says that the session has failed.
    pub(crate) fn transmit(&mut self, slot_ms: u64, now: Timestamp) -> Result<Option<Vec<u8>>, ()> {
        let is_connected = self.is_connected;
        let Some(report) = self.in_flight.as_mut().filter(|report| report.retry_at <= now) else {
            return Ok(None);
        };
        if is_connected && report.transmissions >= TRANSMISSIONS_MAX {
            return Err(());
        }
        report.transmissions += 1;
        report.retry_at = now + report.interval;
        let limit = if is_connected { Duration::from_millis(slot_ms) } else { PROBE_MAX };
        report.interval = (2 * report.interval).min(limit);
        Ok(Some(report.wire.clone()))
    }
}

/// The reports of a neighbour.
#[derive(Debug)]
pub(crate) struct Receiver {
    known: Option<Known>,
    /// Reports that are accepted now.
    left: u32,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    session: u64,
    sequence: u64,
    /// Slots since the last report.
    silent_slots: u64,
}

/// The decision about a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reception {
    /// It is new.
    Next,
    /// It starts a session: what the neighbour reported before is forgotten.
    First,
    /// It was accepted before.
    Repeated,
    /// Reports before it are missing.
    Unknown,
    /// A later one was accepted.
    Old,
}

impl Receiver {
    pub(crate) const fn new() -> Self {
        Self { known: None, left: REPORTS_BURST }
    }

    pub(crate) const fn is_reporting(&self) -> bool {
        self.known.is_some()
    }

    /// Takes one of the reports that are accepted now.
    pub(crate) fn admit(&mut self) -> bool {
        let has_room = self.left > 0;
        self.left = self.left.saturating_sub(1);
        has_room
    }

    /// Decides about a report, and returns the acknowledgement; none of an old session.
    pub(crate) fn receive(&mut self, report: &Report) -> (Reception, Option<Acknowledgement>) {
        let Report { session, sequence, .. } = *report;
        let acknowledge = |sequence| Some(Acknowledgement { session, sequence });
        let known = self.known.as_mut();
        if let Some(known) = known
            && known.session >= session
        {
            if known.session > session {
                return (Reception::Old, None);
            }
            let reception = match sequence.checked_sub(known.sequence) {
                Some(0) => Reception::Repeated,
                Some(1) => Reception::Next,
                Some(_) => return (Reception::Unknown, acknowledge(0)),
                None => return (Reception::Old, acknowledge(known.sequence)),
            };
            (known.sequence, known.silent_slots) = (sequence, 0);
            return (reception, acknowledge(sequence));
        }
        if sequence != 1 || !report.entries.is_empty() {
            return (Reception::Unknown, acknowledge(0));
        }
        self.known = Some(Known { session, sequence, silent_slots: 0 });
        (Reception::First, acknowledge(sequence))
    }

    /// A slot starts. Returns true if the neighbour is forgotten, after [`FORGET_SLOTS`] without a report.
    pub(crate) fn start_slot(&mut self) -> bool {
        self.left = self.left.saturating_add(REPORTS_PER_SLOT).min(REPORTS_BURST);
        let Some(known) = &mut self.known else { return false };
        known.silent_slots += 1;
        let is_over = known.silent_slots > FORGET_SLOTS;
        if is_over {
            self.known = None;
        }
        is_over
    }
}
