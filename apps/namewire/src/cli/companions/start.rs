//! `namewire start` and `namewire stop`: a forwarder in the background, without a service manager.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::Duration;

use clap::Args;
use ndn_client::{AddressSource, Candidates, ForwarderAddress};
use ndn_sys::clock;
use ndn_sys::peer::StoppedProcess;
use ndn_types::duration_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::failure::{Failure, Outcome};
use super::super::linux::run::Options as RunOptions;
use super::super::output;
use crate::config::nfd_conf::{self, FreePorts};
use crate::process::service_manager::{READY, VARIABLE};

/// Start the forwarder in the background and wait until it listens
///
/// Takes the options of `namewire run`, such as `--config FILE`, and has its exit statuses: 2 is an invalid
/// configuration. The log is shown until the forwarder listens. After that it goes to standard error if that is a file, and
/// is discarded otherwise. With --log-file all of it goes there, and only warnings and errors of the start are shown, too.
/// Prefer a service manager; there is a unit for systemd.
#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    #[command(flatten)]
    run: RunOptions,
    /// Options of `namewire run`, after `--`
    #[arg(last = true, value_name = "OPTION", hide = true)]
    options: Vec<OsString>,
}

/// Stop the forwarder that listens on the default socket, and wait until it has stopped
///
/// If neither --transport nor NDN_CLIENT_TRANSPORT nor client.conf names a socket, the socket of
/// /etc/ndn/nfd.conf is tried last.
#[derive(Args, Debug)]
pub(in crate::cli) struct StopOptions {
    /// The forwarder: unix:///path or a path [default: the forwarder that other commands use]
    #[arg(long, value_name = "URI", value_parser = super::super::connect::transport)]
    transport: Option<ForwarderAddress>,
    /// Time to wait for the forwarder to stop
    #[arg(long, value_name = "DURATION", default_value = "30s",
        value_parser = super::super::arguments::positive_duration)]
    timeout: Duration,
}

/// The default path of NFD's configuration.
const NFD_CONF: &str = "/etc/ndn/nfd.conf";
/// Interval at which the state of the forwarder is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of bytes of the log to show after a failed start.
const LOG_TAIL: u64 = 4096;
/// Maximum number of bytes of the log in which warnings of a successful start are searched.
const LOG_OF_START_MAX: u64 = 1 << 20;
/// The exit status for invalid options or configuration.
const WRONG_CONFIGURATION: i32 = 2;
/// Maximum time until the forwarder is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!("the forwarder cannot be started: {error}"))
    };
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    // An abstract socket, because the forwarder may change its user.
    let name = format!("namewire-start-{}-{:016x}", std::process::id(), rand::random::<u64>());
    let ready = SocketAddr::from_abstract_name(&name)
        .and_then(|address| UnixDatagram::bind_addr(&address))
        .map_err(|error| failed(&error))?;
    ready.set_read_timeout(Some(POLL_INTERVAL)).map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    command.arg("run").args(options.run.arguments()).args(&options.options);
    command.env(VARIABLE, format!("@{name}"));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut log = None;
    if let Some(path) = &options.run.log_file {
        let file_failed = |error: io::Error| Failure::file(path.display(), &error);
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(file_failed)?;
        log = Some((path, file.metadata().map_err(file_failed)?.len()));
        command.stderr(file);
    } else if !is_file(io::stderr()) {
        // A thread that ends with this command. Later lines are lost.
        command.stderr(Stdio::piped());
    }
    // Ctrl-C on this terminal must not reach the forwarder.
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    let mut shown = Shown::default();
    let ended = wait_until_ready(&ready, &mut child, &mut shown, READY_TIMEOUT);
    let ended = ended.map_err(|error| failed(&error))?;
    shown.pass_on(child.stderr.as_mut());
    let limit = if ended.is_none() { LOG_OF_START_MAX } else { LOG_TAIL };
    let printed = log.and_then(|(path, length)| Some((path, output_since(path, length, limit)?)));
    if let (None, Some((_, Appended { text, .. }))) = (ended, &printed) {
        let warnings = warnings_of(text, false);
        if !warnings.is_empty() {
            output::note(&warnings);
        }
    }
    if let Some(stdout) = &mut child.stdout {
        // The output so far, without waiting for more.
        let length = rustix::io::ioctl_fionread(&*stdout).map_err(|error| failed(&error))?;
        let mut printed = String::new();
        stdout.take(length).read_to_string(&mut printed).map_err(|error| failed(&error))?;
        // On a terminal, the log has shown them.
        let is_terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
        let lines = printed.lines().filter(|line| !(is_terminal && shown.has_message(line)));
        for line in lines {
            match line.starts_with("namewire: ") {
                true => output::note(&line),
                false => output::print_line(line)?,
            }
        }
        if ended.is_none() && options.run.socket.is_none() {
            note_other_socket(&printed);
        }
    }
    let Some(status) = ended else {
        if child.stderr.is_some() {
            output::note(
                &"namewire: the log is discarded from now on: use --log-file FILE to keep it",
            );
        }
        return Ok(output::print_line(&format!("started, process {}", child.id()))?);
    };
    let printed = printed.map(|(path, Appended { text, is_cut })| {
        // What was done before the failure is not its reason.
        let reasons = warnings_of(&text, !is_cut);
        let shown = if reasons.is_empty() { text } else { reasons };
        format!("; log in {}:\n{shown}", path.display())
    });
    let printed = printed.unwrap_or_default();
    let text = format!("the forwarder did not start ({status}){printed}");
    Err(match status.code() {
        Some(WRONG_CONFIGURATION) => Failure::Usage(text),
        Some(_) | None => Failure::Failed(text),
    })
}

/// Notes that commands look for the forwarder at another Unix socket than the one that was announced.
fn note_other_socket(announced: &str) {
    // The commands that use it report what is wrong with it.
    let Ok(candidates) = Candidates::from_environment() else { return };
    if let Some(note) = other_socket(&candidates, announced) {
        output::note(&note);
    }
}

fn other_socket(candidates: &Candidates, announced: &str) -> Option<String> {
    let own = announced.lines().find_map(|line| line.strip_prefix("listening on unix://"))?;
    let [named @ ForwarderAddress::Unix(path)] = &*candidates.addresses else { return None };
    let source = &candidates.source;
    let file = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    (*source != AddressSource::Default && file(path) != file(Path::new(own))).then(|| {
        format!(
            "namewire: other commands use {named} ({source}), not this forwarder: run `export \
             NDN_CLIENT_TRANSPORT='unix://{own}'`, or give them --transport '{own}'"
        )
    })
}

fn is_file(output: impl AsFd) -> bool {
    fstat(output).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file())
}

/// The log of the forwarder as it was shown.
#[derive(Default)]
struct Shown(Vec<u8>);

impl Shown {
    /// Prints the output of the forwarder so far; errors are ignored.
    fn pass_on(&mut self, printed: Option<&mut ChildStderr>) {
        let Some(printed) = printed else { return };
        if let Ok(length) = rustix::io::ioctl_fionread(&*printed) {
            let begin = self.0.len();
            let _ = printed.take(length).read_to_end(&mut self.0);
            let _ = io::stderr().lock().write_all(&self.0[begin..]);
        }
    }

    /// Whether this text is the message of a line that was shown, which may be JSON.
    fn has_message(&self, text: &str) -> bool {
        let as_json = format!("\"message\":{}", serde_json::Value::from(text));
        let is_it = |line: &str| line.ends_with(text) || line.contains(&as_json);
        String::from_utf8_lossy(&self.0).lines().any(is_it)
    }
}

/// The lines of a log without those of the levels info, debug and trace. Further lines of an entry follow its first one. What
/// is before the first entry is kept if `is_whole`, or if there is none: libraries, or the system, have written it.
fn warnings_of(printed: &str, is_whole: bool) -> String {
    const QUIET: [&str; 3] = ["info", "debug", "trace"];
    let is_quiet = |line: &str| {
        let level = line.split_whitespace().nth(1).unwrap_or_default();
        QUIET.iter().any(|quiet| {
            level.eq_ignore_ascii_case(quiet) || line.contains(&format!("\"level\":\"{quiet}\""))
        })
    };
    // Entries begin with a time or a brace; other notes of the program with its name.
    let is_first = |line: &str| {
        let has_time = line.starts_with(|first: char| first.is_ascii_digit())
            && line.as_bytes().get(4) == Some(&b'-');
        has_time || line.starts_with('{') || line.starts_with("namewire: ")
    };
    let mut is_shown = is_whole || !printed.lines().any(is_first);
    let filter = |&line: &&str| {
        if is_first(line) {
            is_shown = !is_quiet(line);
        }
        is_shown
    };
    printed.lines().filter(filter).collect::<Vec<_>>().join("\n")
}

/// Text that was appended to a log.
struct Appended {
    text: String,
    /// Its beginning is missing.
    is_cut: bool,
}

/// The end of the text appended to a log after this length, if there is any: whole lines of at most `limit` bytes.
fn output_since(path: &Path, length: u64, limit: u64) -> Option<Appended> {
    let mut file = std::fs::File::open(path).ok()?;
    let appended = file.metadata().ok()?.len().checked_sub(length)?;
    let skipped = appended.saturating_sub(limit);
    file.seek(SeekFrom::Start(length + skipped)).ok()?;
    let mut printed = Vec::new();
    // A device has no end.
    file.take(limit.min(appended)).read_to_end(&mut printed).ok()?;
    let printed = String::from_utf8_lossy(&printed);
    let printed = printed.trim_end();
    let is_cut = skipped > 0;
    let rest = printed.split_once('\n').filter(|_| is_cut).map(|(_, rest)| rest);
    let text = rest.unwrap_or(printed).to_owned();
    (!text.is_empty()).then_some(Appended { text, is_cut })
}

/// Waits until the forwarder is ready, or has terminated; returns its exit status. After the
/// timeout it continues to run.
fn wait_until_ready(
    ready: &UnixDatagram,
    child: &mut Child,
    shown: &mut Shown,
    timeout: Duration,
) -> io::Result<Option<ExitStatus>> {
    let mut message = [0; 64];
    let timeout_ns = duration_ns(timeout);
    let deadline_ns = clock::now().saturating_add(timeout_ns);
    loop {
        match ready.recv(&mut message) {
            Ok(length) if &message[..length] == READY => return Ok(None),
            Ok(_) => shown.pass_on(child.stderr.as_mut()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                shown.pass_on(child.stderr.as_mut());
                if let Some(status) = child.try_wait()? {
                    return Ok(Some(status));
                }
                if clock::now() >= deadline_ns {
                    let text = format!("process {} is running, but not ready yet", child.id());
                    return Err(io::Error::new(ErrorKind::TimedOut, text));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

pub(in crate::cli) fn stop(options: &StopOptions) -> Outcome {
    let candidates = match &options.transport {
        Some(address) => Candidates::given(address.clone()),
        None => {
            Candidates::from_environment().map_err(|error| Failure::Usage(error.to_string()))?
        }
    };
    let mut addresses = candidates.addresses;
    if candidates.source == AddressSource::Default {
        addresses.extend(socket_of(Path::new(NFD_CONF)).map(ForwarderAddress::Unix));
    }
    let (path, stream) = connect(&addresses)?;
    let failed = |what: &str, error: rustix::io::Errno| Failure::Failed(format!("{what}: {error}"));
    // The kernel reports no ID for a process of another namespace.
    let peer = socket_peercred(&stream).map_err(|_| {
        Failure::Failed(format!(
            "a process of another PID namespace listens on {}, which cannot be stopped from here: that of the host, \
             or of another container. `namewire stop` there stops it",
            path.display()
        ))
    })?;
    drop(stream);
    let pid = peer.pid;
    let process = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| failed(&format!("process {pid}"), error))?;
    // From here on, a reuse of the process ID is noticed.
    check_program(pid)?;
    pidfd_send_signal(&process, Signal::TERM)
        .map_err(|error| failed(&format!("process {pid} cannot be stopped"), error))?;
    if let Some(stopped) = StoppedProcess::with_id(pid.as_raw_nonzero().get()) {
        output::note(&format_args!("namewire: {stopped}, and the signal then ends it"));
    }
    let timeout = Timespec::try_from(options.timeout)
        .map_err(|_| Failure::Usage("--timeout is too long".to_owned()))?;
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    match poll(&mut ends, Some(&timeout)) {
        Ok(1) => Ok(output::print_line(&format!("stopped process {pid}"))?),
        Ok(_) => Err(Failure::NoAnswer(format!("process {pid} has not terminated yet"))),
        Err(error) => Err(failed("waiting for it to end", error)),
    }
}

/// The Unix socket in nfd.conf, if the file exists and has one.
fn socket_of(nfd_conf: &Path) -> Option<PathBuf> {
    nfd_conf::load(nfd_conf, &FreePorts::default()).ok()?.config.socket_path()
}

/// A connection to the first of these sockets that accepts it.
fn connect(addresses: &[ForwarderAddress]) -> Outcome<(&Path, UnixStream)> {
    let mut tried = Vec::new();
    for address in addresses {
        let ForwarderAddress::Unix(path) = address else {
            let reason =
                format!("{address} is not a Unix socket: its process cannot be determined");
            return Err(Failure::Usage(reason));
        };
        match UnixStream::connect(path) {
            Ok(stream) => return Ok((path, stream)),
            Err(error) => tried.push(format!("{}: {error}", path.display())),
        }
    }
    Err(Failure::Unreachable(format!("no forwarder runs here ({})", tried.join("; "))))
}

/// The process may not be this program: an `ndnd`, or the proxy of a container.
fn check_program(pid: Pid) -> Outcome {
    let own = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if own.split(' ').next() != Some(&std::process::id().to_string()) {
        // The /proc of another namespace does not have this process.
        return Ok(());
    }
    let path = format!("/proc/{}/comm", pid.as_raw_nonzero());
    let name = std::fs::read_to_string(&path).map_err(|error| Failure::file(&path, &error))?;
    // A copy of this program under another name is this program.
    let is_this = || {
        let of = |process: &str| std::fs::metadata(format!("/proc/{process}/exe")).ok();
        let (Some(own), Some(other)) = (of("self"), of(&pid.as_raw_nonzero().to_string())) else {
            return false;
        };
        (own.dev(), own.ino()) == (other.dev(), other.ino())
    };
    match name.trim() {
        "namewire" | "nfd" | "nfd-start" => Ok(()),
        _ if is_this() => Ok(()),
        other => Err(Failure::Failed(format!(
            "process {pid} is `{other}`, which is not known as a forwarder; if it is one, stop it with `kill {pid}`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_a_log_are_lines_without_a_quiet_level() {
        let text = "2026-01-01T00:00:00Z  INFO namewire: listening\n\
                    2026-01-01T00:00:00Z  WARN namewire: no key\nnamewire: warning: unused\n\
                    2026-01-01T00:00:00Z DEBUG namewire: more";
        let warnings = "2026-01-01T00:00:00Z  WARN namewire: no key\nnamewire: warning: unused";
        assert_eq!(warnings_of(text, true), warnings);
        assert_eq!(warnings_of(&format!("the rest of an entry\n{text}"), false), warnings);
        let early = "EAL: no free hugepages";
        let whole = warnings_of(&format!("{early}\n{text}"), true);
        assert_eq!(whole, format!("{early}\n{warnings}"));
        assert_eq!(warnings_of("not a log", false), "not a log");
        let json = "{\"level\":\"info\",\"message\":\"a\"}\n{\"level\":\"warn\"}";
        assert_eq!(warnings_of(json, true), "{\"level\":\"warn\"}");
    }

    #[test]
    fn warnings_are_found_before_a_long_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let warning = "2026-01-01T00:00:00Z  WARN namewire: no key\nof this name";
        let info = "2026-01-01T00:00:00Z  INFO namewire: more\nthan a line\n".repeat(200);
        std::fs::write(&path, format!("earlier\n{warning}\n{info}")).unwrap();
        let start = "earlier\n".len() as u64;
        let printed = output_since(&path, start, LOG_OF_START_MAX).unwrap();
        assert!(!printed.is_cut);
        assert_eq!(warnings_of(&printed.text, false), warning);
        let Appended { text, is_cut } = output_since(&path, start, LOG_TAIL).unwrap();
        assert!(text.len() < 4096 && info.contains(&format!("\n{text}\n")), "{text}");
        assert!(is_cut);
        assert_eq!(output_since(&path, start, 20).unwrap().text, "than a line");
    }

    #[test]
    fn a_line_that_the_log_has_shown_is_known() {
        let shown = Shown(b"time  INFO namewire: UDP on port 6363\n".to_vec());
        assert!(shown.has_message("UDP on port 6363") && !shown.has_message("TCP"));
        let shown = Shown(b"{\"level\":\"info\",\"message\":\"UDP on \\\"a\\\"\"}\n".to_vec());
        assert!(shown.has_message("UDP on \"a\"") && !shown.has_message("UDP"));
    }

    #[test]
    fn other_socket_of_commands_is_noted() {
        let note = |source, named: &str| {
            let candidates = Candidates { addresses: vec![named.parse().unwrap()], source };
            let announced = "listening on unix:///run/a.sock\nlistening on tcp4://0.0.0.0:6363\n";
            other_socket(&candidates, announced)
        };
        let noted = note(AddressSource::Environment, "unix:///run/b.sock").unwrap();
        assert!(noted.contains("unix:///run/b.sock (from the environment variable"), "{noted}");
        assert!(noted.contains("`export NDN_CLIENT_TRANSPORT='unix:///run/a.sock'`"), "{noted}");
        assert_eq!(note(AddressSource::Environment, "unix:///run/a.sock"), None);
        assert_eq!(note(AddressSource::Environment, "tcp4://127.0.0.1:6363"), None);
        assert_eq!(note(AddressSource::Default, "unix:///run/b.sock"), None);
    }

    #[test]
    fn socket_is_read_from_nfd_conf() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("nfd.conf");
        assert_eq!(socket_of(&file), None);
        std::fs::write(&file, "face_system {\n unix {\n path /tmp/of-nfd.sock\n }\n}\n").unwrap();
        assert_eq!(socket_of(&file), Some("/tmp/of-nfd.sock".into()));
        std::fs::write(&file, "face_system {\n tcp\n}\n").unwrap();
        assert_eq!(socket_of(&file), None, "it has none");
    }
}
