//! Data that nobody asked for.

/// Which Data is cached although no Interest is pending for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnsolicitedPolicy {
    /// None.
    #[default]
    DropAll,
    /// What comes from local faces.
    AdmitLocal,
    /// What comes from other faces.
    AdmitNetwork,
    /// All.
    AdmitAll,
}

impl UnsolicitedPolicy {
    /// Whether to cache what has come from a local face, or from another.
    #[must_use]
    pub fn admits(self, from_local: bool) -> bool {
        match self {
            Self::DropAll => false,
            Self::AdmitLocal => from_local,
            Self::AdmitNetwork => !from_local,
            Self::AdmitAll => true,
        }
    }
}
