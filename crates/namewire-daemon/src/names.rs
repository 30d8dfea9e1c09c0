//! Resolves host names of requested faces on separate threads, because a resolver blocks until the servers of the domain
//! answer or time out. Names that users request have threads and a limit of their own, which users share.
//!
//! A DNS answer may be forged. A resolved address is used only as a unicast remote address, never as a multicast
//! group or an address of this system.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ndn_sys::interface;
use ndn_sys::poll::Waker;
use ndn_types::{Capacity, FaceUri, Ledger, LedgerReport, PrincipalIndex, Reserves};
use ndn_webtransport::{Target, TargetError};

use super::faces::FaceSpec;

/// Maximum concurrent look-ups for the configuration and for operators; further ones wait.
const THREADS_MAX: usize = 4;
/// Maximum concurrent look-ups for users, who share these places; further ones are refused. None waits for another: a
/// thread cannot be interrupted while the resolver blocks it.
const LOOKUPS_MAX: usize = 64;
/// Maximum addresses tried per host, one after the other.
const ADDRESSES_MAX: usize = 8;

ndn_types::resource! {
    /// Look-ups of host names, which users share.
    pub(super) struct Lookups = "host_name_lookups";
}

/// Result of a look-up.
#[derive(Debug)]
pub(super) struct LookupResult {
    /// Remote URI, with the host name.
    pub(super) remote: FaceUri,
    /// The requested face.
    pub(super) spec: FaceSpec,
    /// Remote URIs in canonical form, in the order to try; at least one. Those of a WebTransport listener are its addresses.
    pub(super) result: Result<Vec<FaceUri>, String>,
}

/// Function that resolves the host name of a URI.
type Resolve = dyn Fn(&FaceUri) -> Result<Vec<FaceUri>, String> + Send + Sync;

/// Look-ups that wait for a thread.
#[derive(Debug)]
struct LookupQueue {
    waiting: VecDeque<(FaceUri, FaceSpec)>,
    threads: usize,
    threads_max: usize,
}

impl LookupQueue {
    fn new(threads_max: usize) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { waiting: VecDeque::new(), threads: 0, threads_max }))
    }
}

/// The control thread's side.
pub(super) struct HostNames {
    resolve: Arc<Resolve>,
    /// For the configuration and for operators.
    queue: Arc<Mutex<LookupQueue>>,
    /// For users.
    of_users: Arc<Mutex<LookupQueue>>,
    ledger: Ledger<Lookups, 1>,
    /// The user that each of these look-ups is charged to, by ticket.
    charged: HashMap<u64, PrincipalIndex>,
    answers: Receiver<LookupResult>,
    sender: Sender<LookupResult>,
    waker: Arc<Waker>,
    /// Remaining addresses for the faces of these tickets, for use if the current attempt fails. None are known during a
    /// look-up.
    left: HashMap<u64, (VecDeque<FaceUri>, FaceSpec)>,
}

impl fmt::Debug for HostNames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, of_users, left, .. } = self;
        let mut shown = formatter.debug_struct("HostNames");
        shown.field("queue", queue).field("of_users", of_users).field("left", left);
        shown.finish_non_exhaustive()
    }
}

impl HostNames {
    pub(super) fn new(reserves: Reserves) -> std::io::Result<Self> {
        Self::with(reserves, resolve)
    }

    fn with(
        reserves: Reserves,
        resolve: impl Fn(&FaceUri) -> Result<Vec<FaceUri>, String> + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let (sender, answers) = channel();
        let waker = Arc::new(Waker::new()?);
        let (queue, of_users) = (LookupQueue::new(THREADS_MAX), LookupQueue::new(LOOKUPS_MAX));
        let ledger = Ledger::new([Capacity::of(LOOKUPS_MAX)], reserves);
        let (charged, left) = (HashMap::new(), HashMap::new());
        let resolve = Arc::new(resolve);
        Ok(Self { resolve, queue, of_users, ledger, charged, answers, sender, waker, left })
    }

    /// The look-ups that users hold.
    pub(super) fn report(&self) -> LedgerReport<1> {
        self.ledger.report()
    }

    /// Wakes the control thread after answers.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Returns the answers since the last call.
    pub(super) fn take_answers(&mut self) -> Vec<LookupResult> {
        self.waker.reset();
        let mut answers: Vec<LookupResult> = self.answers.try_iter().collect();
        answers.retain(|answer| {
            let Some(ticket) = answer.spec.ticket else { return true };
            self.release(ticket);
            self.left.contains_key(&ticket)
        });
        answers
    }

    fn release(&mut self, ticket: u64) {
        if let Some(user) = self.charged.remove(&ticket) {
            self.ledger.release(user, Lookups, 1);
            self.ledger.detach(user);
        }
    }

    /// Queues a look-up of the host of `uri`.
    ///
    /// # Errors
    /// No thread can be started, or the user who requests the face has too many look-ups.
    pub(super) fn look_up(&mut self, uri: &FaceUri, spec: FaceSpec) -> std::io::Result<()> {
        if let (Some(keeper), Some(ticket)) = (spec.keeper, spec.ticket) {
            let user = self.ledger.attach(keeper);
            if !self.ledger.has_room_beside_others(user, Lookups, 1) {
                self.ledger.detach(user);
                return Err(std::io::Error::other("too many names are being looked up"));
            }
            self.ledger.charge(user, Lookups, 1);
            self.charged.insert(ticket, user);
        }
        let queue = if spec.keeper.is_some() { &self.of_users } else { &self.queue };
        let started = self.start(queue, uri, spec);
        match (spec.ticket, &started) {
            (Some(ticket), Ok(())) => drop(self.left.insert(ticket, (VecDeque::new(), spec))),
            (Some(ticket), Err(_)) => self.release(ticket),
            (None, _) => {}
        }
        started
    }

    fn start(
        &self,
        shared: &Arc<Mutex<LookupQueue>>,
        uri: &FaceUri,
        spec: FaceSpec,
    ) -> std::io::Result<()> {
        let mut queue = lock(shared);
        queue.waiting.push_back((uri.clone(), spec));
        if queue.threads >= queue.threads_max {
            return Ok(());
        }
        let (resolve, shared) = (Arc::clone(&self.resolve), Arc::clone(shared));
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
        let work = move || {
            while let Some((remote, spec)) = next(&shared) {
                let result = resolve(&remote);
                // The receiver is gone only while the forwarder stops.
                let _ = sender.send(LookupResult { remote, spec, result });
                waker.wake();
            }
        };
        match std::thread::Builder::new().name("resolver".to_owned()).spawn(work) {
            Ok(_) => queue.threads += 1,
            Err(error) if queue.threads == 0 => {
                queue.waiting.pop_back();
                return Err(error);
            }
            // The running threads process the queue.
            Err(_) => {}
        }
        Ok(())
    }

    /// Returns the first address; the others are tried if it fails.
    pub(super) fn first_of(&mut self, ends: Vec<FaceUri>, spec: FaceSpec) -> Option<FaceUri> {
        let mut ends = VecDeque::from(ends);
        let first = ends.pop_front();
        if let Some(ticket) = spec.ticket {
            self.left.insert(ticket, (ends, spec));
        }
        first
    }

    /// Returns the next address for the face of this ticket after a failure.
    pub(super) fn next_of(&mut self, ticket: Option<u64>) -> Option<(FaceUri, FaceSpec)> {
        let ticket = ticket?;
        let (ends, spec) = self.left.get_mut(&ticket)?;
        let next = ends.pop_front().map(|end| (end, *spec));
        if next.is_none() {
            self.left.remove(&ticket);
        }
        next
    }

    /// Tries no other address for the face of this ticket. A look-up goes on.
    pub(super) fn forget_others(&mut self, ticket: u64) {
        if let Some((others, _)) = self.left.get_mut(&ticket) {
            others.clear();
        }
    }

    /// Forgets the look-up and the remaining addresses: the face of this ticket exists, or is not requested any more.
    pub(super) fn forget(&mut self, ticket: Option<u64>) {
        if let Some(ticket) = ticket {
            self.left.remove(&ticket);
        }
    }
}

/// Locks the queue. No code panics while it holds the lock.
fn lock(queue: &Mutex<LookupQueue>) -> MutexGuard<'_, LookupQueue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the next look-up of a thread; the thread ends on `None`.
fn next(queue: &Mutex<LookupQueue>) -> Option<(FaceUri, FaceSpec)> {
    let mut queue = lock(queue);
    let next = queue.waiting.pop_front();
    if next.is_none() {
        queue.threads -= 1;
    }
    next
}

/// Returns the canonical forms of a UDP or TCP URI with a host name and a port, or the addresses of a WebTransport
/// listener, in the resolver's order.
fn resolve(uri: &FaceUri) -> Result<Vec<FaceUri>, String> {
    let (host, port) = host_and_port(uri)?;
    let found = (host.as_str(), port).to_socket_addrs();
    let found = found.map_err(|error| format!("{host}: {error}"))?;
    far_ends(uri, &host, found)
}

fn host_and_port(uri: &FaceUri) -> Result<(String, u16), String> {
    if uri.scheme() == "https" {
        let target: Target =
            uri.to_string().parse().map_err(|error: TargetError| error.to_string())?;
        return Ok((target.host, target.port));
    }
    let port = uri.port().parse().map_err(|_| format!("{uri} has no port"))?;
    Ok((uri.host().to_owned(), port))
}

/// Selects the addresses of `host` that the scheme of `uri` permits and that are valid for a remote peer.
fn far_ends(
    uri: &FaceUri,
    host: &str,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<FaceUri>, String> {
    let scheme = uri.scheme();
    let fits = |address: &SocketAddr| match scheme.chars().last() {
        Some('4') => address.is_ipv4(),
        Some('6') => address.is_ipv6(),
        _ => true,
    };
    let (mut ends, mut refused) = (Vec::new(), None);
    for address in found.filter(fits) {
        if let Some(reason) = objection(host, address.ip()) {
            refused.get_or_insert_with(|| format!("{host} is {}: {reason}", address.ip()));
            continue;
        }
        let mut end = match scheme {
            "https" => FaceUri::quic(address),
            _ => FaceUri::from_socket(
                scheme.trim_end_matches(['4', '6']),
                SocketAddr::new(address.ip(), address.port()),
            ),
        };
        if let SocketAddr::V6(address) = address
            && end.lacks_zone()
            && let Some(link) = interface::name_of(address.scope_id())
        {
            end = end.with_zone(&link);
        }
        if !ends.contains(&end) && ends.len() < ADDRESSES_MAX {
            ends.push(end);
        }
    }
    if ends.is_empty() {
        let none = || format!("{host} has no address of this IP version");
        return Err(refused.unwrap_or_else(none));
    }
    Ok(ends)
}

/// Selects the addresses with a socket of their family: UDP faces send from the listeners' sockets. Returns at least
/// one.
pub(super) fn reachable(
    mut ends: Vec<FaceUri>,
    listening: &[SocketAddr],
) -> Result<Vec<FaceUri>, String> {
    let is_open =
        |address: SocketAddr| listening.iter().any(|own| own.is_ipv4() == address.is_ipv4());
    let first = ends.first().map_or_else(String::new, ToString::to_string);
    ends.retain(|end| !end.scheme().starts_with("udp") || end.socket_address().is_none_or(is_open));
    match ends.is_empty() {
        true => Err(format!("{first}: no UDP listener of this IP version is open")),
        false => Ok(ends),
    }
}

/// Returns the objection against an address resolved for this host. A loopback peer may have local scope, so only
/// `localhost` resolves to loopback (RFC 6761, section 6.3), and it resolves to nothing else.
fn objection(host: &str, address: IpAddr) -> Option<&'static str> {
    if host.parse::<IpAddr>().is_ok() {
        // The request names the address itself.
        return None;
    }
    let address = address.to_canonical();
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let is_localhost = host == "localhost" || host.ends_with(".localhost");
    if address.is_unspecified() || is_compatible(address) {
        Some("that is no address of a host")
    } else if address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST) {
        Some("that is a group")
    } else if address.is_loopback() && !is_localhost {
        Some("that is this system, which only `localhost` may stand for")
    } else if !address.is_loopback() && is_localhost {
        Some("that is not this system")
    } else {
        None
    }
}

/// Returns whether the address is a deprecated IPv4-compatible IPv6 address (RFC 4291, section 2.5.5.1).
fn is_compatible(address: IpAddr) -> bool {
    let IpAddr::V6(address) = address else { return false };
    address.segments()[..6] == [0; 6] && !address.is_loopback()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::SocketAddrV6;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ndn_forwarding::PitTokenPolicy;
    use ndn_types::{Persistency, PrincipalKey};

    use super::*;

    fn uri(text: &str) -> FaceUri {
        FaceUri::parse(text).unwrap()
    }

    fn spec(ticket: u64) -> FaceSpec {
        FaceSpec {
            ticket: Some(ticket),
            persistency: Persistency::Permanent,
            keeper: None,
            pit_tokens: PitTokenPolicy::WhenSeen,
            options: ndn_management::request::FaceOptions::default(),
        }
    }

    /// Resolves `text` with these addresses, separated by spaces.
    fn far(text: &str, found: &str) -> Result<String, String> {
        let found = found.split(' ').map(|one| SocketAddr::new(one.parse().unwrap(), 6363));
        let (host, _) = host_and_port(&uri(text))?;
        let ends = far_ends(&uri(text), &host, found)?;
        Ok(ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn names_resolve_to_the_requested_address_family() {
        let resolved = |text: &str| resolve(&uri(text)).map(|ends| ends[0].to_string());
        assert_eq!(resolved("udp4://localhost:6363").unwrap(), "udp4://127.0.0.1:6363");
        assert_eq!(resolved("tcp4://localhost:7000").unwrap(), "tcp4://127.0.0.1:7000");
        let either = resolved("udp://localhost:6363").unwrap();
        assert!(["udp4://127.0.0.1:6363", "udp6://[::1]:6363"].contains(&&*either), "{either}");
        let output = resolved("udp4://no-such-host.invalid:6363").unwrap_err();
        assert!(output.contains("no-such-host.invalid"), "{output}");
        let both = "2001:db8::1 192.0.2.1 2001:db8::1 192.0.2.2";
        let all = "tcp6://[2001:db8::1]:6363 tcp4://192.0.2.1:6363 tcp4://192.0.2.2:6363";
        assert_eq!(far("tcp://host.example:6363", both).unwrap(), all);
        assert_eq!(
            far("udp4://host.example:6363", both).unwrap(),
            "udp4://192.0.2.1:6363 udp4://192.0.2.2:6363"
        );
        let output = far("udp6://host.example:6363", "192.0.2.1").unwrap_err();
        assert!(output.contains("IP version"), "{output}");
        let lo = interface::index_of("lo").unwrap();
        let on_lo = SocketAddrV6::new("fe80::1".parse().unwrap(), 6363, 0, lo).into();
        let ends =
            far_ends(&uri("udp://host.example:6363"), "host.example", [on_lo].into_iter()).unwrap();
        assert_eq!(ends, [uri("udp6://[fe80::1%lo]:6363")]);
        let many: Vec<_> = (1..100).map(|last| format!("192.0.2.{last}")).collect();
        let tried = far("udp://host.example:6363", &many.join(" ")).unwrap();
        assert_eq!(tried.split(' ').count(), ADDRESSES_MAX);
    }

    #[test]
    fn addresses_invalid_for_a_remote_peer_are_rejected() {
        let groups = ["224.0.0.1", "239.1.2.3", "255.255.255.255", "ff02::1", "::ffff:224.0.0.1"];
        let nowhere = ["0.0.0.0", "::", "::ffff:0.0.0.0", "::127.0.0.1"];
        let loopback = ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"];
        for (addresses, reason) in
            [(&groups[..], "a group"), (&nowhere, "no address"), (&loopback, "this system")]
        {
            for address in addresses {
                for (text, other) in [
                    ("udp://host.example:6363", "udp4://192.0.2.1:6363"),
                    ("tcp://host.example:6363", "tcp4://192.0.2.1:6363"),
                    ("https://host.example:6363/ndn", "quic://192.0.2.1:6363"),
                ] {
                    let output = far(text, address).unwrap_err();
                    assert!(output.contains(reason) && output.contains("host.example"), "{output}");
                    assert_eq!(far(text, &format!("{address} 192.0.2.1")).unwrap(), other);
                }
            }
        }
        for name in ["localhost", "LocalHost", "forwarder.localhost", "localhost."] {
            let text = format!("tcp://{name}:6363");
            assert_eq!(far(&text, "192.0.2.1 127.0.0.1").unwrap(), "tcp4://127.0.0.1:6363");
            far(&text, "192.0.2.1").unwrap_err();
        }
        far("tcp://localhost.example:6363", "127.0.0.1").unwrap_err();
        let named = far("https://127.0.0.1:6363/ndn", "127.0.0.1").unwrap();
        assert_eq!(named, "quic://127.0.0.1:6363");
    }

    #[test]
    fn only_address_families_with_a_socket_are_tried() {
        let ends = ["udp6://[2001:db8::1]:6363", "udp4://192.0.2.1:6363"].map(uri);
        let [six, four] = ["[::]:6363", "0.0.0.0:6363"].map(|text| text.parse().unwrap());
        assert_eq!(reachable(ends.to_vec(), &[six, four]).unwrap(), ends);
        assert_eq!(reachable(ends.to_vec(), &[four]).unwrap(), ends[1..]);
        let output = reachable(ends[..1].to_vec(), &[four]).unwrap_err();
        assert!(output.contains("2001:db8::1") && output.contains("UDP listener"), "{output}");
        let connected = vec![uri("tcp6://[2001:db8::1]:6363")];
        assert_eq!(reachable(connected.clone(), &[]).unwrap(), connected);
    }

    #[test]
    fn lookups_use_a_limited_number_of_threads() {
        let running = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let counted = Arc::clone(&running);
        let mut names = HostNames::with(Reserves::default(), move |uri: &FaceUri| {
            let (now, most) = &*counted;
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
            Err(uri.to_string())
        })
        .unwrap();
        let mut missing: BTreeSet<u64> = (0..1000).collect();
        for ticket in missing.clone() {
            names.look_up(&uri(&format!("udp://host{ticket}.example:6363")), spec(ticket)).unwrap();
        }
        while !missing.is_empty() {
            let answer = names.answers.recv().unwrap();
            let ticket = answer.spec.ticket.unwrap();
            assert!(missing.remove(&ticket));
            let output = answer.result.unwrap_err();
            assert!(output.contains(&format!("host{ticket}.example")), "{output}");
        }
        assert!(names.take_answers().is_empty());
        assert!(running.1.load(Ordering::SeqCst) <= THREADS_MAX);
    }

    /// Names of a domain whose servers do not answer for a long time.
    #[test]
    fn slow_look_ups_of_a_user_leave_places_to_others() {
        let (answer, answers) = channel::<()>();
        let answers = Mutex::new(answers);
        let mut names = HostNames::with(Reserves::default(), move |uri: &FaceUri| {
            if uri.host().starts_with("slow") {
                let _ = lock_of(&answers).recv();
            }
            Ok(vec![FaceUri::quic(([192, 0, 2, 1], 6367).into())])
        })
        .unwrap();
        let user = |ticket, uid| {
            let keeper = PrincipalKey::LocalApplication { uid, pid: 0 };
            FaceSpec { keeper: Some(keeper), ..spec(ticket) }
        };
        let slow = |number: u64| uri(&format!("https://slow{number}.example:6367/ndn"));
        let other = uri("https://host.example:6367/ndn");
        let hostile =
            (0..1000).filter(|&ticket| names.look_up(&slow(ticket), user(ticket, 1000)).is_ok());
        // Half of what is open to all, and to users.
        assert_eq!(hostile.count(), 26);
        names.look_up(&other, user(2000, 1001)).unwrap();
        names.look_up(&other, spec(2001)).unwrap();
        let mut answered = [(); 2].map(|()| names.answers.recv().unwrap().spec.ticket.unwrap());
        answered.sort_unstable();
        assert_eq!(answered, [2000, 2001]);
        // Displaced commands wait no longer, but their look-ups go on.
        (0..26).for_each(|ticket| names.forget(Some(ticket)));
        assert!(names.take_answers().is_empty());
        names.look_up(&slow(3000), user(3000, 1000)).unwrap_err();
        drop(answer);
        while names.ledger.used(Lookups) > 1 {
            assert!(names.take_answers().is_empty(), "nobody waits for them");
            std::thread::yield_now();
        }
        names.look_up(&slow(3000), user(3000, 1000)).unwrap();
    }

    fn lock_of(answers: &Mutex<Receiver<()>>) -> MutexGuard<'_, Receiver<()>> {
        answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn addresses_of_a_listener_of_webtransport_are_found() {
        let ends = resolve(&uri("https://localhost:7000/ndn")).unwrap();
        assert!(ends.iter().all(|end| end.socket_address().is_some_and(|end| end.port() == 7000)));
        assert!(!ends.is_empty());
    }

    #[test]
    fn addresses_of_a_host_are_tried_in_order() {
        let mut names = HostNames::new(Reserves::default()).unwrap();
        let ends = ["udp4://192.0.2.1:6363", "udp4://192.0.2.2:6363", "udp4://192.0.2.3:6363"];
        let ends = ends.map(uri);
        assert_eq!(names.first_of(ends.to_vec(), spec(7)).as_ref(), Some(&ends[0]));
        assert!(names.next_of(Some(8)).is_none() && names.next_of(None).is_none());
        assert_eq!(names.next_of(Some(7)).unwrap().0, ends[1]);
        assert_eq!(names.next_of(Some(7)).unwrap().0, ends[2]);
        assert!(names.next_of(Some(7)).is_none());
        assert!(names.left.is_empty());
        // A created face has no further address.
        names.first_of(ends.to_vec(), spec(7)).unwrap();
        names.forget(Some(7));
        assert!(names.next_of(Some(7)).is_none());
    }
}
