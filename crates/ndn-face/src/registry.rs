//! The registry of the kinds of transport: a new kind is one entry here.

use std::io;

use ndn_ring::PacketPool;
use ndn_sys::poll::{Event, Events};
use ndn_table::FaceIndex;
use ndn_types::{FaceUri, Timestamp};

use crate::datagram::{DatagramState, Datagrams, NewDatagram, UdpPeer};
use crate::ethernet::{NewStation, Ports, StationPeer, StationState};
use crate::event::CloseReason;
use crate::face::{Face, FaceEntry, HasState, TrafficDirection, TransportFaces};
use crate::internal::{InternalEnd, Internals};
use crate::memif::{MemifEnd, MemifState, Memifs};
use crate::output::Shed;
use crate::receive::{Progress, RxSink};
use crate::source::PortId;
use crate::stream::{NewStream, StreamState, Streams};
use crate::transport::{
    FacePlacement, NoPeer, OnDemandPeer, SendRequest, Shared, Transport, TransportContext,
    release_face,
};

/// Declares the kinds of transport: a name, the field of the registry and its type, and the associated types of
/// [`Transport`]. Every operation is a `match` on the kind of the face, so that the calls are static.
macro_rules! transports {
    ($($(#[$doc:meta])+ $name:ident: $field:ident $kind:ident($state:ty, $new:ty, $peer:ty);)+) => {
        /// One object for each kind of transport.
        #[derive(Debug, Default)]
        pub struct Transports {
            $($field: $kind,)+
        }

        /// The state of a face's transport.
        #[derive(Debug)]
        pub enum TransportState {
            $($name($state),)+
        }

        /// The means from which a face is made.
        #[derive(Debug)]
        pub enum NewTransport {
            $($(#[$doc])+ $name($new),)+
        }

        /// A peer on a descriptor that several faces share, in the same words for all workers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum PeerKey {
            $($(#[$doc])+ $name($peer),)+
        }

        $(
            impl HasState<$state> for TransportState {
                #[inline]
                fn state_mut(&mut self) -> Option<&mut $state> {
                    if let Self::$name(state) = self { Some(state) } else { None }
                }
            }

            impl Registered for $kind {
                fn of(all: &Transports) -> &Self {
                    &all.$field
                }

                fn of_mut(all: &mut Transports) -> &mut Self {
                    &mut all.$field
                }
            }

            impl From<$new> for NewTransport {
                fn from(new: $new) -> Self {
                    Self::$name(new)
                }
            }
        )+

        impl NewTransport {
            /// The worker that a new face belongs to.
            #[must_use]
            pub fn placement(&self) -> FacePlacement {
                match self {
                    $(Self::$name(new) => $kind::placement(new),)+
                }
            }

            /// Notifies the peer that there will be no face.
            pub fn reject(&self, reason: &str) {
                match self {
                    $(Self::$name(new) => $kind::reject(new, reason),)+
                }
            }
        }

        impl PeerKey {
            /// The network device whose on-demand faces are limited together, all workers included.
            #[must_use]
            pub fn device(self) -> Option<PortId> {
                match self {
                    $(Self::$name(peer) => $kind::device_of(peer),)+
                }
            }
        }

        /// Operations of the kind of a new face or a peer.
        impl Transports {
            pub(crate) fn open(
                &mut self,
                shared: &mut Shared,
                now: Timestamp,
                index: FaceIndex,
                new: NewTransport,
            ) -> io::Result<TransportState> {
                match new {
                    $(NewTransport::$name(new) => {
                        self.$field.open(shared, now, index, new).map(TransportState::$name)
                    })+
                }
            }

            pub(crate) fn resolve(
                &self,
                new: NewTransport,
            ) -> io::Result<(NewTransport, Option<PeerKey>)> {
                match new {
                    $(NewTransport::$name(new) => {
                        let (new, peer) = self.$field.resolve(new)?;
                        Ok((NewTransport::$name(new), peer.map(PeerKey::$name)))
                    })+
                }
            }

            pub(crate) fn face_of(&self, peer: PeerKey) -> Option<FaceIndex> {
                match peer {
                    $(PeerKey::$name(peer) => self.$field.face_of(peer),)+
                }
            }

            pub(crate) fn add_remote_peer(&mut self, peer: PeerKey, face: FaceIndex) -> bool {
                match peer {
                    $(PeerKey::$name(peer) => self.$field.add_remote_peer(peer, face),)+
                }
            }

            pub(crate) fn remove_remote_peer(&mut self, peer: PeerKey, face: FaceIndex) {
                match peer {
                    $(PeerKey::$name(peer) => self.$field.remove_remote_peer(peer, face),)+
                }
            }

            pub(crate) fn on_demand(&self, peer: PeerKey) -> Option<(NewTransport, OnDemandPeer)> {
                match peer {
                    $(PeerKey::$name(peer) => {
                        let (new, found) = self.$field.on_demand(peer)?;
                        Some((NewTransport::$name(new), found))
                    })+
                }
            }

            pub(crate) fn local_uri(&self, peer: PeerKey) -> Option<FaceUri> {
                match peer {
                    $(PeerKey::$name(peer) => self.$field.local_uri(peer),)+
                }
            }
        }

        /// Operations of the kind of a face.
        impl Transports {
            pub(crate) fn handle_event(
                &mut self,
                cx: &mut TransportContext<'_>,
                entry: &mut FaceEntry<TransportState>,
                event: &Event,
                sink: &mut impl RxSink,
            ) -> Result<Progress<PeerKey>, CloseReason> {
                let FaceEntry { face, transport } = entry;
                match transport {
                    $(TransportState::$name(state) => {
                        let progress = self.$field.handle_event(cx, face, state, event, sink);
                        progress.map(|progress| progress.map(PeerKey::$name))
                    })+
                }
            }

            pub(crate) fn resume(
                &mut self,
                cx: &mut TransportContext<'_>,
                entry: &mut FaceEntry<TransportState>,
                sink: &mut impl RxSink,
            ) -> Result<Progress<PeerKey>, CloseReason> {
                let FaceEntry { face, transport } = entry;
                match transport {
                    $(TransportState::$name(state) => {
                        let progress = self.$field.resume(cx, face, state, sink);
                        progress.map(|progress| progress.map(PeerKey::$name))
                    })+
                }
            }

            #[inline]
            pub(crate) fn send(
                &mut self,
                cx: &mut TransportContext<'_>,
                face: &mut Face,
                state: &mut TransportState,
                outgoing: SendRequest<'_, '_>,
            ) {
                match state {
                    $(TransportState::$name(state) => {
                        self.$field.send(cx, face, state, outgoing);
                    })+
                }
            }

            pub(crate) fn flush(
                &mut self,
                cx: &mut TransportContext<'_>,
                entry: &mut FaceEntry<TransportState>,
            ) -> Result<(), CloseReason> {
                let FaceEntry { face, transport } = entry;
                match transport {
                    $(TransportState::$name(state) => self.$field.flush(cx, face, state),)+
                }
            }

            pub(crate) fn handle_timeout(
                &mut self,
                cx: &mut TransportContext<'_>,
                entry: &mut FaceEntry<TransportState>,
            ) -> Result<(), CloseReason> {
                let FaceEntry { face, transport } = entry;
                match transport {
                    $(TransportState::$name(state) => self.$field.handle_timeout(cx, face, state),)+
                }
            }

            pub(crate) fn disconnect(
                &mut self,
                cx: &mut TransportContext<'_>,
                entry: &mut FaceEntry<TransportState>,
            ) -> bool {
                let FaceEntry { face, transport } = entry;
                match transport {
                    $(TransportState::$name(state) => self.$field.disconnect(cx, face, state),)+
                }
            }

            pub(crate) fn shed(
                &mut self,
                shared: &mut Shared,
                entry: &mut FaceEntry<TransportState>,
                keeps: u32,
            ) -> Shed {
                let FaceEntry { face, transport } = entry;
                match transport {
                    $(TransportState::$name(state) => self.$field.shed(shared, face, state, keeps),)+
                }
            }

            pub(crate) fn separate_input(
                &mut self,
                shared: &mut Shared,
                entry: &mut FaceEntry<TransportState>,
            ) -> io::Result<()> {
                let FaceEntry { face, transport } = entry;
                match transport {
                    $(TransportState::$name(state) => {
                        self.$field.separate_input(shared, face.index, state)
                    })+
                }
            }

            /// Releases everything that a face held which was taken out of the table.
            pub(crate) fn release_face(
                &mut self,
                shared: &mut Shared,
                pool: &PacketPool,
                entry: &mut FaceEntry<TransportState>,
            ) {
                let FaceEntry { face, transport } = entry;
                match transport {
                    $(TransportState::$name(state) => {
                        release_face(&mut self.$field, shared, pool, face, state);
                    })+
                }
            }
        }

        impl TransportState {
            /// When the transport has something to do.
            pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
                match self {
                    $(Self::$name(state) => $kind::next_deadline(state),)+
                }
            }

            /// Whether the face has lost its connection.
            pub(crate) fn is_down(&self) -> bool {
                match self {
                    $(Self::$name(state) => $kind::is_down(state),)+
                }
            }

            /// The transport's own limit on frames, bytes.
            pub(crate) fn frame_length_max(&self) -> Option<usize> {
                match self {
                    $(Self::$name(state) => $kind::frame_length_max(state),)+
                }
            }
        }

        /// Operations of shared descriptors, and of all kinds.
        impl Transports {
            pub(crate) fn handle_shared_event(
                &mut self,
                cx: &mut TransportContext<'_>,
                faces: &mut TransportFaces<TransportState>,
                (kind, number): (u8, u32),
                event: &Event,
                sink: &mut impl RxSink,
            ) -> Progress<PeerKey> {
                match kind {
                    $($kind::KIND => {
                        let progress =
                            self.$field.handle_shared_event(cx, faces, number, event, sink);
                        progress.map(PeerKey::$name)
                    })+
                    _ => Progress::Done,
                }
            }

            pub(crate) fn resume_shared(
                &mut self,
                cx: &mut TransportContext<'_>,
                faces: &mut TransportFaces<TransportState>,
                (kind, number): (u8, u32),
                sink: &mut impl RxSink,
            ) -> Progress<PeerKey> {
                match kind {
                    $($kind::KIND => {
                        self.$field.resume_shared(cx, faces, number, sink).map(PeerKey::$name)
                    })+
                    _ => Progress::Done,
                }
            }

            pub(crate) fn shared_direction_mut(
                &mut self,
                (kind, number): (u8, u32),
            ) -> Option<&mut TrafficDirection> {
                match kind {
                    $($kind::KIND => self.$field.shared_direction_mut(number),)+
                    _ => None,
                }
            }

            /// A face that is listed for a flush.
            pub(crate) fn next_unflushed(&mut self) -> Option<FaceIndex> {
                None$(.or_else(|| self.$field.next_unflushed()))+
            }

            pub(crate) fn flush_shared(
                &mut self,
                cx: &mut TransportContext<'_>,
                faces: &mut TransportFaces<TransportState>,
            ) {
                $(self.$field.flush_shared(cx, faces);)+
            }

            pub(crate) fn next_shared_deadline(&self) -> Option<Timestamp> {
                [$(self.$field.next_shared_deadline()),+].into_iter().flatten().min()
            }

            pub(crate) fn handle_shared_timeouts(
                &mut self,
                cx: &mut TransportContext<'_>,
                faces: &mut TransportFaces<TransportState>,
            ) {
                $(self.$field.handle_shared_timeouts(cx, faces);)+
            }

            pub(crate) fn enable_polling(&mut self) {
                $(self.$field.enable_polling();)+
            }

            #[inline]
            pub(crate) fn has_polled(&self) -> bool {
                false$(|| self.$field.has_polled())+
            }

            #[inline]
            pub(crate) fn poll(
                &mut self,
                faces: &mut TransportFaces<TransportState>,
                events: &mut Events,
            ) {
                $(self.$field.poll(faces, events);)+
            }

            pub(crate) fn stop_polling(&mut self, faces: &mut TransportFaces<TransportState>) -> bool {
                [$(self.$field.stop_polling(faces)),+].contains(&true)
            }

            pub(crate) fn next_unflushed_polling(
                &mut self,
                faces: &mut TransportFaces<TransportState>,
            ) -> Option<FaceIndex> {
                None$(.or_else(|| self.$field.next_unflushed_polling(faces)))+
            }

            pub(crate) fn release_blocks(&mut self, pool: &PacketPool) {
                $(self.$field.release_blocks(pool);)+
            }
        }
    };
}

/// A kind of transport in the registry.
pub trait Registered: Sized {
    /// Its object.
    fn of(all: &Transports) -> &Self;
    /// The same, to change.
    fn of_mut(all: &mut Transports) -> &mut Self;
}

transports! {
    /// A byte stream: Unix, TCP, WebSocket, and WebTransport behind a socket pair.
    Stream: streams Streams(StreamState, NewStream, NoPeer);
    /// The worker's end of a face in memory.
    Internal: internals Internals(InternalEnd, InternalEnd, NoPeer);
    /// Rings in shared memory (memif).
    Memif: memifs Memifs(Box<MemifState>, MemifEnd, NoPeer);
    /// UDP: a peer on a shared socket, or a socket of the face.
    Datagram: datagrams Datagrams(DatagramState, NewDatagram, UdpPeer);
    /// Ethernet: a station or a group behind a network device.
    Ethernet: ports Ports(StationState, NewStation, StationPeer);
}
