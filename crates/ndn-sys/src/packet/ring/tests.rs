#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "test code")]

use std::collections::VecDeque;

use super::*;

/// Plays the kernel: the same memory, filled in order.
struct Kernel {
    /// Words, so that the memory is aligned.
    memory: NonNull<u32>,
    layout: Layout,
    next: usize,
}

impl Kernel {
    fn new(layout: Layout) -> (Self, Ring) {
        let memory = vec![0_u32; layout.length() / 4].into_boxed_slice();
        let memory = NonNull::from(Box::leak(memory)).cast::<u32>();
        // SAFETY: the memory has this length and alignment, and lasts until the test frees it.
        let ring = unsafe { Ring::new(memory.cast(), layout) };
        (Self { memory, layout, next: 0 }, ring)
    }

    /// False if the slot is not free.
    fn receive(&mut self, payload: &[u8], length: usize, source: u8) -> bool {
        let offset = self.layout.offset(self.next);
        // SAFETY: the slot lies in the memory; its other bytes are touched only while it is ours.
        unsafe {
            let slot = self.memory.cast::<u8>().add(offset);
            let status = AtomicU32::from_ptr(slot.cast().as_ptr());
            if status.load(Ordering::Acquire) != STATUS_KERNEL {
                return false;
            }
            let write = |at: usize, bytes: &[u8]| {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot.add(at).as_ptr(), bytes.len());
            };
            write(AT_LENGTH, &(length as u32).to_ne_bytes());
            write(AT_CAPTURED, &(payload.len() as u32).to_ne_bytes());
            write(AT_NETWORK, &(PAYLOAD_OFFSET as u16).to_ne_bytes());
            write(AT_ADDRESS + 4, &3_u32.to_ne_bytes());
            write(AT_ADDRESS + 10, &[if source.is_multiple_of(2) { 0 } else { 2 }, 6]);
            write(AT_ADDRESS + 12, &[2, 0, 0, 0, 0, source, 0, 0]);
            write(PAYLOAD_OFFSET, payload);
            status.store(STATUS_USER, Ordering::Release);
        }
        self.next = (self.next + 1) % self.layout.slot_count();
        true
    }

    fn free(self) {
        let length = self.layout.length() / 4;
        let slice = std::ptr::slice_from_raw_parts_mut(self.memory.as_ptr(), length);
        // SAFETY: it was leaked by `new` with this length, and the ring is gone.
        drop(unsafe { Box::from_raw(slice) });
    }
}

#[test]
fn ring_slots_are_disjoint_and_inside_blocks() {
    for (bytes, payload_max) in [(4 << 20, 1500), (4 << 20, 9000), (1, 60), (1 << 20, 16_000)] {
        let layout = Layout::new(bytes, payload_max);
        assert!(layout.block_length.is_power_of_two() && layout.block_length >= 4096);
        assert!(layout.length() <= bytes.max(layout.block_length));
        let mut end = 0;
        for slot in 0..layout.slot_count() {
            let start = layout.offset(slot);
            assert!(start >= end && start.is_multiple_of(64), "{layout:?} {slot}");
            end = start + layout.slot_length;
            assert_eq!(start / layout.block_length, (end - 1) / layout.block_length);
            assert!(layout.slot_length >= PAYLOAD_OFFSET + payload_max);
        }
        assert!(end <= layout.length());
    }
}

#[test]
fn frames_equal_those_of_a_queue() {
    // Against a queue, with a generator of numbers that is the same each time.
    let layout = Layout { slot_length: 192, block_length: 1024, block_count: 3 };
    let (mut kernel, mut ring) = Kernel::new(layout);
    let mut model: VecDeque<(Vec<u8>, usize, u8)> = VecDeque::new();
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let rounds = if cfg!(miri) { 300 } else { 20_000 };
    let (mut lost, mut taken) = (0, 0);
    for _ in 0..rounds {
        if random(5) < 3 {
            let payload = vec![random(256) as u8; random(100) as usize];
            let (longer, source) = (random(2) as usize, random(256) as u8);
            let has_room = model.len() < layout.slot_count();
            let length = payload.len() + longer;
            assert_eq!(kernel.receive(&payload, length, source), has_room);
            if has_room {
                model.push_back((payload, length, source));
            } else {
                lost += 1;
            }
        } else {
            let expected = model.pop_front();
            match (ring.peek(), &expected) {
                (None, None) => continue,
                (Some(frame), Some((payload, length, source))) => {
                    assert_eq!(frame.payload, payload);
                    assert_eq!(frame.is_truncated, *length > payload.len());
                    assert_eq!(frame.source, Some([2, 0, 0, 0, 0, *source]));
                    assert_eq!((frame.interface, frame.vlan), (3, 0));
                    assert_eq!(frame.delivery == Delivery::Host, source.is_multiple_of(2));
                }
                (found, _) => panic!("{found:?} and not {expected:?}"),
            }
            assert_eq!(ring.peek(), ring.peek(), "looking takes nothing");
            ring.release();
            taken += 1;
        }
    }
    assert!(taken > rounds / 4 && (cfg!(miri) || lost > 0));
    kernel.free();
}

#[test]
fn impossible_lengths_give_an_empty_frame() {
    let mut slot = vec![0xff; 188];
    let frame = frame(&slot, STATUS_USER | STATUS_LOSING | STATUS_VLAN);
    assert!(frame.payload.is_empty() && frame.is_truncated && frame.follows_loss);
    assert_eq!((frame.vlan, frame.source, frame.delivery), (0xfff, None, Delivery::Other));
    slot[AT_NETWORK - AT_LENGTH..][..2].copy_from_slice(&80_u16.to_ne_bytes());
    slot[AT_CAPTURED - AT_LENGTH..][..4].copy_from_slice(&200_u32.to_ne_bytes());
    assert!(super::frame(&slot, STATUS_USER).payload.is_empty());
}
