//! Access control as in NFD: privileges per module, trust rules for the RIB.
//!
//! `faces`, `fib`, `cs` and `strategy-choice` are open to everybody or to the holders of certain certificates; `rib` under
//! `/localhost/nfd`, `rib` under `/localhop/nfd` and prefix announcements have a [`TrustPolicy`] each. Replays of commands
//! whose signature is verified are refused.

pub(crate) mod replay;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use ndn_packet::{Data, Interest, SignatureType};
use ndn_security::Certificate;
use ndn_security::trust::{
    AnchorChange, AnchorSource, PacketKind, SignedPacket, TrustError, TrustPolicy, Validation,
};
use ndn_types::{Now, Timestamp};
use replay::{ReplayGuard, ReplayRecords};

use crate::authorize::{Authority, Authorization, Authorizer, Requester, ignore_by_scope};
use crate::command::{Command, CommandSignature, Module, TopPrefix};

/// The authorized signers of one module.
#[derive(Debug, Clone)]
enum Privilege {
    /// Any signer, and no signature (`certfile any`).
    Everyone,
    /// The holders of the keys of these certificates.
    Holders(Box<GuardedPolicy>),
}

/// A policy, and the replay protection of the commands that it has accepted.
#[derive(Debug, Clone, Default)]
struct GuardedPolicy {
    policy: TrustPolicy,
    replay: ReplayGuard,
}

impl GuardedPolicy {
    fn new(policy: TrustPolicy) -> Self {
        Self { policy, replay: ReplayGuard::default() }
    }
}

type LoadAnchors = dyn Fn(AnchorSource<'_>) -> Result<Vec<Arc<Certificate>>, String> + Send + Sync;

/// Reads trust anchors when they are refreshed.
#[derive(Clone, Default)]
struct AnchorLoader(Option<Arc<LoadAnchors>>);

impl std::fmt::Debug for AnchorLoader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AnchorLoader").finish_non_exhaustive()
    }
}

/// The modules to which privileges are granted; `rib` has rules of its own.
pub const PRIVILEGED_MODULES: [Module; 4] =
    [Module::Faces, Module::Fib, Module::Cs, Module::StrategyChoice];

/// Privileges and trust rules. The default authorizes nobody.
#[derive(Debug, Clone, Default)]
pub struct AccessControl {
    loader: AnchorLoader,
    privileges: BTreeMap<Module, Privilege>,
    localhost_rib: GuardedPolicy,
    localhop_rib: Option<GuardedPolicy>,
    announcements: TrustPolicy,
}

impl AccessControl {
    /// NFD's sample configuration: every local command is authorized, no other.
    #[must_use]
    pub fn everyone_local() -> Self {
        let mut access = Self::default();
        PRIVILEGED_MODULES.into_iter().for_each(|module| access.grant_everyone(module));
        access.set_localhost_rib(TrustPolicy::accept_all());
        access.set_announcements(TrustPolicy::accept_all());
        access
    }

    /// Authorizes every local command of `module`.
    pub fn grant_everyone(&mut self, module: Module) {
        self.privileges.insert(module, Privilege::Everyone);
    }

    /// Authorizes the holder of `certificate` for the commands of `module`, in addition to others.
    pub fn grant(&mut self, module: Module, certificate: Arc<Certificate>) {
        match self.privileges.get_mut(&module) {
            Some(Privilege::Everyone) => {}
            Some(Privilege::Holders(guarded)) => {
                let mut anchors: Vec<_> = guarded.policy.anchors().cloned().collect();
                anchors.push(certificate);
                guarded.policy = TrustPolicy::signed_by(anchors);
            }
            None => {
                let policy = TrustPolicy::signed_by(vec![certificate]);
                self.privileges
                    .insert(module, Privilege::Holders(Box::new(GuardedPolicy::new(policy))));
            }
        }
    }

    /// Sets the policy of `rib` commands under `/localhost/nfd`.
    pub fn set_localhost_rib(&mut self, policy: TrustPolicy) {
        self.localhost_rib = GuardedPolicy::new(policy);
    }

    /// Enables `rib` under `/localhop/nfd`, with this policy.
    pub fn set_localhop_rib(&mut self, policy: TrustPolicy) {
        self.localhop_rib = Some(GuardedPolicy::new(policy));
    }

    /// Sets the policy of prefix announcements.
    pub fn set_announcements(&mut self, policy: TrustPolicy) {
        self.announcements = policy;
    }

    /// Sets the function that reads trust anchors when their `refresh` period ends; without one they are not refreshed.
    pub fn set_anchor_loader(
        &mut self,
        load: impl Fn(AnchorSource<'_>) -> Result<Vec<Arc<Certificate>>, String> + Send + Sync + 'static,
    ) {
        self.loader = AnchorLoader(Some(Arc::new(load)));
    }

    /// The policies whose anchors may come from files.
    fn policies(&self) -> impl Iterator<Item = &TrustPolicy> {
        let guarded = [Some(&self.localhost_rib), self.localhop_rib.as_ref()];
        guarded.into_iter().flatten().map(|guarded| &guarded.policy).chain([&self.announcements])
    }

    /// Refuses signed commands whose time is `unix_ms` or earlier, because it is not known which of them were executed
    /// before; where an [`AccessControl`] replaces another one of this process, [the records of that
    /// one](Authorizer::inherit) tell.
    pub fn refuse_signed_before(&mut self, unix_ms: u64) {
        let of_modules = self.privileges.values_mut().filter_map(|privilege| match privilege {
            Privilege::Holders(guarded) => Some(&mut **guarded),
            Privilege::Everyone => None,
        });
        let guarded = of_modules.chain([&mut self.localhost_rib]).chain(&mut self.localhop_rib);
        guarded.for_each(|guarded| guarded.replay.refuse_signed_before(unix_ms));
    }

    /// The policy for a command; `None` if every signer is authorized.
    fn guarded(
        &mut self,
        command: &Command<'_>,
    ) -> Result<Option<&mut GuardedPolicy>, &'static str> {
        let module = command.verb.module();
        if module == Module::Rib {
            let guarded = match command.top_prefix {
                TopPrefix::Localhost => Some(&mut self.localhost_rib),
                TopPrefix::Localhop => self.localhop_rib.as_mut(),
            };
            return guarded.map(Some).ok_or("/localhop/nfd is not enabled");
        }
        match self.privileges.get_mut(&module) {
            Some(Privilege::Everyone) => Ok(None),
            Some(Privilege::Holders(guarded)) => Ok(Some(guarded)),
            None => Err("nobody is authorised for this module"),
        }
    }
}

/// The signers of Interests that are no commands, with the replay protection of commands. The default accepts nobody.
#[derive(Debug, Clone, Default)]
pub struct SignedInterests(GuardedPolicy);

impl SignedInterests {
    /// The signers that `policy` accepts. Interests signed at `unix_ms` or earlier are refused, because it is not known which
    /// of them were accepted before.
    #[must_use]
    pub fn new(policy: TrustPolicy, unix_ms: u64) -> Self {
        let mut guarded = GuardedPolicy::new(policy);
        guarded.replay.refuse_signed_before(unix_ms);
        Self(guarded)
    }

    /// Replaces the signers, at `unix_ms`.
    pub fn set_policy(&mut self, policy: TrustPolicy, unix_ms: u64) {
        let Self(guarded) = self;
        if guarded.policy.accepts_all() {
            // What was accepted is not recorded.
            guarded.replay.refuse_signed_before(unix_ms);
        }
        guarded.policy = policy;
    }

    /// Accepts an Interest whose signer is authorized, once.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn accept(&mut self, now: Now, interest: &Interest<'_>) -> Result<(), String> {
        let Self(GuardedPolicy { policy, replay }) = self;
        if !interest.parameters_digest_is_valid(ndn_security::sha256) {
            return Err("the parameters digest does not match".to_owned());
        }
        let packet = SignedPacket::from_interest(interest);
        let packet = packet.ok_or_else(|| "the Interest is not signed".to_owned())?;
        if policy.accepts_all() {
            return Ok(());
        }
        let key = packet.key_name().map_err(|error| error.to_string())?;
        let time_ms = if proves_key(&packet) { packet.info.time_ms } else { None };
        match time_ms {
            Some(time_ms) => replay.check(now, &key, time_ms)?,
            None if proves_key(&packet) => return Err("it has no SignatureTime".to_owned()),
            None => {}
        }
        validate(policy, &packet, now)?;
        if let Some(time_ms) = time_ms {
            replay.note(now, key, time_ms);
        }
        Ok(())
    }

    /// Whether an Interest that the signer of this answer had sent under the same name, but for the digest of the parameters,
    /// would be accepted: the rules of Interests decide about their answers, too. The caller recognizes answers that it
    /// had before.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn accept_answer(&mut self, now: Now, answer: &Data<'_>) -> Result<(), String> {
        let packet = SignedPacket::from_data(answer);
        let packet = packet.ok_or_else(|| "the SignatureInfo is malformed".to_owned())?;
        let name = answer.name().parent();
        validate(
            &mut self.0.policy,
            &SignedPacket { kind: PacketKind::Interest, name, ..packet },
            now,
        )
    }
}

/// Validates a packet by trust anchors only.
fn validate(policy: &mut TrustPolicy, packet: &SignedPacket<'_>, now: Now) -> Result<(), String> {
    match policy.validate(packet, &[], unix_s(now)) {
        Validation::Accepted => Ok(()),
        Validation::Refused(error) => Err(error.to_string()),
        Validation::NeedsCertificates(_) => {
            let key = packet.key_name().map_err(|error| error.to_string())?;
            Err(format!("the certificate of {key} is not a trust anchor"))
        }
    }
}

impl Authorizer for AccessControl {
    fn authorize(
        &mut self,
        now: Now,
        command: &Command<'_>,
        requester: Requester,
        fetched: &[Arc<Certificate>],
    ) -> Authorization {
        let is_localhop_enabled = self.localhop_rib.is_some();
        if let Some(ignored) = ignore_by_scope(command, requester, is_localhop_enabled) {
            return ignored;
        }
        let is_rib = command.verb.module() == Module::Rib;
        if command.top_prefix == TopPrefix::Localhop && !is_rib {
            return Authorization::Ignore { reason: "only rib commands come under /localhop/nfd" };
        }
        let signer = command.signature.signer();
        let reject = |signer: String, reason: String| Authorization::Reject { signer, reason };
        let by_requester =
            |signer: String| Authorization::Accept { signer, authority: Authority::Requester };
        let guarded = match self.guarded(command) {
            Ok(None) => return by_requester(signer),
            Ok(Some(guarded)) => guarded,
            Err(reason) => return reject(signer, reason.to_owned()),
        };
        let Some(packet) = signed_packet(command) else {
            return reject(signer, "the command is not signed".to_owned());
        };
        if guarded.policy.accepts_all() {
            return by_requester(signer);
        }
        let key = match packet.key_name() {
            Ok(key) => key,
            // NFD does not answer these, except in its RIB module.
            Err(_) if !is_rib => {
                return Authorization::Ignore { reason: "the key locator names no key" };
            }
            Err(error) => return reject(signer, error.to_string()),
        };
        if proves_key(&packet) {
            let Some(timestamp_ms) = command.signature.time_ms() else {
                return reject(signer, "the command has no SignatureTime".to_owned());
            };
            if let Err(reason) = guarded.replay.check(now, &key, timestamp_ms) {
                return reject(signer, reason);
            }
        }
        let packet = match &command.parameters.name {
            Some(prefix) if guarded.policy.has_routes() => {
                SignedPacket { name: prefix.as_ref(), ..packet }
            }
            Some(_) | None => packet,
        };
        match guarded.policy.validate(&packet, fetched, unix_s(now)) {
            // A neighbour's key may register its prefixes, and is no operator of this forwarder.
            Validation::Accepted
                if proves_key(&packet) && command.top_prefix == TopPrefix::Localhost =>
            {
                Authorization::Accept { signer, authority: Authority::Operator }
            }
            Validation::Accepted => by_requester(signer),
            Validation::Refused(error) => reject(signer, error.to_string()),
            Validation::NeedsCertificates(search) if is_rib => {
                Authorization::NeedsCertificates { signer, search }
            }
            Validation::NeedsCertificates(_) => {
                reject(signer, "the signer is not authorised for this module".to_owned())
            }
        }
    }

    fn command_accepted(&mut self, now: Now, command: &Command<'_>) {
        let Ok(Some(guarded)) = self.guarded(command) else { return };
        let (Some(packet), Some(time)) = (signed_packet(command), command.signature.time_ms())
        else {
            return;
        };
        if let Ok(key) = packet.key_name()
            && proves_key(&packet)
            && !guarded.policy.accepts_all()
        {
            guarded.replay.note(now, key, time);
        }
    }

    fn authorize_announcement(
        &mut self,
        now: Now,
        announcement: &Data<'_>,
        fetched: &[Arc<Certificate>],
    ) -> Validation {
        match SignedPacket::from_data(announcement) {
            Some(packet) => self.announcements.validate(&packet, fetched, unix_s(now)),
            None => {
                Validation::Refused(TrustError::KeyLocator { name: announcement.name().to_name() })
            }
        }
    }

    fn replay_records(&self) -> ReplayRecords {
        let recorded = |guarded: &GuardedPolicy| {
            // Commands that anybody may send are executed without a record.
            (!guarded.policy.accepts_all()).then(|| guarded.replay.clone())
        };
        let of_modules = self.privileges.iter().filter_map(|(module, privilege)| match privilege {
            Privilege::Holders(guarded) => Some((*module, recorded(guarded)?)),
            Privilege::Everyone => None,
        });
        ReplayRecords {
            of_modules: of_modules.collect(),
            localhost_rib: recorded(&self.localhost_rib),
            localhop_rib: self.localhop_rib.as_ref().and_then(recorded),
        }
    }

    fn inherit(&mut self, records: ReplayRecords) {
        let ReplayRecords { mut of_modules, localhost_rib, localhop_rib } = records;
        for (module, privilege) in &mut self.privileges {
            if let (Privilege::Holders(guarded), Some(replay)) =
                (privilege, of_modules.remove(module))
            {
                guarded.replay = replay;
            }
        }
        let localhop = self.localhop_rib.as_mut().zip(localhop_rib);
        let localhost = localhost_rib.map(|replay| (&mut self.localhost_rib, replay));
        for (guarded, replay) in localhop.into_iter().chain(localhost) {
            guarded.replay = replay;
        }
    }

    fn is_localhop_enabled(&self) -> bool {
        self.localhop_rib.is_some()
    }

    fn next_refresh(&self) -> Option<Timestamp> {
        self.loader.0.as_ref()?;
        self.policies().filter_map(TrustPolicy::next_refresh).min()
    }

    fn check_anchors(&self) -> Result<(), String> {
        let Some(load) = self.loader.0.clone() else { return Ok(()) };
        let mut load = |source: AnchorSource<'_>| load(source);
        self.policies().try_for_each(|policy| policy.check_anchors(&mut load))
    }

    fn refresh(&mut self, now: Now) -> Vec<AnchorChange> {
        let Some(load) = self.loader.0.clone() else { return Vec::new() };
        let Self { localhost_rib, localhop_rib, announcements, .. } = self;
        let guarded = [Some(localhost_rib), localhop_rib.as_mut()].into_iter().flatten();
        let policies = guarded.map(|guarded| &mut guarded.policy).chain([announcements]);
        let mut load = |source: AnchorSource<'_>| load(source);
        policies.flat_map(|policy| policy.refresh_anchors(now.monotonic, &mut load)).collect()
    }
}

fn unix_s(now: Now) -> i64 {
    i64::try_from(now.unix.as_secs()).unwrap_or(i64::MAX)
}

/// Whether the signature can prove who signed, so that a repetition by somebody else is a replay. Everybody can sign by
/// digest: a record of these commands would only let one process refuse those of others.
fn proves_key(packet: &SignedPacket<'_>) -> bool {
    packet.info.signature_type != SignatureType::DIGEST_SHA256
}

/// The packet that the trust rules are applied to; `None` if the command is not signed.
fn signed_packet<'a>(command: &Command<'a>) -> Option<SignedPacket<'a>> {
    let kind = PacketKind::Interest;
    match command.signature {
        CommandSignature::Absent => None,
        CommandSignature::Interest { info, signed, value } => {
            Some(SignedPacket { kind, name: command.name.parent(), info, signed, value })
        }
        CommandSignature::NameComponents { info, signed, value, .. } => {
            let name = command.name.parent().parent();
            Some(SignedPacket { kind, name, info, signed: [signed, &[]], value })
        }
    }
}
