//! On other systems, in place of the commands that need Linux: each answers that it does.

use std::ffi::OsString;

use clap::Args;

/// Any arguments.
#[derive(Args, Debug)]
pub(super) struct Anything {
    /// Not read
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    _arguments: Vec<OsString>,
}

/// A command that runs on Linux only, with its function and its options.
macro_rules! linux_only {
    ($( $module:ident { $( $run:ident($Options:ident): $name:literal, $about:literal, $reason:expr; )+ } )+) => { $(
        pub(super) mod $module {
            use clap::Args;

            use crate::cli::failure::{Failure, Outcome};
            use crate::cli::linux::Anything;
            $(
                #[doc = $about]
                #[derive(Args, Debug)]
                pub(crate) struct $Options {
                    #[command(flatten)]
                    _anything: Anything,
                }

                pub(crate) fn $run(_: &$Options) -> Outcome {
                    Err(Failure::Failed(format!("{}: {}", $name, $reason)))
                }
            )+
        }
    )+ };
}

const FORWARDER: &str = "the forwarder runs on Linux only";
const COMMAND: &str = "this command runs on Linux only";

linux_only! {
    run { run(Options): "run", "Run the forwarder (on Linux only)", crate::cli::linux::FORWARDER; }
    start {
        run(Options): "start", "Start the forwarder in the background (on Linux only)", crate::cli::linux::FORWARDER;
        stop(StopOptions): "stop", "Stop the forwarder (on Linux only)", crate::cli::linux::FORWARDER;
    }
    workers { run(Options): "workers", "Show the workers of the forwarder (on Linux only)", crate::cli::linux::FORWARDER; }
    interfaces { run(Options): "interfaces", "Show network interfaces (on Linux only)", crate::cli::linux::COMMAND; }
    mount {
        run(Options): "mount", "Mount NDN files as a file system (on Linux only)", crate::cli::linux::COMMAND;
        run_watcher(WatcherOptions): "unmount-abandoned", "Unmount (on Linux only)", crate::cli::linux::COMMAND;
    }
    traffic { run(Options): "traffic", "Generate traffic (on Linux only)", crate::cli::linux::COMMAND; }
    model { run(Options): "model", "Predict the capacity of a forwarder (on Linux only)", crate::cli::linux::COMMAND; }
    lab { run(Options): "lab", "Run designed experiments (on Linux only)", crate::cli::linux::COMMAND; }
}

pub(super) mod config {
    use std::ffi::OsString;

    use clap::Subcommand;

    use crate::cli::failure::{Failure, Outcome};
    use crate::cli::linux::FORWARDER;

    /// Configuration of the forwarder (on Linux only)
    #[derive(Subcommand, Debug)]
    pub(crate) enum Command {
        /// Any of them
        #[command(external_subcommand)]
        Any(Vec<OsString>),
    }

    pub(crate) fn run(_: &Command) -> Outcome {
        Err(Failure::Failed(format!("config: {FORWARDER}")))
    }
}

pub(super) mod api {
    use std::ffi::OsString;

    use clap::Subcommand;

    use crate::cli::failure::{Failure, Outcome};
    use crate::cli::linux::FORWARDER;

    /// Manage the HTTP API of a forwarder (on Linux only)
    #[derive(Subcommand, Debug)]
    pub(crate) enum Command {
        /// Any of them
        #[command(external_subcommand)]
        Any(Vec<OsString>),
    }

    pub(crate) fn run(_: &Command) -> Outcome {
        Err(Failure::Failed(format!("control: {FORWARDER}")))
    }
}
