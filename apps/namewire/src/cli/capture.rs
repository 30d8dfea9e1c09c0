//! `namewire capture`: packets of faces as lines of text, or as a pcapng file.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, FromArgMatches};
use namewire_control::StreamEnd;
use namewire_control::capture::{CaptureFilter, CaptureRecord, CapturedFrame, PcapngReader};
use ndn_packet::Name;
use ndn_sys::clock::Clock;
use ndn_types::FaceUri;

use super::arguments::{at_least_one, name, size};
use super::capture_files::{CaptureFiles, Part, Removed, Rotation};
use super::control::ControlOptions;
use super::failure::{Failure, Outcome};
use super::interrupt;
use super::output::{bytes_for_people, counted, grouped};
use super::packet_line::{Kind, PacketLine};

/// Show or capture the packets of a running forwarder
///
/// Prints one line per packet: time of day (UTC), direction, URI of the peer or process of an application, and what the
/// packet is. With --write, packets are written as pcapng instead: Ethernet frames with EtherType 0x8624, as Wireshark's
/// NDN dissector and ndndump expect; each face is an interface with the URI of its peer as name. `namewire dissect FILE`
/// shows such a file, and so does Wireshark with the dissector of --install-dissector. Ctrl-C ends the capture; the numbers
/// of captured and lost packets are reported at the end.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Capture only this face (FaceId)
    #[arg(long, short, value_name = "FACE-ID")]
    face: Option<u64>,
    #[command(flatten)]
    filter: PacketFilter,
    /// Capture one of this number of packets, chosen at random
    ///
    /// The forwarder chooses from the packets that --face, --name and --type select, and copies no others. --peer selects
    /// afterwards.
    #[arg(long, value_name = "PACKETS", value_parser = at_least_one::<u32>)]
    sample: Option<u32>,
    /// End after this number of packets
    #[arg(long, short, value_name = "PACKETS", value_parser = at_least_one::<u64>)]
    count: Option<u64>,
    /// Output file in pcapng; `-` for standard output
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    write: Option<PathBuf>,
    /// Length to which the forwarder truncates each packet
    #[arg(long, short, value_name = "SIZE", default_value = "64KiB", value_parser = size(1..=1_usize << 20))]
    snap_length: usize,
    #[command(flatten)]
    rotation: Rotation,
    /// Install a dissector for Wireshark and tshark, and end
    ///
    /// A file for this user, ~/.local/lib/wireshark/plugins/namewire-ndn.lua. It shows names and fields of Interests, Data,
    /// Nacks and link headers on Ethernet, UDP and TCP; the filters begin with `ndn.`. Fragments are not reassembled.
    #[arg(long, conflicts_with_all = ["face", "sample", "count", "write", "json", "name", "peer", "kinds"])]
    install_dissector: bool,
    /// Print JSON, one line per packet
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlOptions,
}

/// Selects packets.
#[derive(Args, Debug)]
pub(super) struct PacketFilter {
    /// Only packets whose names have this prefix; fragments have none
    #[arg(long, value_name = "PREFIX", value_parser = name)]
    name: Option<Name>,
    /// Only faces whose peers have this scheme, address or URI, such as udp4 or tcp4://192.0.2.1
    #[arg(long, value_name = "URI")]
    peer: Option<String>,
    /// Only packets of this type; may be repeated
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    kinds: Vec<Kind>,
}

/// The schemes of peers: addresses have the version of IP, applications that of the socket, and some faces have no link.
fn schemes() -> impl Iterator<Item = &'static str> {
    const OTHERS: [&str; 5] = ["udp", "tcp", "fd", "contentstore", "null"];
    FaceUri::SCHEMES.iter().copied().filter(|scheme| !OTHERS.contains(scheme))
}

impl PacketFilter {
    /// Checks that the peers of a forwarder can have the URI; the interfaces of other captures have any name.
    fn check_peer(&self) -> Outcome {
        let Some(peer) = self.peer.as_deref() else { return Ok(()) };
        let (scheme, _) = peer.split_once(':').unwrap_or((peer, ""));
        if schemes().any(|known| known == scheme) {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "--peer {peer}: expected a face URI, such as tcp4://192.0.2.1:6363, its scheme with the address, or its scheme alone; the schemes are {}",
            schemes().collect::<Vec<_>>().join(", ")
        )))
    }

    /// Whether it accepts all packets.
    pub(super) fn is_empty(&self) -> bool {
        self.name.is_none() && self.peer.is_none() && self.kinds.is_empty()
    }

    pub(super) fn accepts(&self, frame: &CapturedFrame<'_>, line: &PacketLine) -> bool {
        let has_name = |prefix: &Name| {
            line.0.name.as_ref().is_some_and(|name| name.starts_with(prefix.as_ref()))
        };
        self.name.as_ref().is_none_or(has_name)
            && self.accepts_peer(frame)
            && (self.kinds.is_empty()
                || self.kinds.iter().any(|kind| kind.captured() == line.0.kind))
    }

    fn accepts_peer(&self, frame: &CapturedFrame<'_>) -> bool {
        self.peer.as_deref().is_none_or(|peer| is_of_peer(frame.interface, peer))
    }

    /// The part that the forwarder selects.
    fn of_forwarder(&self, all: CaptureFilter) -> CaptureFilter {
        let types = self.kinds.iter().map(|kind| kind.captured()).collect();
        CaptureFilter { name: self.name.clone(), types, ..all }
    }
}

/// Whether `uri` is `peer`, or begins with it and has a further part.
fn is_of_peer(uri: &str, peer: &str) -> bool {
    let rest = uri.strip_prefix(peer);
    rest.is_some_and(|rest| {
        rest.is_empty() || rest.starts_with([':', '/']) || peer.ends_with([':', '/'])
    })
}

/// Where packets go.
enum Sink {
    Lines { json: bool },
    Pcapng(Box<CaptureFiles>),
}

impl Sink {
    #[expect(clippy::disallowed_methods, reason = "names of files have the real time")]
    fn open(options: &Options) -> Outcome<Self> {
        let Some(path) = &options.write else { return Ok(Self::Lines { json: options.json }) };
        let files = CaptureFiles::create(path, &options.rotation, Clock::system())?;
        Ok(Self::Pcapng(Box::new(files)))
    }

    fn packet(&mut self, frame: &CapturedFrame<'_>, line: &PacketLine) -> Outcome {
        match self {
            Self::Lines { json: true } => Ok(super::output::print_json_line(line.json(frame))?),
            Self::Lines { json: false } => Ok(super::output::print_line(&line.text(frame))?),
            Self::Pcapng(..) => Ok(()),
        }
    }

    /// A block of the capture.
    fn block(&mut self, part: Part, block: &[u8]) -> Outcome {
        if let Self::Pcapng(files) = self { files.write(part, block) } else { Ok(()) }
    }

    /// The files that were removed.
    fn removed(&self) -> Removed {
        if let Self::Pcapng(files) = self { files.removed() } else { Removed::default() }
    }

    /// Called if the next block has to be waited for: a reader of the file sees all until then.
    fn flush(&mut self) -> Outcome {
        if let Self::Pcapng(files) = self { files.flush() } else { Ok(()) }
    }
}

/// The dissector, in Lua.
const DISSECTOR: &str = include_str!("../../../../dist/wireshark/ndn.lua");
/// Its file in the home directory. Wireshark reads all files of this directory, whatever its version.
const DISSECTOR_FILE: &str = ".local/lib/wireshark/plugins/namewire-ndn.lua";

fn install_dissector() -> Outcome {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.ok_or_else(|| {
        Failure::Usage("HOME is not set: where to install the dissector is unknown".to_owned())
    })?;
    let path = PathBuf::from(home).join(DISSECTOR_FILE);
    let failed = |error: io::Error| Failure::file(path.display(), &error);
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    std::fs::write(&path, DISSECTOR).map_err(failed)?;
    super::output::note(&format_args!(
        "the dissector is {}; Wireshark and tshark read it at their next start",
        path.display()
    ));
    Ok(())
}

/// The options of a command line.
pub(super) fn options<I>(arguments: I) -> Result<Options, clap::Error>
where
    I: IntoIterator<Item: Into<std::ffi::OsString> + Clone>,
{
    let command = Options::augment_args(clap::Command::new("capture").no_binary_name(true));
    Options::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

pub(super) fn run(options: &Options) -> Outcome {
    if options.install_dissector {
        return install_dissector();
    }
    capture(options, |text| super::output::note(&text))
}

/// As [`run`], without the messages for people.
pub(super) fn run_silently(options: &Options) -> Outcome {
    capture(options, |_| ())
}

fn capture(options: &Options, note: fn(&str)) -> Outcome {
    options.filter.check_peer()?;
    if let Some(path) = &options.write {
        options.rotation.check(path)?;
    }
    let client = options.control.connect()?;
    let all = CaptureFilter::new(options.face, options.snap_length, options.sample);
    let (stream, end) = client.start_capture(options.filter.of_forwarder(all))?;
    let mut sink = Sink::open(options)?;
    note("capturing; Ctrl-C ends it");
    let end = Arc::new(end);
    // If the connection is closed already, the loop of `copy` ends.
    let finish = |end: &StreamEnd| drop(end.finish());
    interrupt::on_interrupt({
        let end = Arc::clone(&end);
        move || finish(&end)
    })?;
    let mut counts = Counts::default();
    let copied = copy(stream, &mut sink, options, &mut counts, || finish(&end));
    counts.removed = sink.removed();
    if !matches!(copied, Err(Failure::OutputClosed)) {
        note(&counts.text());
    }
    copied
}

/// Numbers of a capture.
#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    bytes: u64,
    /// Packets of other peers.
    rejected: u64,
    lost: Option<u64>,
    /// Files that are not kept; their packets are among `packets`.
    removed: Removed,
}

impl Counts {
    fn text(&self) -> String {
        let Self { packets, bytes, rejected, lost, removed } = self;
        let mut text =
            format!("{} captured, {}", counted(*packets, "packet"), bytes_for_people(*bytes));
        if removed.files > 0 {
            let files = counted(removed.files, "earlier file");
            text += &format!(
                "; {} of them were in {files}, removed by --files",
                grouped(removed.packets)
            );
        }
        if *rejected > 0 {
            text += &format!("; {} of other peers left out", grouped(*rejected));
        }
        if let Some(lost) = lost {
            text += &format!("; {} lost, because this program was too slow", grouped(*lost));
        }
        text
    }
}

/// Passes packets on as they arrive. After the requested number of packets, `finish` requests the end: the number of
/// lost packets follows the packets that were captured until then.
fn copy(
    stream: impl Read,
    sink: &mut Sink,
    options: &Options,
    counts: &mut Counts,
    finish: impl FnOnce(),
) -> Outcome {
    let mut reader = PcapngReader::new(stream);
    let mut finish = Some(finish);
    loop {
        let is_full = options.count == Some(counts.packets);
        if is_full && let Some(finish) = finish.take() {
            finish();
        }
        // `None` is a packet of another peer.
        let part = match reader.next_record() {
            Ok(None) => return Ok(()),
            Ok(Some(CaptureRecord::Frame(_))) if is_full => None,
            Ok(Some(CaptureRecord::Frame(frame))) => {
                let line = PacketLine::new(frame.packet);
                let is_accepted = options.filter.accepts_peer(&frame);
                let unix_ns = frame.unix_ns;
                if is_accepted {
                    counts.packets += 1;
                    counts.bytes += frame.packet.map_or(0, |packet| packet.len() as u64);
                    sink.packet(&frame, &line)?;
                } else {
                    counts.rejected += 1;
                }
                is_accepted.then_some(Part::Packet { unix_ns })
            }
            Ok(Some(CaptureRecord::Dropped(lost))) => {
                counts.lost = Some(lost).filter(|lost| *lost > 0);
                Some(Part::Statistics)
            }
            Ok(Some(CaptureRecord::Interface)) => Some(Part::Interface),
            Ok(Some(CaptureRecord::Other)) => Some(Part::Header),
            Err(error) => {
                return Err(Failure::Failed(format!("the forwarder ended the capture: {error}")));
            }
        };
        if let Some(part) = part {
            sink.block(part, reader.block())?;
        }
        if reader.is_drained() {
            sink.flush()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use namewire_control::capture::{CapturedPacket, Direction, PcapngWriter};
    use ndn_packet::InterestBuilder;
    use ndn_sys::clock::ManualClock;
    use ndn_types::Timestamp;

    use super::*;

    #[test]
    fn packets_of_other_peers_are_counted_and_not_written() {
        let mut capture = Vec::new();
        let mut writer = PcapngWriter::new(&mut capture, 9000).unwrap();
        for (face_id, peer) in [(301, "unix:///x"), (300, "udp4://192.0.2.1:6363"), (300, "")] {
            let name = "/live/packet".parse().unwrap();
            let interest = InterestBuilder::new(&name).nonce(1).to_vec().unwrap();
            let packet = CapturedPacket {
                face_id,
                direction: Direction::Received,
                unix_ns: 1,
                original_len: interest.len(),
                bytes: interest,
            };
            writer.write(&packet, &peer.into()).unwrap();
        }
        writer.write_dropped(5, 9).unwrap();
        let options = options(["--peer", "udp4", "--count", "1"]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let written = directory.path().join("written.pcapng");
        let clock = ManualClock::new(Timestamp::ZERO, Duration::ZERO);
        let files = CaptureFiles::create(&written, &Rotation::default(), clock.into()).unwrap();
        let mut sink = Sink::Pcapng(Box::new(files));
        let mut counts = Counts::default();
        let mut ends = 0;
        copy(&capture[..], &mut sink, &options, &mut counts, || ends += 1).unwrap();
        assert_eq!((counts.packets, counts.rejected, ends), (1, 1, 1));
        assert_eq!(counts.lost, Some(9), "the number of lost packets is at the end");
        let mut reader = PcapngReader::new(std::fs::File::open(&written).unwrap());
        let mut packets = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            if let CaptureRecord::Frame(frame) = record {
                packets.push((frame.face_id, frame.interface.to_owned()));
            }
        }
        assert_eq!(packets, [(Some(300), "udp4://192.0.2.1:6363".to_owned())]);
    }

    #[test]
    fn rotation_is_checked_before_the_capture_starts() {
        for arguments in
            [["--write", "-", "--rotate-size", "9kB"], ["--write", "x", "--files", "2"]]
        {
            let unusable = options(arguments.iter().chain(&["--control", "/nowhere"])).unwrap();
            assert!(matches!(run_silently(&unusable), Err(Failure::Usage(_))));
        }
    }

    #[test]
    fn peer_is_selected_by_scheme_address_or_uri() {
        let uri = "tcp4://192.0.2.10:6363";
        for peer in ["tcp4", "tcp4://", "tcp4://192.0.2.10", "tcp4://192.0.2.10:", uri] {
            assert!(is_of_peer(uri, peer), "{peer}");
        }
        for peer in ["tcp", "tcp4://192.0.2.1", "tcp4://192.0.2.10:636", "udp4"] {
            assert!(!is_of_peer(uri, peer), "{peer}");
        }
        assert!(is_of_peer("unix:///run/nfd/nfd.sock", "unix:///run"));
    }

    #[test]
    fn peer_without_a_scheme_is_refused() {
        let checked = |peer: &str| options(["--peer", peer]).unwrap().filter.check_peer();
        for peer in
            ["udp4", "ether://[02:00:00:00:00:01]", "unix:///run/nfd/nfd.sock", "udp4+dev://eth0"]
        {
            assert!(checked(peer).is_ok(), "{peer}");
        }
        for peer in ["192.0.2.1", "tcp", "nonsense", "", "://"] {
            let refused = checked(peer).unwrap_err();
            assert!(matches!(refused, Failure::Usage(_)), "{peer}");
        }
    }

    #[test]
    fn counts_of_zero_are_not_reported() {
        let counts = Counts { packets: 1, bytes: 2048, ..Counts::default() };
        assert_eq!(counts.text(), "1 packet captured, 2.0 KiB");
        let removed = Removed { files: 2, packets: 1100 };
        let counts = Counts { packets: 1200, bytes: 10, rejected: 3, lost: Some(4), removed };
        assert_eq!(
            counts.text(),
            "1 200 packets captured, 10 B; 1 100 of them were in 2 earlier files, removed by --files; 3 of other peers left \
             out; 4 lost, because this program was too slow"
        );
    }
}
