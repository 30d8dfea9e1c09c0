//! Packets and requests that leave the control plane, in order.

use std::collections::VecDeque;

use ndn_packet::{ContentType, DataBuilder, NameRef};

use super::action::Action;
use crate::command;
use crate::publisher::FRESHNESS_MS;
use crate::response::ControlResponse;
use crate::sign::DataSigner;

/// Queues actions, and signs the Data among them.
pub(super) struct Outbox {
    actions: VecDeque<Action>,
    pub(super) signer: Box<dyn DataSigner + Send>,
    unsigned: u64,
}

impl Outbox {
    pub(super) fn new(signer: Box<dyn DataSigner + Send>) -> Self {
        Self { actions: VecDeque::new(), signer, unsigned: 0 }
    }

    pub(super) fn push(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(super) fn pop(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The number of Data packets that could not be signed.
    pub(super) const fn unsigned(&self) -> u64 {
        self.unsigned
    }

    /// Answers a command. If its name is not its own, a cached answer would also answer the same command of other programs,
    /// which would not be executed.
    pub(super) fn respond(&mut self, name: NameRef<'_>, response: &ControlResponse) {
        self.send_response(name, response, command::has_own_name(name));
    }

    /// As [`Self::respond`], but the Content Store does not keep the answer.
    pub(super) fn respond_uncached(&mut self, name: NameRef<'_>, response: &ControlResponse) {
        self.send_response(name, response, false);
    }

    fn send_response(&mut self, name: NameRef<'_>, response: &ControlResponse, may_cache: bool) {
        let content = response.to_vec();
        let data = DataBuilder::new(name).freshness_ms(FRESHNESS_MS).content(&content);
        self.send_data(&data, may_cache);
    }

    /// Answers the request for a dataset with an application Nack.
    pub(super) fn nack(&mut self, name: NameRef<'_>, response: &ControlResponse) {
        let content = response.to_vec();
        let data = DataBuilder::new(name)
            .content_type(ContentType::NACK)
            .freshness_ms(FRESHNESS_MS)
            .content(&content);
        self.send_data(&data, true);
    }

    pub(super) fn send_data(&mut self, data: &DataBuilder<'_>, may_cache: bool) {
        match self.signer.sign(data) {
            Some(wire) => self.push(Action::SendData { wire, may_cache }),
            None => self.unsigned += 1,
        }
    }
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { actions, signer: _, unsigned } = self;
        let mut shown = formatter.debug_struct("Outbox");
        shown.field("actions", actions).field("unsigned", unsigned).finish_non_exhaustive()
    }
}
