//! A thread that disturbs the forwarder while it may.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, bail};

use super::ManagementOptions;
use super::hostile::Attacker;
use super::subject::Subject;
use crate::relay::{clock, rounds};

/// How often it looks whether it may.
const LOOK: Duration = Duration::from_millis(1);

/// The thread and its switches.
#[derive(Debug)]
pub(super) struct Disturbance {
    switches: Arc<Switches>,
    thread: JoinHandle<anyhow::Result<u64>>,
}

#[derive(Debug, Default)]
struct Switches {
    is_on: AtomicBool,
    is_done: AtomicBool,
}

impl Disturbance {
    /// Lists the FIB, the routes and the faces in turn.
    pub(super) fn listing(options: &ManagementOptions, subject: &Subject) -> anyhow::Result<Self> {
        let mut commands = [subject.nfdc()?, subject.nfdc()?, subject.nfdc()?];
        for (command, what) in commands.iter_mut().zip(["fib", "route", "face"]) {
            command.args([what, "list"]).stdout(Stdio::null()).stderr(Stdio::null());
        }
        let mut turn = 0;
        Ok(Self::start(options.cpus[3], move || {
            let status = commands[turn].status()?;
            turn = (turn + 1) % commands.len();
            if !status.success() {
                bail!("a list was not given: {status}");
            }
            Ok(1)
        }))
    }

    /// Sends commands that are to be refused.
    pub(super) fn hostile(options: &ManagementOptions, subject: &Subject) -> anyhow::Result<Self> {
        let mut attacker = Attacker::new(options, subject)?;
        let mut last_ns = clock::monotonic_ns();
        Ok(Self::start(options.cpus[3], move || {
            clock::pause(LOOK);
            let now_ns = clock::monotonic_ns();
            // After a pause it begins anew, and does not catch up.
            let elapsed_ns = (now_ns - last_ns).min(10_000_000);
            last_ns = now_ns;
            attacker.send(elapsed_ns)
        }))
    }

    /// Calls `disturb` whenever it is switched on; its results are added up.
    fn start(
        cpu: usize,
        mut disturb: impl FnMut() -> anyhow::Result<u64> + Send + 'static,
    ) -> Self {
        let switches = Arc::<Switches>::default();
        let own = Arc::clone(&switches);
        let thread = std::thread::spawn(move || {
            rounds::pin(cpu)?;
            let mut count = 0;
            while !own.is_done.load(Ordering::Relaxed) {
                if own.is_on.load(Ordering::Relaxed) {
                    count += disturb()?;
                } else {
                    clock::pause(LOOK);
                }
            }
            Ok(count)
        });
        Self { switches, thread }
    }

    /// Lets it go on, or stops it when it is done with what it does.
    pub(super) fn set(&self, is_on: bool) {
        self.switches.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Ends it; how much it has done.
    pub(super) fn finish(self) -> anyhow::Result<u64> {
        self.switches.is_done.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("it has panicked"))?
    }
}
