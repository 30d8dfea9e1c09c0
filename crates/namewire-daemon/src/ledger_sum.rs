//! Resources that principals hold, summed over the workers.

use std::collections::BTreeMap;

use namewire_control::{LedgerStatus, PrincipalStatus, TableStatus};
use ndn_dataplane::WorkerLedgers;
use ndn_face::MemoryKind;
use ndn_table::Resource;
use ndn_types::{LedgerReport, PrincipalClass, PrincipalKey, PrincipalReport, Resources};

/// The sum of the reports of workers.
#[derive(Debug, Default)]
pub(super) struct LedgerSum {
    tables: BTreeMap<String, TableStatus>,
    /// Faces, and what is held by name of the resource.
    principals: BTreeMap<PrincipalKey, (u64, BTreeMap<&'static str, u64>)>,
}

impl LedgerSum {
    /// Adds one report of a worker.
    fn add<R: Resources<N>, const N: usize>(&mut self, report: &LedgerReport<N>) {
        self.add_held::<R, N>(report);
        for PrincipalReport { key, faces, .. } in &report.principals {
            let (faces_of_key, _) = self.principals.entry(*key).or_default();
            // Every worker that forwards knows all faces.
            *faces_of_key = u64::from(*faces).max(*faces_of_key);
        }
    }

    /// Adds the reports of a worker.
    pub(super) fn add_of_worker(&mut self, ledgers: &WorkerLedgers) {
        if let Some(tables) = &ledgers.tables {
            self.add::<Resource, _>(tables);
        }
        self.add::<MemoryKind, _>(&ledgers.memory);
    }

    /// Adds the report of resources that the control thread divides.
    pub(super) fn add_of_control<R: Resources<N>, const N: usize>(
        &mut self,
        report: &LedgerReport<N>,
    ) {
        self.add_held::<R, N>(report);
    }

    fn add_held<R: Resources<N>, const N: usize>(&mut self, report: &LedgerReport<N>) {
        for resource in R::ALL {
            let from = &report.resources[resource.index()];
            let to = self.tables.entry(resource.name().to_owned()).or_default();
            to.capacity += u64::from(from.capacity);
            to.used += u64::from(from.total);
            add_by_class(&mut to.used_by_class, &from.used);
            add_by_class(&mut to.reserves, &from.reserves);
            add_by_class(&mut to.shares, &from.shares);
        }
        for PrincipalReport { key, held, .. } in &report.principals {
            let (_, sums) = self.principals.entry(*key).or_default();
            for (resource, held) in R::ALL.iter().zip(held) {
                *sums.entry(resource.name()).or_default() += u64::from(*held);
            }
        }
    }

    /// The sum, without principals that have no faces and hold nothing.
    pub(super) fn into_status(self) -> LedgerStatus {
        let principals = self
            .principals
            .into_iter()
            .filter(|(_, (faces, held))| *faces > 0 || held.values().any(|held| *held > 0));
        let principals = principals.map(|(key, (faces, held))| PrincipalStatus {
            principal: key.to_string(),
            class: key.class().name().to_owned(),
            faces,
            held: held.into_iter().map(|(name, held)| (name.to_owned(), held)).collect(),
        });
        LedgerStatus { principals: principals.collect(), tables: self.tables }
    }
}

fn add_by_class(sums: &mut BTreeMap<String, u64>, counts: &[u32; PrincipalClass::COUNT]) {
    for (class, count) in PrincipalClass::ALL.iter().zip(counts) {
        *sums.entry(class.name().to_owned()).or_default() += u64::from(*count);
    }
}

#[cfg(test)]
mod tests {
    use ndn_types::ResourceReport;

    use super::*;

    #[test]
    fn reports_of_workers_are_summed_and_faces_counted_once() {
        let table = ResourceReport {
            capacity: 100,
            total: 7,
            reserves: [1, 10, 20, 0],
            used: [0, 0, 0, 7],
            shares: [70, 79, 89, 69],
        };
        let peer = PrincipalKey::remote(([192, 0, 2, 1], 6363).into());
        let principals = vec![PrincipalReport { key: peer, faces: 3, held: [7; Resource::COUNT] }];
        let report = ndn_table::LedgerReport { resources: [table; Resource::COUNT], principals };
        let mut sum = LedgerSum::default();
        sum.add::<Resource, _>(&report);
        sum.add::<Resource, _>(&report);
        let status = sum.into_status();
        let entries = &status.tables["pit_entries"];
        assert_eq!((entries.capacity, entries.used, entries.shares["remote"]), (200, 14, 138));
        let [of_peer] = &status.principals[..] else { panic!("{:?}", status.principals) };
        assert_eq!((of_peer.principal.as_str(), of_peer.class.as_str()), ("192.0.2.1", "remote"));
        assert_eq!((of_peer.faces, of_peer.held["further_in_records"]), (3, 14));
        let principals = vec![PrincipalReport { key: peer, faces: 9, held: [5] }];
        let waiting = LedgerReport { resources: [table], principals };
        let mut sum = LedgerSum::default();
        sum.add_of_control::<ndn_management::WaitingPlaces, 1>(&waiting);
        sum.add::<Resource, _>(&report);
        let [of_peer] = &sum.into_status().principals[..] else { panic!() };
        assert_eq!((of_peer.faces, of_peer.held["waiting_for_certificates"]), (3, 5));
    }
}
