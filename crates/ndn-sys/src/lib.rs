//! Safe interfaces to the kernel: Linux, and of other systems clock, network interfaces, peers and the signals of threads only.
//!
//! | module | content |
//! |---|---|
//! | [`allocation`] | an allocator that counts, for tests |
//! | [`clock`] | the only place that reads clocks |
//! | [`mod@file`] | which file a path leads to |
//! | [`file_io`] | reads and writes of a file by io_uring, many in progress |
//! | [`interface`] | network interfaces and their addresses |
//! | [`energy`] | energy of the processor packages |
//! | [`device`] | network devices in `/sys`: driver, NUMA node, speed |
//! | [`interrupt`] | eventfds that a process that is not trusted holds too |
//! | [`netlink`] | links, their changes, and what XDP can do with them |
//! | [`packet`] | frames of network devices: AF_PACKET with a receive ring |
//! | [`xdp`] | frames of network devices: AF_XDP with a program of our own |
//! | [`seqpacket`] | messages with descriptors over Unix sockets |
//! | [`shared_memory`] | memory that a process that is not trusted writes to as well |
//! | [`peer`] | user and process at the other end of a Unix socket |
//! | [`poll`] | waiting for many descriptors, and waking a waiting thread |
//! | [`signal`] | which signals a thread handles |
//! | [`stream`] | Unix and TCP: listen, accept, connect, vectored reads and writes |
//! | [`udp`] | UDP sockets, many datagrams per system call, segmentation offload |
//! | [`topology`] | processors, cores and NUMA nodes that the process may use |
//! | [`privileges`] | users, and becoming one with fewer rights |
//! | [`cpu`] | pinning, thread names, CPU time, the limit on descriptors |

#[cfg(target_os = "linux")]
pub mod allocation;
pub mod clock;
#[cfg(target_os = "linux")]
pub mod cpu;
#[cfg(target_os = "linux")]
pub mod device;
#[cfg(target_os = "linux")]
pub mod energy;
#[cfg(target_os = "linux")]
pub mod file;
#[cfg(target_os = "linux")]
pub mod file_io;
pub mod interface;
#[cfg(target_os = "linux")]
pub mod interrupt;
#[cfg(target_os = "linux")]
mod mapping;
#[cfg(target_os = "linux")]
pub mod netlink;
#[cfg(target_os = "linux")]
pub mod packet;
pub mod peer;
#[cfg(target_os = "linux")]
pub mod poll;
#[cfg(target_os = "linux")]
mod prefetch;
#[cfg(target_os = "linux")]
pub mod privileges;
#[cfg(target_os = "linux")]
pub mod seqpacket;
#[cfg(target_os = "linux")]
pub mod shared_memory;
pub mod signal;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
pub mod stream;
#[cfg(target_os = "linux")]
pub mod topology;
#[cfg(target_os = "linux")]
pub mod udp;
#[cfg(target_os = "linux")]
pub mod xdp;
