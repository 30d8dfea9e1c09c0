//! Access to the key chain.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use ndn_keychain::{Access, KeyChain, KeyChainError, Locations};
use ndn_packet::Name;
use ndn_security::{Certificate, DigestSigner, Signer};
use ndn_sys::clock;
use ndn_types::duration_ms;

use super::failure::{Failure, Outcome};
use super::keys::PASSPHRASE_VARIABLE;
use super::passphrase;

/// An identity, key or certificate on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IdentityArgument {
    Default,
    Named(Name),
}

impl std::str::FromStr for IdentityArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self::Default),
            _ => super::arguments::name(text).map(Self::Named),
        }
    }
}

impl IdentityArgument {
    /// The name in this key chain.
    pub(super) fn resolve(&self, chain: &KeyChain) -> Outcome<Name> {
        match self {
            Self::Default => Ok(chain.default_identity().map_err(failure)?),
            Self::Named(name) => Ok(name.clone()),
        }
    }

    /// The signer, whose key is an input.
    pub(super) fn signer(&self) -> Outcome<Arc<dyn Signer>> {
        let signer = || -> Outcome<_> {
            let chain = open(Access::Read)?;
            let name = self.resolve(&chain)?;
            chain.signer(name.as_ref()).map_err(failure)
        };
        match signer() {
            Ok(signer) => Ok(Arc::new(signer)),
            Err(Failure::Failed(text)) => Err(Failure::Input(text)),
            Err(other) => Err(other),
        }
    }
}

/// Maximum number of certificates of a signer.
const CERTIFICATES_MAX: usize = 8;

impl IdentityArgument {
    /// The certificates that consumers with trust rules fetch: that of the signer and those of its issuers, as far as the
    /// key chain has them. Self-signed ones are trust anchors, which nobody fetches.
    pub(super) fn certificates(&self) -> Outcome<Vec<Certificate>> {
        let chain = open(Access::Read)?;
        let mut name = self.resolve(&chain)?;
        let mut certificates = Vec::new();
        while certificates.len() < CERTIFICATES_MAX
            && let Ok(certificate) = chain.certificate(name.as_ref())
            && !certificate.is_self_signed()
        {
            let issuer = certificate.issuer();
            certificates.push(certificate);
            let Some(issuer) = issuer else { break };
            name = issuer;
        }
        Ok(certificates)
    }
}

/// The default identity if there is one, otherwise a digest: the signature of programs with
/// ndn-cxx.
pub(super) fn usual_signer() -> Outcome<Arc<dyn Signer>> {
    let locations = Locations::from_environment().map_err(failure)?;
    let signer = KeyChain::open(locations, Access::Read)
        .and_then(|chain| chain.signer(chain.default_identity()?.as_ref()));
    match signer {
        Ok(signer) => Ok(Arc::new(signer)),
        Err(KeyChainError::NoKeyChain(_) | KeyChainError::NoDefaultIdentity) => {
            Ok(Arc::new(DigestSigner))
        }
        Err(error) => Err(failure(error)),
    }
}

/// The key chain of the environment.
pub(super) fn open(access: Access) -> Outcome<KeyChain> {
    let locations =
        Locations::from_environment().map_err(|error| Failure::Usage(error.to_string()))?;
    KeyChain::open(locations, access).map_err(failure)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn failure(error: KeyChainError) -> Failure {
    let hint = if matches!(error, KeyChainError::NoKeyChain(_)) {
        " (`namewire key gen NAME` makes one)"
    } else if matches!(error, KeyChainError::Invalid(_)) {
        ": put back a copy of it, or move it away, and `namewire key gen NAME` makes a new one"
    } else {
        ""
    };
    Failure::Failed(format!("{error}{hint}"))
}

/// Milliseconds since 1970.
pub(super) fn now_unix_ms() -> u64 {
    duration_ms(clock::wall_clock())
}

/// The source of the passphrase of a SafeBag; never the command line, which other users can read.
#[derive(Args, Debug)]
pub(super) struct PassphraseOptions {
    /// Read the passphrase from the first line of this file, instead of NAMEWIRE_PASSPHRASE;
    /// without both, the terminal prompts for it
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

impl PassphraseOptions {
    /// The passphrase from the file, the variable or the terminal, where a new one is asked for `twice`.
    pub(super) fn read(&self, twice: bool) -> Outcome<String> {
        let passphrase = match &self.passphrase_file {
            Some(path) => {
                let text = super::input::read_text(path)?;
                text.lines().next().unwrap_or_default().to_owned()
            }
            None => match std::env::var(PASSPHRASE_VARIABLE) {
                Ok(passphrase) => passphrase,
                Err(_) if std::io::stdin().is_terminal() => ask(twice)?,
                Err(_) => {
                    return Err(Failure::Usage(format!(
                        "a passphrase is needed, and standard input is not a terminal: set \
                         {PASSPHRASE_VARIABLE} or give --passphrase-file"
                    )));
                }
            },
        };
        match passphrase.is_empty() {
            true => Err(Failure::Usage("the passphrase is empty".to_owned())),
            false => Ok(passphrase),
        }
    }
}

fn ask(twice: bool) -> Outcome<String> {
    let first = passphrase::ask("Passphrase: ")?;
    if twice && passphrase::ask("Once more: ")? != first {
        return Err(Failure::Usage("the two passphrases differ".to_owned()));
    }
    Ok(first)
}
