//! `nfdc status`: the datasets as text, XML or JSON.

use ndn_management::{ChannelStatus, Dataset, FibEntry, cs_flag, route_origin_text};
use serde_json::{Value, json};

use super::datasets::Report;
use super::grammar::Arguments;
use super::session::{Exit, Session};
use super::{text, xml};

/// `status report [text|xml|json]`.
pub(super) async fn all(session: &Session, arguments: &Arguments) -> Result<String, Exit> {
    Ok(render(&fetch(session).await?, arguments.text("format")))
}

/// One part of it: `status show`, `channel list`, `fib list`, `cs info`.
pub(super) async fn section(session: &Session, command: &str) -> Result<String, Exit> {
    Ok(match command {
        "channel list" => channels(&session.channels().await?),
        "fib list" => fib(&session.fib().await?),
        "cs info" => text::cs(&session.cs().await?),
        _ => text::general(&session.general().await?),
    })
}

pub(super) async fn fetch(session: &Session) -> Result<Report, Exit> {
    Ok(Report {
        general: session.general().await?,
        channels: session.channels().await?,
        faces: session.dataset(&Dataset::FaceList, "face dataset").await?,
        fib: session.fib().await?,
        rib: session.dataset(&Dataset::RibList, "RIB dataset").await?,
        cs: session.cs().await?,
        strategies: session
            .dataset(&Dataset::StrategyChoiceList, "strategy choice dataset")
            .await?,
    })
}

pub(super) fn render(report: &Report, format: Option<&str>) -> String {
    match format {
        Some("xml") => xml::report(report),
        Some("json") => format!("{}\n", json(report)),
        _ => to_text(report),
    }
}

fn to_text(report: &Report) -> String {
    let lines = |title: &str, items: Vec<String>| {
        let items: String = items.iter().map(|item| format!("  {item}\n")).collect();
        format!("{title}:\n{items}")
    };
    [
        text::general(&report.general),
        channels(&report.channels),
        lines("Faces", report.faces.iter().map(|face| text::face(face, false)).collect()),
        fib(&report.fib),
        lines("RIB", report.rib.iter().map(text::rib_entry).collect()),
        text::cs(&report.cs),
        lines(
            "Strategy choices",
            report.strategies.iter().map(|choice| text::strategy(choice, false)).collect(),
        ),
    ]
    .concat()
}

fn channels(channels: &[ChannelStatus]) -> String {
    let lines: String =
        channels.iter().map(|channel| format!("  {}\n", channel.local_uri)).collect();
    format!("Channels:\n{lines}")
}

fn fib(entries: &[FibEntry]) -> String {
    let lines: String =
        entries.iter().map(|entry| format!("  {}\n", text::fib_entry(entry))).collect();
    format!("FIB:\n{lines}")
}

/// nfdc 24.07 has no JSON; the names are those of its XML.
fn json(report: &Report) -> Value {
    let general = &report.general;
    let faces = report.faces.iter().map(|face| {
        let (properties, counters) = (&face.properties, &face.counters);
        json!({
            "faceId": properties.face_id,
            "remoteUri": properties.remote_uri,
            "localUri": properties.local_uri,
            "faceScope": properties.scope.as_str(),
            "facePersistency": properties.persistency.as_str(),
            "linkType": properties.link_type.as_str(),
            "flags": properties.flags,
            "mtu": face.mtu,
            "expirationPeriodMs": face.expiration_period_ms,
            "nInInterests": counters.in_interests, "nInData": counters.in_data,
            "nInNacks": counters.in_nacks, "nInBytes": counters.in_bytes,
            "nOutInterests": counters.out_interests, "nOutData": counters.out_data,
            "nOutNacks": counters.out_nacks, "nOutBytes": counters.out_bytes,
        })
    });
    let fib = report.fib.iter().map(|entry| {
        let hops = entry.next_hops.iter();
        let hops = hops.map(|hop| json!({ "faceId": hop.face_id, "cost": hop.cost }));
        json!({ "prefix": entry.name.to_uri(), "nextHops": hops.collect::<Vec<_>>() })
    });
    let rib = report.rib.iter().map(|entry| {
        let routes = entry.routes.iter().map(|route| {
            json!({
                "faceId": route.face_id,
                "origin": route_origin_text(route.origin),
                "cost": route.cost,
                "flags": text::route_flags(route.flags),
                "expirationPeriodMs": route.expiration_period_ms,
            })
        });
        json!({ "prefix": entry.name.to_uri(), "routes": routes.collect::<Vec<_>>() })
    });
    let strategies = report.strategies.iter().map(
        |choice| json!({ "namespace": choice.name.to_uri(), "strategy": choice.strategy.to_uri() }),
    );
    json!({
        "generalStatus": {
            "version": general.version,
            "startTime": text::extended_timestamp(general.start_timestamp_ms),
            "currentTime": text::extended_timestamp(general.current_timestamp_ms),
            "nNameTreeEntries": general.name_tree_entries,
            "nFibEntries": general.fib_entries,
            "nPitEntries": general.pit_entries,
            "nMeasurementsEntries": general.measurements_entries,
            "nCsEntries": general.cs_entries,
            "nSatisfiedInterests": general.counters.satisfied_interests,
            "nUnsatisfiedInterests": general.counters.unsatisfied_interests,
        },
        "channels": report.channels.iter().map(|c| c.local_uri.clone()).collect::<Vec<_>>(),
        "faces": faces.collect::<Vec<_>>(),
        "fib": fib.collect::<Vec<_>>(),
        "rib": rib.collect::<Vec<_>>(),
        "cs": {
            "capacity": report.cs.capacity,
            "admitEnabled": report.cs.flags & cs_flag::ADMIT != 0,
            "serveEnabled": report.cs.flags & cs_flag::SERVE != 0,
            "nEntries": report.cs.entries,
            "nHits": report.cs.hits,
            "nMisses": report.cs.misses,
        },
        "strategyChoices": strategies.collect::<Vec<_>>(),
    })
}
