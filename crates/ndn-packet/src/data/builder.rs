//! Data encoder.

use crate::data::ContentType;
use crate::error::EncodeError;
use crate::name::{Component, ComponentType, NameRef};
use crate::signature::SignatureInfo;
use crate::span::{finish_packet, write_signature};
use crate::tlv::{Number, Writer, header_len, number_tlv_len, tlv_len};
use crate::types;

/// Collects the elements of a Data, then writes and signs them.
#[derive(Clone, Copy, Debug)]
pub struct DataBuilder<'a> {
    name: NameRef<'a>,
    content_type: ContentType,
    freshness_ms: Option<u64>,
    final_block_id: Option<FinalBlockId<'a>>,
    content: Option<&'a [u8]>,
}

#[derive(Clone, Copy, Debug)]
enum FinalBlockId<'a> {
    Component(Component<'a>),
    Number(ComponentType, Number),
}

impl FinalBlockId<'_> {
    fn component(&self) -> Component<'_> {
        match self {
            Self::Component(component) => *component,
            Self::Number(ty, number) => Component::number(*ty, number),
        }
    }
}

impl<'a> DataBuilder<'a> {
    /// A Data with `name`, no MetaInfo, and an absent Content.
    #[must_use]
    pub fn new(name: impl Into<NameRef<'a>>) -> Self {
        Self {
            name: name.into(),
            content_type: ContentType::BLOB,
            freshness_ms: None,
            final_block_id: None,
            content: None,
        }
    }

    /// Sets ContentType; not written for [`ContentType::BLOB`], which is the default on reading.
    #[must_use]
    pub const fn content_type(mut self, content_type: ContentType) -> Self {
        self.content_type = content_type;
        self
    }

    /// Sets FreshnessPeriod.
    #[must_use]
    pub const fn freshness_ms(mut self, freshness_ms: u64) -> Self {
        self.freshness_ms = Some(freshness_ms);
        self
    }

    /// Sets FinalBlockId.
    #[must_use]
    pub const fn final_block_id(mut self, component: Component<'a>) -> Self {
        self.final_block_id = Some(FinalBlockId::Component(component));
        self
    }

    /// Sets FinalBlockId to a segment number.
    #[must_use]
    pub const fn final_segment(mut self, segment: u64) -> Self {
        self.final_block_id =
            Some(FinalBlockId::Number(ComponentType::SEGMENT, Number::new(segment)));
        self
    }

    /// Sets Content.
    #[must_use]
    pub const fn content(mut self, content: &'a [u8]) -> Self {
        self.content = Some(content);
        self
    }

    fn meta_info_len(&self) -> usize {
        let content_type = if self.content_type == ContentType::BLOB {
            0
        } else {
            number_tlv_len(types::CONTENT_TYPE, self.content_type.0)
        };
        let final_block_id = self.final_block_id.as_ref().map_or(0, |final_block_id| {
            tlv_len(types::FINAL_BLOCK_ID, final_block_id.component().encoded_len())
        });
        content_type
            + self.freshness_ms.map_or(0, |ms| number_tlv_len(types::FRESHNESS_PERIOD, ms))
            + final_block_id
    }

    /// Length of the signed portion.
    fn signed_len(&self, info: &SignatureInfo<'_>) -> usize {
        let meta_info = match self.meta_info_len() {
            0 => 0,
            len => tlv_len(types::META_INFO, len),
        };
        let content = self.content.map_or(0, |content| tlv_len(types::CONTENT, content.len()));
        self.name.encoded_len() + meta_info + content + info.encoded_len(types::SIGNATURE_INFO)
    }

    /// Length of the packet with a signature of `signature_len` bytes.
    #[must_use]
    pub fn encoded_len(&self, info: &SignatureInfo<'_>, signature_len: usize) -> usize {
        tlv_len(types::DATA, self.signed_len(info) + tlv_len(types::SIGNATURE_VALUE, signature_len))
    }

    fn write_signed_portion(
        &self,
        info: &SignatureInfo<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), EncodeError> {
        writer.name(self.name)?;
        let meta_info_len = self.meta_info_len();
        if meta_info_len > 0 {
            writer.header(types::META_INFO, meta_info_len)?;
            if self.content_type != ContentType::BLOB {
                writer.number(types::CONTENT_TYPE, self.content_type.0)?;
            }
            if let Some(freshness_ms) = self.freshness_ms {
                writer.number(types::FRESHNESS_PERIOD, freshness_ms)?;
            }
            if let Some(final_block_id) = &self.final_block_id {
                let component = final_block_id.component();
                writer.header(types::FINAL_BLOCK_ID, component.encoded_len())?;
                writer.tlv(component.ty().tlv_type(), component.value())?;
            }
        }
        if let Some(content) = self.content {
            writer.tlv(types::CONTENT, content)?;
        }
        info.write(types::SIGNATURE_INFO, writer)
    }

    /// Writes the packet and returns its length.
    ///
    /// `sign` receives the signed portion (in slices; here always one) and a buffer of
    /// `signature_len_max` bytes; it returns the length of the signature written there, or `None`
    /// if signing fails.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`] if `out` is shorter than [`DataBuilder::encoded_len`] for
    /// `signature_len_max`; [`EncodeError::SigningFailed`].
    pub fn write(
        &self,
        out: &mut [u8],
        info: &SignatureInfo<'_>,
        signature_len_max: usize,
        sign: impl FnOnce(&[&[u8]], &mut [u8]) -> Option<usize>,
    ) -> Result<usize, EncodeError> {
        let signed_len = self.signed_len(info);
        let value_len_max = signed_len + tlv_len(types::SIGNATURE_VALUE, signature_len_max);
        let value_start = header_len(types::DATA, value_len_max);
        let out = out.get_mut(..value_start + value_len_max).ok_or(EncodeError::BufferTooSmall)?;
        self.write_signed_portion(info, &mut Writer::new(&mut out[value_start..]))?;
        let end = write_signature(
            out,
            types::SIGNATURE_VALUE,
            value_start + signed_len,
            signature_len_max,
            |packet, signature| sign(&[&packet[value_start..]], signature),
        )?;
        finish_packet(out, types::DATA, value_start, end)
    }

    /// [`DataBuilder::write`] into a new vector.
    ///
    /// # Errors
    /// As [`DataBuilder::write`].
    pub fn to_vec(
        &self,
        info: &SignatureInfo<'_>,
        signature_len_max: usize,
        sign: impl FnOnce(&[&[u8]], &mut [u8]) -> Option<usize>,
    ) -> Result<Vec<u8>, EncodeError> {
        let mut out = vec![0; self.encoded_len(info, signature_len_max)];
        let len = self.write(&mut out, info, signature_len_max, sign)?;
        out.truncate(len);
        Ok(out)
    }
}
