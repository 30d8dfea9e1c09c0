#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "an interpreter")]
use super::*;

const PROTOCOL: u16 = 0x8624;

/// Instructions as `bpftool prog dump xlated` writes them, but for the map.
fn listing(program: &[Instruction]) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, instruction) in program.iter().enumerate() {
        let Instruction { code, registers, offset, constant } = *instruction;
        let (to, from) = (registers & 15, registers >> 4);
        let goes = at as i64 + 1 + i64::from(offset);
        lines.push(match code {
            LOAD_WORD => format!("{at}: r{to} = *(u32 *)(r{from} +{offset})"),
            LOAD_HALF => format!("{at}: r{to} = *(u16 *)(r{from} +{offset})"),
            LOAD_CONSTANT => format!("{at}: r{to} = map[fd:{constant}]"),
            MOVE => format!("{at}: r{to} = r{from}"),
            MOVE_CONSTANT => format!("{at}: r{to} = {constant}"),
            ADD => format!("{at}: r{to} += {constant}"),
            AND => format!("{at}: r{to} &= {constant:#x}"),
            JUMP_GREATER => format!("{at}: if r{to} > r{from} goto {goes}"),
            JUMP_EQUAL => format!("{at}: if r{to} == {constant:#x} goto {goes}"),
            JUMP_UNEQUAL => format!("{at}: if r{to} != {constant:#x} goto {goes}"),
            CALL => format!("{at}: call {constant}"),
            EXIT => format!("{at}: exit"),
            _ => continue,
        });
    }
    lines
}

#[test]
#[cfg(target_endian = "little")]
fn generated_instructions_equal_the_source() {
    let expected = [
        "0: r2 = *(u32 *)(r1 +4)",
        "1: r3 = *(u32 *)(r1 +0)",
        "2: r4 = r3",
        "3: r4 += 14",
        "4: if r4 > r2 goto 21",
        "5: r5 = *(u16 *)(r3 +12)",
        "6: if r5 == 0x2486 goto 15",
        "7: if r5 != 0x81 goto 21",
        "8: r4 += 4",
        "9: if r4 > r2 goto 21",
        "10: r5 = *(u16 *)(r3 +16)",
        "11: if r5 != 0x2486 goto 21",
        "12: r5 = *(u16 *)(r3 +14)",
        "13: r5 &= 0xff0f",
        "14: if r5 != 0x0 goto 21",
        "15: r2 = *(u32 *)(r1 +16)",
        "16: r1 = map[fd:9]",
        "18: r3 = 2",
        "19: call 51",
        "20: exit",
        "21: r0 = 2",
        "22: exit",
    ];
    assert_eq!(listing(&assemble(PROTOCOL, 9)), expected);
}

#[test]
#[cfg(target_endian = "little")]
fn instructions_have_the_memory_layout_of_the_kernel() {
    let bytes = |at: usize| {
        let Instruction { code, registers, offset, constant } = assemble(PROTOCOL, 9)[at];
        let [low, high] = offset.to_ne_bytes();
        let [a, b, c, d] = constant.to_ne_bytes();
        [code, registers, low, high, a, b, c, d]
    };
    assert_eq!(size_of::<Instruction>(), 8);
    assert_eq!(bytes(0), [0x61, 0x12, 4, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(4), [0x2d, 0x24, 16, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(6), [0x15, 0x05, 8, 0, 0x86, 0x24, 0, 0]);
    assert_eq!(bytes(16), [0x18, 0x11, 0, 0, 9, 0, 0, 0]);
    assert_eq!(bytes(17), [0; 8]);
    assert_eq!(bytes(19), [0x85, 0, 0, 0, 51, 0, 0, 0]);
}

/// Where the interpreter puts the frame; the context lies at 0.
const FRAME: u64 = 4096;
/// The queue that a frame came by.
const QUEUE: u64 = 3;
/// The map of sockets.
const SOCKETS: u64 = 9;

/// The memory that the interpreter may read.
struct Memory<'f> {
    frame: &'f [u8],
}

impl Memory<'_> {
    /// Reads beyond the frame fail the test, as the kernel's verifier would have.
    fn load(&self, address: u64, length: usize) -> u64 {
        match address {
            0 => FRAME,
            4 => FRAME + self.frame.len() as u64,
            16 => QUEUE,
            _ => {
                let at = (address - FRAME) as usize;
                assert!(at + length <= self.frame.len(), "reads at {at}");
                let bytes = &self.frame[at..at + length];
                let mut word = [0; 8];
                match cfg!(target_endian = "little") {
                    true => word[..length].copy_from_slice(bytes),
                    false => word[8 - length..].copy_from_slice(bytes),
                }
                u64::from_ne_bytes(word)
            }
        }
    }
}

/// Whether the program redirects a frame, as the kernel's interpreter would run it.
fn redirects(frame: &[u8]) -> bool {
    let program = assemble(PROTOCOL, SOCKETS as i32);
    let mut registers = [0_u64; 11];
    let memory = Memory { frame };
    let mut at = 0;
    for _ in 0..200 {
        let Instruction { code, registers: both, offset, constant } = program[at];
        let (to, from) = match cfg!(target_endian = "little") {
            true => (usize::from(both & 15), usize::from(both >> 4)),
            false => (usize::from(both >> 4), usize::from(both & 15)),
        };
        let constant = i64::from(constant) as u64;
        let jump = |condition: bool| if condition { offset as usize } else { 0 };
        let source = registers[from].wrapping_add(offset as u64);
        at += 1;
        match code {
            LOAD_WORD => registers[to] = memory.load(source, 4),
            LOAD_HALF => registers[to] = memory.load(source, 2),
            LOAD_CONSTANT => {
                registers[to] = constant;
                at += 1;
            }
            MOVE => registers[to] = registers[from],
            MOVE_CONSTANT => registers[to] = constant,
            ADD => registers[to] = registers[to].wrapping_add(constant),
            AND => registers[to] &= constant,
            JUMP_GREATER => at += jump(registers[to] > registers[from]),
            JUMP_EQUAL => at += jump(registers[to] == constant),
            JUMP_UNEQUAL => at += jump(registers[to] != constant),
            CALL => {
                assert_eq!(registers[1..4], [SOCKETS, QUEUE, PASS as u64]);
                registers[0] = 4;
            }
            EXIT => return registers[0] == 4,
            _ => panic!("no such instruction: {code:#x}"),
        }
    }
    panic!("the program does not end");
}

#[test]
fn only_ndn_frames_are_redirected() {
    let frame = |after: &[u8], length: usize| {
        let mut frame = [&[2; 12][..], after].concat();
        frame.resize(length, 0);
        frame
    };
    for (after, is_taken) in [
        (&[0x86, 0x24][..], true),
        (&[0x08, 0x00], false),
        (&[0x24, 0x86], false),
        (&[0x86, 0x25], false),
        // The tag of VLAN 0, with and without a priority, is none; others are.
        (&[0x81, 0x00, 0x00, 0x00, 0x86, 0x24], true),
        (&[0x81, 0x00, 0xe0, 0x00, 0x86, 0x24], true),
        (&[0x81, 0x00, 0x00, 0x07, 0x86, 0x24], false),
        (&[0x81, 0x00, 0x01, 0x00, 0x86, 0x24], false),
        (&[0x81, 0x00, 0x00, 0x00, 0x08, 0x00], false),
        (&[0x88, 0xa8, 0x00, 0x00, 0x86, 0x24], false),
    ] {
        for length in 0..64 {
            let whole = 12 + after.len().min(if after[0] == 0x81 { 6 } else { 2 });
            let expected = is_taken && length >= whole;
            assert_eq!(redirects(&frame(after, length)), expected, "{after:x?} {length}");
        }
    }
}
