//! `namewire capture`: writes packets of faces to a pcapng file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use clap::Args;

use super::arguments::size;
use super::control::ControlOptions;
use super::failure::{Failure, Outcome};
use super::interrupt;
use super::output::bytes_for_people;

/// Capture the packets of a running forwarder as pcapng
///
/// Packets are written as Ethernet frames with EtherType 0x8624, as Wireshark's NDN dissector and
/// ndndump expect; each face is an interface. Ctrl-C ends the capture.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Capture only this face (FaceId)
    #[arg(long, short, value_name = "FACE-ID")]
    face: Option<u64>,
    /// Output file; `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    write: PathBuf,
    /// Length to which each packet is truncated
    #[arg(long, short, value_name = "SIZE", default_value = "64KiB", value_parser = size(1..=1 << 20))]
    snap_length: usize,
    #[command(flatten)]
    control: ControlOptions,
}

pub(super) fn run(options: &Options) -> Outcome {
    let client = options.control.connect()?;
    let (mut stream, end) = client.start_capture(options.face, options.snap_length)?;
    let to_stdout = options.write.as_os_str() == "-";
    let mut output: Box<dyn Write> = if to_stdout {
        Box::new(io::stdout().lock())
    } else {
        Box::new(
            File::create(&options.write)
                .map_err(|error| Failure::file(options.write.display(), &error))?,
        )
    };
    super::output::note(&"capturing; Ctrl-C ends it");
    interrupt::on_interrupt(move || {
        // If the connection is closed, the loop below ends.
        let _ = end.finish();
    })?;
    let written = copy(&mut stream, &mut output, &options.write)?;
    super::output::note(&format_args!("{} captured", bytes_for_people(written)));
    Ok(())
}

/// Writes data as it arrives, so that a reader of the file sees it.
fn copy(stream: &mut impl Read, output: &mut impl Write, path: &std::path::Path) -> Outcome<u64> {
    let mut buffer = vec![0; 64 * 1024];
    let mut written = 0;
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Ok(written),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(Failure::Failed(format!("the forwarder ended the capture: {error}")));
            }
        };
        let wrote = output.write_all(&buffer[..count]).and_then(|()| output.flush());
        match wrote {
            Ok(()) => written += u64::try_from(count).unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Err(Failure::OutputClosed);
            }
            Err(error) => return Err(Failure::file(path.display(), &error)),
        }
    }
}
