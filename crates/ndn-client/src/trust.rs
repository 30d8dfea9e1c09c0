//! Judging Data by trust rules. Certificates that these need are fetched by name, and kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ndn_packet::{ContentType, Data, KeyLocator, Name, NameRef, SignatureInfo};
use ndn_security::trust::{CHAIN_MAX, SignedPacket, TrustError, TrustPolicy, Validation};
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

/// Rules, trust anchors, and the certificates that were fetched.
pub struct Trust {
    state: Mutex<State>,
    /// Seconds since 1970.
    clock: Clock,
}

struct State {
    policy: TrustPolicy,
    /// Certificates that were good once; those that came last, at the end.
    fetched: VecDeque<Arc<Certificate>>,
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
        let state = Mutex::new(State { policy, fetched: VecDeque::new() });
        Self { state, clock: Box::new(clock) }
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
        let Some(packet) = SignedPacket::from_data(data) else {
            return no_locator(data);
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { policy, fetched } = &mut *state;
        policy.validate(&packet, fetched.make_contiguous(), (self.clock)())
    }

    /// Judges by what is kept, apart from what has expired and may have been renewed, and by these
    /// certificates; keeps those of them that are good.
    fn judge_with(&self, data: &Data<'_>, came: &[Arc<Certificate>]) -> Validation {
        let Some(packet) = SignedPacket::from_data(data) else {
            return no_locator(data);
        };
        let now = (self.clock)();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { policy, fetched } = &mut *state;
        fetched.retain(|certificate| certificate.validity().contains(now));
        let all: Vec<_> = fetched.iter().chain(came).cloned().collect();
        let verdict = policy.validate(&packet, &all, now);
        if verdict == Validation::Accepted {
            for good in came.iter().filter(|certificate| policy.is_verified(certificate)) {
                if fetched.len() == FETCHED_MAX {
                    fetched.pop_front();
                }
                fetched.push_back(Arc::clone(good));
            }
        }
        verdict
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
