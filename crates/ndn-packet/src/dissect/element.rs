//! What a program wants to know of a dissected element.

use core::ops::Range;

/// One element of a dissection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// How many elements it is inside of.
    pub depth: usize,
    /// TLV-TYPE.
    pub ty: u32,
    /// What the type is called where the element is; `None` if it has no meaning there.
    pub name: Option<&'static str>,
    /// Offset of its first byte.
    pub offset: usize,
    /// Offsets of its value, as far as it is there.
    pub value: Range<usize>,
    /// What the value says, if it says something.
    pub meaning: Option<Meaning>,
}

/// What a value says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A number, and how it is shown: with its unit or its name.
    Number(u64, String),
    /// A name, a component or a text.
    Text(String),
}
