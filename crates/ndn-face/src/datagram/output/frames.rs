//! Sending from the output queue of a network device by drivers that take whole frames.

use std::io;

use ndn_ring::PacketPool;
use ndn_sys::packet::{FramePort, FrameRefusal, FrameTransmitted, LinkAddress};
use ndn_sys::xdp::XdpPort;
use ndn_table::FaceIndex;

use super::{Datagram, DatagramQueue, SendCounters, Target};
use crate::output::Flushed;

/// What frames are given to.
pub(crate) trait FrameSender {
    fn send(&mut self, to: &LinkAddress, payload: &[&[u8]]) -> Result<(), FrameRefusal>;
    fn transmit(&mut self) -> io::Result<FrameTransmitted>;
}

impl FrameSender for XdpPort {
    fn send(&mut self, to: &LinkAddress, payload: &[&[u8]]) -> Result<(), FrameRefusal> {
        self.send(to.mac, payload)
    }

    fn transmit(&mut self) -> io::Result<FrameTransmitted> {
        self.transmit()
    }
}

impl FrameSender for dyn FramePort {
    fn send(&mut self, to: &LinkAddress, payload: &[&[u8]]) -> Result<(), FrameRefusal> {
        FramePort::send(self, to.mac, payload)
    }

    fn transmit(&mut self) -> io::Result<FrameTransmitted> {
        FramePort::transmit(self)
    }
}

impl DatagramQueue {
    /// As [`flush`](Self::flush), for frames that are copied to where the kernel reads them.
    pub(crate) fn flush_frames(
        &mut self,
        port: &mut (impl FrameSender + ?Sized),
        pool: &PacketPool,
        counters: SendCounters<'_>,
        mut refused: impl FnMut(FaceIndex),
    ) -> Flushed {
        self.order();
        let mut done = 0;
        let mut is_full = false;
        while let Some(datagram) = self.datagrams.get(done) {
            match self.send_frame(datagram, port, pool) {
                Ok(()) => {
                    counters.calls.sent_frames.increment();
                    counters.calls.sent_bytes.add(datagram.length() as u64);
                    (done, is_full) = (done + 1, false);
                }
                Err(FrameRefusal::TooLong) => {
                    refused(datagram.to.face);
                    done += 1;
                }
                Err(FrameRefusal::Full) if is_full => {
                    self.keep_rest(done, pool);
                    return Flushed::Blocked;
                }
                Err(FrameRefusal::Full) => {
                    is_full = true;
                    if transmit(port, counters).is_none() {
                        break;
                    }
                }
            }
        }
        let transmitted = transmit(port, counters);
        if transmitted.is_none() {
            // The device is down. What has reached the kernel may go out when it is up again.
            self.datagrams[done..].iter().for_each(|datagram| refused(datagram.to.face));
        }
        self.release(self.datagrams.len(), pool);
        self.reset();
        match transmitted {
            Some(false) => Flushed::Blocked,
            Some(true) | None => Flushed::All,
        }
    }

    fn send_frame(
        &self,
        datagram: &Datagram,
        port: &mut (impl FrameSender + ?Sized),
        pool: &PacketPool,
    ) -> Result<(), FrameRefusal> {
        let copied = &self.bytes[datagram.start..][..datagram.copied];
        let large = datagram.large.as_ref().map_or(&[][..], |handle| pool.bytes(handle));
        match datagram.to.target {
            Target::Link(address) => port.send(&address, &[copied, large]),
            Target::Connected | Target::Internet(_) => Err(FrameRefusal::TooLong),
        }
    }
}

/// Has the kernel send; whether it has taken everything, none if it does not send at all.
fn transmit(port: &mut (impl FrameSender + ?Sized), counters: SendCounters<'_>) -> Option<bool> {
    let transmitted = port.transmit().ok()?;
    counters.channel.send_calls.add(transmitted.calls);
    counters.calls.send_calls.add(transmitted.calls);
    Some(transmitted.is_done)
}
