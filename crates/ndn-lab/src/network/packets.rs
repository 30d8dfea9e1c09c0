//! Packets of consumers and producers.

use ndn_packet::types::INTEREST;
use ndn_packet::{
    DataBuilder, Interest, InterestBuilder, LpHeader, LpPacket, NackReason, Name, NameRef, Packet,
};
use ndn_packet::{SignatureInfo, SignatureType};

/// CachePolicyType NoCache.
const NO_CACHE: u64 = 1;
/// Lifetime of Interests.
const LIFETIME_MS: u64 = 4000;

/// Components of the names of segments without others: source, object and segment.
pub(crate) const NAME_COMPONENTS_MIN: usize = 3;
/// Largest number of components of the names of segments.
pub(crate) const NAME_COMPONENTS_MAX: usize = 64;
/// A component that makes names longer.
const FILLER: &[u8] = b"catalog";

/// Components between source and object in names of `components` components.
fn fillers(components: usize) -> usize {
    components.saturating_sub(NAME_COMPONENTS_MIN)
}

/// The prefix of all objects of a source.
pub(crate) fn prefix(source: u32) -> Name {
    let mut name = Name::new();
    name.push_generic(format!("source-{source}"));
    name
}

/// The prefix of an object of a source, in names of `components` components.
pub(crate) fn object_prefix(source: u32, object: u32, components: usize) -> Name {
    let mut name = prefix(source);
    for _ in 0..fillers(components) {
        name.push_generic(FILLER);
    }
    name.push_sequence_num(u64::from(object));
    name
}

/// A segment of an object of a source, in names of some number of components.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentName {
    pub(crate) source: u32,
    pub(crate) object: u32,
    pub(crate) segment: u64,
    pub(crate) components: usize,
}

impl SegmentName {
    fn name(self) -> Name {
        let mut name = object_prefix(self.source, self.object, self.components);
        name.push_segment(self.segment);
        name
    }
}

/// Object and segment in a name.
fn numbers(name: NameRef<'_>) -> Option<(u32, u64)> {
    let object = name.component(name.len().checked_sub(2)?)?.as_sequence_num()?;
    Some((u32::try_from(object).ok()?, name.last()?.as_segment()?))
}

pub(crate) fn interest(segment: SegmentName, nonce: u32) -> Vec<u8> {
    let name = segment.name();
    InterestBuilder::new(&name).nonce(nonce).lifetime_ms(LIFETIME_MS).to_vec().unwrap_or_default()
}

/// A frame that an application receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    Data { object: u32, segment: u64, is_marked: bool },
    Nack { object: u32, segment: u64, reason: NackReason },
    Interest { object: u32, segment: u64 },
}

/// Parses a frame, and returns its PIT token.
pub(crate) fn parse(frame: &[u8]) -> Option<(Received, Option<&[u8]>)> {
    let lp = LpPacket::parse(frame).ok()?;
    let token = lp.pit_token();
    let received = match Packet::parse(lp.fragment()?).ok()? {
        Packet::Data(data) => {
            let (object, segment) = numbers(data.name())?;
            let is_marked = lp.congestion_mark().is_some_and(|mark| mark > 0);
            Received::Data { object, segment, is_marked }
        }
        Packet::Interest(interest) => {
            let (object, segment) = numbers(interest.name())?;
            match lp.nack() {
                Some(reason) => Received::Nack { object, segment, reason },
                None => Received::Interest { object, segment },
            }
        }
    };
    Some((received, token))
}

/// Returns whether a frame is an Interest for a segment. Other packets are not parsed.
pub(crate) fn is_interest(frame: &[u8]) -> bool {
    let lp = LpPacket::parse(frame).ok().filter(|lp| lp.nack().is_none());
    let packet = lp.and_then(|lp| lp.fragment());
    let packet =
        packet.filter(|packet| packet.first().map(|first| u32::from(*first)) == Some(INTEREST));
    let interest = packet.and_then(|packet| Interest::parse(packet).ok());
    interest.is_some_and(|interest| numbers(interest.name()).is_some())
}

/// A Data with `len` bytes of content, of an object whose last segment is `last`. The node of its source does not cache it
/// (NDNLPv2, CachePolicy).
pub(crate) fn data(segment: SegmentName, last: u64, len: usize, token: Option<&[u8]>) -> Vec<u8> {
    let name = segment.name();
    let content = vec![0; len];
    let mut builder = DataBuilder::new(&name).content(&content).freshness_ms(3_600_000);
    let mut last_name = Name::new();
    last_name.push_segment(last);
    if let Some(last) = last_name.as_ref().last() {
        builder = builder.final_block_id(last);
    }
    let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    // Forwarders do not verify Data that they forward.
    let sign = |_: &[&[u8]], signature: &mut [u8]| {
        signature.fill(0);
        Some(signature.len())
    };
    let packet = builder.to_vec(&info, ndn_security::SHA256_LEN, sign).unwrap_or_default();
    let mut frame = Vec::new();
    let token = token.unwrap_or_default();
    let header = LpHeader { pit_token: token, cache_policy: Some(NO_CACHE), ..LpHeader::default() };
    ndn_packet::lp::append_packet(&mut frame, &header, &packet);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_round_trip() {
        for components in [NAME_COMPONENTS_MIN, 10, NAME_COMPONENTS_MAX] {
            let name = SegmentName { source: 3, object: 70_000, segment: 12, components };
            assert_eq!(name.name().len(), components);
            let frame = interest(name, 1);
            let expected = Received::Interest { object: 70_000, segment: 12 };
            assert_eq!(parse(&frame), Some((expected, None)));
            assert!(is_interest(&frame));
            let frame = data(name, 12, 8000, Some(&[1, 2]));
            let expected = Received::Data { object: 70_000, segment: 12, is_marked: false };
            assert_eq!(parse(&frame), Some((expected, Some(&[1, 2][..]))));
            let rest = frame.len() - 8000 - fillers(components) * (FILLER.len() + 2);
            assert!(rest < 200, "{}", frame.len());
            assert_eq!(parse(&frame[..100]), None);
            assert!(!is_interest(&frame));
        }
    }
}
