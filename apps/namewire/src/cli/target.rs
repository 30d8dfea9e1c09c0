//! Where `namewire get` writes: standard output, a file that appears when it is complete, or a device.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::failure::{Failure, Outcome};

/// Bytes gathered before they are written to a file.
const WRITE_BUFFER_LEN: usize = 1 << 20;

/// Where the object goes. A file gets a temporary name until it is complete; what exists and is no
/// regular file (a device, a pipe) is written to as it is, never replaced.
pub(super) enum Target {
    Stdout(io::Stdout),
    InPlace { writer: BufWriter<File>, path: PathBuf },
    File { writer: BufWriter<File>, temporary: PathBuf, path: PathBuf },
}

impl Target {
    pub(super) fn open(path: Option<&Path>) -> Outcome<Self> {
        let path = match path {
            None if io::stdout().is_terminal() => {
                return Err(Failure::Usage(
                    "say where to write it: -o FILE, or `-o -` for this terminal".to_owned(),
                ));
            }
            None => return Ok(Self::Stdout(io::stdout())),
            Some(path) if path.as_os_str() == "-" => return Ok(Self::Stdout(io::stdout())),
            Some(path) => path,
        };
        // Also where a link leads to such a thing: renaming over it would take it away from everybody.
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Self::open_in_place(path);
        }
        // The file that a link leads to is replaced, not the link.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file_name = path.file_name().ok_or_else(|| {
            Failure::Usage(format!("{} is not the name of a file", path.display()))
        })?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(file_name);
        hidden.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(hidden);
        let file =
            File::create(&temporary).map_err(|error| Failure::file(path.display(), &error))?;
        Ok(Self::File {
            writer: BufWriter::with_capacity(WRITE_BUFFER_LEN, file),
            temporary,
            path: path.to_owned(),
        })
    }

    fn open_in_place(path: &Path) -> Outcome<Self> {
        let file = OpenOptions::new().write(true).open(path);
        let file = file.map_err(|error| Failure::file(path.display(), &error))?;
        let writer = BufWriter::with_capacity(WRITE_BUFFER_LEN, file);
        Ok(Self::InPlace { writer, path: path.to_owned() })
    }

    pub(super) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout(_))
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Outcome {
        match self {
            Self::Stdout(stdout) => Ok(stdout.lock().write_all(bytes)?),
            Self::File { writer, path, .. } | Self::InPlace { writer, path } => {
                writer.write_all(bytes).map_err(|error| Failure::file(path.display(), &error))
            }
        }
    }

    /// Gives a file its name.
    pub(super) fn complete(self) -> Outcome {
        match self {
            Self::Stdout(mut stdout) => Ok(stdout.flush()?),
            Self::InPlace { mut writer, path } => {
                writer.flush().map_err(|error| Failure::file(path.display(), &error))
            }
            Self::File { mut writer, temporary, path } => {
                let written = writer.flush().and_then(|()| fs::rename(&temporary, &path));
                written.map_err(|error| {
                    // The error that matters is the first one.
                    let _ = fs::remove_file(&temporary);
                    Failure::file(path.display(), &error)
                })
            }
        }
    }

    /// Leaves nothing behind.
    pub(super) fn discard(self) {
        if let Self::File { temporary, .. } = self {
            let _ = fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("object");
        let mut target = Target::open(Some(&path)).unwrap();
        target.write(b"content").unwrap();
        assert!(!path.exists());
        target.complete().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
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
    fn a_fetch_that_fails_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("object");
        fs::write(&path, "old").unwrap();
        let mut target = Target::open(Some(&path)).unwrap();
        target.write(b"half").unwrap();
        target.discard();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn a_link_to_a_file_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut target = Target::open(Some(&link)).unwrap();
        target.write(b"new").unwrap();
        target.complete().unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }
}
