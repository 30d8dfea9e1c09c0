//! The connection of a command to the forwarder, and how a command ends early.

use std::io::Write;
use std::time::Duration;

use ndn_client::{CommandError, Endpoint};
use ndn_management::{
    ChannelStatus, ControlParameters, ControlResponse, CsInfo, Dataset, DatasetItem, FibEntry,
    ForwarderStatus, Verb,
};

use crate::cli::connect::{is_unanswered, stopped_forwarder};

/// An early end of a command: exit status and message for standard error.
#[derive(Debug)]
pub(super) struct Exit {
    pub(super) status: u8,
    pub(super) message: String,
}

impl Exit {
    pub(super) fn new(status: u8, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

impl From<std::io::Error> for Exit {
    fn from(error: std::io::Error) -> Self {
        let status = if error.kind() == std::io::ErrorKind::BrokenPipe { 0 } else { 1 };
        Self::new(status, if status == 0 { String::new() } else { error.to_string() })
    }
}

/// The session of a command.
pub(super) struct Session {
    pub(super) endpoint: Endpoint,
}

impl Session {
    /// Sends a command; a refusal is a failure with the message of nfdc.
    pub(super) async fn command(
        &self,
        verb: Verb,
        parameters: &ControlParameters,
        doing: &str,
    ) -> Result<ControlParameters, Exit> {
        let response = self.respond(verb, parameters, doing).await?;
        if !response.is_ok() {
            return Err(refusal(&response, doing));
        }
        response.parameters().map_err(|error| Exit::new(1, format!("Error when {doing}: {error}")))
    }

    pub(super) async fn respond(
        &self,
        verb: Verb,
        parameters: &ControlParameters,
        doing: &str,
    ) -> Result<ControlResponse, Exit> {
        let answered = self.endpoint.management().respond(verb, parameters).await;
        answered.map_err(|error| Exit::new(1, format!("Error {}", no_answer(&error, doing))))
    }

    /// Fetches a dataset; `what` is its name in messages of nfdc.
    pub(super) async fn dataset<T: DatasetItem>(
        &self,
        dataset: &Dataset,
        what: &str,
    ) -> Result<Vec<T>, Exit> {
        let fetched = self.endpoint.management().dataset(dataset).await;
        fetched.map_err(|error| {
            Exit::new(1, format!("Error {}", no_answer(&error, &format!("fetching {what}"))))
        })
    }

    pub(super) async fn general(&self) -> Result<ForwarderStatus, Exit> {
        self.endpoint.management().forwarder_status().await.map_err(|error| {
            Exit::new(1, format!("Error {}", no_answer(&error, "fetching general status")))
        })
    }

    pub(super) async fn cs(&self) -> Result<CsInfo, Exit> {
        self.endpoint.management().cs_info().await.map_err(|error| {
            Exit::new(1, format!("Error {}", no_answer(&error, "fetching CS information")))
        })
    }

    pub(super) async fn channels(&self) -> Result<Vec<ChannelStatus>, Exit> {
        self.dataset(&Dataset::ChannelList, "channel dataset").await
    }

    pub(super) async fn fib(&self) -> Result<Vec<FibEntry>, Exit> {
        self.dataset(&Dataset::FibList, "FIB dataset").await
    }
}

pub(super) fn refusal(response: &ControlResponse, doing: &str) -> Exit {
    Exit::new(1, format!("Error {} when {doing}: {}", response.code, response.text))
}

/// ndn-cxx has codes for errors without a response.
pub(super) fn no_answer(error: &CommandError, doing: &str) -> String {
    let stopped = stopped_forwarder().filter(|_| is_unanswered(error));
    let reason = stopped.unwrap_or_else(|| error.to_string());
    format!("10060 when {doing}: {reason}")
}

pub(super) fn print(text: &str) -> Result<(), Exit> {
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

/// Timeout of the resolution of a host name.
pub(super) const CANONIZE_TIMEOUT: Duration = Duration::from_secs(4);

/// Required arguments were checked by the parser.
pub(super) fn required<T: Clone>(value: Option<&T>) -> Result<T, Exit> {
    value.cloned().ok_or_else(|| Exit::new(2, "required argument is missing"))
}
