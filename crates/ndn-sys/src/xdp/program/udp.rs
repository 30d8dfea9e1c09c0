//! What the program does with UDP.
//!
//! It would be this in C, behind the test for our own EtherType:
//!
//! ```c
//! struct key { __u8 mac[6]; __u8 zeros[2]; __u8 address[16]; };
//! struct { __uint(type, BPF_MAP_TYPE_HASH); ... } addresses SEC(".maps");
//!
//!     struct key key;
//!     if (type == bpf_htons(ETH_P_IP)) {
//!         if (data + 14 + 20 + 8 > end)
//!             return XDP_PASS;
//!         /* Version 4 without options, no fragment, UDP to our port, no longer than a chunk. */
//!         if (*(__u8 *)(data + 14) != 0x45 || *(__u16 *)(data + 20) & bpf_htons(0x3fff))
//!             return XDP_PASS;
//!         if (*(__u8 *)(data + 23) != IPPROTO_UDP || *(__u16 *)(data + 36) != bpf_htons(PORT))
//!             return XDP_PASS;
//!         if (bpf_ntohs(*(__u16 *)(data + 16)) > PAYLOAD_MAX)
//!             return XDP_PASS;
//!         /* As IPv6 writes it: ::ffff:a.b.c.d. */
//!         *(__u64 *)&key.address[0] = 0;
//!         *(__u32 *)&key.address[8] = bpf_htonl(0x0000ffff);
//!         *(__u32 *)&key.address[12] = *(__u32 *)(data + 30);
//!     } else if (type == bpf_htons(ETH_P_IPV6)) {
//!         if (data + 14 + 40 + 8 > end)
//!             return XDP_PASS;
//!         if ((*(__u8 *)(data + 14) & 0xf0) != 0x60)
//!             return XDP_PASS;
//!         if (*(__u8 *)(data + 20) != IPPROTO_UDP || *(__u16 *)(data + 56) != bpf_htons(PORT))
//!             return XDP_PASS;
//!         if (bpf_ntohs(*(__u16 *)(data + 18)) > PAYLOAD_MAX - 40)
//!             return XDP_PASS;
//!         memcpy(key.address, data + 38, 16);
//!     } else
//!         goto tagged;
//!     memcpy(key.mac, data, 6);
//!     *(__u16 *)key.zeros = 0;
//!     if (!bpf_map_lookup_elem(&addresses, &key))
//!         return XDP_PASS;
//!     goto redirect;
//! tagged:
//! ```
//!
//! What is sent to an address of the device, and not by its hardware address, goes to the kernel, too: it
//! may be for another device on top of this one.

use super::{ADD, LOAD_WORD, MOVE, Target, network};
use super::{AND, Assembler, CALL, JUMP_EQUAL, JUMP_GREATER, JUMP_UNEQUAL, LOAD_BYTE, LOAD_HALF};

/// Stores: of a register's word and half word, and of a constant's half word, word and double word.
pub(super) const STORE_WORD: u8 = 0x63;
pub(super) const STORE_HALF: u8 = 0x6b;
pub(super) const STORE_HALF_CONSTANT: u8 = 0x6a;
pub(super) const STORE_WORD_CONSTANT: u8 = 0x62;
pub(super) const STORE_LONG_CONSTANT: u8 = 0x7a;
/// From the byte order of the network (`BPF_END`, 16 bits).
pub(super) const FROM_NETWORK: u8 = 0xdc;
/// Jumps in any case, and if a register is greater than a constant.
pub(super) const JUMP: u8 = 0x05;
pub(super) const JUMP_GREATER_CONSTANT: u8 = 0x25;
/// `BPF_FUNC_map_lookup_elem`.
pub(super) const LOOK_UP: i32 = 1;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: i32 = 17;
/// The flag that fragments follow, and the place of a fragment.
const FRAGMENT: u16 = 0x3fff;
/// Where the context is kept, as a call forgets the registers before it, and the frame of the stack.
const CONTEXT: u8 = 6;
const STACK: u8 = 10;
/// Where the key lies on the stack: the hardware address, two zeros, the address.
const AT_KEY: i16 = -24;
const AT_ADDRESS: i16 = AT_KEY + 8;
const IPV6_HEADER: u16 = 40;

/// The UDP that is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UdpRules {
    /// To this port.
    pub(crate) port: u16,
    /// In packets of no more bytes than this.
    pub(crate) payload_max: u16,
    /// The descriptor of the map of the addresses to which it is sent.
    pub(crate) addresses: i32,
}

impl Assembler {
    /// Keeps the context for after the call.
    pub(super) fn keep_context(&mut self) {
        self.add(MOVE, CONTEXT, 1, 0, 0);
    }

    /// With the EtherType in register 5, the frame in 3 and its end in 2.
    pub(super) fn add_udp(&mut self, rules: UdpRules) {
        let UdpRules { port, payload_max, addresses } = rules;
        self.jump(JUMP_EQUAL, 5, 0, network(IPV4), Target::Version4);
        self.jump(JUMP_EQUAL, 5, 0, network(IPV6), Target::Version6);
        self.jump(JUMP, 0, 0, 0, Target::Tagged);
        self.mark(Target::Version4);
        self.add_bound(14 + 20 + 8);
        self.add(LOAD_BYTE, 5, 3, 14, 0);
        self.jump(JUMP_UNEQUAL, 5, 0, 0x45, Target::Pass);
        self.add(LOAD_HALF, 5, 3, 20, 0);
        self.add(AND, 5, 0, 0, network(FRAGMENT));
        self.jump(JUMP_UNEQUAL, 5, 0, 0, Target::Pass);
        self.add_port_and_length(port, [23, 36, 16], payload_max);
        let mapped = i32::from_ne_bytes([0, 0, 0xff, 0xff]);
        self.add(STORE_LONG_CONSTANT, STACK, 0, AT_ADDRESS, 0);
        self.add(STORE_WORD_CONSTANT, STACK, 0, AT_ADDRESS + 8, mapped);
        self.copy_word(30, AT_ADDRESS + 12);
        self.jump(JUMP, 0, 0, 0, Target::LookUp);
        self.mark(Target::Version6);
        self.add_bound(14 + 40 + 8);
        self.add(LOAD_BYTE, 5, 3, 14, 0);
        self.add(AND, 5, 0, 0, 0xf0);
        self.jump(JUMP_UNEQUAL, 5, 0, 0x60, Target::Pass);
        self.add_port_and_length(port, [20, 56, 18], payload_max.saturating_sub(IPV6_HEADER));
        for word in 0..4 {
            self.copy_word(38 + 4 * word, AT_ADDRESS + 4 * word);
        }
        self.mark(Target::LookUp);
        self.copy_word(0, AT_KEY);
        self.add(LOAD_HALF, 5, 3, 4, 0);
        self.add(STORE_HALF, STACK, 5, AT_KEY + 4, 0);
        self.add(STORE_HALF_CONSTANT, STACK, 0, AT_KEY + 6, 0);
        self.add(MOVE, 2, STACK, 0, 0);
        self.add(ADD, 2, 0, 0, i32::from(AT_KEY));
        self.add_map(1, addresses);
        self.add(CALL, 0, 0, 0, LOOK_UP);
        self.add(MOVE, 1, CONTEXT, 0, 0);
        self.jump(JUMP_EQUAL, 0, 0, 0, Target::Pass);
        self.jump(JUMP, 0, 0, 0, Target::Redirect);
        self.mark(Target::Tagged);
    }

    /// Leaves frames to the kernel that are shorter.
    fn add_bound(&mut self, length: i32) {
        self.add(MOVE, 4, 3, 0, 0);
        self.add(ADD, 4, 0, 0, length);
        self.jump(JUMP_GREATER, 4, 2, 0, Target::Pass);
    }

    /// Leaves to the kernel what is not UDP, to another port or longer than `length_max`, with the places of
    /// the three.
    fn add_port_and_length(&mut self, port: u16, at: [i16; 3], length_max: u16) {
        let [at_protocol, at_port, at_length] = at;
        self.add(LOAD_BYTE, 5, 3, at_protocol, 0);
        self.jump(JUMP_UNEQUAL, 5, 0, UDP, Target::Pass);
        self.add(LOAD_HALF, 5, 3, at_port, 0);
        self.jump(JUMP_UNEQUAL, 5, 0, network(port), Target::Pass);
        self.add(LOAD_HALF, 5, 3, at_length, 0);
        self.add(FROM_NETWORK, 5, 0, 0, 16);
        self.jump(JUMP_GREATER_CONSTANT, 5, 0, i32::from(length_max), Target::Pass);
    }

    /// From the frame to the key.
    fn copy_word(&mut self, from: i16, to: i16) {
        self.add(LOAD_WORD, 5, 3, from, 0);
        self.add(STORE_WORD, STACK, 5, to, 0);
    }
}
