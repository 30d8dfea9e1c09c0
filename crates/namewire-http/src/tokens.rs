//! Bearer tokens, their roles, and the file that keeps them.
//!
//! A line of the file is `NAME ROLE TOKEN EXPIRY`; the expiry is in seconds since 1970, or `-`. The server reads the
//! file again when it has changed, so tokens are added, renewed and revoked without a restart.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::constant_time::verify_slices_are_equal;

use crate::file_version::FileVersion;

/// Maximum number of tokens.
pub const TOKENS_MAX: usize = 256;
/// Maximum length of the file, bytes.
const FILE_LEN_MAX: u64 = 64 << 10;
/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// Maximum length of a name, bytes.
const NAME_LEN_MAX: usize = 64;
/// Name of the token that the first start makes.
pub const FIRST_NAME: &str = "admin";

/// The rights of the holder of a token. Each role includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read everything that names things: faces, routes, tables, log levels.
    Read,
    /// Change faces, routes, strategies and the Content Store.
    Operate,
    /// Change the log levels, the dispatch of names and the configuration; see packets.
    Admin,
}

impl Role {
    /// All roles, in ascending order.
    pub const ALL: [Self; 3] = [Self::Read, Self::Operate, Self::Admin];

    /// The role as a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let role = Self::ALL.into_iter().find(|role| role.name() == text);
        role.ok_or_else(|| format!("`{text}` is not a role; the roles are read, operate and admin"))
    }
}

/// A token. Its `Debug` output leaves out the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Name of its holder, for the log.
    pub name: String,
    /// Role.
    pub role: Role,
    /// The secret: 64 hexadecimal digits.
    pub secret: String,
    /// Seconds since 1970 from which it is refused; `None`: never.
    pub expires_s: Option<u64>,
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, role, secret: _, expires_s } = self;
        let mut shown = formatter.debug_struct("Token");
        shown.field("name", name).field("role", role).field("expires_s", expires_s);
        shown.finish_non_exhaustive()
    }
}

impl Token {
    /// A token with a random secret.
    ///
    /// # Errors
    /// The name is not 1 to 64 letters, digits, `-`, `_` or `.`, or there are no random numbers.
    pub fn new(name: &str, role: Role, expires_s: Option<u64>) -> io::Result<Self> {
        check_name(name).map_err(io::Error::other)?;
        let mut bytes = [0_u8; TOKEN_BYTES];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
        let secret = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { name: name.to_owned(), role, secret, expires_s })
    }

    pub(crate) fn to_line(&self) -> String {
        let Self { name, role, secret, expires_s } = self;
        let expiry = expires_s.map_or_else(|| "-".to_owned(), |seconds| seconds.to_string());
        format!("{name} {role} {secret} {expiry}\n")
    }

    pub(crate) fn from_line(line: &str) -> Result<Self, String> {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let [name, role, secret, expiry] = words[..] else {
            return Err("a line is NAME ROLE TOKEN EXPIRY".to_owned());
        };
        check_name(name)?;
        let is_secret = secret.len() == 2 * TOKEN_BYTES
            && secret.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if !is_secret {
            return Err(format!(
                "the token of {name} is not {} hexadecimal digits",
                2 * TOKEN_BYTES
            ));
        }
        let expires_s = match expiry {
            "-" => None,
            seconds => Some(seconds.parse().map_err(|_| format!("`{seconds}` is not an expiry"))?),
        };
        Ok(Self {
            name: name.to_owned(),
            role: role.parse()?,
            secret: secret.to_owned(),
            expires_s,
        })
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_mark = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_mark) {
        true => Ok(()),
        false => Err(format!(
            "`{name}` is not the name of a token: 1 to {NAME_LEN_MAX} letters, digits, `-`, `_` or `.`"
        )),
    }
}

/// The file of tokens. Only its owner can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file at `path`, which need not exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file with one token of role `admin`, unless it exists.
    ///
    /// # Errors
    /// The file or its directory cannot be created, or the file is malformed; the error names it.
    pub fn create(&self) -> io::Result<()> {
        if self.path.exists() {
            return self.read().map(drop);
        }
        if let Some(directory) = self.path.parent().filter(|path| !path.as_os_str().is_empty()) {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
            made.map_err(|error| named(directory, &error))?;
        }
        self.write(&[Token::new(FIRST_NAME, Role::Admin, None)?])
    }

    /// Reads the tokens.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or a line is malformed; the error names the file.
    pub fn read(&self) -> io::Result<Vec<Token>> {
        self.read_all().map_err(|error| named(&self.path, &error))
    }

    fn read_all(&self) -> io::Result<Vec<Token>> {
        let file = File::open(&self.path)?;
        if file.metadata()?.mode() & 0o077 != 0 {
            let reason = "other users can read it (chmod 600), so renew its tokens";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let mut text = String::new();
        file.take(FILE_LEN_MAX).read_to_string(&mut text)?;
        let mut tokens: Vec<Token> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let malformed = |reason: String| io::Error::other(format!("line {}: {reason}", at + 1));
            let token = Token::from_line(line).map_err(malformed)?;
            if tokens.iter().any(|earlier| earlier.name == token.name) {
                return Err(malformed(format!("{} has two tokens", token.name)));
            }
            tokens.push(token);
        }
        match tokens.len() <= TOKENS_MAX {
            true => Ok(tokens),
            false => Err(io::Error::other(format!("there are more than {TOKENS_MAX} tokens"))),
        }
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// There are too many tokens, or the file system reports an error; the error names the file.
    pub fn write(&self, tokens: &[Token]) -> io::Result<()> {
        self.replace(tokens).map_err(|error| named(&self.path, &error))
    }

    fn replace(&self, tokens: &[Token]) -> io::Result<()> {
        if tokens.len() > TOKENS_MAX {
            return Err(io::Error::other(format!("the maximum number of tokens is {TOKENS_MAX}")));
        }
        let text: String = tokens.iter().map(Token::to_line).collect();
        let new = self.path.with_extension(format!("new-{}", std::process::id()));
        // A file of an interrupted attempt.
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        // The new file belongs to the user of the old one: root may replace that of the forwarder.
        if let Ok(old) = fs::metadata(&self.path) {
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The holder of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) name: String,
    pub(crate) role: Role,
}

/// The tokens in force.
#[derive(Debug)]
pub(crate) struct Tokens {
    file: TokenFile,
    loaded: Mutex<(Option<FileVersion>, Vec<Token>)>,
}

impl Tokens {
    pub(crate) fn new(file: TokenFile) -> Self {
        Self { file, loaded: Mutex::default() }
    }

    /// The principal with this token, unless it has expired.
    pub(crate) fn principal(&self, secret: &str, now_s: u64) -> Option<Principal> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, tokens) = &mut *loaded;
        let found = FileVersion::of(self.file.path());
        if found.is_none() || *version != found {
            *version = found;
            *tokens = self.file.read().unwrap_or_else(|error| {
                tracing::error!(%error, "no token of the HTTP API is valid");
                Vec::new()
            });
        }
        let mut holder = None;
        // All are compared, so that the time does not depend on the token.
        for token in tokens.iter() {
            let is_equal =
                verify_slices_are_equal(token.secret.as_bytes(), secret.as_bytes()).is_ok();
            if is_equal && token.expires_s.is_none_or(|end_s| now_s < end_s) {
                holder = Some(Principal { name: token.name.clone(), role: token.role });
            }
        }
        holder
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file() -> (tempfile::TempDir, TokenFile) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/http-tokens");
        (directory, TokenFile::new(path))
    }

    #[test]
    fn first_start_makes_a_private_file_and_later_starts_keep_it() {
        let (_directory, file) = file();
        file.create().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(file.path()), mode(file.path().parent().unwrap())), (0o600, 0o700));
        let tokens = file.read().unwrap();
        assert_eq!((tokens.len(), tokens[0].role), (1, Role::Admin));
        file.create().unwrap();
        assert_eq!(file.read().unwrap(), tokens);
        assert!(!format!("{tokens:?}").contains(&tokens[0].secret));
    }

    #[test]
    fn tokens_are_recognized_until_they_expire_or_are_revoked() {
        let (_directory, file) = file();
        file.create().unwrap();
        let admin = file.read().unwrap().remove(0);
        let reader = Token::new("grafana", Role::Read, Some(1000)).unwrap();
        file.write(&[admin.clone(), reader.clone()]).unwrap();
        let tokens = Tokens::new(file.clone());
        let holder = tokens.principal(&reader.secret, 999).unwrap();
        assert_eq!((holder.name.as_str(), holder.role), ("grafana", Role::Read));
        assert_eq!(tokens.principal(&reader.secret, 1000), None);
        for wrong in ["", "x", &admin.secret[1..], &admin.secret.to_uppercase(), &"0".repeat(64)] {
            assert_eq!(tokens.principal(wrong, 0), None, "{wrong}");
        }
        let renewed = Token::new(FIRST_NAME, Role::Admin, None).unwrap();
        file.write(std::slice::from_ref(&renewed)).unwrap();
        assert_eq!(tokens.principal(&admin.secret, 0), None);
        assert_eq!(tokens.principal(&reader.secret, 0), None);
        assert_eq!(tokens.principal(&renewed.secret, 0).unwrap().role, Role::Admin);
        fs::remove_file(file.path()).unwrap();
        assert_eq!(tokens.principal(&renewed.secret, 0), None);
    }

    #[test]
    fn file_that_others_can_read_is_rejected() {
        let (_directory, file) = file();
        file.create().unwrap();
        let secret = file.read().unwrap()[0].secret.clone();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(file.create().unwrap_err().to_string().contains("other users can read it"));
        assert_eq!(Tokens::new(file).principal(&secret, 0), None);
    }

    #[test]
    fn malformed_lines_are_rejected_with_their_number() {
        let (_directory, file) = file();
        file.create().unwrap();
        let secret = "0123456789abcdef".repeat(4);
        let good = format!("a read {secret} -\n");
        for (line, reason) in [
            ("x".to_owned(), "a line is NAME ROLE TOKEN EXPIRY"),
            (format!("b root {secret} -"), "`root` is not a role"),
            ("b read 00 -".to_owned(), "the token of b is not 64 hexadecimal digits"),
            (format!("b read {secret} soon"), "`soon` is not an expiry"),
            (format!("b/c read {secret} -"), "`b/c` is not the name of a token"),
            (format!("a admin {secret} -"), "a has two tokens"),
        ] {
            fs::write(file.path(), format!("{good}{line}\n")).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(error.contains(&format!("line 2: {reason}")), "{error}");
        }
    }

    #[test]
    fn roles_include_the_lower_ones() {
        assert!(Role::Read < Role::Operate && Role::Operate < Role::Admin);
        for role in Role::ALL {
            assert_eq!(role.name().parse(), Ok(role));
        }
    }
}
