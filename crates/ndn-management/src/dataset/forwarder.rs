//! `status/general`: the dataset whose fields are in the Content without a block around them.

use ndn_packet::DecodeError;
use ndn_packet::tlv::{self, Reader};

use super::declare::dataset;
use crate::block::{self, OrderedFields};
use crate::numbers;

dataset! { part:
    /// The counters of the forwarder since its start, over all faces.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct ForwarderCounters {
        /// Interests received.
        pub in_interests: u64,
        /// Data received.
        pub in_data: u64,
        /// Nacks received.
        pub in_nacks: u64,
        /// Interests sent.
        pub out_interests: u64,
        /// Data sent.
        pub out_data: u64,
        /// Nacks sent.
        pub out_nacks: u64,
        /// PIT entries that Data satisfied.
        pub satisfied_interests: u64,
        /// PIT entries that expired.
        pub unsatisfied_interests: u64,
    }
}

dataset! { item:
    /// `status/general`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct ForwarderStatus {
        /// Version of the forwarder, as text.
        pub version: String,
        /// Time of its start, milliseconds since the Unix epoch.
        pub start_timestamp_ms: u64,
        /// Time of the dataset, milliseconds since the Unix epoch.
        pub current_timestamp_ms: u64,
        /// Entries of the name tree (NFD's; the sum of the tables here).
        pub name_tree_entries: u64,
        /// FIB entries.
        pub fib_entries: u64,
        /// PIT entries.
        pub pit_entries: u64,
        /// Measurements entries.
        pub measurements_entries: u64,
        /// Packets in the Content Store.
        pub cs_entries: u64,
        /// The counters of the forwarder.
        pub counters: ForwarderCounters,
    }
}

impl ForwarderStatus {
    /// The whole content of the dataset.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        block::append_text(&mut out, numbers::NFD_VERSION, &self.version);
        for (number, value) in [
            (numbers::START_TIMESTAMP, self.start_timestamp_ms),
            (numbers::CURRENT_TIMESTAMP, self.current_timestamp_ms),
            (numbers::N_NAME_TREE_ENTRIES, self.name_tree_entries),
            (numbers::N_FIB_ENTRIES, self.fib_entries),
            (numbers::N_PIT_ENTRIES, self.pit_entries),
            (numbers::N_MEASUREMENTS_ENTRIES, self.measurements_entries),
            (numbers::N_CS_ENTRIES, self.cs_entries),
            (numbers::N_IN_INTERESTS, self.counters.in_interests),
            (numbers::N_IN_DATA, self.counters.in_data),
            (numbers::N_IN_NACKS, self.counters.in_nacks),
            (numbers::N_OUT_INTERESTS, self.counters.out_interests),
            (numbers::N_OUT_DATA, self.counters.out_data),
            (numbers::N_OUT_NACKS, self.counters.out_nacks),
            (numbers::N_SATISFIED_INTERESTS, self.counters.satisfied_interests),
            (numbers::N_UNSATISFIED_INTERESTS, self.counters.unsatisfied_interests),
        ] {
            tlv::append_number(&mut out, number, value);
        }
        out
    }

    /// Reads the whole content of the dataset.
    ///
    /// # Errors
    /// If a field is absent or out of order, or a value is malformed.
    pub fn decode(content: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = OrderedFields::new(Reader::new(content));
        Ok(Self {
            version: fields.text(numbers::NFD_VERSION)?,
            start_timestamp_ms: fields.number(numbers::START_TIMESTAMP)?,
            current_timestamp_ms: fields.number(numbers::CURRENT_TIMESTAMP)?,
            name_tree_entries: fields.number(numbers::N_NAME_TREE_ENTRIES)?,
            fib_entries: fields.number(numbers::N_FIB_ENTRIES)?,
            pit_entries: fields.number(numbers::N_PIT_ENTRIES)?,
            measurements_entries: fields.number(numbers::N_MEASUREMENTS_ENTRIES)?,
            cs_entries: fields.number(numbers::N_CS_ENTRIES)?,
            counters: ForwarderCounters {
                in_interests: fields.number(numbers::N_IN_INTERESTS)?,
                in_data: fields.number(numbers::N_IN_DATA)?,
                in_nacks: fields.number(numbers::N_IN_NACKS)?,
                out_interests: fields.number(numbers::N_OUT_INTERESTS)?,
                out_data: fields.number(numbers::N_OUT_DATA)?,
                out_nacks: fields.number(numbers::N_OUT_NACKS)?,
                satisfied_interests: fields.number(numbers::N_SATISFIED_INTERESTS)?,
                unsatisfied_interests: fields.number(numbers::N_UNSATISFIED_INTERESTS)?,
            },
        })
    }
}
