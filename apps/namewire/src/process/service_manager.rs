//! Readiness notification for systemd or `namewire start` (sd_notify(3)).

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the path of the socket; `@` stands for the zero byte of abstract names.
pub(crate) const VARIABLE: &str = "NOTIFY_SOCKET";

/// The message.
pub(crate) const READY: &[u8] = b"READY=1\n";

/// Reports that the forwarder is ready, if the variable is set.
pub(super) fn notify_ready() {
    let Some(place) = std::env::var_os(VARIABLE) else { return };
    if let Err(error) = send(&place, READY) {
        tracing::warn!(?place, %error, "cannot notify the service manager");
    }
}

fn send(place: &OsString, message: &[u8]) -> io::Result<()> {
    let address = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(place)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message, &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_abstract_names_are_notified() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("namewire-test-{}", std::process::id());
        let by_name = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        for (socket, place) in [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&by_name).unwrap(), format!("@{name}").into()),
        ] {
            send(&place, READY).unwrap();
            let mut message = [0; 64];
            let length = socket.recv(&mut message).unwrap();
            assert_eq!(&message[..length], READY);
        }
        assert!(send(&"/nowhere/notify".into(), READY).is_err());
    }
}
