//! Interests with a few bytes left to fill in.

use ndn_packet::Name;
use ndn_packet::tlv::{append_nested, append_number, append_tlv};

use crate::outstanding::TOKEN_LEN;
use crate::scenario::ConsumerPattern;
use crate::wire;

/// An NDNLPv2 packet with a PIT token and an Interest.
#[derive(Debug, Clone)]
pub(crate) struct InterestTemplate {
    bytes: Vec<u8>,
    token_at: usize,
    number_at: usize,
    nonce_at: usize,
}

impl InterestTemplate {
    /// Names have the shape `<prefix>[/x...]/<number, 8 bytes>`.
    pub(crate) fn new(prefix: &Name, pattern: &ConsumerPattern) -> Self {
        let mut name = prefix.clone();
        while name.components().count() + 1 < pattern.components {
            name.push_generic("x");
        }
        name.push_generic([0; 8]);
        let mut tail = Vec::new();
        if pattern.can_be_prefix {
            append_tlv(&mut tail, wire::CAN_BE_PREFIX, &[]);
        }
        if pattern.must_be_fresh {
            append_tlv(&mut tail, wire::MUST_BE_FRESH, &[]);
        }
        append_tlv(&mut tail, wire::NONCE, &[0; 4]);
        let nonce_before_end = tail.len();
        append_number(&mut tail, wire::LIFETIME, u64::from(pattern.lifetime_ms));
        if let Some(hop_limit) = pattern.hop_limit {
            append_tlv(&mut tail, wire::HOP_LIMIT, &[hop_limit]);
        }
        let mut interest = Vec::new();
        append_nested(&mut interest, wire::INTEREST, |out| {
            append_tlv(out, wire::NAME, name.value());
            out.extend_from_slice(&tail);
        });
        let mut bytes = Vec::new();
        append_nested(&mut bytes, wire::LP_PACKET, |out| {
            append_tlv(out, wire::LP_PIT_TOKEN, &[0; TOKEN_LEN]);
            append_tlv(out, wire::LP_FRAGMENT, &interest);
        });
        let tail_at = bytes.len() - tail.len();
        let number_at = tail_at - 8;
        let nonce_at = tail_at + nonce_before_end - 4;
        let token_at = if bytes[1] < 0xFD { 4 } else { 6 };
        Self { bytes, token_at, number_at, nonce_at }
    }

    /// Fills the template in; the bytes hold until the next call.
    pub(crate) fn fill(&mut self, token: [u8; TOKEN_LEN], number: u64, nonce: [u8; 4]) -> &[u8] {
        self.bytes[self.token_at..][..TOKEN_LEN].copy_from_slice(&token);
        self.bytes[self.number_at..][..8].copy_from_slice(&number.to_be_bytes());
        self.bytes[self.nonce_at..][..4].copy_from_slice(&nonce);
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndn_packet::{Interest, LpPacket};

    #[test]
    fn filled_template_is_the_requested_interest() {
        for (components, long) in [(0, false), (7, false), (3, true)] {
            let pattern = ConsumerPattern {
                components,
                can_be_prefix: !long,
                must_be_fresh: long,
                lifetime_ms: 300,
                hop_limit: Some(9),
                ..ConsumerPattern::default()
            };
            let prefix = Name::from_uri(&format!("/a/{}", "b".repeat(if long { 260 } else { 3 })));
            let prefix = prefix.unwrap();
            let mut template = InterestTemplate::new(&prefix, &pattern);
            let bytes = template.fill([7; TOKEN_LEN], 0x0102_0304, [1, 2, 3, 4]);
            let packet = LpPacket::parse(bytes).unwrap();
            assert_eq!(packet.pit_token().unwrap(), [7; TOKEN_LEN]);
            let interest = Interest::parse(packet.fragment().unwrap()).unwrap();
            assert!(interest.name().starts_with(prefix.as_ref()));
            assert_eq!(interest.name().components().count(), components.max(3));
            let last = interest.name().last().unwrap();
            assert_eq!(last.value(), 0x0102_0304_u64.to_be_bytes());
            assert_eq!(interest.can_be_prefix(), !long);
            assert_eq!(interest.must_be_fresh(), long);
            assert_eq!(interest.hop_limit(), Some(9));
        }
    }
}
