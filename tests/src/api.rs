//! The HTTP API of a forwarder.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::{ForwarderProcess, TIMEOUT};

/// The address of the API of a forwarder, and a token of role admin.
///
/// # Panics
/// The forwarder has not announced its API.
#[must_use]
pub fn api_of(forwarder: &ForwarderProcess) -> (String, String) {
    let announced = forwarder.process.stdout();
    let (_, url) = announced.split_once("HTTP API: ").expect("an announcement");
    let tokens = forwarder.directory().join("http-tokens");
    assert!(tokens.exists(), "the API was announced before its token could be read");
    let token = forwarder.output(&["control", "token", "--file", tokens.to_str().unwrap()]);
    (url.lines().next().unwrap().to_owned(), token.trim().to_owned())
}

/// The response to a GraphQL request.
///
/// # Panics
/// There is none, or it is not JSON.
#[must_use]
pub fn graphql((url, token): &(String, String), query: &str) -> Value {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let body = json!({ "query": query }).to_string();
    let head = format!(
        "POST /graphql HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {response}"))
}
