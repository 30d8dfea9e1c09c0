//! The name by which this program was started, and its arguments.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::tools::{self, Tool};

/// An invocation of this program, perhaps by the name of a program of NFD, ndn-tools or ndn-cxx.
#[derive(Debug)]
pub(in crate::cli) struct Invocation {
    /// The arguments, translated to those of this program.
    pub(in crate::cli) arguments: Vec<OsString>,
    /// The program by whose name this one was started: its exit statuses are returned, and where its output is read by
    /// scripts, the output has its form.
    pub(in crate::cli) tool: Option<&'static Tool>,
}

impl Invocation {
    /// The invocation of this process.
    ///
    /// # Errors
    /// The text about an option that has no counterpart.
    pub(in crate::cli) fn of_process() -> Result<Self, String> {
        let given: Vec<_> = std::env::args_os().collect();
        let called = given.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
        let rest = given.get(1..).unwrap_or_default();
        let Some((tool, rest)) = tools::find(called.unwrap_or_default(), rest) else {
            return Ok(Self { arguments: given, tool: None });
        };
        let arguments = std::iter::once("namewire".into()).chain(tool.translate(rest)?).collect();
        Ok(Self { arguments, tool: Some(tool) })
    }
}
