//! `names`: the tree of names of the FIB, the RIB and the strategy choices.

use std::collections::BTreeMap;

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
struct Node<'a> {
    fib: Option<&'a FibEntry>,
    rib: Option<&'a RibEntry>,
    strategy: Option<&'a StrategyChoice>,
    fib_entries_below: u64,
    strategies_below: u64,
}

/// The items of a table under a prefix, read in parts, between which the control thread does other work.
fn below<T: DatasetItem>(
    operations: &dyn Operations,
    prefix: &Name,
    part: fn(NameRange) -> TablePart,
    name_of: fn(&T) -> &Name,
) -> Result<Vec<T>, CallError> {
    let mut items: Vec<T> = Vec::new();
    loop {
        let range = NameRange { prefix: prefix.clone(), after: items.last().map(name_of).cloned() };
        let more = read_part(operations, part(range), PART_LEN)?;
        let is_last = more.len() < PART_LEN;
        items.extend(more);
        if is_last {
            return Ok(items);
        }
    }
}

/// The tables that have names.
struct Tables {
    fib: Vec<FibEntry>,
    rib: Vec<RibEntry>,
    strategies: Vec<StrategyChoice>,
}

impl Tables {
    /// Reads what is below `parent`, or all.
    fn read(operations: &dyn Operations, parent: Option<&Name>) -> Result<Self, CallError> {
        let prefix = parent.cloned().unwrap_or_default();
        Ok(Self {
            fib: below(operations, &prefix, TablePart::Fib, |entry: &FibEntry| &entry.name)?,
            rib: below(operations, &prefix, TablePart::Rib, |entry: &RibEntry| &entry.name)?,
            strategies: below(
                operations,
                &prefix,
                TablePart::Strategies,
                |choice: &StrategyChoice| &choice.name,
            )?,
        })
    }

    /// The nodes below `parent`, or the root without one.
    fn nodes(&self, parent: Option<&Name>) -> BTreeMap<NameRef<'_>, Node<'_>> {
        let length = parent.map_or(0, |parent| parent.components().count() + 1);
        let is_below = |name: &Name| {
            let is_of = |parent: &Name| name.starts_with(parent.as_ref());
            parent.is_none_or(is_of) && name.components().count() >= length
        };
        let mut nodes: BTreeMap<NameRef<'_>, Node<'_>> = BTreeMap::new();
        for entry in self.fib.iter().filter(|entry| is_below(&entry.name)) {
            let node = nodes.entry(entry.name.as_ref().prefix(length)).or_default();
            match entry.name.components().count() == length {
                true => node.fib = Some(entry),
                false => node.fib_entries_below += 1,
            }
        }
        // A route whose face is down has no FIB entry.
        for entry in self.rib.iter().filter(|entry| is_below(&entry.name)) {
            let node = nodes.entry(entry.name.as_ref().prefix(length)).or_default();
            if entry.name.components().count() == length {
                node.rib = Some(entry);
            }
        }
        for choice in self.strategies.iter().filter(|choice| is_below(&choice.name)) {
            let node = nodes.entry(choice.name.as_ref().prefix(length)).or_default();
            match choice.name.components().count() == length {
                true => node.strategy = Some(choice),
                false => node.strategies_below += 1,
            }
        }
        nodes
    }

    fn tree(&self, parent: Option<&Name>, selection: &Selection) -> Value {
        let nodes = self.nodes(parent);
        let shown = nodes.iter().skip(selection.skip).take(selection.first);
        let shown: Vec<Value> = shown.map(|(name, node)| json_of_node(*name, node)).collect();
        json!({ "total": nodes.len(), "nodes": shown })
    }
}

fn json_of_node(name: NameRef<'_>, node: &Node<'_>) -> Value {
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
                let tables = Tables::read(operations, under.as_ref());
                Ok(tables.map(|tables| tables.tree(under.as_ref(), &selection)))
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

    fn tables() -> Tables {
        let entry = |uri: &str| FibEntry { name: uri.parse().unwrap(), next_hops: Vec::new() };
        let choice = |uri: &str, strategy: &str| StrategyChoice {
            name: uri.parse().unwrap(),
            strategy: strategy.parse().unwrap(),
        };
        Tables {
            fib: ["/b", "/a/x/1", "/a/x/2", "/a", "/a/y"].map(entry).into(),
            rib: vec![RibEntry { name: "/down/peer".parse().unwrap(), routes: Vec::new() }],
            strategies: vec![choice("/", "/s/best"), choice("/a/x", "/s/multi")],
        }
    }

    fn shown(parent: Option<&str>) -> Vec<(String, u64, u64, Option<String>)> {
        let parent: Option<Name> = parent.map(|uri| uri.parse().unwrap());
        let selection = Selection { first: 100, ..Selection::default() };
        let tree = tables().tree(parent.as_ref(), &selection);
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
        let tree = tables().tree(Some(&Name::default()), &selection);
        assert_eq!(tree["total"], 3);
        assert_eq!(tree["nodes"][0]["component"], "b");
        assert!(tree["nodes"][1].is_null());
    }
}
