//! Commands that a forwarder must refuse, over each kind of face.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ndn_management::{CommandBuilder, ControlParameters, Verb};
use ndn_packet::{Component, InterestBuilder, Name, SignatureInfo};
use ndn_security::{KeySigner, KeyType, Locator, PrivateKey, Signer, key_name};

use super::report::ManagementOptions;
use super::subject::{HOSTILE_PREFIX, Subject};
use crate::relay::clock;

/// Signed commands that are repeated with other Nonces.
const REPLAYED: usize = 64;
const LIFETIME_MS: u64 = 1000;
/// Timeout for the rest of a partly written command.
const TIMEOUT_NS: u64 = 10_000_000_000;

/// Sends hostile commands over a Unix socket, a TCP connection and a UDP socket, in turn.
pub(super) struct Attacker {
    unix: UnixStream,
    tcp: TcpStream,
    udp: UdpSocket,
    rate: u64,
    /// Nanoseconds without a command for them yet.
    credit_ns: u64,
    sent: u64,
    /// Commands signed with an unknown key, and the offset of the byte that makes each a different packet.
    signed: Vec<Vec<u8>>,
}

impl Attacker {
    pub(super) fn new(options: &ManagementOptions, subject: &Subject) -> anyhow::Result<Self> {
        let unix = UnixStream::connect(subject.addresses.socket())?;
        let tcp = TcpStream::connect(("127.0.0.1", options.first_port))?;
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        udp.connect(("127.0.0.1", options.first_port))?;
        unix.set_nonblocking(true)?;
        tcp.set_nonblocking(true)?;
        udp.set_nonblocking(true)?;
        let signed = (0..REPLAYED).map(unknown_peer).collect::<anyhow::Result<_>>()?;
        let rate = u64::from(options.hostile_rate);
        Ok(Self { unix, tcp, udp, rate, credit_ns: 0, sent: 0, signed })
    }

    /// Sends the commands due after `elapsed_ns`; returns their number.
    pub(super) fn send(&mut self, elapsed_ns: u64) -> anyhow::Result<u64> {
        self.credit_ns += elapsed_ns;
        let due = self.credit_ns * self.rate / 1_000_000_000;
        self.credit_ns -= due * 1_000_000_000 / self.rate;
        for _ in 0..due {
            let wire = self.next_command()?;
            self.sent += 1;
            match self.sent % 3 {
                0 => write_whole(&mut self.unix, &wire)?,
                1 => write_whole(&mut self.tcp, &wire)?,
                _ => match self.udp.send(&wire) {
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
                    Ok(_) | Err(_) => {}
                },
            }
        }
        self.drain();
        Ok(due)
    }

    /// Discards the answers.
    fn drain(&mut self) {
        let mut chunk = [0; 64 * 1024];
        while matches!(self.unix.read(&mut chunk), Ok(1..)) {}
        while matches!(self.tcp.read(&mut chunk), Ok(1..)) {}
        while self.udp.recv(&mut chunk).is_ok() {}
    }

    /// Returns the next kind of command.
    fn next_command(&self) -> anyhow::Result<Vec<u8>> {
        let number = self.sent;
        let parameters = ControlParameters {
            name: Some(format!("/{HOSTILE_PREFIX}/{number}").parse()?),
            ..ControlParameters::default()
        };
        let nonce = number.rotate_left(32);
        let time_ms = clock::wall_ns() / 1_000_000;
        let digest_signed = |top: &str, verb| -> anyhow::Result<Vec<u8>> {
            let builder = CommandBuilder::new(top.parse()?).lifetime_ms(LIFETIME_MS);
            Ok(builder.digest_signed_interest(verb, &parameters, nonce, time_ms)?)
        };
        let plain = |name: &Name| -> anyhow::Result<Vec<u8>> {
            let nonce = u32::try_from(number % (1 << 32))?;
            Ok(InterestBuilder::new(name).nonce(nonce).lifetime_ms(LIFETIME_MS).to_vec()?)
        };
        // The kinds rotate over the faces: eight and three are coprime.
        match number % 8 {
            // An unauthorized signer; a module without any authorized signer.
            0 => digest_signed("/localhost/nfd", Verb::RibRegister),
            1 => digest_signed("/localhost/nfd", Verb::CsErase),
            // An invalid signature.
            2 => {
                let mut wire = digest_signed("/localhost/nfd", Verb::RibUnregister)?;
                if let Some(last) = wire.last_mut() {
                    *last ^= 1;
                }
                Ok(wire)
            }
            // A prefix that is not served.
            3 => digest_signed("/localhop/nfd", Verb::RibRegister),
            // No signature.
            4 => plain(&CommandBuilder::default().name(Verb::RibRegister, &parameters)),
            // Malformed parameters.
            5 => {
                let mut name: Name = "/localhost/nfd/rib/register".parse()?;
                name.push_generic(number.to_be_bytes());
                plain(&name)
            }
            // The maximum packet size.
            6 => {
                let mut name: Name = "/localhost/nfd/rib/register".parse()?;
                let mut long = vec![0x68; 8000];
                long[..8].copy_from_slice(&number.to_be_bytes());
                name.push_generic(long);
                plain(&name)
            }
            // Signed with a key without a certificate, as a replay.
            _ => {
                let at = usize::try_from(number / 8)? % self.signed.len();
                Ok(self.signed[at].clone())
            }
        }
    }
}

/// Writes a whole command, or nothing if the socket is full.
fn write_whole(stream: &mut impl Write, wire: &[u8]) -> anyhow::Result<()> {
    let start_ns = clock::monotonic_ns();
    let mut written = 0;
    while written < wire.len() {
        match stream.write(&wire[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if written == 0 {
                    break;
                }
                if clock::monotonic_ns() - start_ns > TIMEOUT_NS {
                    anyhow::bail!("the forwarder does not read");
                }
                clock::pause(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns a command signed with a new key.
fn unknown_peer(number: usize) -> anyhow::Result<Vec<u8>> {
    let key = PrivateKey::generate(KeyType::Ecdsa)?;
    let identity: Name = format!("/unknown/{number}").parse()?;
    let locator = Locator::Name(key_name(identity.as_ref(), Component::generic(b"k")));
    let signer = KeySigner::new(std::sync::Arc::new(key), locator);
    let parameters = ControlParameters {
        name: Some(format!("/{HOSTILE_PREFIX}/signed/{number}").parse()?),
        ..ControlParameters::default()
    };
    let nonce = number.to_be_bytes();
    let time_ms = Some(clock::wall_ns() / 1_000_000);
    let info = SignatureInfo { time_ms, nonce: Some(&nonce), ..signer.signature_info() };
    Ok(CommandBuilder::default().lifetime_ms(LIFETIME_MS).signed_interest(
        Verb::RibRegister,
        &parameters,
        u32::try_from(number)?,
        &info,
        signer.signature_len_max(),
        |parts, out| signer.sign(parts, out).ok(),
    )?)
}
