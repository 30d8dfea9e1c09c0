//! Who may do what: the decision is a hook, so that access control can grow beside the protocol.

use crate::Now;
use crate::command::{Command, CommandSignature, TopPrefix};
use crate::types::FaceScope;

/// Where a command came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    /// The face on which the Interest arrived.
    pub face_id: u64,
    /// Whether it reaches only this host.
    pub scope: FaceScope,
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
        reason: &'static str,
    },
    /// Say nothing, as to a command that is not worth a signature.
    Ignore {
        /// Why not.
        reason: &'static str,
    },
}

/// Decides whether a syntactically valid command is carried out.
pub trait Authorizer {
    /// The decision on one command.
    fn authorize(&mut self, now: Now, command: &Command<'_>, requester: Requester)
    -> Authorization;
}

/// NFD's default configuration (`certfile any`, `type any`): every command from a local face under
/// `/localhost/nfd` is carried out, whoever signed it. Commands from elsewhere are ignored.
///
/// NFD then takes commands without a signature as well, and so does this, unless told otherwise:
/// DigestSha256, which anyone can compute, proves no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnySigner {
    /// Answer 403 to commands without a signature.
    pub require_signature: bool,
}

impl Authorizer for AnySigner {
    fn authorize(
        &mut self,
        _now: Now,
        command: &Command<'_>,
        requester: Requester,
    ) -> Authorization {
        if command.top_prefix == TopPrefix::Localhop {
            return Authorization::Ignore { reason: "/localhop/nfd is not enabled" };
        }
        if requester.scope == FaceScope::NonLocal {
            return Authorization::Ignore { reason: "the face is not local" };
        }
        let signer = command.signature.signer();
        if self.require_signature && matches!(command.signature, CommandSignature::Absent) {
            return Authorization::Reject { signer, reason: "the command is not signed" };
        }
        Authorization::Accept { signer }
    }
}
