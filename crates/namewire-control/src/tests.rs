use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ndn_counters::FaceValues;
use ndn_management::{TableItems, TablePart};
use ndn_packet::Name;
use ndn_sys::clock::Clock;

use super::*;
use crate::capture::{CaptureFilter, CapturedKind, CapturedKinds, CapturedPacket, Direction};
use crate::streams::real_time;

/// A handler that records its calls.
#[derive(Default)]
struct Recorder {
    directives: Mutex<String>,
    traces: Arc<()>,
    capture: Mutex<Option<(CaptureFilter, SyncSender<CapturedPacket>)>>,
}

impl Operations for Recorder {
    fn clock(&self) -> &Clock {
        unreachable!("the control socket does not read the forwarder's clock")
    }

    fn watch_faces(&self, _: EventSink<FaceEvent>) -> Result<(), String> {
        unreachable!("the control socket has no stream of face events")
    }

    fn watch_routing(&self, _: EventSink<RoutingEvent>) -> Result<(), String> {
        unreachable!("the control socket has no stream of routing events")
    }

    fn table_part(&self, _: TablePart, _: usize) -> Result<TableItems, String> {
        unreachable!("the control socket has datasets")
    }

    fn version(&self) -> Result<Version, String> {
        Ok(Version { version: "1".to_owned(), process_id: 7 })
    }

    fn log_levels(&self) -> Result<LogLevels, String> {
        Ok(LogLevels { directives: self.directives.lock().unwrap().clone() })
    }

    fn set_log_levels(&self, directives: String) -> Result<LogLevels, String> {
        if directives == "bad" {
            return Err("`bad` is no level".to_owned());
        }
        *self.directives.lock().unwrap() = directives;
        self.log_levels()
    }

    fn management(&self, interest: Vec<u8>) -> Result<ManagementData, String> {
        // 5 is the TLV-TYPE of an Interest.
        let is_interest = interest.first() == Some(&5);
        is_interest.then(|| ManagementData { data: vec![6, 0] }).ok_or("no Interest".to_owned())
    }

    fn statistics(&self) -> Result<Statistics, String> {
        let mut busy = WorkerStatistics::default();
        (busy.calls.receive_calls, busy.shard.cs_hits, busy.interests.entered) = (7, 8, 9);
        (busy.queued_data.most, busy.burst_sizes[2]) = (10, 11);
        Ok(Statistics { workers: vec![WorkerStatistics::default(), busy] })
    }

    fn links(&self, after: Option<u64>) -> Result<BTreeMap<u64, LinkCounters>, String> {
        let drops = BTreeMap::from([("malformed".to_owned(), 3)]);
        let counters = FaceValues { out_retransmissions: 5, ..FaceValues::default() };
        let counters = LinkCounters { counters, drops, ..LinkCounters::default() };
        Ok(if after.is_none() { BTreeMap::from([(300, counters)]) } else { BTreeMap::new() })
    }

    fn waiting_faces(&self) -> Result<Vec<WaitingFace>, String> {
        Ok(vec![WaitingFace { face_id: Some(301), ..WaitingFace::default() }])
    }

    fn waiting_faces_for(&self, name: Name) -> Result<Vec<WaitingFace>, String> {
        let remote_uri = name.to_string();
        Ok(vec![WaitingFace { face_id: Some(302), remote_uri, ..WaitingFace::default() }])
    }

    fn face_limit(&self) -> Result<FaceLimit, String> {
        Ok(FaceLimit { faces: 7, faces_max: 8, refused: 9 })
    }

    fn limits(&self) -> Result<LedgerStatus, String> {
        Ok(LedgerStatus::default())
    }

    fn webtransport(&self) -> Result<WebTransportStatus, String> {
        let hash = "ab".repeat(32);
        Ok(WebTransportStatus { certificate_hashes: vec![hash], ..WebTransportStatus::default() })
    }

    fn memif(&self) -> Result<MemifStatus, String> {
        Ok(MemifStatus { clients: 3, ..MemifStatus::default() })
    }

    fn interfaces(&self) -> Result<Vec<NetworkInterface>, String> {
        Ok(vec![NetworkInterface { index: 5, ..NetworkInterface::default() }])
    }

    fn vip(&self) -> Result<VipStatus, String> {
        Ok(VipStatus { slots: 5, ..VipStatus::default() })
    }

    fn dispatch(&self) -> Result<Dispatch, String> {
        Ok(Dispatch { depth: 2, ..Dispatch::default() })
    }

    fn set_dispatch(&self, name: Name, worker: u8) -> Result<Dispatch, String> {
        Err(format!("{name} not to {worker}"))
    }

    fn balance_dispatch(&self) -> Result<Dispatch, String> {
        Ok(Dispatch { moved: 3, ..Dispatch::default() })
    }

    fn cs_policy(&self) -> Result<CsPolicy, String> {
        Ok(CsPolicy { policy: "lru".to_owned() })
    }

    fn set_cs_policy(&self, policy: String) -> Result<CsPolicy, String> {
        Err(format!("no policy {policy}"))
    }

    fn check_config(&self) -> Result<ConfigStatus, String> {
        let (waiting, changes) = (Vec::new(), vec!["log.level".to_owned()]);
        let overrides = vec!["--port: listeners.udp.port".to_owned()];
        let error = Some("line 1".to_owned());
        Ok(ConfigStatus { has_file: true, error, waiting, changes, overrides })
    }

    fn reload_config(&self) -> Result<ConfigStatus, String> {
        Err("line 1".to_owned())
    }

    fn measure_service_times(&self, milliseconds: u64) -> Result<ServiceTimesStream, String> {
        let trace = Box::new(Trace(Arc::clone(&self.traces)));
        Ok(ServiceTimesStream { milliseconds, trace })
    }

    fn trace_packets(&self, name: Name, _: u32) -> Result<PacketTraceStream, String> {
        let (sender, packets) = sync_channel(1);
        let packet = TracedPacket {
            worker: 0,
            unix_ns: 1,
            face_id: 300,
            packet: "Interest".to_owned(),
            name: name.to_string(),
            decisions: vec![TracedDecision::Dropped { reason: "no_next_hop".to_owned(), count: 1 }],
        };
        sender.send(packet).unwrap();
        let packets = Box::new(move |wait| packets.recv_timeout(wait));
        Ok(PacketTraceStream { packets, lost: Box::new(|| 7), end: Box::new(()) })
    }

    fn follow_log(&self, level: LogSeverity, module: Option<String>) -> Result<LogStream, String> {
        let feed = LogFeed::default();
        for (level, module) in [(LogSeverity::Debug, "quiet"), (LogSeverity::Warn, "loud")] {
            let message = format!("of {module}");
            feed.add(LogMessage { unix_ms: 5, level, module: module.to_owned(), message });
        }
        // The feed ends, and so does the stream.
        feed.follow(LogSelection { level, module })
    }

    fn start_capture(
        &self,
        face_id: Option<u64>,
        name: Option<Name>,
        types: CapturedKinds,
        snap_len: usize,
        sample: Option<u32>,
    ) -> Result<CaptureStream, String> {
        if face_id == Some(99) {
            return Err("there is no face 99".to_owned());
        }
        let all = CaptureFilter::new(face_id, snap_len, sample);
        let filter = CaptureFilter { name, types, ..all };
        let (sender, packets) = sync_channel(8);
        *self.capture.lock().unwrap() = Some((filter.clone(), sender));
        let peers = Box::new(|face_id| Some(format!("udp4://192.0.2.1:{face_id}").into()));
        let packets = Box::new(move |timeout| packets.recv_timeout(timeout));
        Ok(CaptureStream { filter, packets, peers, dropped: Box::new(|| 7) })
    }
}

/// Counts the traces that are not dropped.
struct Trace(Arc<()>);

impl ServiceTimesTrace for Trace {
    fn report(&self) -> ServiceTimesReport {
        // Longer than the maximum request line.
        let bucket = TimeBucket { from_ns: 1000, below_ns: 1024, count: 7 };
        let times = TimeHistogram { count: 7, sum_ns: 7070, buckets: vec![bucket; 5000] };
        let interest_dispatch = times;
        let worker = WorkerServiceTimes { interest_dispatch, ..WorkerServiceTimes::default() };
        let nanoseconds = Arc::strong_count(&self.0) as u64;
        ServiceTimesReport { nanoseconds, workers: vec![worker] }
    }
}

struct Setup {
    _directory: tempfile::TempDir,
    path: PathBuf,
    recorder: Arc<Recorder>,
}

fn setup() -> Setup {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.control.sock");
    Setup { _directory: directory, path, recorder: Arc::default() }
}

#[test]
fn service_times_are_reported_after_the_measurement() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let mut client = ControlClient::connect(socket.path()).unwrap();
    for _ in 0..2 {
        let report = client.measure_service_times(1).unwrap();
        assert_eq!(report.nanoseconds, 2, "the recorder and one trace");
        assert_eq!(report.workers[0].interest_dispatch.buckets.len(), 5000);
    }
}

#[test]
fn closed_connection_ends_its_trace() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let mut stream = UnixStream::connect(socket.path()).unwrap();
    let line = "{\"method\":\"trace.latency\",\"params\":{\"milliseconds\":3600000}}\n";
    stream.write_all(line.as_bytes()).unwrap();
    let traces = || Arc::strong_count(&setup.recorder.traces) - 1;
    let wait_for = |count| {
        let deadline = real_time() + Duration::from_secs(30);
        while traces() != count {
            assert!(real_time() < deadline, "{} traces", traces());
            std::thread::yield_now();
        }
    };
    wait_for(1);
    drop(stream);
    wait_for(0);
}

#[test]
fn log_levels_are_changed_and_reported() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let mut client = ControlClient::connect(socket.path()).unwrap();
    assert_eq!(client.version().unwrap().process_id, 7);
    let levels = client.set_log_levels("debug".to_owned()).unwrap();
    assert_eq!(levels.directives, "debug");
    let refused = client.set_log_levels("bad".to_owned()).unwrap_err();
    assert_eq!(refused.to_string(), "`bad` is no level");
    let levels = client.log_levels().unwrap();
    assert_eq!(levels.directives, "debug", "a refused change changes nothing");
}

#[test]
fn statistics_are_reported() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let mut client = ControlClient::connect(socket.path()).unwrap();
    assert_eq!(client.statistics().unwrap(), setup.recorder.statistics().unwrap());
    assert_eq!(client.waiting_faces().unwrap()[0].face_id, Some(301));
    let name = Name::from_uri("/a").unwrap();
    let [waiting] = &client.waiting_faces_for(name).unwrap()[..] else { panic!("one face") };
    assert_eq!((waiting.face_id, waiting.remote_uri.as_str()), (Some(302), "/a"));
    let first = client.links(None).unwrap();
    assert_eq!(first[&300].counters.out_retransmissions, 5);
    assert_eq!(first[&300].drops["malformed"], 3);
    assert!(client.links(Some(300)).unwrap().is_empty());
}

#[test]
fn socket_file_is_private_and_removed_at_the_end() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let mode = std::fs::metadata(&setup.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap_err();
    assert_eq!(second.kind(), std::io::ErrorKind::AddrInUse);
    drop(socket);
    assert!(!setup.path.exists());
}

#[test]
fn stale_socket_is_replaced() {
    let setup = setup();
    std::fs::create_dir_all(setup.path.parent().unwrap()).unwrap();
    drop(UnixListener::bind(&setup.path).unwrap());
    assert!(setup.path.exists());
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    ControlClient::connect(socket.path()).unwrap().version().unwrap();
}

#[test]
fn malformed_request_is_answered_and_the_connection_continues() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let mut stream = UnixStream::connect(socket.path()).unwrap();
    let requests = r#"hello
        {"method":"fly"}
        {"method":"ndt.set","params":{"name":"/%zz","worker":7}}
        {"method":"management","params":{"interest":"%"}}
        {"method":"log.set"}
        {"method":"version"}
    "#;
    stream.write_all(requests.as_bytes()).unwrap();
    let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
    for expected in [
        "not a request",
        "unknown variant `fly`",
        "/%zz is no name",
        "not base64",
        "missing field `params`",
        "process_id",
    ] {
        let line = lines.next().unwrap();
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn endless_request_is_cut_off() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let mut stream = UnixStream::connect(socket.path()).unwrap();
    stream.write_all(&vec![b' '; 64 * 1024]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("too long"), "{answer}");
}

#[test]
fn capture_ends_with_the_packets_before_the_close() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let client = ControlClient::connect(socket.path()).unwrap();
    let requested = CaptureFilter {
        name: Some("/a/b".parse().unwrap()),
        types: [CapturedKind::Nack, CapturedKind::Link].into_iter().collect(),
        ..CaptureFilter::new(Some(300), 100, Some(7))
    };
    let (mut reader, end) = client.start_capture(requested.clone()).unwrap();
    let (filter, sender) = setup.recorder.capture.lock().unwrap().take().unwrap();
    assert_eq!(filter, requested);
    let packet = CapturedPacket {
        face_id: 300,
        direction: Direction::Received,
        unix_ns: 1,
        bytes: vec![5, 3, 7, 1, 0],
        original_len: 5,
    };
    sender.send(packet).unwrap();
    end.finish().unwrap();
    let mut capture = Vec::new();
    reader.read_to_end(&mut capture).unwrap();
    assert!(capture.windows(7).any(|window| window == [0x86, 0x24, 5, 3, 7, 1, 0]));
    assert!(String::from_utf8_lossy(&capture).contains("udp4://192.0.2.1:300"));
    assert!(capture.windows(8).any(|window| window == 7_u64.to_le_bytes()), "the drop count");
    let after = CapturedPacket {
        face_id: 300,
        direction: Direction::Sent,
        unix_ns: 2,
        bytes: vec![],
        original_len: 0,
    };
    assert!(sender.send(after).is_err(), "the receiver is gone, which stops the forwarder's side");
}

#[test]
fn traced_packets_and_lost_ones_are_reported() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let client = ControlClient::connect(socket.path()).unwrap();
    let name = Name::from_uri("/a/b").unwrap();
    let (lines, _end) = client.trace_packets(&name, 1).unwrap();
    let lines: Vec<TraceLine> = lines.map(Result::unwrap).collect();
    let [TraceLine::Packet(packet), TraceLine::Lost(7)] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((packet.name.as_str(), packet.face_id), ("/a/b", 300));
    assert_eq!(packet.decisions[0].to_string(), "dropped no_next_hop");
}

#[test]
fn followed_log_has_the_selected_messages() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let follow = |level, module: Option<&str>| -> Vec<String> {
        let client = ControlClient::connect(socket.path()).unwrap();
        let (lines, _end) = client.follow_log(level, module.map(str::to_owned)).unwrap();
        let texts = lines.map(|line| match line.unwrap() {
            LogLine::Message(message) => format!("{} {}", message.level.name(), message.message),
            LogLine::Lost(count) => count.to_string(),
        });
        texts.collect()
    };
    assert_eq!(follow(LogSeverity::Trace, None), ["debug of quiet", "warn of loud"]);
    assert_eq!(follow(LogSeverity::Info, None), ["warn of loud"]);
    assert_eq!(follow(LogSeverity::Trace, Some("quiet")), ["debug of quiet"]);
}

#[test]
fn capture_of_an_unknown_face_is_rejected() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let client = ControlClient::connect(socket.path()).unwrap();
    let refused = client.start_capture(CaptureFilter::new(Some(99), 100, None)).err().unwrap();
    assert_eq!(refused.to_string(), "there is no face 99");
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let mut held: Vec<ControlClient> = Vec::new();
    for _ in 0..16 {
        let mut client = ControlClient::connect(socket.path()).unwrap();
        client.version().unwrap();
        held.push(client);
    }
    let mut refused = ControlClient::connect(socket.path()).unwrap();
    assert!(refused.version().is_err());
}

#[test]
fn missing_or_replaced_socket_file_is_left_alone() {
    let setup = setup();
    let first = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    std::fs::remove_file(&setup.path).unwrap();
    let second = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    drop(first);
    assert!(ControlClient::connect(&setup.path).is_ok(), "the second one is still there");
    drop(second);
    assert!(!setup.path.exists());
}

/// It may have the inode of the file that was removed.
#[test]
fn file_made_after_the_close_is_left_alone() {
    let setup = setup();
    let mut socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    socket.close();
    assert!(!setup.path.exists());
    let _successor = UnixListener::bind(&setup.path).unwrap();
    drop(socket);
    assert!(setup.path.exists());
}

#[test]
fn policy_of_the_content_store_is_reported_and_changed() {
    let setup = setup();
    let _socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let mut client = ControlClient::connect(&setup.path).unwrap();
    assert_eq!(client.cs_policy().unwrap().policy, "lru");
    let refused = client.set_cs_policy("mru".to_owned()).unwrap_err();
    assert_eq!(refused.to_string(), "no policy mru");
}

#[test]
fn name_dispatch_is_reported_and_changed() {
    let setup = setup();
    let _socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let mut client = ControlClient::connect(&setup.path).unwrap();
    assert_eq!(client.dispatch().unwrap().depth, 2);
    assert_eq!(client.balance_dispatch().unwrap().moved, 3);
    let refused = client.set_dispatch(Name::from_uri("/a/b").unwrap(), 7).unwrap_err();
    assert_eq!(refused.to_string(), "/a/b not to 7");
}

#[test]
fn drop_ends_the_threads_of_connections() {
    let setup = setup();
    let socket = ControlSocket::serve(&setup.path, setup.recorder.clone()).unwrap();
    let mut idle = ControlClient::connect(&setup.path).unwrap();
    idle.version().unwrap();
    let mut ended = ControlClient::connect(&setup.path).unwrap();
    ended.version().unwrap();
    drop(ended);
    let handlers = Arc::strong_count(&setup.recorder);
    assert!(handlers > 2, "each thread has the handler: {handlers}");
    drop(socket);
    assert_eq!(Arc::strong_count(&setup.recorder), 1);
    assert!(idle.version().is_err());
}

#[test]
fn management_interest_is_answered_with_its_data() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let _socket = ControlSocket::serve(&path, Arc::new(Recorder::default())).unwrap();
    let mut client = ControlClient::connect(&path).unwrap();
    assert_eq!(client.management(vec![5, 0]).unwrap().data, [6, 0]);
    let error = client.management(vec![6, 0]).unwrap_err();
    assert!(matches!(error, ControlError::Refused(_)), "{error}");
}
