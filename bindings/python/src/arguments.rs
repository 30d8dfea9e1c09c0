//! Arguments of Python: names, times, keys and trust.

use std::sync::Arc;
use std::time::Duration;

use ndn_access::keys;
use ndn_client::fetch::Verification;
use ndn_client::verifier_from_text;
use ndn_packet::Name;
use ndn_security::Signer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::without_lock;

/// A time in seconds.
pub(crate) fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{name}: {seconds} is not a time in seconds")))
}

pub(crate) fn name_of(uri: &str) -> PyResult<Name> {
    Name::from_uri(uri)
        .map_err(|error| PyValueError::new_err(format!("{uri:?} is not a name: {error}")))
}

/// A key that signs, read once: a word as in the argument `sign`, or a key of a key chain.
#[pyclass(frozen, module = "namewire", name = "Signer")]
pub(crate) struct Signing {
    pub(crate) signer: Arc<dyn Signer>,
    /// Its origin.
    shown: String,
}

impl std::fmt::Debug for Signing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signing").field("shown", &self.shown).finish_non_exhaustive()
    }
}

impl Signing {
    pub(crate) fn new(signer: Arc<dyn Signer>, shown: String) -> Self {
        Self { signer, shown }
    }
}

#[pymethods]
impl Signing {
    #[new]
    fn of_word(py: Python<'_>, word: &str) -> PyResult<Self> {
        let signer = without_lock(py, || Ok(keys::signer(word)?))?;
        Ok(Self::new(signer, word.to_owned()))
    }

    fn __repr__(&self) -> String {
        format!("<namewire.Signer {}>", self.shown)
    }
}

/// The argument `sign`.
#[derive(FromPyObject)]
pub(crate) enum SignArgument<'py> {
    Signer(Bound<'py, Signing>),
    Word(String),
}

impl SignArgument<'_> {
    pub(crate) fn signer(&self, py: Python<'_>) -> PyResult<Arc<dyn Signer>> {
        match self {
            Self::Signer(signing) => Ok(Arc::clone(&signing.get().signer)),
            Self::Word(word) => without_lock(py, || Ok(keys::signer(word)?)),
        }
    }
}

/// Requirements for the signatures of Data, read once: a word as in the argument `verify`, or the text of a public key or
/// certificate.
#[pyclass(frozen, module = "namewire", name = "Verifier")]
#[derive(Debug)]
pub(crate) struct Verifying {
    verification: Verification,
    word: Option<String>,
    text: Option<String>,
}

#[pymethods]
impl Verifying {
    #[new]
    #[pyo3(signature = (word = None, text = None))]
    fn of(py: Python<'_>, word: Option<String>, text: Option<String>) -> PyResult<Self> {
        let verification = match (&word, &text) {
            (Some(word), None) => without_lock(py, || Ok(keys::verification(word)?))?,
            (None, Some(text)) => verifier_from_text(text)
                .map(Verification::Verifier)
                .map_err(|error| PyValueError::new_err(format!("text: {error}")))?,
            _ => return Err(PyValueError::new_err("either a word or a text is needed")),
        };
        Ok(Self { verification, word, text })
    }

    /// For pickle: files are read again where it is restored.
    fn __getnewargs__(&self) -> (Option<&str>, Option<&str>) {
        (self.word.as_deref(), self.text.as_deref())
    }

    fn __repr__(&self) -> String {
        format!("<namewire.Verifier {}>", self.word.as_deref().unwrap_or("of a key"))
    }
}

/// The argument `verify`.
#[derive(FromPyObject)]
pub(crate) enum VerifyArgument<'py> {
    Verifier(Bound<'py, Verifying>),
    Word(String),
}

impl VerifyArgument<'_> {
    pub(crate) fn verification(&self, py: Python<'_>) -> PyResult<Verification> {
        match self {
            Self::Verifier(verifying) => Ok(verifying.get().verification.clone()),
            Self::Word(word) => without_lock(py, || Ok(keys::verification(word)?)),
        }
    }
}
