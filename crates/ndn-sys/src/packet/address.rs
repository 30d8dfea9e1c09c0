//! Link-layer addresses as the kernel writes them.

/// `struct sockaddr_ll`: the destination or source of a frame.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct KernelLinkAddress {
    family: libc::sa_family_t,
    /// In network byte order.
    protocol: u16,
    interface: i32,
    hardware_type: u16,
    packet_type: u8,
    length: u8,
    address: [u8; 8],
}

const _: () = assert!(size_of::<KernelLinkAddress>() == size_of::<libc::sockaddr_ll>());
const FAMILY: libc::sa_family_t = 17;
const _: () = assert!(libc::AF_PACKET == FAMILY as i32);

/// The destination of a frame on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkAddress {
    /// The network device, by the kernel's number.
    pub interface: u32,
    /// The EtherType.
    pub protocol: u16,
    /// The hardware address of a station, or of a group.
    pub mac: [u8; 6],
}

impl KernelLinkAddress {
    pub(crate) const LENGTH: libc::socklen_t = 20;

    /// Of a frame to `address`, or with a MAC address of zeros what a socket is bound to.
    pub(crate) fn new(address: &LinkAddress) -> Self {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&address.mac);
        Self {
            family: FAMILY,
            protocol: address.protocol.to_be(),
            interface: address.interface.cast_signed(),
            hardware_type: 0,
            packet_type: 0,
            length: 6,
            address: bytes,
        }
    }

    /// The fields that a received frame has.
    pub(crate) fn received(bytes: &[u8; Self::LENGTH as usize]) -> (u32, u8, Option<[u8; 6]>) {
        let interface = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let mac = [bytes[12], bytes[13], bytes[14], bytes[15], bytes[16], bytes[17]];
        (interface, bytes[10], (bytes[11] == 6).then_some(mac))
    }
}

const _: () = assert!(size_of::<KernelLinkAddress>() == KernelLinkAddress::LENGTH as usize);
