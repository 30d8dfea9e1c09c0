//! `namewire completions` and `namewire man`: files for packages, and the reference of all
//! commands.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::{ArgAction, Args};
use clap_complete::Shell;
use clap_complete::env::Shells;

use super::complete;
use super::failure::{self, Failure, Outcome};
use super::manual;

/// Print shell completions
///
/// The script asks this program for candidates: commands, options, files, strategies, FaceIds, and names with routes or of
/// files that a file server lists. The forwarder is that of NDN_CLIENT_TRANSPORT or client.conf; without an answer within a
/// second there are no candidates.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// The shell
    shell: Shell,
}

/// Show the manual page of the program or of a command, or write the pages of all commands
///
/// Without a terminal, prints the source of the page (roff).
#[derive(Args, Debug)]
pub(super) struct ManOptions {
    /// The command, such as `get` or `face list`
    #[arg(value_name = "COMMAND", conflicts_with_all = ["directory", "markdown"])]
    command: Vec<String>,
    /// Write the manual pages of all commands to this directory
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// Print a reference of all commands in Markdown
    #[arg(long, conflicts_with = "directory")]
    markdown: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let shell = options.shell.to_string();
    let unknown = || Failure::Usage(format!("{shell} is not a shell with completions"));
    let shells = Shells::builtins();
    let shell = shells.completer(&shell).ok_or_else(unknown)?;
    let mut script = Vec::new();
    shell.write_registration(
        complete::VARIABLE,
        "namewire",
        "namewire",
        "namewire",
        &mut script,
    )?;
    Ok(std::io::stdout().lock().write_all(&script)?)
}

pub(super) fn run_man(options: &ManOptions, program: clap::Command) -> Outcome {
    if options.markdown {
        return Ok(std::io::stdout().lock().write_all(markdown(program).as_bytes())?);
    }
    match &options.directory {
        None => {
            let path = options.command.join(" ");
            let of_page =
                path.strip_prefix("namewire-").and_then(|page| command_of(&program, page));
            let path = of_page.unwrap_or(path);
            let page = manual::page(&program, &path)?;
            let page = page.ok_or_else(|| {
                Failure::Usage(format!("{path} is not a command: `namewire --help` lists them"))
            })?;
            show(&page)
        }
        Some(directory) => {
            let written = manual::write_all(&program, directory);
            written.map_err(|error| Failure::file(directory.display(), &error))
        }
    }
}

/// The command of the manual page `namewire-PAGE`: `face list` for `face-list`.
fn command_of(program: &clap::Command, page: &str) -> Option<String> {
    program.get_subcommands().find_map(|command| {
        let name = command.get_name();
        let rest = page.strip_prefix(name)?;
        if rest.is_empty() {
            return Some(name.to_owned());
        }
        let below = command_of(command, rest.strip_prefix('-')?)?;
        Some(format!("{name} {below}"))
    })
}

/// Shows a page with man(1) on a terminal; prints it otherwise, or if there is no man(1).
fn show(page: &[u8]) -> Outcome {
    let mut out = std::io::stdout();
    if out.is_terminal()
        && let Ok(mut man) = Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn()
    {
        if let Some(mut input) = man.stdin.take() {
            // The reader may quit before the end of the page.
            let _ = input.write_all(page);
        }
        if man.wait().is_ok_and(|status| status.success()) {
            return Ok(());
        }
    }
    Ok(out.write_all(page)?)
}

/// Head of the page of all commands.
const MARKDOWN_HEAD: &str = "# Commands

All commands of `namewire` with their options. `make reference` generates this page from the program
(`namewire man --markdown`); the manual pages (`man namewire-get`) have the same text. `namewire COMMAND --help` explains less
if that would be longer than a screen, and `-h` has the options of everyday use.
";

/// Options that many commands share: described once, at the top of the page.
const COMMON_COUNT: usize = 8;

/// All commands with their options, as a Markdown page.
fn markdown(mut program: clap::Command) -> String {
    program.build();
    let mut page = MARKDOWN_HEAD.to_owned();
    let (units, statuses) = failure::notes();
    let statuses = statuses.trim_start_matches("Exit status:\n");
    let _ = write!(page, "\n## Units\n\n```text\n{units}\n```\n");
    let _ = write!(page, "\n## Exit status\n\n```text\n{statuses}\n```\n");
    let mut counts = BTreeMap::new();
    count_options(&program, &mut counts);
    counts.retain(|_, count| *count >= COMMON_COUNT);
    page.push_str("\n## Common options\n\n");
    counts.keys().for_each(|option| page.push_str(option));
    for command in program
        .get_subcommands_mut()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        add_command(&mut page, command, &counts, 2);
    }
    page
}

/// Counts the commands that have an option with the same description.
fn count_options(command: &clap::Command, counts: &mut BTreeMap<String, usize>) {
    for argument in arguments(command).filter(|one| !one.is_positional()) {
        *counts.entry(item(argument)).or_default() += 1;
    }
    let commands = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help");
    commands.for_each(|command| count_options(command, counts));
}

/// The arguments of a command that the page shows.
fn arguments(command: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    let is_shown = |one: &&clap::Arg| {
        // An option of a command may have the name of one of these.
        let is_of_all = matches!(
            one.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        !one.is_hide_set() && !is_of_all
    };
    command.get_arguments().filter(is_shown)
}

/// A section for a command, followed by those of its subcommands.
fn add_command(
    page: &mut String,
    command: &mut clap::Command,
    common: &BTreeMap<String, usize>,
    level: usize,
) {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let about = escaped(&about).replace("\n  ", "\n\n    ");
    let heading = "#".repeat(level);
    let _ = write!(page, "\n{heading} `{name}`\n\n{about}\n\n```text\n{usage}\n```\n");
    if let Some(examples) = command.get_after_help() {
        let lines = examples.to_string();
        let lines = lines.lines().skip(1).map(str::trim_start).collect::<Vec<_>>().join("\n");
        let _ = write!(page, "\n```text\n{lines}\n```\n");
    }
    let (positional, options): (Vec<_>, Vec<_>) =
        arguments(command).partition(|one| one.is_positional());
    let items = positional.into_iter().chain(options).map(|one| (one, item(one)));
    let (shared, own): (Vec<_>, Vec<_>) = items.partition(|(_, item)| common.contains_key(item));
    if !own.is_empty() {
        page.push('\n');
        own.iter().for_each(|(_, item)| page.push_str(item));
    }
    if !shared.is_empty() {
        let names = shared.iter().filter_map(|(option, _)| option.get_long());
        let names: Vec<_> = names.map(|name| format!("`--{name}`")).collect();
        let _ = write!(page, "\n[Common options](#common-options): {}\n", names.join(", "));
    }
    for subcommand in
        command.get_subcommands_mut().filter(|one| !one.is_hide_set() && one.get_name() != "help")
    {
        add_command(page, subcommand, common, level + 1);
    }
}

/// A list item for an argument: its syntax, help, values and default.
fn item(argument: &clap::Arg) -> String {
    let short = argument.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut item = format!("- {short}`{argument}`: {}", escaped(&help).replace("\n\n", "\n\n  "));
    let takes_values = argument.get_action().takes_values();
    let mut add = |text: String| {
        if !item.ends_with('.') {
            item.push('.');
        }
        item.push_str(&text);
    };
    let mut values = argument.get_possible_values();
    values.retain(|value| !value.is_hide_set());
    if takes_values && !argument.is_hide_possible_values_set() && !values.is_empty() {
        let values: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        add(format!(" Values: {}.", values.join(", ")));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_values && !argument.is_hide_default_value_set() && !defaults.is_empty() {
        add(format!(" Default: `{}`.", defaults.join(" ")));
    }
    item.push('\n');
    item
}

/// Help text with escaped angle brackets, which are HTML in Markdown.
fn escaped(text: &str) -> String {
    text.replace('<', "\\<").replace('>', "\\>")
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_manual_pages_lead_to_their_commands() {
        let program = crate::cli::program();
        let command = |page| super::command_of(&program, page);
        assert_eq!(command("get").as_deref(), Some("get"));
        assert_eq!(command("face-list").as_deref(), Some("face list"));
        assert_eq!(command("ping-server").as_deref(), Some("ping-server"));
        assert_eq!(command("face-frobnicate"), None);
    }

    #[test]
    fn page_of_commands_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/commands.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        let program = crate::cli::program();
        assert!(page == super::markdown(program), "run `make reference`");
    }
}
