#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "an interpreter")]
use super::udp::*;
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
fn the_instructions_are_those_of_the_source() {
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
    assert_eq!(listing(&assemble(PROTOCOL, 9, None)), expected);
}

#[test]
#[cfg(target_endian = "little")]
fn instructions_lie_in_memory_as_the_kernel_reads_them() {
    let bytes = |at: usize| {
        let Instruction { code, registers, offset, constant } = assemble(PROTOCOL, 9, None)[at];
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

/// Where the interpreter puts the frame and the stack; the context lies at 0.
const FRAME: u64 = 4096;
const STACK_END: u64 = 2048;
/// The queue that a frame came by.
const QUEUE: u64 = 3;
/// The maps of sockets and of addresses.
const SOCKETS: u64 = 9;
const ADDRESSES: u64 = 11;

/// What the interpreter may read and write.
struct Memory<'f> {
    frame: &'f [u8],
    stack: [u8; 24],
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

    fn store(&mut self, address: u64, length: usize, value: u64) {
        let at = (address - (STACK_END - 24)) as usize;
        let word = value.to_ne_bytes();
        let bytes = match cfg!(target_endian = "little") {
            true => &word[..length],
            false => &word[8 - length..],
        };
        self.stack[at..at + length].copy_from_slice(bytes);
    }
}

/// Whether the program redirects a frame, as the kernel's interpreter would run it.
fn redirects(frame: &[u8]) -> bool {
    runs(&assemble(PROTOCOL, SOCKETS as i32, None), frame, &[])
}

/// The same of one that takes UDP to these keys.
fn redirects_udp(frame: &[u8], keys: &[[u8; 24]]) -> bool {
    let rules = UdpRules { port: 6363, payload_max: 1774, addresses: ADDRESSES as i32 };
    runs(&assemble(PROTOCOL, SOCKETS as i32, Some(rules)), frame, keys)
}

fn runs(program: &[Instruction], frame: &[u8], keys: &[[u8; 24]]) -> bool {
    let mut registers = [0_u64; 11];
    registers[10] = STACK_END;
    let mut memory = Memory { frame, stack: [0xee; 24] };
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
        let place = registers[to].wrapping_add(offset as u64);
        at += 1;
        match code {
            LOAD_WORD => registers[to] = memory.load(source, 4),
            LOAD_HALF => registers[to] = memory.load(source, 2),
            LOAD_BYTE => registers[to] = memory.load(source, 1),
            STORE_WORD => memory.store(place, 4, registers[from]),
            STORE_HALF => memory.store(place, 2, registers[from]),
            STORE_HALF_CONSTANT => memory.store(place, 2, constant),
            STORE_WORD_CONSTANT => memory.store(place, 4, constant),
            STORE_LONG_CONSTANT => memory.store(place, 8, constant),
            FROM_NETWORK => registers[to] = u64::from(u16::from_be(registers[to] as u16)),
            LOAD_CONSTANT => {
                registers[to] = constant;
                at += 1;
            }
            MOVE => registers[to] = registers[from],
            MOVE_CONSTANT => registers[to] = constant,
            ADD => registers[to] = registers[to].wrapping_add(constant),
            AND => registers[to] &= constant,
            JUMP => at += jump(true),
            JUMP_GREATER => at += jump(registers[to] > registers[from]),
            JUMP_GREATER_CONSTANT => at += jump(registers[to] > constant),
            JUMP_EQUAL => at += jump(registers[to] == constant),
            JUMP_UNEQUAL => at += jump(registers[to] != constant),
            CALL if constant == LOOK_UP as u64 => {
                assert_eq!(registers[1..3], [ADDRESSES, STACK_END - 24]);
                registers[0] = u64::from(keys.contains(&memory.stack));
                // What a call does not keep.
                registers[1..6].fill(0xdead_dead);
            }
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
fn frames_of_the_protocol_are_taken_and_no_others() {
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

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// A datagram to our port, with the headers of the other end's kernel.
fn datagram(destination: &str) -> Vec<u8> {
    use crate::packet::DatagramHeaders;
    let destination: std::net::IpAddr = destination.parse().unwrap();
    let source: std::net::IpAddr = match destination.is_ipv4() {
        true => [192, 0, 2, 1].into(),
        false => "2001:db8::1".parse().unwrap(),
    };
    let headers =
        DatagramHeaders { source: (source, 1234).into(), peer: (destination, 6363).into() };
    let mut written = [0; DatagramHeaders::LENGTH_MAX];
    let length = headers.write([b"payload", b""], &mut written).unwrap();
    let ether = [&OWN_MAC[..], &[2; 6], &headers.protocol().to_be_bytes()].concat();
    [&ether, &written[..length], b"payload"].concat()
}

fn key(destination: &str) -> [u8; 24] {
    let mut key = [0; 24];
    key[..6].copy_from_slice(&OWN_MAC);
    let address: std::net::Ipv6Addr = destination.parse().unwrap();
    key[8..].copy_from_slice(&address.octets());
    key
}

#[test]
fn datagrams_to_own_addresses_are_taken() {
    let keys = [key("::ffff:198.51.100.7"), key("2001:db8::7")];
    for (own, other) in [("198.51.100.7", "198.51.100.8"), ("2001:db8::7", "2001:db8::8")] {
        let whole = datagram(own);
        assert!(redirects_udp(&whole, &keys), "{own}");
        assert!(!redirects_udp(&whole, &[]), "no address yet");
        assert!(!redirects_udp(&datagram(other), &keys), "{other}");
        assert!(!redirects(&whole), "without UDP");
        // By another hardware address, it may be for a device on top of this one.
        for at in 0..6 {
            let mut wrong = whole.clone();
            wrong[at] ^= 1;
            assert!(!redirects_udp(&wrong, &keys), "{at}");
        }
        // Shorter than its headers.
        for length in 0..whole.len() - 7 {
            assert!(!redirects_udp(&whole[..length], &keys), "{length}");
        }
    }
}

#[test]
fn what_is_no_such_datagram_goes_to_the_kernel() {
    let keys = [key("::ffff:198.51.100.7"), key("2001:db8::7")];
    let v4: &[(usize, u8)] = &[
        (14, 0x46), // options
        (14, 0x65),
        (20, 0x20), // more fragments
        (20, 0x1f), // a fragment
        (21, 0x01),
        (23, 6), // TCP
        (36, 0), // ports
        (37, 0),
        (16, 7), // longer than a chunk
    ];
    let v6: &[(usize, u8)] = &[
        (14, 0x40),
        (20, 0), // an extension header
        (20, 44),
        (20, 6),
        (56, 0),
        (57, 0),
        (18, 7),
    ];
    for (own, changes) in [("198.51.100.7", v4), ("2001:db8::7", v6)] {
        for &(at, value) in changes {
            let mut frame = datagram(own);
            frame[at] = value;
            assert!(!redirects_udp(&frame, &keys), "{own} {at} {value:#x}");
        }
        // The class, "do not fragment" and the sender do not matter.
        for at in [15, 24, 26] {
            let mut frame = datagram(own);
            frame[at] ^= 1;
            assert!(redirects_udp(&frame, &keys), "{own} {at}");
        }
        // With a tag it is for a device of its own.
        let mut tagged = datagram(own);
        tagged.splice(12..12, [0x81, 0, 0, 0]);
        assert!(!redirects_udp(&tagged, &keys), "{own}");
    }
    // The longest that fits.
    for (own, at, header) in [("198.51.100.7", 16, 0), ("2001:db8::7", 18, 40)] {
        for (length, is_taken) in [(1774_u16, true), (1775, false)] {
            let mut frame = datagram(own);
            frame[at..at + 2].copy_from_slice(&(length - header).to_be_bytes());
            assert_eq!(redirects_udp(&frame, &keys), is_taken, "{own} {length}");
        }
    }
    // Our own EtherType is taken as before.
    let mut frame = vec![2; 60];
    frame[12..14].copy_from_slice(&PROTOCOL.to_be_bytes());
    assert!(redirects_udp(&frame, &[]));
    frame[12..18].copy_from_slice(&[0x81, 0, 0, 0, 0x86, 0x24]);
    assert!(redirects_udp(&frame, &[]));
    frame[15] = 7;
    assert!(!redirects_udp(&frame, &[]));
}
