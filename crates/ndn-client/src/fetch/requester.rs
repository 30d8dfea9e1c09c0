//! Common part of all fetches: sends the Interests of the state machine, and feeds it.

use std::ops::RangeInclusive;
use std::time::Duration;

use ndn_packet::{ContentType, Convention, Data, InterestBuilder, NackReason, Name};
use ndn_types::duration_ms;
use rand::RngExt;
use tokio::time::{Instant, Sleep};

use super::cache_bypass::bypass_interest;
use super::discovery::FoundObject;
use super::state::{BypassBy, DataOutcome, FetchState, Refused};
use super::{FetchError, FetchFailure, FetchOptions, Verification};
use crate::handle::{Flow, Handle};
use crate::pending::{FlowEvent, ReceivedData};

/// Maximum number of events handled before sending.
pub(super) const EVENT_BATCH: usize = 256;

/// The state machine of a fetch and its flow.
pub(super) struct Requester {
    pub(super) flow: Flow,
    pub(super) state: FetchState,
    start: Instant,
    /// Prefix of the segments; a segment number is appended for each Interest.
    name: Name,
    convention: Convention,
    lifetime_ms: u64,
    /// Knows the digests of segments that are requested again.
    pub(super) verification: Verification,
    packets: Vec<u8>,
}

impl Requester {
    pub(super) fn new(
        handle: &Handle,
        found: &FoundObject,
        first_segment: u64,
        options: &FetchOptions,
    ) -> Self {
        let capacity = usize::try_from(options.config.buffer_segments).unwrap_or(usize::MAX);
        Self {
            flow: handle.open_flow(&found.prefix, capacity.clamp(EVENT_BATCH, 1 << 20)),
            state: FetchState::new(options.config, first_segment, found.final_segment),
            start: Instant::now(),
            name: found.prefix.clone(),
            convention: found.convention,
            lifetime_ms: duration_ms(options.lifetime),
            verification: options.verification.clone(),
            packets: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Sends all Interests that the window allows, in one piece of output.
    pub(super) fn transmit(&mut self, now: Duration) {
        self.packets.clear();
        let prefix_len = self.name.len();
        let mut random = rand::rng();
        while let Some(transmit) = self.state.poll_transmit(now) {
            if let Some(by) = transmit.cache_bypass {
                let expected = match by {
                    BypassBy::Digest => self.verification.expected(transmit.segment),
                    BypassBy::Fresh => None,
                };
                self.packets.extend(bypass_interest(
                    (&self.name, self.convention),
                    transmit.segment,
                    expected.as_ref(),
                    random.random(),
                    self.lifetime_ms,
                ));
                continue;
            }
            self.convention.push_segment(&mut self.name, transmit.segment);
            let interest = InterestBuilder::new(self.name.as_ref())
                .nonce(random.random())
                .lifetime_ms(self.lifetime_ms);
            let start = self.packets.len();
            self.packets.resize(start + interest.encoded_len(), 0);
            let written = interest.write(&mut self.packets[start..]).unwrap_or(0);
            self.packets.truncate(start + written);
            self.name.truncate(prefix_len);
        }
        if !self.packets.is_empty() {
            self.flow.handle().send_packets(&self.packets);
        }
    }

    /// First and last segment of the Data among these events that have not been received yet.
    pub(super) fn segments_of(&self, events: &[FlowEvent]) -> Option<RangeInclusive<u64>> {
        let segments = events.iter().filter_map(|event| match event {
            FlowEvent::Data(received) => {
                self.convention.segment_of(&received.data().name().last()?)
            }
            FlowEvent::Nack { .. } => None,
        });
        let missing = segments.filter(|segment| *segment >= self.state.first_missing());
        missing.fold(None, |range: Option<RangeInclusive<u64>>, segment| {
            let range = range.unwrap_or(segment..=segment);
            Some(segment.min(*range.start())..=segment.max(*range.end()))
        })
    }

    /// Handles an event; returns its segment, if that was missing. A segment rejected by `check` is
    /// requested again, bypassing caches.
    pub(super) fn handle_event(
        &mut self,
        now: Duration,
        event: FlowEvent,
        check: impl FnOnce(&Data<'_>) -> Result<(), String>,
    ) -> Option<(u64, ReceivedData)> {
        match event {
            FlowEvent::Data(data) => self.handle_data(now, data, check),
            FlowEvent::Nack { segment, reason: NackReason::NO_ROUTE }
                if self.flow.handle().shared().is_settling() =>
            {
                self.state.handle_too_early(now, segment);
                None
            }
            FlowEvent::Nack { segment, reason } => {
                self.state.handle_nack(now, segment, reason);
                None
            }
        }
    }

    pub(super) fn handle_data(
        &mut self,
        now: Duration,
        received: ReceivedData,
        check: impl FnOnce(&Data<'_>) -> Result<(), String>,
    ) -> Option<(u64, ReceivedData)> {
        let data = received.data();
        let segment = data.name().last().and_then(|last| self.convention.segment_of(&last))?;
        if segment < self.state.first_missing() {
            return None;
        }
        if data.content_type() == ContentType::NACK {
            self.handle_application_nack(segment, &data);
            return None;
        }
        if let Err(reason) = check(&data) {
            let failure = FetchFailure::Verification { segment, reason };
            self.state.handle_refused(segment, Refused::Content, failure);
            return None;
        }
        let last = data.final_block_id();
        let final_segment = last.and_then(|last| self.convention.segment_of(&last));
        let mark = received.congestion_mark();
        let outcome = self.state.handle_data(now, segment, final_segment, mark);
        (outcome == DataOutcome::New).then_some((segment, received))
    }

    /// Anyone can forge a Nack: only a verified one ends the fetch.
    fn handle_application_nack(&mut self, segment: u64, data: &Data<'_>) {
        match self.verification.check_nack(data) {
            Ok(()) => self.state.fail(FetchFailure::ApplicationNack { segment }),
            Err(reason) => {
                let reason = format!("an application Nack: {reason}");
                let failure = FetchFailure::Verification { segment, reason };
                self.state.handle_refused(segment, Refused::Nack, failure);
            }
        }
    }

    /// The failure of the fetch, if any.
    pub(super) fn failure(&self) -> Option<FetchError> {
        let failure = self.state.failure()?.clone();
        Some(FetchError::Failed { name: self.name.to_uri(), failure })
    }

    /// Sets `sleep` to the deadline of the state machine; returns false without one.
    pub(super) fn arm(&mut self, sleep: std::pin::Pin<&mut Sleep>) -> bool {
        let deadline = self.state.poll_timeout().map(|(at, _)| self.start + at);
        // A timer that fires early costs less than setting it each time.
        if let Some(deadline) = deadline
            && (deadline < sleep.deadline() || sleep.is_elapsed())
        {
            sleep.reset(deadline);
        }
        deadline.is_some()
    }
}
