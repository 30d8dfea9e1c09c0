//! `nfdc face ...`.

use ndn_management::{
    ControlParameters, Dataset, FaceQueryFilter, FaceStatus, Verb, face_flag, status,
};
use ndn_types::{FaceUri, Persistency};

use super::grammar::{self, Arguments, FaceReference};
use super::session::{CANONIZE_TIMEOUT, Exit, Session, no_answer, refusal, required};
use super::text::{self, Attributes};
use crate::cli::resolve;

/// Exit statuses of nfdc.
const NOT_FOUND: u8 = 3;
const NOT_CANONICAL: u8 = 4;
const AMBIGUOUS: u8 = 5;

/// The matching faces; at least one.
async fn find_faces(
    session: &Session,
    mut filter: FaceQueryFilter,
) -> Result<Vec<FaceStatus>, Exit> {
    for uri in [&mut filter.remote_uri, &mut filter.local_uri].into_iter().flatten() {
        if let Ok(parsed) = FaceUri::parse(uri)
            && has_canonical_form(&parsed)
        {
            *uri = canonical(&parsed, "").await?.to_string();
        }
    }
    let dataset = match filter == FaceQueryFilter::default() {
        true => Dataset::FaceList,
        false => Dataset::FaceQuery(filter),
    };
    let faces: Vec<FaceStatus> =
        session.endpoint.management().dataset(&dataset).await.map_err(|error| {
            Exit::new(1, format!("Error {}", no_answer(&error, "querying face")))
        })?;
    if faces.is_empty() { Err(Exit::new(NOT_FOUND, "Face not found")) } else { Ok(faces) }
}

pub(super) async fn find_references(
    session: &Session,
    reference: &FaceReference,
) -> Result<Vec<FaceStatus>, Exit> {
    find_faces(
        session,
        match reference {
            FaceReference::Id(id) => {
                FaceQueryFilter { face_id: Some(*id), ..FaceQueryFilter::default() }
            }
            FaceReference::Uri(uri) => {
                FaceQueryFilter { remote_uri: Some(uri.to_string()), ..FaceQueryFilter::default() }
            }
        },
    )
    .await
}

/// The only matching face.
pub(super) async fn find_face(
    session: &Session,
    reference: &FaceReference,
) -> Result<FaceStatus, Exit> {
    let mut faces = find_references(session, reference).await?;
    if faces.len() > 1 {
        let choices: Vec<String> = faces
            .iter()
            .map(|face| {
                format!("{} (local={})", face.properties.face_id, face.properties.local_uri)
            })
            .collect();
        let message = format!(
            "Multiple faces match specified remote FaceUri. Re-run the command with a FaceId: {}",
            choices.join(", ")
        );
        return Err(Exit::new(AMBIGUOUS, message));
    }
    faces.pop().ok_or_else(|| Exit::new(NOT_FOUND, "Face not found"))
}

/// Creates a face for a route.
pub(super) async fn create_implicitly(
    session: &Session,
    uri: &FaceUri,
) -> Result<(u64, String), Exit> {
    if uri.scheme() == "ether" {
        return Err(Exit::new(
            NOT_FOUND,
            "Unable to implicitly create Ethernet faces\nPlease create the face with 'nfdc \
             face create' before adding the route",
        ));
    }
    let uri = canonical(uri, "").await?.to_string();
    let parameters = ControlParameters { uri: Some(uri), ..ControlParameters::default() };
    let created =
        session.command(Verb::FaceCreate, &parameters, "implicitly creating face").await?;
    Ok((created.face_id.unwrap_or_default(), reported("face-created", &created)))
}

fn has_canonical_form(uri: &FaceUri) -> bool {
    FaceUri::IP_SCHEMES.contains(&uri.scheme()) || ["ether", "dev"].contains(&uri.scheme())
}

async fn canonical(uri: &FaceUri, field: &str) -> Result<FaceUri, Exit> {
    let field = if field.is_empty() { String::new() } else { format!("{field} ") };
    let failed = |reason: String| {
        let message = format!("Error during canonization of {field}'{uri}': {reason}");
        Exit::new(NOT_CANONICAL, message)
    };
    match tokio::time::timeout(CANONIZE_TIMEOUT, resolve::canonical(uri)).await {
        Ok(Ok(canonical)) => Ok(canonical),
        Ok(Err(failure)) => Err(failed(failure.to_string())),
        Err(_) => Err(failed("no answer in time".to_owned())),
    }
}

pub(super) async fn list(session: &Session, arguments: &Arguments) -> Result<String, Exit> {
    let filter = FaceQueryFilter {
        remote_uri: arguments.uri("remote").map(ToString::to_string),
        local_uri: arguments.uri("local").map(ToString::to_string),
        uri_scheme: arguments.text("scheme").map(str::to_owned),
        ..FaceQueryFilter::default()
    };
    let faces = find_faces(session, filter).await?;
    Ok(faces.iter().map(|face| format!("{}\n", text::face(face, false))).collect())
}

pub(super) async fn show(session: &Session, arguments: &Arguments) -> Result<String, Exit> {
    let id = required(arguments.unsigned("id").as_ref())?;
    let face = find_face(session, &FaceReference::Id(id)).await?;
    Ok(text::face(&face, true))
}

pub(super) async fn create(session: &Session, arguments: &Arguments) -> Result<String, Exit> {
    let requested = requested(arguments)?;
    let remote = required(arguments.uri("remote"))?;
    let remote = canonical(&remote, "remote FaceUri").await?.to_string();
    let local = match arguments.uri("local") {
        Some(local) => Some(canonical(local, "local FaceUri").await?.to_string()),
        None => None,
    };
    let persistency = arguments.persistency("persistency").unwrap_or(Persistency::Persistent);
    let parameters = ControlParameters {
        uri: Some(remote.clone()),
        local_uri: local,
        persistency: Some(persistency.number()),
        ..requested.clone()
    };
    let response = session.respond(Verb::FaceCreate, &parameters, "creating face").await?;
    let existing = response.parameters().ok();
    if response.is_ok() {
        return Ok(reported("face-created", &existing.unwrap_or_default()));
    }
    match existing {
        // The face exists: update it.
        Some(existing)
            if response.code == status::CONFLICT && existing.uri.as_deref() == Some(&remote) =>
        {
            let Some(update) = difference(&existing, requested, persistency) else {
                return Ok(reported("face-exists", &existing));
            };
            let updated = session.command(Verb::FaceUpdate, &update, "updating face").await?;
            let (uri, local_uri) = (existing.uri, existing.local_uri);
            Ok(reported("face-updated", &ControlParameters { uri, local_uri, ..updated }))
        }
        Some(_) | None => Err(refusal(&response, "creating face")),
    }
}

/// The requested settings of a face.
fn requested(arguments: &Arguments) -> Result<ControlParameters, Exit> {
    let mut requested = ControlParameters {
        base_congestion_marking_interval_ns: arguments
            .unsigned("congestion-marking-interval")
            .map(|ms| ms.saturating_mul(1_000_000)),
        default_congestion_threshold: arguments.unsigned("default-congestion-threshold"),
        mtu: match arguments.text("mtu") {
            None => None,
            // No limit.
            Some("auto") => Some(u64::MAX),
            Some(number) => Some(grammar::parse_unsigned(number).map_err(|_| {
                Exit::new(2, "MTU must either be a non-negative integer or 'auto'")
            })?),
        },
        ..ControlParameters::default()
    };
    for (name, bit) in [
        ("reliability", face_flag::LP_RELIABILITY),
        ("congestion-marking", face_flag::CONGESTION_MARKING),
    ] {
        if let Some(value) = arguments.boolean(name) {
            requested.set_flag(bit, value);
        }
    }
    Ok(requested)
}

/// The update of an existing face to the requested settings; `None` if it has them. The persistency
/// is never lowered.
fn difference(
    existing: &ControlParameters,
    requested: ControlParameters,
    persistency: Persistency,
) -> Option<ControlParameters> {
    let rank = |persistency| match persistency {
        Persistency::OnDemand => 1,
        Persistency::Persistent => 2,
        Persistency::Permanent => 3,
    };
    let has = existing.persistency.and_then(Persistency::from_number).map_or(0, rank);
    let mut update = ControlParameters {
        persistency: (has < rank(persistency)).then(|| persistency.number()),
        mtu: requested.mtu.filter(|mtu| existing.mtu != Some(*mtu)),
        base_congestion_marking_interval_ns: requested.base_congestion_marking_interval_ns,
        default_congestion_threshold: requested.default_congestion_threshold,
        ..ControlParameters::default()
    };
    for bit in [face_flag::LP_RELIABILITY, face_flag::CONGESTION_MARKING] {
        let is_set = existing.flags.unwrap_or(0) & bit != 0;
        if let Some(value) = requested.flag(bit).filter(|value| *value != is_set) {
            update.set_flag(bit, value);
        }
    }
    if update == ControlParameters::default() {
        return None;
    }
    Some(ControlParameters { face_id: existing.face_id, ..update })
}

fn reported(what: &str, face: &ControlParameters) -> String {
    let mut line = Attributes::line();
    let persistency = face.persistency.and_then(Persistency::from_number);
    line.put("id", face.face_id.unwrap_or_default())
        .put("local", face.local_uri.as_deref().unwrap_or_default())
        .put("remote", face.uri.as_deref().unwrap_or_default())
        .put("persistency", persistency.map_or("none", Persistency::as_str));
    text::face_settings(&mut line, face);
    format!("{what} {}\n", line.end())
}

pub(super) async fn destroy(session: &Session, arguments: &Arguments) -> Result<String, Exit> {
    let reference = required(arguments.face("face").as_ref())?;
    let face = find_face(session, &reference).await?.properties;
    let parameters =
        ControlParameters { face_id: Some(face.face_id), ..ControlParameters::default() };
    let answered = session.command(Verb::FaceDestroy, &parameters, "destroying face").await?;
    let mut line = Attributes::line();
    line.put("id", face.face_id)
        .put("local", &face.local_uri)
        .put("remote", &face.remote_uri)
        .put("persistency", face.persistency);
    text::face_settings(&mut line, &answered);
    Ok(format!("face-destroyed {}\n", line.end()))
}
