//! The borrowed name.

use crate::error::DecodeError;
use crate::name::component::Component;
use crate::name::owned::Name;
use crate::name::scanner::NameScanner;
use crate::name::uri;
use crate::tlv::{Reader, tlv_len};
use crate::types;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

/// A name: the value of a Name TLV, that is a run of component TLVs that were checked, and their count.
///
/// Equality, order and hash are those of the bytes of the value. As every component is written with
/// shortest type and length numbers, byte order of the values is the canonical order of names.
#[derive(Clone, Copy, Default)]
pub struct NameRef<'a> {
    value: &'a [u8],
    component_count: u16,
}

impl<'a> NameRef<'a> {
    /// The name without components, `/`.
    pub const ROOT: NameRef<'static> = NameRef { value: &[], component_count: 0 };

    /// Checks the value of a Name TLV.
    ///
    /// # Errors
    /// When it is not a run of valid components.
    #[inline]
    pub fn from_value(value: &'a [u8]) -> Result<Self, DecodeError> {
        let scan = NameScanner::new(value).finish()?;
        Ok(Self { value, component_count: scan.component_count })
    }

    /// Rebuilds a name from a value that was checked before, and its number of components.
    ///
    /// Nothing is checked: with other arguments, results are wrong but never undefined.
    #[inline]
    #[must_use]
    pub const fn from_validated(value: &'a [u8], component_count: u16) -> Self {
        Self { value, component_count }
    }

    /// Reads a whole Name TLV, with nothing behind it.
    ///
    /// # Errors
    /// When the bytes are anything else.
    pub fn parse(wire: &'a [u8]) -> Result<Self, DecodeError> {
        Self::from_tlv(&Reader::new(wire).read_only(types::NAME)?)
    }

    /// Reads a Name from an element of type Name; error offsets are those of the element's reader.
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

    /// The component at `index`, from 0. Takes time in proportion to `index`.
    #[must_use]
    pub fn component(&self, index: usize) -> Option<Component<'a>> {
        self.components().nth(index)
    }

    /// The last component.
    #[must_use]
    pub fn last(&self) -> Option<Component<'a>> {
        self.components().last()
    }

    /// The name of the first `len` components (all of them, if there are fewer).
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
        // An equal run of bytes is an equal run of components, since each begins with its length.
        self.value.starts_with(prefix.value)
    }

    /// The digest, if the last component is an ImplicitSha256DigestComponent.
    #[inline]
    #[must_use]
    pub fn implicit_digest(&self) -> Option<&'a [u8; 32]> {
        const TLV_LEN: usize = 34;
        let tail = self.value.last_chunk::<TLV_LEN>()?;
        // Most names end here; the walk makes sure that the bytes are not the inside of a component.
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
        uri::write_name(*self, f)
    }
}

impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uri::write_name(*self, f)
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
