//! Metrics of a program pushed to a receiver of Prometheus' remote write protocol, version 1.0.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ndn_sys::clock::Clock;
use ndn_types::duration_ms;
use prost::Message;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT};
use reqwest::{Client, StatusCode, Url};

use crate::program_metrics::ProgramMetric;

/// Requests that wait for a receiver which does not answer; the oldest are dropped.
const WAITING_MAX: usize = 60;
/// Maximum time of a request.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// A receiver, and what is sent to it.
#[derive(Clone)]
pub struct PushTarget {
    /// Address of the receiver, such as `http://127.0.0.1:9090/api/v1/write`.
    pub url: String,
    /// Bearer token, if the receiver needs one.
    pub token: Option<String>,
    /// Time between two pushes.
    pub interval: Duration,
    /// Labels of each sample.
    pub labels: Vec<(String, String)>,
    /// The clock of the samples.
    pub clock: Clock,
}

impl fmt::Debug for PushTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may have a password, and the token is one.
        formatter
            .debug_struct("PushTarget")
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

/// Pushes metrics while it exists, and once more when it is dropped.
#[derive(Debug)]
pub struct MetricsPush {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsPush {
    /// Pushes what `read` returns. `report` gets the reason when a push fails after one that did not.
    ///
    /// # Errors
    /// The address cannot be used, or there is no thread left.
    pub fn start(
        target: PushTarget,
        read: impl Fn() -> Vec<ProgramMetric> + Send + 'static,
        report: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let url = target.url.parse().ok();
        let url = url.filter(|url: &Url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| {
            let reason =
                "it is an http or https address, such as http://localhost:9090/api/v1/write";
            io::Error::new(io::ErrorKind::InvalidInput, reason)
        })?;
        let client = Client::builder().timeout(REQUEST_TIME).build().map_err(io::Error::other)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let receiver = Receiver { client, url, token: target.token.clone() };
        let (stop, stopped) = channel::<()>();
        let PushTarget { interval, labels, clock, .. } = target;
        let pushing = move || {
            let mut queue = Queue::default();
            let mut is_failing = false;
            loop {
                let ended = stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout);
                let unix_ms = i64::try_from(duration_ms(clock.unix_time())).unwrap_or(i64::MAX);
                queue.add(compressed(&request(&read(), &labels, unix_ms)));
                let pushed = runtime.block_on(queue.deliver(|body| receiver.push(body)));
                if let (Err(reason), false) = (&pushed, is_failing) {
                    report(reason);
                }
                is_failing = pushed.is_err();
                if ended {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("metrics-push".to_owned()).spawn(pushing)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MetricsPush {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported there.
            let _ = thread.join();
        }
    }
}

/// Requests that wait for the receiver, the oldest first: a receiver refuses samples that are older than it has.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Vec<u8>>,
}

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// The receiver has the samples.
    Accepted,
    /// It will never take them; the reason.
    Refused(String),
    /// It may take them later; the reason.
    Later(String),
}

impl Queue {
    fn add(&mut self, body: Vec<u8>) {
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(body);
    }

    /// Sends the requests in their order, until one has to wait.
    async fn deliver(&mut self, push: impl AsyncFn(Vec<u8>) -> Answer) -> Result<(), String> {
        let mut refused = Ok(());
        while let Some(body) = self.waiting.front() {
            match push(body.clone()).await {
                Answer::Accepted => {}
                Answer::Refused(reason) => refused = Err(reason),
                Answer::Later(reason) => return Err(reason),
            }
            self.waiting.pop_front();
        }
        refused
    }
}

/// The receiver.
struct Receiver {
    client: Client,
    url: Url,
    token: Option<String>,
}

impl Receiver {
    async fn push(&self, body: Vec<u8>) -> Answer {
        let request = self.client.post(self.url.clone()).body(body);
        let request = request
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(CONTENT_ENCODING, "snappy")
            .header(USER_AGENT, concat!("namewire/", env!("CARGO_PKG_VERSION")))
            .header("X-Prometheus-Remote-Write-Version", "0.1.0");
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        match request.send().await {
            Ok(response) => answer_of(response.status()),
            Err(error) => Answer::Later(error.without_url().to_string()),
        }
    }
}

/// The specification has requests sent again after status codes 5xx and 429 only.
fn answer_of(status: StatusCode) -> Answer {
    let reason = || format!("the receiver answers with status {status}");
    if status.is_success() {
        Answer::Accepted
    } else if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        Answer::Later(reason())
    } else {
        Answer::Refused(reason())
    }
}

fn compressed(request: &WriteRequest) -> Vec<u8> {
    let encoded = request.encode_to_vec();
    // Only inputs of 4 GiB and more cannot be compressed.
    snap::raw::Encoder::new().compress_vec(&encoded).unwrap_or_default()
}

/// The request with the metrics of a moment.
fn request(metrics: &[ProgramMetric], labels: &[(String, String)], timestamp: i64) -> WriteRequest {
    let series = |metric: &ProgramMetric| {
        let name = metric.sample_name();
        let own = metric.label.iter().map(|(name, value)| Label::new(name, value));
        let mut all: Vec<Label> =
            labels.iter().map(|(name, value)| Label::new(name, value)).chain(own).collect();
        all.push(Label::new("__name__", &name));
        // Receivers need them in this order.
        all.sort_by(|one, other| one.name.cmp(&other.name));
        TimeSeries { labels: all, samples: vec![Sample { value: metric.value, timestamp }] }
    };
    WriteRequest { timeseries: metrics.iter().map(series).collect() }
}

/// `prometheus.WriteRequest` of the specification; the metadata of metrics is not sent.
#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

impl Label {
    fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: value.to_owned() }
    }
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    /// Milliseconds since 1970.
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn samples_have_sorted_labels_and_survive_compression() {
        let metrics = [
            ProgramMetric::counter("t_data", "Data.", 3.0).with("way", "in"),
            ProgramMetric::gauge("t_window", "Window.", 7.5),
        ];
        let labels = [("run".to_owned(), "x".to_owned()), ("host".to_owned(), "h".to_owned())];
        let body = compressed(&request(&metrics, &labels, 1234));
        let plain = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
        let decoded = WriteRequest::decode(plain.as_slice()).unwrap();
        let labels = |at: usize| -> Vec<(&str, &str)> {
            let labels = decoded.timeseries[at].labels.iter();
            labels.map(|label| (label.name.as_str(), label.value.as_str())).collect()
        };
        let expected = [("__name__", "t_data_total"), ("host", "h"), ("run", "x"), ("way", "in")];
        assert_eq!(labels(0), expected);
        assert_eq!(labels(1)[0], ("__name__", "t_window"));
        assert_eq!(decoded.timeseries[1].samples, [Sample { value: 7.5, timestamp: 1234 }]);
    }

    #[test]
    fn requests_wait_in_order_for_a_receiver_that_is_down() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut queue = Queue::default();
        let down = async |_| Answer::Later("down".to_owned());
        for number in 0..=u8::try_from(WAITING_MAX).unwrap() {
            queue.add(vec![number]);
            assert_eq!(runtime.block_on(queue.deliver(&down)), Err("down".to_owned()));
        }
        // The first one had no room any more; a refused one is not sent again.
        let taken = RefCell::new(Vec::new());
        let up = async |body: Vec<u8>| {
            taken.borrow_mut().push(body[0]);
            if body[0] == 2 { Answer::Refused("old".to_owned()) } else { Answer::Accepted }
        };
        assert_eq!(runtime.block_on(queue.deliver(&up)), Err("old".to_owned()));
        assert_eq!(runtime.block_on(queue.deliver(&up)), Ok(()));
        let expected: Vec<u8> = (1..=u8::try_from(WAITING_MAX).unwrap()).collect();
        assert_eq!(taken.into_inner(), expected);
    }

    #[test]
    fn status_decides_whether_samples_are_sent_again() {
        for (status, is_later) in
            [(500, true), (503, true), (429, true), (400, false), (404, false)]
        {
            let answer = answer_of(StatusCode::from_u16(status).unwrap());
            assert_eq!(matches!(answer, Answer::Later(_)), is_later, "{status}");
            assert_ne!(answer, Answer::Accepted);
        }
        assert_eq!(answer_of(StatusCode::NO_CONTENT), Answer::Accepted);
    }

    #[test]
    fn addresses_that_are_not_of_http_are_refused() {
        for url in ["", "ftp://host/x", "no address"] {
            let (token, interval, labels) = (None, Duration::from_secs(1), Vec::new());
            let clock = Clock::from(ndn_sys::clock::ManualClock::new(
                ndn_types::Timestamp::ZERO,
                Duration::ZERO,
            ));
            let target = PushTarget { url: url.to_owned(), token, interval, labels, clock };
            MetricsPush::start(target, Vec::new, |_| {}).unwrap_err();
        }
    }
}
