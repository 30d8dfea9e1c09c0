//! The authorization of commands: a trait, which [`AccessControl`](crate::AccessControl) implements as NFD does.

use std::sync::Arc;

use ndn_packet::Data;
use ndn_security::Certificate;
use ndn_security::trust::{AnchorChange, Search, Validation};

use crate::access::replay::ReplayRecords;
use crate::command::{Command, CommandSignature, TopPrefix};
use ndn_types::{Now, Scope, Timestamp};

/// The origin of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    /// The face on which the Interest arrived.
    pub face_id: u64,
    /// Whether it reaches only this host.
    pub scope: Scope,
}

/// The authority on which a command is executed. It decides who is charged for what the command takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// An operator: the command came over the control socket, from a program of an
    /// [operator's user](crate::ControlState::set_operator_users), or from a key that a trust rule or a certificate of the
    /// configuration authorizes.
    Operator,
    /// The requester: anybody may send such a command.
    Requester,
}

/// The decision on a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// Execute it.
    Accept {
        /// The signer, for logs.
        signer: String,
        /// The authority on which it is executed.
        authority: Authority,
    },
    /// Answer 403.
    Reject {
        /// The signer, for logs.
        signer: String,
        /// The reason.
        reason: String,
    },
    /// Fetch certificates, and decide again.
    NeedsCertificates {
        /// The signer, for logs.
        signer: String,
        /// The missing certificates.
        search: Search,
    },
    /// Send no answer, to a command that is not worth the cost of a signature.
    Ignore {
        /// The reason.
        reason: &'static str,
    },
}

/// Decides on syntactically valid commands and on prefix announcements.
pub trait Authorizer {
    /// The decision on one command. `fetched` are the certificates that previous decisions required.
    fn authorize(
        &mut self,
        now: Now,
        command: &Command<'_>,
        requester: Requester,
        fetched: &[Arc<Certificate>],
    ) -> Authorization;

    /// An accepted command is executed: a replay of it must be refused.
    fn command_accepted(&mut self, _now: Now, _command: &Command<'_>) {}

    /// The records of executed commands, for an authorizer that replaces this one.
    fn replay_records(&self) -> ReplayRecords {
        ReplayRecords::default()
    }

    /// Takes the records of the authorizer that it replaces, and refuses the commands that that one has executed.
    fn inherit(&mut self, _records: ReplayRecords) {}

    /// The decision on a prefix announcement.
    fn authorize_announcement(
        &mut self,
        _now: Now,
        _announcement: &Data<'_>,
        _fetched: &[Arc<Certificate>],
    ) -> Validation {
        Validation::Accepted
    }

    /// Whether `/localhop/nfd` is served.
    fn is_localhop_enabled(&self) -> bool {
        false
    }

    /// The time of the next call of [`refresh`](Self::refresh).
    fn next_refresh(&self) -> Option<Timestamp> {
        None
    }

    /// Whether this process, with its present privileges, can read the trust anchors that are refreshed from files.
    ///
    /// # Errors
    /// The anchors that cannot be read, and the reason.
    fn check_anchors(&self) -> Result<(), String> {
        Ok(())
    }

    /// Reads the trust anchors whose refresh is due; returns the changes.
    fn refresh(&mut self, _now: Now) -> Vec<AnchorChange> {
        Vec::new()
    }
}

/// Accepts every command under `/localhost/nfd` from a local face, with any signer. Ignores commands from other faces.
///
/// As NFD under `certfile any`, it accepts commands without a signature, unless configured otherwise: DigestSha256 proves no
/// more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnySigner {
    /// Answer 403 to commands without a signature.
    pub require_signature: bool,
    /// The commands are those of operators.
    pub is_operator: bool,
}

/// The decision on commands that are ignored for their scope.
pub(crate) fn ignore_by_scope(
    command: &Command<'_>,
    requester: Requester,
    is_localhop_enabled: bool,
) -> Option<Authorization> {
    match command.top_prefix {
        TopPrefix::Localhop if !is_localhop_enabled => {
            Some(Authorization::Ignore { reason: "/localhop/nfd is not enabled" })
        }
        TopPrefix::Localhost if requester.scope == Scope::NonLocal => {
            Some(Authorization::Ignore { reason: "the face is not local" })
        }
        TopPrefix::Localhop | TopPrefix::Localhost => None,
    }
}

impl Authorizer for AnySigner {
    fn authorize(
        &mut self,
        _now: Now,
        command: &Command<'_>,
        requester: Requester,
        _fetched: &[Arc<Certificate>],
    ) -> Authorization {
        if let Some(ignored) = ignore_by_scope(command, requester, false) {
            return ignored;
        }
        let signer = command.signature.signer();
        if self.require_signature && matches!(command.signature, CommandSignature::Absent) {
            let reason = "the command is not signed".to_owned();
            return Authorization::Reject { signer, reason };
        }
        let authority = if self.is_operator { Authority::Operator } else { Authority::Requester };
        Authorization::Accept { signer, authority }
    }
}
