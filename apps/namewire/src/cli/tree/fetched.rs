//! Results and progress of a copy.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ndn_packet::Name;
use serde_json::{Value, json};

use super::local::shown;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, bytes_for_people, counted, grouped};
use crate::cli::progress::now;

/// Number of files without an answer that are named.
const UNANSWERED_SHOWN_MAX: u64 = 10;

/// A difference between the tree and its copy.
#[derive(Debug)]
pub(in crate::cli) struct Change {
    pub(super) action: Action,
    pub(super) path: PathBuf,
    /// Where the content of a renamed file is.
    pub(super) from: Option<PathBuf>,
    pub(super) bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// There is no such file.
    Add,
    /// The file is another one.
    Replace,
    Rename,
    Delete,
    /// An entry of another kind is in the way.
    Blocked,
    /// For [`Verify`](super::rules::Mode::Verify): there is no such file, it is another one, or the tree does not have it.
    Missing,
    Differs,
    Extra,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Rename => "rename",
            Self::Delete => "delete",
            Self::Blocked => "blocked",
            Self::Missing => "missing",
            Self::Differs => "differs",
            Self::Extra => "extra",
        }
    }
}

impl Change {
    pub(in crate::cli) fn json(&self) -> Value {
        json!({
            "action": self.action.word(),
            "path": self.path.to_string_lossy(),
            "from": self.from.as_ref().map(|from| from.to_string_lossy()),
            "bytes": self.bytes,
        })
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:<7}  ", self.action.word())?;
        if let Some(from) = &self.from {
            write!(formatter, "{} -> ", shown(from))?;
        }
        formatter.write_str(&shown(&self.path))?;
        match self.bytes {
            Some(bytes) if self.action != Action::Rename => {
                write!(formatter, "  ({})", bytes_for_people(bytes))
            }
            _ => Ok(()),
        }
    }
}

/// A time in which nothing arrived for any transfer of a copy, as long as one of them has patience.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    lasting: Duration,
    /// Interests were answered with Nacks.
    is_refused: bool,
}

impl Outage {
    /// The failure of the copy of the directory `name`; `consequence` says what that means.
    pub(super) fn failure(self, name: &Name, consequence: &str) -> Failure {
        let (kind, what): (fn(String) -> Failure, _) = match self.is_refused {
            true => (Failure::Nacked, "no route to the server"),
            false => (Failure::NoAnswer, "no answer from the server"),
        };
        let seconds = self.lasting.as_secs_f64().round().max(1.0);
        kind(format!("{name}: {what} for {seconds} s; {consequence}"))
    }
}

/// The result of a transfer, and the outage in which it failed.
pub(super) type Watched<T> = (Outcome<T>, Option<Outage>);

/// A transfer of a copy.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    number: u64,
    begun: Instant,
    progress: Arc<TreeProgress>,
}

impl Transfer {
    pub(super) fn begin(progress: &Arc<TreeProgress>) -> Self {
        let number = 1 + progress.transfers.fetch_add(1, Ordering::Relaxed);
        Self { number, begun: now(), progress: Arc::clone(progress) }
    }

    /// Something has arrived.
    pub(super) fn note_arrival(&self) {
        *self.latest() = Some((self.number, now()));
    }

    /// Runs it. It fails in an outage if nothing arrived for any other transfer while it waited.
    pub(super) async fn watch<T>(self, work: impl Future<Output = Outcome<T>>) -> Watched<T> {
        let outcome = work.await;
        let Some(failure) = outcome.as_ref().err().filter(|failure| failure.is_unanswered()) else {
            self.note_arrival();
            return (outcome, None);
        };
        let waiting_since = match *self.latest() {
            Some((number, at)) if number == self.number => Some(at),
            Some((_, at)) if at > self.begun => None,
            Some(_) | None => Some(self.begun),
        };
        let is_refused = matches!(failure, Failure::Nacked(_));
        let outage = waiting_since.map(|since| Outage { lasting: now() - since, is_refused });
        (outcome, outage)
    }

    fn latest(&self) -> MutexGuard<'_, Option<(u64, Instant)>> {
        self.progress.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a task.
pub(super) fn watched_or_failed<T>(
    result: Result<Watched<T>, tokio::task::JoinError>,
) -> Watched<T> {
    result.unwrap_or_else(|error| (Err(Failure::Failed(error.to_string())), None))
}

/// Result of the copy.
#[derive(Debug, Default)]
pub(in crate::cli) struct Fetched {
    /// Number of complete files.
    pub(in crate::cli) files: u64,
    /// Number of these that were complete before and are unchanged.
    pub(in crate::cli) unchanged: u64,
    /// Number of files that have replaced another one.
    pub(in crate::cli) replaced: u64,
    /// Number of these that somebody had changed since they were fetched.
    pub(in crate::cli) replaced_changed: u64,
    /// Number of files that were at another place in the copy.
    pub(in crate::cli) renamed: u64,
    /// Number of files and directories that were deleted.
    pub(in crate::cli) deleted: u64,
    pub(in crate::cli) directories: u64,
    /// Number of content bytes fetched.
    pub(in crate::cli) bytes: u64,
    /// Number of files and directories that could not be fetched, or have an invalid name.
    pub(in crate::cli) failed: u64,
    /// Number of files and directories that do not have the server's time and permissions.
    pub(in crate::cli) without_attributes: u64,
    /// The differences that were found.
    pub(in crate::cli) changes: Vec<Change>,
    /// The first failure, or that nothing arrives any more.
    pub(in crate::cli) failure: Option<Failure>,
    /// Number of failures for lack of an answer.
    unanswered: u64,
    /// Number of these that were named.
    unanswered_shown: u64,
    /// The copy has ended early.
    outage: Option<Outage>,
}

impl Fetched {
    /// Counts the result of a file; returns the outage in which it failed, if there is one.
    pub(super) fn take(
        &mut self,
        result: Result<Watched<FetchedFile>, tokio::task::JoinError>,
    ) -> Option<Outage> {
        let (result, outage) = watched_or_failed(result);
        match result {
            Ok(FetchedFile { bytes, has_replaced, has_replaced_changed }) => {
                self.files += 1;
                self.bytes += bytes;
                self.replaced += u64::from(has_replaced);
                self.replaced_changed += u64::from(has_replaced_changed);
            }
            Err(failure) => self.fail(failure),
        }
        outage
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        self.unanswered += u64::from(failure.is_unanswered());
        self.unanswered_shown = self.unanswered.min(UNANSWERED_SHOWN_MAX);
        if !failure.is_unanswered() || self.unanswered <= UNANSWERED_SHOWN_MAX {
            output::note(&format_args!("namewire: {failure}"));
        }
        self.failure.get_or_insert(failure);
    }

    /// Ends the copy; `left` files are not tried.
    pub(super) fn give_up(&mut self, outage: Outage, left: u64) {
        self.failed += left;
        self.unanswered += left;
        self.outage = Some(outage);
    }

    /// Reports how many failures were not shown, and that the copy of the directory `name` with this number of files has ended
    /// early.
    pub(super) fn finish(&mut self, name: &Name, files: u64) {
        let more = self.unanswered.saturating_sub(self.unanswered_shown);
        if more > 0 {
            output::note(&format_args!("namewire: and {} more", grouped(more)));
        }
        if let Some(outage) = self.outage {
            let (complete, files) = (grouped(self.files), counted(files, "file"));
            let consequence =
                format!("{complete} of {files} are complete; run the same command to resume");
            self.failure = Some(outage.failure(name, &consequence));
        }
    }
}

/// A file that was fetched.
#[derive(Debug)]
pub(super) struct FetchedFile {
    pub(super) bytes: u64,
    /// There was another one.
    pub(super) has_replaced: bool,
    /// Somebody had changed that since it was fetched.
    pub(super) has_replaced_changed: bool,
}

/// Progress of a recursive fetch.
#[derive(Debug, Default)]
pub(in crate::cli) struct TreeProgress {
    /// Files of the listings so far.
    pub(in crate::cli) files_found: AtomicU64,
    /// Directories whose listings have arrived.
    pub(in crate::cli) directories_listed: AtomicU64,
    pub(in crate::cli) files_done: AtomicU64,
    /// Bytes of the files that have to be fetched, as far as their sizes are known.
    pub(in crate::cli) bytes_found: AtomicU64,
    pub(in crate::cli) bytes_done: AtomicU64,
    /// All directories are listed.
    pub(in crate::cli) is_listed: AtomicBool,
    /// The metadata of all files is known.
    pub(in crate::cli) is_planned: AtomicBool,
    /// Number of transfers that have begun.
    transfers: AtomicU64,
    /// The transfer for which something arrived last, and when.
    latest: Mutex<Option<(u64, Instant)>>,
    /// Complete files whose time or permissions could not be set.
    pub(super) without_attributes: AtomicU64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn outage_is_a_wait_without_anything_for_another_transfer() {
        let progress = Arc::default();
        let unanswered = || Failure::Nacked("no route to /a/1".to_owned());
        let failing = async || Err::<(), _>(unanswered());
        let [first, second, third] = [(); 3].map(|()| Transfer::begin(&progress));
        second.note_arrival();
        assert!(second.clone().watch(failing()).await.1.is_some(), "nothing for the others");
        third.note_arrival();
        assert!(second.watch(failing()).await.1.is_none(), "something for the third");
        assert!(first.watch(failing()).await.1.is_none(), "something for the third");
        let other = async { Err::<(), _>(Failure::Failed("no permission".to_owned())) };
        assert!(third.watch(other).await.1.is_none());
        let (_, outage) = Transfer::begin(&progress).watch(failing()).await;
        assert!(outage.is_some(), "nothing since it began");
    }

    #[test]
    fn copy_without_a_server_names_ten_files() {
        let mut fetched = Fetched { files: 439, ..Fetched::default() };
        for _ in 0..12 {
            fetched.fail(Failure::NoAnswer("no answer".to_owned()));
        }
        let outage = Outage { lasting: Duration::from_millis(6_900), is_refused: true };
        fetched.give_up(outage, 2548);
        fetched.finish(&"/a".parse().unwrap(), 2999);
        assert_eq!(
            (fetched.failed, fetched.unanswered, fetched.unanswered_shown),
            (2560, 2560, 10)
        );
        let failure = fetched.failure.unwrap();
        assert_eq!(failure.status(), 4);
        assert_eq!(
            failure.to_string(),
            "/a: no route to the server for 7 s; 439 of 2 999 files are complete; run the same command to resume"
        );
    }
}
