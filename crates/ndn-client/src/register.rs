//! Prefixes that the forwarder sends here.

use std::sync::Arc;
use std::time::Duration;

use ndn_management::{ControlParameters, Verb, route_flag};
use ndn_packet::Name;
use ndn_types::duration_ms;
use thiserror::Error;
use tokio::task::AbortHandle;

use crate::address::ForwarderAddress;
use crate::endpoint::Endpoint;
use crate::manage::CommandError;
use crate::produce::Handler;

/// Why a prefix cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// This endpoint serves the prefix already.
    #[error("this application serves {0} already")]
    InUse(String),
    /// The forwarder does not register it.
    #[error("the prefix {prefix} cannot be registered: {error}")]
    Command {
        /// The prefix.
        prefix: String,
        /// Why.
        #[source]
        error: CommandError,
    },
}

/// First and longest pause before prefixes that could not be registered again are tried once more.
const REGISTER_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Attempts to register a prefix again.
const REGISTER_ATTEMPTS: u32 = 20;
/// How long the forwarder keeps a route that no connection ends with, unless it is renewed.
const EXPIRATION: Duration = Duration::from_secs(60);
/// How often such a route is renewed: two renewals may be lost.
const RENEWAL: Duration = Duration::from_secs(20);

impl Endpoint {
    /// Serves `prefix` and registers it at the forwarder, so that Interests come. A prefix has one
    /// handler; of nested prefixes the longest one that matches gets the Interest.
    ///
    /// Over UDP, where the forwarder does not hear of the end of an application, the route is for a minute and
    /// renewed as long as the registration is there.
    ///
    /// A handler that owns an `Endpoint` keeps its own connection alive until it is unregistered.
    ///
    /// # Errors
    /// `InUse` if this endpoint serves the prefix already; `Command` if the forwarder refuses.
    pub async fn produce(
        &self,
        prefix: &Name,
        handler: impl Handler,
    ) -> Result<Registration, RegisterError> {
        let registration = self.attach(prefix, handler)?;
        registration.register().await
    }

    /// Serves `prefix` without telling the forwarder, for prefixes that are routed here otherwise.
    ///
    /// # Errors
    /// `InUse` if this endpoint serves the prefix already.
    pub fn attach(
        &self,
        prefix: &Name,
        handler: impl Handler,
    ) -> Result<Registration, RegisterError> {
        let id = self.shared().lock().routes.insert(prefix, Arc::new(handler));
        let id = id.ok_or_else(|| RegisterError::InUse(prefix.to_uri()))?;
        Ok(Registration::new(self.clone(), prefix.clone(), id))
    }
}

/// A prefix that is served; dropped, it is no longer.
#[derive(Debug)]
pub struct Registration {
    endpoint: Endpoint,
    prefix: Name,
    route_id: u64,
    registered: bool,
    /// Renews the route, where it would expire.
    renewal: Option<AbortHandle>,
}

impl Registration {
    fn new(endpoint: Endpoint, prefix: Name, route_id: u64) -> Self {
        Self { endpoint, prefix, route_id, registered: false, renewal: None }
    }

    async fn register(mut self) -> Result<Self, RegisterError> {
        register_prefix(&self.endpoint, &self.prefix)
            .await
            .map_err(|error| RegisterError::Command { prefix: self.prefix.to_uri(), error })?;
        self.registered = true;
        self.endpoint.shared().lock().routes.set_registered(&self.prefix);
        if expires(&self.endpoint) {
            let renewal = tokio::spawn(renew(self.endpoint.clone(), self.prefix.clone()));
            self.renewal = Some(renewal.abort_handle());
        }
        Ok(self)
    }

    /// The prefix.
    #[must_use]
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    fn detach(&mut self) {
        if let Some(renewal) = self.renewal.take() {
            renewal.abort();
        }
        // The handler is dropped when the lock is free again.
        let removed = {
            let mut tables = self.endpoint.shared().lock();
            tables.routes.remove(&self.prefix, self.route_id)
        };
        drop(removed);
    }

    /// Stops serving and waits until the forwarder has removed the route.
    ///
    /// # Errors
    /// When the forwarder refuses or does not answer.
    pub async fn unregister(mut self) -> Result<(), CommandError> {
        self.detach();
        if !std::mem::take(&mut self.registered) {
            return Ok(());
        }
        // The route has gone with the connection, and nobody might be there for long.
        if !self.endpoint.shared().lock().output.is_connected() {
            return Ok(());
        }
        let parameters = prefix_parameters(&self.prefix);
        self.endpoint.management().command(Verb::RibUnregister, &parameters).await.map(|_| ())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.detach();
        if self.registered {
            // Nobody waits for the answer.
            let parameters = prefix_parameters(&self.prefix);
            self.endpoint.management().send_command(Verb::RibUnregister, &parameters);
        }
    }
}

fn prefix_parameters(prefix: &Name) -> ControlParameters {
    ControlParameters { name: Some(prefix.clone()), ..ControlParameters::default() }
}

/// Whether routes outlive the connection, as there is none that the forwarder could see the end of.
fn expires(endpoint: &Endpoint) -> bool {
    matches!(endpoint.address(), Some(ForwarderAddress::Udp { .. }))
}

/// Registers a prefix again and again. A forwarder that was started anew gets it, too.
async fn renew(endpoint: Endpoint, prefix: Name) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        if let Err(error) = register_prefix(&endpoint, &prefix).await {
            tracing::warn!(%prefix, %error, "the route of a prefix is not renewed");
        }
    }
}

/// Asks the forwarder for a route to this face.
async fn register_prefix(endpoint: &Endpoint, prefix: &Name) -> Result<(), CommandError> {
    let expiration_ms = || duration_ms(EXPIRATION);
    let parameters = ControlParameters {
        flags: Some(route_flag::CHILD_INHERIT),
        expiration_period_ms: expires(endpoint).then(expiration_ms),
        ..prefix_parameters(prefix)
    };
    endpoint.management().command(Verb::RibRegister, &parameters).await.map(|_| ())
}

/// Registers all prefixes of `endpoint` again after a reconnection.
pub(crate) async fn register_again(endpoint: Endpoint) {
    let mut prefixes = endpoint.shared().lock().routes.registered();
    let mut pause = REGISTER_PAUSE.0;
    for attempt in 1..=REGISTER_ATTEMPTS {
        let mut failed = Vec::new();
        for prefix in prefixes {
            if let Err(error) = register_prefix(&endpoint, &prefix).await {
                tracing::warn!(%prefix, %error, attempt, "a prefix cannot be registered again");
                failed.push(prefix);
            }
        }
        if failed.is_empty() {
            return;
        }
        prefixes = failed;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(REGISTER_PAUSE.1);
    }
}
