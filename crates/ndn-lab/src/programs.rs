//! Programs that runs start.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories in which programs are looked for: that of this program, then those of `PATH`.
pub(crate) fn search_path() -> Vec<PathBuf> {
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    own.into_iter().chain(std::env::split_paths(&path)).collect()
}

/// The file of a program: relative to the experiment if its name has a slash.
pub(crate) fn find(program: &str, directory: &Path) -> Result<PathBuf, String> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        let path = directory.join(program);
        return match fs::metadata(&path) {
            Ok(_) if is_program(&path) => Ok(path),
            Ok(file) if file.is_file() => {
                let shown = path.display();
                Err(format!("{shown} is not executable: `chmod +x {shown}` makes it so"))
            }
            Ok(_) => Err(format!("{} is not a program", path.display())),
            Err(error) => Err(format!("{}: {error}", path.display())),
        };
    }
    let found = search_path().into_iter().map(|path| path.join(program)).find(is_program);
    found.ok_or_else(|| format!("the program '{program}' is not on PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_on_the_path_or_beside_the_experiment() {
        let directory = tempfile::tempdir().unwrap();
        assert!(find("sh", directory.path()).unwrap().ends_with("sh"));
        assert!(find("no-such-program", directory.path()).unwrap_err().contains("on PATH"));
        let error = find("./run", directory.path()).unwrap_err();
        assert!(error.contains("run: No such file"), "{error}");
        let error = find("./", directory.path()).unwrap_err();
        assert!(error.contains("is not a program"), "{error}");
        fs::write(directory.path().join("script"), "#!/bin/sh\n").unwrap();
        let error = find("./script", directory.path()).unwrap_err();
        assert!(error.contains("script is not executable"), "{error}");
        std::os::unix::fs::symlink("/bin/sh", directory.path().join("run")).unwrap();
        assert_eq!(find("./run", directory.path()).unwrap(), directory.path().join("./run"));
    }
}
