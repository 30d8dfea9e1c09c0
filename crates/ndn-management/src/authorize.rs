//! Who may do what: the decision is a hook; [`AccessControl`](crate::AccessControl) is NFD's.

use std::sync::Arc;

use ndn_packet::{Data, Name};
use ndn_security::Certificate;
use ndn_security::trust::{AnchorChange, Validation};

use crate::Now;
use crate::command::{Command, CommandSignature, TopPrefix};
use crate::types::Scope;

/// Where a command came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    /// The face on which the Interest arrived.
    pub face_id: u64,
    /// Whether it reaches only this host.
    pub scope: Scope,
}

/// What becomes of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// Carry it out.
    Accept {
        /// Who asked, for logs.
        signer: String,
    },
    /// Answer 403.
    Reject {
        /// Who asked, for logs.
        signer: String,
        /// Why not.
        reason: String,
    },
    /// Fetch a certificate whose name begins so, and ask again.
    NeedsCertificate {
        /// Who asked, for logs.
        signer: String,
        /// Prefix of the certificate's name.
        name: Name,
    },
    /// Say nothing, as to a command that is not worth a signature.
    Ignore {
        /// Why not.
        reason: &'static str,
    },
}

/// Decides whether a syntactically valid command is carried out.
pub trait Authorizer {
    /// The decision on one command. `fetched` are the certificates that were asked for before.
    fn authorize(
        &mut self,
        now: Now,
        command: &Command<'_>,
        requester: Requester,
        fetched: &[Arc<Certificate>],
    ) -> Authorization;

    /// A command that was accepted is carried out: it must not come again.
    fn command_accepted(&mut self, _now: Now, _command: &Command<'_>) {}

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

    /// When [`refresh`](Self::refresh) wants to be called next, on the monotonic clock.
    fn next_refresh_ns(&self) -> Option<u64> {
        None
    }

    /// Whether what is to be read again can be read by who this process is now.
    ///
    /// # Errors
    /// What cannot be, and why.
    fn check_anchors(&self) -> Result<(), String> {
        Ok(())
    }

    /// Reads again what may have changed where it is kept; tells what has.
    fn refresh(&mut self, _now: Now) -> Vec<AnchorChange> {
        Vec::new()
    }
}

/// Every command from a local face under `/localhost/nfd` is carried out, whoever signed it.
/// Commands from elsewhere are ignored.
///
/// NFD under `certfile any` takes commands without a signature as well, and so does this, unless
/// told otherwise: DigestSha256, which anyone can compute, proves no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnySigner {
    /// Answer 403 to commands without a signature.
    pub require_signature: bool,
}

/// What is said of commands that no policy needs to look at.
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
        Authorization::Accept { signer }
    }
}
