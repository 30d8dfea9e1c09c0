//! `namewire serve`: serves directories, buckets and trees of web servers as the file service.

use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use namewire_http::ProgramMetric;
use ndn_files::{
    Event, FileServer, Mount, Observer, Preparation, RootOptions, ServerOptions, StartError,
};
use ndn_origins::{Address, AddressError, OpenError, Origin, OriginOptions};
use ndn_packet::Name;
use ndn_security::Certificate;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::arguments::{at_least_one, check_served, duration, published_name, size, too_deep};
use super::certificates;
use super::connect::{ConnectOptions, block_on_until_done, unless_turned_away};
use super::diagnose::note_other_producers;
use super::failure::{Failure, Outcome};
use super::interrupt::interrupted;
use super::output::{self, bytes_for_people, counted, grouped};
use super::scrape::MetricsOptions;
use super::{input, keys};
use crate::log_text::TextFields;

/// Maximum size of the file of mounts. No file written by hand comes near it.
const MOUNTS_BYTES_MAX: u64 = 1 << 20;

/// Maximum number of directory entries that are examined for the message about what is not served.
const ENTRIES_EXAMINED_MAX: usize = 10_000;
/// Time between two messages about the preparation of manifests.
const PREPARATION_INTERVAL: Duration = Duration::from_secs(5);

/// Serve directories, buckets and web servers
///
/// The file service of NDN-DPDK, ndn6-tools and NDNts: PREFIX/PATH/32=metadata has version, size and times of a file,
/// PREFIX/PATH/VERSION/SEGMENT its content, PREFIX/PATH/32=ls the entries of a directory. Nothing outside the directory
/// is served, and no devices or pipes. Serves until interrupted.
///
/// s3://BUCKET/PREFIX serves the objects of an S3-compatible service, https://HOST/PATH/ the files of a web server: they
/// are read by range requests when they are requested, and an object that changes is a new version. Credentials for S3
/// come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL,
/// AWS_SKIP_SIGNATURE and others), from a token of a container, or from the metadata of the cloud's machine.
#[derive(Args, Debug)]
#[command(
    override_usage = "namewire serve [OPTIONS] --prefix <NAME> <DIRECTORY>\n       namewire serve [OPTIONS] --mounts <FILE>"
)]
pub(super) struct Options {
    /// The directory, s3://BUCKET/PREFIX or https://HOST/PATH/
    #[arg(required_unless_present = "mounts", requires = "prefix")]
    directory: Option<PathBuf>,
    /// Name of the directory
    #[arg(long, short, value_parser = published_name, requires = "directory")]
    prefix: Option<Name>,
    /// Also serve the mounts of this TOML file
    ///
    /// Each is a table `[[mount]]` with `prefix` and `directory` (also an address), and optionally `symlinks`, `hidden`,
    /// `other-file-systems`, `segment-size` and `catalogue`, which override the options here, and `replicas`.
    #[arg(long, short, value_name = "FILE")]
    mounts: Option<PathBuf>,
    /// Publish also under `/`, which attracts the Interests of all names, or a name of the forwarder's management, which only
    /// an operator may register
    #[arg(long)]
    force: bool,
    /// Follow symbolic links that stay within the directory
    #[arg(long)]
    symlinks: bool,
    /// Serve files whose names begin with a period
    #[arg(long)]
    hidden: bool,
    /// Also serve file systems that are mounted within the directory
    #[arg(long, hide_short_help = true)]
    other_file_systems: bool,
    /// Content of each segment [default: 8KiB, over UDP the largest that fits a frame]
    #[arg(long, short, value_name = "SIZE", value_parser = size(1..=u64::MAX))]
    segment_size: Option<u64>,
    /// FreshnessPeriod of the segments
    #[arg(long, short = 'x', value_parser = duration, default_value = "10s", value_name = "DURATION")]
    freshness: Duration,
    #[arg(long, value_name = "KEY", default_value = "digest", conflicts_with = "identity", help = keys::SIGN_HELP, long_help = keys::SIGN_LONG_HELP)]
    sign: String,
    /// Sign every segment instead of a manifest of each file
    ///
    /// A manifest lists the digests of all segments, so that one signature covers a version. Consumers that require a
    /// signature on every packet and do not support manifests need this option.
    #[arg(long, hide_short_help = true)]
    sign_segments: bool,
    /// Store digests in this directory [default: namewire/manifests in $XDG_CACHE_HOME or ~/.cache]
    ///
    /// Files are not hashed again after a restart, and files of any size have manifests. The directory must not be
    /// writable for other users. At most 32 GiB are used, enough for 4 TB of files.
    #[arg(
        long,
        hide_short_help = true,
        value_name = "DIRECTORY",
        conflicts_with = "sign_segments"
    )]
    manifest_cache: Option<PathBuf>,
    /// Hash files when they are first requested, instead of ahead in the background
    #[arg(long, conflicts_with = "sign_segments")]
    no_prehash: bool,
    /// Hash the objects of buckets and web servers ahead, too, for which they are read whole
    #[arg(long, hide_short_help = true, conflicts_with_all = ["sign_segments", "no_prehash"])]
    prehash_origins: bool,
    /// Publish a signed catalogue of the files, for `namewire find`
    ///
    /// It lists names, versions, sizes, times and SHA-256 of all files, and free metadata: the fields of NAME.meta.json
    /// beside a file NAME, an object of JSON whose values are strings, numbers, true or false. Files are read once for their
    /// digests; those of buckets and web servers only with --prehash-origins. It is brought up to date once a minute.
    #[arg(long)]
    catalogue: bool,
    /// State in the catalogue that the same files are served under this name, too; may be repeated
    #[arg(long, hide_short_help = true, value_name = "NAME", value_parser = published_name, requires_all = ["catalogue", "directory"])]
    replica: Vec<Name>,
    /// Also serve this certificate, so that consumers can fetch it by name; may be repeated
    ///
    /// In Base64, as `namewire cert dump` and `ndnsec cert-dump` print it: the certificate of the signing key, and
    /// those between it and the trust anchor. Those that the key chain has for --identity are served without this option.
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    certificate: Vec<PathBuf>,
    /// Number of threads that read and sign [default: one for each processor, at most 16]
    #[arg(long, hide_short_help = true, value_parser = at_least_one::<usize>)]
    threads: Option<usize>,
    /// Write a line of JSON for each fetch that begins (an Interest for metadata), and for each Interest that is refused, to
    /// this file, or to standard output (`-`): time, name, outcome
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Maximum number of open files
    #[arg(long, hide_short_help = true, value_name = "FILES", default_value_t = ServerOptions::default().open_files_max)]
    open_files: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// The file of mounts.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct MountFile {
    mount: Vec<MountEntry>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MountEntry {
    prefix: String,
    directory: PathBuf,
    symlinks: Option<bool>,
    hidden: Option<bool>,
    other_file_systems: Option<bool>,
    #[serde(default, deserialize_with = "segment_size")]
    segment_size: Option<u64>,
    catalogue: Option<bool>,
    #[serde(default)]
    replicas: Vec<String>,
}

/// Reads a size with its unit; a bare number is refused as on the command line.
fn segment_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = toml::Value::deserialize(deserializer)?;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    size(1..=u64::MAX)(&text).map(Some).map_err(D::Error::custom)
}

pub(super) fn run(options: &Options) -> Outcome {
    log_warnings(&["ndn_files", "ndn_origins"]);
    let serving = ServerOptions {
        signer: options.connect.data_signer(&options.sign)?,
        freshness: options.freshness,
        threads: options.threads,
        manifests: !options.sign_segments,
        prepare_manifests: !options.no_prehash,
        prepare_remote: options.prehash_origins,
        open_files_max: options.open_files,
        observer: options.log.as_deref().map(observer).transpose()?,
        ..ServerOptions::default()
    };
    let serving = ServerOptions { manifest_directory: manifest_directory(options)?, ..serving };
    let certificates = options.certificate.iter().map(|file| read_certificate(file));
    let certificates = certificates.collect::<Outcome<Vec<_>>>()?;
    let of_signer = options.connect.certificates()?;
    let mounts = mounts(options)?;
    let described: Vec<_> = mounts.iter().map(describe).collect();
    let prefixes: Vec<_> = mounts.iter().map(|mount| mount.prefix.clone()).collect();
    block_on_until_done(async {
        let endpoint = options.connect.open().await?;
        let start = async { FileServer::start(&endpoint, mounts, &serving).await.map_err(failure) };
        let server = Arc::new(unless_turned_away(start).await?);
        let scraped = Arc::clone(&server);
        let metrics = options.metrics.serve(move || server_metrics(&scraped))?;
        let of_signer = certificates::without_keys_of(of_signer, &certificates);
        let certificates = certificates::serve(&endpoint, certificates).await?;
        let of_signer = certificates::serve_of_signer(&endpoint, of_signer).await;
        report_serving(options, &described)?;
        tokio::select! {
            signal = interrupted() => signal.map_err(|error| Failure::Failed(error.to_string()))?,
            () = super::connection::report_losses(&endpoint) => (),
            () = report_preparation(&server) => (),
            () = note_other_producers(&endpoint, &prefixes) => (),
        }
        report_served(options, &server)?;
        drop(metrics);
        // The forwarder removes the routes with the connection, even if it does not respond now.
        if let Some(server) = Arc::into_inner(server) {
            let _ = server.stop().await;
        }
        drop((certificates, of_signer));
        Ok(())
    })
}

/// Logs warnings of producers on standard error: files that cannot be read, objects that change.
pub(super) fn log_warnings(crates: &[&'static str]) {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .fmt_fields(TextFields)
        .with_ansi(std::io::stderr().is_terminal());
    let crates = crates.iter().map(|name| (*name, LevelFilter::WARN));
    let lines = lines.with_filter(Targets::new().with_targets(crates));
    // A program that has a log already shows them there.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

/// Writes the access log.
fn observer(path: &Path) -> Outcome<Observer> {
    let log = super::gateway::access_log(Some(path))?;
    Ok(Arc::new(move |name, event| {
        let outcome = Event::ALL.into_iter().find(|(known, _)| *known == event);
        let outcome = outcome.map_or("unknown", |(_, outcome)| outcome);
        let fields = json!({ "name": name.to_uri(), "outcome": outcome });
        if let serde_json::Value::Object(fields) = fields {
            log.write(ndn_sys::clock::wall_clock(), fields);
        }
    }))
}

/// The directory for digests. That of the user is left out if it cannot be used.
fn manifest_directory(options: &Options) -> Outcome<Option<PathBuf>> {
    if options.sign_segments || options.manifest_cache.is_some() {
        return Ok(options.manifest_cache.clone());
    }
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = of("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&of("HOME")?).join(".cache")));
    let Some(directory) = cache.map(|cache| cache.join("namewire/manifests")) else {
        return Ok(None);
    };
    if let Err(error) = ndn_files::check_manifest_directory(&directory) {
        let directory = directory.display();
        output::note(&format_args!(
            "namewire: digests are kept in memory only, and files above 30 GB have no manifests: {directory}: {error} \
             (--manifest-cache names another directory)"
        ));
        return Ok(None);
    }
    Ok(Some(directory))
}

/// Reports how far the preparation of manifests is. Does not end.
async fn report_preparation(server: &FileServer) {
    let mut reported = Preparation::default();
    loop {
        tokio::time::sleep(PREPARATION_INTERVAL).await;
        let now = server.preparation();
        if now.files_left_out > reported.files_left_out {
            output::note(&format_args!(
                "namewire: the digests of {} do not fit into the directory for manifests, or cannot be stored: they are \
                 hashed when they are requested",
                counted(now.files_left_out, "file")
            ));
        }
        let is_done = now.files == now.files_total;
        if is_done && now.files > reported.files {
            output::note(&format_args!(
                "namewire: the manifests of {} are ready",
                counted(now.files, "file")
            ));
        } else if !is_done && now.bytes > reported.bytes {
            output::note(&format_args!(
                "namewire: preparing manifests: {} of {}, {} of {}",
                grouped(now.files),
                counted(now.files_total, "file"),
                bytes_for_people(now.bytes),
                bytes_for_people(now.bytes_total)
            ));
        }
        reported = now;
    }
}

fn read_certificate(file: &Path) -> Outcome<Certificate> {
    Certificate::from_text(&input::read_text(file)?)
        .map_err(|error| Failure::input(file.display(), error))
}

fn mounts(options: &Options) -> Outcome<Vec<Mount>> {
    let mut mounts = Vec::new();
    let defaults = RootOptions {
        symlinks: options.symlinks,
        other_file_systems: options.other_file_systems,
        hidden: options.hidden,
    };
    if let (Some(directory), Some(prefix)) = (&options.directory, &options.prefix) {
        check_served(prefix, options.force).map_err(Failure::Usage)?;
        for replica in &options.replica {
            check_served(replica, options.force).map_err(Failure::Usage)?;
        }
        let mount = open(prefix.clone(), directory, defaults, options.segment_size)?;
        let catalogue = options.catalogue.then(|| options.replica.clone());
        mounts.push(Mount { catalogue, ..mount });
    }
    if let Some(file) = &options.mounts {
        let base = file.parent().unwrap_or(Path::new(""));
        for entry in read(file)?.mount {
            let published = |uri: &str| {
                let name = published_name(uri).map_err(|error| format!("{uri}: {error}"));
                let name = name.and_then(|name| check_served(&name, options.force).map(|()| name));
                name.map_err(|error| Failure::input(file.display(), error))
            };
            let prefix = published(&entry.prefix)?;
            let root = RootOptions {
                symlinks: entry.symlinks.unwrap_or(defaults.symlinks),
                other_file_systems: entry.other_file_systems.unwrap_or(defaults.other_file_systems),
                hidden: entry.hidden.unwrap_or(defaults.hidden),
            };
            let segment_size = entry.segment_size.or(options.segment_size);
            // Relative to the file, not to the current directory.
            let directory = match origin_address(&entry.directory)? {
                Some(_) => entry.directory,
                None => base.join(&entry.directory),
            };
            let mount = open(prefix, &directory, root, segment_size)?;
            let catalogue = entry.catalogue.unwrap_or(options.catalogue);
            let replicas = entry.replicas.iter().map(|name| published(name));
            let replicas = replicas.collect::<Outcome<Vec<_>>>()?;
            mounts.push(Mount { catalogue: catalogue.then_some(replicas), ..mount });
        }
    }
    Ok(mounts)
}

fn open(
    prefix: Name,
    directory: &Path,
    options: RootOptions,
    segment_size: Option<u64>,
) -> Outcome<Mount> {
    // Segments longer than a packet can contain are shortened.
    let segment_len = segment_size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    let segment_len = segment_len.map(|length| length.min(1 << 16));
    if let Some(address) = origin_address(directory)? {
        let origin = OriginOptions { hidden: options.hidden, ..OriginOptions::default() };
        let origin = Origin::open(&address, &origin).map_err(origin_failure)?;
        if !origin.lists() {
            output::note(&format_args!(
                "namewire: {address} does not list directories (WebDAV): files are found by their names only"
            ));
        }
        return Ok(Mount { segment_len, ..Mount::of(prefix, Arc::new(origin)) });
    }
    if directory.is_file() {
        let path = directory.display();
        return Err(Failure::Input(format!(
            "{path} is a file: `namewire put NAME {path}` publishes it; `serve` takes a directory"
        )));
    }
    let mount = Mount::open(prefix, directory, options)
        .map_err(|error| Failure::input(directory.display(), error))?;
    Ok(Mount { segment_len, ..mount })
}

/// The address of an origin; `None` for the path of a directory.
fn origin_address(directory: &Path) -> Outcome<Option<Address>> {
    let text = directory.to_str().filter(|text| ndn_origins::is_origin(text));
    let parse = |text: &str| {
        Address::parse(text).map_err(|error| {
            // A password is not repeated.
            let is_secret = error == AddressError::Credentials;
            let shown = if is_secret { "the address of the origin" } else { text };
            OpenError::Address(shown.to_owned(), error)
        })
    };
    text.map(parse).transpose().map_err(origin_failure)
}

fn origin_failure(error: OpenError) -> Failure {
    let is_usage = matches!(error, OpenError::Address(..) | OpenError::Settings(..));
    if is_usage { Failure::Usage(error.to_string()) } else { Failure::Failed(error.to_string()) }
}

fn read(file: &Path) -> Outcome<MountFile> {
    if std::fs::metadata(file).is_ok_and(|metadata| metadata.len() > MOUNTS_BYTES_MAX) {
        let too_large = format_args!("more than {MOUNTS_BYTES_MAX} bytes");
        return Err(Failure::input(file.display(), too_large));
    }
    let text = input::read_text(file)?;
    toml::from_str(&text).map_err(|error| Failure::toml(file, &text, &error))
}

fn describe(mount: &Mount) -> (String, String) {
    (mount.prefix.to_uri(), mount.source.location())
}

fn report_serving(options: &Options, mounts: &[(String, String)]) -> Outcome {
    for (prefix, directory) in mounts {
        if options.json {
            output::print_json(&json!({ "prefix": prefix, "directory": directory }))?;
        } else {
            output::print_line(&format!("serving {directory} as {prefix}"))?;
        }
    }
    if let Some(directory) = options.directory.as_ref().filter(|_| !options.json) {
        let left_out = left_out(options, directory);
        if !left_out.is_empty() {
            output::note(&format_args!("namewire: not served: {}", left_out.join(", ")));
        }
    }
    Ok(())
}

/// Kinds of entries of a directory that are not served, each with the option that includes it. Only the first entries
/// are examined.
fn left_out(options: &Options, directory: &Path) -> Vec<&'static str> {
    let name = options.prefix.clone().unwrap_or_default();
    let device = |path: &Path| std::fs::symlink_metadata(path).ok().map(|found| found.dev());
    let own = device(directory);
    let (mut hidden, mut symlinks, mut mounts, mut deep) = (false, false, false, false);
    let mut directories = vec![(name, directory.to_owned())];
    let mut examined = 0;
    while let Some((name, directory)) = directories.pop()
        && examined < ENTRIES_EXAMINED_MAX
    {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            examined += 1;
            let Ok(kind) = entry.file_type() else { continue };
            if entry.file_name().as_encoded_bytes().starts_with(b".") && !options.hidden {
                hidden = true;
            } else if kind.is_symlink() {
                symlinks = true;
            } else if kind.is_dir() {
                let path = entry.path();
                let is_other = device(&path).is_some_and(|device| Some(device) != own);
                mounts |= is_other;
                if !is_other {
                    let mut name = name.clone();
                    name.push_generic(entry.file_name().as_encoded_bytes());
                    deep |= too_deep(&name).is_some();
                    directories.push((name, path));
                }
            }
        }
    }
    let parts = [
        (hidden, "names that begin with a period (--hidden)"),
        (symlinks && !options.symlinks, "symbolic links (--symlinks)"),
        (mounts && !options.other_file_systems, "other file systems (--other-file-systems)"),
        (deep, "files and directories that are too deep: their names have too many components"),
    ];
    parts.into_iter().filter_map(|(is_there, what)| is_there.then_some(what)).collect()
}

fn report_served(options: &Options, server: &FileServer) -> Outcome {
    let counters = server.counters();
    if options.json {
        let mut report = serde_json::Map::new();
        report.insert("content_bytes".to_owned(), counters.content_bytes().into());
        for (event, name) in Event::ALL {
            report.insert(name.to_owned(), counters.count(event).into());
        }
        return Ok(output::print_json(&report.into())?);
    }
    let line = format!(
        "{} sent, {}; {} refused or not found",
        counted(counters.count(Event::Segment), "segment"),
        bytes_for_people(counters.content_bytes()),
        grouped(
            [
                Event::RefusedPath,
                Event::RefusedEscape,
                Event::RefusedSpecial,
                Event::Denied,
                Event::NotFound
            ]
            .into_iter()
            .map(|event| counters.count(event))
            .sum()
        ),
    );
    Ok(output::print_line(&line)?)
}

/// The counters of a file server as metrics.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn server_metrics(server: &FileServer) -> Vec<ProgramMetric> {
    let (counters, preparation) = (server.counters(), server.preparation());
    let help = "Content sent.";
    let mut metrics = vec![ProgramMetric::counter(
        "namewire_serve_content_bytes",
        help,
        counters.content_bytes() as f64,
    )];
    let help = "Interests handled and Data sent, by the outcome.";
    metrics.extend(Event::ALL.into_iter().map(|(event, name)| {
        let value = counters.count(event) as f64;
        ProgramMetric::counter("namewire_serve_events", help, value).with("outcome", name)
    }));
    let help = "Files whose manifests are ready.";
    let ready = preparation.files as f64;
    metrics.push(ProgramMetric::gauge("namewire_serve_prepared_files", help, ready));
    let help = "Files that manifests are prepared for.";
    let total = preparation.files_total as f64;
    metrics.push(ProgramMetric::gauge("namewire_serve_files", help, total));
    metrics
}

fn failure(error: StartError) -> Failure {
    if let StartError::Register(error) = error {
        return error.into();
    }
    if matches!(error, StartError::MountedTwice(_)) {
        return Failure::Usage(error.to_string());
    }
    Failure::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_from_a_file() {
        let text = "[[mount]]\nprefix = \"/a\"\ndirectory = \"data\"\n\
                    [[mount]]\nprefix = \"/b\"\ndirectory = \"/srv\"\nsegment-size = \"4kB\"\nhidden = true\n";
        let file: MountFile = toml::from_str(text).unwrap();
        assert_eq!(file.mount.len(), 2);
        assert_eq!(file.mount[0].hidden, None);
        assert_eq!((file.mount[1].segment_size, file.mount[1].hidden), (Some(4000), Some(true)));
        for wrong in
            ["[[mount]]\nprefix = \"/a\"\n", "[[mount]]\nprefix=\"/a\"\ndirectory=\"x\"\ntypo=1\n"]
        {
            assert!(toml::from_str::<MountFile>(wrong).is_err(), "{wrong}");
        }
        let bare = "[[mount]]\nprefix = \"/a\"\ndirectory = \"x\"\nsegment-size = 4000\n";
        let reason = toml::from_str::<MountFile>(bare).unwrap_err().to_string();
        assert!(reason.contains("write 4000B or 4000KiB"), "{reason}");
    }
}
