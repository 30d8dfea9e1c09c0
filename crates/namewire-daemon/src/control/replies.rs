//! Queue of management's replies to the data plane.
//!
//! Replies to commands and notifications are short and go first. Dataset segments are as long as a packet may be, and
//! a client that repeats an Interest requests one each time: they wait behind, limited in bytes and without
//! duplicates, and only a few at a time are in the FIFO ring to the worker.

use std::collections::{HashSet, VecDeque};

use ndn_face::InternalEnd;
use ndn_packet::{Data, NameRef};
use ndn_types::Now;

use super::refusals::Refusals;

/// Maximum size of waiting segments, bytes; further segments are dropped and their Interests retransmitted.
const SEGMENTS_MAX_BYTES: usize = 8 << 20;
/// Maximum size of other waiting frames, bytes; at the limit no Interests are taken.
const REPLIES_MAX_BYTES: usize = 4 << 20;
/// Maximum size of segments in the ring to the worker, bytes: a few of the batches that a busy worker reads at a
/// time.
const RING_SEGMENTS_BYTES: usize = 192 << 10;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// Frames that wait until the workers use the tables that they report, in the order of their arrival.
    staged: VecDeque<Staged>,
    /// Number of `staged` that the next call of [`settle`](Self::settle) releases.
    marked: usize,
    /// Frames that are not segments.
    first: VecDeque<Vec<u8>>,
    /// With those of `staged`.
    first_bytes: usize,
    segments: VecDeque<Segment>,
    segment_bytes: usize,
    /// Names of `segments` and of those of `staged`.
    names: HashSet<Box<[u8]>>,
    /// Segment bytes of each frame in the ring; zero for other frames.
    sent: VecDeque<usize>,
    sent_bytes: usize,
    dropped: u64,
    /// The log of `dropped`.
    drops: Refusals,
}

#[derive(Debug)]
enum Staged {
    First(Vec<u8>),
    Segment(Segment),
}

#[derive(Debug)]
struct Segment {
    /// The value of its Name TLV.
    name: Box<[u8]>,
    frame: Vec<u8>,
}

impl Replies {
    /// Returns whether no frame waits.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_staged() && !self.is_ready()
    }

    /// Returns whether a frame waits until the workers use the tables that it reports.
    pub(super) fn is_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Returns whether a frame waits for room in the ring to the worker.
    pub(super) fn is_ready(&self) -> bool {
        !self.first.is_empty() || !self.segments.is_empty()
    }

    /// Returns whether no further Interests should be answered now.
    pub(super) fn is_full(&self) -> bool {
        self.first_bytes >= REPLIES_MAX_BYTES
    }

    /// Queues a frame before all segments.
    pub(super) fn push(&mut self, frame: Vec<u8>) {
        self.first_bytes += frame.len();
        self.staged.push_back(Staged::First(frame));
    }

    /// Queues a dataset segment. Drops it if the same segment waits already, which answers this Interest too, or if
    /// the limit is reached.
    pub(super) fn push_segment(&mut self, now: Now, name: NameRef<'_>, frame: Vec<u8>) {
        if self.names.contains(name.value()) {
            return;
        }
        if self.segment_bytes + frame.len() > SEGMENTS_MAX_BYTES {
            self.dropped += 1;
            self.drops.segment_dropped(now, self.dropped);
            return;
        }
        let name = Box::<[u8]>::from(name.value());
        self.names.insert(name.clone());
        self.segment_bytes += frame.len();
        self.staged.push_back(Staged::Segment(Segment { name, frame }));
    }

    /// The next [`settle`](Self::settle) releases the frames so far.
    pub(super) fn mark(&mut self) {
        self.marked = self.staged.len();
    }

    /// Releases the marked frames to be sent: the workers use the tables that these report.
    pub(super) fn settle(&mut self) {
        for staged in self.staged.drain(..std::mem::take(&mut self.marked)) {
            match staged {
                Staged::First(frame) => self.first.push_back(frame),
                Staged::Segment(segment) => self.segments.push_back(segment),
            }
        }
    }

    /// Sends released frames until the ring is at its limit.
    pub(super) fn send(&mut self, end: &mut InternalEnd) -> bool {
        let mut has_sent = false;
        for _ in end.unreceived()..self.sent.len() {
            self.sent_bytes -= self.sent.pop_front().unwrap_or(0);
        }
        while let Some(frame) = self.first.pop_front() {
            let len = frame.len();
            if let Err(frame) = end.send(frame) {
                self.first.push_front(frame);
                return has_sent;
            }
            self.first_bytes -= len;
            has_sent = true;
            self.sent.push_back(0);
        }
        while self.sent_bytes < RING_SEGMENTS_BYTES
            && let Some(Segment { name, frame }) = self.segments.pop_front()
        {
            let len = frame.len();
            if let Err(frame) = end.send(frame) {
                self.segments.push_front(Segment { name, frame });
                return has_sent;
            }
            self.names.remove(&name);
            self.segment_bytes -= len;
            has_sent = true;
            self.sent.push_back(len);
            self.sent_bytes += len;
        }
        has_sent
    }
}

/// Returns the name of a Data that is a dataset segment. Cacheable Data answer commands, whatever their name.
pub(super) fn segment_name(wire: &[u8], may_cache: bool) -> Option<NameRef<'_>> {
    if may_cache {
        return None;
    }
    let name = Data::parse(wire).ok()?.name();
    name.last()?.as_segment()?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ndn_management::{DataSigner, DigestSigner};
    use ndn_packet::{DataBuilder, Name};
    use ndn_types::Timestamp;

    use super::*;

    const NOW: Now = Now { monotonic: Timestamp::ZERO, unix: Duration::ZERO };
    const SEGMENT_BYTES: usize = 8192;

    fn segment(number: u64) -> Name {
        let mut name = Name::from_uri("/localhost/nfd/fib/list").unwrap();
        name.push_version(7).push_segment(number);
        name
    }

    fn push(replies: &mut Replies, number: u64) {
        let first = u8::try_from(number % 251).unwrap();
        replies.push_segment(NOW, segment(number).as_ref(), vec![first; SEGMENT_BYTES]);
    }

    fn send(replies: &mut Replies, near: &mut InternalEnd) {
        replies.mark();
        replies.settle();
        replies.send(near);
    }

    #[test]
    fn frames_are_sent_after_the_mark_before_which_they_were_queued() {
        let (mut near, mut far) = InternalEnd::pair(16).unwrap();
        let mut replies = Replies::default();
        replies.push(vec![1; 1]);
        replies.mark();
        replies.push(vec![2; 2]);
        assert!(!replies.send(&mut near) && replies.is_staged() && !replies.is_ready());
        replies.settle();
        assert!(replies.is_ready() && replies.send(&mut near));
        assert_eq!(receive(&mut far, 9), [1]);
        assert!(replies.is_staged() && !replies.is_empty());
        // Nothing is released without a mark.
        replies.settle();
        assert!(!replies.send(&mut near));
        send(&mut replies, &mut near);
        assert_eq!((receive(&mut far, 9), replies.is_empty()), (vec![2], true));
    }

    /// Reads at most `count` frames as the worker does; returns their lengths.
    fn receive(far: &mut InternalEnd, count: usize) -> Vec<usize> {
        std::iter::from_fn(|| far.receive()).take(count).map(|frame| frame.len()).collect()
    }

    #[test]
    fn command_replies_precede_waiting_segments() {
        let (mut near, mut far) = InternalEnd::pair(4096).unwrap();
        let mut replies = Replies::default();
        let in_ring = RING_SEGMENTS_BYTES / SEGMENT_BYTES;
        (0..1000).for_each(|number| push(&mut replies, number));
        send(&mut replies, &mut near);
        assert_eq!(near.unreceived(), in_ring, "few of them are in the ring");
        replies.push(vec![1; 300]);
        replies.push(vec![2; 400]);
        send(&mut replies, &mut near);
        // The worker reads one batch, and later the rest.
        assert_eq!(receive(&mut far, 6), [SEGMENT_BYTES; 6]);
        replies.push(vec![3; 500]);
        send(&mut replies, &mut near);
        let mut expected = vec![SEGMENT_BYTES; in_ring - 6];
        expected.extend([300, 400, 500]);
        expected.extend([SEGMENT_BYTES; 6]);
        assert_eq!(receive(&mut far, 4096), expected);
        let mut sum = in_ring + 6;
        while !replies.is_empty() {
            send(&mut replies, &mut near);
            assert!(near.unreceived() <= in_ring);
            sum += receive(&mut far, 4096).len();
        }
        assert_eq!(sum, 1000);
        assert_eq!((replies.segment_bytes, replies.first_bytes, replies.names.len()), (0, 0, 0));
        send(&mut replies, &mut near);
        assert_eq!((replies.sent_bytes, replies.sent.len()), (0, 0));
    }

    #[test]
    fn waiting_segments_are_limited_and_unique() {
        let (mut near, mut far) = InternalEnd::pair(4096).unwrap();
        let mut replies = Replies::default();
        let max = (SEGMENTS_MAX_BYTES / SEGMENT_BYTES) as u64;
        for _ in 0..3 {
            (0..max + 9).for_each(|number| push(&mut replies, number));
        }
        assert_eq!(replies.segment_bytes, SEGMENTS_MAX_BYTES);
        assert_eq!((replies.staged.len() as u64, replies.dropped), (max, 3 * 9));
        assert!(!replies.is_full(), "commands are answered");
        // A sent segment may be requested again.
        send(&mut replies, &mut near);
        assert_eq!(far.receive(), Some(vec![0; SEGMENT_BYTES]));
        push(&mut replies, 0);
        send(&mut replies, &mut near);
        assert_eq!(replies.segments.back().unwrap().frame, vec![0; SEGMENT_BYTES]);
    }

    #[test]
    fn replies_wait_while_the_ring_is_full() {
        let (mut near, mut far) = InternalEnd::pair(2).unwrap();
        let mut replies = Replies::default();
        push(&mut replies, 0);
        (1..=4).for_each(|len| replies.push(vec![0; len]));
        let mut received = Vec::new();
        while !replies.is_empty() || near.unreceived() > 0 {
            send(&mut replies, &mut near);
            received.extend(receive(&mut far, 1));
        }
        assert_eq!(received, [1, 2, 3, 4, SEGMENT_BYTES]);
    }

    #[test]
    fn no_interests_are_accepted_while_the_queue_is_full() {
        let (mut near, mut far) = InternalEnd::pair(4).unwrap();
        let mut replies = Replies::default();
        while !replies.is_full() {
            replies.push(vec![0; 1 << 20]);
        }
        assert_eq!(replies.first_bytes, REPLIES_MAX_BYTES);
        send(&mut replies, &mut near);
        assert!(!replies.is_full());
        assert_eq!(receive(&mut far, 9), [1 << 20; 4]);
    }

    #[test]
    fn only_uncacheable_segment_names_are_segments() {
        let data = |name: &Name| DigestSigner.sign(&DataBuilder::new(name).content(b"x")).unwrap();
        let wire = data(&segment(3));
        assert_eq!(segment_name(&wire, false), Some(segment(3).as_ref()));
        assert_eq!(segment_name(&wire, true), None, "the answer to a command of such a name");
        let mut name = Name::from_uri("/localhost/nfd/faces/events").unwrap();
        assert_eq!(segment_name(&data(&name), false), None);
        name.push_sequence_num(3);
        assert_eq!(segment_name(&data(&name), false), None);
    }
}
