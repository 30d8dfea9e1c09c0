//! Which programs and which cases.

use std::path::PathBuf;

use super::link::{MTU_MAX, MTU_USUAL};
use super::programs::Program;
use super::{FIB_ENTRIES, RelayOptions, Transport, wire};

/// A link header takes no more than this in a frame of the bench, bytes.
const LINK_HEADER_MAX: usize = 32;

/// Sockets that stay the same over several cases.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// What the exchanges go over.
    pub(super) transport: Transport,
    /// Consumer faces.
    pub(super) faces: u32,
    /// What is measured over them.
    pub(super) cases: Vec<CaseShape>,
    /// Routes, with as many prefixes in the names.
    pub(super) prefixes: u32,
    /// Payload of a frame, where there are any, bytes.
    pub(super) mtu: usize,
}

/// Exchanges in flight where nothing else is asked for: a few bursts, and more than queues hold.
const WORKERS_WINDOWS: [u32; 2] = [256, 4096];
const TRANSPORT_WINDOWS: [u32; 1] = [256];

/// The windows that were asked for, or else the usual ones.
fn windows<'a>(options: &'a RelayOptions, usual: &'a [u32]) -> &'a [u32] {
    if options.windows.is_empty() { usual } else { &options.windows }
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
    /// The name of a case, without its program.
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

/// Every layout with the cases that the options select.
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

/// One consumer over `transport`, with the payloads and windows that the options tell. Over AF_XDP a
/// frame is in one piece only where the devices carry short ones, and DPDK's driver takes no others: longer
/// payloads have devices of their own.
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

/// The programs that can be run here over this layout's transport, and which cannot and why. Where workers
/// are compared, the dumb relay does not take part: it finds the consumer by the name.
pub(super) fn contenders(options: &RelayOptions, layout: &Layout) -> (Vec<Contender>, Vec<String>) {
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
                Contender { program, executable, workers }
            })),
            (None, None) => {
                let executable = program.executable_name();
                missing.push(format!("{name} over {over}: {executable} was not found on PATH"));
            }
        }
    }
    (found, missing)
}

/// Why a program cannot take part, if so.
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
