//! The highest verified version of each object: older ones are not served again.

use std::collections::HashMap;

use ndn_packet::NameRef;
use ndn_security::sha256;

/// Maximum number of objects in each of the two generations.
const GENERATION_MAX: usize = 1 << 19;

/// Prefix of the digest of an object's name without version.
type Key = [u8; 16];

/// Versions by object. When the young generation is full, it becomes the old one, and entries of
/// the old one that were not used since are dropped: objects that are requested regularly stay.
#[derive(Debug)]
pub(crate) struct Versions {
    young: HashMap<Key, u64>,
    old: HashMap<Key, u64>,
    generation_max: usize,
}

impl Default for Versions {
    fn default() -> Self {
        Self::with_generations_of(GENERATION_MAX)
    }
}

impl Versions {
    fn with_generations_of(generation_max: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), generation_max }
    }

    /// Records a verified object with this name, which ends in its version.
    ///
    /// # Errors
    /// The version verified before, if it is higher.
    pub(crate) fn note(&mut self, name: NameRef<'_>) -> Result<(), u64> {
        let Some(version) = name.last().and_then(|last| last.as_version_or_marked()) else {
            return Ok(());
        };
        let digest = sha256(name.parent().value());
        let Some(&key) = digest.first_chunk() else { return Ok(()) };
        let highest = self.young.get(&key).or_else(|| self.old.get(&key)).copied();
        let now_highest = highest.unwrap_or(0).max(version);
        if self.young.len() >= self.generation_max && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, now_highest);
        match highest {
            Some(highest) if highest > version => Err(highest),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ndn_packet::Name;
    use proptest::prelude::*;

    use super::*;

    fn object(number: u8, version: u64) -> Name {
        let mut name = Name::from_uri("/x").unwrap();
        name.push_generic([number]).push_version(version);
        name
    }

    proptest! {
        /// Against a map that drops nothing: equal while there is room for all; and every rejected
        /// version is an older one.
        #[test]
        fn older_versions_are_rejected(
            notes in prop::collection::vec((0_u8..12, 0_u64..6), 0..200),
            generation_max in 1_usize..14,
        ) {
            let mut versions = Versions::with_generations_of(generation_max);
            let mut model = BTreeMap::<u8, u64>::new();
            for (number, version) in notes {
                let highest = model.get(&number).copied().filter(|highest| *highest > version);
                let noted = versions.note(object(number, version).as_ref());
                if generation_max >= 12 {
                    prop_assert_eq!(noted, highest.map_or(Ok(()), Err));
                } else if let Err(refused_for) = noted {
                    prop_assert!(highest.is_some_and(|highest| highest >= refused_for));
                    prop_assert!(refused_for > version);
                }
                let known = model.entry(number).or_default();
                *known = version.max(*known);
                prop_assert!(versions.young.len() <= generation_max);
                prop_assert!(versions.old.len() <= generation_max);
            }
        }
    }

    #[test]
    fn regularly_requested_objects_are_kept() {
        let mut versions = Versions::with_generations_of(4);
        versions.note(object(0, 9).as_ref()).unwrap();
        for number in 1..200 {
            versions.note(object(number, 1).as_ref()).unwrap();
            if number % 3 == 0 {
                assert_eq!(versions.note(object(0, 8).as_ref()), Err(9));
            }
        }
        let unversioned = Name::from_uri("/x/y").unwrap();
        assert_eq!(versions.note(unversioned.as_ref()), Ok(()));
    }
}
