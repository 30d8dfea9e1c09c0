//! The output of `namewire get`: standard output, a file that appears when it is complete, or a
//! device.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ndn_files::{Attributes, PartFile};

use super::failure::{Failure, Outcome};

/// Size of the write buffer of a device.
const WRITE_BUFFER_LEN: usize = 1 << 20;
/// Maximum number of symbolic links to follow, as in the kernel.
const LINKS_MAX: usize = 40;

/// The output. A file has a hidden name until it is complete; an existing device or pipe is written
/// to, never replaced.
pub(super) enum Target {
    Stdout {
        stdout: io::Stdout,
        ends_line: bool,
    },
    InPlace {
        writer: BufWriter<File>,
        path: PathBuf,
    },
    /// The directories are dropped after the file, which is in them.
    File(Box<PartFile>, #[expect(dead_code, reason = "dropped only")] NewDirectories),
}

impl Target {
    pub(super) fn open(path: Option<&Path>) -> Outcome<Self> {
        let path = match path {
            None if io::stdout().is_terminal() => {
                return Err(Failure::Usage(
                    "the output is missing: use -o FILE, or `-o -` for this terminal".to_owned(),
                ));
            }
            None => return Ok(Self::stdout()),
            Some(path) if path.as_os_str() == "-" => return Ok(Self::stdout()),
            Some(path) => path,
        };
        // A link to a device or pipe counts as one: renaming would replace it for all users.
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                Err(Failure::Usage(format!("{} is a directory: name a file in it", path.display())))
            }
            Ok(metadata) if !metadata.is_file() => Self::open_in_place(path),
            found if path.as_os_str().as_bytes().ends_with(b"/") => {
                Err(Failure::Usage(no_directory(path, found.err())))
            }
            // The target of a link is replaced, not the link.
            _ => {
                let path = behind_links(path)?;
                let directories = NewDirectories::above(&path)?;
                Ok(Self::File(Box::new(PartFile::open(path)?), directories))
            }
        }
    }

    fn stdout() -> Self {
        Self::Stdout { stdout: io::stdout(), ends_line: true }
    }

    /// A file that replaces what has this name, also a link or a device.
    pub(super) fn replacing(path: PathBuf) -> Outcome<Self> {
        Ok(Self::File(Box::new(PartFile::open(path)?), NewDirectories::default()))
    }

    fn open_in_place(path: &Path) -> Outcome<Self> {
        let file = OpenOptions::new().write(true).open(path);
        let file = file.map_err(|error| Failure::file(path.display(), &error))?;
        let writer = BufWriter::with_capacity(WRITE_BUFFER_LEN, file);
        Ok(Self::InPlace { writer, path: path.to_owned() })
    }

    /// Whether it is a file of a name that exists.
    pub(super) fn replaces(&self) -> bool {
        if let Self::File(part, _) = self { part.path().is_file() } else { false }
    }

    /// Whether a file is synced to disk before it is renamed.
    pub(super) fn set_durable(&mut self, durable: bool) {
        if let Self::File(part, _) = self {
            part.set_durable(durable);
        }
    }

    /// Gives a file these attributes when it is complete.
    pub(super) fn set_attributes(&mut self, attributes: Attributes) {
        if let Self::File(part, _) = self {
            part.set_attributes(attributes);
        }
    }

    /// Whether [`Self::complete`] syncs to disk.
    pub(super) fn waits_for_disk(&self) -> bool {
        if let Self::File(part, _) = self { part.waits_for_disk() } else { false }
    }

    pub(super) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout { .. })
    }

    pub(super) fn is_on_terminal(&self) -> bool {
        matches!(self, Self::Stdout { stdout, .. } if stdout.is_terminal())
    }

    /// Whether the content on a terminal has ended within a line.
    pub(super) fn is_within_line(&self) -> bool {
        self.is_on_terminal() && matches!(self, Self::Stdout { ends_line: false, .. })
    }

    /// Appends content.
    pub(super) fn write(&mut self, content: &[u8]) -> Outcome {
        match self {
            Self::Stdout { stdout, ends_line } => {
                *ends_line = content.last().map_or(*ends_line, |last| *last == b'\n');
                Ok(stdout.lock().write_all(content)?)
            }
            Self::File(part, _) => Ok(part.append(content)?),
            Self::InPlace { writer, path } => {
                writer.write_all(content).map_err(|error| Failure::file(path.display(), &error))
            }
        }
    }

    /// Renames a complete file into place. Returns whether it has the attributes that were set.
    pub(super) fn complete(self) -> Outcome<bool> {
        match self {
            Self::Stdout { mut stdout, .. } => stdout.flush()?,
            Self::File(part, _) => return Ok(part.complete()?),
            Self::InPlace { mut writer, path } => {
                writer.flush().map_err(|error| Failure::file(path.display(), &error))?;
            }
        }
        Ok(true)
    }

    /// Keeps the part for a later fetch; returns its length in bytes and its path, if any.
    pub(super) fn keep(self) -> Option<(u64, PathBuf)> {
        let Self::File(part, _) = self else { return None };
        let path = part.part_path().to_owned();
        Some((part.keep()?, path))
    }
}

/// Directories that were created for a file, the lowest first. Those that are empty at the end are removed.
#[derive(Default)]
pub(super) struct NewDirectories(Vec<PathBuf>);

impl NewDirectories {
    /// Creates the directory of a file, as for the copy of a directory.
    fn above(path: &Path) -> Outcome<Self> {
        let missing = path.ancestors().skip(1);
        let missing = missing.take_while(|above| !above.as_os_str().is_empty() && !above.exists());
        let new = Self(missing.map(Path::to_owned).collect());
        if let Some(directory) = new.0.first() {
            let failed = |error| Failure::file(directory.display(), &error);
            fs::create_dir_all(directory).map_err(failed)?;
        }
        Ok(new)
    }
}

impl Drop for NewDirectories {
    fn drop(&mut self) {
        for directory in &self.0 {
            // It is not empty if the file or a part of it is kept.
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Why a path with a slash at its end cannot be written to.
fn no_directory(path: &Path, error: Option<io::Error>) -> String {
    let path = path.display();
    match error {
        Some(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("{path} names a directory: name a file in it")
        }
        Some(error) => format!("{path}: {error}"),
        None => format!("{path} is not a directory"),
    }
}

/// The target of the links of `path`, which need not exist.
fn behind_links(path: &Path) -> Outcome<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(Failure::Failed(format!("{}: too many symbolic links", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(path: &Path) -> Target {
        let mut target = Target::open(Some(path)).unwrap();
        if let Target::File(part, _) = &mut target {
            part.begin(None).unwrap();
        }
        target
    }

    #[test]
    fn file_appears_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("object");
        let mut target = begin(&path);
        target.write(b"content").unwrap();
        assert!(!path.exists());
        target.complete().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn device_is_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let mut target = Target::open(Some(&link)).unwrap();
        target.write(b"content").unwrap();
        target.complete().unwrap();
        assert!(fs::metadata(&link).unwrap().file_type().is_char_device());
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn failed_fetch_keeps_the_existing_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("object");
        assert!(!Target::open(Some(&path)).unwrap().replaces());
        fs::write(&path, "old").unwrap();
        let mut target = begin(&path);
        assert!(target.replaces());
        target.write(b"half").unwrap();
        assert_eq!(target.keep(), None);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn link_to_a_file_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut target = begin(&link);
        target.write(b"new").unwrap();
        target.complete().unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn dangling_link_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        fs::create_dir(directory.path().join("below")).unwrap();
        std::os::unix::fs::symlink("below/file", &link).unwrap();
        let mut target = begin(&link);
        target.write(b"new").unwrap();
        target.complete().unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&link).unwrap(), b"new");
        std::os::unix::fs::symlink("circle", directory.path().join("circle")).unwrap();
        assert!(Target::open(Some(&directory.path().join("circle"))).is_err());
    }

    #[test]
    fn directory_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |path: &str| match Target::open(Some(&directory.path().join(path))) {
            Err(Failure::Usage(reason)) => reason,
            Err(other) => panic!("{path}: {other}"),
            Ok(_) => panic!("{path} was opened"),
        };
        assert!(refused("").ends_with(" is a directory: name a file in it"));
        let reason = refused("missing/");
        assert!(reason.ends_with("/missing/ names a directory: name a file in it"), "{reason}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::write(directory.path().join("file"), "").unwrap();
        assert!(refused("file/").contains("/file/: Not a directory"));
    }

    #[test]
    fn directory_of_a_file_is_created() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some/new/object");
        let mut target = begin(&path);
        target.write(b"content").unwrap();
        target.complete().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        let reason = match Target::open(Some(&path.join("below"))) {
            Err(Failure::Failed(reason)) => reason,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was opened"),
        };
        assert!(reason.contains("/some/new/object"), "{reason}");
    }

    #[test]
    fn directory_of_a_file_that_was_not_fetched_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some/new/object");
        assert_eq!(Target::open(Some(&path)).unwrap().keep(), None);
        assert_eq!(begin(&path).keep(), None);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        let some = directory.path().join("some");
        fs::create_dir(&some).unwrap();
        assert_eq!(begin(&path).keep(), None);
        assert_eq!(fs::read_dir(&some).unwrap().count(), 0, "one that was there is kept");
    }

    #[test]
    fn file_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("object");
        for mode in [0o600, 0o755, 0o664] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let mut target = begin(&path);
            target.write(b"new").unwrap();
            target.complete().unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            assert_eq!(fs::read(&path).unwrap(), b"new");
        }
    }
}
