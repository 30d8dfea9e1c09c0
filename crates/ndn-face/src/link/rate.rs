//! Rate limits on the Interests of a face.

use std::num::NonZeroU32;

use ndn_packet::tlv::Reader;
use ndn_packet::types;
use ndn_types::Timestamp;

/// The first components of names of management, as TLV.
const MANAGEMENT: [&[u8]; 2] = [b"\x08\x09localhost\x08\x03nfd", b"\x08\x08localhop\x08\x03nfd"];

/// Burst size, as the time by which a face may be ahead of its rate.
const AHEAD_NS: u64 = 250_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// A token bucket for the Interests of one face. It holds a quarter of a second, and is stored as the time at which
/// it will be full again.
#[derive(Debug, Default)]
pub(super) struct InterestRate {
    full_at: Timestamp,
}

impl InterestRate {
    /// Whether an Interest that arrives now is within the rate; counts it if so.
    #[inline]
    pub(super) fn admit(&mut self, now: Timestamp, per_second: NonZeroU32) -> bool {
        let full_at = self.full_at.max(now).as_nanos();
        if full_at > now.as_nanos() + AHEAD_NS {
            return false;
        }
        self.full_at = Timestamp::from_nanos(full_at + SECOND_NS / u64::from(per_second.get()));
        true
    }
}

/// Whether a packet is an Interest below `/localhost/nfd` or `/localhop/nfd`.
pub(super) fn is_for_management(packet: &[u8]) -> bool {
    let interest = Reader::new(packet).read_expected(types::INTEREST);
    let name = interest.and_then(|interest| interest.reader().read_expected(types::NAME));
    name.is_ok_and(|name| MANAGEMENT.iter().any(|prefix| name.value().starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use ndn_packet::{InterestBuilder, Name};

    use super::*;

    #[test]
    fn interests_to_management_are_recognised_by_name() {
        let interest = |uri: &str| {
            let name = Name::from_uri(uri).unwrap();
            InterestBuilder::new(&name).nonce(1).to_vec().unwrap()
        };
        for uri in ["/localhost/nfd", "/localhost/nfd/rib/register/x", "/localhop/nfd/rib/announce"]
        {
            assert!(is_for_management(&interest(uri)), "{uri}");
        }
        for uri in ["/localhost", "/localhost/nfdx/rib", "/localhop/nlsr", "/a/localhost/nfd"] {
            assert!(!is_for_management(&interest(uri)), "{uri}");
        }
        let data = b"\x06\x12\x07\x10\x08\x09localhost\x08\x03nfd";
        assert!(!is_for_management(data));
        assert!(!is_for_management(&interest("/localhost/nfd")[..10]), "it is cut short");
    }

    /// Number of `offered` Interests at each millisecond from `from_ms` to `to_ms` that are admitted.
    fn admitted(rate: &mut InterestRate, from_ms: u64, to_ms: u64, offered: u32) -> u32 {
        let per_second = NonZeroU32::new(10_000).unwrap();
        let mut count = 0;
        for ms in from_ms..to_ms {
            let now = Timestamp::from_nanos(ms * 1_000_000);
            count += (0..offered).map(|_| u32::from(rate.admit(now, per_second))).sum::<u32>();
        }
        count
    }

    #[test]
    fn interests_above_the_rate_are_refused() {
        let mut rate = InterestRate::default();
        assert_eq!(admitted(&mut rate, 0, 10_000, 10), 100_000, "all, at the rate itself");
        let twice = admitted(&mut rate, 10_000, 20_000, 20);
        // The last come at 19.999 s.
        assert_eq!(twice, 102_491, "the rate and a quarter of a second");
        assert_eq!(admitted(&mut rate, 20_000, 30_000, 10), 100_000, "the rate still passes");
    }

    #[test]
    fn unused_rate_allows_one_burst() {
        let mut rate = InterestRate::default();
        let burst = admitted(&mut rate, 60_000, 60_001, 10_000);
        assert!((2_500..2_502).contains(&burst), "{burst}");
        assert_eq!(admitted(&mut rate, 60_000, 60_001, 10), 0);
        assert_eq!(admitted(&mut rate, 60_100, 60_101, 10_000), 1_000);
    }
}
