//! Engines that distribute work over several machines, here on one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use namewire_tests::{Process, free_port, run_to_end, skip, skip_unless_found, wait_until};

/// Slurm on loopback: its own controller, one node and a key, all in a directory.
pub(crate) struct Slurm {
    _processes: Vec<Process>,
    // Removed after they have ended.
    directory: tempfile::TempDir,
}

impl Slurm {
    /// `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let programs = ["munged", "slurmctld", "slurmd", "sbatch", "sinfo"];
        if !programs.iter().all(|program| skip_unless_found(program)) {
            return None;
        }
        let own = tempfile::tempdir().unwrap();
        let directory = own.path();
        let path = |name: &str| directory.join(name);
        let key: Vec<u8> = namewire_tests::noise(u64::from(std::process::id()), 1024);
        fs::write(path("munge.key"), key).unwrap();
        fs::set_permissions(path("munge.key"), fs::Permissions::from_mode(0o400)).unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
        let user = if rustix::process::getuid().is_root() {
            "root".to_owned()
        } else {
            std::env::var("USER").unwrap_or_default()
        };
        let at = directory.display();
        let [controller, node] = [free_port(), free_port()];
        let configuration = format!(
            "ClusterName=namewire\nSlurmctldHost=localhost(127.0.0.1)\n\
             SlurmctldPort={controller}\nSlurmdPort={node}\n\
             CommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n\
             SlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/munge.socket\n\
             StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool\n\
             SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.pid\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             MpiDefault=none\nJobAcctGatherType=jobacct_gather/none\n\
             AccountingStorageType=accounting_storage/none\nReturnToService=2\n\
             SchedulerType=sched/builtin\nSchedulerParameters=batch_sched_delay=0,sched_interval=1\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             NodeName=here NodeHostname=localhost NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
             PartitionName=all Nodes=here Default=YES MaxTime=INFINITE State=UP\n"
        );
        fs::write(path("slurm.conf"), configuration).unwrap();
        fs::create_dir(path("state")).unwrap();
        fs::create_dir(path("spool")).unwrap();
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--force"]);
        for (option, name) in [
            ("socket", "munge.socket"),
            ("key-file", "munge.key"),
            ("log-file", "munge.log"),
            ("pid-file", "munge.pid"),
            ("seed-file", "munge.seed"),
        ] {
            munged.arg(format!("--{option}={}", path(name).display()));
        }
        let munged = Process::start("munged", munged, directory);
        wait_until("munged", || path("munge.socket").exists().then_some(()));
        let daemon = |name: &str, more: &[&str]| {
            let mut command = Command::new(name);
            command.arg("-D").arg("-f").arg(path("slurm.conf")).args(more);
            Process::start(name, command, directory)
        };
        let controller = daemon("slurmctld", &["-c"]);
        let node = daemon("slurmd", &["-c", "-N", "here"]);
        let slurm = Self { _processes: vec![node, controller, munged], directory: own };
        wait_until("a node of Slurm that is idle", || {
            let mut sinfo = Command::new("sinfo");
            sinfo.args(["--noheader", "--format=%T"]).env("SLURM_CONF", slurm.configuration());
            (run_to_end(sinfo).stdout == b"idle\n").then_some(())
        });
        Some(slurm)
    }

    /// The value of SLURM_CONF for its clients.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.directory.path().join("slurm.conf")
    }
}

/// The Python interpreter of `make setup`, if it has a package.
pub(crate) fn python_with(package: &str) -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.join(".venv/bin/python");
    let mut command = Command::new(&python);
    command.args(["-c", &format!("import {package}")]);
    let found = python.exists() && run_to_end(command).status.success();
    if !found {
        skip(package, &format!("{} has no such package", python.display()));
    }
    found.then_some(python)
}
