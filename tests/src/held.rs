//! Fetches that are not complete until a test lets them be.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::{Application, Endpoint};

/// Gets the Interests for parts of files that `namewire serve` serves, and does not answer them: no fetch of these files is
/// complete before this is dropped.
#[derive(Debug)]
pub struct Held(Application);

impl Held {
    /// Nothing yet.
    #[must_use]
    pub fn nothing(forwarder: &Endpoint) -> Self {
        Self(Application::attach(forwarder.socket()))
    }

    /// Holds a segment of a file.
    pub fn add_segment(&mut self, uri: &str, file: &Path, segment: usize) {
        self.hold(&format!("{}/seg={segment}", with_version(uri, file)));
    }

    /// Holds the contents of a file.
    pub fn add_file(&mut self, uri: &str, file: &Path) {
        self.hold(&with_version(uri, file));
    }

    fn hold(&mut self, uri: &str) {
        // With CAPTURE the server, which has the shorter prefix, is not asked.
        self.0.register(uri, 2);
    }

    /// Whether something of it was requested since the last call, which may have been a moment ago.
    pub fn is_requested(&mut self) -> bool {
        self.0.try_receive(Duration::from_millis(1)).is_some()
    }
}

/// The name of an object that `namewire serve` makes of a file.
///
/// # Panics
/// There is no such file.
#[must_use]
pub fn with_version(uri: &str, file: &Path) -> String {
    let modified = std::fs::metadata(file).expect("a served file");
    let version = modified.mtime() * 1_000_000_000 + modified.mtime_nsec();
    format!("{uri}/v={version}")
}
