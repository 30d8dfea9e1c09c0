//! `nfdc cs ...` and `nfdc strategy ...`.

use ndn_management::{ControlParameters, Dataset, StrategyChoice, Verb, cs_flag, status};

use super::grammar::Arguments;
use super::session::{Exit, Session, refusal, required};
use super::text::{self, Attributes, on_off};
use crate::cli::output;

/// Exit status for an unknown strategy.
const UNKNOWN_STRATEGY: u8 = 7;

pub(super) async fn cs_config(session: &Session, arguments: &Arguments) -> Result<String, Exit> {
    let mut parameters =
        ControlParameters { capacity: arguments.unsigned("capacity"), ..Default::default() };
    for (name, bit) in [("admit", cs_flag::ADMIT), ("serve", cs_flag::SERVE)] {
        if let Some(value) = arguments.boolean(name) {
            parameters.set_flag(bit, value);
        }
    }
    let now = session.command(Verb::CsConfig, &parameters, "updating CS config").await?;
    if let (Some(asked), Some(applied)) = (arguments.unsigned("capacity"), now.capacity)
        && applied < asked
    {
        output::note(&format_args!(
            "nfdc: capacity {asked}: the forwarder has room for {applied} packets, as it was started \
             (`tables.cs.capacity_packets`, `namewire run --cs-capacity`); {applied} was applied"
        ));
    }
    let is_set = |bit| now.flags.unwrap_or(0) & bit != 0;
    let mut line = Attributes::line();
    line.put("capacity", now.capacity.unwrap_or_default())
        .put("admit", on_off(is_set(cs_flag::ADMIT)))
        .put("serve", on_off(is_set(cs_flag::SERVE)));
    Ok(format!("cs-config-updated {}\n", line.end()))
}

/// Repeats the command until nothing is left: a forwarder erases a limited number of packets at a time.
pub(super) async fn cs_erase(session: &Session, arguments: &Arguments) -> Result<String, Exit> {
    let prefix = required(arguments.name("prefix"))?;
    if arguments.unsigned("count") == Some(0) {
        return Err(Exit::new(1, "Count must be positive"));
    }
    let mut erased = 0;
    loop {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            count: arguments.unsigned("count").map(|count| count.saturating_sub(erased)),
            ..ControlParameters::default()
        };
        let answer = session.command(Verb::CsErase, &parameters, "erasing cached Data").await?;
        let count = answer.count.unwrap_or_default();
        erased += count;
        // The answer contains the limit if there is more.
        if answer.capacity.is_none() || count == 0 {
            break;
        }
    }
    let mut line = Attributes::line();
    line.put("prefix", prefix).put("count", erased);
    Ok(format!("cs-erased {}\n", line.end()))
}

async fn choices(session: &Session) -> Result<Vec<StrategyChoice>, Exit> {
    session.dataset(&Dataset::StrategyChoiceList, "strategy choice dataset").await
}

pub(super) async fn strategy_list(session: &Session) -> Result<String, Exit> {
    let choices = choices(session).await?;
    Ok(choices.iter().map(|choice| format!("{}\n", text::strategy(choice, false))).collect())
}

pub(super) async fn strategy_show(
    session: &Session,
    arguments: &Arguments,
) -> Result<String, Exit> {
    let prefix = required(arguments.name("prefix"))?;
    let choices = choices(session).await?;
    let longest = choices
        .iter()
        .filter(|choice| prefix.starts_with(choice.name.as_ref()))
        .max_by_key(|choice| choice.name.len());
    Ok(longest.map(|choice| text::strategy(choice, true)).unwrap_or_default())
}

pub(super) async fn strategy_set(session: &Session, arguments: &Arguments) -> Result<String, Exit> {
    let strategy = required(arguments.name("strategy"))?;
    let parameters = ControlParameters {
        name: Some(required(arguments.name("prefix"))?),
        strategy: Some(strategy.clone()),
        ..ControlParameters::default()
    };
    let response = session.respond(Verb::StrategySet, &parameters, "setting strategy").await?;
    if response.code == status::NOT_FOUND {
        return Err(Exit::new(UNKNOWN_STRATEGY, format!("Unknown strategy: {strategy}")));
    }
    if !response.is_ok() {
        return Err(refusal(&response, "setting strategy"));
    }
    let set = response.parameters().unwrap_or_default();
    let mut line = Attributes::line();
    line.put("prefix", set.name.unwrap_or_default())
        .put("strategy", set.strategy.unwrap_or_default());
    Ok(format!("strategy-set {}\n", line.end()))
}

pub(super) async fn strategy_unset(
    session: &Session,
    arguments: &Arguments,
) -> Result<String, Exit> {
    let prefix = required(arguments.name("prefix"))?;
    if prefix.is_empty() {
        return Err(Exit::new(2, "Unsetting default strategy is prohibited"));
    }
    let parameters = ControlParameters { name: Some(prefix), ..ControlParameters::default() };
    let unset = session.command(Verb::StrategyUnset, &parameters, "unsetting strategy").await?;
    let mut line = Attributes::line();
    line.put("prefix", unset.name.unwrap_or_default());
    Ok(format!("strategy-unset {}\n", line.end()))
}
