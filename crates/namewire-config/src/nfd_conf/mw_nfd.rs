//! Settings of MW-NFD.

use ndn_security::info::Node;

use super::Reader;
use crate::forwarder::{WORKERS_MAX, WorkerCount};

/// The capacities of the Content Stores of MW-NFD, for prefix match and for exact match.
const PARTS_OF_CS: [&str; 2] = ["pm_cs_max_packets", "em_cs_max_packets"];

impl Reader<'_> {
    /// The capacities of two Content Stores are added up. As in MW-NFD, `cs_max_packets` takes
    /// precedence.
    pub(super) fn read_part_of_cs(&mut self, section: &Node, node: &Node) {
        if self.number(node, 0, u64::MAX).is_none() {
            return;
        }
        if section.children.iter().any(|other| other.key == "cs_max_packets") {
            return self.no_effect(node, "cs_max_packets is given");
        }
        let parts = section.children.iter().filter(|other| PARTS_OF_CS.contains(&&*other.key));
        let packets = parts.filter_map(|part| part.value.parse::<u64>().ok());
        let packets = packets.fold(0, u64::saturating_add);
        self.set_cs_capacity(node, packets);
    }

    pub(super) fn read_mw_nfd(&mut self, section: &Node) {
        for node in &section.children {
            match node.key.as_str() {
                "forwarding-worker-core-assign" => self.read_worker_cores(node),
                "input-thread-core-assign" | "output-thread-core-assign" => {
                    if !node.children.is_empty() {
                        self.no_effect(node, "workers read and write their sockets themselves");
                    }
                }
                "prefix-length-for-distribution" => {
                    self.number(node, 1, 255);
                    self.no_effect(node, "names are dispatched to workers by their load");
                }
                "fib-sharding" => {
                    self.yes_no(node);
                    self.no_effect(node, "all workers read one FIB");
                }
                "router-name" => self.no_effect(node, "there is no counterpart"),
                "bulk-fib-test" => self.no_effect(node, "it is a test of MW-NFD"),
                _ => self.refuse_unknown(node, "mw-nfd"),
            }
        }
    }

    fn read_worker_cores(&mut self, node: &Node) {
        let Some(cores) = core_list(&node.value) else {
            let text = format!("`{}` is not a list of processors such as 1,2-4", node.value);
            return self.refuse(node, text);
        };
        let is_repeated = (1..cores.len()).any(|index| cores[..index].contains(&cores[index]));
        if is_repeated || cores.len() > WORKERS_MAX {
            let text = format!("`{}` names a processor twice, or too many", node.value);
            return self.refuse(node, text);
        }
        self.config.forwarder.workers = WorkerCount::Fixed(cores.len());
        self.config.forwarder.cpus = cores;
        self.locations.add("forwarder.cpus", node);
    }
}

/// The processors of a list such as `4-6,8`.
fn core_list(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<usize>().ok();
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= 4096 {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, warnings, with_unix};
    use super::*;

    #[test]
    fn core_lists_become_workers_and_processors() {
        assert_eq!(core_list("1,2"), Some(vec![1, 2]));
        assert_eq!(core_list("4-6,8,10,12-13"), Some(vec![4, 5, 6, 8, 10, 12, 13]));
        assert_eq!(core_list("6-4"), None);
        assert_eq!(core_list("0-999999999"), None);
        let text = with_unix(
            "mw-nfd { input-thread-core-assign {\n}\noutput-thread-core-assign {\n}\n\
             forwarding-worker-core-assign 3,4 prefix-length-for-distribution 2 }",
        );
        let forwarder = config(&text).forwarder;
        assert_eq!((forwarder.workers, forwarder.cpus), (WorkerCount::Fixed(2), vec![3, 4]));
        assert_eq!(warnings(&text).len(), 1);
    }

    #[test]
    fn capacities_of_both_content_stores_are_added() {
        let capacity = |tables: &str| {
            let text = with_unix(&format!("tables {{\n{tables}\n}}"));
            (config(&text).tables.cs.capacity_packets, warnings(&text).len())
        };
        assert_eq!(capacity("pm_cs_max_packets 10\nem_cs_max_packets 20"), (30, 0));
        assert_eq!(capacity("em_cs_max_packets 20"), (20, 0));
        assert_eq!(capacity("pm_cs_max_packets 10\ncs_max_packets 7"), (7, 1));
    }

    #[test]
    fn settings_without_effect_are_reported() {
        let text = with_unix("mw-nfd {\nfib-sharding yes\nrouter-name DCN09\n}");
        let reported = warnings(&text);
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(
            reported[0].starts_with("nfd.conf:2: ") && reported[1].starts_with("nfd.conf:3: "),
            "{reported:?}"
        );
    }
}
