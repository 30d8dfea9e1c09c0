//! The key chain: the operations of `ndnsec` on a PIB and a TPM.

use std::sync::Arc;

use ndn_packet::{Component, Name, NameRef};
use ndn_security::{
    Certificate, CertificateOptions, EncryptionSeed, KeySigner, KeyType, Locator, PrivateKey, SELF,
    SafeBag, identity_of_key, key_name,
};

use crate::pib::{Access, CertificateEntry, IdentityEntry, KeyEntry, Kind, Pib};
use crate::tpm::Tpm;
use crate::{KeyChainError, Locations};

/// Validity of self-signed certificates and of requests, in seconds, as in `ndnsec`.
const SELF_SIGNED_S: i64 = 20 * 365 * 86_400;
const REQUEST_S: i64 = 10 * 86_400;

/// Issuer component of a certificate request.
const REQUEST: Component<'static> = Component::generic(b"cert-request");

/// The last component of a new key's name.
#[derive(Debug, Clone, Copy)]
pub enum KeyId<'a> {
    /// This component; eight random bytes are usual.
    Component(Component<'a>),
    /// SHA-256 of the public key.
    Digest,
}

/// Whether a new key or certificate becomes the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewDefault {
    /// Certificate of its key, key of its identity, and identity of the key chain.
    All,
    /// Certificate of its key, and key of its identity.
    Identity,
    /// Certificate of its key.
    Key,
    /// No default, unless it is the first one.
    None,
}

/// Identities, their keys and certificates.
#[derive(Debug)]
pub struct KeyChain {
    pib: Pib,
    tpm: Tpm,
}

impl KeyChain {
    /// Opens the key chain at `locations`.
    ///
    /// # Errors
    /// `NoKeyChain` if it does not exist, `NoRights` without permission; `Invalid`, `Locked`, `ReadOnly`,
    /// `TpmMismatch`, `File`, `Database`.
    pub fn open(locations: Locations, access: Access) -> Result<Self, KeyChainError> {
        let pib = Pib::open(&locations, access)?;
        Ok(Self { pib, tpm: Tpm::new(locations.tpm) })
    }

    /// All identities, the oldest first.
    ///
    /// # Errors
    /// `Database`, `Locked`, `Malformed`.
    pub fn identities(&self) -> Result<Vec<IdentityEntry>, KeyChainError> {
        self.pib.identities()
    }

    /// The keys of an identity, the oldest first.
    ///
    /// # Errors
    /// As [`Self::identities`].
    pub fn keys(&self, identity: NameRef<'_>) -> Result<Vec<KeyEntry>, KeyChainError> {
        self.pib.keys(identity)
    }

    /// The certificates of a key, the oldest first.
    ///
    /// # Errors
    /// As [`Self::identities`].
    pub fn certificates(&self, key: NameRef<'_>) -> Result<Vec<CertificateEntry>, KeyChainError> {
        self.pib.certificates(key)
    }

    /// The default identity.
    ///
    /// # Errors
    /// `NoDefaultIdentity`, and those of [`Self::identities`].
    pub fn default_identity(&self) -> Result<Name, KeyChainError> {
        let mut identities = self.identities()?.into_iter();
        let default = identities.find(|identity| identity.is_default);
        default.map(|identity| identity.name).ok_or(KeyChainError::NoDefaultIdentity)
    }

    /// The key that `name` stands for: a key, a certificate's key, or an identity's default key.
    ///
    /// # Errors
    /// `NotFound`, `Without`, and those of [`Self::identities`].
    pub fn key(&self, name: NameRef<'_>) -> Result<KeyEntry, KeyChainError> {
        let (kind, key) = self.kind_of(name)?;
        let missing = KeyChainError::Without { name: name.to_uri(), what: "default key" };
        match kind {
            Kind::Identity => {
                self.keys(name)?.into_iter().find(|key| key.is_default).ok_or(missing)
            }
            Kind::Key | Kind::Certificate => {
                let identity = identity_of_key(key).unwrap_or(key);
                let found =
                    self.keys(identity)?.into_iter().find(|entry| entry.name.as_ref() == key);
                found.ok_or_else(|| KeyChainError::NotFound(name.to_uri()))
            }
        }
    }

    /// The certificate that `name` stands for: that of this name, or the default certificate of the key that it stands for.
    ///
    /// # Errors
    /// Those of [`Self::key`], and `Certificate` if it is malformed.
    pub fn certificate(&self, name: NameRef<'_>) -> Result<Certificate, KeyChainError> {
        let key = self.key(name)?;
        let is_it = |entry: &CertificateEntry| match self.kind_of(name) {
            Ok((Kind::Certificate, _)) => entry.name.as_ref() == name,
            _ => entry.is_default,
        };
        let found = self.certificates(key.name.as_ref())?.into_iter().find(is_it);
        let missing =
            || KeyChainError::Without { name: key.name.to_uri(), what: "default certificate" };
        let entry = found.ok_or_else(missing)?;
        let name = entry.name;
        Certificate::parse(entry.wire)
            .map_err(|source| KeyChainError::Certificate { name: name.to_uri(), source })
    }

    /// The private key of the key that `name` stands for.
    ///
    /// # Errors
    /// Those of [`Self::key`], `NoPrivateKey`, `File`, and `Key` if the file holds another key.
    pub fn private_key(&self, name: NameRef<'_>) -> Result<PrivateKey, KeyChainError> {
        let entry = self.key(name)?;
        let key = self.tpm.load(entry.name.as_ref())?;
        if key.spki() == entry.spki {
            return Ok(key);
        }
        let source = ndn_security::KeyError::Rejected {
            what: "the private key",
            reason: format!("it does not belong to {}", entry.name),
        };
        let key = self.tpm.path(entry.name.as_ref()).display().to_string();
        Err(KeyChainError::Key { key, source })
    }

    /// The signer of `name` (an identity, a key or a certificate). The KeyLocator names the
    /// certificate, or the key if it has none, as in ndn-cxx.
    ///
    /// # Errors
    /// Those of [`Self::private_key`].
    pub fn signer(&self, name: NameRef<'_>) -> Result<KeySigner, KeyChainError> {
        let entry = self.key(name)?;
        let key = self.private_key(name)?;
        let locator = match self.certificate(name) {
            Ok(certificate) => certificate.name().to_name(),
            Err(KeyChainError::Without { .. }) => entry.name,
            Err(error) => return Err(error),
        };
        Ok(KeySigner::new(Arc::new(key), Locator::Name(locator)))
    }

    /// Creates a key with a self-signed certificate, and its identity if it does not exist.
    /// `now_unix_ms` is the time in milliseconds since 1970, which becomes the version.
    ///
    /// # Errors
    /// `Exists` if there is a key of that name; `Key`, `Certificate`, and those of writing.
    pub fn generate(
        &mut self,
        identity: NameRef<'_>,
        key_type: KeyType,
        key_id: KeyId<'_>,
        now_unix_ms: u64,
        default: NewDefault,
    ) -> Result<Certificate, KeyChainError> {
        let failed = |source| KeyChainError::Key { key: identity.to_uri(), source };
        let key = Arc::new(PrivateKey::generate(key_type).map_err(failed)?);
        let name = match key_id {
            KeyId::Component(component) => key_name(identity, component),
            KeyId::Digest => key_name(identity, Component::generic(&key.key_digest())),
        };
        let options = options(SELF, now_unix_ms, SELF_SIGNED_S);
        let certificate = Certificate::self_sign(name.as_ref(), &key, &options)
            .map_err(|source| KeyChainError::Certificate { name: name.to_uri(), source })?;
        self.add(&certificate, &key, default)?;
        Ok(certificate)
    }

    /// A certificate request for the key that `name` stands for: a self-signed certificate of
    /// ten days with the issuer `cert-request`.
    ///
    /// # Errors
    /// Those of [`Self::private_key`], and `Certificate`.
    pub fn request(
        &self,
        name: NameRef<'_>,
        now_unix_ms: u64,
    ) -> Result<Certificate, KeyChainError> {
        let entry = self.key(name)?;
        let key = Arc::new(self.private_key(name)?);
        let options = options(REQUEST, now_unix_ms, REQUEST_S);
        Certificate::self_sign(entry.name.as_ref(), &key, &options)
            .map_err(|source| KeyChainError::Certificate { name: entry.name.to_uri(), source })
    }

    /// Adds a certificate of a key, which has to exist.
    ///
    /// # Errors
    /// `NotFound` without the key, `Certificate` if it certifies another one, and those of writing.
    pub fn install(
        &mut self,
        certificate: &Certificate,
        default: NewDefault,
    ) -> Result<(), KeyChainError> {
        let entry = self.key(certificate.key_name())?;
        if entry.spki != certificate.public_key().spki() {
            let source = ndn_security::KeyError::Rejected {
                what: "the public key in it",
                reason: format!("it is not that of {}", entry.name),
            };
            let name = certificate.name().to_uri();
            return Err(KeyChainError::Certificate { name, source: source.into() });
        }
        self.pib.transaction(|pib| {
            let (key, name) = (certificate.key_name(), certificate.name());
            pib.add_certificate(key, name, certificate.wire())?;
            set_defaults(pib, certificate, default)
        })
    }

    /// A SafeBag: the certificate that `name` stands for, and its private key encrypted with a passphrase.
    ///
    /// # Errors
    /// Those of [`Self::certificate`] and [`Self::private_key`].
    pub fn export(
        &self,
        name: NameRef<'_>,
        passphrase: &[u8],
        seed: &EncryptionSeed,
    ) -> Result<SafeBag, KeyChainError> {
        let certificate = self.certificate(name)?;
        let key = self.private_key(name)?;
        SafeBag::seal(certificate, &key, passphrase, seed)
            .map_err(|source| KeyChainError::Key { key: name.to_uri(), source })
    }

    /// Imports a SafeBag; creates the identity if it does not exist.
    ///
    /// # Errors
    /// `Key` for a wrong passphrase, `Exists` if the key exists, and those of writing.
    pub fn import(&mut self, bag: &SafeBag, passphrase: &[u8]) -> Result<(), KeyChainError> {
        let certificate = bag.certificate();
        let name = certificate.key_name();
        let key = bag
            .open(passphrase)
            .map_err(|source| KeyChainError::Key { key: name.to_uri(), source })?;
        self.add(certificate, &key, NewDefault::None)
    }

    /// Makes an identity, a key or a certificate the default among its siblings.
    ///
    /// # Errors
    /// `NotFound`, and those of writing.
    pub fn set_default(&mut self, name: NameRef<'_>) -> Result<(), KeyChainError> {
        let (kind, _) = self.kind_of(name)?;
        self.pib.transaction(|pib| pib.set_default(kind, name).map(drop))
    }

    /// Deletes a certificate, a key with its certificates and its private key, or an identity with
    /// all its keys.
    ///
    /// # Errors
    /// `NotFound`, and those of writing. If a key file cannot be removed, the database stays
    /// unchanged.
    pub fn delete(&mut self, name: NameRef<'_>) -> Result<(), KeyChainError> {
        let (kind, _) = self.kind_of(name)?;
        let Self { pib, tpm } = self;
        pib.transaction(|pib| {
            let keys = match kind {
                Kind::Identity => pib.keys(name)?.into_iter().map(|key| key.name).collect(),
                Kind::Key => vec![name.to_name()],
                Kind::Certificate => Vec::new(),
            };
            pib.remove(kind, name)?;
            keys.iter().try_for_each(|key| tpm.remove(key.as_ref()))
        })
    }

    fn add(
        &mut self,
        certificate: &Certificate,
        key: &PrivateKey,
        default: NewDefault,
    ) -> Result<(), KeyChainError> {
        let (identity, name) = (certificate.identity(), certificate.key_name());
        let Self { pib, tpm } = self;
        let stored = pib.transaction(|pib| {
            if pib.keys(identity)?.iter().any(|entry| entry.name.as_ref() == name) {
                return Err(KeyChainError::Exists(name.to_uri()));
            }
            pib.add_identity(identity)?;
            pib.add_key(identity, name, key.spki())?;
            pib.add_certificate(name, certificate.name(), certificate.wire())?;
            set_defaults(pib, certificate, default)?;
            tpm.store(name, key)
        })?;
        stored.keep();
        Ok(())
    }

    /// The object of this name, and the name of its key.
    fn kind_of<'n>(&self, name: NameRef<'n>) -> Result<(Kind, NameRef<'n>), KeyChainError> {
        let is_listed = |identity: NameRef<'_>| {
            self.identities().map(|all| all.iter().any(|entry| entry.name.as_ref() == identity))
        };
        if is_listed(name)? {
            return Ok((Kind::Identity, name));
        }
        if let Some(identity) = identity_of_key(name)
            && self.keys(identity)?.iter().any(|entry| entry.name.as_ref() == name)
        {
            return Ok((Kind::Key, name));
        }
        let key = name.prefix(name.len().saturating_sub(2));
        if self.certificates(key)?.iter().any(|entry| entry.name.as_ref() == name) {
            return Ok((Kind::Certificate, key));
        }
        Err(KeyChainError::NotFound(name.to_uri()))
    }

    /// The database's file.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        self.pib.path()
    }
}

fn set_defaults(
    pib: &Pib,
    certificate: &Certificate,
    default: NewDefault,
) -> Result<(), KeyChainError> {
    if default == NewDefault::None {
        return Ok(());
    }
    pib.set_default(Kind::Certificate, certificate.name())?;
    if default == NewDefault::Key {
        return Ok(());
    }
    pib.set_default(Kind::Key, certificate.key_name())?;
    if default == NewDefault::All {
        pib.set_default(Kind::Identity, certificate.identity())?;
    }
    Ok(())
}

/// Validity from one second ago, as in ndn-cxx, for clocks that are slow.
fn options(
    issuer_id: Component<'static>,
    now_unix_ms: u64,
    validity_s: i64,
) -> CertificateOptions<'static> {
    let now_unix_s = i64::try_from(now_unix_ms / 1000).unwrap_or(i64::MAX - validity_s);
    CertificateOptions {
        issuer_id,
        version: now_unix_ms,
        not_before_unix_s: now_unix_s - 1,
        not_after_unix_s: now_unix_s + validity_s,
        description: &[],
    }
}
