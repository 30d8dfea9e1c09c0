//! Rings against queues.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Operation {
    Send(usize),
    Publish,
    Receive,
    Release,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0_usize..2500).prop_map(Operation::Send),
        3 => Just(Operation::Publish),
        4 => Just(Operation::Receive),
        3 => Just(Operation::Release),
    ]
}

/// The reference model of one direction.
#[derive(Default)]
struct Model {
    /// Frames in the ring, with the buffers that each takes.
    sent: VecDeque<(Vec<u8>, usize)>,
    /// The number of published ones.
    published: usize,
    /// Buffers that are not free for the sender.
    used: usize,
    /// Of those, what is taken and not released.
    taken: usize,
}

const BUFFER: usize = 512;

fn check(interrupter: &mut Interrupter, operations: &[(bool, Operation)], log2_ring_size: u8) {
    let options = ClientOptions {
        log2_ring_size: Some(log2_ring_size),
        buffer_length: Some(BUFFER as u32),
        ..ClientOptions::default()
    };
    let (mut client, mut server) = connect(options);
    let mut models = [Model::default(), Model::default()];
    let size = 1_usize << log2_ring_size;
    for (serial, (to_server, operation)) in operations.iter().enumerate() {
        let model = &mut models[usize::from(*to_server)];
        let (from, to) =
            if *to_server { (&mut client, &mut server) } else { (&mut server, &mut client) };
        match *operation {
            Operation::Send(length) => {
                let frame: Vec<u8> = (0..length).map(|at| (at * 31 + serial) as u8).collect();
                let (header, payload) = frame.split_at(length / 3);
                let buffers = length.div_ceil(BUFFER).max(1);
                let fits = model.used + buffers <= size;
                let sent = from.senders[0].send(&[header, payload]).unwrap();
                let expected = match (fits, model.used) {
                    (true, _) => Sent::Queued,
                    // It does not fit an empty ring.
                    (false, 0) => Sent::TooLong,
                    (false, _) => Sent::Full,
                };
                assert_eq!(sent, expected);
                if fits {
                    model.sent.push_back((frame, buffers));
                    model.used += buffers;
                }
            }
            Operation::Publish => {
                from.senders[0].publish(interrupter).unwrap();
                model.published = model.sent.len();
            }
            Operation::Receive => {
                let mut buffer = [0; 2500];
                let received = to.receivers[0].receive(&mut buffer).unwrap();
                if model.published == 0 {
                    assert_eq!(received, Received::Nothing);
                } else {
                    let (frame, buffers) = model.sent.pop_front().unwrap();
                    assert_eq!(received, Received::Frame(frame.len()));
                    assert_eq!(buffer[..frame.len()], frame);
                    model.published -= 1;
                    model.taken += buffers;
                }
            }
            Operation::Release => {
                to.receivers[0].release().unwrap();
                model.used -= std::mem::take(&mut model.taken);
            }
        }
    }
}

#[test]
fn rings_behave_as_queues() {
    let interrupter = std::cell::RefCell::new(Interrupter::new().unwrap());
    let operations = prop::collection::vec((any::<bool>(), operation()), 0..400);
    proptest!(ProptestConfig::with_cases(64), |(operations in operations, log2_size in 0_u8..5)| {
        check(&mut interrupter.borrow_mut(), &operations, log2_size);
    });
}

#[test]
fn positions_wrap_at_16_bits() {
    let mut interrupter = Interrupter::new().unwrap();
    let round = [
        Operation::Send(900),
        Operation::Send(0),
        Operation::Publish,
        Operation::Receive,
        Operation::Receive,
        Operation::Receive,
        Operation::Release,
    ];
    let rounds = round.iter().cycle().take(round.len() * 23_000);
    let operations: Vec<_> = rounds.map(|operation| (true, operation.clone())).collect();
    check(&mut interrupter, &operations, 2);
    let back: Vec<_> = operations.into_iter().map(|(_, operation)| (false, operation)).collect();
    check(&mut interrupter, &back, 2);
}
