//! Interface to the embedding program: requests, log levels, announcement.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namewire_config::{Config, Log};
use namewire_control::{LogSelection, LogStream};
use ndn_sys::poll::Waker;

/// Requests a stop or a reload of a running forwarder, from any thread.
#[derive(Debug, Clone)]
pub struct Requests {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Requests {
    /// # Errors
    /// No file descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            stop: Arc::new(AtomicBool::new(false)),
            reload: Arc::new(AtomicBool::new(false)),
            waker: Arc::new(Waker::new()?),
        })
    }

    /// Requests a stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Requests a reload of the configuration.
    pub fn reload(&self) {
        self.reload.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Returns whether a stop was requested.
    #[must_use]
    pub fn is_stop_requested(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Returns whether a reload was requested since the last call. The caller resets the waker before the call: a
    /// request during or after the call wakes it again.
    pub(crate) fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::AcqRel)
    }

    /// Readable after a request.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}

/// Log levels of the embedding program, which the control socket displays and changes.
pub trait LogControl: Send + Sync {
    /// Returns the levels in force, in the syntax of [`Self::set`].
    fn directives(&self) -> String;

    /// Changes the levels for `namewire log`.
    ///
    /// # Errors
    /// The directives are malformed; no level has changed.
    fn set(&self, directives: &str) -> Result<(), String>;

    /// Applies the levels of a reloaded configuration.
    ///
    /// # Errors
    /// The levels stay as they were.
    fn apply(&self, settings: &Log) -> Result<(), String>;

    /// Reopens the log file after a rename.
    ///
    /// # Errors
    /// The log continues in the renamed file.
    fn reopen(&self) -> Result<(), String>;

    /// Follows the log for `namewire log --follow`.
    ///
    /// # Errors
    /// The program has no log to follow, or too many clients follow it.
    fn follow(&self, selection: LogSelection) -> Result<LogStream, String>;
}

/// Log control of a program whose log levels cannot change.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLogControl;

impl LogControl for NoLogControl {
    fn directives(&self) -> String {
        String::new()
    }

    fn set(&self, _: &str) -> Result<(), String> {
        Err("this program has no log levels to change".to_owned())
    }

    fn apply(&self, _: &Log) -> Result<(), String> {
        Ok(())
    }

    fn reopen(&self) -> Result<(), String> {
        Ok(())
    }

    fn follow(&self, _: LogSelection) -> Result<LogStream, String> {
        Err("this program has no log to follow".to_owned())
    }
}

/// Source of a reloaded configuration.
pub struct ConfigSource {
    /// Reads the settings of the file, with the command-line options applied.
    pub read: Box<dyn Fn() -> Result<Config, String> + Send>,
    /// Whether a configuration file exists.
    pub has_file: bool,
    /// Options of the command line, each with the settings that it determines, for the answer to a reload.
    pub overrides: Vec<String>,
}

impl fmt::Debug for ConfigSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ConfigSource")
            .field("has_file", &self.has_file)
            .finish_non_exhaustive()
    }
}

/// Callbacks and requests of the embedding program. The control thread calls them.
pub struct Hooks {
    /// Requests to stop the forwarder or to reload `source`.
    pub requests: Requests,
    /// Configuration for a reload.
    pub source: ConfigSource,
    /// Log levels of the program.
    pub log: Arc<dyn LogControl>,
    /// Called with the listening addresses once the forwarder accepts connections and management is reachable.
    pub on_listening: Box<dyn FnMut(&str) + Send>,
}

impl Hooks {
    /// Hooks of a program without a configuration file and without log levels to change, which stops the forwarder
    /// with its handle.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn none() -> io::Result<Self> {
        let read = || Err("there is no configuration file".to_owned());
        Ok(Self {
            requests: Requests::new()?,
            source: ConfigSource { read: Box::new(read), has_file: false, overrides: Vec::new() },
            log: Arc::new(NoLogControl),
            on_listening: Box::new(|_| {}),
        })
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Hooks")
            .field("requests", &self.requests)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ndn_sys::poll::{Events, Poller};

    use super::*;

    #[test]
    fn request_between_reset_and_flag_keeps_the_waker_readable() {
        let requests = Requests::new().unwrap();
        let poller = Poller::new().unwrap();
        poller.add_waker(requests.waker(), 1).unwrap();
        let mut ready = Events::with_capacity(4);
        requests.reload();
        requests.waker().reset();
        requests.reload();
        assert!(requests.take_reload());
        poller.wait(&mut ready, Some(Duration::ZERO)).unwrap();
        assert!(!ready.is_empty(), "the control thread reads the flag again");
        assert!(!requests.take_reload());
    }
}
