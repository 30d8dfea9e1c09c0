//! Who the forwarder is where it issues commands itself: the key chain.

use std::collections::HashMap;
use std::sync::Arc;

use ndn_keychain::{Access, KeyChain, KeyChainError, Locations};
use ndn_management::Now;
use ndn_management::readvertise::{CommandSigner, DigestCommandSigner, UnsignedCommand};
use ndn_packet::{Name, SignatureInfo};
use ndn_security::{KeySigner, Signer};
use tracing::{info, warn};

/// How long what was read is taken for true, so that thousands of routes do not read it as often.
const TRUSTED_NS: u64 = 10_000_000_000;

/// Signs as identities of the key chain, which is read when it is needed.
#[derive(Debug, Default)]
pub(super) struct KeyChainSigner {
    /// Who signs where nobody else is asked for; the key chain's default identity if there is none.
    default: Option<Name>,
    read_at_ns: Option<u64>,
    identities: Vec<Name>,
    /// By identity; none is the default one.
    signers: HashMap<Option<Name>, Option<Arc<KeySigner>>>,
    /// What was wrong with the key chain when it was read last.
    complaint: Option<String>,
}

impl KeyChainSigner {
    /// `default` signs where nobody else is asked for.
    pub(super) fn new(default: Option<Name>) -> Self {
        Self { default, ..Self::default() }
    }

    /// Forgets what was read too long ago.
    fn expire(&mut self, now: Now) {
        let is_recent = |at_ns: u64| now.monotonic_ns.saturating_sub(at_ns) < TRUSTED_NS;
        if self.read_at_ns.is_some_and(is_recent) {
            return;
        }
        self.read_at_ns = Some(now.monotonic_ns);
        self.signers.clear();
        let read = open().and_then(|chain| chain.identities());
        let complaint = match &read {
            Ok(identities) if identities.is_empty() => Some("it has no identity".to_owned()),
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        self.identities =
            read.unwrap_or_default().into_iter().map(|identity| identity.name).collect();
        match (&complaint, &self.complaint) {
            (Some(reason), earlier) if Some(reason) != earlier.as_ref() => {
                warn!(reason, "the key chain has nobody to sign commands of the forwarder");
            }
            (None, Some(_)) => info!("the key chain can be used again"),
            (Some(_) | None, _) => {}
        }
        self.complaint = complaint;
    }

    fn signer(&mut self, identity: Option<&Name>) -> Option<Arc<KeySigner>> {
        let key = identity.cloned();
        if let Some(known) = self.signers.get(&key) {
            return known.clone();
        }
        let wanted = identity.or(self.default.as_ref());
        let loaded = open().and_then(|chain| match wanted {
            Some(name) => chain.signer(name.as_ref()),
            None => chain.signer(chain.default_identity()?.as_ref()),
        });
        let signer = match loaded {
            Ok(signer) => Some(Arc::new(signer)),
            // Who has no key chain at all is content with a digest, as with ndn-cxx.
            Err(KeyChainError::NoKeyChain(_) | KeyChainError::NoDefaultIdentity)
                if wanted.is_none() =>
            {
                None
            }
            Err(error) => {
                warn!(%error, "a command of the forwarder cannot be signed");
                None
            }
        };
        self.signers.insert(key, signer.clone());
        signer
    }
}

fn open() -> Result<KeyChain, KeyChainError> {
    KeyChain::open(Locations::from_environment()?, Access::Read)
}

impl CommandSigner for KeyChainSigner {
    fn sign(
        &mut self,
        now: Now,
        command: &UnsignedCommand<'_>,
        identity: Option<&Name>,
    ) -> Option<Vec<u8>> {
        self.expire(now);
        let Some(signer) = self.signer(identity) else {
            // As somebody, or with a digest where that was never asked for.
            return match self.default.as_ref().or(identity) {
                Some(_) => None,
                None => DigestCommandSigner.sign(now, command, None),
            };
        };
        let UnsignedCommand { builder, verb, parameters, nonce, time_ms } = *command;
        let nonce_bytes = nonce.to_be_bytes();
        let [a, b, c, d, ..] = nonce_bytes;
        let info = SignatureInfo {
            nonce: Some(&nonce_bytes),
            time_ms: Some(time_ms),
            ..signer.signature_info()
        };
        let sign = |parts: &[&[u8]], out: &mut [u8]| signer.sign(parts, out).ok();
        let (nonce, length) = (u32::from_be_bytes([a, b, c, d]), signer.signature_len_max());
        builder.signed_interest(verb, parameters, nonce, &info, length, sign).ok()
    }

    fn identities(&mut self, now: Now) -> Vec<Name> {
        self.expire(now);
        self.identities.clone()
    }
}
