//! Trust rules, of both formats.

use std::sync::{Arc, LazyLock};

use ndn_packet::{Component, Data, DataBuilder, Name, NameRef};
use ndn_security::trust::{AnchorSource, SignedPacket, TrustPolicy, Validation};
use ndn_security::{
    Certificate, CertificateOptions, DigestSigner, KeySigner, KeyType, Locator, PrivateKey, SELF,
    key_name, sign_data,
};

const NOW: i64 = 1_700_000_000;

/// Reads the bytes as rules, and judges packets with and without the certificates that lead to the anchor: a trusted
/// packet has a certificate and a valid signature.
pub(crate) fn trust_rules(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else {
        return;
    };
    judge(text);
}

/// The verdict of the rules on each packet, with the certificates at hand; empty if the text is not a set of rules.
fn judge(text: &str) -> Vec<Validation> {
    let world = &*WORLD;
    let mut no_include = |_: &str| Err("nothing is included".to_owned());
    let mut anchors = |_: AnchorSource<'_>| Ok(vec![Arc::clone(&world.anchor)]);
    let rules = TrustPolicy::from_rules("fuzz", text, &mut no_include, &mut anchors);
    let Ok(policy) = rules else {
        return Vec::new();
    };
    let rules = policy.with_anchors_that_expire();
    let mut verdicts = Vec::new();
    for (packet, forged) in &world.packets {
        // It knows nothing of the packets before.
        let mut policy = rules.clone();
        let signed = |packet| SignedPacket::from_data(packet).expect("it is signed");
        let (data, forged) = (parse(packet), parse(forged));
        let (data, forged) = (signed(&data), signed(&forged));
        let chain = std::slice::from_ref(&world.site);
        if !policy.accepts_all() {
            let accepted = |data, fetched: &[_], unix_s| {
                policy.judge(data, fetched, unix_s).validation == Validation::Accepted
            };
            assert!(!accepted(&forged, chain, NOW), "a wrong signature");
            let is_digest = data.key_name().is_ok_and(|key| !key.to_uri().contains("/KEY/"));
            assert!(is_digest || !accepted(&data, chain, NOW + 1001), "all has expired");
            let by_anchor = data.key_name().is_ok_and(|key| names(&world.anchor, key.as_ref()));
            assert!(is_digest || by_anchor || !accepted(&data, &[], NOW), "no certificate");
        }
        let judged = policy.judge(&data, chain, NOW).validation;
        assert_eq!(judged, policy.validate(&data, chain, NOW));
        assert_eq!(judged, policy.validate(&data, chain, NOW), "once more");
        let _ = format!("{judged:?}");
        verdicts.push(judged);
    }
    verdicts
}

fn names(certificate: &Certificate, key: NameRef<'_>) -> bool {
    certificate.name().starts_with(key)
}

fn parse(packet: &[u8]) -> Data<'_> {
    Data::parse(packet).expect("a packet")
}

/// An anchor for `/a`, a certificate for `/a/b` that it signed, and packets of all of them.
struct World {
    anchor: Arc<Certificate>,
    site: Arc<Certificate>,
    /// Each with the same under a wrong signature.
    packets: Vec<(Vec<u8>, Vec<u8>)>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let generate = || Arc::new(PrivateKey::generate(KeyType::Ed25519).expect("a key"));
    let (root_key, site_key) = (generate(), generate());
    let options = |issuer_id| CertificateOptions {
        issuer_id,
        version: 1,
        not_before_unix_s: NOW - 1000,
        not_after_unix_s: NOW + 1000,
        description: &[],
    };
    let named = |uri: &str| key_name(name(uri).as_ref(), Component::generic(b"k"));
    let (root_name, site_name) = (named("/a"), named("/a/b"));
    let anchor = Certificate::self_sign(root_name.as_ref(), &root_key, &options(SELF));
    let root = KeySigner::new(root_key, Locator::Name(root_name));
    let public = site_key.public_key().expect("a public key");
    let issuer = options(Component::generic(b"i"));
    let site = Certificate::issue(site_name.as_ref(), &public, &issuer, &root);
    let signer = KeySigner::new(site_key, Locator::Name(site_name));
    let digest = DigestSigner;
    let signers: [&dyn ndn_security::Signer; 3] = [&root, &signer, &digest];
    let uris = ["/a", "/a/b", "/a/b/c", "/a/b/KEY/k/x/v=1", "/c/b"];
    let pairs = uris.into_iter().flat_map(|uri| signers.map(|signer| (uri, signer)));
    let packets = pairs.map(|(uri, signer)| {
        let packet = sign_data(&DataBuilder::new(&name(uri)), signer).expect("a packet");
        let mut forged = packet.clone();
        *forged.last_mut().expect("a signature") ^= 1;
        (packet, forged)
    });
    let packets = packets.collect();
    let certificate = |made: Result<Certificate, _>| match made {
        Ok(certificate) => Arc::new(certificate),
        Err(error) => panic!("a certificate: {error:?}"),
    };
    World { anchor: certificate(anchor), site: certificate(site), packets }
});

fn name(uri: &str) -> Name {
    Name::from_uri(uri).expect("a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The corpus has rules by which packets are accepted: what lies behind is fuzzed as well.
    #[test]
    fn trust_rules_of_the_corpus_accept_signed_packets() {
        for (rules, accepted) in [
            (include_str!("../../corpus/trust_rules/lines_with_a_chain"), 3),
            (include_str!("../../corpus/trust_rules/ndn_cxx_with_an_anchor"), 7),
        ] {
            let verdicts = judge(rules);
            let count = verdicts.iter().filter(|verdict| **verdict == Validation::Accepted).count();
            assert_eq!(count, accepted, "{rules}: {verdicts:?}");
        }
    }
}
