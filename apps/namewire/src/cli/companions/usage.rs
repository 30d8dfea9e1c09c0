//! The usage of the programs by whose names this program can be started.

use std::fmt::Write as _;

use clap::Command;

use super::tools::{Meaning, NDNSEC, Tool};

/// Width of the column of options.
const WIDTH: usize = 34;

/// The usage of `ndnsec` without a command.
pub(super) fn of_ndnsec(program: &Command) -> String {
    let mut text = "Usage: ndnsec <COMMAND> [OPTIONS]\n\nCommands:\n".to_owned();
    for tool in NDNSEC {
        let about = command_of(tool, program).get_about().map(ToString::to_string);
        add_row(&mut text, tool.name, &about.unwrap_or_default());
    }
    text + "\n`ndnsec COMMAND --help` shows the options of a command.\n"
}

/// The usage of a tool: its own options, with what they mean here.
pub(super) fn of_tool(tool: &Tool, program: &Command) -> String {
    let command = command_of(tool, program);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{about}\n\n{}\n\nOptions:\n", line_of(tool, program));
    for (names, meaning) in tool.options {
        let (short, long) = names.split_once(',').unwrap_or((names, ""));
        let mut option = match short {
            "" => format!("    --{long}"),
            short => format!("-{short}, --{long}"),
        };
        let (value, words) = described(*meaning, &command);
        if !value.is_empty() {
            let _ = write!(option, " <{value}>");
        }
        add_row(&mut text, &option, &words);
    }
    let here = tool.command.iter().take_while(|word| !word.starts_with('-'));
    let here = here.copied().collect::<Vec<_>>().join(" ");
    let _ = write!(
        text,
        "\nThe options of `namewire {here}` can be given, too: `namewire {here} --help` shows them.\n"
    );
    text
}

/// The line of the usage.
pub(super) fn line_of(tool: &Tool, program: &Command) -> String {
    let mut line = format!("Usage: {} [OPTIONS]", tool.full_name());
    for argument in command_of(tool, program).get_positionals() {
        let _ = match argument.is_required_set() {
            true => write!(line, " {argument}"),
            false => write!(line, " [{}]", argument.to_string().trim_matches(['<', '>', '[', ']'])),
        };
    }
    line
}

/// The value of an option, and what it does.
fn described(meaning: Meaning, command: &Command) -> (&'static str, String) {
    let help = |option: &str| match command
        .get_arguments()
        .find(|argument| argument.get_long().is_some_and(|long| option == format!("--{long}")))
    {
        Some(argument) => argument.get_help().map(ToString::to_string).unwrap_or_default(),
        None => "Print this".to_owned(),
    };
    match meaning {
        Meaning::Is([]) => ("", "Accepted before the argument, without effect".to_owned()),
        Meaning::Is(["--kind", "identity"]) => ("", "NAME is an identity".to_owned()),
        Meaning::Is(["--kind", kind]) => ("", format!("NAME is a {kind}")),
        Meaning::Is([option]) => ("", help(option)),
        Meaning::Is(arguments) => ("", format!("The same as {}", arguments.join(" "))),
        Meaning::Value(option) => ("VALUE", help(option)),
        Meaning::Milliseconds(option) => ("MILLISECONDS", help(option)),
        Meaning::Bytes(option) => ("BYTES", help(option)),
        Meaning::Signing => ("SIGNING-INFO", "Signer: id:NAME, key:NAME or cert:NAME".to_owned()),
        Meaning::Ignored => ("", "Accepted, without effect".to_owned()),
        Meaning::IgnoredValue => ("VALUE", "Accepted, without effect".to_owned()),
        Meaning::Refused(reason) => ("", format!("Not offered: {reason}")),
    }
}

/// The command that a tool stands for.
fn command_of(tool: &Tool, program: &Command) -> Command {
    let words = tool.command.iter().take_while(|word| !word.starts_with('-'));
    words.fold(program.clone(), |command, word| {
        command.find_subcommand(word).cloned().unwrap_or(command)
    })
}

fn add_row(text: &mut String, left: &str, right: &str) {
    // A longer one has its words in the next line.
    let gap = if left.len() + 2 > WIDTH { format!("\n  {:WIDTH$}", "") } else { String::new() };
    // Writing to a String does not fail.
    let _ = writeln!(text, "  {left:WIDTH$}{gap}{right}");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::tools::find;
    use super::*;

    #[test]
    fn usage_shows_the_options_of_the_tool() {
        let program = crate::cli::Arguments::command();
        for (tool, words) in [
            ("ndnpeek", &["Usage: ndnpeek [OPTIONS] <NAME>", "-P, --prefix", "<MILLISECONDS>"][..]),
            ("ndnping", &["Usage: ndnping ", "-c, --count <VALUE>"]),
            ("ndncatchunks", &["-D, --no-version-discovery", "Not offered: --json"]),
            ("ndnsec-key-gen", &["Usage: ndnsec key-gen ", "-n, --not-default"]),
        ] {
            let (tool, _) = find(tool, &[]).unwrap();
            let text = of_tool(tool, &program);
            for word in words {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
        let text = of_ndnsec(&program);
        assert!(text.contains("cert-install") && !text.contains("namewire"), "{text}");
    }
}
