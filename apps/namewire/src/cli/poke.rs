//! `namewire poke`: serves one Data packet.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ndn_client::Request;
use ndn_packet::{Component, Data, DataBuilder, Name};
use ndn_security::{sha256, sign_data};
use ndn_types::duration_ms;
use tokio::sync::Notify;

use super::arguments::{duration, positive_duration, served_name};
use super::connect::{ConnectOptions, block_on_until_done, unless_turned_away};
use super::failure::{Failure, Outcome};
use super::interrupt::{interrupted, or_interrupted};
use super::keys;

/// Serve one Data packet to the first consumer
///
/// Waits for an Interest that the packet satisfies, sends it, and exits. With --keep it continues until interrupted.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// The name
    #[arg(value_parser = served_name)]
    name: Name,
    /// The content, `-` for standard input
    #[arg(default_value = "-")]
    file: String,
    /// FreshnessPeriod of the packet
    #[arg(long, short = 'x', value_parser = duration, value_name = "DURATION")]
    freshness: Option<Duration>,
    /// Set FinalBlockId to the last component
    #[arg(long)]
    r#final: bool,
    #[arg(long, value_name = "KEY", default_value = "digest", conflicts_with = "identity", help = keys::SIGN_HELP, long_help = keys::SIGN_LONG_HELP)]
    sign: String,
    /// Exit if no Interest arrives within this time
    #[arg(long, short, value_parser = positive_duration, value_name = "DURATION")]
    timeout: Option<Duration>,
    /// Continue after the first answer
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

pub(super) fn run(options: &Options) -> Outcome {
    let packet = Arc::new(packet(options)?);
    block_on_until_done(async {
        let endpoint = options.connect.open().await?;
        let answered = Arc::new(Notify::new());
        let handler = {
            let answered = Arc::clone(&answered);
            let packet = Arc::clone(&packet);
            move |request: Request| {
                // It was parsed when it was created.
                if Data::parse(&packet).is_ok_and(|data| request.interest().matches(&data, sha256))
                {
                    request.answer(&packet);
                    answered.notify_one();
                }
            }
        };
        let register = async { Ok(endpoint.produce(&options.name, handler).await?) };
        let registration = unless_turned_away(register).await;
        let registration = registration.map_err(|error| Failure::Unregistered(Box::new(error)))?;
        if options.keep {
            super::output::note(&format_args!("serving {}; Ctrl-C ends it", options.name));
            interrupted().await.map_err(|error| Failure::Failed(error.to_string()))?;
        } else {
            or_interrupted(first_answer(options, &answered)).await?;
        }
        registration.unregister().await?;
        Ok(())
    })
}

async fn first_answer(options: &Options, answered: &Notify) -> Outcome {
    let Some(timeout) = options.timeout else {
        answered.notified().await;
        return Ok(());
    };
    let answered = tokio::time::timeout(timeout, answered.notified()).await;
    answered.map_err(|_| Failure::NoAnswer(format!("no Interest for {} arrived", options.name)))
}

fn packet(options: &Options) -> Outcome<Vec<u8>> {
    let signer = options.connect.data_signer(&options.sign)?;
    let content = super::input::read(&options.file)?;
    let mut data = DataBuilder::new(&options.name).content(&content);
    if let Some(freshness) = options.freshness {
        data = data.freshness_ms(duration_ms(freshness));
    }
    if options.r#final {
        data = data.final_block_id(final_component(&options.name)?);
    }
    let wire = sign_data(&data, signer.as_ref()).map_err(|error| {
        Failure::Usage(format!("no packet can be created from {}: {error}", options.name))
    })?;
    if wire.len() > ndn_packet::MAX_PACKET_SIZE {
        let max = ndn_packet::MAX_PACKET_SIZE;
        return Err(Failure::Usage(format!(
            "the packet would have {} bytes; at most {max} are allowed (`namewire put` publishes larger content)",
            wire.len()
        )));
    }
    Ok(wire)
}

fn final_component(name: &Name) -> Outcome<Component<'_>> {
    let last = name.as_ref().last();
    last.filter(|last| !last.ty().is_digest()).ok_or_else(|| {
        Failure::Usage(format!("{name} has no last component that could be the final one"))
    })
}
