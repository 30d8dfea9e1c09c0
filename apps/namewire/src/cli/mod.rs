//! The command line: one file per command.
//!
//! `failure.rs` has the exit statuses, `input.rs` the reading of files, `connect.rs` how a forwarder is
//! found, `output.rs` tables and JSON. Commands that manage a forwarder speak NFD's management protocol:
//! they work on any forwarder that does, except `log`, `capture`, `workers`, `ndt` and `trace`, which need
//! the control socket of this program.

mod arguments;
mod bench;
mod cache;
mod capture;
mod capture_files;
mod cert;
mod certificates;
mod companions;
mod complete;
mod completions;
mod connect;
mod connection;
mod control;
mod control_queries;
mod cs;
mod diagnose;
mod dissect;
mod examples;
mod extcap;
mod face;
mod failure;
mod fetch_file;
mod file_name;
mod find;
mod gateway;
mod get;
mod groups;
mod help;
mod input;
mod interrupt;
mod key;
mod key_chain;
mod keys;
mod limits;
mod log;
mod ls;
mod manage;
mod manual;
mod ndt;
mod nfdc;
/// Tables, JSON and lines on standard output and standard error.
pub mod output;
mod packet_line;
mod passphrase;
mod peek;
mod ping;
mod poke;
mod progress;
mod put;
mod range;
mod resolve;
mod route;
mod scrape;
mod serve;
mod status;
mod strategy;
mod sync;
mod target;
mod trace;
mod tree;
mod vip;
mod webtransport;
mod words;

#[cfg_attr(not(target_os = "linux"), path = "linux_only.rs")]
mod linux;
use linux::{api, config, interfaces, lab, model, mount, run, traffic, workers};

/// Common parts of `namewire` and the commands of other programs.
pub mod shared {
    pub use super::arguments::{duration, positive_duration, size};
    pub use super::failure::{Failure, INTERRUPTED, Outcome};
    pub use super::interrupt::on_interrupt;
    #[cfg(target_os = "linux")]
    pub use super::linux::list::{List, numbers, processors, processors_of, repeated};
    pub use super::output::{self, Table};
}

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::CompleteEnv;
use failure::{Failure, Outcome};

/// NDN forwarder and tools
///
/// `namewire run` is the forwarder. The other commands are its clients: they find it by
/// NDN_CLIENT_TRANSPORT, by client.conf, or at the default Unix socket, and work with any forwarder
/// that supports NFD's protocols.
#[derive(Parser, Debug)]
#[command(name = "namewire", version, after_long_help = failure::NOTES, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Run(run::Options),
    Start(companions::start::Options),
    Stop(companions::start::StopOptions),
    Status(status::Options),
    Face(face::Options),
    Route(route::Options),
    Strategy(strategy::Options),
    Cs(cs::Options),
    Ping(ping::Options),
    PingServer(ping::ServerOptions),
    Peek(peek::Options),
    Poke(poke::Options),
    Put(put::Options),
    Get(get::Options),
    Ls(ls::Options),
    Find(find::Options),
    Sync(sync::Options),
    Serve(serve::Options),
    Gateway(gateway::Options),
    Mount(mount::Options),
    #[command(hide = true)]
    UnmountAbandoned(mount::WatcherOptions),
    Dissect(dissect::Options),
    Capture(capture::Options),
    #[command(hide = true)]
    Extcap(extcap::Options),
    Log(log::Options),
    Workers(workers::Options),
    #[command(name = "webtransport")]
    WebTransport(webtransport::Options),
    Interfaces(interfaces::Options),
    Ndt(ndt::Options),
    Limits(limits::Options),
    Vip(vip::Options),
    Nfdc(nfdc::Options),
    Autoreg(companions::autoreg::Options),
    Autoconfig(companions::autoconfig::Options),
    AutoconfigServer(companions::hub::Options),
    StatusServer(companions::status_server::Options),
    Trace(trace::Options),
    Traffic(traffic::Options),
    Bench(bench::Options),
    Model(model::Options),
    Cache(cache::Options),
    Lab(lab::Options),
    #[command(subcommand)]
    Key(key::Command),
    #[command(subcommand)]
    Cert(cert::Command),
    #[command(subcommand)]
    Config(config::Command),
    #[command(subcommand)]
    Control(api::Command),
    Completions(completions::Options),
    Man(completions::ManOptions),
}

/// The exit status of an unusable command line.
const USAGE_STATUS: i32 = 2;

/// Runs the command on the command line.
pub fn main() -> ExitCode {
    // Does not return if a shell requests candidates.
    CompleteEnv::with_factory(program).var(complete::VARIABLE).completer("namewire").complete();
    if let Some(usage) = companions::usage_of_process(program) {
        // A closed output is no failure.
        let _ = output::print_line(usage.trim_end());
        return ExitCode::SUCCESS;
    }
    let invocation = companions::Invocation::of_process();
    let companions::Invocation { arguments, tool } = invocation.unwrap_or_else(|reason| {
        output::note(&format_args!("namewire: {reason}"));
        std::process::exit(USAGE_STATUS);
    });
    let matches = program().try_get_matches_from(&arguments);
    let matches = matches.unwrap_or_else(|mut error| {
        let asks_for_all = arguments.iter().any(|one| one == "--help" || one == "help");
        if error.kind() == ErrorKind::DisplayHelp && asks_for_all {
            let asked = help::as_option(&arguments);
            let of_all = help::of_all_options(program()).try_get_matches_from(asked);
            error = of_all.err().unwrap_or(error);
        }
        if let Some(tool) = tool {
            companions::name_usage(&mut error, tool, &program());
        }
        refuse(error, &arguments)
    });
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let Command::Nfdc(options) = &arguments.command {
        // It has other exit statuses.
        return nfdc::run(options);
    }
    match execute(&arguments.command, tool.is_some()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let failure = connect::with_stopped_forwarder(failure);
            let is_closed = matches!(failure.itself(), Failure::OutputClosed);
            if !is_closed && asks_for_json(&matches) {
                output::note(&output::json_text_of_line(failure.to_json()));
            } else if let Some(message) = failure.last_message() {
                output::note(&format_args!("namewire: {message}"));
            }
            tool.map_or_else(|| failure.exit_code(), |tool| tool.exit_status(&failure).into())
        }
    }
}

/// Whether the command has the option `--json`, and it is given.
fn asks_for_json(matches: &clap::ArgMatches) -> bool {
    let own = matches.try_get_one::<bool>("json").ok().flatten().is_some_and(|given| *given);
    own || matches.subcommand().is_some_and(|(_, below)| asks_for_json(below))
}

/// The command line, with examples.
fn program() -> clap::Command {
    let command = arguments::with_negative_numbers(Arguments::command());
    complete::completed(examples::added(groups::with_groups(command)))
}

/// Ends the program for an unusable command line; words of other programs are answered.
fn refuse(mut error: clap::Error, arguments: &[OsString]) -> ! {
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
        && option == "--socket"
    {
        let tip = "--transport names the Unix socket of the forwarder to connect to".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    let commands: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
    if let Some(hint) = words::hint_for(&error, &commands) {
        let hint = ContextValue::StyledStrs(vec![hint.into()]);
        error.insert(ContextKind::Suggested, hint);
    }
    if let Some(ContextValue::Strings(similar)) = error.get(ContextKind::SuggestedSubcommand) {
        // The most similar word is the last one.
        let similar = similar.iter().rev().cloned().collect();
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(similar));
    }
    if let Some(text) = arguments::wrong_value(&error) {
        output::note(&text);
        std::process::exit(error.exit_code());
    }
    let word = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => word,
        _ => error.exit(),
    };
    let Some(answer) = words::answer(word, arguments) else { error.exit() };
    output::note(&format_args!(
        "namewire: {word} is not a command: {answer}; see `namewire --help`"
    ));
    std::process::exit(error.exit_code())
}

/// Executes a command. With `as_tool`, its output has the form of the program by whose name this one was started, where
/// scripts read that.
fn execute(command: &Command, as_tool: bool) -> Outcome {
    match command {
        Command::Run(options) => run::run(options),
        Command::Start(options) => companions::start::run(options),
        Command::Stop(options) => companions::start::stop(options),
        Command::Status(options) => status::run(options),
        Command::Face(options) => face::run(options),
        Command::Route(options) => route::run(options),
        Command::Strategy(options) => strategy::run(options),
        Command::Cs(options) => cs::run(options),
        Command::Ping(options) => ping::run(options, as_tool),
        Command::PingServer(options) => ping::run_server(options),
        Command::Peek(options) => peek::run(options, as_tool),
        Command::Poke(options) => poke::run(options),
        Command::Put(options) => put::run(options),
        Command::Get(options) => sync::run_get(options, as_tool),
        Command::Ls(options) => ls::run(options),
        Command::Find(options) => find::run(options),
        Command::Sync(options) => sync::run(options),
        Command::Serve(options) => serve::run(options),
        Command::Gateway(options) => gateway::run(options),
        Command::Mount(options) => mount::run(options),
        Command::UnmountAbandoned(options) => mount::run_watcher(options),
        Command::Dissect(options) => dissect::run(options),
        Command::Capture(options) => capture::run(options),
        Command::Extcap(options) => extcap::run(options),
        Command::Log(options) => log::run(options),
        Command::Workers(options) => workers::run(options),
        Command::WebTransport(options) => webtransport::run(options),
        Command::Interfaces(options) => interfaces::run(options),
        Command::Ndt(options) => ndt::run(options),
        Command::Limits(options) => limits::run(options),
        Command::Vip(options) => vip::run(options),
        Command::Nfdc(_) => Ok(()),
        Command::Autoreg(options) => companions::autoreg::run(options),
        Command::Autoconfig(options) => companions::autoconfig::run(options),
        Command::AutoconfigServer(options) => companions::hub::run(options),
        Command::StatusServer(options) => companions::status_server::run(options),
        Command::Trace(options) => trace::run(options),
        Command::Traffic(options) => traffic::run(options),
        Command::Bench(options) => bench::run(options),
        Command::Model(options) => model::run(options),
        Command::Cache(options) => cache::run(&options.what),
        Command::Lab(options) => lab::run(options),
        Command::Key(command) => key::run(command, as_tool),
        Command::Cert(command) => cert::run(command),
        Command::Config(command) => config::run(command),
        Command::Control(command) => api::run(command),
        Command::Completions(options) => completions::run(options),
        Command::Man(options) => completions::run_man(options, program()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }

    #[test]
    fn wrong_values_are_refused_in_plain_words() {
        for (arguments, expected) in [
            ("run --port 80x", "'80x' for '--port <PORT>': it is not a whole number\n"),
            ("run --port 99999999999999999999", "': the number is too large\n"),
            ("run --port 70000", "': it is a whole number from 1 to 65535\n"),
            ("run --port -1", "'-1' for '--port <PORT>': it is a whole number from 1 to 65535\n"),
            (
                "run --cs-capacity -1",
                "'-1' for '--cs-capacity <PACKETS>': the number is not negative\n",
            ),
            ("run --http 6391", "for '--http <ADDRESS:PORT>': it is an IP address and a port, "),
            ("run --address here", "for '--address <ADDRESS>': it is an IP address, such as "),
            ("route add /a 1 --cost -1", "'-1' for '--cost <COST>': the number is not negative\n"),
            ("put /a --version abc", "for '--version <VERSION>': it is not a whole number\n"),
        ] {
            let words = ["namewire"].into_iter().chain(arguments.split(' '));
            let error = super::program().try_get_matches_from(words).unwrap_err();
            let text = super::arguments::wrong_value(&error).unwrap();
            assert!(text.contains(expected), "{text}");
        }
    }

    /// Each is refused by the option before it, or accepted.
    #[test]
    fn negative_values_are_not_taken_for_options() {
        fn check(command: &clap::Command, path: &[&str]) {
            for argument in command.get_arguments() {
                let (Some(long), true) =
                    (argument.get_long(), argument.get_action().takes_values())
                else {
                    continue;
                };
                let is_size =
                    argument.get_value_names().is_some_and(|names| names[0].starts_with("SIZE"));
                let value = if is_size { "-1MiB" } else { "-1" };
                let option = format!("--{long}");
                let words = [path, &[&*option, value]].concat();
                let refused = super::program().try_get_matches_from(&words).err();
                let kind = refused.as_ref().map(clap::Error::kind);
                assert_ne!(kind, Some(super::ErrorKind::UnknownArgument), "{words:?}");
            }
            for below in command.get_subcommands() {
                check(below, &[path, &[below.get_name()]].concat());
            }
        }
        let mut program = super::program();
        program.build();
        check(&program, &["namewire"]);
    }

    #[test]
    fn short_help_fits_a_screen() {
        let mut program = super::program().term_width(100);
        program.build();
        for name in ["get", "sync", "put", "serve", "gateway", "find", "run", "ls", "peek", "ping"]
        {
            let help = program.find_subcommand_mut(name).unwrap().render_help().to_string();
            let lines = help.lines().count();
            assert!(lines <= 40, "{name}: {lines} lines\n{help}");
        }
    }

    #[test]
    fn every_command_and_option_has_help() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no help", command.get_name());
            for argument in command.get_arguments() {
                let place = format!("{} of {}", argument.get_id(), command.get_name());
                assert!(argument.get_help().is_some(), "{place} has no help");
            }
            command.get_subcommands().for_each(check);
        }
        let mut program = super::Arguments::command();
        program.build();
        check(&program);
    }

    #[test]
    fn help_has_no_avoided_phrases() {
        // prose:off
        const AVOIDED: [&str; 9] = [
            "whoever",
            " so many",
            "so long",
            " told",
            "tell ",
            "becomes of",
            "looked at",
            "goes on with",
            "may be there",
        ];
        // prose:on
        fn check(command: &mut clap::Command, path: &str) {
            let help = command.render_long_help().to_string().to_lowercase();
            for phrase in AVOIDED {
                assert!(!help.contains(phrase), "{path}: {phrase}");
            }
            for command in command.get_subcommands_mut() {
                let path = format!("{path} {}", command.get_name());
                check(command, &path);
            }
        }
        check(&mut super::Arguments::command(), "namewire");
    }
}
