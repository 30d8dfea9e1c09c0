//! `names`: the tree of names of the FIB, the RIB and the strategy choices.

use std::collections::VecDeque;

use async_graphql::dynamic::{Field, FieldFuture, InputValue, TypeRef};
use namewire_control::Operations;
use ndn_management::{
    CallError, DatasetItem, Described, FibEntry, NameRange, NextHopRecord, RibEntry, RouteRecord,
    StrategyChoice, TablePart,
};
use ndn_packet::{Name, NameRef};
use serde_json::{Value, json};

use super::access;
use super::management::{Selection, json_of_value, name, nodes, read_part, text};
use super::shapes::{NUMBER, Shape, Types};
use crate::tokens::Role;

/// Items that are read at a time: a millisecond of the control thread.
const PART_LEN: usize = 4096;

/// Adds the types of the results.
pub(super) fn declare(types: &mut Types) {
    let list = |name: &str| Shape::List(Box::new(Shape::Object(name.to_owned())));
    types.add(
        "NameTree",
        "A part of the tree of names.",
        vec![
            ("total", "Number of children.", Shape::Number),
            ("nodes", "The selected ones, in the canonical order of names.", list("NameNode")),
        ],
    );
    let help = "The strategy that is set for the name; null if it has that of a shorter name.";
    types.add(
        "NameNode",
        "A name of the tree: one of an entry, or the prefix of one.",
        vec![
            ("name", "The name, a URI.", Shape::Text),
            ("component", "Its last component; empty for the root.", Shape::Text),
            (
                "next_hops",
                "Next hops of the FIB entry of the name.",
                list(NextHopRecord::INFO.name),
            ),
            ("routes", "Routes of the name.", list(RouteRecord::INFO.name)),
            ("strategy", help, Shape::Optional(Box::new(Shape::Text))),
            ("fib_entries_below", "Number of FIB entries with longer names.", Shape::Number),
            ("strategies_below", "Number of strategies set for longer names.", Shape::Number),
        ],
    );
}

/// The entries of a name, and the numbers of those below it.
#[derive(Default)]
struct Node {
    fib: Option<FibEntry>,
    rib: Option<RibEntry>,
    strategy: Option<StrategyChoice>,
    fib_entries_below: u64,
    strategies_below: u64,
}

/// Some items, and the name after which further ones may follow.
type Part<T> = (Vec<T>, Option<Name>);

/// Reads the first items after a name, or the first of all.
type ReadPart<'a, T> = Box<dyn FnMut(Option<Name>) -> Result<Part<T>, CallError> + 'a>;

/// The items of a table under a prefix, in the canonical order of names. They are read in parts, between which the control
/// thread does other work, and only one part is in memory.
struct Items<'a, T> {
    read: ReadPart<'a, T>,
    name_of: fn(&T) -> &Name,
    part: VecDeque<T>,
    rest_after: Option<Name>,
    is_last: bool,
}

impl<'a, T: DatasetItem + 'a> Items<'a, T> {
    fn new(
        read: impl FnMut(Option<Name>) -> Result<Part<T>, CallError> + 'a,
        name_of: fn(&T) -> &Name,
    ) -> Self {
        let part = VecDeque::new();
        Self { read: Box::new(read), name_of, part, rest_after: None, is_last: false }
    }

    /// Those of a table of the forwarder.
    fn of(
        operations: &'a dyn Operations,
        prefix: &Name,
        part: fn(NameRange) -> TablePart,
        name_of: fn(&T) -> &Name,
    ) -> Self {
        let prefix = prefix.clone();
        let read = move |after| {
            let range = NameRange { prefix: prefix.clone(), after };
            read_part(operations, part(range), PART_LEN)
        };
        Self::new(read, name_of)
    }

    /// The name of the next item.
    fn next_name(&mut self) -> Result<Option<&Name>, CallError> {
        while self.part.is_empty() && !self.is_last {
            let (part, rest_after) = (self.read)(self.rest_after.take())?;
            self.is_last = rest_after.is_none();
            (self.part, self.rest_after) = (part.into(), rest_after);
        }
        Ok(self.part.front().map(self.name_of))
    }

    /// Takes the next item if its name has this prefix.
    fn take_below(&mut self, prefix: &Name) -> Result<Option<T>, CallError> {
        let is_below = self.next_name()?.is_some_and(|name| name.starts_with(prefix.as_ref()));
        Ok(if is_below { self.part.pop_front() } else { None })
    }

    /// Leaves out items with fewer components than this.
    fn skip_shorter(&mut self, length: usize) -> Result<(), CallError> {
        while self.next_name()?.is_some_and(|name| name.components().count() < length) {
            self.part.pop_front();
        }
        Ok(())
    }
}

/// The tables that have names.
struct Tables<'a> {
    fib: Items<'a, FibEntry>,
    rib: Items<'a, RibEntry>,
    strategies: Items<'a, StrategyChoice>,
}

impl<'a> Tables<'a> {
    /// Items below `parent`, or all.
    fn new(operations: &'a dyn Operations, parent: Option<&Name>) -> Self {
        let prefix = &parent.cloned().unwrap_or_default();
        Self {
            fib: Items::of(operations, prefix, TablePart::Fib, |entry: &FibEntry| &entry.name),
            rib: Items::of(operations, prefix, TablePart::Rib, |entry: &RibEntry| &entry.name),
            strategies: Items::of(
                operations,
                prefix,
                TablePart::Strategies,
                |choice: &StrategyChoice| &choice.name,
            ),
        }
    }

    /// The next name of this length that an item has or is below.
    fn next_node(&mut self, length: usize) -> Result<Option<Name>, CallError> {
        let Self { fib, rib, strategies } = self;
        fib.skip_shorter(length)?;
        rib.skip_shorter(length)?;
        strategies.skip_shorter(length)?;
        let next = [fib.next_name()?, rib.next_name()?, strategies.next_name()?];
        let first = next.into_iter().flatten().min();
        Ok(first.map(|name| name.as_ref().prefix(length).to_name()))
    }

    /// The items of a name and of those below it, which come next.
    fn take_node(&mut self, name: &Name, length: usize) -> Result<Node, CallError> {
        let is_own = |own: &Name| own.components().count() == length;
        let mut node = Node::default();
        while let Some(entry) = self.fib.take_below(name)? {
            match is_own(&entry.name) {
                true => node.fib = Some(entry),
                false => node.fib_entries_below += 1,
            }
        }
        // A route whose face is down has no FIB entry.
        while let Some(entry) = self.rib.take_below(name)? {
            if is_own(&entry.name) {
                node.rib = Some(entry);
            }
        }
        while let Some(choice) = self.strategies.take_below(name)? {
            match is_own(&choice.name) {
                true => node.strategy = Some(choice),
                false => node.strategies_below += 1,
            }
        }
        Ok(node)
    }

    /// The selected nodes below `parent`, or the root without one.
    fn tree(mut self, parent: Option<&Name>, selection: &Selection) -> Result<Value, CallError> {
        let length = parent.map_or(0, |parent| parent.components().count() + 1);
        let (mut total, mut shown) = (0, Vec::new());
        while let Some(name) = self.next_node(length)? {
            let node = self.take_node(&name, length)?;
            if total >= selection.skip && shown.len() < selection.first {
                shown.push(json_of_node(name.as_ref(), node));
            }
            total += 1;
        }
        Ok(json!({ "total": total, "nodes": shown }))
    }
}

fn json_of_node(name: NameRef<'_>, node: Node) -> Value {
    let list = |entry: Option<Value>, field: &str| {
        entry.map_or_else(|| json!([]), |mut entry| entry[field].take())
    };
    let component = name.components().last().map(|last| last.to_string()).unwrap_or_default();
    json!({
        "name": name.to_string(),
        "component": component,
        "next_hops": list(node.fib.map(|entry| json_of_value(entry.value())), "next_hops"),
        "routes": list(node.rib.map(|entry| json_of_value(entry.value())), "routes"),
        "strategy": list(node.strategy.map(|choice| json_of_value(choice.value())), "strategy")
            .as_str(),
        "fib_entries_below": node.fib_entries_below,
        "strategies_below": node.strategies_below,
    })
}

/// The query `names`.
pub(super) fn query() -> Field {
    let shape = Shape::Object("NameTree".to_owned());
    let field = Field::new("names", shape.type_ref(), move |context| {
        let shape = shape.clone();
        FieldFuture::new(async move {
            let (calls, _) = access::authorize(&context, Role::Read)?;
            let selection = nodes(&context)?;
            let under = text(&context, "under")?.map(|uri| name("under", &uri)).transpose()?;
            let read = calls.call(move |operations| {
                let tables = Tables::new(operations, under.as_ref());
                Ok(tables.tree(under.as_ref(), &selection))
            });
            let read = read.await.map_err(|failure| access::unanswered(&failure))?;
            Ok(shape.value(&read.map_err(|failure| access::refused(&failure))?))
        })
    });
    let under = InputValue::new("under", TypeRef::named(TypeRef::STRING))
        .description("The parent, a URI; without it, the only node is the root.");
    let first = InputValue::new("first", TypeRef::named(NUMBER))
        .description("Maximum number of nodes: 100 by default, 1000 at most.");
    let skip = InputValue::new("skip", TypeRef::named(NUMBER))
        .description("Number of nodes to leave out before, to continue a list.");
    let help =
        "The tree of names of the FIB, the routes and the strategies, level by level; role read.";
    field.argument(under).argument(first).argument(skip).description(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of these items that are below `parent`.
    fn items<T: DatasetItem + Clone + 'static>(
        mut all: Vec<T>,
        name_of: fn(&T) -> &Name,
        parent: &Name,
    ) -> Items<'static, T> {
        all.retain(|item| name_of(item).starts_with(parent.as_ref()));
        all.sort_by(|one, other| name_of(one).cmp(name_of(other)));
        let read = move |after: Option<Name>| {
            let later =
                all.iter().filter(|item| after.as_ref().is_none_or(|name| name_of(item) > name));
            Ok((later.cloned().collect(), None))
        };
        Items::new(read, name_of)
    }

    fn tables(parent: Option<&Name>) -> Tables<'static> {
        let entry = |uri: &str| FibEntry { name: uri.parse().unwrap(), next_hops: Vec::new() };
        let choice = |uri: &str, strategy: &str| StrategyChoice {
            name: uri.parse().unwrap(),
            strategy: strategy.parse().unwrap(),
        };
        let parent = &parent.cloned().unwrap_or_default();
        let routes = |uri: &str| RibEntry { name: uri.parse().unwrap(), routes: Vec::new() };
        let fib = ["/b", "/a/x/1", "/a/x/2", "/a", "/a/y"].map(entry).into();
        let rib = ["/down/peer", "/a/x/2"].map(routes).into();
        let choices = vec![choice("/", "/s/best"), choice("/a/x", "/s/multi")];
        Tables {
            fib: items(fib, |entry: &FibEntry| &entry.name, parent),
            rib: items(rib, |entry: &RibEntry| &entry.name, parent),
            strategies: items(choices, |choice: &StrategyChoice| &choice.name, parent),
        }
    }

    fn shown(parent: Option<&str>) -> Vec<(String, u64, u64, Option<String>)> {
        let parent: Option<Name> = parent.map(|uri| uri.parse().unwrap());
        let selection = Selection { first: 100, ..Selection::default() };
        let tree = tables(parent.as_ref()).tree(parent.as_ref(), &selection).unwrap();
        let nodes = tree["nodes"].as_array().unwrap();
        assert_eq!(tree["total"], nodes.len());
        let node = |node: &Value| {
            let count = |field: &str| node[field].as_u64().unwrap();
            let (fib, strategies) = (count("fib_entries_below"), count("strategies_below"));
            let strategy = node["strategy"].as_str().map(str::to_owned);
            (node["name"].as_str().unwrap().to_owned(), fib, strategies, strategy)
        };
        nodes.iter().map(node).collect()
    }

    #[test]
    fn tree_has_the_children_of_a_name_with_what_is_below_them() {
        let node = |name: &str, fib, strategies, strategy: Option<&str>| {
            (name.to_owned(), fib, strategies, strategy.map(str::to_owned))
        };
        assert_eq!(shown(None), [node("/", 5, 1, Some("/s/best"))]);
        let children = [node("/a", 3, 1, None), node("/b", 0, 0, None), node("/down", 0, 0, None)];
        assert_eq!(shown(Some("/")), children);
        assert_eq!(
            shown(Some("/a")),
            [node("/a/x", 2, 0, Some("/s/multi")), node("/a/y", 0, 0, None)]
        );
        assert_eq!(shown(Some("/a/x/1")), []);
    }

    #[test]
    fn children_are_shown_in_parts() {
        let selection = Selection { first: 1, skip: 1, ..Selection::default() };
        let root = Name::default();
        let tree = tables(Some(&root)).tree(Some(&root), &selection).unwrap();
        assert_eq!(tree["total"], 3);
        assert_eq!(tree["nodes"][0]["component"], "b");
        assert!(tree["nodes"][1].is_null());
    }

    #[test]
    fn long_tables_are_read_in_parts() {
        let count = 2 * PART_LEN as u64 + 5;
        let mut parts = 0;
        let read = move |after: Option<Name>| {
            parts += 1;
            assert!(parts <= 5, "nothing follows the last part");
            if u32::is_multiple_of(parts, 2) {
                // All items that were visited are hidden.
                return Ok((Vec::new(), after));
            }
            let next =
                after.map_or(0, |name| name.as_ref().last().unwrap().as_segment().unwrap() + 1);
            let entry = |number| {
                let mut name: Name = "/many".parse().unwrap();
                name.push_segment(number);
                FibEntry { name, next_hops: Vec::new() }
            };
            let part: Vec<FibEntry> = (next..count).take(PART_LEN).map(entry).collect();
            let last = part.last().map(|entry| entry.name.clone());
            Ok((part, last.filter(|_| next + PART_LEN as u64 <= count)))
        };
        let fib = Items::new(read, |entry: &FibEntry| &entry.name);
        let many: Name = "/many".parse().unwrap();
        let selection = Selection { first: 2, skip: PART_LEN, ..Selection::default() };
        let tree = Tables { fib, ..tables(Some(&many)) }.tree(Some(&many), &selection).unwrap();
        assert_eq!((&tree["total"], tree["nodes"].as_array().unwrap().len()), (&count.into(), 2));
        assert_eq!(tree["nodes"][0]["component"], format!("seg={PART_LEN}"));
    }
}
