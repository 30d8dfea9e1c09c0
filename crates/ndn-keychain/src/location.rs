//! The location of the key chain: `NDN_CLIENT_PIB` and `NDN_CLIENT_TPM`, `client.conf`, or `~/.ndn`.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::KeyChainError;

/// Environment variable with the locator of the PIB.
pub(crate) const PIB_VARIABLE: &str = "NDN_CLIENT_PIB";
/// Environment variable with the locator of the TPM.
pub(crate) const TPM_VARIABLE: &str = "NDN_CLIENT_TPM";

const DIRECTORY_MODE: u32 = 0o700;
const PIB_SCHEME: &str = "pib-sqlite3";
const TPM_SCHEME: &str = "tpm-file";
/// The directory of key files.
const KEY_FILES: &str = "ndnsec-key-file";

/// Locations of `client.conf` in addition to `~/.ndn`; the first existing file is used.
const CONFIGURATION_DIRECTORIES: [&str; 2] = ["/usr/local/etc/ndn", "/etc/ndn"];

/// The two locations of a key chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locations {
    /// The database.
    pub pib: PathBuf,
    /// The directory of key files.
    pub tpm: PathBuf,
    /// The TPM's locator as ndn-cxx writes it into the PIB: `tpm-file:` and the place as given.
    pub tpm_locator: String,
}

impl Locations {
    /// The locations from the environment and `client.conf` of this process.
    ///
    /// # Errors
    /// `Locator` if they name a store of another kind.
    pub fn from_environment() -> Result<Self, KeyChainError> {
        Self::resolve(|name| std::env::var(name).ok(), |path| std::fs::read_to_string(path).ok())
    }

    /// Database and key files in one directory, as `pib-sqlite3:<directory>` and `tpm-file:<directory>`.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            pib: directory.join("pib.db"),
            tpm: directory.join(KEY_FILES),
            tpm_locator: format!("{TPM_SCHEME}:{}", directory.display()),
        }
    }

    /// Whether the locator in a PIB is that of these key files: in the form of ndn-cxx, with the parent directory, or of
    /// python-ndn, with their own directory.
    pub(crate) fn is_own_locator(&self, locator: &str) -> bool {
        let Some((TPM_SCHEME, place)) = locator.split_once(':') else {
            return locator == self.tpm_locator;
        };
        let place = Path::new(place);
        locator == self.tpm_locator
            || place == self.tpm
            || (place.is_absolute() && place.join(KEY_FILES) == self.tpm)
    }

    /// As [`Self::from_environment`], with functions that read variables and files.
    ///
    /// # Errors
    /// `Locator`.
    pub fn resolve(
        variable: impl Fn(&str) -> Option<String>,
        read: impl Fn(&Path) -> Option<String>,
    ) -> Result<Self, KeyChainError> {
        let home = variable("HOME").unwrap_or_default();
        // Without HOME it is the working directory, as in ndn-cxx.
        let own = Path::new(&home).join(".ndn");
        let directories = CONFIGURATION_DIRECTORIES.iter().map(PathBuf::from);
        let own_configuration = (!home.is_empty()).then(|| own.clone());
        let configuration =
            own_configuration.into_iter().chain(directories).find_map(|directory| {
                let path = directory.join("client.conf");
                read(&path).map(|text| (path, text))
            });
        let locator = |name: &str, key: &str| match variable(name) {
            Some(value) => (name.to_owned(), value),
            None => configuration.as_ref().map_or_else(Default::default, |(path, text)| {
                (path.display().to_string(), value_of(text, key).unwrap_or_default().to_owned())
            }),
        };
        let directory = |place: &str| match place {
            "" => own.clone(),
            place => PathBuf::from(place),
        };
        let pib = place(&locator(PIB_VARIABLE, "pib"), "PIB", PIB_SCHEME)?;
        let tpm = place(&locator(TPM_VARIABLE, "tpm"), "TPM", TPM_SCHEME)?;
        Ok(Self {
            pib: directory(&pib).join("pib.db"),
            tpm: directory(&tpm).join(KEY_FILES),
            tpm_locator: format!("{TPM_SCHEME}:{tpm}"),
        })
    }
}

/// The part of a locator after its scheme.
fn place(
    (origin, locator): &(String, String),
    what: &'static str,
    supported: &'static str,
) -> Result<String, KeyChainError> {
    let (scheme, place) = locator.split_once(':').unwrap_or((locator, ""));
    match scheme {
        "" => Ok(place.to_owned()),
        scheme if scheme == supported => Ok(place.to_owned()),
        _ => Err(KeyChainError::Locator {
            origin: origin.clone(),
            what,
            locator: locator.clone(),
            supported,
        }),
    }
}

/// The value of `key` in a `client.conf`: lines `key=value`, comments after `;` or `#`.
fn value_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let line = line.trim();
        let (found, value) = line.split_once('=').filter(|_| !line.starts_with([';', '#']))?;
        (found.trim() == key).then(|| value.trim().trim_matches('"'))
    })
}

/// Creates a directory that only its owner can read, and its parents.
pub(crate) fn create_directory(path: &Path) -> Result<(), KeyChainError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIRECTORY_MODE);
    builder.create(path).map_err(KeyChainError::file(path))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn resolve(
        variables: &[(&str, &str)],
        files: &[(&str, &str)],
    ) -> Result<Locations, KeyChainError> {
        let find = |list: &[(&str, &str)], key: &str| {
            list.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned())
        };
        Locations::resolve(|name| find(variables, name), |path| find(files, path.to_str().unwrap()))
    }

    #[test]
    fn variables_precede_client_conf_and_it_precedes_home() {
        let home = ("HOME", "/home/me");
        let found = resolve(&[home], &[]).unwrap();
        assert_eq!(found.pib, Path::new("/home/me/.ndn/pib.db"));
        assert_eq!(found.tpm, Path::new("/home/me/.ndn/ndnsec-key-file"));
        assert_eq!(found.tpm_locator, "tpm-file:");

        let mine = ("/home/me/.ndn/client.conf", ";pib=no\npib = pib-sqlite3:/p\ntpm=tpm-file:/t");
        let found = resolve(&[home], &[mine, ("/etc/ndn/client.conf", "pib=pib-memory")]).unwrap();
        assert_eq!(found.pib, Path::new("/p/pib.db"));
        assert_eq!(found.tpm, Path::new("/t/ndnsec-key-file"));
        assert_eq!(found.tpm_locator, "tpm-file:/t");

        let variables = [home, (PIB_VARIABLE, "pib-sqlite3:/v"), (TPM_VARIABLE, "tpm-file")];
        let found = resolve(&variables, &[mine]).unwrap();
        assert_eq!(found.pib, Path::new("/v/pib.db"));
        assert_eq!(found.tpm, Path::new("/home/me/.ndn/ndnsec-key-file"));
        assert_eq!(resolve(&[], &[]).unwrap().pib, Path::new(".ndn/pib.db"));
    }

    #[test]
    fn tpm_locators_of_ndn_cxx_and_python_ndn_match() {
        let found = resolve(&[("HOME", "/home/me")], &[]).unwrap();
        for (locator, is_own) in [
            ("tpm-file:", true),
            ("tpm-file:/home/me/.ndn", true),
            ("tpm-file:/home/me/.ndn/ndnsec-key-file", true),
            ("tpm-file:/home/me/.ndn/", true),
            ("tpm-file:/home/other/.ndn", false),
            ("tpm-file:ndnsec-key-file", false),
            ("tpm-memory:", false),
            ("tpm-file", false),
            ("", false),
        ] {
            assert_eq!(found.is_own_locator(locator), is_own, "{locator}");
        }
        let elsewhere = Locations::in_directory(Path::new("/t"));
        assert!(!elsewhere.is_own_locator("tpm-file:"));
    }

    #[test]
    fn unsupported_store_is_refused_with_its_origin() {
        let error = resolve(&[(PIB_VARIABLE, "pib-memory:")], &[]).unwrap_err().to_string();
        assert!(error.starts_with("NDN_CLIENT_PIB: ") && error.contains("pib-memory:"), "{error}");
        let file = ("/etc/ndn/client.conf", "tpm=tpm-osxkeychain");
        let error = resolve(&[], &[file]).unwrap_err().to_string();
        assert!(error.starts_with("/etc/ndn/client.conf: "), "{error}");
    }
}
