//! To which addresses of a device UDP is taken.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use crate::xdp::bpf::KeySet;

/// Addresses of a device at most; what is sent to others goes to the kernel.
const ADDRESSES_MAX: usize = 256;

/// As the program looks for it: the hardware address, two zeros, the address as IPv6 writes it.
type Key = [u8; 24];

/// The addresses of a device, as they are at the moment, to which UDP is taken. Any thread may change them while
/// frames come; those to other addresses go to the kernel.
#[derive(Debug)]
pub struct XdpAddresses {
    map: KeySet<24>,
    /// What is in the map.
    keys: Mutex<BTreeSet<Key>>,
}

impl XdpAddresses {
    /// None yet.
    pub(super) fn new() -> io::Result<Self> {
        let entries_max = u32::try_from(ADDRESSES_MAX).unwrap_or(u32::MAX);
        Ok(Self { map: KeySet::new(entries_max)?, keys: Mutex::default() })
    }

    /// The device has these addresses from now on, and none besides.
    ///
    /// # Errors
    /// Those of `bpf(2)`; it may have some of them then.
    pub fn set(&self, mac: [u8; 6], addresses: impl IntoIterator<Item = IpAddr>) -> io::Result<()> {
        let wanted = addresses.into_iter().map(|address| key(mac, address)).take(ADDRESSES_MAX);
        let wanted: BTreeSet<Key> = wanted.collect();
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<Key> = keys.difference(&wanted).copied().collect();
        for key in gone {
            self.map.set(&key, false)?;
            keys.remove(&key);
        }
        for key in wanted {
            if !keys.contains(&key) {
                self.map.set(&key, true)?;
                keys.insert(key);
            }
        }
        Ok(())
    }
}

impl AsFd for XdpAddresses {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

fn key(mac: [u8; 6], address: IpAddr) -> Key {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let mut key = [0; 24];
    key[..6].copy_from_slice(&mac);
    key[8..].copy_from_slice(&address.octets());
    key
}
