//! Counters for datasets.

use std::collections::HashMap;

use ndn_face::FaceCounters;
use ndn_forwarding::Counters;
use ndn_management::{FaceActivity, ForwarderCounters, TableSizes, Telemetry};
use ndn_sys::clock;

use super::faces::KnownFace;

/// A view on what the data plane counts.
#[derive(Debug)]
pub(super) struct DataplaneTelemetry<'a> {
    pub(super) faces: &'a HashMap<u64, KnownFace>,
    pub(super) counters: &'a Counters,
    pub(super) channels: &'a [String],
}

impl Telemetry for DataplaneTelemetry<'_> {
    fn face(&self, face_id: u64) -> FaceActivity {
        let Some(face) = self.faces.get(&face_id) else { return FaceActivity::default() };
        FaceActivity {
            counters: face_counters(&face.counters),
            expiration_period_ms: face.idle_left_ms(clock::now()),
        }
    }

    fn forwarder(&self) -> ForwarderCounters {
        let counters = self.counters;
        ForwarderCounters {
            in_interests: counters.in_interests.value(),
            in_data: counters.in_data.value(),
            in_nacks: counters.in_nacks.value(),
            out_interests: counters.out_interests.value(),
            out_data: counters.out_data.value(),
            out_nacks: counters.out_nacks.value(),
            satisfied_interests: counters.satisfied_interests.value(),
            unsatisfied_interests: counters.unsatisfied_interests.value(),
        }
    }

    fn tables(&self) -> TableSizes {
        TableSizes {
            pit_entries: self.counters.pit_entries.value(),
            measurements_entries: 0,
            cs_entries: self.counters.cs_entries.value(),
            cs_hits: self.counters.cs_hits.value(),
            cs_misses: self.counters.cs_misses.value(),
        }
    }

    fn channels(&self) -> Vec<String> {
        self.channels.to_vec()
    }
}

fn face_counters(counters: &FaceCounters) -> ndn_management::FaceCounters {
    ndn_management::FaceCounters {
        in_interests: counters.in_interests.value(),
        in_data: counters.in_data.value(),
        in_nacks: counters.in_nacks.value(),
        out_interests: counters.out_interests.value(),
        out_data: counters.out_data.value(),
        out_nacks: counters.out_nacks.value(),
        in_bytes: counters.in_bytes.value(),
        out_bytes: counters.out_bytes.value(),
    }
}
