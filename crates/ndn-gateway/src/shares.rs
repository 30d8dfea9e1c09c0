//! What the addresses of clients share: connections, and transfers.
//!
//! The policy is that of the forwarder ([`ndn_types::Ledger`]), without reserves: while there is room, an address may
//! have as many as it likes; if there is none, an address below its share takes one from the address with the most.

use std::net::SocketAddr;

use ndn_types::{
    Capacity, PrincipalIndex, PrincipalKey, RankedLedger, Reserves, Resources, Verdict,
};

/// Connections, or transfers.
#[derive(Debug, Clone, Copy)]
struct Places;

impl Resources<1> for Places {
    const ALL: [Self; 1] = [Self];

    fn index(self) -> usize {
        0
    }

    fn name(self) -> &'static str {
        "places"
    }
}

/// Places that addresses share.
#[derive(Debug)]
pub(crate) struct Shares(RankedLedger<Places, 1>);

impl Shares {
    pub(crate) fn new(places: usize) -> Self {
        Self(RankedLedger::new([Capacity::of(places.max(1))], Reserves::NONE))
    }

    /// Adds a connection or a request of an address, without a place.
    pub(crate) fn enter(&mut self, peer: SocketAddr) -> PrincipalIndex {
        self.0.attach(PrincipalKey::remote(peer))
    }

    /// Removes it.
    pub(crate) fn leave(&mut self, address: PrincipalIndex) {
        self.0.detach(address);
    }

    pub(crate) fn has_room(&self) -> bool {
        self.0.is_open(Places, 1)
    }

    /// If there is no room: the address that has to give up a place for one of this address.
    pub(crate) fn payer_for(&self, address: PrincipalIndex) -> Option<PrincipalIndex> {
        match self.0.verdict(address, Places, 1) {
            Verdict::Evict(limits) => self.0.victim(Places, limits),
            Verdict::Room | Verdict::Refused => None,
        }
    }

    pub(crate) fn take(&mut self, address: PrincipalIndex) {
        self.0.charge(address, Places, 1);
    }

    pub(crate) fn give_back(&mut self, address: PrincipalIndex) {
        self.0.release(address, Places, 1);
    }

    pub(crate) fn held(&self, address: PrincipalIndex) -> u32 {
        self.0.held(address, Places)
    }

    /// Whether no address has a place or is waiting for one.
    #[cfg(test)]
    pub(crate) fn is_unused(&self) -> bool {
        // One for those that are not distinguished.
        self.0.report().is_zero() && self.0.report().principals.len() == 1
    }
}
