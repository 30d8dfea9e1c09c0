//! `status/general`: the dataset whose fields are in the Content without a block around them.

use ndn_packet::DecodeError;
use ndn_packet::tlv::Reader;

use super::declare::dataset;
use crate::block::Structure;

dataset! {
    /// The counters of the forwarder since its start, over all faces.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct ForwarderCounters {
        /// Interests received.
        pub in_interests: u64 = N_IN_INTERESTS,
        /// Data received.
        pub in_data: u64 = N_IN_DATA,
        /// Nacks received.
        pub in_nacks: u64 = N_IN_NACKS,
        /// Interests sent.
        pub out_interests: u64 = N_OUT_INTERESTS,
        /// Data sent.
        pub out_data: u64 = N_OUT_DATA,
        /// Nacks sent.
        pub out_nacks: u64 = N_OUT_NACKS,
        /// PIT entries that Data satisfied.
        pub satisfied_interests: u64 = N_SATISFIED_INTERESTS,
        /// PIT entries that expired.
        pub unsatisfied_interests: u64 = N_UNSATISFIED_INTERESTS,
    }
}

dataset! {
    /// `status/general`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct ForwarderStatus {
        /// Version of the forwarder, as text.
        pub version: String = NFD_VERSION,
        /// Time of its start, milliseconds since the Unix epoch.
        pub start_timestamp_ms: u64 = START_TIMESTAMP,
        /// Time of the dataset, milliseconds since the Unix epoch.
        pub current_timestamp_ms: u64 = CURRENT_TIMESTAMP,
        /// Entries of the name tree (NFD's; the sum of the tables here).
        pub name_tree_entries: u64 = N_NAME_TREE_ENTRIES,
        /// FIB entries.
        pub fib_entries: u64 = N_FIB_ENTRIES,
        /// PIT entries.
        pub pit_entries: u64 = N_PIT_ENTRIES,
        /// Measurements entries.
        pub measurements_entries: u64 = N_MEASUREMENTS_ENTRIES,
        /// Packets in the Content Store.
        pub cs_entries: u64 = N_CS_ENTRIES,
        /// The counters of the forwarder.
        pub counters: ForwarderCounters,
    }
}

impl ForwarderStatus {
    /// The whole content of the dataset.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_elements(&mut out);
        out
    }

    /// Reads the whole content of the dataset.
    ///
    /// # Errors
    /// If a field is absent or out of order, or a value is malformed.
    pub fn decode(content: &[u8]) -> Result<Self, DecodeError> {
        Self::read_in_order(Reader::new(content))
    }
}
