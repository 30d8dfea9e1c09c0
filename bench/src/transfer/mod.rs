//! The transfer bench: a file from page cache through a server, a forwarder and a fetcher, verified,
//! onto tmpfs. All processes share the given processors; the forwarder has the first one alone to run
//! on.

mod bound;
mod cases;
mod others;
mod programs;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::thread::CpuSet;
use serde::Serialize;

use self::bound::{Bound, Costs};
use self::cases::What;
use self::programs::{Fetched, Kit};
use crate::median;

/// Where files lie that are to be in memory.
const TMPFS: &str = "/dev/shm";

/// What to run.
#[derive(Debug, Clone)]
pub struct TransferOptions {
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Fetches per case; the median counts.
    pub rounds: usize,
    /// The processors; the forwarder runs on the first.
    pub cpus: Vec<usize>,
}

impl Default for TransferOptions {
    fn default() -> Self {
        Self { filter: None, bytes: 1 << 30, rounds: 5, cpus: vec![0, 1] }
    }
}

/// CPU time of one fetch by process, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuByProcess {
    /// Of the server.
    pub server: f64,
    /// Of the forwarder.
    pub forwarder: f64,
    /// Of the fetcher.
    pub fetcher: f64,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferCase {
    /// Program, transport and how it is verified.
    pub case: String,
    /// Content bytes of one fetch: other programs, and some cases, have fewer than the whole file.
    pub bytes: u64,
    /// Content bytes per second, in 10^6, from the start of the fetcher to its end.
    pub goodput_mb_per_s: f64,
    /// Slowest and fastest round.
    pub spread: (f64, f64),
    /// CPU time, medians.
    pub cpu_s: CpuByProcess,
    /// What the processors would allow if they did nothing but what has to be done, and hashed packets
    /// one after the other.
    pub cpu_bound_mb_per_s: Option<f64>,
    /// Goodput as a share of that.
    pub share_of_cpu_bound: Option<f64>,
    /// The bound for who hashes packets two at a time, as the fetcher does.
    pub cpu_bound_in_pairs_mb_per_s: Option<f64>,
    /// Goodput as a share of that.
    pub share_of_cpu_bound_in_pairs: Option<f64>,
    /// Rounds left out because the host took away more than 1 % of the time.
    pub rounds_discarded: usize,
}

/// All cases of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferReport {
    /// `transfer`.
    pub bench: &'static str,
    /// The machine.
    pub machine: crate::Machine,
    /// Length of the file.
    pub bytes: u64,
    /// The processors that all shared.
    pub cpus: Vec<usize>,
    /// Cost of what has to be done, in nanoseconds per byte.
    pub costs: Costs,
    /// The cases.
    pub cases: Vec<TransferCase>,
    /// What could not be measured, and why.
    pub skipped: Vec<String>,
}

/// Measures all cases; `say` gets a line for each.
///
/// # Errors
/// A program does not start, or what was fetched is not what was served.
pub fn run_transfer(
    options: &TransferOptions,
    mut say: impl FnMut(&str),
) -> anyhow::Result<TransferReport> {
    ensure!(!options.cpus.is_empty(), "there is no processor to run on");
    ensure!(options.bytes >= 1 << 20, "the file has 1 MiB at least");
    let mut set = CpuSet::new();
    options.cpus.iter().for_each(|cpu| set.set(*cpu));
    rustix::thread::sched_setaffinity(None, &set).context("these processors cannot be used")?;
    let folder = Folder::new()?;
    let file = folder.0.join("served").join("file");
    write_noise(&file, options.bytes, 0)?;
    let costs = Costs::measure(&folder.0, &file)?;
    let mut report = TransferReport {
        bench: "transfer",
        machine: crate::Machine::read(),
        bytes: options.bytes,
        cpus: options.cpus.clone(),
        costs,
        cases: Vec::new(),
        skipped: Vec::new(),
    };
    let wanted = |case: &str| options.filter.as_ref().is_none_or(|filter| case.contains(filter));
    for case in cases::all().into_iter().filter(|case| wanted(&case.name)) {
        let served = serve_what(&folder.0, case.what, options.bytes)?;
        let bound = Bound::of(&case, &costs, options.cpus.len());
        let kit = Kit::namewire(&folder.0, options.cpus[0], &case, served)?;
        report.cases.push(measure(case.name, kit, options, bound, &mut say)?);
    }
    for other in others::ALL {
        if !wanted(other.case()) {
            continue;
        }
        match other.missing() {
            Some(program) => report.skipped.push(format!("{program} is not on PATH")),
            None => {
                let served = serve_what(&folder.0, other.what(), options.bytes)?;
                let case = other.case().to_owned();
                let measured = others::start(other, &folder.0, options.cpus[0], served)
                    .and_then(|kit| measure(case, kit, options, None, &mut say));
                // What others do is no reason to lose the other figures.
                match measured {
                    Ok(case) => report.cases.push(case),
                    Err(error) => report.skipped.push(format!("{}: {error:#}", other.case())),
                }
            }
        }
    }
    report.skipped.iter().for_each(|skipped| say(skipped));
    Ok(report)
}

/// What is served for a case, written if it is not there yet.
fn serve_what(folder: &Path, what: What, bytes: u64) -> anyhow::Result<Served> {
    let served = folder.join("served");
    let length = what.bytes(bytes);
    let path = served.join(what.name());
    if !path.exists() {
        match what {
            What::Tree => {
                fs::create_dir(&path)?;
                for number in 0..cases::TREE_FILES {
                    write_noise(&path.join(number.to_string()), cases::TREE_FILE_BYTES, number)?;
                }
            }
            What::File | What::Part | What::Cached => write_noise(&path, length, 1)?,
        }
    }
    Ok(Served { path, bytes: length, what })
}

/// What is fetched.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    path: PathBuf,
    bytes: u64,
    what: What,
}

fn measure(
    case: String,
    mut kit: Kit,
    options: &TransferOptions,
    bound: Option<Bound>,
    say: &mut impl FnMut(&str),
) -> anyhow::Result<TransferCase> {
    let mut rounds: Vec<Fetched> = Vec::new();
    let mut discarded = 0;
    // Reads the file into the page cache, has the manifest made, fills the Content Store.
    kit.fetch().with_context(|| case.clone())?;
    while rounds.len() < options.rounds.max(1) {
        let fetched = kit.fetch().with_context(|| case.clone())?;
        kit.compare().with_context(|| format!("{case}: what was fetched is wrong"))?;
        if fetched.stolen > 0.01 && discarded < options.rounds * 3 {
            discarded += 1;
        } else {
            rounds.push(fetched);
        }
    }
    let bytes = kit.bytes();
    #[expect(clippy::cast_precision_loss, reason = "a length of a file, as a rate")]
    let megabytes = bytes as f64 / 1e6;
    let rates: Vec<f64> = rounds.iter().map(|round| megabytes / round.seconds).collect();
    let of = |part: fn(&CpuByProcess) -> f64| median(rounds.iter().map(|round| part(&round.cpu)));
    let goodput = median(rates.iter().copied());
    let allowed = bound.map(|bound| bound.mb_per_s);
    let allowed_in_pairs = bound.map(|bound| bound.mb_per_s_in_pairs);
    let case = TransferCase {
        case,
        bytes,
        goodput_mb_per_s: goodput,
        spread: (
            rates.iter().copied().fold(f64::INFINITY, f64::min),
            rates.iter().copied().fold(0.0, f64::max),
        ),
        cpu_s: CpuByProcess {
            server: of(|cpu| cpu.server),
            forwarder: of(|cpu| cpu.forwarder),
            fetcher: of(|cpu| cpu.fetcher),
        },
        cpu_bound_mb_per_s: allowed,
        share_of_cpu_bound: allowed.map(|allowed| goodput / allowed),
        cpu_bound_in_pairs_mb_per_s: allowed_in_pairs,
        share_of_cpu_bound_in_pairs: allowed_in_pairs.map(|allowed| goodput / allowed),
        rounds_discarded: discarded,
    };
    say(&format!("{}: {:.0} MB/s", case.case, case.goodput_mb_per_s));
    Ok(case)
}

/// A directory in memory that goes away with the run.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let base =
            if Path::new(TMPFS).is_dir() { PathBuf::from(TMPFS) } else { std::env::temp_dir() };
        let folder = base.join(format!("namewire-transfer-{}", std::process::id()));
        fs::create_dir_all(folder.join("served")).context("a directory in memory")?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes that look random, other ones for each `seed`.
fn write_noise(path: &Path, length: u64, seed: u64) -> anyhow::Result<()> {
    let mut file = std::io::BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_add(seed << 1);
    let mut left = length;
    while left > 0 {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let bytes = state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        let count = usize::try_from(left.min(8))?;
        file.write_all(&bytes[..count])?;
        left -= left.min(8);
    }
    Ok(file.flush()?)
}
