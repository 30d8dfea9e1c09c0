//! A captured packet in short.

use ndn_packet::{DecodeError, LpPacket, Name, NameRef, Packet};

use super::kind::CapturedKind;

/// A packet as it was on the link.
struct Parsed<'a> {
    link: LpPacket<'a>,
    /// `None` of a fragment, and of a frame without a packet.
    packet: Option<Packet<'a>>,
}

impl<'a> Parsed<'a> {
    fn new(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let link = LpPacket::parse(wire)?;
        let whole = link.fragment().filter(|_| link.frag_count() <= 1);
        let packet = whole.map(Packet::parse).transpose()?;
        Ok(Self { link, packet })
    }

    fn kind(&self) -> CapturedKind {
        match &self.packet {
            None => CapturedKind::Link,
            Some(Packet::Interest(_)) if self.link.nack().is_some() => CapturedKind::Nack,
            Some(Packet::Interest(_)) => CapturedKind::Interest,
            Some(Packet::Data(_)) => CapturedKind::Data,
        }
    }

    fn name(&self) -> Option<NameRef<'a>> {
        Some(match self.packet.as_ref()? {
            Packet::Interest(interest) => interest.name(),
            Packet::Data(data) => data.name(),
        })
    }
}

/// The kind and the name of a packet, by which it is selected.
#[derive(Clone, Copy, Debug)]
pub struct PacketIdentity<'a> {
    pub(super) kind: CapturedKind,
    /// Fragments have none.
    pub(super) name: Option<NameRef<'a>>,
}

impl<'a> PacketIdentity<'a> {
    /// Reads them from a packet as it was on the link.
    #[must_use]
    pub fn of(wire: &'a [u8]) -> Self {
        match Parsed::new(wire) {
            Ok(parsed) => Self { kind: parsed.kind(), name: parsed.name() },
            Err(_) => Self { kind: CapturedKind::Other, name: None },
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
        let parsed = match Parsed::new(wire) {
            Ok(parsed) => parsed,
            Err(error) => return Self::other(format!("malformed or truncated: {error}"), length),
        };
        let Parsed { link, packet } = &parsed;
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
        match packet {
            None if link.fragment().is_none() => details.insert(0, "no packet".to_owned()),
            None => {
                let part = format!("fragment {} of {}", link.frag_index() + 1, link.frag_count());
                details.insert(0, part);
            }
            Some(Packet::Interest(interest)) => {
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
                if let Some(reason) = link.nack() {
                    details.insert(0, reason.to_string());
                }
            }
            Some(Packet::Data(data)) => {
                details.push(format!("content {} bytes", data.content().unwrap_or_default().len()));
                let freshness = data.freshness_ms();
                details.extend(freshness.map(|freshness| format!("fresh {freshness} ms")));
            }
        }
        let name = parsed.name().map(|name| name.to_name());
        Self { kind: parsed.kind(), name, details, length }
    }

    fn other(reason: String, length: usize) -> Self {
        Self { kind: CapturedKind::Other, name: None, details: vec![reason], length }
    }
}
