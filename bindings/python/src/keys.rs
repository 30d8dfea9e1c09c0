//! The key chain.

use std::path::PathBuf;
use std::sync::Arc;

use ndn_keychain::{Access, KeyChain, KeyId, Locations, NewDefault};
use ndn_packet::{Component, Name};
use ndn_security::{Certificate, EncryptionSeed, KeyType, SafeBag};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rand::RngExt;

use crate::arguments::{Signing, name_of};
use crate::error::{Failure, without_lock};

/// An entry of the key chain: its name, and whether it is the default.
type Entry = (String, bool);

/// A key chain of ndn-cxx, `namewire key` and python-ndn. It is opened for each operation, so that it survives a fork.
#[pyclass(frozen, module = "namewire", name = "NativeKeyChain")]
#[derive(Debug)]
pub(crate) struct NativeKeyChain {
    locations: Locations,
}

impl NativeKeyChain {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        access: Access,
        work: impl FnOnce(&mut KeyChain) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        without_lock(py, || work(&mut KeyChain::open(self.locations.clone(), access)?))
    }
}

#[pymethods]
impl NativeKeyChain {
    #[new]
    #[pyo3(signature = (directory = None))]
    fn new(py: Python<'_>, directory: Option<PathBuf>) -> PyResult<Self> {
        let locations = match directory {
            Some(directory) => Locations::in_directory(&directory),
            None => without_lock(py, || Ok(Locations::from_environment()?))?,
        };
        Ok(Self { locations })
    }

    fn identities(&self, py: Python<'_>) -> PyResult<Vec<Entry>> {
        self.with(py, Access::Read, |chain| {
            let entries = chain.identities()?.into_iter();
            Ok(entries.map(|entry| (entry.name.to_uri(), entry.is_default)).collect())
        })
    }

    fn keys(&self, py: Python<'_>, identity: &str) -> PyResult<Vec<Entry>> {
        let identity = name_of(identity)?;
        self.with(py, Access::Read, |chain| {
            let entries = chain.keys(identity.as_ref())?.into_iter();
            Ok(entries.map(|entry| (entry.name.to_uri(), entry.is_default)).collect())
        })
    }

    fn certificates(&self, py: Python<'_>, key: &str) -> PyResult<Vec<Entry>> {
        let key = name_of(key)?;
        self.with(py, Access::Read, |chain| {
            let entries = chain.certificates(key.as_ref())?.into_iter();
            Ok(entries.map(|entry| (entry.name.to_uri(), entry.is_default)).collect())
        })
    }

    /// The certificate of an identity, key or certificate: its name, and its text in Base64.
    fn certificate(&self, py: Python<'_>, name: Option<&str>) -> PyResult<(String, String)> {
        let name = name.map(name_of).transpose()?;
        self.with(py, Access::Read, |chain| {
            let certificate = chain.certificate(named(chain, name)?.as_ref())?;
            Ok((certificate.name().to_uri(), certificate.to_text()))
        })
    }

    /// Makes a key with a self-signed certificate; returns the name of the key.
    fn generate(
        &self,
        py: Python<'_>,
        identity: &str,
        key_type: &str,
        default: bool,
    ) -> PyResult<String> {
        let identity = name_of(identity)?;
        let key_type = match key_type {
            "ecdsa" => KeyType::Ecdsa,
            "rsa" => KeyType::Rsa,
            "ed25519" => KeyType::Ed25519,
            other => {
                let text = format!("{other:?} is not a type of keys: ecdsa, rsa or ed25519");
                return Err(PyValueError::new_err(text));
            }
        };
        let default = if default { NewDefault::All } else { NewDefault::None };
        self.with(py, Access::Write, |chain| {
            let random: [u8; 8] = rand::rng().random();
            let key_id = KeyId::Component(Component::generic(&random));
            let made =
                chain.generate(identity.as_ref(), key_type, key_id, now_unix_ms(), default)?;
            Ok(made.key_name().to_uri())
        })
    }

    /// A request for a certificate, in Base64.
    fn request(&self, py: Python<'_>, name: Option<&str>) -> PyResult<String> {
        let name = name.map(name_of).transpose()?;
        self.with(py, Access::Read, |chain| {
            Ok(chain.request(named(chain, name)?.as_ref(), now_unix_ms())?.to_text())
        })
    }

    /// Adds a certificate of a key that is there; returns its name.
    fn install(&self, py: Python<'_>, text: &str, default: bool) -> PyResult<String> {
        let certificate = Certificate::from_text(text)
            .map_err(|error| PyValueError::new_err(format!("the certificate: {error}")))?;
        let default = if default { NewDefault::All } else { NewDefault::None };
        self.with(py, Access::Write, |chain| {
            chain.install(&certificate, default)?;
            Ok(certificate.name().to_uri())
        })
    }

    /// A certificate with its encrypted private key (SafeBag), in Base64.
    fn export(&self, py: Python<'_>, name: Option<&str>, passphrase: &str) -> PyResult<String> {
        let name = name.map(name_of).transpose()?;
        self.with(py, Access::Read, |chain| {
            let mut random = rand::rng();
            let seed = EncryptionSeed { salt: random.random(), iv: random.random() };
            let name = named(chain, name)?;
            let bag = chain.export(name.as_ref(), passphrase.as_bytes(), &seed)?;
            Ok(bag.to_text().to_string())
        })
    }

    /// Adds what `export` returned; returns the name of the key.
    fn restore(&self, py: Python<'_>, text: &str, passphrase: &str) -> PyResult<String> {
        let bag = SafeBag::from_text(text)
            .map_err(|error| PyValueError::new_err(format!("the SafeBag: {error}")))?;
        self.with(py, Access::Write, |chain| {
            chain.import(&bag, passphrase.as_bytes())?;
            Ok(bag.certificate().key_name().to_uri())
        })
    }

    fn set_default(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let name = name_of(name)?;
        self.with(py, Access::Write, |chain| Ok(chain.set_default(name.as_ref())?))
    }

    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let name = name_of(name)?;
        // A key chain that is missing is not created.
        self.with(py, Access::Read, |_| Ok(()))?;
        self.with(py, Access::Write, |chain| Ok(chain.delete(name.as_ref())?))
    }

    /// The signer of an identity, key or certificate.
    fn signer(&self, py: Python<'_>, name: Option<&str>) -> PyResult<Signing> {
        let name = name.map(name_of).transpose()?;
        self.with(py, Access::Read, |chain| {
            let name = named(chain, name)?;
            let signer = chain.signer(name.as_ref())?;
            Ok(Signing::new(Arc::new(signer), name.to_uri()))
        })
    }

    /// The database.
    #[getter]
    fn path(&self) -> PathBuf {
        self.locations.pib.clone()
    }
}

/// The name, or that of the default identity.
fn named(chain: &KeyChain, name: Option<Name>) -> Result<Name, Failure> {
    match name {
        Some(name) => Ok(name),
        None => Ok(chain.default_identity()?),
    }
}

fn now_unix_ms() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the version of a certificate is a time of day")]
    let now = ndn_sys::clock::wall_clock();
    ndn_types::duration_ms(now)
}
