//! Typed management calls: NFD's management protocol, without a face.

use crate::{
    CommandBuilder, ControlParameters, ControlResponse, Dataset, DatasetItem, FaceQueryFilter,
    FaceStatus, ForwarderStatus, RibEntry, Verb, decode_dataset, route_origin, status,
};
use ndn_packet::{Data, InterestBuilder, Name};
use ndn_types::{FaceUri, Persistency, Timestamp};

/// Reasons why a call fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The forwarder is stopping.
    #[error("the forwarder is stopping")]
    Stopping,
    /// Management refused the command.
    #[error("{text} (status {code})")]
    Refused {
        /// Status code, as in HTTP.
        code: u32,
        /// Status text.
        text: String,
    },
    /// Management did not answer; the text is the reason.
    #[error("{0}")]
    NoAnswer(String),
    /// The answer cannot be decoded.
    #[error("the answer cannot be decoded: {0}")]
    Malformed(String),
}

impl From<CallError> for String {
    fn from(error: CallError) -> Self {
        error.to_string()
    }
}

/// A Nonce that differs from those of other times.
#[must_use]
pub const fn nonce_at(now: Timestamp) -> u32 {
    // The low bits change with each call, the high ones with each start.
    let [a, b, c, d, e, f, g, h] = now.as_nanos().to_be_bytes();
    u32::from_be_bytes([a ^ e, b ^ f, c ^ g, d ^ h])
}

/// Management of a forwarder in this process. Each call consists of one or more Interests of NFD's management
/// protocol.
pub trait Management {
    /// Passes one management Interest to the forwarder; returns the Data.
    ///
    /// # Errors
    /// Management did not answer.
    fn exchange(&mut self, interest: Vec<u8>) -> Result<Vec<u8>, CallError>;

    /// Wall-clock time for command timestamps.
    fn unix_ms(&self) -> u64;

    /// The Nonce of the next Interest for a dataset. An Interest with the name and the Nonce of one before is a duplicate to
    /// forwarders on its way.
    fn nonce(&mut self) -> u32;

    /// Executes a command; returns the parameters of the response.
    ///
    /// # Errors
    /// The command is refused.
    fn command(
        &mut self,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, CallError> {
        let unix_ms = self.unix_ms();
        // The timestamp may repeat: replay checks apply only to Interests on faces.
        let interest = CommandBuilder::default()
            .digest_signed_interest(verb, parameters, 0, unix_ms)
            .map_err(|error| CallError::Malformed(error.to_string()))?;
        parameters_of(&self.exchange(interest)?)
    }

    /// Registers the prefix of an announcement; returns the parameters of the response.
    ///
    /// # Errors
    /// The announcement is refused.
    fn announce(&mut self, announcement: &[u8]) -> Result<ControlParameters, CallError> {
        let unix_ms = self.unix_ms();
        let interest = CommandBuilder::default()
            .digest_signed_announcement(announcement, 0, unix_ms)
            .map_err(|error| CallError::Malformed(error.to_string()))?;
        parameters_of(&self.exchange(interest)?)
    }

    /// Fetches a dataset.
    ///
    /// # Errors
    /// The request is refused, or the dataset is malformed.
    fn dataset<T: DatasetItem>(&mut self, dataset: &Dataset) -> Result<Vec<T>, CallError> {
        let content = self.dataset_content(dataset)?;
        decode_dataset(&content).map_err(|error| CallError::Malformed(error.to_string()))
    }

    /// Fetches the segments of a dataset and joins their content.
    ///
    /// # Errors
    /// The request is refused, or the dataset is malformed.
    fn dataset_content(&mut self, dataset: &Dataset) -> Result<Vec<u8>, CallError> {
        let mut all = Vec::new();
        let malformed = |text: &str| CallError::Malformed(text.to_owned());
        let mut name = dataset.prefix();
        let mut is_first = true;
        loop {
            let interest =
                InterestBuilder::new(&name).can_be_prefix(is_first).must_be_fresh(is_first);
            let interest = interest.nonce(self.nonce()).to_vec();
            let interest = interest.map_err(|error| malformed(&error.to_string()))?;
            let wire = self.exchange(interest)?;
            let data = Data::parse(&wire).map_err(|error| malformed(&error.to_string()))?;
            if data.content_type() == ndn_packet::ContentType::NACK {
                let response = response(&wire)?;
                return Err(CallError::Refused { code: response.code, text: response.text });
            }
            all.extend_from_slice(data.content().unwrap_or_default());
            let segment = data.name().last().and_then(|last| last.as_segment());
            let segment = segment.ok_or_else(|| malformed("the Data is not a segment"))?;
            let last = data.final_block_id().and_then(|last| last.as_segment());
            if last.is_none_or(|last| segment >= last) {
                return Ok(all);
            }
            name = data.name().to_name();
            name.truncate(data.name().len() - 1);
            name.push_segment(segment + 1);
            is_first = false;
        }
    }

    /// Creates a face; returns its FaceId. Returns an existing face with the same remote URI instead.
    ///
    /// # Errors
    /// The face cannot be created.
    fn create_face(&mut self, uri: &FaceUri, persistency: Persistency) -> Result<u64, CallError> {
        let parameters = ControlParameters {
            uri: Some(uri.to_string()),
            persistency: Some(persistency.number()),
            ..ControlParameters::default()
        };
        match self.command(Verb::FaceCreate, &parameters) {
            Ok(made) => made.face_id.ok_or_else(|| CallError::Malformed("no FaceId".to_owned())),
            Err(error) => Err(error),
        }
    }

    /// Destroys a face.
    ///
    /// # Errors
    /// Management does not answer.
    fn destroy_face(&mut self, face_id: u64) -> Result<(), CallError> {
        let parameters =
            ControlParameters { face_id: Some(face_id), ..ControlParameters::default() };
        self.command(Verb::FaceDestroy, &parameters).map(drop)
    }

    /// Adds a route of origin `static`, inherited by longer prefixes.
    ///
    /// # Errors
    /// The face does not exist, or the RIB is full.
    fn add_route(&mut self, prefix: &Name, face_id: u64, cost: u64) -> Result<(), CallError> {
        // NFD's protocol accepts and ignores a route to a face that does not exist.
        let filter = FaceQueryFilter { face_id: Some(face_id), ..FaceQueryFilter::default() };
        if self.dataset::<FaceStatus>(&Dataset::FaceQuery(filter))?.is_empty() {
            let text = format!("there is no face {face_id}");
            return Err(CallError::Refused { code: status::NOT_FOUND, text });
        }
        let parameters =
            ControlParameters { cost: Some(cost), ..route_parameters(prefix, face_id) };
        self.command(Verb::RibRegister, &parameters).map(drop)
    }

    /// Removes a route of origin `static`.
    ///
    /// # Errors
    /// Management does not answer.
    fn remove_route(&mut self, prefix: &Name, face_id: u64) -> Result<(), CallError> {
        self.command(Verb::RibUnregister, &route_parameters(prefix, face_id)).map(drop)
    }

    /// Sets the strategy of a prefix.
    ///
    /// # Errors
    /// The strategy does not exist.
    fn set_strategy(&mut self, prefix: &Name, strategy: &Name) -> Result<(), CallError> {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            strategy: Some(strategy.clone()),
            ..ControlParameters::default()
        };
        self.command(Verb::StrategySet, &parameters).map(drop)
    }

    /// Fetches version, uptime and counters.
    ///
    /// # Errors
    /// Management does not answer.
    fn status(&mut self) -> Result<ForwarderStatus, CallError> {
        let content = self.dataset_content(&Dataset::ForwarderStatus)?;
        ForwarderStatus::decode(&content).map_err(|error| CallError::Malformed(error.to_string()))
    }

    /// Fetches all faces with their counters.
    ///
    /// # Errors
    /// Management does not answer.
    fn faces(&mut self) -> Result<Vec<FaceStatus>, CallError> {
        self.dataset(&Dataset::FaceList)
    }

    /// Fetches all routes.
    ///
    /// # Errors
    /// Management does not answer.
    fn routes(&mut self) -> Result<Vec<RibEntry>, CallError> {
        self.dataset(&Dataset::RibList)
    }
}

fn route_parameters(prefix: &Name, face_id: u64) -> ControlParameters {
    ControlParameters {
        name: Some(prefix.clone()),
        face_id: Some(face_id),
        origin: Some(route_origin::STATIC),
        ..ControlParameters::default()
    }
}

/// The parameters of the response to a command.
fn parameters_of(wire: &[u8]) -> Result<ControlParameters, CallError> {
    let response = response(wire)?;
    if response.code != status::OK {
        return Err(CallError::Refused { code: response.code, text: response.text });
    }
    response.parameters().map_err(|error| CallError::Malformed(error.to_string()))
}

fn response(wire: &[u8]) -> Result<ControlResponse, CallError> {
    let malformed = |text: String| CallError::Malformed(text);
    let data = Data::parse(wire).map_err(|error| malformed(error.to_string()))?;
    let content = data.content().unwrap_or_default();
    ControlResponse::decode(content).map_err(|error| malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::BTreeSet;

    use ndn_packet::{DataBuilder, Interest};

    use super::*;

    /// A forwarder whose datasets have three segments.
    #[derive(Default)]
    struct Segments {
        nonces: BTreeSet<Option<u32>>,
        requests: u32,
    }

    impl Management for Segments {
        fn exchange(&mut self, interest: Vec<u8>) -> Result<Vec<u8>, CallError> {
            let interest = Interest::parse(&interest).unwrap();
            self.nonces.insert(interest.nonce());
            self.requests += 1;
            let mut name = interest.name().to_name();
            if name.as_ref().last().unwrap().as_segment().is_none() {
                name.push_segment(0);
            }
            let segment = name.as_ref().last().and_then(|last| last.as_segment()).unwrap();
            let content = [u8::try_from(segment).unwrap()];
            let data = DataBuilder::new(&name).content(&content).final_segment(2);
            Ok(ndn_security::sign_data(&data, &ndn_security::DigestSigner).unwrap())
        }

        fn unix_ms(&self) -> u64 {
            0
        }

        fn nonce(&mut self) -> u32 {
            self.requests
        }
    }

    #[test]
    fn each_interest_for_a_dataset_has_its_own_nonce() {
        let mut management = Segments::default();
        assert_eq!(management.dataset_content(&Dataset::FibList), Ok(vec![0, 1, 2]));
        assert_eq!((management.requests, management.nonces.len()), (3, 3));
        let near = [1 << 40, (1 << 40) + 1, 2 << 40].map(|at| nonce_at(Timestamp::from_nanos(at)));
        assert!(near[0] != near[1] && near[0] != near[2]);
    }
}
