//! NFD management protocol, client side.

use std::time::Duration;

use ndn_management::{
    CommandBuilder, ControlParameters, ControlResponse, CsInfo, Dataset, DatasetItem,
    ForwarderStatus, Verb, decode_dataset, status,
};
use ndn_packet::{DecodeError, LpHeader, Name, SignatureInfo, SignatureType};
use ndn_security::Signer;
use rand::RngExt;
use thiserror::Error;

use crate::express::ExpressError;
use crate::fetch::{Discovery, FetchError, FetchOptions, Verification, fetch};
use crate::handle::Handle;

/// Time limit for the answer to one transmission of a command.
const COMMAND_LIFETIME_MS: u64 = 5_000;
/// Number of attempts of a command, each signed anew.
const COMMAND_ATTEMPTS: u32 = 2;

/// Maximum size of a dataset.
const DATASET_LEN_MAX: usize = 1 << 30;

/// Why a command or a dataset failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No answer.
    #[error("the forwarder does not answer: {0}")]
    NoAnswer(#[from] ExpressError),
    /// The command was not sent: it cannot be signed, or is larger than a packet.
    #[error("{command} cannot be sent: {error}")]
    Unsent {
        /// Module and verb.
        command: String,
        /// The reason.
        #[source]
        error: ExpressError,
    },
    /// The forwarder rejected the command.
    #[error("the forwarder rejected {command}: {code} {text}")]
    Refused {
        /// Module and verb.
        command: String,
        /// Status code.
        code: u32,
        /// The forwarder's explanation.
        text: String,
    },
    /// The answer is malformed.
    #[error("the forwarder's response to {command} is malformed: {error}")]
    Malformed {
        /// Module and verb.
        command: String,
        /// The decoding error.
        #[source]
        error: DecodeError,
    },
    /// The dataset could not be fetched.
    #[error("the dataset {dataset} cannot be fetched: {error}")]
    Fetch {
        /// Its name.
        dataset: String,
        /// The reason.
        #[source]
        error: FetchError,
    },
}

/// Sends commands to the forwarder and fetches its datasets.
#[derive(Debug, Clone)]
pub struct Management {
    handle: Handle,
    builder: CommandBuilder,
}

impl Management {
    pub(crate) fn new(handle: &Handle) -> Self {
        let prefix = handle.common().command_prefix.clone();
        let builder = CommandBuilder::new(prefix).lifetime_ms(COMMAND_LIFETIME_MS);
        Self { handle: handle.clone(), builder }
    }

    /// Sends a command and waits for its success.
    ///
    /// # Errors
    /// `Refused` with the forwarder's code and text; `Unsent`, `NoAnswer`, `Malformed`.
    pub async fn command(
        &self,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<ControlResponse, CommandError> {
        let response = self.respond(verb, parameters).await?;
        if response.is_ok() {
            return Ok(response);
        }
        Err(CommandError::Refused {
            command: command_name(verb),
            code: response.code,
            text: response.text,
        })
    }

    /// As [`Self::command`]; returns the parameters of the response.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub async fn execute(
        &self,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, CommandError> {
        let response = self.command(verb, parameters).await?;
        response
            .parameters()
            .map_err(|error| CommandError::Malformed { command: command_name(verb), error })
    }

    /// Creates a face; returns the parameters of the response, and whether the face is new. A face to the same peer that exists
    /// already is left as it is.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub async fn create_face(
        &self,
        parameters: &ControlParameters,
    ) -> Result<(ControlParameters, bool), CommandError> {
        let response = self.respond(Verb::FaceCreate, parameters).await?;
        let face = response.parameters().ok().filter(|face| face.face_id.is_some());
        match (face, response.code) {
            (Some(face), status::OK) => Ok((face, true)),
            // The body names the face that exists.
            (Some(face), status::CONFLICT) => Ok((face, false)),
            (_, code) => {
                let command = command_name(Verb::FaceCreate);
                Err(CommandError::Refused { command, code, text: response.text })
            }
        }
    }

    /// Erases the Data under a prefix from the Content Store, at most `count` packets; returns their number. The command is
    /// repeated while the response reports that more packets remain: forwarders erase in steps.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub async fn erase(&self, prefix: &Name, count: Option<u64>) -> Result<u64, CommandError> {
        let mut erased = 0;
        loop {
            let parameters = ControlParameters {
                name: Some(prefix.clone()),
                count: count.map(|count| count.saturating_sub(erased)),
                ..ControlParameters::default()
            };
            let answer = self.execute(Verb::CsErase, &parameters).await?;
            let step = answer.count.unwrap_or(0);
            erased += step;
            // Capacity in the response means that more packets remain.
            if step == 0 || answer.capacity.is_none() || count.is_some_and(|count| erased >= count)
            {
                return Ok(erased);
            }
        }
    }

    /// Sends a command and waits for its response, whatever its status code.
    ///
    /// # Errors
    /// `Unsent`, `NoAnswer`, `Malformed`.
    pub async fn respond(
        &self,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<ControlResponse, CommandError> {
        let mut attempt = 1;
        let received = loop {
            let unsent = |error| CommandError::Unsent { command: command_name(verb), error };
            let wire = self.encode_in_turn(verb, parameters).await;
            let wire = wire.map_err(|error| unsent(ExpressError::Sign(error)))?;
            let wait = Duration::from_millis(COMMAND_LIFETIME_MS);
            match self.handle.express_encoded(wire, 0, wait, true).await {
                Err(ExpressError::Timeout { .. }) if attempt < COMMAND_ATTEMPTS => attempt += 1,
                Err(error @ ExpressError::TooLong(_)) => return Err(unsent(error)),
                other => break other.map_err(|error| self.name_verb(error, verb, attempt))?,
            }
        };
        ControlResponse::decode(&received.content())
            .map_err(|error| CommandError::Malformed { command: command_name(verb), error })
    }

    /// Replaces the name by the verb, without parameters and digest, for messages; `attempts` are
    /// those of the command.
    fn name_verb(&self, error: ExpressError, verb: Verb, attempts: u32) -> ExpressError {
        let name = || format!("{}/{}", self.handle.common().command_prefix, command_name(verb));
        if let ExpressError::Nack { reason, .. } = error {
            ExpressError::Nack { name: name(), reason }
        } else if let ExpressError::Timeout { waited, .. } = error {
            ExpressError::Timeout {
                name: name(),
                attempts,
                waited: waited.saturating_mul(attempts),
            }
        } else {
            error
        }
    }

    /// Fetches a dataset and decodes its entries.
    ///
    /// # Errors
    /// `Fetch`, `Malformed`; `Refused` if the forwarder answers with an application Nack.
    pub async fn dataset<T: DatasetItem>(&self, dataset: &Dataset) -> Result<Vec<T>, CommandError> {
        let content = self.fetch(dataset).await?;
        decode_dataset(&content).map_err(|error| malformed(dataset, error))
    }

    /// Fetches `status/general`.
    ///
    /// # Errors
    /// As [`Self::dataset`].
    pub async fn forwarder_status(&self) -> Result<ForwarderStatus, CommandError> {
        let dataset = Dataset::ForwarderStatus;
        let content = self.fetch(&dataset).await?;
        ForwarderStatus::decode(&content).map_err(|error| malformed(&dataset, error))
    }

    /// Fetches `cs/info`.
    ///
    /// # Errors
    /// As [`Self::dataset`].
    pub async fn cs_info(&self) -> Result<CsInfo, CommandError> {
        let dataset = Dataset::CsInfo;
        let content = self.fetch(&dataset).await?;
        CsInfo::decode(&content).map_err(|error| malformed(&dataset, error))
    }

    /// Fetches the bytes of a dataset.
    ///
    /// # Errors
    /// `Fetch`; `Refused` if the forwarder answers with an application Nack.
    pub async fn fetch(&self, dataset: &Dataset) -> Result<Vec<u8>, CommandError> {
        let name = dataset.prefix();
        let options = FetchOptions {
            discovery: Discovery::Prefix,
            discovery_retransmissions: 1,
            verification: Verification::Skip,
            ..FetchOptions::default()
        };
        let fetched =
            async { fetch(&self.handle, &name, &options).await?.collect(DATASET_LEN_MAX).await };
        fetched.await.map_err(|error| {
            if let FetchError::NotFound { content, .. } = &error
                && let Ok(response) = ControlResponse::decode(content)
            {
                let (code, text) = (response.code, response.text);
                return CommandError::Refused { command: name.to_uri(), code, text };
            }
            CommandError::Fetch { dataset: name.to_uri(), error }
        })
    }

    /// Sends a command without waiting for its response.
    pub(crate) fn send_command(&self, verb: Verb, parameters: &ControlParameters) {
        if let Ok(wire) = self.encode(verb, parameters) {
            self.handle.shared().send(|output| output.push(&LpHeader::default(), &wire));
        }
    }

    /// Encodes a command. A key-signed command waits while its SignatureTime would be more than `COMMAND_LEAD_MAX_MS` ahead of
    /// the clock; waiting commands keep their order.
    async fn encode_in_turn(
        &self,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<Vec<u8>, ndn_security::SignError> {
        let common = self.handle.common();
        let signature = common.command_signer.signature_info().signature_type;
        if signature == SignatureType::DIGEST_SHA256 {
            return self.encode(verb, parameters);
        }
        let _turn = common.command_turn.lock().await;
        let pause = common.command_pause();
        if !pause.is_zero() {
            tracing::debug!(?pause, "a command waits until its SignatureTime is near the clock");
            tokio::time::sleep(pause).await;
        }
        self.encode(verb, parameters)
    }

    fn encode(
        &self,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<Vec<u8>, ndn_security::SignError> {
        let common = self.handle.common();
        let signer: &dyn Signer = common.command_signer.as_ref();
        let signature_nonce: [u8; 8] = rand::rng().random();
        let info = SignatureInfo {
            nonce: Some(&signature_nonce),
            time_ms: Some(common.next_command_ms()),
            ..signer.signature_info()
        };
        let mut failure = None;
        let sign = |parts: &[&[u8]], out: &mut [u8]| {
            signer.sign(parts, out).map_err(|error| failure = Some(error)).ok()
        };
        let nonce = rand::rng().random();
        let length_max = signer.signature_len_max();
        self.builder
            .signed_interest(verb, parameters, nonce, &info, length_max, sign)
            .map_err(|error| failure.unwrap_or(ndn_security::SignError::Encode(error)))
    }
}

fn malformed(dataset: &Dataset, error: DecodeError) -> CommandError {
    CommandError::Malformed { command: dataset.prefix().to_uri(), error }
}

fn command_name(verb: Verb) -> String {
    format!("{}/{}", verb.module().as_str(), verb.as_str())
}
