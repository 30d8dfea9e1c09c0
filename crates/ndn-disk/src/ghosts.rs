//! Memory of the names that were evicted once, for admission at the second eviction.

/// Tags of a set.
const WAYS: usize = 4;
/// Sets of the smallest filter.
const SETS_MIN: usize = 1024;

/// Hashes that were offered before, two bytes each. The oldest of a set is forgotten for a new one.
#[derive(Debug)]
pub(crate) struct Ghosts {
    sets: Vec<[u16; WAYS]>,
}

impl Ghosts {
    /// A filter that remembers the last `hashes`, approximately.
    pub(crate) fn new(hashes: usize) -> Self {
        let sets = (hashes / WAYS).next_power_of_two().max(SETS_MIN);
        Self { sets: vec![[0; WAYS]; sets] }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.sets.len() * size_of::<[u16; WAYS]>()
    }

    /// Whether the hash was seen before; it is remembered if not, and forgotten if so. One in 16,384 hashes that were
    /// not seen counts as seen.
    pub(crate) fn is_second(&mut self, hash: u64) -> bool {
        let [t0, t1, ..] = hash.to_le_bytes();
        let tag = u16::from_le_bytes([t0, t1]).max(1);
        let mask = self.sets.len() - 1;
        let set = &mut self.sets[usize::try_from(hash >> 20).unwrap_or(0) & mask];
        match set.iter().position(|&seen| seen == tag) {
            Some(position) => {
                set[position..].rotate_left(1);
                set[WAYS - 1] = 0;
                true
            }
            None => {
                set.rotate_right(1);
                set[0] = tag;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_offer_is_recognized_and_a_scan_is_not() {
        let hash = |key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key << 50;
        let mut ghosts = Ghosts::new(4096);
        assert!(!ghosts.is_second(hash(1)) && ghosts.is_second(hash(1)));
        assert!(!ghosts.is_second(hash(1)), "forgotten when it was admitted");
        let admitted = (10..1_000_010).filter(|&key| ghosts.is_second(hash(key))).count();
        assert!(admitted < 300, "{admitted} of a scan");
        let recent = 1_000_010 - 1000..1_000_010;
        assert!(recent.filter(|&key| ghosts.is_second(hash(key))).count() > 900);
    }
}
