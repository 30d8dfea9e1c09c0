//! The datasets of a status report.

use ndn_management::{
    ChannelStatus, CsInfo, FaceStatus, FibEntry, ForwarderStatus, RibEntry, StrategyChoice,
};

/// The full status report.
pub(super) struct Report {
    pub(super) general: ForwarderStatus,
    pub(super) channels: Vec<ChannelStatus>,
    pub(super) faces: Vec<FaceStatus>,
    pub(super) fib: Vec<FibEntry>,
    pub(super) rib: Vec<RibEntry>,
    pub(super) cs: CsInfo,
    pub(super) strategies: Vec<StrategyChoice>,
}
