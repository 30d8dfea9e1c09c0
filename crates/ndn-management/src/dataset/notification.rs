//! `FaceEventNotification`: the items of the `faces/events` stream.

use super::declare::dataset;
use super::face::FaceProperties;
use crate::types::FaceEventKind;

dataset! {
    /// An event of a face.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FaceEventNotification = FACE_EVENT_NOTIFICATION {
        /// The kind of event.
        pub kind: FaceEventKind = FACE_EVENT_KIND,
        /// The face.
        pub properties: FaceProperties,
    }
}
