//! TLS from PEM files.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Why a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate.
    #[error("the file has no certificate in PEM")]
    NoCertificate,
    /// There is no key, or it is encrypted.
    #[error("the file has no private key in PEM that is not encrypted")]
    NoKey,
    /// They do not belong together, or are of a kind that is not supported.
    #[error("the certificate cannot be used with the key: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The configuration of TLS 1.3 with these certificates, the own one first, and this key (PKCS #8, SEC1 or PKCS #1),
/// both in PEM. The protocol is HTTP/1.1.
///
/// # Errors
/// Why they cannot be used.
pub fn server_config(certificates: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(TlsError::NoCertificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
