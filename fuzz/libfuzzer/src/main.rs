//! Runs one target under libFuzzer: the one that the environment variable `NAMEWIRE_FUZZ_TARGET` names when this is compiled.
//!
//! The code of the other targets is left out: libFuzzer looks through the counters of all code of the program after each
//! execution, which takes longer than most executions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namewire_fuzz::{Target, find_target};

const TARGET: Target = find_target(env!("NAMEWIRE_FUZZ_TARGET"))
    .expect("NAMEWIRE_FUZZ_TARGET is none of the names in namewire_fuzz::TARGETS");

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
