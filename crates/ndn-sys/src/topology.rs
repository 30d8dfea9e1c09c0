//! Processors, their cores and NUMA nodes, and which of them this process may use, from `/sys` and
//! `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::cpu;

/// One processor that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor {
    /// Its number.
    pub cpu: usize,
    /// The lowest number of the processors that share its core, usable or not.
    pub core: usize,
    /// The NUMA node that it belongs to.
    pub node: usize,
}

/// The processors that this process may use, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    processors: Vec<Processor>,
    /// Processors' worth of time that the process gets at most.
    quota: Option<usize>,
}

impl Topology {
    /// Topology of this machine, for the calling thread.
    ///
    /// # Errors
    /// Those of `sched_getaffinity(2)`.
    pub fn of_machine() -> io::Result<Self> {
        Ok(Self::read(Path::new("/"), &cpu::allowed_cpus()?))
    }

    /// Reads the properties of the processors `allowed` from the files below `root/sys` and `root/proc`. A processor
    /// without files is a core of its own, on node 0.
    #[must_use]
    pub fn read(root: &Path, allowed: &[usize]) -> Self {
        let devices = root.join("sys/devices/system");
        let node_of = read_nodes(&devices.join("node"));
        let processor = |&cpu: &usize| {
            let siblings = devices.join(format!("cpu/cpu{cpu}/topology/thread_siblings_list"));
            let siblings = fs::read_to_string(siblings).unwrap_or_default();
            let core = parse_list(&siblings).into_iter().min().unwrap_or(cpu);
            Processor { cpu, core, node: node_of.get(&cpu).copied().unwrap_or(0) }
        };
        let mut processors: Vec<Processor> = allowed.iter().map(processor).collect();
        processors.sort_unstable_by_key(|one| one.cpu);
        Self { processors, quota: read_quota(root) }
    }

    /// The processors.
    #[must_use]
    pub fn processors(&self) -> &[Processor] {
        &self.processors
    }

    /// One processor of each physical core, that of the lowest number.
    #[must_use]
    pub fn cores(&self) -> Vec<Processor> {
        let mut cores: Vec<Processor> = Vec::new();
        for &one in &self.processors {
            if cores.iter().all(|other| other.core != one.core) {
                cores.push(one);
            }
        }
        cores
    }

    /// The NUMA nodes that have a processor, in ascending order.
    #[must_use]
    pub fn nodes(&self) -> Vec<usize> {
        let mut nodes: Vec<usize> = self.processors.iter().map(|one| one.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Processors' worth of time that the process gets at most: the processors, but not more than the
    /// control group is given time for. At least one.
    #[must_use]
    pub fn processors_max(&self) -> usize {
        self.processors.len().min(self.quota.unwrap_or(usize::MAX)).max(1)
    }

    /// Threads that can be busy at the same time without sharing a core: physical cores, but not
    /// more than the control group is given time for. At least one.
    #[must_use]
    pub fn parallelism(&self) -> usize {
        self.cores().len().min(self.quota.unwrap_or(usize::MAX)).max(1)
    }
}

/// The node of each processor.
fn read_nodes(directory: &Path) -> BTreeMap<usize, usize> {
    let mut node_of = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok());
        let Some(number) = number else { continue };
        let cpus = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
        node_of.extend(parse_list(&cpus).into_iter().map(|cpu| (cpu, number)));
    }
    node_of
}

/// Numbers in a list such as `0-3,8`; what is malformed is left out.
fn parse_list(text: &str) -> Vec<usize> {
    let ranges = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?))
    });
    // No machine has more; a longer list is invalid.
    let ranges = ranges.filter(|(_, last)| *last < 1 << 16);
    ranges.flat_map(|(first, last)| first..=last).collect()
}

/// Whole processors' worth of time of the control group and of those that it is in, rounded up.
fn read_quota(root: &Path) -> Option<usize> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    groups
        .lines()
        .filter_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            match controllers {
                "" => lowest_quota(root, "sys/fs/cgroup", path, quota_of_version_2),
                _ if controllers.split(',').any(|one| one == "cpu") => {
                    let mount = format!("sys/fs/cgroup/{controllers}");
                    lowest_quota(root, &mount, path, quota_of_version_1)
                }
                _ => None,
            }
        })
        .min()
}

/// The lowest quota from the group at `path` up to the root of the hierarchy.
fn lowest_quota(
    root: &Path,
    mount: &str,
    path: &str,
    quota_of: fn(&Path) -> Option<usize>,
) -> Option<usize> {
    let mount = root.join(mount);
    let group = Path::new(path.trim_start_matches('/'));
    group.ancestors().filter_map(|ancestor| quota_of(&mount.join(ancestor))).min()
}

fn quota_of_version_2(group: &Path) -> Option<usize> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    whole_processors(quota, period)
}

fn quota_of_version_1(group: &Path) -> Option<usize> {
    let quota = fs::read_to_string(group.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(group.join("cpu.cfs_period_us")).ok()?;
    whole_processors(quota.trim(), period.trim())
}

/// None for `max` and -1, which mean that there is no limit.
fn whole_processors(quota: &str, period: &str) -> Option<usize> {
    let (quota, period) = (quota.parse::<usize>().ok()?, period.parse::<usize>().ok()?);
    (period > 0).then(|| quota.div_ceil(period).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with these files, removed when dropped.
    struct Files(std::path::PathBuf);

    impl Files {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let name = format!("namewire-topology-{}-{name}", std::process::id());
            let root = std::env::temp_dir().join(name);
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Two nodes of two cores of two threads, numbered as on many servers.
    fn server(name: &str, more: &[(&str, &str)]) -> Files {
        let siblings = |cpu: usize| format!("{},{}\n", cpu % 4, cpu % 4 + 4);
        let path = |cpu| format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let owned: Vec<(String, String)> = (0..8).map(|cpu| (path(cpu), siblings(cpu))).collect();
        let mut files: Vec<(&str, &str)> =
            owned.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        files.push(("sys/devices/system/node/node0/cpulist", "0-1,4-5\n"));
        files.push(("sys/devices/system/node/node1/cpulist", "2-3,6-7\n"));
        files.push(("sys/devices/system/node/online", "0-1\n"));
        files.extend_from_slice(more);
        Files::new(name, &files)
    }

    fn cpus(processors: &[Processor]) -> Vec<usize> {
        processors.iter().map(|one| one.cpu).collect()
    }

    #[test]
    fn threads_of_a_core_count_once() {
        let files = server("cores", &[]);
        let all = Topology::read(&files.0, &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(cpus(&all.cores()), [0, 1, 2, 3]);
        assert_eq!((all.parallelism(), all.processors_max()), (4, 8));
        assert_eq!(all.nodes(), [0, 1]);
        assert_eq!(all.processors()[6], Processor { cpu: 6, core: 2, node: 1 });
    }

    #[test]
    fn only_allowed_processors_are_counted() {
        let files = server("allowed", &[]);
        let some = Topology::read(&files.0, &[2, 6, 7]);
        assert_eq!(cpus(&some.cores()), [2, 7]);
        assert_eq!((some.parallelism(), some.nodes()), (2, vec![1]));
    }

    #[test]
    fn quota_of_the_control_group_limits_the_count() {
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        for (name, group, file, parallelism) in [
            ("half", "0::/a/b\n", ("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"), 2),
            ("parent", "0::/a/b\n", ("sys/fs/cgroup/a/cpu.max", "20000 100000\n"), 1),
            ("none", "0::/a\n", ("sys/fs/cgroup/a/cpu.max", "max 100000\n"), 4),
            ("other", "0::/a\n", ("sys/fs/cgroup/b/cpu.max", "100000 100000\n"), 4),
        ] {
            let files = server(name, &[("proc/self/cgroup", group), file]);
            let found = Topology::read(&files.0, &all);
            assert_eq!(found.parallelism(), parallelism, "{name}");
            assert_eq!(found.processors_max(), if parallelism == 4 { 8 } else { parallelism });
        }
        let files = server(
            "version-1",
            &[
                ("proc/self/cgroup", "3:cpuset:/x\n1:cpu,cpuacct:/x\n"),
                ("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "300000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
            ],
        );
        assert_eq!(Topology::read(&files.0, &all).parallelism(), 3);
    }

    #[test]
    fn without_files_each_processor_is_a_core() {
        let files = Files::new("empty", &[("sys/nothing", "")]);
        let found = Topology::read(&files.0, &[3, 1]);
        assert_eq!((cpus(&found.cores()), found.nodes()), (vec![1, 3], vec![0]));
        assert_eq!(Topology::read(&files.0, &[]).parallelism(), 1);
    }

    #[test]
    fn topology_of_this_machine_has_a_core() {
        let found = Topology::of_machine().unwrap();
        assert!(found.parallelism() >= 1 && !found.processors().is_empty());
    }

    #[test]
    fn malformed_processor_lists_are_read_as_far_as_valid() {
        assert_eq!(parse_list("0-2,7,x,9-8,5-\n"), [0, 1, 2, 7]);
        assert!(parse_list("0-99999999999").is_empty());
    }
}
