//! The ways of reading.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use ndn_security::sha256;

use super::options::{AccessBenchOptions, MissingWay, hex};
use super::plan::Plan;
use super::programs::{Programs, ServerKind, run};
use crate::program;

const READERS: &str = include_str!("readers.py");
const READ_C: &str = include_str!("../../../../bindings/c/examples/read.c");
const HEADER: &str = include_str!("../../../../bindings/c/include/namewire.h");

/// One way of reading the file.
#[derive(Debug)]
pub(super) struct Way {
    name: &'static str,
    reader: Reader,
    /// The server that it reads from; its address replaces `URL` in arguments.
    server: Option<ServerKind>,
}

/// A kind of reader.
#[derive(Debug)]
enum Reader {
    /// This program, which executes a plan.
    Own(Vec<String>),
    /// A script in Python, which executes a plan.
    Python { interpreter: String, arguments: Vec<String> },
    /// A program in C, which executes a plan.
    C(PathBuf),
    /// A command that writes the whole file to standard output.
    Whole(Vec<String>),
}

/// Result of a round of a way.
pub(super) struct Read {
    /// Digest of all content, in hexadecimal digits; `None` where the whole file was compared already.
    pub(super) digest: Option<String>,
    /// Time of each read, nanoseconds.
    pub(super) times: Vec<u64>,
}

impl Way {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it can execute the plan: commands read a file in order.
    pub(super) fn does(&self, plan: &Plan) -> bool {
        match self.reader {
            Reader::Whole(_) => plan.pattern == "sequential",
            Reader::Own(_) if self.name == "exchange" => plan.pattern == "random 4 KiB",
            Reader::Own(_) | Reader::Python { .. } | Reader::C(_) => true,
        }
    }

    pub(super) fn read(
        &self,
        programs: &Programs,
        plan: &Plan,
        file: &Path,
    ) -> anyhow::Result<Read> {
        let server = self.server.map(|kind| programs.server(kind)).transpose()?;
        let url = server.as_ref().map_or("", |server| server.address.as_str());
        let out = programs.path("out");
        let replaced = |words: &[String]| -> Vec<String> {
            let out = out.display().to_string();
            words.iter().map(|word| word.replace("URL", url).replace("OUTPUT", &out)).collect()
        };
        match &self.reader {
            Reader::Own(arguments) => {
                let own = std::env::current_exe()?;
                let mut command = programs.command(&own);
                command.arg("access-reader").args(replaced(arguments)).arg("--plan").arg(file);
                let mut read = parse(&run(&mut command)?.stdout)?;
                // Whole segments, which begin elsewhere.
                read.digest = read.digest.filter(|_| self.name != "exchange");
                Ok(read)
            }
            Reader::Python { interpreter, arguments } => {
                let script = programs.path("readers.py");
                fs::write(&script, READERS)?;
                let mut command = programs.command(Path::new(interpreter));
                command.arg(script).args(replaced(arguments)).arg(programs.public_key()).arg(file);
                parse(&run(&mut command)?.stdout)
            }
            Reader::C(executable) => {
                let times = programs.path("times");
                let mut command = programs.command(executable);
                command.arg(programs.name()).arg(programs.public_key()).arg(file).arg(&times);
                let digest = Some(hex(&sha256(&run(&mut command)?.stdout)));
                let times = fs::read_to_string(times)?;
                Ok(Read { digest, times: numbers(times.lines())? })
            }
            Reader::Whole(words) => {
                let words = replaced(words);
                let (executable, arguments) = words.split_first().context("no command")?;
                let mut command = programs.command(Path::new(executable));
                command.args(arguments);
                let start = Instant::now();
                run(&mut command)?;
                let taken = u64::try_from(start.elapsed().as_nanos())?;
                let content = fs::read(&out)?;
                fs::remove_file(&out)?;
                ensure!(plan.bytes() <= u64::try_from(content.len())?, "the file is cut");
                let content = content.get(..usize::try_from(plan.bytes())?).unwrap_or_default();
                Ok(Read { digest: Some(hex(&sha256(content))), times: vec![taken] })
            }
        }
    }
}

/// Parses what a reader prints: a digest, and times.
fn parse(printed: &[u8]) -> anyhow::Result<Read> {
    let text = std::str::from_utf8(printed)?;
    let mut lines = text.lines();
    let digest = lines.next().context("the reader printed nothing")?.to_owned();
    Ok(Read { digest: Some(digest), times: numbers(lines)? })
}

fn numbers<'a>(lines: impl Iterator<Item = &'a str>) -> anyhow::Result<Vec<u64>> {
    lines.map(|line| line.parse().with_context(|| format!("{line:?} is no time"))).collect()
}

/// The ways that this machine has, and those that it lacks.
pub(super) fn available(
    programs: &Programs,
    options: &AccessBenchOptions,
) -> (Vec<Way>, Vec<MissingWay>) {
    let (mut ways, mut missing) = (Vec::new(), Vec::new());
    let (name, key) = (programs.name(), programs.public_key().display().to_string());
    let own = |arguments: &[&str]| Ok(Reader::Own(words(arguments)));
    let whole = |program: &str, arguments: &[&str]| {
        let executable = match program {
            "namewire" => program::namewire()?,
            other => program::on_path(other).with_context(|| format!("no {other}"))?,
        };
        let executable = executable.display().to_string();
        Ok(Reader::Whole(words(&[&[executable.as_str()], arguments].concat())))
    };
    let python = |modules: &[&str], arguments: &[&str]| {
        let interpreter = interpreter(options, modules)?;
        Ok(Reader::Python { interpreter, arguments: words(arguments) })
    };
    let mut add = |name: &'static str,
                   server: Option<ServerKind>,
                   make: &dyn Fn() -> anyhow::Result<Reader>| {
        if options.filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            return;
        }
        let started = server.map(|kind| programs.server(kind)).transpose();
        match started.and_then(|_| make()) {
            Ok(reader) => ways.push(Way { name, reader, server }),
            Err(error) => {
                missing.push(MissingWay { way: name.to_owned(), reason: format!("{error:#}") });
            }
        }
    };
    let (xrootd, local) = (Some(ServerKind::XRootD), Some(ServerKind::XRootDOfLocalFiles));
    let nginx = Some(ServerKind::Nginx);
    let ndn = format!("ndn:/{name}");
    let get = ["get", &name, "--quiet", "--verify", &key, "-o", "OUTPUT"];
    let xrdcp = ["--nopbar", "--force", "URL", "OUTPUT"];
    let curl = ["--silent", "--fail", "URL", "--output", "OUTPUT"];
    add("get", None, &|| whole("namewire", &get));
    add("exchange", None, &|| own(&["--name", &name, "--exchange"]));
    add("core", None, &|| own(&["--name", &name, "--verify", &key]));
    add("c", None, &|| Ok(Reader::C(compile(programs)?)));
    add("python", None, &|| python(&["namewire"], &["python", &name]));
    add("fsspec", None, &|| python(&["namewire", "fsspec"], &["fsspec", &ndn]));
    add("fuse", Some(ServerKind::Mount), &|| own(&["--path", "URL"]));
    add("xrootd", xrootd, &|| python(&["XRootD"], &["xrootd", "URL"]));
    add("xrdcp", xrootd, &|| whole("xrdcp", &xrdcp));
    add("xrootd of local files", local, &|| python(&["XRootD"], &["xrootd", "URL"]));
    add("xrdcp of local files", local, &|| whole("xrdcp", &xrdcp));
    add("fsspec of nginx", nginx, &|| python(&["fsspec", "aiohttp"], &["fsspec", "URL"]));
    add("curl of nginx", nginx, &|| whole("curl", &curl));
    (ways, missing)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The first interpreter that has these modules.
fn interpreter(options: &AccessBenchOptions, modules: &[&str]) -> anyhow::Result<String> {
    let import = format!("import {}", modules.join(", "));
    let has = |python: &&String| run(Command::new(python).args(["-c", &import])).is_ok();
    let found = options.python.iter().find(has);
    let found =
        found.with_context(|| format!("no Python has the modules {}", modules.join(", ")))?;
    // Readers run in another directory.
    Ok(match found.contains('/') {
        true => std::path::absolute(found)?.display().to_string(),
        false => found.clone(),
    })
}

/// Compiles the reader in C with the library beside `namewire`.
fn compile(programs: &Programs) -> anyhow::Result<PathBuf> {
    let library = program::namewire()?.with_file_name("libnamewire.a");
    ensure!(library.is_file(), "there is no {} (make c-library)", library.display());
    let directory = programs.path("c");
    fs::create_dir_all(&directory)?;
    let (source, output) = (directory.join("read.c"), directory.join("read"));
    fs::write(&source, READ_C)?;
    fs::write(directory.join("namewire.h"), HEADER)?;
    let mut command = Command::new("cc");
    command.args(["-O2", "-std=c11", "-D_GNU_SOURCE", "-I"]).arg(&directory).arg(&source);
    command.arg(&library).args(["-lm", "-ldl", "-lpthread", "-lgcc_s", "-o"]).arg(&output);
    run(&mut command)?;
    Ok(output)
}
