//! Results and progress of a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ndn_client::fetch::UncheckedSignature;
use ndn_packet::{Name, SignatureType};
use serde_json::{Value, json};

use crate::cli::diagnose::Cause;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::file_name;
use crate::cli::keys::unchecked_in_words;
use crate::cli::output::{bytes_for_people, counted, grouped};
use crate::cli::progress::{Notes, now};

/// Number of files without an answer that are named.
const UNANSWERED_SHOWN_MAX: u64 = 10;
/// Characters of the path of a file that is being fetched, from its end, at least.
const PATH_SHOWN_MIN: usize = 10;
/// Number of signatures that were not checked and are kept for the summary.
const UNCHECKED_MAX: usize = 16;

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
            write!(formatter, "{} -> ", file_name::path(from.as_os_str().as_bytes()))?;
        }
        formatter.write_str(&file_name::path(self.path.as_os_str().as_bytes()))?;
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
    /// Interests were answered with Nacks for lack of a route.
    has_no_route: bool,
}

impl Outage {
    /// The failure of the copy of the directory `name`; `consequence` says what that means.
    pub(super) fn failure(self, name: &Name, cause: Option<&Cause>, consequence: &str) -> Failure {
        let (kind, what): (fn(String) -> Failure, _) = match self.has_no_route {
            true => (Failure::NoRoute, "no route to"),
            false => (Failure::NoAnswer, "no answer from"),
        };
        let seconds = self.lasting.as_secs_f64().round().max(1.0);
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        kind(format!("{what} {name} for {seconds} s{cause}; {consequence}"))
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
        *self.progress.latest() = Some((self.number, now()));
    }

    /// Runs it. It fails in an outage if nothing arrived for any other transfer while it waited.
    pub(super) async fn watch<T>(self, work: impl Future<Output = Outcome<T>>) -> Watched<T> {
        let outcome = work.await;
        let Some(failure) = outcome.as_ref().err().filter(|failure| failure.is_unanswered()) else {
            self.note_arrival();
            return (outcome, None);
        };
        let waiting_since = match *self.progress.latest() {
            Some((number, at)) if number == self.number => Some(at),
            Some((_, at)) if at > self.begun => None,
            Some(_) | None => Some(self.begun),
        };
        let has_no_route = matches!(failure, Failure::NoRoute(_));
        let outage = waiting_since.map(|since| Outage { lasting: now() - since, has_no_route });
        (outcome, outage)
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
    /// Number of files whose fetch had not begun when the copy ended early.
    pub(in crate::cli) not_begun: u64,
    /// Number of files and directories that do not have the server's time and permissions.
    pub(in crate::cli) without_attributes: u64,
    /// The differences that were found.
    pub(in crate::cli) changes: Vec<Change>,
    /// The first failure, or that nothing arrives any more.
    pub(in crate::cli) failure: Option<Failure>,
    /// Signatures of the files that were not checked.
    unchecked: BTreeSet<UncheckedSignature>,
    /// Number of failures for lack of an answer. The first ones are named.
    unanswered: u64,
    /// Where failures are reported when they occur.
    notes: Notes,
    /// The copy has ended early: the outage, and the number of files whose fetch it has ended.
    outage: Option<(Outage, u64)>,
}

impl Fetched {
    pub(super) fn new(notes: Notes) -> Self {
        Self { notes, ..Self::default() }
    }

    /// Counts the result of a file; returns the outage in which it failed, if there is one.
    pub(super) fn take(
        &mut self,
        result: Result<Watched<FetchedFile>, tokio::task::JoinError>,
    ) -> Option<Outage> {
        let (result, outage) = watched_or_failed(result);
        match result {
            Ok(FetchedFile { bytes, has_replaced, has_replaced_changed, unchecked }) => {
                self.files += 1;
                self.bytes += bytes;
                self.replaced += u64::from(has_replaced);
                self.replaced_changed += u64::from(has_replaced_changed);
                if let Some(unchecked) = unchecked
                    && self.unchecked.len() < UNCHECKED_MAX
                {
                    self.unchecked.insert(unchecked);
                }
            }
            Err(failure) => self.fail(failure),
        }
        outage
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        self.unanswered += u64::from(failure.is_unanswered());
        if !failure.is_unanswered() || self.unanswered <= UNANSWERED_SHOWN_MAX {
            self.notes.write(&format_args!("namewire: {failure}"));
        }
        self.failure.get_or_insert_with(|| Failure::Reported(Box::new(failure)));
    }

    /// Ends the copy, with the numbers of fetches that are unfinished and that were not begun.
    pub(super) fn give_up(&mut self, outage: Outage, unfinished: u64, not_begun: u64) {
        self.failed += unfinished;
        self.not_begun = not_begun;
        self.outage = Some((outage, unfinished));
    }

    /// Number of failures for lack of an answer that were not named.
    fn unnamed(&self) -> u64 {
        let unfinished = self.outage.map_or(0, |(_, unfinished)| unfinished);
        self.unanswered.saturating_sub(UNANSWERED_SHOWN_MAX) + unfinished
    }

    /// Reports how many failures were not named. Returns the outage in which the copy of a directory with this number of files
    /// has ended early, and the consequence.
    pub(super) fn finish(&self, files: u64) -> Option<(Outage, String)> {
        let more = self.unnamed();
        if more > 0 {
            self.notes.write(&format_args!("namewire: and {} more", grouped(more)));
        }
        let (outage, _) = self.outage?;
        let (complete, files) = (grouped(self.files), counted(files, "file"));
        Some((
            outage,
            format!("{complete} of {files} are complete; run the same command to resume"),
        ))
    }

    /// The keys that files claim to be signed with, and that were not checked.
    pub(in crate::cli) fn unchecked_keys(&self) -> impl Iterator<Item = &Name> {
        self.unchecked.iter().filter_map(|unchecked| unchecked.key_name.as_ref())
    }

    /// The types of signatures that were not checked.
    pub(in crate::cli) fn unchecked_signatures(&self) -> BTreeSet<SignatureType> {
        self.unchecked.iter().map(|unchecked| unchecked.signature_type).collect()
    }

    /// The signatures that were not checked, for the summary; `None` if there are none.
    pub(in crate::cli) fn unchecked_in_words(&self) -> Option<String> {
        // Those without a key are the first.
        let (first, keys) = (self.unchecked.first()?, self.unchecked_keys().count());
        let without = first.key_name.is_none().then(|| unchecked_in_words(first));
        let with = self.unchecked_keys().next().map(|first| match (keys, self.unchecked.len()) {
            (1, _) => format!("signed by {first}, which was not checked"),
            (_, UNCHECKED_MAX) => {
                format!("signed by {first} and many other keys, which were not checked")
            }
            _ => {
                let others = counted(keys as u64 - 1, "other key");
                format!("signed by {first} and {others}, which were not checked")
            }
        });
        let parts: Vec<String> = [with, without].into_iter().flatten().collect();
        Some(parts.join("; some "))
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
    /// A signature of it that was not checked.
    pub(super) unchecked: Option<UncheckedSignature>,
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
    /// Number of answers about files that were listed.
    answers: AtomicU64,
    /// Number of files about which the server is being asked.
    asked: AtomicU64,
    /// Number of transfers that have begun.
    transfers: AtomicU64,
    /// The transfer for which something arrived last, and when.
    latest: Mutex<Option<(u64, Instant)>>,
    /// The paths of the files that are being fetched, by the numbers of their transfers.
    current: Mutex<BTreeMap<u64, PathBuf>>,
    /// Complete files whose time or permissions could not be set.
    pub(super) without_attributes: AtomicU64,
}

/// A file that is being fetched, until this is dropped.
pub(super) struct Current<'a> {
    progress: &'a TreeProgress,
    number: u64,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        self.progress.current().remove(&self.number);
    }
}

/// A question to the server, which ends when it is dropped, as one that is cancelled.
struct Asked<'a>(&'a AtomicU64);

impl<'a> Asked<'a> {
    fn begin(asked: &'a AtomicU64) -> Self {
        asked.fetch_add(1, Ordering::Relaxed);
        Self(asked)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TreeProgress {
    /// Asks the server about a file that it has listed.
    pub(in crate::cli) async fn ask<T>(
        &self,
        work: impl Future<Output = Outcome<T>>,
    ) -> Outcome<T> {
        let asked = Asked::begin(&self.asked);
        let outcome = work.await;
        drop(asked);
        self.answers.fetch_add(u64::from(outcome.is_ok()), Ordering::Relaxed);
        outcome
    }

    /// Number of directories and files about which the server has answered.
    pub(in crate::cli) fn answers(&self) -> u64 {
        self.directories_listed.load(Ordering::Relaxed) + self.answers.load(Ordering::Relaxed)
    }

    /// Whether nothing is awaited from the server, as while files are compared.
    pub(in crate::cli) fn awaits_nothing(&self) -> bool {
        self.is_listed.load(Ordering::Relaxed) && self.asked.load(Ordering::Relaxed) == 0
    }

    /// The server answers, but for no transfer.
    pub(super) fn note_answer(&self) {
        // Transfers have numbers from 1.
        *self.latest() = Some((0, now()));
    }

    /// Notes that `transfer` fetches the file `path`.
    pub(super) fn fetches(&self, transfer: &Transfer, path: &Path) -> Current<'_> {
        let number = transfer.number;
        self.current().insert(number, path.to_owned());
        Current { progress: self, number }
    }

    /// The file whose fetch has lasted longest, and the number of the others, in at most `columns` where that is possible.
    pub(in crate::cli) fn current_in_words(&self, columns: usize) -> Option<String> {
        let current = self.current();
        let path = file_name::path(current.values().next()?.as_os_str().as_bytes());
        let others = match current.len() {
            1 => String::new(),
            count => format!(" and {}", counted(count as u64 - 1, "other")),
        };
        let path_max = columns.saturating_sub(others.len()).max(PATH_SHOWN_MIN);
        let cut = path.chars().count().saturating_sub(path_max);
        let path = match cut {
            0 => path,
            cut => format!("…{}", path.chars().skip(cut + 1).collect::<String>()),
        };
        Some(path + &others)
    }

    fn current(&self) -> MutexGuard<'_, BTreeMap<u64, PathBuf>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn latest(&self) -> MutexGuard<'_, Option<(u64, Instant)>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressStyle;

    use super::*;
    use crate::cli::progress::Screen;

    #[tokio::test]
    async fn outage_is_a_wait_without_anything_for_another_transfer() {
        let progress = Arc::default();
        let unanswered = || Failure::NoRoute("no route to /a/1".to_owned());
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
        let transfer = Transfer::begin(&progress);
        progress.note_answer();
        assert!(transfer.watch(failing()).await.1.is_none(), "the server has answered");
    }

    #[test]
    fn file_that_is_fetched_longest_is_named_and_the_others_counted() {
        let progress = Arc::default();
        let [one, two, three] = [(); 3].map(|()| Transfer::begin(&progress));
        let third = progress.fetches(&three, Path::new("c"));
        let first = progress.fetches(&one, Path::new("a/x\ny"));
        let second = progress.fetches(&two, Path::new("b"));
        let words = || progress.current_in_words(60);
        assert_eq!(words().unwrap(), "a/x%0Ay and 2 others");
        drop(first);
        assert_eq!(words().unwrap(), "b and 1 other");
        drop(second);
        assert_eq!(words().unwrap(), "c");
        drop(third);
        assert_eq!(words(), None);
        let long = progress.fetches(&one, Path::new(&format!("{}/events", "a".repeat(90))));
        assert_eq!(words().unwrap(), format!("…{}/events", "a".repeat(60 - 8)));
        let other = progress.fetches(&two, Path::new("b"));
        assert_eq!(progress.current_in_words(24).unwrap(), "…aaaa/events and 1 other");
        drop(other);
        drop(long);
    }

    #[test]
    fn failed_copy_names_ten_files_and_the_cause() {
        let mut fetched = Fetched { files: 439, ..Fetched::default() };
        for _ in 0..12 {
            fetched.fail(Failure::NoAnswer("no answer".to_owned()));
        }
        fetched.fail(Failure::Failed("no permission".to_owned()));
        let outage = Outage { lasting: Duration::from_millis(6_900), has_no_route: true };
        fetched.give_up(outage, 7, 2541);
        assert_eq!((fetched.failed, fetched.unnamed()), (20, 9));
        assert_eq!(fetched.not_begun, 2541);
        let first = fetched.failure.as_ref().unwrap();
        assert!(matches!(first, Failure::Reported(_)), "it is reported once: {first:?}");
        assert_eq!((first.status(), first.to_string()), (4, "no answer".to_owned()));
        let (_, consequence) = fetched.finish(2999).unwrap();
        assert_eq!(consequence, "439 of 2 999 files are complete; run the same command to resume");
        let name = "/a".parse().unwrap();
        let cause = Cause::NoRoute { missing_faces: Vec::new() };
        let failure = outage.failure(&name, Some(&cause), "nothing is copied");
        assert_eq!(failure.status(), 4);
        assert_eq!(
            failure.to_string(),
            "no route to /a for 7 s (no producer on this forwarder and no neighbour for it); nothing is copied"
        );
        let silent = Outage { has_no_route: false, ..outage };
        let failure = silent.failure(&name, None, "nothing is copied");
        assert_eq!(failure.to_string(), "no answer from /a for 7 s; nothing is copied");
    }

    #[test]
    fn failures_stay_above_the_bar() {
        let screen = Screen::new(40);
        let bar = screen.bar();
        bar.set_style(ProgressStyle::with_template("{msg}\n{prefix}").unwrap());
        bar.set_prefix("a/file");
        bar.set_message("1 of 3 files");
        let mut fetched = Fetched::new(screen.notes_above(&bar));
        fetched.fail(Failure::Failed("/a/1: no permission".to_owned()));
        for _ in 0..=UNANSWERED_SHOWN_MAX {
            fetched.fail(Failure::NoAnswer("no answer".to_owned()));
        }
        bar.set_message("2 of 3 files");
        assert!(fetched.finish(3).is_none());
        bar.set_message("3 of 3 files");
        let lines = screen.lines();
        assert_eq!(lines[..2], ["namewire: /a/1: no permission", "namewire: no answer"]);
        assert_eq!(lines[11..], ["namewire: and 1 more", "3 of 3 files", "a/file"]);
        bar.finish_and_clear();
        assert_eq!(screen.lines().len(), 12);
    }

    #[test]
    fn keys_that_were_not_checked_are_named() {
        let mut fetched = Fetched::default();
        assert_eq!(fetched.unchecked_in_words(), None);
        let unchecked =
            |key_name| UncheckedSignature { key_name, signature_type: SignatureType::NULL };
        fetched.unchecked.insert(unchecked(None));
        assert_eq!(fetched.unchecked_in_words().unwrap(), "not checked (NullSignature)");
        fetched.unchecked.insert(unchecked(Some("/k".parse().unwrap())));
        assert_eq!(
            fetched.unchecked_in_words().unwrap(),
            "signed by /k, which was not checked; some not checked (NullSignature)"
        );
        fetched.unchecked.clear();
        let file = |key: String| FetchedFile {
            bytes: 1,
            has_replaced: false,
            has_replaced_changed: false,
            unchecked: Some(unchecked(Some(key.parse().unwrap()))),
        };
        for (key, expected) in [
            (1, "signed by /k1, which was not checked"),
            (1, "signed by /k1, which was not checked"),
            (2, "signed by /k1 and 1 other key, which were not checked"),
            (3, "signed by /k1 and 2 other keys, which were not checked"),
        ] {
            fetched.take(Ok((Ok(file(format!("/k{key}"))), None)));
            assert_eq!(fetched.unchecked_in_words().unwrap(), expected);
        }
        for key in 0..1000 {
            fetched.take(Ok((Ok(file(format!("/many/{key}"))), None)));
        }
        assert_eq!(fetched.unchecked.len(), UNCHECKED_MAX);
        let words = fetched.unchecked_in_words().unwrap();
        assert_eq!(words, "signed by /k1 and many other keys, which were not checked");
    }

    #[tokio::test]
    async fn nothing_is_awaited_while_files_are_compared() {
        let progress = TreeProgress::default();
        assert!(!progress.awaits_nothing(), "listings");
        progress.is_listed.store(true, Ordering::Relaxed);
        assert!(progress.awaits_nothing());
        let asked = progress.ask(async {
            assert!(!progress.awaits_nothing());
            Ok(())
        });
        asked.await.unwrap();
        assert!(progress.awaits_nothing());
        let failed = progress.ask(async { Err::<(), _>(Failure::NoAnswer(String::new())) });
        assert!(failed.await.is_err());
        assert_eq!((progress.awaits_nothing(), progress.answers()), (true, 1));
    }
}
