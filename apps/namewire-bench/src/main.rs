//! The `namewire-bench` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    namewire_bench::cli::main()
}
