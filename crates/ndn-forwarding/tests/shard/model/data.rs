//! Incoming Data.

use super::{Arrival, Link, Model, PitKey, Time, Unsolicited, is_prefix, is_under};
use crate::wire::Data;

impl Model {
    pub(super) fn receive_data(&mut self, now: Time, arrival: &Arrival, data: &Data) {
        let spec = self.face(arrival.face);
        if data.name.is_empty() || (!spec.local && is_under(&data.name, "localhost")) {
            return;
        }
        // No face of the model is management's.
        let second = data.name.get(1).is_some_and(|component| component.1 == b"nfd");
        if is_under(&data.name, "localhost") && second {
            return;
        }
        let may_cache = !arrival.no_cache;
        let full_name = data.full_name();
        let matches: Vec<PitKey> = self
            .pit
            .keys()
            .filter(|(name, can_be_prefix, _)| {
                *name == data.name
                    || *name == full_name
                    || (*can_be_prefix && is_prefix(name, &data.name))
            })
            .cloned()
            .collect();
        if matches.is_empty() {
            let admit = match self.unsolicited {
                Unsolicited::DropAll => false,
                Unsolicited::AdmitLocal => spec.local,
                Unsolicited::AdmitNetwork => !spec.local,
                Unsolicited::AdmitAll => true,
            };
            if admit && may_cache {
                self.store.insert(data, now);
            }
            return;
        }
        if may_cache {
            self.store.insert(data, now);
        }
        // One copy per downstream, and per token where one downstream waits with several.
        let mut downstreams = Vec::new();
        for key in &matches {
            for record in &self.pit[key].in_records {
                let goes_back = record.face == arrival.face && spec.link != Link::AdHoc;
                if record.expiry > now && !goes_back {
                    downstreams.push((record.face, record.token.clone()));
                }
            }
            self.finalize(key, Some(data.freshness_ms.unwrap_or(0)), now);
        }
        downstreams.sort();
        downstreams.dedup();
        for (face, token) in downstreams {
            self.send_data(face, data, token, arrival.mark, arrival.face);
        }
    }
}
