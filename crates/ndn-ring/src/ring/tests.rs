#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Operation {
    Push,
    Publish,
    Pop,
    Drain(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => Just(Operation::Push),
        2 => Just(Operation::Publish),
        2 => Just(Operation::Pop),
        1 => (0..2 * AHEAD).prop_map(Operation::Drain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 256 })
    })]
    /// Messages own memory, so that Miri and the count of owners see what is dropped twice or never.
    #[test]
    fn a_ring_is_a_bounded_queue(
        capacity in 1..3 * AHEAD,
        operations in proptest::collection::vec(operation(), 0..if cfg!(miri) { 80 } else { 400 }),
    ) {
        let owners = Arc::new(());
        let (mut producer, mut consumer) = ring(capacity);
        let (mut written, mut seen) = (VecDeque::new(), VecDeque::new());
        let mut next = 0;
        for operation in operations {
            match operation {
                Operation::Push => {
                    let fits = written.len() + seen.len() < capacity;
                    let owner = Arc::clone(&owners);
                    prop_assert_eq!(producer.push_with(|| (Box::new(next), owner)), fits);
                    if fits {
                        written.push_back(next);
                    }
                    next += 1;
                }
                Operation::Publish => {
                    producer.publish();
                    seen.append(&mut written);
                }
                Operation::Pop => {
                    prop_assert_eq!(consumer.pop().map(|(number, _)| *number), seen.pop_front());
                }
                Operation::Drain(count) => {
                    let (mut taken, peeked) = (Vec::new(), RefCell::new(Vec::new()));
                    let drained = consumer.drain(
                        count,
                        |(number, _)| peeked.borrow_mut().push(**number),
                        |(number, _)| {
                            assert!(peeked.borrow().contains(&**number), "taken before it was shown");
                            taken.push(**number);
                        },
                    );
                    let expected: Vec<i32> = seen.drain(..count.min(seen.len())).collect();
                    prop_assert_eq!(drained, expected.len());
                    prop_assert_eq!(&taken, &expected);
                    prop_assert_eq!(peeked.into_inner(), expected, "each is shown once");
                }
            }
            prop_assert_eq!(consumer.waiting(), seen.len());
            let room = capacity - written.len() - seen.len();
            prop_assert!(producer.room_up_to(1).min(1) == room.min(1));
            prop_assert_eq!(producer.room(), room);
            prop_assert_eq!(Arc::strong_count(&owners) - 1, written.len() + seen.len());
        }
        drop((producer, consumer));
        prop_assert_eq!(Arc::strong_count(&owners), 1, "all were dropped, once");
    }
}

#[test]
fn positions_wrap_around() {
    let (mut producer, mut consumer) = ring(3);
    // As after 2^64 messages.
    let late = usize::MAX - 4;
    producer.shared.tail.0.store(late, Ordering::Relaxed);
    producer.shared.head.0.store(late, Ordering::Relaxed);
    (producer.tail, producer.published) = (late, late);
    producer.head.set(late);
    consumer.head = late;
    consumer.tail.set(late);
    for number in 0..20 {
        for part in 0..3 {
            assert!(producer.push_with(|| 3 * number + part));
        }
        assert!(!producer.push_with(|| unreachable!("there is no room")));
        producer.publish();
        let mut taken = Vec::new();
        assert_eq!(consumer.drain(4, |_| (), |message| taken.push(*message)), 3);
        assert_eq!(taken, [3 * number, 3 * number + 1, 3 * number + 2]);
    }
}

#[test]
fn a_consumer_that_panics_loses_nothing_and_drops_nothing_twice() {
    let owners = Arc::new(());
    let (mut producer, mut consumer) = ring(4);
    for number in 0..4 {
        assert!(producer.push_with(|| (number, Arc::clone(&owners))));
    }
    producer.publish();
    let result = catch_unwind(AssertUnwindSafe(|| {
        consumer.drain(4, |_| (), |(number, _)| assert!(*number < 2, "the third"));
    }));
    assert!(result.is_err());
    assert_eq!(Arc::strong_count(&owners), 3, "two are left");
    assert_eq!(consumer.pop().unwrap().0, 2);
    drop((producer, consumer));
    assert_eq!(Arc::strong_count(&owners), 1);
}

#[test]
fn a_producer_hears_that_nobody_takes() {
    let (producer, consumer) = ring::<u32>(4);
    assert!(!producer.is_closed());
    drop(consumer);
    assert!(producer.is_closed());
}

#[test]
fn messages_cross_between_threads_in_order() {
    const COUNT: u32 = if cfg!(miri) { 200 } else { 200_000 };
    let (mut producer, mut consumer) = ring(7);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..COUNT {
                while !producer.push_with(|| Box::new(number)) {
                    producer.publish();
                    std::thread::yield_now();
                }
                if number % 3 == 0 {
                    producer.publish();
                }
            }
        });
        let mut next = 0;
        while next < COUNT {
            let taken = consumer.drain(
                5,
                |_| (),
                |number| {
                    assert_eq!(**number, next);
                    next += 1;
                },
            );
            if taken == 0 {
                std::thread::yield_now();
            }
        }
    });
}
