//! The directory for files that outlive a start: generated certificates, tokens.

use std::path::PathBuf;
use std::sync::OnceLock;

/// Whether root started this process: a forwarder that has dropped these privileges keeps the default paths of its start.
pub(crate) fn is_started_by_root() -> bool {
    static IS_ROOT: OnceLock<bool> = OnceLock::new();
    *IS_ROOT.get_or_init(|| rustix::process::geteuid().is_root())
}

/// The state directory of the service manager, else that of the user.
#[must_use]
pub fn state_directory() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    directory_in(variable, is_started_by_root())
}

/// The state directory in these variables.
fn directory_in(variable: impl Fn(&str) -> Option<PathBuf>, is_root: bool) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    // Several directories are separated by colons (systemd.exec(5)).
    let of_service = absolute("STATE_DIRECTORY").and_then(|paths| {
        let paths = paths.into_os_string().into_string().ok()?;
        paths.split(':').next().map(PathBuf::from)
    });
    of_service.or_else(|| is_root.then(|| PathBuf::from("/var/lib/namewire"))).or_else(|| {
        let of_user =
            absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
        of_user.map(|directory| directory.join("namewire"))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn state_directory_is_that_of_the_service_or_of_the_user() {
        let found = |variables: &[(&str, &str)], is_root| {
            let value = |name: &str| {
                variables.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).into())
            };
            super::directory_in(value, is_root).map(|path| path.display().to_string())
        };
        let (home, state) = (("HOME", "/home/me"), ("XDG_STATE_HOME", "/home/me/state"));
        let service = ("STATE_DIRECTORY", "/var/lib/a:/var/lib/b");
        assert_eq!(found(&[home], false).as_deref(), Some("/home/me/.local/state/namewire"));
        assert_eq!(found(&[home, state], false).as_deref(), Some("/home/me/state/namewire"));
        assert_eq!(found(&[home, state], true).as_deref(), Some("/var/lib/namewire"));
        assert_eq!(found(&[home, service], true).as_deref(), Some("/var/lib/a"));
        assert_eq!(found(&[("HOME", "here")], false), None);
    }
}
