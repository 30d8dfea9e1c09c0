//! `namewire find`: searches the catalogue of a file server.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use futures_util::{StreamExt, stream};
use ndn_client::fetch::{FetchError, FetchOptions};
use ndn_files::{CatalogueEntry, CatalogueError, PageCache, fetch_index, fetch_page};
use ndn_packet::Name;
use serde_json::{Value, json};

use super::arguments::{object_name, size};
use super::connect::{ConnectOptions, block_on, kind_of_fetch};
use super::failure::{Failure, Outcome};
use super::file_name;
use super::key_chain::now_unix_ms;
use super::keys;
use super::nfdc::extended_timestamp;
use super::output::{self, bytes_for_people, grouped, span_for_people};
use super::tree::Pattern;

/// Pages that are fetched at a time.
const PAGES_AT_A_TIME: usize = 16;
/// Bytes of pages that are kept for the next search.
const CACHE_BYTES_MAX: u64 = 256 << 20;

/// Search the catalogue of a file server
///
/// Prints the sorted paths of the files that match in the catalogue, which `namewire serve --catalogue` publishes and signs.
/// Pages of the catalogue are kept, so that the next search fetches only those that have changed. If nothing matches, a
/// message says so, and the exit status is 0. Nothing is printed if a page cannot be fetched.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Name whose catalogue is searched, as `serve --prefix` has it
    #[arg(value_parser = object_name)]
    name: Name,
    /// Pattern of the path below NAME, as of `sync --include`; all files without it
    ///
    /// Names in it are those of the files (`v=1`), or as they are printed (`v%3D1`).
    #[arg(value_parser = parse_pattern)]
    pattern: Option<String>,
    /// Only files whose metadata meet this condition; may be repeated
    ///
    /// KEY=VALUE, KEY!=VALUE, KEY~TEXT (contains), KEY<VALUE, KEY<=VALUE, KEY>VALUE, KEY>=VALUE. KEY is that of a field of
    /// the metadata beside the file, or `size`, whose value has a unit (`size>1GB`). Two numbers are compared as numbers,
    /// anything else as text. A file without the field does not match.
    #[arg(long = "where", value_name = "CONDITION", value_parser = Condition::parse)]
    conditions: Vec<Condition>,
    /// Show sizes, times of modification and digests, and when the catalogue was published
    #[arg(long, short)]
    long: bool,
    #[arg(long, value_name = "KEY", default_value = "digest", help = keys::VERIFY_HELP, long_help = keys::VERIFY_LONG_HELP)]
    verify: String,
    /// Do not keep pages of the catalogue, and use none [default: they are kept in namewire/catalogues in $XDG_CACHE_HOME or
    /// ~/.cache]
    #[arg(long)]
    no_cache: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

pub(super) fn run(options: &Options) -> Outcome {
    let fetching = FetchOptions {
        verification: keys::verification(&options.verify)?,
        ..FetchOptions::default()
    };
    let pattern = options.pattern.as_deref().map(Pattern::parse).transpose();
    let pattern = pattern.map_err(Failure::Usage)?;
    let cache = if options.no_cache { None } else { page_cache() };
    block_on(async {
        let endpoint = options.connect.open().await?;
        let index = fetch_index(&endpoint, &options.name, &fetching).await;
        let (index, published_ns) = index.map_err(failed)?;
        let replicas: Vec<String> = index.replicas.iter().map(Name::to_uri).collect();
        let (endpoint, cache, fetching) = (&endpoint, cache.as_ref(), &fetching);
        let pages = index.pages.iter().map(|page| async move {
            fetch_page(endpoint, &options.name, page, cache, fetching).await
        });
        let mut pages = stream::iter(pages).buffered(PAGES_AT_A_TIME);
        let mut found = Vec::new();
        let mut missing: BTreeSet<_> = options.conditions.iter().map(|one| &*one.key).collect();
        while let Some(page) = pages.next().await {
            for entry in page.map_err(failed)? {
                let path = path_of(&entry);
                missing.retain(|key| field(&entry, key).is_none());
                let matches = pattern.as_ref().is_none_or(|pattern| pattern.matches_printed(&path))
                    && options.conditions.iter().all(|condition| condition.is_met(&entry));
                if matches {
                    found.push((path, entry));
                }
            }
        }
        // Pages have the order of names, in which a shorter component is the lesser one.
        found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        if options.json {
            let files = found.iter().map(|(_, entry)| described(&options.name, entry));
            let listing = json!({
                "prefix": options.name.to_uri(),
                "replicas": replicas,
                "published_ns": published_ns,
                "searched": index.entries(),
                "files": files.collect::<Vec<_>>(),
            });
            output::print_json(&listing)?;
        } else {
            for (path, entry) in &found {
                output::print_line(&line(path, entry, options.long))?;
            }
        }
        if found.is_empty() {
            output::note(&nothing_found(index.entries(), missing));
        }
        if found.is_empty() || options.long {
            output::note(&age(published_ns / 1_000_000, now_unix_ms()));
        }
        Ok(())
    })
}

/// The message of a search that finds nothing among this number of entries, none of which has the `missing` fields.
fn nothing_found(entries: u64, missing: BTreeSet<&str>) -> String {
    let mut text = format!("namewire: 0 of {} match", counted_entries(entries));
    if entries > 0 {
        missing.iter().for_each(|key| text += &format!("; none has the field `{key}`"));
    }
    output::without_control(&text)
}

/// The note on the age of a catalogue.
fn age(published_ms: u64, now_ms: u64) -> String {
    format!(
        "namewire: this catalogue was published {} ago; its server publishes the next one within about a minute of a change",
        span_for_people(now_ms.saturating_sub(published_ms))
    )
}

fn counted_entries(entries: u64) -> String {
    match entries {
        1 => "1 entry".to_owned(),
        entries => format!("{} entries", grouped(entries)),
    }
}

fn parse_pattern(text: &str) -> Result<String, String> {
    Pattern::parse(text).map(|_| text.to_owned())
}

/// The directory for pages; `None` if there is none that can be used.
fn page_cache() -> Option<PageCache> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = of("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(of("HOME")?).join(".cache")))?;
    PageCache::open(&cache.join("namewire/catalogues"), CACHE_BYTES_MAX).ok()
}

pub(super) fn failed(error: CatalogueError) -> Failure {
    let CatalogueError::Fetch(error) = error else {
        return Failure::Failed(error.to_string());
    };
    let is_missing = matches!(error, FetchError::Discovery(_) | FetchError::NotFound { .. });
    let hint = if is_missing { " (`namewire serve --catalogue` publishes catalogues)" } else { "" };
    kind_of_fetch(&error)(format!("{error}{hint}"))
}

/// The path below the prefix, without a leading slash.
fn path_of(entry: &CatalogueEntry) -> Vec<u8> {
    let components: Vec<&[u8]> =
        entry.path.components().map(|component| component.value()).collect();
    components.join(&b'/')
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn line(path: &[u8], entry: &CatalogueEntry, is_long: bool) -> String {
    let path = file_name::path(path);
    if !is_long {
        return path;
    }
    let size = bytes_for_people(entry.size);
    // Whole seconds.
    let time = extended_timestamp(entry.mtime_ns / 1_000_000_000 * 1000);
    let digest = entry.digest.map_or_else(|| "-".to_owned(), |digest| hexadecimal(&digest));
    format!("{size:>10}  {time}  {digest}  {path}")
}

fn described(prefix: &Name, entry: &CatalogueEntry) -> Value {
    let mut name = prefix.clone();
    entry.path.components().for_each(|component| {
        name.push(component);
    });
    let fields: BTreeMap<&str, &str> =
        entry.fields.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    json!({
        "name": name.to_uri(),
        "bytes": entry.size,
        "version": entry.version,
        "modified_ns": entry.mtime_ns,
        "sha256": entry.digest.map(|digest| hexadecimal(&digest)),
        "metadata": fields,
    })
}

/// A condition on a field.
#[derive(Debug, Clone, PartialEq)]
struct Condition {
    key: String,
    relation: Relation,
    value: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Relation {
    Equal,
    Unequal,
    Contains,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The signs of relations; a longer one before its beginning.
const RELATIONS: [(&str, Relation); 7] = [
    ("!=", Relation::Unequal),
    ("<=", Relation::LessOrEqual),
    (">=", Relation::GreaterOrEqual),
    ("=", Relation::Equal),
    ("~", Relation::Contains),
    ("<", Relation::Less),
    (">", Relation::Greater),
];

impl Condition {
    fn parse(text: &str) -> Result<Self, String> {
        let at = text.find(['!', '<', '>', '=', '~']);
        let (key, rest) = text.split_at(at.unwrap_or(text.len()));
        let sign = RELATIONS.into_iter().find(|(sign, _)| rest.starts_with(sign));
        let (sign, relation) =
            sign.ok_or("a condition is KEY=VALUE, or has another of != ~ < <= > >=")?;
        if key.is_empty() {
            return Err("the key is missing before the relation".to_owned());
        }
        let value = &rest[sign.len()..];
        check_spelling(key, sign, value)?;
        let value = match key {
            "size" if relation != Relation::Contains => {
                size(0..=u64::MAX)(value).map_err(|error| format!("size: {error}"))?.to_string()
            }
            _ => value.to_owned(),
        };
        Ok(Self { key: key.to_owned(), relation, value })
    }

    fn is_met(&self, entry: &CatalogueEntry) -> bool {
        let Some(found) = field(entry, &self.key) else { return false };
        let ordering = match (found.parse::<f64>(), self.value.parse::<f64>()) {
            (Ok(found), Ok(value)) => found.partial_cmp(&value),
            _ => Some((*found).cmp(&*self.value)),
        };
        match self.relation {
            Relation::Contains => found.contains(&*self.value),
            Relation::Equal => ordering.is_some_and(|ordering| ordering.is_eq()),
            Relation::Unequal => ordering.is_none_or(|ordering| ordering.is_ne()),
            Relation::Less => ordering.is_some_and(|ordering| ordering.is_lt()),
            Relation::LessOrEqual => ordering.is_some_and(|ordering| ordering.is_le()),
            Relation::Greater => ordering.is_some_and(|ordering| ordering.is_gt()),
            Relation::GreaterOrEqual => ordering.is_some_and(|ordering| ordering.is_ge()),
        }
    }
}

/// Refuses what is probably a mistake: another spelling of a relation, or spaces around it.
fn check_spelling(key: &str, sign: &str, value: &str) -> Result<(), String> {
    let second = value.chars().next().filter(|next| "=<>~".contains(*next));
    if let Some(second) = second {
        let written = format!("{sign}{second}");
        let meant = match &*written {
            "==" => "=",
            "=>" => ">=",
            "=<" => "<=",
            "=~" | "~=" => "~",
            "<>" => "!=",
            _ => "one of = != ~ < <= > >=",
        };
        return Err(format!("`{written}` is no relation: use {meant}"));
    }
    let (bare_key, bare_value) = (key.trim(), value.trim_start());
    if (bare_key, bare_value) != (key, value) {
        return Err(format!("write it without spaces: `{bare_key}{sign}{bare_value}`"));
    }
    Ok(())
}

/// The value of a field of an entry, or of `size`.
fn field<'a>(entry: &'a CatalogueEntry, key: &str) -> Option<Cow<'a, str>> {
    if key == "size" {
        return Some(entry.size.to_string().into());
    }
    let known = entry.fields.iter().find(|(known, _)| known == key);
    known.map(|(_, value)| value.as_str().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> CatalogueEntry {
        let fields = [("detector", "CMS"), ("energy", "13.6"), ("run", "9")];
        CatalogueEntry {
            path: Name::from_uri("/2026/run.root").unwrap(),
            version: 1,
            size: 1500,
            mtime_ns: 1,
            digest: None,
            fields: fields.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
        }
    }

    #[test]
    fn conditions_compare_numbers_as_numbers() {
        for (condition, is_met) in [
            ("detector=CMS", true),
            ("detector=cms", false),
            ("detector!=ATLAS", true),
            ("detector~M", true),
            ("run<10", true),
            ("run<=9.0", true),
            ("run=9.0", true),
            ("run>9", false),
            ("energy>=13.6", true),
            ("size>1kB", true),
            ("size<=1kB", false),
            ("size=1500B", true),
            ("none!=1", false),
        ] {
            let parsed = Condition::parse(condition).unwrap();
            assert_eq!(parsed.is_met(&entry()), is_met, "{condition}");
        }
    }

    #[test]
    fn malformed_conditions_are_rejected() {
        for condition in ["", "run", "=3", "size>3", "size>x", "!run"] {
            assert!(Condition::parse(condition).is_err(), "{condition}");
        }
    }

    #[test]
    fn misspelt_relations_are_rejected_with_a_hint() {
        for (condition, hint) in [
            ("run==4", "use ="),
            ("run=>3", "use >="),
            ("run=<3", "use <="),
            ("run=~3", "use ~"),
            ("run<>3", "use !="),
            ("run ~ 3", "`run~3`"),
            ("run> 3", "`run>3`"),
            ("size >1kB", "`size>1kB`"),
        ] {
            let error = Condition::parse(condition).unwrap_err();
            assert!(error.ends_with(hint), "{condition}: {error}");
        }
    }

    #[test]
    fn search_that_finds_nothing_names_fields_that_no_entry_has() {
        assert_eq!(nothing_found(1, BTreeSet::new()), "namewire: 0 of 1 entry match");
        assert_eq!(
            nothing_found(3, ["rum"].into()),
            "namewire: 0 of 3 entries match; none has the field `rum`"
        );
    }

    #[test]
    fn age_of_the_catalogue_is_that_since_its_publication() {
        assert!(
            age(5_000, 70_000)
                .starts_with("namewire: this catalogue was published 1 min 5 s ago; ")
        );
        // The clock of the server is ahead.
        assert!(age(5_000, 4_000).contains(" published 0 "), "{}", age(5_000, 4_000));
    }

    #[test]
    fn lines_have_no_control_characters() {
        assert_eq!(line(b"a\x1b[2J", &entry(), false), "a%1B[2J");
        assert!(line(b"a", &entry(), true).ends_with("  -  a"));
    }
}
