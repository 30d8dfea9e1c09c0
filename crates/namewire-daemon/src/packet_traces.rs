//! The trace of decisions about packets, for one client at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use ndn_forwarding::{PacketTrace, TraceSink};
use ndn_sys::clock::Clock;
use ndn_types::duration_ns;

use namewire_control::{PacketTraceStream, TracedPacket};

/// Maximum traced packets that wait for the reader.
const QUEUE: usize = 8192;
/// Maximum memory of those, bytes; each worker can exceed it by one packet.
const QUEUE_BYTES: usize = 16 << 20;

/// Whether a client traces packets.
#[derive(Debug, Default)]
pub(super) struct PacketTraces {
    is_active: Arc<AtomicBool>,
}

/// The workers' side of the trace.
#[derive(Debug)]
struct Sink {
    packets: SyncSender<TracedPacket>,
    /// Bytes of the packets that wait for the reader.
    queued: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
    clock: Clock,
}

impl TraceSink for Sink {
    fn record(&self, trace: PacketTrace) {
        // A packet without room is not formatted.
        if self.queued.load(Ordering::Relaxed) >= QUEUE_BYTES {
            return self.lose();
        }
        let packet = TracedPacket::new(trace, duration_ns(self.clock.unix_time()));
        let bytes = packet.bytes();
        self.queued.fetch_add(bytes, Ordering::Relaxed);
        if self.packets.try_send(packet).is_err() {
            self.queued.fetch_sub(bytes, Ordering::Relaxed);
            self.lose();
        }
    }

    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Ends the trace when it is dropped.
struct End<F: Fn()> {
    is_active: Arc<AtomicBool>,
    stop: F,
}

impl<F: Fn()> Drop for End<F> {
    fn drop(&mut self) {
        (self.stop)();
        self.is_active.store(false, Ordering::Release);
    }
}

impl PacketTraces {
    /// Starts a trace. `start` gives the sink to the workers, and `stop` ends the trace there.
    ///
    /// # Errors
    /// Another client traces packets, or the forwarder is stopping.
    pub(super) fn begin(
        &self,
        clock: &Clock,
        start: impl FnOnce(Arc<dyn TraceSink>) -> Result<(), String>,
        stop: impl Fn() + Send + 'static,
    ) -> Result<PacketTraceStream, String> {
        if self.is_active.swap(true, Ordering::AcqRel) {
            return Err("another client traces packets".to_owned());
        }
        // Ends the trace on an error, too.
        let end = End { is_active: Arc::clone(&self.is_active), stop };
        let (sender, receiver) = sync_channel::<TracedPacket>(QUEUE);
        let (lost, queued) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, waiting) = (Arc::clone(&lost), Arc::clone(&queued));
        start(Arc::new(Sink { packets: sender, queued, lost, clock: clock.clone() }))?;
        let lost = Box::new(move || count.load(Ordering::Relaxed));
        let packets = Box::new(move |wait| {
            let packet = receiver.recv_timeout(wait)?;
            waiting.fetch_sub(packet.bytes(), Ordering::Relaxed);
            Ok(packet)
        });
        Ok(PacketTraceStream { packets, lost, end: Box::new(end) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ndn_forwarding::{Decision, PacketKind};
    use ndn_packet::Name;
    use ndn_types::Timestamp;

    use super::*;

    #[test]
    fn one_client_traces_at_a_time_and_packets_without_room_are_counted() {
        let traces = PacketTraces::default();
        let stopped = Arc::new(AtomicU64::new(0));
        let begin = |sink: &mut Option<Arc<dyn TraceSink>>| {
            let stopped = Arc::clone(&stopped);
            let stop = move || {
                stopped.fetch_add(1, Ordering::Relaxed);
            };
            let start = |started| {
                *sink = Some(started);
                Ok(())
            };
            traces.begin(&crate::Environment::system().clock, start, stop)
        };
        let mut sink = None;
        let stream = begin(&mut sink).unwrap();
        assert!(begin(&mut None).unwrap_err().contains("another client"));
        let mut trace = PacketTrace {
            shard: 0,
            time: Timestamp::ZERO,
            face_id: 300,
            kind: PacketKind::Interest,
            name: Name::from_uri("/a").unwrap(),
            decisions: Vec::new(),
        };
        for _ in 0..QUEUE + 3 {
            sink.as_ref().unwrap().record(trace.clone());
        }
        let taken = || std::iter::from_fn(|| (stream.packets)(Duration::ZERO).ok());
        assert_eq!(((stream.lost)(), taken().count()), (3, QUEUE));
        // Packets with many decisions do not take more memory than others.
        trace.decisions = vec![Decision::CsInserted; 1000];
        for _ in 0..QUEUE {
            sink.as_ref().unwrap().record(trace.clone());
        }
        let bytes: usize = taken().map(|packet| packet.bytes()).sum();
        assert!((QUEUE_BYTES..2 * QUEUE_BYTES).contains(&bytes), "{bytes}");
        sink.as_ref().unwrap().record(trace.clone());
        assert_eq!(taken().count(), 1, "the memory is free again");
        drop(stream);
        assert_eq!(stopped.load(Ordering::Relaxed), 1);
        begin(&mut None).unwrap();
        let refused = traces.begin(
            &crate::Environment::system().clock,
            |_| Err("stopping".to_owned()),
            || (),
        );
        assert_eq!(refused.unwrap_err(), "stopping");
        begin(&mut None).unwrap();
    }
}
