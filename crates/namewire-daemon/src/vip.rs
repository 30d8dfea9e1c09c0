//! The settings of VIP (`[caching.vip]`), if the program was built with it.

use std::num::NonZeroU32;

use ndn_caching::PolicyKind;
use ndn_table::{NameHasher, OBJECT_RULES_MAX, ObjectDivision, ObjectRules};

use crate::config::{Config, Conflict};

const ENABLED: &str = "caching.vip.enabled";
const POLICY: &str = "tables.cs.policy";
const RULES: &str = "caching.vip.rules";

/// Rejects settings of VIP if the program was built without it, and the policy without the exchange.
pub(super) fn check(config: &Config) -> Option<Conflict> {
    let is_vip = config.tables.cs.policy == PolicyKind::Vip;
    if let Some(reason) = policy_refusal(config).filter(|_| is_vip) {
        return Some(Conflict::new(&[POLICY], format!("{POLICY}: {reason}")));
    }
    if config.caching.vip.rules.len() > OBJECT_RULES_MAX {
        let reason = format!("the maximum number of rules is {OBJECT_RULES_MAX}");
        return Some(Conflict::new(&[RULES], reason));
    }
    let is_without = cfg!(not(feature = "vip")) && config.caching.vip.enabled;
    is_without.then(|| Conflict::new(&[ENABLED], format!("{ENABLED}: {WITHOUT}")))
}

const WITHOUT: &str = "this program was built without VIP (cargo build --features vip), which is patented in the United \
    States (US 12155738 B2)";

/// The reason why the replacement policy `vip` cannot be used, if there is one.
pub(super) fn policy_refusal(config: &Config) -> Option<String> {
    if cfg!(not(feature = "vip")) {
        return Some(WITHOUT.to_owned());
    }
    let is_alone = !config.caching.vip.enabled;
    is_alone.then(|| format!("\"vip\" needs {ENABLED} = true, which computes the scores"))
}

/// The objects of names.
pub(super) fn object_rules(config: &Config, hasher: NameHasher) -> ObjectRules {
    let rules = config.caching.vip.rules.iter().filter_map(|rule| {
        // The configuration was checked: each rule has one of the two.
        let blocks = rule.block_segments.and_then(NonZeroU32::new).map(ObjectDivision::Blocks);
        let division = blocks.or(rule.components.map(ObjectDivision::Components))?;
        Some((rule.prefix.as_ref(), division))
    });
    ObjectRules::new(rules, hasher)
}

/// The replacement policy of the Content Store before the control thread chooses that of the configuration.
pub(super) fn policy_at_start(config: &Config) -> PolicyKind {
    let policy = config.tables.cs.policy;
    if policy == PolicyKind::Vip { PolicyKind::Lru } else { policy }
}

#[cfg(feature = "vip")]
pub(super) use with_vip::{Keys, check_signers, keys, node_settings, penalties};

#[cfg(feature = "vip")]
mod with_vip {
    use anyhow::Context;
    use ndn_caching::Penalties;
    use ndn_keychain::{Access, KeyChain, Locations};
    use ndn_management::SignedInterests;
    use ndn_security::{DigestSigner, Signer};
    use ndn_sys::clock::Clock;
    use ndn_types::duration_ms;
    use ndn_vip::{NodeSettings, REQUEST, Score, Settings};

    use crate::access;
    use crate::config::{Config, Conflict, VipScore};
    use crate::environment::now;

    /// Size of a cached packet where the size of the cache is not set, in bytes.
    const PACKET_BYTES: u64 = 8192;
    /// Maximum number of neighbours.
    const NEIGHBOURS_MAX: usize = 64;
    const SIGNERS: &str = "caching.vip.signers";
    const IDENTITY: &str = "management.identity";

    /// The signers of reports: those that are accepted, and the own one.
    pub(crate) struct Keys {
        pub(crate) accepted: SignedInterests,
        pub(crate) own: Box<dyn Signer>,
        clock: Clock,
    }

    impl Keys {
        /// Reads the trust rules and their anchors again.
        ///
        /// # Errors
        /// Those that cannot be used; the former stay.
        pub(crate) fn reload(&mut self, config: &Config) -> anyhow::Result<()> {
            let policy =
                access::policy(&config.caching.vip.signers, &self.clock).context(SIGNERS)?;
            self.accepted.set_policy(policy, now(&self.clock).unix_ms());
            Ok(())
        }
    }

    /// Checks the trust rules before a reload.
    ///
    /// # Errors
    /// Those that cannot be used.
    pub(crate) fn check_signers(config: &Config, clock: &Clock) -> anyhow::Result<()> {
        if config.caching.vip.enabled {
            access::policy(&config.caching.vip.signers, clock).context(SIGNERS)?;
        }
        Ok(())
    }

    impl std::fmt::Debug for Keys {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.debug_struct("Keys").field("accepted", &self.accepted).finish_non_exhaustive()
        }
    }

    /// Reads the keys and trust rules; `None` if VIP is not enabled.
    ///
    /// # Errors
    /// Those that cannot be used, by setting.
    pub(crate) fn keys(config: &Config, clock: &Clock) -> Result<Option<Keys>, Vec<Conflict>> {
        let vip = &config.caching.vip;
        if !vip.enabled {
            return Ok(None);
        }
        let policy = access::policy(&vip.signers, clock).context(SIGNERS);
        let own = own_signer(config).context(IDENTITY);
        match (policy, own) {
            (Ok(policy), Ok(own)) => {
                let accepted = SignedInterests::new(policy, now(clock).unix_ms());
                Ok(Some(Keys { accepted, own, clock: clock.clone() }))
            }
            (policy, own) => {
                let conflict = |key: &str, error| Conflict::from_error(&[key], &error);
                let of_policy = policy.err().map(|error| conflict(SIGNERS, error));
                Err(of_policy.into_iter().chain(own.err().map(|e| conflict(IDENTITY, e))).collect())
            }
        }
    }

    fn own_signer(config: &Config) -> anyhow::Result<Box<dyn Signer>> {
        let Some(name) = &config.management.identity else { return Ok(Box::new(DigestSigner)) };
        let key_chain = KeyChain::open(Locations::from_environment()?, Access::Read)?;
        Ok(Box::new(key_chain.signer(name.as_ref())?))
    }

    /// Scores that cached objects cost.
    pub(crate) fn penalties(config: &Config) -> Penalties {
        let vip = &config.caching.vip;
        let amount = |thousandths: u32| u64::from(thousandths) * (REQUEST / 1000);
        Penalties { read: amount(vip.read_penalty), write: amount(vip.write_penalty) }
    }

    /// The settings of the virtual plane.
    pub(crate) fn node_settings(config: &Config) -> NodeSettings {
        let (vip, penalties) = (&config.caching.vip, penalties(config));
        let packets = config.tables.cs.capacity_packets as u64;
        NodeSettings {
            plane: Settings {
                slot_ms: duration_ms(vip.slot),
                cache_bytes: vip.cache_size.map_or(packets * PACKET_BYTES, |size| size.0),
                read_bytes_per_s: vip.read_rate.0,
                window_slots: vip.window_slots,
                score: match vip.score {
                    VipScore::Count => Score::Count,
                    VipScore::Arrivals => Score::Arrivals,
                },
                read_penalty: penalties.read,
                write_penalty: penalties.write,
            },
            objects_max: vip.objects,
            neighbours_max: NEIGHBOURS_MAX,
            object_bytes: vip.object_size.0,
        }
    }
}

#[cfg(all(test, feature = "vip"))]
mod tests {
    use std::time::Duration;

    use namewire_tests::{Identity, unix_ms};
    use ndn_packet::{Data, DataBuilder, Interest, InterestBuilder, SignatureInfo};
    use ndn_security::{Signer, sha256, sign_data};
    use ndn_sys::clock::ManualClock;
    use ndn_types::{Now, Timestamp};

    use super::*;
    use crate::config::TrustRules;

    /// The certificate of a neighbour becomes an anchor of rules for Interests: after a reload, its reports and
    /// acknowledgements are accepted.
    #[test]
    fn reload_reads_the_anchors_of_signers_again() {
        let started_ms = unix_ms();
        let directory = tempfile::tempdir().unwrap();
        let anchors = directory.path().join("anchors");
        std::fs::create_dir(&anchors).unwrap();
        let mut config = Config::default();
        config.caching.vip.enabled = true;
        config.caching.vip.signers = TrustRules::Inline {
            text: "rule { id vip for interest filter { type name name /localhop/vip relation is-prefix-of }\n\
                   checker { type customized key-locator { type name regex ^<>*<KEY><>$ } } }\n\
                   trust-anchor { type dir dir anchors }"
                .to_owned(),
            directory: directory.path().to_owned(),
        };
        let clock = ManualClock::new(Timestamp::ZERO, Duration::from_millis(started_ms)).into();
        let mut keys = keys(&config, &clock).unwrap().unwrap();
        let neighbour = Identity::new("/neighbour", None);
        let signer = neighbour.signer();
        let now = Now { unix: Duration::from_millis(started_ms + 1000), ..Now::default() };
        let accepted = |keys: &mut Keys, time_ms: u64| {
            let info = SignatureInfo { time_ms: Some(time_ms), ..signer.signature_info() };
            let sign = |parts: &[&[u8]], out: &mut [u8]| signer.sign(parts, out).ok();
            let report = InterestBuilder::new(&ndn_vip::prefix())
                .nonce(1)
                .parameters(b"report")
                .to_vec_signed(&info, signer.signature_len_max(), sign, sha256)
                .unwrap();
            let report = Interest::parse(&report).unwrap();
            let answer = sign_data(&DataBuilder::new(report.name()).content(b"answer"), &signer);
            let answer = answer.unwrap();
            let answer = Data::parse(&answer).unwrap();
            [
                keys.accepted.accept(now, &report).is_ok(),
                keys.accepted.accept_answer(now, &answer).is_ok(),
            ]
        };
        assert_eq!(accepted(&mut keys, started_ms + 1), [false; 2]);
        std::fs::write(anchors.join("neighbour.cert"), neighbour.certificate.to_text()).unwrap();
        assert_eq!(accepted(&mut keys, started_ms + 2), [false; 2], "before the reload");
        check_signers(&config, &clock).unwrap();
        keys.reload(&config).unwrap();
        assert_eq!(accepted(&mut keys, started_ms + 3), [true; 2]);
        assert_eq!(accepted(&mut keys, started_ms + 3), [false, true], "a replay");
        // Rules with a fault change nothing.
        let fault = TrustRules::Inline { text: "rule {".to_owned(), directory: anchors };
        config.caching.vip.signers = fault;
        assert!(check_signers(&config, &clock).is_err() && keys.reload(&config).is_err());
        assert_eq!(accepted(&mut keys, started_ms + 4), [true; 2]);
    }
}
