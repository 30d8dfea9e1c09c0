//! Builds access control from the configuration: reads certificates and trust rules.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use ndn_client::rules::{anchors, anchors_in, read_certificate, read_text};
use ndn_management::AccessControl;
use ndn_security::info::Node;
use ndn_security::trust::{AnchorSource, TrustPolicy};
use ndn_sys::clock::Clock;

use crate::config::{AuthorizedSigner, Conflict, Management, Privilege, TEXT_ORIGIN, TrustRules};
use crate::environment::now;

const AUTHORIZATIONS: &str = "management.authorizations";

/// The access control that the configuration describes. It refuses commands that were signed at the present time or earlier:
/// it does not know which of them were executed before, unless it inherits the records of its predecessor.
///
/// # Errors
/// Files that cannot be read or are malformed, by file name and setting.
pub(crate) fn access_control(
    access: &Management,
    clock: &Clock,
) -> Result<AccessControl, Vec<Conflict>> {
    let mut faults = Vec::new();
    let mut control = AccessControl::default();
    // Paths are absolute here, or relative to the working directory.
    let clock_of_loader = clock.clone();
    control.set_anchor_loader(move |source| {
        anchors(source, &clock_of_loader).map_err(|error| error.to_string())
    });
    for authorize in &access.authorizations {
        let certificate = match &authorize.certificate {
            AuthorizedSigner::Any => None,
            AuthorizedSigner::Certificate(path) => {
                match read_certificate(path, clock).context(AUTHORIZATIONS) {
                    Ok(certificate) => Some(certificate),
                    Err(error) => {
                        faults.push(Conflict::from_error(&[AUTHORIZATIONS], &error));
                        continue;
                    }
                }
            }
        };
        for Privilege(module) in &authorize.privileges {
            match &certificate {
                None => control.grant_everyone(*module),
                Some(certificate) => control.grant(*module, Arc::clone(certificate)),
            }
        }
    }
    let mut policy_of = |key, rules| match policy(rules, clock).context(key) {
        Ok(policy) => policy,
        Err(error) => {
            faults.push(Conflict::from_error(&[key], &error));
            TrustPolicy::default()
        }
    };
    control.set_localhost_rib(policy_of("management.localhost_rib", &access.localhost_rib));
    let announcements = &access.prefix_announcements;
    control.set_announcements(policy_of("management.prefix_announcements", announcements));
    if access.localhop_rib != TrustRules::Nobody {
        control.set_localhop_rib(policy_of("management.localhop_rib", &access.localhop_rib));
    }
    control.refuse_signed_before(now(clock).unix_ms());
    if faults.is_empty() { Ok(control) } else { Err(faults) }
}

/// The trust policy of a setting.
///
/// # Errors
/// A file that cannot be read or is malformed, by name.
pub(crate) fn policy(rules: &TrustRules, clock: &Clock) -> anyhow::Result<TrustPolicy> {
    let (text, origin, directory) = match rules {
        TrustRules::Any => return Ok(TrustPolicy::accept_all()),
        TrustRules::Nobody => return Ok(TrustPolicy::default()),
        TrustRules::Inline { text, directory } => {
            (text.clone(), TEXT_ORIGIN.to_owned(), directory.clone())
        }
        TrustRules::File(path) => {
            let directory = path.parent().unwrap_or(Path::new("")).to_owned();
            (read_text(path)?, path.display().to_string(), directory)
        }
    };
    if TrustPolicy::is_text(&text) {
        let mut load = |source: AnchorSource<'_>| anchors_in(&directory, source, clock);
        return Ok(TrustPolicy::from_text(&origin, &text, &mut load)?);
    }
    let mut include =
        |file: &str| read_text(&directory.join(file)).map_err(|error| error.to_string());
    let mut node = Node::parse(&origin, &text, &mut include)?;
    let anchor_nodes = node.children.iter_mut().flat_map(|anchor| &mut anchor.children);
    let is_path = |key: &str| ["file-name", "dir"].iter().any(|one| key.eq_ignore_ascii_case(one));
    for node in anchor_nodes.filter(|node| is_path(&node.key)) {
        node.value = directory.join(&node.value).display().to_string();
    }
    let mut load =
        |source: AnchorSource<'_>| anchors(source, clock).map_err(|error| error.to_string());
    Ok(TrustPolicy::from_info(&node, &mut load)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use namewire_tests::{Identity, unix_ms};
    use ndn_management::{
        Authorization, Authorizer, CommandBuilder, ControlParameters, Requester, Verb,
        parse_command,
    };
    use ndn_packet::{Interest, SignatureInfo};
    use ndn_security::Signer;
    use ndn_security::trust::AnchorChange;
    use ndn_sys::clock::ManualClock;
    use ndn_types::{Now, Scope, Timestamp};

    use super::*;

    fn anchor(uri: &str) -> String {
        Identity::new(uri, None).certificate.to_text()
    }

    #[test]
    fn command_signed_before_the_start_is_refused() {
        let started_ms = unix_ms();
        let directory = tempfile::tempdir().unwrap();
        let root = Identity::new("/root", None);
        std::fs::write(directory.path().join("root.cert"), root.certificate.to_text()).unwrap();
        let access = Management {
            localhop_rib: TrustRules::Inline {
                text: "rule { id rib for interest checker { type customized \
                       key-locator { type name regex ^<>*<KEY><>$ } } }\n\
                       trust-anchor { type file file-name root.cert }"
                    .to_owned(),
                directory: directory.path().to_owned(),
            },
            ..Management::default()
        };
        let clock = ManualClock::new(Timestamp::ZERO, Duration::from_millis(started_ms)).into();
        let mut control = access_control(&access, &clock).unwrap();
        let signer = root.signer();
        let mut authorize = |signed_ms: u64| {
            let info = SignatureInfo { time_ms: Some(signed_ms), ..signer.signature_info() };
            let sign = |parts: &[&[u8]], out: &mut [u8]| signer.sign(parts, out).ok();
            let parameters = ControlParameters {
                name: Some("/p".parse().unwrap()),
                ..ControlParameters::default()
            };
            let length = signer.signature_len_max();
            let wire = CommandBuilder::new("/localhop/nfd".parse().unwrap())
                .signed_interest(Verb::RibRegister, &parameters, 1, &info, length, sign)
                .unwrap();
            let interest = Interest::parse(&wire).unwrap();
            let command = parse_command(&interest, ndn_security::sha256).unwrap();
            let requester = Requester { face_id: 300, scope: Scope::NonLocal };
            let now = Now { unix: Duration::from_millis(started_ms + 1000), ..Now::default() };
            control.authorize(now, &command, requester, &[])
        };
        assert!(matches!(authorize(started_ms - 50_000), Authorization::Reject { .. }));
        assert!(matches!(authorize(started_ms), Authorization::Reject { .. }));
        let accepted = authorize(started_ms + 1);
        assert!(matches!(accepted, Authorization::Accept { .. }), "{accepted:?}");
    }

    #[test]
    fn anchors_are_reloaded_relative_to_the_rules_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir(path("anchors")).unwrap();
        std::fs::write(path("anchors/a.cert"), anchor("/a")).unwrap();
        std::fs::write(path("root.cert"), anchor("/root")).unwrap();
        std::fs::write(
            path("rules"),
            "trust-anchor { type dir dir anchors refresh 10s }\n\
             trust-anchor { Type File File-Name root.cert Refresh 1m }",
        )
        .unwrap();
        let access =
            Management { localhop_rib: TrustRules::File(path("rules")), ..Management::default() };
        let mut control = access_control(&access, &crate::Environment::system().clock).unwrap();
        let mut refresh = |seconds: u64| {
            let monotonic = Timestamp::from_millis((1000 + seconds) * 1000);
            control.refresh(Now { monotonic, unix: Duration::from_secs(1_700_000_000) })
        };
        let changed = |name: &str, count: usize| AnchorChange::Changed {
            path: path(name).display().to_string(),
            count,
        };
        assert_eq!(refresh(0), []);
        std::fs::write(path("anchors/b.cert"), anchor("/b")).unwrap();
        std::fs::write(path("anchors/notes"), "no certificate").unwrap();
        std::fs::write(path("root.cert"), anchor("/root")).unwrap();
        assert_eq!(refresh(9), []);
        assert_eq!(refresh(10), [changed("anchors", 2)]);
        assert_eq!(refresh(59), [], "the same again");
        assert_eq!(refresh(60), [changed("root.cert", 1)]);
        std::fs::remove_file(path("root.cert")).unwrap();
        std::fs::remove_file(path("anchors/a.cert")).unwrap();
        let [first, second] = &refresh(200)[..] else { panic!() };
        assert_eq!(*first, changed("anchors", 1));
        assert!(matches!(second, AnchorChange::Unreadable { .. }), "{second:?}");
    }
}
