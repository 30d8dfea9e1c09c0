//! Hub discovery on the multicast faces of the forwarder.

use std::time::Duration;

use ndn_client::{Endpoint, InterestRequest};
use ndn_management::{ControlParameters, Dataset, FaceQueryFilter, FaceStatus, Verb, numbers};
use ndn_packet::tlv::Reader;
use ndn_types::{FaceUri, LinkType};

use crate::cli::arguments::name;
use crate::cli::companions::hub::HUB_PREFIX;
use crate::cli::failure::{Failure, Outcome};

const ROUTE_EXPIRATION_MS: u64 = 30_000;
const ROUTE_COST: u64 = 1;
const LIFETIME: Duration = Duration::from_secs(4);

/// The hub that a host on a link announces, without authentication.
pub(super) async fn ask(endpoint: &Endpoint) -> Outcome<FaceUri> {
    let management = endpoint.management();
    let filter = FaceQueryFilter {
        link_type: Some(LinkType::MultiAccess.number()),
        ..FaceQueryFilter::default()
    };
    let faces: Vec<FaceStatus> = management.dataset(&Dataset::FaceQuery(filter)).await?;
    let prefix = name(HUB_PREFIX).map_err(Failure::Failed)?;
    let mut refusal = "the forwarder has no multicast faces".to_owned();
    let mut routes = 0;
    for face in faces {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            face_id: Some(face.properties.face_id),
            cost: Some(ROUTE_COST),
            expiration_period_ms: Some(ROUTE_EXPIRATION_MS),
            ..ControlParameters::default()
        };
        match management.command(Verb::RibRegister, &parameters).await {
            Ok(_) => routes += 1,
            Err(error) => refusal = error.to_string(),
        }
    }
    if routes == 0 {
        return Err(Failure::NoAnswer(refusal));
    }
    let strategy = name("/localhost/nfd/strategy/multicast").map_err(Failure::Failed)?;
    let parameters = ControlParameters {
        name: Some(prefix.clone()),
        strategy: Some(strategy),
        ..ControlParameters::default()
    };
    management.command(Verb::StrategySet, &parameters).await?;
    let request =
        InterestRequest::new(prefix).can_be_prefix(true).must_be_fresh(true).lifetime(LIFETIME);
    let data = endpoint.express(&request).await?;
    uri_in(&data.content())
        .ok_or_else(|| Failure::NoAnswer("a response without a hub was received".to_owned()))
}

fn uri_in(content: &[u8]) -> Option<FaceUri> {
    let mut reader = Reader::new(content);
    while let Some(element) = reader.next_tlv().ok()? {
        if element.ty() == numbers::URI {
            return FaceUri::parse(element.text().ok()?).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use ndn_packet::tlv;

    use super::*;

    #[test]
    fn uri_is_found_among_other_elements() {
        let mut content = Vec::new();
        tlv::append_number(&mut content, 130, 5);
        tlv::append_tlv(&mut content, numbers::URI, b"udp://hub.example");
        assert_eq!(uri_in(&content).unwrap().to_string(), "udp://hub.example");
        assert_eq!(uri_in(b""), None);
        assert_eq!(uri_in(&content[..content.len() - 1]), None);
        let mut wrong = Vec::new();
        tlv::append_tlv(&mut wrong, numbers::URI, b"no URI");
        assert_eq!(uri_in(&wrong), None);
    }
}
