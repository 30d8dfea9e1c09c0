//! Drop reasons.

/// Why a packet was dropped, or not sent. Each variant has a counter in
/// [`Counters::dropped`](crate::Counters::dropped).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DropReason {
    // On arrival, before the packet is in a burst.
    /// Not a well-formed Interest or Data.
    Malformed,
    /// An Interest or Data with an empty name.
    EmptyName,
    /// More name components than [`NAME_COMPONENTS_MAX`](ndn_table::NAME_COMPONENTS_MAX).
    NameTooLong,
    /// An Interest with HopLimit 0.
    HopLimitZero,
    /// An Interest whose ParametersSha256Digest does not match its ApplicationParameters, or that
    /// has only one of the two.
    BadParametersDigest,
    /// A PIT token of 0 or more than 32 bytes.
    BadPitToken,
    /// An NDNLPv2 header with a field that the face does not allow, or that does not apply to the
    /// kind of packet.
    BadLinkField,
    /// No buffer to write a rewritten Interest into.
    NoBuffer,
    /// The burst has no free slot. The worker should have processed it first.
    BurstFull,

    // Interests.
    /// The arrival face has been removed.
    ArrivalFaceGone,
    /// An Interest under `/localhost` from a face that is not local.
    LocalhostScope,
    /// The worker is overloaded: Interests have waited in its queue for too long.
    Overload,
    /// The Nonce is in the dead nonce list.
    DeadNonce,
    /// The Nonce is in an in-record or out-record of the PIT entry, from another face.
    DuplicateNonce,
    /// The PIT is full.
    PitFull,
    /// The PIT is nearly full, and the arrival face has used its share of it.
    PitShare,
    /// The arrival face has as many Interests pending as its quota allows.
    PendingQuota,
    /// The table of short-prefix Interests is full.
    ShortPrefixInterestsFull,
    /// The in-record table, or the entry, is full.
    InRecordsFull,
    /// The strategy suppressed a retransmission.
    RetransmissionSuppressed,
    /// The strategy found no next hop.
    NoNextHop,
    /// NextHopFaceId names a face that does not exist.
    NextHopFaceGone,
    /// HopLimit was 1: only the CS and local faces can answer.
    HopLimitReached,
    /// The out-record table, or the entry, is full.
    OutRecordsFull,

    // Data.
    /// A Data under `/localhost` from a face that is not local.
    DataLocalhostScope,
    /// No PIT entry matches, and the unsolicited-Data policy does not cache it.
    UnsolicitedData,

    // Nacks.
    /// A Nack from a face that is not point-to-point.
    NackLinkType,
    /// No PIT entry has the name and selectors of the Nack.
    NackUnmatched,
    /// The PIT entry has no out-record for the face that the Nack came from.
    NackNoOutRecord,
    /// The Nonce is not the last one sent to that face.
    NackNonce,
    /// A Nack could not be encoded for a downstream: its Interest is too long.
    NackTooLong,

    // On departure.
    /// The outgoing face has been removed.
    EgressFaceGone,
    /// Data under `/localhost` for a face that is not local.
    EgressLocalhostScope,
}

impl DropReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 33] = [
        Self::Malformed,
        Self::EmptyName,
        Self::NameTooLong,
        Self::HopLimitZero,
        Self::BadParametersDigest,
        Self::BadPitToken,
        Self::BadLinkField,
        Self::NoBuffer,
        Self::BurstFull,
        Self::ArrivalFaceGone,
        Self::LocalhostScope,
        Self::Overload,
        Self::DeadNonce,
        Self::DuplicateNonce,
        Self::PitFull,
        Self::PitShare,
        Self::PendingQuota,
        Self::ShortPrefixInterestsFull,
        Self::InRecordsFull,
        Self::RetransmissionSuppressed,
        Self::NoNextHop,
        Self::NextHopFaceGone,
        Self::HopLimitReached,
        Self::OutRecordsFull,
        Self::DataLocalhostScope,
        Self::UnsolicitedData,
        Self::NackLinkType,
        Self::NackUnmatched,
        Self::NackNoOutRecord,
        Self::NackNonce,
        Self::NackTooLong,
        Self::EgressFaceGone,
        Self::EgressLocalhostScope,
    ];

    /// Reasons for which an Interest is dropped before it joins a PIT entry. Packets counted under
    /// other reasons have been in an in-record, or are not Interests that entered a shard.
    pub const REFUSED_INTEREST: [Self; 10] = [
        Self::ArrivalFaceGone,
        Self::LocalhostScope,
        Self::Overload,
        Self::DeadNonce,
        Self::DuplicateNonce,
        Self::PitFull,
        Self::PitShare,
        Self::PendingQuota,
        Self::ShortPrefixInterestsFull,
        Self::InRecordsFull,
    ];

    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// Index of the counter.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self as u8)
    }

    /// Name in metrics and logs: lower case with underscores.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::EmptyName => "empty_name",
            Self::NameTooLong => "name_too_long",
            Self::HopLimitZero => "hop_limit_zero",
            Self::BadParametersDigest => "bad_parameters_digest",
            Self::BadPitToken => "bad_pit_token",
            Self::BadLinkField => "bad_link_field",
            Self::NoBuffer => "no_buffer",
            Self::BurstFull => "burst_full",
            Self::ArrivalFaceGone => "arrival_face_gone",
            Self::LocalhostScope => "localhost_scope",
            Self::Overload => "overload",
            Self::DeadNonce => "dead_nonce",
            Self::DuplicateNonce => "duplicate_nonce",
            Self::PitFull => "pit_full",
            Self::PitShare => "pit_share",
            Self::PendingQuota => "pending_quota",
            Self::ShortPrefixInterestsFull => "wide_interests_full",
            Self::InRecordsFull => "in_records_full",
            Self::RetransmissionSuppressed => "retransmission_suppressed",
            Self::NoNextHop => "no_next_hop",
            Self::NextHopFaceGone => "next_hop_face_gone",
            Self::HopLimitReached => "hop_limit_reached",
            Self::OutRecordsFull => "out_records_full",
            Self::DataLocalhostScope => "data_localhost_scope",
            Self::UnsolicitedData => "unsolicited_data",
            Self::NackLinkType => "nack_link_type",
            Self::NackUnmatched => "nack_unmatched",
            Self::NackNoOutRecord => "nack_no_out_record",
            Self::NackNonce => "nack_nonce",
            Self::NackTooLong => "nack_too_long",
            Self::EgressFaceGone => "egress_face_gone",
            Self::EgressLocalhostScope => "egress_localhost_scope",
        }
    }
}

const _: () = {
    let mut index = 0;
    while index < DropReason::COUNT {
        assert!(DropReason::ALL[index] as usize == index);
        index += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::DropReason;

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::COUNT);
    }
}
