//! Certificates (NDN certificate format, version 2): Data packets named
//! `/<identity>/KEY/<key-id>/<issuer-id>/<version>` whose Content is a SubjectPublicKeyInfo.

use ndn_packet::signature::AdditionalDescription;
use ndn_packet::{
    Component, ContentType, Data, DataBuilder, KeyLocator, Name, NameRef, SignatureInfo,
    ValidityPeriod,
};

use crate::signer::keep_error;
use crate::{
    CertificateError, KeyError, PrivateKey, PublicKey, SignError, Signer, VerifyError, base64_text,
    verify_data,
};

/// Component before the key's identifier in names of keys and certificates.
pub(crate) const KEY: Component<'static> = Component::generic(b"KEY");

/// Issuer component of a certificate that is signed by its own key.
pub const SELF: Component<'static> = Component::generic(b"self");

/// Components that follow the identity in a certificate's name.
const SUFFIX_LEN: usize = 4;

/// FreshnessPeriod of certificates that are written, in milliseconds.
const FRESHNESS_MS: u64 = 3_600_000;

/// `/<identity>/KEY/<key_id>`: the name of a key.
#[must_use]
pub fn key_name(identity: NameRef<'_>, key_id: Component<'_>) -> Name {
    let mut name = identity.to_name();
    name.push(KEY).push(key_id);
    name
}

/// The identity in the name of a key, `None` if it is not one.
#[must_use]
pub fn identity_of_key(key_name: NameRef<'_>) -> Option<NameRef<'_>> {
    let identity_len = key_name.len().checked_sub(2)?;
    (key_name.component(identity_len) == Some(KEY)).then(|| key_name.prefix(identity_len))
}

/// A well-formed certificate. Its signature is not verified.
#[derive(Debug)]
pub struct Certificate {
    wire: Vec<u8>,
    name: Name,
    validity: ValidityPeriod,
    public_key: PublicKey,
}

impl Certificate {
    /// Parses a Data packet as a certificate.
    ///
    /// # Errors
    /// Names the element that is malformed, absent or of an unsupported kind.
    pub fn parse(wire: Vec<u8>) -> Result<Self, CertificateError> {
        let data = Data::parse(&wire).map_err(CertificateError::Packet)?;
        let name = data.name();
        let key_len = name.len().saturating_sub(2);
        if name.len() < SUFFIX_LEN || identity_of_key(name.prefix(key_len)).is_none() {
            return Err(CertificateError::Name(name.to_uri()));
        }
        if data.content_type() != ContentType::KEY {
            return Err(CertificateError::ContentType(data.content_type().0));
        }
        let info = data.signature_info().map_err(CertificateError::Packet)?;
        let validity = info.validity_period.ok_or(CertificateError::NoValidityPeriod)?;
        let public_key = PublicKey::from_spki(data.content().unwrap_or_default())?;
        let name = name.to_name();
        Ok(Self { name, validity, public_key, wire })
    }

    /// Parses the base64 that `ndnsec cert-dump`, `key-gen` and `cert-gen` print.
    ///
    /// # Errors
    /// Those of [`Self::parse`], or that the text is not base64.
    pub fn from_text(text: &str) -> Result<Self, CertificateError> {
        Self::parse(base64_text::decode(text, "the certificate")?.to_vec())
    }

    /// The certificate in base64, in lines of 64 characters.
    #[must_use]
    pub fn to_text(&self) -> String {
        base64_text::encode_lines(&self.wire).to_string()
    }

    /// The Data packet.
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// The full name.
    #[must_use]
    pub fn name(&self) -> NameRef<'_> {
        self.name.as_ref()
    }

    /// The name of the key: `/<identity>/KEY/<key-id>`.
    #[must_use]
    pub fn key_name(&self) -> NameRef<'_> {
        self.name().prefix(self.name.len() - 2)
    }

    /// The identity that the key belongs to.
    #[must_use]
    pub fn identity(&self) -> NameRef<'_> {
        self.name().prefix(self.name.len() - SUFFIX_LEN)
    }

    /// The certified key.
    #[must_use]
    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// The validity period.
    #[must_use]
    pub fn validity(&self) -> &ValidityPeriod {
        &self.validity
    }

    /// Name of the key or certificate that signed this certificate, if the KeyLocator has one.
    #[must_use]
    pub fn issuer(&self) -> Option<Name> {
        match self.with_info(|info| {
            info.key_locator.map(|locator| match locator {
                KeyLocator::Name(name) => Some(name.to_name()),
                KeyLocator::Digest(_) => None,
            })
        }) {
            Some(Some(issuer)) => issuer,
            _ => None,
        }
    }

    /// The pairs of AdditionalDescription.
    #[must_use]
    pub fn description(&self) -> Vec<(String, String)> {
        self.with_info(|info| {
            let pairs = info.additional_description.iter().flat_map(AdditionalDescription::iter);
            pairs.map(|(key, text)| (key.to_owned(), text.to_owned())).collect()
        })
        .unwrap_or_default()
    }

    /// Verifies the signature of this certificate with its issuer's key.
    ///
    /// # Errors
    /// Those of [`verify_data`].
    pub fn verify(&self, issuer_key: &PublicKey) -> Result<(), VerifyError> {
        let data = Data::parse(&self.wire).map_err(VerifyError::Malformed)?;
        verify_data(&data, issuer_key)
    }

    /// Whether the certificate is signed by the key that it certifies.
    #[must_use]
    pub fn is_self_signed(&self) -> bool {
        self.verify(&self.public_key).is_ok()
    }

    /// Creates and signs a certificate.
    ///
    /// # Errors
    /// `Name` if `key_name` is not the name of a key, `InvalidValidityPeriod`, and `Sign`.
    pub fn issue(
        key_name: NameRef<'_>,
        public_key: &PublicKey,
        options: &CertificateOptions<'_>,
        signer: &dyn Signer,
    ) -> Result<Self, CertificateError> {
        if identity_of_key(key_name).is_none() {
            return Err(CertificateError::Name(key_name.to_uri()));
        }
        let validity =
            ValidityPeriod::from_unix_seconds(options.not_before_unix_s, options.not_after_unix_s)
                .filter(|_| options.not_before_unix_s <= options.not_after_unix_s)
                .ok_or(CertificateError::InvalidValidityPeriod)?;
        let mut name = key_name.to_name();
        name.push(options.issuer_id).push_version(options.version);
        let description = AdditionalDescription::encode(options.description);
        let additional_description = if options.description.is_empty() {
            None
        } else {
            Some(AdditionalDescription::new(&description).map_err(CertificateError::Packet)?)
        };
        let info = SignatureInfo {
            validity_period: Some(validity),
            additional_description,
            ..signer.signature_info()
        };
        let mut failure = None;
        let wire = DataBuilder::new(name.as_ref())
            .content_type(ContentType::KEY)
            .freshness_ms(FRESHNESS_MS)
            .content(public_key.spki())
            .to_vec(&info, signer.signature_len_max(), keep_error(signer, &mut failure))
            .map_err(|e| failure.unwrap_or(SignError::Encode(e)))?;
        Self::parse(wire)
    }

    /// Creates a certificate of `key` that is signed by `key` itself; `options.issuer_id` usually is
    /// [`SELF`].
    ///
    /// # Errors
    /// Those of [`Self::issue`].
    pub fn self_sign(
        key_name: NameRef<'_>,
        key: &std::sync::Arc<PrivateKey>,
        options: &CertificateOptions<'_>,
    ) -> Result<Self, CertificateError> {
        let locator = crate::Locator::Name(key_name.to_name());
        let signer = crate::KeySigner::new(std::sync::Arc::clone(key), locator);
        Self::issue(key_name, &key.public_key()?, options, &signer)
    }

    fn with_info<T>(&self, read: impl FnOnce(&SignatureInfo<'_>) -> T) -> Option<T> {
        let data = Data::parse(&self.wire).ok()?;
        data.signature_info().ok().map(|info| read(&info))
    }
}

/// The properties of a certificate that its issuer sets.
#[derive(Debug, Clone, Copy)]
pub struct CertificateOptions<'a> {
    /// Component that names the issuer.
    pub issuer_id: Component<'a>,
    /// Version, by custom the time of issue in milliseconds since 1970.
    pub version: u64,
    /// First second of validity, in seconds since 1970.
    pub not_before_unix_s: i64,
    /// Last second of validity, in seconds since 1970.
    pub not_after_unix_s: i64,
    /// Pairs of AdditionalDescription.
    pub description: &'a [(&'a str, &'a str)],
}

impl From<KeyError> for CertificateError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}
