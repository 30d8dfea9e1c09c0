//! `nfdc route ...`.

use ndn_management::{
    ControlParameters, Dataset, RibEntry, RouteRecord, Verb, route_flag, route_origin,
    route_origin_text,
};

use super::faces::{create_implicitly, find_face, find_references};
use super::grammar::{Arguments, FaceReference};
use super::session::{Exit, Session, print, required};
use super::text::{self, Attributes};

/// Exit status for an unknown route.
const ROUTE_NOT_FOUND: u8 = 6;
const FACE_NOT_FOUND: u8 = 3;

pub(super) async fn list(session: &Session, arguments: &Arguments) -> Result<String, Exit> {
    let next_hops: Vec<u64> = match arguments.face("nexthop") {
        Some(reference) => {
            let faces = find_references(session, &reference).await?;
            faces.iter().map(|face| face.properties.face_id).collect()
        }
        None => Vec::new(),
    };
    let origin = arguments.unsigned("origin");
    matching(session, |_, route| {
        (next_hops.is_empty() || next_hops.contains(&route.face_id))
            && origin.is_none_or(|origin| route.origin == origin)
    })
    .await
}

pub(super) async fn show(session: &Session, arguments: &Arguments) -> Result<String, Exit> {
    let prefix = required(arguments.name("prefix"))?;
    matching(session, |entry, _| entry.name == prefix).await
}

async fn matching(
    session: &Session,
    is_requested: impl Fn(&RibEntry, &RouteRecord) -> bool,
) -> Result<String, Exit> {
    let entries: Vec<RibEntry> = session.dataset(&Dataset::RibList, "RIB dataset").await?;
    let mut out = String::new();
    for entry in &entries {
        for route in entry.routes.iter().filter(|route| is_requested(entry, route)) {
            out.push_str(&text::route(Some(&entry.name), route));
            out.push('\n');
        }
    }
    if out.is_empty() { Err(Exit::new(ROUTE_NOT_FOUND, "Route not found")) } else { Ok(out) }
}

pub(super) async fn add(session: &Session, arguments: &Arguments) -> Result<(), Exit> {
    let reference = required(arguments.face("nexthop").as_ref())?;
    let face_id = match (find_face(session, &reference).await, reference) {
        (Ok(face), _) => face.properties.face_id,
        (Err(exit), FaceReference::Uri(uri)) if exit.status == FACE_NOT_FOUND => {
            let (face_id, reported) = create_implicitly(session, &uri).await?;
            print(&reported)?;
            face_id
        }
        (Err(exit), _) => return Err(exit),
    };
    let inherit = if arguments.flag("no-inherit") { 0 } else { route_flag::CHILD_INHERIT };
    let capture = if arguments.flag("capture") { route_flag::CAPTURE } else { 0 };
    let parameters = ControlParameters {
        name: Some(required(arguments.name("prefix"))?),
        face_id: Some(face_id),
        origin: Some(arguments.unsigned("origin").unwrap_or(route_origin::STATIC)),
        cost: Some(arguments.unsigned("cost").unwrap_or(0)),
        flags: Some(inherit | capture),
        expiration_period_ms: arguments.unsigned("expires"),
        ..ControlParameters::default()
    };
    let accepted = session.command(Verb::RibRegister, &parameters, "adding route").await?;
    let mut line = reported(&accepted);
    line.put("cost", accepted.cost.unwrap_or_default())
        .put("flags", text::route_flags(accepted.flags.unwrap_or_default()));
    match accepted.expiration_period_ms {
        Some(period_ms) => line.put("expires", format!("{period_ms}ms")),
        None => line.put("expires", "never"),
    };
    print(&format!("route-add-accepted {}\n", line.end()))
}

pub(super) async fn remove(session: &Session, arguments: &Arguments) -> Result<(), Exit> {
    let reference = required(arguments.face("nexthop").as_ref())?;
    for face in find_references(session, &reference).await? {
        let parameters = ControlParameters {
            name: Some(required(arguments.name("prefix"))?),
            face_id: Some(face.properties.face_id),
            origin: Some(arguments.unsigned("origin").unwrap_or(route_origin::STATIC)),
            ..ControlParameters::default()
        };
        let removed = session.command(Verb::RibUnregister, &parameters, "removing route").await?;
        print(&format!("route-removed {}\n", reported(&removed).end()))?;
    }
    Ok(())
}

fn reported(parameters: &ControlParameters) -> Attributes {
    let mut line = Attributes::line();
    line.put("prefix", parameters.name.clone().unwrap_or_default())
        .put("nexthop", parameters.face_id.unwrap_or_default())
        .put("origin", route_origin_text(parameters.origin.unwrap_or_default()));
    line
}
