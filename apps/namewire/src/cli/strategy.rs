//! `namewire strategy`: the strategies of namespaces.

use clap::{Args, Subcommand};
use ndn_forwarding::strategy::known_strategies;
use ndn_management::{ControlParameters, Dataset, StrategyChoice, Verb};
use ndn_packet::Name;
use serde_json::json;

use super::arguments::{name, prefix_name};
use super::connect::block_on;
use super::failure::{Failure, Outcome};
use super::manage::{CommonOptions, accepted, command, refused, strategy_name};
use super::output::{self, Table};

/// The prefix of the names of strategies.
const STRATEGY_PREFIX: [&str; 3] = ["localhost", "nfd", "strategy"];
/// The status code for an unknown strategy.
const NOT_FOUND: u32 = 404;

/// List, show, set and unset strategies
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List the strategy of each prefix (same as `namewire strategy`)
    #[command(aliases = ["ls"])]
    List(CommonOptions),
    /// List the strategies of `namewire run`, with their versions and parameters
    Known {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the strategy that applies to a name
    Show {
        /// The name
        #[arg(value_parser = name)]
        name: Name,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Set the strategy of a namespace
    Set {
        /// The namespace
        #[arg(value_parser = prefix_name)]
        prefix: Name,
        /// Short name such as best-route, multicast or asf, or the full name of a strategy of the
        /// forwarder with version and parameters (`namewire strategy known` lists those of this
        /// program)
        #[arg(value_parser = strategy_name)]
        strategy: Name,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Remove the strategy choice of a namespace, so that it inherits one
    #[command(aliases = ["rm", "del", "delete", "remove"])]
    Unset {
        /// The namespace
        #[arg(value_parser = name)]
        prefix: Name,
        #[command(flatten)]
        common: CommonOptions,
    },
}

pub(super) fn run(options: &Options) -> Outcome {
    match &options.command {
        None => block_on(list(&options.common)),
        Some(Command::List(common)) => block_on(list(common)),
        Some(Command::Known { json }) => known(*json),
        Some(Command::Show { name, common }) => block_on(show(name, common)),
        Some(Command::Set { prefix, strategy, common }) => block_on(set(prefix, strategy, common)),
        Some(Command::Unset { prefix, common }) => block_on(unset(prefix, common)),
    }
}

async fn choices(common: &CommonOptions) -> Outcome<Vec<StrategyChoice>> {
    let endpoint = common.connect.open_as_operator().await?;
    let mut choices: Vec<StrategyChoice> =
        endpoint.management().dataset(&Dataset::StrategyChoiceList).await?;
    choices.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(choices)
}

async fn list(common: &CommonOptions) -> Outcome {
    let choices = choices(common).await?;
    if common.json {
        return Ok(output::print_json(&choices.iter().map(json_of).collect())?);
    }
    let mut table = Table::new(&["PREFIX", "STRATEGY"]);
    for choice in &choices {
        table.row(vec![choice.name.to_string(), choice.strategy.to_string()]);
    }
    Ok(table.print("no strategies")?)
}

/// The strategies of this program: the protocol has no query for those of a forwarder.
fn known(json: bool) -> Outcome {
    if json {
        let strategies = known_strategies().map(|strategy| {
            let parameter =
                |(name, default): &(&str, String)| json!({ "name": name, "default": default });
            json!({
                "strategy": strategy.name.to_string(),
                "about": strategy.about,
                "parameters": strategy.parameters.iter().map(parameter).collect::<Vec<_>>(),
            })
        });
        return Ok(output::print_json(&strategies.collect())?);
    }
    let mut text = String::new();
    for strategy in known_strategies() {
        text.push_str(&format!("{}\n    {}\n", strategy.name, strategy.about));
        for (name, default) in &strategy.parameters {
            text.push_str(&format!("    /{name}~{default}\n"));
        }
    }
    text.push_str("Parameters, here with their defaults, follow the version, in any order.");
    Ok(output::print_line(&text)?)
}

async fn show(name: &Name, common: &CommonOptions) -> Outcome {
    let choices = choices(common).await?;
    let choice = applied(&choices, name)
        .ok_or_else(|| Failure::Failed(format!("the forwarder has no strategy for {name}")))?;
    if common.json {
        return Ok(output::print_json(&json_of(choice))?);
    }
    Ok(output::print_fields(&[
        ("prefix", choice.name.to_string()),
        ("strategy", choice.strategy.to_string()),
    ])?)
}

/// The choice that applies to a name: that of its longest prefix.
fn applied<'a>(choices: &'a [StrategyChoice], name: &Name) -> Option<&'a StrategyChoice> {
    let matching = choices.iter().filter(|choice| name.as_ref().starts_with(choice.name.as_ref()));
    matching.max_by_key(|choice| choice.name.as_ref().len())
}

async fn set(prefix: &Name, strategy: &Name, common: &CommonOptions) -> Outcome {
    let endpoint = common.connect.open_as_operator().await?;
    let parameters = ControlParameters {
        name: Some(prefix.clone()),
        strategy: Some(strategy.clone()),
        ..ControlParameters::default()
    };
    let response = endpoint.management().respond(Verb::StrategySet, &parameters).await?;
    if response.code == NOT_FOUND {
        let meant = similar(strategy).map(|name| format!("did you mean {name}? "));
        return Err(Failure::Failed(format!(
            "the forwarder has no strategy {strategy} ({}`namewire strategy known` lists those of \
             this program)",
            meant.unwrap_or_default()
        )));
    }
    if !response.is_ok() {
        return Err(refused(&"the forwarder rejected the command", &response));
    }
    let accepted = accepted(&response)?;
    let strategy = accepted.strategy.as_ref().unwrap_or(strategy);
    if common.json {
        return Ok(output::print_json(
            &json!({ "prefix": prefix.to_string(), "strategy": strategy.to_string() }),
        )?);
    }
    Ok(output::print_line(&format!("strategy of {prefix} set to {strategy}"))?)
}

/// The short name of the strategy of this program whose name is nearly this one.
fn similar(strategy: &Name) -> Option<String> {
    let short = |name: &Name| {
        let mut components = name.as_ref().components();
        let is_strategy = STRATEGY_PREFIX.iter().all(|one| {
            components.next().is_some_and(|component| component.value() == one.as_bytes())
        });
        components.next().filter(|_| is_strategy).map(|component| component.to_string())
    };
    let known: Vec<_> = known_strategies().filter_map(|known| short(&known.name)).collect();
    let typed = short(strategy)?;
    if known.contains(&typed) {
        return None;
    }
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    crate::config::closest(&typed, &known).map(str::to_owned)
}

async fn unset(prefix: &Name, common: &CommonOptions) -> Outcome {
    if prefix.is_empty() {
        return Err(Failure::Usage(
            "/: the strategy of the root cannot be unset, since all names inherit it; set another"
                .to_owned(),
        ));
    }
    let endpoint = common.connect.open_as_operator().await?;
    let choices: Vec<StrategyChoice> =
        endpoint.management().dataset(&Dataset::StrategyChoiceList).await?;
    // In the protocol, this succeeds; here it is an error, as the name may be mistyped.
    if !choices.iter().any(|choice| choice.name == *prefix) {
        let inherited = applied(&choices, prefix)
            .map(|choice| format!(": it inherits {} from {}", choice.strategy, choice.name));
        return Err(Failure::Failed(format!(
            "{prefix} has no strategy of its own{}",
            inherited.unwrap_or_default()
        )));
    }
    let parameters =
        ControlParameters { name: Some(prefix.clone()), ..ControlParameters::default() };
    command(&endpoint, Verb::StrategyUnset, &parameters).await?;
    if common.json {
        return Ok(output::print_json(&json!({ "prefix": prefix.to_string() }))?);
    }
    Ok(output::print_line(&format!("strategy of {prefix} unset: it is inherited"))?)
}

fn json_of(choice: &StrategyChoice) -> serde_json::Value {
    json!({ "prefix": choice.name.to_string(), "strategy": choice.strategy.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_strategy_has_a_suggestion() {
        let similar = |text: &str| similar(&strategy_name(text).unwrap());
        assert_eq!(similar("best-rout").as_deref(), Some("best-route"));
        assert_eq!(similar("/localhost/nfd/strategy/multicats/v=5").as_deref(), Some("multicast"));
        assert_eq!(similar("best-route/v=99"), None, "the version is wrong, not the name");
        assert_eq!(similar("frobnicate"), None);
        assert_eq!(similar("/localhost/nfd/status/best-rout"), None, "no name of a strategy");
    }
}
