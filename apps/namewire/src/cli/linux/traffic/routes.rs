//! Faces and routes of a generator that receives by UDP. A thread renews the routes, which expire
//! otherwise, and removes faces and routes at the end, because there is no connection whose end
//! removes them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ndn_client::{Endpoint, EndpointOptions, ForwarderAddress, Management};
use ndn_management::{ControlParameters, Verb, status};
use ndn_packet::Name;
use ndn_types::duration_ms;
use tokio::sync::oneshot;

use crate::cli::failure::{Failure, Outcome};
use crate::cli::manage::refused;
use crate::cli::output;

/// Expiration period of a route.
const EXPIRATION: Duration = Duration::from_secs(60);
/// Interval of renewals: two of them may be lost.
const RENEWAL: Duration = Duration::from_secs(20);
/// Maximum time for removing faces and routes.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which an interrupt is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The routes to sockets of this program, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Routes {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A socket and the prefixes of its routes.
#[derive(Debug)]
struct Target {
    local: SocketAddr,
    prefixes: Vec<Name>,
    /// The face to the socket.
    face_id: Option<u64>,
}

impl Routes {
    /// Creates faces to these sockets, and routes, through the forwarder at `management`.
    ///
    /// # Errors
    /// The forwarder rejects a command or is unreachable, or `stop` has become true. No faces or
    /// routes remain.
    pub(super) fn establish(
        sockets: Vec<(SocketAddr, Vec<Name>)>,
        management: Option<ForwarderAddress>,
        stop: &AtomicBool,
    ) -> Outcome<Self> {
        let target = |(local, prefixes)| Target { local, prefixes, face_id: None };
        let targets: Vec<Target> = sockets.into_iter().map(target).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Failed(format!("no runtime: {error}")))?;
        let (stopping, stopped) = oneshot::channel();
        let (sender, established) = channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(keep(targets, management, stopped, |outcome| {
                let _ = sender.send(outcome);
            }));
            // The resolution of a host name cannot be interrupted; do not wait for it.
            runtime.shutdown_background();
        });
        // If it is dropped after an error, it waits until faces and routes are removed.
        let routes = Self { stop: Some(stopping), thread: Some(thread) };
        wait_for(&established, stop)?;
        Ok(routes)
    }
}

fn wait_for(established: &Receiver<Outcome>, stop: &AtomicBool) -> Outcome {
    loop {
        match established.recv_timeout(POLL_INTERVAL) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(Failure::Interrupted);
            }
        }
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Creates faces and routes, reports the result, and removes them when `stopped` ends.
async fn keep(
    mut targets: Vec<Target>,
    address: Option<ForwarderAddress>,
    mut stopped: oneshot::Receiver<()>,
    report: impl FnOnce(Outcome),
) {
    let options = EndpointOptions { address, ..EndpointOptions::default() };
    let endpoint = tokio::select! {
        endpoint = Endpoint::connect(options) => endpoint,
        _ = &mut stopped => return,
    };
    let endpoint = match endpoint {
        Ok(endpoint) => endpoint,
        Err(error) => return report(Err(Failure::Unreachable(error.to_string()))),
    };
    let management = endpoint.management();
    let outcome = tokio::select! {
        outcome = make(&management, &mut targets) => outcome,
        _ = &mut stopped => Err(Failure::Interrupted),
    };
    let is_made = outcome.is_ok();
    if is_made {
        report(outcome);
        renew(&management, &mut targets, stopped).await;
        take_back(&management, &targets).await;
    } else {
        take_back(&management, &targets).await;
        report(outcome);
    }
}

/// Renews the routes until `stopped` ends. After a restart of the forwarder it creates them again.
async fn renew(
    management: &Management,
    targets: &mut [Target],
    mut stopped: oneshot::Receiver<()>,
) {
    let mut is_failing = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(RENEWAL) => {}
            _ = &mut stopped => return,
        }
        let outcome = tokio::select! {
            outcome = make(management, targets) => outcome,
            _ = &mut stopped => return,
        };
        match outcome {
            Err(error) if !is_failing => {
                is_failing = true;
                output::note(&format_args!("namewire: the routes are not renewed: {error}"));
            }
            Err(_) => {}
            Ok(()) => is_failing = false,
        }
    }
}

async fn make(management: &Management, targets: &mut [Target]) -> Outcome {
    for Target { local, prefixes, face_id } in targets {
        let scheme = if local.is_ipv6() { "udp6" } else { "udp4" };
        let parameters = ControlParameters {
            uri: Some(format!("{scheme}://{local}")),
            ..ControlParameters::default()
        };
        // 409: the face exists, and the body names it.
        let response = management.respond(Verb::FaceCreate, &parameters).await?;
        let found = matches!(response.code, status::OK | status::CONFLICT)
            .then(|| response.parameters().ok().and_then(|found| found.face_id))
            .flatten();
        *face_id =
            Some(found.ok_or_else(|| refused(&format_args!("no face to {local}"), &response))?);
        for prefix in prefixes.iter() {
            let expiration_ms = duration_ms(EXPIRATION);
            let parameters = ControlParameters {
                name: Some(prefix.clone()),
                face_id: *face_id,
                expiration_period_ms: Some(expiration_ms),
                ..ControlParameters::default()
            };
            management.command(Verb::RibRegister, &parameters).await?;
        }
    }
    Ok(())
}

/// Destroys the faces, which removes their routes.
async fn take_back(management: &Management, targets: &[Target]) {
    let destroy = async {
        for face_id in targets.iter().filter_map(|target| target.face_id) {
            let parameters =
                ControlParameters { face_id: Some(face_id), ..ControlParameters::default() };
            if let Err(error) = management.command(Verb::FaceDestroy, &parameters).await {
                output::note(&format_args!("namewire: face {face_id} was not destroyed: {error}"));
            }
        }
    };
    if tokio::time::timeout(REMOVAL_TIMEOUT, destroy).await.is_err() {
        output::note(
            &"namewire: the forwarder does not respond; its faces to this program were not destroyed",
        );
    }
}
