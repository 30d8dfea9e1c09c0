//! What the program that embeds a forwarder provides: requests, the log's levels, where to announce.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namewire_config::{Config, Log};
use ndn_sys::poll::Waker;

/// Asks a running forwarder to stop or to read its configuration again, from any thread.
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

    /// Asks the forwarder to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Asks the forwarder to read its configuration again.
    pub fn reload(&self) {
        self.reload.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether a stop was requested.
    #[must_use]
    pub fn is_stop_requested(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether a reload was requested since the last call.
    pub(crate) fn take_reload(&self) -> bool {
        let is_requested = self.reload.swap(false, Ordering::AcqRel);
        if is_requested {
            self.waker.reset();
        }
        is_requested
    }

    /// Readable once something was requested.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}

/// The levels of the embedding program's log, which the control socket shows and changes.
pub trait LogControl: Send + Sync {
    /// The levels in force, in the form that [`Self::set`] reads.
    fn directives(&self) -> String;

    /// Changes levels, as `namewire log` does.
    ///
    /// # Errors
    /// The directives are malformed; no level has changed.
    fn set(&self, directives: &str) -> Result<(), String>;

    /// Uses the levels of a configuration that was read again.
    ///
    /// # Errors
    /// The levels stay as they were.
    fn apply(&self, settings: &Log) -> Result<(), String>;

    /// Opens the log's file again, after it was renamed.
    ///
    /// # Errors
    /// The log stays in the file that was renamed.
    fn reopen(&self) -> Result<(), String>;
}

/// A program whose log has no levels to change.
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
}

/// Reads the configuration again.
pub struct ConfigSource {
    /// The settings of the file, as the options of the command line change them.
    pub read: Box<dyn Fn() -> Result<Config, String> + Send>,
    /// There is a file.
    pub has_file: bool,
}

impl fmt::Debug for ConfigSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ConfigSource")
            .field("has_file", &self.has_file)
            .finish_non_exhaustive()
    }
}

/// What the embedding program provides. The control thread calls it.
pub struct Hooks {
    /// Stops the forwarder, or has it read `source`.
    pub requests: Requests,
    /// The configuration after a reload request.
    pub source: ConfigSource,
    /// The levels of the program's log.
    pub log: Arc<dyn LogControl>,
    /// Called once the forwarder accepts connections and management can be reached, with lines that say where.
    pub on_listening: Box<dyn FnMut(&str) + Send>,
}

impl Hooks {
    /// For a program that has neither a configuration file nor a log whose levels change, and stops the forwarder by
    /// its handle.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn none() -> io::Result<Self> {
        let read = || Err("there is no configuration file".to_owned());
        Ok(Self {
            requests: Requests::new()?,
            source: ConfigSource { read: Box::new(read), has_file: false },
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
