//! Keys with certificates, and commands signed with them.

use std::sync::Arc;

use ndn_management::{CommandBuilder, ControlParameters, Verb};
use ndn_packet::{Component, Name, SignatureInfo};
use ndn_security::{
    Certificate, CertificateOptions, KeySigner, KeyType, Locator, PrivateKey, SELF, Signer,
    key_name,
};

use crate::unix_ms;

/// An identity with one key.
#[derive(Debug)]
pub struct Identity {
    key: Arc<PrivateKey>,
    /// The certificate of the key, valid for an hour.
    pub certificate: Certificate,
}

impl Identity {
    /// An identity of this name, whose certificate is signed by itself or by an issuer.
    ///
    /// # Panics
    /// `uri` is no name.
    #[must_use]
    pub fn new(uri: &str, issuer: Option<&Self>) -> Self {
        let key = Arc::new(PrivateKey::generate(KeyType::Ecdsa).unwrap());
        let name = key_name(uri.parse::<Name>().unwrap().as_ref(), Component::generic(b"k"));
        let now = i64::try_from(unix_ms() / 1000).unwrap();
        let options = CertificateOptions {
            issuer_id: SELF,
            version: 1,
            not_before_unix_s: now - 60,
            not_after_unix_s: now + 3600,
            description: &[],
        };
        let certificate = match issuer {
            None => Certificate::self_sign(name.as_ref(), &key, &options).unwrap(),
            Some(issuer) => {
                let public = key.public_key().unwrap();
                Certificate::issue(name.as_ref(), &public, &options, &issuer.signer()).unwrap()
            }
        };
        Self { key, certificate }
    }

    /// Signs with its key.
    #[must_use]
    pub fn signer(&self) -> KeySigner {
        let locator = Locator::Name(self.certificate.key_name().to_name());
        KeySigner::new(Arc::clone(&self.key), locator)
    }
}

/// A command below `top`, such as `/localhop/nfd`, that registers a prefix, signed at this time in milliseconds since 1970.
///
/// # Panics
/// `top` or `uri` is no name.
#[must_use]
pub fn signed_registration(top: &str, uri: &str, signer: &dyn Signer, time_ms: u64) -> Vec<u8> {
    let name = Some(uri.parse().unwrap());
    let parameters = ControlParameters { name, ..ControlParameters::default() };
    let nonce = time_ms.to_be_bytes();
    let info =
        SignatureInfo { time_ms: Some(time_ms), nonce: Some(&nonce), ..signer.signature_info() };
    let packet_nonce = u32::try_from(time_ms % 1_000_000_007).unwrap();
    let sign = |parts: &[&[u8]], out: &mut [u8]| signer.sign(parts, out).ok();
    CommandBuilder::new(top.parse().unwrap())
        .signed_interest(
            Verb::RibRegister,
            &parameters,
            packet_nonce,
            &info,
            signer.signature_len_max(),
            sign,
        )
        .unwrap()
}
