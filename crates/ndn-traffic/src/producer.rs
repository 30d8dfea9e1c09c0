//! The producer: Data, a Nack or silence for each Interest.

use ndn_packet::tlv::{append_header, append_number, append_tlv, tlv_len};
use ndn_security::{SHA256_LEN, sha256};

use crate::random::Random;
use crate::scenario::{ProducerPattern, ProducerScenario, ScenarioError, parse_name};
use crate::wire::{self, ReceivedPacket, interest_name, read_frame};

/// SignatureInfo with SignatureType Null, and an empty SignatureValue: no key is needed.
const NULL_SIGNATURE: [u8; 7] = [0x16, 3, 0x1B, 1, 200, 0x17, 0];
/// SignatureInfo with SignatureType DigestSha256, and the header of the SignatureValue.
const DIGEST_SIGNATURE: [u8; 5] = [0x16, 3, 0x1B, 1, 0];
const DIGEST_HEADER: [u8; 2] = [0x17, 32];
/// Nack with reason NoRoute (NDNLPv2, "Network Nack").
const NACK_NO_ROUTE: u8 = 150;

/// Outcomes of the Interests for a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProducerCounters {
    /// Interests received.
    pub interests: u64,
    /// Data sent.
    pub data: u64,
    /// Nacks sent.
    pub nacks: u64,
}

impl ProducerCounters {
    /// Sum of two producers.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            interests: self.interests + other.interests,
            data: self.data + other.data,
            nacks: self.nacks + other.nacks,
        }
    }
}

#[derive(Debug)]
struct Pattern {
    prefix: Vec<u8>,
    suffix: Vec<u8>,
    /// The bytes after the Name of a Data, for each content size, without a digest.
    tails: Vec<Vec<u8>>,
    has_digest: bool,
    nack_below: f64,
    silent_below: f64,
}

/// Answers Interests. Without sockets and clocks.
#[derive(Debug)]
pub struct Producer {
    /// Longest prefix first.
    order: Vec<usize>,
    patterns: Vec<Pattern>,
    counters: Vec<ProducerCounters>,
    random: Random,
    nack: Vec<u8>,
    unexpected: u64,
}

impl Producer {
    /// A producer; the same `seed` gives the same answers.
    ///
    /// # Errors
    /// The scenario is invalid.
    pub fn new(scenario: &ProducerScenario, seed: u64) -> Result<Self, ScenarioError> {
        scenario.check()?;
        let patterns: Result<Vec<Pattern>, _> =
            scenario.patterns.iter().map(Pattern::new).collect();
        let patterns = patterns?;
        let mut order: Vec<usize> = (0..patterns.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(patterns[*index].prefix.len()));
        let mut reason = Vec::new();
        append_number(&mut reason, wire::LP_NACK_REASON, u64::from(NACK_NO_ROUTE));
        let mut nack = Vec::new();
        append_tlv(&mut nack, wire::LP_NACK, &reason);
        let counters = vec![ProducerCounters::default(); patterns.len()];
        Ok(Self { order, patterns, counters, random: Random::new(seed), nack, unexpected: 0 })
    }

    /// Handles a packet; `push` is called with a function that appends the answer, if there is one.
    pub fn handle_frame(&mut self, frame: &[u8], push: impl FnOnce(&mut dyn FnMut(&mut Vec<u8>))) {
        let ReceivedPacket::Interest { token, packet } = read_frame(frame) else {
            self.unexpected += 1;
            return;
        };
        let named = interest_name(packet);
        let found = named.and_then(|(name, can_be_prefix)| {
            let matches = |index: &&usize| name.starts_with(&self.patterns[**index].prefix);
            Some((name, can_be_prefix, *self.order.iter().find(matches)?))
        });
        let Some((name, can_be_prefix, index)) = found else {
            self.unexpected += 1;
            return;
        };
        let (pattern, counters) = (&self.patterns[index], &mut self.counters[index]);
        counters.interests += 1;
        let lot = if pattern.silent_below > 0.0 { self.random.unit() } else { 1.0 };
        if lot < pattern.nack_below {
            counters.nacks += 1;
            push(&mut |out| {
                append_frame(out, token, &self.nack, packet.len(), |out| {
                    out.extend_from_slice(packet);
                })
            });
        } else if lot >= pattern.silent_below {
            counters.data += 1;
            let tail = match pattern.tails.len() {
                1 => &pattern.tails[0],
                count => {
                    let count = u32::try_from(count).unwrap_or(u32::MAX);
                    &pattern.tails[self.random.below(count) as usize]
                }
            };
            let suffix: &[u8] = if can_be_prefix { &pattern.suffix } else { &[] };
            let has_digest = pattern.has_digest;
            push(&mut |out| append_data(out, token, [name, suffix], tail, has_digest));
        }
    }

    /// Outcomes of the Interests, for each pattern of the scenario.
    #[must_use]
    pub fn counters(&self) -> &[ProducerCounters] {
        &self.counters
    }

    /// Packets that are not Interests for a pattern.
    #[must_use]
    pub fn unexpected(&self) -> u64 {
        self.unexpected
    }
}

impl Pattern {
    fn new(pattern: &ProducerPattern) -> Result<Self, ScenarioError> {
        let suffix = match pattern.suffix.as_str() {
            "" => Vec::new(),
            suffix => parse_name(suffix)?.value().to_vec(),
        };
        let tail = |size: &usize| {
            let mut tail = Vec::new();
            if pattern.freshness_ms > 0 {
                let mut freshness = Vec::new();
                let period = u64::from(pattern.freshness_ms);
                append_number(&mut freshness, wire::FRESHNESS_PERIOD, period);
                append_tlv(&mut tail, wire::META_INFO, &freshness);
            }
            append_tlv(&mut tail, wire::CONTENT, &vec![0x5A; *size]);
            match pattern.digest {
                true => tail.extend_from_slice(&DIGEST_SIGNATURE),
                false => tail.extend_from_slice(&NULL_SIGNATURE),
            }
            tail
        };
        Ok(Self {
            prefix: parse_name(&pattern.prefix)?.value().to_vec(),
            suffix,
            tails: pattern.payload.iter().map(tail).collect(),
            has_digest: pattern.digest,
            nack_below: pattern.nack_ratio,
            silent_below: pattern.nack_ratio + pattern.silence_ratio,
        })
    }
}

fn append_data(out: &mut Vec<u8>, token: &[u8], name: [&[u8]; 2], tail: &[u8], has_digest: bool) {
    let name_len = name[0].len() + name[1].len();
    let digest_len = if has_digest { DIGEST_HEADER.len() + SHA256_LEN } else { 0 };
    let value_len = tlv_len(wire::NAME, name_len) + tail.len() + digest_len;
    append_frame(out, token, &[], tlv_len(wire::DATA, value_len), |out| {
        append_header(out, wire::DATA, value_len);
        let signed = out.len();
        append_header(out, wire::NAME, name_len);
        out.extend_from_slice(name[0]);
        out.extend_from_slice(name[1]);
        out.extend_from_slice(tail);
        if has_digest {
            let digest = sha256(&out[signed..]);
            out.extend_from_slice(&DIGEST_HEADER);
            out.extend_from_slice(&digest);
        }
    });
}

/// A packet of `packet_len` bytes that `packet` appends, with an NDNLPv2 header if necessary.
fn append_frame(
    out: &mut Vec<u8>,
    token: &[u8],
    fields: &[u8],
    packet_len: usize,
    packet: impl FnOnce(&mut Vec<u8>),
) {
    if !token.is_empty() || !fields.is_empty() {
        let token_len = if token.is_empty() { 0 } else { tlv_len(wire::LP_PIT_TOKEN, token.len()) };
        let fragment_len = tlv_len(wire::LP_FRAGMENT, packet_len);
        append_header(out, wire::LP_PACKET, token_len + fields.len() + fragment_len);
        if !token.is_empty() {
            append_tlv(out, wire::LP_PIT_TOKEN, token);
        }
        out.extend_from_slice(fields);
        append_header(out, wire::LP_FRAGMENT, packet_len);
    }
    packet(out);
}
