//! Selection of the driver for a network interface.

use ndn_management::FaceDriver;
use ndn_sys::netlink::{NetworkDevice, XdpSupport};

/// Properties that the selection depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// XDP features of the interface, if the kernel reports them.
    pub xdp: Option<XdpSupport>,
    /// It has an IP address.
    pub has_address: bool,
    /// VLAN interfaces are configured on it.
    pub has_vlans: bool,
    /// An XDP program of another process is attached to it.
    pub is_taken: bool,
}

impl Facts {
    /// Collects the properties of `link`, one of `all`.
    #[must_use]
    pub fn of(
        link: &NetworkDevice,
        all: &[NetworkDevice],
        xdp: Option<XdpSupport>,
        has_address: bool,
    ) -> Self {
        Self {
            xdp,
            has_address,
            has_vlans: has_vlans(link, all),
            is_taken: link.xdp_program.is_some(),
        }
    }

    /// Selects the driver; returns it with the reason.
    #[must_use]
    pub fn pick(self) -> (FaceDriver, &'static str) {
        let packet = |why| (FaceDriver::Packet, why);
        match self.xdp {
            None => packet("an Ethernet link, of whose AF_XDP the kernel does not tell"),
            Some(XdpSupport { zero_copy: false, .. }) => {
                packet("an Ethernet link, whose driver would copy frames for AF_XDP too")
            }
            Some(_) if self.is_taken => packet("another XDP program is attached"),
            Some(_) if self.has_vlans => {
                packet("it has VLANs, whose frames AF_XDP may take for its own")
            }
            Some(_) if self.has_address => {
                packet("it has an IP address, and AF_XDP may disturb what else it carries")
            }
            Some(_) => (FaceDriver::Xdp, "its driver hands frames over without copying them"),
        }
    }
}

/// Returns whether VLAN interfaces are configured on an interface. A driver may remove the VLAN tags before an XDP
/// program reads the frame.
#[must_use]
pub fn has_vlans(link: &NetworkDevice, all: &[NetworkDevice]) -> bool {
    all.iter().any(|other| other.vlan.is_some() && other.lower == Some(link.index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn af_xdp_is_selected_only_for_unshared_zero_copy_devices() {
        let support = XdpSupport { native: true, zero_copy: true, multi_buffer: false };
        let facts =
            Facts { xdp: Some(support), has_address: false, has_vlans: false, is_taken: false };
        assert_eq!(facts.pick().0, FaceDriver::Xdp);
        for other in [
            Facts { xdp: None, ..facts },
            Facts { xdp: Some(XdpSupport { zero_copy: false, ..support }), ..facts },
            Facts { has_address: true, ..facts },
            Facts { has_vlans: true, ..facts },
            Facts { is_taken: true, ..facts },
        ] {
            assert_eq!(other.pick().0, FaceDriver::Packet, "{other:?}");
        }
    }
}
