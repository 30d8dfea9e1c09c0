//! TLV-TYPE numbers of the packet format and of NDNLPv2.

/// Interest packet.
pub const INTEREST: u32 = 5;
/// Data packet.
pub const DATA: u32 = 6;
/// Name.
pub const NAME: u32 = 7;

/// Name component: implicit SHA-256 digest of a Data packet.
pub const IMPLICIT_SHA256_DIGEST_COMPONENT: u32 = 1;
/// Name component: SHA-256 digest of Interest parameters.
pub const PARAMETERS_SHA256_DIGEST_COMPONENT: u32 = 2;
/// Name component: generic.
pub const GENERIC_COMPONENT: u32 = 8;
/// Name component: keyword.
pub const KEYWORD_COMPONENT: u32 = 32;
/// Name component: segment number.
pub const SEGMENT_COMPONENT: u32 = 50;
/// Name component: byte offset.
pub const BYTE_OFFSET_COMPONENT: u32 = 52;
/// Name component: version.
pub const VERSION_COMPONENT: u32 = 54;
/// Name component: timestamp.
pub const TIMESTAMP_COMPONENT: u32 = 56;
/// Name component: sequence number.
pub const SEQUENCE_NUM_COMPONENT: u32 = 58;

/// Interest: CanBePrefix (empty).
pub const CAN_BE_PREFIX: u32 = 33;
/// Interest: MustBeFresh (empty).
pub const MUST_BE_FRESH: u32 = 18;
/// Interest: ForwardingHint, a sequence of Names.
pub const FORWARDING_HINT: u32 = 30;
/// Interest: Nonce (4 bytes).
pub const NONCE: u32 = 10;
/// Interest: InterestLifetime in milliseconds.
pub const INTEREST_LIFETIME: u32 = 12;
/// Interest: HopLimit (1 byte).
pub const HOP_LIMIT: u32 = 34;
/// Interest: ApplicationParameters.
pub const APPLICATION_PARAMETERS: u32 = 36;
/// Interest: InterestSignatureInfo.
pub const INTEREST_SIGNATURE_INFO: u32 = 44;
/// Interest: InterestSignatureValue.
pub const INTEREST_SIGNATURE_VALUE: u32 = 46;

/// Data: MetaInfo.
pub const META_INFO: u32 = 20;
/// Data: Content.
pub const CONTENT: u32 = 21;
/// Data: SignatureInfo.
pub const SIGNATURE_INFO: u32 = 22;
/// Data: SignatureValue.
pub const SIGNATURE_VALUE: u32 = 23;
/// MetaInfo: ContentType.
pub const CONTENT_TYPE: u32 = 24;
/// MetaInfo: FreshnessPeriod in milliseconds.
pub const FRESHNESS_PERIOD: u32 = 25;
/// MetaInfo: FinalBlockId, one name component.
pub const FINAL_BLOCK_ID: u32 = 26;
/// MetaInfo: first application-defined type.
pub const APPLICATION_META_INFO_MIN: u32 = 128;
/// MetaInfo: last application-defined type.
pub const APPLICATION_META_INFO_MAX: u32 = 252;

/// SignatureInfo: SignatureType.
pub const SIGNATURE_TYPE: u32 = 27;
/// SignatureInfo: KeyLocator.
pub const KEY_LOCATOR: u32 = 28;
/// KeyLocator: KeyDigest.
pub const KEY_DIGEST: u32 = 29;
/// InterestSignatureInfo: SignatureNonce.
pub const SIGNATURE_NONCE: u32 = 38;
/// InterestSignatureInfo: SignatureTime in milliseconds since 1970.
pub const SIGNATURE_TIME: u32 = 40;
/// InterestSignatureInfo: SignatureSeqNum.
pub const SIGNATURE_SEQ_NUM: u32 = 42;

/// Certificate: ValidityPeriod.
pub const VALIDITY_PERIOD: u32 = 253;
/// Certificate: NotBefore.
pub const NOT_BEFORE: u32 = 254;
/// Certificate: NotAfter.
pub const NOT_AFTER: u32 = 255;
/// Certificate: AdditionalDescription.
pub const ADDITIONAL_DESCRIPTION: u32 = 258;
/// Certificate: DescriptionEntry.
pub const DESCRIPTION_ENTRY: u32 = 512;
/// Certificate: DescriptionKey.
pub const DESCRIPTION_KEY: u32 = 513;
/// Certificate: DescriptionValue.
pub const DESCRIPTION_VALUE: u32 = 514;

/// Link delegation of an older ForwardingHint form, still accepted on reception.
pub const LINK_DELEGATION: u32 = 31;

/// Preference in a link delegation.
pub const LINK_PREFERENCE: u32 = 30;

/// NDNLPv2 packet.
pub const LP_PACKET: u32 = 100;
/// Whether a frame on a link can start with this byte: the type of an Interest, a Data or an LpPacket. All three are
/// below 253 and therefore one byte long (NDN Packet Format 0.3, "TLV Encoding").
#[inline]
#[must_use]
pub const fn starts_frame(first: u8) -> bool {
    matches!(first as u32, INTEREST | DATA | LP_PACKET)
}

/// NDNLPv2: Fragment.
pub const LP_FRAGMENT: u32 = 80;
/// NDNLPv2: Sequence (8 bytes).
pub const LP_SEQUENCE: u32 = 81;
/// NDNLPv2: FragIndex.
pub const LP_FRAG_INDEX: u32 = 82;
/// NDNLPv2: FragCount.
pub const LP_FRAG_COUNT: u32 = 83;
/// NDNLPv2: PitToken (1 to 32 bytes).
pub const LP_PIT_TOKEN: u32 = 98;
/// NDNLPv2: Nack.
pub const LP_NACK: u32 = 800;
/// NDNLPv2: NackReason.
pub const LP_NACK_REASON: u32 = 801;
/// NDNLPv2: IncomingFaceId.
pub const LP_INCOMING_FACE_ID: u32 = 812;
/// NDNLPv2: NextHopFaceId.
pub const LP_NEXT_HOP_FACE_ID: u32 = 816;
/// NDNLPv2: CachePolicy.
pub const LP_CACHE_POLICY: u32 = 820;
/// NDNLPv2: CachePolicyType.
pub const LP_CACHE_POLICY_TYPE: u32 = 821;
/// NDNLPv2: CongestionMark.
pub const LP_CONGESTION_MARK: u32 = 832;
/// NDNLPv2: Ack (8 bytes), the only repeatable field.
pub const LP_ACK: u32 = 836;
/// NDNLPv2: TxSequence (8 bytes).
pub const LP_TX_SEQUENCE: u32 = 840;
/// NDNLPv2: NonDiscovery (empty).
pub const LP_NON_DISCOVERY: u32 = 844;
/// NDNLPv2: PrefixAnnouncement, one Data packet.
pub const LP_PREFIX_ANNOUNCEMENT: u32 = 848;

/// Whether an unrecognised element of this type makes its packet invalid.
///
/// Packet specification, section "TLV evolvability": types up to 31 and odd types are critical.
#[must_use]
pub const fn is_critical(ty: u32) -> bool {
    ty <= 31 || ty & 1 == 1
}

/// Whether an unrecognised NDNLPv2 header field of this type is ignored (otherwise the packet is
/// dropped).
#[must_use]
pub const fn is_ignorable_lp_field(ty: u32) -> bool {
    ty >= 800 && ty <= 959 && ty & 3 == 0
}

/// The specification's name of a top-level TLV-TYPE.
#[must_use]
pub const fn type_name(ty: u32) -> Option<&'static str> {
    Some(match ty {
        INTEREST => "Interest",
        DATA => "Data",
        NAME => "Name",
        CAN_BE_PREFIX => "CanBePrefix",
        MUST_BE_FRESH => "MustBeFresh",
        FORWARDING_HINT => "ForwardingHint",
        NONCE => "Nonce",
        INTEREST_LIFETIME => "InterestLifetime",
        HOP_LIMIT => "HopLimit",
        APPLICATION_PARAMETERS => "ApplicationParameters",
        INTEREST_SIGNATURE_INFO => "InterestSignatureInfo",
        INTEREST_SIGNATURE_VALUE => "InterestSignatureValue",
        META_INFO => "MetaInfo",
        CONTENT => "Content",
        SIGNATURE_INFO => "SignatureInfo",
        SIGNATURE_VALUE => "SignatureValue",
        CONTENT_TYPE => "ContentType",
        FRESHNESS_PERIOD => "FreshnessPeriod",
        FINAL_BLOCK_ID => "FinalBlockId",
        SIGNATURE_TYPE => "SignatureType",
        KEY_LOCATOR => "KeyLocator",
        KEY_DIGEST => "KeyDigest",
        SIGNATURE_NONCE => "SignatureNonce",
        SIGNATURE_TIME => "SignatureTime",
        SIGNATURE_SEQ_NUM => "SignatureSeqNum",
        VALIDITY_PERIOD => "ValidityPeriod",
        NOT_BEFORE => "NotBefore",
        NOT_AFTER => "NotAfter",
        ADDITIONAL_DESCRIPTION => "AdditionalDescription",
        DESCRIPTION_ENTRY => "DescriptionEntry",
        DESCRIPTION_KEY => "DescriptionKey",
        DESCRIPTION_VALUE => "DescriptionValue",
        LINK_DELEGATION => "LinkDelegation",
        LP_PACKET => "LpPacket",
        LP_FRAGMENT => "Fragment",
        LP_SEQUENCE => "Sequence",
        LP_FRAG_INDEX => "FragIndex",
        LP_FRAG_COUNT => "FragCount",
        LP_PIT_TOKEN => "PitToken",
        LP_NACK => "Nack",
        LP_NACK_REASON => "NackReason",
        LP_INCOMING_FACE_ID => "IncomingFaceId",
        LP_NEXT_HOP_FACE_ID => "NextHopFaceId",
        LP_CACHE_POLICY => "CachePolicy",
        LP_CACHE_POLICY_TYPE => "CachePolicyType",
        LP_CONGESTION_MARK => "CongestionMark",
        LP_ACK => "Ack",
        LP_TX_SEQUENCE => "TxSequence",
        LP_NON_DISCOVERY => "NonDiscovery",
        LP_PREFIX_ANNOUNCEMENT => "PrefixAnnouncement",
        _ => return None,
    })
}
