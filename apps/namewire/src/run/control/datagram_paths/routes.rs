//! What the kernel has said about the ways to peers, asked again now and then, and not too often.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use ndn_sys::netlink::Route;
use ndn_types::duration_ns;

/// For how long a route is taken for true of whose change nothing was told, such as what a path has been found to take.
const ROUTES_LAST: Duration = Duration::from_secs(10);
/// And at least, so that routes that flap do not keep the control thread busy.
const ROUTES_LAST_MIN: Duration = Duration::from_secs(1);
/// How often the kernel is asked in one look; the next one goes on.
const REQUESTS_MAX: usize = 256;

/// The ends of a UDP face, as far as the way depends on them: the peer's address and interface, our address.
pub(super) type Ends = (IpAddr, Option<u32>, Option<IpAddr>);

#[derive(Debug)]
struct Known {
    route: Option<Route>,
    /// The round in which the kernel was asked.
    round: u64,
    /// The look in which it was needed for the last time.
    look: u64,
}

/// Ways by their ends. In each round the kernel is asked for all of them once, if that takes several looks.
#[derive(Debug, Default)]
pub(super) struct Routes {
    known: BTreeMap<Ends, Known>,
    round: u64,
    round_began_ns: u64,
    look: u64,
    /// Requests in this look.
    requests: usize,
    /// Routes have changed since the round began.
    is_changed: bool,
    /// Not all of this round have been asked for.
    is_behind: bool,
}

impl Routes {
    /// The kernel has other routes now.
    pub(super) fn note_change(&mut self) {
        self.is_changed = true;
    }

    /// When the next round may begin that a change has asked for.
    pub(super) fn next_round_ns(&self) -> u64 {
        self.round_began_ns + duration_ns(ROUTES_LAST_MIN)
    }

    /// Begins a look, and a round if it is time for that and the last one has ended: thus everybody is asked for
    /// in the end.
    pub(super) fn begin(&mut self, now_ns: u64) {
        (self.requests, self.look) = (0, self.look + 1);
        let was_behind = std::mem::take(&mut self.is_behind);
        let is_due = now_ns >= self.round_began_ns + duration_ns(ROUTES_LAST)
            || self.is_changed && now_ns >= self.next_round_ns();
        if is_due && !was_behind {
            (self.round, self.round_began_ns, self.is_changed) = (self.round + 1, now_ns, false);
        }
    }

    /// The way between these ends, by what was said in this round, or asked now. What was said before holds while too
    /// much has been asked already, and a way that nothing was said about is not known.
    pub(super) fn find(
        &mut self,
        ends: Ends,
        ask: impl FnOnce() -> Option<Route>,
    ) -> Option<Route> {
        let (round, look) = (self.round, self.look);
        let known = self.known.get_mut(&ends);
        let known = known.map(|known| {
            known.look = look;
            (known.route, known.round == round)
        });
        match known {
            Some((route, true)) => route,
            before if self.requests == REQUESTS_MAX => {
                self.is_behind = true;
                before.and_then(|(route, _)| route)
            }
            _ => {
                self.requests += 1;
                let route = ask();
                self.known.insert(ends, Known { route, round, look });
                route
            }
        }
    }

    /// Ends a look: forgets ways that nobody needs. Whether some are still to be asked for.
    pub(super) fn end(&mut self) -> bool {
        let look = self.look;
        self.known.retain(|_, known| known.look == look);
        self.is_behind
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn route(interface: u32) -> Option<Route> {
        Some(Route { interface: Some(interface), gateway: None, source: None, mtu: None })
    }

    /// One look at `count` faces; how often the kernel was asked, and whether more is to be asked.
    fn look(routes: &mut Routes, now_ns: u64, count: usize) -> (usize, bool) {
        let mut requests = 0;
        routes.begin(now_ns);
        for number in (1..).take(count) {
            let ends = (IpAddr::V4(Ipv4Addr::from_bits(number)), None, None);
            let before = requests;
            let found = routes.find(ends, || {
                requests += 1;
                route(number)
            });
            assert!(found == route(number) || found.is_none() && requests == before);
        }
        (requests, routes.end())
    }

    #[test]
    fn routes_that_flap_are_asked_for_once_a_second() {
        let mut routes = Routes::default();
        let began = 100 * SECOND;
        assert_eq!(look(&mut routes, began, 10), (10, false));
        let mut requests = 0;
        for step in 1..=60 {
            routes.note_change();
            requests += look(&mut routes, began + step * SECOND / 20, 10).0;
        }
        assert_eq!(requests, 3 * 10, "three seconds");
        assert_eq!(look(&mut routes, began + 12 * SECOND, 10), (0, false));
        assert_eq!(look(&mut routes, began + 13 * SECOND, 10), (10, false), "of age");
    }

    #[test]
    fn a_look_asks_so_often_and_the_next_goes_on() {
        let mut routes = Routes::default();
        let count = 2 * REQUESTS_MAX + 7;
        let began = 100 * SECOND;
        assert_eq!(look(&mut routes, began, count), (REQUESTS_MAX, true));
        // A change does not have those asked for again that come first.
        routes.note_change();
        assert_eq!(look(&mut routes, began + 2 * SECOND, count), (REQUESTS_MAX, true));
        assert_eq!(look(&mut routes, began + 3 * SECOND, count), (7, false));
        assert_eq!(look(&mut routes, began + 4 * SECOND, count), (REQUESTS_MAX, true));
        assert_eq!(routes.known.len(), count);
        look(&mut routes, began + 5 * SECOND, 1);
        assert_eq!(routes.known.len(), 1, "nobody needs the others");
    }
}
