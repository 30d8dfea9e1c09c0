//! A process that reads according to a plan, by the access core or from a file of the operating system.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use ndn_access::keys::verification;
use ndn_access::{AccessOptions, Blocking, BlockingFile};
use ndn_client::fetch::{Discovery, FetchOptions, Verification};
use ndn_client::{Endpoint, EndpointOptions};
use ndn_packet::Name;
use ndn_security::Sha256;

use super::plan::Plan;

/// Source of a reader process, and its way of reading.
#[derive(Debug, Clone)]
pub enum ReaderSource {
    /// A file of the operating system.
    Path(PathBuf),
    /// A name, by the access core, verified by a word.
    Name {
        /// The name.
        name: String,
        /// As `--verify`.
        verify: String,
    },
    /// Single exchanges: for each read, the segment that it begins in.
    Exchange {
        /// The name.
        name: String,
    },
}

/// Reads by the plan in file `plan`. Writes the digest of all that was read, and then the time of each read in nanoseconds, one
/// per line.
///
/// # Errors
/// The failure of a read.
pub fn run_reader(source: &ReaderSource, plan: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(plan).with_context(|| plan.display().to_string())?;
    let plan = Plan::from_text(&text).with_context(|| format!("{} is no plan", plan.display()))?;
    match source {
        ReaderSource::Path(path) => {
            let file = File::open(path).with_context(|| path.display().to_string())?;
            time_reads(&plan, out, |part| {
                let mut bytes = vec![0; usize::try_from(part.end - part.start)?];
                file.read_exact_at(&mut bytes, part.start)?;
                Ok(bytes)
            })
        }
        ReaderSource::Name { name, verify } => {
            let fetching =
                FetchOptions { verification: verification(verify)?, ..FetchOptions::default() };
            let options = AccessOptions { fetching, ..AccessOptions::default() };
            let blocking = Blocking::connect(EndpointOptions::default(), options)?;
            let file = blocking.open(&name_of(name)?, &mut || false)?;
            time_vectored(&plan, out, &file)
        }
        ReaderSource::Exchange { name } => exchange(&plan, out, &name_of(name)?),
    }
}

fn name_of(uri: &str) -> anyhow::Result<Name> {
    Name::from_uri(uri).map_err(|error| anyhow!("{uri}: {error}"))
}

fn time_reads(
    plan: &Plan,
    out: &mut dyn Write,
    mut read: impl FnMut(&Range<u64>) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<()> {
    time(plan, out, |parts| parts.iter().map(&mut read).collect())
}

fn time_vectored(plan: &Plan, out: &mut dyn Write, file: &BlockingFile) -> anyhow::Result<()> {
    time(plan, out, |parts| {
        if let [part] = parts {
            let mut bytes = vec![0; usize::try_from(part.end - part.start)?];
            file.read_into(part.start, &mut bytes, &mut || false)?;
            return Ok(vec![bytes]);
        }
        let read = file.read_vectored(parts, &mut || false)?;
        Ok(read.into_iter().map(|part| part.to_vec()).collect())
    })
}

/// Times each read. The digest is computed after the last one: between them, read-ahead would go on outside of their times.
fn time(
    plan: &Plan,
    out: &mut dyn Write,
    mut read: impl FnMut(&[Range<u64>]) -> anyhow::Result<Vec<Vec<u8>>>,
) -> anyhow::Result<()> {
    let mut contents = Vec::with_capacity(plan.reads.len());
    let mut times = Vec::with_capacity(plan.reads.len());
    for parts in &plan.reads {
        let start = Instant::now();
        contents.push(read(parts)?);
        times.push(start.elapsed().as_nanos());
    }
    let mut digest = Sha256::new();
    contents.iter().flatten().for_each(|part| digest.update(part));
    writeln!(out, "{}", super::options::hex(&digest.finish()))?;
    times.iter().try_for_each(|time| writeln!(out, "{time}"))?;
    Ok(())
}

fn exchange(plan: &Plan, out: &mut dyn Write, name: &Name) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let options = FetchOptions {
        verification: Verification::Digest,
        discovery: Discovery::Metadata,
        ..FetchOptions::default()
    };
    let (endpoint, found, length) = runtime.block_on(async {
        let endpoint = Endpoint::open().await?;
        let found = endpoint.find(name, &options).await?;
        let length = endpoint.fetch_segment(&found, 0, &options).await?.content_len();
        anyhow::Ok((endpoint, found, u64::try_from(length)?.max(1)))
    })?;
    time_reads(plan, out, |part| {
        let segment = part.start / length;
        let received = runtime.block_on(endpoint.fetch_segment(&found, segment, &options))?;
        Ok(received.content().to_vec())
    })
}
