//! Signs the forwarder's own commands with the key chain.
//!
//! Other programs lock the files of the key chain, so a separate thread reads them ([`read_for`]). The control thread
//! sends it a question, continues, and is woken by the answer.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ndn_keychain::{Access, KeyChain, KeyChainError, Locations};
use ndn_management::readvertise::{CommandSigner, DigestCommandSigner, Signing, UnsignedCommand};
use ndn_packet::{Name, SignatureInfo};
use ndn_security::{KeySigner, Signer};
use ndn_sys::poll::Waker;
use ndn_types::{Now, Timestamp};
use tracing::{info, warn};

/// Lifetime of a cached answer, so that thousands of routes do not read the key chain as often.
const TRUSTED_TIME: Duration = Duration::from_secs(10);
/// Retry interval while another program locks the key chain.
const LOCKED_PAUSE: Duration = Duration::from_millis(250);

/// A question to the reading thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Question {
    /// The list of identities.
    Identities,
    /// The key of an identity, or of the default identity.
    Key(Option<Name>),
}

/// The answer to a question.
#[derive(Debug, Clone)]
enum Found {
    Identities(Vec<Name>),
    Key(Arc<KeySigner>),
    /// The key chain does not exist or is empty, and no key was requested.
    Digest,
    /// The key cannot be used.
    Nothing,
}

type Reading = Result<Found, KeyChainError>;
/// Function that reads the key chain.
type Reader = dyn Fn(&Question) -> Reading + Send;

/// State of a question.
#[derive(Debug, Default)]
struct Known {
    found: Option<Found>,
    read_at: Timestamp,
    /// The reading thread has the question.
    is_asked: bool,
}

/// Signs with identities of the key chain, which is read on demand.
pub(super) struct KeyChainSigner {
    /// The reading thread starts with the first question.
    reader: Option<Box<Reader>>,
    questions: Option<Sender<Question>>,
    answers: Option<Receiver<(Question, Reading)>>,
    waker: Arc<Waker>,
    known: HashMap<Question, Known>,
    /// Another program locks the key chain.
    is_locked: bool,
    /// The last error of the key chain.
    complaint: Option<String>,
}

impl std::fmt::Debug for KeyChainSigner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KeyChainSigner").finish_non_exhaustive()
    }
}

impl KeyChainSigner {
    /// `default` signs if no identity is requested; without it, the default identity of the key chain does.
    ///
    /// # Errors
    /// Errors of `eventfd(2)`.
    pub(super) fn new(default: Option<Name>) -> io::Result<Self> {
        Self::reading(Box::new(move |question| read(question, default.as_ref())))
    }

    fn reading(reader: Box<Reader>) -> io::Result<Self> {
        Ok(Self {
            reader: Some(reader),
            questions: None,
            answers: None,
            waker: Arc::new(Waker::new()?),
            known: HashMap::new(),
            is_locked: false,
            complaint: None,
        })
    }

    /// Wakes the control thread after the key chain was read.
    pub(super) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Returns the cached answer; `None` while it is being read. While another program locks the key chain, a
    /// previously read key stays valid; the absence of a key does not.
    fn poll(&mut self, now: Now, question: &Question) -> Option<Found> {
        self.take_answers(now);
        let known = self.known.entry(question.clone()).or_default();
        let is_recent = now.monotonic - known.read_at < TRUSTED_TIME;
        if is_recent && known.found.is_some() {
            return known.found.clone();
        }
        if !std::mem::replace(&mut known.is_asked, true) && !self.ask(question) {
            self.known.remove(question);
            return Some(Found::Nothing);
        }
        let known = self.known.get(question)?;
        let is_usable = |found: &Found| self.is_locked && !matches!(found, Found::Digest);
        known.found.clone().filter(is_usable)
    }

    /// Sends a question to the reading thread, and starts the thread if necessary.
    fn ask(&mut self, question: &Question) -> bool {
        if let Some(reader) = self.reader.take() {
            let (questions, received) = channel();
            let (sender, answers) = channel();
            let waker = self.waker();
            let serve = move || read_for(&received, &sender, &waker, &*reader);
            match std::thread::Builder::new().name("key chain".to_owned()).spawn(serve) {
                Ok(_) => (self.questions, self.answers) = (Some(questions), Some(answers)),
                Err(error) => warn!(%error, "no thread can be started to read the key chain"),
            }
        }
        self.questions.as_ref().is_some_and(|questions| questions.send(question.clone()).is_ok())
    }

    fn take_answers(&mut self, now: Now) {
        let answers: Vec<_> =
            self.answers.as_ref().map(|all| all.try_iter().collect()).unwrap_or_default();
        for (question, reading) in answers {
            if let Err(error @ KeyChainError::Locked(_)) = &reading {
                if !std::mem::replace(&mut self.is_locked, true) {
                    warn!(%error, "key chain locked: commands of the forwarder wait, or are signed with the previous key");
                }
                continue;
            }
            if std::mem::take(&mut self.is_locked) {
                info!("key chain unlocked");
            }
            self.complain(&question, &reading);
            let found = reading.unwrap_or(match question {
                Question::Identities => Found::Identities(Vec::new()),
                Question::Key(_) => Found::Nothing,
            });
            let known = Known { found: Some(found), read_at: now.monotonic, is_asked: false };
            self.known.insert(question, known);
        }
    }

    /// Logs an error of the key chain once, and its end.
    fn complain(&mut self, question: &Question, reading: &Reading) {
        let complaint = match (question, reading) {
            (Question::Key(_), Err(error)) => {
                warn!(%error, "a command of the forwarder cannot be signed");
                return;
            }
            (Question::Key(_), Ok(_)) => return,
            (Question::Identities, Ok(Found::Identities(all))) if all.is_empty() => {
                Some("it has no identity".to_owned())
            }
            (Question::Identities, Ok(_)) => None,
            (Question::Identities, Err(error)) => Some(error.to_string()),
        };
        match (&complaint, &self.complaint) {
            (Some(reason), earlier) if Some(reason) != earlier.as_ref() => {
                warn!(reason, "the key chain has no identity to sign commands of the forwarder");
            }
            (None, Some(_)) => info!("the key chain can be used again"),
            (Some(_) | None, _) => {}
        }
        self.complaint = complaint;
    }
}

/// Main function of the reading thread: answers questions until the channel is closed. Reports a locked key chain as
/// locked and retries.
fn read_for(
    questions: &Receiver<Question>,
    answers: &Sender<(Question, Reading)>,
    waker: &Waker,
    reader: &Reader,
) {
    while let Ok(question) = questions.recv() {
        loop {
            let reading = reader(&question);
            let is_locked = matches!(reading, Err(KeyChainError::Locked(_)));
            if answers.send((question.clone(), reading)).is_err() {
                return;
            }
            waker.wake();
            if !is_locked {
                break;
            }
            std::thread::sleep(LOCKED_PAUSE);
        }
    }
}

fn read(question: &Question, default: Option<&Name>) -> Reading {
    let open = || KeyChain::open(Locations::from_environment()?, Access::Read);
    let identity = match question {
        Question::Identities => {
            let all = open()?.identities()?.into_iter();
            return Ok(Found::Identities(all.map(|identity| identity.name).collect()));
        }
        Question::Key(identity) => identity.as_ref(),
    };
    let spec = identity.or(default);
    let signer = open().and_then(|chain| match spec {
        Some(name) => chain.signer(name.as_ref()),
        None => chain.signer(chain.default_identity()?.as_ref()),
    });
    match signer {
        Ok(signer) => Ok(Found::Key(Arc::new(signer))),
        // Without a key chain, a digest suffices, as in ndn-cxx.
        Err(KeyChainError::NoKeyChain(_) | KeyChainError::NoDefaultIdentity) if spec.is_none() => {
            Ok(Found::Digest)
        }
        Err(error) => Err(error),
    }
}

impl CommandSigner for KeyChainSigner {
    fn sign(
        &mut self,
        now: Now,
        command: &UnsignedCommand<'_>,
        identity: Option<&Name>,
    ) -> Signing {
        let signer = match self.poll(now, &Question::Key(identity.cloned())) {
            None => return Signing::Later,
            Some(Found::Key(signer)) => signer,
            Some(Found::Digest) => return DigestCommandSigner.sign(now, command, None),
            Some(Found::Nothing | Found::Identities(_)) => return Signing::Impossible,
        };
        let UnsignedCommand { builder, verb, parameters, nonce, time_ms } = *command;
        let nonce_bytes = nonce.to_be_bytes();
        let [a, b, c, d, ..] = nonce_bytes;
        let info = SignatureInfo {
            nonce: Some(&nonce_bytes),
            time_ms: Some(time_ms),
            ..signer.signature_info()
        };
        let sign = |parts: &[&[u8]], out: &mut [u8]| signer.sign(parts, out).ok();
        let (nonce, length) = (u32::from_be_bytes([a, b, c, d]), signer.signature_len_max());
        match builder.signed_interest(verb, parameters, nonce, &info, length, sign) {
            Ok(wire) => Signing::Signed(wire),
            Err(_) => Signing::Impossible,
        }
    }

    fn identities(&mut self, now: Now) -> Option<Vec<Name>> {
        match self.poll(now, &Question::Identities)? {
            Found::Identities(all) => Some(all),
            Found::Key(_) | Found::Digest | Found::Nothing => Some(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::VecDeque;
    use std::path::PathBuf;
    use std::sync::Mutex;

    use ndn_management::client::CommandBuilder;
    use ndn_management::{ControlParameters, Verb};
    use ndn_packet::{Interest, SignatureType};
    use ndn_security::{KeyType, Locator, PrivateKey};
    use ndn_sys::poll::{Events, Poller};

    use super::*;

    /// A key chain that gives these answers in order.
    struct Scene {
        signer: KeyChainSigner,
        readings: Arc<Mutex<VecDeque<Reading>>>,
        poller: Poller,
        now: Now,
        time_ms: u64,
    }

    fn locked() -> Reading {
        Err(KeyChainError::Locked(PathBuf::from("pib.db")))
    }

    fn key() -> Found {
        let key = PrivateKey::generate(KeyType::Ecdsa).unwrap();
        let locator = Locator::Name("/me/KEY/k".parse().unwrap());
        Found::Key(Arc::new(KeySigner::new(Arc::new(key), locator)))
    }

    impl Scene {
        fn new() -> Self {
            let readings: Arc<Mutex<VecDeque<Reading>>> = Arc::default();
            let shared = Arc::clone(&readings);
            let read =
                move |_: &Question| shared.lock().unwrap().pop_front().unwrap_or_else(locked);
            let signer = KeyChainSigner::reading(Box::new(read)).unwrap();
            let poller = Poller::new().unwrap();
            poller.add_waker(&signer.waker(), 0).unwrap();
            let monotonic = Timestamp::from_nanos(1 << 40);
            let now = Now { monotonic, unix: Duration::from_micros(1 << 50) };
            Self { signer, readings, poller, now, time_ms: 0 }
        }

        fn read_next(&self, reading: Reading) {
            self.readings.lock().unwrap().push_back(reading);
        }

        fn sign(&mut self) -> Signing {
            self.time_ms += 1;
            let command = UnsignedCommand {
                builder: &CommandBuilder::default(),
                verb: Verb::RibRegister,
                parameters: &ControlParameters::default(),
                nonce: self.time_ms,
                time_ms: self.time_ms,
            };
            self.signer.sign(self.now, &command, None)
        }

        /// Returns the outcome of a command once the thread has answered often enough.
        fn signed(&mut self, done: impl Fn(&Signing, &KeyChainSigner) -> bool) -> Signing {
            loop {
                let signing = self.sign();
                if done(&signing, &self.signer) {
                    return signing;
                }
                let mut events = Events::with_capacity(1);
                self.poller.wait(&mut events, Some(Duration::from_secs(60))).unwrap();
                assert!(!events.is_empty(), "the thread says nothing");
                self.signer.waker.reset();
            }
        }

        fn wait(&mut self) {
            self.now.monotonic += TRUSTED_TIME;
        }
    }

    fn kind(signing: &Signing) -> SignatureType {
        let Signing::Signed(wire) = signing else { panic!("{signing:?}") };
        Interest::parse(wire).unwrap().signature_info().unwrap().unwrap().signature_type
    }

    #[test]
    fn commands_wait_for_a_locked_key_chain_instead_of_using_a_digest() {
        let mut scene = Scene::new();
        assert_eq!(scene.sign(), Signing::Later);
        assert_eq!(scene.signed(|_, signer| signer.is_locked), Signing::Later);
        scene.read_next(Ok(key()));
        let signing = scene.signed(|signing, _| *signing != Signing::Later);
        assert_eq!(kind(&signing), SignatureType::SHA256_WITH_ECDSA);
        assert!(!scene.signer.is_locked);
        // While locked, a previously read key stays valid for a limited time.
        scene.wait();
        assert_eq!(scene.sign(), Signing::Later);
        let signing = scene.signed(|signing, _| *signing != Signing::Later);
        assert_eq!(kind(&signing), SignatureType::SHA256_WITH_ECDSA);
        assert!(scene.signer.is_locked);
        scene.read_next(Err(KeyChainError::NotFound("/me".to_owned())));
        scene.signed(|signing, _| *signing == Signing::Impossible);
    }

    #[test]
    fn without_a_key_chain_commands_carry_a_digest() {
        let mut scene = Scene::new();
        scene.read_next(Ok(Found::Digest));
        let signing = scene.signed(|signing, _| *signing != Signing::Later);
        assert_eq!(kind(&signing), SignatureType::DIGEST_SHA256);
        // A key chain may exist by now.
        scene.wait();
        assert_eq!(scene.signed(|_, signer| signer.is_locked), Signing::Later);
    }

    #[test]
    fn failed_key_chain_is_read_again_later() {
        let mut scene = Scene::new();
        scene.read_next(Err(KeyChainError::NotFound("/me".to_owned())));
        scene.signed(|signing, _| *signing == Signing::Impossible);
        assert_eq!(scene.sign(), Signing::Impossible, "it is not read for every command");
        scene.wait();
        scene.read_next(Ok(key()));
        scene.signed(|signing, _| matches!(signing, Signing::Signed(_)));
    }
}
