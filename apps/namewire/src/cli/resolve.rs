//! Resolves face URIs with host names: management accepts addresses only.

use ndn_client::{FaceUriError, canonical_face_uri};
use ndn_types::FaceUri;

use super::failure::{Failure, Outcome};

/// The canonical form of a URI, with its host name resolved.
pub(super) async fn canonical(uri: &FaceUri) -> Outcome<FaceUri> {
    canonical_face_uri(uri).await.map_err(|error| match error {
        FaceUriError::Invalid(reason) => Failure::Usage(reason),
        FaceUriError::NoHost(reason) => Failure::Failed(reason),
    })
}
