//! `namewire webtransport`: addresses and certificate hashes for browsers.

use clap::Args;

use super::control::ControlOptions;
use super::failure::{Failure, Outcome};
use super::output;

/// Show the WebTransport addresses of a running forwarder and the hashes of its certificates
///
/// A page opens `new WebTransport("https://HOST:PORT/ndn")`. For a self-signed certificate it also passes all hashes
/// shown as `serverCertificateHashes`; the second, if any, is that of the next certificate.
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    control: ControlOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let mut client = options.control.connect()?;
    let status = client.webtransport()?;
    if options.json {
        let json = serde_json::to_value(&status);
        output::print_json(&json.map_err(|error| Failure::Failed(error.to_string()))?)?;
        return Ok(());
    }
    if status.addresses.is_empty() {
        output::print_line("the forwarder does not listen for WebTransport")?;
    }
    for address in &status.addresses {
        output::print_line(&format!("listening on https://{address}{}", ndn_webtransport::PATH))?;
    }
    let kind = if status.self_signed { "self-signed" } else { "from file" };
    for hash in &status.certificate_hashes {
        output::print_line(&format!("certificate ({kind}) sha256 {hash}"))?;
    }
    for (name, count) in status.counters.iter().filter(|(_, count)| **count > 0) {
        output::print_line(&format!("{} {count}", name.replace('_', " ")))?;
    }
    Ok(())
}
