//! `namewire bench`: starts the program `namewire-bench`.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use super::failure::{Failure, Outcome};

const PROGRAM: &str = "namewire-bench";

/// Measure this forwarder and others: starts `namewire-bench`, a separate program
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(super) struct Options {
    /// Arguments of `namewire-bench`; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Whether a directory of PATH that may be read has the program.
fn is_on_path() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(PROGRAM).is_file())
}

/// Replaces this process.
pub(super) fn run(options: &Options) -> Outcome {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(&options.arguments).exec();
    // A directory of PATH that may not be read hides that there is no program.
    let is_hidden = error.kind() == io::ErrorKind::PermissionDenied
        && program.parent() == Some(Path::new(""))
        && !is_on_path();
    Err(Failure::Failed(if is_hidden || error.kind() == io::ErrorKind::NotFound {
        format!(
            "{PROGRAM} is neither beside this program nor on PATH; in a source tree, `make build-bench` builds it and \
             `make install` installs it"
        )
    } else {
        format!("{}: {error}", program.display())
    }))
}
