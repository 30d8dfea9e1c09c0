//! Sources of time and randomness of a forwarder.

use ndn_sys::clock::Clock;
use ndn_types::Now;
use ndn_types::random::Random;

/// The clock and the seeds of one forwarder. On a manual clock and with given seeds, a forwarder repeats exactly.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Read by the control thread and the workers.
    pub clock: Clock,
    /// Source of all randomness.
    pub seeds: Seeds,
}

impl Environment {
    /// The system clocks and random seeds.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the embedding program asks for the system clocks"
    )]
    pub fn system() -> Self {
        Self { clock: Clock::system(), seeds: Seeds::random() }
    }
}

/// Seeds of the random values in a forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// Key of the hash function of names (SipHash).
    pub name_hash_key: [u8; 16],
    /// NDNLPv2 Sequence of the first fragment of each worker.
    pub first_sequence: u64,
    /// Nonces of Interests that arrive without one.
    pub nonce: u64,
    /// Selection of the worker whose socket receives from a UDP peer.
    pub peer_spread: u64,
}

impl Seeds {
    /// Seeds from the system's random numbers.
    #[must_use]
    pub fn random() -> Self {
        Self {
            name_hash_key: rand::random(),
            first_sequence: rand::random(),
            nonce: rand::random(),
            peer_spread: rand::random(),
        }
    }

    /// Seeds that derive from one number, for simulation.
    #[must_use]
    pub fn from_number(seed: u64) -> Self {
        let mut random = Random::with_state(seed);
        let [first, second, first_sequence, nonce, peer_spread] = [(); 5].map(|()| random.bits());
        let mut name_hash_key = [0; 16];
        name_hash_key[..8].copy_from_slice(&first.to_le_bytes());
        name_hash_key[8..].copy_from_slice(&second.to_le_bytes());
        Self { name_hash_key, first_sequence, nonce, peer_spread }
    }
}

/// Reads both clocks.
pub(crate) fn now(clock: &Clock) -> Now {
    Now { monotonic: clock.now(), unix: clock.unix_time() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_derive_from_one_number() {
        let seeds = Seeds::from_number(7);
        assert_eq!(seeds, Seeds::from_number(7));
        assert_ne!(seeds, Seeds::from_number(8));
        assert_ne!(seeds.name_hash_key[..8], seeds.name_hash_key[8..]);
        assert_ne!(seeds.nonce, seeds.first_sequence);
    }
}
