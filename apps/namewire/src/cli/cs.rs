//! `namewire cs`: the Content Store of a forwarder.

use clap::{Args, Subcommand};
use ndn_caching::PolicyKind;
use ndn_client::Endpoint;
use ndn_management::{ControlParameters, CsInfo, Verb, cs_flag};
use ndn_packet::Name;
use serde_json::{Value, json};

use super::arguments::{at_least_one, name};
use super::connect::block_on;
use super::control_queries;
use super::failure::{Failure, Outcome};
use super::manage::{CommonOptions, Switch, command};
use super::output::{self, bytes_for_people, counted, grouped};

/// Show, configure and erase the Content Store
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
    /// Show capacity, contents and hits (same as `namewire cs`)
    Info(CommonOptions),
    /// Change the capacity and the policies
    Config {
        /// Maximum number of Data packets, at most the capacity that the forwarder was started with
        /// (`tables.cs.capacity_packets`)
        #[arg(long, value_name = "PACKETS")]
        capacity: Option<u64>,
        /// Whether Data is admitted to the store
        #[arg(long, value_enum)]
        admit: Option<Switch>,
        /// Whether Interests are satisfied from the store
        #[arg(long, value_enum)]
        serve: Option<Switch>,
        /// Choice of the Data that a full store evicts: lru, priority-fifo, lfu, windowed-lfu, w-tinylfu, s3-fifo, sieve,
        /// arc, gdsf, random, vip (only with the cargo feature `vip`; see [caching.vip]); until the next start. Nothing is
        /// evicted
        #[arg(long)]
        policy: Option<PolicyKind>,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Erase the Data under a prefix
    Erase {
        /// The prefix
        #[arg(value_parser = name)]
        prefix: Name,
        /// Maximum number of packets to erase
        #[arg(long, value_name = "PACKETS", value_parser = at_least_one::<u64>)]
        count: Option<u64>,
        #[command(flatten)]
        common: CommonOptions,
    },
}

pub(super) fn run(options: &Options) -> Outcome {
    match &options.command {
        None => block_on(info(&options.common)),
        Some(Command::Info(common)) => block_on(info(common)),
        Some(Command::Config { capacity, admit, serve, policy, common }) => {
            block_on(configure(*capacity, *admit, *serve, *policy, common))
        }
        Some(Command::Erase { prefix, count, common }) => block_on(erase(prefix, *count, common)),
    }
}

async fn info(common: &CommonOptions) -> Outcome {
    let endpoint = common.connect.open_as_operator().await?;
    let info = endpoint.management().cs_info().await?;
    // The control socket blocks this thread: an interruption ends only the query before it.
    let policy = control_queries::cs_policy(&endpoint);
    show(&endpoint, &info, policy.as_deref(), common.json)
}

async fn configure(
    capacity: Option<u64>,
    admit: Option<Switch>,
    serve: Option<Switch>,
    policy: Option<PolicyKind>,
    common: &CommonOptions,
) -> Outcome {
    if capacity.is_none() && admit.is_none() && serve.is_none() && policy.is_none() {
        return Err(Failure::Usage(
            "nothing to change: use --capacity, --admit, --serve or --policy".to_owned(),
        ));
    }
    let endpoint = common.connect.open_as_operator().await?;
    let mut parameters = ControlParameters { capacity, ..ControlParameters::default() };
    Switch::apply(admit, cs_flag::ADMIT, &mut parameters);
    Switch::apply(serve, cs_flag::SERVE, &mut parameters);
    let before = endpoint.management().cs_info().await?;
    // The response has the current settings; the dataset may be a second old.
    let accepted = command(&endpoint, Verb::CsConfig, &parameters).await?;
    if let (Some(asked), Some(most)) = (capacity, accepted.capacity)
        && most < asked
    {
        // The forwarder has applied only some of the settings.
        command(&endpoint, Verb::CsConfig, &as_before(&before)).await?;
        return Err(Failure::Failed(format!(
            "--capacity {asked}: the forwarder holds at most {} as it was started \
             (`tables.cs.capacity_packets`); nothing was changed, the capacity is {}",
            counted(most, "packet"),
            counted(before.capacity, "packet")
        )));
    }
    let policy = match policy {
        Some(policy) => Some(control_queries::set_cs_policy(&endpoint, policy.to_string())?),
        None => control_queries::cs_policy(&endpoint),
    };
    let info = endpoint.management().cs_info().await?;
    let capacity = accepted.capacity.unwrap_or(info.capacity);
    let flags = accepted.flags.unwrap_or(info.flags);
    show(&endpoint, &CsInfo { capacity, flags, ..info }, policy.as_deref(), common.json)
}

/// The command that restores the settings.
fn as_before(before: &CsInfo) -> ControlParameters {
    let mut parameters =
        ControlParameters { capacity: Some(before.capacity), ..ControlParameters::default() };
    for flag in [cs_flag::ADMIT, cs_flag::SERVE] {
        parameters.set_flag(flag, before.flags & flag != 0);
    }
    parameters
}

async fn erase(prefix: &Name, count: Option<u64>, common: &CommonOptions) -> Outcome {
    let endpoint = common.connect.open_as_operator().await?;
    let erased = endpoint.management().erase(prefix, count).await?;
    if common.json {
        return Ok(output::print_json(
            &json!({ "prefix": prefix.to_string(), "erased_packets": erased }),
        )?);
    }
    Ok(output::print_line(&format!("{} under {prefix} erased", counted(erased, "packet")))?)
}

fn show(endpoint: &Endpoint, info: &CsInfo, policy: Option<&str>, as_json: bool) -> Outcome {
    let bytes = control_queries::cs_bytes(&control_queries::workers(endpoint));
    if as_json {
        let mut object = json(info, bytes);
        object["policy"] = policy.into();
        return Ok(output::print_json(&object)?);
    }
    let on_off = |bit: u64| if info.flags & bit == 0 { "off" } else { "on" }.to_owned();
    let mut fields =
        vec![("capacity", counted(info.capacity, "packet")), ("entries", grouped(info.entries))];
    fields.extend(bytes.map(|bytes| ("memory", bytes_for_people(bytes))));
    fields.extend([
        ("hits", grouped(info.hits)),
        ("misses", grouped(info.misses)),
        ("admit", on_off(cs_flag::ADMIT)),
        ("serve", on_off(cs_flag::SERVE)),
    ]);
    fields.extend(policy.map(|policy| ("policy", policy.to_owned())));
    Ok(output::print_fields(&fields)?)
}

/// The store's state as JSON; `bytes` is the memory in use, if that is known.
pub(super) fn json(info: &CsInfo, bytes: Option<u64>) -> Value {
    json!({
        "bytes": bytes,
        "capacity_packets": info.capacity,
        "entries": info.entries,
        "hits": info.hits,
        "misses": info.misses,
        "admit": info.flags & cs_flag::ADMIT != 0,
        "serve": info.flags & cs_flag::SERVE != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previous_settings_can_be_restored() {
        let info = CsInfo { capacity: 7, flags: cs_flag::SERVE, ..CsInfo::default() };
        let parameters = as_before(&info);
        assert_eq!(parameters.capacity, Some(7));
        assert_eq!(parameters.flags, Some(cs_flag::SERVE));
        assert_eq!(parameters.mask, Some(cs_flag::ADMIT | cs_flag::SERVE));
    }
}
