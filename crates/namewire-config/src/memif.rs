//! memif: the listener, and secrets of interfaces.

use std::path::PathBuf;

use ndn_memif::Secret;
use ndn_types::ByteSize;
use toml::de::DeValue;

use crate::declaration::RestartReason::Memory;
use crate::declaration::{list_item, live, restart, settings, value};
use crate::file_mode::FileMode;
use crate::value::{Value, quoted};

/// Limits of a buffer.
const BUFFER_MIN: Option<ByteSize> = Some(ByteSize(ndn_memif::BUFFER_LENGTH_MIN as u64));
const BUFFER_MAX: Option<ByteSize> = Some(ByteSize(ndn_memif::BUFFER_LENGTH_MAX as u64));

settings! {
    /// memif (shared memory, FD.io) for local applications. Clients provide the memory. Each interface number can be
    /// used by one client at a time.
    pub struct MemifListener {
        /// Whether the forwarder listens for memif clients.
        enabled: bool = false => live(),
        /// Path of the socket. The default is memif.sock in the directory of the Unix socket.
        path: Option<PathBuf> = None => live().example("\"/run/nfd/memif.sock\""),
        /// Permission bits of the socket, in octal.
        mode: FileMode = FileMode(0o666) => live(),
        /// Size of a buffer, to clients, and to servers of which this forwarder is a client. Larger packets
        /// are fragmented. The default is 2048, which other programs expect, and 9216 between Namewire
        /// forwarders. A change applies to new connections, as one of `chains` does.
        dataroom: Option<ByteSize> = None =>
            live().within(BUFFER_MIN..=BUFFER_MAX).example("\"9146B\""),
        /// Whether packets larger than a buffer are sent in several buffers (MEMIF_DESC_FLAG_NEXT) instead of
        /// fragments to programs other than Namewire. libmemif, VPP and DPDK support this; NDN-DPDK advises
        /// against it. Namewire always accepts such packets.
        chains: bool = false => live(),
        /// Maximum memory of all clients together. The clients of one user can have half of it, one client 1 GiB.
        /// A client that exceeds this is rejected.
        memory: ByteSize = ByteSize::mebibytes(4 << 10) =>
            restart(Memory).within(ByteSize::mebibytes(1)..=ByteSize::mebibytes(1 << 20)),
    }
}

list_item! {
    /// The secret of a memif interface. If the socket is that of `[listeners.memif]`, clients must present it;
    /// otherwise this forwarder presents it as a client. Everybody who can read this file can read it.
    pub struct MemifSecret {
        /// Path of the socket, absolute.
        socket: PathBuf = "/run/ndn/fwd.sock".into() => value().required().checked(check_socket),
        /// Number of the interface. The default is all interfaces of the socket without a secret of their own.
        id: Option<u32> = None => value().example("0"),
        /// The secret. DPDK supports 23 bytes.
        secret: Secret = example_secret() => value().required(),
    }
}

fn check_socket(path: &PathBuf) -> Result<(), String> {
    match path.is_absolute() {
        true => Ok(()),
        false => Err(format!("{} is relative: write an absolute path", path.display())),
    }
}

fn example_secret() -> Secret {
    Secret::new("swordfish").unwrap_or_default()
}

impl Value for Secret {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        // The message does not repeat the secret.
        let text =
            value.as_str().ok_or_else(|| format!("expected text, found {}", value.type_str()));
        Self::new(text?).map_err(|error| error.to_string())
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(self.reveal()))
    }

    fn type_name() -> String {
        format!("text of at most {} bytes", ndn_memif::SECRET_LENGTH)
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        ["x", "with \"quotes\""].map(|text| Self::new(text).unwrap()).into()
    }
}
