//! `namewire log`: the log levels of a running forwarder.

use clap::Args;

use super::control::ControlOptions;
use super::failure::Outcome;
use super::output;

/// Show or change the log levels of a running forwarder
///
/// Without directives, the current levels are printed. `debug` sets the default level, `ndn_dataplane=debug` that of one
/// module, and `ndn_dataplane=default` resets it. Levels: off, error, warn, info, debug, trace. Modules: namewire,
/// namewire_control, namewire_daemon, namewire_http, ndn_client, ndn_dataplane, ndn_files, ndn_gateway, ndn_webtransport,
/// and parts of them such as ndn_dataplane::worker; and libraries, which log below info only if they are named: h3, quinn, quinn_proto, quinn_udp,
/// rustls, tokio, wtransport.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Levels to set, such as `warn` or `ndn_dataplane=debug`
    directives: Vec<String>,
    #[command(flatten)]
    control: ControlOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let mut client = options.control.connect()?;
    let levels = match options.directives.as_slice() {
        [] => client.log_levels()?,
        directives => client.set_log_levels(directives.join(","))?,
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

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;
    use crate::config::{LOG_LIBRARIES, LOG_MODULES};

    #[test]
    fn help_lists_all_modules() {
        let help = Options::augment_args(clap::Command::new("log")).render_long_help().to_string();
        let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let words: Vec<_> = help.split(is_other).collect();
        for module in LOG_MODULES.iter().chain(&LOG_LIBRARIES) {
            assert!(words.contains(module), "{module}");
        }
    }
}
