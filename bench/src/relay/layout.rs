//! Which programs and which cases.

use std::path::PathBuf;

use super::programs::Program;
use super::{FIB_ENTRIES, RelayOptions};

/// Sockets that stay the same over several cases.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Whether the exchanges go over UDP, else over Unix stream sockets.
    pub(super) udp: bool,
    /// Consumer faces.
    pub(super) faces: u32,
    /// What is measured over them.
    pub(super) cases: Vec<CaseShape>,
    /// Routes, with as many prefixes in the names.
    pub(super) prefixes: u32,
}

/// A program that takes part.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    pub(super) program: Program,
    pub(super) executable: PathBuf,
    /// Workers, of this project's forwarder.
    pub(super) workers: usize,
}

impl Contender {
    /// The name in messages.
    pub(super) fn name(&self) -> String {
        match self.workers {
            1 => self.program.name().to_owned(),
            workers => format!("{} with {workers} workers", self.program.name()),
        }
    }
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
    if !options.workers.is_empty() {
        let shape = |window| CaseShape { payload: 100, window, mixed: false };
        let cases = vec![shape(256), shape(4096)];
        return vec![Layout { udp: false, faces: 4, cases, prefixes: FIB_ENTRIES }];
    }
    let mut layouts = Vec::new();
    for udp in [false, true] {
        for (faces, windows) in [(1, &[1, 16, 256, 4096][..]), (100, &[400][..])] {
            let mut layout = Layout { udp, faces, cases: Vec::new(), prefixes: 1 };
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

/// The programs that can be run here, and the names of those that cannot. Where `workers` are
/// compared, the dumb relay does not take part: it finds the consumer by the name.
pub(super) fn contenders(workers: &[usize]) -> (Vec<Contender>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for program in [Program::Namewire, Program::Dumb, Program::Nfd, Program::Ndnd] {
        let counts = match (program, workers) {
            (Program::Namewire, [_, ..]) => workers,
            (Program::Dumb, [_, ..]) => &[],
            _ => &[1],
        };
        match program.locate() {
            Some(path) => found.extend(counts.iter().map(|&workers| {
                let executable = path.clone();
                Contender { program, executable, workers }
            })),
            None => missing.push(program.name().to_owned()),
        }
    }
    (found, missing)
}
