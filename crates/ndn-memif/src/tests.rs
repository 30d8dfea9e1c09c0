#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its numbers are small"
)]

mod handshakes;
mod hostile;
mod model;

use ndn_sys::interrupt::Interrupter;
use ndn_sys::seqpacket;

use crate::{
    ClientHandshake, ClientOptions, Connection, HandshakeError, Progress, Received, Sent,
    ServerHandshake, ServerOptions,
};

/// A client and a server in one process.
pub(crate) fn connect(options: ClientOptions) -> (Connection, Connection) {
    let (near, far) = seqpacket::pair().unwrap();
    let client = ClientHandshake::new(near, options);
    finish((client, ServerHandshake::new(far, ServerOptions::default()).unwrap()))
}

/// Lets both sides talk until they are connected.
fn finish(
    (mut client, mut server): (ClientHandshake, ServerHandshake),
) -> (Connection, Connection) {
    loop {
        client = match client.advance().unwrap() {
            Progress::Waiting(client) => client,
            Progress::Done(_) => panic!("the client is done before the server"),
        };
        server = match server.advance(|_, _| Ok(())).unwrap() {
            Progress::Waiting(server) => server,
            Progress::Done(server) => {
                let Progress::Done(client) = client.advance().unwrap() else {
                    panic!("the client still waits");
                };
                return (*client, *server);
            }
        }
    }
}

/// Sends `frame` from one side to the other.
fn transfer(
    interrupter: &mut Interrupter,
    from: &mut Connection,
    to: &mut Connection,
    frame: &[u8],
) -> Received {
    assert_eq!(from.senders[0].send(&[frame]).unwrap(), Sent::Queued);
    from.senders[0].publish(interrupter).unwrap();
    let mut buffer = vec![0; 65_536];
    let received = to.receivers[0].receive(&mut buffer).unwrap();
    if let Received::Frame(length) = received {
        assert_eq!(&buffer[..length], frame);
    }
    to.receivers[0].release().unwrap();
    received
}
