//! Faces, routes and strategies, set up equally in the model and in the forwarder under test.

use crate::bed::{Bed, BedConfig};
use crate::model::{Face, FaceSpec, Link, Model, Strategy, Tokens, Unsolicited};
use crate::random::Random;
use crate::wire::{Name, name};

/// A world that can be built as often as needed.
#[derive(Clone, Debug)]
pub struct World {
    pub faces: Vec<(Face, FaceSpec)>,
    pub routes: Vec<(Name, Face, u32)>,
    pub strategies: Vec<(Name, Strategy)>,
    pub regions: Vec<Name>,
    pub unsolicited: Unsolicited,
    pub cs_capacity: usize,
    /// Whether the Content Store serves Interests.
    pub serves: bool,
    /// Dispatch depth.
    pub depth: usize,
    /// With three shards or more, the number of shards that own no names.
    pub nameless_shards: usize,
    /// Whether names move from shard to shard.
    pub moves: bool,
    /// Whether routes, strategies, faces and the Content Store change during the case.
    pub changes: bool,
    pub pit_capacity: usize,
    /// Whether all faces belong to one principal; otherwise each is one.
    pub one_principal: bool,
    /// Lifetimes of the Interests.
    pub lifetimes_ms: Vec<u64>,
}

impl World {
    pub fn model(&self) -> Model {
        let mut model = Model::new(if self.serves { self.cs_capacity } else { 0 });
        model.faces = self.faces.iter().copied().collect();
        for (prefix, face, cost) in &self.routes {
            model.set_route(prefix, *face, *cost);
        }
        model.strategies.extend(self.strategies.iter().cloned());
        model.regions.clone_from(&self.regions);
        model.unsolicited = self.unsolicited;
        model.pit_capacity = self.pit_capacity;
        model
    }

    pub fn bed(&self, shard_count: usize) -> Bed {
        let mut bed = Bed::new(&BedConfig {
            shard_count,
            nameless_shards: if shard_count > 2 { self.nameless_shards } else { 0 },
            cs_capacity: self.cs_capacity,
            pit_capacity: self.pit_capacity,
            one_principal: self.one_principal,
            reserves: ndn_types::Reserves::NONE,
            unsolicited: self.unsolicited,
            serves: self.serves,
            depth: self.depth,
        });
        for &(face, spec) in &self.faces {
            bed.add_face(face, spec);
        }
        for (prefix, face, cost) in &self.routes {
            bed.add_route(prefix, *face, u64::from(*cost));
        }
        for (prefix, strategy) in &self.strategies {
            bed.set_strategy(prefix, &strategy.uri());
        }
        bed.set_regions(&self.regions);
        bed
    }

    /// A random world of seven faces of all kinds.
    pub fn random(random: &mut Random, shard_count: usize) -> Self {
        let spec =
            |local, link, tokens, local_fields| FaceSpec { local, link, tokens, local_fields };
        let faces = vec![
            (0, spec(true, Link::PointToPoint, Tokens::Never, false)),
            (1, spec(false, Link::PointToPoint, Tokens::Always, false)),
            (2, spec(false, Link::PointToPoint, Tokens::WhenSeen, false)),
            (3, spec(false, Link::MultiAccess, Tokens::Never, false)),
            (4, spec(false, Link::AdHoc, Tokens::Never, false)),
            (5, spec(true, Link::PointToPoint, Tokens::Never, true)),
            (6, spec(false, Link::PointToPoint, Tokens::Never, false)),
        ];
        let mut routes = Vec::new();
        for prefix in ["/a", "/b", "/b/a", "/a/b", "/wide", "/localhost", "/localhop", "/hint/x"] {
            for _ in 0..random.below(4) {
                let cost = u32::try_from(routes.len()).unwrap();
                routes.push((name(prefix), u32::try_from(random.below(7)).unwrap(), cost));
            }
        }
        if random.percent(30) {
            routes.push((Vec::new(), 6, 1000));
        }
        let mut strategies = Vec::new();
        for prefix in ["/b", "/a/a", "/wide", "/localhost"] {
            match random.below(4) {
                0 => strategies.push((name(prefix), Strategy::multicast())),
                1 => strategies.push((name(prefix), Strategy::best_route_without_timeout())),
                _ => {}
            }
        }
        // With lifetimes of all kinds, an expired entry may keep its slot for a quarter of a
        // second. That shows only if the PIT is full, or in the dead nonce list.
        let pit_capacity = if shard_count == 1 { *random.pick(&[4, 1000, 1000]) } else { 1000 };
        let one_lifetime = pit_capacity == 4 || random.percent(60);
        let lifetimes_ms = if one_lifetime {
            vec![*random.pick(&[1, 41, 401, 2001])]
        } else {
            vec![1, 41, 41, 401, 2001]
        };
        Self {
            faces,
            routes,
            strategies,
            regions: if random.percent(50) { vec![name("/region/r1")] } else { Vec::new() },
            unsolicited: *random.pick(&[
                Unsolicited::DropAll,
                Unsolicited::AdmitLocal,
                Unsolicited::AdmitNetwork,
                Unsolicited::AdmitAll,
            ]),
            // Each shard has its own Content Store, so with several shards it must never fill.
            cs_capacity: if shard_count == 1 { *random.pick(&[3, 8, 1000]) } else { 1000 },
            serves: true,
            depth: 1 + random.below(4),
            nameless_shards: random.below(2),
            moves: false,
            changes: random.percent(60),
            pit_capacity,
            // Which Interests give way for other principals is not modelled.
            one_principal: pit_capacity == 4,
            lifetimes_ms,
        }
    }
}
