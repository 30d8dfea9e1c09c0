//! The log: its file, and levels for each module, which can be changed at run time.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::Access;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use namewire_control::{LogFeed, LogMessage, LogSelection, LogSeverity, LogStream};
use namewire_daemon::LogControl;
use ndn_sys::clock;
use ndn_types::duration_ms;

use crate::cli::output;
use crate::config::text::without_numbers;
use crate::config::{Log, LogFormat, LogLevel, check_module, log_crates};
use crate::log_text::{Text, TextFields};

/// Instead of a level: removes the level of the module.
const DEFAULT_LEVEL: &str = "default";

/// A file to which standard error, and so the log, is redirected.
#[derive(Clone, Debug)]
pub struct LogFile {
    path: Arc<Path>,
}

impl LogFile {
    /// Appends the log to this file instead of standard error from now on.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = Self { path: std::path::absolute(path)?.into() };
        file.reopen()?;
        Ok(file)
    }

    /// Reopens the file by its name: the previous one may have been renamed.
    fn reopen(&self) -> io::Result<()> {
        let file = OpenOptions::new().append(true).create(true).open(&self.path)?;
        Ok(rustix::stdio::dup2_stderr(file)?)
    }
}

/// Changes the levels of a running program.
#[derive(Clone)]
pub struct LogHandle {
    filter: reload::Handle<Targets, Registry>,
    levels: Arc<Mutex<Levels>>,
    file: Option<LogFile>,
    failure: WriteFailure,
    feed: LogFeed,
}

/// The error of the first line that could not be written, once there is one.
type WriteFailure = Arc<OnceLock<io::Error>>;

impl fmt::Debug for LogHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LogHandle").field("directives", &self.directives()).finish()
    }
}

/// Installs the logger, which writes to standard error, or to `file` if it is redirected.
///
/// # Errors
/// The process has a logger already.
pub fn init(settings: &Log, file: Option<LogFile>) -> Result<LogHandle, String> {
    let levels = Levels::of(settings);
    let (layer, filter) = reload::Layer::new(levels.filter());
    let failure = WriteFailure::default();
    let of_writer = Arc::clone(&failure);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || WithoutNumbers { to: io::stderr(), failure: Arc::clone(&of_writer) })
        .fmt_fields(TextFields)
        // It would report the error on standard error, and panic if that cannot be written.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal() && !has_no_color());
    // The filter is a layer of its own: it disables spans and events globally, not for one output.
    let feed = LogFeed::default();
    let subscriber = tracing_subscriber::registry().with(layer).with(Feeding(feed.clone()));
    let installed = match settings.format {
        LogFormat::Text => subscriber.with(lines).try_init(),
        LogFormat::Json => subscriber.with(lines.event_format(JsonLines)).try_init(),
    };
    installed.map_err(|error| error.to_string())?;
    if settings.format == LogFormat::Json {
        std::panic::set_hook(Box::new(|panic| {
            let line = panic_line(panic, &Backtrace::capture());
            // Standard error, which is the log, also if it is redirected to a file.
            let _ = writeln!(io::stderr().lock(), "{line}");
        }));
    }
    Ok(LogHandle { filter, levels: Arc::new(Mutex::new(levels)), file, failure, feed })
}

/// A panic as a line of a JSON log, with the `backtrace` that RUST_BACKTRACE demands.
fn panic_line(panic: &dyn fmt::Display, backtrace: &Backtrace) -> Value {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let text = format!("thread {thread} {panic}");
    let mut line = output::json_line(&without_numbers(&text));
    if backtrace.status() == BacktraceStatus::Captured {
        line["backtrace"] = backtrace.to_string().into();
    }
    line
}

/// Writes lines without the numbers of system errors, whose texts say the same.
struct WithoutNumbers<W> {
    to: W,
    failure: WriteFailure,
}

impl<W: io::Write> io::Write for WithoutNumbers<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The formatter writes whole lines.
        let written = match str::from_utf8(line) {
            Ok(text) => self.to.write_all(without_numbers(text).as_bytes()),
            Err(_) => self.to.write_all(line),
        };
        written.map(|()| line.len()).inspect_err(|error| {
            let kept = error.raw_os_error().map(io::Error::from_raw_os_error);
            // Later errors are not kept.
            let _ = self.failure.set(kept.unwrap_or_else(|| error.kind().into()));
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Passes events on to the readers of the log.
struct Feeding(LogFeed);

impl<S: Subscriber> Layer<S> for Feeding {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        self.0.add(LogMessage {
            unix_ms: duration_ms(clock::wall_clock()),
            level: severity(*metadata.level()),
            module: metadata.target().to_owned(),
            message: without_numbers(&text.joined()),
        });
    }
}

const fn severity(level: Level) -> LogSeverity {
    match level {
        Level::ERROR => LogSeverity::Error,
        Level::WARN => LogSeverity::Warn,
        Level::INFO => LogSeverity::Info,
        Level::DEBUG => LogSeverity::Debug,
        Level::TRACE => LogSeverity::Trace,
    }
}

/// The variable NO_COLOR is set and not empty (no-color.org).
fn has_no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Writes an event as a line of JSON: `time`, `level`, `module`, `message` and the fields of the message.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = JsonFields(Map::new());
        event.record(&mut line);
        let metadata = event.metadata();
        for (name, value) in [
            ("time", time),
            ("level", metadata.level().as_str().to_ascii_lowercase()),
            ("module", metadata.target().to_owned()),
        ] {
            line.0.insert(name.to_owned(), value.into());
        }
        writeln!(writer, "{}", Value::Object(line.0))
    }
}

/// The fields of an event.
struct JsonFields(Map<String, Value>);

impl JsonFields {
    fn insert(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for JsonFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, format!("{value:?}").into());
    }
}

impl LogControl for LogHandle {
    fn directives(&self) -> String {
        self.lock().to_string()
    }

    fn set(&self, directives: &str) -> Result<(), String> {
        let mut levels = self.lock();
        let merged = levels.merged(directives)?;
        self.replace(&mut levels, merged)
    }

    fn apply(&self, settings: &Log) -> Result<(), String> {
        self.replace(&mut self.lock(), Levels::of(settings))
    }

    fn reopen(&self) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        file.reopen().map_err(|error| format!("{}: {error}", file.path.display()))
    }

    fn follow(&self, selection: LogSelection) -> Result<LogStream, String> {
        self.feed.follow(selection)
    }
}

impl LogHandle {
    /// Why lines are missing in the log file, if one of them could not be written.
    pub fn failure_of_file(&self) -> Option<String> {
        let (file, error) = (self.file.as_ref()?, self.failure.get()?);
        let text = format!("the log cannot be written to {}: {error}", file.path.display());
        Some(without_numbers(&text))
    }

    /// The directory of the log file, if this process cannot create a file there: log rotation then
    /// has to create the next one.
    pub fn closed_directory(&self) -> Option<&Path> {
        let directory = self.file.as_ref()?.path.parent()?;
        let rights = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::access(directory, rights).is_err().then_some(directory)
    }

    fn replace(&self, levels: &mut Levels, new: Levels) -> Result<(), String> {
        self.filter.reload(new.filter()).map_err(|error| error.to_string())?;
        *levels = new;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Levels> {
        // Levels are replaced as a whole.
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requested levels.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Levels {
    /// The level of all modules without a level of their own.
    default: LogLevel,
    modules: BTreeMap<String, LogLevel>,
}

impl Levels {
    fn of(settings: &Log) -> Self {
        Self { default: settings.level, modules: settings.modules.clone() }
    }

    /// With these directives.
    fn merged(&self, directives: &str) -> Result<Self, String> {
        let mut merged = self.clone();
        for directive in directives.split(',').map(str::trim) {
            let (module, word) = match directive.split_once('=') {
                Some((module, word)) => (Some(module.trim()), word.trim()),
                None => (None, directive),
            };
            if let Some(module) = module {
                check_module(module)?;
                if word == DEFAULT_LEVEL {
                    merged.modules.remove(module);
                    continue;
                }
            }
            let level = LogLevel::from_name(word).ok_or_else(|| {
                format!("`{word}` is not a level; the levels are {}", LogLevel::NAMES.join(", "))
            })?;
            match module {
                Some(module) => drop(merged.modules.insert(module.to_owned(), level)),
                None => merged.default = level,
            }
        }
        Ok(merged)
    }

    /// The filter. Messages of libraries below `info` are logged only if the library is named.
    fn filter(&self) -> Targets {
        let own = log_crates().into_iter().map(|name| (name, level_filter(self.default)));
        let named = self.modules.iter();
        let named = named.map(|(module, level)| (module.as_str(), level_filter(*level)));
        Targets::new()
            .with_default(level_filter(self.default.min(LogLevel::Info)))
            .with_targets(own.chain(named))
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.default)?;
        self.modules.iter().try_for_each(|(module, level)| write!(formatter, ",{module}={level}"))
    }
}

const fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn merged(current: &Levels, directives: &str) -> String {
        current.merged(directives).unwrap().to_string()
    }

    #[test]
    fn lines_have_no_numbers_of_system_errors() {
        let mut written = Vec::new();
        let line = "it failed: Permission denied (os error 13) error=No such file (os error 2)\n";
        let failure = WriteFailure::default();
        let mut writer = WithoutNumbers { to: &mut written, failure: Arc::clone(&failure) };
        io::Write::write_all(&mut writer, line.as_bytes()).unwrap();
        assert_eq!(written, b"it failed: Permission denied error=No such file\n");
        assert!(failure.get().is_none());
    }

    #[test]
    fn first_error_of_writing_is_kept() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let failure = WriteFailure::default();
        let mut writer = WithoutNumbers { to: full, failure: Arc::clone(&failure) };
        for _ in 0..2 {
            assert!(io::Write::write(&mut writer, b"line\n").is_err());
        }
        assert_eq!(failure.get().unwrap().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn panic_of_a_json_log_has_the_backtrace_that_is_enabled() {
        let line = |backtrace| panic_line(&"panicked at x.rs:1:\nit failed", &backtrace);
        let without = line(Backtrace::disabled());
        assert!(without["message"].as_str().unwrap().ends_with("panicked at x.rs:1:\nit failed"));
        assert_eq!((&without["level"], without.get("backtrace")), (&Value::from("error"), None));
        let with = line(Backtrace::force_capture());
        assert!(with["backtrace"].as_str().unwrap().contains("panic_of_a_json_log"), "{with}");
    }

    #[test]
    fn directives_change_what_they_name_and_nothing_else() {
        let mut settings = Log::default();
        settings.modules.insert("ndn_dataplane".to_owned(), LogLevel::Debug);
        let filter = Levels::of(&settings);
        assert_eq!(filter.to_string(), "info,ndn_dataplane=debug");
        assert_eq!(merged(&filter, "warn"), "warn,ndn_dataplane=debug");
        assert_eq!(merged(&filter, "ndn_dataplane=off"), "info,ndn_dataplane=off");
        assert_eq!(merged(&filter, "ndn_dataplane=default"), "info");
        assert_eq!(merged(&filter, "warn,ndn_dataplane=off,ndn_dataplane=default"), "warn");
        let both = merged(&filter, "trace, ndn_dataplane::worker = error");
        assert!(both.starts_with("trace,"), "{both}");
        assert!(
            both.contains("ndn_dataplane=debug") && both.contains("ndn_dataplane::worker=error"),
            "{both}"
        );
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_of_json_have_the_fields_of_the_message() {
        let written = Written::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(lines.event_format(JsonLines));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(face = 257_u64, uri = %"udp4://a\n\"", known = true, "face {} closed", 257);
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        for (field, value) in [
            ("level", Value::from("warn")),
            ("message", "face 257 closed".into()),
            ("face", 257.into()),
            ("uri", "udp4://a\n\"".into()),
            ("known", true.into()),
        ] {
            assert_eq!(line[field], value, "{field} {text}");
        }
        assert!(line["module"].as_str().unwrap().starts_with("namewire"), "{text}");
        assert!(line["time"].as_str().unwrap().ends_with('Z'), "{text}");
    }

    #[test]
    fn fields_are_separated_from_the_message_and_from_each_other() {
        let written = Written::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let lines = lines.fmt_fields(TextFields).without_time().with_target(false).with_ansi(false);
        let subscriber = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(interface = "eth0", error = %"gone\u{1b}[2J", "no face could be bound; it is tried again");
            tracing::info!("stopping");
            tracing::info!(workers = 2);
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let expected = "WARN no face could be bound; it is tried again: interface=\"eth0\", error=gone\\u{1b}[2J\n INFO \
                        stopping\n INFO workers=2\n";
        assert_eq!(text.trim_start(), expected);
    }

    #[test]
    fn followed_messages_have_their_fields_in_the_text() {
        let feed = LogFeed::default();
        let subscriber = tracing_subscriber::registry().with(Feeding(feed.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(face = 257_u64, uri = %"udp4://a", reason = "gone", "face {} closed", 257);
        });
        let message = feed.follow(LogSelection::default()).unwrap().next(Duration::ZERO).unwrap();
        assert_eq!(message.level, LogSeverity::Warn);
        assert_eq!(message.message, "face 257 closed: face=257, uri=udp4://a, reason=\"gone\"");
        assert!(message.module.starts_with("namewire") && message.unix_ms > 0, "{message:?}");
    }

    #[test]
    fn malformed_directives_are_refused() {
        let filter = Levels::of(&Log::default());
        for directives in [
            "",
            "loud",
            "ndn_dataplane=",
            "=info",
            "a b=info",
            "info,,debug",
            "a=b=c",
            "default",
            "ndn_fase=info",
            "ndn=info",
        ] {
            assert!(filter.merged(directives).is_err(), "{directives}");
        }
    }

    #[test]
    fn libraries_log_only_if_they_are_selected() {
        let lets = |directives: &str, module: &str, level: LevelFilter| {
            let levels = Levels::of(&Log::default()).merged(directives).unwrap();
            levels.filter().would_enable(module, &level.into_level().unwrap())
        };
        assert!(lets("trace", "ndn_dataplane::worker", LevelFilter::TRACE));
        assert!(!lets("trace", "quinn_proto::connection", LevelFilter::DEBUG));
        assert!(!lets("debug", "some_library", LevelFilter::DEBUG));
        assert!(lets("debug", "some_library", LevelFilter::WARN));
        assert!(lets("info,quinn_proto=debug", "quinn_proto::connection", LevelFilter::DEBUG));
        assert!(!lets("warn", "quinn", LevelFilter::INFO));
        assert!(!lets("debug,ndn_dataplane=warn", "ndn_dataplane", LevelFilter::INFO));
        assert!(lets("debug,ndn_dataplane=warn", "namewire", LevelFilter::DEBUG));
    }
}
