//! Consumer: schedule of Interests, and their outcomes.

use hdrhistogram::Histogram;
use ndn_packet::NackReason;

use crate::outstanding::{Outstanding, Pending, Ticket};
use crate::random::{Alias, Random};
use crate::scenario::{
    Arrivals, ConsumerPattern, ConsumerScenario, Load, Names, ScenarioError, parse_name,
};
use crate::template::InterestTemplate;
use crate::wire::{ReceivedPacket, read_frame};

/// Largest latency that the histograms distinguish.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
const NS_PER_MS: u64 = 1_000_000;
const NS_PER_S: f64 = 1e9;

/// Number of Nacks by reason; others are not counted here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NackCounts {
    /// Congestion.
    pub congestion: u64,
    /// NoRoute.
    pub no_route: u64,
}

impl NackCounts {
    fn note(&mut self, reason: NackReason) {
        match reason {
            NackReason::CONGESTION => self.congestion += 1,
            NackReason::NO_ROUTE => self.no_route += 1,
            _ => {}
        }
    }
}

/// Outcomes of the Interests of a pattern.
#[derive(Debug, Clone)]
pub struct PatternCounters {
    /// Interests sent.
    pub sent: u64,
    /// Interests that were due and [withdrawn](Consumer::withdraw): not sent.
    pub withdrawn: u64,
    /// Interests satisfied by Data.
    pub satisfied: u64,
    /// Interests answered by a Nack.
    pub nacked: u64,
    /// Nacks with the reasons Congestion and NoRoute among those.
    pub nacked_for: NackCounts,
    /// Interests without an answer within their lifetime.
    pub timed_out: u64,
    /// From the scheduled time of sending to the Data, in nanoseconds.
    pub latency_ns: Histogram<u64>,
}

impl PatternCounters {
    /// Counters of a pattern that has sent nothing yet.
    #[must_use]
    pub fn zero() -> Self {
        Self {
            sent: 0,
            withdrawn: 0,
            satisfied: 0,
            nacked: 0,
            nacked_for: NackCounts::default(),
            timed_out: 0,
            latency_ns: Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
                .unwrap_or_else(|_| unreachable!("the bounds are valid constants")),
        }
    }

    /// Adds the counters of another consumer for the same pattern.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.withdrawn += other.withdrawn;
        self.satisfied += other.satisfied;
        self.nacked += other.nacked;
        self.nacked_for.congestion += other.nacked_for.congestion;
        self.nacked_for.no_route += other.nacked_for.no_route;
        self.timed_out += other.timed_out;
        // The bounds are the same.
        let _ = self.latency_ns.add(&other.latency_ns);
    }
}

/// Outcomes of all Interests of a consumer so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConsumerTotals {
    /// Interests sent.
    pub sent: u64,
    /// Interests that were due and [withdrawn](Consumer::withdraw): not sent.
    pub withdrawn: u64,
    /// Interests satisfied by Data.
    pub satisfied: u64,
    /// Interests answered by a Nack.
    pub nacked: u64,
    /// Interests without an answer within their lifetime.
    pub timed_out: u64,
    /// Interests in flight.
    pub outstanding: u64,
}

impl ConsumerTotals {
    /// Sum of two consumers.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            withdrawn: self.withdrawn + other.withdrawn,
            satisfied: self.satisfied + other.satisfied,
            nacked: self.nacked + other.nacked,
            timed_out: self.timed_out + other.timed_out,
            outstanding: self.outstanding + other.outstanding,
        }
    }
}

/// A sequence of numbers for the last component.
#[derive(Debug)]
enum Numbers {
    Unique { next: u64 },
    Zipf(Alias),
    Repeated { next: u32, count: u32 },
}

#[derive(Debug)]
struct Pattern {
    template: InterestTemplate,
    numbers: Numbers,
    lifetime_ns: u64,
    /// For each face and each repeated name, the last Interest.
    latest: Vec<Option<Ticket>>,
    name_count: usize,
    counters: PatternCounters,
}

/// The Interest that was made last.
#[derive(Debug, Clone, Copy)]
struct Made {
    ticket: Ticket,
    face: u16,
    /// Its place among the last Interests of the pattern, if its name is repeated.
    latest: Option<usize>,
}

/// Schedule of Interests.
#[derive(Debug)]
enum Pace {
    Window,
    /// `left` Interests of a burst are due at once, on one face unless that accepts nothing.
    Rate {
        due_ns: f64,
        interval_ns: f64,
        arrivals: Arrivals,
        burst: u32,
        left: u32,
    },
}

/// Schedules Interests over several faces and tracks them. Without sockets and clocks: ask
/// [`next_face`](Self::next_face) whether to send, and pass in received packets.
#[derive(Debug)]
pub struct Consumer {
    patterns: Vec<Pattern>,
    choice: Alias,
    outstanding: Outstanding,
    made: Option<Made>,
    pace: Pace,
    random: Random,
    origin_ns: u64,
    next_face: u32,
    faces: u32,
    left: u64,
    unexpected: u64,
    /// Outcomes at the time of the stop.
    at_stop: Option<ConsumerTotals>,
}

impl Consumer {
    /// A consumer that begins at `now_ns`. The same `seed` gives the same Interests.
    ///
    /// # Errors
    /// The scenario is invalid.
    pub fn new(scenario: &ConsumerScenario, seed: u64, now_ns: u64) -> Result<Self, ScenarioError> {
        scenario.check()?;
        let mut random = Random::new(seed);
        let (capacity, pace) = match scenario.load {
            Load::Window(window) => (window, Pace::Window),
            Load::Rate { per_second, arrivals } => {
                let burst = scenario.burst;
                let interval_ns = NS_PER_S / per_second * f64::from(burst);
                let pace = Pace::Rate { due_ns: 0.0, interval_ns, arrivals, burst, left: burst };
                (scenario.outstanding_max, pace)
            }
        };
        let patterns = scenario.patterns.iter();
        let patterns: Result<Vec<_>, _> =
            patterns.map(|one| Pattern::new(one, scenario.faces, random.next())).collect();
        let weights: Vec<f64> = scenario.patterns.iter().map(|pattern| pattern.weight).collect();
        Ok(Self {
            outstanding: Outstanding::new(capacity, weights.len()),
            patterns: patterns?,
            choice: Alias::new(&weights),
            made: None,
            pace,
            random,
            origin_ns: now_ns,
            next_face: 0,
            faces: scenario.faces,
            left: scenario.count.unwrap_or(u64::MAX),
            unexpected: 0,
            at_stop: None,
        })
    }

    /// Delays the start of an open loop with even intervals by this part of an interval (0 to 1),
    /// so that several consumers that start together do not send together. Not needed with a
    /// Poisson process or a window. To be called before the first Interest is made.
    #[must_use]
    pub fn with_phase(mut self, part: f64) -> Self {
        if let Pace::Rate { due_ns, interval_ns, arrivals: Arrivals::Fixed, .. } = &mut self.pace {
            *due_ns = *interval_ns * part.clamp(0.0, 1.0);
        }
        self
    }

    /// The face of the next Interest; `None` when none is due or too many are in flight.
    #[must_use]
    pub fn next_face(&self, now_ns: u64) -> Option<usize> {
        let due = self.left > 0 && !self.outstanding.is_full() && self.due_ns() <= now_ns;
        due.then_some(self.next_face as usize)
    }

    /// Skips a face that accepts nothing now. The rest of a burst is sent on the next face: it is
    /// due.
    pub fn skip_face(&mut self) {
        self.next_face = (self.next_face + 1) % self.faces;
    }

    /// Makes the Interest for [`next_face`](Self::next_face), and counts it as sent; the bytes are
    /// an NDNLPv2 packet. To be called only when there is such a face.
    ///
    /// # Panics
    /// Too many are in flight.
    pub fn make_interest(&mut self, now_ns: u64) -> &[u8] {
        let index = self.choice.draw(&mut self.random);
        let face = self.next_face;
        let scheduled_ns = match self.pace {
            Pace::Window => now_ns,
            Pace::Rate { .. } => self.due_ns(),
        };
        self.advance();
        let nonce = self.random.nonce();
        let pattern = &mut self.patterns[index as usize];
        let number = pattern.next_number(&mut self.random);
        let latest = match usize::try_from(number) {
            Ok(name) if pattern.name_count > 0 => Some(face as usize * pattern.name_count + name),
            _ => None,
        };
        let face = u16::try_from(face).unwrap_or(0);
        let pending = Pending {
            scheduled_ns,
            expires_ns: now_ns + pattern.lifetime_ns,
            pattern: u16::try_from(index).unwrap_or(0),
            face,
            older: latest.and_then(|index| pattern.latest[index]),
        };
        let ticket = self.outstanding.open(pending).expect("a caller that asked for room");
        if let Some(index) = latest {
            pattern.latest[index] = Some(ticket);
        }
        self.made = Some(Made { ticket, face, latest });
        pattern.counters.sent += 1;
        pattern.template.fill(ticket.to_token(), number, nonce)
    }

    /// Withdraws the Interest that was made last, as its face has refused it: it was due, but not sent, and no answer satisfies
    /// it. It makes room for another one, so a consumer with a window has to [skip the face](Self::skip_face).
    pub fn withdraw(&mut self) {
        let Some(Made { ticket, face, latest }) = self.made.take() else { return };
        let Some(pending) = self.outstanding.close(ticket, face) else { return };
        let pattern = &mut self.patterns[usize::from(pending.pattern)];
        if let Some(index) = latest {
            pattern.latest[index] = pending.older;
        }
        pattern.counters.sent = pattern.counters.sent.saturating_sub(1);
        pattern.counters.withdrawn += 1;
    }

    /// Handles a packet received on `face` at `now_ns`.
    pub fn handle_frame(&mut self, face: usize, frame: &[u8], now_ns: u64) {
        let (token, nack) = match read_frame(frame) {
            ReceivedPacket::Data { token } => (token, None),
            ReceivedPacket::Nack { token, reason } => (token, Some(NackReason(reason))),
            ReceivedPacket::Interest { .. } | ReceivedPacket::Other => {
                self.unexpected += 1;
                return;
            }
        };
        let face = u16::try_from(face).unwrap_or(u16::MAX);
        let mut next = Ticket::from_token(token);
        // One answer satisfies all Interests of this face with the same name.
        let mut closed = false;
        while let Some(pending) = next.and_then(|ticket| self.outstanding.close(ticket, face)) {
            closed = true;
            next = pending.older;
            let counters = &mut self.patterns[usize::from(pending.pattern)].counters;
            if let Some(reason) = nack {
                counters.nacked += 1;
                counters.nacked_for.note(reason);
            } else {
                counters.satisfied += 1;
                let latency = now_ns.saturating_sub(pending.scheduled_ns).max(1);
                counters.latency_ns.saturating_record(latency);
            }
        }
        self.unexpected += u64::from(!closed);
    }

    /// Ends the Interests whose lifetime is over.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        for (index, pattern) in self.patterns.iter_mut().enumerate() {
            while self.outstanding.expire(index, now_ns).is_some() {
                pattern.counters.timed_out += 1;
            }
        }
    }

    /// Next deadline without received packets.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let sending =
            matches!(self.pace, Pace::Rate { .. }) && self.left > 0 && !self.outstanding.is_full();
        let due = sending.then(|| self.due_ns());
        [due, self.outstanding.next_expiry()].into_iter().flatten().min()
    }

    /// Stops sending.
    pub fn stop(&mut self) {
        self.left = 0;
        if self.at_stop.is_none() {
            self.at_stop = Some(self.totals());
        }
    }

    /// Outcomes when [`stop`](Self::stop) was first called: later answers do not belong to the
    /// measured time.
    #[must_use]
    pub fn at_stop(&self) -> Option<ConsumerTotals> {
        self.at_stop
    }

    /// Whether all Interests were sent and have ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left == 0 && self.outstanding.len() == 0
    }

    /// Interests in flight.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Outcomes of all Interests so far.
    #[must_use]
    pub fn totals(&self) -> ConsumerTotals {
        let outstanding = self.outstanding.len() as u64;
        let totals = ConsumerTotals { outstanding, ..ConsumerTotals::default() };
        self.counters().fold(totals, |sum, one| ConsumerTotals {
            sent: sum.sent + one.sent,
            withdrawn: sum.withdrawn + one.withdrawn,
            satisfied: sum.satisfied + one.satisfied,
            nacked: sum.nacked + one.nacked,
            timed_out: sum.timed_out + one.timed_out,
            ..sum
        })
    }

    /// Packets that matched no Interest in flight: late, duplicate or unsolicited.
    #[must_use]
    pub fn unexpected(&self) -> u64 {
        self.unexpected
    }

    /// Outcomes of the Interests, for each pattern of the scenario.
    pub fn counters(&self) -> impl Iterator<Item = &PatternCounters> {
        self.patterns.iter().map(|pattern| &pattern.counters)
    }

    /// Counts with these counters, of which each pattern has one, from now on, and leaves the former ones there. Unlike a copy
    /// of the histograms, which takes a millisecond, this does not delay Interests.
    ///
    /// # Panics
    /// Another number of counters than of patterns.
    pub fn exchange_counters(&mut self, counters: &mut [PatternCounters]) {
        assert_eq!(counters.len(), self.patterns.len(), "each pattern has its counters");
        for (pattern, own) in self.patterns.iter_mut().zip(counters) {
            std::mem::swap(&mut pattern.counters, own);
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "nanoseconds of a run"
    )]
    fn due_ns(&self) -> u64 {
        match self.pace {
            Pace::Window => 0,
            Pace::Rate { due_ns, .. } => self.origin_ns + due_ns as u64,
        }
    }

    fn advance(&mut self) {
        self.left -= 1;
        if let Pace::Rate { due_ns, interval_ns, arrivals, burst, left } = &mut self.pace {
            *left -= 1;
            if *left > 0 {
                return;
            }
            *left = *burst;
            *due_ns += match arrivals {
                Arrivals::Fixed => *interval_ns,
                Arrivals::Poisson => *interval_ns * self.random.exponential(),
            };
        }
        self.skip_face();
    }
}

impl Pattern {
    fn new(pattern: &ConsumerPattern, faces: u32, first: u64) -> Result<Self, ScenarioError> {
        let prefix = parse_name(&pattern.prefix)?;
        let (numbers, name_count) = match pattern.names {
            Names::Unique => (Numbers::Unique { next: first }, 0),
            Names::Zipf { count, exponent } => {
                (Numbers::Zipf(Alias::zipf(count, exponent)), count as usize)
            }
            Names::Repeated { count } => (Numbers::Repeated { next: 0, count }, count as usize),
        };
        Ok(Self {
            template: InterestTemplate::new(&prefix, pattern),
            numbers,
            lifetime_ns: u64::from(pattern.lifetime_ms) * NS_PER_MS,
            latest: vec![None; name_count * faces as usize],
            name_count,
            counters: PatternCounters::zero(),
        })
    }

    fn next_number(&mut self, random: &mut Random) -> u64 {
        match &mut self.numbers {
            Numbers::Unique { next } => {
                *next = next.wrapping_add(1);
                *next
            }
            Numbers::Zipf(ranks) => u64::from(ranks.draw(random)),
            Numbers::Repeated { next, count } => {
                let number = *next;
                *next = (*next + 1) % *count;
                u64::from(number)
            }
        }
    }
}

#[cfg(test)]
mod tests;
