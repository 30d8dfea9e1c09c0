//! UDP sockets.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};

use crate::socket::{local_address, new_socket, set_option};

/// Of `linux/in6.h`: deliver groups that other sockets have joined, too.
const IPV6_MULTICAST_ALL: libc::c_int = 29;

/// Options of a [`UdpSocket`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// Address to bind to. Port 0 lets the kernel choose.
    pub local: SocketAddr,
    /// The only peer to exchange datagrams with.
    pub remote: Option<SocketAddr>,
    /// Allow other sockets with this option to bind to the same address (`SO_REUSEADDR`): a
    /// connected socket beside the listener on the same port.
    pub reuse_address: bool,
    /// Distribute datagrams of different peers over the sockets with this option (`SO_REUSEPORT`): one
    /// socket per worker.
    pub reuse_port: bool,
    /// Bytes that the kernel may hold for us before it drops datagrams; it may grant fewer.
    pub receive_buffer: usize,
    /// Bytes that the kernel may hold of ours; it may grant fewer.
    pub send_buffer: usize,
}

impl UdpOptions {
    /// A socket bound to `local`, with buffers of 4 MiB.
    #[must_use]
    pub fn bound_to(local: SocketAddr) -> Self {
        Self {
            local,
            remote: None,
            reuse_address: false,
            reuse_port: false,
            receive_buffer: 4 << 20,
            send_buffer: 4 << 20,
        }
    }
}

/// Options of a [`UdpSocket`] of a group on one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MulticastOptions {
    /// The group and its port.
    pub group: SocketAddr,
    /// Number of the interface.
    pub interface: u32,
    /// The source address of datagrams to an IPv4 group, which selects the interface.
    pub source: Option<Ipv4Addr>,
}

/// A non-blocking UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    socket: OwnedFd,
    segmentation: bool,
}

impl UdpSocket {
    /// Binds a socket, and connects it if there is a remote address.
    ///
    /// Joined datagrams on receive and the count of dropped ones are switched on where the kernel
    /// knows them.
    ///
    /// # Errors
    /// Those of `bind(2)` and `connect(2)`.
    pub fn new(options: &UdpOptions) -> io::Result<Self> {
        Self::open(options, None)
    }

    /// As [`new`](Self::new), for a socket that sends and receives by one network interface only
    /// (`SO_BINDTODEVICE`, which takes privileges on kernels before 5.7).
    ///
    /// # Errors
    /// Those of `new`, and that there is no such interface.
    pub fn on_interface(options: &UdpOptions, interface: &str) -> io::Result<Self> {
        Self::open(options, Some(interface))
    }

    fn open(options: &UdpOptions, interface: Option<&str>) -> io::Result<Self> {
        let socket = new_socket(options.local, Type::DGRAM, Protocol::UDP)?;
        if let Some(interface) = interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        if options.reuse_address {
            socket.set_reuse_address(true)?;
        }
        if options.reuse_port {
            socket.set_reuse_port(true)?;
        }
        set_buffers(&socket, options)?;
        socket.bind(&options.local.into())?;
        if let Some(remote) = options.remote {
            socket.connect(&remote.into())?;
        }
        Ok(Self::of(socket))
    }

    /// Joins a group on one interface. The socket sends from the port of the group, one link far,
    /// and receives neither its own packets nor those of other interfaces.
    ///
    /// # Errors
    /// Those of `bind(2)` and of joining the group.
    pub fn multicast(options: &MulticastOptions) -> io::Result<Self> {
        let MulticastOptions { group, interface, source } = *options;
        let socket = new_socket(group, Type::DGRAM, Protocol::UDP)?;
        socket.set_reuse_address(true)?;
        set_buffers(&socket, &UdpOptions::bound_to(group))?;
        match group {
            SocketAddr::V4(group) => {
                set_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)?;
                socket.bind(&SocketAddr::V4(group).into())?;
                let place = InterfaceIndexOrAddress::Index(interface);
                socket.join_multicast_v4_n(group.ip(), &place)?;
                if let Some(source) = source {
                    socket.set_multicast_if_v4(&source)?;
                }
                socket.set_multicast_loop_v4(false)?;
                socket.set_multicast_ttl_v4(1)?;
            }
            SocketAddr::V6(mut group) => {
                set_option(socket.as_fd(), libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)?;
                group.set_scope_id(interface);
                socket.bind(&SocketAddr::V6(group).into())?;
                socket.join_multicast_v6(group.ip(), interface)?;
                socket.set_multicast_if_v6(interface)?;
                socket.set_multicast_loop_v6(false)?;
                socket.set_multicast_hops_v6(1)?;
            }
        }
        Ok(Self::of(socket))
    }

    fn of(socket: Socket) -> Self {
        // Both are only optimisations or figures: an old kernel does without.
        let _ = set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1);
        let _ = set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        // Setting "no default segment size" fails on a kernel that cannot segment.
        let segmentation = set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        Self { socket: socket.into(), segmentation }
    }

    /// A socket at the same address that receives datagrams from `peer`, instead of this one.
    ///
    /// Datagrams of others that arrive while it is created may be lost, or be received by
    /// it. While there is a branch, a process of the same user can bind to the address, too, if it
    /// says that it wants to share it (`SO_REUSEPORT`).
    ///
    /// # Errors
    /// Those of `bind(2)` and `connect(2)`.
    pub fn branch(&self, peer: SocketAddr) -> io::Result<Self> {
        let local = self.local_address()?;
        let own = SockRef::from(self);
        let shares = own.reuse_port()?;
        // Both need the option to share the address; this one only until the other is bound.
        own.set_reuse_port(true)?;
        let branch = (|| {
            let socket = new_socket(local, Type::DGRAM, Protocol::UDP)?;
            socket.set_reuse_port(true)?;
            // The kernel doubles the requested size, and reports the doubled one (socket(7), SO_RCVBUF).
            let options = UdpOptions {
                receive_buffer: own.recv_buffer_size()? / 2,
                send_buffer: own.send_buffer_size()? / 2,
                ..UdpOptions::bound_to(local)
            };
            set_buffers(&socket, &options)?;
            socket.bind(&local.into())?;
            socket.connect(&peer.into())?;
            Ok(Self::of(socket))
        })();
        own.set_reuse_port(shares)?;
        branch
    }

    /// Sets whether the kernel reports the time at which it received each message.
    ///
    /// # Errors
    /// Those of `setsockopt(2)`.
    pub fn set_time_stamps(&self, on: bool) -> io::Result<()> {
        set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, on.into())
    }

    /// The address that the socket is bound to.
    ///
    /// # Errors
    /// Those of `getsockname(2)`.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        local_address(self.socket.as_fd())
    }

    /// Whether the kernel can cut a message into datagrams.
    #[must_use]
    pub fn can_segment(&self) -> bool {
        self.segmentation
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Asks for the buffers past the system's limit first, which a privileged process may.
fn set_buffers(socket: &Socket, options: &UdpOptions) -> io::Result<()> {
    let integer = |bytes| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let receive = integer(options.receive_buffer);
    if set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, receive).is_err() {
        socket.set_recv_buffer_size(options.receive_buffer)?;
    }
    let send = integer(options.send_buffer);
    if set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, send).is_err() {
        socket.set_send_buffer_size(options.send_buffer)?;
    }
    Ok(())
}
