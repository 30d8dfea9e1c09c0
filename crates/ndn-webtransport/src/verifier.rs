//! Whether the certificate of a listener is accepted, and the reason if not.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use wtransport::tls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use wtransport::tls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use wtransport::tls::rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use crate::certificate::{CertificateHash, hash_of};

/// Does what another verifier does, and keeps why a certificate was refused: of a handshake that fails,
/// the library reports an alert only.
#[derive(Debug)]
pub(crate) struct Verifier {
    inner: Arc<dyn ServerCertVerifier>,
    /// The hash that the certificate has to have.
    expected: Option<CertificateHash>,
    rejection: RejectionReason,
}

/// Why the certificate was refused, once it was.
#[derive(Debug, Clone, Default)]
pub(crate) struct RejectionReason(Arc<Mutex<Option<String>>>);

impl RejectionReason {
    pub(crate) fn text(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Verifier {
    pub(crate) fn new(
        inner: Arc<dyn ServerCertVerifier>,
        expected: Option<CertificateHash>,
        rejection: RejectionReason,
    ) -> Self {
        Self { inner, expected, rejection }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let inner = &self.inner;
        let result =
            inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if let Err(error) = &result {
            let text = explain(error, hash_of(end_entity), self.expected, &server_name.to_str());
            *self.rejection.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
        result
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The reason why a certificate is not accepted, as text.
fn explain(
    error: &Error,
    shown: CertificateHash,
    expected: Option<CertificateHash>,
    host: &str,
) -> String {
    let Error::InvalidCertificate(reason) = error else {
        return format!("its certificate cannot be checked: {error}");
    };
    if matches!(reason, CertificateError::Expired | CertificateError::ExpiredContext { .. }) {
        return "its certificate has expired, or the clock of this system is wrong".to_owned();
    }
    if matches!(reason, CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. })
    {
        return "its certificate is not valid yet, or the clock of this system is wrong".to_owned();
    }
    if let Some(expected) = expected {
        return if shown == expected {
            "its certificate has the hash of the address, but is none that may be trusted by hash: a key of \
             ECDSA on P-256, valid for two weeks at most"
                .to_owned()
        } else {
            format!(
                "it shows a certificate with sha256={shown}, which is not that of the address: it has a new one \
                 (`namewire webtransport` there shows its hash), or it is not the one that was meant"
            )
        };
    }
    if matches!(
        reason,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
    ) {
        return format!("its certificate is not for {host}");
    }
    if matches!(reason, CertificateError::UnknownIssuer) {
        return format!(
            "no authority that this system trusts has signed its certificate; to trust it all the same, \
             append #sha256={shown} if `namewire webtransport` there shows the same hash"
        );
    }
    let reason: &dyn fmt::Debug = reason;
    format!("its certificate is not valid ({reason:?})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_certificate_is_reported_in_words() {
        let [one, other] = [CertificateHash([1; 32]), CertificateHash([2; 32])];
        let issuer = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let wrong_hash = explain(&issuer, one, Some(other), "host");
        assert!(wrong_hash.contains(&one.to_string()), "{wrong_hash}");
        assert!(explain(&issuer, one, Some(one), "host").contains("P-256"));
        assert!(explain(&issuer, one, None, "host").contains("#sha256=0101"));
        let expired = Error::InvalidCertificate(CertificateError::Expired);
        for expected in [None, Some(one), Some(other)] {
            assert!(explain(&expired, one, expected, "host").contains("expired"));
        }
        let name = Error::InvalidCertificate(CertificateError::NotValidForName);
        assert!(explain(&name, one, None, "host.example").contains("host.example"));
    }
}
