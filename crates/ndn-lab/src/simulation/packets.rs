//! Packets of consumers and producers.

use ndn_packet::{
    DataBuilder, InterestBuilder, LpHeader, LpPacket, NackReason, Name, NameRef, Packet,
};
use ndn_packet::{SignatureInfo, SignatureType};

/// CachePolicyType NoCache.
const NO_CACHE: u64 = 1;
/// Lifetime of Interests.
const LIFETIME_MS: u64 = 4000;

/// The prefix of all objects of a source.
pub(super) fn prefix(source: u32) -> Name {
    let mut name = Name::new();
    name.push_generic(format!("source-{source}"));
    name
}

fn segment_name(source: u32, object: u32, segment: u64) -> Name {
    let mut name = prefix(source);
    name.push_sequence_num(u64::from(object)).push_segment(segment);
    name
}

/// Object and segment in a name.
fn numbers(name: NameRef<'_>) -> Option<(u32, u64)> {
    let object = name.component(1)?.as_sequence_num()?;
    Some((u32::try_from(object).ok()?, name.component(2)?.as_segment()?))
}

pub(super) fn interest(source: u32, object: u32, segment: u64, nonce: u32) -> Vec<u8> {
    let name = segment_name(source, object, segment);
    InterestBuilder::new(&name).nonce(nonce).lifetime_ms(LIFETIME_MS).to_vec().unwrap_or_default()
}

/// A frame that an application receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    Data { object: u32, segment: u64, is_marked: bool },
    Nack { object: u32, segment: u64, is_congested: bool },
    Interest { object: u32, segment: u64 },
}

/// Parses a frame, and returns its PIT token.
pub(super) fn parse(frame: &[u8]) -> Option<(Received, Option<Vec<u8>>)> {
    let lp = LpPacket::parse(frame).ok()?;
    let token = lp.pit_token().map(<[u8]>::to_vec);
    let received = match Packet::parse(lp.fragment()?).ok()? {
        Packet::Data(data) => {
            let (object, segment) = numbers(data.name())?;
            let is_marked = lp.congestion_mark().is_some_and(|mark| mark > 0);
            Received::Data { object, segment, is_marked }
        }
        Packet::Interest(interest) => {
            let (object, segment) = numbers(interest.name())?;
            match lp.nack() {
                Some(reason) => {
                    let is_congested = reason == NackReason::CONGESTION;
                    Received::Nack { object, segment, is_congested }
                }
                None => Received::Interest { object, segment },
            }
        }
    };
    Some((received, token))
}

/// A Data with `len` bytes of content. The node of its source does not cache it (NDNLPv2, CachePolicy).
pub(super) fn data(
    (source, object, segment): (u32, u32, u64),
    len: usize,
    token: Option<&[u8]>,
) -> Vec<u8> {
    let name = segment_name(source, object, segment);
    let content = vec![0; len];
    let builder = DataBuilder::new(&name).content(&content).freshness_ms(3_600_000);
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
    fn packets_are_parsed_as_they_were_made() {
        let frame = interest(3, 70_000, 12, 1);
        let expected = Received::Interest { object: 70_000, segment: 12 };
        assert_eq!(parse(&frame), Some((expected, None)));
        let frame = data((3, 70_000, 12), 8000, Some(&[1, 2]));
        let expected = Received::Data { object: 70_000, segment: 12, is_marked: false };
        assert_eq!(parse(&frame), Some((expected, Some(vec![1, 2]))));
        assert!(frame.len() > 8000 && frame.len() < 8200, "{}", frame.len());
        assert_eq!(parse(&frame[..100]), None);
    }
}
