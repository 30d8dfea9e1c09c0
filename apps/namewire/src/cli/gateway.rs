//! `namewire gateway`: files of the file service for HTTP clients.

use std::fs::OpenOptions;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ndn_client::fetch::FetchOptions;
use ndn_gateway::{AccessLog, Gateway, GatewayOptions, Limits, ServerConfig, TlsError, Tokens};
use ndn_packet::Name;
use serde_json::json;
use tokio::net::TcpListener;

use super::arguments::{duration, name, positive_duration, size};
use super::connect::{ConnectOptions, block_on_threads};
use super::connection::report_losses;
use super::failure::{Failure, Outcome};
use super::interrupt::interrupted;
use super::output::{self, bytes_for_people, counted, grouped};
use super::{input, keys};

/// Serve NDN files to HTTP clients
///
/// The path of a URL names a file below PREFIX: with `--prefix /x`, http://127.0.0.1:8080/a/b is the
/// file /x/a/b of a file server (`namewire serve`, NDN-DPDK, ndn6-tools, NDNts). Supports GET and HEAD,
/// ranges and conditions; directories are listed as HTML or JSON, and for WebDAV clients, which can mount them. With
/// --s3-bucket, clients of Amazon S3 can list and read the files, too. Data that does not verify is not sent. Serves until
/// interrupted.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Name prefix of the root `/` of URLs
    #[arg(long, short, value_parser = name)]
    prefix: Name,
    /// Address to listen on; port 0 selects a free port
    ///
    /// Without --token-file, every client that can connect can read everything under PREFIX.
    #[arg(long, short, default_value = "127.0.0.1:8080", value_name = "IP:PORT", value_parser = listen_address)]
    listen: SocketAddr,
    /// Certificate for HTTPS, in PEM, followed by those that lead to its authority
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Answer only requests with a token of this file, which has one per line
    ///
    /// Clients send it as `Authorization: Bearer TOKEN`, or as the password of any user. Without TLS, everybody on the path
    /// can read it. Clients of S3 cannot send it.
    #[arg(long, value_name = "FILE", conflicts_with = "s3_bucket")]
    token_file: Option<PathBuf>,
    /// Serve PREFIX as this bucket of S3, too: the object a/b is http://HOST:PORT/BUCKET/a/b
    ///
    /// ListObjectsV2, GetObject and HeadObject; requests need no signature, and signatures are not checked.
    #[arg(long, value_name = "BUCKET", value_parser = bucket)]
    s3_bucket: Option<String>,
    #[arg(long, value_name = "KEY", default_value = "digest", help = keys::VERIFY_HELP, long_help = keys::VERIFY_LONG_HELP)]
    verify: String,
    /// Lifetime of cached metadata
    #[arg(long, hide_short_help = true, value_parser = duration, default_value = "2s", value_name = "DURATION")]
    metadata_lifetime: Duration,
    /// With a key, also serve older versions than the highest that was verified since the start
    ///
    /// By default older versions are rejected, which prevents replays. This also rejects a file that was replaced by
    /// one with an older modification time (from a backup), until the gateway is restarted.
    #[arg(long, hide_short_help = true)]
    allow_older: bool,
    /// InterestLifetime
    #[arg(long, hide_short_help = true, value_parser = positive_duration, default_value = "4s", value_name = "DURATION")]
    lifetime: Duration,
    /// Lifetimes to wait for an answer, beyond the first
    ///
    /// Clients receive status 504 after at most (RETRIES + 1) lifetimes.
    #[arg(long, default_value_t = 3)]
    retries: u32,
    /// Segments to fetch ahead of each client
    #[arg(long, hide_short_help = true, value_name = "SEGMENTS", default_value_t = Limits::default().read_ahead_segments)]
    read_ahead: u32,
    /// Also accept requests over loopback for this host; may be repeated
    ///
    /// Requests over loopback must be for localhost or a loopback address; others get status 421, so that a web page
    /// whose name resolves to this machine cannot read PREFIX. Use it for a proxy on this machine that keeps the name.
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    host: Vec<String>,
    /// Maximum number of connections; a further one takes the place of one of the address with the most, or is closed
    #[arg(long, hide_short_help = true, help_heading = "Limits", value_name = "COUNT", default_value_t = Limits::default().connections)]
    connections: usize,
    /// Maximum number of transfers; a further one takes the place of one of the address with the most, or waits, and
    /// gets status 503 after 30 s
    #[arg(long, hide_short_help = true, help_heading = "Limits", value_name = "COUNT", default_value_t = Limits::default().transfers)]
    transfers: usize,
    /// Minimum rate per second, over 60 s, of a client that data waits for; slower ones are disconnected
    #[arg(long, hide_short_help = true, help_heading = "Limits", value_name = "SIZE", default_value = "1KiB", value_parser = size(0..=u32::MAX))]
    min_rate: u32,
    /// Write one line of JSON per request to this file, or to standard output (`-`)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.trim_start_matches(':');
    if port.parse::<u16>().is_ok() {
        return Err(format!(
            "the address is missing: use 127.0.0.1:{port} for this machine only, 0.0.0.0:{port} for the network"
        ));
    }
    text.parse().map_err(|_| "write an IP address and a port, such as 127.0.0.1:8080".to_owned())
}

/// The name of a bucket (Amazon S3, "Bucket naming rules").
fn bucket(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_bucket = (3..=63).contains(&text.len()) && text.chars().all(is_allowed);
    match is_bucket && is_end(text.chars().next()) && is_end(text.chars().last()) {
        true => Ok(text.to_owned()),
        false => {
            Err("a bucket has 3 to 63 lower-case letters, digits, hyphens and periods".to_owned())
        }
    }
}

/// The configuration of TLS, if there is a certificate.
fn tls(options: &Options) -> Outcome<Option<Arc<ServerConfig>>> {
    let (Some(certificate), Some(key)) = (&options.tls_certificate, &options.tls_key) else {
        return Ok(None);
    };
    let config = ndn_gateway::server_config(&input::read(certificate)?, &input::read(key)?);
    let config = config.map_err(|error| {
        let file = if matches!(error, TlsError::NoKey) { key } else { certificate };
        Failure::input(file.display(), error)
    });
    config.map(Some)
}

fn tokens(options: &Options) -> Outcome<Tokens> {
    let Some(file) = &options.token_file else { return Ok(Tokens::default()) };
    let text = input::read_text(file)?;
    let tokens = Tokens::from_lines(&text);
    match tokens.is_empty() {
        true => Err(Failure::input(file.display(), "the file has no token")),
        false => Ok(tokens),
    }
}

pub(super) fn run(options: &Options) -> Outcome {
    let log = access_log(options.log.as_deref())?;
    let mut fetching = FetchOptions {
        lifetime: options.lifetime,
        verification: keys::verification(&options.verify)?,
        ..FetchOptions::default()
    };
    fetching.give_up_after(options.retries);
    let limits = Limits {
        connections: options.connections,
        transfers: options.transfers,
        rate_min: options.min_rate,
        read_ahead_segments: options.read_ahead,
        ..Limits::default()
    };
    let gateway = GatewayOptions {
        prefix: options.prefix.clone(),
        fetching,
        metadata_lifetime: options.metadata_lifetime,
        allow_older: options.allow_older,
        limits,
        hosts: options.host.clone(),
        bucket: options.s3_bucket.clone(),
        tokens: tokens(options)?,
        tls: tls(options)?,
        log,
    };
    block_on_threads(async {
        let listener = TcpListener::bind(options.listen)
            .await
            .map_err(|error| cannot_listen(options.listen, &error))?;
        let address = listener
            .local_addr()
            .map_err(|error| Failure::Failed(format!("{}: {error}", options.listen)))?;
        let endpoint = options.connect.open().await?;
        let gateway = Gateway::new(endpoint.clone(), gateway);
        report_serving(options, address)?;
        tokio::select! {
            () = gateway.serve(listener) => {}
            () = report_losses(&endpoint) => {}
            interrupt = interrupted() => {
                interrupt.map_err(|error| Failure::Failed(error.to_string()))?;
            }
        }
        report_served(options, &gateway)
    })
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Failure {
    let (ip, port) = (address.ip(), address.port());
    Failure::Failed(if error.kind() == io::ErrorKind::AddrInUse {
        format!("HTTP port {port} is in use on {ip}; choose another with --listen")
    } else {
        format!("{address}: {error}")
    })
}

/// The log of requests in this file; none without one.
pub(super) fn access_log(path: Option<&Path>) -> Outcome<AccessLog> {
    let Some(path) = path else {
        return Ok(AccessLog::none());
    };
    let log = if path.as_os_str() == "-" {
        AccessLog::to(io::stdout())
    } else {
        let file = OpenOptions::new().append(true).create(true).open(path);
        AccessLog::to(file.map_err(|error| Failure::file(path.display(), &error))?)
    };
    log.map_err(|error| Failure::Failed(format!("no thread can be started: {error}")))
}

fn report_serving(options: &Options, address: SocketAddr) -> Outcome {
    let prefix = options.prefix.to_uri();
    let scheme = if options.tls_key.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}/");
    if options.json {
        return Ok(output::print_json(&json!({ "prefix": prefix, "url": url }))?);
    }
    if !address.ip().is_loopback() && options.token_file.is_none() {
        output::note(&format_args!(
            "namewire: {address} is open to the network: every client that can connect can read {prefix}"
        ));
    }
    Ok(output::print_line(&format!("serving {prefix} at {url}"))?)
}

fn report_served(options: &Options, gateway: &Gateway) -> Outcome {
    let counters = gateway.counters();
    if options.json {
        return Ok(output::print_json(&json!({
            "connections": counters.connections(),
            "requests": counters.requests(),
            "failures": counters.failures(),
            "aborted": counters.aborted(),
            "body_bytes": counters.body_bytes(),
            "log_lines_dropped": counters.log_lines_dropped(),
        }))?);
    }
    let line = format!(
        "{}, {}; {} failed, {} aborted",
        counted(counters.requests(), "request"),
        bytes_for_people(counters.body_bytes()),
        grouped(counters.failures()),
        grouped(counters.aborted()),
    );
    Ok(output::print_line(&line)?)
}
