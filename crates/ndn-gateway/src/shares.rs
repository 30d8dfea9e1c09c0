//! Limits that clients' addresses share: connections, and transfers.
//!
//! The policy is that of the forwarder ([`ndn_types::Ledger`]), without reserves: while there is room, an address may
//! have as many as it likes; if there is none, an address below its share takes one from the address with the most.
//!
//! A connection or transfer that ends for it cannot be resumed, so a place that was taken stays with its new address
//! for [`KEPT`], also while nothing uses it: an address that comes and goes uses it again, and takes no further one.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use tokio::time::Instant;

use ndn_types::{
    Capacity, Limits, PrincipalIndex, PrincipalKey, RankedLedger, Reserves, ShareVerdict,
};

ndn_types::resource! {
    /// Connections, or transfers.
    struct Places = "places";
}

/// Time for which an address keeps a place that another one had to return.
pub(crate) const KEPT: Duration = Duration::from_secs(30);

/// The principal of a client: its user if it is on this host and the kernel names the user, otherwise its address.
pub fn principal_of(connection: BorrowedFd<'_>, peer: SocketAddr) -> PrincipalKey {
    // In tests of the gateway, each loopback address stands for a host.
    #[cfg(test)]
    if let std::net::IpAddr::V4(address) = peer.ip() {
        return PrincipalKey::Remote(ndn_types::RemoteAddress::V4(address));
    }
    let is_on_this_host = peer.ip().to_canonical().is_loopback();
    match is_on_this_host.then(|| user_of(connection)).flatten() {
        Some(uid) => PrincipalKey::LocalApplication { uid, pid: 0 },
        None => PrincipalKey::remote(peer),
    }
}

/// The user who has the other end of a connection on this host, if the kernel names the user.
fn user_of(connection: BorrowedFd<'_>) -> Option<u32> {
    #[cfg(target_os = "linux")]
    return ndn_sys::netlink::user_of_tcp_peer(connection).ok().flatten();
    #[cfg(not(target_os = "linux"))]
    {
        let _ = connection;
        None
    }
}

/// Places that addresses share.
#[derive(Debug)]
pub(crate) struct Shares {
    ledger: RankedLedger<Places, 1>,
    taken: HashMap<PrincipalIndex, Taken>,
}

/// The places that an address took from others.
#[derive(Debug, Default)]
struct Taken {
    /// Until when it keeps each, in order.
    until: Vec<Instant>,
    /// Those that nothing uses. They are charged.
    unused: usize,
}

impl Shares {
    pub(crate) fn new(places: usize) -> Self {
        let ledger = RankedLedger::new([Capacity::of(places.max(1))], Reserves::NONE);
        Self { ledger, taken: HashMap::new() }
    }

    /// Adds a connection or a request of an address, without a place.
    pub(crate) fn enter(&mut self, key: PrincipalKey) -> PrincipalIndex {
        self.ledger.attach(key)
    }

    /// Removes it.
    pub(crate) fn leave(&mut self, address: PrincipalIndex) {
        self.ledger.detach(address);
    }

    /// Whether there is a place for an address.
    pub(crate) fn has_room(&mut self, address: PrincipalIndex) -> bool {
        self.expire();
        self.ledger.is_open(Places, 1)
            || self.taken.get(&address).is_some_and(|taken| taken.unused > 0)
    }

    /// If there is no room: the address that has to give up a place for one of this address; preferably an unused one.
    pub(crate) fn payer_for(&mut self, address: PrincipalIndex) -> Option<PrincipalIndex> {
        if self.has_room(address) {
            return None;
        }
        match self.ledger.verdict(address, Places, 1) {
            ShareVerdict::Evict(limits) => {
                self.idle_victim(limits).or_else(|| self.ledger.victim(Places, limits))
            }
            ShareVerdict::Room | ShareVerdict::Refused => None,
        }
    }

    /// Of the addresses above their limits that keep unused places, the one with the most places.
    fn idle_victim(&self, limits: Limits) -> Option<PrincipalIndex> {
        let idle = self.taken.iter().filter(|(_, taken)| taken.unused > 0);
        let idle = idle.map(|(address, _)| *address);
        let above = idle.filter(|address| self.ledger.exceeds(*address, Places, limits));
        above.max_by_key(|address| (self.held(*address), *address))
    }

    /// An address takes a place that it keeps, or a free one.
    pub(crate) fn take(&mut self, address: PrincipalIndex) {
        match self.taken.get_mut(&address).filter(|taken| taken.unused > 0) {
            Some(taken) => taken.unused -= 1,
            None => self.ledger.charge(address, Places, 1),
        }
    }

    /// An address takes the place that `payer` gives up, and keeps it. Returns whether nothing used the place.
    pub(crate) fn take_from(&mut self, payer: PrincipalIndex, address: PrincipalIndex) -> bool {
        let mut is_unused = false;
        let left = self.held(payer) - 1;
        if let Some(taken) = self.taken.get_mut(&payer) {
            is_unused = taken.unused > 0;
            taken.unused -= usize::from(is_unused);
            taken.until.truncate(left as usize);
        }
        self.ledger.release(payer, Places, 1);
        self.ledger.charge(address, Places, 1);
        self.taken.entry(address).or_default().until.push(Instant::now() + KEPT);
        is_unused
    }

    /// Nothing uses a place of an address any more.
    pub(crate) fn give_back(&mut self, address: PrincipalIndex) {
        self.expire();
        match self.taken.get_mut(&address).filter(|taken| taken.unused < taken.until.len()) {
            Some(taken) => taken.unused += 1,
            None => self.ledger.release(address, Places, 1),
        }
    }

    /// Ends what is kept no longer.
    fn expire(&mut self) {
        let (now, ledger) = (Instant::now(), &mut self.ledger);
        self.taken.retain(|address, taken| {
            taken.until.retain(|until| *until > now);
            let ended = taken.unused.saturating_sub(taken.until.len());
            (0..ended).for_each(|_| ledger.release(*address, Places, 1));
            taken.unused -= ended;
            !taken.until.is_empty()
        });
    }

    pub(crate) fn held(&self, address: PrincipalIndex) -> u32 {
        self.ledger.held(address, Places)
    }

    /// Whether no address has a place or is waiting for one.
    #[cfg(test)]
    pub(crate) fn is_unused(&mut self) -> bool {
        self.expire();
        let report = self.ledger.report();
        // One for those that are not distinguished.
        report.is_zero() && report.principals.len() == 1 && self.taken.is_empty()
    }
}
