//! Results of an experiment: an SQLite database with the experiment file, the inputs and a row for each run.
//!
//! A run and its responses are stored in one transaction, so a program that is killed loses the run that it was performing
//! and nothing else. One process at a time may add runs (`flock` on the file); others read meanwhile.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::analysis::Observation;
use crate::experiment::{Experiment, Fault, SeededRun};

/// Marks the database (`PRAGMA application_id`): "NDLB".
const APPLICATION: i64 = 0x4E44_4C42;
/// Version of the tables (`PRAGMA user_version`).
const VERSION: i64 = 1;
/// Begin of the names of inputs that are versions of programs.
pub(crate) const VERSION_INPUT: &str = "version of ";
/// Time that a reader waits for a writer, and the other way round.
const BUSY: Duration = Duration::from_secs(10);

/// Attempts to lock a database, and the time between them: a program that a killed process was starting has the lock until it runs
/// (flock(2), fork(2)).
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

const TABLES: &str = "
CREATE TABLE experiment (id TEXT NOT NULL, text TEXT NOT NULL, directory TEXT NOT NULL, created_ms INTEGER NOT NULL);
CREATE TABLE input (path TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE session (start_ms INTEGER NOT NULL, program TEXT NOT NULL, machine TEXT NOT NULL);
CREATE TABLE run (
    cell INTEGER NOT NULL, replication INTEGER NOT NULL, block INTEGER NOT NULL, seed INTEGER NOT NULL,
    session INTEGER NOT NULL, start_ms INTEGER NOT NULL, duration_ms INTEGER NOT NULL, error TEXT, log TEXT,
    UNIQUE (cell, replication));
CREATE TABLE response (run INTEGER NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (run, name));
";

/// Why results cannot be created, opened, read or added to.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The file exists already.
    #[error("{0} exists: `namewire lab resume` continues it, `--results` names another file")]
    Exists(PathBuf),
    /// Another process adds runs.
    #[error("{0}: another process is adding runs to it")]
    Locked(PathBuf),
    /// Not a file of results, or of another version.
    #[error("{path}: {reason}")]
    NotResults {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file that the experiment reads has changed since the first run.
    #[error(
        "{0} has changed since the experiment began: its earlier runs are of the former content"
    )]
    ChangedInput(String),
    /// The experiment file in the database.
    #[error("{path}: the experiment in it: {fault}")]
    Experiment {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: Fault,
    },
    /// The file system.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The database.
    #[error("{path}: {error}")]
    Database {
        /// The file.
        path: PathBuf,
        /// The error.
        error: rusqlite::Error,
    },
}

/// The experiment file and the directory of its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The experiment file.
    pub text: String,
    /// The directory that paths in it are relative to.
    pub directory: PathBuf,
}

/// The program and the machine of some runs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Session {
    /// Start, in milliseconds since 1970.
    pub start_ms: u64,
    /// Program and version.
    pub program: String,
    /// The machine, in a line.
    pub machine: String,
}

/// A stored run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredRun {
    /// Index of the cell.
    pub cell: usize,
    /// Number of the replication, from 0.
    pub replication: usize,
    /// Block in time, from 0.
    pub block: usize,
    /// Its seed.
    pub seed: u32,
    /// Index of its session.
    pub session: usize,
    /// Start, in milliseconds since 1970.
    pub start_ms: u64,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Responses by name; empty for a failed run.
    #[serde(with = "exact")]
    pub responses: BTreeMap<String, f64>,
    /// Why it failed.
    pub error: Option<String>,
    /// Output of a failed run.
    pub log: Option<String>,
}

/// Numbers as text that is read back as the same numbers.
mod exact {
    use std::collections::BTreeMap;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        values: &BTreeMap<String, f64>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let texts: BTreeMap<&String, String> =
            values.iter().map(|(name, value)| (name, value.to_string())).collect();
        texts.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, f64>, D::Error> {
        let texts = BTreeMap::<String, String>::deserialize(from)?;
        let number = |(name, text): (String, String)| match text.parse() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(D::Error::custom(format!("{name}: {text} is no number"))),
        };
        texts.into_iter().map(number).collect()
    }
}

/// An open database of results.
#[derive(Debug)]
pub struct Results {
    // Dropped before `_lock`: closing any descriptor of a file ends the locks of SQLite on it (fcntl_locking(2)).
    connection: Connection,
    _lock: Option<File>,
    path: PathBuf,
    id: String,
    session: i64,
}

impl Results {
    /// Creates the database of an experiment, for adding runs. `id` differs between experiments; `inputs` are paths and
    /// contents of the files that the experiment reads.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub fn create(
        path: &Path,
        id: &str,
        origin: &Origin,
        inputs: &[(String, Vec<u8>)],
        session: &Session,
    ) -> Result<Self, ResultsError> {
        let failed = |error| ResultsError::Io { path: path.to_owned(), error };
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(failed)?;
        // A file without content was left by a program that was killed here.
        if file.metadata().map_err(failed)?.len() > 0 {
            return Err(ResultsError::Exists(path.to_owned()));
        }
        let mut results = Self::connect(path, Some(locked(file, path)?))?;
        let fill = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            let directory = origin.directory.to_string_lossy();
            let row = params![id, origin.text, directory, session.start_ms as i64];
            transaction.execute("INSERT INTO experiment VALUES (?, ?, ?, ?)", row)?;
            for (path, content) in inputs {
                transaction.execute("INSERT INTO input VALUES (?, ?)", params![path, content])?;
            }
            transaction.commit()
        };
        fill(&mut results.connection).map_err(|error| results.failed(error))?;
        id.clone_into(&mut results.id);
        results.begin(session)?;
        Ok(results)
    }

    /// Opens a database for adding runs.
    ///
    /// # Errors
    /// It is no database of results, another process adds runs, or an input has changed.
    pub fn resume(path: &Path, session: &Session) -> Result<Self, ResultsError> {
        let opened = File::options().read(true).write(true).open(path);
        let file = opened.map_err(|error| ResultsError::Io { path: path.to_owned(), error })?;
        let mut results = Self::connect(path, Some(locked(file, path)?))?;
        results.identify()?;
        results.begin(session)?;
        Ok(results)
    }

    /// Opens a database for reading.
    ///
    /// # Errors
    /// It is no database of results.
    pub fn open(path: &Path) -> Result<Self, ResultsError> {
        // Named by the operating system if it is absent or not readable.
        File::open(path).map_err(|error| ResultsError::Io { path: path.to_owned(), error })?;
        let mut results = Self::connect(path, None)?;
        results.identify()?;
        Ok(results)
    }

    fn connect(path: &Path, lock: Option<File>) -> Result<Self, ResultsError> {
        // Readers roll back what a killed program had begun to write. SQLite only reads files that it may not write.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = |error| ResultsError::Database { path: path.to_owned(), error };
        let connection = Connection::open_with_flags(path, flags).map_err(database)?;
        connection.busy_timeout(BUSY).map_err(database)?;
        Ok(Self { connection, _lock: lock, path: path.to_owned(), id: String::new(), session: 0 })
    }

    fn failed(&self, error: rusqlite::Error) -> ResultsError {
        ResultsError::Database { path: self.path.clone(), error }
    }

    /// Checks that these are results, and reads their identifier.
    fn identify(&mut self) -> Result<(), ResultsError> {
        let not_results =
            |reason: String| ResultsError::NotResults { path: self.path.clone(), reason };
        let pragma = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get(0));
        let application: i64 = pragma("application_id").map_err(|_| {
            not_results("is not a database of results of `namewire lab run`".to_owned())
        })?;
        if application != APPLICATION {
            return Err(not_results(
                "is not a database of results of `namewire lab run`".to_owned(),
            ));
        }
        let version: i64 = pragma("user_version").map_err(|error| self.failed(error))?;
        if version != VERSION {
            let reason = format!("has tables of version {version}; this program knows {VERSION}");
            return Err(not_results(reason));
        }
        let id = self.connection.query_row("SELECT id FROM experiment", [], |row| row.get(0));
        self.id = id.map_err(|error| self.failed(error))?;
        Ok(())
    }

    fn begin(&mut self, session: &Session) -> Result<(), ResultsError> {
        let row = params![session.start_ms as i64, session.program, session.machine];
        let inserted = self.connection.execute("INSERT INTO session VALUES (?, ?, ?)", row);
        inserted.map_err(|error| self.failed(error))?;
        self.session = self.connection.last_insert_rowid();
        Ok(())
    }

    /// Identifier of the experiment.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The experiment file and its directory.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn origin(&self) -> Result<Origin, ResultsError> {
        let query = "SELECT text, directory FROM experiment";
        let origin = self.connection.query_row(query, [], |row| {
            Ok(Origin { text: row.get(0)?, directory: row.get::<_, String>(1)?.into() })
        });
        origin.map_err(|error| self.failed(error))
    }

    /// The experiment.
    ///
    /// # Errors
    /// The database cannot be read, or the experiment file in it is not valid for this program.
    pub fn experiment(&self) -> Result<Experiment, ResultsError> {
        let parsed = Experiment::parse(&self.origin()?.text);
        parsed.map_err(|fault| ResultsError::Experiment { path: self.path.clone(), fault })
    }

    /// Replaces the experiment file by one whose earlier runs are the same ([`Experiment::difference`]).
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn replace_text(&mut self, text: &str) -> Result<(), ResultsError> {
        let updated = self.connection.execute("UPDATE experiment SET text = ?", [text]);
        updated.map(|_| ()).map_err(|error| self.failed(error))
    }

    /// Compares the files that the experiment reads with those at its start.
    ///
    /// # Errors
    /// Names a file that has changed.
    pub fn check_inputs(&self, inputs: &[(String, Vec<u8>)]) -> Result<(), ResultsError> {
        for (path, content) in inputs {
            let query = "SELECT content FROM input WHERE path = ?";
            let stored = self.connection.query_row(query, [path], |row| row.get::<_, Vec<u8>>(0));
            let stored = stored.optional().map_err(|error| self.failed(error))?;
            if stored.as_ref() != Some(content) {
                return Err(ResultsError::ChangedInput(path.clone()));
            }
        }
        Ok(())
    }

    /// Runs that are stored from now on are those of a session on another machine, whose start is that of the current one.
    ///
    /// # Errors
    /// As of [`Self::add`].
    pub fn continue_on(&mut self, machine: &str) -> Result<(), ResultsError> {
        let sessions = self.sessions()?;
        let current = &sessions[self.session as usize - 1];
        if current.machine == machine {
            return Ok(());
        }
        let is_known =
            |session: &Session| session.machine == machine && session.start_ms == current.start_ms;
        if let Some(index) = sessions.iter().position(is_known) {
            self.session = index as i64 + 1;
            return Ok(());
        }
        self.begin(&Session { machine: machine.to_owned(), ..current.clone() })
    }

    /// Stores a run. A run of the same cell and replication that failed is replaced.
    ///
    /// # Errors
    /// The database cannot be written, such as when the disk is full.
    pub fn add(&mut self, run: &StoredRun) -> Result<(), ResultsError> {
        let session = self.session;
        let store = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            transaction.execute(
                "DELETE FROM run WHERE cell = ? AND replication = ? AND error IS NOT NULL",
                params![run.cell as i64, run.replication as i64],
            )?;
            transaction.execute(
                "INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    run.cell as i64,
                    run.replication as i64,
                    run.block as i64,
                    run.seed,
                    session,
                    run.start_ms as i64,
                    run.duration_ms as i64,
                    run.error,
                    run.log,
                ],
            )?;
            let row = transaction.last_insert_rowid();
            for (name, value) in &run.responses {
                let row = params![row, name, value];
                transaction.execute("INSERT INTO response VALUES (?, ?, ?)", row)?;
            }
            transaction.commit()
        };
        store(&mut self.connection).map_err(|error| self.failed(error))
    }

    /// All stored runs in the order in which they were stored.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn runs(&self) -> Result<Vec<StoredRun>, ResultsError> {
        self.read_runs().map_err(|error| self.failed(error))
    }

    fn read_runs(&self) -> rusqlite::Result<Vec<StoredRun>> {
        // Both queries see the same runs.
        let transaction = self.connection.unchecked_transaction()?;
        let mut responses: BTreeMap<i64, BTreeMap<String, f64>> = BTreeMap::new();
        let mut query = transaction.prepare("SELECT run, name, value FROM response")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            responses.entry(row.get(0)?).or_default().insert(row.get(1)?, row.get(2)?);
        }
        let mut query = transaction.prepare("SELECT rowid, * FROM run ORDER BY rowid")?;
        let runs = query.query_map([], |row| {
            Ok(StoredRun {
                cell: row.get::<_, i64>(1)? as usize,
                replication: row.get::<_, i64>(2)? as usize,
                block: row.get::<_, i64>(3)? as usize,
                seed: row.get(4)?,
                session: (row.get::<_, i64>(5)? - 1) as usize,
                start_ms: row.get::<_, i64>(6)? as u64,
                duration_ms: row.get::<_, i64>(7)? as u64,
                responses: responses.remove(&row.get(0)?).unwrap_or_default(),
                error: row.get(8)?,
                log: row.get(9)?,
            })
        })?;
        runs.collect()
    }

    /// Versions of the forwarders of other projects, each with the name of its program.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn versions(&self) -> Result<Vec<String>, ResultsError> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let query = "SELECT path, content FROM input WHERE path LIKE ? ORDER BY path";
            let mut query = self.connection.prepare(query)?;
            let versions = query.query_map([format!("{VERSION_INPUT}%")], |row| {
                let (path, content) = (row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?);
                let program = path.strip_prefix(VERSION_INPUT).unwrap_or_default();
                Ok(format!("{program}: {}", String::from_utf8_lossy(&content)))
            })?;
            versions.collect()
        };
        read().map_err(|error| self.failed(error))
    }

    /// The sessions in which runs were added.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn sessions(&self) -> Result<Vec<Session>, ResultsError> {
        let read = || -> rusqlite::Result<Vec<Session>> {
            let query = "SELECT start_ms, program, machine FROM session ORDER BY rowid";
            let mut query = self.connection.prepare(query)?;
            let sessions = query.query_map([], |row| {
                let start_ms = row.get::<_, i64>(0)? as u64;
                Ok(Session { start_ms, program: row.get(1)?, machine: row.get(2)? })
            })?;
            sessions.collect()
        };
        read().map_err(|error| self.failed(error))
    }
}

fn locked(file: File, path: &Path) -> Result<File, ResultsError> {
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_INTERVAL),
            Err(TryLockError::Error(error)) => {
                return Err(ResultsError::Io { path: path.to_owned(), error });
            }
        }
    }
    Err(ResultsError::Locked(path.to_owned()))
}

/// The runs of the plan that are not stored. Runs that failed count as stored unless `again`.
#[must_use]
pub fn missing(plan: &[SeededRun], stored: &[StoredRun], again: bool) -> Vec<SeededRun> {
    let key = |run: &StoredRun| (run.cell, run.replication);
    let is_done = |run: &&StoredRun| !again || run.error.is_none();
    let done: std::collections::BTreeSet<_> = stored.iter().filter(is_done).map(key).collect();
    let is_missing = |one: &&SeededRun| !done.contains(&(one.run.cell, one.run.replication));
    plan.iter().filter(is_missing).copied().collect()
}

/// A response of all runs that did not fail, in the order of the runs.
#[must_use]
pub fn observations(stored: &[StoredRun], response: &str) -> Vec<Observation> {
    let observe = |run: &StoredRun| {
        let value = *run.responses.get(response)?;
        Some(Observation { cell: run.cell, block: run.block, value })
    };
    stored.iter().filter_map(observe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"x\"\n[factors]\na = [1, 2]\n[responses]\ny = \"s\"\n[design]\nreplications = 2\n\
                        [executor]\nkind = \"command\"\ncommand = [\"true\"]\n";

    fn session() -> Session {
        Session { start_ms: 5, program: "p 1".to_owned(), machine: "m".to_owned() }
    }

    fn origin() -> Origin {
        Origin { text: TEXT.to_owned(), directory: "/d".into() }
    }

    fn run(cell: usize, replication: usize, value: Option<f64>) -> StoredRun {
        StoredRun {
            cell,
            replication,
            block: replication,
            seed: u32::MAX,
            session: 0,
            start_ms: 7,
            duration_ms: 9,
            responses: value.map(|value| ("y".to_owned(), value)).into_iter().collect(),
            error: value.is_none().then(|| "exit status 1".to_owned()),
            log: value.is_none().then(|| "lines".to_owned()),
        }
    }

    #[test]
    fn runs_are_read_as_they_were_stored_and_others_read_meanwhile() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.sqlite");
        let version = ("version of ndnd".to_owned(), b"1.2".to_vec());
        let inputs = [("t.toml".to_owned(), b"one".to_vec()), version];
        let mut results = Results::create(&path, "id", &origin(), &inputs, &session()).unwrap();
        let stored = [run(1, 0, Some(0.1)), run(0, 0, None), run(0, 1, Some(-3.5e300))];
        stored.iter().for_each(|one| results.add(one).unwrap());
        let reader = Results::open(&path).unwrap();
        assert_eq!(reader.runs().unwrap(), stored);
        assert_eq!(reader.id(), "id");
        assert_eq!(reader.origin().unwrap(), origin());
        assert_eq!(reader.sessions().unwrap(), [session()]);
        assert_eq!(reader.versions().unwrap(), ["ndnd: 1.2"]);
        let second = Results::resume(&path, &session()).unwrap_err();
        assert!(matches!(second, ResultsError::Locked(_)), "{second}");
        let exists = Results::create(&path, "id", &origin(), &[], &session()).unwrap_err();
        assert!(matches!(exists, ResultsError::Exists(_)), "{exists}");
        drop(results);

        let mut results = Results::resume(&path, &session()).unwrap();
        results.check_inputs(&inputs).unwrap();
        let changed = [("t.toml".to_owned(), b"two".to_vec())];
        let error = results.check_inputs(&changed).unwrap_err().to_string();
        assert!(error.starts_with("t.toml has changed"), "{error}");
        let plan = results.experiment().unwrap().plan().unwrap();
        let runs = results.runs().unwrap();
        let cells = |again| -> Vec<_> {
            let missing = missing(&plan, &runs, again);
            missing.iter().map(|one| (one.run.cell, one.run.replication)).collect()
        };
        assert_eq!(cells(false), [(1, 1)]);
        assert_eq!(cells(true).len(), 2);
        // The failed run is replaced; the other ones cannot be.
        results.add(&StoredRun { session: 1, ..run(0, 0, Some(2.0)) }).unwrap();
        assert!(results.add(&run(0, 0, Some(3.0))).is_err());
        let values: Vec<f64> =
            observations(&results.runs().unwrap(), "y").iter().map(|one| one.value).collect();
        assert_eq!(values, [0.1, -3.5e300, 2.0]);
        assert_eq!(results.runs().unwrap()[2].session, 1);
    }

    #[test]
    fn transaction_of_a_killed_program_is_rolled_back_by_readers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.sqlite");
        // An empty file is that of a program that was killed first of all.
        File::create(&path).unwrap();
        let mut results = Results::create(&path, "id", &origin(), &[], &session()).unwrap();
        results.add(&run(0, 0, Some(1.0))).unwrap();
        // A transaction that is larger than the cache writes to the database before it ends.
        results.connection.pragma_update(None, "cache_size", 1).unwrap();
        results.connection.execute_batch("BEGIN").unwrap();
        for number in 0..2000 {
            let row = params![number, "z".repeat(100), 1.0];
            results.connection.execute("INSERT INTO response VALUES (?, ?, ?)", row).unwrap();
        }
        let copy = directory.path().join("copy.sqlite");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(path.with_extension("sqlite-journal"), copy.with_extension("sqlite-journal"))
            .unwrap();
        let reader = Results::open(&copy).unwrap();
        assert_eq!(reader.runs().unwrap(), [run(0, 0, Some(1.0))]);
        let count: i64 = reader
            .connection
            .query_row("SELECT count(*) FROM response", [], |row| row.get(0))
            .unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn other_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.sqlite");
        let refused = |part: &str| {
            let error = Results::open(&path).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(Results::resume(&path, &session()).is_err());
        };
        refused("No such file");
        std::fs::write(&path, "text that is not a database, at least a page of header").unwrap();
        refused("is not a database of results");
        std::fs::remove_file(&path).unwrap();
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE run (x)").unwrap();
        refused("is not a database of results");
        std::fs::remove_file(&path).unwrap();
        drop(Results::create(&path, "id", &origin(), &[], &session()).unwrap());
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 9).unwrap();
        refused("version 9");
    }
}
