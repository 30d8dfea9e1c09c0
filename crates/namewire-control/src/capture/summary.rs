//! A captured packet in short.

use ndn_packet::{LpPacket, Name, Packet};

/// The kind of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturedKind {
    /// An Interest.
    Interest,
    /// A Data.
    Data,
    /// A network Nack.
    Nack,
    /// A fragment of a longer packet, or acknowledgements.
    Link,
    /// A frame that is not NDN, malformed or truncated.
    Other,
}

impl CapturedKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Interest, Self::Data, Self::Nack, Self::Link, Self::Other];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Interest => "Interest",
            Self::Data => "Data",
            Self::Nack => "Nack",
            Self::Link => "NDNLPv2",
            Self::Other => "other",
        }
    }
}

/// A packet in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketSummary {
    /// Its kind.
    pub kind: CapturedKind,
    /// Its name; fragments have none.
    pub name: Option<Name>,
    /// Its fields, in words.
    pub details: Vec<String>,
    /// Captured length, bytes.
    pub length: usize,
}

impl PacketSummary {
    /// Describes a packet as it was on the link; `None` is a frame of another protocol.
    #[must_use]
    pub fn new(packet: Option<&[u8]>) -> Self {
        let Some(wire) = packet else { return Self::other("not NDN".to_owned(), 0) };
        let length = wire.len();
        let malformed = |error: &dyn std::fmt::Display| {
            Self::other(format!("malformed or truncated: {error}"), length)
        };
        let link = match LpPacket::parse(wire) {
            Ok(link) => link,
            Err(error) => return malformed(&error),
        };
        let mut details = Vec::new();
        if let Some(mark) = link.congestion_mark().filter(|mark| *mark > 0) {
            details.push(format!("congestion mark {mark}"));
        }
        if link.tx_sequence().is_some() {
            details.push("reliable".to_owned());
        }
        let acks = link.acks().count();
        if acks > 0 {
            details.push(format!("{acks} acknowledged"));
        }
        let Some(fragment) = link.fragment() else {
            details.insert(0, "no packet".to_owned());
            return Self { kind: CapturedKind::Link, name: None, details, length };
        };
        if link.frag_count() > 1 {
            let part = format!("fragment {} of {}", link.frag_index() + 1, link.frag_count());
            details.insert(0, part);
            return Self { kind: CapturedKind::Link, name: None, details, length };
        }
        let (kind, name) = match Packet::parse(fragment) {
            Ok(Packet::Interest(interest)) => {
                for (is_set, word) in [
                    (interest.can_be_prefix(), "CanBePrefix"),
                    (interest.must_be_fresh(), "MustBeFresh"),
                    (interest.has_forwarding_hint(), "ForwardingHint"),
                    (interest.parameters().is_some(), "parameters"),
                    (interest.is_signed(), "signed"),
                ] {
                    details.extend(is_set.then(|| word.to_owned()));
                }
                if interest.has_lifetime() {
                    details.push(format!("lifetime {} ms", interest.lifetime_ms()));
                }
                details.extend(interest.hop_limit().map(|limit| format!("hop limit {limit}")));
                let kind = match link.nack() {
                    Some(reason) => {
                        details.insert(0, reason.to_string());
                        CapturedKind::Nack
                    }
                    None => CapturedKind::Interest,
                };
                (kind, interest.name().to_name())
            }
            Ok(Packet::Data(data)) => {
                details.push(format!("content {} bytes", data.content().unwrap_or_default().len()));
                let freshness = data.freshness_ms();
                details.extend(freshness.map(|freshness| format!("fresh {freshness} ms")));
                (CapturedKind::Data, data.name().to_name())
            }
            Err(error) => return malformed(&error),
        };
        Self { kind, name: Some(name), details, length }
    }

    fn other(reason: String, length: usize) -> Self {
        Self { kind: CapturedKind::Other, name: None, details: vec![reason], length }
    }
}
