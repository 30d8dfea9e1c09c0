//! Trust rules as text, one per line.

use std::sync::Arc;

use ndn_packet::SignatureType;

use super::anchors::AnchorGroup;
use super::anchors::{AnchorSource, LoadAnchors};
use super::pattern::NamePattern;
use super::rules::{Checker, Filter, KeyCheck, PacketSort, Rule};
use super::{MAX_RULES, TrustPolicy};
use crate::info::{Include, InfoError, Node};

/// In place of an identity: a signature that anybody can make.
const DIGEST: &str = "digest";

impl TrustPolicy {
    /// Whether rules are in the format of [`Self::from_text`]: the first line that is not empty or a comment begins with
    /// `anchor`, `data`, `key` or `route`. If it does not, the line may be misspelt: another one that has the form of a rule
    /// decides, unless there are braces, as in the format of ndn-cxx.
    #[must_use]
    pub fn is_text(text: &str) -> bool {
        let lines = || text.lines().map(|line| words(line).collect::<Vec<_>>());
        let has_keyword = |line: &[&str]| {
            line.first().is_some_and(|word| matches!(*word, "anchor" | "data" | "key" | "route"))
        };
        let is_rule = |line: &[&str]| has_keyword(line) || matches!(line, [_, _, "by", _]);
        let has_brace = |line: &[&str]| {
            matches!(line.first(), Some(&("{" | "}"))) || matches!(line.last(), Some(&("{" | "}")))
        };
        let first = lines().find(|line| !line.is_empty());
        first.is_some_and(|line| has_keyword(&line))
            || (lines().any(|line| is_rule(&line)) && !lines().any(|line| has_brace(&line)))
    }

    /// Whether rules have lines that limit registrations to prefixes.
    #[must_use]
    pub fn limits_routes(text: &str) -> bool {
        Self::is_text(text) && text.lines().any(|line| words(line).next() == Some("route"))
    }

    /// Parses rules: in the format of [`Self::from_text`] if [`Self::is_text`], and otherwise in that of ndn-cxx. `include` reads included files, `load` reads certificates.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn from_rules(
        origin: &str,
        text: &str,
        include: Include<'_>,
        load: LoadAnchors<'_>,
    ) -> Result<Self, InfoError> {
        if Self::is_text(text) {
            return Self::from_text(origin, text, load);
        }
        Self::from_info(&Node::parse(origin, text, include)?, load)
    }

    /// Parses rules of one line each.
    ///
    /// ```text
    /// # The trust anchor: the certificate in a file.
    /// anchor root.cert
    /// # Data of these names may be signed by keys of these identities.
    /// data /lab/<site>/files/** by /lab/<site>/server
    /// # Certificates for keys of these identities may be signed by keys of these.
    /// key /lab/<site>/server by /lab/<site>
    /// key /lab/<site> by /lab
    /// # Routes for these prefixes may be registered by these identities, by a key, or with any digest.
    /// route /lab/<site>/** by /lab/<site>
    /// route /lab/printer by /lab/a/KEY/%01
    /// route /lab/shared/** by digest
    /// ```
    ///
    /// `*` matches one component, `**` at the end any number of components, `<site>` one component that is the same throughout
    /// the line. The first rule that matches a name decides. `data` applies to packets that are no certificates, `key` to
    /// certificates, `route` to the prefixes in signed commands. A packet that no rule matches is not trusted.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn from_text(origin: &str, text: &str, load: LoadAnchors<'_>) -> Result<Self, InfoError> {
        let origin: Arc<str> = origin.into();
        let mut policy = Self::default();
        for (index, line) in text.lines().enumerate() {
            let error = |message: String| InfoError {
                origin: Arc::clone(&origin),
                line: index + 1,
                message,
            };
            let words: Vec<&str> = words(line).collect();
            match words.as_slice() {
                [] => {}
                ["anchor", file] => {
                    let anchors = load(AnchorSource::File(file)).map_err(error)?;
                    policy.groups.push(AnchorGroup::fixed(anchors));
                }
                [kind @ ("data" | "key" | "route"), pattern, "by", signer] => {
                    if policy.data_rules.len() + policy.interest_rules.len() == MAX_RULES {
                        return Err(error(format!("there are more than {MAX_RULES} rules")));
                    }
                    let rule = rule(kind, pattern, signer).map_err(error)?;
                    match *kind {
                        "route" => policy.interest_rules.push(rule),
                        _ => policy.data_rules.push(rule),
                    }
                }
                _ => {
                    let forms = "`anchor FILE`, `data NAMES by IDENTITIES`, `key IDENTITIES by IDENTITIES` or \
                                 `route PREFIXES by IDENTITIES`";
                    return Err(error(format!("this line is neither {forms}")));
                }
            }
        }
        policy.has_routes = true;
        let needs_anchor =
            |rule: &Rule| rule.checkers.iter().all(|one| one.signature_type.is_none());
        let rules = policy.data_rules.iter().chain(&policy.interest_rules);
        let is_useless = rules.clone().all(needs_anchor);
        if policy.anchors().next().is_none() && is_useless {
            let message = "there is no `anchor`: nothing could be trusted".to_owned();
            return Err(InfoError { origin, line: 1, message });
        }
        Ok(policy)
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace().take_while(|word| !word.starts_with('#'))
}

fn rule(kind: &str, pattern: &str, signer: &str) -> Result<Rule, String> {
    let mut variables = Vec::new();
    let names = NamePattern::new(pattern, &mut variables)?;
    let bound = variables.len();
    let id = format!("{kind} {pattern} by {signer}");
    let filters = |sort| vec![Filter::Pattern { names: names.clone(), sort, variables: bound }];
    if (kind, signer) == ("route", DIGEST) {
        let any = |signature_type| Checker { signature_type, key: KeyCheck::Any };
        let checkers = vec![any(Some(SignatureType::DIGEST_SHA256)), any(None)];
        return Ok(Rule { id, filters: filters(PacketSort::Other), checkers });
    }
    let signer_pattern = NamePattern::new(signer, &mut variables)?;
    if let Some(variable) = variables.get(bound) {
        return Err(format!("`<{variable}>` in `{signer}` is not in `{pattern}`"));
    }
    let sort = if kind == "key" { PacketSort::Certificate } else { PacketSort::Other };
    Ok(Rule {
        id,
        filters: filters(sort),
        checkers: vec![Checker {
            signature_type: None,
            key: KeyCheck::Pattern {
                names,
                sort,
                signer: signer_pattern,
                is_of_key: signer.split('/').any(|component| component == "KEY"),
                variables: bound,
            },
        }],
    })
}
