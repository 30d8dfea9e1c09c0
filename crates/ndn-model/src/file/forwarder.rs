//! The forwarder of a model file.

use serde::Deserialize;
use serde_spanned::Spanned;

use super::error::FileError;
use super::quantity::{Count, Duration, FewCount, Ratio, count};
use crate::assembly::{
    Common, Dispatch, ForwardingQueues, Namewire, NdnDpdk, Placement, Traffic, namewire_overload,
};
use crate::network::{Network, QueueManagement, Services, Shed};

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum ForwarderKind {
    Namewire,
    NdnDpdk,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct ForwarderTable {
    kind: ForwarderKind,
    workers: Option<Spanned<FewCount>>,
    input_workers: Option<Spanned<usize>>,
    ring_capacity: Option<Spanned<Count>>,
    ring_burst: Option<Spanned<Count>>,
    answers_first: Option<Spanned<bool>>,
    overload: Option<Spanned<ManagementTable>>,
    input_threads: Option<Spanned<FewCount>>,
    forwarding_threads: Option<Spanned<FewCount>>,
    output_threads: Option<Spanned<FewCount>>,
    queues: Option<Spanned<QueuesKind>>,
    queue_capacity: Option<Spanned<Count>>,
    bursts: Option<Spanned<[Count; 3]>>,
    burst: Option<Spanned<Count>>,
    codel: Option<Spanned<ManagementTable>>,
    output_capacity: Option<Spanned<Count>>,
    output_burst: Option<Spanned<Count>>,
    placement: Option<PlacementName>,
    remote_factor: Option<Spanned<f64>>,
    dispatch: Option<Spanned<DispatchTable>>,
    pit_capacity: Option<Count>,
    #[serde(default)]
    hit_ratio: Ratio,
    poll: Option<Duration>,
    nic_capacity: Option<Count>,
    nic_burst: Option<Count>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum QueuesKind {
    Shared,
    ByKind,
}

#[derive(Deserialize, Clone, Copy)]
enum PlacementName {
    P1,
    P2,
    P3,
    P4,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ManagementTable {
    mark_after: Option<Duration>,
    refuse_after: Option<Duration>,
    refuse_by: Option<RefuseBy>,
    interval: Duration,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum RefuseBy {
    Nack,
    Drop,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DispatchTable {
    #[serde(default)]
    balanced: bool,
    salt: Option<u64>,
    shards: Option<Vec<u16>>,
}

impl ForwarderTable {
    /// The keys that both kinds of forwarders have.
    pub(super) fn common(&self, services: Services, text: &str) -> Result<Common, FileError> {
        let remote_factor = self.remote_factor.as_ref().map_or(1.0, |factor| *factor.get_ref());
        if !(remote_factor.is_finite() && remote_factor > 0.0) {
            let span = self.remote_factor.as_ref().map(Spanned::span);
            return Err(FileError::at(text, span, "a factor is finite and above zero"));
        }
        let dispatch = match &self.dispatch {
            None => Dispatch::Hash { salt: 0 },
            Some(spanned) => match spanned.get_ref() {
                DispatchTable { balanced: true, salt: None, shards: None } => Dispatch::Balanced,
                DispatchTable { balanced: false, salt: Some(salt), shards: None } => {
                    Dispatch::Hash { salt: *salt }
                }
                DispatchTable { balanced: false, salt: None, shards: Some(shards) } => {
                    Dispatch::Given(shards.clone())
                }
                DispatchTable { .. } => {
                    let reason = "dispatch is one of balanced = true, salt = NUMBER, shards = [..]";
                    return Err(FileError::at(text, Some(spanned.span()), reason));
                }
            },
        };
        Ok(Common {
            services,
            placement: match self.placement {
                None | Some(PlacementName::P1) => Placement::P1,
                Some(PlacementName::P2) => Placement::P2,
                Some(PlacementName::P3) => Placement::P3,
                Some(PlacementName::P4) => Placement::P4,
            },
            remote_factor,
            dispatch,
            pit_capacity: self.pit_capacity.map(|count| count.0),
            hit_ratio: self.hit_ratio.0,
            poll_ps: self.poll.map_or(0, |poll| poll.0 as u64),
            nic_capacity: self.nic_capacity.map_or(4096, |count| count.0),
            nic_burst: self.nic_burst.map_or(64, |count| count.0),
        })
    }

    /// The first key that belongs to the other kind of forwarder.
    fn foreign_key(&self) -> Option<(&'static str, core::ops::Range<usize>)> {
        macro_rules! keys {
            ($($field:ident),*) => {
                [$((stringify!($field), self.$field.as_ref().map(Spanned::span))),*]
                    .into_iter()
                    .find_map(|(name, span)| span.map(|span| (name, span)))
            };
        }
        match self.kind {
            ForwarderKind::Namewire => keys!(
                input_threads,
                forwarding_threads,
                output_threads,
                queues,
                queue_capacity,
                bursts,
                burst,
                codel,
                output_capacity,
                output_burst
            ),
            ForwarderKind::NdnDpdk => {
                keys!(workers, input_workers, ring_capacity, ring_burst, answers_first, overload)
            }
        }
    }

    pub(super) fn assemble(
        &self,
        spanned: &Spanned<Self>,
        common: Common,
        traffic: &Traffic,
        text: &str,
    ) -> Result<Network, FileError> {
        if let Some((key, span)) = self.foreign_key() {
            let reason =
                format!("`{}` does not belong to this kind of forwarder", key.replace('_', "-"));
            return Err(FileError::at(text, Some(span), reason));
        }
        let wrong = |reason: &str| FileError::at(text, Some(spanned.span()), reason);
        let prefixes =
            traffic.consumers.iter().map(|c| c.first_prefix as usize + c.prefix_cdf.len()).max();
        if let Dispatch::Given(shards) = &common.dispatch
            && Some(shards.len()) != prefixes
        {
            return Err(wrong("dispatch.shards has one shard for each prefix"));
        }
        if self.kind == ForwarderKind::NdnDpdk {
            return self.assemble_ndn_dpdk(common, traffic, text);
        }
        let workers = count(&self.workers, 1);
        let input_workers = self.input_workers.as_ref().map_or(0, |count| *count.get_ref());
        if input_workers >= workers {
            let span = self.input_workers.as_ref().map(Spanned::span);
            return Err(FileError::at(
                text,
                span,
                "some worker has to forward: input-workers is below workers",
            ));
        }
        let overload = match &self.overload {
            None => namewire_overload(),
            Some(spanned) => spanned.get_ref().management(spanned, text)?,
        };
        let namewire = Namewire {
            common,
            workers,
            input_workers,
            ring_capacity: count(&self.ring_capacity, 4096),
            ring_burst: count(&self.ring_burst, 64),
            overload: Some(overload),
            answers_first: self.answers_first.as_ref().is_none_or(|value| *value.get_ref()),
        };
        Ok(namewire.assemble(traffic))
    }

    fn assemble_ndn_dpdk(
        &self,
        common: Common,
        traffic: &Traffic,
        text: &str,
    ) -> Result<Network, FileError> {
        let capacity = count(&self.queue_capacity, 4096);
        let is_shared =
            self.queues.as_ref().is_some_and(|kind| *kind.get_ref() == QueuesKind::Shared);
        let queues = if is_shared {
            if let Some(bursts) = &self.bursts {
                return Err(FileError::at(
                    text,
                    Some(bursts.span()),
                    "a shared queue has one `burst`",
                ));
            }
            if let Some(codel) = &self.codel {
                return Err(FileError::at(text, Some(codel.span()), "a shared queue has no CoDel"));
            }
            ForwardingQueues::Shared { capacity, burst: count(&self.burst, 64) }
        } else {
            if let Some(burst) = &self.burst {
                return Err(FileError::at(
                    text,
                    Some(burst.span()),
                    "queues by kind have three `bursts`",
                ));
            }
            let bursts =
                self.bursts.as_ref().map_or([48, 64, 64], |b| b.get_ref().map(|count| count.0));
            let management = match &self.codel {
                None => None,
                Some(spanned) => Some(spanned.get_ref().management(spanned, text)?),
            };
            ForwardingQueues::ByKind { capacity, bursts, management }
        };
        let forwarder = NdnDpdk {
            common,
            input_threads: count(&self.input_threads, 1),
            forwarding_threads: count(&self.forwarding_threads, 1),
            output_threads: count(&self.output_threads, 1),
            queues,
            output_capacity: count(&self.output_capacity, 4096),
            output_burst: count(&self.output_burst, 64),
        };
        Ok(forwarder.assemble(traffic))
    }
}

impl ManagementTable {
    fn management(
        &self,
        spanned: &Spanned<Self>,
        text: &str,
    ) -> Result<QueueManagement, FileError> {
        if self.interval.0 < 1.0 || (self.refuse_by.is_some() && self.refuse_after.is_none()) {
            let reason = "an interval above zero; refuse-by only with refuse-after";
            return Err(FileError::at(text, Some(spanned.span()), reason));
        }
        let shed = match self.refuse_by {
            Some(RefuseBy::Drop) => Shed::Drop,
            Some(RefuseBy::Nack) | None => Shed::Nack,
        };
        Ok(QueueManagement {
            mark_after_ps: self.mark_after.map(|after| after.0 as u64),
            shed_after_ps: self.refuse_after.map(|after| (after.0 as u64, shed)),
            interval_ps: self.interval.0 as u64,
        })
    }
}
