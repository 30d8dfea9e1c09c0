//! `namewire log`: the log of a running forwarder and its levels.

use clap::{Args, ValueEnum};
use namewire_control::{ControlClient, ControlError, LogLine, LogMessage, LogSeverity};

use super::control::ControlOptions;
use super::failure::{Failure, Outcome};
use super::{interrupt, output};

/// Show or change the log levels of a running forwarder, or follow its log
///
/// Without directives, the current levels are printed. `debug` sets the default level, `ndn_dataplane=debug` that of one
/// module, and `ndn_dataplane=default` resets it. Levels: off, error, warn, info, debug, trace. Modules: namewire,
/// namewire_control, namewire_daemon, namewire_http, ndn_access, ndn_client, ndn_dataplane, ndn_files, ndn_gateway, ndn_origins,
/// ndn_webtransport,
/// and parts of them such as ndn_dataplane::worker; and libraries, which log below info only if they are named: h3, quinn, quinn_proto, quinn_udp,
/// rustls, tokio, wtransport.
///
/// With --follow, messages are printed as they are logged, after the latest 500: time of day (UTC), level, module, text.
/// Messages that the levels in force suppress are not shown. Ctrl-C ends it.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Levels to set, such as `warn` or `ndn_dataplane=debug`
    #[arg(conflicts_with = "follow")]
    directives: Vec<String>,
    /// Follow the log
    #[arg(long, short)]
    follow: bool,
    /// With --follow, only messages of this level and of more serious ones
    #[arg(long, value_enum, default_value = "trace", requires = "follow")]
    level: Level,
    /// With --follow, only messages of this module and its parts
    #[arg(long, value_name = "MODULE", requires = "follow")]
    module: Option<String>,
    #[command(flatten)]
    control: ControlOptions,
    /// Print JSON; with --follow, one line per message
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    const fn severity(self) -> LogSeverity {
        match self {
            Self::Trace => LogSeverity::Trace,
            Self::Debug => LogSeverity::Debug,
            Self::Info => LogSeverity::Info,
            Self::Warn => LogSeverity::Warn,
            Self::Error => LogSeverity::Error,
        }
    }
}

pub(super) fn run(options: &Options) -> Outcome {
    let mut client = options.control.connect()?;
    if options.follow {
        return follow(client, options);
    }
    let levels = match options.directives.as_slice() {
        [] => client.log_levels()?,
        directives => client.set_log_levels(directives.join(",")).map_err(|error| {
            if let ControlError::Refused(reason) = error {
                return Failure::Usage(reason);
            }
            error.into()
        })?,
    };
    let parts: Vec<&str> = levels.directives.split(',').collect();
    if options.json {
        let modules: serde_json::Map<String, serde_json::Value> = parts
            .iter()
            .filter_map(|part| part.split_once('='))
            .map(|(module, level)| (module.to_owned(), level.into()))
            .collect();
        let level = parts.iter().find(|part| !part.contains('='));
        output::print_json(&serde_json::json!({ "level": level, "modules": modules }))?;
    } else {
        for part in parts {
            output::print_line(part)?;
        }
    }
    Ok(())
}

/// Prints messages until the forwarder ends or Ctrl-C.
fn follow(client: ControlClient, options: &Options) -> Outcome {
    let (lines, end) = client.follow_log(options.level.severity(), options.module.clone())?;
    interrupt::on_interrupt(move || {
        // If the connection is closed, the loop ends.
        let _ = end.finish();
    })?;
    for line in lines {
        let line = line?;
        let text = match options.json {
            true => {
                serde_json::to_string(&line).map_err(|error| Failure::Failed(error.to_string()))?
            }
            false => text_of(&line),
        };
        output::print_line(&text)?;
    }
    Ok(())
}

fn text_of(line: &LogLine) -> String {
    let LogMessage { unix_ms, level, module, message } = match line {
        LogLine::Message(message) => message,
        LogLine::Lost(count) => return format!("{} messages lost so far", output::grouped(*count)),
    };
    let seconds = unix_ms / 1000;
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    let time = format!("{hours:02}:{minutes:02}:{:02}.{:03}", seconds % 60, unix_ms % 1000);
    let text = output::without_control(message);
    format!("{time} {:5} {module}: {text}", level.name().to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;
    use crate::config::{LOG_LIBRARIES, log_crates};

    #[test]
    fn followed_messages_are_lines_without_control_characters() {
        let message = LogMessage {
            unix_ms: 45_296_123,
            level: LogSeverity::Warn,
            module: "ndn_dataplane".to_owned(),
            message: "face \u{1b}[2J closed".to_owned(),
        };
        let text = text_of(&LogLine::Message(message));
        assert_eq!(text, "12:34:56.123 WARN  ndn_dataplane: face \\u{1b}[2J closed");
        assert_eq!(text_of(&LogLine::Lost(1200)), "1 200 messages lost so far");
    }

    #[test]
    fn help_lists_all_modules() {
        let help = Options::augment_args(clap::Command::new("log")).render_long_help().to_string();
        let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let words: Vec<_> = help.split(is_other).collect();
        for module in log_crates().iter().chain(&LOG_LIBRARIES) {
            assert!(words.contains(module), "{module}");
        }
    }
}
