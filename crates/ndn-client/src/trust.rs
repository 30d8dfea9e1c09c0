//! Judging Data by trust rules. Certificates that these need are fetched by name, and kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use ndn_packet::{ContentType, Data, KeyLocator, Name, NameRef, SignatureInfo};
use ndn_security::trust::{
    AnchorChange, AnchorSource, CHAIN_MAX, Judgement, SignedPacket, TrustError, TrustPolicy,
    Validation,
};
use ndn_security::{Certificate, Verifier, VerifyError};

use crate::endpoint::Endpoint;
use crate::express::InterestRequest;

/// Certificates that are kept, each of which something was trusted by.
const FETCHED_MAX: usize = 64;
/// How often a certificate is asked for again.
const RETRANSMISSIONS: u32 = 1;

type Clock = Box<dyn Fn() -> i64 + Send + Sync>;

/// Why certificates did not lead to an anchor.
struct Climb {
    error: TrustError,
    /// Whether any were fetched.
    asked: bool,
}

/// Rules, trust anchors, and the certificates that were fetched. Any number of threads can ask at a time:
/// none waits while another verifies.
pub struct Trust {
    known: Mutex<Arc<Known>>,
    /// Seconds since 1970.
    clock: Clock,
    reload: Option<Reload>,
}

#[derive(Clone)]
struct Known {
    policy: TrustPolicy,
    /// Certificates that were good once; those that came last, at the end.
    fetched: Vec<Arc<Certificate>>,
}

type Load = Box<dyn FnMut(AnchorSource<'_>) -> Result<Vec<Arc<Certificate>>, String> + Send>;

/// How anchors are read again.
struct Reload {
    load: Mutex<Load>,
    /// Monotonic, nanoseconds.
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Trust {
    /// Judges by `policy`, at the time of day.
    #[must_use]
    pub fn new(policy: TrustPolicy) -> Self {
        Self::with_clock(policy, wall_clock_s)
    }

    /// Judges by `policy`, at the time that `clock` tells in seconds since 1970.
    pub fn with_clock(
        policy: TrustPolicy,
        clock: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        let known = Mutex::new(Arc::new(Known { policy, fetched: Vec::new() }));
        Self { known, clock: Box::new(clock), reload: None }
    }

    /// Reads those anchors again that the rules want to be read again, when it is time, by `load`. Whoever
    /// asks then reads them, while others go on by those that there were.
    #[must_use]
    pub fn with_reload(
        self,
        load: impl FnMut(AnchorSource<'_>) -> Result<Vec<Arc<Certificate>>, String> + Send + 'static,
    ) -> Self {
        self.with_reload_at(load, ndn_sys::clock::now)
    }

    /// As [`Self::with_reload`], at the time that `clock` tells in nanoseconds since any moment.
    #[must_use]
    pub fn with_reload_at(
        mut self,
        load: impl FnMut(AnchorSource<'_>) -> Result<Vec<Arc<Certificate>>, String> + Send + 'static,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.reload = Some(Reload { load: Mutex::new(Box::new(load)), clock: Box::new(clock) });
        // Time counts from now on.
        self.refresh();
        self
    }

    /// Judges by what is known: a certificate that was not fetched before is missing.
    ///
    /// # Errors
    /// `Untrusted`, which says why.
    pub fn check(&self, data: &Data<'_>) -> Result<(), VerifyError> {
        match self.judge(data) {
            Validation::Accepted => Ok(()),
            Validation::Refused(error) => Err(untrusted(error)),
            Validation::NeedsCertificate(certificate) => {
                let reason = "nothing else that was fetched is signed by its key".to_owned();
                Err(untrusted(TrustError::Unavailable { certificate, reason }))
            }
        }
    }

    /// As [`Self::check`], and fetches certificates that are missing, with this InterestLifetime.
    ///
    /// # Errors
    /// `Untrusted`, which says why.
    pub async fn check_fetching(
        &self,
        endpoint: &Endpoint,
        lifetime: Duration,
        data: &Data<'_>,
    ) -> Result<(), VerifyError> {
        match self.climb(endpoint, lifetime, data, false).await {
            // What is not fresh may be another's: it is asked for anew, once.
            Err(Climb { error, asked: true }) if !matches!(error, TrustError::TooLong { .. }) => {
                self.climb(endpoint, lifetime, data, true).await
            }
            end => end,
        }
        .map_err(|end| untrusted(end.error))
    }

    /// Fetches certificates until it is known what the Data is worth. Only those that have proved to be
    /// good are kept: anybody can answer with one of this name.
    async fn climb(
        &self,
        endpoint: &Endpoint,
        lifetime: Duration,
        data: &Data<'_>,
        fresh: bool,
    ) -> Result<(), Climb> {
        let mut asked: Vec<Name> = Vec::new();
        let mut fetched: Vec<Arc<Certificate>> = Vec::new();
        let error = loop {
            let certificate = match self.judge_with(data, &fetched) {
                Validation::Accepted => return Ok(()),
                Validation::Refused(error) => break error,
                Validation::NeedsCertificate(name) => name,
            };
            let name = || data.name().to_name();
            if asked.contains(&certificate) {
                break TrustError::Loop { name: name(), certificate };
            }
            if asked.len() == CHAIN_MAX {
                break TrustError::TooLong { name: name() };
            }
            match self.fetch(endpoint, lifetime, &certificate, fresh).await {
                Ok(came) => fetched.push(Arc::new(came)),
                Err(reason) => break TrustError::Unavailable { certificate, reason },
            }
            asked.push(certificate);
        };
        Err(Climb { error, asked: !asked.is_empty() })
    }

    /// Judges by what is kept.
    fn judge(&self, data: &Data<'_>) -> Validation {
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

    /// Judges by what is kept, apart from what has expired and may have been renewed, and by these
    /// certificates; keeps those of them that are good.
    fn judge_with(&self, data: &Data<'_>, came: &[Arc<Certificate>]) -> Validation {
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

    /// What is known now. Verifying with it takes no lock.
    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what has proved to be good, and keeps those of `came` that have.
    fn learn(&self, judgement: Judgement, came: &[Arc<Certificate>]) {
        if !judgement.has_learned() {
            return;
        }
        let now = (self.clock)();
        let mut known = self.lock();
        let Known { policy, fetched } = Arc::make_mut(&mut known);
        policy.learn(judgement);
        fetched.retain(|certificate| certificate.validity().contains(now));
        for good in came.iter().filter(|certificate| policy.is_verified(certificate)) {
            if fetched.len() == FETCHED_MAX {
                fetched.remove(0);
            }
            fetched.push(Arc::clone(good));
        }
    }

    /// Reads anchors again if it is time, unless somebody else is about it.
    fn refresh(&self) {
        let Some(Reload { load, clock }) = &self.reload else {
            return;
        };
        let now_ns = clock();
        if self.known().policy.next_refresh_ns().is_none_or(|due_ns| due_ns > now_ns) {
            return;
        }
        let mut load = match load.try_lock() {
            Ok(load) => load,
            Err(TryLockError::Poisoned(load)) => load.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let mut policy = self.known().policy.clone();
        for change in policy.refresh_anchors(now_ns, &mut *load) {
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
        // What was learned meanwhile is learned again.
        *known = Arc::new(Known { policy, fetched: known.fetched.clone() });
    }

    /// A certificate whose name begins so; a fresh one if the first that comes is not valid.
    async fn fetch(
        &self,
        endpoint: &Endpoint,
        lifetime: Duration,
        name: &Name,
        fresh: bool,
    ) -> Result<Certificate, String> {
        let first = fetch_certificate(endpoint, lifetime, name, fresh).await?;
        if fresh || first.validity().contains((self.clock)()) {
            return Ok(first);
        }
        let fresh = fetch_certificate(endpoint, lifetime, name, true).await;
        Ok(fresh.unwrap_or(first))
    }
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust")
    }
}

async fn fetch_certificate(
    endpoint: &Endpoint,
    lifetime: Duration,
    name: &Name,
    fresh: bool,
) -> Result<Certificate, String> {
    let request = InterestRequest::new(name.clone())
        .can_be_prefix(true)
        .must_be_fresh(fresh)
        .lifetime(lifetime)
        .retransmissions(RETRANSMISSIONS);
    let received = endpoint.express(&request).await.map_err(|error| error.to_string())?;
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

fn wall_clock_s() -> i64 {
    i64::try_from(ndn_sys::clock::wall_clock().as_secs()).unwrap_or(i64::MAX)
}

/// Checks signatures with the key of a certificate, while that is valid.
pub struct CertificateVerifier {
    certificate: Arc<Certificate>,
    /// Seconds since 1970.
    clock: Clock,
}

impl CertificateVerifier {
    /// Checks at the time of day.
    #[must_use]
    pub fn new(certificate: Arc<Certificate>) -> Self {
        Self::with_clock(certificate, wall_clock_s)
    }

    /// Checks at the time that `clock` tells in seconds since 1970.
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
}

/// Whether a KeyLocator may mean this key: it is its name, that of a certificate of it, or the beginning
/// of it, such as the identity.
fn is_about_key(locator: NameRef<'_>, key: NameRef<'_>) -> bool {
    locator.starts_with(key) || key.starts_with(locator)
}

impl std::fmt::Debug for CertificateVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CertificateVerifier").field(&self.certificate.name()).finish()
    }
}
