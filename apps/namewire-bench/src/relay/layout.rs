//! Selection of programs and cases.

use std::path::PathBuf;

use super::link::{MTU_MAX, MTU_USUAL};
use super::program::Program;
use super::report::{FIB_ENTRIES, RelayOptions};
use super::transport::Transport;
use super::wire;

/// Maximum link header in a frame of the bench, bytes.
const LINK_HEADER_MAX: usize = 32;

/// Sockets that several cases share.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Transport of the exchanges.
    pub(super) transport: Transport,
    /// Consumer faces.
    pub(super) faces: u32,
    /// Cases measured over these sockets.
    pub(super) cases: Vec<CaseShape>,
    /// Routes, with the same number of prefixes in the names.
    pub(super) prefixes: u32,
    /// Maximum frame payload, if the transport has frames, bytes.
    pub(super) mtu: usize,
}

/// Default windows: a few bursts, and more than queues hold.
const WORKERS_WINDOWS: [u32; 2] = [256, 4096];
const TRANSPORT_WINDOWS: [u32; 1] = [256];

/// Returns the windows of the options, or else the default ones.
fn windows<'a>(options: &'a RelayOptions, usual: &'a [u32]) -> &'a [u32] {
    if options.windows.is_empty() { usual } else { &options.windows }
}

/// A program to measure.
#[derive(Debug, Clone)]
pub(super) struct MeasuredProgram {
    pub(super) program: Program,
    pub(super) executable: PathBuf,
    /// Workers (only this project's forwarder).
    pub(super) workers: usize,
}

impl MeasuredProgram {
    /// The name in messages.
    pub(super) fn name(&self) -> String {
        match self.workers {
            1 => self.program.name().to_owned(),
            workers => format!("{} with {workers} workers", self.program.name()),
        }
    }
}

/// Load of the generator in one case.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaseShape {
    /// Bytes of content in a Data.
    pub(super) payload: usize,
    /// Exchanges in flight over all faces.
    pub(super) window: u32,
    /// Whether names differ in length.
    pub(super) mixed: bool,
}

impl Layout {
    /// Returns the name of a case, without its program.
    pub(super) fn case_name(&self, shape: CaseShape) -> String {
        let twin = if shape.mixed { "-mixed" } else { "" };
        format!(
            "{}-{} window {} faces {}{twin}",
            self.transport.name(),
            shape.payload,
            shape.window,
            self.faces
        )
    }
}

/// Returns every layout with the cases that the options select.
pub(super) fn layouts(options: &RelayOptions) -> Vec<Layout> {
    if !options.workers.is_empty() {
        let shape = |window| CaseShape { payload: 100, window, mixed: false };
        let cases =
            windows(options, &WORKERS_WINDOWS).iter().map(|&window| shape(window)).collect();
        return vec![Layout {
            transport: Transport::Unix,
            faces: 4,
            cases,
            prefixes: FIB_ENTRIES,
            mtu: MTU_MAX,
        }];
    }
    if !options.transports.is_empty() {
        return options
            .transports
            .iter()
            .flat_map(|&transport| by_transport(options, transport))
            .collect();
    }
    let mut layouts = Vec::new();
    for transport in [Transport::Unix, Transport::Udp] {
        for (faces, windows) in [(1, &[1, 16, 256, 4096][..]), (100, &[400][..])] {
            let mut layout =
                Layout { transport, faces, cases: Vec::new(), prefixes: 1, mtu: MTU_MAX };
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

/// One consumer over `transport`, with the payloads and windows of the options. Over AF_XDP a frame is contiguous
/// only if the devices carry short frames, and DPDK's driver accepts no others: longer payloads have devices of their
/// own.
fn by_transport(options: &RelayOptions, transport: Transport) -> Vec<Layout> {
    let is_short = |payload: &&usize| {
        let length = wire::data_length(**payload, options.mixed);
        usize::try_from(length).is_ok_and(|length| length + LINK_HEADER_MAX <= MTU_USUAL)
    };
    let (short, long): (Vec<usize>, Vec<usize>) = match transport {
        Transport::Xdp => options.payloads.iter().partition(is_short),
        Transport::Unix
        | Transport::Tcp
        | Transport::Udp
        | Transport::UdpVeth
        | Transport::Ether
        | Transport::Memif => (Vec::new(), options.payloads.clone()),
    };
    let layouts = [(MTU_USUAL, short), (MTU_MAX, long)].into_iter().map(|(mtu, payloads)| {
        let mut layout = Layout { transport, faces: 1, cases: Vec::new(), prefixes: 1, mtu };
        for payload in payloads {
            for &window in windows(options, &TRANSPORT_WINDOWS) {
                layout.cases.push(CaseShape { payload, window, mixed: false });
                if options.mixed {
                    layout.cases.push(CaseShape { payload, window, mixed: true });
                }
            }
        }
        layout
    });
    layouts.filter(|layout| !layout.cases.is_empty()).collect()
}

/// Returns the programs that can run over this layout's transport, and the reasons for the others. The comparison of
/// workers excludes the dumb relay, which finds the consumer by the name.
pub(super) fn contenders(
    options: &RelayOptions,
    layout: &Layout,
) -> (Vec<MeasuredProgram>, Vec<String>) {
    let (workers, transport) = (&options.workers[..], layout.transport);
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for program in [Program::Namewire, Program::Dumb, Program::Testpmd, Program::Nfd, Program::Ndnd]
    {
        let counts = match (program, workers) {
            (Program::Namewire, [_, ..]) => workers,
            (Program::Dumb, [_, ..]) => &[],
            _ => &[1],
        };
        let (name, over) = (program.name(), transport.name());
        match (excluded(program, options, layout), program.locate()) {
            // One dumb relay is enough.
            (Some(_), _) if transport.excludes(program).is_some() && program.is_dumb() => {}
            (Some(reason), _) => missing.push(format!("{name} over {over}: {reason}")),
            (None, Some(path)) => found.extend(counts.iter().map(|&workers| {
                let executable = path.clone();
                MeasuredProgram { program, executable, workers }
            })),
            (None, None) => {
                let executable = program.executable_name();
                missing.push(format!("{name} over {over}: {executable} was not found on PATH"));
            }
        }
    }
    (found, missing)
}

/// Returns the reason why a program cannot take part, if any.
fn excluded(program: Program, options: &RelayOptions, layout: &Layout) -> Option<&'static str> {
    match program {
        Program::Testpmd if layout.transport == Transport::Xdp && layout.mtu > MTU_USUAL => {
            Some("its driver takes no frames of several pieces")
        }
        Program::Ndnd if options.cs_packets > super::programs::CS_CAPACITY => {
            Some("its Content Store holds no more than 65,535 packets")
        }
        Program::Namewire | Program::Dumb | Program::Testpmd | Program::Nfd | Program::Ndnd => {
            layout.transport.excludes(program)
        }
    }
}
