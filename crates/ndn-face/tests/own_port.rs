//! Ethernet faces on a driver of its own, which says what no device should.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "test code")]

mod support;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use ndn_face::{
    FaceOptions, LinkDropReason, NewStation, OnDemandSettings, PortId, PortOptions, PortSocket,
    Ports, Progress,
};
use ndn_sys::packet::{Delivery, Frame, FramePort, FrameRefusal, FrameTransmitted};
use ndn_sys::poll::{Event, Events, Waker};
use ndn_types::{Persistency, Scope};
use support::{Sink, TIMEOUT, Worker, properties, tlv};

const PORT: PortId = PortId(3);
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 7];

/// Frames of one station, of any length.
#[derive(Debug)]
struct Script {
    ready: Waker,
    frames: VecDeque<Vec<u8>>,
    /// Told when there is no frame.
    lost: u64,
}

impl FramePort for Script {
    fn interface(&self) -> u32 {
        9
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    fn prepare(&mut self) -> bool {
        !self.frames.is_empty()
    }

    fn peek(&self) -> Option<Frame<'_>> {
        let payload = self.frames.front()?;
        let nothing = Frame::nothing(self.interface());
        Some(Frame { payload, source: Some(STATION), delivery: Delivery::Host, ..nothing })
    }

    fn release(&mut self) {
        self.frames.pop_front();
    }

    fn take_lost(&mut self) -> u64 {
        0
    }

    fn take_lost_when_idle(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn set_mac(&mut self, _: [u8; 6]) {}

    fn send(&mut self, _: [u8; 6], _: &[&[u8]]) -> Result<(), FrameRefusal> {
        Ok(())
    }

    fn transmit(&mut self) -> io::Result<FrameTransmitted> {
        Ok(FrameTransmitted { calls: 0, is_done: true })
    }
}

/// A Data of `length` bytes, which has four bytes of length.
fn long(length: usize) -> Vec<u8> {
    let mut wire = vec![6, 254];
    wire.extend(u32::try_from(length - 6).unwrap().to_be_bytes());
    wire.resize(length, 1);
    wire
}

/// A device that brings these frames.
fn device(frames: impl Into<VecDeque<Vec<u8>>>, lost: u64) -> PortOptions {
    let ready = Waker::new().unwrap();
    ready.wake();
    let script = Script { ready, frames: frames.into(), lost };
    PortOptions {
        name: "own0".into(),
        socket: Some(PortSocket::Own(Box::new(script))),
        is_up: true,
        accepts: false,
        has_others: false,
        on_demand: OnDemandSettings {
            mtu: 1500,
            idle_timeout: std::time::Duration::from_secs(600),
        },
    }
}

#[test]
fn frames_are_read_only_after_a_readable_event() {
    let mut worker = Worker::new();
    let channel =
        worker.faces.transport_mut::<Ports>().add(PORT, device([tlv(5, 60, 1)], 0)).unwrap();
    let options = FaceOptions::datagram(properties(Scope::NonLocal), Persistency::Permanent, 9000);
    worker.open(NewStation { port: PORT, mac: STATION }, &options);
    let mut events = Events::with_capacity(4);
    worker.faces.poller().wait(&mut events, Some(TIMEOUT)).unwrap();
    let ready = events.iter().next().unwrap();
    let held_back = Event { readable: false, writable: true, ..ready };
    let mut sink = Sink::default();
    let progress = worker.faces.handle_event(worker.now, &held_back, &worker.pool, &mut sink);
    assert!(matches!(progress, Progress::Done) && sink.burst.is_empty());
    assert_eq!(channel.receive_calls.value(), 0);
    worker.run_until(|worker| !worker.received.is_empty());
    worker.receive();
    worker.finish();
}

#[test]
fn frames_longer_than_a_block_are_dropped() {
    let interest = tlv(5, 60, 1);
    let frames = [tlv(6, 65_537, 2), tlv(6, 65_536, 3), long(200_000), interest.clone()];
    let mut worker = Worker::new();
    let channel = worker.faces.transport_mut::<Ports>().add(PORT, device(frames, 5)).unwrap();
    let options = FaceOptions::datagram(properties(Scope::NonLocal), Persistency::Permanent, 9000);
    let (_, counters) = worker.open(NewStation { port: PORT, mac: STATION }, &options);
    worker.run_until(|_| channel.kernel_drops.value() != 0);
    let wires = std::iter::from_fn(|| (!worker.received.is_empty()).then(|| worker.receive().1));
    assert_eq!(wires.last(), Some(interest));
    assert_eq!(counters.dropped(LinkDropReason::Truncated).value(), 2);
    assert_eq!(channel.kernel_drops.value(), 5, "asked for without a frame");
    worker.finish();
}
