//! Access log: one line of JSON per request.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// Maximum number of queued lines; more are dropped and counted.
const LINES_MAX: usize = 4096;
/// Maximum length of a text from a client, in bytes.
const TEXT_LEN_MAX: usize = 2048;

/// Counters of the gateway.
#[derive(Debug, Default)]
pub struct Counters {
    connections: AtomicU64,
    requests: AtomicU64,
    failures: AtomicU64,
    aborted: AtomicU64,
    body_bytes: AtomicU64,
    log_lines_dropped: AtomicU64,
}

impl Counters {
    pub(crate) fn count_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections of clients.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Requests answered with a status from 400 on.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Requests whose answer was not sent completely: the client disconnected, or fetching the
    /// content failed.
    #[must_use]
    pub fn aborted(&self) -> u64 {
        self.aborted.load(Ordering::Relaxed)
    }

    /// Body bytes sent.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes.load(Ordering::Relaxed)
    }

    /// Log lines dropped because the disk was too slow.
    #[must_use]
    pub fn log_lines_dropped(&self) -> u64 {
        self.log_lines_dropped.load(Ordering::Relaxed)
    }
}

/// The access log, written by its own thread: a slow disk does not delay requests.
#[derive(Debug, Clone, Default)]
pub struct AccessLog {
    lines: Option<SyncSender<String>>,
}

impl AccessLog {
    /// Disabled.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Writes a line per request to `output`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn to(mut output: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, lines) = sync_channel::<String>(LINES_MAX);
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            for line in lines {
                let written = output.write_all(line.as_bytes()).and_then(|()| output.flush());
                if let Err(error) = written {
                    tracing::warn!(%error, "the access log cannot be written");
                }
            }
        })?;
        Ok(Self { lines: Some(sender) })
    }

    /// Writes a line with the time `received`, since 1970, and these fields; returns false if it was dropped because the
    /// disk is too slow.
    pub fn write(&self, received: Duration, mut fields: Map<String, Value>) -> bool {
        let Some(lines) = &self.lines else { return true };
        let mut line = Map::new();
        line.insert("time".to_owned(), rfc_3339(received).into());
        line.append(&mut fields);
        // Control characters are escaped in JSON: a client cannot inject lines.
        lines.try_send(format!("{}\n", Value::Object(line))).is_ok()
    }
}

/// The log record of a request, written when dropped.
#[derive(Debug)]
pub(crate) struct Record {
    log: AccessLog,
    counters: Arc<Counters>,
    started: Instant,
    received: Duration,
    fields: Map<String, Value>,
    status: Option<u16>,
    /// Expected number of body bytes, if known.
    expected: Option<u64>,
    sent: u64,
    finished: bool,
    failed: bool,
}

impl Record {
    /// `received` is the time since 1970.
    pub(crate) fn new(
        log: &AccessLog,
        counters: &Arc<Counters>,
        peer: SocketAddr,
        received: Duration,
    ) -> Self {
        let mut fields = Map::new();
        fields.insert("peer".to_owned(), peer.to_string().into());
        Self {
            log: log.clone(),
            counters: Arc::clone(counters),
            started: Instant::now(),
            received,
            fields,
            status: None,
            expected: None,
            sent: 0,
            finished: false,
            failed: false,
        }
    }

    /// Sets a field of the record.
    pub(crate) fn note(&mut self, key: &str, text: &str) {
        self.fields.insert(key.to_owned(), cut(text).into());
    }

    /// The answer has begun; `length` is its number of body bytes.
    pub(crate) fn answered(&mut self, status: u16, expected: Option<u64>) {
        (self.status, self.expected) = (Some(status), expected);
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += u64::try_from(bytes).unwrap_or(0);
    }

    /// The body is complete.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
    }

    /// Records an error of the request, or of sending the answer.
    pub(crate) fn fail(&mut self, text: &str) {
        self.failed = true;
        self.note("error", text);
    }

    fn is_complete(&self) -> bool {
        let is_sent = self.expected.map_or(self.finished, |expected| self.sent >= expected);
        let is_refused = self.status.is_some_and(|status| status >= 400);
        self.status.is_some() && is_sent && (is_refused || !self.failed)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let is_complete = self.is_complete();
        let counters = &self.counters;
        counters.requests.fetch_add(1, Ordering::Relaxed);
        counters.body_bytes.fetch_add(self.sent, Ordering::Relaxed);
        if self.status.is_some_and(|status| status >= 400) {
            counters.failures.fetch_add(1, Ordering::Relaxed);
        }
        if !is_complete {
            counters.aborted.fetch_add(1, Ordering::Relaxed);
        }
        if self.log.lines.is_none() {
            return;
        }
        let mut fields = std::mem::take(&mut self.fields);
        fields.insert("status".to_owned(), self.status.into());
        fields.insert("bytes".to_owned(), self.sent.into());
        fields.insert("complete".to_owned(), is_complete.into());
        fields.insert("seconds".to_owned(), json!(self.started.elapsed().as_secs_f64()));
        if !self.log.write(self.received, fields) {
            counters.log_lines_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The text, truncated to the maximum length.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_LEN_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A time since 1970 as `2026-11-21T08:00:00.123Z` (RFC 3339).
pub(crate) fn rfc_3339(time: Duration) -> String {
    let (days, second) = (time.as_secs() / 86_400, time.as_secs() % 86_400);
    // Years from March on end with the leap day; 400 of them have 146,097 days.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:03}Z",
        second % 60,
        time.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc_3339(Duration::from_secs(seconds)), expected);
        }
        assert_eq!(rfc_3339(Duration::from_millis(1)), "1970-01-01T00:00:00.001Z");
    }

    #[test]
    fn long_text_is_truncated_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = "ü".repeat(TEXT_LEN_MAX);
        assert_eq!(cut(&long).len(), TEXT_LEN_MAX);
        let long = format!("a{long}");
        assert_eq!(cut(&long).len(), TEXT_LEN_MAX - 1);
    }
}
