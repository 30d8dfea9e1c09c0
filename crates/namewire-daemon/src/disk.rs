//! The disk tier of the Content Store: opens and formats its file, and gives each worker that forwards a share.
//!
//! The key of the hash function of names is kept in the file, so that names belong to the same workers after a restart.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use namewire_config::{Config, Disk, DiskAdmission};
use ndn_dataplane::{DiskFile, DiskPort, DiskPortOptions, WorkerOptions, WorkerPlacement};
use ndn_disk::{Admission, ShareOptions, Superblock};
use ndn_table::NameHasher;
use ndn_types::duration_ms;

use crate::environment::Environment;

/// A name whose hash shows whether the hash function is that of the file.
const CHECKED_NAME: &[u8] = b"\x08\x08namewire\x08\x04disk";
/// Bytes of the disk for each packet of the index, by default.
const BYTES_PER_PACKET: u64 = 1024;

/// A file that is formatted for the workers.
#[derive(Debug)]
pub(crate) struct PreparedDisk {
    file: Arc<DiskFile>,
    superblock: Superblock,
}

fn share_count(places: &[WorkerPlacement]) -> u32 {
    u32::try_from(places.iter().filter(|place| place.roles.forwards).count()).unwrap_or(u32::MAX)
}

/// Opens and locks the configured file. `None` without one, and if the disk failed, which is logged.
///
/// # Errors
/// The file cannot be used as configured; the error names it.
pub(crate) fn open(
    config: &Config,
    places: &[WorkerPlacement],
) -> anyhow::Result<Option<DiskFile>> {
    let disk = &config.tables.cs.disk;
    let Some(path) = &disk.path else { return Ok(None) };
    match DiskFile::open(path, disk.size.map(|size| size.0), share_count(places)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_failure() => {
            tracing::error!(%error, "disk cache is left out");
            Ok(None)
        }
        Err(error) => bail!("tables.cs.disk.path: {error}"),
    }
}

/// Formats the file unless it is formatted for these workers. The environment gets the hash key of the file. `None` if the
/// disk failed, which is logged.
pub(crate) fn prepare(
    mut file: DiskFile,
    places: &[WorkerPlacement],
    environment: &mut Environment,
) -> Option<PreparedDisk> {
    let shares = share_count(places);
    let check = |key: [u8; 16]| NameHasher::new(key).hash_value(CHECKED_NAME);
    let known = file.superblock(shares).filter(|known| check(known.hash_key) == known.hash_check);
    let path = file.path().display().to_string();
    let superblock = match known {
        Some(known) => known,
        None => {
            if file.was_formatted() {
                tracing::warn!(
                    path,
                    "disk cache is emptied: it was made for another size, number of workers or processor"
                );
            }
            let key = environment.seeds.name_hash_key;
            match file.format(shares, rand::random(), key, check(key)) {
                Ok(superblock) => superblock,
                Err(error) => {
                    tracing::error!(%error, "disk cache is left out");
                    return None;
                }
            }
        }
    };
    environment.seeds.name_hash_key = superblock.hash_key;
    if !file.is_direct() {
        tracing::info!(path, "disk cache uses the page cache: its file system has no direct I/O");
    }
    Some(PreparedDisk { file: Arc::new(file), superblock })
}

impl PreparedDisk {
    /// Starts the I/O threads of the workers that forward.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub(crate) fn start(
        &self,
        settings: &Disk,
        workers: &mut [WorkerOptions],
        environment: &Environment,
    ) -> anyhow::Result<()> {
        let clock = &environment.clock;
        let unix_ms = duration_ms(clock.unix_time());
        let shares = self.superblock.shares;
        let default = self.superblock.end() / BYTES_PER_PACKET;
        let packets = settings.packets.map_or(default, |packets| packets as u64);
        let packets = usize::try_from(packets / u64::from(shares)).unwrap_or(usize::MAX).max(1);
        let forwarding = workers.iter_mut().filter(|worker| worker.roles.forwards);
        for (share, worker) in (0..shares).zip(forwarding) {
            let share = ShareOptions {
                superblock: self.superblock,
                share,
                packets_max: packets,
                reads_max: settings.reads,
                admission: match settings.admission {
                    DiskAdmission::SecondTouch => Admission::SecondTouch,
                    DiskAdmission::All => Admission::All,
                },
                unix_origin_ms: unix_ms.saturating_sub(clock.now().as_millis()),
            };
            let readers = (settings.threads > 0).then_some(settings.threads);
            let options = DiskPortOptions { share, readers };
            let port = DiskPort::start(Arc::clone(&self.file), options);
            worker.disk = Some(port.context("cannot start the threads of the disk cache")?);
        }
        Ok(())
    }
}
