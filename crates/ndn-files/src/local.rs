//! A confined local directory as a source of served files.

use std::path::Path;

use crate::listing::{ListedEntries, read_directory};
use crate::root::Root;
use crate::source::{FileSource, ListFailure, OpenFailure, Opened, SourceListing};
use crate::stat::{FileKind, FileStat};

impl FileSource for Root {
    fn stat(&self, path: &Path) -> Result<FileStat, OpenFailure> {
        Self::stat(self, path)
    }

    fn open_file(&self, path: &Path) -> Result<Opened, OpenFailure> {
        let (file, stat) = self.open_any(path)?;
        if stat.kind != FileKind::Regular {
            return Err(OpenFailure::NotFound);
        }
        Ok(Opened { file: Box::new(file), stat })
    }

    fn check_directory(&self, path: &Path) -> Result<(), OpenFailure> {
        self.open_any(path).map(drop)
    }

    fn list(&self, path: &Path) -> Result<SourceListing, ListFailure> {
        let (directory, stat) = self.open_any(path)?;
        if stat.kind != FileKind::Directory {
            return Err(OpenFailure::NotFound.into());
        }
        let listed = read_directory(self, path, &directory)?;
        if !FileStat::of(&directory)?.is_same_content(&stat) {
            return Err(ListFailure::Changed);
        }
        let ListedEntries { entries, unreadable, special } = listed;
        Ok(SourceListing { stat, entries, unreadable, special })
    }

    fn location(&self) -> String {
        self.path().display().to_string()
    }

    fn serves_hidden(&self) -> bool {
        self.options().hidden
    }
}
