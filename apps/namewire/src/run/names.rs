//! Host names of configured faces, looked up by threads of their own: a resolver may take its time.

use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use ndn_management::FaceUri;
use ndn_sys::poll::Waker;

use super::faces::Wanted;

/// What became of a look-up.
#[derive(Debug)]
pub(super) struct Answer {
    /// What for.
    pub(super) wanted: Wanted,
    /// The far end, in canonical form.
    pub(super) result: Result<FaceUri, String>,
}

/// The control thread's side.
#[derive(Debug)]
pub(super) struct HostNames {
    answers: Receiver<Answer>,
    sender: Sender<Answer>,
    waker: Arc<Waker>,
}

impl HostNames {
    pub(super) fn new() -> std::io::Result<Self> {
        let (sender, answers) = channel();
        Ok(Self { answers, sender, waker: Arc::new(Waker::new()?) })
    }

    /// What wakes when there are answers.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// What has come since the last time.
    pub(super) fn take_answers(&mut self) -> Vec<Answer> {
        self.waker.reset();
        self.answers.try_iter().collect()
    }

    /// Begins to look the host of `uri` up.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(super) fn look_up(&self, uri: &FaceUri, wanted: Wanted) -> std::io::Result<()> {
        let (uri, sender, waker) = (uri.clone(), self.sender.clone(), Arc::clone(&self.waker));
        let look = move || {
            let result = resolve(&uri);
            // If nobody takes it, the forwarder is about to end.
            let _ = sender.send(Answer { wanted, result });
            waker.wake();
        };
        std::thread::Builder::new().name("resolver".to_owned()).spawn(look).map(drop)
    }
}

/// The canonical form of a UDP or TCP URI with a host name and a port.
fn resolve(uri: &FaceUri) -> Result<FaceUri, String> {
    let scheme = uri.scheme();
    let port: u16 = uri.port().parse().map_err(|_| format!("{uri} has no port"))?;
    let found = (uri.host(), port).to_socket_addrs();
    let mut found = found.map_err(|error| format!("{}: {error}", uri.host()))?;
    let fits = |address: &std::net::SocketAddr| match scheme.chars().last() {
        Some('4') => address.is_ipv4(),
        Some('6') => address.is_ipv6(),
        _ => true,
    };
    let address = found.find(fits);
    let address =
        address.ok_or_else(|| format!("{} has no address of this IP version", uri.host()))?;
    Ok(FaceUri::from_socket(scheme.trim_end_matches(['4', '6']), address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_addresses_of_the_family_that_is_asked_for() {
        let resolved = |text: &str| resolve(&FaceUri::parse(text).unwrap());
        assert_eq!(resolved("udp4://localhost:6363").unwrap().to_string(), "udp4://127.0.0.1:6363");
        assert_eq!(resolved("tcp4://localhost:7000").unwrap().to_string(), "tcp4://127.0.0.1:7000");
        let either = resolved("udp://localhost:6363").unwrap().to_string();
        assert!(["udp4://127.0.0.1:6363", "udp6://[::1]:6363"].contains(&&*either), "{either}");
        let said = resolved("udp4://no-such-host.invalid:6363").unwrap_err();
        assert!(said.contains("no-such-host.invalid"), "{said}");
    }
}
