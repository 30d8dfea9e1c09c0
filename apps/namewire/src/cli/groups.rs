//! `namewire --help`: the commands in groups.

use std::fmt::Write;

use super::output::wrapped;

/// Columns of the list.
const LIST_WIDTH: usize = 80;

/// Headings with their commands. Commands without a heading are last.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Forwarder", &["run", "start", "stop", "config", "control"]),
    ("Status and tables", &["status", "face", "route", "strategy", "cs", "nfdc"]),
    (
        "Data",
        &[
            "get",
            "sync",
            "ls",
            "find",
            "put",
            "serve",
            "gateway",
            "mount",
            "peek",
            "poke",
            "ping",
            "ping-server",
        ],
    ),
    ("Keys", &["key", "cert"]),
    (
        "Diagnosis and measurement",
        &[
            "dissect",
            "capture",
            "log",
            "workers",
            "interfaces",
            "ndt",
            "limits",
            "vip",
            "trace",
            "traffic",
            "bench",
            "model",
            "cache",
            "lab",
        ],
    ),
    ("Companions of NFD", &["autoreg", "autoconfig", "autoconfig-server", "status-server"]),
];

/// The other commands under the same heading.
pub(super) fn beside(command: &str) -> Vec<&'static str> {
    let group = GROUPS.iter().find(|(_, names)| names.contains(&command));
    group.map(|(_, names)| names.to_vec()).unwrap_or_default()
}

/// Lists the commands of `program` in groups.
pub(super) fn with_groups(program: clap::Command) -> clap::Command {
    let list = list(&program);
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\
         Options:\n{{options}}{{after-help}}"
    );
    program.help_template(template)
}

fn list(program: &clap::Command) -> String {
    let all: Vec<(&str, String)> = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(|command| {
            (command.get_name(), command.get_about().map(ToString::to_string).unwrap_or_default())
        })
        .collect();
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let indent = format!("\n{:1$}", "", width + 4);
    let grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let rest: Vec<&str> = all.iter().map(|(name, _)| *name).filter(|name| !grouped(name)).collect();
    let mut text = String::new();
    for (heading, names) in GROUPS.into_iter().chain([("Others", rest.as_slice())]) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{heading}:");
        for (name, about) in names.iter().filter_map(|name| all.iter().find(|(own, _)| own == name))
        {
            let about = wrapped(about, LIST_WIDTH - width - 4).join(&indent);
            let _ = writeln!(text, "  {name:width$}  {about}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn help_fits_80_columns() {
        let mut program = with_groups(super::super::Arguments::command()).term_width(80);
        let unwrapped = program.clone().term_width(1000).render_long_help().to_string();
        let help = program.render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let notes = |help: &str| help.split_once("\nDurations and ").unwrap().1.to_owned();
        assert_eq!(notes(&help), notes(&unwrapped), "the notes lose their indents");
        assert!(help.contains("\n                     "), "{help}");
    }

    #[test]
    fn every_command_is_listed_once() {
        let program = super::super::Arguments::command();
        let list = list(&program);
        for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
            let line = format!("\n  {} ", command.get_name());
            assert_eq!(list.matches(&line).count(), 1, "{}", command.get_name());
        }
        for name in GROUPS.iter().flat_map(|(_, names)| names.iter()) {
            assert!(program.find_subcommand(name).is_some(), "{name}");
        }
        let mut program = with_groups(program);
        let help = program.render_long_help().to_string();
        assert!(help.contains("Keys:\n  key "), "{help}");
        assert!(help.contains("--version") && help.contains("Exit status:"), "{help}");
    }
}
