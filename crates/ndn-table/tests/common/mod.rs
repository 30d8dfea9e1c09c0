//! Names and packets for the model tests.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "test helpers fail loudly")]

use ndn_packet::NameRef;
use ndn_table::{
    DataKey, EraseRest, EraseSearch, InterestKey, NameHasher, PREFIX_HASHES_MAX, Pcct,
};

pub(crate) fn hasher() -> NameHasher {
    NameHasher::new(*b"key of the tests")
}

/// Erases up to `limit` Data at or below a name. Returns the number of them, and whether there are more.
pub(crate) fn erase(pcct: &mut Pcct, name: &Hashed, limit: usize) -> (usize, bool) {
    let (mut search, mut erased) = (EraseSearch::default(), 0);
    loop {
        let result = pcct.erase_data(&name.data(), &mut search, limit - erased);
        erased += result.erased;
        match result.rest {
            EraseRest::NotSearched => {}
            EraseRest::Nothing => return (erased, false),
            EraseRest::Data => return (erased, true),
        }
    }
}

/// A name of generic components of two bytes.
pub(crate) fn name_of(components: &[u16]) -> Vec<u8> {
    components
        .iter()
        .flat_map(|number| {
            let [high, low] = number.to_be_bytes();
            [8, 2, high, low]
        })
        .collect()
}

/// `value` as a name, with its prefix hashes.
#[derive(Clone, Debug)]
pub(crate) struct Hashed {
    pub(crate) value: Vec<u8>,
    pub(crate) count: usize,
    pub(crate) hashes: [u64; PREFIX_HASHES_MAX],
}

impl Hashed {
    pub(crate) fn new(value: &[u8]) -> Self {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = hasher().hash_value_prefixes(value, &mut hashes).unwrap();
        Self { value: value.to_vec(), count, hashes }
    }

    pub(crate) fn name(&self) -> NameRef<'_> {
        NameRef::from_value(&self.value).unwrap()
    }

    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes[..self.count]
    }

    pub(crate) fn interest(&self, can_be_prefix: bool, must_be_fresh: bool) -> InterestKey<'_> {
        InterestKey::new(self.name(), self.hashes(), can_be_prefix, must_be_fresh)
    }

    pub(crate) fn data(&self) -> DataKey<'_> {
        DataKey::new(self.name(), self.hashes())
    }
}

fn element(kind: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    match u8::try_from(value.len()) {
        Ok(length) if length < 0xFD => out.push(length),
        _ => {
            out.push(0xFD);
            out.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        }
    }
    out.extend(value);
    out
}

/// An Interest of this name, padded with parameters.
pub(crate) fn interest(name: &[u8], padding: usize) -> Vec<u8> {
    let parts = [element(7, name), element(10, &[1, 2, 3, 4]), element(36, &vec![0; padding])];
    element(5, &parts.concat())
}

/// A Data of this name with this content.
pub(crate) fn data(name: &[u8], content: &[u8]) -> Vec<u8> {
    let parts =
        [element(7, name), element(21, content), element(22, &[27, 1, 0]), element(23, &[0; 4])];
    element(6, &parts.concat())
}

/// Stands in for SHA-256: different for different packets.
pub(crate) fn digest(packet: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    for (place, chunk) in digest.chunks_exact_mut(8).zip(0_u64..) {
        let words = packet.iter().fold(chunk ^ 0x9e37_79b9_7f4a_7c15, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3).rotate_left(5)
        });
        place.copy_from_slice(&words.to_le_bytes());
    }
    digest
}

/// `name` with an implicit digest at its end.
pub(crate) fn with_digest(name: &[u8], digest: &[u8; 32]) -> Vec<u8> {
    [name, &[1, 32], digest].concat()
}

/// Reproducible random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(ndn_types::random::Random);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ndn_types::random::Random::with_state(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
