//! Networks on the command line.

use std::net::IpAddr;
use std::str::FromStr;

/// An IP network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    address: IpAddr,
    length: u8,
}

impl Network {
    /// Whether an address is in the network.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let length = u32::from(self.length);
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                let differs = ours.to_bits() ^ other.to_bits();
                differs.checked_shr(32 - length).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                let differs = ours.to_bits() ^ other.to_bits();
                differs.checked_shr(128 - length).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "it is not a network such as 192.0.2.0/24 or ::1/128".to_owned();
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let length_max = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => length_max,
            Some(length) => length.parse().map_err(|_| wrong())?,
        };
        if length > length_max { Err(wrong()) } else { Ok(Self { address, length }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_matched_with_networks() {
        let is_in = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        for (network, address, expected) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "192.0.2.1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1/128", "::1", true),
        ] {
            assert_eq!(is_in(network, address), expected, "{address} in {network}");
        }
        for wrong in ["", "192.0.2.0/33", "::/129", "x/8", "192.0.2.0/", "192.0.2.0/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
