//! Trust rules, of both formats.

use ndn_packet::Data;
use ndn_security::trust::{AnchorSource, SignedPacket, TrustPolicy};

/// Takes the bytes as rules, and has them judge a packet and name what they miss.
pub fn trust_rules(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else {
        return;
    };
    let mut no_include = |_: &str| Err("nothing is included".to_owned());
    let mut no_anchors = |_: AnchorSource<'_>| Ok(Vec::new());
    let Ok(mut policy) = TrustPolicy::from_rules("fuzz", text, &mut no_include, &mut no_anchors)
    else {
        return;
    };
    for packet in [DIGEST, KEYED] {
        let data = Data::parse(packet).expect("a packet");
        let packet = SignedPacket::from_data(&data).expect("it is signed");
        let judged = policy.validate(&packet, &[], 1_700_000_000);
        assert_eq!(judged, policy.validate(&packet, &[], 1_700_000_000));
        let _ = format!("{judged:?}");
    }
}

/// `/a/b`, signed with a digest that does not match.
const DIGEST: &[u8] = &[6, 15, 7, 6, 8, 1, b'a', 8, 1, b'b', 22, 3, 27, 1, 0, 23, 0];

/// `/a/b`, signed by `/a/KEY/k`.
const KEYED: &[u8] = &[
    6, 32, 7, 6, 8, 1, b'a', 8, 1, b'b', 22, 20, 27, 1, 3, 28, 15, 7, 13, 8, 1, b'a', 8, 3, b'K',
    b'E', b'Y', 8, 3, b'k', b'-', b'1', 23, 0,
];
