//! The URI form of names (packet specification, section "NDN URI Scheme").

use crate::error::UriError;
use crate::name::MAX_COMPONENTS;
use crate::name::component::{Component, ComponentType};
use crate::name::name_ref::NameRef;
use crate::name::owned::Name;
use crate::tlv::Number;
use core::fmt::{self, Write};

const IMPLICIT_DIGEST_PREFIX: &str = "sha256digest";
const PARAMETERS_DIGEST_PREFIX: &str = "params-sha256";

/// Types whose number has a word in the URI form.
const NUMBER_TYPES: [ComponentType; 5] = [
    ComponentType::SEGMENT,
    ComponentType::BYTE_OFFSET,
    ComponentType::VERSION,
    ComponentType::TIMESTAMP,
    ComponentType::SEQUENCE_NUM,
];

pub(crate) fn write_name(name: NameRef<'_>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if name.is_empty() {
        return out.write_char('/');
    }
    for component in name.components() {
        out.write_char('/')?;
        write_component(component, out)?;
    }
    Ok(())
}

pub(crate) fn write_component(
    component: Component<'_>,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let digest_prefix = match component.ty() {
        ComponentType::IMPLICIT_SHA256_DIGEST => Some(IMPLICIT_DIGEST_PREFIX),
        ComponentType::PARAMETERS_SHA256_DIGEST => Some(PARAMETERS_DIGEST_PREFIX),
        _ => None,
    };
    if let Some(prefix) = digest_prefix {
        write!(out, "{prefix}=")?;
        return component.value().iter().try_for_each(|byte| write!(out, "{byte:02x}"));
    }
    if let (Some(prefix), Some(number)) = (component.ty().number_prefix(), component.as_number()) {
        // A number that is not in its shortest form would come back as another component.
        if Number::new(number).as_bytes() == component.value() {
            return write!(out, "{prefix}={number}");
        }
    }
    if component.ty() != ComponentType::GENERIC {
        write!(out, "{}=", component.ty().value())?;
    }
    write_escaped(component.value(), out)
}

fn write_escaped(value: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if value.iter().all(|&byte| byte == b'.') {
        out.write_str("...")?;
    }
    for &byte in value {
        if is_unreserved(byte) {
            out.write_char(char::from(byte))?;
        } else {
            write!(out, "%{byte:02X}")?;
        }
    }
    Ok(())
}

/// Characters that RFC 3986 calls unreserved.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Reads a whole name: an optional `ndn:`, with an authority to be ignored; an optional leading
/// slash, components, an optional trailing slash.
pub(crate) fn parse_name(text: &str) -> Result<Name, UriError> {
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

/// Reads one component, which begins at `offset` of the text; `value` receives its bytes.
pub(crate) fn parse_component(
    text: &str,
    offset: usize,
    value: &mut Vec<u8>,
) -> Result<ComponentType, UriError> {
    value.clear();
    let Some((prefix, rest)) = text.split_once('=') else {
        unescape(text, offset, offset, value)?;
        return Ok(ComponentType::GENERIC);
    };
    let digest_type = match prefix {
        IMPLICIT_DIGEST_PREFIX => Some(ComponentType::IMPLICIT_SHA256_DIGEST),
        PARAMETERS_DIGEST_PREFIX => Some(ComponentType::PARAMETERS_SHA256_DIGEST),
        _ => None,
    };
    if let Some(ty) = digest_type {
        parse_digest(rest, offset, value)?;
        return Ok(ty);
    }
    if let Some(ty) = NUMBER_TYPES.into_iter().find(|ty| ty.number_prefix() == Some(prefix)) {
        let number = parse_decimal(rest).ok_or(UriError::InvalidNumber { offset })?;
        value.extend_from_slice(Number::new(number).as_bytes());
        return Ok(ty);
    }
    let ty = parse_decimal(prefix)
        .and_then(|number| u16::try_from(number).ok())
        .and_then(ComponentType::new)
        .ok_or(UriError::InvalidType { offset })?;
    unescape(rest, offset + prefix.len() + 1, offset, value)?;
    if ty.is_digest() && value.len() != 32 {
        return Err(UriError::InvalidDigest { offset });
    }
    Ok(ty)
}

/// Digits only (no sign, no leading zeros), below 2^64.
fn parse_decimal(text: &str) -> Option<u64> {
    let plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

fn parse_digest(text: &str, offset: usize, value: &mut Vec<u8>) -> Result<(), UriError> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != 32 || !rest.is_empty() {
        return Err(UriError::InvalidDigest { offset });
    }
    for &[high, low] in pairs {
        value.push(hex_byte(high, low).ok_or(UriError::InvalidDigest { offset })?);
    }
    Ok(())
}

fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Decodes `%` escapes and the three extra periods of a component that is all periods.
///
/// `offset` is where `text` begins, `component` where its component does.
fn unescape(
    text: &str,
    offset: usize,
    component: usize,
    value: &mut Vec<u8>,
) -> Result<(), UriError> {
    let bytes = text.as_bytes();
    let mut pos = 0;
    while let Some(&byte) = bytes.get(pos) {
        if byte != b'%' {
            value.push(byte);
            pos += 1;
            continue;
        }
        let decoded = match bytes.get(pos + 1..pos + 3) {
            Some(&[high, low]) => hex_byte(high, low),
            Some(_) | None => None,
        };
        value.push(decoded.ok_or(UriError::InvalidEscape { offset: offset + pos })?);
        pos += 3;
    }
    if value.iter().all(|&byte| byte == b'.') {
        match value.len() {
            0 => return Err(UriError::EmptyComponent { offset: component }),
            1 | 2 => return Err(UriError::RelativeComponent { offset: component }),
            len => value.truncate(len - 3),
        }
    }
    Ok(())
}
