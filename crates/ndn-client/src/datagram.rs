//! What is known of datagrams on their way: those that come, and those that nobody took.

use std::io::{self, ErrorKind};

use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Waits until something can be received, or the kernel has heard by ICMP what became of an earlier datagram:
/// then, what.
pub(crate) async fn readable(socket: &UdpSocket) -> io::Result<Option<io::Error>> {
    loop {
        let ready = socket.ready(Interest::READABLE | Interest::ERROR).await?;
        if ready.is_error() {
            let error = socket.take_error()?;
            // Nothing was done with it: so it is waited for anew.
            let _ = socket.try_io(Interest::ERROR, || Err::<(), _>(ErrorKind::WouldBlock.into()));
            if error.is_some() {
                return Ok(error);
            }
        }
        if ready.is_readable() || ready.is_read_closed() {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[tokio::test]
    async fn refusals_are_heard_one_by_one_and_data_between_them() {
        // Not where other tests look for free ports.
        let peer = UdpSocket::bind("127.77.0.1:0").await.unwrap();
        let address = peer.local_addr().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(address).await.unwrap();
        let own = socket.local_addr().unwrap();
        drop(peer);
        for _ in 0..3 {
            socket.send(&[1]).await.unwrap();
            let error = readable(&socket).await.unwrap().unwrap();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
        let peer = UdpSocket::bind(address).await.unwrap();
        peer.send_to(&[2], own).await.unwrap();
        assert!(readable(&socket).await.unwrap().is_none());
        let mut buffer = [0; 8];
        assert_eq!(socket.try_recv(&mut buffer).unwrap(), 1);
    }
}
