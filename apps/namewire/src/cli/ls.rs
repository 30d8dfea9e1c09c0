//! `namewire ls`: lists a directory of a file server.

use clap::Args;
use ndn_client::Endpoint;
use ndn_client::fetch::{Discovery, FetchOptions};
use ndn_files::{FileMetadata, ListingEntry};
use ndn_packet::Name;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::arguments::{directory_name, too_deep};
use super::connect::{ConnectOptions, block_on};
use super::diagnose::{explained, with_early_cause};
use super::failure::{Failure, Outcome};
use super::fetch_file::failure;
use super::file_name::{self, file_name};
use super::get::with_file_name;
use super::keys;
use super::nfdc::extended_timestamp;
use super::output::{self, Table, bytes_for_people};
use super::tree::list;

/// Number of entries whose metadata is fetched at a time.
const ENTRIES_AT_A_TIME: usize = 64;

/// List a directory of a file server
///
/// Prints the names of the entries, those of directories with a slash. The directory is one that `namewire serve` or
/// another file server serves.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Name of the directory
    #[arg(value_parser = directory_name)]
    name: Name,
    /// Show permissions, sizes and times of modification
    #[arg(long, short)]
    long: bool,
    /// List directories below it, too
    #[arg(long, short = 'R')]
    recursive: bool,
    #[arg(long, value_name = "KEY", default_value = "digest", help = keys::VERIFY_HELP, long_help = keys::VERIFY_LONG_HELP)]
    verify: String,
    /// Print JSON, with sizes and times
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

pub(super) fn run(options: &Options) -> Outcome {
    let fetching = FetchOptions {
        discovery: Discovery::Metadata,
        verification: keys::verification(&options.verify)?,
        ..FetchOptions::default()
    };
    block_on(async {
        let endpoint = options.connect.open().await?;
        let mut directories = vec![options.name.clone()];
        let mut listed = Vec::new();
        let mut is_complete = true;
        while let Some(directory) = directories.pop() {
            let listing = match too_deep(&directory) {
                Some(reason) => Err(Failure::Failed(reason)),
                None => {
                    let listing = list(&endpoint, &directory, &fetching);
                    with_early_cause(&endpoint, &directory, || true, listing).await
                }
            };
            let listing = explained(listing, &endpoint, &directory).await;
            let entries = match listing {
                Ok((_, entries)) => entries,
                Err(failure) if failure.is_unanswered() || directory == options.name => {
                    return Err(with_file_name(failure, &directory));
                }
                // Only this directory is left out.
                Err(failure) => {
                    output::note(&format_args!("namewire: {failure}"));
                    is_complete = false;
                    continue;
                }
            };
            if options.recursive {
                let below = entries.iter().rev().filter(|entry| entry.is_directory);
                directories.extend(below.map(|entry| name_of(&directory, entry)));
            }
            let details = match options.long || options.json {
                true => metadata_of(&endpoint, &directory, &entries, &fetching).await?,
                false => vec![None; entries.len()],
            };
            if options.json {
                let entries = entries.iter().zip(details);
                listed.extend(entries.map(|(entry, details)| {
                    described(&name_of(&directory, entry), entry, details.as_ref())
                }));
                continue;
            }
            print(options, &directory, &entries, &details)?;
        }
        if options.json {
            output::print_json(&Value::Array(listed))?;
        }
        match is_complete {
            true => Ok(()),
            false => Err(Failure::Failed("not all directories could be listed".to_owned())),
        }
    })
}

fn name_of(directory: &Name, entry: &ListingEntry) -> Name {
    let mut name = directory.clone();
    name.push_generic(&entry.file_name);
    name
}

/// The metadata of all entries; `None` for those that are gone, or cannot be fetched for their depth.
async fn metadata_of(
    endpoint: &Endpoint,
    directory: &Name,
    entries: &[ListingEntry],
    fetching: &FetchOptions,
) -> Outcome<Vec<Option<FileMetadata>>> {
    let mut found = vec![None; entries.len()];
    let mut asking = JoinSet::new();
    let mut waiting = entries.iter().enumerate();
    loop {
        while asking.len() < ENTRIES_AT_A_TIME
            && let Some((position, entry)) = waiting.next()
        {
            let (endpoint, fetching) = (endpoint.clone(), fetching.clone());
            let name = name_of(directory, entry);
            if too_deep(&name).is_some() {
                continue;
            }
            asking.spawn(async move { (position, endpoint.find(&name, &fetching).await) });
        }
        let Some(answer) = asking.join_next().await else { return Ok(found) };
        let (position, answer) = answer.map_err(|error| Failure::Failed(error.to_string()))?;
        match answer {
            Ok(object) => {
                let content = object.metadata().map(|content| FileMetadata::decode(content));
                found[position] = content.and_then(Result::ok);
            }
            // Removed since the directory was listed.
            Err(ndn_client::fetch::FetchError::NotFound { .. }) => {}
            Err(error) => return Err(failure(error)),
        }
    }
}

fn described(name: &Name, entry: &ListingEntry, details: Option<&FileMetadata>) -> Value {
    json!({
        "name": name.to_string(),
        "type": if entry.is_directory { "directory" } else { "file" },
        "bytes": details.and_then(|details| details.size),
        "mode": details.map(|details| details.mode & 0o7777),
        "modified_ns": details.and_then(|details| details.mtime_ns),
        "version": details.and_then(FileMetadata::version),
    })
}

fn print(
    options: &Options,
    directory: &Name,
    entries: &[ListingEntry],
    details: &[Option<FileMetadata>],
) -> Outcome {
    if options.recursive {
        output::print_line(&format!("{}:", file_name::name(directory)))?;
    }
    if !options.long {
        for entry in entries {
            output::print_line(&shown(entry))?;
        }
    } else {
        let mut table = Table::new(&["mode", ">size", "modified (UTC)", "name"]).whole();
        for (entry, details) in entries.iter().zip(details) {
            let details = details.as_ref();
            let mode = details.map_or_else(String::new, |details| {
                let kind = if entry.is_directory { 'd' } else { '-' };
                permissions(kind, details.mode)
            });
            let size = details.and_then(|details| details.size).map(bytes_for_people);
            let time = details.and_then(|details| details.mtime_ns);
            // Whole seconds.
            let time = time.map(|ns| extended_timestamp(ns / 1_000_000_000 * 1000));
            table.row(vec![mode, size.unwrap_or_default(), time.unwrap_or_default(), shown(entry)]);
        }
        table.print("the directory is empty")?;
    }
    if options.recursive {
        output::print_line("")?;
    }
    Ok(())
}

/// The name of an entry as a part of a name on the command line.
fn shown(entry: &ListingEntry) -> String {
    let end = if entry.is_directory { "/" } else { "" };
    file_name(&entry.file_name) + end
}

/// As in `ls -l`.
fn permissions(kind: char, mode: u64) -> String {
    let bits = (0..9).rev().zip("rwxrwxrwx".chars());
    let flags = bits.map(|(bit, letter)| if mode >> bit & 1 == 1 { letter } else { '-' });
    std::iter::once(kind).chain(flags).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_those_of_ls() {
        assert_eq!(permissions('-', 0o100_644), "-rw-r--r--");
        assert_eq!(permissions('d', 0o040_755), "drwxr-xr-x");
    }
}
