//! A captured packet as one line of text, or as JSON.

use namewire_control::capture::{CapturedFrame, CapturedKind, Direction, PacketSummary};
use serde_json::{Value, json};

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// Interests
    Interest,
    /// Data
    Data,
    /// Network Nacks
    Nack,
    /// Fragments of longer packets, and acknowledgements
    Link,
    /// Frames that are not NDN, malformed or truncated
    Other,
}

impl Kind {
    /// The kind of captured packets that it selects.
    pub(super) const fn captured(self) -> CapturedKind {
        match self {
            Self::Interest => CapturedKind::Interest,
            Self::Data => CapturedKind::Data,
            Self::Nack => CapturedKind::Nack,
            Self::Link => CapturedKind::Link,
            Self::Other => CapturedKind::Other,
        }
    }
}

/// A packet in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PacketLine(pub(super) PacketSummary);

impl PacketLine {
    /// Describes a packet as it was on the link.
    pub(super) fn new(packet: Option<&[u8]>) -> Self {
        Self(PacketSummary::new(packet))
    }

    /// The line: time of day in UTC, direction, face and peer, packet.
    pub(super) fn text(&self, frame: &CapturedFrame<'_>) -> String {
        let seconds = frame.unix_ns / 1_000_000_000;
        let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
        let micros = frame.unix_ns / 1000 % 1_000_000;
        let direction = match frame.direction {
            Some(Direction::Received) => "from",
            Some(Direction::Sent) => "to  ",
            None => "on  ",
        };
        let name = self.0.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
        let details = match self.0.details.is_empty() {
            true => String::new(),
            false => format!(" ({})", self.0.details.join(", ")),
        };
        let peer = super::output::without_control(frame.application.unwrap_or(frame.interface));
        let peer = match frame.face_id {
            Some(face_id) => format!("face {face_id} ({peer})"),
            None => peer,
        };
        format!(
            "{hours:02}:{minutes:02}:{:02}.{micros:06} {direction} {peer}: {}{name}{details}, {} bytes",
            seconds % 60,
            self.0.kind.word(),
            self.0.length
        )
    }

    /// The packet as JSON.
    pub(super) fn json(&self, frame: &CapturedFrame<'_>) -> Value {
        let direction = frame.direction.map(|direction| match direction {
            Direction::Received => "received",
            Direction::Sent => "sent",
        });
        json!({
            "unix_ns": frame.unix_ns,
            "face_id": frame.face_id,
            "remote_uri": frame.interface,
            "application": frame.application,
            "direction": direction,
            "type": self.0.kind.word(),
            "name": self.0.name.as_ref().map(ToString::to_string),
            "details": self.0.details,
            "bytes": self.0.length,
        })
    }
}

#[cfg(test)]
mod tests {
    use ndn_packet::{DataBuilder, InterestBuilder, LpHeader, NackReason, Name};

    use super::*;

    fn text(packet: Option<&[u8]>) -> String {
        let frame = CapturedFrame {
            interface: "udp4://192.0.2.1:6363",
            is_truncated: false,
            face_id: Some(300),
            application: None,
            direction: Some(Direction::Received),
            unix_ns: 45_296_123_456_789,
            packet,
        };
        PacketLine::new(packet).text(&frame)
    }

    #[test]
    fn every_kind_of_packet_is_a_line() {
        let name: Name = "/a/b".parse().unwrap();
        let interest = InterestBuilder::new(&name).can_be_prefix(true).must_be_fresh(true);
        let interest = interest.lifetime_ms(2000).nonce(7).to_vec().unwrap();
        let shown = text(Some(&interest));
        assert!(shown.starts_with("12:34:56.123456 from face 300 (udp4://192.0.2.1:6363): Interest /a/b (CanBePrefix, MustBeFresh, lifetime 2000 ms), "), "{shown}");
        let data = ndn_security::sign_data(
            &DataBuilder::new(&name).content(b"hello"),
            &ndn_security::DigestSigner,
        )
        .unwrap();
        let shown = text(Some(&data));
        assert!(shown.contains("Data /a/b (content 5 bytes), "), "{shown}");
        let lp = |header: LpHeader<'_>, payload: &[u8]| {
            let mut wire = vec![0; 512];
            let length = header.write(payload, &mut wire).unwrap();
            wire.truncate(length);
            wire
        };
        let nack =
            lp(LpHeader { nack: Some(NackReason::NO_ROUTE), ..LpHeader::default() }, &interest);
        let shown = text(Some(&nack));
        assert!(shown.contains("Nack /a/b (NoRoute, CanBePrefix"), "{shown}");
        assert!(text(Some(&interest[..9])).contains("other (malformed or truncated"));
        assert!(text(None).ends_with("other (not NDN), 0 bytes"));
    }

    #[test]
    fn application_is_shown_as_its_process() {
        let frame = CapturedFrame {
            interface: "unix:///run/nfd/nfd.sock",
            is_truncated: false,
            face_id: Some(301),
            application: Some("process 7 (cat)"),
            direction: Some(Direction::Sent),
            unix_ns: 0,
            packet: None,
        };
        let line = PacketLine::new(None);
        let shown = line.text(&frame);
        assert!(shown.contains(" to   face 301 (process 7 (cat)): "), "{shown}");
        assert_eq!(line.json(&frame)["remote_uri"], "unix:///run/nfd/nfd.sock");
    }

    #[test]
    fn control_characters_of_interfaces_are_escaped() {
        let frame = CapturedFrame {
            interface: "eth0\u{1b}[2J\n",
            is_truncated: false,
            face_id: None,
            application: None,
            direction: None,
            unix_ns: 0,
            packet: None,
        };
        let shown = PacketLine::new(None).text(&frame);
        assert!(shown.contains(" eth0\\u{1b}[2J\\n: other"), "{shown}");
    }
}
