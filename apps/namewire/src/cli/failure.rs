//! Failures of commands: messages and exit statuses.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::output::{self, without_control};
use crate::config::text::without_numbers;

/// Notes on all commands, shown in `namewire --help` and the man pages.
pub(super) const NOTES: &str = "Durations and sizes have a unit; 0 needs none:\n  \
    ns, us, ms, s, min, h     durations: 20us, 250ms, 1.5s\n  \
    B, kB, MB, GB, TB         sizes, by 1000, also k, M, G, T: 8800B, 1.5MB, 8k\n  \
    KiB, MiB, GiB, TiB        sizes, by 1024, also Ki, Mi, Gi, Ti: 64KiB, 2GiB\n\n\
    Exit status:\n  \
    0    success\n  \
    1    failure: a forwarder or an application (by an application Nack, too)\n       \
    refused, something does not exist, a file cannot be written, ...\n  \
    2    wrong command line, or an input that it names: a file, configuration,\n       \
    rules or key that is missing, unreadable or invalid, or a file in place\n       \
    of a directory and vice versa\n  \
    3    no connection to a forwarder\n  \
    4    no answer, or a Nack of a forwarder\n  \
    5    Data did not verify\n  \
    130  interrupted";

/// The two parts of [`NOTES`]: units, and exit statuses.
pub(super) fn notes() -> (&'static str, &'static str) {
    NOTES.split_once("\n\n").unwrap_or((NOTES, ""))
}

/// The exit status of an interrupted command.
pub const INTERRUPTED: u8 = 130;

/// The failure of a command. The message names the input at fault.
#[derive(Debug)]
pub enum Failure {
    /// The command line or the configuration is wrong.
    Usage(String),
    /// A file or object that the command line names as input is missing, unreadable, invalid, or of another kind.
    Input(String),
    /// The forwarder is unreachable.
    Unreachable(String),
    /// Timeout.
    NoAnswer(String),
    /// Nack for a reason other than a missing route.
    Nacked(String),
    /// Nack for lack of a route.
    NoRoute(String),
    /// The prefix of a producer was not registered, for this reason.
    Unregistered(Box<Self>),
    /// It was reported when it occurred, and only its exit status is left.
    Reported(Box<Self>),
    /// It leaves something to resume.
    Resumable {
        /// The failure.
        failure: Box<Self>,
        /// A description of what can be resumed, which is shown after the failure.
        kept: String,
    },
    /// The verification of fetched Data failed.
    Unverified(String),
    /// The producer does not serve this version any more.
    VersionGone(String),
    /// Other failures.
    Failed(String),
    /// The command was interrupted.
    Interrupted,
    /// The reader of standard output has closed it.
    OutputClosed,
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Each line begins with the name of the program, which the caller adds to the first.
pub(super) fn lines(reported: &[String]) -> String {
    reported.join("\nnamewire: ")
}

/// The text of [`lines`] without the name of the program, for JSON and logs.
pub(super) fn bare_lines(text: &str) -> String {
    text.replace("\nnamewire: ", "\n")
}

impl Failure {
    /// The exit status.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status())
    }

    pub(super) fn status(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::VersionGone(_) => 1,
            Self::Usage(_) | Self::Input(_) => 2,
            Self::Unreachable(_) => 3,
            Self::NoAnswer(_) | Self::Nacked(_) | Self::NoRoute(_) => 4,
            Self::Unregistered(reason)
            | Self::Reported(reason)
            | Self::Resumable { failure: reason, .. } => reason.status(),
            Self::Unverified(_) => 5,
            Self::Interrupted => INTERRUPTED,
            Self::OutputClosed => 0,
        }
    }

    /// Whether it is a lack of Data.
    pub(super) fn is_unanswered(&self) -> bool {
        matches!(self.itself(), Self::NoAnswer(_) | Self::Nacked(_) | Self::NoRoute(_))
    }

    /// The failure, also of one that was reported when it occurred, or leaves something to resume.
    pub(super) fn itself(&self) -> &Self {
        if let Self::Reported(failure) | Self::Resumable { failure, .. } = self {
            failure.itself()
        } else {
            self
        }
    }

    /// It, with what it leaves to resume.
    pub(super) fn leaving(self, kept: Option<String>) -> Self {
        match kept {
            Some(kept) => Self::Resumable { failure: Box::new(self), kept },
            None => self,
        }
    }

    /// The message that is left to be shown at the end of the command.
    pub(super) fn last_message(&self) -> Option<String> {
        if let Self::Resumable { failure, kept } = self {
            let message = failure.last_message();
            return Some(lines(&message.into_iter().chain([kept.clone()]).collect::<Vec<_>>()));
        }
        (!matches!(self, Self::OutputClosed | Self::Reported(_))).then(|| self.to_string())
    }

    /// It as JSON, for standard error.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "schema": output::JSON_SCHEMA,
            "failure": {
                "kind": self.kind(),
                "exit_status": self.status(),
                "message": bare_lines(&self.to_string()),
            },
        })
    }

    /// The kind in JSON.
    fn kind(&self) -> &'static str {
        match self {
            Self::Failed(_) | Self::VersionGone(_) => "failed",
            Self::Usage(_) | Self::Input(_) => "usage",
            Self::Unreachable(_) => "unreachable",
            Self::NoAnswer(_) | Self::Nacked(_) | Self::NoRoute(_) => "no_answer",
            Self::Unregistered(reason)
            | Self::Reported(reason)
            | Self::Resumable { failure: reason, .. } => reason.kind(),
            Self::Unverified(_) => "unverified",
            Self::Interrupted => "interrupted",
            Self::OutputClosed => "output_closed",
        }
    }

    /// Verification failed for lack of a manifest: names that as the cause.
    pub fn without_manifest(self) -> Self {
        if let Self::Unverified(text) = self {
            return Self::Unverified(format!(
                "the server offers no manifest for this file, so that its segments must be signed by an accepted key, and \
                 they are not: {text}"
            ));
        }
        self
    }

    /// A file or object that the command line names as input cannot be used.
    pub fn input(name: impl fmt::Display, reason: impl fmt::Display) -> Self {
        let name = without_control(&name.to_string());
        Self::Input(format!("{name}: {reason}"))
    }

    /// A failure of the file system at `path`, which is not an input.
    pub fn file(path: impl fmt::Display, error: &io::Error) -> Self {
        let path = without_control(&path.to_string());
        Self::Failed(format!("{path}: {error}"))
    }

    /// A TOML file at `path` with this content cannot be used.
    pub(super) fn toml(path: &Path, content: &str, error: &toml::de::Error) -> Self {
        let before = error.span().and_then(|span| content.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count();
        let text = content.lines().nth(line).unwrap_or_default().trim();
        let (path, reason) = (path.display(), error.message().trim_end());
        Self::Input(without_control(&format!("{path}:{}: {reason}, in `{text}`", line + 1)))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text)
            | Self::Input(text)
            | Self::Unreachable(text)
            | Self::NoAnswer(text)
            | Self::Nacked(text)
            | Self::NoRoute(text)
            | Self::Unverified(text)
            | Self::VersionGone(text)
            | Self::Failed(text) => formatter.write_str(&without_numbers(text)),
            Self::Unregistered(reason) | Self::Reported(reason) => reason.fmt(formatter),
            Self::Resumable { failure, kept } => {
                formatter.write_str(&lines(&[failure.to_string(), kept.clone()]))
            }
            Self::Interrupted => formatter.write_str("interrupted"),
            Self::OutputClosed => formatter.write_str("the output was closed"),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

impl From<ndn_files::PartError> for Failure {
    fn from(error: ndn_files::PartError) -> Self {
        use ndn_files::PartError;
        // It names a file, whose name may have come from a server.
        let text = without_control(&error.to_string());
        if matches!(error, PartError::NoFileName(_) | PartError::Reserved(_)) {
            Self::Usage(text)
        } else if matches!(error, PartError::Older { .. }) {
            Self::Unverified(format!("{text} (--allow-older accepts it)"))
        } else {
            Self::Failed(text)
        }
    }
}

/// Errors of standard output; those of files go through [`Failure::file`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Failed(format!("standard output: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_errors_have_a_line_and_names_of_files_no_control_characters() {
        let text = "a = 1\nb = [\n";
        let error = toml::from_str::<toml::Table>(text).unwrap_err();
        let shown = Failure::toml(Path::new("file"), text, &error).to_string();
        assert!(shown.starts_with("file:2: ") || shown.starts_with("file:3: "), "{shown}");
        assert_eq!(shown.lines().count(), 1, "{shown}");
        let text = "a = \u{1b}[1m";
        let error = toml::from_str::<toml::Table>(text).unwrap_err();
        let shown = Failure::toml(Path::new("a\nb"), text, &error).to_string();
        assert!(shown.starts_with("a\\nb:1: ") && !shown.contains('\u{1b}'), "{shown}");
        let error = io::Error::from(io::ErrorKind::NotFound);
        let shown = Failure::file(Path::new("a\nb").display(), &error).to_string();
        assert!(shown.starts_with("a\\nb: "), "{shown}");
    }

    #[test]
    fn lines_begin_with_the_name_of_the_program_in_text_only() {
        let failure = Failure::Usage(lines(&["a: one".to_owned(), "b: two".to_owned()]));
        assert_eq!(failure.to_string(), "a: one\nnamewire: b: two");
        assert_eq!(failure.to_json()["failure"]["message"], "a: one\nb: two");
    }

    #[test]
    fn reported_failure_keeps_its_kind() {
        let reported = |failure| Failure::Reported(Box::new(failure));
        assert!(reported(Failure::NoRoute(String::new())).is_unanswered());
        assert!(!reported(Failure::Failed(String::new())).is_unanswered());
        let failure = reported(Failure::Unverified(String::new()));
        assert!(matches!(failure.itself(), Failure::Unverified(_)));
    }

    #[test]
    fn cause_comes_before_what_can_be_resumed() {
        let kept = || Some("1 KiB are kept".to_owned());
        let interrupted = Failure::Interrupted.leaving(kept());
        assert_eq!(interrupted.last_message().unwrap(), "interrupted\nnamewire: 1 KiB are kept");
        assert_eq!(interrupted.to_json()["failure"]["message"], "interrupted\n1 KiB are kept");
        assert_eq!(interrupted.status(), INTERRUPTED);
        let silent = Failure::NoAnswer("no answer".to_owned());
        let reported = Failure::Reported(Box::new(silent));
        assert_eq!(reported.last_message(), None);
        let reported = reported.leaving(kept());
        assert_eq!(reported.last_message().unwrap(), "1 KiB are kept");
        assert!(reported.is_unanswered());
        let closed = Failure::OutputClosed.leaving(kept());
        assert!(matches!(closed.itself(), Failure::OutputClosed));
        assert_eq!(closed.last_message().unwrap(), "1 KiB are kept");
    }

    #[test]
    fn system_errors_are_shown_without_numbers() {
        let error = io::Error::from(rustix::io::Errno::ACCESS);
        assert!(error.to_string().contains("os error"), "{error}");
        for failure in [
            Failure::file("/a", &error),
            Failure::Usage(format!("/a: {error}")),
            Failure::Unreachable(format!("/a: {error}")),
            Failure::from(anyhow::Error::from(error).context("/a")),
        ] {
            assert_eq!(failure.to_string(), "/a: Permission denied");
        }
    }
}
