//! Which frames the kernel gives to a packet socket (classic BPF, `filter.txt` of the kernel).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Loads of a word or half word at a fixed offset.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
/// Jumps if what was loaded equals a constant.
const JUMP_EQUAL: u16 = 0x15;
/// Ends the program, with the number of bytes to accept.
const RETURN: u16 = 0x06;

/// Places beyond the frame: the kind of delivery, and the device (`SKF_AD_OFF`).
const AT_PACKET_TYPE: u32 = 0xffff_f000 + 4;
const AT_INTERFACE: u32 = 0xffff_f000 + 8;
/// The Ethernet header (`SKF_LL_OFF`), which starts with the destination.
const AT_LINK_HEADER: u32 = 0xffe0_0000;

/// `PACKET_HOST` and `PACKET_MULTICAST`.
const TO_HOST: u32 = 0;
const TO_GROUP: u32 = 2;
const EVERYTHING: u32 = 0x4_0000;

/// `struct sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    constant: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

const SO_ATTACH_FILTER: libc::c_int = 26;

/// Accepts frames to this host, or to `group`, that the device itself received. Frames of a VLAN on the device arrive
/// at the same socket and are left out, and so are frames to other hosts (in promiscuous mode).
pub(super) fn program(interface: u32, group: Option<[u8; 6]>) -> Vec<Instruction> {
    let load = |code, place| Instruction { code, jump_true: 0, jump_false: 0, constant: place };
    let group = group.map(|[a, b, c, d, e, f]| {
        (u32::from_be_bytes([a, b, c, d]), u32::from(u16::from_be_bytes([e, f])))
    });
    // Where the two ends are depends on whether there is a group to look for.
    let length: u8 = if group.is_some() { 11 } else { 6 };
    let (accept, refuse) = (length - 2, length - 1);
    let mut program: Vec<Instruction> = Vec::with_capacity(usize::from(length));
    let test = |program: &mut Vec<Instruction>, constant, if_equal: Option<u8>, otherwise| {
        let next = u8::try_from(program.len() + 1).unwrap_or(u8::MAX);
        let jump_true = if_equal.map_or(0, |target: u8| target - next);
        let jump_false = match otherwise {
            Some(target) => target - next,
            None => 0,
        };
        program.push(Instruction { code: JUMP_EQUAL, jump_true, jump_false, constant });
    };
    program.push(load(LOAD_WORD, AT_INTERFACE));
    test(&mut program, interface, None, Some(refuse));
    program.push(load(LOAD_WORD, AT_PACKET_TYPE));
    match group {
        None => test(&mut program, TO_HOST, Some(accept), Some(refuse)),
        Some((first, last)) => {
            test(&mut program, TO_HOST, Some(accept), None);
            test(&mut program, TO_GROUP, None, Some(refuse));
            program.push(load(LOAD_WORD, AT_LINK_HEADER));
            test(&mut program, first, None, Some(refuse));
            program.push(load(LOAD_HALF, AT_LINK_HEADER + 4));
            test(&mut program, last, Some(accept), Some(refuse));
        }
    }
    program.push(load(RETURN, EVERYTHING));
    program.push(load(RETURN, 0));
    program
}

/// Gives a socket its program.
pub(super) fn attach(socket: BorrowedFd<'_>, instructions: &[Instruction]) -> io::Result<()> {
    let program = Program {
        length: u16::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        instructions: instructions.as_ptr(),
    };
    let length = libc::socklen_t::try_from(size_of::<Program>()).unwrap_or(0);
    // SAFETY: the program has as many live instructions as it says, and the kernel copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_ATTACH_FILTER,
            std::ptr::from_ref(&program).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as the program sees it.
    struct Frame {
        interface: u32,
        packet_type: u32,
        destination: [u8; 6],
    }

    /// Runs the instructions that occur here as the kernel's interpreter does.
    fn run(program: &[Instruction], frame: &Frame) -> u32 {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let Instruction { code, jump_true, jump_false, constant } = program[at];
            at += 1;
            match code {
                RETURN => return constant,
                JUMP_EQUAL if accumulator == constant => at += usize::from(jump_true),
                JUMP_EQUAL => at += usize::from(jump_false),
                LOAD_WORD | LOAD_HALF => {
                    accumulator = match constant {
                        AT_INTERFACE => frame.interface,
                        AT_PACKET_TYPE => frame.packet_type,
                        place => {
                            let length = if code == LOAD_WORD { 4 } else { 2 };
                            let start = (place - AT_LINK_HEADER) as usize;
                            let bytes = &frame.destination[start..start + length];
                            bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
                        }
                    }
                }
                _ => panic!("no such instruction"),
            }
        }
    }

    #[test]
    fn filter_accepts_frames_for_this_station_only() {
        const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0x17, 0xaa];
        let with = program(7, Some(GROUP));
        let without = program(7, None);
        assert_eq!((with.len(), without.len()), (11, 6));
        let cases = [
            (7, TO_HOST, [2, 0, 0, 0, 0, 1], true, true),
            (8, TO_HOST, [2, 0, 0, 0, 0, 1], false, false),
            (7, TO_GROUP, GROUP, true, false),
            (8, TO_GROUP, GROUP, false, false),
            (7, TO_GROUP, [1, 0, 0x5e, 0, 0x17, 0xab], false, false),
            (7, TO_GROUP, [1, 0, 0x5f, 0, 0x17, 0xaa], false, false),
            (7, 1, [0xff; 6], false, false),
            (7, 3, [2, 0, 0, 0, 0, 2], false, false),
            (7, 4, GROUP, false, false),
        ];
        for (interface, packet_type, destination, by_with, by_without) in cases {
            let frame = Frame { interface, packet_type, destination };
            assert_eq!(run(&with, &frame) > 0, by_with, "{interface} {packet_type}");
            assert_eq!(run(&without, &frame) > 0, by_without, "{interface} {packet_type}");
        }
    }
}
