//! A thread that disturbs the forwarder while enabled.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, bail};

use super::hostile::Attacker;
use super::report::ManagementOptions;
use super::subject::Subject;
use crate::relay::{clock, rounds};

/// Poll interval of the switch.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The thread and its switches.
#[derive(Debug)]
pub(super) struct Disturbance {
    switches: Arc<Switches>,
    thread: JoinHandle<anyhow::Result<()>>,
}

#[derive(Debug, Default)]
struct Switches {
    is_on: AtomicBool,
    /// Set before `is_on` is read: after clearing `is_on`, a reader that sees this unset knows that no disturbance is
    /// running.
    is_busy: AtomicBool,
    is_done: AtomicBool,
    count: AtomicU64,
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

    /// Sends commands that the forwarder must refuse.
    pub(super) fn hostile(options: &ManagementOptions, subject: &Subject) -> anyhow::Result<Self> {
        let mut attacker = Attacker::new(options, subject)?;
        let mut last_ns = clock::monotonic_ns();
        Ok(Self::start(options.cpus[3], move || {
            clock::pause(POLL_INTERVAL);
            let now_ns = clock::monotonic_ns();
            // After a pause it continues at its rate without catching up.
            let elapsed_ns = (now_ns - last_ns).min(10_000_000);
            last_ns = now_ns;
            attacker.send(elapsed_ns)
        }))
    }

    /// Calls `disturb` while enabled; adds up its results.
    fn start(
        cpu: usize,
        mut disturb: impl FnMut() -> anyhow::Result<u64> + Send + 'static,
    ) -> Self {
        let switches = Arc::<Switches>::default();
        let own = Arc::clone(&switches);
        let thread = std::thread::spawn(move || {
            rounds::pin(cpu)?;
            while !own.is_done.load(Ordering::SeqCst) {
                own.is_busy.store(true, Ordering::SeqCst);
                let done = if own.is_on.load(Ordering::SeqCst) { disturb() } else { Ok(0) };
                own.is_busy.store(false, Ordering::SeqCst);
                own.count.fetch_add(done?, Ordering::SeqCst);
                if !own.is_on.load(Ordering::SeqCst) {
                    clock::pause(POLL_INTERVAL);
                }
            }
            Ok(())
        });
        Self { switches, thread }
    }

    /// Enables the disturbance, or disables it after the current operation.
    pub(super) fn set(&self, is_on: bool) {
        self.switches.is_on.store(is_on, Ordering::SeqCst);
    }

    /// Returns whether an operation is running.
    pub(super) fn is_busy(&self) -> bool {
        self.switches.is_busy.load(Ordering::SeqCst)
    }

    /// Returns the number of operations so far.
    pub(super) fn count(&self) -> u64 {
        self.switches.count.load(Ordering::SeqCst)
    }

    /// Stops the thread.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.switches.is_done.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| anyhow!("it has panicked"))?
    }
}
