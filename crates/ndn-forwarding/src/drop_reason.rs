//! Drop reasons.

ndn_types::drop_reasons! {
    /// Why a packet was dropped, or not sent. Each variant has a counter in
    /// [`Counters::dropped`](crate::Counters::dropped).
    pub enum DropReason {
        "On reception" {
            /// Not a well-formed Interest or Data.
            Malformed = "malformed",
            /// An Interest or Data with an empty name.
            EmptyName = "empty_name",
            /// More than 63 name components.
            NameTooLong = "name_too_long",
            /// An Interest with HopLimit 0.
            HopLimitZero = "hop_limit_zero",
            /// An Interest whose ParametersSha256Digest does not match its ApplicationParameters, or that
            /// has only one of the two.
            BadParametersDigest = "bad_parameters_digest",
            /// An NDNLPv2 header with a field that the face does not allow, or that does not apply to the
            /// kind of packet.
            BadLinkField = "bad_link_field",
            /// No packet buffer was free for an Interest that had to be completed.
            NoBuffer = "no_buffer" as "without packet memory",
            /// The burst had no free slot. This is a defect: please report it.
            BurstFull = "burst_full",
        }
        "Interests" {
            /// The face that received the packet was destroyed meanwhile.
            ArrivalFaceGone = "arrival_face_gone",
            /// An Interest under `/localhost` from a face that is not local.
            LocalhostScope = "localhost_scope",
            /// The Interest waited too long in a queue (`[overload]`), or found no room in the ring to another worker.
            Overload = "overload",
            /// The Nonce is in the dead nonce list: a loop.
            DeadNonce = "dead_nonce",
            /// The Nonce is in the PIT entry, from another face: a loop or a second path.
            DuplicateNonce = "duplicate_nonce",
            /// The PIT is full.
            PitFull = "pit_full",
            /// The PIT, or its memory for long Interests, has no room, and the principal of the face has its share.
            PitShare = "pit_share",
            /// The table of short-prefix Interests has no room, and the principal of the face has its share.
            ShortPrefixInterestsFull = "short_prefix_interests_full",
            /// The tables of in-records and PIT tokens, or the entry, have no room for the principal of the face.
            InRecordsFull = "in_records_full",
            /// A pending Interest of a principal above its share gave way to one of another principal.
            Evicted = "evicted",
            /// Nothing is lost: the strategy did not forward an Interest whose name is pending, and the Data answers it, too.
            RetransmissionSuppressed = "retransmission_suppressed",
            /// The strategy found no next hop.
            NoNextHop = "no_next_hop" as "without a next hop",
            /// NextHopFaceId is the number of a face that does not exist.
            NextHopFaceGone = "next_hop_face_gone",
            /// HopLimit was 1: only the Content Store and local faces can answer.
            HopLimitReached = "hop_limit_reached",
            /// The out-record table has no room for the principal of the Interest, or the entry is full.
            OutRecordsFull = "out_records_full",
            /// An out-record of a principal above its share gave way to one of another principal.
            OutRecordEvicted = "out_record_evicted",
        }
        "Data" {
            /// A Data under `/localhost` from a face that is not local, or under `/localhost/nfd`, or `/localhop/nfd` where
            /// management serves it, from another face than that of management.
            DataLocalhostScope = "data_localhost_scope",
            /// No PIT entry matches, and the unsolicited-Data policy does not cache it.
            UnsolicitedData = "unsolicited_data",
        }
        "Nacks" {
            /// A Nack from a face that is not point-to-point.
            NackLinkType = "nack_link_type",
            /// No PIT entry has the name and selectors of the Nack.
            NackUnmatched = "nack_unmatched",
            /// The PIT entry has no out-record for the face that the Nack came from.
            NackNoOutRecord = "nack_no_out_record",
            /// The Nonce is not the last one sent to that face.
            NackNonce = "nack_nonce",
            /// The Nack for a downstream would exceed the packet size.
            NackTooLong = "nack_too_long",
        }
        "On sending" {
            /// The outgoing face was destroyed meanwhile.
            EgressFaceGone = "egress_face_gone",
            /// Data under `/localhost` for a face that is not local.
            EgressLocalhostScope = "egress_localhost_scope",
        }
    }
}

impl DropReason {
    /// Reasons for which an Interest is dropped before it joins a PIT entry. Packets counted under
    /// other reasons have been in an in-record, or are not Interests that entered a shard.
    pub const REFUSED_INTEREST: [Self; 9] = [
        Self::ArrivalFaceGone,
        Self::LocalhostScope,
        Self::Overload,
        Self::DeadNonce,
        Self::DuplicateNonce,
        Self::PitFull,
        Self::PitShare,
        Self::ShortPrefixInterestsFull,
        Self::InRecordsFull,
    ];
}

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
