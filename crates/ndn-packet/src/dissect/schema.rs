//! TLV types by context, with the form of their values.

use crate::types as t;

/// The enclosing element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    /// Outside any packet, or the payload of an LpPacket.
    Top,
    Interest,
    ForwardingHint,
    LinkDelegation,
    Data,
    MetaInfo,
    FinalBlockId,
    SignatureInfo,
    KeyLocator,
    ValidityPeriod,
    AdditionalDescription,
    DescriptionEntry,
    Lp,
    Nack,
    CachePolicy,
    /// Application-defined elements.
    Application,
}

/// Presentation of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nested(Context),
    Name,
    Component,
    /// NonNegativeInteger with its unit.
    Number(&'static str),
    /// A value of this many bytes, shown as one hexadecimal number.
    Fixed(usize),
    /// One byte.
    Byte,
    Empty,
    Text,
    SignatureType,
    ContentType,
    NackReason,
    /// Payload of an LpPacket.
    Fragment,
    /// Application-defined bytes.
    Opaque,
    Hex,
}

/// Name and form of an element of type `ty` inside `context`; `None` if it is unknown there.
pub(super) const fn describe(context: Context, ty: u32) -> Option<(&'static str, Kind)> {
    match context {
        Context::Top => top(ty),
        Context::Interest => interest(ty),
        Context::Data => data(ty),
        Context::Lp => lp(ty),
        Context::SignatureInfo => signature_info(ty),
        Context::ForwardingHint
        | Context::LinkDelegation
        | Context::MetaInfo
        | Context::FinalBlockId
        | Context::KeyLocator
        | Context::ValidityPeriod
        | Context::AdditionalDescription
        | Context::DescriptionEntry
        | Context::Nack
        | Context::CachePolicy => inner(context, ty),
        Context::Application => None,
    }
}

/// Elements in the order of the specification, for contexts with non-critical elements, which are
/// ignored if they come too late.
pub(super) const fn order(context: Context) -> &'static [u32] {
    match context {
        Context::Interest => &[
            t::NAME,
            t::CAN_BE_PREFIX,
            t::MUST_BE_FRESH,
            t::FORWARDING_HINT,
            t::NONCE,
            t::INTEREST_LIFETIME,
            t::HOP_LIMIT,
            t::APPLICATION_PARAMETERS,
            t::INTEREST_SIGNATURE_INFO,
            t::INTEREST_SIGNATURE_VALUE,
        ],
        Context::SignatureInfo => &[
            t::SIGNATURE_TYPE,
            t::KEY_LOCATOR,
            t::SIGNATURE_NONCE,
            t::SIGNATURE_TIME,
            t::SIGNATURE_SEQ_NUM,
            t::VALIDITY_PERIOD,
            t::ADDITIONAL_DESCRIPTION,
        ],
        Context::ValidityPeriod => &[t::NOT_BEFORE, t::NOT_AFTER],
        Context::DescriptionEntry => &[t::DESCRIPTION_KEY, t::DESCRIPTION_VALUE],
        Context::Top
        | Context::Data
        | Context::Lp
        | Context::ForwardingHint
        | Context::LinkDelegation
        | Context::MetaInfo
        | Context::FinalBlockId
        | Context::KeyLocator
        | Context::AdditionalDescription
        | Context::Nack
        | Context::CachePolicy
        | Context::Application => &[],
    }
}

const fn top(ty: u32) -> Option<(&'static str, Kind)> {
    Some(match ty {
        t::INTEREST => ("Interest", Kind::Nested(Context::Interest)),
        t::DATA => ("Data", Kind::Nested(Context::Data)),
        t::LP_PACKET => ("LpPacket", Kind::Nested(Context::Lp)),
        t::NAME => ("Name", Kind::Name),
        _ => return None,
    })
}

const fn interest(ty: u32) -> Option<(&'static str, Kind)> {
    Some(match ty {
        t::NAME => ("Name", Kind::Name),
        t::CAN_BE_PREFIX => ("CanBePrefix", Kind::Empty),
        t::MUST_BE_FRESH => ("MustBeFresh", Kind::Empty),
        t::FORWARDING_HINT => ("ForwardingHint", Kind::Nested(Context::ForwardingHint)),
        t::NONCE => ("Nonce", Kind::Fixed(4)),
        t::INTEREST_LIFETIME => ("InterestLifetime", Kind::Number(" ms")),
        t::HOP_LIMIT => ("HopLimit", Kind::Byte),
        t::APPLICATION_PARAMETERS => ("ApplicationParameters", Kind::Opaque),
        t::INTEREST_SIGNATURE_INFO => {
            ("InterestSignatureInfo", Kind::Nested(Context::SignatureInfo))
        }
        t::INTEREST_SIGNATURE_VALUE => ("InterestSignatureValue", Kind::Hex),
        _ => return None,
    })
}

const fn data(ty: u32) -> Option<(&'static str, Kind)> {
    Some(match ty {
        t::NAME => ("Name", Kind::Name),
        t::META_INFO => ("MetaInfo", Kind::Nested(Context::MetaInfo)),
        t::CONTENT => ("Content", Kind::Opaque),
        t::SIGNATURE_INFO => ("SignatureInfo", Kind::Nested(Context::SignatureInfo)),
        t::SIGNATURE_VALUE => ("SignatureValue", Kind::Hex),
        _ => return None,
    })
}

const fn signature_info(ty: u32) -> Option<(&'static str, Kind)> {
    Some(match ty {
        t::SIGNATURE_TYPE => ("SignatureType", Kind::SignatureType),
        t::KEY_LOCATOR => ("KeyLocator", Kind::Nested(Context::KeyLocator)),
        t::SIGNATURE_NONCE => ("SignatureNonce", Kind::Hex),
        t::SIGNATURE_TIME => ("SignatureTime", Kind::Number(" ms since 1970")),
        t::SIGNATURE_SEQ_NUM => ("SignatureSeqNum", Kind::Number("")),
        t::VALIDITY_PERIOD => ("ValidityPeriod", Kind::Nested(Context::ValidityPeriod)),
        t::ADDITIONAL_DESCRIPTION => {
            ("AdditionalDescription", Kind::Nested(Context::AdditionalDescription))
        }
        _ => return None,
    })
}

const fn lp(ty: u32) -> Option<(&'static str, Kind)> {
    Some(match ty {
        t::LP_FRAGMENT => ("Fragment", Kind::Fragment),
        t::LP_SEQUENCE => ("Sequence", Kind::Fixed(8)),
        t::LP_FRAG_INDEX => ("FragIndex", Kind::Number("")),
        t::LP_FRAG_COUNT => ("FragCount", Kind::Number("")),
        t::LP_PIT_TOKEN => ("PitToken", Kind::Hex),
        t::LP_NACK => ("Nack", Kind::Nested(Context::Nack)),
        t::LP_INCOMING_FACE_ID => ("IncomingFaceId", Kind::Number("")),
        t::LP_NEXT_HOP_FACE_ID => ("NextHopFaceId", Kind::Number("")),
        t::LP_CACHE_POLICY => ("CachePolicy", Kind::Nested(Context::CachePolicy)),
        t::LP_CONGESTION_MARK => ("CongestionMark", Kind::Number("")),
        t::LP_ACK => ("Ack", Kind::Fixed(8)),
        t::LP_TX_SEQUENCE => ("TxSequence", Kind::Fixed(8)),
        t::LP_NON_DISCOVERY => ("NonDiscovery", Kind::Empty),
        t::LP_PREFIX_ANNOUNCEMENT => ("PrefixAnnouncement", Kind::Nested(Context::Top)),
        _ => return None,
    })
}

const fn inner(context: Context, ty: u32) -> Option<(&'static str, Kind)> {
    Some(match (context, ty) {
        (Context::ForwardingHint | Context::LinkDelegation | Context::KeyLocator, t::NAME) => {
            ("Name", Kind::Name)
        }
        (Context::ForwardingHint, t::LINK_DELEGATION) => {
            ("LinkDelegation", Kind::Nested(Context::LinkDelegation))
        }
        (Context::LinkDelegation, t::LINK_PREFERENCE) => ("LinkPreference", Kind::Number("")),
        (Context::KeyLocator, t::KEY_DIGEST) => ("KeyDigest", Kind::Hex),
        (Context::MetaInfo, t::CONTENT_TYPE) => ("ContentType", Kind::ContentType),
        (Context::MetaInfo, t::FRESHNESS_PERIOD) => ("FreshnessPeriod", Kind::Number(" ms")),
        (Context::MetaInfo, t::FINAL_BLOCK_ID) => {
            ("FinalBlockId", Kind::Nested(Context::FinalBlockId))
        }
        (Context::FinalBlockId, 1..=65535) => ("NameComponent", Kind::Component),
        (Context::ValidityPeriod, t::NOT_BEFORE) => ("NotBefore", Kind::Text),
        (Context::ValidityPeriod, t::NOT_AFTER) => ("NotAfter", Kind::Text),
        (Context::AdditionalDescription, t::DESCRIPTION_ENTRY) => {
            ("DescriptionEntry", Kind::Nested(Context::DescriptionEntry))
        }
        (Context::DescriptionEntry, t::DESCRIPTION_KEY) => ("DescriptionKey", Kind::Text),
        (Context::DescriptionEntry, t::DESCRIPTION_VALUE) => ("DescriptionValue", Kind::Text),
        (Context::Nack, t::LP_NACK_REASON) => ("NackReason", Kind::NackReason),
        (Context::CachePolicy, t::LP_CACHE_POLICY_TYPE) => ("CachePolicyType", Kind::Number("")),
        _ => return None,
    })
}
