//! Runs the target named by the environment variable `NAMEWIRE_FUZZ_TARGET` under libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namewire_fuzz::{TARGETS, Target, find_target};
use std::sync::OnceLock;

static TARGET: OnceLock<Target> = OnceLock::new();

fn select() -> Target {
    let name = std::env::var("NAMEWIRE_FUZZ_TARGET").unwrap_or_default();
    find_target(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("NAMEWIRE_FUZZ_TARGET must be one of: {}", names.join(", "));
        std::process::exit(2);
    })
}

fuzz_target!(|bytes: &[u8]| TARGET.get_or_init(select)(bytes));
