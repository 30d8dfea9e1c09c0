//! Where log lines go, and which: levels per module, changeable while the program runs.

use std::fmt;
use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use crate::config::{Log, LogLevel, check_module};

/// In place of a level: the module has none of its own any more.
const DEFAULT_LEVEL: &str = "default";

/// Changes the levels of a running program.
#[derive(Clone)]
pub struct LogHandle {
    filter: reload::Handle<Targets, Registry>,
}

impl fmt::Debug for LogHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LogHandle").field("directives", &self.directives()).finish()
    }
}

/// Sends log lines to standard error from now on.
///
/// # Errors
/// The process has a logger already.
pub fn init(settings: &Log) -> Result<LogHandle, String> {
    let (layer, filter) = reload::Layer::new(filter_of(settings));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // It would complain on standard error, and panic where that is what cannot be written.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    // The filter is a layer of its own: it turns spans and events off for good, not for one output.
    let subscriber = tracing_subscriber::registry().with(layer).with(lines);
    subscriber.try_init().map_err(|error| error.to_string())?;
    Ok(LogHandle { filter })
}

impl LogHandle {
    /// The levels in force, in the form that [`Self::set`] reads.
    pub fn directives(&self) -> String {
        self.filter.with_current(write_directives).unwrap_or_default()
    }

    /// Uses these settings from now on.
    ///
    /// # Errors
    /// The subscriber is gone.
    pub fn apply(&self, settings: &Log) -> Result<(), String> {
        self.filter.reload(filter_of(settings)).map_err(|error| error.to_string())
    }

    /// Changes levels: `debug` alone sets the level of the modules that have none of their own,
    /// `ndn_face=debug` that of one module, `ndn_face=default` takes it away again, and a comma
    /// separates several. Modules that are not named keep their level.
    ///
    /// # Errors
    /// The directives are malformed; nothing is changed then.
    pub fn set(&self, directives: &str) -> Result<(), String> {
        let changed = self.filter.with_current(|filter| merge(filter, directives));
        let changed = changed.map_err(|error| error.to_string())??;
        self.filter.reload(changed).map_err(|error| error.to_string())
    }
}

fn filter_of(settings: &Log) -> Targets {
    let modules =
        settings.modules.iter().map(|(module, level)| (module.clone(), level_filter(*level)));
    Targets::new().with_targets(modules).with_default(level_filter(settings.level))
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

fn merge(current: &Targets, directives: &str) -> Result<Targets, String> {
    let mut merged = current.clone();
    for directive in directives.split(',').map(str::trim) {
        let (module, word) = match directive.split_once('=') {
            Some((module, word)) => (Some(module.trim()), word.trim()),
            None => (None, directive),
        };
        if let Some(module) = module {
            check_module(module)?;
            if word == DEFAULT_LEVEL {
                merged = without(&merged, module);
                continue;
            }
        }
        let level = LogLevel::from_name(word).ok_or_else(|| {
            format!("`{word}` is no level; the levels are {}", LogLevel::NAMES.join(", "))
        })?;
        merged = match module {
            Some(module) => merged.with_target(module, level_filter(level)),
            None => merged.with_default(level_filter(level)),
        };
    }
    Ok(merged)
}

/// What is in force, without what is said about one module.
fn without(filter: &Targets, module: &str) -> Targets {
    let others = filter.iter().filter(|(name, _)| *name != module);
    let others = others.map(|(name, level)| (name.to_owned(), level));
    Targets::new()
        .with_targets(others)
        .with_default(filter.default_level().unwrap_or(LevelFilter::OFF))
}

fn write_directives(filter: &Targets) -> String {
    let mut directives = vec![filter.default_level().unwrap_or(LevelFilter::OFF).to_string()];
    directives.extend(filter.iter().map(|(module, level)| format!("{module}={level}")));
    directives.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(current: &Targets, directives: &str) -> String {
        write_directives(&merge(current, directives).unwrap())
    }

    #[test]
    fn directives_change_what_they_name_and_nothing_else() {
        let mut settings = Log::default();
        settings.modules.insert("ndn_face".to_owned(), LogLevel::Debug);
        let filter = filter_of(&settings);
        assert_eq!(write_directives(&filter), "info,ndn_face=debug");
        assert_eq!(merged(&filter, "warn"), "warn,ndn_face=debug");
        assert_eq!(merged(&filter, "ndn_face=off"), "info,ndn_face=off");
        assert_eq!(merged(&filter, "ndn_face=default"), "info");
        assert_eq!(merged(&filter, "warn,ndn_face=off,ndn_face=default"), "warn");
        let both = merged(&filter, "trace, ndn_table::fib = error");
        assert!(both.starts_with("trace,"), "{both}");
        assert!(both.contains("ndn_face=debug") && both.contains("ndn_table::fib=error"), "{both}");
    }

    #[test]
    fn malformed_directives_are_refused() {
        let filter = filter_of(&Log::default());
        for directives in [
            "",
            "loud",
            "ndn_face=",
            "=info",
            "a b=info",
            "info,,debug",
            "a=b=c",
            "default",
            "ndn_fase=info",
            "ndn=info",
        ] {
            assert!(merge(&filter, directives).is_err(), "{directives}");
        }
    }
}
