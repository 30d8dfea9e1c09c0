//! Counters for datasets.

use std::collections::BTreeMap;

use ndn_face::{FaceCounters, LinkDropReason};
use ndn_forwarding::Counters;
use ndn_management::{FaceActivity, ForwarderCounters, TableSizes, Telemetry};

use crate::control::face_table::KnownFace;
use namewire_control::{LinkCounters, LinkDown};
use ndn_types::{Timestamp, duration_ms};

/// Maximum faces per answer, so that it fits into a line.
const LINKS_PER_ANSWER: usize = 100;

/// Data-plane totals and listening addresses.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) counters: Counters,
    pub(super) channels: Vec<String>,
}

impl Figures {
    /// Combines the totals with `faces` for datasets.
    pub(super) fn telemetry<'a>(
        &'a self,
        faces: &'a BTreeMap<u64, KnownFace>,
        now: Timestamp,
    ) -> DataplaneTelemetry<'a> {
        DataplaneTelemetry { faces, now, counters: &self.counters, channels: &self.channels }
    }
}

/// Counters of the data plane, as management reads them.
#[derive(Debug)]
pub(super) struct DataplaneTelemetry<'a> {
    faces: &'a BTreeMap<u64, KnownFace>,
    now: Timestamp,
    counters: &'a Counters,
    channels: &'a [String],
}

impl Telemetry for DataplaneTelemetry<'_> {
    fn face(&self, face_id: u64) -> FaceActivity {
        let Some(face) = self.faces.get(&face_id) else { return FaceActivity::default() };
        FaceActivity {
            counters: face_counters(&face.counters),
            expiration_period_ms: face.idle_left_ms(self.now),
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

/// Returns the link counters of the faces with the lowest FaceIds above `after`.
pub(super) fn links(
    faces: &BTreeMap<u64, KnownFace>,
    after: Option<u64>,
    now: Timestamp,
    driver: impl Fn(&str) -> Option<&'static str>,
) -> BTreeMap<u64, LinkCounters> {
    let is_requested = |face_id: &u64| after.is_none_or(|after| *face_id > after);
    let mut chosen: Vec<u64> = faces.keys().copied().filter(is_requested).collect();
    chosen.sort_unstable();
    chosen.truncate(LINKS_PER_ANSWER);
    let counters = chosen.into_iter().map(|face_id| {
        let face = &faces[&face_id];
        let driver = face.interface().and_then(&driver).map(str::to_owned);
        (face_id, LinkCounters { driver, ..link_counters(face, now) })
    });
    counters.collect()
}

fn link_counters(face: &KnownFace, now: Timestamp) -> LinkCounters {
    let counters = &*face.counters;
    let drops = LinkDropReason::ALL.into_iter().filter_map(|reason| {
        let count = counters.dropped(reason).value();
        (count > 0).then(|| (reason.name().to_owned(), count))
    });
    let down = face.down().map(|down| LinkDown {
        reason: down.reason.clone(),
        for_ms: duration_ms(now - down.since),
    });
    LinkCounters {
        down,
        driver: None,
        process: face.process(),
        counters: counters.values(),
        drops: drops.collect(),
    }
}
