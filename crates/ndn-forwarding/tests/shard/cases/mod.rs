//! The behaviour of the NFD pipelines, case by case: a script of arrivals with the packets sent for
//! each. The model must pass the cases too.

mod access;
mod data;
mod disk;
mod failover;
mod interest;
mod limits;
mod nack;
mod self_learning;
mod shares;
mod strategies;
mod token;
#[cfg(feature = "vip")]
mod vip;

use ndn_forwarding::DropReason;

use crate::differential::{seen_departure, seen_sent};
use crate::model::{
    Arrival, Departure, Face, FaceSpec, Link, OutToken, Strategy, Time, Tokens, Unsolicited,
};
use crate::wire::{Data, Interest, Packet, name};
use crate::world::World;

/// Faces 1 to 4 are point-to-point and not local, 10 and 11 are local applications.
const LOCAL_A: Face = 10;
const LOCAL_B: Face = 11;
const MULTI_ACCESS: Face = 20;
const AD_HOC: Face = 30;

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    title: &'static str,
    world: World,
    lines: Vec<Line>,
    drops: Vec<(DropReason, u64)>,
    model_too: bool,
}

#[derive(Clone, Debug)]
struct Line {
    now: Time,
    arrival: Arrival,
    departures: Vec<Departure>,
}

impl Case {
    fn new(title: &'static str) -> Self {
        let spec =
            |local, link| FaceSpec { local, link, tokens: Tokens::Never, local_fields: false };
        let mut faces: Vec<(Face, FaceSpec)> =
            (1..=4).map(|face| (face, spec(false, Link::PointToPoint))).collect();
        faces.extend([LOCAL_A, LOCAL_B].map(|face| (face, spec(true, Link::PointToPoint))));
        faces.push((MULTI_ACCESS, spec(false, Link::MultiAccess)));
        faces.push((AD_HOC, spec(false, Link::AdHoc)));
        let world = World {
            faces,
            routes: Vec::new(),
            strategies: Vec::new(),
            regions: Vec::new(),
            unsolicited: Unsolicited::DropAll,
            cs_capacity: 100,
            serves: true,
            depth: 2,
            nameless_shards: 0,
            moves: false,
            changes: false,
            pit_capacity: 100,
            one_principal: true,
            lifetimes_ms: Vec::new(),
        };
        Self { title, world, lines: Vec::new(), drops: Vec::new(), model_too: true }
    }

    fn route(mut self, prefix: &str, face: Face) -> Self {
        let cost = u32::try_from(self.world.routes.len()).unwrap();
        self.world.routes.push((name(prefix), face, cost));
        self
    }

    fn multicast(mut self, prefix: &str) -> Self {
        self.world.strategies.push((name(prefix), Strategy::multicast()));
        self
    }

    fn with(mut self, change: impl FnOnce(&mut World)) -> Self {
        change(&mut self.world);
        self
    }

    fn face(self, face: Face, change: impl FnOnce(&mut FaceSpec)) -> Self {
        self.with(|world| {
            let found = world.faces.iter_mut().find(|(other, _)| *other == face);
            change(&mut found.unwrap().1);
        })
    }

    /// At `now`, `arrival` causes `departures`.
    fn at(
        mut self,
        now: Time,
        arrival: Arrival,
        departures: impl IntoIterator<Item = Departure>,
    ) -> Self {
        let departures = departures.into_iter().collect();
        self.lines.push(Line { now, arrival, departures });
        self
    }

    /// At `now`, `arrival` is dropped.
    fn dropped(mut self, now: Time, arrival: Arrival, reason: DropReason) -> Self {
        self.drops.push((reason, 1));
        self.at(now, arrival, [])
    }

    /// One packet was dropped for `reason`.
    fn and_drop(mut self, reason: DropReason) -> Self {
        self.drops.push((reason, 1));
        self
    }

    /// The model does not implement this.
    fn without_model(mut self) -> Self {
        self.model_too = false;
        self
    }

    fn run(&self) {
        let mut bed = self.world.bed(1);
        let mut model = self.world.model();
        for (number, line) in self.lines.iter().enumerate() {
            let context = format!("{}, line {number}: {:?}", self.title, line.arrival);
            let mut expected: Vec<_> = line.departures.iter().map(seen_departure).collect();
            expected.sort();
            bed.sent.0.clear();
            bed.process(line.now, std::slice::from_ref(&line.arrival));
            let mut sent: Vec<_> = bed.sent.0.iter().map(seen_sent).collect();
            sent.sort();
            assert_eq!(sent, expected, "{context}");
            if self.model_too {
                let departures =
                    model.receive(line.now, &line.arrival, &mut |found| found[0].clone());
                let mut departures: Vec<_> = departures.iter().map(seen_departure).collect();
                departures.sort();
                assert_eq!(departures, expected, "{context}, by the model");
            }
        }
        for reason in DropReason::ALL {
            let expected: u64 =
                self.drops.iter().filter(|drop| drop.0 == reason).map(|d| d.1).sum();
            assert_eq!(bed.counters[0].dropped(reason), expected, "{}: {reason:?}", self.title);
        }
    }
}

fn run(cases: impl IntoIterator<Item = Case>) {
    cases.into_iter().for_each(|case| case.run());
}

fn interest(uri: &str, nonce: u32) -> Interest {
    Interest::new(uri, nonce)
}

fn data(uri: &str) -> Data {
    Data::new(uri)
}

/// A packet to be received or sent.
impl From<Interest> for Packet {
    fn from(interest: Interest) -> Self {
        Self::Interest(interest)
    }
}

impl From<Data> for Packet {
    fn from(data: Data) -> Self {
        Self::Data(data)
    }
}

fn nack(reason: u64, interest: Interest) -> Packet {
    Packet::Nack(reason, interest)
}

/// `packet` arrives on `face`.
fn from(face: Face, packet: impl Into<Packet>) -> Arrival {
    Arrival::new(face, packet.into())
}

/// `packet` is sent on `face`.
fn to(face: Face, packet: impl Into<Packet>) -> Departure {
    let token = OutToken::Echo(Vec::new());
    Departure { face, packet: packet.into(), token, mark: 0, incoming_face: None }
}

impl Arrival {
    fn token(mut self, token: &[u8]) -> Self {
        self.token = token.to_vec();
        self
    }

    fn mark(mut self, mark: u64) -> Self {
        self.mark = mark;
        self
    }
}

impl Departure {
    fn token(mut self, token: &[u8]) -> Self {
        self.token = OutToken::Echo(token.to_vec());
        self
    }

    fn own_token(mut self) -> Self {
        self.token = OutToken::Own;
        self
    }

    fn mark(mut self, mark: u64) -> Self {
        self.mark = mark;
        self
    }

    fn incoming(mut self, face: Face) -> Self {
        self.incoming_face = Some(face);
        self
    }
}
