//! `namewire capture`: packets of faces as lines of text, or as a pcapng file.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, FromArgMatches};
use namewire_control::StreamEnd;
use namewire_control::capture::{CaptureRecord, CapturedFrame, PcapngReader};
use ndn_packet::Name;

use super::arguments::{at_least_one, name, size};
use super::control::ControlOptions;
use super::failure::{Failure, Outcome};
use super::interrupt;
use super::output::{bytes_for_people, counted, grouped};
use super::packet_line::{Kind, PacketLine};

/// Show or capture the packets of a running forwarder
///
/// Prints one line per packet: time of day (UTC), direction, URI of the peer, and what the packet is. With --write,
/// packets are written as pcapng instead: Ethernet frames with EtherType 0x8624, as Wireshark's NDN dissector and
/// ndndump expect; each face is an interface with the URI of its peer as name. `namewire dissect FILE` shows such a
/// file, and so does Wireshark with the dissector of --install-dissector. Ctrl-C ends the capture; the numbers of captured and lost packets are reported at the end.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Capture only this face (FaceId)
    #[arg(long, short, value_name = "FACE-ID")]
    face: Option<u64>,
    #[command(flatten)]
    filter: PacketFilter,
    /// End after this number of packets
    #[arg(long, short, value_name = "PACKETS", value_parser = at_least_one::<u64>)]
    count: Option<u64>,
    /// Output file in pcapng; `-` for standard output
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    write: Option<PathBuf>,
    /// Length to which each packet is truncated; not with --name or --type, which need whole packets
    #[arg(long, short, value_name = "SIZE", default_value = "64KiB", value_parser = size(1..=1_usize << 20), conflicts_with_all = ["name", "kinds"])]
    snap_length: usize,
    /// Install a dissector for Wireshark and tshark, and end
    ///
    /// A file for this user, ~/.local/lib/wireshark/plugins/namewire-ndn.lua. It shows names and fields of Interests, Data,
    /// Nacks and link headers on Ethernet, UDP and TCP; the filters begin with `ndn.`. Fragments are not reassembled.
    #[arg(long, conflicts_with_all = ["face", "count", "write", "json", "name", "peer", "kinds"])]
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

impl PacketFilter {
    /// Whether it accepts all packets.
    pub(super) fn is_empty(&self) -> bool {
        self.name.is_none() && self.peer.is_none() && self.kinds.is_empty()
    }

    pub(super) fn accepts(&self, frame: &CapturedFrame<'_>, line: &PacketLine) -> bool {
        let has_name = |prefix: &Name| {
            line.0.name.as_ref().is_some_and(|name| name.starts_with(prefix.as_ref()))
        };
        self.name.as_ref().is_none_or(has_name)
            && self.peer.as_deref().is_none_or(|peer| is_of_peer(frame.interface, peer))
            && (self.kinds.is_empty()
                || self.kinds.iter().any(|kind| kind.captured() == line.0.kind))
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
    Pcapng(BufWriter<Box<dyn Write>>, PathBuf),
}

impl Sink {
    fn open(options: &Options) -> Outcome<Self> {
        let Some(path) = &options.write else { return Ok(Self::Lines { json: options.json }) };
        let output: Box<dyn Write> = match path.as_os_str() == "-" {
            true => Box::new(io::stdout().lock()),
            false => {
                Box::new(File::create(path).map_err(|error| Failure::file(path.display(), &error))?)
            }
        };
        Ok(Self::Pcapng(BufWriter::new(output), path.clone()))
    }

    fn packet(&mut self, frame: &CapturedFrame<'_>, line: &PacketLine) -> Outcome {
        match self {
            Self::Lines { json: true } => {
                Ok(super::output::print_line(&line.json(frame).to_string())?)
            }
            Self::Lines { json: false } => Ok(super::output::print_line(&line.text(frame))?),
            Self::Pcapng(..) => Ok(()),
        }
    }

    /// A block of the capture, unless it is that of a packet that the filter rejects. `is_last` is set if the next
    /// block has to be waited for: a reader of the file sees all until then.
    fn block(&mut self, block: &[u8], is_last: bool) -> Outcome {
        let Self::Pcapng(output, path) = self else { return Ok(()) };
        let written = output.write_all(block);
        let written = written.and_then(|()| if is_last { output.flush() } else { Ok(()) });
        written.map_err(|error| match error.kind() == io::ErrorKind::BrokenPipe {
            true => Failure::OutputClosed,
            false => Failure::file(path.display(), &error),
        })
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
    let client = options.control.connect()?;
    let (stream, end) = client.start_capture(options.face, options.snap_length)?;
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
    /// Packets that the filter rejected.
    rejected: u64,
    lost: Option<u64>,
}

impl Counts {
    fn text(&self) -> String {
        let Self { packets, bytes, rejected, lost } = self;
        let mut text =
            format!("{} captured, {}", counted(*packets, "packet"), bytes_for_people(*bytes));
        if *rejected > 0 {
            text += &format!("; {} rejected by the filter", grouped(*rejected));
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
        let is_accepted = match reader.next_record() {
            Ok(None) => return Ok(()),
            Ok(Some(CaptureRecord::Frame(_))) if is_full => false,
            Ok(Some(CaptureRecord::Frame(frame))) => {
                let line = PacketLine::new(frame.packet);
                let is_accepted = options.filter.accepts(&frame, &line);
                if is_accepted {
                    counts.packets += 1;
                    counts.bytes += frame.packet.map_or(0, |packet| packet.len() as u64);
                    sink.packet(&frame, &line)?;
                } else {
                    counts.rejected += 1;
                }
                is_accepted
            }
            Ok(Some(CaptureRecord::Dropped(lost))) => {
                counts.lost = Some(lost).filter(|lost| *lost > 0);
                true
            }
            Ok(Some(CaptureRecord::Other)) => true,
            Err(error) => {
                return Err(Failure::Failed(format!("the forwarder ended the capture: {error}")));
            }
        };
        let is_last = reader.is_drained();
        if is_accepted {
            sink.block(reader.block(), is_last)?;
        } else if is_last {
            sink.block(&[], true)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use namewire_control::capture::{CapturedPacket, Direction, PcapngWriter};
    use ndn_packet::InterestBuilder;

    use super::*;

    #[test]
    fn packets_that_the_filter_rejects_are_counted_and_not_written() {
        let mut capture = Vec::new();
        let mut writer = PcapngWriter::new(&mut capture, 9000).unwrap();
        for name in ["/other", "/live/packet", "/live/packet"] {
            let interest = InterestBuilder::new(&name.parse().unwrap()).nonce(1).to_vec().unwrap();
            let packet = CapturedPacket {
                face_id: 300,
                direction: Direction::Received,
                unix_ns: 1,
                original_len: interest.len(),
                bytes: interest,
            };
            writer.write(&packet, "udp4://192.0.2.1:6363").unwrap();
        }
        writer.write_dropped(5, 9).unwrap();
        let options = options(["--name", "/live", "--type", "interest", "--count", "1"]).unwrap();
        let mut sink = Sink::Pcapng(BufWriter::new(Box::new(io::sink())), PathBuf::new());
        let mut counts = Counts::default();
        let mut ends = 0;
        copy(&capture[..], &mut sink, &options, &mut counts, || ends += 1).unwrap();
        assert_eq!((counts.packets, counts.rejected, ends), (1, 1, 1));
        assert_eq!(counts.lost, Some(9), "the number of lost packets is at the end");
    }

    #[test]
    fn filters_that_need_whole_packets_exclude_a_snap_length() {
        assert!(options(["--snap-length", "100B", "--peer", "udp4"]).is_ok());
        assert!(options(["--snap-length", "100B", "--name", "/a"]).is_err());
        assert!(options(["--snap-length", "100B", "--type", "data"]).is_err());
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
    fn counts_of_zero_are_not_reported() {
        let counts = Counts { packets: 1, bytes: 2048, ..Counts::default() };
        assert_eq!(counts.text(), "1 packet captured, 2.0 KiB");
        let counts = Counts { packets: 1200, bytes: 10, rejected: 3, lost: Some(4) };
        assert_eq!(
            counts.text(),
            "1 200 packets captured, 10 B; 3 rejected by the filter; 4 lost, because this program was too slow"
        );
    }
}
