//! `namewire traffic`: the traffic generator.

mod common;
mod consumer;
mod faces;
mod producer;
mod routes;

use clap::{Args, Subcommand};

use crate::cli::failure::Outcome;

/// Generate load: send Interests, or answer them
#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    #[command(subcommand)]
    side: Side,
}

#[derive(Subcommand, Debug)]
enum Side {
    Consumer(consumer::Options),
    Producer(producer::Options),
}

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    match &options.side {
        Side::Consumer(options) => consumer::run(options),
        Side::Producer(options) => producer::run(options),
    }
}
