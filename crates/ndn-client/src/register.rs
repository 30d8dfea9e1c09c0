//! Prefix registration.

use std::sync::Arc;
use std::time::Duration;

use ndn_management::{ControlParameters, Verb, route_flag};
use ndn_packet::Name;
use ndn_types::duration_ms;
use thiserror::Error;
use tokio::task::AbortHandle;

use crate::address::ForwarderAddress;
use crate::express::ExpressError;
use crate::handle::Handle;
use crate::manage::{CommandError, Management};
use crate::shared::{ConnectionState, Handler};

/// Why a prefix cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// This endpoint serves the prefix already.
    #[error("this application serves {0} already")]
    InUse(String),
    /// The forwarder rejected the registration.
    #[error("the prefix {prefix} cannot be registered: {error}")]
    Command {
        /// The prefix.
        prefix: String,
        /// The reason.
        #[source]
        error: CommandError,
    },
}

/// First and longest pause before a failed re-registration is tried again.
const REGISTER_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Maximum number of attempts to register a prefix again.
const REGISTER_ATTEMPTS: u32 = 20;
/// Longest wait for the removal of a route, which ends with the connection in any case.
const REMOVAL_WAIT: Duration = Duration::from_secs(1);
/// Expiration of a route over UDP, where no connection ends with the application.
const EXPIRATION: Duration = Duration::from_secs(60);
/// Renewal interval of such a route: two renewals may be lost.
const RENEWAL: Duration = Duration::from_secs(20);

/// A registered prefix; dropping it ends the registration.
#[derive(Debug)]
pub struct Registration {
    handle: Handle,
    prefix: Name,
    route_id: u64,
    registered: bool,
    /// Renews an expiring route.
    renewal: Option<AbortHandle>,
}

impl Registration {
    /// Serves `prefix` without a route.
    ///
    /// # Errors
    /// `InUse`.
    pub(crate) fn attach(
        handle: &Handle,
        prefix: &Name,
        handler: impl Handler,
    ) -> Result<Self, RegisterError> {
        let id = handle.shared().lock().routes.insert(prefix, Arc::new(handler));
        let route_id = id.ok_or_else(|| RegisterError::InUse(prefix.to_uri()))?;
        let (handle, prefix) = (handle.clone(), prefix.clone());
        Ok(Self { handle, prefix, route_id, registered: false, renewal: None })
    }

    /// Registers a route for the prefix.
    ///
    /// # Errors
    /// `Command`.
    pub(crate) async fn register(mut self) -> Result<Self, RegisterError> {
        register_prefix(&self.handle, &self.prefix)
            .await
            .map_err(|error| RegisterError::Command { prefix: self.prefix.to_uri(), error })?;
        self.registered = true;
        self.handle.shared().lock().routes.set_registered(&self.prefix);
        if expires(&self.handle) {
            let renewal = tokio::spawn(renew(self.handle.clone(), self.prefix.clone()));
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
        // The handler is dropped after the lock is released.
        let removed = {
            let mut tables = self.handle.shared().lock();
            tables.routes.remove(&self.prefix, self.route_id)
        };
        drop(removed);
    }

    /// Stops serving and waits until the forwarder has removed the route, or the connection has ended.
    ///
    /// # Errors
    /// When the forwarder refuses, or does not answer within a second.
    pub async fn unregister(mut self) -> Result<(), CommandError> {
        self.detach();
        if !std::mem::take(&mut self.registered) {
            return Ok(());
        }
        // The route has ended with the connection, and a new one may take long.
        if !self.handle.shared().lock().output.is_connected() {
            return Ok(());
        }
        let mut state = self.handle.shared().state.subscribe();
        let management = Management::new(&self.handle);
        let parameters = prefix_parameters(&self.prefix);
        tokio::select! {
            removed = management.command(Verb::RibUnregister, &parameters) => removed.map(|_| ()),
            _ = state.wait_for(|state| *state != ConnectionState::Connected) => Ok(()),
            () = tokio::time::sleep(REMOVAL_WAIT) => {
                let name = format!("{}/rib/unregister", self.handle.common().command_prefix);
                Err(ExpressError::Timeout { name, attempts: 1, waited: REMOVAL_WAIT }.into())
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.detach();
        if self.registered {
            // The response is ignored.
            let parameters = prefix_parameters(&self.prefix);
            Management::new(&self.handle).send_command(Verb::RibUnregister, &parameters);
        }
    }
}

fn prefix_parameters(prefix: &Name) -> ControlParameters {
    ControlParameters { name: Some(prefix.clone()), ..ControlParameters::default() }
}

/// Whether routes outlive the connection, because the forwarder cannot detect its end.
fn expires(handle: &Handle) -> bool {
    matches!(handle.address(), Some(ForwarderAddress::Udp { .. }))
}

/// Renews the registration of a prefix periodically, also at a restarted forwarder.
async fn renew(handle: Handle, prefix: Name) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        if let Err(error) = register_prefix(&handle, &prefix).await {
            tracing::warn!(%prefix, %error, "the route of a prefix is not renewed");
        }
    }
}

/// Registers a route to this face.
async fn register_prefix(handle: &Handle, prefix: &Name) -> Result<(), CommandError> {
    let expiration_ms = || duration_ms(EXPIRATION);
    let parameters = ControlParameters {
        flags: Some(route_flag::CHILD_INHERIT),
        expiration_period_ms: expires(handle).then(expiration_ms),
        ..prefix_parameters(prefix)
    };
    Management::new(handle).command(Verb::RibRegister, &parameters).await.map(|_| ())
}

/// Registers all prefixes again after a reconnection.
pub(crate) async fn register_again(handle: Handle) {
    let mut prefixes = handle.shared().lock().routes.registered();
    let mut pause = REGISTER_PAUSE.0;
    for attempt in 1..=REGISTER_ATTEMPTS {
        let mut failed = Vec::new();
        for prefix in prefixes {
            if let Err(error) = register_prefix(&handle, &prefix).await {
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
