//! The producer regions that this network is.

use ndn_packet::{Name, NameRef};

/// Names of the producer regions that this forwarder is part of.
///
/// An Interest whose ForwardingHint has a delegation that is a prefix of one of them has arrived
/// where its own name can be routed, so the hint has done its work.
#[derive(Debug, Clone, Default)]
pub struct ProducerRegions {
    names: Vec<Name>,
}

impl ProducerRegions {
    /// The regions `names`.
    #[must_use]
    pub fn new(names: Vec<Name>) -> Self {
        Self { names }
    }

    /// Whether a ForwardingHint of these delegations has reached one of the regions.
    pub(crate) fn are_reached_by<'a>(
        &self,
        delegations: impl Iterator<Item = NameRef<'a>>,
    ) -> bool {
        let mut delegations = delegations;
        !self.names.is_empty()
            && delegations.any(|delegation| {
                self.names.iter().any(|region| region.as_ref().starts_with(delegation))
            })
    }
}
