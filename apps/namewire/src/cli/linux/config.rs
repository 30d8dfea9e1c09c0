//! `namewire config`: validates, prints and converts configurations.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use namewire_control::{ConfigStatus, ControlError};
use namewire_daemon::{machine_warnings, placement};
use serde_json::json;

use crate::cli::control::ControlOptions;
use crate::cli::failure::{Failure, Outcome, lines};
use crate::cli::output;
use crate::config::nfd_conf::{self, FreePorts};
use crate::config::{self, Config, ConfigError, ConfigFile, Conflict, Warning};
use crate::process::Prepared;

/// Validate, convert and document configuration files
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Command {
    /// Validate a configuration file, or an nfd.conf of NFD or MW-NFD, without starting a forwarder
    Check {
        /// The file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let a running forwarder read its configuration again, as SIGHUP does
    ///
    /// Prints which settings have changed, and which take effect at the next start only, with the reason. A configuration
    /// that cannot be used, also because a port is in use, changes nothing; the error is printed, and the exit status is 2.
    Reload {
        /// Report what a reload would do, without doing it
        ///
        /// New listeners are opened and closed again.
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        control: ControlOptions,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a sample configuration file with every setting, its explanation and its default
    Sample,
    /// Print the reference of all settings in Markdown
    Reference,
    /// Print a configuration file equivalent to an nfd.conf of NFD or MW-NFD
    Convert {
        /// The nfd.conf
        file: PathBuf,
        /// Write to this file, when it is complete [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

pub(in crate::cli) fn run(command: &Command) -> Outcome {
    match command {
        Command::Check { file, json } => {
            let warnings = check(file)?;
            let shown = file.display().to_string();
            if *json {
                let checked = json!({ "file": shown, "warnings": warnings });
                return Ok(output::print_json(&checked)?);
            }
            let found = match warnings.len() as u64 {
                0 => "no problems".to_owned(),
                warnings => format!("usable, with {}", output::counted(warnings, "warning")),
            };
            output::print_line(&format!("{shown}: {found}"))?;
        }
        Command::Reload { check, control, json } => reload(control, *check, *json)?,
        Command::Convert { file, output } => convert(file, output.as_deref())?,
        Command::Reference => {
            std::io::stdout().lock().write_all(config::reference().as_bytes())?;
        }
        Command::Sample => std::io::stdout().lock().write_all(config::sample().as_bytes())?,
    }
    Ok(())
}

/// Asks a running forwarder to read its configuration again.
fn reload(control: &ControlOptions, is_check: bool, as_json: bool) -> Outcome {
    let mut client = control.connect()?;
    let refused = |error: &str| Failure::Usage(error.replace('\n', "\nnamewire: "));
    let status = if is_check { client.check_config() } else { client.reload_config() };
    let ConfigStatus { has_file, error, waiting, changes, overrides } =
        status.map_err(|error| {
            if let ControlError::Refused(reason) = &error { refused(reason) } else { error.into() }
        })?;
    if let Some(error) = error {
        return Err(refused(&error));
    }
    if as_json {
        let status = json!({ "has_file": has_file, "waiting": waiting, "changes": changes, "overrides": overrides });
        return Ok(output::print_json(&status)?);
    }
    output::print_line(match (has_file, is_check) {
        (true, false) => "the configuration was read again",
        (true, true) => "the configuration can be read again",
        (false, _) => "there is no configuration file: the settings are as at the start",
    })?;
    for option in overrides.iter().filter(|_| has_file) {
        output::print_line(&format!("set by the command line, whatever the file says: {option}"))?;
    }
    let changed = if is_check { "changes at a reload" } else { "changed" };
    for setting in changes {
        output::print_line(&format!("{changed}: {setting}"))?;
    }
    for setting in waiting {
        output::print_line(&format!("takes effect at the next start: {setting}"))?;
    }
    Ok(())
}

/// Reads a configuration file and checks it against this machine. Problems of the file and of the
/// machine are reported together, after the warnings, which it returns.
fn check(file: &Path) -> Outcome<Vec<String>> {
    let file = read(file)?;
    if file.is_nfd_conf() {
        let (config, source, mut warnings) = parse_nfd_conf(&file, &FreePorts::default())?;
        let more = config.warnings().into_iter().chain(machine_warnings(&config));
        warnings.extend(report(more.collect(), &source));
        return plan(&config, &source).map(|_| warnings);
    }
    let (config, source, error) = parse_leniently(file)?;
    let mut warnings = config.warnings();
    warnings.extend(machine_warnings(&config));
    let warnings = report(warnings, &source);
    let faults = Prepared::new(&config).err().unwrap_or_default();
    let Some(error) = error else {
        return match faults.is_empty() {
            true => Ok(warnings),
            false => Err(Failure::Usage(source.describe_all(&faults))),
        };
    };
    // Faults of the file alone were reported with their lines.
    let of_file = config.conflicts();
    let more: Vec<_> = faults.into_iter().filter(|fault| !of_file.contains(fault)).collect();
    Err(Failure::Usage(describe(&error.with(&more))))
}

/// Nothing is written after an error. An empty file, which a shell has created by then, is not a
/// valid configuration.
fn convert(file: &Path, output: Option<&Path>) -> Outcome {
    let (config, source) = load_nfd_conf(file, &FreePorts::default())?;
    plan(&config, &source)?;
    let text = format!("# Converted from {}.\n{}", file.display(), config.to_toml());
    let again = config::parse("the result", &text).map_err(|error| describe(&error));
    let again = again.map_err(Failure::Failed)?;
    if again != config {
        let reason = "the converted configuration differs: this is a bug of namewire";
        return Err(Failure::Failed(format!("{}: {reason}", file.display())));
    }
    match output {
        None => Ok(std::io::stdout().lock().write_all(text.as_bytes())?),
        Some(path) => write_whole(path, text.as_bytes())
            .map_err(|error| Failure::file(path.display(), &error)),
    }
}

/// Writes a file and renames it into place.
fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().ok_or(std::io::ErrorKind::IsADirectory)?.to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = std::fs::File::create_new(&partial).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    let placed = written.and_then(|()| std::fs::rename(&partial, path));
    if placed.is_err() {
        // It may not exist.
        let _ = std::fs::remove_file(&partial);
    }
    placed
}

/// The source of the settings, to locate those with problems.
#[derive(Debug)]
pub(in crate::cli) enum Source {
    /// The defaults.
    Defaults,
    /// A configuration file.
    File(ConfigFile),
    /// An nfd.conf, and the locations of settings in it.
    NfdConf(PathBuf, nfd_conf::KeyLocations),
}

impl Source {
    /// As [`Self::describe`], for several conflicts, each on a line of its own.
    pub(in crate::cli) fn describe_all(&self, faults: &[Conflict]) -> String {
        let reported: Vec<_> = faults.iter().map(|fault| self.describe(fault)).collect();
        lines(&reported)
    }

    /// The conflict with its location, if known.
    pub(in crate::cli) fn describe(&self, fault: &Conflict) -> String {
        match self {
            Self::Defaults => fault.to_string(),
            Self::File(file) => describe(&file.locate(fault)),
            Self::NfdConf(path, locations) => {
                locations.describe(&path.display().to_string(), fault)
            }
        }
    }
}

/// Prints warnings with their lines to standard error, and returns them.
pub(in crate::cli) fn report(warnings: Vec<Warning>, source: &Source) -> Vec<String> {
    let warnings = warnings.into_iter().map(|warning| match source {
        Source::File(file) => file.locate_warning(&warning).to_string(),
        Source::Defaults | Source::NfdConf(..) => warning.reason,
    });
    let warnings: Vec<_> = warnings.collect();
    for warning in &warnings {
        output::warn(warning);
    }
    warnings
}

/// The plan of a forwarder with this configuration on this machine.
pub(in crate::cli) fn plan(config: &Config, source: &Source) -> Outcome<Prepared> {
    Prepared::new(config).map_err(|faults| Failure::Usage(source.describe_all(&faults)))
}

fn read(file: &Path) -> Outcome<ConfigFile> {
    ConfigFile::read(file).map_err(|error| Failure::Usage(describe(&error)))
}

/// Reads a configuration file; problems are shown with the lines of the file.
pub(in crate::cli) fn load(file: &Path) -> Outcome<(Config, Source)> {
    match load_leniently(file)? {
        (config, source, None) => Ok((config, source)),
        (_, _, Some(error)) => Err(Failure::Usage(describe(&error))),
    }
}

/// As [`load`], but returns the configuration of a file with problems, too.
pub(in crate::cli) fn load_leniently(
    file: &Path,
) -> Outcome<(Config, Source, Option<ConfigError>)> {
    parse_leniently(read(file)?)
}

fn parse_leniently(file: ConfigFile) -> Outcome<(Config, Source, Option<ConfigError>)> {
    let (config, error) = file.parse().map_err(|error| Failure::Usage(describe(&error)))?;
    Ok((config, Source::File(file), error))
}

/// Reads an nfd.conf; settings without effect are reported on standard error.
pub(in crate::cli) fn load_nfd_conf(file: &Path, ports: &FreePorts) -> Outcome<(Config, Source)> {
    parse_nfd_conf(&read(file)?, ports).map(|(config, source, _)| (config, source))
}

/// As [`load_nfd_conf`], of a file that was read, with what was reported.
fn parse_nfd_conf(file: &ConfigFile, ports: &FreePorts) -> Outcome<(Config, Source, Vec<String>)> {
    let read = nfd_conf::parse_file(file, ports);
    let read = read.map_err(|error| Failure::Usage(error.to_string()))?;
    let mut warnings: Vec<_> = read.warnings.iter().map(ToString::to_string).collect();
    let mut config = read.config;
    let source = Source::NfdConf(file.path().to_owned(), read.locations);
    // The sample of MW-NFD has processors that a small machine lacks.
    if let Err(fault) = placement::check_processors(&config.forwarder) {
        let reported = source.describe(&fault);
        warnings.push(format!("{reported}; the workers are not pinned"));
        config.forwarder.cpus.clear();
    }
    for warning in &warnings {
        output::warn(warning);
    }
    Ok((config, source, warnings))
}

/// The problems: on a terminal with the lines of the file, otherwise one on each line.
pub(in crate::cli) fn describe(error: &ConfigError) -> String {
    if std::io::stderr().is_terminal() {
        let colour = std::env::var_os("NO_COLOR").is_none();
        format!("the configuration is invalid\n{}", error.render(colour))
    } else {
        // Each line begins with the name of the program, which the caller adds to the first.
        error.to_string().replace('\n', "\nnamewire: ")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn conflict_outside_the_file_has_no_position() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("namewire.toml");
        std::fs::write(&file, "# first\nunknown = 1\n").unwrap();
        let (_, error) = ConfigFile::read(&file).unwrap().parse().unwrap();
        let fault = Conflict::new(&["control.path"], "control.path: it cannot be");
        let error = error.unwrap().with(&[fault]);
        let (reported, path) = (error.to_string(), file.display());
        let lines: Vec<_> = reported.lines().collect();
        assert!(lines[0].starts_with(&format!("{path}:2:1: ")), "{reported}");
        assert_eq!(lines[1], format!("{path}: control.path: it cannot be"));
        let drawn = error.render(false);
        assert!(drawn.contains(&format!("{path}: control.path")), "{drawn}");
        assert_eq!(drawn.matches("── here").count(), 1, "{drawn}");
    }
    #[test]
    fn wrong_configuration_from_a_pipe_is_rejected() {
        use std::os::fd::AsRawFd;
        for (text, stated) in [
            ("unknown = 1\n", "unknown"),
            ("forwarder = {\n", ""),
            ("general\n{\n}\n", "all listeners are off"),
        ] {
            let (reader, mut writer) = std::io::pipe().unwrap();
            writer.write_all(text.as_bytes()).unwrap();
            drop(writer);
            let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
            match check(&path) {
                Err(Failure::Usage(reason)) => assert!(reason.contains(stated), "{reason}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
