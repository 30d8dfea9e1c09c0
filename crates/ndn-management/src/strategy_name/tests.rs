#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::testing::name;

fn accept_any(_: &[(String, String)]) -> Result<(), String> {
    Ok(())
}

fn accept_none(parameters: &[(String, String)]) -> Result<(), String> {
    parameters.first().map_or(Ok(()), |(key, _)| Err(format!("unknown parameter {key}")))
}

fn catalog() -> StrategyList {
    StrategyList::new().with("best-route", 4, accept_none).with("best-route", 5, accept_any).with(
        "access",
        1,
        accept_none,
    )
}

fn resolve(text: &str) -> Result<String, StrategyError> {
    let strategy = name(&format!("/localhost/nfd/strategy{text}"));
    let resolved = catalog().resolve(strategy.as_ref())?;
    Ok(resolved.to_uri().strip_prefix("/localhost/nfd/strategy").unwrap().to_owned())
}

#[test]
fn strategy_version_is_completed_and_kept() {
    assert_eq!(resolve("/best-route").unwrap(), "/best-route/v=5");
    // A given version stands in the name even where the next higher one serves.
    for version in [1, 4, 5] {
        let text = format!("/best-route/v={version}");
        assert_eq!(resolve(&text).unwrap(), text);
    }
    // Nor is the convention of it changed.
    assert_eq!(resolve("/best-route/%FD%05").unwrap(), "/best-route/%FD%05");
    for unknown in ["/best-route/v=6", "/access/v=2", "/asf", "/best-route/x", ""] {
        assert_eq!(resolve(unknown), Err(StrategyError::NotRegistered), "{unknown}");
    }
    assert_eq!(catalog().resolve(NameRef::ROOT), Err(StrategyError::NotRegistered));
    assert_eq!(catalog().resolve(name("/v=5").as_ref()), Err(StrategyError::NotRegistered));
}

#[test]
fn strategy_parameters_are_parsed_from_the_name() {
    let text = "/best-route/v=5/retx-suppression-initial~10/retx-suppression-max~250";
    assert_eq!(resolve(text).unwrap(), text);
    let strategy = name(&format!("/localhost/nfd/strategy{text}"));
    let expected = [("retx-suppression-initial", "10"), ("retx-suppression-max", "250")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(StrategyName::parse(strategy.as_ref()).parse_parameters().unwrap(), expected);
    for bad in [
        "/best-route/v=5/x",
        "/best-route/v=5/~1",
        "/best-route/v=5/x~",
        "/best-route/v=5/%FF~1",
        "/access/v=1/x~1",
    ] {
        assert!(matches!(resolve(bad), Err(StrategyError::BadParameters(_))), "{bad}");
    }
    // The version that serves judges the parameters.
    assert!(resolve("/best-route/v=4/x~1").is_err());
    assert!(resolve("/best-route/v=5/x~1").is_ok());
}

#[test]
fn last_version_component_splits_the_name() {
    let name = name("/s/v=1/v=2/a~1");
    let parsed = StrategyName::parse(name.as_ref());
    assert_eq!((parsed.base.to_uri(), parsed.version), ("/s/v=1".to_owned(), Some(2)));
    assert_eq!(parsed.parameters.to_uri(), "/a~1");
}
