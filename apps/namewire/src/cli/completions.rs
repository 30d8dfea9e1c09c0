//! `namewire completions` and `namewire man`: what packages install.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::failure::{Failure, Outcome};

/// Print a shell's completions for this program
#[derive(Args, Debug)]
pub(super) struct Options {
    /// The shell
    shell: Shell,
}

/// Print the manual page of this program, or write the pages of all its commands
#[derive(Args, Debug)]
pub(super) struct ManOptions {
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(
        options.shell,
        &mut super::Arguments::command(),
        "namewire",
        &mut script,
    );
    Ok(std::io::stdout().lock().write_all(&script)?)
}

pub(super) fn run_man(options: &ManOptions) -> Outcome {
    let program = super::Arguments::command();
    match &options.directory {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(program).render(&mut page)?;
            Ok(std::io::stdout().lock().write_all(&page)?)
        }
        Some(directory) => {
            let written = fs::create_dir_all(directory)
                .and_then(|()| clap_mangen::generate_to(program, directory));
            written.map_err(|error| Failure::file(directory.display(), &error))
        }
    }
}
