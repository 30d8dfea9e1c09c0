//! Maximum frame length of a session, which follows the MTU of its path.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

type Listener = Box<dyn Fn(usize) + Send + Sync>;

/// Longest frame that a session takes at the moment, bytes. QUIC looks for the longest datagrams that the path takes
/// (RFC 9000, section 14.3), and notices when long ones do not arrive any more. Peers that read streams take any packet.
#[derive(Clone)]
pub struct PathMtu {
    length: Arc<AtomicUsize>,
    listener: Arc<OnceLock<Listener>>,
}

impl PathMtu {
    pub(crate) fn new(length: usize) -> Self {
        Self { length: Arc::new(AtomicUsize::new(length)), listener: Arc::default() }
    }

    /// The length now.
    #[must_use]
    pub fn value(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// The current length, read before each frame.
    #[must_use]
    pub fn shared(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.length)
    }

    /// Calls `listener` on each change from now on, on the thread of the session. There is one listener.
    pub fn notify(&self, listener: impl Fn(usize) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    pub(crate) fn set(&self, length: usize) {
        if self.length.swap(length, Ordering::Relaxed) == length {
            return;
        }
        if let Some(listener) = self.listener.get() {
            listener(length);
        }
    }
}

impl fmt::Debug for PathMtu {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PathMtu({})", self.value())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn changes_are_reported_once() {
        let mtu = PathMtu::new(1162);
        let reported = Arc::new(Mutex::new(Vec::new()));
        mtu.set(1200);
        let of_listener = Arc::clone(&reported);
        mtu.clone().notify(move |length| of_listener.lock().unwrap().push(length));
        for length in [1200, 1414, 1414, 1162] {
            mtu.set(length);
        }
        assert_eq!(*reported.lock().unwrap(), [1414, 1162]);
        assert_eq!((mtu.value(), mtu.shared().load(Ordering::Relaxed)), (1162, 1162));
    }
}
