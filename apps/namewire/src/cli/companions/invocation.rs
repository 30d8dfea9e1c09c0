//! The name by which this program was started, and its arguments.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Command;
use clap::error::{ContextKind, ContextValue};

use super::tools::{self, Tool};
use super::usage;

/// An invocation of this program, perhaps by the name of a program of NFD, ndn-tools or ndn-cxx.
#[derive(Debug)]
pub(in crate::cli) struct Invocation {
    /// The arguments, translated to those of this program.
    pub(in crate::cli) arguments: Vec<OsString>,
    /// The program by whose name this one was started: its exit statuses are returned, and where its output is read by
    /// scripts, the output has its form.
    pub(in crate::cli) tool: Option<&'static Tool>,
}

/// The name by which this process was started, and its arguments.
fn of_process() -> (String, Vec<OsString>) {
    let mut given = std::env::args_os();
    let called = given.next().unwrap_or_default();
    let called = Path::new(&called).file_name().and_then(OsStr::to_str).unwrap_or_default();
    (called.to_owned(), given.collect())
}

/// The usage of the program by whose name this one was started, if it has options of its own and is asked for it.
pub(in crate::cli) fn usage_of_process(program: impl FnOnce() -> Command) -> Option<String> {
    let (called, given) = of_process();
    let asks = |word: &OsString| ["-h", "--help", "help"].iter().any(|help| word == help);
    if called == "ndnsec" && given.first().is_none_or(asks) {
        return Some(usage::of_ndnsec(&program()));
    }
    let (tool, given) = tools::find(&called, &given)?;
    tool.asks_for_usage(given).then(|| usage::of_tool(tool, &program()))
}

/// Gives an error about the command line of a program the usage of that.
pub(in crate::cli) fn name_usage(error: &mut clap::Error, tool: &Tool, program: &Command) {
    if error.get(ContextKind::Usage).is_some() && tool.has_own_help() {
        let line = usage::line_of(tool, program);
        error.insert(ContextKind::Usage, ContextValue::StyledStr(line.into()));
    }
}

impl Invocation {
    /// The invocation of this process.
    ///
    /// # Errors
    /// The text about an option that has no counterpart.
    pub(in crate::cli) fn of_process() -> Result<Self, String> {
        let (called, given) = of_process();
        let Some((tool, rest)) = tools::find(&called, &given) else {
            return Ok(Self { arguments: std::env::args_os().collect(), tool: None });
        };
        let arguments = std::iter::once("namewire".into()).chain(tool.translate(rest)?).collect();
        Ok(Self { arguments, tool: Some(tool) })
    }
}
