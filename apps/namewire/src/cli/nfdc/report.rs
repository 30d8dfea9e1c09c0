//! `nfdc status`: the datasets as text, XML or JSON.

use ndn_management::{
    ChannelStatus, CsInfo, Dataset, DatasetItem, FibEntry, ForwarderStatus, cs_flag,
    route_origin_text,
};
use serde_json::{Value, json};

use super::datasets::Report;
use super::grammar::Arguments;
use super::session::{Exit, Session, no_answer};
use super::{text, xml};

impl Session {
    /// Fetches a dataset; `what` is its name in messages of nfdc.
    pub(super) async fn dataset<T: DatasetItem>(
        &self,
        dataset: &Dataset,
        what: &str,
    ) -> Result<Vec<T>, Exit> {
        let fetched = self.endpoint.management().dataset(dataset).await;
        fetched.map_err(|error| {
            Exit::new(1, format!("Error {}", no_answer(&error, &format!("fetching {what}"))))
        })
    }

    async fn general(&self) -> Result<ForwarderStatus, Exit> {
        self.endpoint.management().forwarder_status().await.map_err(|error| {
            Exit::new(1, format!("Error {}", no_answer(&error, "fetching general status")))
        })
    }

    async fn cs(&self) -> Result<CsInfo, Exit> {
        self.endpoint.management().cs_info().await.map_err(|error| {
            Exit::new(1, format!("Error {}", no_answer(&error, "fetching CS information")))
        })
    }

    async fn channels(&self) -> Result<Vec<ChannelStatus>, Exit> {
        self.dataset(&Dataset::ChannelList, "channel dataset").await
    }

    async fn fib(&self) -> Result<Vec<FibEntry>, Exit> {
        self.dataset(&Dataset::FibList, "FIB dataset").await
    }
}

/// `status report [text|xml|json]`.
pub(super) async fn all(session: &Session, arguments: &Arguments) -> Result<String, Exit> {
    Ok(Report::fetch(session).await?.render(arguments.text("format")))
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

impl Report {
    pub(super) async fn fetch(session: &Session) -> Result<Self, Exit> {
        Ok(Self {
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

    pub(super) fn render(&self, format: Option<&str>) -> String {
        match format {
            Some("xml") => xml::report(self),
            Some("json") => format!("{}\n", json(self)),
            _ => self.to_text(),
        }
    }

    fn to_text(&self) -> String {
        let lines = |title: &str, items: Vec<String>| {
            let items: String = items.iter().map(|item| format!("  {item}\n")).collect();
            format!("{title}:\n{items}")
        };
        [
            text::general(&self.general),
            channels(&self.channels),
            lines("Faces", self.faces.iter().map(|face| text::face(face, false)).collect()),
            fib(&self.fib),
            lines("RIB", self.rib.iter().map(text::rib_entry).collect()),
            text::cs(&self.cs),
            lines(
                "Strategy choices",
                self.strategies.iter().map(|choice| text::strategy(choice, false)).collect(),
            ),
        ]
        .concat()
    }
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
