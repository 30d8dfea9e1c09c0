//! Management of a forwarder over its Unix socket.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ndn_management::{
    CallError, CommandBuilder, ControlParameters, ControlResponse, Management, Verb, status,
};
use ndn_packet::tlv::frame_len;
use ndn_packet::{Data, Interest, LpPacket, Name, NameRef};
use ndn_sys::clock::Clock;
use ndn_types::Persistency;

/// Time for the answer to an Interest.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// Attempts of a command or a segment of a dataset: a forwarder may accept connections before its management answers.
const ATTEMPTS_MAX: usize = 5;
/// Commands that wait for their answers at the same time.
const COMMANDS_WAITING_MAX: usize = 32;
/// Longest answer.
const REPLY_LEN_MAX: usize = 64 * 1024;

/// Time of the last command that was signed for a forwarder, milliseconds of Unix time: NFD refuses a command whose time is not
/// later than that of the one before, or two minutes in the future.
pub(super) type LastCommand = Arc<AtomicU64>;

/// A connection to a forwarder that sends commands one after the other.
#[derive(Debug)]
pub(super) struct Operator {
    stream: UnixStream,
    clock: Clock,
    last_command: LastCommand,
    buffer: Vec<u8>,
}

impl Operator {
    /// Connects to the Unix socket of a forwarder.
    pub(super) fn connect(
        socket: &Path,
        clock: &Clock,
        last_command: &LastCommand,
    ) -> std::io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let (clock, last_command) = (clock.clone(), LastCommand::clone(last_command));
        Ok(Self { stream, clock, last_command, buffer: Vec::new() })
    }

    /// Creates a persistent face, or makes the one persistent whose peer has sent first, as forwarders with VIP do. Returns its
    /// FaceId.
    pub(super) fn create_face(&mut self, uri: &str) -> Result<u64, CallError> {
        let persistency = Some(Persistency::Persistent.number());
        let uri = Some(uri.to_owned());
        let parameters = ControlParameters { uri, persistency, ..ControlParameters::default() };
        let interest = self.command_interest(Verb::FaceCreate, &parameters)?;
        let response = answer(&self.exchange(interest)?)?;
        let face_id = response.parameters().ok().and_then(|parameters| parameters.face_id);
        let refused = || CallError::Refused { code: response.code, text: response.text.clone() };
        match (response.code, face_id) {
            (status::OK, Some(face_id)) => Ok(face_id),
            (status::CONFLICT, Some(_)) => {
                let parameters =
                    ControlParameters { face_id, persistency, ..ControlParameters::default() };
                let updated = self.command(Verb::FaceUpdate, &parameters)?;
                updated.face_id.or(face_id).ok_or_else(refused)
            }
            _ => Err(refused()),
        }
    }

    /// The connection, whose face has the routes that were registered for it.
    pub(super) fn into_stream(self) -> UnixStream {
        self.stream
    }

    fn try_exchange(&mut self, interest: &[u8]) -> std::io::Result<Vec<u8>> {
        let asked = Interest::parse(interest).map_err(std::io::Error::other)?.name();
        // The answer to an earlier Interest for the same dataset, which was repeated, is not this one's.
        self.discard_received()?;
        self.stream.write_all(interest)?;
        Ok(self.receive(|name| name.starts_with(asked).then_some(()))?.1)
    }

    /// Discards the frames that have arrived.
    fn discard_received(&mut self) -> std::io::Result<()> {
        let mut chunk = [0; 16 * 1024];
        self.stream.set_nonblocking(true)?;
        let ended = loop {
            match self.stream.read(&mut chunk) {
                // The next read finds the end of the connection again.
                Ok(0) => break Ok(()),
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.stream.set_nonblocking(false)?;
        while let Ok(Some(len)) = frame_len(&self.buffer)
            && len <= self.buffer.len()
        {
            self.buffer.drain(..len);
        }
        ended
    }

    /// The next Data for which `find` finds by its name what it answers.
    fn receive<T>(
        &mut self,
        find: impl Fn(NameRef<'_>) -> Option<T>,
    ) -> std::io::Result<(T, Vec<u8>)> {
        let mut chunk = [0; 16 * 1024];
        loop {
            while let Ok(Some(len)) = frame_len(&self.buffer)
                && len <= self.buffer.len()
            {
                let rest = self.buffer.split_off(len);
                let frame = std::mem::replace(&mut self.buffer, rest);
                let fragment = LpPacket::parse(&frame).ok().and_then(|lp| lp.fragment());
                // Interests of others that a route leads here, Nacks, and Data for what was given up are no answers.
                let data = fragment.and_then(|packet| Some((packet, Data::parse(packet).ok()?)));
                let found = data.and_then(|(packet, data)| Some((find(data.name())?, packet)));
                if let Some((found, packet)) = found {
                    return Ok((found, packet.to_vec()));
                }
            }
            let count = self.stream.read(&mut chunk)?;
            if count == 0 || self.buffer.len() > REPLY_LEN_MAX {
                return Err(std::io::Error::other("the forwarder closed the connection"));
            }
            self.buffer.extend_from_slice(&chunk[..count]);
        }
    }

    /// Performs commands, several at a time: there may be a million.
    ///
    /// # Errors
    /// The number of the first command that was not performed, and why.
    pub(super) fn commands(
        &mut self,
        verb: Verb,
        all: impl Iterator<Item = ControlParameters>,
    ) -> Result<(), (usize, CallError)> {
        let mut all = all.enumerate().fuse();
        // Numbers and names of commands.
        let mut waiting: VecDeque<(usize, Name)> = VecDeque::new();
        let no_answer = |error: std::io::Error| CallError::NoAnswer(error.to_string());
        loop {
            while waiting.len() < COMMANDS_WAITING_MAX
                && let Some((number, parameters)) = all.next()
            {
                let interest = self.command_interest(verb, &parameters);
                let interest = interest.map_err(|error| (number, error))?;
                let name = Interest::parse(&interest).map(|parsed| parsed.name().to_name());
                waiting.push_back((number, name.map_err(|error| (number, malformed(&error)))?));
                let written = self.stream.write_all(&interest);
                written.map_err(|error| (number, no_answer(error)))?;
            }
            let Some(&(oldest, _)) = waiting.front() else { return Ok(()) };
            let find = |answer: NameRef<'_>| {
                waiting.iter().position(|(_, name)| answer.starts_with(name.as_ref()))
            };
            let answered = self.receive(find);
            let (at, data) = answered.map_err(|error| (oldest, no_answer(error)))?;
            let number = waiting.remove(at).map_or(oldest, |(number, _)| number);
            performed(&data).map_err(|error| (number, error))?;
        }
    }

    fn command_interest(
        &mut self,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<Vec<u8>, CallError> {
        let unix_ms = self.unix_ms();
        CommandBuilder::default()
            .digest_signed_interest(verb, parameters, self.clock.now().as_nanos(), unix_ms)
            .map_err(|error| malformed(&error))
    }
}

impl Management for Operator {
    fn exchange(&mut self, interest: Vec<u8>) -> Result<Vec<u8>, CallError> {
        let mut interest = interest;
        let mut attempt = 1;
        loop {
            // An Interest of the same name and Nonce as one before is a duplicate. Signatures do not cover the Nonce.
            let at = Interest::parse(&interest).ok().and_then(|parsed| parsed.nonce_offset());
            if let Some(nonce) = at.and_then(|at| interest.get_mut(at..at + 4)) {
                nonce.copy_from_slice(&(self.clock.now().as_nanos() as u32).to_be_bytes());
            }
            match self.try_exchange(&interest) {
                Ok(data) => return Ok(data),
                Err(error) if attempt == ATTEMPTS_MAX => {
                    return Err(CallError::NoAnswer(format!("no answer to a command: {error}")));
                }
                Err(_) => attempt += 1,
            }
        }
    }

    fn nonce(&mut self) -> u32 {
        ndn_management::nonce_at(self.clock.now())
    }

    fn unix_ms(&self) -> u64 {
        let now_ms = self.clock.unix_time().as_millis() as u64;
        let next = |last: u64| now_ms.max(last + 1);
        let last = &self.last_command;
        let last = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        next(last.unwrap_or(0))
    }

    fn command(
        &mut self,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, CallError> {
        let interest = self.command_interest(verb, parameters)?;
        performed(&self.exchange(interest)?)
    }
}

/// The answer to a command.
fn answer(data: &[u8]) -> Result<ControlResponse, CallError> {
    let data = Data::parse(data).map_err(|error| malformed(&error))?;
    let response = ControlResponse::decode(data.content().unwrap_or_default());
    response.map_err(|error| malformed(&error))
}

/// The parameters in the answer to a command that was performed.
fn performed(data: &[u8]) -> Result<ControlParameters, CallError> {
    let response = answer(data)?;
    if response.code != status::OK {
        return Err(CallError::Refused { code: response.code, text: response.text });
    }
    response.parameters().map_err(|error| malformed(&error))
}

fn malformed(error: &dyn std::fmt::Display) -> CallError {
    CallError::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use ndn_packet::DataBuilder;
    use ndn_security::{DigestSigner, sign_data};
    use ndn_sys::clock::ManualClock;
    use ndn_types::Timestamp;

    use super::*;

    #[test]
    fn answers_belong_to_the_commands_of_their_names() {
        let (stream, mut forwarder) = UnixStream::pair().unwrap();
        let clock = ManualClock::new(Timestamp::from_millis(1), Duration::from_secs(1_700_000_000));
        let mut operator = Operator {
            stream,
            clock: clock.into(),
            last_command: LastCommand::default(),
            buffer: Vec::new(),
        };
        let answers = std::thread::spawn(move || {
            let mut read = Vec::new();
            let mut interests = Vec::new();
            while interests.len() < 2 {
                let mut chunk = [0; 4096];
                let count = forwarder.read(&mut chunk).unwrap();
                read.extend_from_slice(&chunk[..count]);
                while let Some(len) = frame_len(&read).unwrap().filter(|len| *len <= read.len()) {
                    let rest = read.split_off(len);
                    interests.push(std::mem::replace(&mut read, rest));
                }
            }
            let names = interests.iter().map(|interest| Interest::parse(interest).unwrap().name());
            let [first, second] = <[NameRef<'_>; 2]>::try_from(names.collect::<Vec<_>>()).unwrap();
            // An answer to a command that was given up; then those to both, the second one first.
            let earlier: Name = "/localhost/nfd/rib/register/earlier".parse().unwrap();
            for (name, code) in [(earlier.as_ref(), 400), (second, 403), (first, status::OK)] {
                let content = ControlResponse::new(code, "text").to_vec();
                let data = DataBuilder::new(name).content(&content);
                forwarder.write_all(&sign_data(&data, &DigestSigner).unwrap()).unwrap();
            }
        });
        let parameters = ["/first", "/second"].map(|name| ControlParameters {
            name: Some(name.parse().unwrap()),
            ..ControlParameters::default()
        });
        let failed = operator.commands(Verb::RibRegister, parameters.into_iter()).unwrap_err();
        answers.join().unwrap();
        assert!(matches!(failed, (1, CallError::Refused { code: 403, .. })), "{failed:?}");
    }
}
