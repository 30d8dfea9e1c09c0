//! The HTTP API over TLS: certificates and tokens change without a restart.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits in real time"
)]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namewire_config::{Config, Http};
use namewire_daemon::{Environment, Forwarder, Hooks};
use namewire_http::{HttpListener, HttpServer, Role, Token, TokenFile};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A forwarder with the API over TLS. Fields are dropped in this order.
struct Served {
    _server: HttpServer,
    _forwarder: Forwarder,
    address: SocketAddr,
    tokens: TokenFile,
    directory: tempfile::TempDir,
}

/// Certificates for `localhost`, each with its key.
const CERTIFICATES: [(&str, &str); 3] = [
    (include_str!("certificates/one.crt"), include_str!("certificates/one.key")),
    (include_str!("certificates/two.crt"), include_str!("certificates/two.key")),
    (include_str!("certificates/three.crt"), include_str!("certificates/three.key")),
];

/// Writes one of the certificates with its key; returns the certificate.
fn write_certificate(directory: &Path, number: usize) -> CertificateDer<'static> {
    let (certificate, key) = CERTIFICATES[number];
    // As tools do that renew certificates: a new file takes the place of the old one.
    for (name, text) in [("key", key), ("certificate", certificate)] {
        fs::write(directory.join("new"), text).unwrap();
        fs::rename(directory.join("new"), directory.join(name)).unwrap();
    }
    CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()
}

fn settings(directory: &Path) -> Http {
    Http {
        enabled: true,
        listen: vec![(Ipv4Addr::LOCALHOST, 0).into()],
        tls_certificate: Some(directory.join("certificate")),
        tls_key: Some(directory.join("key")),
        tokens: Some(directory.join("tokens")),
        ..Http::default()
    }
}

fn serve(directory: tempfile::TempDir) -> Served {
    let mut config = Config::default();
    let listeners = &mut config.listeners;
    (listeners.unix.enabled, listeners.tcp.enabled, listeners.udp.enabled) = (false, false, false);
    config.control.enabled = false;
    let hooks = Hooks::none().unwrap();
    let forwarder = Forwarder::start(&config, Environment::system(), hooks).unwrap();
    let settings = settings(directory.path());
    let listener = HttpListener::open(&settings).unwrap().unwrap();
    assert_eq!(listener.scheme(), "https");
    let address = listener.addresses()[0];
    listener.make_tokens().unwrap();
    let server = listener.serve(forwarder.operations()).unwrap();
    let tokens = TokenFile::new(directory.path().join("tokens"));
    Served { _server: server, _forwarder: forwarder, address, tokens, directory }
}

/// The response to a request by a client that trusts this certificate only.
async fn exchange(
    address: SocketAddr,
    trusted: &CertificateDer<'static>,
    request: &str,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    session.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    // The server closes the connection without an alert after the last response.
    let _ = session.read_to_string(&mut response).await;
    Ok(response)
}

const HEALTH: &str = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn query(token: &Token) -> String {
    let body = "{\"query\": \"{ version { version } }\"}";
    format!(
        "POST /graphql HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        token.secret,
        body.len()
    )
}

#[tokio::test]
async fn certificates_and_tokens_change_without_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let first = write_certificate(directory.path(), 0);
    let served = serve(directory);
    let (address, path) = (served.address, served.directory.path().to_owned());
    let health = exchange(address, &first, HEALTH).await.unwrap();
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    let admin = served.tokens.read().unwrap().remove(0);
    let answer = exchange(address, &first, &query(&admin)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let second = write_certificate(&path, 1);
    assert!(exchange(address, &first, HEALTH).await.is_err(), "the new certificate is shown");
    let renewed = Token::new("admin", Role::Admin, None).unwrap();
    served.tokens.write(std::slice::from_ref(&renewed)).unwrap();
    let answer = exchange(address, &second, &query(&admin)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let answer = exchange(address, &second, &query(&renewed)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    // Files that cannot be used leave the previous certificate.
    fs::write(path.join("certificate"), "no certificate").unwrap();
    let health = exchange(address, &second, HEALTH).await.unwrap();
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    let third = write_certificate(&path, 2);
    assert!(exchange(address, &third, HEALTH).await.unwrap().starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn plain_requests_and_silent_clients_are_disconnected() {
    let directory = tempfile::tempdir().unwrap();
    write_certificate(directory.path(), 0);
    let served = serve(directory);
    let mut plain = TcpStream::connect(served.address).await.unwrap();
    plain.write_all(HEALTH.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let _ = plain.read_to_end(&mut response).await;
    assert!(!response.starts_with(b"HTTP"), "no answer without TLS");
    // A client that never begins the handshake.
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), silent.read(&mut [0])).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
}

#[test]
fn port_in_use_is_reported_with_the_option_for_another() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let settings = Http { enabled: true, listen: vec![address], ..Http::default() };
    let error = HttpListener::open(&settings).unwrap_err().to_string();
    let port = address.port();
    let expected = format!("HTTP port {port} is in use on 127.0.0.1; choose another with --http");
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn unusable_certificates_are_named_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let reason = |text: &str| {
        let error = HttpListener::open(&settings(directory.path())).unwrap_err().to_string();
        assert!(error.contains("control.http.tls_certificate") && error.contains(text), "{error}");
    };
    reason("certificate: No such file");
    write_certificate(directory.path(), 0);
    fs::write(directory.path().join("key"), "nothing").unwrap();
    reason("no private key in PEM");
    write_certificate(directory.path(), 0);
    fs::write(directory.path().join("key"), CERTIFICATES[1].1).unwrap();
    reason("cannot be used with the key");
}
