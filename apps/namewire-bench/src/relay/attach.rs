//! Registers the bench's prefix at a forwarder, with the management protocol.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use ndn_management::{ControlParameters, ControlResponse};
use ndn_packet::{Data, InterestBuilder, LpPacket, Name};
use ndn_security::{AntiReplay, DigestSigner, sign_interest};
use ndn_traffic::io::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wire::{PREFIX, split_tlv};

const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
const REPLY_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// A forwarder may accept connections before its management answers.
const ATTEMPTS_MAX: usize = 10;
const REPLY_LENGTH_MAX: usize = 64 * 1024;

/// Registers the prefix of the bench for the face of `socket`; or, if `prefixes` exceeds one, this number of prefixes
/// below it.
///
/// # Errors
/// When the forwarder does not answer or refuses.
pub(super) fn register_own_face(socket: &UnixStream, prefixes: u32) -> anyhow::Result<()> {
    if prefixes == 1 {
        return register(socket, None, None);
    }
    (0..prefixes).try_for_each(|number| register(socket, None, Some(number)))
}

/// Creates a UDP face to `port` on the loopback interface and registers the prefix for it.
///
/// # Errors
/// When the forwarder does not answer or refuses.
pub(crate) fn register_udp_face(operator: &UnixStream, port: u16) -> anyhow::Result<()> {
    register_face(operator, format!("udp4://127.0.0.1:{port}"), None)
}

/// Creates a face and registers the prefix for it.
///
/// # Errors
/// When the forwarder does not answer or refuses.
pub(super) fn register_face(
    operator: &UnixStream,
    remote: String,
    local: Option<String>,
) -> anyhow::Result<()> {
    let face_id = create_face(operator, remote, local)?;
    register(operator, Some(face_id), None)
}

/// Creates a face and returns its FaceId.
///
/// # Errors
/// When the forwarder does not answer or refuses.
pub(super) fn create_face(
    operator: &UnixStream,
    remote: String,
    local: Option<String>,
) -> anyhow::Result<u64> {
    let parameters =
        ControlParameters { uri: Some(remote), local_uri: local, ..ControlParameters::default() };
    let created = command(operator, "faces", "create", &parameters)?;
    created.face_id.context("faces/create names no face")
}

/// Registers the prefix for the face of `endpoint`.
///
/// # Errors
/// When the forwarder does not answer or refuses.
pub(super) fn register_endpoint(endpoint: &mut Endpoint) -> anyhow::Result<()> {
    let mut reply = None;
    for _ in 0..ATTEMPTS_MAX {
        let command = signed_command("rib", "register", &prefix_parameters(None, None))?;
        endpoint.push(|out| out.extend_from_slice(&command));
        endpoint.flush()?;
        poll(&mut [PollFd::new(&endpoint.fd(), PollFlags::IN)], Some(&REPLY_WAIT))?;
        endpoint.receive(|packet, _| reply = Some(packet.to_vec()))?;
        if let Some(reply) = &reply {
            return parameters_of(reply).context("rib/register").map(drop);
        }
    }
    bail!("rib/register: the forwarder does not answer")
}

fn register(socket: &UnixStream, face_id: Option<u64>, number: Option<u32>) -> anyhow::Result<()> {
    command(socket, "rib", "register", &prefix_parameters(face_id, number)).map(drop)
}

/// Parameters for the prefix of the bench, or one below it, and a face.
fn prefix_parameters(face_id: Option<u64>, number: Option<u32>) -> ControlParameters {
    let mut name = Name::default();
    name.push_generic(PREFIX);
    if let Some(number) = number {
        name.push_generic(number.to_be_bytes());
    }
    ControlParameters { name: Some(name), face_id, ..ControlParameters::default() }
}

/// Sends a command of this module and verb, with retries, and returns the parameters of the answer.
///
/// # Errors
/// When the forwarder does not answer or refuses.
pub(super) fn command(
    socket: &UnixStream,
    module: &str,
    verb: &str,
    parameters: &ControlParameters,
) -> anyhow::Result<ControlParameters> {
    socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
    let mut attempt = 1;
    let reply = loop {
        let mut stream = socket;
        stream.write_all(&signed_command(module, verb, parameters)?)?;
        match read_reply(socket) {
            Ok(reply) => break reply,
            Err(error) if attempt == ATTEMPTS_MAX => {
                return Err(error.context(format!("{module}/{verb}")));
            }
            Err(_) => attempt += 1,
        }
    };
    parameters_of(&reply).with_context(|| format!("{module}/{verb}"))
}

/// Returns the parameters of an answer unless it reports an error.
fn parameters_of(reply: &[u8]) -> anyhow::Result<ControlParameters> {
    let packet = LpPacket::parse(reply)?;
    let data = Data::parse(packet.fragment().context("a reply without packet")?)?;
    let content = ControlResponse::decode(data.content().unwrap_or_default())?;
    if content.code != 200 {
        bail!("{} {}", content.code, content.text);
    }
    Ok(content.parameters()?)
}

fn signed_command(
    module: &str,
    verb: &str,
    parameters: &ControlParameters,
) -> anyhow::Result<Vec<u8>> {
    let mut name = Name::from_uri(&format!("/localhost/nfd/{module}/{verb}"))?;
    name.push_generic(parameters.to_vec());
    let now_ns = super::clock::wall_ns();
    let nonce = u32::try_from(now_ns & u64::from(u32::MAX)).unwrap_or(0);
    let interest = InterestBuilder::new(&name).must_be_fresh(true).nonce(nonce);
    let anti_replay = AntiReplay {
        nonce: Some(&now_ns.to_be_bytes()),
        time_ms: Some(next_time_ms(now_ns / 1_000_000)),
        sequence_num: None,
    };
    Ok(sign_interest(&interest, &DigestSigner, &anti_replay)?)
}

/// Returns a command timestamp later than the previous one.
fn next_time_ms(now_ms: u64) -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let next = |last: u64| now_ms.max(last + 1);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
    next(last.unwrap_or(0))
}

fn read_reply(mut socket: &UnixStream) -> anyhow::Result<Vec<u8>> {
    let mut reply = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = socket.read(&mut chunk).context("the forwarder does not answer")?;
        if count == 0 || reply.len() > REPLY_LENGTH_MAX {
            bail!("the forwarder closed the connection");
        }
        reply.extend_from_slice(&chunk[..count]);
        if let Some((_, _, length)) = split_tlv(&reply) {
            reply.truncate(length);
            return Ok(reply);
        }
    }
}
