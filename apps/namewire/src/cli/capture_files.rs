//! The pcapng files of a capture, of which each is complete.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ndn_sys::clock::Clock;

use super::arguments::{at_least_one, positive_duration, size};
use super::failure::{Failure, Outcome};
use super::nfdc::timestamp;

/// When a capture goes on in another file.
#[derive(Args, Debug, Clone, Default)]
pub(super) struct Rotation {
    /// Begin a new file before one becomes longer than this; each has one packet at least
    ///
    /// Names of files have their number from 1 and the time at which they begin (UTC), as those of dumpcap: --write
    /// packets.pcapng writes packets_00001_20261129091500.pcapng and so on. Each is complete. Files that exist are kept.
    #[arg(long, value_name = "SIZE", requires = "write", value_parser = size(1..=1_u64 << 50))]
    rotate_size: Option<u64>,
    /// Begin a new file with the first packet that is this much later than the first one of a file
    #[arg(long, value_name = "DURATION", requires = "write", value_parser = positive_duration)]
    rotate_time: Option<Duration>,
    /// Keep the latest files only, this number of them; with --rotate-size or --rotate-time
    #[arg(long, value_name = "FILES", requires = "write", value_parser = at_least_one::<usize>)]
    files: Option<usize>,
}

impl Rotation {
    fn is_on(&self) -> bool {
        self.rotate_size.is_some() || self.rotate_time.is_some()
    }

    /// Checks whether it can be used with an output file; `-` is standard output.
    pub(super) fn check(&self, path: &Path) -> Outcome {
        let reason = match self.is_on() {
            true if path.as_os_str() == "-" => "standard output cannot be rotated",
            false if self.files.is_some() => "--files needs --rotate-size or --rotate-time",
            true | false => return Ok(()),
        };
        Err(Failure::Usage(reason.to_owned()))
    }
}

/// The use of a block of a capture.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// The first block of each file.
    Header,
    /// An interface. Files with packets of it have it.
    Interface,
    /// A packet of this time.
    Packet { unix_ns: u64 },
    /// Statistics of the whole capture, at the end of the last file.
    Statistics,
}

/// The number of the interface in the block of a packet.
const INTERFACE: Range<usize> = 8..12;

/// The files, of which one is open.
pub(super) struct CaptureFiles {
    /// As given.
    path: PathBuf,
    rotation: Rotation,
    /// Of the names of rotated files.
    clock: Clock,
    output: BufWriter<Box<dyn Write>>,
    /// Those that exist, the open one last; empty without rotation.
    files: VecDeque<NumberedFile>,
    removed: Removed,
    number: u64,
    header: Vec<u8>,
    /// The interfaces of the capture by their number.
    interfaces: Vec<Vec<u8>>,
    /// The numbers that the open file gives to interfaces, by their number in the capture.
    numbers: HashMap<u32, u32>,
    /// Length of the open file, bytes.
    length: u64,
    /// Time of its first packet.
    first_ns: Option<u64>,
}

/// A file of a rotated capture.
struct NumberedFile {
    path: PathBuf,
    packets: u64,
}

/// The files that were removed because later ones are kept.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) files: u64,
    pub(super) packets: u64,
}

impl CaptureFiles {
    /// Creates the first file; `-` is standard output.
    pub(super) fn create(path: &Path, rotation: &Rotation, clock: Clock) -> Outcome<Self> {
        let mut files = Self {
            path: path.to_owned(),
            rotation: rotation.clone(),
            clock,
            output: BufWriter::new(Box::new(io::sink())),
            files: VecDeque::new(),
            removed: Removed::default(),
            number: 0,
            header: Vec::new(),
            interfaces: Vec::new(),
            numbers: HashMap::new(),
            length: 0,
            first_ns: None,
        };
        if rotation.is_on() {
            files.rotate()?;
        } else if path.as_os_str() == "-" {
            files.output = BufWriter::new(Box::new(io::stdout().lock()));
        } else {
            files.output = opened(path, File::create(path))?;
        }
        Ok(files)
    }

    /// Writes a block, to another file if the open one is full.
    pub(super) fn write(&mut self, part: Part, block: &[u8]) -> Outcome {
        match part {
            Part::Header => self.header = block.to_vec(),
            Part::Interface => {
                self.interfaces.push(block.to_vec());
                return Ok(());
            }
            Part::Packet { unix_ns } => return self.write_packet(unix_ns, block),
            // They name the first interface.
            Part::Statistics if self.numbers.is_empty() => {
                self.number_of(0)?;
            }
            Part::Statistics => {}
        }
        self.append(block)
    }

    fn write_packet(&mut self, unix_ns: u64, block: &[u8]) -> Outcome {
        let Rotation { rotate_size, rotate_time, .. } = self.rotation;
        let interface = block.get(INTERFACE).and_then(|number| number.try_into().ok());
        let interface = interface.map_or(0, u32::from_le_bytes);
        let description = match self.numbers.contains_key(&interface) {
            true => 0,
            false => length_of(self.description_of(interface)),
        };
        let length = self.length + description + length_of(block);
        let is_full = self.first_ns.is_some_and(|first_ns| {
            let age = Duration::from_nanos(unix_ns.saturating_sub(first_ns));
            rotate_size.is_some_and(|size| length > size)
                || rotate_time.is_some_and(|time| age >= time)
        });
        if is_full {
            self.rotate()?;
        }
        self.first_ns.get_or_insert(unix_ns);
        let number = self.number_of(interface)?;
        let mut block = block.to_vec();
        if let Some(field) = block.get_mut(INTERFACE) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        if let Some(file) = self.files.back_mut() {
            file.packets += 1;
        }
        self.append(&block)
    }

    /// The files that were removed.
    pub(super) fn removed(&self) -> Removed {
        self.removed
    }

    fn description_of(&self, interface: u32) -> &[u8] {
        self.interfaces.get(interface as usize).map_or(&[], Vec::as_slice)
    }

    /// The number of an interface in the open file, which has it from now on.
    fn number_of(&mut self, interface: u32) -> Outcome<u32> {
        if let Some(number) = self.numbers.get(&interface) {
            return Ok(*number);
        }
        let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        self.numbers.insert(interface, number);
        let description = self.description_of(interface).to_vec();
        self.append(&description)?;
        Ok(number)
    }

    fn append(&mut self, block: &[u8]) -> Outcome {
        self.length += length_of(block);
        let written = self.output.write_all(block);
        self.check(written)
    }

    /// Lets readers of the file see all that was written.
    pub(super) fn flush(&mut self) -> Outcome {
        let flushed = self.output.flush();
        self.check(flushed)
    }

    /// Ends the open file, deletes those that are too many, and begins the next one.
    fn rotate(&mut self) -> Outcome {
        self.flush()?;
        while self.rotation.files.is_some_and(|files| self.files.len() >= files) {
            let Some(oldest) = self.files.pop_front() else { break };
            match std::fs::remove_file(&oldest.path) {
                Ok(()) => {
                    self.removed.files += 1;
                    self.removed.packets += oldest.packets;
                }
                // Somebody has taken it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Failure::file(oldest.path.display(), &error)),
            }
        }
        self.number += 1;
        let path = numbered(&self.path, self.number, self.clock.unix_time());
        self.output = opened(&path, File::create_new(&path))?;
        self.files.push_back(NumberedFile { path, packets: 0 });
        self.numbers.clear();
        (self.length, self.first_ns) = (0, None);
        let header = std::mem::take(&mut self.header);
        self.write(Part::Header, &header)
    }

    fn check(&self, written: io::Result<()>) -> Outcome {
        written.map_err(|error| match error.kind() == io::ErrorKind::BrokenPipe {
            true => Failure::OutputClosed,
            false => {
                let path = self.files.back().map_or(&self.path, |file| &file.path);
                Failure::file(path.display(), &error)
            }
        })
    }
}

fn opened(path: &Path, file: io::Result<File>) -> Outcome<BufWriter<Box<dyn Write>>> {
    let file = file.map_err(|error| Failure::file(path.display(), &error))?;
    Ok(BufWriter::new(Box::new(file)))
}

fn length_of(block: &[u8]) -> u64 {
    u64::try_from(block.len()).unwrap_or(u64::MAX)
}

/// The name of a file of a rotated capture that begins at this Unix time: `packets_00001_20261129091500.pcapng`.
fn numbered(path: &Path, number: u64, time: Duration) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("_{number:05}_{}", timestamp(time.as_secs() * 1000).replace('T', "")));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use namewire_control::capture::{
        CaptureRecord, CapturedPacket, Direction, PcapngReader, PcapngWriter,
    };
    use ndn_sys::clock::ManualClock;
    use ndn_types::Timestamp;

    use super::*;

    /// Names of files, with the interfaces and bytes of their packets.
    type Files = Vec<(String, Vec<(String, u8)>)>;

    /// The time `seconds` after 2026-11-21 02:37:38 UTC.
    fn clock(seconds: u64) -> Clock {
        ManualClock::new(Timestamp::ZERO, Duration::from_secs(1_795_228_658 + seconds)).into()
    }

    /// Writes packets with one byte each, one in a second, in turn of three faces, and returns the name of each file with
    /// the interfaces and bytes of its packets.
    fn files_of(rotation: Rotation, packets: u8) -> Files {
        captured(rotation, packets).0
    }

    /// As [`files_of`], with the files that were removed.
    fn captured(rotation: Rotation, packets: u8) -> (Files, Removed) {
        let mut capture = Vec::new();
        let mut writer = PcapngWriter::new(&mut capture, 9000).unwrap();
        for number in 0..packets {
            let (face_id, unix_ns) = (u64::from(number % 3), u64::from(number) * 1_000_000_000);
            let (bytes, direction) = (vec![number], Direction::Sent);
            let packet = CapturedPacket { face_id, direction, unix_ns, bytes, original_len: 1 };
            writer.write(&packet, &format!("peer{face_id}").into()).unwrap();
        }
        writer.write_dropped(1, 7).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("packets.pcapng");
        let mut files = CaptureFiles::create(&path, &rotation, clock(0)).unwrap();
        let mut reader = PcapngReader::new(&capture[..]);
        while let Some(record) = reader.next_record().unwrap() {
            let part = match record {
                CaptureRecord::Frame(frame) => Part::Packet { unix_ns: frame.unix_ns },
                CaptureRecord::Dropped(_) => Part::Statistics,
                CaptureRecord::Interface => Part::Interface,
                CaptureRecord::Other => Part::Header,
            };
            files.write(part, reader.block()).unwrap();
        }
        files.flush().unwrap();
        let found = std::fs::read_dir(directory.path()).unwrap().map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), packets_of(&entry.path()))
        });
        let mut found: Vec<_> = found.collect();
        found.sort();
        (found, files.removed())
    }

    fn packets_of(path: &Path) -> Vec<(String, u8)> {
        let mut reader = PcapngReader::new(File::open(path).unwrap());
        let mut packets = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            if let CaptureRecord::Frame(frame) = record {
                packets.push((frame.interface.to_owned(), frame.packet.unwrap()[0]));
            }
        }
        packets
    }

    fn expected(files: &[(u8, Range<u8>)]) -> Files {
        let packet = |number: u8| (format!("peer{}", number % 3), number);
        let file = |(number, packets): &(u8, Range<u8>)| {
            (
                format!("packets_{number:05}_20261121023738.pcapng"),
                packets.clone().map(packet).collect(),
            )
        };
        files.iter().map(file).collect()
    }

    #[test]
    fn files_are_complete_numbered_and_no_longer_than_their_size() {
        let rotation = Rotation { rotate_size: Some(300), ..Rotation::default() };
        let files = files_of(rotation, 6);
        assert!((2..6).contains(&files.len()), "{files:?}");
        let mut from = 0;
        for (number, (name, packets)) in (1..).zip(&files) {
            let to = from + u8::try_from(packets.len()).unwrap();
            assert_eq!([(name.clone(), packets.clone())], *expected(&[(number, from..to)]));
            from = to;
        }
        assert_eq!(from, 6, "no packet is missing");
        // A packet that no file has room for.
        let rotation = Rotation { rotate_size: Some(1), ..Rotation::default() };
        assert_eq!(files_of(rotation, 3), expected(&[(1, 0..1), (2, 1..2), (3, 2..3)]));
    }

    #[test]
    fn latest_files_of_a_duration_are_kept() {
        let rotate_time = Some(Duration::from_secs(3));
        let rotation = Rotation { rotate_time, files: Some(2), ..Rotation::default() };
        let (files, removed) = captured(rotation, 10);
        assert_eq!(files, expected(&[(3, 6..9), (4, 9..10)]));
        assert_eq!(removed, Removed { files: 2, packets: 6 });
    }

    #[test]
    fn capture_without_rotation_is_one_file() {
        let (name, packets) = files_of(Rotation::default(), 4).pop().unwrap();
        assert_eq!((name.as_str(), packets.len()), ("packets.pcapng", 4));
        assert_eq!(files_of(Rotation::default(), 0), [("packets.pcapng".to_owned(), Vec::new())]);
        let files = Rotation { files: Some(2), ..Rotation::default() };
        assert!(matches!(files.check(Path::new("/nowhere/x")), Err(Failure::Usage(_))));
        let rotated = Rotation { rotate_size: Some(9), ..Rotation::default() };
        assert!(matches!(rotated.check(Path::new("-")), Err(Failure::Usage(_))));
        rotated.check(Path::new("/nowhere/x")).unwrap();
    }

    #[test]
    fn rotated_files_of_an_earlier_capture_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("packets");
        let rotation = Rotation { rotate_size: Some(300), files: Some(1), ..Rotation::default() };
        let create = |seconds| CaptureFiles::create(&path, &rotation, clock(seconds));
        create(0).unwrap();
        assert!(create(0).is_err(), "it has the name of the first file");
        create(1).unwrap();
        let names = ["packets_00001_20261121023738", "packets_00001_20261121023739"];
        assert!(names.iter().all(|name| directory.path().join(name).exists()));
    }
}
