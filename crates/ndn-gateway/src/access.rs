//! Who may read: bearer tokens.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use ndn_security::sha256;

/// Tokens of clients, as digests: comparing them takes the same time for all wrong tokens.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Vec<[u8; 32]>);

impl Tokens {
    /// The lines of a text; empty lines and lines that begin with `#` are skipped.
    #[must_use]
    pub fn from_lines(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let tokens = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(tokens.map(|token| sha256(token.as_bytes())).collect())
    }

    /// Whether there are none: then everybody may read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request with these headers may be answered. The token is that of `Bearer` (RFC 6750), or the password of
    /// `Basic` (RFC 7617) of any user, for clients that support only that.
    pub(crate) fn allow(&self, headers: &HeaderMap) -> bool {
        if self.is_empty() {
            return true;
        }
        let field = headers.get(AUTHORIZATION).and_then(|field| field.to_str().ok());
        let Some((scheme, value)) = field.and_then(|field| field.trim().split_once(' ')) else {
            return false;
        };
        let value = value.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.contain(value.as_bytes());
        }
        let decoded = STANDARD.decode(value).unwrap_or_default();
        let password = decoded.iter().position(|byte| *byte == b':').map(|at| &decoded[at + 1..]);
        scheme.eq_ignore_ascii_case("basic") && password.is_some_and(|token| self.contain(token))
    }

    fn contain(&self, token: &[u8]) -> bool {
        let digest = sha256(token);
        self.0.iter().fold(false, |found, known| found | (*known == digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_required_as_bearer_or_password() {
        let tokens = Tokens::from_lines("# comment\n\none\n two \n");
        let allowed = |field: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(field) = field {
                headers.insert(AUTHORIZATION, field.parse().unwrap());
            }
            tokens.allow(&headers)
        };
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        for field in ["Bearer one", "bearer  two", &basic("anybody:two"), &basic(":one")] {
            assert!(allowed(Some(field)), "{field}");
        }
        for field in [
            "Bearer",
            "Bearer three",
            "Bearer # comment",
            "Bearer on",
            "one",
            "Basic one",
            &basic("one"),
            &basic("one:three"),
        ] {
            assert!(!allowed(Some(field)), "{field}");
        }
        assert!(!allowed(None));
        assert!(Tokens::default().allow(&HeaderMap::new()));
    }
}
