//! Connects commands to a forwarder.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use ndn_client::fetch::{FetchError, FetchFailure};
use ndn_client::{
    Candidates, CommandError, ConnectFailure, ConnectionState, Endpoint, EndpointOptions,
    ExpressError, ForwarderAddress, OpenError, RegisterError,
};
use ndn_management::status;
use ndn_packet::{NackReason, SignatureType};
use ndn_security::{Certificate, Signer};
use ndn_sys::peer::StoppedProcess;
use tokio::sync::{Notify, watch};

use super::control_queries;
use super::failure::{Failure, Outcome};
use super::interrupt::or_interrupted;
use super::key_chain::{IdentityArgument, usual_signer};
use super::keys;
use super::output;
use namewire_control::FaceLimit;

/// The address of the forwarder. A command has one connection, and the possible reasons of a
/// missing response depend on its transport.
static REACHED: OnceLock<ForwarderAddress> = OnceLock::new();
/// Its process, if that is known.
static PROCESS: OnceLock<i32> = OnceLock::new();

/// Whether commands are signed by a digest only, which does not authenticate the signer.
static BY_DIGEST: OnceLock<bool> = OnceLock::new();
/// Advice for a refused command that was signed by a digest.
const HINT_OF_DIGEST: &str = " (the command was signed by a digest only, as anybody can: --identity NAME signs \
    it by a key of your key chain, and `namewire key list` shows which there are)";

/// Notified when the forwarder has closed several connections in a row without an answer.
static TURNED_AWAY: Notify = Notify::const_new();
const TURNED_AWAY_MAX: u32 = 3;

/// The state of the connection, if the program must wait until it is closed.
static ENDING: OnceLock<watch::Receiver<ConnectionState>> = OnceLock::new();
/// Maximum time to wait at exit until the peer of the session has closed it. Otherwise the peer
/// would keep the face until its idle timeout.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The forwarder to use.
#[derive(Args, Debug, Default)]
pub(super) struct ConnectOptions {
    /// Forwarder to connect to, such as unix:///path or tcp://host:port
    ///
    /// Also a path, udp://host:port, memif:///socket and https://host:port/ndn (WebTransport).
    /// The default is NDN_CLIENT_TRANSPORT, then client.conf, then the default socket.
    #[arg(long, value_name = "URI", value_parser = transport)]
    transport: Option<ForwarderAddress>,
    /// Sign with this identity, key or certificate of the key chain, or with the `default` identity
    ///
    /// Applies to commands to the forwarder and to published Data. `namewire key list` lists the identities.
    #[arg(long, value_name = "NAME")]
    identity: Option<IdentityArgument>,
}

impl ConnectOptions {
    /// Options with this forwarder, if there is one.
    pub(super) fn with_transport(transport: Option<ForwarderAddress>) -> Self {
        Self { transport, ..Self::default() }
    }

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
        let stream =
            control_queries::management_stream(&address).map_err(|_| no_room(&address, &limit))?;
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

    /// The forwarder to connect to, if it reports that it has reached its limit of faces.
    fn full_forwarder(&self) -> Outcome<Option<(ForwarderAddress, FaceLimit)>> {
        let candidates = match &self.transport {
            Some(address) => Candidates::given(address.clone()),
            None => Candidates::from_environment().map_err(OpenError::Address)?,
        };
        Ok(control_queries::full_among(candidates.addresses))
    }

    /// As [`Self::open`], for replacements of NFD's programs, which sign with the default identity.
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
            note_reached(address, endpoint.forwarder_process());
        }
        Ok(endpoint)
    }

    /// The certificates of the signer of Data, if that is an identity.
    pub(super) fn certificates(&self) -> Outcome<Vec<Certificate>> {
        self.identity.as_ref().map_or_else(|| Ok(Vec::new()), IdentityArgument::certificates)
    }

    /// The signer of Data: the identity if there is one, otherwise that of `--sign`.
    pub(super) fn data_signer(&self, sign: &str) -> Outcome<Arc<dyn Signer>> {
        self.identity.as_ref().map_or_else(|| keys::signer(sign), IdentityArgument::signer)
    }
}

/// Parses the address of a forwarder. A path is that of a Unix socket.
pub(super) fn transport(text: &str) -> Result<ForwarderAddress, String> {
    if !text.contains("://") && (text.contains('/') || std::path::Path::new(text).exists()) {
        let path = std::path::absolute(text).map_err(|error| error.to_string())?;
        return Ok(ForwarderAddress::Unix(path));
    }
    text.parse().map_err(|error: ndn_client::AddressError| error.to_string())
}

/// Runs an asynchronous command until it is done or interrupted.
pub(super) fn block_on<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(or_interrupted(unless_turned_away(work)));
    runtime.block_on(session_ended());
    // The resolution of a host name cannot be interrupted; do not wait for it.
    runtime.shutdown_background();
    outcome
}

/// Fails as soon as the forwarder has closed several connections in a row without an answer. Servers register their
/// prefixes so; once they have started, they wait for the forwarder instead.
pub(super) async fn unless_turned_away<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = TURNED_AWAY.notified() => Err(turned_away()),
    }
}

/// As [`block_on`], for servers, which handle interrupts themselves.
pub(super) fn block_on_until_done<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(work);
    runtime.block_on(session_ended());
    outcome
}

/// As [`block_on_until_done`], on several threads, for servers with many clients.
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

/// Waits for a limited time until the peer of a session has closed it.
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

/// The failure of a connection.
pub(super) fn kind_of_connect(error: &std::io::Error) -> fn(String) -> Failure {
    match ConnectFailure::of(error) {
        ConnectFailure::Unreachable => Failure::Unreachable,
        ConnectFailure::Refused => Failure::Failed,
        ConnectFailure::Unusable => Failure::Usage,
    }
}

/// The failure of an unsatisfied Interest.
pub(super) fn kind_of(error: &ExpressError) -> fn(String) -> Failure {
    if matches!(error, ExpressError::Timeout { .. }) {
        Failure::NoAnswer
    } else if let ExpressError::Nack { reason, .. } = error {
        kind_of_nack(*reason)
    } else if matches!(error, ExpressError::Verification { .. }) {
        Failure::Unverified
    } else if matches!(error, ExpressError::Closed | ExpressError::NotListening { .. }) {
        Failure::Unreachable
    } else {
        Failure::Failed
    }
}

/// The failure of a fetch.
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
    } else if matches!(failure, FetchFailure::Timeout { .. }) {
        Failure::NoAnswer
    } else if let FetchFailure::Nack { reason, .. } = failure {
        kind_of_nack(*reason)
    } else if matches!(failure, FetchFailure::ApplicationNack { .. }) {
        Failure::VersionGone
    } else {
        Failure::Failed
    }
}

fn kind_of_nack(reason: NackReason) -> fn(String) -> Failure {
    if reason == NackReason::NO_ROUTE { Failure::NoRoute } else { Failure::Nacked }
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
        let unanswered = is_unanswered(&error);
        let hint = match is_forbidden_digest(&error) {
            true => HINT_OF_DIGEST.to_owned(),
            false => REACHED.get().filter(|_| unanswered).map(why_silent).unwrap_or_default(),
        };
        kind_of_command(&error)(format!("{error}{hint}"))
    }
}

/// A hint for a refusal with this code, if another signature may help.
pub(super) fn hint_of_code(code: u32) -> &'static str {
    let by_digest = BY_DIGEST.get().is_some_and(|by_digest| *by_digest);
    if code == status::FORBIDDEN && by_digest { HINT_OF_DIGEST } else { "" }
}

/// Whether an unauthenticated command was refused.
fn is_forbidden_digest(error: &CommandError) -> bool {
    matches!(error, CommandError::Refused { code, .. } if !hint_of_code(*code).is_empty())
}

/// Whether [`note_stopped`] has nothing more to say.
static IS_NOTED: AtomicBool = AtomicBool::new(false);

/// Records the forwarder that a command has connected to, and its process: a reason of a missing answer.
pub(super) fn note_reached(address: &ForwarderAddress, process: Option<i32>) {
    REACHED.get_or_init(|| address.clone());
    if let Some(process) = process {
        PROCESS.get_or_init(|| process);
    }
    note_stopped(address, process);
}

/// Keeps [`note_stopped`] from writing.
pub(super) fn note_nothing() {
    IS_NOTED.store(true, Ordering::Relaxed);
}

/// Whether nothing was said so far of a forwarder that is stopped; the caller says it.
pub(super) fn is_noted_first() -> bool {
    !IS_NOTED.swap(true, Ordering::Relaxed)
}

/// Says once that a signal has stopped the process of a forwarder that a command has connected to: the command waits for its
/// answers, for many seconds.
pub(super) fn note_stopped(forwarder: &dyn fmt::Display, process: Option<i32>) {
    if let Some(stopped) = process.and_then(StoppedProcess::with_id)
        && is_noted_first()
    {
        output::note(&format_args!(
            "namewire: waiting for the forwarder at {forwarder}: {stopped}"
        ));
    }
}

/// While the forwarder is stopped by a signal, a lack of answers has this cause, whatever was asked for.
pub(super) fn with_stopped_forwarder(failure: Failure) -> Failure {
    match stopped_forwarder() {
        Some(reason) => for_reason(failure, reason),
        None => failure,
    }
}

/// The reason of a lack of answers while a signal has stopped the forwarder.
pub(super) fn stopped_forwarder() -> Option<String> {
    let stopped = PROCESS.get().copied().and_then(StoppedProcess::with_id)?;
    let address = REACHED.get()?;
    Some(format!("the forwarder at {address} does not answer: {stopped}"))
}

/// Whether a command or dataset has no answer.
pub(super) fn is_unanswered(error: &CommandError) -> bool {
    kind_of_command(error)(String::new()).is_unanswered()
}

/// A failure without an answer, with this reason. It keeps its kind, which some exit statuses depend on.
fn for_reason(failure: Failure, reason: String) -> Failure {
    if let Failure::Unregistered(cause) = failure {
        Failure::Unregistered(Box::new(for_reason(*cause, reason)))
    } else if let Failure::Reported(cause) = failure {
        Failure::Reported(Box::new(for_reason(*cause, reason)))
    } else if let Failure::Resumable { failure, kept } = failure {
        Failure::Resumable { failure: Box::new(for_reason(*failure, reason)), kept }
    } else if matches!(failure, Failure::NoAnswer(_)) {
        Failure::NoAnswer(reason)
    } else {
        failure
    }
}

/// The reason why the forwarder at this address does not respond, if known.
fn why_silent(address: &ForwarderAddress) -> String {
    let full = control_queries::is_full(address).map(|limit| format!(" ({})", for_people(&limit)));
    full.unwrap_or_else(|| hint_of_silence(address).to_owned())
}

/// The forwarder accepts connections and closes them at once.
fn turned_away() -> Failure {
    let Some(address) = REACHED.get() else {
        return Failure::Failed("the forwarder closes our connections at once".to_owned());
    };
    match control_queries::is_full(address) {
        Some(limit) => no_room(address, &limit),
        None => Failure::Failed(format!(
            "the forwarder at {address} closes our connections at once: it may have reached `limits.faces` of its \
             configuration, or what that leaves to programs like this one (on its host, for its user: `namewire limits` \
             shows who holds faces, `namewire workers` how busy it is)"
        )),
    }
}

/// The forwarder has reached its limit of faces.
fn no_room(address: &ForwarderAddress, limit: &FaceLimit) -> Failure {
    Failure::Failed(format!(
        "the forwarder at {address} has reached its limit of faces: {}",
        for_people(limit)
    ))
}

/// The message for a forwarder at its limit of faces.
pub(super) fn for_people(limit: &FaceLimit) -> String {
    let FaceLimit { faces, faces_max, .. } = limit;
    format!(
        "it has {faces} faces, the limit is {faces_max} (`limits.faces`): it closes new connections until a face is closed"
    )
}

/// A possible reason why the forwarder at this address does not respond.
const fn hint_of_silence(address: &ForwarderAddress) -> &'static str {
    match address {
        ForwarderAddress::Unix(_) | ForwarderAddress::Memif(_) => {
            " (it has accepted the connection: it is busy or hangs, or management is disabled)"
        }
        ForwarderAddress::Tcp { .. } => {
            " (does the forwarder take us for a local application? Over TCP it does so from loopback \
             addresses only, and if it is configured to)"
        }
        ForwarderAddress::Udp { .. } => {
            " (management needs a local face; UDP faces are never local)"
        }
        ForwarderAddress::WebTransport(_) => {
            " (management needs a local face; WebTransport faces are never local)"
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

/// A possible reason why a remote forwarder does not register a prefix.
pub(super) const HINT_OF_LOCALHOP: &str = " (over the network prefixes are registered under /localhop/nfd, if `management.localhop_rib` in the \
     forwarder's configuration allows it: \"any\" lets everybody do so, trust rules those who sign with \
     --identity; or have a route added there to the face of this program)";

/// A possible reason why the forwarder at this address does not register a prefix.
fn hint_of_refusal(address: &ForwarderAddress, error: &CommandError) -> String {
    let is_of_host = match address {
        ForwarderAddress::Unix(_) | ForwarderAddress::Memif(_) | ForwarderAddress::Tcp { .. } => {
            true
        }
        ForwarderAddress::Udp { .. } | ForwarderAddress::WebTransport(_) => false,
    };
    if matches!(error, CommandError::Unsent { .. }) {
        // The forwarder knows nothing of it.
        return String::new();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_that_was_not_sent_is_not_refused() {
        let remote: ForwarderAddress = "udp4://192.0.2.1:6363".parse().unwrap();
        let command = "rib/register".to_owned();
        let unsent = CommandError::Unsent { command, error: ExpressError::TooLong(9000) };
        assert_eq!(hint_of_refusal(&remote, &unsent), "");
        let malformed = CommandError::NoAnswer(ExpressError::Closed);
        assert_eq!(hint_of_refusal(&remote, &malformed), HINT_OF_LOCALHOP);
    }

    #[test]
    fn failures_keep_their_kind_when_the_forwarder_is_stopped() {
        let silent = || Failure::NoAnswer("no answer".to_owned());
        let explained = |failure| for_reason(failure, "it is stopped".to_owned());
        let unregistered = explained(Failure::Unregistered(Box::new(silent())));
        assert!(matches!(unregistered, Failure::Unregistered(_)), "ndnpoke has a status for it");
        let reported = explained(Failure::Reported(Box::new(silent())));
        assert!(matches!(reported, Failure::Reported(_)), "it is not reported again");
        let other = Failure::Usage("wrong".to_owned());
        let texts = [unregistered, reported, explained(silent()), explained(other)];
        let texts = texts.map(|one| one.to_string());
        assert_eq!(texts, ["it is stopped", "it is stopped", "it is stopped", "wrong"]);
    }
}
