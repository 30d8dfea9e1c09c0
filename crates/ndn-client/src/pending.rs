//! Pending Interests, and flows: hash tables by name.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use bytes::Bytes;
use ndn_packet::{Data, DataLayout, DecodeError, Interest, NackReason, NameRef};
use ndn_security::sha256;
use tokio::sync::{mpsc, oneshot};

/// A received Data.
#[derive(Debug, Clone)]
pub struct ReceivedData {
    wire: Bytes,
    layout: DataLayout,
    congestion_mark: bool,
}

impl ReceivedData {
    /// `layout` must be that of `wire`.
    pub(crate) fn new(wire: Bytes, layout: DataLayout, congestion_mark: bool) -> Self {
        Self { wire, layout, congestion_mark }
    }

    /// A packet that was not received by an endpoint.
    ///
    /// # Errors
    /// It is not one Data.
    pub fn from_wire(wire: Bytes) -> Result<Self, DecodeError> {
        let layout = Data::parse(&wire)?.layout();
        Ok(Self { wire, layout, congestion_mark: false })
    }

    /// The parsed packet.
    #[must_use]
    pub fn data(&self) -> Data<'_> {
        self.layout.data(&self.wire)
    }

    /// The whole Data TLV.
    #[must_use]
    pub fn wire(&self) -> &Bytes {
        &self.wire
    }

    /// Content; it shares the memory of the packet.
    #[must_use]
    pub fn content(&self) -> Bytes {
        self.data().content_range().map(|range| self.wire.slice(range)).unwrap_or_default()
    }

    /// Length of the content.
    #[must_use]
    pub fn content_len(&self) -> usize {
        self.data().content_range().map_or(0, |range| range.len())
    }

    /// Whether the Data has a congestion mark.
    #[must_use]
    pub fn congestion_mark(&self) -> bool {
        self.congestion_mark
    }
}

/// An answer to an Interest.
#[derive(Debug)]
pub(crate) enum InterestAnswer {
    Data(ReceivedData),
    Nack(NackReason),
    /// The connection has ended for good.
    Closed,
}

/// An event of a flow.
#[derive(Debug)]
pub(crate) enum FlowEvent {
    /// A Data one component below the flow's prefix.
    Data(ReceivedData),
    /// A Nack for an Interest whose last component is the segment.
    Nack {
        /// Number in the Interest's last component: a segment number in either convention, or
        /// another number.
        segment: u64,
        /// Reason.
        reason: NackReason,
    },
}

struct Waiter {
    id: u64,
    can_be_prefix: bool,
    /// Implicit digest of the expected Data.
    digest: Option<[u8; 32]>,
    sender: oneshot::Sender<InterestAnswer>,
}

struct Flow {
    id: u64,
    sender: mpsc::Sender<FlowEvent>,
}

/// Handle to remove a waiter or a flow.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    id: u64,
    name: Box<[u8]>,
    /// Number of components in `name`.
    length: usize,
    can_be_prefix: bool,
}

/// The tables.
#[derive(Default)]
pub(crate) struct PendingTable {
    next_id: u64,
    waiters: HashMap<Box<[u8]>, Vec<Waiter>>,
    /// Number of CanBePrefix waiters, by the length of their name.
    prefix_lengths: BTreeMap<usize, usize>,
    flows: HashMap<Box<[u8]>, Vec<Flow>>,
    closed: bool,
}

impl PendingTable {
    /// Adds an Interest; the answer is sent through `sender`.
    pub(crate) fn insert(
        &mut self,
        interest: &Interest<'_>,
        sender: oneshot::Sender<InterestAnswer>,
    ) -> Key {
        let name = interest.name();
        let digest = name.implicit_digest().copied();
        let looked_up = if digest.is_some() { name.parent() } else { name };
        let can_be_prefix = interest.can_be_prefix() && digest.is_none();
        let key = self.new_key(looked_up, can_be_prefix);
        if self.closed {
            let _ = sender.send(InterestAnswer::Closed);
            return key;
        }
        self.waiters.entry(key.name.clone()).or_default().push(Waiter {
            id: key.id,
            can_be_prefix,
            digest,
            sender,
        });
        if can_be_prefix {
            *self.prefix_lengths.entry(key.length).or_default() += 1;
        }
        key
    }

    /// Adds a flow: all Data exactly one component below `prefix` are sent to `sender`.
    pub(crate) fn insert_flow(
        &mut self,
        prefix: NameRef<'_>,
        sender: mpsc::Sender<FlowEvent>,
    ) -> Key {
        let key = self.new_key(prefix, false);
        if self.closed {
            return key;
        }
        self.flows.entry(key.name.clone()).or_default().push(Flow { id: key.id, sender });
        key
    }

    fn new_key(&mut self, name: NameRef<'_>, can_be_prefix: bool) -> Key {
        self.next_id += 1;
        Key { id: self.next_id, name: name.value().into(), length: name.len(), can_be_prefix }
    }

    /// Removes the entry of `key`, if it still exists.
    pub(crate) fn remove(&mut self, key: &Key) {
        let waiter_removed =
            remove_where(&mut self.waiters, &key.name, |waiter| waiter.id == key.id);
        if waiter_removed && key.can_be_prefix {
            self.forget_prefix_length(key.length);
        }
        remove_where(&mut self.flows, &key.name, |flow| flow.id == key.id);
    }

    fn forget_prefix_length(&mut self, length: usize) {
        if let Some(count) = self.prefix_lengths.get_mut(&length) {
            *count -= 1;
            if *count == 0 {
                self.prefix_lengths.remove(&length);
            }
        }
    }

    /// Number of pending Interests.
    pub(crate) fn len(&self) -> usize {
        self.waiters.values().map(Vec::len).sum()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.flows.is_empty() && self.prefix_lengths.is_empty()
    }

    /// Passes a Data to everything that it satisfies; returns whether there was anything.
    pub(crate) fn handle_data(&mut self, data: &Data<'_>, wire: &Bytes, mark: bool) -> bool {
        let name = data.name();
        let mut found = false;
        if let Some(flows) =
            (!self.flows.is_empty()).then(|| self.flows.get(name.parent().value())).flatten()
        {
            for flow in flows {
                found = true;
                // A flow with a full queue loses packets, as on any link.
                let event = FlowEvent::Data(ReceivedData::new(wire.clone(), data.layout(), mark));
                let _ = flow.sender.try_send(event);
            }
        }
        if self.waiters.is_empty() {
            return found;
        }
        let mut answer = LazyAnswer { wire, layout: data.layout(), mark, copy: None, digest: None };
        found |= self.answer_waiters(name, false, &mut answer);
        if !self.prefix_lengths.is_empty() {
            let lengths: Vec<usize> =
                self.prefix_lengths.range(..name.len()).map(|(length, _)| *length).collect();
            for length in lengths {
                found |= self.answer_waiters(name.prefix(length), true, &mut answer);
            }
        }
        found
    }

    /// Answers the waiters under `name`; if `prefix`, only those with CanBePrefix.
    fn answer_waiters(
        &mut self,
        name: NameRef<'_>,
        prefix: bool,
        answer: &mut LazyAnswer<'_>,
    ) -> bool {
        let Some(waiters) = self.waiters.get_mut(name.value()) else {
            return false;
        };
        let satisfied: Vec<Waiter> = waiters
            .extract_if(.., |waiter| {
                (!prefix || waiter.can_be_prefix)
                    && waiter.digest.is_none_or(|digest| digest == answer.digest())
            })
            .collect();
        if waiters.is_empty() {
            self.waiters.remove(name.value());
        }
        for waiter in &satisfied {
            if waiter.can_be_prefix {
                self.forget_prefix_length(name.len());
            }
        }
        let found = !satisfied.is_empty();
        for waiter in satisfied {
            let _ = waiter.sender.send(InterestAnswer::Data(answer.data()));
        }
        found
    }

    /// Passes a Nack to the matching Interests.
    pub(crate) fn handle_nack(&mut self, interest: &Interest<'_>, reason: NackReason) -> bool {
        let name = interest.name();
        let mut found = false;
        if let Some(flows) = self.flows.get(name.parent().value())
            && let Some(last) = name.last()
            && let Some(segment) = last.as_segment_or_marked().or_else(|| last.as_number())
        {
            for flow in flows {
                found = true;
                let _ = flow.sender.try_send(FlowEvent::Nack { segment, reason });
            }
        }
        let digest = name.implicit_digest().copied();
        let looked_up = if digest.is_some() { name.parent() } else { name };
        let can_be_prefix = interest.can_be_prefix() && digest.is_none();
        let Some(waiters) = self.waiters.get_mut(looked_up.value()) else {
            return found;
        };
        let refused: Vec<Waiter> = waiters
            .extract_if(.., |w| w.can_be_prefix == can_be_prefix && w.digest == digest)
            .collect();
        if waiters.is_empty() {
            self.waiters.remove(looked_up.value());
        }
        for waiter in refused {
            found = true;
            if waiter.can_be_prefix {
                self.forget_prefix_length(looked_up.len());
            }
            let _ = waiter.sender.send(InterestAnswer::Nack(reason));
        }
        found
    }

    /// Notifies all that the connection has ended for good.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        for waiter in self.waiters.drain().flat_map(|(_, waiters)| waiters) {
            let _ = waiter.sender.send(InterestAnswer::Closed);
        }
        self.prefix_lengths.clear();
        self.flows.clear();
    }
}

/// Removes the matching elements of `table[key]`; returns whether there was one.
fn remove_where<K: Hash + Eq + std::borrow::Borrow<[u8]>, T>(
    table: &mut HashMap<K, Vec<T>>,
    key: &[u8],
    matches: impl Fn(&T) -> bool,
) -> bool {
    let Some(list) = table.get_mut(key) else {
        return false;
    };
    let before = list.len();
    list.retain(|element| !matches(element));
    let removed = list.len() < before;
    if list.is_empty() {
        table.remove(key);
    }
    removed
}

/// An answer whose parts are computed on demand.
struct LazyAnswer<'a> {
    wire: &'a Bytes,
    layout: DataLayout,
    mark: bool,
    copy: Option<Bytes>,
    digest: Option<[u8; 32]>,
}

impl LazyAnswer<'_> {
    fn digest(&mut self) -> [u8; 32] {
        *self.digest.get_or_insert_with(|| sha256(self.wire))
    }

    /// A separate copy, so that a small Data does not keep a whole read buffer alive.
    fn data(&mut self) -> ReceivedData {
        let copy = self.copy.get_or_insert_with(|| Bytes::copy_from_slice(self.wire));
        ReceivedData::new(copy.clone(), self.layout, self.mark)
    }
}
