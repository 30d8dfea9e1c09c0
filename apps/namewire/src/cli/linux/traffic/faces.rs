//! The sockets of the generator, and the routes to them.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use ndn_client::{Candidates, ConnectFailure, Family, ForwarderAddress};
use ndn_management::{ControlParameters, ControlResponse};
use ndn_packet::{Data, InterestBuilder, LpPacket, NackReason, Name};
use ndn_security::{AntiReplay, DigestSigner, sign_interest};
use ndn_sys::peer::process_of_peer;
use ndn_traffic::io::Endpoint;
use ndn_types::duration_ms;
use ndn_webtransport::{Accepted, Service, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::routes::Routes;
use crate::cli::connect::{HINT_OF_LOCALHOP, kind_of_connect, note_reached};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output;

const REPLY_TIMEOUT_S: i64 = 5;
/// Name of the command of remote applications.
const LOCALHOP_REGISTER: &str = "/localhop/nfd/rib/register";
/// Attempts to register a prefix over a link that may lose packets.
const LINK_ATTEMPTS_MAX: u32 = 5;
/// Sockets of one generator.
const FACES_MAX: usize = 1024;

/// The maximum packet size of NDN, which then is not fragmented.
pub(super) const MTU_DEFAULT: usize = 8800;

/// Idle timeout of a WebTransport session.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The thread of WebTransport sessions, if there is one. It must be dropped after the faces, so
/// that it can close the sessions.
pub(super) type Sessions = Option<Service>;

/// Connects `count` times to each of the addresses; without an address, to the default forwarder.
/// `mtu` limits UDP frames.
pub(super) fn connect(
    transports: &[ForwarderAddress],
    count: u32,
    mtu: usize,
    sessions: &mut Sessions,
) -> Outcome<Vec<(Endpoint, ForwarderAddress)>> {
    let default;
    let transports = if transports.is_empty() {
        default = Candidates::from_environment().map_err(|e| Failure::Usage(e.to_string()))?;
        let usable = |address: &&ForwarderAddress| open(address, sessions).is_ok();
        let first = default.addresses.iter().find(usable).or(default.addresses.first());
        first.map_or(&[][..], std::slice::from_ref)
    } else {
        transports
    };
    if transports.is_empty() || transports.len() * count as usize > FACES_MAX {
        return Err(Failure::Usage(format!("the number of faces must be from 1 to {FACES_MAX}")));
    }
    let mut faces = Vec::new();
    for address in transports {
        for _ in 0..count {
            let mut endpoint = open(address, sessions).map_err(|error| {
                let words = ConnectFailure::of(&error).words();
                kind_of_connect(&error)(format!("{words} {address}: {error}"))
            })?;
            endpoint.set_mtu(mtu);
            faces.push((endpoint, address.clone()));
        }
    }
    Ok(faces)
}

fn open(address: &ForwarderAddress, sessions: &mut Sessions) -> std::io::Result<Endpoint> {
    match address {
        ForwarderAddress::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            note_reached(address, process_of_peer(&stream));
            Endpoint::stream(OwnedFd::from(stream))
        }
        ForwarderAddress::Memif(address) => {
            let secret = ndn_client::memif_secret()?;
            let opened = Endpoint::memif(address, rand::random(), secret);
            opened.map_err(|error| ndn_client::explain_memif(error, address, &secret))
        }
        ForwarderAddress::WebTransport(target) => {
            let service = match sessions {
                Some(service) => service,
                None => sessions.insert(Service::start(None)?),
            };
            let Accepted { stream, mtu, .. } = open_session(service, target)?;
            Endpoint::stream_of_frames(stream, mtu.shared())
        }
        ForwarderAddress::Tcp { host, port, family } => {
            let remote = resolve(host, *port, *family)?;
            let stream = std::net::TcpStream::connect_timeout(&remote, Duration::from_secs(5))?;
            stream.set_nodelay(true)?;
            Endpoint::stream(OwnedFd::from(stream))
        }
        ForwarderAddress::Udp { host, port, family } => {
            let remote = resolve(host, *port, *family)?;
            let local: SocketAddr =
                if remote.is_ipv6() { ([0; 16], 0).into() } else { ([0; 4], 0).into() };
            Endpoint::connected_datagram(local, remote)
        }
    }
}

fn open_session(service: &Service, target: &Target) -> std::io::Result<Accepted> {
    let (sender, opened) = sync_channel(1);
    let report = Box::new(move |result| {
        // The requester waits for it.
        let _ = sender.send(result);
    });
    let _connecting = service.connect(target.clone(), Vec::new(), SESSION_IDLE_TIMEOUT, report);
    let opened = opened.recv().map_err(std::io::Error::other)?;
    opened.map_err(std::io::Error::other)
}

fn resolve(host: &str, port: u16, family: Option<Family>) -> std::io::Result<SocketAddr> {
    let mut found = std::net::ToSocketAddrs::to_socket_addrs(&(host, port))?;
    let fits = |address: &SocketAddr| match family {
        Some(Family::V4) => address.is_ipv4(),
        Some(Family::V6) => address.is_ipv6(),
        None => true,
    };
    found.find(fits).ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into())
}

/// Assigns prefixes to faces: each prefix has one face at each forwarder, in turn. Face `n`
/// connects to `forwarders[n]`.
fn divided<'a, T: PartialEq>(forwarders: &[T], prefixes: &'a [Name]) -> Vec<Vec<&'a Name>> {
    let mut of_faces: Vec<Vec<&Name>> = vec![Vec::new(); forwarders.len()];
    for (index, forwarder) in forwarders.iter().enumerate() {
        let place = forwarders[..index].iter().filter(|one| *one == forwarder).count();
        let faces = forwarders.iter().filter(|one| *one == forwarder).count();
        of_faces[index].extend(prefixes.iter().skip(place).step_by(faces.max(1)));
    }
    of_faces
}

/// Registers each of `prefixes` on one of the faces at each forwarder. UDP faces and their routes
/// are created through `management`, because management does not respond over UDP; they exist as
/// long as the returned value.
pub(super) fn register(
    faces: &mut [(Endpoint, ForwarderAddress)],
    prefixes: &[Name],
    management: Option<&ForwarderAddress>,
    stop: &AtomicBool,
) -> Outcome<Option<Routes>> {
    let forwarders: Vec<ForwarderAddress> =
        faces.iter().map(|(_, address)| address.clone()).collect();
    let divided = divided(&forwarders, prefixes);
    let unused = divided.iter().filter(|prefixes| prefixes.is_empty()).count();
    if unused > 0 {
        output::note(&format!(
            "faces without a prefix: {unused}; each prefix has one at a forwarder"
        ));
    }
    let mut datagrams = Vec::new();
    for ((endpoint, address), prefixes) in faces.iter_mut().zip(divided) {
        match endpoint.local_address() {
            Some(local) => datagrams.push((local, prefixes.into_iter().cloned().collect())),
            None => {
                for prefix in prefixes {
                    register_stream(endpoint, prefix, address)?;
                }
            }
        }
    }
    if datagrams.is_empty() {
        return Ok(None);
    }
    Routes::establish(datagrams, management.cloned(), stop).map(Some)
}

/// Registers each of `prefixes` on one of the faces at each forwarder, over these faces and under /localhop, as remote
/// applications do.
pub(super) fn register_over_links(
    faces: &mut [(Endpoint, ForwarderAddress)],
    prefixes: &[Name],
) -> Outcome {
    let forwarders: Vec<ForwarderAddress> =
        faces.iter().map(|(_, address)| address.clone()).collect();
    for ((endpoint, address), prefixes) in faces.iter_mut().zip(divided(&forwarders, prefixes)) {
        for prefix in prefixes {
            let mut attempts = 1;
            // A link may lose the command or its response.
            while let Err(failure) = register_by(endpoint, prefix, address, LOCALHOP_REGISTER) {
                let is_last = attempts == LINK_ATTEMPTS_MAX;
                if is_last || !matches!(failure, Failure::NoAnswer(_)) {
                    return Err(failure);
                }
                attempts += 1;
            }
        }
    }
    Ok(())
}

/// Registers a prefix on the connection that receives its Interests.
fn register_stream(endpoint: &mut Endpoint, prefix: &Name, address: &ForwarderAddress) -> Outcome {
    // A session is never local.
    let command = match address {
        ForwarderAddress::WebTransport(_) => LOCALHOP_REGISTER,
        ForwarderAddress::Unix(_)
        | ForwarderAddress::Memif(_)
        | ForwarderAddress::Tcp { .. }
        | ForwarderAddress::Udp { .. } => "/localhost/nfd/rib/register",
    };
    register_by(endpoint, prefix, address, command)
}

/// Registers a prefix by the command of this name.
fn register_by(
    endpoint: &mut Endpoint,
    prefix: &Name,
    address: &ForwarderAddress,
    command: &str,
) -> Outcome {
    let failed =
        |text: String| Failure::Failed(format!("registering {prefix} at {address}: {text}"));
    let hint = match address {
        ForwarderAddress::WebTransport(_) => HINT_OF_LOCALHOP,
        ForwarderAddress::Unix(_)
        | ForwarderAddress::Memif(_)
        | ForwarderAddress::Tcp { .. }
        | ForwarderAddress::Udp { .. } => "",
    };
    let parameters =
        ControlParameters { name: Some(prefix.clone()), ..ControlParameters::default() };
    let mut name = Name::from_uri(command).map_err(|error| failed(error.to_string()))?;
    name.push_generic(parameters.to_vec());
    let interest = InterestBuilder::new(&name).must_be_fresh(true).nonce(rand::random());
    let signature_nonce: [u8; 8] = rand::random();
    let time_ms = duration_ms(ndn_sys::clock::wall_clock());
    let anti_replay =
        AntiReplay { nonce: Some(&signature_nonce), time_ms: Some(time_ms), sequence_num: None };
    let interest = sign_interest(&interest, &DigestSigner, &anti_replay)
        .map_err(|error| failed(error.to_string()))?;
    endpoint.push(|out| out.extend_from_slice(&interest));
    endpoint.flush().map_err(|error| failed(error.to_string()))?;
    let mut reply = None;
    while reply.is_none() {
        let mut fds = [PollFd::from_borrowed_fd(endpoint.fd(), PollFlags::IN)];
        let time = Timespec { tv_sec: REPLY_TIMEOUT_S, tv_nsec: 0 };
        match poll(&mut fds, Some(&time)) {
            Ok(0) => return Err(Failure::NoAnswer(format!("no response from {address}{hint}"))),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error.to_string())),
        }
        endpoint
            .receive(|frame, _| {
                // An earlier Interest for a registered prefix is not answered.
                reply = reply_in(frame).or(reply.take());
            })
            .map_err(|error| failed(error.to_string()))?;
    }
    match reply {
        Some(Reply::Nack(reason)) => {
            let text = format!("registering {prefix} at {address}: Nack ({reason}){hint}");
            Err(Failure::NoAnswer(text))
        }
        Some(Reply::Response(response)) if !response.is_ok() => {
            Err(failed(format!("{} {}{hint}", response.code, response.text)))
        }
        Some(Reply::Response(_)) | None => Ok(()),
    }
}

/// Result of a command.
enum Reply {
    Response(ControlResponse),
    /// Management does not respond there.
    Nack(NackReason),
}

fn reply_in(frame: &[u8]) -> Option<Reply> {
    let packet = LpPacket::parse(frame).ok()?;
    // The only pending Interest is the command.
    if let Some(reason) = packet.nack() {
        return Some(Reply::Nack(reason));
    }
    let data = Data::parse(packet.fragment()?).ok()?;
    ControlResponse::decode(data.content()?).ok().map(Reply::Response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prefix_is_registered_once_at_each_forwarder() {
        let prefixes: Vec<Name> =
            ["/a", "/b", "/c"].iter().map(|uri| Name::from_uri(uri).unwrap()).collect();
        // Two forwarders with three faces and one.
        let of_faces = divided(&["x", "y", "x", "x"], &prefixes);
        let [a, b, c] = [&prefixes[0], &prefixes[1], &prefixes[2]];
        assert_eq!(of_faces, [vec![a], vec![a, b, c], vec![b], vec![c]]);
        assert_eq!(divided(&["x", "x"], &prefixes), [vec![a, c], vec![b]]);
        assert_eq!(divided(&["x", "x"], &prefixes[..1]), [vec![a], vec![]]);
    }
}
