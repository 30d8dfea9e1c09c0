//! `namewire peek`: fetches one Data packet.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ndn_client::fetch::{Discovery, FetchError, FetchOptions};
use ndn_client::{Endpoint, ExpressError, InterestRequest, ReceivedData};
use ndn_files::{FileMetadata, refusal_reason};
use ndn_packet::dissect::dissect;
use ndn_packet::{ContentType, Data, Name};

use super::arguments::{from_base64, interest_name, name, positive_duration};
use super::connect::{ConnectOptions, block_on};
use super::connection::while_connected;
use super::diagnose::{self, note_early};
use super::failure::{Failure, Outcome};
use super::output::{self, changes_terminal, without_control};
use super::progress::Notes;
use super::{input, keys};

/// Time to wait for metadata after there was no answer.
const METADATA_TIMEOUT: Duration = Duration::from_millis(500);

/// Fetch one Data packet and print its content
#[derive(Args, Debug)]
pub(super) struct Options {
    /// The name
    #[arg(value_parser = interest_name)]
    name: Name,
    /// Accept Data with a longer name (CanBePrefix)
    #[arg(long, short = 'P', alias = "prefix")]
    can_be_prefix: bool,
    /// Accept fresh Data only (MustBeFresh)
    #[arg(long, short)]
    fresh: bool,
    /// InterestLifetime
    #[arg(long, short, value_parser = positive_duration, default_value = "4s", value_name = "DURATION", overrides_with = "lifetime")]
    lifetime: Duration,
    /// Retransmissions before giving up
    ///
    /// The command fails after (RETRIES + 1) lifetimes without an answer or without a forwarder.
    #[arg(long, default_value_t = 0)]
    retries: u32,
    /// HopLimit of the Interest
    #[arg(long, value_name = "HOPS")]
    hop_limit: Option<u8>,
    /// ForwardingHint: name to forward by until the region of the producer is reached; may be repeated
    #[arg(long, value_parser = name, value_name = "NAME")]
    hint: Vec<Name>,
    /// File with ApplicationParameters, `-` for standard input
    #[arg(long, value_name = "FILE")]
    parameters: Option<String>,
    /// ApplicationParameters in Base64
    #[arg(long, value_name = "BASE64", conflicts_with = "parameters", value_parser = base64_bytes)]
    parameters_base64: Option<Arc<[u8]>>,
    /// Output file, or `-` for standard output; content with control characters goes to a terminal only with `-`
    #[arg(long, short, value_name = "FILE", value_parser = output_file)]
    output: Option<PathBuf>,
    /// Part of the packet to print
    #[arg(long, value_enum, default_value = "content")]
    format: Format,
    /// Print JSON (`--format json`)
    #[arg(long)]
    json: bool,
    #[arg(long, value_name = "KEY", default_value = "digest", help = keys::VERIFY_HELP, long_help = keys::VERIFY_LONG_HELP)]
    verify: String,
    #[command(flatten)]
    connect: ConnectOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The content
    Content,
    /// The whole packet
    Packet,
    /// The dissected packet
    Dissect,
    /// Name and fields as JSON, the content in Base64
    Json,
}

impl Options {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

fn base64_bytes(text: &str) -> Result<Arc<[u8]>, String> {
    from_base64(text).map(Arc::from)
}

/// A file name, but not a word that --format takes: earlier versions took it here.
fn output_file(text: &str) -> Result<PathBuf, String> {
    match Format::from_str(text, false) {
        Ok(_) => Err(format!("use --format {text}, or ./{text} for a file of this name")),
        Err(_) => Ok(PathBuf::from(text)),
    }
}

/// Fetches one Data; with `as_ndnpeek`, prints the reason of a Nack in place of the content, as that does.
pub(super) fn run(options: &Options, as_ndnpeek: bool) -> Outcome {
    let verification = keys::verification(&options.verify)?;
    let mut request = InterestRequest::new(options.name.clone())
        .can_be_prefix(options.can_be_prefix)
        .must_be_fresh(options.fresh)
        .lifetime(options.lifetime)
        .retransmissions(options.retries);
    if let Some(hop_limit) = options.hop_limit {
        request = request.hop_limit(hop_limit);
    }
    for hint in &options.hint {
        request = request.forwarding_hint(hint.clone());
    }
    if let Some(file) = &options.parameters {
        request = request.parameters(input::read(file)?);
    } else if let Some(parameters) = &options.parameters_base64 {
        request = request.parameters(parameters.to_vec());
    }
    block_on(async {
        let endpoint = options.connect.open().await?;
        let timeout = options.lifetime.saturating_mul(options.retries.saturating_add(1));
        let asks_server = !as_ndnpeek && !options.can_be_prefix;
        let received = while_connected(&endpoint, timeout, &Notes::default(), async {
            let expressing = endpoint.express(&request);
            let expressed = match options.hint.is_empty() {
                true => {
                    let cause = early_cause(&endpoint, &options.name, asks_server);
                    let note = |text: &str| output::note(&text);
                    tokio::select! {
                        expressed = expressing => expressed,
                        never = note_early(&options.name, cause, || true, note) => match never {},
                    }
                }
                false => expressing.await,
            };
            if let Err(ExpressError::Nack { reason, .. }) = &expressed
                && as_ndnpeek
                && options.format() == Format::Content
            {
                output::print_line(&reason.to_string())?;
            }
            expressed.map_err(Failure::from)
        })
        .await;
        let received = match (received, options.hop_limit) {
            (Err(Failure::NoAnswer(text)), Some(0)) => {
                let why = "forwarders drop an Interest that arrives with a HopLimit of 0";
                return Err(Failure::NoAnswer(format!("{text} ({why})")));
            }
            (received, _) => received,
        };
        let received = match options.hint.is_empty() {
            true => {
                let received = diagnose::explained(received, &endpoint, &options.name).await;
                match received {
                    Err(Failure::NoAnswer(text)) if asks_server => {
                        let hint = hint_for_object(&endpoint, &options.name).await;
                        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
                        return Err(Failure::NoAnswer(text + &hint));
                    }
                    received => received?,
                }
            }
            // The forwarding hints decide its path.
            false => received?,
        };
        let data = received.data();
        let checked = endpoint.verify(&data, &verification, options.lifetime).await;
        checked.map_err(|reason| {
            Failure::Unverified(format!("verification of {} failed: {reason}", data.name()))
        })?;
        show(&received, options, as_ndnpeek)?;
        match as_ndnpeek {
            true => Ok(()),
            false => refuse_nack(&received.data()),
        }
    })
}

/// Why there is no answer yet, if the forwarder or, with `asks_server`, a server of objects knows it.
async fn early_cause(endpoint: &Endpoint, name: &Name, asks_server: bool) -> Option<String> {
    match diagnose::cause(endpoint, name).await {
        Some(cause) => Some(cause.to_string()),
        None if asks_server => hint_for_object(endpoint, name).await,
        None => None,
    }
}

/// Asks a server of objects with metadata, such as files, about a name: no Data has the name of an object. The server itself has
/// no answer to an Interest for the name, as caches would keep it from a later producer.
async fn hint_for_object(endpoint: &Endpoint, name: &Name) -> Option<String> {
    let asking = FetchOptions {
        discovery: Discovery::Metadata,
        discovery_retransmissions: 0,
        lifetime: METADATA_TIMEOUT,
        ..FetchOptions::default()
    };
    let found = match endpoint.find(name, &asking).await {
        Ok(found) => found,
        Err(FetchError::NotFound { content, .. }) => {
            return Some(match refusal_reason(&content) {
                Some(reason) => format!("its server does not serve it: {reason}"),
                None => "its server states that there is no such object".to_owned(),
            });
        }
        Err(_) => return None,
    };
    let metadata = found.metadata().and_then(|content| FileMetadata::decode(content).ok());
    let is_directory = metadata.is_some_and(|metadata| metadata.is_directory());
    let (what, command) = match is_directory {
        true => ("a directory", "ls"),
        false => ("a segmented object", "get"),
    };
    Some(format!("it is {what}: `namewire {command} {name}`"))
}

/// Fails if an application answered with a Nack, with the text in it.
fn refuse_nack(data: &Data<'_>) -> Outcome {
    if data.content_type() != ContentType::NACK {
        return Ok(());
    }
    let text = data.content().map(String::from_utf8_lossy).filter(|text| !text.is_empty());
    let text = text.map(|text| format!(": {}", without_control(&text))).unwrap_or_default();
    let name = data.name();
    Err(Failure::Failed(format!("the application answered {name} with a Nack{text}")))
}

fn show(received: &ReceivedData, options: &Options, as_ndnpeek: bool) -> Outcome {
    let data = received.data();
    let is_refused = !as_ndnpeek && data.content_type() == ContentType::NACK;
    let bytes = match options.format() {
        // The content of a Nack belongs to the message.
        Format::Content if is_refused => return Ok(()),
        Format::Content => data.content().unwrap_or_default().to_vec(),
        Format::Packet => received.wire().to_vec(),
        Format::Dissect => dissect(received.wire()).as_str().as_bytes().to_vec(),
        Format::Json => format!("{}\n", output::json_text(&json(&data))).into_bytes(),
    };
    if let Some(file) = options.output.as_ref().filter(|file| file.as_os_str() != "-") {
        return std::fs::write(file, bytes).map_err(|error| Failure::file(file.display(), &error));
    }
    let mut out = std::io::stdout().lock();
    if options.output.is_none() && !as_ndnpeek && !is_text(&bytes) && out.is_terminal() {
        return Err(Failure::Failed(format!(
            "the {} has control characters or is no text, and is not written to a terminal: `-o FILE` writes it to a file, `--format dissect` shows it, \
             `-o -` writes it here",
            if options.format() == Format::Packet { "packet" } else { "content" }
        )));
    }
    out.write_all(&bytes)?;
    Ok(out.flush()?)
}

/// Whether it can be written to a terminal, which control characters could change.
fn is_text(bytes: &[u8]) -> bool {
    let is_harmless = |one: char| matches!(one, '\n' | '\t') || !changes_terminal(one);
    // Elsewhere than at the end of a line, a carriage return lets the line be overwritten.
    let is_harmless = |text: &str| text.replace("\r\n", "\n").chars().all(is_harmless);
    std::str::from_utf8(bytes).is_ok_and(is_harmless)
}

fn json(data: &Data<'_>) -> serde_json::Value {
    let base64 =
        |bytes: &[u8]| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
    let signature_type = data.signature_info().ok().map(|info| info.signature_type.to_string());
    serde_json::json!({
        "name": data.name().to_uri(),
        "content_type": data.content_type().0,
        "freshness_period_ms": data.freshness_ms(),
        "final_block_id": data.final_block_id().map(|component| component.to_string()),
        "signature_type": signature_type,
        "content_base64": base64(data.content().unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use ndn_packet::DataBuilder;
    use ndn_security::{DigestSigner, sign_data};

    use super::*;

    #[test]
    fn application_nack_is_a_failure() {
        let name: Name = "/a".parse().unwrap();
        let refused = |content_type, content: &[u8]| {
            let data = DataBuilder::new(&name).content_type(content_type).content(content);
            let wire = sign_data(&data, &DigestSigner).unwrap();
            refuse_nack(&Data::parse(&wire).unwrap()).err()
        };
        assert!(refused(ContentType::BLOB, b"gone").is_none());
        let failure = refused(ContentType::NACK, b"").unwrap();
        assert_eq!(failure.status(), 1);
        assert_eq!(failure.to_string(), "the application answered /a with a Nack");
        let failure = refused(ContentType::NACK, b"gone").unwrap();
        assert_eq!(failure.to_string(), "the application answered /a with a Nack: gone");
        let failure = refused(ContentType::NACK, b"x\nnamewire: verified").unwrap();
        assert!(failure.to_string().ends_with(": x\\nnamewire: verified"), "{failure}");
    }

    #[test]
    fn content_that_could_change_a_terminal_is_no_text() {
        for (content, expected) in [
            (&b""[..], true),
            (b"a\tb\r\n", true),
            ("größe".as_bytes(), true),
            (b"\xff", false),
            (b"a\0b", false),
            (b"\x1b[2J", false),
            (b"verified\rforged", false),
            ("a\u{202e}b".as_bytes(), false),
        ] {
            assert_eq!(is_text(content), expected, "{content:?}");
        }
    }

    #[test]
    fn words_of_format_are_no_output_files() {
        assert!(output_file("json").unwrap_err().contains("--format json"));
        assert!(output_file("dissect").is_err());
        assert_eq!(output_file("./json"), Ok(PathBuf::from("./json")));
        assert_eq!(output_file("-"), Ok(PathBuf::from("-")));
    }
}
