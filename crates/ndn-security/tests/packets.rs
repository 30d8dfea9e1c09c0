//! Packets and certificates of python-ndn and ndn-cxx are accepted, ours are well formed, and
//! damaged ones are refused. Vectors in `tests/vectors`.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;
use std::sync::Arc;

use ndn_packet::{Component, Data, DataBuilder, Interest, InterestBuilder, Name, SignatureType};
use ndn_security::{
    AntiReplay, Certificate, CertificateError, CertificateOptions, DigestSigner, DigestVerifier,
    EncryptionSeed, HmacKey, KeyError, KeySigner, KeyType, Locator, NullSigner, PrivateKey,
    PublicKey, SELF, SafeBag, Signer, Verifier, VerifyError, identity_of_key, key_name, sign_data,
    sign_interest, verify_data, verify_interest, verify_parameters_digest,
};

fn vector(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn private_key(name: &str) -> PrivateKey {
    PrivateKey::from_text(&vector(name), None).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    assert_eq!(text.len() % 2, 0);
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// The packets of `kind` in python-ndn.txt with their algorithms.
fn python_packets(kind: &str) -> Vec<(String, Vec<u8>)> {
    let text = vector("python-ndn.txt");
    let packets: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|fields| fields[0] == kind)
        .map(|fields| (fields[1].to_owned(), unhex(fields[2])))
        .collect();
    assert!(packets.len() >= 3);
    packets
}

fn python_verifier(algorithm: &str) -> Box<dyn Verifier> {
    match algorithm {
        "digest" => Box::new(DigestVerifier),
        "hmac" => Box::new(HmacKey::new(&(0..40).collect::<Vec<u8>>(), Locator::None)),
        "ecdsa" => Box::new(private_key("ec-sec1.pem").public_key().unwrap()),
        "ed25519" => Box::new(private_key("ed25519.pem").public_key().unwrap()),
        "rsa" => Box::new(private_key("rsa-pkcs1.privkey").public_key().unwrap()),
        other => panic!("no key for {other}"),
    }
}

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

#[test]
fn data_of_python_ndn_verifies_and_no_changed_bit_does() {
    for (algorithm, wire) in python_packets("data") {
        let data = Data::parse(&wire).unwrap();
        if algorithm == "null" {
            assert_eq!(data.signature_info().unwrap().signature_type, SignatureType::NULL);
            let refused = verify_data(&data, &DigestVerifier);
            assert!(matches!(refused, Err(VerifyError::WrongType { .. })), "{refused:?}");
            continue;
        }
        let verifier = python_verifier(&algorithm);
        verify_data(&data, verifier.as_ref()).expect(&algorithm);
        for position in (0..wire.len()).step_by(5) {
            let mut bad = wire.clone();
            bad[position] ^= 0x10;
            if let Ok(data) = Data::parse(&bad) {
                verify_data(&data, verifier.as_ref()).expect_err(&algorithm);
            }
        }
    }
}

#[test]
fn interests_of_python_ndn_verify_and_no_changed_bit_does() {
    for (algorithm, wire) in python_packets("interest") {
        let interest = Interest::parse(&wire).unwrap();
        verify_parameters_digest(&interest).expect(&algorithm);
        if algorithm == "unsigned" {
            let refused = verify_interest(&interest, &DigestVerifier).unwrap_err();
            assert_eq!(refused, VerifyError::NotSigned);
        }
        if algorithm == "unsigned" || algorithm == "null" {
            continue;
        }
        let verifier = python_verifier(&algorithm);
        verify_interest(&interest, verifier.as_ref()).expect(&algorithm);
        let covered = interest.parameters_portion().unwrap().len();
        for position in wire.len() - covered..wire.len() {
            let mut bad = wire.clone();
            bad[position] ^= 0x10;
            if let Ok(interest) = Interest::parse(&bad) {
                verify_interest(&interest, verifier.as_ref()).expect_err(&algorithm);
            }
        }
    }
}

fn all_signers() -> Vec<(Box<dyn Signer>, Box<dyn Verifier>)> {
    let locator = Locator::Name(name("/nw/KEY/1"));
    let hmac = HmacKey::new(b"secret", Locator::Digest([7; 32]));
    let mut signers: Vec<(Box<dyn Signer>, Box<dyn Verifier>)> = vec![
        (Box::new(DigestSigner), Box::new(DigestVerifier)),
        (Box::new(hmac.clone()), Box::new(hmac)),
    ];
    for key_type in [KeyType::Ecdsa, KeyType::Ed25519, KeyType::Rsa] {
        let key = Arc::new(PrivateKey::generate(key_type).unwrap());
        let public = key.public_key().unwrap();
        signers.push((Box::new(KeySigner::new(key, locator.clone())), Box::new(public)));
    }
    signers
}

#[test]
fn signature_verifies_with_its_own_key_only() {
    let data_name = name("/nw/data/seg=3");
    let interest_name = name("/nw/command");
    let signers = all_signers();
    for (index, (signer, verifier)) in signers.iter().enumerate() {
        for content_len in [0, 1, 200, 8000] {
            let content = vec![0x42; content_len];
            let builder = DataBuilder::new(data_name.as_ref()).content(&content).freshness_ms(10);
            let wire = sign_data(&builder, signer.as_ref()).unwrap();
            let data = Data::parse(&wire).unwrap();
            assert_eq!(data.content().unwrap(), content);
            verify_data(&data, verifier.as_ref()).unwrap();
            for (other, (_, verifier)) in signers.iter().enumerate() {
                assert_eq!(verify_data(&data, verifier.as_ref()).is_ok(), other == index);
            }
        }
        for parameters in [None, Some(&b"parameters"[..])] {
            let mut builder = InterestBuilder::new(interest_name.as_ref()).nonce(5);
            if let Some(parameters) = parameters {
                builder = builder.parameters(parameters);
            }
            let anti_replay =
                AntiReplay { nonce: Some(&[9; 8]), time_ms: Some(1_234), sequence_num: Some(6) };
            let wire = sign_interest(&builder, signer.as_ref(), &anti_replay).unwrap();
            let interest = Interest::parse(&wire).unwrap();
            let info = verify_interest(&interest, verifier.as_ref()).unwrap();
            assert_eq!(info.nonce, Some(&[9; 8][..]));
            assert_eq!((info.time_ms, info.sequence_num), (Some(1_234), Some(6)));
            assert_eq!(interest.parameters(), Some(parameters.unwrap_or_default()));
        }
    }
}

#[test]
fn null_signature_has_no_value() {
    let data_name = name("/nw/null");
    let wire = sign_data(&DataBuilder::new(data_name.as_ref()), &NullSigner).unwrap();
    let data = Data::parse(&wire).unwrap();
    assert!(data.signature_value().is_empty());
    assert_eq!(data.signature_info().unwrap().signature_type, SignatureType::NULL);
}

#[test]
fn parameters_digest_is_checked_before_the_signature() {
    let interest_name = name("/nw/command");
    let builder = InterestBuilder::new(interest_name.as_ref()).parameters(b"p");
    let wire = sign_interest(&builder, &DigestSigner, &AntiReplay::default()).unwrap();
    let digest_start = Interest::parse(&wire).unwrap().name_value_range().end - 32;
    let mut bad = wire;
    bad[digest_start] ^= 1;
    let interest = Interest::parse(&bad).unwrap();
    let refused = verify_interest(&interest, &DigestVerifier).unwrap_err();
    assert_eq!(refused, VerifyError::ParametersDigestMismatch);
}

#[test]
fn certificates_of_ndn_cxx_are_read_and_verified() {
    for (file, key_type) in
        [("ec.cert", KeyType::Ecdsa), ("rsa.cert", KeyType::Rsa), ("root.cert", KeyType::Ecdsa)]
    {
        let certificate = Certificate::from_text(&vector(file)).expect(file);
        assert_eq!(certificate.public_key().key_type(), key_type);
        assert!(certificate.is_self_signed(), "{file}");
        assert_eq!(certificate.to_text(), vector(file), "{file}");
    }
    let root = Certificate::from_text(&vector("root.cert")).unwrap();
    let issued = Certificate::from_text(&vector("ec-issued.cert")).unwrap();
    assert_eq!(issued.name().to_uri(), "/nw/ec/KEY/%DA%1De%99P.V%CA/ISSUER/v=1795216723753");
    assert_eq!(issued.identity(), name("/nw/ec").as_ref());
    assert_eq!(identity_of_key(issued.key_name()), Some(name("/nw/ec").as_ref()));
    issued.verify(root.public_key()).unwrap();
    assert!(!issued.is_self_signed());
    assert_eq!(issued.issuer().as_ref().map(Name::as_ref), Some(root.name()));
    assert_eq!(issued.description(), [("fullname".to_owned(), "An example".to_owned())]);
    // 2026-11-20T23:18:44 to 2027-11-20T23:18:43.
    assert!(issued.validity().contains(1_795_216_724));
    assert!(!issued.validity().contains(1_795_216_723));
    assert!(issued.validity().contains(1_826_752_723));
    assert!(!issued.validity().contains(1_826_752_724));
}

#[test]
fn certificates_of_python_ndn_are_read_and_verified() {
    for (algorithm, wire) in python_packets("certificate") {
        let certificate = Certificate::parse(wire).expect(&algorithm);
        assert!(certificate.is_self_signed(), "{algorithm}");
        assert_eq!(certificate.identity(), name("/nw/python").as_ref());
    }
}

fn options<'a>(
    issuer_id: Component<'a>,
    description: &'a [(&'a str, &'a str)],
) -> CertificateOptions<'a> {
    CertificateOptions {
        issuer_id,
        version: 1_700_000_000_000,
        not_before_unix_s: 1_700_000_000,
        not_after_unix_s: 1_800_000_000,
        description,
    }
}

#[test]
fn generated_certificate_chain_verifies() {
    let root_key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let root_name = key_name(name("/root").as_ref(), Component::generic(&[1, 2]));
    let root = Certificate::self_sign(root_name.as_ref(), &root_key, &options(SELF, &[])).unwrap();
    assert!(root.is_self_signed());
    assert_eq!(root.key_name(), root_name.as_ref());

    let leaf_key = PrivateKey::generate(KeyType::Ecdsa).unwrap();
    let leaf_name = key_name(name("/root/leaf").as_ref(), Component::generic(b"k"));
    let signer = KeySigner::new(Arc::clone(&root_key), Locator::Name(root.name().to_name()));
    let leaf = Certificate::issue(
        leaf_name.as_ref(),
        &leaf_key.public_key().unwrap(),
        &options(Component::generic(b"root"), &[("owner", "someone")]),
        &signer,
    )
    .unwrap();
    leaf.verify(root.public_key()).unwrap();
    assert!(root.verify(leaf.public_key()).is_err());
    assert_eq!(leaf.name().to_uri(), "/root/leaf/KEY/k/root/v=1700000000000");
    assert_eq!(leaf.description(), [("owner".to_owned(), "someone".to_owned())]);
    assert_eq!(leaf.public_key().spki(), leaf_key.spki());
}

#[test]
fn error_names_the_reason_why_a_packet_is_not_a_certificate() {
    let data_name = name("/nw/KEY/1/self/v=1");
    let plain = sign_data(&DataBuilder::new(data_name.as_ref()), &DigestSigner).unwrap();
    assert_eq!(Certificate::parse(plain).unwrap_err(), CertificateError::ContentType(0));
    let short = sign_data(&DataBuilder::new(name("/KEY/1").as_ref()), &DigestSigner).unwrap();
    assert!(matches!(Certificate::parse(short), Err(CertificateError::Name(_))));
    assert!(matches!(Certificate::parse(vec![6, 1]), Err(CertificateError::Packet(_))));
    assert!(matches!(
        Certificate::from_text("%"),
        Err(CertificateError::Key(KeyError::Base64 { .. }))
    ));
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let wrong = Certificate::self_sign(name("/nw/key").as_ref(), &key, &options(SELF, &[]));
    assert!(matches!(wrong, Err(CertificateError::Name(_))));
    let backwards = CertificateOptions { not_after_unix_s: 1, ..options(SELF, &[]) };
    let wrong = Certificate::self_sign(name("/nw/KEY/1").as_ref(), &key, &backwards);
    assert_eq!(wrong.unwrap_err(), CertificateError::InvalidValidityPeriod);
}

#[test]
fn safe_bags_of_ndn_cxx_open() {
    for (file, key_type) in [("ec.safebag", KeyType::Ecdsa), ("rsa.safebag", KeyType::Rsa)] {
        let bag = SafeBag::from_text(&vector(file)).expect(file);
        let key = bag.open(b"hunter2").expect(file);
        assert_eq!(key.key_type(), key_type);
        assert_eq!(bag.open(b"hunter1").unwrap_err(), KeyError::Decryption);
        let mut signature = vec![0; key.signature_len_max()];
        let length = key.sign(&[b"message"], &mut signature).unwrap();
        assert!(bag.certificate().public_key().matches(&[b"message"], &signature[..length]));
        assert_eq!(bag.to_text().as_str(), vector(file));
    }
}

#[test]
fn generated_safe_bag_opens_with_its_own_key_only() {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let other = PrivateKey::generate(KeyType::Ed25519).unwrap();
    let seed = EncryptionSeed { salt: [3; 16], iv: [4; 16] };
    let certificate =
        || Certificate::self_sign(name("/nw/KEY/1").as_ref(), &key, &options(SELF, &[])).unwrap();
    let mixed = SafeBag::seal(certificate(), &other, b"p", &seed);
    assert_eq!(mixed.unwrap_err(), KeyError::KeyMismatch);
    let bag = SafeBag::seal(certificate(), &key, b"p", &seed).unwrap();
    let read = SafeBag::parse(&bag.to_wire()).unwrap();
    assert_eq!(read.open(b"p").unwrap().spki(), key.spki());
    let wire = bag.to_wire();
    for length in 0..wire.len() {
        assert!(SafeBag::parse(&wire[..length]).is_err());
    }
}

#[test]
fn verifier_of_a_certificate_refuses_other_types() {
    let certificate = Certificate::from_text(&vector("ec.cert")).unwrap();
    let key: &PublicKey = certificate.public_key();
    let (_, wire) = python_packets("data").remove(0);
    let refused = verify_data(&Data::parse(&wire).unwrap(), key).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the packet is signed with DigestSha256, SignatureSha256WithEcdsa is expected"
    );
}
