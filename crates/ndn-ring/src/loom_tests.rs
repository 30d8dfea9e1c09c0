//! The return list under loom, for few threads.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ndn-ring --release --lib loom`

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;

use crate::SleepFlag;
use crate::return_list::ReturnList;

#[test]
fn no_release_is_lost() {
    loom::model(|| {
        let list = Arc::new(ReturnList::new(2));
        let threads: Vec<_> = [[0, 1], [0, 0]]
            .into_iter()
            .map(|blocks| {
                let list = Arc::clone(&list);
                thread::spawn(move || blocks.into_iter().for_each(|block| list.release(block, 1)))
            })
            .collect();
        let mut returned = [0; 2];
        list.drain(|block, released| returned[block as usize] += released);
        threads.into_iter().for_each(|thread| thread.join().expect("a releasing thread"));
        list.drain(|block, released| returned[block as usize] += released);
        assert_eq!(returned, [3, 1]);
        assert!(list.is_empty());
    });
}

/// Two readers of one block release it; the owner may write only after both, without waiting for
/// the threads themselves.
#[test]
fn owner_writes_after_the_last_reader() {
    loom::model(|| {
        let list = Arc::new(ReturnList::new(1));
        let block = Arc::new(UnsafeCell::new(1_u32));
        for _ in 0..2 {
            let (list, block) = (Arc::clone(&list), Arc::clone(&block));
            thread::spawn(move || {
                // SAFETY: the owner writes only after both releases; loom checks exactly that.
                assert_eq!(block.with(|value| unsafe { *value }), 1);
                list.release(0, 1);
            });
        }
        let mut returned = 0;
        for _ in 0..2 {
            list.drain(|_, released| returned += released);
        }
        if returned == 2 {
            // SAFETY: both readers have released the block.
            block.with_mut(|value| unsafe { *value = 2 });
        }
    });
}

/// A reader retains, and two threads release its two references: whichever releases the owner sees,
/// it sees the retain before them.
#[test]
fn release_is_never_seen_before_its_retain() {
    loom::model(|| {
        let list = Arc::new(ReturnList::new(1));
        let first = {
            let list = Arc::clone(&list);
            thread::spawn(move || {
                list.retain(0, 1);
                let other = {
                    let list = Arc::clone(&list);
                    thread::spawn(move || list.release(0, 1))
                };
                list.release(0, 1);
                other.join().expect("the second reader");
            })
        };
        let mut references = 1_u64;
        let mut drain = || {
            list.drain(|block, released| {
                references += list.take_retained(block);
                references = references.checked_sub(released).expect("retained before released");
            });
        };
        drain();
        first.join().expect("the first reader");
        drain();
        assert_eq!(references, 0);
        assert_eq!(list.take_retained(0), 0);
        assert!(list.is_empty());
    });
}

/// A ring whose reader may sleep: every message is taken in every interleaving. A lost wake-up
/// would be a deadlock, which loom reports.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let flag = Arc::new(SleepFlag::new());
        let waker = Arc::new(Notify::new());
        let messages = Arc::new(AtomicU32::new(0));
        {
            let (flag, waker) = (Arc::clone(&flag), Arc::clone(&waker));
            let messages = Arc::clone(&messages);
            thread::spawn(move || {
                for _ in 0..2 {
                    messages.fetch_add(1, Ordering::Release);
                    if flag.take_wake() {
                        waker.notify();
                    }
                }
            });
        }
        let mut taken = 0;
        while taken < 2 {
            let found = messages.swap(0, Ordering::Acquire);
            taken += found;
            if found == 0 {
                flag.prepare();
                if messages.load(Ordering::Acquire) == 0 {
                    waker.wait();
                }
                flag.awake();
            }
        }
    });
}
