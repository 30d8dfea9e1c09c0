//! Addresses as the kernel writes them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::packet::{KernelLinkAddress, LinkAddress};

/// Room for one address of any family that messages are sent to.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union KernelAddress {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
    link: KernelLinkAddress,
}

impl std::fmt::Debug for KernelAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("KernelAddress")
    }
}

const V4_LENGTH: libc::socklen_t = 16;
const V6_LENGTH: libc::socklen_t = 28;
const _: () = assert!(size_of::<libc::sockaddr_in>() == V4_LENGTH as usize);
const _: () = assert!(size_of::<libc::sockaddr_in6>() == V6_LENGTH as usize);
const _: () = assert!(size_of::<KernelAddress>() == V6_LENGTH as usize);

const V4_FAMILY: libc::sa_family_t = 2;
const V6_FAMILY: libc::sa_family_t = 10;
const _: () = assert!(libc::AF_INET == V4_FAMILY as i32 && libc::AF_INET6 == V6_FAMILY as i32);

impl KernelAddress {
    /// Room for the largest address.
    pub(crate) const LENGTH: libc::socklen_t = V6_LENGTH;

    /// No address: all zeros.
    pub(crate) fn empty() -> Self {
        // SAFETY: zeros are valid in every variant.
        unsafe { std::mem::zeroed() }
    }

    /// `address` and its length in bytes.
    pub(crate) fn new(address: SocketAddr) -> (Self, libc::socklen_t) {
        let mut kernel = Self::empty();
        match address {
            SocketAddr::V4(address) => {
                kernel.v4 = libc::sockaddr_in {
                    sin_family: V4_FAMILY,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                (kernel, V4_LENGTH)
            }
            SocketAddr::V6(address) => {
                kernel.v6 = libc::sockaddr_in6 {
                    sin6_family: V6_FAMILY,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                (kernel, V6_LENGTH)
            }
        }
    }

    /// An address on a link, and its length in bytes.
    pub(crate) fn of_link(address: &LinkAddress) -> (Self, libc::socklen_t) {
        let mut kernel = Self::empty();
        kernel.link = KernelLinkAddress::new(address);
        (kernel, KernelLinkAddress::LENGTH)
    }

    /// The address, if the kernel stored one of `length` bytes.
    pub(crate) fn read(&self, length: libc::socklen_t) -> Option<SocketAddr> {
        // SAFETY: all bytes are initialised (zeros at first, then what the kernel wrote), every
        // bit pattern is valid in every variant, and all of them start with the family.
        unsafe {
            match (self.family, length) {
                (V4_FAMILY, V4_LENGTH..) => {
                    let address = Ipv4Addr::from(u32::from_be(self.v4.sin_addr.s_addr));
                    let port = u16::from_be(self.v4.sin_port);
                    Some(SocketAddrV4::new(address, port).into())
                }
                (V6_FAMILY, V6_LENGTH..) => {
                    let address = Ipv6Addr::from(self.v6.sin6_addr.s6_addr);
                    let port = u16::from_be(self.v6.sin6_port);
                    // The flow label differs from packet to packet and does not name the peer.
                    Some(SocketAddrV6::new(address, port, 0, self.v6.sin6_scope_id).into())
                }
                _ => None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernel_form() {
        for text in ["192.0.2.1:6363", "[2001:db8::7]:56363", "[fe80::1%3]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let (kernel, length) = KernelAddress::new(address);
            assert_eq!(kernel.read(length), Some(address));
            assert_eq!(kernel.read(4), None);
        }
        assert_eq!(KernelAddress::empty().read(KernelAddress::LENGTH), None);
    }
}
