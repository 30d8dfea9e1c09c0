//! `namewire extcap`: the interface by which Wireshark lists a forwarder and captures from it (extcap(4) of Wireshark).
//!
//! Wireshark runs the programs in its directory of extcap with these options. A link `namewire-extcap` to this program
//! there is enough.

use std::path::PathBuf;

use clap::Args;

use super::capture;
use super::failure::{Failure, Outcome};
use super::output;

/// The interface that Wireshark lists.
const INTERFACE: &str = "namewire";
/// LINKTYPE_ETHERNET, the link type of captures.
const LINK_TYPE: u32 = 1;

/// The capture interface of Wireshark, which runs it; see `namewire capture`
///
/// A link to this program with the name namewire-extcap in a directory that Wireshark shows as "Extcap path" (Help, About,
/// Folders) makes the forwarder an interface of Wireshark and tshark.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(super) struct Options {
    /// List the interfaces
    #[arg(long)]
    extcap_interfaces: bool,
    /// List the link types of the interface
    #[arg(long)]
    extcap_dlts: bool,
    /// List the options of the interface
    #[arg(long)]
    extcap_config: bool,
    /// Capture into the FIFO
    #[arg(long, requires = "fifo")]
    capture: bool,
    /// The interface
    #[arg(long, value_name = "NAME")]
    extcap_interface: Option<String>,
    /// FIFO to write pcapng to
    #[arg(long, value_name = "PATH")]
    fifo: Option<PathBuf>,
    /// Version of Wireshark
    #[arg(long, value_name = "VERSION", num_args = 0..=1)]
    extcap_version: Option<String>,
    /// Capture filter of Wireshark, which is not supported
    #[arg(long, value_name = "FILTER")]
    extcap_capture_filter: Option<String>,
    /// Only this face (FaceId)
    #[arg(long, value_name = "FACE-ID")]
    face: Option<String>,
    /// Only packets whose names have this prefix
    #[arg(long, value_name = "PREFIX")]
    name: Option<String>,
    /// Only faces whose peers have this scheme, address or URI
    #[arg(long, value_name = "URI")]
    peer: Option<String>,
    /// One of this number of packets
    #[arg(long, value_name = "PACKETS")]
    sample: Option<String>,
    /// Control socket of the forwarder
    #[arg(long, value_name = "PATH")]
    control: Option<String>,
}

/// An option of the interface, as Wireshark shows it: name, label, type, help.
const ARGUMENTS: [(&str, &str, &str, &str); 5] = [
    (
        "name",
        "Names under",
        "string",
        "Only packets whose names have this prefix, such as /example",
    ),
    ("face", "Face", "unsigned", "Only the face with this FaceId"),
    (
        "peer",
        "Peer",
        "string",
        "Only faces whose peers have this scheme, address or URI, such as udp4",
    ),
    ("sample", "Sample", "unsigned", "One of this number of packets, chosen at random"),
    ("control", "Control socket", "string", "Of the forwarder; empty for the usual one"),
];

pub(super) fn run(options: &Options) -> Outcome {
    if options.extcap_interfaces {
        let version = env!("CARGO_PKG_VERSION");
        output::print_line(&format!("extcap {{version={version}}}{{display=Namewire}}"))?;
        let line = format!("interface {{value={INTERFACE}}}{{display=Namewire forwarder}}");
        return Ok(output::print_line(&line)?);
    }
    match options.extcap_interface.as_deref() {
        Some(INTERFACE) => {}
        Some(other) => {
            return Err(Failure::Usage(format!("{other} is not an interface; {INTERFACE} is")));
        }
        None => {
            let text = "Wireshark runs this command; `namewire capture` captures without it";
            return Err(Failure::Usage(text.to_owned()));
        }
    }
    if options.extcap_dlts {
        let line = format!("dlt {{number={LINK_TYPE}}}{{name=EN10MB}}{{display=Ethernet, NDN}}");
        return Ok(output::print_line(&line)?);
    }
    if options.extcap_config {
        for (number, (name, label, kind, help)) in ARGUMENTS.iter().enumerate() {
            output::print_line(&format!(
                "arg {{number={number}}}{{call=--{name}}}{{display={label}}}{{type={kind}}}{{tooltip={help}}}"
            ))?;
        }
        return Ok(());
    }
    match (&options.fifo, options.capture) {
        (Some(fifo), true) => options.capture(fifo),
        // Wireshark also asks whether a capture filter is usable.
        _ if given(&options.extcap_capture_filter).is_some() => {
            Err(Failure::Usage(NO_CAPTURE_FILTER.to_owned()))
        }
        _ => Ok(()),
    }
}

const NO_CAPTURE_FILTER: &str =
    "capture filters are not supported: use the options of the interface, or a display filter";

/// A value that is not empty.
fn given(value: &Option<String>) -> Option<&str> {
    value.as_deref().map(str::trim).filter(|value| !value.is_empty())
}

impl Options {
    fn capture(&self, fifo: &std::path::Path) -> Outcome {
        if given(&self.extcap_capture_filter).is_some() {
            return Err(Failure::Usage(NO_CAPTURE_FILTER.to_owned()));
        }
        let mut arguments = vec!["--write".into(), fifo.as_os_str().to_owned()];
        let values = [
            ("--face", &self.face),
            ("--name", &self.name),
            ("--peer", &self.peer),
            ("--sample", &self.sample),
            ("--control", &self.control),
        ];
        for (option, value) in values {
            // The value zero of a number that was left out.
            let is_number = matches!(option, "--face" | "--sample");
            let value = given(value).filter(|value| !is_number || *value != "0");
            if let Some(value) = value {
                arguments.extend([option.into(), value.into()]);
            }
        }
        capture::run_silently(&capture::options(arguments).map_err(|error| {
            Failure::Usage(error.render().to_string().lines().next().unwrap_or_default().to_owned())
        })?)
    }
}
