//! Keys for signing and verification: `--sign` and `--verify`.

use std::path::Path;
use std::sync::Arc;

use ndn_client::fetch::{UncheckedSignature, Verification};
use ndn_client::rules::DataRules;
use ndn_client::{Trust, verifier_from_text};
use ndn_security::trust::TrustPolicy;
use ndn_security::{
    DigestSigner, HmacKey, KeyError, KeySigner, Locator, NullSigner, PrivateKey, SafeBag, Signer,
    Verifier,
};

use super::failure::{Failure, Outcome};
use ndn_sys::clock::Clock;

/// The environment variable with the passphrase of encrypted keys.
pub(super) const PASSPHRASE_VARIABLE: &str = "NAMEWIRE_PASSPHRASE";

/// Help of `--sign`.
pub(super) const SIGN_HELP: &str =
    "Sign with `digest` (integrity only), `null`, `hmac:FILE` or the key in FILE";

/// As [`SIGN_HELP`], for `--help`.
pub(super) const SIGN_LONG_HELP: &str =
    "Sign with `digest` (integrity only), `null`, `hmac:FILE` or the key in FILE

FILE contains a private key (PEM, or Base64 as in the key files of ndnsec and python-ndn) or the \
output of `ndnsec export`. NAMEWIRE_PASSPHRASE is the passphrase of an encrypted key. FILE of \
hmac: contains the shared key in Base64.";

/// Help of `--verify`.
pub(super) const VERIFY_HELP: &str =
    "Verify with `digest`, `none`, `hmac:FILE`, `rules:FILE` or the key or certificate in FILE";

/// As [`VERIFY_HELP`], for `--help`.
pub(super) const VERIFY_LONG_HELP: &str =
    "Verify with `digest`, `none`, `hmac:FILE`, `rules:FILE` or the key or certificate in FILE

`digest` checks digests, and accepts packets with other signatures unchecked. FILE holds a \
public key (PEM), a certificate (the output of `ndnsec cert-dump`) or a private key; every \
packet must be signed by that key, and a certificate must be valid. `rules:` names a file of \
trust anchors and rules (docs/data/trust.md, or in the format of ndn-cxx); intermediate \
certificates are fetched by name.";

/// The signer of `--sign`.
pub(super) fn signer(argument: &str) -> Outcome<Arc<dyn Signer>> {
    match argument {
        "digest" => return Ok(Arc::new(DigestSigner)),
        "null" => return Ok(Arc::new(NullSigner)),
        _ => (),
    }
    if let Some(file) = argument.strip_prefix("hmac:") {
        return Ok(Arc::new(hmac_key(file)?));
    }
    let text = read(argument)?;
    let (key, locator) = private_key(argument, &text)?;
    Ok(Arc::new(KeySigner::new(Arc::new(key), locator)))
}

/// The verifier of `--verify`.
pub(super) fn verification(argument: &str) -> Outcome<Verification> {
    match argument {
        "digest" => return Ok(Verification::Digest),
        "none" => return Ok(Verification::Skip),
        _ => (),
    }
    if let Some(file) = argument.strip_prefix("rules:") {
        let trust = Trust::from_file(Path::new(file));
        let trust = trust.map_err(|error| Failure::Input(error.to_string()))?;
        return Ok(Verification::Trust(Arc::new(trust)));
    }
    let verifier: Arc<dyn Verifier> = match argument.strip_prefix("hmac:") {
        Some(file) => Arc::new(hmac_key(file)?),
        None => public_key(argument)?,
    };
    Ok(Verification::Verifier(verifier))
}

/// The checks of this value of `--verify`, for the summary of a fetch.
pub(super) fn checked_in_words(argument: &str) -> String {
    match (argument, verifier_in_words(argument)) {
        (_, Some(verifier)) => format!("verified by {verifier}"),
        ("digest", None) => "checked by digest, not by a key".to_owned(),
        (_, None) => "signatures not checked".to_owned(),
    }
}

/// A signature that was not checked, for the summary of a fetch.
pub(super) fn unchecked_in_words(unchecked: &UncheckedSignature) -> String {
    match &unchecked.key_name {
        Some(key) => format!("signed by {key}, which was not checked"),
        None => format!("not checked ({})", unchecked.signature_type),
    }
}

/// Name of the verifier of signatures by this value of `--verify`; `None` if they are not verified.
fn verifier_in_words(argument: &str) -> Option<String> {
    if matches!(argument, "digest" | "none") {
        return None;
    }
    let file = |file: &str| super::output::without_control(file);
    Some(match argument.split_once(':') {
        Some(("rules", rules)) => format!("the rules in {}", file(rules)),
        Some(("hmac", key)) => format!("the key in {}", file(key)),
        Some(_) | None => format!("the key in {}", file(argument)),
    })
}

/// Identifies a value of `--verify` without revealing a shared key.
pub(super) fn identity(argument: &str) -> Outcome<String> {
    if matches!(argument, "digest" | "none") {
        return Ok(argument.to_owned());
    }
    if let Some(file) = argument.strip_prefix("rules:") {
        let rules = DataRules::read(Path::new(file), &Clock::system());
        let DataRules { policy, texts } =
            rules.map_err(|error| Failure::Input(error.to_string()))?;
        let mut all = texts.concat().into_bytes();
        policy.anchors().for_each(|anchor| all.extend_from_slice(anchor.wire()));
        return Ok(format!("rules {}", fingerprint(&all)));
    }
    let (kind, file) = match argument.strip_prefix("hmac:") {
        Some(file) => ("hmac", file),
        None => ("key", argument),
    };
    Ok(format!("{kind} {}", fingerprint(read(file)?.trim().as_bytes())))
}

fn hmac_key(file: &str) -> Outcome<HmacKey> {
    let key = HmacKey::from_base64(&read(file)?, Locator::None);
    key.map_err(|error| match error == KeyError::Empty {
        true => Failure::input(file, error),
        false => unusable(file, &error),
    })
}

fn private_key(file: &str, text: &str) -> Outcome<(PrivateKey, Locator)> {
    let passphrase = std::env::var(PASSPHRASE_VARIABLE).ok();
    let passphrase = passphrase.as_ref().map(String::as_bytes);
    if let Ok(bag) = SafeBag::from_text(text) {
        let passphrase = passphrase.ok_or_else(|| unusable(file, &KeyError::PassphraseNeeded))?;
        let key = bag.open(passphrase).map_err(|error| unusable(file, &error))?;
        return Ok((key, Locator::Name(bag.certificate().key_name().to_name())));
    }
    let key = PrivateKey::from_text(text, passphrase).map_err(|error| {
        let is_of_a_kind = text.trim_start().starts_with("-----BEGIN");
        if is_of_a_kind || matches!(error, KeyError::PassphraseNeeded) {
            return unusable(file, &error);
        }
        let first_words = text.lines().filter_map(|line| line.split_whitespace().next());
        let mut first_words = first_words.map(|word| word.trim_matches(['[', ']']));
        let is_of_rules = |word| matches!(word, "rule" | "anchor" | "trust-anchor" | "validator");
        if TrustPolicy::is_text(text) || first_words.any(is_of_rules) {
            return Failure::Input(format!(
                "{file} is a file of trust rules, not a key: use --verify rules:{file}"
            ));
        }
        Failure::Input(format!(
            "{file} holds no key: it is neither PEM, nor a certificate, nor a private key or \
             SafeBag as ndnsec exports them"
        ))
    })?;
    let locator = Locator::Digest(key.key_digest());
    Ok((key, locator))
}

fn public_key(file: &str) -> Outcome<Arc<dyn Verifier>> {
    let text = read(file)?;
    match verifier_from_text(&text) {
        Err(KeyError::Pem) => {}
        verifier => return verifier.map_err(|error| unusable(file, &error)),
    }
    let (key, _) = private_key(file, &text)?;
    Ok(Arc::new(key.public_key().map_err(|error| unusable(file, &error))?))
}

fn read(file: &str) -> Outcome<String> {
    crate::config::text_file::read(Path::new(file)).map_err(|error| {
        let is_like_word =
            error.kind() == std::io::ErrorKind::NotFound && !file.contains(['/', '.']);
        let hint = if is_like_word { " (--help lists the other values)" } else { "" };
        Failure::input(file, format_args!("{error}{hint}"))
    })
}

fn unusable(file: &str, error: &KeyError) -> Failure {
    let hint = match matches!(error, KeyError::PassphraseNeeded) {
        true => format!(" (set {PASSPHRASE_VARIABLE})"),
        false => String::new(),
    };
    Failure::input(file, format_args!("the key is unusable: {error}{hint}"))
}

/// Identifies a key in the description of a part, without revealing a shared key.
fn fingerprint(key: &[u8]) -> String {
    ndn_security::sha256(key).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use ndn_packet::{Data, DataBuilder, Name};
    use ndn_security::{KeyType, sign_data};

    use super::*;

    fn file(directory: &tempfile::TempDir, name: &str, text: &str) -> String {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn check(signer: &dyn Signer, verification: &Verification) -> bool {
        let name: Name = "/a/b".parse().unwrap();
        let wire = sign_data(&DataBuilder::new(&name).content(b"c"), signer).unwrap();
        verification.check(&Data::parse(&wire).unwrap()).is_ok()
    }

    #[test]
    fn a_key_file_signs_and_verifies() {
        let directory = tempfile::tempdir().unwrap();
        let pem = |key: &PrivateKey| key.to_pem().unwrap().to_string();
        let key = PrivateKey::generate(KeyType::Ecdsa).unwrap();
        let own = file(&directory, "own.pem", &pem(&key));
        let other =
            file(&directory, "other.pem", &pem(&PrivateKey::generate(KeyType::Ecdsa).unwrap()));
        let spki = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, key.spki());
        let public = format!("-----BEGIN PUBLIC KEY-----\n{spki}\n-----END PUBLIC KEY-----\n");
        let public = file(&directory, "public.pem", &public);

        let signer = signer(&own).unwrap();
        for (argument, accepted) in [(&own, true), (&public, true), (&other, false)] {
            assert_eq!(
                check(signer.as_ref(), &verification(argument).unwrap()),
                accepted,
                "{argument}"
            );
        }
        let name: Name = "/a".parse().unwrap();
        let wire = sign_data(&DataBuilder::new(&name), signer.as_ref()).unwrap();
        let refused = verification(&other).unwrap().check(&Data::parse(&wire).unwrap());
        let output = refused.unwrap_err().to_string();
        assert!(output.contains("signed with another key"), "{output}");
        assert!(
            check(signer.as_ref(), &verification("digest").unwrap()),
            "accepted without verification"
        );
        assert!(
            !check(&DigestSigner, &verification(&own).unwrap()),
            "a digest is not a signature by the key"
        );
    }

    #[test]
    fn a_shared_key_signs_and_verifies() {
        let directory = tempfile::tempdir().unwrap();
        let own = format!("hmac:{}", file(&directory, "own", "c2VjcmV0\n"));
        let other = format!("hmac:{}", file(&directory, "other", "b3RoZXI="));
        let signer = signer(&own).unwrap();
        assert!(check(signer.as_ref(), &verification(&own).unwrap()));
        assert!(!check(signer.as_ref(), &verification(&other).unwrap()));
    }

    #[test]
    fn an_empty_shared_key_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        for text in ["", "\n", " \t\r\n"] {
            let path = file(&directory, "empty", text);
            let argument = format!("hmac:{path}");
            for failure in [signer(&argument).err(), verification(&argument).err()] {
                let failure = failure.unwrap();
                assert_eq!(failure.status(), 2, "{text:?}");
                assert_eq!(failure.to_string(), format!("{path}: it holds no key"));
            }
        }
    }

    #[test]
    fn identity_of_rules_covers_included_files() {
        let directory = tempfile::tempdir().unwrap();
        let rule = |id: &str| {
            format!("rule {{\n id \"{id}\"\n for data\n checker {{\n type hierarchical\n }}\n}}\n")
        };
        let anchor = "trust-anchor {\n type any\n}\n";
        file(&directory, "more.conf", &rule("one"));
        let text = format!("{anchor}#include \"more.conf\"\n");
        let rules = format!("rules:{}", file(&directory, "rules.conf", &text));
        let before = identity(&rules).unwrap();
        assert_eq!(identity(&rules).unwrap(), before);
        file(&directory, "more.conf", &rule("two"));
        assert_ne!(identity(&rules).unwrap(), before);
    }

    #[test]
    fn unusable_files_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let nonsense = file(&directory, "nonsense", "hello");
        for argument in [nonsense.as_str(), "/nonexistent/key"] {
            let failure = signer(argument).err().unwrap();
            assert!(failure.to_string().starts_with(argument), "{failure}");
            let failure = verification(argument).err().unwrap();
            assert!(failure.to_string().starts_with(argument), "{failure}");
        }
    }
}
