//! Appends TLVs to a growing vector, for code outside the packet path.

use crate::name::NameRef;
use crate::tlv::number::{Number, var_number_len};
use crate::types;

fn append_var_number(out: &mut Vec<u8>, n: u64) {
    let be = n.to_be_bytes();
    match var_number_len(n) {
        1 => out.push(be[7]),
        3 => out.extend_from_slice(&[253, be[6], be[7]]),
        5 => out.extend_from_slice(&[254, be[4], be[5], be[6], be[7]]),
        _ => {
            out.push(255);
            out.extend_from_slice(&be);
        }
    }
}

/// Appends the type and length numbers of an element whose value follows.
pub fn append_header(out: &mut Vec<u8>, ty: u32, value_len: usize) {
    append_var_number(out, u64::from(ty));
    append_var_number(out, value_len as u64);
}

/// Appends an element.
pub fn append_tlv(out: &mut Vec<u8>, ty: u32, value: &[u8]) {
    append_header(out, ty, value.len());
    out.extend_from_slice(value);
}

/// Appends an element that holds a NonNegativeInteger.
pub fn append_number(out: &mut Vec<u8>, ty: u32, n: u64) {
    append_tlv(out, ty, Number::new(n).as_bytes());
}

/// Appends a Name element.
pub fn append_name(out: &mut Vec<u8>, name: NameRef<'_>) {
    append_tlv(out, types::NAME, name.value());
}

/// Appends an element whose value `fill` appends.
pub fn append_nested(out: &mut Vec<u8>, ty: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    fill(out);
    let mut header = Vec::with_capacity(10);
    append_header(&mut header, ty, out.len() - start);
    out.splice(start..start, header);
}
