//! Management, access control, prefix propagation, and the control socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ndn_management::Module;
use ndn_management::access::PRIVILEGED_MODULES;
use ndn_packet::Name;
use ndn_security::trust::TrustPolicy;
use toml::de::DeValue;

use crate::conflict::Warning;
use crate::declaration::RestartReason::{ManagementSetup, Sockets};
use crate::declaration::{Reload, list_item, live, restart, settings, table, tables, value};
use crate::http::Http;
use crate::value::{Value, alternatives, one_of, quoted};

/// The origin of messages about trust rules that are not in a file of their own: `line:3: …`.
pub const TEXT_ORIGIN: &str = "line";

settings! {
    /// Management: commands and datasets under /localhost/nfd and /localhop/nfd.
    pub struct Management {
        /// Whether management is enabled. Without it, applications cannot register prefixes.
        enabled: bool = true => live(),
        /// Signers that can register prefixes and routes under /localhost/nfd: `"any"` local application, `"nobody"`, or signers
        /// that satisfy trust rules, given as the path of a file (relative to this one) or in place between triple
        /// quotes: lines such as `route /op/alice/** by /op/alice`, or ndn-cxx's validator configuration format.
        localhost_rib: TrustRules = TrustRules::Any => live(),
        /// Signers that can register prefixes and routes under /localhop/nfd, as `localhost_rib`. Neighbours reach it over the
        /// network. `"nobody"` disables it.
        localhop_rib: TrustRules = TrustRules::Nobody => live(),
        /// Signers whose prefix announcements are accepted, as `localhost_rib`.
        prefix_announcements: TrustRules = TrustRules::Any => live(),
        /// Users whose programs act for operators, by name or number, such as `["ndn", "1001"]`, beside root and the user of the
        /// forwarder.
        operators: Vec<String> = Vec::new() => live(),
        /// Whether users that are no operators can change only what is theirs: the routes, next hops and faces that they have
        /// added. Commands of `cs` and `strategy-choice` are for operators then. By default, as in NFD, every user whom
        /// `localhost_rib` and `authorizations` let send a command can change everything by it.
        protect_others: bool = false => live(),
        /// Whether routes with origin `client` are announced to a routing daemon under /localhost/nlsr, if there is
        /// one. Only programs of operators can register this prefix then.
        readvertise_nlsr: bool = false => live(),
        /// Identity, key or certificate of the key chain (`namewire key list`) that signs responses, notifications,
        /// datasets, and commands to the routing daemon. By default, responses carry a digest, and the default
        /// identity signs commands to the routing daemon (a digest without a key chain).
        identity: Option<Name> = None => restart(ManagementSetup).example("\"/example/router\""),
        /// Registration of the prefixes of this host with a router.
        propagate: Propagate = Propagate::default() => table(),
        /// Signers that can issue the other commands.
        authorizations: Vec<Authorize> = vec![Authorize::default_rule()] => tables(Reload::Live),
    }
}

settings! {
    /// Prefix propagation: registers the prefixes of this host with the router that the route of /localhop/nfd (or of a
    /// prefix of it) leads to. For each prefix with a route, the forwarder registers the shortest identity of the key
    /// chain that is a prefix of it, and signs with that identity. Prefixes without an identity are not
    /// registered. Excludes `localhop_rib`.
    pub struct Propagate {
        /// Whether prefixes are propagated.
        enabled: bool = false => live(),
        /// Cost of the routes on the router.
        cost: u64 = 15 => live(),
        /// Time after which a command without a response has failed.
        timeout: Duration = Duration::from_secs(10) =>
            live().within(Duration::from_millis(100)..=HOUR),
        /// Interval at which a prefix is registered again. It must be shorter than the idle timeout of the UDP face
        /// on the router.
        refresh_interval: Duration = Duration::from_secs(25) =>
            live().within(Duration::from_millis(100)..=24 * HOUR),
        /// Delay before a failed command is repeated. It doubles with every failure, up to `max_retry_wait`.
        base_retry_wait: Duration = Duration::from_secs(50) =>
            live().within(Duration::from_millis(100)..=24 * HOUR),
        /// Maximum delay before a failed command is repeated.
        max_retry_wait: Duration = HOUR => live().within(Duration::from_millis(100)..=24 * HOUR),
    }
}

list_item! {
    /// Signers that can issue the commands of the modules other than rib. An empty list authorizes nobody.
    pub struct Authorize {
        /// `"any"` local application, or the path of a file with a certificate, whose holder is authorized.
        certificate: AuthorizedSigner = AuthorizedSigner::Any => value().required(),
        /// Management modules whose commands are authorized.
        privileges: Vec<Privilege> = PRIVILEGED_MODULES.map(Privilege).to_vec() => value().required(),
    }
}

settings! {
    /// The control socket of `namewire log`, `namewire capture` and other commands for this forwarder. Only its owner
    /// can connect.
    pub struct Control {
        /// Whether the forwarder listens on the control socket.
        enabled: bool = true => restart(Sockets),
        /// Path of the socket. The default is that of the Unix socket with the ending .control.sock.
        path: Option<PathBuf> = None => restart(Sockets).example("\"/run/nfd/nfd.control.sock\""),
        /// The HTTP API.
        http: Http = Http::default() => table(),
    }
}

const HOUR: Duration = Duration::from_secs(3600);

impl Authorize {
    /// Every local application can issue all commands.
    fn default_rule() -> Self {
        crate::declaration::Table::initial()
    }
}

/// A signer to whom privileges are granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizedSigner {
    /// Any local application.
    Any,
    /// The holder of the key of the certificate in this file.
    Certificate(PathBuf),
}

impl Value for AuthorizedSigner {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some("any") => Ok(Self::Any),
            Some(_) | None => PathBuf::from_toml(value).map(Self::Certificate),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(match self {
            Self::Any => quoted("any"),
            Self::Certificate(path) => quoted(path.display()),
        })
    }

    fn type_name() -> String {
        "`\"any\"` or path".to_owned()
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        vec![Self::Any, Self::Certificate("admin.cert".into())]
    }
}

/// A module whose commands can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege(pub Module);

impl Value for Privilege {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        one_of(value, &PRIVILEGED_MODULES.map(|module| (module.as_str(), Self(module))))
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(self.0.as_str()))
    }

    fn type_name() -> String {
        alternatives(&PRIVILEGED_MODULES.map(Module::as_str))
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        PRIVILEGED_MODULES.map(Self).into()
    }
}

/// Which signatures are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustRules {
    /// Any.
    Any,
    /// None.
    Nobody,
    /// Those that satisfy the rules in this file.
    File(PathBuf),
    /// Those that satisfy these rules.
    Inline {
        /// The rules, one per line or in ndn-cxx's validator configuration format.
        text: String,
        /// The directory of relative paths in the rules.
        directory: PathBuf,
    },
}

impl Value for TrustRules {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = String::from_toml(value)?;
        match text.as_str() {
            "any" => Ok(Self::Any),
            "nobody" => Ok(Self::Nobody),
            "" => Err("expected \"any\", \"nobody\", trust rules or a file with them".to_owned()),
            // Their faults are found when their anchors are read.
            rules if TrustPolicy::is_text(rules) => {
                Ok(Self::Inline { text, directory: PathBuf::new() })
            }
            rules if rules.contains('{') => {
                ndn_security::info::Node::parse_single(TEXT_ORIGIN, rules)
                    .map_err(|error| error.to_string())?;
                Ok(Self::Inline { text, directory: PathBuf::new() })
            }
            _ => PathBuf::from_toml(value).map(Self::File),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(match self {
            Self::Any => quoted("any"),
            Self::Nobody => quoted("nobody"),
            Self::File(path) => quoted(path.display()),
            Self::Inline { text, .. } => quoted(text),
        })
    }

    fn type_name() -> String {
        "`\"any\"`, `\"nobody\"`, path, or trust rules".to_owned()
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        let text = "rule { id \"a b\" for interest }\ntrust-anchor {\n type any\n}\n".to_owned();
        vec![
            Self::Any,
            Self::Nobody,
            Self::File("/etc/ndn/rib.rules".into()),
            Self::Inline { text, directory: PathBuf::new() },
            Self::Inline {
                text: "# Any program.\nroute /scratch/** by digest\n".to_owned(),
                directory: PathBuf::new(),
            },
        ]
    }
}

impl TrustRules {
    /// Makes relative paths absolute: they begin in `directory`, that of the configuration file.
    pub fn resolve_paths(&mut self, directory: &Path) {
        match self {
            Self::File(path) => *path = directory.join(&*path),
            Self::Inline { directory: base, .. } => *base = directory.join(&*base),
            Self::Any | Self::Nobody => {}
        }
    }
}

/// Whether registrations are limited to prefixes.
fn limits_routes(rules: &TrustRules) -> bool {
    match rules {
        TrustRules::Any | TrustRules::Nobody => false,
        TrustRules::Inline { text, .. } => TrustPolicy::limits_routes(text),
        // A file that cannot be read is an error elsewhere.
        TrustRules::File(path) => {
            std::fs::read_to_string(path).is_ok_and(|text| TrustPolicy::limits_routes(&text))
        }
    }
}

/// The modules whose commands change where the Interests under a prefix go.
const ROUTING_MODULES: [Module; 3] = [Module::Faces, Module::Fib, Module::StrategyChoice];

impl Management {
    /// Ways in which a local program changes next hops although the rules of `localhost_rib` limit its routes to prefixes.
    pub(crate) fn route_rules_evaded(&self) -> Option<Warning> {
        if !self.enabled || !limits_routes(&self.localhost_rib) {
            return None;
        }
        let is_open = |module: &Module| {
            let any = |one: &&Authorize| one.certificate == AuthorizedSigner::Any;
            let mut open = self.authorizations.iter().filter(any);
            open.any(|one| one.privileges.contains(&Privilege(*module)))
        };
        let modules = ROUTING_MODULES.iter().filter(|module| is_open(module));
        let mut open: Vec<String> = modules.map(|module| quoted(module.as_str())).collect();
        if self.prefix_announcements == TrustRules::Any {
            open.push("prefix_announcements".to_owned());
        }
        // Local programs may send these commands, too.
        if self.localhop_rib != TrustRules::Nobody && !limits_routes(&self.localhop_rib) {
            open.push("localhop_rib".to_owned());
        }
        let reason = format!(
            "the route rules limit `rib` commands under /localhost only: with {} not limited to prefixes, others can \
             change the next hops of a prefix (see [[management.authorizations]])",
            open.join(", ")
        );
        (!open.is_empty()).then(|| Warning { key: "management.localhost_rib".to_owned(), reason })
    }

    /// Makes relative paths absolute: they begin in `directory`, that of the configuration file.
    pub fn resolve_paths(&mut self, directory: &Path) {
        for authorize in &mut self.authorizations {
            if let AuthorizedSigner::Certificate(path) = &mut authorize.certificate {
                *path = directory.join(&*path);
            }
        }
        for rules in
            [&mut self.localhost_rib, &mut self.localhop_rib, &mut self.prefix_announcements]
        {
            rules.resolve_paths(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    fn warning(text: &str) -> Option<String> {
        let config = crate::parse("test", text).unwrap_or_else(|error| panic!("{error}"));
        let mut warnings = config.warnings();
        assert!(warnings.len() <= 1, "{warnings:?}");
        warnings.pop().map(|warning| format!("{}: {}", warning.key, warning.reason))
    }

    #[test]
    fn unrestricted_modules_beside_route_rules_are_reported() {
        let rules = "[management]\nlocalhost_rib = \"route /scratch/** by digest\"\n";
        let found = warning(rules).unwrap_or_default();
        assert!(found.starts_with("management.localhost_rib: "), "{found}");
        let open = r#"with "faces", "fib", "strategy-choice", prefix_announcements not limited"#;
        assert!(found.contains(open), "{found}");
        let operator = "[[management.authorizations]]\ncertificate = \"operator.cert\"\n\
                        privileges = [\"faces\", \"fib\", \"strategy-choice\"]\n";
        let any = "[[management.authorizations]]\ncertificate = \"any\"\nprivileges = [\"cs\"]\n";
        let found = warning(&format!("{rules}{operator}{any}")).unwrap_or_default();
        assert!(found.contains("with prefix_announcements not limited"), "{found}");
        let announcements = "prefix_announcements = \"nobody\"\n";
        assert_eq!(warning(&format!("{rules}{announcements}{operator}{any}")), None);
        let rules_of_localhost = rules;
        let localhop = |rules: &str| {
            let nobody = format!("localhop_rib = \"{rules}\"\n{announcements}");
            warning(&format!("{rules_of_localhost}{nobody}{operator}"))
        };
        let found = localhop("any").unwrap_or_default();
        assert!(found.contains("with localhop_rib not limited"), "{found}");
        assert_eq!(localhop("route /scratch/** by digest"), None);
        assert_eq!(localhop("nobody"), None);
        // Rules without prefixes let each of their signers register any.
        let plain = rules.replace("route /scratch/** by digest", "any");
        assert_eq!(warning(&plain), None);
    }
}
