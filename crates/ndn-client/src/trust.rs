//! Verifies Data by trust rules. The required certificates are fetched by name, and cached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use ndn_packet::{ContentType, Data, KeyLocator, Name, NameRef, SignatureInfo};
use ndn_security::trust::{
    AnchorChange, AnchorSource, CHAIN_MAX, Judgement, Search, SignedPacket, TrustError,
    TrustPolicy, Validation,
};
use ndn_security::{Certificate, KeyError, PublicKey, Sha256Digest, Verifier, VerifyError, sha256};
use ndn_types::Timestamp;

use crate::express::InterestRequest;
use crate::handle::Handle;

/// Maximum number of cached certificates, each of which has verified something.
const FETCHED_MAX: usize = 64;
/// Number of retransmissions for a certificate.
const RETRANSMISSIONS: u32 = 1;

type Clock = Box<dyn Fn() -> i64 + Send + Sync>;

/// Why certificates did not lead to an anchor.
struct ChainFailure {
    error: TrustError,
    /// Whether any were fetched.
    asked: bool,
}

/// Rules, trust anchors, and fetched certificates. Can be used by any number of threads: none waits
/// while another verifies.
pub struct Trust {
    known: Mutex<Arc<TrustState>>,
    /// Seconds since 1970.
    clock: Clock,
    reload: Option<Reload>,
    /// Identifies the rules and their anchors, if they come from a file.
    fingerprint: Option<Sha256Digest>,
}

#[derive(Clone)]
struct TrustState {
    policy: TrustPolicy,
    /// Fetched certificates that were valid; the most recent last.
    fetched: Vec<Arc<Certificate>>,
}

type Load = Box<dyn FnMut(AnchorSource<'_>) -> Result<Vec<Arc<Certificate>>, String> + Send>;

/// The function that reloads anchors, and its clock.
struct Reload {
    load: Mutex<Load>,
    /// Monotonic.
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Trust {
    /// Verifies by `policy`, at the current time.
    #[must_use]
    pub fn new(policy: TrustPolicy) -> Self {
        Self::with_clock(policy, wall_clock_s)
    }

    /// Verifies by `policy`, at the time that `clock` returns in seconds since 1970.
    pub fn with_clock(
        policy: TrustPolicy,
        clock: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        let known = Mutex::new(Arc::new(TrustState { policy, fetched: Vec::new() }));
        Self { known, clock: Box::new(clock), reload: None, fingerprint: None }
    }

    /// States what identifies the rules: equal for the same rules and anchors only.
    #[must_use]
    pub fn with_fingerprint(self, fingerprint: Sha256Digest) -> Self {
        Self { fingerprint: Some(fingerprint), ..self }
    }

    /// Identifies the rules and anchors, as they were when they were read.
    #[must_use]
    pub fn fingerprint(&self) -> Option<Sha256Digest> {
        self.fingerprint
    }

    /// Reloads anchors by `load` when the rules require it. The thread that notices the deadline
    /// reloads them, while others use the previous ones.
    #[must_use]
    pub fn with_reload(
        self,
        load: impl FnMut(AnchorSource<'_>) -> Result<Vec<Arc<Certificate>>, String> + Send + 'static,
    ) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the clock of a client that was given none")]
        self.with_reload_at(load, || Timestamp::from_nanos(ndn_sys::clock::now()))
    }

    /// As [`Self::with_reload`], at the time that `clock` returns.
    #[must_use]
    pub fn with_reload_at(
        mut self,
        load: impl FnMut(AnchorSource<'_>) -> Result<Vec<Arc<Certificate>>, String> + Send + 'static,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        self.reload = Some(Reload { load: Mutex::new(Box::new(load)), clock: Box::new(clock) });
        // Time counts from now on.
        self.refresh();
        self
    }

    /// Verifies with the known certificates: one that was not fetched before is missing.
    ///
    /// # Errors
    /// `Untrusted`, with the reason.
    pub fn check(&self, data: &Data<'_>) -> Result<(), VerifyError> {
        match self.validate(data) {
            Validation::Accepted => Ok(()),
            Validation::Refused(error) => Err(untrusted(error)),
            Validation::NeedsCertificates(Search { names, refusal, .. }) => {
                let certificate = names.into_iter().next().unwrap_or_default();
                let reason = "nothing else that was fetched is signed by its key".to_owned();
                let missing = TrustError::Unavailable { certificate, reason };
                Err(untrusted(refusal.unwrap_or(missing)))
            }
        }
    }

    /// As [`Self::check`], and fetches missing certificates with this InterestLifetime.
    ///
    /// # Errors
    /// `Untrusted`, with the reason.
    pub(crate) async fn check_fetching(
        &self,
        handle: &Handle,
        lifetime: Duration,
        data: &Data<'_>,
    ) -> Result<(), VerifyError> {
        match self.fetch_chain(handle, lifetime, data, false).await {
            // A stale certificate may be a forgery: it is requested once again.
            Err(ChainFailure { error, asked: true })
                if !matches!(error, TrustError::TooLong { .. }) =>
            {
                self.fetch_chain(handle, lifetime, data, true).await
            }
            end => end,
        }
        .map_err(|end| untrusted(end.error))
    }

    /// Fetches certificates until the Data is verified or rejected. Only those that proved valid
    /// are cached: anyone can answer with a certificate of the name.
    async fn fetch_chain(
        &self,
        handle: &Handle,
        lifetime: Duration,
        data: &Data<'_>,
        fresh: bool,
    ) -> Result<(), ChainFailure> {
        let mut asked: Vec<Name> = Vec::new();
        let mut fetched: Vec<Arc<Certificate>> = Vec::new();
        let error = loop {
            let search = match self.validate_with(data, &fetched) {
                Validation::Accepted => return Ok(()),
                Validation::Refused(error) => break error,
                Validation::NeedsCertificates(search) => search,
            };
            let missing = search.names.iter().find(|name| !asked.contains(name)).cloned();
            let Some(certificate) = missing else { break search.into_error(data.name()) };
            if asked.len() == CHAIN_MAX {
                break TrustError::TooLong { name: data.name().to_name() };
            }
            match self.fetch(handle, lifetime, &certificate, fresh).await {
                Ok(came) => fetched.push(Arc::new(came)),
                Err(reason) => break TrustError::Unavailable { certificate, reason },
            }
            asked.push(certificate);
        };
        Err(ChainFailure { error, asked: !asked.is_empty() })
    }

    /// Verifies with the cached certificates.
    fn validate(&self, data: &Data<'_>) -> Validation {
        self.refresh();
        let Some(packet) = SignedPacket::from_data(data) else {
            return no_locator(data);
        };
        let judgement = {
            let known = self.known();
            known.policy.judge(&packet, &known.fetched, (self.clock)())
        };
        let validation = judgement.validation.clone();
        self.learn(judgement, &[]);
        validation
    }

    /// Verifies with the given certificates and the cached ones, except expired ones that may have
    /// been renewed; caches the given ones that are valid.
    fn validate_with(&self, data: &Data<'_>, came: &[Arc<Certificate>]) -> Validation {
        self.refresh();
        let Some(packet) = SignedPacket::from_data(data) else {
            return no_locator(data);
        };
        let now = (self.clock)();
        let judgement = {
            let known = self.known();
            let kept = known.fetched.iter().filter(|kept| kept.validity().contains(now));
            let all: Vec<_> = kept.chain(came).cloned().collect();
            known.policy.judge(&packet, &all, now)
        };
        let validation = judgement.validation.clone();
        self.learn(judgement, came);
        validation
    }

    /// The current knowledge. Verifying with it takes no lock.
    fn known(&self) -> Arc<TrustState> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<TrustState>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Caches what proved valid, including those of `came`.
    fn learn(&self, judgement: Judgement, came: &[Arc<Certificate>]) {
        if !judgement.has_learned() {
            return;
        }
        let now = (self.clock)();
        let mut known = self.lock();
        let TrustState { policy, fetched } = Arc::make_mut(&mut known);
        policy.learn(judgement);
        fetched.retain(|certificate| certificate.validity().contains(now));
        for good in came.iter().filter(|certificate| policy.is_verified(certificate)) {
            if fetched.len() == FETCHED_MAX {
                fetched.remove(0);
            }
            fetched.push(Arc::clone(good));
        }
    }

    /// Reloads anchors if due, unless another thread does.
    fn refresh(&self) {
        let Some(Reload { load, clock }) = &self.reload else {
            return;
        };
        let now = clock();
        if self.known().policy.next_refresh().is_none_or(|due| due > now) {
            return;
        }
        let mut load = match load.try_lock() {
            Ok(load) => load,
            Err(TryLockError::Poisoned(load)) => load.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let mut policy = self.known().policy.clone();
        for change in policy.refresh_anchors(now, &mut *load) {
            match change {
                AnchorChange::Changed { path, count } => {
                    tracing::info!(%path, count, "other trust anchors");
                }
                AnchorChange::Unreadable { path, reason } => {
                    tracing::warn!(%path, %reason, "trust anchors stay as they were");
                }
            }
        }
        let mut known = self.lock();
        // Certificates cached meanwhile are added again.
        *known = Arc::new(TrustState { policy, fetched: known.fetched.clone() });
    }

    /// A certificate whose name has this prefix; a fresh one if the first answer is not valid.
    async fn fetch(
        &self,
        handle: &Handle,
        lifetime: Duration,
        name: &Name,
        fresh: bool,
    ) -> Result<Certificate, String> {
        let first = fetch_certificate(handle, lifetime, name, fresh).await?;
        if fresh || first.validity().contains((self.clock)()) {
            return Ok(first);
        }
        let fresh = fetch_certificate(handle, lifetime, name, true).await;
        Ok(fresh.unwrap_or(first))
    }
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust")
    }
}

async fn fetch_certificate(
    handle: &Handle,
    lifetime: Duration,
    name: &Name,
    fresh: bool,
) -> Result<Certificate, String> {
    let request = InterestRequest::new(name.clone())
        .can_be_prefix(true)
        .must_be_fresh(fresh)
        .lifetime(lifetime)
        .retransmissions(RETRANSMISSIONS);
    let received = handle.express(&request).await.map_err(|error| error.to_string())?;
    let data = received.data();
    if data.content_type() == ContentType::NACK {
        return Err(format!("{} says that there is none", data.name()));
    }
    let certificate = Certificate::parse(data.wire().to_vec())
        .map_err(|error| format!("{} is not a certificate: {error}", data.name()))?;
    if certificate.key_name().len() > name.len() {
        return Err(format!("{} is not named by a part of its key's name", data.name()));
    }
    Ok(certificate)
}

fn no_locator(data: &Data<'_>) -> Validation {
    Validation::Refused(TrustError::KeyLocator { name: data.name().to_name() })
}

fn untrusted(error: TrustError) -> VerifyError {
    VerifyError::Untrusted(Box::new(error))
}

#[expect(clippy::disallowed_methods, reason = "the clock of a client that was given none")]
fn wall_clock_s() -> i64 {
    i64::try_from(ndn_sys::clock::wall_clock().as_secs()).unwrap_or(i64::MAX)
}

/// Verifies signatures with the key of a certificate, while it is valid.
pub struct CertificateVerifier {
    certificate: Arc<Certificate>,
    /// Seconds since 1970.
    clock: Clock,
}

impl CertificateVerifier {
    /// Verifies at the current time.
    #[must_use]
    pub fn new(certificate: Arc<Certificate>) -> Self {
        Self::with_clock(certificate, wall_clock_s)
    }

    /// Verifies at the time that `clock` returns in seconds since 1970.
    pub fn with_clock(
        certificate: Arc<Certificate>,
        clock: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        Self { certificate, clock: Box::new(clock) }
    }
}

impl Verifier for CertificateVerifier {
    fn verify(
        &self,
        info: &SignatureInfo<'_>,
        parts: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), VerifyError> {
        let now = (self.clock)();
        if !self.certificate.validity().contains(now) {
            return Err(untrusted(TrustError::expired(&self.certificate, now)));
        }
        let checked = self.certificate.public_key().verify(info, parts, signature);
        checked.map_err(|error| match info.key_locator {
            Some(KeyLocator::Name(signer))
                if !is_about_key(signer, self.certificate.key_name()) =>
            {
                VerifyError::OtherKey(signer.to_uri())
            }
            _ => error,
        })
    }

    fn fingerprint(&self) -> Option<Sha256Digest> {
        Some(sha256(self.certificate.wire()))
    }
}

/// The verifier of a certificate (the output of `ndnsec cert-dump`) or of a public key (PEM).
///
/// # Errors
/// `Pem` if the text is neither, and what is wrong with the key.
pub fn verifier_from_text(text: &str) -> Result<Arc<dyn Verifier>, KeyError> {
    match Certificate::from_text(text) {
        Ok(certificate) => Ok(Arc::new(CertificateVerifier::new(Arc::new(certificate)))),
        Err(_) => Ok(Arc::new(PublicKey::from_pem(text)?)),
    }
}

/// Whether a KeyLocator may refer to this key: it is the name of the key, of one of its
/// certificates, or a prefix of it, such as the identity.
fn is_about_key(locator: NameRef<'_>, key: NameRef<'_>) -> bool {
    locator.starts_with(key) || key.starts_with(locator)
}

impl std::fmt::Debug for CertificateVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CertificateVerifier").field(&self.certificate.name()).finish()
    }
}
