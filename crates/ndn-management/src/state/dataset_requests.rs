//! Requests for datasets whose answers are being encoded.

use ndn_packet::{Name, NameRef};
use ndn_types::{PrincipalIndex, PrincipalKey, RankedLedger};

/// Maximum number of requests that wait for the encoding of a large table or of the answer to a query. Principals share the
/// places; further requests get no answer.
pub(super) const WAITING_MAX: usize = 64;

ndn_types::resource! {
    /// Places for requests whose answers are being encoded, which principals share.
    pub struct DatasetPlaces = "dataset_requests";
}

/// A request whose answer is being encoded.
#[derive(Debug)]
pub(super) struct DatasetRequest {
    /// The name of the dataset with the parameters of the request.
    pub(super) prefix: Name,
    /// The principal whose place it has.
    pub(super) owner: PrincipalIndex,
}

impl DatasetRequest {
    /// Whether it is this one, which its principal has repeated.
    pub(super) fn is(
        &self,
        (requester, prefix): (PrincipalKey, NameRef<'_>),
        places: &RankedLedger<DatasetPlaces, 1>,
    ) -> bool {
        self.prefix == prefix && requester.is_within(places.key(self.owner))
    }
}

#[cfg(test)]
mod tests {
    use ndn_types::{Capacity, Reserves};

    use super::*;
    use crate::testing::name;

    /// The seventeenth process of a user is charged to the user.
    #[test]
    fn repeated_request_of_a_process_among_many_is_recognized() {
        let mut places = RankedLedger::new([Capacity::of(WAITING_MAX)], Reserves::NONE);
        let process = |pid| PrincipalKey::LocalApplication { uid: 1, pid };
        let prefix = name("/localhost/nfd/rib/list");
        for pid in 1..=20 {
            let owner = places.attach(process(pid));
            let request = DatasetRequest { prefix: prefix.clone(), owner };
            assert!(request.is((process(pid), prefix.as_ref()), &places), "process {pid}");
            let of_another = PrincipalKey::LocalApplication { uid: 2, pid };
            assert!(!request.is((of_another, prefix.as_ref()), &places));
        }
    }
}
