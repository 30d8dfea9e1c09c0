//! Input and output of the disk tier of the Content Store: the file, and the threads of each worker that read and
//! write it.

mod file;
mod port;

pub use file::{DiskError, DiskFile};
pub use port::{DiskPort, DiskPortOptions};
