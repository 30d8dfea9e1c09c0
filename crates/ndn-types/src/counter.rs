//! The declaration of a counter and of a drop reason: name, kind, unit, help text, and the label of a counter in
//! `namewire status` if it is shown there.
//!
//! [`counters!`](crate::counters) declares a set of counters. From the declaration follow the structure that one thread
//! writes, the structure of its values at a moment, their sum and difference, their form on the control socket and in
//! JSON, and the reference page:
//!
//! ```
//! ndn_types::counters! {
//!     /// Counters of a queue.
//!     #[derive(Debug, Default)]
//!     pub struct QueueCounters, QueueValues {
//!         /// Packets that were queued.
//!         queued: Monotone(Packets),
//!         /// Bytes in the queue now.
//!         bytes: Gauge(Bytes) as "bytes queued",
//!     }
//! }
//! let counters = QueueCounters::default();
//! counters.queued.increment();
//! assert_eq!(counters.values().queued, 1);
//! ```
//!
//! [`counter_values!`](crate::counter_values) declares values alone, where they are computed from something else, and
//! [`drop_reasons!`](crate::drop_reasons) an enumeration of drop reasons.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that a single thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    ///
    /// A load and a store instead of an atomic addition: only one thread writes.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Replaces the value, for gauges.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The current value.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The kind of change of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterKind {
    /// It only grows.
    Monotone,
    /// It grows and shrinks: the state at a moment.
    Gauge,
}

/// The unit of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unit {
    Blocks,
    Bursts,
    Bytes,
    Calls,
    Commands,
    Connections,
    Datagrams,
    Entries,
    Frames,
    Marks,
    Messages,
    Nanoseconds,
    Packets,
    Polls,
    Requests,
    Rounds,
    Sessions,
    Streams,
    Wakes,
}

impl Unit {
    /// The unit as a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Bursts => "bursts",
            Self::Bytes => "bytes",
            Self::Calls => "system calls",
            Self::Commands => "commands",
            Self::Connections => "connections",
            Self::Datagrams => "datagrams",
            Self::Entries => "entries",
            Self::Frames => "frames",
            Self::Marks => "marks",
            Self::Messages => "messages",
            Self::Nanoseconds => "nanoseconds",
            Self::Packets => "packets",
            Self::Polls => "polls",
            Self::Requests => "requests",
            Self::Rounds => "rounds",
            Self::Sessions => "sessions",
            Self::Streams => "streams",
            Self::Wakes => "wake-ups",
        }
    }
}

/// The declaration of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterInfo {
    /// Name on the control socket, in JSON and in metrics: lower case with underscores.
    pub name: &'static str,
    /// The kind of change.
    pub kind: CounterKind,
    /// The unit.
    pub unit: Unit,
    /// Its documentation, as sentences.
    pub help: &'static str,
    /// Label in the text of `namewire status`; `None` if it is not shown there.
    pub label: Option<&'static str>,
}

/// The values of a declared set of counters at a moment.
pub trait CounterValues: Copy + Default + 'static {
    /// Each value with its declaration, in the order of the declaration.
    fn entries(&mut self) -> Vec<(&'static CounterInfo, &mut u64)>;

    /// The declarations.
    #[must_use]
    fn declarations() -> Vec<&'static CounterInfo> {
        Self::default().entries().into_iter().map(|(info, _)| info).collect()
    }

    /// The values by name.
    #[must_use]
    fn named<T: FromIterator<(String, u64)>>(mut self) -> T {
        let entries = self.entries().into_iter();
        entries.map(|(info, value)| (info.name.to_owned(), *value)).collect()
    }

    /// Adds the values of another set, such as those of another worker.
    fn add(&mut self, mut other: Self) {
        for ((_, sum), (_, part)) in self.entries().into_iter().zip(other.entries()) {
            *sum += *part;
        }
    }

    /// The sum of several sets, such as those of all workers.
    #[must_use]
    fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |mut sum, one| {
            sum.add(one);
            sum
        })
    }
}

/// Declares a set of counters, and the structure of their values. See the documentation of the module `counter`.
///
/// Fields after `state` belong to the structure of counters only: they are no counters.
#[macro_export]
macro_rules! counters {
    (
        $(#[$meta:meta])*
        pub struct $Counters:ident, $Values:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $kind:ident($unit:ident) $(as $label:literal)?,
            )+
            $( state $( $(#[$state_meta:meta])* $visibility:vis $state:ident: $State:ty, )+ )?
        }
    ) => {
        $(#[$meta])*
        pub struct $Counters {
            $( $(#[doc = $help])+ pub $field: $crate::Counter, )+
            $( $( $(#[$state_meta])* $visibility $state: $State, )+ )?
        }

        impl $Counters {
            /// The values at this moment. While their thread runs, they may be read at different moments.
            #[must_use]
            pub fn values(&self) -> $Values {
                $Values { $( $field: self.$field.value(), )+ }
            }

            /// Adds values to the counters.
            pub fn add(&self, values: &$Values) {
                $( self.$field.add(values.$field); )+
            }
        }

        $crate::counter_values! {
            #[doc = concat!("Values of [`", stringify!($Counters), "`].")]
            pub struct $Values {
                $( $(#[doc = $help])+ $field: $kind($unit) $(as $label)?, )+
            }
        }
    };
}

/// Declares the structure of the values of a set of counters. See the documentation of the module `counter`.
#[macro_export]
macro_rules! counter_values {
    (
        $(#[$meta:meta])*
        pub struct $Values:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $kind:ident($unit:ident) $(as $label:literal)?,
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $Values {
            $( $(#[doc = $help])+ pub $field: u64, )+
        }

        impl $crate::CounterValues for $Values {
            fn entries(&mut self) -> Vec<(&'static $crate::CounterInfo, &mut u64)> {
                vec![$((
                    const {
                        &$crate::CounterInfo {
                            name: stringify!($field),
                            kind: $crate::CounterKind::$kind,
                            unit: $crate::Unit::$unit,
                            help: concat!($($help),+).trim_ascii(),
                            label: $crate::optional_text!($($label)?),
                        }
                    },
                    &mut self.$field,
                )),+]
            }
        }
    };
}

/// The declaration of a drop reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropReasonInfo {
    /// When packets are dropped for it.
    pub stage: &'static str,
    /// Name on the control socket, in JSON and in metrics: lower case with underscores.
    pub name: &'static str,
    /// Name in text output, if it is not `name` with spaces.
    pub words: Option<&'static str>,
    /// Why the packet is dropped, as sentences.
    pub help: &'static str,
}

/// Declares an enumeration of drop reasons by stage, with the name of each, and its words for text output if they
/// differ from the name.
///
/// ```
/// ndn_types::drop_reasons! {
///     /// Why a queue dropped a packet.
///     pub enum QueueDropReason {
///         "Sending" {
///             /// The queue is full.
///             Full = "full" as "without room",
///             /// The packet waited for too long.
///             TooLate = "too_late",
///         }
///     }
/// }
/// assert_eq!(QueueDropReason::Full.info().help, "The queue is full.");
/// ```
#[macro_export]
macro_rules! drop_reasons {
    (
        $(#[$meta:meta])*
        pub enum $Reason:ident {
            $( $stage:literal {
                $( $(#[doc = $help:literal])+ $variant:ident = $name:literal $(as $words:literal)?, )+
            } )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $Reason {
            $($( $(#[doc = $help])+ $variant, )+)+
        }

        impl $Reason {
            /// All reasons, in the order of their numbers.
            pub const ALL: [Self; Self::COUNT] = [$($(Self::$variant),+),+];

            /// Number of reasons.
            pub const COUNT: usize = Self::INFO.len();

            const INFO: &[$crate::DropReasonInfo] = &[$($($crate::DropReasonInfo {
                stage: $stage,
                name: $name,
                words: $crate::optional_text!($($words)?),
                help: concat!($($help),+).trim_ascii(),
            }),+),+];

            /// The number of the reason, which is the index of its counter.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self as usize
            }

            /// The declaration.
            #[must_use]
            pub const fn info(self) -> &'static $crate::DropReasonInfo {
                &Self::INFO[self.index()]
            }

            /// Name in metrics and logs: lower case with underscores.
            #[must_use]
            pub const fn name(self) -> &'static str {
                self.info().name
            }
        }
    };
}

/// `Some` of a literal, if there is one.
#[doc(hidden)]
#[macro_export]
macro_rules! optional_text {
    () => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}

#[cfg(test)]
mod tests {
    #![allow(unreachable_pub, reason = "the macros declare public items")]
    use super::*;

    counters! {
        /// Counters of a test.
        #[derive(Debug, Default)]
        pub struct TestCounters, TestValues {
            /// Packets that were received,
            /// of any kind.
            received: Monotone(Packets),
            /// Bytes in use.
            used_bytes: Gauge(Bytes) as "used",
            state
            /// The time of the last packet.
            pub last_ns: Counter,
        }
    }

    #[test]
    fn counter_declaration_generates_values_sums_and_names() {
        let counters = TestCounters::default();
        counters.received.add(1);
        counters.add(&TestValues { received: 2, used_bytes: 0 });
        counters.used_bytes.set(7);
        counters.last_ns.set(9);
        let values = counters.values();
        assert_eq!(values, TestValues { received: 3, used_bytes: 7 });
        let other = TestValues { received: 1, used_bytes: 2 };
        assert_eq!(TestValues::sum([values, other]), TestValues { received: 4, used_bytes: 9 });
        let declared = TestValues::declarations();
        let first = CounterInfo {
            name: "received",
            kind: CounterKind::Monotone,
            unit: Unit::Packets,
            help: "Packets that were received, of any kind.",
            label: None,
        };
        assert_eq!(*declared[0], first);
        assert_eq!((declared.len(), declared[1].kind), (2, CounterKind::Gauge));
        assert_eq!(declared[1].label, Some("used"));
    }

    drop_reasons! {
        /// Reasons of a test.
        pub enum TestReason {
            "Receiving" {
                /// It is malformed.
                Malformed = "malformed",
            }
            "Sending" {
                /// The link is down.
                Down = "down" as "without a connection",
            }
        }
    }

    #[test]
    fn reasons_have_the_number_of_their_counter_and_a_declaration() {
        assert_eq!(TestReason::ALL, [TestReason::Malformed, TestReason::Down]);
        assert_eq!((TestReason::COUNT, TestReason::Down.index()), (2, 1));
        assert_eq!((TestReason::Down.name(), TestReason::Down.info().stage), ("down", "Sending"));
        assert_eq!(TestReason::Down.info().words, Some("without a connection"));
        assert_eq!((TestReason::Malformed.info().words, TestReason::ALL.len()), (None, 2));
    }
}
