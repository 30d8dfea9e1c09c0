//! Parts of tables, for programs of this process: they read one page, where a dataset has the whole table.

use ndn_types::{Now, Scope};

use super::datasets::{Tables, append_fib_entry, append_rib_entry};
use crate::dataset::{DatasetItem, StrategyChoice};
use crate::range::NameRange;

/// A part of a table. Names are in the canonical order, faces in the order of their FaceIds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TablePart {
    /// Items of `faces/list`.
    Faces {
        /// Only faces with higher FaceIds.
        after: Option<u64>,
        /// Only faces of this scope.
        scope: Option<Scope>,
    },
    /// Items of `fib/list`.
    Fib(NameRange),
    /// Items of `rib/list`.
    Rib(NameRange),
    /// Items of `strategy-choice/list`.
    Strategies(NameRange),
}

/// The first items of a part, encoded as in a dataset.
pub(super) fn encode_part(
    now: Now,
    part: &TablePart,
    items_max: usize,
    tables: &Tables<'_>,
) -> Vec<u8> {
    let mut out = Vec::new();
    match part {
        TablePart::Faces { after, scope } => {
            let faces = tables.faces.after(*after);
            let is_of = |one: Scope| scope.is_none_or(|scope| scope == one);
            let faces = faces.filter(|face| is_of(face.properties.scope)).take(items_max);
            faces.for_each(|face| face.status(tables.telemetry).encode(&mut out));
        }
        TablePart::Fib(range) => {
            let mut left = items_max;
            let mut entries = tables.routes.fib.range(range);
            while left > 0
                && let Some((name, next_hops)) = entries.next()
            {
                let shown = tables.routes.removals.shown_next_hops(next_hops);
                left -= usize::from(append_fib_entry(&mut out, name, shown));
            }
        }
        TablePart::Rib(range) => {
            let mut left = items_max;
            let mut entries = tables.routes.rib.range(range);
            while left > 0
                && let Some((name, routes)) = entries.next()
            {
                let shown = tables.routes.removals.shown_routes(now.monotonic, routes);
                left -= usize::from(append_rib_entry(&mut out, name, shown, now));
            }
        }
        TablePart::Strategies(range) => {
            for (name, strategy) in tables.strategies.range(range).take(items_max) {
                let (name, strategy) = (name.clone(), strategy.clone());
                StrategyChoice { name, strategy }.encode(&mut out);
            }
        }
    }
    out
}
