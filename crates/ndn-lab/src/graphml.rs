//! Topologies in GraphML, as the Internet Topology Zoo has them, as TOML.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ndn_cache_sim::topology::LinkProperties;
use roxmltree::{Document, Node};

/// Largest file.
const FILE_LEN_MAX: usize = 16 << 20;
/// Mean radius of the Earth.
const EARTH_RADIUS_KM: f64 = 6371.0;
/// Speed of signals in fibre.
const KM_PER_MS: f64 = 200.0;
/// Shortest delay of a link, in the same city.
const DELAY_MS_MIN: f64 = 0.1;
/// Delay of a link of nodes without coordinates.
const DELAY_MS_UNKNOWN: f64 = 1.0;
/// Load of a topology that has none: values of `load` in an experiment replace it.
const LOAD: &str = "[load]\nrequests_per_s = 1.0\nzipf = 0.75\nobjects = 100\nobject_bytes = 1000000\n\
                    cache_bytes = 10000000\nlink_mbit_per_s = 1000\ncache_read_mbit_per_s = 10000\nduration_s = 60\n";

/// Identifiers of the attributes of a file, by domain (node or edge) and lower-case name.
type Keys = BTreeMap<(String, String), String>;

/// Delays in milliseconds and properties of links, by their nodes.
type Links = BTreeMap<(usize, usize), (f64, LinkProperties)>;

/// Converts a topology in GraphML to the TOML of other topologies.
///
/// Names of nodes are their labels, or their identifiers, in lower case with hyphens. The delay of a link is its attribute
/// `delay` in milliseconds, or that of the great circle between the coordinates (`Latitude`, `Longitude`) of its nodes at
/// 200 km/ms; its attributes `mbit_per_s`, `queue_bytes` and `loss` are properties of the link. Links that occur twice are
/// one, with the attributes of the first; so are both directions.
///
/// # Errors
/// The text is no GraphML, or a node or edge is wrong.
pub fn to_toml(text: &str, origin: &str) -> Result<String, String> {
    let fail = |what: String| format!("{origin}: {what}");
    if text.len() > FILE_LEN_MAX {
        return Err(fail(format!("{} bytes; at most {FILE_LEN_MAX} are read", text.len())));
    }
    let document = Document::parse(text).map_err(|error| fail(error.to_string()))?;
    let root = document.root_element();
    if root.tag_name().name() != "graphml" {
        return Err(fail(format!("<{}> is not <graphml>", root.tag_name().name())));
    }
    let keys = keys(root);
    let graph = child(root, "graph").ok_or_else(|| fail("there is no <graph>".to_owned()))?;
    let (mut names, mut places, mut taken) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    for node in children(graph, "node") {
        let id = node.attribute("id").ok_or_else(|| fail("a <node> without id".to_owned()))?;
        let label = value(node, &keys, "label").unwrap_or(id);
        let mut name = plain(label);
        if name.is_empty() || taken.contains(&name) {
            name = format!("{name}-{}", plain(id)).trim_matches('-').to_owned();
        }
        if !taken.insert(name.clone()) {
            return Err(fail(format!("node '{name}' occurs twice")));
        }
        if places.insert(id, (names.len(), coordinates(node, &keys))).is_some() {
            return Err(fail(format!("the id '{id}' of a node occurs twice")));
        }
        names.push(name);
    }
    let mut links = Links::new();
    for edge in children(graph, "edge") {
        let line = document.text_pos_at(edge.range().start).row;
        let fail = |what: String| fail(format!("line {line}: {what}"));
        let end = |attribute: &str| {
            let id = edge.attribute(attribute);
            let id = id.ok_or_else(|| fail(format!("an <edge> without {attribute}")))?;
            places
                .get(id)
                .copied()
                .ok_or_else(|| fail(format!("an edge to '{id}', which is no node")))
        };
        let (first, second) = (end("source")?, end("target")?);
        if first.0 == second.0 {
            continue;
        }
        let number = |name: &str| {
            let Some(text) = value(edge, &keys, name) else { return Ok(None) };
            let number = text.trim().parse::<f64>();
            number.map(Some).map_err(|_| fail(format!("{name} '{text}' is not a number")))
        };
        let queue_bytes = value(edge, &keys, "queue_bytes").map(|text| {
            let bytes = text.trim().parse::<u64>();
            bytes.map_err(|_| fail(format!("queue_bytes '{text}' is not a whole number")))
        });
        let properties = LinkProperties {
            mbit_per_s: number("mbit_per_s")?,
            queue_bytes: queue_bytes.transpose()?,
            loss: number("loss")?,
        };
        let delay_ms = number("delay")?.unwrap_or_else(|| delay_ms(first.1, second.1));
        properties.check(delay_ms).map_err(|error| fail(error.to_string()))?;
        let link = (first.0.min(second.0), first.0.max(second.0));
        links.entry(link).or_insert((delay_ms, properties));
    }
    Ok(written(value(graph, &keys, "network").unwrap_or(origin), &names, &links))
}

fn written(name: &str, names: &[String], links: &Links) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let all: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let mut toml = format!(
        "name = {}\nsource = \"GraphML\"\nnodes = [{}]\nlinks = [\n",
        quoted(name),
        all.join(", ")
    );
    for ((first, second), (delay_ms, properties)) in links {
        let (first, second) = (quoted(&names[*first]), quoted(&names[*second]));
        let LinkProperties { mbit_per_s, queue_bytes, loss } = properties;
        let mut keys = String::new();
        // Writing to a String does not fail.
        if let Some(rate) = mbit_per_s {
            let _ = write!(keys, ", mbit_per_s = {rate:?}");
        }
        if let Some(bytes) = queue_bytes {
            let _ = write!(keys, ", queue_bytes = {bytes}");
        }
        if let Some(loss) = loss {
            let _ = write!(keys, ", loss = {loss:?}");
        }
        let _ =
            writeln!(toml, "{{ between = [{first}, {second}], delay_ms = {delay_ms:.3}{keys} }},");
    }
    toml + "]\n" + LOAD
}

fn children<'a, 'd>(node: Node<'a, 'd>, name: &'static str) -> impl Iterator<Item = Node<'a, 'd>> {
    node.children().filter(move |child| child.tag_name().name() == name)
}

fn child<'a, 'd>(node: Node<'a, 'd>, name: &'static str) -> Option<Node<'a, 'd>> {
    children(node, name).next()
}

fn keys(root: Node<'_, '_>) -> Keys {
    let key = |key: Node<'_, '_>| {
        let name = key.attribute("attr.name")?.to_ascii_lowercase();
        Some(((key.attribute("for")?.to_owned(), name), key.attribute("id")?.to_owned()))
    };
    children(root, "key").filter_map(key).collect()
}

/// The value of an attribute of a node, an edge or a graph.
fn value<'a>(element: Node<'a, '_>, keys: &Keys, name: &str) -> Option<&'a str> {
    let domain = element.tag_name().name().to_owned();
    let id = keys.get(&(domain, name.to_owned()))?;
    children(element, "data").find(|data| data.attribute("key") == Some(id))?.text()
}

/// Latitude and longitude in degrees.
fn coordinates(node: Node<'_, '_>, keys: &Keys) -> Option<(f64, f64)> {
    let degrees = |name: &str| value(node, keys, name)?.trim().parse::<f64>().ok();
    Some((degrees("latitude")?, degrees("longitude")?))
        .filter(|(a, b)| a.is_finite() && b.is_finite())
}

/// Delay of the great circle between two places.
fn delay_ms(first: Option<(f64, f64)>, second: Option<(f64, f64)>) -> f64 {
    let (Some(first), Some(second)) = (first, second) else { return DELAY_MS_UNKNOWN };
    let radians =
        |(latitude, longitude): (f64, f64)| (latitude.to_radians(), longitude.to_radians());
    let ((a, b), (c, d)) = (radians(first), radians(second));
    // Haversine formula.
    let half = libm::pow(libm::sin((c - a) / 2.0), 2.0)
        + libm::cos(a) * libm::cos(c) * libm::pow(libm::sin((d - b) / 2.0), 2.0);
    let km = 2.0 * EARTH_RADIUS_KM * libm::asin(libm::sqrt(half.clamp(0.0, 1.0)));
    (km / KM_PER_MS).max(DELAY_MS_MIN)
}

/// Letters and digits in lower case, with hyphens between.
fn plain(label: &str) -> String {
    let mut name = String::new();
    for c in label.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use ndn_cache_sim::topology::Topology;

    use super::*;

    const TEXT: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="Latitude" attr.type="double" for="node" id="d29" />
  <key attr.name="Longitude" attr.type="double" for="node" id="d32" />
  <key attr.name="label" attr.type="string" for="node" id="d33" />
  <key attr.name="delay" attr.type="double" for="edge" id="d40" />
  <key attr.name="mbit_per_s" attr.type="double" for="edge" id="d41" />
  <key attr.name="queue_bytes" attr.type="int" for="edge" id="d42" />
  <key attr.name="loss" attr.type="double" for="edge" id="d43" />
  <key attr.name="Network" attr.type="string" for="graph" id="d10" />
  <graph edgedefault="undirected">
    <data key="d10">Small "Zoo"</data>
    <node id="0"><data key="d29">40.71</data><data key="d32">-74.01</data><data key="d33">New York</data></node>
    <node id="1"><data key="d29">41.85</data><data key="d32">-87.65</data><data key="d33">Chicago</data></node>
    <node id="2"><data key="d33">New York</data></node>
    <node id="n3"/>
    <edge source="0" target="1"/>
    <edge source="1" target="0"/>
    <edge source="1" target="2"/>
    <edge source="2" target="n3"><data key="d40">7.5</data><data key="d41">200</data><data key="d42">65536</data><data key="d43">0.005</data></edge>
    <edge source="2" target="2"/>
  </graph>
</graphml>"#;

    #[test]
    fn topology_zoo_file_is_a_topology() {
        let text = to_toml(TEXT, "zoo.graphml").unwrap();
        let topology = Topology::parse(&text, "zoo.graphml").unwrap();
        assert_eq!(topology.name, "Small \"Zoo\"");
        assert_eq!(topology.nodes, ["new-york", "chicago", "new-york-2", "n3"]);
        assert_eq!(topology.links, 6);
        let delay_ms = |from: usize, to: usize| {
            let hop = topology.hops[from].iter().find(|hop| hop.to == to).unwrap();
            hop.delay_s * 1000.0
        };
        // 1,145 km.
        assert!((delay_ms(0, 1) - 5.72).abs() < 0.05, "{}", delay_ms(0, 1));
        assert!((delay_ms(1, 2) - 1.0).abs() < 1e-9 && (delay_ms(3, 2) - 7.5).abs() < 1e-9);
        let expected = LinkProperties {
            mbit_per_s: Some(200.0),
            queue_bytes: Some(65_536),
            loss: Some(0.005),
        };
        assert_eq!(topology.hops[3][0].properties, expected);
        assert_eq!(topology.hops[0][0].properties, LinkProperties::default());
    }

    #[test]
    fn faults_name_the_file_and_the_part() {
        for (from, to, expected) in [
            ("</graphml>", "", "zoo.graphml: "),
            ("graphml xmlns", "graph xmlns", "zoo.graphml: "),
            ("target=\"n3\"", "target=\"9\"", "an edge to '9', which is no node"),
            ("id=\"n3\"", "id=\"2\"", "occurs twice"),
            ("7.5", "-7.5", "zoo.graphml: line 20: the delay of -7.5 ms is not positive"),
            ("7.5", "x", "line 20: delay 'x' is not a number"),
            (">200<", ">0<", "line 20: mbit_per_s = 0: must be positive"),
            ("65536", "1.5", "line 20: queue_bytes '1.5' is not a whole number"),
            ("0.005", "5", "line 20: loss = 5: must be 0 to 0.5"),
            (
                "<edge source=\"1\" target=\"2\"/>",
                "<edge source=\"1\"/>",
                "an <edge> without target",
            ),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let error = to_toml(&TEXT.replace(from, to), "zoo.graphml").unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        // The parser of topologies finds the parts that are not connected.
        let text = to_toml(&TEXT.replace("<edge source=\"1\" target=\"2\"/>", ""), "zoo").unwrap();
        let error = Topology::parse(&text, "zoo.graphml").unwrap_err().to_string();
        assert!(error.contains("no path between the nodes"), "{error}");
    }
}
