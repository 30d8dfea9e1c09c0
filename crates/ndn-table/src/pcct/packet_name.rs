//! The name in the bytes of a validated Interest or Data.

/// Value of the Name that starts the value of a valid Interest or Data.
#[inline(always)]
pub(super) fn packet_name(wire: &[u8]) -> &[u8] {
    let name = value_start(wire, 0);
    let start = value_start(wire, name);
    let length = match wire.get(name + 1..start) {
        Some(&[length]) => usize::from(length),
        Some(&[_, high, low]) => usize::from(u16::from_be_bytes([high, low])),
        _ => 0,
    };
    wire.get(start..start + length).unwrap_or_default()
}

/// Whether `name` is the value of the Name that starts the value of a valid Interest or Data.
#[inline(always)]
pub(super) fn packet_has_name(wire: &[u8], name: &[u8]) -> bool {
    let start = value_start(wire, 0);
    // A short name and its length, compared at once.
    match (wire.get(start + 1..start + 2 + name.len()), u8::try_from(name.len())) {
        (Some([length, value @ ..]), Ok(expected)) if *length < 0xFD => {
            *length == expected && value == name
        }
        _ => packet_name(wire) == name,
    }
}

/// Where the value of the element at `start` begins; its type is one byte and its length one or
/// three.
#[inline(always)]
fn value_start(wire: &[u8], start: usize) -> usize {
    match wire.get(start + 1) {
        Some(0xFD) => start + 4,
        _ => start + 2,
    }
}
