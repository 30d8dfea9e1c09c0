//! What the control thread asks for, carried out between bursts.

use std::net::SocketAddr;

use ndn_face::ChannelId;
use ndn_packet::{Name, NameRef};
use ndn_sys::udp::udp_route;
use ndn_table::{DataKey, FaceIndex, PREFIX_HASHES_MAX, Timestamp};
use ndn_types::FaceUri;

use super::Worker;
use crate::command::{Command, CsSettings, NewFace, NewTransport};
use crate::event::{Event, FaceCreated};
use crate::exchange::RoutedSink;
use crate::peers::Party;
use crate::queue::Sender;

/// Commands carried out in one round at most, so that packets do not wait for long.
const COMMANDS_PER_ROUND: usize = 256;
/// Packets that one round erases from the Content Store at most for one command.
const ERASED_PER_ROUND: usize = 256;

/// An erasure that goes on over several rounds.
#[derive(Debug)]
pub(super) struct Erasure {
    ticket: u64,
    prefix: Name,
    left: usize,
    erased: usize,
}

impl Worker {
    /// Carries out commands; says whether there are more.
    pub(super) fn handle_commands(&mut self, now: Timestamp) -> bool {
        let mut handled = 0;
        for _ in 0..COMMANDS_PER_ROUND {
            match self.commands.receive() {
                Ok(Some(command)) => {
                    self.handle_command(now, command);
                    handled += 1;
                }
                Ok(None) => return self.note_handled(handled, false),
                Err(_) => {
                    // The control thread is gone: nobody is left to stop this one.
                    self.state.stopping = true;
                    return false;
                }
            }
        }
        self.note_handled(handled, true)
    }

    /// Counts commands. The control thread may wait until all of several workers have carried out
    /// theirs.
    fn note_handled(&mut self, count: u64, has_more: bool) -> bool {
        self.counters.commands.add(count);
        if count > 0 && self.crew.is_some() {
            self.events.wake_now();
        }
        has_more
    }

    fn handle_command(&mut self, now: Timestamp, command: Command) {
        match command {
            Command::AddFace(face) => self.add_face(now, *face),
            Command::UpdateFace { face_id, options } => {
                if let Some(index) = self.numbers.index(face_id) {
                    self.faces.update(index, &options, &self.pool);
                    self.announce_face(index, &options.properties);
                }
            }
            Command::SeparateInput { face_id } => {
                if let Some(index) = self.numbers.index(face_id) {
                    self.separate_input(index, face_id);
                }
            }
            Command::RemoveFace { face_id } => {
                if let Some(index) = self.numbers.index(face_id) {
                    self.flush(now);
                    self.faces.remove(index, &self.pool);
                    self.forget_face(index);
                    self.events.send(Event::FaceClosed { face_id, reason: None });
                }
            }
            Command::AddPort(port) => self.add_port(*port),
            Command::ChangePort { port, change } => self.change_port(now, port, *change),
            Command::SetTables { fib, strategies } => {
                if let Some(strategies) = strategies {
                    self.shard.set_strategies(strategies);
                }
                self.shard.set_fib(fib);
            }
            Command::AnswerLearning { ticket, announcement } => {
                let mut sink = RoutedSink {
                    faces: self.faces.sink(now, &self.pool),
                    outbound: self.crew.as_mut().map(|crew| &mut crew.exchange.outbound),
                    pool: &self.pool,
                };
                self.shard.answer_learning(now, ticket, announcement.as_deref(), &mut sink);
            }
            Command::SetRegions(regions) => self.ingress.set_producer_regions(regions),
            Command::ConfigureCs(settings) => self.configure_cs(settings),
            Command::EraseCs { ticket, prefix, limit } => {
                self.state.erasures.push(Erasure { ticket, prefix, left: limit, erased: 0 });
            }
            Command::SetTap(tap) => {
                self.faces.set_tap(tap);
            }
            Command::Trace(is_on) => self.trace(is_on),
            Command::Stop => self.state.stopping = true,
        }
    }

    /// Where Interests are sent, what comes back is not to wait behind others' Interests.
    fn separate_input(&mut self, index: FaceIndex, face_id: u64) {
        if self.overload.answers_first()
            && let Err(error) = self.faces.separate_input(index)
        {
            tracing::debug!(face_id, %error, "the face shares a socket with others");
        }
    }

    /// The socket to send to a peer by: that at the address that the route says, else that of all
    /// addresses, else any of this kind.
    fn channel_to(&self, peer: SocketAddr) -> Option<(ChannelId, SocketAddr)> {
        let family = |address: &SocketAddr| address.is_ipv4() == peer.is_ipv4();
        let usable = || self.channels.iter().copied().filter(|(_, local)| family(local));
        let first = usable().next()?;
        if usable().count() == 1 {
            return Some(first);
        }
        // The kernel is asked only where there is a choice.
        let source = udp_route(peer).ok().map(|route| route.source);
        let at_source = usable().find(|(_, local)| Some(local.ip()) == source);
        let at_all = || usable().find(|(_, local)| local.ip().is_unspecified());
        at_source.or_else(at_all).or(Some(first))
    }

    fn add_face(&mut self, now: Timestamp, face: NewFace) {
        let NewFace { ticket, transport, options, remote, local } = face;
        let face_id = options.properties.face_id;
        let refuse = |events: &mut Sender<Event>, error| {
            events.send(Event::FaceRefused { ticket, face_id, error });
        };
        let mut local = local;
        let mut channel = None;
        if let NewTransport::Datagram(peer) = &transport {
            let Some((id, address)) = self.channel_to(*peer) else {
                let reason = "UDP is not enabled for this kind of address";
                return refuse(&mut self.events, std::io::Error::other(reason));
            };
            if let Some(existing) = self.faces.datagram_face(id, *peer)
                && let Some(face_id) = self.numbers.face_id(existing)
            {
                self.events.send(Event::FaceExists { ticket, face_id });
                return;
            }
            local = FaceUri::udp(address);
            channel = Some((id, address));
        }
        if let NewTransport::Station(port, mac) = &transport
            && let Some(existing) = self.faces.station_face(*port, *mac)
            && let Some(face_id) = self.numbers.face_id(existing)
        {
            self.events.send(Event::FaceExists { ticket, face_id });
            return;
        }
        let party = match (&transport, channel) {
            (NewTransport::Datagram(peer), Some((_, address))) => Some(Party::Peer(address, *peer)),
            (NewTransport::Station(port, mac), _) => Some(Party::station(*port, *mac)),
            (_, _) => None,
        };
        if let Some((_, face_id)) = party.and_then(|party| self.face_of(party)) {
            self.events.send(Event::FaceExists { ticket, face_id });
            return;
        }
        let allocated = match matches!(transport, NewTransport::Operator(_)) {
            true => self.numbers.allocate_for_operator(face_id),
            false => self.numbers.allocate(face_id),
        };
        let Some(index) = allocated else {
            let reason = "there are as many faces as there may be";
            if let NewTransport::Memif(end) = &transport {
                end.reject(reason);
            }
            let kind = std::io::ErrorKind::QuotaExceeded;
            return refuse(&mut self.events, std::io::Error::new(kind, reason));
        };
        if let Some(party) = party
            && let Err((_, face_id)) = self.claim(party, index, face_id)
        {
            self.numbers.release(index);
            self.events.send(Event::FaceExists { ticket, face_id });
            return;
        }
        let added = match (transport, channel) {
            (NewTransport::Stream(stream) | NewTransport::Operator(stream), _) => {
                self.faces.add_stream(now, index, stream, &options)
            }
            (NewTransport::WebSocket(stream), _) => {
                self.faces.add_websocket(now, index, stream, &options)
            }
            (NewTransport::Group(socket, group), _) => {
                self.faces.add_group_datagram(now, index, socket, group, &options)
            }
            (NewTransport::Connected(socket), _) => {
                self.faces.add_connected_datagram(now, index, socket, &options)
            }
            (NewTransport::Station(port, mac), _) => {
                self.faces.add_station(now, index, port, mac, &options)
            }
            (NewTransport::Memif(end), _) => self.faces.add_memif(now, index, end, &options),
            (NewTransport::Memory(end), _) => self.faces.add_memory(now, index, end, &options),
            (NewTransport::Internal(end), _) => self.faces.add_internal(now, index, end, &options),
            (NewTransport::Datagram(peer), Some((channel, _))) => {
                self.faces.add_datagram(now, index, channel, peer, &options)
            }
            (NewTransport::Datagram(_), None) => Err(std::io::ErrorKind::NotFound.into()),
        };
        if added.is_ok() && channel.is_some() {
            self.separate_input(index, face_id);
        }
        match added {
            Ok(counters) => {
                self.announce_face(index, &options.properties);
                let face = FaceCreated { index, options, remote, local, counters };
                self.events.send(Event::FaceAdded { ticket, face: Box::new(face) });
            }
            Err(error) => {
                self.release_number(index);
                refuse(&mut self.events, error);
            }
        }
    }

    fn configure_cs(&mut self, settings: CsSettings) {
        let pcct = self.shard.pcct_mut();
        if let Some(capacity) = settings.capacity_packets {
            pcct.set_cs_capacity(capacity);
        }
        if let Some(admit) = settings.admit {
            pcct.set_cs_admit(admit);
        }
        if let Some(serve) = settings.serve {
            pcct.set_cs_serve(serve);
        }
    }

    /// One slice of each erasure that is going on.
    pub(super) fn erase(&mut self) {
        if self.state.erasures.is_empty() {
            return;
        }
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let Self { shard, state, hasher, events, .. } = self;
        state.erasures.retain_mut(|erasure| {
            let prefix: NameRef<'_> = erasure.prefix.as_ref();
            let slice = erasure.left.min(ERASED_PER_ROUND);
            let Some(count) = hasher.hash_prefixes(prefix, &mut hashes) else {
                // Nothing with so long a name is ever cached.
                events.send(Event::CsErased { ticket: erasure.ticket, erased: 0, more: false });
                return false;
            };
            let key = DataKey::new(prefix, &hashes[..count]);
            let result = shard.pcct_mut().erase_data(&key, slice);
            erasure.erased += result.erased;
            erasure.left -= result.erased.min(erasure.left);
            let goes_on = result.more && erasure.left > 0;
            if !goes_on {
                let Erasure { ticket, erased, .. } = *erasure;
                events.send(Event::CsErased { ticket, erased, more: result.more });
            }
            goes_on
        });
        shard.end_burst();
    }
}
