//! Ports of DPDK: settings, and how they are written.

use super::reader::Section;
use super::to_toml::{Writer, texts};

/// Longest payload of a frame: with its headers it has to fit a buffer of DPDK's.
const MTU_MAX: u16 = 16_000;

/// Buffers with frames that a worker has received, or is about to send.
const BUFFERS_HELD: u32 = 64;

/// The fewest buffers with which a port still sends when both its queues are full.
fn buffers_needed(descriptors: u16) -> u32 {
    2 * u32::from(descriptors) + BUFFERS_HELD
}

/// Ethernet faces on ports of DPDK. The group, and what else Ethernet faces have, is as in `[listeners.ethernet]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dpdk {
    /// Arguments of DPDK's environment, without the name of a program.
    pub eal: Vec<String>,
    /// DPDK's names of the ports; none is no DPDK.
    pub ports: Vec<String>,
    /// Whether stations that send get faces.
    pub listen: bool,
    /// Whether each port has a face of the group.
    pub multicast: bool,
    /// Longest payload of a frame, bytes.
    pub mtu: u16,
    /// Entries of each port's receive queue, and of its transmit queue.
    pub descriptors: u16,
    /// Buffers for frames of each port.
    pub buffers: u32,
}

impl Default for Dpdk {
    /// None.
    fn default() -> Self {
        Self {
            eal: Vec::new(),
            ports: Vec::new(),
            listen: true,
            multicast: true,
            mtu: 1500,
            descriptors: 1024,
            buffers: 8192,
        }
    }
}

impl Dpdk {
    /// Reads `[listeners.dpdk]`.
    pub(super) fn read(&mut self, mut section: Section<'_>) {
        section.read("eal", &mut self.eal);
        section.read("ports", &mut self.ports);
        section.read("listen", &mut self.listen);
        section.read("multicast", &mut self.multicast);
        section.read_in("mtu", &mut self.mtu, 64..=MTU_MAX);
        section.read_in("descriptors", &mut self.descriptors, 32..=8192);
        section.read_in("buffers", &mut self.buffers, 512..=1_048_576);
        let needed = buffers_needed(self.descriptors);
        if self.buffers < needed {
            section.object(
                "buffers",
                &format!(
                    "{} are too few for `descriptors` = {}, of which both queues have so many: the port \
                     would not send. It takes 2 * descriptors + {BUFFERS_HELD} = {needed}",
                    self.buffers, self.descriptors
                ),
            );
        }
        section.finish();
    }

    /// Writes what differs from `default`.
    pub(super) fn write(&self, writer: &mut Writer, default: &Self) {
        writer.section("[listeners.dpdk]");
        writer.changed("eal", &self.eal, &default.eal, texts(&self.eal));
        writer.changed("ports", &self.ports, &default.ports, texts(&self.ports));
        writer.changed("listen", &self.listen, &default.listen, self.listen);
        writer.changed("multicast", &self.multicast, &default.multicast, self.multicast);
        writer.changed("mtu", &self.mtu, &default.mtu, self.mtu);
        let descriptors = self.descriptors;
        writer.changed("descriptors", &descriptors, &default.descriptors, descriptors);
        writer.changed("buffers", &self.buffers, &default.buffers, self.buffers);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_written_reads_the_same() {
        let text = "[listeners.dpdk]\neal = [\"--in-memory\", \"--vdev=net_null0\"]\n\
                    ports = [\"net_null0\"]\nlisten = false\nmulticast = false\nmtu = 9000\n\
                    descriptors = 64\nbuffers = 4096\n";
        let config = crate::parse("test", text).unwrap();
        assert_eq!(config.listeners.dpdk.eal[1], "--vdev=net_null0");
        assert_eq!(config.listeners.dpdk.mtu, 9000);
        assert_eq!(crate::parse("test", &config.to_toml()).unwrap(), config);
        for wrong in ["mtu = 63", "mtu = 16001", "descriptors = 0", "buffers = 1", "eal = \"-l\""] {
            let text = format!("[listeners.dpdk]\n{wrong}\n");
            assert!(crate::parse("test", &text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn queues_leave_buffers_to_send() {
        let read = |descriptors: u32, buffers: u32| {
            let keys = format!("descriptors = {descriptors}\nbuffers = {buffers}");
            crate::parse("test", &format!("[listeners.dpdk]\n{keys}\n"))
        };
        for (descriptors, enough) in [(1024, 2112), (224, 512), (8192, 16_448)] {
            read(descriptors, enough).unwrap();
            let said = read(descriptors, enough - 1).unwrap_err().to_string();
            // The lower bound of `buffers` comes first.
            let both = said.contains("`descriptors`") && said.contains(&enough.to_string());
            assert!(said.contains("buffers") && (both || enough == 512), "{said}");
        }
        let said = crate::parse("test", "listeners.dpdk.descriptors = 8192").unwrap_err();
        assert!(said.to_string().contains("listeners.dpdk.buffers"), "{said}");
    }
}
