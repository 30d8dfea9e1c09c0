//! The help of `--help`: all options, also those that `-h` leaves out. Where it would be longer than a screen, each option has
//! one sentence, and the manual page the explanations.

use std::ffi::OsString;

use clap::{Arg, ArgAction};

/// Lines of an explained help.
const LINES_MAX: usize = 60;

/// The program for `--help`.
pub(super) fn of_all_options(program: clap::Command) -> clap::Command {
    program.mut_subcommands(|command| {
        let path = command.get_name().to_owned();
        shortened(command, &path)
    })
}

/// `help COMMAND` as `COMMAND --help`; other arguments as they are.
pub(super) fn as_option(arguments: &[OsString]) -> Vec<OsString> {
    let mut arguments = arguments.to_vec();
    if let Some(position) = arguments.iter().position(|one| one == "help") {
        arguments.remove(position);
        arguments.push("--help".into());
    }
    arguments
}

fn shortened(command: clap::Command, path: &str) -> clap::Command {
    let command = command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        shortened(sub, &path)
    });
    if command.clone().render_long_help().to_string().lines().count() <= LINES_MAX {
        return command;
    }
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let rest = format!("`namewire man {path}` explains the options.");
    // One line for an option, as `-h` has it.
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    command
        .mut_args(|argument| argument.hide_short_help(false))
        .after_help(format!("{examples}\n\n{rest}").trim_start().to_owned())
        .disable_help_flag(true)
        .arg(help.help("Print help"))
}

#[cfg(test)]
mod tests {
    fn asked(arguments: &[&str]) -> String {
        let program = super::of_all_options(crate::cli::program()).term_width(100);
        let arguments: Vec<_> = arguments.iter().map(Into::into).collect();
        program.try_get_matches_from(super::as_option(&arguments)).unwrap_err().to_string()
    }

    fn help(name: &str) -> String {
        asked(&["namewire", name, "--help"])
    }

    #[test]
    fn help_of_a_command_is_that_of_its_option() {
        assert_eq!(asked(&["namewire", "help", "get"]), help("get"));
        let check = asked(&["namewire", "config", "check", "--help"]);
        assert!(check.contains("nfd.conf"), "{check}");
        for help in
            [["namewire", "help", "config", "check"], ["namewire", "config", "help", "check"]]
        {
            assert_eq!(asked(&help), check);
        }
    }

    #[test]
    fn long_help_has_all_options_with_a_sentence_each() {
        let program = crate::cli::program();
        for name in ["get", "sync", "serve", "gateway", "run"] {
            let help = help(name);
            let lines = help.lines().count();
            assert!(lines <= 80, "{name}: {lines} lines\n{help}");
            let command = program.find_subcommand(name).unwrap();
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for option in shown.filter_map(|argument| argument.get_long()) {
                assert!(help.contains(&format!("--{option}")), "{name} --{option}\n{help}");
            }
            assert!(help.contains(&format!("`namewire man {name}` explains")), "{help}");
        }
        // A short one explains.
        assert!(!help("stop").contains("namewire man"), "{}", help("stop"));
    }
}
