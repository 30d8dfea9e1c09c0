//! Until when the arrivals at a station are known.

use super::packet::NEVER;
use super::services::{Service, Services};
use crate::network::{Network, Peer, Stage};

/// The shortest time that passes between a poll of a station and an arrival at another one that follows from it, by
/// whatever way. Services and links take at least one picosecond, so none is zero.
#[derive(Debug)]
pub(super) struct Lookahead {
    /// Row of each station: from each station, and from the generation of an Interest.
    shortest_ps: Vec<u64>,
    columns: usize,
}

impl Lookahead {
    /// `station_of` has the number of each station of the network here: there are `count`.
    pub(super) fn new(
        network: &Network,
        services: &Services<'_>,
        station_of: &[usize],
        count: usize,
    ) -> Self {
        let columns = count + 1;
        let mut all = Self { shortest_ps: vec![NEVER; count * columns], columns };
        for (id, from) in station_of.iter().enumerate().filter(|(_, from)| **from != usize::MAX) {
            for (queue, spec) in network.queues.iter().enumerate() {
                if network.can_feed(id, queue) {
                    let before = shortest_before(services, spec.stage);
                    all.note(*from, station_of[spec.station], before);
                }
            }
        }
        for (number, face) in network.faces.iter().enumerate() {
            let to = station_of[network.queues[face.input_queue].station];
            let incoming_ps = shortest_link(&face.incoming);
            match face.peer {
                Peer::Consumer(_) => all.note(count, to, incoming_ps),
                Peer::Producer(_) => {
                    let output_ps = services.output[number].iter().map(Service::minimum_ps).min();
                    let way_ps =
                        shortest_link(&face.outgoing) + services.produce.minimum_ps() + incoming_ps;
                    let from = station_of[network.queues[face.output_queue].station];
                    // What a station sends to itself by a producer, it knows at once.
                    if from != to {
                        all.note(from, to, output_ps.unwrap_or(1) + way_ps);
                    }
                }
            }
        }
        all.close(count);
        all
    }

    /// Notes a way between two stations.
    fn note(&mut self, from: usize, to: usize, time_ps: u64) {
        let shortest_ps = &mut self.shortest_ps[to * self.columns + from];
        *shortest_ps = (*shortest_ps).min(time_ps);
    }

    /// Adds the ways by other stations (Floyd, Warshall, 1962); that of a station to itself leads by another one.
    fn close(&mut self, count: usize) {
        for by in 0..count {
            for to in 0..count {
                let second_ps = self.shortest_ps[to * self.columns + by];
                for from in 0..self.columns {
                    let first_ps = self.shortest_ps[by * self.columns + from];
                    self.note(from, to, first_ps + second_ps);
                }
            }
        }
    }

    /// Before this time, all arrivals at a station are known if the stations poll next at `next_ps`.
    #[inline]
    pub(super) fn bound_ps(&self, station: usize, next_ps: &[u64]) -> u64 {
        let row = &self.shortest_ps[station * self.columns..][..self.columns];
        let arrivals_ps = row.iter().zip(next_ps).map(|(way, next)| way + next);
        arrivals_ps.fold(NEVER, u64::min)
    }
}

/// The shortest service of the stage that comes before `stage`.
fn shortest_before(services: &Services<'_>, stage: Stage) -> u64 {
    let shortest = match stage {
        Stage::Forward => services.input.as_flattened().iter().map(Service::minimum_ps).min(),
        Stage::Output => {
            let forward = services.forward.as_flattened().as_flattened().iter();
            forward.chain(&services.hit).map(Service::minimum_ps).min()
        }
        Stage::Input | Stage::Produce => None,
    };
    shortest.unwrap_or(1)
}

fn shortest_link(link: &crate::network::Link) -> u64 {
    link.delay_ps + link.transmit_ps.iter().min().unwrap_or(&0)
}
