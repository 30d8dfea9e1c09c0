//! `namewire status-server`: the status of a forwarder over HTTP, like nfd-status-http-server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ndn_client::Endpoint;
use ndn_gateway::is_host_allowed;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::super::connect::{ConnectOptions, block_on_until_done};
use super::super::failure::{Failure, Outcome};
use super::super::interrupt::interrupted;
use super::super::{nfdc, output};

/// Timeout of a request and of its response.
const TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_LEN_MAX: usize = 8 * 1024;
/// Maximum number of concurrent requests; others wait in the kernel.
const REQUESTS_MAX: usize = 16;

/// Serve the status of the forwarder over HTTP, as nfd-status-http-server does
///
/// / is the XML of `nfdc status report xml`, /status.json the JSON, /status.txt the text. Read only; runs
/// until interrupted.
#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    /// IP address to listen on
    #[arg(long, short, default_value = "127.0.0.1")]
    address: IpAddr,
    /// TCP port to listen on; 0 selects a free port
    #[arg(long, default_value_t = 6381)]
    port: u16,
    /// Also accept requests over loopback for this host; may be repeated
    ///
    /// Requests over loopback must be for localhost or a loopback address; others get status 421, so that a web page
    /// whose name resolves to this machine cannot read the status.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Allow robots of search engines
    #[arg(long, short)]
    robots: bool,
    /// Print each request
    #[arg(long, short)]
    verbose: bool,
    /// Accepted for compatibility with nfd-status-http-server; no files are served
    #[arg(long, short = 'f', value_name = "DIRECTORY")]
    workdir: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectOptions,
}

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    if let Some(directory) = &options.workdir {
        let directory = directory.display();
        output::note(&format_args!("namewire: no files of {directory} are served"));
    }
    block_on_until_done(async {
        let endpoint = options.connect.open().await?;
        let address = SocketAddr::new(options.address, options.port);
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| Failure::Failed(format!("{address}: {error}")))?;
        let address = listener.local_addr().unwrap_or(address);
        output::print_line(&format!("serving the status on http://{address}/; Ctrl-C ends it"))?;
        let tasks = LocalSet::new();
        let serving = tasks.run_until(serve(listener, endpoint.clone(), options));
        tokio::select! {
            signal = interrupted() => signal.map_err(|error| Failure::Failed(error.to_string())),
            () = super::super::connection::report_losses(&endpoint) => Ok(()),
            () = serving => Ok(()),
        }
    })
}

async fn serve(listener: TcpListener, endpoint: Endpoint, options: &Options) {
    let room = Arc::new(Semaphore::new(REQUESTS_MAX));
    let (robots, verbose) = (options.robots, options.verbose);
    let hosts: Arc<[String]> = options.host.clone().into();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, peer)) = listener.accept().await else {
            // Probably out of file descriptors.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (endpoint, hosts) = (endpoint.clone(), Arc::clone(&hosts));
        tokio::task::spawn_local(async move {
            let _permit = permit;
            let answered = timeout(TIMEOUT * 2, answer(stream, &endpoint, &hosts, robots)).await;
            if verbose && let Ok(Ok(line)) = answered {
                output::note(&format_args!("{peer} {line}"));
            }
        });
    }
}

/// Responds to one request and returns its log line.
async fn answer(
    mut stream: TcpStream,
    endpoint: &Endpoint,
    hosts: &[String],
    robots: bool,
) -> std::io::Result<String> {
    let is_local = stream.local_addr().is_ok_and(|own| own.ip().to_canonical().is_loopback());
    let request = timeout(TIMEOUT, read_head(&mut stream)).await??;
    let response = match parse(&request) {
        Err(response) => response,
        Ok(_) if is_local && !is_for_us(&request, hosts) => {
            let reason = "the request names another host (`--host` allows further names)";
            Response::failure("421 Misdirected Request", reason)
        }
        Ok(target) => respond(target, endpoint, robots).await,
    };
    let is_head = request.starts_with("HEAD ");
    stream.write_all(response.to_http(is_head).as_bytes()).await?;
    stream.shutdown().await?;
    let line: String = request.lines().next().unwrap_or_default().escape_debug().collect();
    Ok(format!("\"{line}\" {}", response.status))
}

/// Reads up to the empty line and ignores the rest.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < REQUEST_LEN_MAX {
        match stream.read(&mut buffer).await? {
            0 => break,
            length => head.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Response {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Response {
    fn failure(status: &'static str, reason: &str) -> Self {
        Self { status, content_type: "text/plain", body: format!("{reason}\n") }
    }

    fn to_http(&self, is_head: bool) -> String {
        let Self { status, content_type, body } = self;
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}; charset=utf-8\r\n\
             Content-Length: {length}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{}",
            if is_head { "" } else { body }
        )
    }
}

/// The path of the request.
fn parse(request: &str) -> Result<&str, Response> {
    let malformed = || Response::failure("400 Bad Request", "malformed request");
    if !request.contains("\r\n\r\n") {
        return Err(malformed());
    }
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    match (method, target, version) {
        (Some("GET" | "HEAD"), Some(target), Some(version)) if version.starts_with("HTTP/1.") => {
            Ok(target.split('?').next().unwrap_or_default())
        }
        (Some(_), Some(_), Some(version)) if version.starts_with("HTTP/1.") => {
            Err(Response::failure("405 Method Not Allowed", "only GET and HEAD are supported"))
        }
        _ => Err(malformed()),
    }
}

/// Whether all host names in the request are allowed.
fn is_for_us(request: &str, hosts: &[String]) -> bool {
    request.lines().skip(1).take_while(|line| !line.is_empty()).all(|line| {
        let Some((field, host)) = line.split_once(':') else { return true };
        !field.trim().eq_ignore_ascii_case("host") || is_host_allowed(host, hosts)
    })
}

async fn respond(target: &str, endpoint: &Endpoint, robots: bool) -> Response {
    let (format, content_type) = match target {
        "/" | "/status.xml" => ("xml", "application/xml"),
        "/status.json" => ("json", "application/json"),
        "/status.txt" => ("text", "text/plain"),
        "/robots.txt" => {
            let rule = if robots { "Disallow:" } else { "Disallow: /" };
            let body = format!("User-agent: *\n{rule}\n");
            return Response { status: "200 OK", content_type: "text/plain", body };
        }
        _ => {
            return Response::failure(
                "404 Not Found",
                "available: /, /status.json and /status.txt",
            );
        }
    };
    match nfdc::status_report(endpoint, format).await {
        Ok(body) => Response { status: "200 OK", content_type, body },
        Err(failure) => Response::failure("504 Gateway Timeout", &failure.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_or_rejected() {
        let target = |request| parse(request).map_err(|response| response.status);
        assert_eq!(target("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), Ok("/"));
        assert_eq!(target("HEAD /status.json?x=1 HTTP/1.0\r\n\r\n"), Ok("/status.json"));
        assert_eq!(target("POST / HTTP/1.1\r\n\r\n"), Err("405 Method Not Allowed"));
        for wrong in ["", "GET / HTTP/1.1\r\n", "GET /\r\n\r\n", "\r\n\r\n", "GET / SPDY/3\r\n\r\n"]
        {
            assert_eq!(target(wrong), Err("400 Bad Request"), "{wrong:?}");
        }
    }

    #[test]
    fn foreign_host_names_are_detected() {
        let others = ["status.example".to_owned()];
        let is_for_us =
            |fields: &str| is_for_us(&format!("GET / HTTP/1.1\r\n{fields}\r\n"), &others);
        assert!(is_for_us("") && is_for_us("Host: localhost:6381\r\nX: y\r\n"));
        assert!(is_for_us("host:127.0.0.1\r\n") && is_for_us("Host: status.example\r\n"));
        assert!(!is_for_us("Host: evil.example\r\n"));
        assert!(!is_for_us("Accept: *\r\nHOST: localhost\r\nhost : evil.example\r\n"));
    }

    #[test]
    fn responses_have_a_content_length() {
        let response = Response::failure("404 Not Found", "no");
        let whole = response.to_http(false);
        assert!(whole.contains("Content-Length: 3\r\n") && whole.ends_with("\r\n\r\nno\n"));
        assert!(response.to_http(true).ends_with("\r\n\r\n"));
    }
}
