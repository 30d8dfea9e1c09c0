//! Namewire: an NDN forwarder and data-transfer toolkit.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    namewire::cli::main()
}
