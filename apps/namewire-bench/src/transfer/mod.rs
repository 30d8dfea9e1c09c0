//! The transfer bench: a file from page cache through a server, a forwarder and a fetcher, verified, onto tmpfs. All
//! processes share the given processors; the forwarder is pinned to the first.

mod bound;
mod cases;
mod folder;
mod others;
mod programs;
mod report;
mod rounds;

use anyhow::{Context, ensure};
use rustix::thread::CpuSet;

use self::bound::{Costs, Meter};
use self::folder::{Folder, serve_what};
pub(crate) use self::folder::{Folder as MemoryFolder, write_noise};
use self::programs::CasePrograms;
pub use self::report::{
    CpuByProcess, TransferCase, TransferOptions, TransferRatio, TransferReport,
};
use self::rounds::{Entry, Member, Round};
use crate::relay::clock::monotonic_ns;

/// Maximum fetches of a case that is not compared round by round.
const ROUNDS_MAX_ALONE: usize = 3;
/// Time after the start of a run from which rounds count independent of steal time, and uncompared cases are fetched
/// once: a run also ends on a busy machine.
const DISCARD_SECONDS: f64 = 150.0;
const HURRY_SECONDS: f64 = 420.0;

/// Measures all cases; calls `print` with a line for each.
///
/// # Errors
/// A program does not start, or the fetched content differs from the served content.
pub fn run_transfer(
    options: &TransferOptions,
    mut print: impl FnMut(&str),
) -> anyhow::Result<TransferReport> {
    ensure!(!options.cpus.is_empty(), "there is no processor to run on");
    ensure!(options.bytes >= 1 << 20, "the file has 1 MiB at least");
    let requested = |case: &str| options.filter.as_ref().is_none_or(|filter| case.contains(filter));
    let mut groups = groups();
    groups.iter_mut().for_each(|group| group.retain(|member| requested(member.name())));
    let count: usize = groups.iter().map(Vec::len).sum();
    ensure!(count > 0, "no case matches the filter");
    let start = monotonic_ns();
    let mut set = CpuSet::new();
    options.cpus.iter().for_each(|cpu| set.set(*cpu));
    rustix::thread::sched_setaffinity(None, &set).context("these processors cannot be used")?;
    let folder = Folder::new()?;
    let file = folder.served("file");
    write_noise(&file, options.bytes, 0)?;
    let mut run = Run {
        start,
        meter: Meter::new(folder.path(), &file, &options.cpus)?,
        folder,
        options,
        costs: Vec::new(),
        skipped: Vec::new(),
        print: &mut print,
    };
    let (mut cases, mut ratios) = (Vec::new(), Vec::new());
    (run.print)(&announcement(count, options));
    for group in groups {
        let entries = run.measure(&group)?;
        ratios.extend(rounds::ratios(&entries));
        cases.extend(entries.iter().map(|entry| entry.summary(options.cpus.len())));
    }
    let Run { costs, skipped, .. } = run;
    skipped.iter().for_each(|skipped| print(skipped));
    Ok(TransferReport {
        bench: "transfer",
        machine: ndn_pipeline_bench::Machine::read(),
        bytes: options.bytes,
        cpus: options.cpus.clone(),
        costs: Costs::fold(&costs),
        cases,
        ratios,
        skipped,
        seconds: seconds_since(start),
    })
}

fn announcement(cases: usize, options: &TransferOptions) -> String {
    let all = options.filter.is_none() && options.bytes == TransferOptions::default().bytes;
    let expected = if all && options.rounds == TransferOptions::default().rounds {
        "; this takes 5 to 10 minutes"
    } else {
        ""
    };
    format!("{cases} cases, processors {:?}, files in memory{expected}", options.cpus)
}

#[expect(clippy::cast_precision_loss, reason = "a time of less than a day")]
fn seconds_since(start_ns: u64) -> f64 {
    (monotonic_ns() - start_ns) as f64 / 1e9
}

/// All measurements: the members of a group alternate, the groups run one after the other.
fn groups() -> Vec<Vec<Member>> {
    let (compared, rest): (Vec<_>, Vec<_>) =
        cases::all().into_iter().partition(|case| rounds::COMPARED.contains(&case.name.as_str()));
    let mut first: Vec<_> = compared.into_iter().map(Member::Own).collect();
    let (mut others, mut rest) =
        (Vec::new(), rest.into_iter().map(Member::Own).collect::<Vec<_>>());
    for other in others::ALL {
        let together = rounds::COMPARED.contains(&other.case());
        if together { &mut others } else { &mut rest }.push(Member::Other(other));
    }
    first.extend(others);
    std::iter::once(first).chain(rest.into_iter().map(|member| vec![member])).collect()
}

struct Run<'a, S> {
    /// Start time.
    start: u64,
    folder: Folder,
    options: &'a TransferOptions,
    meter: Meter,
    /// All measured costs.
    costs: Vec<Costs>,
    skipped: Vec<String>,
    print: &'a mut S,
}

impl<S: FnMut(&str)> Run<'_, S> {
    /// Measures the members of a group alternately.
    fn measure(&mut self, group: &[Member]) -> anyhow::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for member in group {
            match self.start(member) {
                Ok(entry) => entries.extend(entry),
                Err(error) => self.give_up(member, error)?,
            }
        }
        let entries = self.rounds(entries)?;
        for entry in &entries {
            (self.print)(&entry.line(self.options.cpus.len()));
        }
        Ok(entries)
    }

    /// A failure of another project's program does not discard the other results.
    fn give_up(&mut self, member: &Member, error: anyhow::Error) -> anyhow::Result<()> {
        if matches!(member, Member::Own(_)) || rounds::is_interrupted(self.options) {
            return Err(error.context(member.name().to_owned()));
        }
        self.skipped.push(format!("{}: {error:#}", member.name()));
        Ok(())
    }

    /// Starts the programs of a member, and fetches once: this reads the file into the page cache, creates the
    /// manifest and fills the Content Store. `None` if the programs are not available.
    fn start(&mut self, member: &Member) -> anyhow::Result<Option<Entry>> {
        let cpus = &self.options.cpus;
        let folder = self.folder.of(member.name())?;
        let serve = |what| serve_what(&self.folder, what, self.options.bytes);
        let mut kit = match member {
            Member::Own(case) => CasePrograms::namewire(&folder, cpus, case, serve(case.what)?)?,
            Member::Other(other) => {
                if let Some(program) = other.missing() {
                    self.skipped.push(format!("{program} is not on PATH"));
                    return Ok(None);
                }
                others::start(*other, &folder, cpus, serve(other.what())?)?
            }
        };
        kit.fetch()?;
        kit.remove_output();
        Ok(Some(Entry { member: member.clone(), kit, rounds: Vec::new(), discarded: 0 }))
    }

    /// Runs fetches of all entries alternately, until enough rounds are valid.
    fn rounds(&mut self, mut entries: Vec<Entry>) -> anyhow::Result<Vec<Entry>> {
        let alone = entries.len() == 1 && !rounds::COMPARED.contains(&entries[0].member.name());
        let rounds_max = match alone {
            false => usize::MAX,
            true if seconds_since(self.start) > HURRY_SECONDS => 1,
            true => ROUNDS_MAX_ALONE,
        };
        let requested = self.options.rounds.clamp(1, rounds_max);
        let mut before = self.costs_now()?;
        let mut number = 0;
        while entries.first().is_some_and(|entry| entry.rounds.len() < requested) {
            number += 1;
            let mut failed = Vec::new();
            for position in 0..entries.len() {
                // The order alternates, so that no entry always follows the same one.
                let position =
                    if number % 2 == 0 { entries.len() - 1 - position } else { position };
                ensure!(!rounds::is_interrupted(self.options), "interrupted");
                let entry = &mut entries[position];
                match entry.fetch() {
                    Ok(fetched) => {
                        let after = self.costs_now()?;
                        let entry = &mut entries[position];
                        let round = Round { fetched, costs: before.better(after) };
                        if !alone {
                            (self.print)(&entry.progress(number, &round));
                        }
                        entry.rounds.push(round);
                        before = after;
                    }
                    Err(error) => {
                        self.give_up(&entries[position].member.clone(), error)?;
                        failed.push(position);
                    }
                }
            }
            failed.sort_unstable();
            for position in failed.into_iter().rev() {
                entries.remove(position);
            }
            if seconds_since(self.start) < DISCARD_SECONDS {
                rounds::discard(&mut entries, requested);
            }
        }
        Ok(entries)
    }

    fn costs_now(&mut self) -> anyhow::Result<Costs> {
        let costs = self.meter.measure().context("what has to be done cannot be measured")?;
        self.costs.push(costs);
        Ok(costs)
    }
}
