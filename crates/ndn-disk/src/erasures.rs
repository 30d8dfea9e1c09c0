//! Erased prefixes. Records stay on the disk, and are ignored if they are older than the erasure of a prefix of their
//! name. The log loses its oldest records first, so an erasure is forgotten with its own record.

/// Maximum number of erased prefixes that are remembered.
pub(crate) const ERASURES_MAX: usize = 256;

/// Place in the log: sequence number of the segment, and unit in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) sequence: u64,
    pub(crate) unit: u32,
}

#[derive(Clone, Debug)]
struct Erasure {
    /// Value of the name.
    prefix: Box<[u8]>,
    /// Records before this are erased.
    position: Position,
    is_written: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Erasures(Vec<Erasure>);

impl Erasures {
    /// Remembers an erasure that `is_written` to the log, or has to be. Returns false if there are too many.
    pub(crate) fn add(&mut self, prefix: &[u8], position: Position, is_written: bool) -> bool {
        let includes = |one: &Erasure| one.prefix.starts_with(prefix) && one.position <= position;
        self.0.retain(|one| !includes(one));
        let has_room = self.0.len() < ERASURES_MAX;
        if has_room {
            self.0.push(Erasure { prefix: prefix.into(), position, is_written });
        }
        has_room
    }

    /// Whether a record is erased.
    #[inline]
    pub(crate) fn cover(&self, name: &[u8], position: Position) -> bool {
        self.0.iter().any(|one| position < one.position && name.starts_with(&one.prefix))
    }

    /// The next prefix to be written to the log.
    pub(crate) fn unwritten(&self) -> Option<&[u8]> {
        self.0.iter().find(|one| !one.is_written).map(|one| &*one.prefix)
    }

    /// Notes that the prefix returned by [`unwritten`](Self::unwritten) has been written.
    pub(crate) fn note_written(&mut self, position: Position) {
        if let Some(one) = self.0.iter_mut().find(|one| !one.is_written) {
            *one = Erasure { is_written: true, position, ..one.clone() };
        }
    }

    /// Forgets the erasures of segments before `oldest`, which are written.
    pub(crate) fn forget_before(&mut self, oldest: u64) {
        self.0.retain(|one| !one.is_written || one.position.sequence >= oldest);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erasure_covers_older_records_of_its_prefix() {
        let at = |sequence, unit| Position { sequence, unit };
        let mut erasures = Erasures::default();
        assert!(erasures.add(b"\x08\x01a", at(2, 5), true));
        assert!(erasures.cover(b"\x08\x01a\x08\x01b", at(2, 4)));
        assert!(erasures.cover(b"\x08\x01a", at(1, 9)));
        assert!(!erasures.cover(b"\x08\x01a", at(2, 5)));
        assert!(!erasures.cover(b"\x08\x01b", at(1, 1)));
        assert!(erasures.add(b"", at(3, 0), false));
        assert_eq!(erasures.0.len(), 1, "the root includes it");
        assert_eq!(erasures.unwritten(), Some(&b""[..]));
        erasures.forget_before(9);
        erasures.note_written(at(3, 1));
        assert_eq!(erasures.unwritten(), None);
        erasures.forget_before(3);
        assert!(erasures.cover(b"\x08\x01b", at(3, 0)));
        erasures.forget_before(4);
        assert!(!erasures.cover(b"\x08\x01b", at(1, 1)));
    }
}
