//! `namewire autoconfig-server`: announces a hub to hosts on the same link.

use std::sync::Arc;

use clap::Args;
use ndn_client::{Endpoint, Registration, Request};
use ndn_management::numbers;
use ndn_packet::{DataBuilder, Name, tlv};
use ndn_security::Signer;
use ndn_types::FaceUri;

use crate::cli::arguments::name;
use crate::cli::connect::{ConnectOptions, block_on_until_done};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::interrupt::interrupted;
use crate::cli::key_chain::now_unix_ms;
use crate::cli::keys;
use crate::cli::output;

/// The name of multicast queries (NFD's hub discovery, stage 1).
pub(super) const HUB_PREFIX: &str = "/localhop/ndn-autoconf/hub";
/// The name of queries for the prefixes that hosts can register.
const ROUTABLE_PREFIXES: &str = "/localhop/nfd/rib/routable-prefixes";

/// FreshnessPeriod of the announcement.
const FRESHNESS_MS: u64 = 60_000;

/// The prefixes must fit into one packet with its signature.
const PREFIXES_LEN_MAX: usize = 7_000;

/// Announce a hub to hosts on the same link, as ndn-autoconfig-server does
///
/// Runs until interrupted. The forwarder must have multicast faces.
#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    /// Face URI of the hub, such as udp4://192.0.2.1:6363 or udp://hub.example
    face_uri: FaceUri,
    /// Prefix under which hosts may register at the hub; may be repeated
    #[arg(long, short = 'p', value_parser = name)]
    prefix: Vec<Name>,
    #[arg(long, value_name = "KEY", default_value = "digest", conflicts_with = "identity", help = keys::SIGN_HELP, long_help = keys::SIGN_LONG_HELP)]
    sign: String,
    #[command(flatten)]
    connect: ConnectOptions,
}

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    let signer = options.connect.data_signer(&options.sign)?;
    let mut hub = Vec::new();
    tlv::append_tlv(&mut hub, numbers::URI, options.face_uri.to_string().as_bytes());
    let mut prefixes = Vec::new();
    options.prefix.iter().for_each(|prefix| tlv::append_name(&mut prefixes, prefix.as_ref()));
    if prefixes.len() > PREFIXES_LEN_MAX {
        return Err(Failure::Usage("the prefixes do not fit one packet".to_owned()));
    }
    block_on_until_done(async {
        let endpoint = options.connect.open_as_usual().await?;
        let _hub = serve(&endpoint, HUB_PREFIX, hub, false, &signer).await?;
        let _prefixes = match prefixes.is_empty() {
            true => None,
            false => Some(serve(&endpoint, ROUTABLE_PREFIXES, prefixes, true, &signer).await?),
        };
        output::print_line(&format!("announcing the hub {}; Ctrl-C stops", options.face_uri))?;
        tokio::select! {
            signal = interrupted() => signal.map_err(|error| Failure::Failed(error.to_string())),
            () = crate::cli::connection::report_losses(&endpoint) => Ok(()),
        }
    })
}

/// Serves one Data with this content and one version; datasets have segments.
async fn serve(
    endpoint: &Endpoint,
    uri: &str,
    content: Vec<u8>,
    is_dataset: bool,
    signer: &Arc<dyn Signer>,
) -> Outcome<Registration> {
    let prefix = name(uri).map_err(Failure::Failed)?;
    let mut versioned = prefix.clone();
    versioned.push_version(now_unix_ms());
    if is_dataset {
        versioned.push_segment(0);
    }
    let signer = Arc::clone(signer);
    let handler = move |request: Request| {
        let interest = request.interest();
        let asked = interest.name();
        let is_asked_for = asked == versioned.as_ref()
            || (interest.can_be_prefix() && versioned.starts_with(asked));
        if !is_asked_for {
            return;
        }
        let mut data = DataBuilder::new(&versioned).freshness_ms(FRESHNESS_MS).content(&content);
        if is_dataset {
            data = data.final_segment(0);
        }
        if let Err(error) = request.answer_with(&data, signer.as_ref()) {
            output::note(&format_args!("namewire: {versioned}: {error}"));
        }
    };
    Ok(endpoint.produce(&prefix, handler).await?)
}
