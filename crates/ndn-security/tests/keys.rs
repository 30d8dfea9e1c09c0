//! Keys written by ndnsec and OpenSSL, read and used; vectors in `tests/vectors`.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

use ndn_security::{EncryptionSeed, KeyError, KeyType, PrivateKey, PublicKey};

fn vector(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn spki(name: &str) -> Vec<u8> {
    use base64::Engine;
    let text: String = vector(name).split_whitespace().collect();
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

fn assert_signs(key: &PrivateKey) {
    let public = key.public_key().unwrap();
    let mut out = vec![0; key.signature_len_max()];
    for parts in [&[b"whole".as_slice()][..], &[b"wh".as_slice(), b"", b"ole"][..], &[][..]] {
        let length = key.sign(parts, &mut out).unwrap();
        assert!(public.matches(&[&parts.concat()], &out[..length]));
        assert!(public.matches(parts, &out[..length]));
        assert!(!public.matches(&[b"other"], &out[..length]));
        out[length / 2] ^= 1;
        assert!(!public.matches(parts, &out[..length]));
    }
    assert!(!public.matches(&[b"whole"], &[]));
    assert!(key.sign(&[b"whole"], &mut [0; 8]).is_err());
}

#[test]
fn generated_keys_sign_and_survive_every_form() {
    for key_type in [KeyType::Ecdsa, KeyType::Ed25519, KeyType::Rsa] {
        let key = PrivateKey::generate(key_type).unwrap();
        assert_eq!(key.key_type(), key_type);
        assert_signs(&key);
        let from_der = PrivateKey::from_der(&key.to_pkcs8_der().unwrap()).unwrap();
        assert_eq!(from_der.spki(), key.spki());
        let from_pem = PrivateKey::from_text(&key.to_pem().unwrap(), None).unwrap();
        assert_eq!(from_pem.spki(), key.spki());
        let file = key.to_key_file_text().unwrap();
        let from_file = PrivateKey::from_text(&file, None).unwrap();
        assert_eq!(from_file.spki(), key.spki());
        assert_signs(&from_file);
        let seed = EncryptionSeed { salt: [1; 16], iv: [2; 16] };
        let encrypted = key.to_encrypted_der(b"secret", &seed).unwrap();
        let decrypted = PrivateKey::from_encrypted_der(&encrypted, b"secret").unwrap();
        assert_eq!(decrypted.spki(), key.spki());
        assert_eq!(PrivateKey::from_der(&encrypted).unwrap_err(), KeyError::PassphraseNeeded);
    }
}

#[test]
fn private_keys_of_other_programs_are_read() {
    for (file, passphrase, key_type) in [
        ("rsa-pkcs1.privkey", None, KeyType::Rsa),
        ("ec-sec1.privkey", None, KeyType::Ecdsa),
        ("ec-sec1.pem", None, KeyType::Ecdsa),
        ("ec-pkcs8.pem", None, KeyType::Ecdsa),
        ("ec-aes128-sha1.pem", Some(b"hunter2".as_slice()), KeyType::Ecdsa),
        ("ed25519.pem", None, KeyType::Ed25519),
    ] {
        let key = PrivateKey::from_text(&vector(file), passphrase).expect(file);
        assert_eq!(key.key_type(), key_type, "{file}");
        assert_signs(&key);
    }
    for file in ["rsa-pkcs1.privkey", "ec-sec1.privkey"] {
        let key = PrivateKey::from_text(&vector(file), None).unwrap();
        let again = key.to_key_file_text().unwrap();
        assert_eq!(again.trim_end(), vector(file).trim_end(), "as ndnsec wrote it");
    }
    for (file, spki_file) in [
        ("ec-sec1.pem", "ec-sec1.spki"),
        ("ec-pkcs8.pem", "ec-sec1.spki"),
        ("ed25519.pem", "ed25519.spki"),
    ] {
        let key = PrivateKey::from_text(&vector(file), None).unwrap();
        assert_eq!(key.spki(), spki(spki_file), "{file}");
    }
}

#[test]
fn wrong_passphrases_and_wrong_kinds_are_named() {
    let encrypted = vector("ec-aes128-sha1.pem");
    assert_eq!(
        PrivateKey::from_text(&encrypted, Some(b"hunter3")).unwrap_err(),
        KeyError::Decryption
    );
    assert_eq!(PrivateKey::from_text(&encrypted, None).unwrap_err(), KeyError::PassphraseNeeded);
    let explicit = PublicKey::from_spki(&spki("ec-explicit.spki")).unwrap_err();
    assert!(explicit.to_string().contains("explicit parameters"), "{explicit}");
    let small = PublicKey::from_spki(&spki("rsa1024.spki"));
    assert!(matches!(small, Err(KeyError::Rejected { .. })), "{small:?}");
}

#[test]
fn damaged_public_keys_are_refused_without_panic() {
    for file in ["ec-sec1.spki", "ed25519.spki"] {
        let good = spki(file);
        for length in 0..good.len() {
            assert!(PublicKey::from_spki(&good[..length]).is_err(), "{file} cut to {length}");
        }
        for position in 0..good.len() {
            let mut bad = good.clone();
            bad[position] ^= 0x01;
            let _ = PublicKey::from_spki(&bad);
        }
    }
}
