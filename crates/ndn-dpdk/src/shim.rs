//! The C functions over libdpdk (`c/shim.h`), as Rust sees them.

use std::ffi::{c_char, c_int};

/// DPDK's memory of one frame.
#[repr(C)]
pub(crate) struct Mbuf {
    _opaque: [u8; 0],
}

/// `struct namewire_dpdk_port`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Port {
    pub(crate) pool: *mut Mbuf,
    pub(crate) port: u16,
    pub(crate) mtu: u16,
    pub(crate) mac: [u8; 6],
    pub(crate) socket: c_int,
    pub(crate) driver: [u8; 32],
}

/// `struct namewire_dpdk_options`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Options {
    pub(crate) name: *const c_char,
    pub(crate) mtu: u16,
    pub(crate) descriptors: u16,
    pub(crate) buffers: u32,
    pub(crate) group: [u8; 6],
}

unsafe extern "C" {
    pub(crate) fn namewire_dpdk_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    pub(crate) fn namewire_dpdk_open(
        options: *const Options,
        port: *mut Port,
        step: *mut *const c_char,
    ) -> c_int;
    pub(crate) fn namewire_dpdk_close(port: *mut Port);
    pub(crate) fn namewire_dpdk_receive(
        port: *const Port,
        frames: *mut *mut Mbuf,
        room: u16,
    ) -> u16;
    pub(crate) fn namewire_dpdk_transmit(
        port: *const Port,
        frames: *mut *mut Mbuf,
        count: u16,
    ) -> u16;
    pub(crate) fn namewire_dpdk_allocate(
        port: *const Port,
        length: u16,
        bytes: *mut *mut u8,
    ) -> *mut Mbuf;
    pub(crate) fn namewire_dpdk_bytes(frame: *const Mbuf, length: *mut u32) -> *const u8;
    pub(crate) fn namewire_dpdk_copy(frame: *const Mbuf, to: *mut u8, length: u32) -> u32;
    pub(crate) fn namewire_dpdk_free(frame: *mut Mbuf);
    pub(crate) fn namewire_dpdk_is_up(port: u16) -> c_int;
    pub(crate) fn namewire_dpdk_lost(port: *const Port) -> u64;
}
