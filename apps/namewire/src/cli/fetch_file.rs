//! Fetching one object into a target: version, manifest, what is there already.

use ndn_client::Endpoint;
use ndn_client::fetch::{FetchError, FetchOptions, FoundObject, ObjectStream, Verification};
use ndn_files::ManifestError;
use ndn_packet::Name;

use super::connect::{kind_of, kind_of_fetch};
use super::failure::{Failure, Outcome};
use super::output::{self, bytes_for_people};
use super::part::{Origin, PartFile, Progress};
use super::target::Target;

/// How objects are fetched and what is believed.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) fetching: FetchOptions,
    /// What `--verify` means; see `keys::identity`.
    pub(super) identity: String,
    pub(super) allow_older: bool,
    /// Start over, whatever is there.
    pub(super) restart: bool,
}

/// Keeps what a later fetch can go on with, unless there is something wrong with it.
pub(super) fn abandon(target: Target, failure: &Failure) {
    match failure {
        Failure::Interrupted | Failure::NoAnswer(_) | Failure::Unreachable(_) => {
            if let Some(bytes) = target.keep() {
                let kept = bytes_for_people(bytes);
                output::note(&format_args!(
                    "namewire: {kept} are kept; the same command goes on from there"
                ));
            }
        }
        Failure::Usage(_) | Failure::Unverified(_) | Failure::Failed(_) | Failure::OutputClosed => {
            target.discard()
        }
    }
}

/// What an interrupted fetch has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Already {
    pub(super) segments: u64,
    pub(super) bytes: u64,
}

/// Finds the object and starts to fetch what is not there yet.
pub(super) async fn start(
    endpoint: &Endpoint,
    name: &Name,
    policy: &Policy,
    target: &mut Target,
) -> Outcome<(ObjectStream, Already)> {
    let fetching = &policy.fetching;
    let found = endpoint.find(name, fetching).await.map_err(failure)?;
    if let Target::File(part) = target
        && matches!(fetching.verification, Verification::Verifier(_))
        && !policy.allow_older
    {
        part.refuse_older(found.name())?;
    }
    let (mut found, fetching) = under_manifest(endpoint, found, fetching).await?;
    let fetching = &fetching;
    let mut already = Already::default();
    if let Target::File(part) = target {
        let origin = Origin { name: found.name().to_uri(), verification: policy.identity.clone() };
        let origin = found.is_segmented().then_some(origin);
        let resumed = match &origin {
            Some(origin) if !policy.restart => {
                resume(endpoint, &mut found, fetching, part, origin).await?
            }
            _ => None,
        };
        match resumed {
            Some(progress) => {
                already = Already { segments: progress.segments, bytes: progress.bytes };
            }
            None => part.begin(origin)?,
        }
    }
    Ok((endpoint.fetch_found(found, already.segments, fetching), already))
}

/// Where a key is to vouch for the object and there is a manifest, the key vouches for that, and the
/// manifest for the segments.
pub(super) async fn under_manifest(
    endpoint: &Endpoint,
    found: FoundObject,
    fetching: &FetchOptions,
) -> Outcome<(FoundObject, FetchOptions)> {
    if !matches!(fetching.verification, Verification::Verifier(_)) {
        return Ok((found, fetching.clone()));
    }
    let manifest = ndn_files::fetch_manifest(endpoint, &found, fetching).await;
    match manifest {
        // Metadata of other services is not that of files.
        Ok(None) | Err(ManifestError::Metadata(_)) => Ok((found, fetching.clone())),
        Ok(Some(manifest)) => {
            let verification = manifest.verification();
            Ok((manifest.to_found(), FetchOptions { verification, ..fetching.clone() }))
        }
        Err(error) => Err(manifest_failure(&error)),
    }
}

fn manifest_failure(error: &ManifestError) -> Failure {
    let kind = if let ManifestError::Unanswered(error) = error {
        kind_of(error)
    } else if let ManifestError::Fetch(error) = error {
        kind_of_fetch(error)
    } else if matches!(error, ManifestError::Malformed { .. }) {
        Failure::Failed
    } else {
        Failure::Unverified
    };
    kind(error.to_string())
}

/// What is there of the object, if it begins as the object does and so has the same segments.
///
/// All of them may be there already: then nobody would answer for the next one, so the final segment
/// is to be known.
async fn resume(
    endpoint: &Endpoint,
    found: &mut FoundObject,
    fetching: &FetchOptions,
    part: &mut PartFile,
    origin: &Origin,
) -> Outcome<Option<Progress>> {
    let Some(progress) = part.resume(origin)? else {
        return Ok(None);
    };
    let first = endpoint.fetch_segment(found, 0, fetching).await.map_err(failure)?;
    found.note_final_segment(&first);
    if found.final_segment().is_none() {
        let last = progress.segments - 1;
        let last = endpoint.fetch_segment(found, last, fetching).await.map_err(failure)?;
        found.note_final_segment(&last);
    }
    let first = first.content();
    let same =
        u64::try_from(first.len()) == Ok(progress.segment_len) && part.head(first.len())? == first;
    Ok(same.then_some(progress))
}

pub(super) fn failure(error: FetchError) -> Failure {
    kind_of_fetch(&error)(error.to_string())
}
