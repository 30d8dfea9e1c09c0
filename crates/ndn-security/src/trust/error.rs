//! The reasons why packets are not trusted, with what the rules require.

use ndn_packet::{Name, ValidityPeriod};
use thiserror::Error;

use super::CHAIN_MAX;
use crate::Certificate;

/// The use of a key for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAction {
    /// It signed a packet of this name.
    Sign,
    /// It signed a command that registers this prefix.
    Register,
}

impl std::fmt::Display for KeyAction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Sign => "sign",
            Self::Register => "register",
        })
    }
}

/// The reason why a packet is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The KeyLocator is missing, or not a name.
    #[error("the KeyLocator of {name} is missing or not a name; rules need the name of its key")]
    KeyLocator {
        /// The name of the packet.
        name: Name,
    },
    /// No rule applies to packets of this name.
    #[error("no rule is about {name}; {known}")]
    NoRule {
        /// The name of the packet.
        name: Name,
        /// The rules.
        known: String,
    },
    /// The rule for packets of this name does not allow this key.
    #[error("rule `{rule}` does not let {key} {action} {name}; it takes {requested}")]
    NotAllowed {
        /// The rule.
        rule: String,
        /// The name of the packet.
        name: Name,
        /// The name of the key.
        key: Name,
        /// The use of the key.
        action: KeyAction,
        /// The keys that the rule allows.
        requested: String,
    },
    /// The signature does not match.
    #[error("the signature of {name} was not made with the key of {key}")]
    Signature {
        /// The name of the packet.
        name: Name,
        /// The certificate of the verification, or the name that stands for a digest.
        key: Name,
    },
    /// A certificate is for an identity with `KEY` in its name, where rules cannot separate identity and key.
    #[error("certificate {name} is for an identity that has a component KEY")]
    Identity {
        /// Its name.
        name: Name,
    },
    /// A certificate is used outside its validity period.
    #[error("certificate {certificate} is valid from {not_before} to {not_after}, and it is {now}")]
    Expired {
        /// Its name.
        certificate: Name,
        /// Its first second.
        not_before: String,
        /// Its last second.
        not_after: String,
        /// The time of use.
        now: String,
    },
    /// A required certificate is not available.
    #[error(
        "certificate {certificate} is needed to verify it, and cannot be fetched: {reason} (does the producer serve it? serve --certificate FILE)"
    )]
    Unavailable {
        /// Prefix of its name.
        certificate: Name,
        /// The reason.
        reason: String,
    },
    /// The certificates sign each other, and no trust anchor signs any of them.
    #[error(
        "no trust anchor vouches for {name}: its certificates vouch for each other, they lead to {certificate} again"
    )]
    Loop {
        /// The name of the packet.
        name: Name,
        /// Prefix of the name of the repeated certificate.
        certificate: Name,
    },
    /// The chain to a trust anchor is too long.
    #[error("more than {CHAIN_MAX} certificates lead from {name} to a trust anchor")]
    TooLong {
        /// The name of the packet.
        name: Name,
    },
}

impl TrustError {
    /// `certificate` is not valid at `unix_s`, in seconds since 1970.
    #[must_use]
    pub fn expired(certificate: &Certificate, unix_s: i64) -> Self {
        let validity = certificate.validity();
        let now = ValidityPeriod::from_unix_seconds(unix_s, unix_s);
        Self::Expired {
            certificate: certificate.name().to_name(),
            not_before: readable(&validity.not_before),
            not_after: readable(&validity.not_after),
            now: now.map_or_else(|| unix_s.to_string(), |now| readable(&now.not_before)),
        }
    }
}

/// `20260131T235959` as `2026-01-31 23:59:59`.
fn readable(time: &[u8; 15]) -> String {
    let text = String::from_utf8_lossy(time);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default().to_owned();
    format!(
        "{}-{}-{} {}:{}:{}",
        part(0..4),
        part(4..6),
        part(6..8),
        part(9..11),
        part(11..13),
        part(13..15)
    )
}
