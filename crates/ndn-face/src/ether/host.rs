//! The addresses of this host, which nobody else sends from.

use std::net::IpAddr;
use std::sync::Arc;

/// All addresses of this host, as they were last told.
#[derive(Debug, Default)]
pub(crate) struct HostAddresses {
    addresses: Arc<[IpAddr]>,
    /// A bit for each of them: most senders are seen to be others by that.
    bits: u64,
}

impl HostAddresses {
    pub(crate) fn new(addresses: Arc<[IpAddr]>) -> Self {
        let bits = addresses.iter().fold(0, |bits, address| bits | bit_of(*address));
        Self { addresses, bits }
    }

    #[inline]
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.bits & bit_of(address) != 0 && self.addresses.contains(&address)
    }
}

#[inline]
fn bit_of(address: IpAddr) -> u64 {
    let last = match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    1 << (last % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_told_is_an_address_of_the_host() {
        let told = ["192.0.2.1", "192.0.2.65", "2001:db8::1"].map(|one| one.parse().unwrap());
        let host = HostAddresses::new(told.into());
        assert!(told.into_iter().all(|one| host.contains(one)));
        for other in ["192.0.2.2", "192.0.2.129", "2001:db8::2", "2001:db8::41"] {
            assert!(!host.contains(other.parse().unwrap()), "{other}");
        }
        assert!(!HostAddresses::default().contains(told[0]));
    }
}
