//! Who may manage the forwarder: settings, and how they are written.

use std::path::{Path, PathBuf};

use ndn_management::Module;
use ndn_management::access::PRIVILEGED_MODULES;
use toml::de::DeValue;

use super::reader::{FromToml, Section, one_of, words};

/// Who may do what under `/localhost/nfd` and `/localhop/nfd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Who may issue the commands of the modules other than `rib`.
    pub authorizations: Vec<Authorize>,
    /// Who may issue `rib` commands under `/localhost/nfd`.
    pub localhost_rib: TrustRules,
    /// Who may issue `rib` commands under `/localhop/nfd`, from other hosts too.
    pub localhop_rib: TrustRules,
    /// Whose prefix announcements are believed.
    pub prefix_announcements: TrustRules,
}

/// Privileges of a signer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorize {
    /// Who.
    pub signer: AuthorizedSigner,
    /// For the commands of these modules.
    pub privileges: Vec<Privilege>,
}

/// To whom privileges are granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizedSigner {
    /// Anybody.
    Any,
    /// Who can sign with the key of the certificate in this file.
    Certificate(PathBuf),
}

/// A module whose commands can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege(pub Module);

/// How places in rules that are no file of their own are told: `line:3: …`.
pub const TEXT_ORIGIN: &str = "line";

/// Which signatures are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustRules {
    /// Any.
    Any,
    /// None.
    Nobody,
    /// Those that the rules in this file allow.
    File(PathBuf),
    /// Those that these rules allow; paths in them are relative to the directory.
    Inline {
        /// The rules, in ndn-cxx's validator configuration format.
        text: String,
        /// Where relative paths begin.
        directory: PathBuf,
    },
}

impl Default for Access {
    fn default() -> Self {
        Self {
            authorizations: vec![Authorize {
                signer: AuthorizedSigner::Any,
                privileges: PRIVILEGED_MODULES.map(Privilege).to_vec(),
            }],
            localhost_rib: TrustRules::Any,
            localhop_rib: TrustRules::Nobody,
            prefix_announcements: TrustRules::Any,
        }
    }
}

impl Access {
    /// Makes paths relative to `directory`, which is where the file that has them is.
    pub fn resolve_paths(&mut self, directory: &Path) {
        for authorize in &mut self.authorizations {
            if let AuthorizedSigner::Certificate(path) = &mut authorize.signer {
                *path = directory.join(&*path);
            }
        }
        for rules in
            [&mut self.localhost_rib, &mut self.localhop_rib, &mut self.prefix_announcements]
        {
            match rules {
                TrustRules::File(path) => *path = directory.join(&*path),
                TrustRules::Inline { directory: base, .. } => *base = directory.join(&*base),
                TrustRules::Any | TrustRules::Nobody => {}
            }
        }
    }
}

/// Reads the keys of access control in `[management]`.
pub(super) fn read(management: &mut Section<'_>, access: &mut Access) {
    management.read("localhost_rib", &mut access.localhost_rib);
    management.read("localhop_rib", &mut access.localhop_rib);
    management.read("prefix_announcements", &mut access.prefix_announcements);
    // An empty list is one, too: nobody is authorised.
    let is_told = management.has("authorizations");
    let authorizations = management.sections("authorizations");
    if is_told {
        access.authorizations = authorizations.into_iter().filter_map(read_authorization).collect();
    }
}

fn read_authorization(mut section: Section<'_>) -> Option<Authorize> {
    let signer = section.read_required("certificate");
    let privileges = section.read_required("privileges");
    section.finish();
    Some(Authorize { signer: signer?, privileges: privileges? })
}

impl FromToml for AuthorizedSigner {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some("any") => Ok(Self::Any),
            Some(_) | None => PathBuf::from_toml(value).map(Self::Certificate),
        }
    }

    fn kind() -> String {
        "`\"any\"` or path".to_owned()
    }
}

impl FromToml for Privilege {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        one_of(value, &PRIVILEGED_MODULES.map(|module| (module.as_str(), Self(module))))
    }

    fn kind() -> String {
        words(&PRIVILEGED_MODULES.map(Module::as_str))
    }
}

impl FromToml for TrustRules {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = String::from_toml(value)?;
        match text.as_str() {
            "any" => Ok(Self::Any),
            "nobody" => Ok(Self::Nobody),
            "" => Err("expected \"any\", \"nobody\", trust rules or a file with them".to_owned()),
            rules if rules.contains('{') => {
                ndn_security::info::Node::parse_single("line", rules)
                    .map_err(|error| error.to_string())?;
                Ok(Self::Inline { text, directory: PathBuf::new() })
            }
            _ => PathBuf::from_toml(value).map(Self::File),
        }
    }

    fn kind() -> String {
        "`\"any\"`, `\"nobody\"`, path, or trust rules".to_owned()
    }
}
