//! The log of the forwarders in this process.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tracing_subscriber::filter::LevelFilter;

/// The lines of all forwarders in this process, whose tests run in parallel.
static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A position in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position(usize);

impl Position {
    /// The end of the log, which is kept from the first call on.
    ///
    /// # Panics
    /// The limit of open files cannot be raised.
    pub(crate) fn end() -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            // Forwarders and their peers share the descriptors of this process.
            ndn_sys::cpu::raise_descriptor_limit().expect("the limit of open files");
            tracing_subscriber::fmt()
                .with_max_level(LevelFilter::INFO)
                .with_ansi(false)
                .with_thread_names(true)
                .with_thread_ids(true)
                .with_writer(|| Lines)
                .init();
        });
        Self(lines().len())
    }

    /// The lines logged since.
    pub(crate) fn text(self) -> String {
        String::from_utf8_lossy(&lines()[self.0..]).into_owned()
    }
}

fn lines() -> MutexGuard<'static, Vec<u8>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lines().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
