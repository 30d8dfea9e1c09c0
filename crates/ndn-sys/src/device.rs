//! Properties of network devices that `/sys` reports and netlink does not.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use socket2::{Domain, Socket, Type};

/// The hardware behind a network device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// The driver, such as `ice`; none of a virtual device.
    pub driver: Option<String>,
    /// The NUMA node that it is attached to; none where there is only one, or the device is virtual.
    pub numa_node: Option<usize>,
    /// Megabits per second, if its link is up and the driver knows.
    pub speed_mbps: Option<u64>,
    /// Receive and transmit queues that are in use, if the driver reports them.
    pub queues: Option<(usize, usize)>,
}

impl Device {
    /// Reads the files of the device `name` below `root/sys/class/net`.
    #[must_use]
    pub fn read(root: &Path, name: &str) -> Self {
        let directory = root.join("sys/class/net").join(name);
        let number = |file: &str| -> Option<i64> {
            fs::read_to_string(directory.join(file)).ok()?.trim().parse().ok()
        };
        let driver = fs::read_link(directory.join("device/driver")).ok();
        let driver = driver.as_deref().and_then(Path::file_name);
        Self {
            driver: driver.map(|name| name.to_string_lossy().into_owned()),
            numa_node: number("device/numa_node").and_then(|node| usize::try_from(node).ok()),
            speed_mbps: number("speed").and_then(|speed| u64::try_from(speed).ok()),
            queues: read_queues(&directory),
        }
    }
}

fn read_queues(directory: &Path) -> Option<(usize, usize)> {
    let entries = fs::read_dir(directory.join("queues")).ok()?;
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let count = |prefix: &str| {
        names.iter().filter(|name| name.to_string_lossy().starts_with(prefix)).count()
    };
    Some((count("rx-"), count("tx-"))).filter(|(receive, transmit)| receive + transmit > 0)
}

/// Asks for the numbers of queues (`ETHTOOL_GCHANNELS`).
const ASK_QUEUES: u32 = 0x3c;

/// `struct ethtool_channels`.
#[derive(Debug, Default)]
#[repr(C)]
struct Channels {
    command: u32,
    /// The most that there can be: of receive, transmit, other and combined queues.
    max: [u32; 4],
    /// Those that there are.
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// Receive and transmit queues of an interface that are in use, as reported by its driver.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] if the driver does not report them, [`io::ErrorKind::NotFound`] if there is no such
/// interface.
pub fn queues(name: &str) -> io::Result<(u32, u32)> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM.cloexec(), None)?;
    let mut channels = Channels { command: ASK_QUEUES, ..Channels::default() };
    // SAFETY: zeros are valid in this C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::NotFound.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut channels).cast();
    // SAFETY: the name ends in a zero byte, and the kernel reads and writes the structure of this
    // command, which is live.
    let result = unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, std::ptr::from_mut(&mut request))
    };
    match result {
        0 => {
            let Channels { receive, transmit, combined, .. } = channels;
            Ok((receive + combined, transmit + combined))
        }
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENODEV) => {
                Err(io::ErrorKind::NotFound.into())
            }
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn properties_of_physical_and_virtual_devices_are_read() {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("sys/class/net");
        let card = net.join("eth1");
        for directory in ["device", "queues/rx-0", "queues/rx-1", "queues/tx-0"] {
            fs::create_dir_all(card.join(directory)).unwrap();
        }
        std::os::unix::fs::symlink("../../../bus/pci/drivers/ice", card.join("device/driver"))
            .unwrap();
        fs::write(card.join("device/numa_node"), "1\n").unwrap();
        fs::write(card.join("speed"), "100000\n").unwrap();
        let expected = Device {
            driver: Some("ice".to_owned()),
            numa_node: Some(1),
            speed_mbps: Some(100_000),
            queues: Some((2, 1)),
        };
        assert_eq!(Device::read(root.path(), "eth1"), expected);

        // A link that is down has speed -1, a machine of one node has node -1.
        fs::write(card.join("device/numa_node"), "-1\n").unwrap();
        fs::write(card.join("speed"), "-1\n").unwrap();
        let down = Device::read(root.path(), "eth1");
        assert_eq!((down.numa_node, down.speed_mbps), (None, None));

        fs::create_dir_all(net.join("veth0")).unwrap();
        assert_eq!(Device::read(root.path(), "veth0"), Device::default());
        assert_eq!(Device::read(root.path(), "none"), Device::default());
    }

    #[test]
    fn queues_of_missing_and_virtual_devices_are_an_error() {
        assert!(queues("lo").is_err(), "it has none");
        for name in ["no-such-device", "a-name-that-is-too-long"] {
            assert_eq!(queues(name).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }
}
