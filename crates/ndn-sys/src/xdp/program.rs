//! The XDP program that redirects frames of our EtherType to our sockets.
//!
//! In C:
//!
//! ```c
//! struct { __uint(type, BPF_MAP_TYPE_XSKMAP); ... } sockets SEC(".maps");
//!
//! SEC("xdp") int redirect(struct xdp_md *context) {
//!     void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
//!     if (data + 14 > end)
//!         return XDP_PASS;
//!     __u16 type = *(__u16 *)(data + 12);
//!     if (type != bpf_htons(ETHER_TYPE)) {
//!         /* A tag of VLAN 0 carries a priority only (IEEE 802.1Q). Other VLANs have devices. */
//!         if (type != bpf_htons(ETH_P_8021Q) || data + 18 > end)
//!             return XDP_PASS;
//!         if (*(__u16 *)(data + 16) != bpf_htons(ETHER_TYPE))
//!             return XDP_PASS;
//!         if (*(__u16 *)(data + 14) & bpf_htons(0x0fff))
//!             return XDP_PASS;
//!     }
//!     return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS);
//! }
//! ```
//!
//! Frames of a queue without a socket are passed to the kernel, by the last argument.

use std::os::fd::{AsRawFd, BorrowedFd};

/// One instruction (`struct bpf_insn`, `instruction-set.rst` of the kernel).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// Four bits each.
    registers: u8,
    offset: i16,
    constant: i32,
}

/// Operations: loads of a word, of a half word, of a 64-bit constant (two instructions).
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_CONSTANT: u8 = 0x18;
/// Moves of a register and of a constant, sum and conjunction with a constant, in 64 bits.
const MOVE: u8 = 0xbf;
const MOVE_CONSTANT: u8 = 0xb7;
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
/// Jumps if a register is greater than another, equals a constant, or does not.
const JUMP_GREATER: u8 = 0x2d;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_UNEQUAL: u8 = 0x55;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// The source of a 64-bit constant that is the descriptor of a map.
const PSEUDO_MAP: u8 = 1;
/// `BPF_FUNC_redirect_map` and `XDP_PASS`.
const REDIRECT_MAP: i32 = 51;
const PASS: i32 = 2;
/// Fields of `struct xdp_md`.
const AT_DATA: i16 = 0;
const AT_END: i16 = 4;
const AT_QUEUE: i16 = 16;
/// A VLAN tag (IEEE 802.1Q), and the bits of it that are the number of the VLAN.
const TAGGED: u16 = 0x8100;
const VLAN_MASK: u16 = 0x0fff;

/// The target of a jump.
#[derive(Debug, Clone, Copy)]
enum Target {
    Redirect,
    Pass,
}

/// Number of targets.
const TARGETS: usize = 2;

/// Instructions, and jumps whose offsets are not known yet.
#[derive(Debug, Default)]
struct Assembler {
    instructions: Vec<Instruction>,
    jumps: Vec<(usize, Target)>,
    /// The positions of the targets.
    marks: [usize; TARGETS],
}

impl Assembler {
    fn add(&mut self, code: u8, to: u8, from: u8, offset: i16, constant: i32) {
        let registers = match cfg!(target_endian = "little") {
            true => from << 4 | to,
            false => to << 4 | from,
        };
        self.instructions.push(Instruction { code, registers, offset, constant });
    }

    fn jump(&mut self, code: u8, to: u8, from: u8, constant: i32, target: Target) {
        self.jumps.push((self.instructions.len(), target));
        self.add(code, to, from, 0, constant);
    }

    /// Loads the descriptor of a map into a register.
    fn add_map(&mut self, to: u8, map: i32) {
        self.add(LOAD_CONSTANT, to, PSEUDO_MAP, 0, map);
        self.add(0, 0, 0, 0, 0);
    }

    /// Makes the next instruction the target.
    fn mark(&mut self, target: Target) {
        self.marks[target as usize] = self.instructions.len();
    }

    fn finish(mut self) -> Vec<Instruction> {
        for (at, target) in self.jumps {
            // Relative to the next instruction, and the program is short.
            let target = self.marks[target as usize];
            self.instructions[at].offset = i16::try_from(target - at - 1).unwrap_or(0);
        }
        self.instructions
    }
}

/// A number in network byte order.
fn network(value: u16) -> i32 {
    i32::from(value.to_be())
}

/// The program for frames of `protocol` and the sockets in the map `sockets`.
pub(super) fn program(protocol: u16, sockets: BorrowedFd<'_>) -> Vec<Instruction> {
    assemble(protocol, sockets.as_raw_fd())
}

fn assemble(protocol: u16, sockets: i32) -> Vec<Instruction> {
    let mut code = Assembler::default();
    code.add(LOAD_WORD, 2, 1, AT_END, 0);
    code.add(LOAD_WORD, 3, 1, AT_DATA, 0);
    code.add(MOVE, 4, 3, 0, 0);
    code.add(ADD, 4, 0, 0, 14);
    code.jump(JUMP_GREATER, 4, 2, 0, Target::Pass);
    code.add(LOAD_HALF, 5, 3, 12, 0);
    code.jump(JUMP_EQUAL, 5, 0, network(protocol), Target::Redirect);
    code.jump(JUMP_UNEQUAL, 5, 0, network(TAGGED), Target::Pass);
    code.add(ADD, 4, 0, 0, 4);
    code.jump(JUMP_GREATER, 4, 2, 0, Target::Pass);
    code.add(LOAD_HALF, 5, 3, 16, 0);
    code.jump(JUMP_UNEQUAL, 5, 0, network(protocol), Target::Pass);
    code.add(LOAD_HALF, 5, 3, 14, 0);
    code.add(AND, 5, 0, 0, network(VLAN_MASK));
    code.jump(JUMP_UNEQUAL, 5, 0, 0, Target::Pass);
    code.mark(Target::Redirect);
    code.add(LOAD_WORD, 2, 1, AT_QUEUE, 0);
    code.add_map(1, sockets);
    code.add(MOVE_CONSTANT, 3, 0, 0, PASS);
    code.add(CALL, 0, 0, 0, REDIRECT_MAP);
    code.add(EXIT, 0, 0, 0, 0);
    code.mark(Target::Pass);
    code.add(MOVE_CONSTANT, 0, 0, 0, PASS);
    code.add(EXIT, 0, 0, 0, 0);
    code.finish()
}

#[cfg(test)]
mod tests;
