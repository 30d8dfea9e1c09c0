//! Network interfaces.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network interface as it is at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// The kernel's number of it.
    pub index: u32,
    /// Packets can go out now: it is up, and its link is too.
    pub is_running: bool,
    /// It is the loopback interface.
    pub is_loopback: bool,
    /// It can send to groups.
    pub can_multicast: bool,
    /// The hardware address of an Ethernet-like one; on Linux only.
    pub mac: Option<[u8; 6]>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// All network interfaces, by name.
///
/// # Errors
/// Those of `getifaddrs(3)`.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is a live place for a pointer.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = BTreeMap::new();
    let mut next = first;
    // SAFETY: the list is ours until it is freed, and every pointer in it is null or valid.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: `entry` is of the list that getifaddrs has made.
        unsafe { add(&mut found, entry) };
        next = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found.into_values().collect())
}

/// The kernel's number of a network interface, if there is one of this name.
#[must_use]
pub fn index_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is live and ends in a zero byte.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// The name of the network interface with this number, if there is one.
#[must_use]
pub fn name_of(index: u32) -> Option<String> {
    let mut name = [0_u8; libc::IF_NAMESIZE];
    // SAFETY: there is room for the longest name and its zero byte.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    if found.is_null() {
        return None;
    }
    let name = CStr::from_bytes_until_nul(&name).ok()?;
    Some(name.to_string_lossy().into_owned())
}

/// Adds one address to its interface.
///
/// # Safety
/// `entry` is of a list that `getifaddrs` has made and that was not freed.
unsafe fn add(found: &mut BTreeMap<String, Interface>, entry: &libc::ifaddrs) {
    // SAFETY: every entry has a name that ends in a zero byte.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
    let has = |flag: libc::c_int| entry.ifa_flags & flag.unsigned_abs() != 0;
    let interface = found.entry(name.clone()).or_insert_with(|| Interface {
        // SAFETY: as above.
        index: unsafe { libc::if_nametoindex(entry.ifa_name) },
        name,
        ..Interface::default()
    });
    interface.is_running = has(libc::IFF_UP) && has(libc::IFF_RUNNING);
    interface.is_loopback = has(libc::IFF_LOOPBACK);
    interface.can_multicast = has(libc::IFF_MULTICAST);
    // SAFETY: an address is null or valid.
    let Some(address) = (unsafe { entry.ifa_addr.as_ref() }) else { return };
    match libc::c_int::from(address.sa_family) {
        libc::AF_INET => {
            // SAFETY: the family gives the type. An unaligned read has no requirement on the list.
            let ipv4 = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            let octets = ipv4.sin_addr.s_addr.to_ne_bytes();
            interface.addresses.push(IpAddr::V4(Ipv4Addr::from(octets)));
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let ipv6 = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            interface.addresses.push(IpAddr::V6(Ipv6Addr::from(ipv6.sin6_addr.s6_addr)));
        }
        #[cfg(target_os = "linux")]
        libc::AF_PACKET => {
            // SAFETY: as above.
            let link = unsafe { entry.ifa_addr.cast::<libc::sockaddr_ll>().read_unaligned() };
            let [a, b, c, d, e, f, ..] = link.sll_addr;
            interface.mac = (link.sll_halen == 6).then_some([a, b, c, d, e, f]);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn loopback_interface_is_listed_with_its_address() {
        let all = interfaces().unwrap();
        let loopback = all.iter().find(|interface| interface.is_loopback).unwrap();
        assert!(loopback.index > 0 && loopback.name == "lo");
        if loopback.is_running {
            assert!(loopback.addresses.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        }
        assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert_eq!(index_of("lo"), Some(loopback.index));
        assert_eq!(name_of(loopback.index).as_deref(), Some("lo"));
        assert_eq!((index_of("no-such-device"), index_of("l\0o"), name_of(0)), (None, None, None));
    }
}
