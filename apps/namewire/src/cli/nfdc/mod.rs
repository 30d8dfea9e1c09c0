//! `namewire nfdc`: the grammar, the output and the exit statuses of NFD's `nfdc`, for scripts that
//! were written for it.
//!
//! | module | what it holds |
//! |---|---|
//! | `grammar` | which commands there are, and their arguments |
//! | `batch` | lines of a batch file |
//! | `faces`, `routes`, `tables`, `report` | the commands |
//! | `session` | the connection to the forwarder; early ends of commands |
//! | `text`, `xml` | how things are written |

mod batch;
mod datasets;
mod faces;
mod grammar;
mod report;
mod routes;
mod session;
mod tables;
mod text;
mod xml;

pub(super) use text::{extended_timestamp, timestamp};

use std::process::ExitCode;

use clap::Args;
use ndn_client::{Endpoint, EndpointOptions};

use super::connect::{ConnectOptions, block_on};
use super::failure::Failure;
use super::key_chain::usual_signer;
use grammar::Parsed;
pub(super) use grammar::words_after;
use session::{Exit, Session, print};

/// Run a command of NFD's nfdc, with its arguments, output and exit statuses
///
/// `namewire nfdc help` lists the commands. It is for scripts written for nfdc.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(super) struct Options {
    /// The arguments of nfdc
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// The identifier of the arguments among those of this program.
pub(super) const ARGUMENTS: &str = "arguments";

/// The version of NFD whose nfdc is the model.
const LIKE_VERSION: &str = "24.07";

/// Runs the command and returns its exit status.
pub(super) fn run(options: &Options) -> ExitCode {
    match execute(&options.arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            if !exit.message.is_empty() {
                super::output::note(&exit.message);
            }
            ExitCode::from(exit.status)
        }
    }
}

fn execute(arguments: &[String]) -> Result<(), Exit> {
    match arguments.first().map(String::as_str) {
        None => print(&grammar::help()),
        Some("-V" | "--version") => print(&format!("{LIKE_VERSION}\n")),
        Some("-f" | "--batch") => match &arguments[1..] {
            [file] => run_batch(file),
            _ => Err(Exit::new(
                2,
                format!(
                    "ERROR: Invalid command line arguments: {} should follow with batch-file. Use \
                     -h for more detail.",
                    arguments[0]
                ),
            )),
        },
        Some(_) if arguments.iter().any(|word| ["help", "--help", "-h"].contains(&&**word)) => {
            let words =
                arguments.iter().filter(|word| !["help", "--help", "-h"].contains(&&***word));
            print(&grammar::help_about(words.map(String::as_str)))
        }
        Some(_) => {
            let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let parsed = grammar::parse(&words).map_err(|message| Exit::new(2, message))?;
            with_session(is_signed(&parsed), async |session: &Session| {
                perform(session, &parsed).await
            })
        }
    }
}

fn run_batch(file: &str) -> Result<(), Exit> {
    let lines = batch::read(file)?;
    let count = lines.len();
    with_session(lines.iter().any(is_signed), async |session: &Session| {
        for (index, parsed) in lines.iter().enumerate() {
            let Err(exit) = perform(session, parsed).await else { continue };
            if count == 1 {
                return Err(exit);
            }
            let line = index + 1;
            return Err(Exit::new(
                exit.status,
                format!(
                    "{}\n  >> Failed to execute command on line {line} of the batch file {file}\n  \
                     Note that nfdc has executed all commands on previous lines and stopped \
                     processing at this line",
                    exit.message
                ),
            ));
        }
        Ok(())
    })
}

/// Whether it sends signed Interests: commands that change something do, queries do not.
fn is_signed(parsed: &Parsed) -> bool {
    let verb = parsed.command.split_once(' ').map_or("", |(_, verb)| verb);
    !matches!(verb, "report" | "show" | "list" | "info")
}

/// The key chain is opened only if the command `is_signed`: queries need no access to it.
fn with_session(
    is_signed: bool,
    work: impl AsyncFnOnce(&Session) -> Result<(), Exit>,
) -> Result<(), Exit> {
    let mut result = Ok(());
    let outcome = block_on(async {
        let signer = match is_signed {
            // As in nfdc.
            true => usual_signer()?,
            false => EndpointOptions::default().command_signer,
        };
        let endpoint = ConnectOptions::default().open_as_operator_with(signer).await?;
        result = work(&Session { endpoint }).await;
        Ok(())
    });
    match outcome {
        Ok(()) => result,
        Err(failure) => Err(Exit::new(1, failure.to_string())),
    }
}

async fn perform(session: &Session, parsed: &Parsed) -> Result<(), Exit> {
    let Parsed { command, arguments } = parsed;
    let output = match *command {
        "status report" => report::all(session, arguments).await,
        "status show" | "channel list" | "fib list" | "cs info" => {
            report::section(session, command).await
        }
        "face list" => faces::list(session, arguments).await,
        "face show" => faces::show(session, arguments).await,
        "face create" => faces::create(session, arguments).await,
        "face destroy" => faces::destroy(session, arguments).await,
        "route list" => routes::list(session, arguments).await,
        "route show" => routes::show(session, arguments).await,
        "route add" => return routes::add(session, arguments).await,
        "route remove" => return routes::remove(session, arguments).await,
        "cs config" => tables::cs_config(session, arguments).await,
        "cs erase" => tables::cs_erase(session, arguments).await,
        "strategy list" => tables::strategy_list(session).await,
        "strategy show" => tables::strategy_show(session, arguments).await,
        "strategy set" => tables::strategy_set(session, arguments).await,
        _ => tables::strategy_unset(session, arguments).await,
    };
    print(&output?)
}

/// The output of `nfdc status report` in this format, for the status server.
pub(super) async fn status_report(endpoint: &Endpoint, format: &str) -> Result<String, Failure> {
    let session = Session { endpoint: endpoint.clone() };
    let report = report::fetch(&session).await;
    let report = report.map_err(|exit| Failure::NoAnswer(exit.message))?;
    Ok(report::render(&report, Some(format)))
}
