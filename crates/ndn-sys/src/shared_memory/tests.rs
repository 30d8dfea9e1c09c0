use super::*;

#[test]
fn ranges_are_copied_wherever_they_lie() {
    let (memory, file) = SharedMemory::create("test", 4096).unwrap();
    let peer = SharedMemory::adopt(file.as_fd(), 4096).unwrap();
    let bytes: Vec<u8> = (0..1000_u32).map(|at| (at % 251) as u8).collect();
    for offset in 0..20 {
        // Both sides of where another way to copy begins.
        for length in (0..40).chain([STRING_MIN - 1, STRING_MIN, 1000]) {
            memory.copy_in(0, &[0; 1100]).unwrap();
            memory.copy_in(offset, &bytes[..length]).unwrap();
            let mut all = [0; 1100];
            peer.copy_out(0, &mut all[..40]).unwrap();
            peer.copy_out(40, &mut all[40..]).unwrap();
            let mut expected = [0; 1100];
            expected[offset..offset + length].copy_from_slice(&bytes[..length]);
            assert_eq!(all, expected, "{offset} {length}");
            let mut part = vec![0; length];
            peer.copy_out(offset, &mut part).unwrap();
            assert_eq!(part, bytes[..length]);
        }
    }
}

#[test]
fn atomic_words_are_shared() {
    let (memory, file) = SharedMemory::create("test", 128).unwrap();
    let peer = SharedMemory::adopt(file.as_fd(), 128).unwrap();
    memory.word16(6).unwrap().store(0x1234, Ordering::Release);
    assert_eq!(peer.word16(6).unwrap().load(Ordering::Acquire), 0x1234);
    memory.word32(8).unwrap().store(7, Ordering::Relaxed);
    memory.word32(12).unwrap().store(9, Ordering::Relaxed);
    let both = peer.word64(8).unwrap().load(Ordering::Relaxed).to_ne_bytes();
    assert_eq!(both, [7_u32.to_ne_bytes(), 9_u32.to_ne_bytes()].concat()[..]);
}

#[test]
fn access_outside_the_memory_is_rejected() {
    let (memory, _) = SharedMemory::create("test", 100).unwrap();
    assert_eq!(memory.len(), 100);
    for offset in [99, 100, 4096, usize::MAX - 1, usize::MAX] {
        assert!(memory.word16(offset).is_err(), "{offset}");
        assert_eq!(memory.copy_out(offset, &mut [0; 2]), Err(OutOfRange));
        assert_eq!(memory.copy_in(offset, &[0; 2]), Err(OutOfRange));
    }
    assert!(memory.word32(98).is_err() && memory.word32(97).is_err());
    assert!(memory.word32(96).is_ok());
    assert!(memory.word64(96).is_err() && memory.word64(4).is_err());
    assert!(memory.copy_in(98, &[1, 2]).is_ok());
    assert!(memory.copy_out(100, &mut []).is_ok());
}

#[test]
fn memory_that_can_be_shortened_is_not_mapped() {
    let open = || {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("test", flags).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        file
    };
    let kind = |file: &OwnedFd, length| {
        SharedMemory::adopt(file.as_fd(), length).map(|_| ()).map_err(|error| error.kind())
    };
    let file = open();
    assert_eq!(kind(&file, 4096), Err(io::ErrorKind::PermissionDenied));
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    assert_eq!(kind(&file, 4096), Ok(()));
    assert_eq!(kind(&file, 1), Ok(()));
    for length in [0, 4097, 1 << 40, u64::MAX] {
        assert_eq!(kind(&file, length), Err(io::ErrorKind::InvalidInput), "{length}");
    }
    assert!(rustix::fs::ftruncate(&file, 1).is_err());
    // Neither files of a disk nor pipes can be sealed.
    let plain = OwnedFd::from(tempfile::tempfile().unwrap());
    assert_eq!(kind(&plain, 1), Err(io::ErrorKind::PermissionDenied));
    let (pipe, _) = rustix::pipe::pipe().unwrap();
    assert_eq!(kind(&pipe, 1), Err(io::ErrorKind::PermissionDenied));
    // Memory that may not be written to cannot be mapped.
    let frozen = open();
    rustix::fs::fcntl_add_seals(&frozen, SealFlags::SHRINK | SealFlags::WRITE).unwrap();
    assert!(kind(&frozen, 4096).is_err());
}

#[test]
fn own_memory_cannot_be_shortened() {
    let (_memory, file) = SharedMemory::create("test", 4096).unwrap();
    assert!(rustix::fs::ftruncate(&file, 0).is_err());
    assert!(rustix::fs::ftruncate(&file, 8192).is_err());
}
