//! What the datasets hold at the moment.

use ndn_packet::NameRef;

use super::{ControlState, FaceRecord, Telemetry};
use crate::dataset::{
    ChannelStatus, CsInfo, DatasetItem, ForwarderStatus, NextHopRecord, RouteRecord,
    StrategyChoice, append_entry,
};
use crate::dispatch::Dataset;
use crate::types::cs_flag;
use crate::{Now, Route};

impl ControlState {
    /// Publishes a new version of a dataset, unless the last one still holds, and sends its first
    /// segment.
    pub(super) fn publish(
        &mut self,
        now: Now,
        dataset: &Dataset,
        prefix: NameRef<'_>,
        telemetry: &dyn Telemetry,
    ) {
        let generation = self.generation_of(dataset);
        if let Some(segment) =
            generation.and_then(|current| self.publisher.reuse(now, prefix, current))
        {
            let wire = self.collaborators.signer.sign(&segment.data());
            return self.send(wire, false);
        }
        self.counters.datasets += 1;
        let content = self.content_of(now, dataset, telemetry);
        let segment = self.publisher.publish(now, prefix, content, generation);
        let wire = self.collaborators.signer.sign(&segment.data());
        self.send(wire, false);
    }

    /// Sends a segment of a version that is still kept.
    pub(super) fn send_stored(&mut self, now: Now, name: NameRef<'_>) -> bool {
        let Some(segment) = self.publisher.find(now, name) else { return false };
        let wire = self.collaborators.signer.sign(&segment.data());
        self.send(wire, false);
        true
    }

    /// A number that changes with the dataset; `None` where counters change all the time.
    fn generation_of(&self, dataset: &Dataset) -> Option<u64> {
        match dataset {
            Dataset::FibList => Some(self.fib.generation()),
            Dataset::RibList => Some(self.rib.generation()),
            Dataset::StrategyChoiceList => Some(self.strategy_generation),
            Dataset::ForwarderStatus
            | Dataset::FaceList
            | Dataset::FaceQuery(_)
            | Dataset::ChannelList
            | Dataset::CsInfo => None,
        }
    }

    fn content_of(&self, now: Now, dataset: &Dataset, telemetry: &dyn Telemetry) -> Vec<u8> {
        match dataset {
            Dataset::ForwarderStatus => self.forwarder_status(now, telemetry).to_vec(),
            Dataset::FaceList => self.face_list(telemetry, |_| true),
            Dataset::FaceQuery(filter) => {
                self.face_list(telemetry, |record| filter.matches(&record.properties))
            }
            Dataset::ChannelList => encode_all(
                telemetry.channels().into_iter().map(|local_uri| ChannelStatus { local_uri }),
            ),
            Dataset::FibList => self.fib_list(),
            Dataset::RibList => self.rib_list(now),
            Dataset::CsInfo => self.cs_info(telemetry).to_vec(),
            Dataset::StrategyChoiceList => {
                encode_all(self.strategy_choices.iter().map(|(name, strategy)| StrategyChoice {
                    name: name.clone(),
                    strategy: strategy.clone(),
                }))
            }
        }
    }

    fn fib_list(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for (prefix, next_hops) in self.fib.iter() {
            let records =
                next_hops.iter().map(|hop| NextHopRecord { face_id: hop.face_id, cost: hop.cost });
            append_entry(&mut content, prefix.as_ref(), records);
        }
        content
    }

    fn rib_list(&self, now: Now) -> Vec<u8> {
        let mut content = Vec::new();
        for (prefix, routes) in self.rib.iter() {
            append_entry(&mut content, prefix, routes.iter().map(|route| route_record(now, route)));
        }
        content
    }

    fn face_list(
        &self,
        telemetry: &dyn Telemetry,
        wanted: impl Fn(&FaceRecord) -> bool,
    ) -> Vec<u8> {
        let faces = self.faces.iter().filter(|record| wanted(record));
        encode_all(faces.map(|record| record.status(telemetry)))
    }

    fn cs_info(&self, telemetry: &dyn Telemetry) -> CsInfo {
        let tables = telemetry.tables();
        let admit = if self.cs.admit { cs_flag::ADMIT } else { 0 };
        let serve = if self.cs.serve { cs_flag::SERVE } else { 0 };
        CsInfo {
            capacity: self.cs.capacity,
            flags: admit | serve,
            entries: tables.cs_entries,
            hits: tables.cs_hits,
            misses: tables.cs_misses,
        }
    }

    fn forwarder_status(&self, now: Now, telemetry: &dyn Telemetry) -> ForwarderStatus {
        let tables = telemetry.tables();
        let fib_entries = self.fib.len() as u64;
        let strategy_choices = self.strategy_choices.len() as u64;
        ForwarderStatus {
            version: self.config.version.clone(),
            start_timestamp_ms: self.config.started_unix_ms,
            current_timestamp_ms: now.unix_ms(),
            name_tree_entries: fib_entries
                + strategy_choices
                + tables.pit_entries
                + tables.measurements_entries,
            fib_entries,
            pit_entries: tables.pit_entries,
            measurements_entries: tables.measurements_entries,
            cs_entries: tables.cs_entries,
            counters: telemetry.forwarder(),
        }
    }
}

fn route_record(now: Now, route: &Route) -> RouteRecord {
    let remaining_ns = |expires_at_ns: u64| expires_at_ns.saturating_sub(now.monotonic_ns);
    RouteRecord {
        face_id: route.face_id,
        origin: route.origin,
        cost: route.cost,
        flags: route.flags,
        expiration_period_ms: route.expires_at_ns.map(|at| remaining_ns(at) / 1_000_000),
    }
}

fn encode_all<T: DatasetItem>(items: impl Iterator<Item = T>) -> Vec<u8> {
    let mut content = Vec::new();
    items.for_each(|item| item.encode(&mut content));
    content
}
