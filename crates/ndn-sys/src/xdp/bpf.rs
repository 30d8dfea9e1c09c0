//! Maps, programs and links (`bpf(2)`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::xdp::program::Instruction;

/// Commands.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const PROGRAM_BY_NUMBER: libc::c_int = 13;
const INFORMATION: libc::c_int = 15;
const LINK_CREATE: libc::c_int = 28;
/// Map type XSKMAP, program type XDP and its attach type.
const TYPE_SOCKETS: u32 = 17;
const TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program supports frames of several buffers (`BPF_F_XDP_HAS_FRAGS`).
const HAS_FRAGMENTS: u32 = 1 << 5;
/// Where the program runs (`XDP_FLAGS_SKB_MODE`, `XDP_FLAGS_DRV_MODE`).
const BY_KERNEL: u32 = 1 << 1;
const BY_DRIVER: u32 = 1 << 2;

/// The name of our programs in the kernel.
pub(super) const OWN_NAME: &[u8] = b"namewire_xdp";

/// Where an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the frame becomes an `sk_buff`.
    Native,
    /// In the network stack, if the driver does not support XDP, or not at this MTU.
    Generic,
}

/// The used attributes of the commands (`union bpf_attr`), without padding, which the kernel requires to be zero.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_length: u32,
    value_length: u32,
    entries_max: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    reserved: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_length: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct ProgramNumber {
    number: u32,
    next: u32,
    flags: u32,
}

#[repr(C)]
struct Information {
    descriptor: u32,
    length: u32,
    place: u64,
}

/// The start of `bpf_prog_info`, up to the name.
#[repr(C)]
struct ProgramInformation {
    before: [u64; 8],
    name: [u8; 16],
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

const _: () = assert!(size_of::<MapCreate>() == 44 && size_of::<MapUpdate>() == 32);
const _: () = assert!(size_of::<ProgramNumber>() == 12 && size_of::<Information>() == 16);
const _: () = assert!(size_of::<ProgramInformation>() == 80);
const _: () = assert!(size_of::<ProgramLoad>() == 72 && size_of::<LinkCreate>() == 16);

/// A map from queues of a network device to AF_XDP sockets.
#[derive(Debug)]
pub(super) struct SocketMap {
    map: OwnedFd,
}

impl SocketMap {
    /// For queues below `queue_count`.
    pub(super) fn new(queue_count: u32) -> io::Result<Self> {
        let attributes = MapCreate {
            kind: TYPE_SOCKETS,
            key_length: 4,
            value_length: 4,
            entries_max: queue_count,
            flags: 0,
            inner_map: 0,
            numa_node: 0,
            name: *b"namewire_sockets",
        };
        // The name must end with a zero byte.
        let attributes = MapCreate { name: cut(attributes.name), ..attributes };
        // SAFETY: the attributes are those of the command and hold no pointers.
        Ok(Self { map: descriptor(unsafe { bpf(MAP_CREATE, &attributes)? }) })
    }

    /// Redirects frames of `queue` to `socket`, until that is closed.
    pub(super) fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd();
        let attributes = MapUpdate {
            map: number(self.map.as_fd()),
            reserved: 0,
            key: (&raw const queue).expose_provenance() as u64,
            value: (&raw const value).expose_provenance() as u64,
            flags: 0,
        };
        // SAFETY: key and value are live and have the lengths that the map was made with.
        unsafe { bpf(MAP_UPDATE, &attributes)? };
        Ok(())
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// Loads an XDP program; with `has_fragments`, one for devices whose frames have several buffers.
pub(super) fn load(instructions: &[Instruction], has_fragments: bool) -> io::Result<OwnedFd> {
    let license = c"Apache-2.0";
    let attributes = ProgramLoad {
        kind: TYPE_XDP,
        instruction_count: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
        instructions: instructions.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_length: 0,
        log: 0,
        kernel_version: 0,
        flags: if has_fragments { HAS_FRAGMENTS } else { 0 },
        name: own_name(),
        interface: 0,
        attach_type: ATTACH_XDP,
    };
    // SAFETY: instructions and license are live and have the given lengths; the kernel copies them.
    Ok(descriptor(unsafe { bpf(PROGRAM_LOAD, &attributes)? }))
}

/// Attaches a program to a device until the link is closed, at the latest with the process.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    interface: u32,
    mode: XdpMode,
) -> io::Result<OwnedFd> {
    let flags = match mode {
        XdpMode::Native => BY_DRIVER,
        XdpMode::Generic => BY_KERNEL,
    };
    let program = number(program);
    let attributes = LinkCreate { program, interface, attach_type: ATTACH_XDP, flags };
    // SAFETY: the attributes are those of the command and hold no pointers.
    Ok(descriptor(unsafe { bpf(LINK_CREATE, &attributes)? }))
}

/// The name of the program with this number; this needs CAP_SYS_ADMIN.
pub(super) fn name_of(program: u32) -> io::Result<String> {
    let attributes = ProgramNumber { number: program, next: 0, flags: 0 };
    // SAFETY: the attributes are those of the command and hold no pointers.
    let program = descriptor(unsafe { bpf(PROGRAM_BY_NUMBER, &attributes)? });
    // Zero lengths: the other parts are not requested.
    let mut information = ProgramInformation { before: [0; 8], name: [0; 16] };
    let attributes = Information {
        descriptor: number(program.as_fd()),
        length: u32::try_from(size_of::<ProgramInformation>()).unwrap_or(0),
        place: (&raw mut information).expose_provenance() as u64,
    };
    // SAFETY: the kernel writes at most the given length, to a live structure of that length.
    unsafe { bpf(INFORMATION, &attributes)? };
    let name = information.name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

fn own_name() -> [u8; 16] {
    let mut name = [0; 16];
    name[..OWN_NAME.len()].copy_from_slice(OWN_NAME);
    name
}

/// A name with a zero byte at its end.
fn cut(mut name: [u8; 16]) -> [u8; 16] {
    name[15] = 0;
    name
}

fn number(descriptor: BorrowedFd<'_>) -> u32 {
    descriptor.as_raw_fd().cast_unsigned()
}

/// The descriptor returned by a command.
fn descriptor(made: libc::c_int) -> OwnedFd {
    // SAFETY: the kernel has just opened it for this call, so it has no other owner.
    unsafe { OwnedFd::from_raw_fd(made) }
}

/// Calls `bpf(2)`, which returns a number or a new descriptor.
///
/// # Safety
/// The attributes are those of the command, and the addresses in them point to live memory of the lengths given
/// there.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the attributes are live and have the given length; the caller guarantees the rest.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    match libc::c_int::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        Ok(_) | Err(_) => Err(io::Error::last_os_error()),
    }
}
