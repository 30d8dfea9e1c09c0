//! The requests of the control socket.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::time::Duration;

use ndn_management::{ControlParameters, Verb};
use ndn_packet::{Interest, Name};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::capture::{CaptureFilter, CapturedKinds};
use crate::client::{ControlClient, ControlError, StreamEnd};
use crate::declare::requests;
use crate::log_feed::{LogLine, LogSeverity, LogStream};
use crate::packet_trace::{PacketTraceStream, TraceLine};
use crate::protocol::{
    ConfigStatus, CsPolicy, Dispatch, FaceLimit, LedgerStatus, LinkCounters, LogLevels,
    ManagementData, MemifStatus, NetworkInterface, Statistics, Version, VipStatus, WaitingFace,
    WebTransportStatus,
};
use crate::service_times::{ServiceTimesReport, ServiceTimesStream};
use crate::streams::{CaptureStream, ResponseBody};

requests! {
    answered {
        /// Identifies the forwarder.
        "version" Version => version -> Version, used by "all commands";

        /// Reports the log levels in force.
        "log.levels" LogLevels => log_levels -> LogLevels, used by "`log`";

        /// Changes log levels; reports the resulting ones.
        "log.set" LogSet => set_log_levels {
            /// `debug` for all modules, `ndn_dataplane=debug` for one, `ndn_dataplane=default` to remove its level;
            /// separated by commas.
            directives: String,
        } -> LogLevels, used by "`log`", audited;

        /// Executes one management Interest, a command or one for a dataset segment, as over a local face. It works when
        /// `limits.faces` is reached.
        "management" Management => management {
            /// The Interest, in base64.
            #[serde(with = "crate::base64")]
            interest: Vec<u8>,
        } -> ManagementData, used by "commands at the limit of faces", audited;

        /// Reports the counters of the workers since the start.
        "statistics" Statistics => statistics -> Statistics, used by "`status`, `workers`";

        /// Reports link counters by FaceId, for at most a hundred faces. The client repeats the request after the last
        /// FaceId until the result is empty.
        "links" Links => links {
            /// Only faces with higher FaceIds; null starts at the lowest.
            after: Option<u64>,
        } -> BTreeMap<u64, LinkCounters>, used by "`face list`, `face show`, `face destroy`, `route list`, `route fib`, `status`, and commands that say why nothing arrives";

        /// Reports required faces that are missing or being created.
        "faces.waiting" WaitingFaces => waiting_faces -> Vec<WaitingFace>, used by "`face list`, `face show`, `face destroy`, `status`";

        /// Reports those of them that Interests with a name would go to.
        "faces.waiting_for" WaitingFor => waiting_faces_for {
            /// The name, as a URI.
            #[serde(with = "crate::uri")]
            name: Name,
        } -> Vec<WaitingFace>, used by "`ping`, `peek`, `get`";

        /// Reports the number of faces and its limit.
        "faces.limit" FaceLimit => face_limit -> FaceLimit, used by "`status`, commands that cannot connect";

        /// Reports what principals hold of scarce resources.
        "limits" Limits => limits -> LedgerStatus, used by "`limits`";

        /// Reports the state of the WebTransport listener.
        "webtransport" WebTransport => webtransport -> WebTransportStatus, used by "`webtransport`";

        /// Reports the state of the memif listener.
        "memif" Memif => memif -> MemifStatus, used by "`status`";

        /// Reports the network interfaces of the host, and the drivers that the forwarder may use on them.
        "interfaces" Interfaces => interfaces -> Vec<NetworkInterface>, used by "GraphQL";

        /// Reports the counts and scores of VIP. A forwarder that does not take part refuses.
        "vip" Vip => vip -> VipStatus, used by "`vip`";

        /// Reports the dispatch of names to workers.
        "ndt.list" NdtList => dispatch -> Dispatch, used by "`ndt list`";

        /// Moves the entry of a name to a worker; reports the resulting dispatch.
        "ndt.set" NdtSet => set_dispatch {
            /// The name, as a URI.
            #[serde(with = "crate::uri")]
            name: Name,
            /// The number of the worker.
            worker: u8,
        } -> Dispatch, used by "`ndt set`", audited;

        /// Balances the load of the workers now; reports the resulting dispatch.
        "ndt.balance" NdtBalance => balance_dispatch -> Dispatch, used by "`ndt balance`", audited;

        /// Reports the replacement policy of the Content Store.
        "cs.policy" CsPolicy => cs_policy -> CsPolicy, used by "`cs`";

        /// Puts another replacement policy of the Content Store in force, until the next start or a reload that changes
        /// `tables.cs.policy`. Nothing is evicted.
        "cs.set_policy" SetCsPolicy => set_cs_policy {
            /// Its name, as in the configuration.
            policy: String,
        } -> CsPolicy, used by "`cs config`", audited;

        /// Reads the configuration and reports whether it can be used; nothing changes. Listeners that it adds are opened and
        /// closed again.
        "config.check" ConfigCheck => check_config -> ConfigStatus, used by "`config reload`, GraphQL";

        /// Reads the configuration again, as after SIGHUP. A configuration that cannot be used changes nothing.
        "config.reload" ConfigReload => reload_config -> ConfigStatus, used by "`config reload`, GraphQL", audited;
    }
    streamed {
        /// Measures service times; the result follows when the time is over.
        "trace.latency" TraceLatency => measure_service_times {
            /// Duration; an hour at most.
            milliseconds: u64,
        } -> ServiceTimesStream as ServiceTimesReport, used by "`trace latency`";

        /// Traces the decisions about packets. After an empty result, the connection carries one JSON object per line:
        /// `{"packet": …}` with the decisions about a packet, or `{"lost": …}` with the number of packets not reported so
        /// far, until the client closes its side.
        "trace.packets" TracePackets => trace_packets {
            /// Only packets whose names have this prefix, a URI.
            #[serde(with = "crate::uri")]
            name: Name,
            /// One of this number of packets.
            sample: u32,
        } -> PacketTraceStream, used by "`trace packets`";

        /// Follows the log. After an empty result, the connection carries one JSON object per line: `{"message": …}`, first
        /// the latest 500 messages, or `{"lost": …}` with the number of messages lost so far, until the client closes its
        /// side.
        "log.follow" LogFollow => follow_log {
            /// The least serious level: `trace`, `debug`, `info`, `warn` or `error`.
            level: LogSeverity,
            /// Only messages of this module and of its parts; null for all.
            module: Option<String>,
        } -> LogStream, used by "`log --follow`";

        /// Captures packets. After an empty result, the connection carries a pcapng file, until the client closes its
        /// side.
        "capture.start" CaptureStart => start_capture {
            /// Only this face; null captures all faces.
            face_id: Option<u64>,
            /// Only packets whose names have this prefix, a URI; null for all. Fragments have no name.
            #[serde(default, with = "crate::uri::optional")]
            name: Option<Name>,
            /// Only packets of these types: `Interest`, `Data`, `Nack`, `NDNLPv2` or `other`; all if there are none.
            #[serde(default)]
            types: CapturedKinds,
            /// Maximum bytes captured per packet; 65,536 at most.
            snap_len: usize,
            /// One of this number of selected packets, chosen at random; null captures all.
            sample: Option<u32>,
        } -> CaptureStream, used by "`capture`", audited;
    }
}

/// Time limit for an answer, in addition to the requested duration.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum time in which the server answers a management Interest; it waits longer if the Interest's lifetime is longer.
/// The client waits [one second more](MANAGEMENT_MARGIN), so that it learns the reason of the server.
pub(crate) const MANAGEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// See [`MANAGEMENT_TIMEOUT`].
pub(crate) const MANAGEMENT_MARGIN: Duration = Duration::from_secs(1);

/// Returns the time in which the server answers a management Interest of this lifetime.
#[must_use]
pub fn management_timeout(lifetime_ms: u64) -> Duration {
    MANAGEMENT_TIMEOUT.max(Duration::from_millis(lifetime_ms))
}

/// Executes a request that is given as in the protocol: its method, and its parameters as a JSON object.
///
/// # Errors
/// The request is unknown, its parameters are malformed, or it is answered over time; or the forwarder refuses.
pub fn execute(
    method: &str,
    parameters: &serde_json::Map<String, serde_json::Value>,
    operations: &dyn Operations,
) -> Result<serde_json::Value, String> {
    let mut request = serde_json::json!({ "method": method });
    if !parameters.is_empty() {
        request["params"] = parameters.clone().into();
    }
    let request: Request = serde_json::from_value(request).map_err(|error| error.to_string())?;
    match request.execute(operations)? {
        ResponseBody::Result(result) => Ok(result),
        ResponseBody::Stream(_) => Err(format!("{method} is answered over time")),
    }
}

impl Request {
    /// Returns its name and its parameters as the log shows them, of a request that it has with the user. Of management
    /// Interests, these are the command and its name, face URI and FaceId.
    pub(crate) fn audited(&self) -> Option<(String, String)> {
        let info = REQUESTS.iter().find(|info| info.method == self.method() && info.is_audited)?;
        if let Self::Management { interest } = self {
            let interest = Interest::parse(interest).ok()?;
            // They follow `/localhost/nfd`.
            let mut components = interest.name().components().skip(2);
            let (module, verb) = (components.next()?, components.next()?);
            let verb = Verb::find(module.value(), verb.value())?;
            let parameters = ControlParameters::decode(components.next()?.value()).ok()?;
            let objects = [
                parameters.name.map(|name| name.to_uri()),
                parameters.uri,
                parameters.face_id.map(|face_id| format!("face {face_id}")),
            ];
            let objects: Vec<String> = objects.into_iter().flatten().collect();
            return Some((verb.to_string(), objects.join(" ")));
        }
        let request = serde_json::to_value(self).ok()?;
        let parameters = request.get("params").map(ToString::to_string).unwrap_or_default();
        Some((info.method.to_owned(), parameters))
    }

    /// Returns how long the client waits for the answer.
    pub(crate) fn timeout(&self) -> Duration {
        if let Self::TraceLatency { milliseconds } = self {
            ANSWER_TIMEOUT + Duration::from_millis(*milliseconds)
        } else if let Self::Management { interest } = self {
            let lifetime = Interest::parse(interest).map_or(0, |interest| interest.lifetime_ms());
            management_timeout(lifetime) + MANAGEMENT_MARGIN
        } else {
            ANSWER_TIMEOUT
        }
    }
}

impl ControlClient {
    fn call<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ControlError> {
        self.exchange(request, request.timeout())
    }

    /// Measures service times for this long.
    ///
    /// # Errors
    /// The connection fails, the answer is malformed, or the forwarder refuses.
    pub fn measure_service_times(
        &mut self,
        milliseconds: u64,
    ) -> Result<ServiceTimesReport, ControlError> {
        self.call(&Request::TraceLatency { milliseconds })
    }

    /// Turns the connection into a trace of the decisions about packets: the iterator returns them until the forwarder
    /// ends it, which [`StreamEnd`] requests.
    ///
    /// # Errors
    /// As for [`measure_service_times`](Self::measure_service_times).
    pub fn trace_packets(
        mut self,
        name: &Name,
        sample: u32,
    ) -> Result<
        (impl Iterator<Item = Result<TraceLine, ControlError>> + use<>, StreamEnd),
        ControlError,
    > {
        self.call::<()>(&Request::TracePackets { name: name.clone(), sample })?;
        self.into_lines()
    }

    /// Follows the log: the iterator returns messages until the forwarder ends it, which [`StreamEnd`] requests.
    ///
    /// # Errors
    /// As for [`measure_service_times`](Self::measure_service_times).
    pub fn follow_log(
        mut self,
        level: LogSeverity,
        module: Option<String>,
    ) -> Result<
        (impl Iterator<Item = Result<LogLine, ControlError>> + use<>, StreamEnd),
        ControlError,
    > {
        self.call::<()>(&Request::LogFollow { level, module })?;
        self.into_lines()
    }

    /// The JSON objects that the connection carries from now on.
    fn into_lines<T: DeserializeOwned>(
        self,
    ) -> Result<(impl Iterator<Item = Result<T, ControlError>> + use<T>, StreamEnd), ControlError>
    {
        let (reader, end) = self.into_stream()?;
        let lines = reader.lines().map(|line| {
            let malformed = |error: serde_json::Error| ControlError::Malformed(error.to_string());
            serde_json::from_str(&line?).map_err(malformed)
        });
        Ok((lines, end))
    }

    /// Turns the connection into a capture: the reader returns pcapng until the forwarder ends it, which
    /// [`StreamEnd`] requests.
    ///
    /// # Errors
    /// As for [`measure_service_times`](Self::measure_service_times).
    pub fn start_capture(
        mut self,
        filter: CaptureFilter,
    ) -> Result<(impl Read, StreamEnd), ControlError> {
        let CaptureFilter { face_id, name, types, snap_len, sample } = filter;
        let sample = Some(sample);
        self.call::<()>(&Request::CaptureStart { face_id, name, types, snap_len, sample })?;
        self.into_stream()
    }
}

#[cfg(test)]
mod tests {
    use ndn_management::CommandBuilder;
    use ndn_packet::InterestBuilder;

    use super::*;

    #[test]
    fn audited_commands_have_their_names_and_faces() {
        let audited = |verb, parameters: &ControlParameters| {
            let name = CommandBuilder::default().name(verb, parameters);
            let interest = InterestBuilder::new(&name).nonce(1).to_vec().unwrap();
            Request::Management { interest }.audited().unwrap()
        };
        let uri = Some("udp4://192.0.2.1:6363".to_owned());
        let create = ControlParameters { uri, ..ControlParameters::default() };
        let (operation, objects) = audited(Verb::FaceCreate, &create);
        assert_eq!(operation, Verb::FaceCreate.to_string());
        assert_eq!(objects, "udp4://192.0.2.1:6363");
        let mut parameters = ControlParameters { face_id: Some(300), ..Default::default() };
        assert_eq!(audited(Verb::FaceDestroy, &parameters).1, "face 300");
        parameters.name = Some("/a".parse().unwrap());
        assert_eq!(audited(Verb::RibRegister, &parameters).1, "/a face 300");
    }
}
