//! `namewire key`: identities and their keys in ndn-cxx's key chain.

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use ndn_keychain::{Access, KeyChain, KeyChainError, KeyId, NewDefault};
use ndn_packet::{Component, Name, NameRef};
use ndn_security::{EncryptionSeed, KeyType, PublicKey, SafeBag};
use rand::RngExt;
use serde_json::{Value, json};

use super::arguments::{identity_name, name};
use super::failure::{Failure, Outcome};
use super::input::{read_some, shown};
use super::key_chain::{IdentityArgument, PassphraseOptions, failure, now_unix_ms, open};
use super::output;

/// Create, list, export and import keys of the key chain that ndnsec and ndn-cxx use
///
/// Its location is that of NDN_CLIENT_PIB and NDN_CLIENT_TPM, else of client.conf, else ~/.ndn.
#[derive(Subcommand, Debug)]
pub(super) enum Command {
    Gen(GenOptions),
    #[command(aliases = ["ls"])]
    List(ListOptions),
    Export(ExportOptions),
    Import(ImportOptions),
    #[command(aliases = ["rm", "del", "remove"])]
    Delete(DeleteOptions),
    Default(DefaultOptions),
}

/// Create a key with a self-signed certificate, and the identity if it does not exist
///
/// Prints the certificate in Base64.
#[derive(Args, Debug)]
pub(super) struct GenOptions {
    /// The identity
    #[arg(value_parser = identity_name)]
    identity: Name,
    /// Type of key; ndn-cxx 0.9 cannot sign with ed25519
    #[arg(long, short = 't', value_enum, default_value_t = Kind::Ecdsa)]
    r#type: Kind,
    /// Last component of the key name, or `digest` for the SHA-256 digest of the public key
    /// [default: random]
    #[arg(long, value_name = "COMPONENT")]
    key_id: Option<String>,
    /// Do not change the default identity and key
    #[arg(long, short)]
    not_default: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// P-256
    Ecdsa,
    /// 2048 bits
    Rsa,
    /// Ed25519
    Ed25519,
}

/// List identities with their keys and certificates; `*` marks defaults
#[derive(Args, Debug)]
pub(super) struct ListOptions {
    /// Kind of the deepest entries to list
    #[arg(long, value_enum, default_value_t = NameKind::Certificate, overrides_with = "depth")]
    depth: NameKind,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Export a key and its certificate as a SafeBag, encrypted with a passphrase
#[derive(Args, Debug)]
pub(super) struct ExportOptions {
    /// Identity, key or certificate, or `default`
    name: IdentityArgument,
    /// Output file, which must not exist and only its owner can read [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    passphrase: PassphraseOptions,
}

/// Import the key and certificate of a SafeBag
#[derive(Args, Debug)]
pub(super) struct ImportOptions {
    /// The SafeBag in Base64, `-` for standard input
    #[arg(default_value = "-")]
    file: String,
    #[command(flatten)]
    passphrase: PassphraseOptions,
}

/// Delete an identity with its keys, a key with its certificates, or a certificate
///
/// Lists what will be deleted and asks for confirmation. A deleted private key cannot be recovered.
#[derive(Args, Debug)]
pub(super) struct DeleteOptions {
    /// Identity, key or certificate
    #[arg(value_parser = name)]
    name: Name,
    /// Refuse a name of another kind
    #[arg(long, value_enum, overrides_with = "kind")]
    kind: Option<NameKind>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// The kind of object that a name in the key chain denotes.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameKind {
    Identity,
    Key,
    Certificate,
}

impl NameKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Key => "key",
            Self::Certificate => "certificate",
        }
    }
}

/// Show or set the default identity, key or certificate
#[derive(Args, Debug)]
pub(super) struct DefaultOptions {
    /// Identity, key (of its identity) or certificate (of its key)
    #[arg(value_parser = name)]
    name: Option<Name>,
    /// Show the default of this kind
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "name", overrides_with = "show")]
    show: Option<NameKind>,
    /// Show the default of this identity or key, instead of the default identity
    #[arg(long, value_parser = name, value_name = "NAME", conflicts_with = "name")]
    of: Option<Name>,
    /// Print no line break
    #[arg(long, conflicts_with = "name")]
    no_newline: bool,
}

/// Executes the command; with `as_ndnsec`, lists as that does.
pub(super) fn run(command: &Command, as_ndnsec: bool) -> Outcome {
    match command {
        Command::Gen(options) => generate(options),
        Command::List(options) => list(options, as_ndnsec),
        Command::Export(options) => export(options),
        Command::Import(options) => import(options),
        Command::Delete(options) => delete(options),
        Command::Default(options) => default(options),
    }
}

fn generate(options: &GenOptions) -> Outcome {
    let key_type = match options.r#type {
        Kind::Ecdsa => KeyType::Ecdsa,
        Kind::Rsa => KeyType::Rsa,
        Kind::Ed25519 => KeyType::Ed25519,
    };
    let random: [u8; 8] = rand::rng().random();
    let mut given = Vec::new();
    let key_id = match options.key_id.as_deref() {
        None => KeyId::Component(Component::generic(&random)),
        Some("digest") => KeyId::Digest,
        Some(text) => {
            let ty = Component::parse_uri(text, &mut given);
            let ty = ty.map_err(|error| Failure::Usage(format!("--key-id {text}: {error}")))?;
            KeyId::Component(Component::new(ty, &given))
        }
    };
    let default = if options.not_default { NewDefault::None } else { NewDefault::All };
    let mut chain = open(Access::Write)?;
    let identity = options.identity.as_ref();
    let former = Defaults::of(&chain, identity)?;
    let made = chain.generate(identity, key_type, key_id, now_unix_ms(), default);
    let certificate = made.map_err(failure)?;
    eprintln!("made {}", certificate.key_name());
    former.report_changes(&Defaults::of(&chain, identity)?, &options.identity);
    Ok(std::io::stdout().lock().write_all(certificate.to_text().as_bytes())?)
}

/// The identity and the key that programs sign with by default.
struct Defaults {
    identity: Option<Name>,
    key: Option<Name>,
}

impl Defaults {
    fn of(chain: &KeyChain, identity: NameRef<'_>) -> Outcome<Self> {
        let identities = chain.identities().map_err(failure)?;
        let is_known = identities.iter().any(|entry| entry.name.as_ref() == identity);
        let keys = if is_known { chain.keys(identity).map_err(failure)? } else { Vec::new() };
        Ok(Self {
            identity: identities.into_iter().find(|entry| entry.is_default).map(|entry| entry.name),
            key: keys.into_iter().find(|entry| entry.is_default).map(|entry| entry.name),
        })
    }

    /// Prints defaults that were replaced: programs sign with another key from now on.
    fn report_changes(&self, now: &Self, identity: &Name) {
        if let (Some(former), Some(key)) = (&self.key, &now.key)
            && former != key
        {
            output::note(&format_args!(
                "it is the default key of {identity} now, in place of {former} \
                 (`namewire key default {former}` restores that)"
            ));
        }
        if let (Some(former), Some(new)) = (&self.identity, &now.identity)
            && former != new
        {
            output::note(&format_args!(
                "{new} is the default identity now, in place of {former} \
                 (`namewire key default {former}` restores that)"
            ));
        }
    }
}

fn list(options: &ListOptions, as_ndnsec: bool) -> Outcome {
    let chain = open(Access::Read)?;
    let tree = tree(&chain).map_err(failure)?;
    if options.json {
        return Ok(output::print_json(&Value::Array(tree))?);
    }
    let text = match as_ndnsec {
        true => format!("pib-sqlite3:\n{}", drawn(&tree, options.depth, "", true)),
        false => drawn(&tree, options.depth, "", false),
    };
    match text.strip_suffix('\n') {
        Some(lines) => Ok(output::print_line(lines)?),
        None => Ok(()),
    }
}

/// One line for each entry of a level and those below it; with branches, as ndnsec draws them.
fn drawn(entries: &[Value], depth: NameKind, indent: &str, branches: bool) -> String {
    let mut lines = String::new();
    for (index, entry) in entries.iter().enumerate() {
        let is_last = index + 1 == entries.len();
        let (corner, beside) = match (branches, is_last) {
            (false, _) => ("", "  "),
            (true, false) => ("├─", "│   "),
            (true, true) => ("└─", "    "),
        };
        let mark = match (entry["default"] == true, branches) {
            (true, _) => '*',
            (false, true) => '─',
            (false, false) => ' ',
        };
        let name = entry["name"].as_str().unwrap_or_default();
        let kind = entry["type"].as_str().filter(|_| !branches);
        let kind = kind.map(|kind| format!("  {kind}")).unwrap_or_default();
        lines.push_str(&format!("{indent}{corner}{mark} {name}{kind}\n"));
        let below = [("keys", NameKind::Key), ("certificates", NameKind::Certificate)];
        for (of, kind) in below {
            if let Some(entries) = entry[of].as_array().filter(|_| depth >= kind) {
                lines.push_str(&drawn(entries, depth, &format!("{indent}{beside}"), branches));
            }
        }
    }
    lines
}

fn tree(chain: &KeyChain) -> Result<Vec<Value>, KeyChainError> {
    let mut identities = Vec::new();
    let mut of_chain = chain.identities()?;
    of_chain.sort_by(|one, other| one.name.cmp(&other.name));
    for identity in of_chain {
        let mut keys = Vec::new();
        let mut of_identity = chain.keys(identity.name.as_ref())?;
        of_identity.sort_by(|one, other| one.name.cmp(&other.name));
        for key in of_identity {
            let mut certificates = chain.certificates(key.name.as_ref())?;
            certificates.sort_by(|one, other| one.name.cmp(&other.name));
            let certificates: Vec<_> = certificates
                .iter()
                .map(|entry| json!({"name": entry.name.to_uri(), "default": entry.is_default}))
                .collect();
            let kind = PublicKey::from_spki(&key.spki)
                .map_or_else(|_| "unknown".to_owned(), |key| key.key_type().to_string());
            keys.push(json!({
                "name": key.name.to_uri(), "default": key.is_default,
                "type": kind, "certificates": certificates,
            }));
        }
        identities.push(json!({
            "name": identity.name.to_uri(), "default": identity.is_default, "keys": keys,
        }));
    }
    Ok(identities)
}

fn export(options: &ExportOptions) -> Outcome {
    let chain = open(Access::Read)?;
    let name = options.name.resolve(&chain)?;
    // Check the output file before the prompt for a passphrase.
    chain.key(name.as_ref()).map_err(failure)?;
    let passphrase = options.passphrase.read(true)?;
    let mut random = rand::rng();
    let seed = EncryptionSeed { salt: random.random(), iv: random.random() };
    let bag = chain.export(name.as_ref(), passphrase.as_bytes(), &seed).map_err(failure)?;
    match &options.output {
        None => Ok(std::io::stdout().lock().write_all(bag.to_text().as_bytes())?),
        Some(path) => write_private(path, bag.to_text().as_bytes()),
    }
}

fn write_private(path: &Path, content: &[u8]) -> Outcome {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(content))
        .map_err(|error| Failure::file(path.display(), &error))
}

fn import(options: &ImportOptions) -> Outcome {
    let input = read_some(&options.file, "a SafeBag in Base64")?;
    let bag = SafeBag::from_text(&String::from_utf8_lossy(&input))
        .map_err(|error| Failure::input(shown(Path::new(&options.file)), error))?;
    let passphrase = options.passphrase.read(false)?;
    let imported = open(Access::Write)?.import(&bag, passphrase.as_bytes());
    imported.map_err(|error| match matches!(error, KeyChainError::Key { .. }) {
        // The passphrase is wrong.
        true => Failure::Input(error.to_string()),
        false => failure(error),
    })?;
    eprintln!("imported {}", bag.certificate().key_name());
    Ok(())
}

fn delete(options: &DeleteOptions) -> Outcome {
    // A missing key chain is not created.
    let doomed = doomed(&tree(&open(Access::Read)?).map_err(failure)?, &options.name.to_uri());
    let found = doomed.first().and_then(|entry| entry.split(' ').next());
    if let (Some(kind), Some(found)) = (options.kind.map(NameKind::as_str), found)
        && kind != found
    {
        let name = &options.name;
        return Err(Failure::input(
            name,
            format_args!("not a name of kind {kind}, but {found}; nothing was deleted"),
        ));
    }
    if !doomed.is_empty() && !options.yes {
        let what = doomed.join("\n  ");
        if !std::io::stdin().is_terminal() {
            return Err(Failure::Usage(format!(
                "standard input is not a terminal, so confirmation is impossible; --yes deletes\n  {what}"
            )));
        }
        eprint!("Delete\n  {what}\npermanently? [y/N] ");
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        read.map_err(|error| Failure::file("standard input", &error))?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(Failure::Failed("nothing was deleted".to_owned()));
        }
    }
    // It reports names that do not exist.
    open(Access::Write)?.delete(options.name.as_ref()).map_err(failure)?;
    doomed.iter().for_each(|entry| eprintln!("deleted {entry}"));
    Ok(())
}

/// Everything that is deleted with an identity, a key or a certificate, itself first.
fn doomed(tree: &[Value], name: &str) -> Vec<String> {
    fn collect(entry: &Value, kinds: &[&str], name: &str, is_below: bool, found: &mut Vec<String>) {
        let [kind, below @ ..] = kinds else { return };
        let own = entry["name"].as_str().unwrap_or_default();
        let is_doomed = is_below || own == name;
        if is_doomed {
            found.push(format!("{kind} {own}"));
        }
        for inner in ["keys", "certificates"] {
            for entry in entry[inner].as_array().into_iter().flatten() {
                collect(entry, below, name, is_doomed, found);
            }
        }
    }
    let mut found = Vec::new();
    for identity in tree {
        collect(identity, &["identity", "key", "certificate"], name, false, &mut found);
    }
    found
}

fn default(options: &DefaultOptions) -> Outcome {
    if let Some(name) = &options.name {
        return open(Access::Write)?.set_default(name.as_ref()).map_err(failure);
    }
    let name = default_name(options)?;
    if options.no_newline {
        let mut out = std::io::stdout().lock();
        out.write_all(name.as_bytes())?;
        return Ok(out.flush()?);
    }
    Ok(output::print_line(&name)?)
}

/// The default that is to be shown. Without `--show`, it is that below `--of`, or the default identity.
fn default_name(options: &DefaultOptions) -> Outcome<String> {
    let chain = open(Access::Read)?;
    let of = match &options.of {
        Some(of) => of.to_uri(),
        None => chain.default_identity().map_err(failure)?.to_uri(),
    };
    let tree = tree(&chain).map_err(failure)?;
    let list = |entry: &Value, key: &str| entry[key].as_array().cloned().unwrap_or_default();
    let identity = tree.iter().find(|entry| entry["name"] == *of).cloned();
    let keys: Vec<Value> = tree.iter().flat_map(|entry| list(entry, "keys")).collect();
    let key = keys.into_iter().find(|entry| entry["name"] == *of);
    let below = if identity.is_some() { NameKind::Key } else { NameKind::Certificate };
    let usual = if options.of.is_some() { below } else { NameKind::Identity };
    let missing = |what: &str| Failure::Failed(format!("{of} has no default {what}"));
    let default_of = |entries: Vec<Value>, what: &str| {
        entries.into_iter().find(|entry| entry["default"] == true).ok_or_else(|| missing(what))
    };
    let found = match (options.show.unwrap_or(usual), identity, key) {
        (_, None, None) => {
            return Err(Failure::Failed(format!(
                "the key chain has neither an identity nor a key {of}"
            )));
        }
        (NameKind::Identity, Some(identity), _) => identity,
        (NameKind::Key, Some(identity), _) => default_of(list(&identity, "keys"), "key")?,
        (NameKind::Certificate, Some(identity), _) => {
            let key = default_of(list(&identity, "keys"), "key")?;
            default_of(list(&key, "certificates"), "certificate")?
        }
        (NameKind::Certificate, None, Some(key)) => {
            default_of(list(&key, "certificates"), "certificate")?
        }
        (NameKind::Identity | NameKind::Key, None, Some(_)) => {
            return Err(Failure::Usage(format!(
                "{of} is a key: it has a default certificate only"
            )));
        }
    };
    Ok(found["name"].as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependents_of_deleted_keys_are_listed() {
        let certificate = |name: &str| json!({"name": name});
        let tree = [
            json!({"name": "/a", "keys": [
                {"name": "/a/KEY/1", "certificates": [certificate("/a/KEY/1/self/v=1")]},
                {"name": "/a/KEY/2", "certificates": []},
            ]}),
            json!({"name": "/a/b", "keys": []}),
        ];
        assert_eq!(
            doomed(&tree, "/a"),
            ["identity /a", "key /a/KEY/1", "certificate /a/KEY/1/self/v=1", "key /a/KEY/2",]
        );
        assert_eq!(doomed(&tree, "/a/KEY/1"), ["key /a/KEY/1", "certificate /a/KEY/1/self/v=1"]);
        assert_eq!(doomed(&tree, "/a/KEY/1/self/v=1"), ["certificate /a/KEY/1/self/v=1"]);
        assert!(doomed(&tree, "/nothing").is_empty());
    }
}
