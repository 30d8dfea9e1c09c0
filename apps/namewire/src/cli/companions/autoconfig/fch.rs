//! NDN-FCH: queries a web server for the closest hub.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::cli::failure::{Failure, Outcome};

const TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_LEN_MAX: u64 = 64 * 1024;

/// `http://host[:port][/path]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    authority: String,
    path: String,
}

impl std::str::FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("http://").ok_or("only http:// is supported")?;
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || authority.contains('@') || !is_plain(rest) {
            return Err("it is not a URL such as http://fch.example/".to_owned());
        }
        let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
        Ok(Self { authority: authority.to_owned(), path })
    }
}

impl Url {
    fn address(&self) -> String {
        let has_port = self.authority.rfind(':') > self.authority.rfind(']');
        if has_port { self.authority.clone() } else { format!("{}:80", self.authority) }
    }

    fn request(&self) -> String {
        let agent = concat!("namewire/", env!("CARGO_PKG_VERSION"));
        format!(
            "GET {} HTTP/1.0\r\nHost: {}\r\nUser-Agent: {agent}\r\nAccept: text/plain\r\n\r\n",
            self.path, self.authority
        )
    }
}

/// The host of the closest hub, from the response of the server.
pub(super) async fn closest_hub(url: &Url) -> Outcome<String> {
    let address = url.address();
    let failed = |why: String| Failure::NoAnswer(format!("{address}: {why}"));
    let exchange = async {
        let mut stream = TcpStream::connect(&address).await?;
        stream.write_all(url.request().as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_LEN_MAX).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = timeout(TIMEOUT, exchange).await.map_err(|_| failed("no answer".to_owned()))?;
    let answer = answer.map_err(|error| failed(error.to_string()))?;
    read_answer(&answer).map_err(failed)
}

fn read_answer(answer: &[u8]) -> Result<String, String> {
    let answer = std::str::from_utf8(answer).map_err(|_| "a response that is not text")?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("a response that is not HTTP")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") || !status.starts_with("HTTP/1.") {
        return Err(format!("{:?}", status.chars().take(80).collect::<String>()));
    }
    let host = body.trim();
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if host.is_empty() || host.len() > 255 || !host.bytes().all(is_host) {
        return Err("a response without a host".to_owned());
    }
    let is_ipv6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    Ok(if is_ipv6 { format!("[{host}]") } else { host.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_built_from_urls() {
        let url: Url = "http://fch.example".parse().unwrap();
        assert_eq!(url.address(), "fch.example:80");
        assert!(url.request().starts_with("GET / HTTP/1.0\r\nHost: fch.example\r\n"));
        let url: Url = "http://[2001:db8::1]:8080?k=1".parse().unwrap();
        assert_eq!(url.address(), "[2001:db8::1]:8080");
        assert!(url.request().starts_with("GET /?k=1 HTTP/1.0\r\n"));
        assert_eq!("http://[2001:db8::1]/x".parse::<Url>().unwrap().address(), "[2001:db8::1]:80");
        for wrong in
            ["https://fch.example", "http://", "http://a b/", "http://u@h/", "http://a/\r\nx"]
        {
            assert!(wrong.parse::<Url>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn response_has_a_host_or_is_rejected() {
        let read = |text: &str| read_answer(text.as_bytes());
        assert_eq!(read("HTTP/1.0 200 OK\r\nA: b\r\n\r\nhub.example\n").unwrap(), "hub.example");
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\n2001:db8::1").unwrap(), "[2001:db8::1]");
        for wrong in [
            "",
            "hub.example",
            "HTTP/1.0 404 Not Found\r\n\r\nhub.example",
            "HTTP/1.0 200 OK\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\n<html>hub</html>",
            "SSH-2.0 200\r\n\r\nhub.example",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
