//! Faces being created: later requests for the same remote URI wait for the first attempt.

use ndn_dataplane::Event;
use ndn_management::Now;
use ndn_types::FaceUri;

use super::Control;
use crate::faces::Wanted;

/// A face being created.
#[derive(Debug)]
struct Attempted {
    remote: FaceUri,
    /// Ticket of the first request.
    ticket: u64,
    others: Vec<Wanted>,
}

/// Faces being created, by remote URI.
#[derive(Debug, Default)]
pub(super) struct ConnectingFaces(Vec<Attempted>);

impl ConnectingFaces {
    /// Returns true if the caller must create the face; otherwise an attempt is under way and `wanted` waits for it.
    pub(super) fn begin(&mut self, remote: &FaceUri, wanted: &Wanted) -> bool {
        if let Some(first) = self.0.iter_mut().find(|first| first.remote == *remote) {
            first.others.push(*wanted);
            return false;
        }
        let begun = |ticket| Attempted { remote: remote.clone(), ticket, others: Vec::new() };
        self.0.extend(wanted.ticket.map(begun));
        true
    }

    /// Returns whether further requests wait for the face of this ticket.
    pub(super) fn is_shared(&self, ticket: Option<u64>) -> bool {
        self.0.iter().any(|first| Some(first.ticket) == ticket && !first.others.is_empty())
    }

    /// Ends the attempt of this ticket and returns the further requests that waited for it.
    fn end(&mut self, ticket: Option<u64>) -> Vec<Wanted> {
        let first = self.0.iter().position(|first| Some(first.ticket) == ticket);
        first.map(|first| self.0.swap_remove(first).others).unwrap_or_default()
    }
}

impl Control {
    /// Answers the further requests with the face that the attempt of this ticket has created.
    pub(super) fn serve_others(&mut self, now: Now, ticket: Option<u64>, face_id: u64) {
        for Wanted { ticket, .. } in self.connecting.end(ticket) {
            self.handle_event(now, Event::FaceExists { ticket, face_id });
        }
    }

    /// Reports a failed attempt to all requests that waited for it, after trying the other addresses of the host.
    pub(super) fn not_connected(&mut self, now: Now, ticket: Option<u64>, code: u32, text: &str) {
        let others = self.connecting.end(ticket);
        for ticket in std::iter::once(ticket).chain(others.iter().map(|other| other.ticket)) {
            if let Some((remote, wanted)) = self.names.next_of(ticket) {
                tracing::info!(%remote, "the next address of its host is tried");
                self.create_face(now, &remote, None, wanted);
                continue;
            }
            self.statics.connect_failed(now.monotonic_ns, ticket, text);
            self.creation_failed(now, ticket, code, text);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use ndn_face::Persistency;
    use ndn_forwarding::PitTokenPolicy;

    use super::*;

    fn wanted(ticket: u64) -> Wanted {
        Wanted {
            ticket: Some(ticket),
            persistency: Persistency::Persistent,
            pit_tokens: PitTokenPolicy::WhenSeen,
            options: ndn_management::request::FaceOptions::default(),
        }
    }

    #[test]
    fn concurrent_requests_for_one_remote_create_one_face() {
        let mut faces = ConnectingFaces::default();
        let [here, there] =
            ["192.0.2.1:1", "192.0.2.2:1"].map(|address| FaceUri::tcp(address.parse().unwrap()));
        assert!(faces.begin(&here, &wanted(1)));
        assert!(!faces.begin(&here, &wanted(2)));
        assert!(faces.begin(&there, &wanted(3)));
        assert!(!faces.begin(&here, &wanted(4)));
        assert!(faces.is_shared(Some(1)) && !faces.is_shared(Some(3)));
        assert!(faces.end(Some(2)).is_empty(), "it is not the first");
        assert!(faces.end(None).is_empty());
        let others: Vec<_> = faces.end(Some(1)).iter().map(|other| other.ticket).collect();
        assert_eq!(others, [Some(2), Some(4)]);
        assert!(faces.begin(&here, &wanted(5)), "the attempt is over");
        assert!(faces.end(Some(3)).is_empty());
    }
}
