//! Reads runs of segments at their positions.

use std::fs::File;
use std::io::{self, IoSliceMut};

use rustix::io::{Errno, preadv};

/// Maximum number of buffers per call (`IOV_MAX`).
const BUFFERS_MAX: usize = 1024;

/// Reads `buffers`, which are contiguous in the file, from `offset` on.
///
/// # Errors
/// `UnexpectedEof` if the file ends before, and errors of the kernel.
pub(crate) fn read_run(
    file: &File,
    mut offset: u64,
    mut buffers: &mut [IoSliceMut<'_>],
) -> io::Result<()> {
    // Empty buffers would look like the end of the file.
    IoSliceMut::advance_slices(&mut buffers, 0);
    while !buffers.is_empty() {
        let count = buffers.len().min(BUFFERS_MAX);
        let read = match preadv(file, &mut buffers[..count], offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        offset += u64::try_from(read).unwrap_or(0);
        IoSliceMut::advance_slices(&mut buffers, read);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn run_fills_its_buffers_or_fails() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        file.write_all(&bytes).unwrap();
        let (mut one, mut none, mut two) = ([0; 100], [0; 0], [0; 50]);
        let mut buffers =
            [IoSliceMut::new(&mut one), IoSliceMut::new(&mut none), IoSliceMut::new(&mut two)];
        read_run(&file, 10, &mut buffers).unwrap();
        assert_eq!(one[..], bytes[10..110]);
        assert_eq!(two[..], bytes[110..160]);
        let error = read_run(&file, 200, &mut [IoSliceMut::new(&mut one)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        read_run(&file, 1000, &mut [IoSliceMut::new(&mut [])]).unwrap();
    }
}
