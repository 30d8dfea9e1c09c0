//! One port of DPDK.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ndn_sys::packet::{Frame, FramePort, FrameReader, FrameRefusal, FrameTransmitted};
use ndn_sys::poll::Waker;
use thiserror::Error;

use crate::shim;

/// Frames per call of a driver.
const BURST: usize = 32;
/// Destination, source, type.
const HEADER_LENGTH: usize = 14;
/// An Ethernet frame has no fewer bytes, without its checksum.
const FRAME_MIN: usize = 60;
/// A VLAN tag.
const TAG_LENGTH: usize = 4;
/// Frames between two readings of the driver counters, which may take a system call.
const LOSS_PERIOD: u32 = 4096;
/// The same of polls in a row that found nothing.
const IDLE_PERIOD: u32 = 1 << 16;

/// The port to open, and its parameters.
#[derive(Debug, Clone)]
pub struct DpdkOptions {
    /// DPDK's name of the port: `net_tap0`, `0000:03:00.0`.
    pub name: String,
    /// The number that it goes by in [`Frame::interface`].
    pub interface: u32,
    /// The EtherType of the frames.
    pub protocol: u16,
    /// A group to hear.
    pub group: Option<[u8; 6]>,
    /// Longest payload of a frame, bytes; the device may take less.
    pub mtu: u16,
    /// Entries of the receive and the transmit queue.
    pub descriptors: u16,
    /// Buffers for frames: as many as the queues have entries together, and 64 more.
    pub buffers: u32,
}

/// Why a port cannot be used.
#[derive(Debug, Error)]
#[error("DPDK's port {name}: cannot {step}: {error}")]
pub struct DpdkError {
    name: String,
    step: String,
    error: io::Error,
}

/// Held to configure a port or to query its state: DPDK forbids two threads to do so at the same time. Moving frames
/// does not need it.
type Control = Arc<Mutex<()>>;

/// The one of a port of this name, which outlives the [`DpdkPort`] as its links do.
fn control_of(name: &str) -> Control {
    static ALL: Mutex<BTreeMap<String, Control>> = Mutex::new(BTreeMap::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(all.entry(name.to_owned()).or_default())
}

fn hold(control: &Mutex<()>) -> MutexGuard<'_, ()> {
    control.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frames of one EtherType of one port, by polling. Frames of other types are dropped; no other program receives them.
///
/// Any one thread may use it at a time. Its descriptor is always ready, so the owner polls.
#[derive(Debug)]
pub struct DpdkPort {
    port: Box<shim::Port>,
    control: Control,
    reader: FrameReader,
    ready: Waker,
    received: Burst,
    /// Bytes of the current frame, if that lies in several pieces.
    scratch: Vec<u8>,
    is_scratch: bool,
    /// Frames to be sent.
    waiting: Burst,
    lost: u64,
    since_loss: u32,
    idle: u32,
    /// Received frames that are longer than the port takes, not told yet.
    too_long: u64,
}

// SAFETY: DPDK lets any thread use a queue as long as no two do at a time, and what touches the queues takes
// `&mut self`. Opening, closing and asking for the link or the counters, which DPDK wants one after the other
// too, hold the `control` of the port, which its links share.
unsafe impl Send for DpdkPort {}

/// The link of a port.
#[derive(Debug, Clone)]
pub struct DpdkLink {
    port: u16,
    control: Control,
}

impl DpdkLink {
    /// Whether it is there.
    #[must_use]
    pub fn is_up(&self) -> bool {
        let _held = hold(&self.control);
        // SAFETY: any port number is valid here, and the lock excludes other threads.
        unsafe { shim::namewire_dpdk_is_up(self.port) != 0 }
    }
}

/// Frames in order, of which the first ones are done with.
#[derive(Debug)]
struct Burst {
    frames: [*mut shim::Mbuf; BURST],
    next: usize,
    end: usize,
}

impl Burst {
    const fn new() -> Self {
        Self { frames: [std::ptr::null_mut(); BURST], next: 0, end: 0 }
    }

    fn first(&self) -> Option<NonNull<shim::Mbuf>> {
        self.frames[self.next..self.end].first().copied().and_then(NonNull::new)
    }

    fn free_first(&mut self) {
        let Some(frame) = self.first() else { return };
        self.next += 1;
        // SAFETY: it was ours, and is no more part of the burst.
        unsafe { shim::namewire_dpdk_free(frame.as_ptr()) };
    }

    fn free_all(&mut self) {
        for frame in &self.frames[self.next..self.end] {
            // SAFETY: frames of a burst are ours until they are sent or freed, which moves `next`.
            unsafe { shim::namewire_dpdk_free(*frame) };
        }
        (self.next, self.end) = (0, 0);
    }
}

impl DpdkPort {
    /// Configures and starts a port. [`start`](crate::start) has to come first.
    ///
    /// # Errors
    /// Which step the driver refused.
    pub fn open(options: &DpdkOptions) -> Result<Self, DpdkError> {
        let failed = |step: &str, error: io::Error| DpdkError {
            name: options.name.clone(),
            step: step.to_owned(),
            error,
        };
        let name = CString::new(options.name.as_str());
        let name = name.map_err(|error| failed("find it", error.into()))?;
        let ready = Waker::new().map_err(|error| failed("poll it", error))?;
        ready.wake();
        let asked = shim::Options {
            name: name.as_ptr(),
            mtu: options.mtu,
            descriptors: options.descriptors,
            buffers: options.buffers,
            group: options.group.unwrap_or_default(),
        };
        let mut port = Box::new(shim::Port {
            pool: std::ptr::null_mut(),
            port: 0,
            mtu: 0,
            mac: [0; 6],
            socket: 0,
            driver: [0; 32],
        });
        let mut step: *const c_char = c"open it".as_ptr();
        let control = control_of(&options.name);
        let held = hold(&control);
        // SAFETY: all three point to values of the C types; the name lives until the end of the call, and the lock
        // excludes other threads.
        let result =
            unsafe { shim::namewire_dpdk_open(&raw const asked, &raw mut *port, &raw mut step) };
        if result != 0 {
            // SAFETY: a string of the shim's, which lives as long as the program.
            let step = unsafe { CStr::from_ptr(step) };
            let error = io::Error::from_raw_os_error(result.saturating_neg());
            return Err(failed(&step.to_string_lossy(), error));
        }
        drop(held);
        let reader = FrameReader {
            interface: options.interface,
            protocol: options.protocol,
            mac: port.mac,
            group: options.group,
        };
        Ok(Self {
            port,
            control,
            reader,
            ready,
            received: Burst::new(),
            scratch: Vec::new(),
            is_scratch: false,
            waiting: Burst::new(),
            lost: 0,
            since_loss: 0,
            idle: 0,
            too_long: 0,
        })
    }

    /// The address of the port.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.port.mac
    }

    /// Longest payload of a frame, bytes.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.port.mtu
    }

    /// DPDK's name of the driver.
    #[must_use]
    pub fn driver(&self) -> String {
        let name = CStr::from_bytes_until_nul(&self.port.driver).unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Reports whether the link is up, on any thread, while the program runs.
    #[must_use]
    pub fn link(&self) -> DpdkLink {
        DpdkLink { port: self.port.port, control: Arc::clone(&self.control) }
    }

    /// The position of the next frame. Drops frames before it that are longer than the port accepts.
    fn poll(&mut self) {
        self.is_scratch = false;
        let longest = HEADER_LENGTH + TAG_LENGTH + usize::from(self.port.mtu);
        while let Some(frame) = self.received.first() {
            let mut length = 0;
            // SAFETY: the frame is ours until it is released.
            let bytes = unsafe { shim::namewire_dpdk_bytes(frame.as_ptr(), &raw mut length) };
            if length as usize > longest {
                self.too_long += 1;
                self.received.free_first();
                continue;
            }
            if bytes.is_null() {
                self.gather(frame, length);
            }
            return;
        }
    }

    /// Copies a frame in pieces.
    fn gather(&mut self, frame: NonNull<shim::Mbuf>, length: u32) {
        self.is_scratch = true;
        self.scratch.resize(length as usize, 0);
        // SAFETY: the frame is ours, and has room for this number of bytes.
        let copied =
            unsafe { shim::namewire_dpdk_copy(frame.as_ptr(), self.scratch.as_mut_ptr(), length) };
        self.scratch.truncate(copied as usize);
    }

    fn bytes(&self) -> Option<&[u8]> {
        let frame = self.received.first()?;
        if self.is_scratch {
            return Some(&self.scratch);
        }
        let mut length = 0;
        // SAFETY: the frame is ours until it is released, for which nobody may borrow `self`.
        let bytes = unsafe { shim::namewire_dpdk_bytes(frame.as_ptr(), &raw mut length) };
        if bytes.is_null() {
            return None;
        }
        // SAFETY: the bytes are contiguous in the frame; the driver has given it away.
        Some(unsafe { std::slice::from_raw_parts(bytes, length as usize) })
    }
}

impl FramePort for DpdkPort {
    fn interface(&self) -> u32 {
        self.reader.interface
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    fn prepare(&mut self) -> bool {
        if self.received.first().is_some() {
            return true;
        }
        let room = u16::try_from(BURST).unwrap_or(0);
        let frames = self.received.frames.as_mut_ptr();
        // SAFETY: the port is open, this is the only thread that uses it, and the array has room for this number of
        // frames.
        let count = unsafe { shim::namewire_dpdk_receive(&raw const *self.port, frames, room) };
        (self.received.next, self.received.end) = (0, usize::from(count).min(BURST));
        self.since_loss = self.since_loss.saturating_add(count.into());
        self.idle = if count == 0 { self.idle.saturating_add(1) } else { 0 };
        self.poll();
        self.received.first().is_some()
    }

    fn peek(&self) -> Option<Frame<'_>> {
        let bytes = self.bytes()?;
        let nothing = Frame::nothing(self.reader.interface);
        let mut frame = self.reader.read(bytes).unwrap_or(nothing);
        frame.follows_loss = self.since_loss >= LOSS_PERIOD;
        Some(frame)
    }

    fn release(&mut self) {
        self.received.free_first();
        self.poll();
    }

    fn take_lost(&mut self) -> u64 {
        (self.since_loss, self.idle) = (0, 0);
        // The thread that moves frames does not wait for the query of the link; it retries the next time.
        let Ok(_held) = self.control.try_lock() else { return 0 };
        // SAFETY: the port is open, and the lock excludes other threads.
        let lost = unsafe { shim::namewire_dpdk_lost(&raw const *self.port) };
        let new = lost.saturating_sub(std::mem::replace(&mut self.lost, lost));
        new.saturating_add(std::mem::take(&mut self.too_long))
    }

    fn take_lost_when_idle(&mut self) -> u64 {
        if self.idle >= IDLE_PERIOD { self.take_lost() } else { 0 }
    }

    fn set_mac(&mut self, mac: [u8; 6]) {
        self.reader.mac = mac;
    }

    fn send(&mut self, to: [u8; 6], payload: &[&[u8]]) -> Result<(), FrameRefusal> {
        let length: usize = payload.iter().map(|part| part.len()).sum();
        if length > usize::from(self.port.mtu) {
            return Err(FrameRefusal::TooLong);
        }
        if self.waiting.end == BURST {
            return Err(FrameRefusal::Full);
        }
        let whole = (HEADER_LENGTH + length).max(FRAME_MIN);
        let whole_length = u16::try_from(whole).map_err(|_| FrameRefusal::TooLong)?;
        let mut bytes = std::ptr::null_mut();
        // SAFETY: the port is open, and the pointer is written to.
        let frame = unsafe {
            shim::namewire_dpdk_allocate(&raw const *self.port, whole_length, &raw mut bytes)
        };
        if frame.is_null() {
            return Err(FrameRefusal::Full);
        }
        // SAFETY: the frame is new, and its bytes are contiguous and written before they are read; any byte is valid.
        let mut place = unsafe {
            std::ptr::write_bytes(bytes, 0, whole);
            std::slice::from_raw_parts_mut(bytes, whole)
        };
        let header = self.reader.header(to);
        for part in std::iter::once(&header[..]).chain(payload.iter().copied()) {
            let (now, rest) = place.split_at_mut(part.len());
            now.copy_from_slice(part);
            place = rest;
        }
        self.waiting.frames[self.waiting.end] = frame;
        self.waiting.end += 1;
        Ok(())
    }

    fn transmit(&mut self) -> io::Result<FrameTransmitted> {
        let waiting = &mut self.waiting;
        let mut calls = 0;
        while waiting.next < waiting.end {
            let count = u16::try_from(waiting.end - waiting.next).unwrap_or(0);
            let frames = waiting.frames[waiting.next..].as_mut_ptr();
            calls += 1;
            // SAFETY: these frames are in the array and ours; those that were sent are not any more.
            let taken =
                unsafe { shim::namewire_dpdk_transmit(&raw const *self.port, frames, count) };
            if taken == 0 {
                break;
            }
            waiting.next += usize::from(taken);
        }
        let left = waiting.end - waiting.next;
        waiting.frames.copy_within(waiting.next..waiting.end, 0);
        (waiting.next, waiting.end) = (0, left);
        Ok(FrameTransmitted { calls, is_done: left == 0 })
    }
}

impl Drop for DpdkPort {
    fn drop(&mut self) {
        self.received.free_all();
        self.waiting.free_all();
        let _held = hold(&self.control);
        // SAFETY: the port is open, and nobody uses it afterwards; its links ask at another time.
        unsafe { shim::namewire_dpdk_close(&raw mut *self.port) };
    }
}
