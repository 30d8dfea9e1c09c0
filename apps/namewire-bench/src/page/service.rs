//! The benchmark page: its HTTP interface, and the benchmark that it runs.
//!
//! | path | method | answer |
//! |---|---|---|
//! | `/` and files of the page | GET | without a token |
//! | `/api/defaults` | GET | inputs by default |
//! | `/api/runs?before=N` | GET | the latest 50 benchmarks before a number, without their trials |
//! | `/api/runs` | POST | starts a benchmark; 409 while one runs |
//! | `/api/runs/N` | GET, DELETE | one benchmark as JSON |
//! | `/api/runs/N.csv`, `.json`, `.svg`, `.html` | GET | exports |
//! | `/api/compare?a=N&b=N` | GET | the second compared with the first |
//! | `/api/stop` | POST | ends the benchmark that runs |
//! | `/api/events` | GET | progress, one JSON object per line |

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use namewire_http::{Site, SiteBody, SiteReply, SiteRequest, page_file};
use serde_json::{Value, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::export::{csv, html, svg};
use super::history::{History, LIST_LEN};
use super::plan::Plan;
use super::record::{Record, State, compared, listed};
use super::remote::Elsewhere;
use super::trial::run_trials;

/// Maximum number of pages that follow a benchmark.
const FOLLOWERS_MAX: usize = 32;
/// Messages that wait for a page; further ones are dropped, and the page is disconnected.
const MESSAGES_MAX: usize = 256;
/// Latest live figures that a page gets when it begins to follow: two minutes.
const LIVE_KEPT: usize = 480;

/// Content types of exports, by ending.
const EXPORTS: [(&str, &str); 4] = [
    ("csv", "text/csv; charset=utf-8"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("html", "text/html; charset=utf-8"),
];
const JSON: &str = "application/json";

const FILES: [(&str, &str, &str); 2] = [
    ("/", "text/html; charset=utf-8", include_str!("../../pages/bench.html")),
    ("/bench.js", "text/javascript; charset=utf-8", include_str!("../../pages/bench.js")),
];
/// Files that the page shares with the status pages of the forwarder.
const SHARED_FILES: [&str; 5] =
    ["/style.css", "/parts.js", "/chart.js", "/api.js", "/benchmarks.js"];

/// The page and its benchmarks.
pub(crate) struct BenchSite {
    /// Required for everything but the files.
    token: String,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for BenchSite {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BenchSite").finish_non_exhaustive()
    }
}

struct Shared {
    history: Mutex<History>,
    /// The nodes on other hosts.
    elsewhere: Elsewhere,
    active: Mutex<Active>,
}

/// The benchmark that runs, and the pages that follow it.
#[derive(Default)]
struct Active {
    run: Option<Run>,
    followers: Vec<Sender<Vec<u8>>>,
    /// Messages of the current trial.
    live: VecDeque<Vec<u8>>,
}

struct Run {
    id: i64,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BenchSite {
    /// A page for this history, for those with the token.
    #[must_use]
    pub(crate) fn new(history: History, elsewhere: Elsewhere, token: String) -> Self {
        let shared = Shared { history: Mutex::new(history), elsewhere, active: Mutex::default() };
        Self { token, shared: Arc::new(shared) }
    }

    fn answer_api(&self, request: &SiteRequest) -> Result<SiteReply, SiteReply> {
        let part = request.path.strip_prefix("/api/").unwrap_or_default();
        match (request.method.as_str(), part) {
            ("GET", "defaults") => Ok(as_json(200, &json!(Plan::default()))),
            ("GET", "runs") => self.list(&request.query),
            ("POST", "runs") => self.start(&request.body),
            ("POST", "stop") => Ok(self.stop()),
            ("GET", "compare") => self.compare(&request.query),
            ("GET", "events") => self.follow(),
            (method, part) if part.starts_with("runs/") => {
                let part = part.trim_start_matches("runs/");
                let (number, ending) = part.split_once('.').unwrap_or((part, ""));
                let id = number.parse().map_err(|_| not_found())?;
                match (method, ending) {
                    ("DELETE", "") => self.remove(id),
                    ("GET", ending) => self.export(id, ending),
                    _ => Err(wrong_method()),
                }
            }
            (_, "defaults" | "runs" | "stop" | "compare" | "events") => Err(wrong_method()),
            _ => Err(not_found()),
        }
    }

    fn list(&self, query: &str) -> Result<SiteReply, SiteReply> {
        let before = match parameter(query, "before") {
            None => i64::MAX,
            Some(number) => number.parse().map_err(|_| bad("before: a number"))?,
        };
        let records = lock(&self.shared.history).list(before, LIST_LEN).map_err(failed)?;
        let running = lock(&self.shared.active).run.as_ref().map(|run| run.id);
        Ok(as_json(200, &json!({ "runs": listed(&records), "running": running })))
    }

    fn find(&self, id: i64) -> Result<Record, SiteReply> {
        let found = lock(&self.shared.history).find(id).map_err(failed)?;
        found.ok_or_else(not_found)
    }

    fn export(&self, id: i64, ending: &str) -> Result<SiteReply, SiteReply> {
        let record = self.find(id)?;
        if ending.is_empty() {
            return Ok(as_json(200, &record.to_json()));
        }
        let (_, kind) =
            EXPORTS.into_iter().find(|(own, _)| *own == ending).ok_or_else(not_found)?;
        let body = match ending {
            "csv" => csv(&record),
            "svg" => svg(&record),
            "html" => html(&record),
            _ => format!("{:#}\n", record.to_json()),
        };
        Ok(SiteReply::new(200, kind, body))
    }

    fn remove(&self, id: i64) -> Result<SiteReply, SiteReply> {
        if lock(&self.shared.active).run.as_ref().is_some_and(|run| run.id == id) {
            return Err(SiteReply::text(409, "this benchmark is running"));
        }
        match lock(&self.shared.history).remove(id).map_err(failed)? {
            true => Ok(as_json(200, &json!({}))),
            false => Err(not_found()),
        }
    }

    fn compare(&self, query: &str) -> Result<SiteReply, SiteReply> {
        let number = |name| {
            let text = parameter(query, name).ok_or_else(|| bad("give the parameters a and b"))?;
            text.parse().map_err(|_| bad("a and b are numbers of benchmarks"))
        };
        let (one, other) = (self.find(number("a")?)?, self.find(number("b")?)?);
        let compared = compared(&one, &other).ok_or_else(|| bad("a benchmark has no trials"))?;
        Ok(as_json(200, &compared))
    }

    fn start(&self, body: &[u8]) -> Result<SiteReply, SiteReply> {
        let plan: Plan = serde_json::from_slice(body).map_err(|error| bad(&error.to_string()))?;
        plan.check().map_err(|reason| bad(&reason))?;
        let elsewhere = &self.shared.elsewhere;
        elsewhere.check(&plan).map_err(|reason| bad(&reason))?;
        let mut active = lock(&self.shared.active);
        if active.run.is_some() {
            return Err(SiteReply::text(409, "a benchmark is running"));
        }
        let mut record = Record::new(plan, elsewhere, super::unix_ms());
        lock(&self.shared.history).add(&mut record).map_err(failed)?;
        let (id, stop) = (record.id, Arc::new(AtomicBool::new(false)));
        let (shared, stopped) = (Arc::clone(&self.shared), Arc::clone(&stop));
        let running = std::thread::Builder::new().name("benchmark".to_owned());
        let thread = running.spawn(move || shared.run(record, &stopped));
        active.live.clear();
        active.run = Some(Run { id, stop, thread: Some(thread.map_err(|e| failed(e.into()))?) });
        Ok(as_json(202, &json!({ "id": id })))
    }

    fn stop(&self) -> SiteReply {
        if let Some(run) = &lock(&self.shared.active).run {
            run.stop.store(true, Ordering::Relaxed);
        }
        as_json(200, &json!({}))
    }

    fn follow(&self) -> Result<SiteReply, SiteReply> {
        let mut active = lock(&self.shared.active);
        active.followers.retain(|follower| !follower.is_closed());
        if active.followers.len() >= FOLLOWERS_MAX {
            return Err(SiteReply::text(503, "too many pages follow"));
        }
        let (sender, receiver): (_, Receiver<Vec<u8>>) = channel(MESSAGES_MAX + LIVE_KEPT);
        let running = active.run.as_ref().map(|run| run.id);
        // There is room for all of them.
        let _ = sender.try_send(line(&json!({ "event": "hello", "running": running })));
        for message in &active.live {
            let _ = sender.try_send(message.clone());
        }
        active.followers.push(sender);
        let body = SiteBody::Pieces(receiver);
        Ok(SiteReply { status: 200, kind: "application/x-ndjson", body })
    }
}

impl Shared {
    /// Runs a benchmark to its end.
    fn run(&self, mut record: Record, stop: &AtomicBool) {
        self.publish(&json!({ "event": "started", "run": record.id }), false);
        let plan = record.plan;
        let ended = run_trials(&plan, &self.elsewhere, stop, &mut |progress| {
            if record.note(&progress) {
                self.store(&record);
            }
            self.publish(&record.message(&progress), true);
        });
        record.state = match &ended {
            Ok(_) => State::Done,
            Err(_) if stop.load(Ordering::Relaxed) => State::Stopped,
            Err(_) => State::Failed,
        };
        if record.state == State::Failed {
            record.reason = ended.err().map(|error| format!("{error:#}"));
        }
        self.store(&record);
        lock(&self.active).run = None;
        self.publish(
            &json!({ "event": "finished", "run": record.id, "state": record.state, "reason": record.reason }),
            false,
        );
    }

    fn store(&self, record: &Record) {
        if let Err(error) = lock(&self.history).update(record) {
            namewire::cli::output::note(&format_args!("namewire-bench: the history: {error:#}"));
        }
    }

    /// Sends a message to all pages; those that do not take it in time are disconnected.
    fn publish(&self, message: &Value, is_kept: bool) {
        let mut active = lock(&self.active);
        let message = line(message);
        if is_kept {
            active.live.push_back(message.clone());
            while active.live.len() > LIVE_KEPT {
                active.live.pop_front();
            }
        }
        active.followers.retain(|follower| {
            !matches!(
                follower.try_send(message.clone()),
                Err(TrySendError::Closed(_) | TrySendError::Full(_))
            )
        });
    }
}

impl Drop for BenchSite {
    fn drop(&mut self) {
        let run = lock(&self.shared.active).run.take();
        if let Some(Run { stop, thread: Some(thread), .. }) = run {
            stop.store(true, Ordering::Relaxed);
            // A panic of that thread has been reported there.
            let _ = thread.join();
        }
    }
}

impl Site for BenchSite {
    fn answer(&self, request: SiteRequest) -> SiteReply {
        let is_reading = request.method == "GET" || request.method == "HEAD";
        if !request.path.starts_with("/api/") {
            let own = FILES.into_iter().find(|(path, ..)| *path == request.path);
            let own = own.map(|(_, kind, content)| (kind, content));
            let shared = SHARED_FILES.contains(&request.path.as_str());
            let found = own.or_else(|| page_file(&request.path).filter(|_| shared));
            return match found {
                Some((kind, content)) if is_reading => SiteReply::new(200, kind, content),
                Some(_) => wrong_method(),
                None => not_found(),
            };
        }
        let is_known = request.token.as_ref().is_some_and(|token| is_same(token, &self.token));
        if !is_known {
            return SiteReply::text(401, "the token is missing or wrong");
        }
        self.answer_api(&request).unwrap_or_else(|refused| refused)
    }
}

/// Compares in a time that depends on the lengths only.
fn is_same(one: &str, other: &str) -> bool {
    let different = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && different == 0
}

/// The value of a parameter of a query.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

fn as_json(status: u16, value: &Value) -> SiteReply {
    SiteReply::new(status, JSON, value.to_string())
}

fn bad(reason: &str) -> SiteReply {
    SiteReply::text(400, reason)
}

fn not_found() -> SiteReply {
    SiteReply::text(404, "there is nothing at this path")
}

fn wrong_method() -> SiteReply {
    SiteReply::text(405, "the method is not allowed here")
}

#[expect(clippy::needless_pass_by_value, reason = "the argument of map_err")]
fn failed(error: anyhow::Error) -> SiteReply {
    SiteReply::text(500, &format!("the history: {error:#}"))
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    fn request(method: &str, target: &str, body: &str) -> SiteRequest {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        SiteRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            token: Some("secret".to_owned()),
            accept: String::new(),
            body: body.as_bytes().to_vec(),
        }
    }

    fn body(reply: SiteReply) -> String {
        match reply.body {
            SiteBody::Whole(body) => String::from_utf8(body).unwrap(),
            SiteBody::Pieces(_) => panic!("pieces"),
        }
    }

    fn site(name: &str) -> (crate::started::Folder, BenchSite) {
        let name = format!("bench-site-{name}-{}", std::process::id());
        let folder = crate::started::Folder::new(&name).unwrap();
        let history = History::open(&folder.path().join("bench.sqlite")).unwrap();
        for rates in [&[1000.0, 1100.0, 1200.0][..], &[2000.0, 2100.0, 2200.0], &[]] {
            history.add(&mut record(rates)).unwrap();
        }
        (folder, BenchSite::new(history, Elsewhere::default(), "secret".to_owned()))
    }

    #[test]
    fn everything_but_files_needs_the_token() {
        let (_folder, site) = site("token");
        for token in [None, Some("secre"), Some("secret2"), Some("Secret")] {
            let token = token.map(str::to_owned);
            let asked =
                |path: &str| SiteRequest { token: token.clone(), ..request("GET", path, "") };
            assert_eq!(site.answer(asked("/api/runs")).status, 401);
            assert_eq!(site.answer(asked("/api/events")).status, 401);
            assert_eq!(site.answer(asked("/")).status, 200);
        }
        for path in SHARED_FILES {
            assert_eq!(site.answer(request("GET", path, "")).status, 200, "{path}");
        }
        assert_eq!(site.answer(request("GET", "/app.js", "")).status, 404);
    }

    #[test]
    fn benchmarks_are_listed_exported_compared_and_removed() {
        let (_folder, site) = site("list");
        let get = |target: &str| site.answer(request("GET", target, ""));
        let listed: Value = serde_json::from_str(&body(get("/api/runs"))).unwrap();
        assert_eq!(listed["runs"].as_array().unwrap().len(), 3);
        assert_eq!(listed["runs"][1]["summary"]["data_per_s"]["mean"], 2100.0);
        let older: Value = serde_json::from_str(&body(get("/api/runs?before=2"))).unwrap();
        assert_eq!(older["runs"].as_array().unwrap().len(), 1);
        for (ending, kind) in EXPORTS {
            let reply = get(&format!("/api/runs/1.{ending}"));
            assert_eq!((reply.status, reply.kind), (200, kind));
        }
        let compared: Value = serde_json::from_str(&body(get("/api/compare?a=1&b=2"))).unwrap();
        assert_eq!(compared["comparison"]["data_per_s"]["difference"], 1000.0);
        for (method, target, status) in [
            ("GET", "/api/compare?a=1&b=3", 400),
            ("GET", "/api/compare?a=1", 400),
            ("GET", "/api/compare?a=1&b=9", 404),
            ("GET", "/api/runs/1.exe", 404),
            ("GET", "/api/runs/x", 404),
            ("GET", "/api/nothing", 404),
            ("PUT", "/api/runs", 405),
            ("POST", "/api/runs/1", 405),
            ("POST", "/", 405),
            ("DELETE", "/api/runs/1", 200),
            ("DELETE", "/api/runs/1", 404),
            ("GET", "/api/runs/1", 404),
        ] {
            assert_eq!(
                site.answer(request(method, target, "")).status,
                status,
                "{method} {target}"
            );
        }
    }

    #[test]
    fn unusable_plans_are_refused_with_the_reason() {
        let (_folder, site) = site("plan");
        for (plan, reason) in [
            ("{", "EOF"),
            ("{\"worker\": 1}", "unknown field `worker`"),
            ("{\"trials\": 0}", "trials: 0 is not from 1 to 100"),
            ("{\"workers\": -1}", "invalid value"),
            ("{\"transport\": \"avian\"}", "unknown variant"),
        ] {
            let reply = site.answer(request("POST", "/api/runs", plan));
            assert_eq!(reply.status, 400, "{plan}");
            let text = body(reply);
            assert!(text.contains(reason), "{plan}: {text}");
        }
    }

    #[test]
    fn pages_that_do_not_read_are_disconnected() {
        let (_folder, site) = site("slow");
        let SiteBody::Pieces(mut pieces) = site.answer(request("GET", "/api/events", "")).body
        else {
            panic!("no pieces");
        };
        for number in 0..MESSAGES_MAX + LIVE_KEPT {
            site.shared.publish(&json!(number), true);
        }
        assert!(lock(&site.shared.active).followers.is_empty());
        assert_eq!(lock(&site.shared.active).live.len(), LIVE_KEPT);
        let mut count = 0;
        while pieces.blocking_recv().is_some() {
            count += 1;
        }
        assert_eq!(count, MESSAGES_MAX + LIVE_KEPT);
        // Their number is limited.
        let replies: Vec<_> =
            (0..=FOLLOWERS_MAX).map(|_| site.answer(request("GET", "/api/events", ""))).collect();
        assert_eq!(replies.iter().filter(|reply| reply.status == 503).count(), 1);
    }
}
