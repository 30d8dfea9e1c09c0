//! The history of benchmarks, in SQLite.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rusqlite::{Connection, OptionalExtension, params};

use super::record::{Record, State};

/// Benchmarks of one list.
pub(crate) const LIST_LEN: usize = 50;
/// Maximum number of benchmarks; the oldest are removed.
const RECORDS_MAX: i64 = 1000;
/// Version of the schema, in `user_version`.
const SCHEMA_VERSION: i64 = 1;
/// Time to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The database.
#[derive(Debug)]
pub(crate) struct History {
    database: Connection,
}

impl History {
    /// Opens the file, and creates it and its directory if necessary.
    ///
    /// # Errors
    /// The file cannot be created, is no database, or is one of a later version; the error names it.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        if let Some(directory) = path.parent().filter(|path| !path.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        }
        let opened = Connection::open(path).with_context(|| path.display().to_string())?;
        Self::with(opened).with_context(|| path.display().to_string())
    }

    fn with(database: Connection) -> anyhow::Result<Self> {
        database.busy_timeout(BUSY_TIMEOUT)?;
        let version: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        anyhow::ensure!(
            version <= SCHEMA_VERSION,
            "the history is of a later version of this program"
        );
        database.execute_batch(
            "BEGIN IMMEDIATE;
             CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY AUTOINCREMENT, unix_ms INTEGER NOT NULL, record TEXT NOT NULL);
             PRAGMA user_version = 1;
             COMMIT;",
        )?;
        Ok(Self { database })
    }

    /// Adds a benchmark; sets its number.
    ///
    /// # Errors
    /// The database cannot be written.
    pub(crate) fn add(&self, record: &mut Record) -> anyhow::Result<()> {
        let unix_ms = i64::try_from(record.unix_ms)?;
        // Other processes read the history meanwhile.
        let transaction = self.database.unchecked_transaction()?;
        transaction
            .execute("INSERT INTO runs (unix_ms, record) VALUES (?, '')", params![unix_ms])?;
        record.id = transaction.last_insert_rowid();
        self.update(record)?;
        let oldest = record.id - RECORDS_MAX;
        transaction.execute("DELETE FROM runs WHERE id <= ?", params![oldest])?;
        Ok(transaction.commit()?)
    }

    /// Replaces a benchmark.
    ///
    /// # Errors
    /// The database cannot be written.
    pub(crate) fn update(&self, record: &Record) -> anyhow::Result<()> {
        let text = serde_json::to_string(record)?;
        let changed = params![text, record.id];
        self.database.execute("UPDATE runs SET record = ? WHERE id = ?", changed)?;
        Ok(())
    }

    /// One benchmark, if it exists.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(crate) fn find(&self, id: i64) -> anyhow::Result<Option<Record>> {
        let text: Option<String> = self
            .database
            .query_row("SELECT record FROM runs WHERE id = ?", params![id], |row| row.get(0))
            .optional()?;
        Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
    }

    /// Benchmarks before the number `before`, the latest first, at most `limit`.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(crate) fn list(&self, before: i64, limit: usize) -> anyhow::Result<Vec<Record>> {
        let query = "SELECT record FROM runs WHERE id < ? ORDER BY id DESC LIMIT ?";
        let mut query = self.database.prepare(query)?;
        let limit = i64::try_from(limit)?;
        let texts = query.query_map(params![before, limit], |row| row.get::<_, String>(0))?;
        texts.map(|text| Ok(serde_json::from_str(&text?)?)).collect()
    }

    /// Removes a benchmark; returns whether it existed.
    ///
    /// # Errors
    /// The database cannot be written.
    pub(crate) fn remove(&self, id: i64) -> anyhow::Result<bool> {
        Ok(self.database.execute("DELETE FROM runs WHERE id = ?", params![id])? > 0)
    }

    /// Marks benchmarks as failed that a killed process has left running.
    ///
    /// # Errors
    /// The database cannot be read or written.
    pub(crate) fn end_abandoned(&self) -> anyhow::Result<()> {
        for mut record in self.list(i64::MAX, usize::try_from(RECORDS_MAX)?)? {
            if record.state == State::Running {
                record.state = State::Failed;
                record.reason = Some("the program ended".to_owned());
                self.update(&record)?;
            }
        }
        Ok(())
    }
}

/// The usual file: in $XDG_STATE_HOME/namewire, otherwise in ~/.local/state/namewire.
#[must_use]
pub(crate) fn default_file() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = of("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(Path::new(&of("HOME")?).join(".local/state")))?;
    Some(state.join("namewire/bench.sqlite"))
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn benchmarks_are_kept_listed_and_removed() {
        let folder =
            crate::started::Folder::new(&format!("history-{}", std::process::id())).unwrap();
        let path = folder.path().join("state/bench.sqlite");
        let (mut one, mut two) = (record(&[1.0]), record(&[2.0, 3.0]));
        {
            let history = History::open(&path).unwrap();
            history.add(&mut one).unwrap();
            two.state = State::Running;
            history.add(&mut two).unwrap();
            assert_eq!((one.id, two.id), (1, 2));
        }
        let history = History::open(&path).unwrap();
        assert_eq!(history.list(i64::MAX, 10).unwrap(), [two.clone(), one.clone()]);
        assert_eq!(history.list(2, 10).unwrap(), std::slice::from_ref(&one));
        assert_eq!(history.list(i64::MAX, 1).unwrap().len(), 1);
        history.end_abandoned().unwrap();
        assert_eq!(history.find(2).unwrap().map(|one| one.state), Some(State::Failed));
        assert!(history.remove(2).unwrap() && !history.remove(2).unwrap());
        assert_eq!(history.find(2).unwrap(), None);
        // A number is not used again, so that links stay right.
        history.add(&mut two).unwrap();
        assert_eq!(two.id, 3);
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let folder =
            crate::started::Folder::new(&format!("no-history-{}", std::process::id())).unwrap();
        let path = folder.path().join("bench.sqlite");
        std::fs::write(&path, "no database, but longer than the header of one ".repeat(40))
            .unwrap();
        let error = format!("{:#}", History::open(&path).unwrap_err());
        assert!(error.contains("bench.sqlite"), "{error}");
    }
}
