//! Faces in memory, between the data plane and the program that embeds it.

use std::io;

use ndn_face::{FaceOptions, InternalEnd};
use ndn_forwarding::{FaceProperties, Scope};
use ndn_types::{FaceUri, Persistency};

use super::Dataplane;
use crate::command::{Command, NewFace, NewTransport};

/// A point-to-point face whose frames go through queues in this process, with FaceUri `memory://NUMBER`.
#[derive(Debug, Clone, Copy)]
pub struct MemoryFaceOptions {
    /// The number in the FaceUri, chosen by the embedding program.
    pub number: u64,
    /// Whether the other end is a local application.
    pub scope: Scope,
    /// When the face goes away. An on-demand face also closes when it is idle.
    pub persistency: Persistency,
    /// Maximum frame, bytes; longer packets are fragmented.
    pub mtu: usize,
    /// Maximum number of frames that wait in each direction; further ones are dropped and counted.
    pub queue_frames_max: usize,
}

impl MemoryFaceOptions {
    /// The face with one end of a pair. `ticket` and `face_id` are those of [`NewFace`].
    #[must_use]
    pub fn new_face(&self, ticket: Option<u64>, face_id: u64, end: InternalEnd) -> NewFace {
        let properties = FaceProperties::point_to_point(face_id, self.scope);
        NewFace {
            ticket,
            transport: NewTransport::Memory(end),
            options: FaceOptions::datagram(properties, self.persistency, self.mtu),
            remote: FaceUri::memory(self.number),
            local: FaceUri::memory(self.number),
        }
    }
}

impl Dataplane {
    /// Makes a face in memory. Returns its FaceId, which is also the ticket of the
    /// [event](crate::Event) that answers, and the embedding program's end.
    ///
    /// # Errors
    /// Those of making a [`Waker`](ndn_sys::poll::Waker).
    pub fn add_memory_face(
        &mut self,
        options: &MemoryFaceOptions,
    ) -> io::Result<(u64, InternalEnd)> {
        let (near, far) = InternalEnd::pair(options.queue_frames_max)?;
        let face_id = self.allocate_face_id();
        self.send(Command::AddFace(Box::new(options.new_face(Some(face_id), face_id, near))));
        self.wake();
        Ok((face_id, far))
    }
}
