//! The files of a run, in memory.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::cases::{self, FetchedContent};

/// Directory of files in memory.
const TMPFS: &str = "/dev/shm";
/// Prefix of the folders of runs, followed by the process id.
const NAME: &str = "namewire-transfer-";

/// Creates the content of a case unless it exists.
pub(super) fn serve_what(
    folder: &Folder,
    what: FetchedContent,
    bytes: u64,
) -> anyhow::Result<Served> {
    let length = what.bytes(bytes);
    let path = folder.served(what.name());
    if !path.exists() {
        match what {
            FetchedContent::Tree => {
                fs::create_dir(&path)?;
                for number in 0..cases::TREE_FILES {
                    write_noise(&path.join(number.to_string()), cases::TREE_FILE_BYTES, number)?;
                }
            }
            FetchedContent::File | FetchedContent::Part | FetchedContent::Cached => {
                write_noise(&path, length, 1)?
            }
        }
    }
    Ok(Served { path, bytes: length, what })
}

/// Served content.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) what: FetchedContent,
}

impl Served {
    /// Returns the served directory.
    pub(super) fn root(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

/// A directory in memory, removed with the run.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates the folder of this process.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let base =
            if Path::new(TMPFS).is_dir() { PathBuf::from(TMPFS) } else { std::env::temp_dir() };
        remove_left(&base);
        let folder = Self(base.join(format!("{NAME}{}", std::process::id())));
        fs::create_dir_all(folder.served("")).context("a directory in memory")?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of served content.
    pub(super) fn served(&self, name: &str) -> PathBuf {
        self.0.join("served").join(name)
    }

    /// Creates a directory for one case.
    pub(super) fn of(&self, case: &str) -> anyhow::Result<PathBuf> {
        let own = self.0.join(case);
        fs::create_dir_all(&own)?;
        Ok(own)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of killed runs, which occupy memory.
fn remove_left(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Writes pseudorandom bytes, different for each `seed`.
pub(crate) fn write_noise(path: &Path, length: u64, seed: u64) -> anyhow::Result<()> {
    let mut file = std::io::BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_add(seed << 1);
    let mut left = length;
    while left > 0 {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let bytes = state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        let count = usize::try_from(left.min(8))?;
        file.write_all(&bytes[..count])?;
        left -= left.min(8);
    }
    Ok(file.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_killed_runs_are_removed() {
        let base = std::env::temp_dir().join(format!("namewire-bench-{}", std::process::id()));
        let own = format!("{NAME}{}", std::process::id());
        // Process ids are below 2^22.
        let dead = format!("{NAME}4294967295");
        let other = format!("{NAME}x");
        for name in [&own, &dead, &other] {
            fs::create_dir_all(base.join(name).join("served")).unwrap();
        }
        remove_left(&base);
        let left = [&own, &dead, &other].map(|name| base.join(name).exists());
        fs::remove_dir_all(&base).unwrap();
        assert_eq!(left, [true, false, true]);
    }
}
