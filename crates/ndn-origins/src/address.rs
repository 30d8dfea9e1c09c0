//! Addresses of origins: `s3://bucket/prefix` and `https://host/path/`.

use std::fmt;

/// Schemes of addresses.
const SCHEMES: [&str; 3] = ["s3://", "https://", "http://"];

/// Whether `text` is meant as the address of an origin, and not as a path.
#[must_use]
pub fn is_origin(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}

/// Why a text is not the address of an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Another scheme.
    #[error("not s3://BUCKET/PREFIX or https://HOST/PATH/")]
    Scheme,
    /// No bucket, or one with other characters than those of bucket names.
    #[error("s3:// is followed by the name of a bucket")]
    Bucket,
    /// The prefix has an empty part, `.` or `..`.
    #[error("the prefix has an empty part, `.` or `..`")]
    Prefix,
    /// No host.
    #[error("the host is missing")]
    Host,
    /// A user name or password in the URL.
    #[error("an address with a user name or password is not accepted")]
    Credentials,
    /// A query or fragment.
    #[error("an address with `?` or `#` is not accepted")]
    Query,
}

/// The address of an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A bucket, or the objects below a prefix.
    S3 {
        /// Name of the bucket.
        bucket: String,
        /// Prefix without slashes at its ends; may be empty.
        prefix: String,
    },
    /// A tree of a web server.
    Http {
        /// URL without a slash at the end.
        url: String,
    },
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if text.contains(['?', '#']) {
            return Err(AddressError::Query);
        }
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let is_valid = |character: char| {
                character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_')
            };
            if bucket.is_empty() || !bucket.chars().all(is_valid) {
                return Err(AddressError::Bucket);
            }
            let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
            if !prefix.is_empty() && prefix.split('/').any(|part| matches!(part, "" | "." | "..")) {
                return Err(AddressError::Prefix);
            }
            return Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() });
        }
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let rest = rest.ok_or(AddressError::Scheme)?;
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.is_empty() || authority.starts_with(':') {
            return Err(AddressError::Host);
        }
        if authority.contains('@') {
            return Err(AddressError::Credentials);
        }
        Ok(Self::Http { url: text.trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Http { url } => write!(f, "{url}/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let s3 = |bucket: &str, prefix: &str| {
            Ok(Address::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
        };
        assert_eq!(Address::parse("s3://data"), s3("data", ""));
        assert_eq!(Address::parse("s3://data/"), s3("data", ""));
        assert_eq!(Address::parse("s3://data/run 1/x/"), s3("data", "run 1/x"));
        let http = Address::parse("https://example.net:8443/a/b/").unwrap();
        assert_eq!(http, Address::Http { url: "https://example.net:8443/a/b".to_owned() });
        assert_eq!(http.to_string(), "https://example.net:8443/a/b/");
    }

    #[test]
    fn other_texts_are_rejected() {
        for (text, error) in [
            ("ftp://host/x", AddressError::Scheme),
            ("s3://", AddressError::Bucket),
            ("s3:///prefix", AddressError::Bucket),
            ("s3://user:secret@bucket/x", AddressError::Bucket),
            ("s3://data/a//b", AddressError::Prefix),
            ("s3://data/../b", AddressError::Prefix),
            ("https://", AddressError::Host),
            ("https://:80/x", AddressError::Host),
            ("https://user:secret@host/x", AddressError::Credentials),
            ("https://host/x?y=1", AddressError::Query),
            ("https://host/#x", AddressError::Query),
        ] {
            assert_eq!(Address::parse(text), Err(error), "{text}");
        }
        assert!(is_origin("s3://x") && is_origin("http://x") && !is_origin("/srv/s3"));
    }
}
