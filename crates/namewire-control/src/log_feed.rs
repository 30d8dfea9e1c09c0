//! The messages of the log for its readers: `log.follow`.
//!
//! The feed keeps the latest messages, so that a reader first sees what has happened before. A reader that is too slow
//! loses messages and learns their number; the threads that log never wait for one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Number of messages that a feed keeps.
pub(crate) const LOG_KEPT_MAX: usize = 500;
/// Maximum length of a message, bytes. Longer ones are cut and end with `…`.
pub(crate) const LOG_MESSAGE_MAX: usize = 2048;
/// Maximum number of messages that wait for a reader: more than a feed keeps.
const QUEUE: usize = 2048;
/// Maximum number of readers.
const READERS_MAX: usize = 16;

/// The severity of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogSeverity {
    /// Details of single packets.
    #[default]
    Trace,
    /// Single requests.
    Debug,
    /// Something changed.
    Info,
    /// Something does not work as configured.
    Warn,
    /// Something failed.
    Error,
}

impl LogSeverity {
    /// All levels, the least serious first.
    pub const ALL: [Self; 5] = [Self::Trace, Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// The name of the level.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// A message of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogMessage {
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// The level.
    pub level: LogSeverity,
    /// The module that logged it, such as `ndn_dataplane::worker`.
    pub module: String,
    /// The text, and its fields as `name=value`; at most 2,048 bytes.
    pub message: String,
}

/// A line of a followed log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLine {
    /// A message.
    Message(LogMessage),
    /// Messages that were lost so far, because there were too many.
    Lost(u64),
}

/// Selects messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSelection {
    /// The least serious level.
    pub level: LogSeverity,
    /// Only messages of this module and of its parts.
    pub module: Option<String>,
}

impl LogSelection {
    fn accepts(&self, message: &LogMessage) -> bool {
        let is_of = |module: &str| {
            let rest = message.module.strip_prefix(module);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        message.level >= self.level && self.module.as_deref().is_none_or(is_of)
    }
}

#[derive(Debug)]
struct Reader {
    selection: LogSelection,
    messages: SyncSender<LogMessage>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<LogMessage>,
    readers: Vec<Reader>,
}

/// The latest messages of a log, and its readers.
#[derive(Clone, Debug, Default)]
pub struct LogFeed(Arc<Mutex<State>>);

impl LogFeed {
    /// Adds a message.
    pub fn add(&self, mut message: LogMessage) {
        if message.message.len() > LOG_MESSAGE_MAX {
            let end = message.message.floor_char_boundary(LOG_MESSAGE_MAX - '…'.len_utf8());
            message.message.truncate(end);
            message.message.push('…');
        }
        let mut state = self.lock();
        state.readers.retain(|reader| {
            if !reader.selection.accepts(&message) {
                return true;
            }
            match reader.messages.try_send(message.clone()) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    reader.lost.fetch_add(1, Ordering::Relaxed);
                    true
                }
                Err(TrySendError::Disconnected(_)) => false,
            }
        });
        if state.kept.len() == LOG_KEPT_MAX {
            state.kept.pop_front();
        }
        state.kept.push_back(message);
    }

    /// Follows the messages that are selected: those that are kept, and all later ones.
    ///
    /// # Errors
    /// There are too many readers.
    pub fn follow(&self, selection: LogSelection) -> Result<LogStream, String> {
        let mut state = self.lock();
        // A reader that has ended is noticed by the next message.
        state.readers.retain(|reader| Arc::strong_count(&reader.lost) > 1);
        if state.readers.len() >= READERS_MAX {
            return Err(format!("{READERS_MAX} clients follow the log already"));
        }
        let (messages, received) = sync_channel(QUEUE);
        for message in state.kept.iter().filter(|message| selection.accepts(message)) {
            // The queue has room for all that are kept.
            let _ = messages.try_send(message.clone());
        }
        let lost = Arc::<AtomicU64>::default();
        state.readers.push(Reader { selection, messages, lost: Arc::clone(&lost) });
        Ok(LogStream { received, lost })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A followed log. Dropping it ends it.
pub struct LogStream {
    received: Receiver<LogMessage>,
    lost: Arc<AtomicU64>,
}

impl LogStream {
    /// The next message; waits for it for this time.
    ///
    /// # Errors
    /// There is none in time, or the log has ended.
    pub fn next(&self, timeout: Duration) -> Result<LogMessage, RecvTimeoutError> {
        self.received.recv_timeout(timeout)
    }

    /// Messages that were lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for LogStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LogStream").field("lost", &self.lost()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: LogSeverity, module: &str, text: &str) -> LogMessage {
        LogMessage { unix_ms: 1, level, module: module.to_owned(), message: text.to_owned() }
    }

    fn texts(stream: &LogStream) -> Vec<String> {
        std::iter::from_fn(|| stream.next(Duration::ZERO).ok()).map(|one| one.message).collect()
    }

    #[test]
    fn reader_receives_what_is_kept_and_what_follows_of_its_selection() {
        let feed = LogFeed::default();
        feed.add(message(LogSeverity::Info, "ndn_dataplane::worker", "first"));
        feed.add(message(LogSeverity::Debug, "ndn_dataplane", "fine"));
        feed.add(message(LogSeverity::Error, "ndn_dataplanes", "of another"));
        let module = Some("ndn_dataplane".to_owned());
        let stream = feed.follow(LogSelection { level: LogSeverity::Info, module }).unwrap();
        feed.add(message(LogSeverity::Warn, "ndn_dataplane", "second"));
        assert_eq!(texts(&stream), ["first", "second"]);
        assert_eq!(texts(&feed.follow(LogSelection::default()).unwrap()).len(), 4);
    }

    #[test]
    fn slow_reader_loses_messages_and_the_feed_keeps_the_latest() {
        let feed = LogFeed::default();
        let slow = feed.follow(LogSelection::default()).unwrap();
        for number in 0..QUEUE + 3 {
            feed.add(message(LogSeverity::Info, "namewire", &number.to_string()));
        }
        assert_eq!((slow.lost(), texts(&slow).len()), (3, QUEUE));
        let kept = texts(&feed.follow(LogSelection::default()).unwrap());
        assert_eq!((kept.len(), kept[0].as_str()), (LOG_KEPT_MAX, "1551"));
    }

    #[test]
    fn number_of_readers_and_length_of_messages_are_limited() {
        let feed = LogFeed::default();
        let long = "é".repeat(LOG_MESSAGE_MAX);
        feed.add(message(LogSeverity::Info, "namewire", &long));
        let readers: Vec<_> =
            (0..READERS_MAX).map(|_| feed.follow(LogSelection::default()).unwrap()).collect();
        feed.follow(LogSelection::default()).unwrap_err();
        let text = readers[0].next(Duration::ZERO).unwrap().message;
        assert!(text.len() <= LOG_MESSAGE_MAX && text.ends_with("é…"), "{}", text.len());
        drop(readers);
        feed.follow(LogSelection::default()).unwrap();
    }
}
