//! Borrowed and owned names, and their URI form.

use crate::error::{DecodeError, UriError};
use crate::name::MAX_COMPONENTS;
use crate::name::component::{Component, ComponentType, parse_component};
use crate::name::scanner::NameScanner;
use crate::tlv::{Number, Reader, append_tlv, tlv_len};
use crate::types;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt::{self, Write};
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// A borrowed name: the value of a Name TLV, a validated sequence of component TLVs, and their
/// count.
///
/// Equality, order and hash are those of the bytes of the value. As every component has shortest
/// type and length numbers, byte order of the values is the canonical order of names.
#[derive(Clone, Copy, Default)]
pub struct NameRef<'a> {
    value: &'a [u8],
    component_count: u16,
}

impl<'a> NameRef<'a> {
    /// The empty name, `/`.
    pub const ROOT: NameRef<'static> = NameRef { value: &[], component_count: 0 };

    /// Validates the value of a Name TLV.
    ///
    /// # Errors
    /// When it is not a sequence of valid components.
    #[inline]
    pub fn from_value(value: &'a [u8]) -> Result<Self, DecodeError> {
        let scan = NameScanner::new(value).finish()?;
        Ok(Self { value, component_count: scan.component_count })
    }

    /// Restores a name from a validated value and its number of components.
    ///
    /// Nothing is checked: with other arguments, results are wrong but never undefined.
    #[inline]
    #[must_use]
    pub const fn from_validated(value: &'a [u8], component_count: u16) -> Self {
        Self { value, component_count }
    }

    /// Parses a Name TLV that fills `wire`.
    ///
    /// # Errors
    /// When the bytes are anything else.
    pub fn parse(wire: &'a [u8]) -> Result<Self, DecodeError> {
        Self::from_tlv(&Reader::new(wire).read_only(types::NAME)?)
    }

    /// Converts an element of type Name; error offsets are those of the element's reader.
    ///
    /// # Errors
    /// When it has another type or invalid components.
    pub fn from_tlv(tlv: &crate::tlv::Tlv<'a>) -> Result<Self, DecodeError> {
        if tlv.ty() != types::NAME {
            return Err(tlv.unexpected(types::NAME));
        }
        let scan = NameScanner::of_tlv(tlv).finish()?;
        Ok(Self { value: tlv.value(), component_count: scan.component_count })
    }

    /// The value of the Name TLV.
    #[inline]
    #[must_use]
    pub const fn value(&self) -> &'a [u8] {
        self.value
    }

    /// Number of components.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.component_count as usize
    }

    /// Number of components, as [`NameRef::from_validated`] takes it.
    #[inline]
    #[must_use]
    pub const fn component_count(&self) -> u16 {
        self.component_count
    }

    /// Whether this is `/`.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.component_count == 0
    }

    /// Length of the whole Name TLV.
    #[inline]
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        tlv_len(types::NAME, self.value.len())
    }

    /// The components in order.
    #[inline]
    #[must_use]
    pub const fn components(&self) -> Components<'a> {
        Components { reader: Reader::new(self.value), left: self.component_count }
    }

    /// The component at `index`, from 0. Takes time proportional to `index`.
    #[must_use]
    pub fn component(&self, index: usize) -> Option<Component<'a>> {
        self.components().nth(index)
    }

    /// The last component.
    #[must_use]
    pub fn last(&self) -> Option<Component<'a>> {
        self.components().last()
    }

    /// Whether the last component is a version (VersionNameComponent): then the name is that of one version.
    #[must_use]
    pub fn ends_in_version(&self) -> bool {
        self.last().is_some_and(|last| last.as_version().is_some())
    }

    /// The number of the last component, if that is a segment (SegmentNameComponent).
    #[must_use]
    pub fn segment(&self) -> Option<u64> {
        self.last()?.as_segment()
    }

    /// The first `len` components (all, if there are fewer).
    #[must_use]
    pub fn prefix(&self, len: usize) -> NameRef<'a> {
        match u16::try_from(len) {
            Ok(count) if count < self.component_count => {
                NameRef { value: &self.value[..self.offset_of(count)], component_count: count }
            }
            Ok(_) | Err(_) => *self,
        }
    }

    /// The name without its first `len` components (`/`, if there are fewer).
    #[must_use]
    pub fn suffix(&self, len: usize) -> NameRef<'a> {
        match u16::try_from(len) {
            Ok(count) if count < self.component_count => NameRef {
                value: &self.value[self.offset_of(count)..],
                component_count: self.component_count - count,
            },
            Ok(_) | Err(_) => NameRef::ROOT,
        }
    }

    /// The name without its last component; `/` for `/`.
    #[must_use]
    pub fn parent(&self) -> NameRef<'a> {
        self.prefix(self.len().saturating_sub(1))
    }

    /// Offset in the value of the component at `index`.
    fn offset_of(&self, index: u16) -> usize {
        let mut reader = Reader::new(self.value);
        for _ in 0..index {
            if reader.read().is_err() {
                break;
            }
        }
        reader.offset()
    }

    /// Whether `prefix` equals the first components of this name.
    #[inline]
    #[must_use]
    pub fn starts_with(&self, prefix: NameRef<'_>) -> bool {
        // Equal bytes are equal components, because each begins with its length.
        self.value.starts_with(prefix.value)
    }

    /// The digest, if the last component is an ImplicitSha256DigestComponent.
    #[inline]
    #[must_use]
    pub fn implicit_digest(&self) -> Option<&'a [u8; 32]> {
        const TLV_LEN: usize = 34;
        let tail = self.value.last_chunk::<TLV_LEN>()?;
        // Most names end here; the walk excludes bytes inside a component.
        if tail[0] != 1 || tail[1] != 32 {
            return None;
        }
        self.last()?.implicit_digest()
    }

    /// Position and digest of the ParametersSha256DigestComponent.
    #[must_use]
    pub fn parameters_digest(&self) -> Option<(usize, &'a [u8; 32])> {
        self.components()
            .enumerate()
            .find_map(|(index, component)| Some((index, component.parameters_digest()?)))
    }

    /// The URI form, e.g. `/example/v=1/seg=0`.
    #[must_use]
    pub fn to_uri(&self) -> String {
        self.to_string()
    }

    /// An owned copy.
    #[must_use]
    pub fn to_name(&self) -> Name {
        Name::from_ref(*self)
    }
}

impl PartialEq for NameRef<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for NameRef<'_> {}

/// Canonical order: component by component, and a prefix before the longer name.
impl Ord for NameRef<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.cmp(other.value)
    }
}

impl PartialOrd for NameRef<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for NameRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl fmt::Display for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(*self, f)
    }
}

impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(*self, f)
    }
}

impl<'a> IntoIterator for NameRef<'a> {
    type Item = Component<'a>;
    type IntoIter = Components<'a>;

    fn into_iter(self) -> Components<'a> {
        self.components()
    }
}

/// Iterator over the components of a name.
#[derive(Clone, Debug)]
pub struct Components<'a> {
    reader: Reader<'a>,
    left: u16,
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    #[inline]
    fn next(&mut self) -> Option<Component<'a>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        Component::from_tlv(&self.reader.read().ok()?).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(usize::from(self.left)))
    }
}

/// An owned name. Equality, order and hash are those of [`NameRef`].
///
/// As a map key it can be looked up by [`NameRef::value`], because it borrows as its bytes.
#[derive(Clone, Default)]
pub struct Name {
    value: Vec<u8>,
    component_count: u16,
}

impl Name {
    /// The name `/`.
    #[must_use]
    pub const fn new() -> Self {
        Self { value: Vec::new(), component_count: 0 }
    }

    /// A copy of `name`.
    #[must_use]
    pub fn from_ref(name: NameRef<'_>) -> Self {
        Self { value: name.value().to_vec(), component_count: name.component_count() }
    }

    /// Parses the URI form, such as `/example/v=1` or `ndn:/example`.
    ///
    /// # Errors
    /// See [`UriError`].
    pub fn from_uri(uri: &str) -> Result<Self, UriError> {
        parse_name(uri)
    }

    /// The borrowed form.
    #[inline]
    #[must_use]
    pub fn as_ref(&self) -> NameRef<'_> {
        NameRef::from_validated(&self.value, self.component_count)
    }

    /// The value of the Name TLV.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Number of components.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.component_count as usize
    }

    /// Whether this is `/`.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.component_count == 0
    }

    /// The components in order.
    #[must_use]
    pub fn components(&self) -> Components<'_> {
        self.as_ref().components()
    }

    /// The component at `index`.
    #[must_use]
    pub fn component(&self, index: usize) -> Option<Component<'_>> {
        self.as_ref().component(index)
    }

    /// Whether `prefix` equals the first components of this name.
    #[must_use]
    pub fn starts_with(&self, prefix: NameRef<'_>) -> bool {
        self.as_ref().starts_with(prefix)
    }

    /// The URI form.
    #[must_use]
    pub fn to_uri(&self) -> String {
        self.to_string()
    }

    /// Appends a component.
    ///
    /// # Panics
    /// Beyond [`MAX_COMPONENTS`] components.
    pub fn push(&mut self, component: Component<'_>) -> &mut Self {
        assert!(self.len() < MAX_COMPONENTS, "a name of {MAX_COMPONENTS} components is full");
        append_tlv(&mut self.value, component.ty().tlv_type(), component.value());
        self.component_count += 1;
        self
    }

    /// Appends a generic component.
    pub fn push_generic(&mut self, value: impl AsRef<[u8]>) -> &mut Self {
        self.push(Component::generic(value.as_ref()))
    }

    /// Appends a keyword component.
    pub fn push_keyword(&mut self, value: impl AsRef<[u8]>) -> &mut Self {
        self.push(Component::keyword(value.as_ref()))
    }

    /// Appends a number as a component of type `ty`.
    pub fn push_number(&mut self, ty: ComponentType, number: u64) -> &mut Self {
        self.push(Component::number(ty, &Number::new(number)))
    }

    /// Appends a segment number.
    pub fn push_segment(&mut self, segment: u64) -> &mut Self {
        self.push_number(ComponentType::SEGMENT, segment)
    }

    /// Appends a byte offset.
    pub fn push_byte_offset(&mut self, offset: u64) -> &mut Self {
        self.push_number(ComponentType::BYTE_OFFSET, offset)
    }

    /// Appends a version.
    pub fn push_version(&mut self, version: u64) -> &mut Self {
        self.push_number(ComponentType::VERSION, version)
    }

    /// Appends a timestamp, in microseconds since 1970.
    pub fn push_timestamp(&mut self, timestamp_us: u64) -> &mut Self {
        self.push_number(ComponentType::TIMESTAMP, timestamp_us)
    }

    /// Appends a sequence number.
    pub fn push_sequence_num(&mut self, sequence_num: u64) -> &mut Self {
        self.push_number(ComponentType::SEQUENCE_NUM, sequence_num)
    }

    /// Appends an implicit digest.
    pub fn push_implicit_digest(&mut self, digest: &[u8; 32]) -> &mut Self {
        self.push(Component::new(ComponentType::IMPLICIT_SHA256_DIGEST, digest))
    }

    /// Appends a parameters digest.
    pub fn push_parameters_digest(&mut self, digest: &[u8; 32]) -> &mut Self {
        self.push(Component::new(ComponentType::PARAMETERS_SHA256_DIGEST, digest))
    }

    /// Appends all components of `suffix`.
    ///
    /// # Panics
    /// Beyond [`MAX_COMPONENTS`] components.
    pub fn append(&mut self, suffix: NameRef<'_>) -> &mut Self {
        let count = self.len() + suffix.len();
        self.component_count =
            u16::try_from(count).expect("no more components than a packet can carry");
        self.value.extend_from_slice(suffix.value());
        self
    }

    /// Keeps the first `len` components.
    pub fn truncate(&mut self, len: usize) {
        let prefix = self.as_ref().prefix(len);
        let (value_len, component_count) = (prefix.value().len(), prefix.component_count());
        self.value.truncate(value_len);
        self.component_count = component_count;
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Name {}

impl PartialEq<NameRef<'_>> for Name {
    fn eq(&self, other: &NameRef<'_>) -> bool {
        self.value == other.value()
    }
}

impl PartialEq<Name> for NameRef<'_> {
    fn eq(&self, other: &Name) -> bool {
        self.value() == other.value
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.cmp(&other.value)
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.value
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_ref(), f)
    }
}

impl FromStr for Name {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        Self::from_uri(text)
    }
}

impl<'a> From<&'a Name> for NameRef<'a> {
    fn from(name: &'a Name) -> Self {
        name.as_ref()
    }
}

impl From<NameRef<'_>> for Name {
    fn from(name: NameRef<'_>) -> Self {
        Self::from_ref(name)
    }
}

impl<'a> FromIterator<Component<'a>> for Name {
    fn from_iter<I: IntoIterator<Item = Component<'a>>>(components: I) -> Self {
        let mut name = Self::new();
        for component in components {
            name.push(component);
        }
        name
    }
}

fn write_name(name: NameRef<'_>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if name.is_empty() {
        return out.write_char('/');
    }
    for component in name.components() {
        out.write_char('/')?;
        fmt::Display::fmt(&component, out)?;
    }
    Ok(())
}

/// Parses a name URI: an optional `ndn:` with an ignored authority; an optional leading slash,
/// components, an optional trailing slash.
fn parse_name(text: &str) -> Result<Name, UriError> {
    let path = match text.split_at_checked(4) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ndn:") => {
            match rest.strip_prefix("//") {
                Some(rest) => rest.find('/').map_or("", |slash| &rest[slash..]),
                None => rest,
            }
        }
        Some(_) | None => text,
    };
    let path = path.strip_prefix('/').unwrap_or(path);
    let mut name = Name::new();
    if path.is_empty() {
        return Ok(name);
    }
    let mut offset = text.len() - path.len();
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut value = Vec::new();
    for part in path.split('/') {
        if name.len() == MAX_COMPONENTS {
            return Err(UriError::TooManyComponents);
        }
        let ty = parse_component(part, offset, &mut value)?;
        name.push(Component::new(ty, &value));
        offset += part.len() + 1;
    }
    Ok(name)
}
