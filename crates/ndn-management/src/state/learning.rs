//! Routes that self-learning makes: announcements that came with Data, their end, and which
//! announcement goes with a Data that is sent on (NFD: `slAnnounce`, `slRenew`, `slFindAnn` of its RIB
//! manager).

use std::collections::BTreeMap;
use std::sync::Arc;

use ndn_packet::{Data, Name, NameRef};
use ndn_security::Certificate;
use ndn_security::trust::Validation;

use super::waiting::{FETCHES_MAX, PATIENCE_MS, Progress};
use super::{ControlState, RouteError};
use crate::announcement::{ANNOUNCEMENT_COST, PrefixAnnouncement};
use crate::rib::Route;
use crate::types::route_origin;
use crate::{Now, Rib};

/// How long a learnt route is kept at most; the next announcement renews it.
const LIFETIME_MS: u64 = 10 * 60 * 1000;
/// Bounds of the period that an announcement made here is good for.
const MADE_MS_MIN: u64 = 15 * 1000;
const MADE_MS_MAX: u64 = 60 * 60 * 1000;
/// Announcements that wait for a certificate.
const WAITING_MAX: usize = 64;
/// Announcements that are kept to be sent on. Of the routes beyond, announcements are made here.
const KEPT_MAX: usize = 65_536;

/// What became of an announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Learning {
    /// There is a route for it.
    Learnt(Name),
    /// It waits for the certificate of its signer.
    Waiting,
    /// There is no route, and why.
    Refused(String),
}

/// An announcement that waits for a certificate.
#[derive(Debug)]
struct Waiting {
    wire: Vec<u8>,
    face_id: u64,
    progress: Progress,
    deadline_ns: u64,
}

/// An announcement to be sent on.
#[derive(Debug)]
struct Kept {
    wire: Box<[u8]>,
    holds_until_ns: u64,
}

/// What is kept for learnt routes, beside the routes.
#[derive(Debug, Default)]
pub(super) struct LearntRoutes {
    /// The announcements of routes, by prefix and face.
    kept: BTreeMap<(Name, u64), Kept>,
    waiting: Vec<Waiting>,
}

impl LearntRoutes {
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.waiting.iter().map(|entry| entry.deadline_ns).min()
    }

    /// Whether an announcement waits for a certificate of this name.
    pub(super) fn awaits(&self, name: NameRef<'_>) -> bool {
        self.waiting.iter().any(|entry| entry.awaits(name))
    }

    fn keep(&mut self, rib: &Rib, prefix: &Name, face_id: u64, wire: &[u8], holds_until_ns: u64) {
        if self.kept.len() >= KEPT_MAX {
            let origin = route_origin::PREFIX_ANNOUNCEMENT;
            self.kept
                .retain(|(prefix, face), _| rib.find(prefix.as_ref(), *face, origin).is_some());
        }
        if self.kept.len() < KEPT_MAX {
            self.kept.insert((prefix.clone(), face_id), Kept { wire: wire.into(), holds_until_ns });
        }
    }
}

impl Waiting {
    fn awaits(&self, name: NameRef<'_>) -> bool {
        self.progress.asked.last().is_some_and(|asked| name.starts_with(asked.as_ref()))
    }
}

impl ControlState {
    /// Takes the announcement that came with a Data on `face_id`, and makes its route if it is to
    /// be trusted.
    pub fn learn_announcement(&mut self, now: Now, face_id: u64, wire: &[u8]) -> Learning {
        self.judge_announcement(now, face_id, wire, Progress::default())
    }

    /// Ends the longest learnt route for `name` to a face; returns its prefix if there was one.
    pub fn forget_learnt(&mut self, face_id: u64, name: NameRef<'_>) -> Option<Name> {
        let origin = route_origin::PREFIX_ANNOUNCEMENT;
        let mut prefixes = (0..=name.len()).rev().map(|length| name.prefix(length));
        let prefix = prefixes.find(|prefix| self.rib.find(*prefix, face_id, origin).is_some())?;
        self.remove_route(prefix, face_id, origin);
        let prefix = prefix.to_name();
        self.learnt.kept.remove(&(prefix.clone(), face_id));
        Some(prefix)
    }

    /// The announcement to send with a Data of this name: that of the longest prefix that has
    /// routes, which came with one of them, or is made here.
    pub fn find_announcement(&mut self, now: Now, name: NameRef<'_>) -> Option<Vec<u8>> {
        let mut prefixes = (0..=name.len()).rev().map(|length| name.prefix(length));
        let prefix = prefixes.find(|prefix| !self.rib.routes(*prefix).is_empty())?;
        let (routes, prefix) = (self.rib.routes(prefix), prefix.to_name());
        let mut kept = None;
        for route in routes.iter().filter(|r| r.origin == route_origin::PREFIX_ANNOUNCEMENT) {
            let found = self.learnt.kept.get(&(prefix.clone(), route.face_id));
            if let Some(Kept { wire, holds_until_ns }) = found
                && *holds_until_ns > now.monotonic_ns
                && kept.is_none_or(|(_, expires)| expires < route.expires_at_ns)
            {
                kept = Some((wire, route.expires_at_ns));
            }
        }
        if let Some((wire, _)) = kept {
            return Some(wire.to_vec());
        }
        let left_ms = |expires_at_ns: Option<u64>| {
            expires_at_ns.map_or(u64::MAX, |at| at.saturating_sub(now.monotonic_ns) / 1_000_000)
        };
        let longest_ms = routes.iter().map(|route| left_ms(route.expires_at_ns)).max()?;
        let period_ms = longest_ms.clamp(MADE_MS_MIN, MADE_MS_MAX);
        let signer = &mut *self.collaborators.signer;
        PrefixAnnouncement::sign(&prefix, now.unix_us, period_ms, signer)
    }

    fn judge_announcement(
        &mut self,
        now: Now,
        face_id: u64,
        wire: &[u8],
        progress: Progress,
    ) -> Learning {
        let refused = |reason: &dyn ToString| Learning::Refused(reason.to_string());
        let data = match Data::parse(wire) {
            Ok(data) => data,
            Err(error) => return refused(&error),
        };
        let announcement = match PrefixAnnouncement::from_data(&data) {
            Ok(announcement) => announcement,
            Err(error) => return refused(&error),
        };
        let authorizer = &mut *self.collaborators.authorizer;
        match authorizer.authorize_announcement(now, &data, &progress.fetched) {
            Validation::Accepted => {}
            Validation::Refused(error) => return refused(&error),
            Validation::NeedsCertificate(name) => {
                return self.await_certificate(now, face_id, wire, name, progress);
            }
        }
        let Some(holds_until_ns) = announcement.expires_at_ns(now) else {
            return refused(&"it is not valid at this time");
        };
        let latest_ns = now.monotonic_ns.saturating_add(LIFETIME_MS * 1_000_000);
        let route = Route {
            face_id,
            origin: route_origin::PREFIX_ANNOUNCEMENT,
            cost: ANNOUNCEMENT_COST,
            flags: 0,
            expires_at_ns: Some(holds_until_ns.min(latest_ns)),
        };
        match self.add_route(announcement.prefix.as_ref(), route) {
            Ok(()) => {
                let prefix = announcement.prefix;
                self.learnt.keep(&self.rib, &prefix, face_id, wire, holds_until_ns);
                Learning::Learnt(prefix)
            }
            Err(error @ (RouteError::NoFace(_) | RouteError::PrefixTooLong)) => refused(&error),
            Err(error @ (RouteError::RibFull(_) | RouteError::FibFull(_))) => refused(&error),
        }
    }

    fn await_certificate(
        &mut self,
        now: Now,
        face_id: u64,
        wire: &[u8],
        name: Name,
        mut progress: Progress,
    ) -> Learning {
        let is_futile = progress.asked.contains(&name) || progress.asked.len() == FETCHES_MAX;
        if is_futile || self.learnt.waiting.len() >= WAITING_MAX {
            return Learning::Refused(format!("certificate {name} cannot be had"));
        }
        if !self.learnt.waiting.iter().any(|entry| entry.progress.asked.last() == Some(&name)) {
            self.ask_for_certificate(&name, face_id);
        }
        progress.asked.push(name);
        let deadline_ns = now.monotonic_ns.saturating_add(PATIENCE_MS * 1_000_000);
        self.learnt.waiting.push(Waiting { wire: wire.to_vec(), face_id, progress, deadline_ns });
        Learning::Waiting
    }

    /// A certificate, or what came in its place, is there.
    pub(super) fn judge_announcements(
        &mut self,
        now: Now,
        name: NameRef<'_>,
        certificate: Option<&Arc<Certificate>>,
    ) {
        let all = std::mem::take(&mut self.learnt.waiting);
        let (due, waiting) = all.into_iter().partition(|entry: &Waiting| entry.awaits(name));
        self.learnt.waiting = waiting;
        for Waiting { wire, face_id, mut progress, .. } in due {
            if let Some(certificate) = certificate {
                progress.fetched.push(Arc::clone(certificate));
                self.judge_announcement(now, face_id, &wire, progress);
            }
        }
    }

    /// Forgets the announcements whose certificates did not come in time.
    pub(super) fn give_up_announcements(&mut self, now: Now) {
        self.learnt.waiting.retain(|entry| entry.deadline_ns > now.monotonic_ns);
    }
}
