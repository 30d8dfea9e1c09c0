//! How commands find and reach a forwarder.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use ndn_client::fetch::{FetchError, FetchFailure};
use ndn_client::{
    Candidates, CommandError, ConnectFailure, ConnectionState, Endpoint, EndpointOptions,
    ExpressError, ForwarderAddress, OpenError, RegisterError,
};
use ndn_management::status;
use ndn_packet::{Name, SignatureType};
use ndn_security::Signer;
use tokio::sync::{Notify, watch};

use super::beside;
use super::failure::{Failure, Outcome};
use super::interrupt::or_interrupted;
use super::key_chain::{IdentityArgument, usual_signer};
use super::keys;
use crate::config::parse_duration;
use namewire_control::FaceLimit;

/// The forwarder that was reached. A command has one connection, and what may be wrong where there is no
/// answer depends on its kind.
static REACHED: OnceLock<ForwarderAddress> = OnceLock::new();

/// Whether its commands are signed by a digest only, which shows nobody who signs.
static BY_DIGEST: OnceLock<bool> = OnceLock::new();
/// What to do about it where that is not enough.
const HINT_OF_DIGEST: &str = " (the command was signed by a digest only, as anybody can: --identity NAME signs \
    it by a key of your key chain, and `namewire key list` shows which there are)";

/// Notified when the forwarder has closed several connections in a row without an answer.
static TURNED_AWAY: Notify = Notify::const_new();
const TURNED_AWAY_MAX: u32 = 3;

/// The state of the connection, if its end has to be waited for.
static ENDING: OnceLock<watch::Receiver<ConnectionState>> = OnceLock::new();
/// How long the program waits at its end at most until the listener of its session knows of it. A face would
/// be left there otherwise, for as long as the listener believes that it is only silent.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Which forwarder to use.
#[derive(Args, Debug, Default)]
pub(super) struct ConnectOptions {
    /// The forwarder: unix:///path or a path alone, tcp://host:port, udp://host:port, memif:///socket or
    /// https://host:port/ndn (WebTransport)
    ///
    /// The default is NDN_CLIENT_TRANSPORT, then client.conf, then the default socket.
    #[arg(long, value_name = "URI", value_parser = transport)]
    transport: Option<ForwarderAddress>,
    /// Sign as this identity, key or certificate of the key chain, or as the `default` identity
    ///
    /// Applies to commands to the forwarder and to published Data. `namewire key list` lists the identities.
    #[arg(long, value_name = "NAME")]
    identity: Option<IdentityArgument>,
}

impl ConnectOptions {
    /// Connects.
    pub(super) async fn open(&self) -> Outcome<Endpoint> {
        self.open_with(self.signer()?).await
    }

    fn signer(&self) -> Outcome<Arc<dyn Signer>> {
        match &self.identity {
            Some(identity) => identity.signer(),
            None => Ok(EndpointOptions::default().command_signer),
        }
    }

    /// As [`Self::open`], for commands that show and change the forwarder itself. When its limit of faces is reached,
    /// management is reached over the control socket.
    pub(super) async fn open_as_operator(&self) -> Outcome<Endpoint> {
        self.open_as_operator_with(self.signer()?).await
    }

    /// As [`Self::open_as_operator`], with this signer.
    pub(super) async fn open_as_operator_with(&self, signer: Arc<dyn Signer>) -> Outcome<Endpoint> {
        let Some((address, limit)) = self.full_forwarder()? else {
            return self.connect(signer).await;
        };
        let stream = beside::management_stream(&address).map_err(|_| no_room(&address, &limit))?;
        let failed =
            |error: std::io::Error| Failure::Failed(format!("the control socket: {error}"));
        stream.set_nonblocking(true).map_err(failed)?;
        let (reader, writer) =
            tokio::net::UnixStream::from_std(stream).map_err(failed)?.into_split();
        let options = EndpointOptions {
            address: Some(address),
            command_signer: signer,
            ..EndpointOptions::default()
        };
        Ok(Endpoint::from_stream_to_address(reader, writer, &options))
    }

    /// The forwarder that would be connected to, if it has as many faces as it may, as far as it tells.
    fn full_forwarder(&self) -> Outcome<Option<(ForwarderAddress, FaceLimit)>> {
        let candidates = match &self.transport {
            Some(address) => Candidates::given(address.clone()),
            None => Candidates::from_environment().map_err(OpenError::Address)?,
        };
        Ok(beside::full_among(candidates.addresses))
    }

    /// As [`Self::open`], for what programs of NFD did: they sign with the default identity.
    pub(super) async fn open_as_usual(&self) -> Outcome<Endpoint> {
        let signer = self.identity.as_ref().map_or_else(usual_signer, IdentityArgument::signer)?;
        self.open_with(signer).await
    }

    async fn open_with(&self, command_signer: Arc<dyn Signer>) -> Outcome<Endpoint> {
        match self.full_forwarder()? {
            Some((address, limit)) => Err(no_room(&address, &limit)),
            None => self.connect(command_signer).await,
        }
    }

    async fn connect(&self, command_signer: Arc<dyn Signer>) -> Outcome<Endpoint> {
        let signature = command_signer.signature_info().signature_type;
        BY_DIGEST.get_or_init(|| signature == SignatureType::DIGEST_SHA256);
        let options = EndpointOptions {
            address: self.transport.clone(),
            command_signer,
            ..EndpointOptions::default()
        };
        let endpoint = Endpoint::connect(options).await?;
        if matches!(endpoint.address(), Some(ForwarderAddress::WebTransport(_))) {
            let _ = ENDING.set(endpoint.state());
        }
        let mut turned_away = endpoint.turned_away();
        tokio::spawn(async move {
            if turned_away.wait_for(|times| *times >= TURNED_AWAY_MAX).await.is_ok() {
                TURNED_AWAY.notify_one();
            }
        });
        if let Some(address) = endpoint.address() {
            REACHED.get_or_init(|| address.clone());
        }
        Ok(endpoint)
    }

    /// What signs Data: the identity if there is one, else what `--sign` names.
    pub(super) fn data_signer(&self, sign: &str) -> Outcome<Arc<dyn Signer>> {
        self.identity.as_ref().map_or_else(|| keys::signer(sign), IdentityArgument::signer)
    }
}

/// A forwarder's address. A path alone is that of a Unix socket.
pub(super) fn transport(text: &str) -> Result<ForwarderAddress, String> {
    if !text.contains("://") && text.contains('/') {
        let path = std::path::absolute(text).map_err(|error| error.to_string())?;
        return Ok(ForwarderAddress::Unix(path));
    }
    text.parse().map_err(|error: ndn_client::AddressError| error.to_string())
}

/// Runs a command that waits for the network, until it is done or interrupted.
pub(super) fn block_on<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = runtime()?;
    let unless_turned_away = async {
        tokio::select! {
            biased;
            outcome = work => outcome,
            () = TURNED_AWAY.notified() => Err(turned_away()),
        }
    };
    let outcome = runtime.block_on(or_interrupted(unless_turned_away));
    runtime.block_on(session_ended());
    // Looking a host name up cannot be interrupted; nobody waits for it.
    runtime.shutdown_background();
    outcome
}

/// As [`block_on`], for commands that serve until they are interrupted and deal with that themselves.
pub(super) fn block_on_until_done<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(work);
    runtime.block_on(session_ended());
    outcome
}

/// As [`block_on_until_done`], on several threads: for commands that serve many at a time.
pub(super) fn block_on_threads<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("no runtime: {error}")))?;
    let outcome = runtime.block_on(work);
    runtime.block_on(session_ended());
    runtime.shutdown_background();
    outcome
}

/// Waits until the other side of a session knows that it is over, for a while.
async fn session_ended() {
    let Some(mut state) = ENDING.get().cloned() else { return };
    let is_closed = |state: &ConnectionState| *state == ConnectionState::Closed;
    let _ = tokio::time::timeout(END_TIMEOUT, state.wait_for(is_closed)).await;
}

fn runtime() -> Outcome<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("no runtime: {error}")))
}

/// The kind of failure that it is that there is no connection.
pub(super) fn kind_of_connect(error: &std::io::Error) -> fn(String) -> Failure {
    match ConnectFailure::of(error) {
        ConnectFailure::Unreachable => Failure::Unreachable,
        ConnectFailure::Refused => Failure::Failed,
        ConnectFailure::Unusable => Failure::Usage,
    }
}

/// The kind of failure that an unanswered Interest is.
pub(super) fn kind_of(error: &ExpressError) -> fn(String) -> Failure {
    if matches!(error, ExpressError::Timeout { .. } | ExpressError::Nack { .. }) {
        Failure::NoAnswer
    } else if matches!(error, ExpressError::Verification { .. }) {
        Failure::Unverified
    } else if matches!(error, ExpressError::Closed | ExpressError::NobodyListens { .. }) {
        Failure::Unreachable
    } else {
        Failure::Failed
    }
}

/// The kind of failure that a fetch ended with.
pub(super) fn kind_of_fetch(error: &FetchError) -> fn(String) -> Failure {
    if let FetchError::Discovery(error) = error {
        kind_of(error)
    } else if let FetchError::Failed { failure, .. } = error {
        kind_of_fetch_failure(failure)
    } else if matches!(error, FetchError::Verification { .. }) {
        Failure::Unverified
    } else if matches!(error, FetchError::Closed) {
        Failure::Unreachable
    } else {
        Failure::Failed
    }
}

fn kind_of_fetch_failure(failure: &FetchFailure) -> fn(String) -> Failure {
    if matches!(failure, FetchFailure::Verification { .. }) {
        Failure::Unverified
    } else if matches!(failure, FetchFailure::Timeout { .. } | FetchFailure::Nack { .. }) {
        Failure::NoAnswer
    } else {
        Failure::Failed
    }
}

fn kind_of_command(error: &CommandError) -> fn(String) -> Failure {
    if let CommandError::NoAnswer(error) = error {
        kind_of(error)
    } else if let CommandError::Fetch { error, .. } = error {
        kind_of_fetch(error)
    } else {
        Failure::Failed
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Address(error) => Self::Usage(error.to_string()),
            OpenError::Connect(error) => kind_of_connect(&error.error)(error.to_string()),
        }
    }
}

impl From<ExpressError> for Failure {
    fn from(error: ExpressError) -> Self {
        kind_of(&error)(error.to_string())
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        let unanswered = matches!(kind_of_command(&error)(String::new()), Failure::NoAnswer(_));
        let hint = match is_forbidden_digest(&error) {
            true => HINT_OF_DIGEST.to_owned(),
            false => REACHED.get().filter(|_| unanswered).map(why_silent).unwrap_or_default(),
        };
        kind_of_command(&error)(format!("{error}{hint}"))
    }
}

/// What to add to a refusal with this code, where a better signature may be what is missing.
pub(super) fn hint_of_code(code: u32) -> &'static str {
    let by_digest = BY_DIGEST.get().is_some_and(|by_digest| *by_digest);
    if code == status::FORBIDDEN && by_digest { HINT_OF_DIGEST } else { "" }
}

/// Whether a command was refused that anybody could have sent.
fn is_forbidden_digest(error: &CommandError) -> bool {
    matches!(error, CommandError::Refused { code, .. } if !hint_of_code(*code).is_empty())
}

/// Why the forwarder at this address does not answer, as far as it tells.
fn why_silent(address: &ForwarderAddress) -> String {
    let full = beside::is_full(address).map(|limit| format!(" ({})", for_people(&limit)));
    full.unwrap_or_else(|| hint_of_silence(address).to_owned())
}

/// The forwarder takes connections and closes them at once.
fn turned_away() -> Failure {
    let Some(address) = REACHED.get() else {
        return Failure::Failed("the forwarder closes our connections at once".to_owned());
    };
    match beside::is_full(address) {
        Some(limit) => no_room(address, &limit),
        None => Failure::Failed(format!(
            "the forwarder at {address} closes our connections at once: has it as many faces as it may \
             (`limits.faces` in its configuration; its owner sees with `namewire status`)?"
        )),
    }
}

/// A forwarder has no face for this program.
fn no_room(address: &ForwarderAddress, limit: &FaceLimit) -> Failure {
    Failure::Failed(format!("the forwarder at {address} has no face left: {}", for_people(limit)))
}

/// A forwarder that has no room, in words.
pub(super) fn for_people(limit: &FaceLimit) -> String {
    let FaceLimit { faces, faces_max, .. } = limit;
    format!(
        "it has {faces} faces, and may have {faces_max}: it closes new connections until one is gone; \
         `limits.faces` in its configuration says how many"
    )
}

/// Why a forwarder of this address may not answer.
const fn hint_of_silence(address: &ForwarderAddress) -> &'static str {
    match address {
        ForwarderAddress::Unix(_) | ForwarderAddress::Memif(_) => {
            " (it has taken the connection: it is busy, or hangs, or management is turned off)"
        }
        ForwarderAddress::Tcp { .. } => {
            " (does the forwarder take us for a local application? Over TCP it does so from loopback \
             addresses only, and if it is configured to)"
        }
        ForwarderAddress::Udp { .. } => {
            " (does the forwarder take us for a local application? Over UDP it never does)"
        }
        ForwarderAddress::WebTransport(_) => {
            " (does the forwarder take us for a local application? Over WebTransport it never does)"
        }
    }
}

impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Self {
        let RegisterError::Command { error: of_command, .. } = &error else {
            return Self::Failed(error.to_string());
        };
        let hint = REACHED.get().map(|address| hint_of_refusal(address, of_command));
        let hint = hint.unwrap_or_default();
        kind_of_command(of_command)(format!("{error}{hint}"))
    }
}

/// Why a forwarder that is reached over the network may not register a prefix.
pub(super) const HINT_OF_LOCALHOP: &str = " (over the network prefixes are registered under /localhop/nfd, if `management.localhop_rib` in the \
     forwarder's configuration allows it: \"any\" lets everybody do so, trust rules those who sign with \
     --identity; or have a route added there to the face of this program)";

/// Why a forwarder of this address may not register a prefix.
fn hint_of_refusal(address: &ForwarderAddress, error: &CommandError) -> String {
    let is_of_host = match address {
        ForwarderAddress::Unix(_) | ForwarderAddress::Memif(_) | ForwarderAddress::Tcp { .. } => {
            true
        }
        ForwarderAddress::Udp { .. } | ForwarderAddress::WebTransport(_) => false,
    };
    if is_of_host {
        return if matches!(error, CommandError::NoAnswer(_)) {
            why_silent(address)
        } else if is_forbidden_digest(error) {
            HINT_OF_DIGEST.to_owned()
        } else {
            String::new()
        };
    }
    HINT_OF_LOCALHOP.to_owned()
}

/// Reads a name on the command line.
pub(super) fn name(text: &str) -> Result<Name, String> {
    if !text.starts_with('/') && !text.starts_with("ndn:") {
        return Err("names begin with `/`".to_owned());
    }
    Name::from_uri(text).map_err(|error| error.to_string())
}

/// Reads the name of something to publish: digests name packets, not what is to become one.
pub(super) fn published_name(text: &str) -> Result<Name, String> {
    let name = name(text)?;
    match name.components().any(|component| component.ty().is_digest()) {
        true => Err("a digest cannot be part of a name to publish under".to_owned()),
        false => Ok(name),
    }
}

/// Reads a duration on the command line; a bare number counts milliseconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
        Err(_) => parse_duration(text),
    }
}

/// As [`duration`], for times in which something is to happen.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be longer than nothing".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_or_are_in_milliseconds() {
        assert_eq!(duration("250"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("0.5s").is_err());
    }

    #[test]
    fn a_time_to_wait_is_not_zero() {
        assert_eq!(positive_duration("1ms"), Ok(Duration::from_millis(1)));
        assert!(positive_duration("0").is_err());
        assert!(positive_duration("0s").is_err());
    }
}
