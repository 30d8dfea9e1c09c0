//! Parts of tables, for programs of this process: they read one page, where a dataset has the whole table.

use ndn_packet::{Name, NameRef};
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

/// The first items of a part of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableItems {
    /// The items, encoded as in a dataset. They may be fewer than requested.
    pub encoded: Vec<u8>,
    /// The name after which further items may follow. `None`: there are no others, or these are faces.
    pub rest_after: Option<Name>,
}

/// Entries in one reply that are left out because they are being removed: less than a millisecond of work.
const HIDDEN_MAX: usize = if cfg!(test) { 4 } else { 4096 };

/// The first items of a part.
pub(super) fn encode_part(
    now: Now,
    part: &TablePart,
    items_max: usize,
    tables: &Tables<'_>,
) -> TableItems {
    let mut encoded = Vec::new();
    let out = &mut encoded;
    let removals = &tables.routes.removals;
    let rest_after = match part {
        TablePart::Faces { after, scope } => {
            let faces = tables.faces.after(*after);
            let is_of = |one: Scope| scope.is_none_or(|scope| scope == one);
            let faces = faces.filter(|face| is_of(face.properties.scope)).take(items_max);
            faces.for_each(|face| face.status(tables.telemetry).encode(out));
            None
        }
        TablePart::Fib(range) => {
            append_first(tables.routes.fib.range(range), items_max, |name, next_hops| {
                append_fib_entry(out, name, removals.shown_next_hops(next_hops))
            })
        }
        TablePart::Rib(range) => {
            append_first(tables.routes.rib.range(range), items_max, |name, routes| {
                append_rib_entry(out, name, removals.shown_routes(now.monotonic, routes), now)
            })
        }
        TablePart::Strategies(range) => {
            let choices = tables.strategies.range(range);
            let choices = choices.map(|(name, strategy)| (name.as_ref(), strategy));
            append_first(choices, items_max, |name, strategy| {
                let strategy = strategy.clone();
                StrategyChoice { name: name.to_name(), strategy }.encode(out);
                true
            })
        }
    };
    TableItems { encoded, rest_after }
}

/// Appends the first entries; `append` returns whether an entry is shown. Returns the name after which further ones follow.
fn append_first<'a, E>(
    entries: impl Iterator<Item = (NameRef<'a>, E)>,
    items_max: usize,
    mut append: impl FnMut(NameRef<'a>, E) -> bool,
) -> Option<Name> {
    let mut entries = entries.peekable();
    let (mut left, mut hidden_left) = (items_max, HIDDEN_MAX);
    while left > 0
        && let Some((name, entry)) = entries.next()
    {
        let count = if append(name, entry) { &mut left } else { &mut hidden_left };
        *count -= 1;
        if *count == 0 {
            return entries.peek().map(|_| name.to_name());
        }
    }
    None
}
