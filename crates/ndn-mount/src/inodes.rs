//! Inodes: numbers that the kernel uses for names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::INodeNo;
use ndn_access::Stat;
use ndn_packet::Name;

/// A directory, or one version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inode {
    /// Name without version.
    pub(crate) name: Name,
    pub(crate) stat: Stat,
}

/// The identity of an inode: the name of a directory, or the name and version of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    name: Name,
    version: Option<Name>,
}

impl Identity {
    fn of(inode: &Inode) -> Self {
        let version = (!inode.stat.is_directory).then(|| inode.stat.name.clone());
        Self { name: inode.name.clone(), version }
    }
}

#[derive(Debug)]
struct Known {
    inode: Arc<Inode>,
    /// Number of times that the kernel was given the number and has not forgotten it.
    look_ups: u64,
}

/// The inodes that the kernel knows. It forgets those that it needs no more, so there are as many as in its own caches.
#[derive(Debug)]
pub(crate) struct Inodes {
    tables: Mutex<Tables>,
}

#[derive(Debug)]
struct Tables {
    by_number: HashMap<u64, Known>,
    numbers: HashMap<Identity, u64>,
    next: u64,
}

impl Inodes {
    /// With the root, which is never forgotten.
    pub(crate) fn new(root: Inode) -> Self {
        let numbers = HashMap::from([(Identity::of(&root), INodeNo::ROOT.0)]);
        let known = Known { inode: Arc::new(root), look_ups: 1 };
        let by_number = HashMap::from([(INodeNo::ROOT.0, known)]);
        let tables = Tables { by_number, numbers, next: INodeNo::ROOT.0 + 1 };
        Self { tables: Mutex::new(tables) }
    }

    pub(crate) fn find(&self, number: INodeNo) -> Option<Arc<Inode>> {
        self.lock().by_number.get(&number.0).map(|known| Arc::clone(&known.inode))
    }

    /// The number of an inode that the kernel is given now: it counts until it is forgotten.
    pub(crate) fn look_up(&self, inode: Inode) -> INodeNo {
        let mut tables = self.lock();
        let identity = Identity::of(&inode);
        let number = match tables.numbers.get(&identity) {
            Some(&number) => number,
            None => {
                let number = tables.next;
                tables.next += 1;
                tables.numbers.insert(identity, number);
                number
            }
        };
        let inode = Arc::new(inode);
        let known = tables.by_number.entry(number);
        let known = known.or_insert_with(|| Known { inode: Arc::clone(&inode), look_ups: 0 });
        // Attributes of directories change.
        known.inode = inode;
        known.look_ups += 1;
        INodeNo(number)
    }

    /// The kernel forgets a number that it was given `look_ups` times.
    pub(crate) fn forget(&self, number: INodeNo, look_ups: u64) {
        if number == INodeNo::ROOT {
            return;
        }
        let mut tables = self.lock();
        let Some(known) = tables.by_number.get_mut(&number.0) else { return };
        known.look_ups = known.look_ups.saturating_sub(look_ups);
        if known.look_ups == 0 {
            let identity = Identity::of(&known.inode);
            tables.by_number.remove(&number.0);
            tables.numbers.remove(&identity);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(uri: &str, version: u64, is_directory: bool) -> Inode {
        let name = Name::from_uri(uri).unwrap();
        let mut versioned = name.clone();
        versioned.push_version(version);
        let (size, modified_ns, permissions) = (None, None, None);
        let stat = Stat { name: versioned, is_directory, size, modified_ns, permissions };
        Inode { name, stat }
    }

    #[test]
    fn versions_of_files_have_their_own_numbers() {
        let inodes = Inodes::new(inode("/x", 1, true));
        let old = inodes.look_up(inode("/x/file", 1, false));
        let new = inodes.look_up(inode("/x/file", 2, false));
        assert_ne!(old, new);
        assert_eq!(inodes.look_up(inode("/x/file", 1, false)), old);
        assert_eq!(inodes.find(old).unwrap().stat.version(), Some(1));
        assert_eq!(inodes.find(new).unwrap().stat.version(), Some(2));
    }

    #[test]
    fn directories_keep_their_number() {
        let inodes = Inodes::new(inode("/x", 1, true));
        assert_eq!(inodes.look_up(inode("/x", 2, true)), INodeNo::ROOT);
        let old = inodes.look_up(inode("/x/d", 1, true));
        assert_eq!(inodes.look_up(inode("/x/d", 2, true)), old);
        assert_eq!(inodes.find(old).unwrap().stat.version(), Some(2));
    }

    #[test]
    fn inode_is_removed_with_its_last_lookup() {
        let inodes = Inodes::new(inode("/x", 1, true));
        let number = inodes.look_up(inode("/x/file", 1, false));
        inodes.look_up(inode("/x/file", 1, false));
        inodes.forget(number, 1);
        assert!(inodes.find(number).is_some());
        inodes.forget(number, 1);
        assert!(inodes.find(number).is_none());
        // Another number: the kernel may still have requests for the old one.
        assert_ne!(inodes.look_up(inode("/x/file", 1, false)), number);
        inodes.forget(INodeNo::ROOT, 100);
        assert!(inodes.find(INodeNo::ROOT).is_some());
        let tables = inodes.lock();
        assert_eq!(tables.numbers.len(), tables.by_number.len());
    }
}
