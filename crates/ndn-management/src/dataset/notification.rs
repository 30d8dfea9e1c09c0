//! `FaceEventNotification`: the items of the `faces/events` stream.

use ndn_packet::DecodeError;
use ndn_packet::tlv::{self, Tlv};

use super::DatasetItem;
use super::face::{FaceProperties, append_kind};
use crate::block::{self, OrderedFields};
use crate::numbers;
use crate::types::{FaceEventKind, LinkType, Persistency, Scope};

/// An event of a face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceEventNotification {
    /// The kind of event.
    pub kind: FaceEventKind,
    /// The face.
    pub properties: FaceProperties,
}

impl DatasetItem for FaceEventNotification {
    const TYPE: u32 = numbers::FACE_EVENT_NOTIFICATION;

    fn encode(&self, out: &mut Vec<u8>) {
        let properties = &self.properties;
        tlv::append_nested(out, Self::TYPE, |out| {
            tlv::append_number(out, numbers::FACE_EVENT_KIND, self.kind.number());
            tlv::append_number(out, numbers::FACE_ID, properties.face_id);
            block::append_text(out, numbers::URI, &properties.remote_uri);
            block::append_text(out, numbers::LOCAL_URI, &properties.local_uri);
            append_kind(out, properties);
            tlv::append_number(out, numbers::FLAGS, properties.flags);
        });
    }

    fn decode_fields(block: Tlv<'_>) -> Result<Self, DecodeError> {
        let mut fields = OrderedFields::new(block.reader());
        Ok(Self {
            kind: fields.variant(numbers::FACE_EVENT_KIND, FaceEventKind::from_number)?,
            properties: FaceProperties {
                face_id: fields.number(numbers::FACE_ID)?,
                remote_uri: fields.text(numbers::URI)?,
                local_uri: fields.text(numbers::LOCAL_URI)?,
                scope: fields.variant(numbers::FACE_SCOPE, Scope::from_number)?,
                persistency: fields.variant(numbers::FACE_PERSISTENCY, Persistency::from_number)?,
                link_type: fields.variant(numbers::LINK_TYPE, LinkType::from_number)?,
                flags: fields.number(numbers::FLAGS)?,
            },
        })
    }
}
