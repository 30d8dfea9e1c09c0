//! TLV-TYPE numbers of the NFD management protocol (NFD management wiki; numbers are reused
//! between blocks, so each is only meaningful inside its own block).

pub use ndn_packet::types::NAME;

/// `ControlResponse`.
pub const CONTROL_RESPONSE: u32 = 101;
/// `StatusCode` of a `ControlResponse`.
pub const STATUS_CODE: u32 = 102;
/// `StatusText` of a `ControlResponse`.
pub const STATUS_TEXT: u32 = 103;

/// `ControlParameters`.
pub const CONTROL_PARAMETERS: u32 = 104;
/// `FaceId`.
pub const FACE_ID: u32 = 105;
/// `Cost` of a next hop or route.
pub const COST: u32 = 106;
/// `Strategy`, a block that holds one Name.
pub const STRATEGY: u32 = 107;
/// `Flags`.
pub const FLAGS: u32 = 108;
/// `ExpirationPeriod`, milliseconds.
pub const EXPIRATION_PERIOD: u32 = 109;
/// `Origin` of a route.
pub const ORIGIN: u32 = 111;
/// `Mask` beside `Flags`.
pub const MASK: u32 = 112;
/// `Uri`: the remote face URI.
pub const URI: u32 = 114;
/// `LocalUri`.
pub const LOCAL_URI: u32 = 129;
/// `Capacity` of the Content Store, or the erase limit.
pub const CAPACITY: u32 = 131;
/// `Count` of erased packets.
pub const COUNT: u32 = 132;
/// `Persistency`.
pub const FACE_PERSISTENCY: u32 = 133;
/// `BaseCongestionMarkingInterval`, nanoseconds.
pub const BASE_CONGESTION_MARKING_INTERVAL: u32 = 135;
/// `DefaultCongestionThreshold`, bytes.
pub const DEFAULT_CONGESTION_THRESHOLD: u32 = 136;
/// `Mtu`, bytes.
pub const MTU: u32 = 137;
/// `Driver` of the interface of an Ethernet face: ours, and even, so that others pass it over.
pub const DRIVER: u32 = 20_056;

/// Every dataset item whose first number is 128: `FaceStatus`, `CsInfo`, `FibEntry`, `RibEntry`,
/// `StrategyChoice`.
pub const DATASET_ITEM: u32 = 128;
/// `NextHopRecord` in a `FibEntry`, `Route` in a `RibEntry`.
pub const NESTED_RECORD: u32 = 129;
/// `ChannelStatus`.
pub const CHANNEL_STATUS: u32 = 130;
/// `UriScheme` in a `FaceQueryFilter`.
pub const URI_SCHEME: u32 = 131;
/// `Scope`.
pub const FACE_SCOPE: u32 = 132;
/// `LinkType`.
pub const LINK_TYPE: u32 = 134;
/// `FaceQueryFilter`.
pub const FACE_QUERY_FILTER: u32 = 150;
/// `FaceEventNotification`.
pub const FACE_EVENT_NOTIFICATION: u32 = 192;
/// `FaceEventKind`.
pub const FACE_EVENT_KIND: u32 = 193;

/// `NfdVersion` in a `ForwarderStatus`.
pub const NFD_VERSION: u32 = 128;
/// `StartTimestamp`, milliseconds since the Unix epoch.
pub const START_TIMESTAMP: u32 = 129;
/// `CurrentTimestamp`, milliseconds since the Unix epoch.
pub const CURRENT_TIMESTAMP: u32 = 130;
/// `NNameTreeEntries`.
pub const N_NAME_TREE_ENTRIES: u32 = 131;
/// `NFibEntries`.
pub const N_FIB_ENTRIES: u32 = 132;
/// `NPitEntries`.
pub const N_PIT_ENTRIES: u32 = 133;
/// `NMeasurementsEntries`.
pub const N_MEASUREMENTS_ENTRIES: u32 = 134;
/// `NCsEntries`, also inside `CsInfo`.
pub const N_CS_ENTRIES: u32 = 135;

/// `NInInterests`.
pub const N_IN_INTERESTS: u32 = 144;
/// `NInData`.
pub const N_IN_DATA: u32 = 145;
/// `NOutInterests`.
pub const N_OUT_INTERESTS: u32 = 146;
/// `NOutData`.
pub const N_OUT_DATA: u32 = 147;
/// `NInBytes`.
pub const N_IN_BYTES: u32 = 148;
/// `NOutBytes`.
pub const N_OUT_BYTES: u32 = 149;
/// `NInNacks`.
pub const N_IN_NACKS: u32 = 151;
/// `NOutNacks`.
pub const N_OUT_NACKS: u32 = 152;
/// `NSatisfiedInterests`.
pub const N_SATISFIED_INTERESTS: u32 = 153;
/// `NUnsatisfiedInterests`.
pub const N_UNSATISFIED_INTERESTS: u32 = 154;

/// `NHits` in `CsInfo`.
pub const N_HITS: u32 = 129;
/// `NMisses` in `CsInfo`.
pub const N_MISSES: u32 = 130;
