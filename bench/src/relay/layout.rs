//! Which programs and which cases.

use std::path::PathBuf;

use super::RelayOptions;
use super::programs::Program;

/// Sockets that stay the same over several cases.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Whether the exchanges go over UDP, else over Unix stream sockets.
    pub(super) udp: bool,
    /// Consumer faces.
    pub(super) faces: u32,
    /// What is measured over them.
    pub(super) cases: Vec<CaseShape>,
}

/// What the generator does in one case.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaseShape {
    /// Bytes of content in a Data.
    pub(super) payload: usize,
    /// Exchanges in flight over all faces.
    pub(super) window: u32,
    /// Names of different lengths.
    pub(super) mixed: bool,
}

impl Layout {
    /// `unix` or `udp`.
    pub(super) fn transport(&self) -> &'static str {
        if self.udp { "udp" } else { "unix" }
    }

    /// The name of a case, without its program.
    pub(super) fn case_name(&self, shape: CaseShape) -> String {
        let twin = if shape.mixed { "-mixed" } else { "" };
        format!(
            "{}-{} window {} faces {}{twin}",
            self.transport(),
            shape.payload,
            shape.window,
            self.faces
        )
    }
}

/// Every layout with the cases that the options select.
pub(super) fn layouts(options: &RelayOptions) -> Vec<Layout> {
    let mut layouts = Vec::new();
    for udp in [false, true] {
        for (faces, windows) in [(1, &[1, 16, 256, 4096][..]), (100, &[400][..])] {
            let mut layout = Layout { udp, faces, cases: Vec::new() };
            for payload in [100, 4000] {
                for &window in windows {
                    for mixed in [false, true] {
                        let shape = CaseShape { payload, window, mixed };
                        let name = layout.case_name(shape);
                        if options.filter.as_ref().is_none_or(|filter| name.contains(filter)) {
                            layout.cases.push(shape);
                        }
                    }
                }
            }
            if !layout.cases.is_empty() {
                layouts.push(layout);
            }
        }
    }
    layouts
}

/// The programs that can be run here, and the names of those that cannot.
pub(super) fn programs() -> (Vec<(Program, PathBuf)>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for program in [Program::Namewire, Program::Dumb, Program::Nfd, Program::Ndnd] {
        match program.locate() {
            Some(path) => found.push((program, path)),
            None => missing.push(program.name().to_owned()),
        }
    }
    (found, missing)
}
