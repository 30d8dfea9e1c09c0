//! Queries to the control socket of the forwarder, for what management does not report. Without
//! access to a control socket at its default path, they return nothing.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use ndn_client::{Endpoint, ForwarderAddress};
use ndn_management::{ControlResponse, status};
use ndn_packet::tlv::frame_len;
use ndn_packet::{ContentType, DataBuilder, Interest, LpPacket, Name};
use ndn_security::DigestSigner;
use ndn_sys::peer::StoppedProcess;
use rustix::io::Errno;
use tokio::sync::oneshot;

use super::failure::{Failure, Outcome};
use namewire_control::{
    ControlClient, ControlError, FaceLimit, LinkCounters, MemifStatus, WaitingFace,
    WorkerStatistics,
};

/// Maximum time for an explanation.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The same for a query that blocks nothing else: a busy host takes seconds.
const SOON: Duration = Duration::from_secs(3);

fn connect(endpoint: &Endpoint) -> Option<ControlClient> {
    let Some(ForwarderAddress::Unix(path)) = endpoint.address() else { return None };
    ControlClient::connect(&path.with_extension("control.sock")).ok()
}

/// Link counters by FaceId.
pub(super) fn links(endpoint: &Endpoint) -> BTreeMap<u64, LinkCounters> {
    let mut links = BTreeMap::new();
    let Some(mut client) = connect(endpoint) else { return links };
    let mut after = None;
    loop {
        match client.links(after) {
            Ok(some) if !some.is_empty() => links.extend(some),
            Ok(_) | Err(_) => return links,
        }
        after = links.keys().next_back().copied();
    }
}

/// Link counters of these faces.
pub(super) fn links_of(
    client: &mut ControlClient,
    faces: impl IntoIterator<Item = u64>,
) -> BTreeMap<u64, LinkCounters> {
    let mut links = BTreeMap::new();
    for face_id in faces {
        // An answer has those of the following faces, too.
        if !links.contains_key(&face_id) {
            match client.links(face_id.checked_sub(1)) {
                Ok(some) => links.extend(some),
                Err(_) => break,
            }
        }
    }
    links
}

/// Executes a query for an explanation on a thread of its own, as even connecting blocks while nothing accepts. None after
/// [`SOON`].
pub(super) async fn soon<T: Send + 'static>(
    endpoint: &Endpoint,
    query: impl FnOnce(&mut ControlClient) -> Option<T> + Send + 'static,
) -> Option<T> {
    let Some(ForwarderAddress::Unix(path)) = endpoint.address() else { return None };
    let path = path.with_extension("control.sock");
    let (sender, answer) = oneshot::channel();
    std::thread::spawn(move || {
        let client = ControlClient::connect(&path).ok();
        let found = client.and_then(|client| query(&mut client.with_timeout(SOON)));
        // The receiver may have given up.
        let _ = sender.send(found);
    });
    tokio::time::timeout(SOON, answer).await.ok()?.ok().flatten()
}

/// Packets dropped by the links of all faces, by reason.
pub(super) fn dropped(links: &BTreeMap<u64, LinkCounters>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (reason, count) in links.values().flat_map(|link| &link.drops) {
        *sums.entry(reason.clone()).or_default() += count;
    }
    sums
}

/// The counters of the workers.
pub(super) fn workers(endpoint: &Endpoint) -> Vec<WorkerStatistics> {
    let client = connect(endpoint);
    let statistics = client.and_then(|mut client| client.statistics().ok());
    statistics.map(|statistics| statistics.workers).unwrap_or_default()
}

/// Memory of the Content Store in use, bytes.
pub(super) fn cs_bytes(workers: &[WorkerStatistics]) -> Option<u64> {
    (!workers.is_empty()).then(|| workers.iter().map(|one| one.shard.cs_bytes).sum())
}

/// The replacement policy of the Content Store.
pub(super) fn cs_policy(endpoint: &Endpoint) -> Option<String> {
    Some(connect(endpoint)?.cs_policy().ok()?.policy)
}

/// Puts another replacement policy of the Content Store in force. Returns it.
///
/// # Errors
/// There is no control socket for this user, or the forwarder refuses.
pub(super) fn set_cs_policy(endpoint: &Endpoint, policy: String) -> Outcome<String> {
    let mut client = connect(endpoint).ok_or_else(|| {
        Failure::Unreachable(
            "--policy: the policy is changed over the control socket, which a Unix socket of this host leads to".to_owned(),
        )
    })?;
    Ok(client.set_cs_policy(policy)?.policy)
}

/// The number of faces and its limit.
pub(super) fn face_limit(endpoint: &Endpoint) -> Option<FaceLimit> {
    connect(endpoint)?.face_limit().ok()
}

/// The first of these addresses that a connection would reach, if its forwarder has reached its
/// limit of faces. The others do not matter.
pub(super) fn full_among(
    addresses: Vec<ForwarderAddress>,
) -> Option<(ForwarderAddress, FaceLimit)> {
    let reached = addresses.into_iter().find(is_there)?;
    let limit = is_full(&reached)?;
    Some((reached, limit))
}

/// Whether a process listens at this address. No connection is made, because that would create a
/// face.
fn is_there(address: &ForwarderAddress) -> bool {
    let ForwarderAddress::Unix(path) = address else { return true };
    // Connecting a socket of another type to a stream socket fails with EPROTOTYPE only if a
    // process has it.
    let tried = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    tried.map_or_else(|error| Errno::from_io_error(&error) == Some(Errno::PROTOTYPE), |()| true)
}

/// Whether the forwarder at this address has reached its limit of faces. The query has a short
/// timeout, as the forwarder may hang.
pub(super) fn is_full(address: &ForwarderAddress) -> Option<FaceLimit> {
    limit_soon(address)?.ok().filter(FaceLimit::is_reached)
}

/// A stream to the management of a forwarder, over its control socket instead of a face.
///
/// # Errors
/// There is no control socket for this user.
pub(super) fn management_stream(address: &ForwarderAddress) -> Result<UnixStream, ControlError> {
    let path = match address {
        ForwarderAddress::Unix(path) => path.with_extension("control.sock"),
        ForwarderAddress::Memif(_)
        | ForwarderAddress::Tcp { .. }
        | ForwarderAddress::Udp { .. }
        | ForwarderAddress::WebTransport(_) => PathBuf::new(),
    };
    let client = ControlClient::connect(&path)?;
    let (near, far) = UnixStream::pair()?;
    std::thread::spawn(move || {
        // The command reports that its stream has ended.
        if let Err(error) = serve_management(client, &far) {
            tracing::debug!(%error, "management over the control socket ended");
        }
    });
    Ok(near)
}

/// Answers the Interests of a stream, one after the other, until it ends. An Interest that is refused is answered with an
/// application Nack, which has the reason.
fn serve_management(mut client: ControlClient, mut stream: &UnixStream) -> io::Result<()> {
    let (mut buffer, mut part) = (Vec::new(), [0; 8192]);
    loop {
        while let Some(length) = frame_len(&buffer).map_err(io::Error::other)? {
            if buffer.len() < length {
                break;
            }
            let frame: Vec<u8> = buffer.drain(..length).collect();
            let packet = LpPacket::parse(&frame).map_err(io::Error::other)?;
            let Some(interest) = packet.fragment() else { continue };
            match client.management(interest.to_vec()).map(|answer| answer.data) {
                Ok(data) => stream.write_all(&data)?,
                Err(error) => {
                    stream.write_all(&refusal(interest, &error)?)?;
                    // After another error, a later answer may belong to this Interest.
                    if !matches!(error, ControlError::Refused(_)) {
                        return Err(io::Error::other(error));
                    }
                }
            }
        }
        match stream.read(&mut part)? {
            0 => return Ok(()),
            length => buffer.extend_from_slice(&part[..length]),
        }
    }
}

/// An application Nack with the reason why there is no other answer to this Interest.
fn refusal(interest: &[u8], error: &ControlError) -> io::Result<Vec<u8>> {
    let name = Interest::parse(interest).map_err(io::Error::other)?.name().to_name();
    let content = ControlResponse::new(status::INTERNAL_ERROR, error.to_string()).to_vec();
    let data = DataBuilder::new(&name).content_type(ContentType::NACK).content(&content);
    ndn_security::sign_data(&data, &DigestSigner).map_err(io::Error::other)
}

/// Queries the limit of faces of the forwarder at this address. None if there is no control socket, the forwarder is stopped, or
/// there is no response within [`TIMEOUT`]: even connecting blocks while nothing accepts.
fn limit_soon(address: &ForwarderAddress) -> Option<Result<FaceLimit, ControlError>> {
    let ForwarderAddress::Unix(path) = address else { return None };
    let path = path.with_extension("control.sock");
    if !path.exists() {
        return None;
    }
    let (sender, answer) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let client = ControlClient::connect(&path).map(|client| client.with_timeout(TIMEOUT));
        let limit = match client {
            Ok(client) if client.process().and_then(StoppedProcess::with_id).is_some() => return,
            Ok(mut client) => client.face_limit(),
            Err(error) => Err(error),
        };
        // The receiver may have given up.
        let _ = sender.send(limit);
    });
    answer.recv_timeout(TIMEOUT).ok()
}

/// The state of the memif listener, if there is one.
pub(super) fn memif(endpoint: &Endpoint) -> Option<MemifStatus> {
    let status = connect(endpoint)?.memif().ok()?;
    status.is_listening.then_some(status)
}

/// The faces of [`waiting_faces`] to which Interests with this name would be forwarded.
pub(super) async fn waiting_for(endpoint: &Endpoint, name: &Name) -> Vec<WaitingFace> {
    let name = name.clone();
    soon(endpoint, |client| client.waiting_faces_for(name).ok()).await.unwrap_or_default()
}

/// Faces that are being created or reconnected.
pub(super) fn waiting_faces(endpoint: &Endpoint) -> Vec<WaitingFace> {
    let client = connect(endpoint);
    client.and_then(|mut client| client.waiting_faces().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use namewire_control::ManagementData;
    use ndn_packet::{Data, InterestBuilder};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

    use super::*;

    #[test]
    fn listening_socket_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nfd.sock");
        let address = ForwarderAddress::Unix(path.clone());
        assert!(!is_there(&address), "no file");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        assert!(is_there(&address));
        assert!(listener.accept().is_err(), "there was no connection");
        drop(listener);
        assert!(path.exists() && !is_there(&address), "a socket that was left behind");
    }

    /// A forwarder's sockets, and an answer about its faces.
    fn with_faces(directory: &Path, faces: u64) -> UnixListener {
        std::fs::create_dir(directory).unwrap();
        let control = UnixListener::bind(directory.join("nfd.control.sock")).unwrap();
        std::thread::spawn(move || {
            let limit = FaceLimit { faces, faces_max: 3, refused: 0 };
            let answer = serde_json::json!({ "result": limit });
            for stream in control.incoming() {
                let mut stream = stream.unwrap();
                BufReader::new(&stream).read_line(&mut String::new()).unwrap();
                stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
            }
        });
        UnixListener::bind(directory.join("nfd.sock")).unwrap()
    }

    #[test]
    fn only_the_reachable_forwarder_is_queried() {
        let directory = tempfile::tempdir().unwrap();
        let [absent, room, full] =
            ["absent", "room", "full"].map(|name| directory.path().join(name));
        let _listeners = (with_faces(&room, 2), with_faces(&full, 3));
        let found = |order: &[&Path]| {
            let address = |directory: &&Path| ForwarderAddress::Unix(directory.join("nfd.sock"));
            let found = full_among(order.iter().map(address).collect());
            found.map(|(address, _)| address.to_string())
        };
        let of_full = Some(format!("unix://{}/nfd.sock", full.display()));
        assert_eq!(found(&[&room, &full]), None);
        assert_eq!(found(&[&full, &room]), of_full);
        assert_eq!(found(&[&absent, &full]), of_full);
        assert_eq!(found(&[&absent, &room, &full]), None);
        std::fs::remove_file(room.join("nfd.control.sock")).unwrap();
        assert_eq!(found(&[&room, &full]), None, "it may be full: there is no response");
    }

    #[test]
    fn rejected_interest_gets_the_reason_and_the_stream_continues() {
        let (near, far) = UnixStream::pair().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nfd.control.sock");
        let control = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = control.accept().unwrap();
            let mut requests = BufReader::new(stream.try_clone().unwrap());
            let name = Name::from_uri("/b").unwrap();
            let data = DataBuilder::new(&name).content(b"x");
            let data = ndn_security::sign_data(&data, &DigestSigner).unwrap();
            let data = ManagementData { data };
            for answer in [
                serde_json::json!({ "error": "management is turned off" }),
                serde_json::json!({ "result": data }),
            ] {
                requests.read_line(&mut String::new()).unwrap();
                stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
            }
        });
        let client = ControlClient::connect(&path).unwrap();
        std::thread::spawn(move || serve_management(client, &far));
        let receive = |uri: &str| {
            let interest = InterestBuilder::new(&Name::from_uri(uri).unwrap()).to_vec().unwrap();
            (&near).write_all(&interest).unwrap();
            let mut wire = vec![0; 8192];
            let length = (&near).read(&mut wire).unwrap();
            wire.truncate(length);
            wire
        };
        let refused = receive("/a");
        let refused = Data::parse(&refused).unwrap();
        assert_eq!(refused.content_type(), ContentType::NACK);
        let response = ControlResponse::decode(refused.content().unwrap()).unwrap();
        assert_eq!((response.code, response.text.as_str()), (500, "management is turned off"));
        let answered = receive("/b");
        assert_eq!(Data::parse(&answered).unwrap().content(), Some(&b"x"[..]));
    }

    #[test]
    fn only_pages_of_the_asked_faces_are_fetched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nfd.control.sock");
        let control = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = control.accept().unwrap();
            let mut requests = BufReader::new(stream.try_clone().unwrap());
            let mut afters = Vec::new();
            let mut line = String::new();
            while requests.read_line(&mut line).unwrap() > 0 {
                let request: serde_json::Value = serde_json::from_str(&line).unwrap();
                line.clear();
                let after = request["params"]["after"].as_u64().unwrap();
                afters.push(after);
                let counters = |id: u64| (id, LinkCounters::default());
                let page = BTreeMap::from([after + 1, after + 2].map(counters));
                let answer = serde_json::json!({ "result": page });
                stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
            }
            afters
        });
        let mut client = ControlClient::connect(&path).unwrap();
        let links = links_of(&mut client, [300, 301, 900]);
        drop(client);
        assert_eq!(links.into_keys().collect::<Vec<_>>(), [300, 301, 900, 901]);
        assert_eq!(server.join().unwrap(), [299, 899]);
    }

    /// A stopped forwarder whose backlog is full: connecting would block.
    #[test]
    fn full_backlog_does_not_block() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nfd.control.sock");
        let flags = SocketFlags::CLOEXEC;
        let socket = || {
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
        };
        let (listener, client) = (socket(), socket());
        let address = SocketAddrUnix::new(&path).unwrap();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        rustix::net::connect(&client, &address).unwrap();
        assert!(is_full(&ForwarderAddress::Unix(directory.path().join("nfd.sock"))).is_none());
    }
}
