//! Prefix announcements: Data `<prefix>/32=PA/<version>/seg=0` in which the holder of a prefix says
//! that it may be reached through the face that the Data came from (NFD wiki, `PrefixAnnouncement`).

use ndn_packet::signature::ValidityPeriod;
use ndn_packet::tlv::Reader;
use ndn_packet::{
    Component, ContentType, Data, DataBuilder, DecodeError, EncodeError, Name, SignatureInfo, types,
};

use crate::DataSigner;
use crate::numbers;
use ndn_types::{Now, Timestamp};

/// The keyword component in front of the version.
const KEYWORD: Component<'static> = Component::keyword(b"PA");

/// Cost of the route that an announcement makes.
pub const ANNOUNCEMENT_COST: u64 = 2048;

/// The content of a prefix announcement. The signature is verified by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixAnnouncement {
    /// The prefix.
    pub prefix: Name,
    /// Maximum lifetime of the route after the announcement arrived, milliseconds.
    pub expiration_ms: u64,
    /// Seconds since 1970 before and after which it does not hold.
    pub validity_unix_s: Option<(i64, i64)>,
}

/// Why a packet is no prefix announcement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnouncementError {
    /// The packet or its content is malformed.
    #[error("the announcement is malformed: {0}")]
    Malformed(#[from] DecodeError),
    /// The name does not end in `/32=PA/<version>/<segment>`.
    #[error("{0} is not the name of a prefix announcement")]
    Name(Name),
    /// ContentType is not PrefixAnn.
    #[error("the ContentType of the announcement is {0}, not 5 (PrefixAnn)")]
    ContentType(u64),
}

impl PrefixAnnouncement {
    /// Reads what a Data announces.
    ///
    /// # Errors
    /// [`AnnouncementError`].
    pub fn from_data(data: &Data<'_>) -> Result<Self, AnnouncementError> {
        let name = data.name();
        let prefix = name.parent().parent().parent();
        let has_form = name.len() >= 3
            && name.component(name.len() - 3) == Some(KEYWORD)
            && name.component(name.len() - 2).is_some_and(|c| c.as_version().is_some())
            && name.last().is_some_and(|c| c.as_segment().is_some());
        if !has_form {
            return Err(AnnouncementError::Name(name.to_name()));
        }
        if data.content_type() != ContentType::PREFIX_ANNOUNCEMENT {
            return Err(AnnouncementError::ContentType(data.content_type().0));
        }
        let mut reader = Reader::new(data.content().unwrap_or_default());
        let (mut expiration_ms, mut validity) = (None, None);
        while let Some(tlv) = reader.next_tlv()? {
            match tlv.ty() {
                numbers::EXPIRATION_PERIOD => expiration_ms = Some(tlv.number()?),
                types::VALIDITY_PERIOD => validity = Some(ValidityPeriod::from_tlv(&tlv)?),
                _ => tlv.skip_unrecognized()?,
            }
        }
        let validity_unix_s = validity
            .and_then(|period| Some((period.not_before_unix_s()?, period.not_after_unix_s()?)));
        let expiration_ms = expiration_ms
            .ok_or(DecodeError::Missing { ty: numbers::EXPIRATION_PERIOD, offset: 0 })?;
        Ok(Self { prefix: prefix.to_name(), expiration_ms, validity_unix_s })
    }

    /// The expiry of a route that is made now; `None` if the announcement is not valid now.
    #[must_use]
    pub fn expires_at(&self, now: Now) -> Option<Timestamp> {
        let mut left_ms = self.expiration_ms;
        if let Some((first_s, last_s)) = self.validity_unix_s {
            let now_ms = i64::try_from(now.unix_ms()).ok()?;
            if now_ms < first_s.saturating_mul(1000) {
                return None;
            }
            let left = last_s.saturating_mul(1000).saturating_sub(now_ms);
            left_ms = left_ms.min(u64::try_from(left).unwrap_or(0));
        }
        (left_ms > 0).then(|| now.monotonic.plus_millis(left_ms))
    }

    /// The Data that announces `prefix`. `sign` works as for [`DataBuilder::to_vec`].
    ///
    /// # Errors
    /// As [`DataBuilder::to_vec`].
    pub fn encode(
        prefix: &Name,
        version: u64,
        expiration_ms: u64,
        info: &SignatureInfo<'_>,
        signature_len_max: usize,
        sign: impl FnOnce(&[&[u8]], &mut [u8]) -> Option<usize>,
    ) -> Result<Vec<u8>, EncodeError> {
        let (name, content) = Self::parts(prefix, version, expiration_ms);
        DataBuilder::new(&name)
            .content_type(ContentType::PREFIX_ANNOUNCEMENT)
            .content(&content)
            .to_vec(info, signature_len_max, sign)
    }

    /// The same, signed by `signer`; `None` if it cannot sign.
    pub(crate) fn sign(
        prefix: &Name,
        version: u64,
        expiration_ms: u64,
        signer: &mut dyn DataSigner,
    ) -> Option<Vec<u8>> {
        let (name, content) = Self::parts(prefix, version, expiration_ms);
        let data = DataBuilder::new(&name)
            .content_type(ContentType::PREFIX_ANNOUNCEMENT)
            .content(&content);
        signer.sign(&data)
    }

    fn parts(prefix: &Name, version: u64, expiration_ms: u64) -> (Name, Vec<u8>) {
        let mut name = prefix.clone();
        name.push(KEYWORD).push_version(version).push_segment(0);
        let mut content = Vec::new();
        ndn_packet::tlv::append_number(&mut content, numbers::EXPIRATION_PERIOD, expiration_ms);
        (name, content)
    }
}
