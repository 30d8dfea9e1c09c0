//! The programs that the relay bench compares.

use std::path::PathBuf;

use crate::program;

/// A program under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    /// This binary's `run`.
    Namewire,
    /// This binary's `bench dumb-relay`.
    Dumb,
    /// NFD.
    Nfd,
    /// ndnd (YaNFD).
    Ndnd,
    /// DPDK's `dpdk-testpmd`, which copies frames between two ports: the dumb relay for frame transports.
    Testpmd,
}

impl Program {
    /// The name in cases and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Namewire => "namewire",
            Self::Dumb => "dumb",
            Self::Nfd => "nfd",
            Self::Ndnd => "ndnd",
            Self::Testpmd => "testpmd",
        }
    }

    /// The name of its executable.
    pub(super) fn executable_name(self) -> &'static str {
        match self {
            Self::Testpmd => "dpdk-testpmd",
            Self::Namewire | Self::Dumb | Self::Nfd | Self::Ndnd => self.name(),
        }
    }

    /// Returns whether the program does no NDN processing.
    pub(super) fn is_dumb(self) -> bool {
        matches!(self, Self::Dumb | Self::Testpmd)
    }

    /// Returns the path of its executable, if found.
    pub(crate) fn locate(self) -> Option<PathBuf> {
        match self {
            Self::Namewire => program::namewire().ok(),
            Self::Dumb => std::env::current_exe().ok(),
            Self::Nfd | Self::Ndnd | Self::Testpmd => program::on_path(self.executable_name()),
        }
    }
}
