//! Keys and trust by words, as in the options `verify` and `sign` of programs in other languages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ndn_client::fetch::Verification;
use ndn_client::rules::RuleFileError;
use ndn_client::{Trust, verifier_from_text};
use ndn_security::{DigestSigner, HmacKey, KeyError, KeySigner, Locator, PrivateKey, Signer};

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read.
    #[error("{}: {reason}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: std::io::Error,
    },
    /// The file holds no key of the kind.
    #[error("{}: {reason}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: KeyError,
    },
    /// The rules, or files that they name.
    #[error(transparent)]
    Rules(RuleFileError),
}

/// Verification by a word: `digest`, `none`, `hmac:FILE` (shared key in Base64), `rules:FILE` (trust rules and anchors), or a
/// file with a public key or certificate.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub fn verification(word: &str) -> Result<Verification, KeysError> {
    match word {
        "digest" => return Ok(Verification::Digest),
        "none" => return Ok(Verification::Skip),
        _ => {}
    }
    if let Some(file) = word.strip_prefix("rules:") {
        let trust = Trust::from_file(Path::new(file)).map_err(|error| {
            if let RuleFileError::Read { path, reason } = error {
                return KeysError::Read { path, reason };
            }
            KeysError::Rules(error)
        })?;
        return Ok(Verification::Trust(Arc::new(trust)));
    }
    if let Some(file) = word.strip_prefix("hmac:") {
        return Ok(Verification::Verifier(Arc::new(hmac_key(file)?)));
    }
    let verifier = verifier_from_text(&read(word)?);
    Ok(Verification::Verifier(verifier.map_err(|reason| unusable(word, reason))?))
}

/// A signer by a word: `digest` (integrity only), `hmac:FILE` (shared key in Base64), or a file with a private key that is not
/// encrypted (PEM).
///
/// # Errors
/// As [`verification`].
pub fn signer(word: &str) -> Result<Arc<dyn Signer>, KeysError> {
    if word == "digest" {
        return Ok(Arc::new(DigestSigner));
    }
    if let Some(file) = word.strip_prefix("hmac:") {
        return Ok(Arc::new(hmac_key(file)?));
    }
    let key = PrivateKey::from_text(&read(word)?, None);
    let key = key.map_err(|reason| unusable(word, reason))?;
    let locator = Locator::Digest(key.key_digest());
    Ok(Arc::new(KeySigner::new(Arc::new(key), locator)))
}

fn hmac_key(file: &str) -> Result<HmacKey, KeysError> {
    HmacKey::from_base64(&read(file)?, Locator::None).map_err(|reason| unusable(file, reason))
}

fn read(file: &str) -> Result<String, KeysError> {
    std::fs::read_to_string(file).map_err(|reason| KeysError::Read { path: file.into(), reason })
}

fn unusable(file: &str, reason: KeyError) -> KeysError {
    KeysError::Key { path: file.into(), reason }
}

#[cfg(test)]
mod tests {
    use ndn_packet::{Data, DataBuilder, Name};
    use ndn_security::{KeyType, sign_data};

    use super::*;

    #[test]
    fn words_select_keys() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let key = PrivateKey::generate(KeyType::Ecdsa).unwrap();
        let pem = file("key.pem", &key.to_pem().unwrap());
        let shared = format!("hmac:{}", file("shared", "c2VjcmV0\n"));
        let other = format!("hmac:{}", file("other", "b3RoZXI=\n"));
        let name = Name::from_uri("/a").unwrap();
        let accepts = |sign: &str, verify: &str| {
            let wire = sign_data(&DataBuilder::new(&name), signer(sign).unwrap().as_ref()).unwrap();
            let data = Data::parse(&wire).unwrap();
            verification(verify).unwrap().check(&data).is_ok()
        };
        assert!(accepts("digest", "digest") && accepts(&pem, "none"));
        assert!(accepts(&shared, &shared) && !accepts(&shared, &other));
        assert!(!accepts("digest", &shared));
        // Identify what is stored on disk.
        let fingerprint = |word: &str| verification(word).unwrap().fingerprint().unwrap();
        let words = ["digest", "none", &shared, &other];
        let fingerprints = words.map(fingerprint);
        assert_eq!(fingerprints, words.map(fingerprint));
        for (index, one) in fingerprints.iter().enumerate() {
            assert!(!fingerprints[..index].contains(one), "{}", words[index]);
        }
        let message = |result: Result<Verification, KeysError>| result.unwrap_err().to_string();
        assert!(message(verification("/none.pem")).starts_with("/none.pem: "));
        assert!(message(verification("rules:/none.conf")).starts_with("/none.conf: "));
        let empty = file("empty.conf", "data /a by /b\n");
        assert!(message(verification(&format!("rules:{empty}"))).contains("no `anchor`"));
        assert!(signer(&file("text", "text")).is_err());
        let blank = format!("hmac:{}", file("blank", " \n"));
        assert!(message(verification(&blank)).ends_with("/blank: it holds no key"));
        assert!(signer(&blank).is_err());
    }
}
