//! The owner of an XDP program.

use std::path::Path;

use crate::xdp::bpf;

/// The owner of an XDP program, as far as the rights of this process allow to find it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct XdpHolder {
    /// The name of the program.
    pub program: Option<String>,
    /// A process that has the program or its link open; none if it was attached permanently, as by `ip link`.
    pub process: Option<(u32, String)>,
}

impl XdpHolder {
    /// The owner of the program with this number.
    #[must_use]
    pub fn of(program: u32) -> Self {
        let process = process_with(Path::new("/proc"), program);
        Self { program: bpf::name_of(program).ok().filter(|name| !name.is_empty()), process }
    }

    /// Whether it is the program of a Namewire forwarder.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.program.as_ref().is_some_and(|name| name.as_bytes() == bpf::OWN_NAME)
    }
}

/// The process with the lowest number that has a descriptor of this program or of its link.
fn process_with(proc: &Path, program: u32) -> Option<(u32, String)> {
    let entries = std::fs::read_dir(proc).ok()?.flatten();
    let mut processes: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    processes.sort_unstable();
    let found = processes.into_iter().find(|process| has_program(proc, *process, program))?;
    let name = std::fs::read_to_string(proc.join(found.to_string()).join("comm"));
    Some((found, name.unwrap_or_default().trim_end().to_owned()))
}

fn has_program(proc: &Path, process: u32, program: u32) -> bool {
    let of_process = proc.join(process.to_string());
    let Ok(descriptors) = std::fs::read_dir(of_process.join("fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        // Most descriptors are others, such as sockets.
        let target = std::fs::read_link(descriptor.path()).unwrap_or_default();
        target.to_string_lossy().starts_with("anon_inode:bpf")
            && std::fs::read_to_string(of_process.join("fdinfo").join(descriptor.file_name()))
                .is_ok_and(|text| names_program(&text, program))
    })
}

/// Whether an `fdinfo` (proc(5)) names this program.
fn names_program(text: &str, program: u32) -> bool {
    let numbers = text.lines().filter_map(|line| line.strip_prefix("prog_id:"));
    numbers.filter_map(|number| number.trim().parse::<u32>().ok()).any(|number| number == program)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn process_with_an_xdp_program_is_found_by_its_descriptors() {
        let proc = tempfile::tempdir().unwrap();
        let add = |process: &str, target: &str, info: &str| {
            let directory = proc.path().join(process);
            std::fs::create_dir_all(directory.join("fd")).unwrap();
            std::fs::create_dir_all(directory.join("fdinfo")).unwrap();
            std::os::unix::fs::symlink(target, directory.join("fd/7")).unwrap();
            std::fs::write(directory.join("fdinfo/7"), info).unwrap();
            std::fs::write(directory.join("comm"), format!("name{process}\n")).unwrap();
        };
        let link = "pos:\t0\nlink_type:\txdp\nlink_id:\t3\nprog_id:\t41\nifindex:\t2\n";
        add("20", "anon_inode:bpf_link", link);
        add("3", "socket:[9]", link);
        add("100", "anon_inode:bpf-prog", "prog_type:\t6\nprog_id:\t410\n");
        std::fs::create_dir(proc.path().join("sys")).unwrap();
        assert_eq!(process_with(proc.path(), 41), Some((20, "name20".to_owned())));
        assert_eq!(process_with(proc.path(), 410), Some((100, "name100".to_owned())));
        assert_eq!(process_with(proc.path(), 4), None);
        assert_eq!(process_with(&proc.path().join("nothing"), 41), None);
    }

    #[test]
    fn program_that_does_not_exist_has_no_process() {
        let holder = XdpHolder::of(u32::MAX);
        assert_eq!(holder, XdpHolder::default());
        assert!(!holder.is_own());
        let own = XdpHolder { program: Some("namewire_xdp".to_owned()), process: None };
        assert!(own.is_own());
    }
}
