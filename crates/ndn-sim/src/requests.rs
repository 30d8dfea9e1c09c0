//! Valid requests of local programs to management, signed as any of them may sign.

use ndn_management::{
    CommandBuilder, ControlParameters, Dataset, FaceQueryFilter, PrefixAnnouncement, Verb,
    face_flag,
};
use ndn_packet::{InterestBuilder, Name, SignatureInfo, SignatureType};

/// Lifetime of announced routes, ms: longer than an attack.
const ANNOUNCED_MS: u64 = 3_600_000;

/// The kind of a request of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Routes.
    Routes,
    /// Next hops without routes.
    NextHops,
    /// Routes by prefix announcements.
    Announcements,
    /// Strategies, each with parameters of its own.
    Strategies,
    /// Faces that cannot be created, and other properties of its own.
    Faces,
    /// Datasets, and queries for ever other faces.
    Datasets,
    /// Erasures of the Content Store.
    Erasures,
}

impl Wish {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Routes,
        Self::NextHops,
        Self::Announcements,
        Self::Strategies,
        Self::Faces,
        Self::Datasets,
        Self::Erasures,
    ];

    /// The Interest for it. `number` distinguishes the requests of a program.
    pub(crate) fn request(self, prefix: &Name, number: u64, unix_ms: u64) -> Vec<u8> {
        let mut parameters = named(prefix);
        let verb = match self {
            Self::Routes => Verb::RibRegister,
            Self::NextHops => Verb::FibAddNextHop,
            Self::Announcements => return announcement(prefix, number, unix_ms),
            Self::Strategies => {
                parameters.strategy = Some(strategy(number % 5000));
                Verb::StrategySet
            }
            Self::Faces if number.is_multiple_of(2) => {
                parameters = ControlParameters::default();
                parameters.uri = Some(format!("udp4://192.0.2.9:{}", 1 + number % 60_000));
                Verb::FaceCreate
            }
            Self::Faces => {
                parameters = ControlParameters::default();
                parameters.set_flag(face_flag::LP_RELIABILITY, number % 4 == 1);
                Verb::FaceUpdate
            }
            Self::Datasets => return dataset(number),
            Self::Erasures => Verb::CsErase,
        };
        command(verb, &parameters, number, unix_ms)
    }

    /// The Interest that takes it back, if it stays.
    pub(crate) fn withdrawal(self, prefix: &Name, number: u64, unix_ms: u64) -> Option<Vec<u8>> {
        let mut parameters = named(prefix);
        let verb = match self {
            Self::Routes => Verb::RibUnregister,
            Self::NextHops => Verb::FibRemoveNextHop,
            Self::Announcements => {
                parameters.origin = Some(ndn_management::route_origin::PREFIX_ANNOUNCEMENT);
                Verb::RibUnregister
            }
            Self::Strategies => Verb::StrategyUnset,
            Self::Faces | Self::Datasets | Self::Erasures => return None,
        };
        Some(command(verb, &parameters, number, unix_ms))
    }
}

/// Parameters with a name.
pub(crate) fn named(prefix: &Name) -> ControlParameters {
    ControlParameters { name: Some(prefix.clone()), ..ControlParameters::default() }
}

/// A strategy with parameters that no other number has.
pub(crate) fn strategy(number: u64) -> Name {
    let mut name = Name::new();
    let interval = format!("probing-interval~{}", 1000 + number);
    for component in ["localhost", "nfd", "strategy", "asf"] {
        name.push_generic(component);
    }
    name.push_version(5).push_generic(interval);
    name
}

/// A command of a local program.
pub(crate) fn command(
    verb: Verb,
    parameters: &ControlParameters,
    number: u64,
    unix_ms: u64,
) -> Vec<u8> {
    // The first bytes are the Nonce of the Interest.
    let nonce = number.rotate_left(32);
    let interest =
        CommandBuilder::default().digest_signed_interest(verb, parameters, nonce, unix_ms);
    interest.unwrap_or_default()
}

fn announcement(prefix: &Name, number: u64, unix_ms: u64) -> Vec<u8> {
    let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    let sign = |parts: &[&[u8]], signature: &mut [u8]| {
        let digest = ndn_security::sha256_parts(parts);
        signature.get_mut(..digest.len())?.copy_from_slice(&digest);
        Some(digest.len())
    };
    let length = ndn_security::SHA256_LEN;
    let announced = PrefixAnnouncement::encode(prefix, number, ANNOUNCED_MS, &info, length, sign);
    let (announced, nonce) = (announced.unwrap_or_default(), number.rotate_left(32));
    let interest = CommandBuilder::default().digest_signed_announcement(&announced, nonce, unix_ms);
    interest.unwrap_or_default()
}

fn dataset(number: u64) -> Vec<u8> {
    let uri_scheme = Some(format!("scheme-{number}"));
    let query = FaceQueryFilter { uri_scheme, ..FaceQueryFilter::default() };
    let kinds = [Dataset::RibList, Dataset::FibList, Dataset::FaceList, Dataset::FaceQuery(query)];
    let kind = usize::try_from(number % 8).unwrap_or_default().min(kinds.len() - 1);
    list(&kinds[kind], number)
}

/// A request for the first segment of a dataset.
pub(crate) fn list(dataset: &Dataset, number: u64) -> Vec<u8> {
    let name = dataset.prefix();
    let nonce = u32::try_from(number % (1 << 32)).unwrap_or_default();
    let interest = InterestBuilder::new(&name).can_be_prefix(true).must_be_fresh(true);
    interest.nonce(nonce).to_vec().unwrap_or_default()
}
