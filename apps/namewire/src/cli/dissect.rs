//! `namewire dissect`: shows the elements of a packet.

use std::io::{ErrorKind, Write};
use std::path::Path;

use clap::{Args, ValueEnum};
use ndn_packet::DecodeError;
use ndn_packet::dissect::{Element, Meaning, dissect};
use serde_json::{Value, json};

use super::arguments::from_base64;
use super::capture::PacketFilter;
use super::failure::{Failure, Outcome};
use super::packet_line::PacketLine;
use super::{input, output};
use namewire_control::capture::{CaptureRecord, PCAPNG_MAGIC, PcapngReader};

/// Show every element of NDN packets with its offset, and format errors
///
/// INPUT is a file, `-` for standard input, or packets in hexadecimal or Base64. It may hold several packets. A
/// malformed packet is shown up to the error, and the exit status is 2, also if a capture has one. A capture (pcapng, of `namewire capture` or
/// Wireshark) is shown packet by packet, below a line with time and peer; the options --name, --peer and --type select
/// packets of it. Of several inputs, each is shown below its name; one that cannot be shown is reported, and the others
/// follow.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// A file, `-`, or the packet itself in hexadecimal or Base64
    #[arg(default_value = "-", value_name = "INPUT")]
    inputs: Vec<String>,
    /// Encoding of the input
    #[arg(long, short, value_enum, default_value = "auto")]
    format: Format,
    #[command(flatten)]
    filter: PacketFilter,
    /// Print JSON: type, name, offset, length (of the value), and value and hex or nested elements; of several inputs a
    /// list, with the input of each
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Binary unless it is text, then hexadecimal if possible, otherwise Base64
    Auto,
    /// Binary
    Binary,
    /// Hexadecimal digits; white space, commas, colons and 0x are ignored
    Hex,
    /// Base64, standard or URL-safe
    Base64,
}

pub(super) fn run(options: &Options) -> Outcome {
    let are_several = options.inputs.len() > 1;
    let mut values = Vec::new();
    let mut failed = None;
    for (number, input) in options.inputs.iter().enumerate() {
        if are_several && !options.json {
            let gap = if number > 0 { "\n" } else { "" };
            output::print_line(&format!("{gap}{}:", output::without_control(describe(input))))?;
        }
        let ended = show(input, options, &mut values);
        match ended {
            Err(Failure::OutputClosed) => return ended,
            Err(failure) => {
                if let Some(earlier) = failed.replace(failure) {
                    output::note(&format_args!("namewire: {earlier}"));
                }
            }
            Ok(()) => {}
        }
    }
    if options.json && are_several {
        output::print_json(&Value::Array(values))?;
    } else if let Some(value) = values.pop() {
        output::print_json(&value)?;
    }
    failed.map_or(Ok(()), Err)
}

/// Shows an input; its JSON is appended to `values`.
fn show(input: &str, options: &Options, values: &mut Vec<Value>) -> Outcome {
    let bytes = read_input(input)?;
    let (value, ended) = if bytes.starts_with(&PCAPNG_MAGIC)
        && matches!(options.format, Format::Auto | Format::Binary)
    {
        show_capture(&bytes, describe(input), options)?
    } else {
        show_packets(&bytes, input, options)?
    };
    if let Some(mut value) = value {
        if options.inputs.len() > 1 {
            value["input"] = json!(input);
        }
        values.push(value);
    }
    ended
}

/// JSON of an input, if that is printed, and the failure that follows what is shown.
type Shown = (Option<Value>, Outcome);

/// Shows packets without the blocks of a capture.
fn show_packets(bytes: &[u8], input: &str, options: &Options) -> Outcome<Shown> {
    if !options.filter.is_empty() {
        return Err(Failure::Usage(format!(
            "{} is not a capture: --name, --peer and --type select packets of captures",
            describe(input)
        )));
    }
    let wire = decode(bytes, options.format).map_err(|reason| {
        let is_file = input == "-" || Path::new(input).exists();
        let hint = if is_file { "" } else { "there is no such file, and " };
        Failure::input(describe(input), format_args!("{hint}{reason}"))
    })?;
    let dissection = dissect(&wire);
    let error = dissection.error();
    let value = options.json.then(|| {
        json!({
            "bytes": wire.len(),
            "elements": json_of(&wire, &mut dissection.elements().iter().peekable(), 0),
            "error": error.map(|error| error.to_string()),
        })
    });
    if value.is_none() {
        std::io::stdout().lock().write_all(dissection.as_str().as_bytes())?;
    }
    let ended = error.map_or(Ok(()), |error| Err(Failure::input(describe(input), error)));
    Ok((value, ended))
}

/// Shows the packets of a capture.
fn show_capture(capture: &[u8], name: &str, options: &Options) -> Outcome<Shown> {
    let mut reader = PcapngReader::new(capture);
    let mut packets = Vec::new();
    let (mut shown, mut malformed) = (0_u64, Malformed::default());
    let ended = loop {
        match reader.next_record() {
            Ok(Some(CaptureRecord::Frame(frame))) => {
                let line = PacketLine::new(frame.packet);
                if !options.filter.accepts(&frame, &line) {
                    continue;
                }
                let wire = frame.packet.unwrap_or_default();
                let dissection = dissect(wire);
                shown += 1;
                // The capture cut the rest off.
                let error = dissection.error().filter(|_| !frame.is_truncated && !wire.is_empty());
                malformed.note(shown, error);
                if options.json {
                    let mut packet = line.json(&frame);
                    packet["elements"] =
                        json_of(wire, &mut dissection.elements().iter().peekable(), 0);
                    packet["error"] = json!(error.map(|error| error.to_string()));
                    packets.push(packet);
                } else {
                    output::print_line(&line.text(&frame))?;
                    for line in dissection.as_str().lines() {
                        output::print_line(&format!("    {line}"))?;
                    }
                }
            }
            Ok(Some(
                CaptureRecord::Dropped(_) | CaptureRecord::Interface | CaptureRecord::Other,
            )) => {}
            Ok(None) => {
                if shown == 0 && !options.filter.is_empty() {
                    output::note(&format_args!(
                        "namewire: {name}: no packet has the name, peer and type that were asked for"
                    ));
                }
                break malformed.outcome(name);
            }
            Err(error) => {
                let reason = match error.kind() == ErrorKind::UnexpectedEof {
                    true => "the capture ends within a packet".to_owned(),
                    false => error.to_string(),
                };
                break Err(Failure::input(name, reason));
            }
        }
    };
    Ok((options.json.then(|| json!({ "packets": packets })), ended))
}

/// Malformed packets of a capture.
#[derive(Debug, Default)]
struct Malformed {
    count: u64,
    /// The first, counted from 1 among those that are shown, and its error.
    first: Option<(u64, String)>,
}

impl Malformed {
    fn note(&mut self, packet: u64, error: Option<DecodeError>) {
        let Some(error) = error else { return };
        self.count += 1;
        self.first.get_or_insert_with(|| (packet, error.to_string()));
    }

    fn outcome(self, input: &str) -> Outcome {
        let Some((packet, error)) = self.first else { return Ok(()) };
        let count = output::counted(self.count, "malformed packet");
        Err(Failure::input(input, format_args!("{count}; packet {packet}: {error}")))
    }
}

/// The elements at this depth, with nested elements.
fn json_of(
    wire: &[u8],
    elements: &mut std::iter::Peekable<std::slice::Iter<'_, Element>>,
    depth: usize,
) -> Value {
    let mut list = Vec::new();
    while let Some(element) = elements.next_if(|element| element.depth == depth) {
        let bytes = wire.get(element.value.clone()).unwrap_or_default();
        let mut object = json!({
            "type": element.ty,
            "name": element.name,
            "offset": element.offset,
            "length": bytes.len(),
        });
        if elements.peek().is_some_and(|next| next.depth > depth) {
            object["elements"] = json_of(wire, elements, depth + 1);
        } else {
            match &element.meaning {
                Some(Meaning::Number(number, shown)) => {
                    object["value"] = json!(number);
                    object["shown"] = json!(shown);
                }
                Some(Meaning::Text(text)) => object["value"] = json!(text),
                None => object["value"] = Value::Null,
            }
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            object["hex"] = json!(hex);
        }
        list.push(object);
    }
    Value::Array(list)
}

fn describe(input: &str) -> &str {
    const SHOWN_MAX: usize = 40;
    match input {
        "-" => "standard input",
        long if long.len() > SHOWN_MAX && !Path::new(long).exists() => {
            "the packet on the command line"
        }
        short => short,
    }
}

fn read_input(input: &str) -> Outcome<Vec<u8>> {
    match input::read(input) {
        // The packet itself, unless the input is a path, such as that of a directory.
        Err(_) if input != "-" && !is_path(input) && !Path::new(input).exists() => {
            Ok(input.as_bytes().to_vec())
        }
        read => read,
    }
}

/// Base64 may have slashes, also at the beginning, but then it has the type of an Interest, a Data or an LpPacket.
fn is_path(input: &str) -> bool {
    let is_packet = |wire: Vec<u8>| matches!(wire.first(), Some(5 | 6 | 100));
    input.contains('.') || input.contains('/') && !from_base64(input).is_ok_and(is_packet)
}

fn decode(input: &[u8], format: Format) -> Result<Vec<u8>, String> {
    if input.is_empty() {
        return Err("it is empty".to_owned());
    }
    let text = || std::str::from_utf8(input).map_err(|_| "it is not text".to_owned());
    match format {
        Format::Binary => Ok(input.to_vec()),
        Format::Hex => from_hex(text()?),
        Format::Base64 => from_base64(text()?),
        Format::Auto => {
            let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
            if !input.iter().all(is_text) {
                return Ok(input.to_vec());
            }
            let text = text()?;
            from_hex(text)
                .or_else(|_| from_base64(text))
                .map_err(|_| "it is neither a packet nor hexadecimal nor Base64".to_owned())
        }
    }
}

fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: String = text
        .replace("0x", "")
        .chars()
        .filter(|c| !c.is_whitespace() && !",:".contains(*c))
        .collect();
    if !digits.is_ascii() || digits.len() % 2 == 1 {
        return Err("it is not an even number of hexadecimal digits".to_owned());
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16))
        .collect::<Result<_, _>>()
        .map_err(|_| "it has characters other than hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;
    use namewire_control::capture::{CapturedPacket, Direction, PcapngWriter};

    use super::*;

    fn options(arguments: &[&str]) -> Options {
        let command = Options::augment_args(clap::Command::new("dissect").no_binary_name(true));
        Options::from_arg_matches(&command.get_matches_from(arguments)).unwrap()
    }

    const INTEREST: [u8; 7] = [5, 5, 7, 3, 8, 1, b'a'];

    #[test]
    fn encoding_of_input_is_detected() {
        for text in ["05050703080161", "0x05 0x05 07:03:08,01 61\n", "BQUHAwgBYQ==", "BQUHAwgBYQ"] {
            assert_eq!(decode(text.as_bytes(), Format::Auto).unwrap(), INTEREST, "{text}");
        }
        assert_eq!(decode(&INTEREST, Format::Auto).unwrap(), INTEREST);
        assert_eq!(decode(b"0505", Format::Binary).unwrap(), b"0505");
    }

    #[test]
    fn missing_file_is_not_taken_for_base64() {
        for path in ["captures/one", "/tmp/capture", "one.pcap", "AAAA.pcapng", "../one"] {
            let failure = read_input(path).unwrap_err().to_string();
            assert_eq!(failure, format!("{path}: No such file or directory"));
        }
        // A value of three bytes whose digits are slashes.
        let packet = "BQkHBwgFYf///2I=";
        assert_eq!(read_input(packet).unwrap(), packet.as_bytes());
        assert!(dissect(&from_base64(packet).unwrap()).error().is_none());
        assert_eq!(read_input("BQUHAwgBYQ").unwrap(), b"BQUHAwgBYQ");
        // A directory of the package, where tests run.
        let refused = read_input("src").unwrap_err();
        assert_eq!(refused.to_string(), "src: Is a directory");
        // Of a packet that ends too early, the elements before its end are shown.
        assert_eq!(read_input("BQkHBwgFYf//").unwrap(), b"BQkHBwgFYf//");
    }

    #[test]
    fn json_has_nested_elements() {
        let dissection = dissect(&INTEREST);
        let json = json_of(&INTEREST, &mut dissection.elements().iter().peekable(), 0);
        let name = json!({
            "type": 7, "name": "Name", "offset": 2, "length": 3, "value": "/a", "hex": "080161"
        });
        let interest = json!({
            "type": 5, "name": "Interest", "offset": 0, "length": 5, "elements": [name]
        });
        assert_eq!(json, json!([interest]));
    }

    #[test]
    fn malformed_packets_of_a_capture_fail_and_truncated_ones_do_not() {
        let capture = |wire: &[u8], original_len| {
            let mut capture = Vec::new();
            let mut writer = PcapngWriter::new(&mut capture, 9000).unwrap();
            for (bytes, original_len) in [(&INTEREST[..], INTEREST.len()), (wire, original_len)] {
                let packet = CapturedPacket {
                    face_id: 300,
                    direction: Direction::Received,
                    unix_ns: 1,
                    original_len,
                    bytes: bytes.to_vec(),
                };
                writer.write(&packet, &"udp4://192.0.2.1:6363".into()).unwrap();
            }
            capture
        };
        let options = options(&["capture"]);
        let show = |capture: &[u8]| show_capture(capture, "capture", &options).unwrap().1;
        assert!(show(&capture(&INTEREST, 7)).is_ok());
        assert!(show(&capture(&INTEREST[..6], 7)).is_ok(), "cut by the capture");
        let failure = show(&capture(&[5, 5, 7, 3, 8, 9, b'a'], 7)).unwrap_err();
        assert_eq!(failure.status(), 2);
        let text = failure.to_string();
        assert!(text.starts_with("capture: 1 malformed packet; packet 2: "), "{text}");
    }

    #[test]
    fn each_of_several_inputs_is_shown_although_one_is_unusable() {
        let inputs = ["05050703080161", "/nowhere/x", "05050703080162"];
        let options = options(&[&inputs[..], &["--json"]].concat());
        let mut values = Vec::new();
        let ended = inputs.map(|input| show(input, &options, &mut values).is_ok());
        assert_eq!(ended, [true, false, true]);
        let shown: Vec<_> = values.iter().map(|value| value["input"].as_str().unwrap()).collect();
        assert_eq!(shown, [inputs[0], inputs[2]]);
        assert_eq!(run(&options).unwrap_err().status(), 2);
    }

    #[test]
    fn base64_of_every_length_is_decoded() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9v\nYmFy", b"foobar"),
            ("_-8", &[255, 239]),
        ] {
            assert_eq!(from_base64(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn filters_are_refused_for_input_that_is_not_a_capture() {
        let refused = run(&options(&["05050703080161", "--name", "/a"])).unwrap_err();
        assert!(
            matches!(&refused, Failure::Usage(reason) if reason.contains("not a capture")),
            "{refused}"
        );
    }

    #[test]
    fn input_that_is_not_a_packet_is_rejected() {
        for (text, format) in [
            ("", Format::Auto),
            ("hello world!", Format::Auto),
            ("050", Format::Hex),
            ("05zz", Format::Hex),
            ("Zm9vY", Format::Base64),
            ("Zh", Format::Base64),
        ] {
            assert!(decode(text.as_bytes(), format).is_err(), "{text}");
        }
    }
}
