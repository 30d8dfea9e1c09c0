//! `namewire config`: checks and shows configurations.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Subcommand;

use super::failure::{Failure, Outcome};
use super::output;
use crate::config::{self, Config, ConfigError};
use crate::run::Management;

/// Check a configuration file, or print the documented sample
#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Tell what is wrong with a configuration file, without starting anything
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print a configuration file with every setting explained and at its default
    Sample,
    /// Print a configuration file that does what an nfd.conf of NFD or MW-NFD does
    Convert {
        /// The nfd.conf
        file: PathBuf,
    },
}

pub(super) fn run(command: &Command) -> Outcome {
    match command {
        Command::Check { file } => {
            let config = load(file)?;
            check_processors(&config)?;
            management(&config)?;
            output::print_line(&format!("{}: no problems", file.display()))?;
        }
        Command::Convert { file } => {
            let config = load_nfd_conf(file)?;
            std::io::stdout().lock().write_all(config.to_toml().as_bytes())?;
        }
        Command::Sample => std::io::stdout().lock().write_all(config::SAMPLE.as_bytes())?,
    }
    Ok(())
}

/// Refuses processors that this machine does not have, or that this process may not run on.
pub(super) fn check_processors(config: &Config) -> Outcome {
    let Ok(allowed) = ndn_sys::cpu::allowed_cpus() else {
        return Ok(());
    };
    match config.forwarder.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => {
            let allowed: Vec<_> = allowed.iter().map(usize::to_string).collect();
            let allowed = allowed.join(", ");
            Err(Failure::Usage(format!(
                "forwarder.cpus: processor {cpu} cannot be used here; these can: {allowed}"
            )))
        }
    }
}

/// Reads the keys, certificates and trust rules that the configuration names.
pub(super) fn management(config: &Config) -> Outcome<Management> {
    Management::new(config).map_err(|error| Failure::Usage(format!("{error:#}")))
}

/// Reads a configuration file; what is wrong with it is shown with the lines of the file.
pub(super) fn load(file: &std::path::Path) -> Outcome<Config> {
    config::load(file).map_err(|error| Failure::Usage(describe(&error)))
}

/// Reads an nfd.conf; what of it has no effect is told on standard error.
pub(super) fn load_nfd_conf(file: &std::path::Path) -> Outcome<Config> {
    let read = config::nfd_conf::load(file).map_err(|error| Failure::Usage(error.to_string()))?;
    for warning in &read.warnings {
        output::note(&format_args!("namewire: warning: {warning}"));
    }
    let mut config = read.config;
    // MW-NFD's sample names processors that a small machine does not have.
    if let Err(failure) = check_processors(&config) {
        output::note(&format_args!("namewire: warning: {failure}; the workers run on any"));
        config.forwarder.cpus.clear();
    }
    Ok(config)
}

/// The problems, drawn into the lines of the file on a terminal, one per line otherwise.
fn describe(error: &ConfigError) -> String {
    if std::io::stderr().is_terminal() {
        let colour = std::env::var_os("NO_COLOR").is_none();
        format!("the configuration is not usable\n{}", error.render(colour))
    } else {
        // Each line says which program speaks; the first says so anyway.
        error.to_string().replace('\n', "\nnamewire: ")
    }
}
