//! An application on a Unix socket, packet by packet.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ndn_management::{CommandBuilder, ControlParameters, ControlResponse, Verb};
use ndn_packet::{
    ContentType, Data, DataBuilder, Interest, InterestBuilder, LpHeader, LpPacket, NackReason, Name,
};
use ndn_security::{DigestSigner, sign_data};

use crate::TIMEOUT;
use crate::wire::{PacketReader, data_with_freshness, name};

/// Commands so far: no two of a process are the same.
static COMMANDS: AtomicU64 = AtomicU64::new(1);

/// A packet that an application gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// An Interest: name and Nonce.
    Interest(String, u32),
    /// A Data: name and content.
    Data(String, Vec<u8>),
    /// A Nack: name and Nonce of the Interest, and the reason.
    Nack(String, u32, NackReason),
}

/// A connection to a forwarder.
#[derive(Debug)]
pub struct Application {
    stream: UnixStream,
    reader: PacketReader,
}

impl Application {
    /// Connects.
    ///
    /// # Panics
    /// Nobody listens.
    #[must_use]
    pub fn attach(socket: &Path) -> Self {
        Self::over(UnixStream::connect(socket).expect("the forwarder accepts"))
    }

    /// An application over a connection, such as one of another user.
    ///
    /// # Panics
    /// The connection is closed.
    #[must_use]
    pub fn over(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time-out");
        let reader = PacketReader::new(&stream);
        Self { stream, reader }
    }

    /// Sends a frame.
    ///
    /// # Panics
    /// The forwarder is gone.
    pub fn send(&mut self, frame: &[u8]) {
        self.stream.write_all(frame).expect("the forwarder reads");
    }

    /// Carries out a command below `top`, such as `/localhost/nfd`, and returns the status code.
    ///
    /// # Panics
    /// There is no answer.
    pub fn command(&mut self, top: &str, verb: Verb, parameters: &ControlParameters) -> u32 {
        let number = COMMANDS.fetch_add(1, Ordering::Relaxed);
        let nonce = u64::from(std::process::id()) << 48 | number << 32;
        let wire = CommandBuilder::new(name(top))
            .digest_signed_interest(verb, parameters, nonce, unix_ms() + number)
            .expect("a command");
        self.send(&wire);
        let received = self.receive();
        let Received::Data(_, content) = received else { panic!("{received:?} is no answer") };
        ControlResponse::decode(&content).expect("a response").code
    }

    /// Registers a prefix, with flags of routes.
    ///
    /// # Panics
    /// The forwarder refuses.
    pub fn register(&mut self, prefix: &str, flags: u64) {
        let parameters = ControlParameters {
            name: Some(name(prefix)),
            flags: Some(flags),
            ..ControlParameters::default()
        };
        assert_eq!(self.command("/localhost/nfd", Verb::RibRegister, &parameters), 200, "{prefix}");
    }

    /// Sends an Interest.
    pub fn express(&mut self, uri: &str, nonce: u32) {
        self.express_with(uri, nonce, |interest| interest);
    }

    /// Sends an Interest with more in it.
    ///
    /// # Panics
    /// It cannot be encoded.
    pub fn express_with(
        &mut self,
        uri: &str,
        nonce: u32,
        more: impl for<'a> FnOnce(InterestBuilder<'a>) -> InterestBuilder<'a>,
    ) {
        let name: Name = name(uri);
        let interest = InterestBuilder::new(&name).nonce(nonce).lifetime_ms(20_000);
        self.send(&more(interest).to_vec().expect("an Interest"));
    }

    /// Answers with a Data of this freshness.
    pub fn answer(&mut self, uri: &str, content: &[u8], freshness_ms: Option<u64>) {
        self.send(&data_with_freshness(uri, content, freshness_ms));
    }

    /// Answers with an application Nack of this freshness.
    ///
    /// # Panics
    /// It cannot be encoded.
    pub fn answer_nack(&mut self, uri: &str, freshness_ms: u64) {
        let name = name(uri);
        let nack = DataBuilder::new(&name).content_type(ContentType::NACK);
        let nack = sign_data(&nack.freshness_ms(freshness_ms), &DigestSigner);
        self.send(&nack.expect("a Data"));
    }

    /// Refuses an Interest that came with this Nonce.
    ///
    /// # Panics
    /// It cannot be encoded.
    pub fn refuse(&mut self, uri: &str, nonce: u32, reason: NackReason) {
        let name: Name = name(uri);
        let interest = InterestBuilder::new(&name).nonce(nonce).lifetime_ms(20_000);
        let interest = interest.to_vec().expect("an Interest");
        let header = LpHeader { nack: Some(reason), ..LpHeader::default() };
        let mut frame = vec![0; header.encoded_len(interest.len()) + interest.len()];
        header.write(&interest, &mut frame).expect("room for a Nack");
        self.send(&frame);
    }

    /// The next packet.
    ///
    /// # Panics
    /// None comes.
    pub fn receive(&mut self) -> Received {
        self.try_receive(TIMEOUT).expect("a packet")
    }

    /// The next packet, if one comes within this time.
    ///
    /// # Panics
    /// The received bytes are not a packet.
    pub fn try_receive(&mut self, timeout: Duration) -> Option<Received> {
        self.stream.set_read_timeout(Some(timeout)).expect("a time-out");
        let frame = self.reader.next_frame()?;
        let packet = LpPacket::parse(&frame).expect("a frame");
        let wire = packet.fragment().expect("a packet");
        if let Ok(data) = Data::parse(wire) {
            let content = data.content().unwrap_or_default().to_vec();
            return Some(Received::Data(data.name().to_owned().to_string(), content));
        }
        let interest = Interest::parse(wire).expect("an Interest");
        let name = interest.name().to_owned().to_string();
        let nonce = interest.nonce().expect("a Nonce");
        Some(match packet.nack() {
            Some(reason) => Received::Nack(name, nonce, reason),
            None => Received::Interest(name, nonce),
        })
    }

    /// Receives an Interest, whatever it asks for: name and Nonce.
    ///
    /// # Panics
    /// Something else comes.
    pub fn receive_interest(&mut self) -> (String, u32) {
        let received = self.receive();
        let Received::Interest(name, nonce) = received else { panic!("{received:?}") };
        (name, nonce)
    }

    /// Receives an Interest for `uri` and returns its Nonce.
    ///
    /// # Panics
    /// Something else comes.
    pub fn expect_interest(&mut self, uri: &str) -> u32 {
        let (name, nonce) = self.receive_interest();
        assert_eq!(name, uri);
        nonce
    }

    /// Receives a Data named `uri` and returns its content.
    ///
    /// # Panics
    /// Something else comes.
    pub fn expect_data(&mut self, uri: &str) -> Vec<u8> {
        let received = self.receive();
        let Received::Data(name, content) = received else { panic!("{uri}: {received:?}") };
        assert_eq!(name, uri);
        content
    }

    /// Answers Interests, each with its name, until one asks for `last`; returns the names in their
    /// order.
    ///
    /// # Panics
    /// Something else comes.
    pub fn serve_until(&mut self, last: &str) -> Vec<String> {
        let mut names = Vec::new();
        while names.last().is_none_or(|name| name != last) {
            let (name, _) = self.receive_interest();
            self.answer(&name, name.as_bytes(), Some(3_600_000));
            names.push(name);
        }
        names
    }
}

/// The time of day in milliseconds since 1970, which commands carry.
///
/// # Panics
/// The clock is wrong.
#[expect(clippy::disallowed_methods, reason = "commands are judged by the real clock")]
#[must_use]
pub fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(now.expect("after 1970").as_millis()).expect("in this age")
}
