//! Rewrites an Interest: adds a Nonce or HopLimit, or removes its ForwardingHint.

use ndn_packet::tlv::{Reader, Writer, tlv_len};
use ndn_packet::{DecodeError, EncodeError, types};

/// The changes to a validated Interest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rewrite {
    /// The Nonce to add if there is none.
    pub(crate) nonce: u32,
    /// Whether to remove the ForwardingHint.
    pub(crate) strips_hint: bool,
    /// The HopLimit to add, if there is none.
    pub(crate) hop_limit: Option<u8>,
}

/// Why an Interest could not be rewritten.
#[derive(Debug)]
pub(crate) enum RewriteError {
    /// Not a valid Interest.
    Decode,
    /// The result does not fit the buffer.
    Encode,
}

impl From<DecodeError> for RewriteError {
    fn from(_: DecodeError) -> Self {
        Self::Decode
    }
}

impl From<EncodeError> for RewriteError {
    fn from(_: EncodeError) -> Self {
        Self::Encode
    }
}

impl Rewrite {
    /// Maximum growth in bytes: a Nonce TLV, a HopLimit TLV, and 8 for the length of the Interest.
    pub(crate) const GROWTH_MAX: usize = 6 + 3 + 8;

    /// Writes the changed Interest to the start of `out`; returns its length.
    pub(crate) fn apply(self, wire: &[u8], out: &mut [u8]) -> Result<usize, RewriteError> {
        let interest = Reader::new(wire).read_only(types::INTEREST)?;
        let value_len = self.write_value(interest.reader(), None)?;
        let mut writer = Writer::new(out);
        writer.header(types::INTEREST, value_len)?;
        self.write_value(interest.reader(), Some(&mut writer))?;
        debug_assert_eq!(writer.len(), tlv_len(types::INTEREST, value_len));
        Ok(writer.len())
    }

    /// Copies the elements to `out`, if given; returns their total length.
    fn write_value(
        self,
        mut elements: Reader<'_>,
        mut out: Option<&mut Writer<'_>>,
    ) -> Result<usize, RewriteError> {
        let nonce = self.nonce.to_be_bytes();
        let mut length = 0;
        let mut write = |header: Option<u32>, bytes: &[u8]| -> Result<(), EncodeError> {
            length += bytes.len() + header.map_or(0, |ty| tlv_len(ty, bytes.len()) - bytes.len());
            match (&mut out, header) {
                (Some(out), Some(ty)) => out.tlv(ty, bytes),
                (Some(out), None) => out.bytes(bytes),
                (None, _) => Ok(()),
            }
        };
        let mut has_nonce = false;
        let mut hop_limit = self.hop_limit;
        while let Some(element) = elements.next_tlv()? {
            if !has_nonce && follows_nonce(element.ty()) {
                write(Some(types::NONCE), &nonce)?;
                has_nonce = true;
            }
            has_nonce |= element.ty() == types::NONCE;
            if follows_hop_limit(element.ty())
                && let Some(hop_limit) = hop_limit.take()
            {
                write(Some(types::HOP_LIMIT), &[hop_limit])?;
            }
            if !(self.strips_hint && element.ty() == types::FORWARDING_HINT) {
                write(None, element.wire())?;
            }
        }
        if !has_nonce {
            write(Some(types::NONCE), &nonce)?;
        }
        if let Some(hop_limit) = hop_limit {
            write(Some(types::HOP_LIMIT), &[hop_limit])?;
        }
        Ok(length)
    }
}

/// Whether an element comes after the HopLimit in an Interest.
fn follows_hop_limit(ty: u32) -> bool {
    matches!(
        ty,
        types::APPLICATION_PARAMETERS
            | types::INTEREST_SIGNATURE_INFO
            | types::INTEREST_SIGNATURE_VALUE
    )
}

/// Whether an element comes after the Nonce in an Interest (packet specification, "Interest").
fn follows_nonce(ty: u32) -> bool {
    matches!(
        ty,
        types::INTEREST_LIFETIME
            | types::HOP_LIMIT
            | types::APPLICATION_PARAMETERS
            | types::INTEREST_SIGNATURE_INFO
            | types::INTEREST_SIGNATURE_VALUE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &[u8] = &[7, 3, 8, 1, b'a'];

    fn interest(parts: &[&[u8]]) -> Vec<u8> {
        let value = parts.concat();
        let mut wire = vec![0; value.len() + 8];
        let mut writer = Writer::new(&mut wire);
        writer.tlv(types::INTEREST, &value).unwrap();
        let length = writer.len();
        wire.truncate(length);
        wire
    }

    fn apply(rewrite: Rewrite, wire: &[u8]) -> Vec<u8> {
        let mut out = vec![0; wire.len() + 16];
        let length = rewrite.apply(wire, &mut out).unwrap();
        out.truncate(length);
        out
    }

    #[test]
    fn nonce_is_inserted_in_element_order() {
        let add = Rewrite { nonce: 0x0102_0304, strips_hint: false, hop_limit: None };
        let (nonce, hint, lifetime) =
            (&[10, 4, 1, 2, 3, 4][..], &[30, 3, 7, 1, 8][..], &[12, 1, 9]);
        for (before, after) in [
            (interest(&[NAME]), interest(&[NAME, nonce])),
            (interest(&[NAME, &[33, 0], hint]), interest(&[NAME, &[33, 0], hint, nonce])),
            (interest(&[NAME, lifetime]), interest(&[NAME, nonce, lifetime])),
            (interest(&[NAME, &[34, 1, 5]]), interest(&[NAME, nonce, &[34, 1, 5]])),
            (interest(&[NAME, &[36, 0]]), interest(&[NAME, nonce, &[36, 0]])),
            (interest(&[NAME, &[10, 4, 9, 9, 9, 9]]), interest(&[NAME, &[10, 4, 9, 9, 9, 9]])),
        ] {
            assert_eq!(apply(add, &before), after);
        }
    }

    #[test]
    fn hop_limit_is_inserted_in_element_order() {
        let add = Rewrite { nonce: 1, strips_hint: false, hop_limit: Some(9) };
        let (nonce, limit) = (&[10, 4, 0, 0, 0, 1][..], &[34, 1, 9][..]);
        let (lifetime, parameters) = (&[12, 1, 9][..], &[36, 0][..]);
        for (before, after) in [
            (interest(&[NAME]), interest(&[NAME, nonce, limit])),
            (interest(&[NAME, nonce, lifetime]), interest(&[NAME, nonce, lifetime, limit])),
            (interest(&[NAME, nonce, parameters]), interest(&[NAME, nonce, limit, parameters])),
            (interest(&[NAME, parameters]), interest(&[NAME, nonce, limit, parameters])),
        ] {
            assert_eq!(apply(add, &before), after);
        }
    }

    #[test]
    fn length_field_grows_when_needed() {
        let filler = [&[240, 245][..], &[0; 245]].concat();
        let before = interest(&[NAME, &filler]);
        let after = apply(Rewrite { nonce: 1, strips_hint: false, hop_limit: None }, &before);
        assert_eq!(after.len(), before.len() + 6 + 2);
        assert_eq!(after, interest(&[NAME, &filler, &[10, 4, 0, 0, 0, 1]]));
    }

    #[test]
    fn forwarding_hint_is_removed() {
        let strip = Rewrite { nonce: 1, strips_hint: true, hop_limit: None };
        let before =
            interest(&[NAME, &[30, 5, 7, 3, 8, 1, b'h'], &[10, 4, 9, 9, 9, 9], &[12, 1, 9]]);
        assert_eq!(apply(strip, &before), interest(&[NAME, &[10, 4, 9, 9, 9, 9], &[12, 1, 9]]));
    }

    #[test]
    fn rewrite_that_does_not_fit_is_rejected() {
        let rewrite = Rewrite { nonce: 1, strips_hint: false, hop_limit: None };
        let before = interest(&[NAME]);
        assert!(matches!(rewrite.apply(&before, &mut [0; 8]), Err(RewriteError::Encode)));
        assert!(matches!(rewrite.apply(&before[1..], &mut [0; 80]), Err(RewriteError::Decode)));
    }
}
