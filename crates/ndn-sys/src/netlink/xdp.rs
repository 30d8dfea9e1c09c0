//! Support of XDP by devices, as reported since Linux 6.3 (generic netlink family `netdev`).

use std::collections::BTreeMap;
use std::io;

use crate::netlink::message::{Message, Request, attributes, read_u16, read_u32, read_u64};
use crate::netlink::socket::{FLAG_DUMP, FLAG_REQUEST, NetlinkSocket};

/// The controller family, its command and attributes.
const CONTROL_FAMILY: u16 = 16;
const CONTROL_GET_FAMILY: u8 = 3;
const CONTROL_FAMILY_ID: u16 = 1;
const CONTROL_FAMILY_NAME: u16 = 2;
/// Command and attributes of `netdev`.
const DEVICE_GET: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_XDP_FEATURES: u16 = 3;
const DEVICE_ZERO_COPY_SEGMENTS: u16 = 4;
/// Bits of the features.
const FEATURE_BASIC: u64 = 1;
const FEATURE_REDIRECT: u64 = 2;
const FEATURE_ZERO_COPY: u64 = 8;
const FEATURE_SEGMENTS: u64 = 32;
/// `struct genlmsghdr`: command, version, and two bytes that are reserved.
const GENERIC_HEADER_LENGTH: usize = 4;

/// XDP support of a device's driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct XdpSupport {
    /// The driver runs XDP programs itself, and can send what they redirect to a socket; otherwise the
    /// kernel does it for the driver, later and slower.
    pub native: bool,
    /// Frames reach an AF_XDP socket without being copied.
    pub zero_copy: bool,
    /// Frames may be longer than one buffer.
    pub multi_buffer: bool,
}

impl XdpSupport {
    fn of(features: u64, segments: u32) -> Self {
        let has = |bits| features & bits == bits;
        Self {
            native: has(FEATURE_BASIC | FEATURE_REDIRECT),
            zero_copy: has(FEATURE_ZERO_COPY),
            multi_buffer: has(FEATURE_SEGMENTS) || segments > 1,
        }
    }

    fn read(message: &Message<'_>) -> Option<(u32, Self)> {
        let (mut index, mut features, mut segments) = (None, 0, 0);
        for (kind, value) in attributes(message.payload.get(GENERIC_HEADER_LENGTH..)?) {
            match kind {
                DEVICE_INDEX => index = read_u32(value, 0),
                DEVICE_XDP_FEATURES => features = read_u64(value, 0)?,
                DEVICE_ZERO_COPY_SEGMENTS => segments = read_u32(value, 0)?,
                _ => {}
            }
        }
        Some((index?, Self::of(features, segments)))
    }
}

/// The support of XDP by each device of this namespace, by interface index.
///
/// # Errors
/// Those of netlink sockets; [`io::ErrorKind::NotFound`] on a kernel without the family.
pub fn xdp_support() -> io::Result<BTreeMap<u32, XdpSupport>> {
    let mut socket = NetlinkSocket::new(libc::NETLINK_GENERIC)?;
    let find = || {
        Request::new(CONTROL_FAMILY, FLAG_REQUEST, &[CONTROL_GET_FAMILY, 1, 0, 0])
            .attribute(CONTROL_FAMILY_NAME, b"netdev\0")
    };
    let family_of = |message: &Message<'_>| {
        let list = message.payload.get(GENERIC_HEADER_LENGTH..)?;
        let (_, id) = attributes(list).find(|(kind, _)| *kind == CONTROL_FAMILY_ID)?;
        read_u16(id, 0)
    };
    let family = socket.call(find, family_of)?;
    let family = *family.first().ok_or(io::ErrorKind::NotFound)?;
    let list = || Request::new(family, FLAG_REQUEST | FLAG_DUMP, &[DEVICE_GET, 1, 0, 0]);
    Ok(socket.call(list, XdpSupport::read)?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::messages;

    #[test]
    fn features_are_read_from_their_message() {
        let device = |features: u64| {
            let bytes = Request::new(30, 2, &[DEVICE_GET, 1, 0, 0])
                .attribute(DEVICE_INDEX, &5_u32.to_ne_bytes())
                .attribute(DEVICE_XDP_FEATURES, &features.to_ne_bytes())
                .attribute(DEVICE_ZERO_COPY_SEGMENTS, &1_u32.to_ne_bytes())
                .finish(1);
            messages(&bytes).next().and_then(|message| XdpSupport::read(&message))
        };
        assert_eq!(device(0), Some((5, XdpSupport::default())));
        let native = XdpSupport { native: true, ..XdpSupport::default() };
        assert_eq!(device(3), Some((5, native)));
        assert_eq!(device(11), Some((5, XdpSupport { zero_copy: true, ..native })));
        assert_eq!(device(35), Some((5, XdpSupport { multi_buffer: true, ..native })));
    }

    #[test]
    fn query_is_answered_or_the_family_is_missing() {
        match xdp_support() {
            Ok(found) => assert!(found.len() <= 1 << 20),
            Err(error) => eprintln!("this kernel does not tell: {error}"),
        }
    }
}
