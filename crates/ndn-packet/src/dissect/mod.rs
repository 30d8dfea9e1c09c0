//! Packet dissector: shows any bytes as an indented tree with errors.

mod schema;

use crate::data::{ContentType, Data};
use crate::error::DecodeError;
use crate::interest::Interest;
use crate::lp::{LpPacket, NackReason};
use crate::name::{Component, NameRef};
use crate::signature::SignatureType;
use crate::tlv::{Reader, Tlv};
use crate::types;
use core::fmt::{self, Write};
use core::ops::Range;
use schema::{Context, Kind, describe, order};

/// Deeper elements are shown as bytes.
const DEPTH_MAX: usize = 16;

/// Maximum number of bytes of an opaque value that are shown.
const SHOWN_BYTES_MAX: usize = 64;

/// Dissected bytes. `Display` prints one line per element: its offset, then, indented by depth, its
/// name, type and value. Lines that begin with `!!` report errors.
#[derive(Clone, Debug)]
pub struct Dissection {
    text: String,
    elements: Vec<Element>,
    error: Option<DecodeError>,
}

impl Dissection {
    /// The first error: a malformed element or a violation of the packet format. Offsets count from
    /// the first byte dissected.
    #[must_use]
    pub const fn error(&self) -> Option<DecodeError> {
        self.error
    }

    /// The elements in byte order; nested elements follow their parent, one level deeper.
    #[must_use]
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// The tree, each line ended by a newline.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Dissection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Dissects `bytes`: one packet, several in a row, or anything else.
#[must_use]
pub fn dissect(bytes: &[u8]) -> Dissection {
    let mut tree = Tree {
        text: String::new(),
        elements: Vec::new(),
        error: None,
        complaints: 0,
        cut_off: false,
    };
    // Writing to a String does not fail.
    let _ = tree.run(Reader::new(bytes), Context::Top, 0);
    Dissection { text: tree.text, elements: tree.elements, error: tree.error }
}

/// One element of a dissection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Nesting depth.
    pub depth: usize,
    /// TLV-TYPE.
    pub ty: u32,
    /// Name of the type in its context; `None` if it is unknown there.
    pub name: Option<&'static str>,
    /// Offset of its first byte.
    pub offset: usize,
    /// Range of its value, as far as present.
    pub value: Range<usize>,
    /// Interpretation of the value, if there is one.
    pub meaning: Option<Meaning>,
}

/// Interpretation of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A number, and its display form with unit or name.
    Number(u64, String),
    /// A name, a component or a text.
    Text(String),
}

struct Tree {
    text: String,
    elements: Vec<Element>,
    error: Option<DecodeError>,
    complaints: usize,
    /// The current element is truncated, and so are those that enclose its end; reported once.
    cut_off: bool,
}

impl Tree {
    /// Dissects all elements left in `reader`.
    fn run(&mut self, mut reader: Reader<'_>, context: Context, depth: usize) -> fmt::Result {
        let order = order(context);
        let mut next = 0;
        loop {
            match reader.next_tlv() {
                Ok(Some(tlv)) => match order.iter().position(|&ty| ty == tlv.ty()) {
                    Some(place) if place < next => self.late(&tlv, context, depth)?,
                    Some(place) => {
                        next = place + 1;
                        self.element(&tlv, context, depth)?;
                    }
                    None => self.element(&tlv, context, depth)?,
                },
                Ok(None) => return Ok(()),
                Err(error) => return self.broken(reader, error, context, depth),
            }
        }
    }

    /// Dissects an element that comes after one that it must precede. Its content is not checked;
    /// the check of the enclosing element reports whether this is an error.
    fn late(&mut self, tlv: &Tlv<'_>, context: Context, depth: usize) -> fmt::Result {
        self.start_element(tlv, context, depth)?;
        let name = describe(context, tlv.ty()).map_or("element", |(name, _)| name);
        write!(self.text, "{name} ({}), repeated or out of order: ", tlv.ty())?;
        self.bytes_line(tlv.value())
    }

    /// Dissects the element at which `reader` fails, as far as it can be read.
    fn broken(
        &mut self,
        mut reader: Reader<'_>,
        error: DecodeError,
        context: Context,
        depth: usize,
    ) -> fmt::Result {
        if !self.cut_off {
            self.complain(depth, error)?;
        }
        let (offset, rest) = (reader.offset(), reader.remaining());
        if matches!(error, DecodeError::LengthOverrun { .. })
            && let Some(tlv) = reader.read_cut_off()
        {
            self.cut_off = true;
            return self.element(&tlv, context, depth);
        }
        self.start_line(offset, depth)?;
        self.text.write_str("not understood: ")?;
        self.bytes_line(rest)
    }

    fn element(&mut self, tlv: &Tlv<'_>, context: Context, depth: usize) -> fmt::Result {
        self.start_element(tlv, context, depth)?;
        let Some((name, kind)) = describe(context, tlv.ty()) else {
            return self.unknown(tlv, context, depth);
        };
        write!(self.text, "{name} ({})", tlv.ty())?;
        match kind {
            Kind::Nested(inner) => self.nested(tlv, inner, depth),
            Kind::Fragment => self.fragment(tlv, depth),
            Kind::Opaque => self.opaque(tlv, depth),
            Kind::Name
            | Kind::Component
            | Kind::Number(_)
            | Kind::Fixed(_)
            | Kind::Byte
            | Kind::Empty
            | Kind::Text
            | Kind::SignatureType
            | Kind::ContentType
            | Kind::NackReason
            | Kind::Hex => self.value(tlv, kind, depth),
        }
    }

    fn nested(&mut self, tlv: &Tlv<'_>, inner: Context, depth: usize) -> fmt::Result {
        if depth == DEPTH_MAX {
            self.text.write_str(": nested too deeply to show: ")?;
            return self.bytes_line(tlv.value());
        }
        writeln!(self.text, ", {} bytes", tlv.value_len())?;
        let complaints_before = self.complaints;
        self.run(tlv.reader(), inner, depth + 1)?;
        match check(tlv, inner) {
            Err(error) if complaints_before == self.complaints && !self.cut_off => {
                self.complain(depth + 1, error)
            }
            // Valid, or reported already where it occurred.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Dissects a whole packet; shows a fragment of a packet as bytes.
    fn fragment(&mut self, tlv: &Tlv<'_>, depth: usize) -> fmt::Result {
        let whole = tlv.reader().read().is_ok_and(|inner| {
            matches!(inner.ty(), types::INTEREST | types::DATA) && inner.end() == tlv.end()
        });
        if whole || self.cut_off && matches!(tlv.value().first(), Some(5 | 6)) {
            return self.nested(tlv, Context::Top, depth);
        }
        self.text.write_str(": ")?;
        self.bytes_line(tlv.value())
    }

    /// Text as text; elements as a tree, if they parse; anything else as bytes.
    fn opaque(&mut self, tlv: &Tlv<'_>, depth: usize) -> fmt::Result {
        if let Some(text) = printable(tlv.value()) {
            self.set_meaning(Meaning::Text(text.to_owned()));
            self.text.write_str(": ")?;
            return self.quoted_line(text);
        }
        if depth < DEPTH_MAX && may_be_elements(tlv) {
            writeln!(self.text, ", {} bytes", tlv.value_len())?;
            return self.run(tlv.reader(), Context::Application, depth + 1);
        }
        self.text.write_str(": ")?;
        self.bytes_line(tlv.value())
    }

    fn unknown(&mut self, tlv: &Tlv<'_>, context: Context, depth: usize) -> fmt::Result {
        match (context, tlv.ty()) {
            // Only a guess, so failure is not reported.
            (Context::Application, types::NAME) if NameRef::from_tlv(tlv).is_ok() => {
                self.text.write_str("Name (7)")?;
                self.value(tlv, Kind::Name, depth)
            }
            (Context::Application | Context::Top, ty) => {
                write!(self.text, "type {ty}")?;
                self.opaque(tlv, depth)
            }
            (_, ty) => {
                let rule = if types::is_critical(ty) { "critical" } else { "ignored" };
                write!(self.text, "unrecognised type {ty} ({rule}): ")?;
                self.bytes_line(tlv.value())
            }
        }
    }

    fn value(&mut self, tlv: &Tlv<'_>, kind: Kind, depth: usize) -> fmt::Result {
        match value_text(tlv, kind) {
            Ok(Some(text)) => {
                self.set_meaning(meaning(tlv, kind, text.trim_start_matches(": ")));
                writeln!(self.text, "{text}")
            }
            Ok(None) => {
                self.text.write_str(": ")?;
                self.bytes_line(tlv.value())
            }
            Err(error) => {
                self.text.write_str(": ")?;
                self.bytes_line(tlv.value())?;
                if self.cut_off { Ok(()) } else { self.complain(depth + 1, error) }
            }
        }
    }

    fn start_element(&mut self, tlv: &Tlv<'_>, context: Context, depth: usize) -> fmt::Result {
        self.elements.push(Element {
            depth,
            ty: tlv.ty(),
            name: describe(context, tlv.ty()).map(|(name, _)| name),
            offset: tlv.offset(),
            value: tlv.value_offset()..tlv.end(),
            meaning: None,
        });
        self.start_line(tlv.offset(), depth)
    }

    /// Sets the meaning of the last element.
    fn set_meaning(&mut self, meaning: impl Into<Option<Meaning>>) {
        if let Some(element) = self.elements.last_mut() {
            element.meaning = meaning.into();
        }
    }

    fn start_line(&mut self, offset: usize, depth: usize) -> fmt::Result {
        write!(self.text, "{offset:>5}  {:width$}", "", width = 2 * depth)
    }

    fn complain(&mut self, depth: usize, error: DecodeError) -> fmt::Result {
        self.error.get_or_insert(error);
        self.complaints += 1;
        writeln!(self.text, "   !!  {:width$}{error}", "", width = 2 * depth)
    }

    fn bytes_line(&mut self, bytes: &[u8]) -> fmt::Result {
        let shown = bytes.get(..SHOWN_BYTES_MAX).unwrap_or(bytes);
        if bytes.is_empty() {
            self.text.write_str("(empty)")?;
        }
        append_hex(&mut self.text, shown);
        if shown.len() < bytes.len() {
            write!(self.text, "… ({} bytes)", bytes.len())?;
        }
        self.text.write_char('\n')
    }

    fn quoted_line(&mut self, text: &str) -> fmt::Result {
        let shown: String = text.chars().take(SHOWN_BYTES_MAX).collect();
        write!(self.text, "{shown:?}")?;
        if shown.len() < text.len() {
            write!(self.text, "… ({} bytes)", text.len())?;
        }
        self.text.write_char('\n')
    }
}

/// Two digits per byte; formatting each would take most of the time of a dissection.
fn append_hex(text: &mut String, bytes: &[u8]) {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

/// The text after an element's name, or `None` if its bytes are to be shown.
fn value_text(tlv: &Tlv<'_>, kind: Kind) -> Result<Option<String>, DecodeError> {
    Ok(Some(match kind {
        Kind::Name => format!(": {}", NameRef::from_tlv(tlv)?),
        Kind::Component => format!(": {}", Component::from_tlv(tlv)?),
        Kind::Number(unit) => format!(": {}{unit}", tlv.number()?),
        Kind::Fixed(len) if tlv.value_len() != len => return Err(tlv.invalid_length()),
        Kind::Fixed(_) => {
            let mut text = ": 0x".to_owned();
            append_hex(&mut text, tlv.value());
            text
        }
        Kind::Byte => format!(": {}", tlv.array::<1>()?[0]),
        Kind::Empty => {
            tlv.expect_empty()?;
            String::new()
        }
        Kind::Text => format!(": {:?}", tlv.text()?),
        Kind::SignatureType => numbered(SignatureType(tlv.number()?), tlv.number()?),
        Kind::ContentType => numbered(ContentType(tlv.number()?), tlv.number()?),
        Kind::NackReason => numbered(NackReason(tlv.number()?), tlv.number()?),
        Kind::Nested(_) | Kind::Fragment | Kind::Opaque | Kind::Hex => return Ok(None),
    }))
}

/// The meaning of a value for programs; `shown` is its display form.
fn meaning(tlv: &Tlv<'_>, kind: Kind, shown: &str) -> Option<Meaning> {
    match kind {
        Kind::Number(_) | Kind::SignatureType | Kind::ContentType | Kind::NackReason => {
            Some(Meaning::Number(tlv.number().ok()?, shown.to_owned()))
        }
        Kind::Byte => Some(Meaning::Number(tlv.array::<1>().ok()?[0].into(), shown.to_owned())),
        Kind::Text => Some(Meaning::Text(tlv.text().ok()?.to_owned())),
        Kind::Name | Kind::Component => Some(Meaning::Text(shown.to_owned())),
        Kind::Fixed(_)
        | Kind::Empty
        | Kind::Nested(_)
        | Kind::Fragment
        | Kind::Opaque
        | Kind::Hex => None,
    }
}

fn numbered(value: impl fmt::Display, number: u64) -> String {
    format!(": {number} ({value})")
}

/// The strict checks of a whole packet.
fn check(tlv: &Tlv<'_>, context: Context) -> Result<(), DecodeError> {
    let moved = |error: DecodeError| error.moved_by(tlv.offset());
    match context {
        Context::Interest => {
            let interest = Interest::parse(tlv.wire()).map_err(moved)?;
            interest.signature_info().map_err(moved).map(|_| ())
        }
        Context::Data => {
            let data = Data::parse(tlv.wire()).map_err(moved)?;
            data.signature_info().map_err(moved).map(|_| ())
        }
        Context::Lp => LpPacket::parse(tlv.wire()).map_err(moved).map(|_| ()),
        Context::Top
        | Context::ForwardingHint
        | Context::LinkDelegation
        | Context::MetaInfo
        | Context::FinalBlockId
        | Context::SignatureInfo
        | Context::KeyLocator
        | Context::ValidityPeriod
        | Context::AdditionalDescription
        | Context::DescriptionEntry
        | Context::Nack
        | Context::CachePolicy
        | Context::Application => Ok(()),
    }
}

/// Text that can be printed on a terminal.
fn printable(bytes: &[u8]) -> Option<&str> {
    let text = core::str::from_utf8(bytes).ok()?;
    let shown = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    (!text.is_empty() && text.chars().all(shown)).then_some(text)
}

/// Whether the value is a non-empty sequence of well-formed elements.
fn may_be_elements(tlv: &Tlv<'_>) -> bool {
    let mut reader = tlv.reader();
    while !reader.is_empty() {
        if reader.read().is_err() {
            return false;
        }
    }
    tlv.value_len() > 0
}
