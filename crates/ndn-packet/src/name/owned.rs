//! The owned name.

use crate::error::UriError;
use crate::name::component::{Component, ComponentType};
use crate::name::name_ref::{Components, NameRef};
use crate::name::{MAX_COMPONENTS, uri};
use crate::tlv::{Number, append_tlv};
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// A name that owns its bytes. Equality, order and hash are those of [`NameRef`].
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

    /// Reads the URI form, such as `/example/v=1` or `ndn:/example`.
    ///
    /// # Errors
    /// See [`UriError`].
    pub fn from_uri(uri: &str) -> Result<Self, UriError> {
        uri::parse_name(uri)
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
    /// Beyond [`MAX_COMPONENTS`] components, which no packet can carry.
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
