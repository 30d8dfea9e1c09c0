//! Interest parser and view.

use crate::data::Data;
use crate::error::{DecodeError, EncodeError, saturate};
use crate::interest::ForwardingHint;
use crate::name::{Component, ComponentType, NameRef, NameScan, NameScanner};
use crate::signature::SignatureInfo;
use crate::span::{Span, check_size};
use crate::tlv::fast_reader::{self, short_header};
use crate::tlv::{Reader, Tlv, Writer, header_len};
use crate::{DEFAULT_LIFETIME_MS, types};
use core::ops::Range;

/// Relation of the ParametersSha256DigestComponent of an Interest name to its ApplicationParameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParametersDigest {
    /// Neither digest nor parameters.
    Absent,
    /// Only one of the two: the Interest is invalid.
    Unpaired,
    /// Both; whether they match requires a hash.
    Paired,
}

const NONCE_TLV_LEN: usize = 6;
const NONCE_HEADER_LEN: u32 = 2;

/// The fields of an Interest in the common form: selectors, Nonce, and at most InterestLifetime and
/// HopLimit, in this order, with short lengths.
#[derive(Clone, Debug)]
pub struct CommonInterest {
    /// Range of the name's value in the packet.
    pub name: Range<usize>,
    /// CanBePrefix.
    pub can_be_prefix: bool,
    /// MustBeFresh.
    pub must_be_fresh: bool,
    /// Nonce, as a big-endian number.
    pub nonce: u32,
    nonce_offset: usize,
    /// InterestLifetime in milliseconds.
    pub lifetime_ms: Option<u64>,
    /// HopLimit, the last byte of the packet.
    pub hop_limit: Option<u8>,
}

/// The fields of an Interest as most have it: short, with Nonce, an InterestLifetime of two bytes and at most a HopLimit behind
/// the name.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct PlainInterest {
    /// Range of the name's value in the packet.
    pub name: Range<usize>,
    /// Nonce, as a big-endian number.
    pub nonce: u32,
    /// InterestLifetime in milliseconds.
    pub lifetime_ms: u16,
    /// HopLimit, the last byte of the packet.
    pub hop_limit: Option<u8>,
}

impl PlainInterest {
    /// Reads an Interest that is the first `length` bytes of `front`, if it has that form. Bytes behind it may be read, too.
    ///
    /// The name is not validated, as by [`CommonInterest::read`].
    #[inline(always)]
    #[must_use]
    pub fn read(front: &[u8], length: usize) -> Option<Self> {
        const HEADERS: u32 = types::INTEREST | types::NAME << 16;
        const NONCE: [u8; 2] = short_header(types::NONCE, 4);
        const LIFETIME: [u8; 2] = short_header(types::INTEREST_LIFETIME, 2);
        const HOP_LIMIT: [u8; 2] = short_header(types::HOP_LIMIT, 1);
        let value_length =
            u8::try_from(length.wrapping_sub(2)).ok().filter(|&length| length <= 252)?;
        // Nothing but the length of the name is left. If that is above 252, the elements behind the name are missing.
        let rest =
            u32::from_le_bytes(*front.first_chunk()?) ^ (HEADERS | u32::from(value_length) << 8);
        if rest & 0xFF_FFFF != 0 {
            return None;
        }
        let name = 4..4 + (rest >> 24) as usize;
        let tail: &[u8; 13] = front.get(name.end..name.end + 13)?.first_chunk()?;
        let [nonce_a, nonce_b, a, b, c, d, lifetime_a, lifetime_b, high, low, tail @ ..] = *tail;
        if [nonce_a, nonce_b] != NONCE || [lifetime_a, lifetime_b] != LIFETIME {
            return None;
        }
        let hop_limit = match (length.wrapping_sub(name.end), tail) {
            (10, _) => None,
            (13, [a, b, hop_limit]) if [a, b] == HOP_LIMIT => Some(hop_limit),
            _ => return None,
        };
        let (nonce, lifetime_ms) =
            (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([high, low]));
        Some(Self { name, nonce, lifetime_ms, hop_limit })
    }
}

impl CommonInterest {
    /// Reads an Interest that fills `wire`, if it has the common form.
    ///
    /// The name is not validated. The caller must do so, and refuse an empty name and components of
    /// types 1 and 2: an Interest in this form has no ApplicationParameters, so that a
    /// ParametersSha256DigestComponent is [unpaired](ParametersDigest::Unpaired).
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn read(wire: &[u8]) -> Option<Self> {
        let name = fast_reader::short_name::<{ types::INTEREST }>(wire)?;
        Self::elements(wire, name)
    }

    /// Reads the elements after the name.
    #[inline(always)]
    fn elements(wire: &[u8], name: Range<usize>) -> Option<Self> {
        const CAN_BE_PREFIX: [u8; 2] = short_header(types::CAN_BE_PREFIX, 0);
        const MUST_BE_FRESH: [u8; 2] = short_header(types::MUST_BE_FRESH, 0);
        const NONCE: [u8; 2] = short_header(types::NONCE, 4);
        const HOP_LIMIT: [u8; 2] = short_header(types::HOP_LIMIT, 1);
        let mut rest = wire.get(name.end..)?;
        let mut has_flag = |header| match rest.split_first_chunk() {
            Some((start, tail)) if *start == header => {
                rest = tail;
                true
            }
            _ => false,
        };
        let (can_be_prefix, must_be_fresh) = (has_flag(CAN_BE_PREFIX), has_flag(MUST_BE_FRESH));
        let (&[ty, length, a, b, c, d], rest) = rest.split_first_chunk()?;
        if [ty, length] != NONCE {
            return None;
        }
        let (lifetime_ms, rest) = take_lifetime(rest);
        let hop_limit = match *rest {
            [] => None,
            [ty, length, hop_limit] if [ty, length] == HOP_LIMIT => Some(hop_limit),
            _ => return None,
        };
        Some(Self {
            nonce_offset: name.end
                + 2 * (usize::from(can_be_prefix) + usize::from(must_be_fresh) + 1),
            name,
            can_be_prefix,
            must_be_fresh,
            nonce: u32::from_be_bytes([a, b, c, d]),
            lifetime_ms,
            hop_limit,
        })
    }
}

/// Takes an InterestLifetime in milliseconds off the start of `elements`, if it is there in a short form.
#[inline(always)]
fn take_lifetime(elements: &[u8]) -> (Option<u64>, &[u8]) {
    const TWO_BYTES: [u8; 2] = short_header(types::INTEREST_LIFETIME, 2);
    // Apart from the others: the compiler makes a jump table of those.
    if let Some((&[ty, length, a, b], rest)) = elements.split_first_chunk()
        && [ty, length] == TWO_BYTES
    {
        return (Some(u16::from_be_bytes([a, b]).into()), rest);
    }
    take_uncommon_lifetime(elements)
}

/// [`take_lifetime`] for the lengths that are less common, and for none.
#[inline(always)]
fn take_uncommon_lifetime(elements: &[u8]) -> (Option<u64>, &[u8]) {
    const ONE_BYTE: [u8; 2] = short_header(types::INTEREST_LIFETIME, 1);
    const FOUR_BYTES: [u8; 2] = short_header(types::INTEREST_LIFETIME, 4);
    const EIGHT_BYTES: [u8; 2] = short_header(types::INTEREST_LIFETIME, 8);
    let Some((header, rest)) = elements.split_first_chunk() else { return (None, elements) };
    match (*header, rest) {
        (ONE_BYTE, &[a, ref rest @ ..]) => (Some(a.into()), rest),
        (FOUR_BYTES, &[a, b, c, d, ref rest @ ..]) => {
            (Some(u32::from_be_bytes([a, b, c, d]).into()), rest)
        }
        (EIGHT_BYTES, &[a, b, c, d, e, f, g, h, ref rest @ ..]) => {
            (Some(u64::from_be_bytes([a, b, c, d, e, f, g, h])), rest)
        }
        _ => (None, elements),
    }
}

/// Order of the elements in an Interest.
mod rank {
    pub(super) const NAME: u8 = 1;
    pub(super) const CAN_BE_PREFIX: u8 = 2;
    pub(super) const MUST_BE_FRESH: u8 = 3;
    pub(super) const FORWARDING_HINT: u8 = 4;
    pub(super) const NONCE: u8 = 5;
    pub(super) const LIFETIME: u8 = 6;
    pub(super) const HOP_LIMIT: u8 = 7;
    pub(super) const PARAMETERS: u8 = 8;
    pub(super) const SIGNATURE_INFO: u8 = 9;
    pub(super) const SIGNATURE_VALUE: u8 = 10;
}

/// An Interest packet: a borrowed, validated view. Offsets count from the packet's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest<'a> {
    wire: &'a [u8],
    lifetime_ms: u64,
    name: Span,
    forwarding_hint: Span,
    /// The ApplicationParameters TLV to the end of the packet.
    pub(super) parameters_portion: Span,
    pub(super) parameters: Span,
    pub(super) signature_info: Span,
    pub(super) signature_value: Span,
    /// Start of the InterestSignatureValue TLV.
    pub(super) signature_value_tlv: u32,
    /// Offset of the value of Nonce; 0 if absent.
    nonce_offset: u32,
    nonce: u32,
    /// Offset at which a missing Nonce TLV is inserted.
    pub(super) nonce_insert_offset: u32,
    /// Offset of the value of HopLimit; 0 if absent.
    hop_limit_offset: u32,
    name_count: u16,
    name_ends_in_implicit_digest: bool,
    hop_limit: u8,
    pub(super) can_be_prefix: bool,
    must_be_fresh: bool,
    has_lifetime: bool,
    pub(super) has_parameters_digest: bool,
}

impl<'a> Interest<'a> {
    /// Parses an Interest that fills `wire`.
    ///
    /// InterestSignatureInfo is not parsed; see [`Interest::signature_info`].
    ///
    /// # Errors
    /// When the bytes are not exactly one valid Interest with a non-empty name.
    #[inline]
    pub fn parse(wire: &'a [u8]) -> Result<Self, DecodeError> {
        Self::parse_with(wire, |_| ())
    }

    /// Parses an Interest as [`Interest::parse`] does, and lets `visit` iterate over the components
    /// of the name while they are validated. What it sees may belong to a packet that turns out
    /// invalid.
    ///
    /// # Errors
    /// As [`Interest::parse`].
    #[inline]
    pub fn parse_with(
        wire: &'a [u8],
        visit: impl FnOnce(&mut NameScanner<'a>),
    ) -> Result<Self, DecodeError> {
        check_size(wire)?;
        let name_offset = fast_reader::outer::<{ types::INTEREST }>(wire)?;
        let (name_start, name_end) = fast_reader::name(wire, name_offset)?;
        let mut scanner = NameScanner::within(wire, name_start..name_end);
        visit(&mut scanner);
        let scan = scanner.finish()?;
        if scan.component_count == 0 {
            return Err(DecodeError::EmptyName { offset: saturate(name_offset) });
        }
        if scan.parameters_digest_count > 1 {
            return Err(DecodeError::RepeatedParametersDigest { offset: saturate(name_offset) });
        }
        match Self::with_name(wire, name_start..name_end, scan).common_order_elements() {
            Some(interest) => Ok(interest),
            None => match Self::any_order_elements(wire, name_offset) {
                Ok(interest) => Ok(interest),
                Err(error) => Err(error),
            },
        }
    }

    /// Parses as [`Interest::parse`] does, but without the code for the common form, which tests
    /// compare with this.
    ///
    /// # Errors
    /// As [`Interest::parse`], but perhaps another of several errors.
    #[doc(hidden)]
    pub fn parse_general(wire: &'a [u8]) -> Result<Self, DecodeError> {
        check_size(wire)?;
        let name_offset = Reader::new(wire).read_only(types::INTEREST)?.value_offset();
        let interest = Self::any_order_elements(wire, name_offset)?;
        let mut parameters_digests = 0;
        let mut reader = interest.name.reader(wire).unwrap_or(Reader::new(&[]));
        while let Some(tlv) = reader.next_tlv()? {
            let ty = Component::from_tlv(&tlv)?.ty();
            parameters_digests += u32::from(ty == ComponentType::PARAMETERS_SHA256_DIGEST);
        }
        match (interest.name_count, parameters_digests) {
            (0, _) => Err(DecodeError::EmptyName { offset: saturate(name_offset) }),
            (_, 0 | 1) => Ok(interest),
            _ => Err(DecodeError::RepeatedParametersDigest { offset: saturate(name_offset) }),
        }
    }

    /// The view of a packet without elements after the name.
    #[inline(always)]
    fn with_name(wire: &'a [u8], name: Range<usize>, scan: NameScan) -> Self {
        Self {
            wire,
            lifetime_ms: DEFAULT_LIFETIME_MS,
            name: Span::new(name.start, name.end),
            forwarding_hint: Span::NONE,
            parameters_portion: Span::NONE,
            parameters: Span::NONE,
            signature_info: Span::NONE,
            signature_value: Span::NONE,
            signature_value_tlv: 0,
            nonce_offset: 0,
            nonce: 0,
            nonce_insert_offset: Span::new(name.end, 0).start,
            hop_limit_offset: 0,
            name_count: scan.component_count,
            name_ends_in_implicit_digest: scan.ends_in_implicit_digest,
            hop_limit: 0,
            can_be_prefix: false,
            must_be_fresh: false,
            has_lifetime: false,
            has_parameters_digest: scan.parameters_digest_count == 1,
        }
    }

    /// Parses the elements after the name, if they are in the common order.
    #[inline(always)]
    fn common_order_elements(mut self) -> Option<Self> {
        let common = CommonInterest::elements(self.wire, self.name.range())?;
        self.can_be_prefix = common.can_be_prefix;
        self.must_be_fresh = common.must_be_fresh;
        self.nonce_offset = Span::new(common.nonce_offset, 0).start;
        self.nonce_insert_offset = self.nonce_offset - NONCE_HEADER_LEN;
        self.nonce = common.nonce;
        self.has_lifetime = common.lifetime_ms.is_some();
        self.lifetime_ms = common.lifetime_ms.unwrap_or(DEFAULT_LIFETIME_MS);
        if let Some(hop_limit) = common.hop_limit {
            self.hop_limit_offset = Span::new(self.wire.len() - 1, 0).start;
            self.hop_limit = hop_limit;
        }
        Some(self)
    }

    /// Parses the elements after the name in any valid order, with errors.
    #[inline(never)]
    fn any_order_elements(wire: &'a [u8], name_offset: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::at(wire, name_offset);
        let name = reader.read_expected(types::NAME)?;
        let scan = NameScanner::of_tlv(&name).finish()?;
        let name = name.value_offset()..name.end();
        let mut parsed = Self::with_name(wire, name, scan);
        let mut last = rank::NAME;
        while let Some(tlv) = reader.next_tlv()? {
            parsed.element(&tlv, &mut last)?;
        }
        Ok(parsed)
    }

    /// Handles one element after the name.
    fn element(&mut self, tlv: &Tlv<'a>, last: &mut u8) -> Result<(), DecodeError> {
        let rank = match tlv.ty() {
            types::CAN_BE_PREFIX => rank::CAN_BE_PREFIX,
            types::MUST_BE_FRESH => rank::MUST_BE_FRESH,
            types::FORWARDING_HINT => rank::FORWARDING_HINT,
            types::NONCE => rank::NONCE,
            types::INTEREST_LIFETIME => rank::LIFETIME,
            types::HOP_LIMIT => rank::HOP_LIMIT,
            types::APPLICATION_PARAMETERS => rank::PARAMETERS,
            types::INTEREST_SIGNATURE_INFO => rank::SIGNATURE_INFO,
            types::INTEREST_SIGNATURE_VALUE => rank::SIGNATURE_VALUE,
            types::NAME => return Err(tlv.out_of_order()),
            _ => return tlv.skip_unrecognized(),
        };
        if rank <= *last {
            return tlv.skip_out_of_order();
        }
        *last = rank;
        if rank <= rank::FORWARDING_HINT {
            self.nonce_insert_offset = Span::new(tlv.end(), 0).start;
        }
        match rank {
            rank::CAN_BE_PREFIX => {
                tlv.expect_empty()?;
                self.can_be_prefix = true;
            }
            rank::MUST_BE_FRESH => {
                tlv.expect_empty()?;
                self.must_be_fresh = true;
            }
            rank::FORWARDING_HINT => {
                ForwardingHint::check(tlv)?;
                self.forwarding_hint = value_span(tlv);
            }
            rank::NONCE => {
                self.nonce = u32::from_be_bytes(*tlv.array::<4>()?);
                self.nonce_offset = value_span(tlv).start;
            }
            rank::LIFETIME => {
                self.lifetime_ms = tlv.number()?;
                self.has_lifetime = true;
            }
            rank::HOP_LIMIT => {
                [self.hop_limit] = *tlv.array::<1>()?;
                self.hop_limit_offset = value_span(tlv).start;
            }
            rank::PARAMETERS => {
                self.parameters = value_span(tlv);
                self.parameters_portion = Span::new(tlv.offset(), self.wire.len());
            }
            rank::SIGNATURE_INFO => self.signature_info = value_span(tlv),
            _ => {
                self.signature_value = value_span(tlv);
                self.signature_value_tlv = Span::new(tlv.offset(), 0).start;
            }
        }
        Ok(())
    }

    /// The whole packet.
    #[inline]
    #[must_use]
    pub const fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// The name.
    #[inline]
    #[must_use]
    pub fn name(&self) -> NameRef<'a> {
        NameRef::from_validated(self.name.slice(self.wire).unwrap_or_default(), self.name_count)
    }

    /// Range of the name's value in the packet; with the component count it restores the name
    /// through [`NameRef::from_validated`].
    #[inline]
    #[must_use]
    pub const fn name_value_range(&self) -> Range<usize> {
        self.name.range()
    }

    /// Whether the name ends in an ImplicitSha256DigestComponent.
    #[inline]
    #[must_use]
    pub const fn name_ends_in_implicit_digest(&self) -> bool {
        self.name_ends_in_implicit_digest
    }

    /// CanBePrefix.
    #[inline]
    #[must_use]
    pub const fn can_be_prefix(&self) -> bool {
        self.can_be_prefix
    }

    /// MustBeFresh.
    #[inline]
    #[must_use]
    pub const fn must_be_fresh(&self) -> bool {
        self.must_be_fresh
    }

    /// The names of ForwardingHint, in order; empty if absent.
    #[inline]
    #[must_use]
    pub fn forwarding_hint(&self) -> ForwardingHint<'a> {
        ForwardingHint::from_validated(self.forwarding_hint.slice(self.wire).unwrap_or_default())
    }

    /// Whether there is a ForwardingHint.
    #[inline]
    #[must_use]
    pub const fn has_forwarding_hint(&self) -> bool {
        self.forwarding_hint.is_some()
    }

    /// Range of the value of ForwardingHint in the packet, for [`ForwardingHint::from_validated`].
    #[inline]
    #[must_use]
    pub const fn forwarding_hint_range(&self) -> Option<Range<usize>> {
        if self.forwarding_hint.is_some() { Some(self.forwarding_hint.range()) } else { None }
    }

    /// Nonce, as a big-endian number.
    #[inline]
    #[must_use]
    pub const fn nonce(&self) -> Option<u32> {
        if self.nonce_offset == 0 { None } else { Some(self.nonce) }
    }

    /// Offset of the 4 bytes of Nonce.
    #[inline]
    #[must_use]
    pub const fn nonce_offset(&self) -> Option<usize> {
        if self.nonce_offset == 0 { None } else { Some(self.nonce_offset as usize) }
    }

    /// InterestLifetime in milliseconds, [`DEFAULT_LIFETIME_MS`] if absent.
    #[inline]
    #[must_use]
    pub const fn lifetime_ms(&self) -> u64 {
        self.lifetime_ms
    }

    /// Whether InterestLifetime is present.
    #[inline]
    #[must_use]
    pub const fn has_lifetime(&self) -> bool {
        self.has_lifetime
    }

    /// HopLimit.
    #[inline]
    #[must_use]
    pub const fn hop_limit(&self) -> Option<u8> {
        if self.hop_limit_offset == 0 { None } else { Some(self.hop_limit) }
    }

    /// Offset of the byte of HopLimit.
    #[inline]
    #[must_use]
    pub const fn hop_limit_offset(&self) -> Option<usize> {
        if self.hop_limit_offset == 0 { None } else { Some(self.hop_limit_offset as usize) }
    }
}

#[inline]
fn value_span(tlv: &Tlv<'_>) -> Span {
    Span::new(tlv.value_offset(), tlv.end())
}

/// Parameters, signature, and match with Data.
impl<'a> Interest<'a> {
    /// The value of ApplicationParameters.
    #[inline]
    #[must_use]
    pub fn parameters(&self) -> Option<&'a [u8]> {
        self.parameters.slice(self.wire())
    }

    /// The input of ParametersSha256Digest: ApplicationParameters and all that follows it.
    #[inline]
    #[must_use]
    pub fn parameters_portion(&self) -> Option<&'a [u8]> {
        self.parameters_portion.slice(self.wire())
    }

    /// Whether the name has a parameters digest and the packet has parameters.
    #[inline]
    #[must_use]
    pub const fn parameters_digest(&self) -> ParametersDigest {
        match (self.has_parameters_digest, self.parameters.is_some()) {
            (false, false) => ParametersDigest::Absent,
            (true, true) => ParametersDigest::Paired,
            _ => ParametersDigest::Unpaired,
        }
    }

    /// Verifies the parameters digest in the name with the given SHA-256 function, which is called
    /// only if the Interest has both digest and parameters.
    #[inline]
    pub fn parameters_digest_is_valid(&self, sha256: impl FnOnce(&[u8]) -> [u8; 32]) -> bool {
        match self.parameters_digest() {
            ParametersDigest::Absent => true,
            ParametersDigest::Unpaired => false,
            ParametersDigest::Paired => {
                match (self.name().parameters_digest(), self.parameters_portion()) {
                    (Some((_, digest)), Some(portion)) => *digest == sha256(portion),
                    _ => false,
                }
            }
        }
    }

    /// Whether InterestSignatureInfo and InterestSignatureValue are present.
    #[inline]
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        self.signature_info.is_some() && self.signature_value.is_some()
    }

    /// InterestSignatureInfo.
    ///
    /// # Errors
    /// When its content is invalid.
    pub fn signature_info(&self) -> Result<Option<SignatureInfo<'a>>, DecodeError> {
        match self.signature_info.reader(self.wire()) {
            Some(reader) => SignatureInfo::from_reader(reader).map(Some),
            None => Ok(None),
        }
    }

    /// The value of InterestSignatureValue.
    #[inline]
    #[must_use]
    pub fn signature_value(&self) -> Option<&'a [u8]> {
        self.signature_value.slice(self.wire())
    }

    /// The signed portion, in order: the components before the parameters digest, and
    /// ApplicationParameters up to InterestSignatureValue.
    ///
    /// `None` unless the Interest is signed, has parameters, and has the digest as the last
    /// component of its name.
    #[must_use]
    pub fn signed_portion(&self) -> Option<[&'a [u8]; 2]> {
        if !self.is_signed() || !self.parameters.is_some() {
            return None;
        }
        let name = self.name();
        name.last()?.parameters_digest()?;
        let portion = self.parameters_portion.start as usize..self.signature_value_tlv as usize;
        Some([name.parent().value(), self.wire().get(portion)?])
    }

    /// Whether `data` satisfies this Interest, without regard to freshness. `sha256` is called only
    /// if the name ends in an implicit digest.
    pub fn matches(&self, data: &Data<'_>, sha256: impl FnOnce(&[u8]) -> [u8; 32]) -> bool {
        let (name, data_name) = (self.name(), data.name());
        if name.len() > data_name.len() {
            return match name.implicit_digest() {
                Some(digest) => name.parent() == data_name && *digest == sha256(data.wire()),
                None => false,
            };
        }
        if self.can_be_prefix { data_name.starts_with(name) } else { data_name == name }
    }
}

/// Rewriting with a Nonce.
impl Interest<'_> {
    /// Length of what [`Interest::write_with_nonce`] writes.
    #[must_use]
    pub fn encoded_len_with_nonce(&self) -> usize {
        let value_len = self.value_len_with_nonce();
        header_len(types::INTEREST, value_len) + value_len
    }

    fn value_len_with_nonce(&self) -> usize {
        let value_len = self.wire().len() - self.value_start();
        if self.nonce_offset().is_none() { value_len + NONCE_TLV_LEN } else { value_len }
    }

    /// Offset after the outermost type and length.
    fn value_start(&self) -> usize {
        match self.wire() {
            [_, 254, ..] => 6,
            [_, 253, ..] => 4,
            _ => 2,
        }
    }

    /// Writes this Interest with the given Nonce, at its position in the specified order: a missing
    /// Nonce is added, an existing one replaced. Returns the length written.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`].
    pub fn write_with_nonce(&self, nonce: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut writer = Writer::new(out);
        writer.header(types::INTEREST, self.value_len_with_nonce())?;
        let (place, resume) = match self.nonce_offset() {
            // From the value of the Nonce TLV on: its type and length are copied.
            Some(offset) => (offset, offset + 4),
            None => (self.nonce_insert_offset as usize, self.nonce_insert_offset as usize),
        };
        writer.bytes(&self.wire()[self.value_start()..place])?;
        if self.nonce_offset().is_none() {
            writer.header(types::NONCE, 4)?;
        }
        writer.bytes(&nonce.to_be_bytes())?;
        writer.bytes(&self.wire()[resume..])?;
        Ok(writer.len())
    }
}
