//! Which prefixes are readvertised, when, and how often.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::testing::name;

const SECOND: Duration = Duration::from_secs(1);
const UNANSWERED_MAX: usize = 64;

struct Scene {
    readvertise: Readvertise,
    now: Now,
}

impl Scene {
    fn new() -> Self {
        let monotonic = Timestamp::from_nanos(1 << 40);
        let now = Now { monotonic, unix: Duration::from_secs(1_700_000_000) };
        Self { readvertise: Readvertise::new(ReadvertiseOptions::nlsr()), now }
    }

    fn wait(&mut self, seconds: u64) {
        self.now.monotonic += Duration::from_secs(seconds);
        self.now.unix += Duration::from_secs(seconds);
    }

    /// The commands that are due: verb and prefix, and the name to answer.
    fn sent(&mut self) -> Vec<(String, Name)> {
        std::iter::from_fn(|| self.readvertise.poll(self.now, &mut DigestCommandSigner))
            .map(|wire| {
                let interest = Interest::parse(&wire).unwrap();
                let verb = interest.name().component(3).unwrap().to_string();
                let parameters = interest.name().component(4).unwrap().value();
                let prefix = ControlParameters::decode(parameters).unwrap().name.unwrap();
                (format!("{verb} {prefix}"), interest.name().to_name())
            })
            .collect()
    }

    fn answer(&mut self, name: &Name, code: u32) -> bool {
        let content = ControlResponse::new(code, "").to_vec();
        self.readvertise.handle_data(self.now, name.as_ref(), &content)
    }
}

#[test]
fn prefix_is_registered_refreshed_and_withdrawn() {
    let mut scene = Scene::new();
    scene.readvertise.set_advertised(scene.now, &name("/a"), true, None);
    assert!(scene.sent().is_empty(), "nobody listens");
    assert_eq!(scene.readvertise.next_deadline(), None);
    scene.readvertise.set_available(scene.now, true);
    let sent = scene.sent();
    assert_eq!(sent[0].0, "register /a");
    assert!(scene.answer(&sent[0].1, 200));
    scene.wait(3599);
    assert!(scene.sent().is_empty());
    scene.wait(1);
    let again = scene.sent();
    assert_eq!(again[0].0, "register /a");
    scene.readvertise.set_advertised(scene.now, &name("/a"), false, None);
    assert!(!scene.answer(&again[0].1, 200), "that counts no more");
    let withdrawn = scene.sent();
    assert_eq!(withdrawn[0].0, "unregister /a");
    scene.answer(&withdrawn[0].1, 200);
    scene.wait(100_000);
    assert!(scene.sent().is_empty());
    let Readvertise { entries, due, waiting, unanswered, .. } = &scene.readvertise;
    assert!(entries.is_empty() && due.is_empty() && waiting.is_empty() && unanswered.is_empty());
}

#[test]
fn unanswered_or_refused_command_is_retried_with_backoff() {
    let mut scene = Scene::new();
    scene.readvertise.set_available(scene.now, true);
    scene.readvertise.set_advertised(scene.now, &name("/a"), true, None);
    let (mut waits, mut waited) = (Vec::new(), 0);
    while waits.len() < 10 {
        if let Some((_, command)) = scene.sent().pop() {
            waits.push(waited);
            waited = 0;
            if waits.len() == 4 {
                // There is no need to wait for what has come.
                assert!(scene.answer(&command, 403));
            }
        }
        let at = scene.readvertise.next_deadline().unwrap();
        let wait = (at - scene.now.monotonic).as_secs();
        assert!(wait > 0);
        waited += wait;
        scene.wait(wait);
    }
    assert_eq!(waits, [0, 60, 110, 210, 400, 810, 1610, 3210, 3610, 3610]);
    assert!(scene.readvertise.unanswered.len() <= 1);
}

#[test]
fn unanswered_commands_are_limited() {
    let mut scene = Scene::new();
    scene.readvertise.set_available(scene.now, true);
    for n in 0..200 {
        let mut prefix = name("/p");
        prefix.push_segment(n);
        scene.readvertise.set_advertised(scene.now, &prefix, true, None);
    }
    let mut reported = BTreeSet::new();
    for _ in 0..50 {
        let sent = scene.sent();
        assert!(sent.len() <= UNANSWERED_MAX);
        assert!(scene.readvertise.unanswered.len() <= UNANSWERED_MAX);
        reported.extend(sent.into_iter().map(|(what, _)| what));
        let at = scene.readvertise.next_deadline().unwrap();
        assert!(at > scene.now.monotonic, "it would spin");
        scene.wait((at - scene.now.monotonic).as_secs() + 1);
    }
    assert_eq!(reported.len(), 200, "everybody has his turn");
}

#[test]
fn failure_to_sign_is_retried() {
    let mut scene = Scene::new();
    scene.readvertise.set_available(scene.now, true);
    scene.readvertise.set_advertised(scene.now, &name("/a"), true, Some(&name("/gone")));
    assert!(scene.sent().is_empty());
    let at = scene.readvertise.next_deadline().unwrap();
    assert_eq!(at - scene.now.monotonic, 50 * SECOND);
}

#[test]
fn returning_daemon_gets_all_prefixes() {
    let mut scene = Scene::new();
    scene.readvertise.set_available(scene.now, true);
    for n in 0..200 {
        let mut prefix = name("/p");
        prefix.push_segment(n);
        scene.readvertise.set_advertised(scene.now, &prefix, true, None);
    }
    let mut reported = 0;
    loop {
        let sent = scene.sent();
        if sent.is_empty() {
            break;
        }
        assert!(sent.len() <= UNANSWERED_MAX);
        reported += sent.len();
        for (_, name) in sent {
            scene.answer(&name, 200);
        }
    }
    assert_eq!(reported, 200);
    scene.readvertise.set_available(scene.now, false);
    scene.wait(10);
    assert!(scene.sent().is_empty());
    scene.readvertise.set_available(scene.now, true);
    assert_eq!(scene.sent().len(), UNANSWERED_MAX);
}

#[test]
fn overtaken_command_is_repeated_once() {
    let mut scene = Scene::new();
    scene.readvertise.set_available(scene.now, true);
    for uri in ["/a", "/b"] {
        scene.readvertise.set_advertised(scene.now, &name(uri), true, None);
    }
    let sent = scene.sent();
    assert_eq!(sent.len(), 2);
    assert!(scene.answer(&sent[1].1, 200));
    assert!(scene.answer(&sent[0].1, 403), "that was signed earlier");
    let again = scene.sent();
    assert_eq!((again.len(), again[0].0.as_str()), (1, "register /a"));
    scene.readvertise.set_advertised(scene.now, &name("/c"), true, None);
    let third = scene.sent();
    assert!(scene.answer(&third[0].1, 200));
    assert!(scene.answer(&again[0].1, 403));
    assert!(scene.sent().is_empty(), "it is refused for another reason");
    let at = scene.readvertise.next_deadline().unwrap();
    assert_eq!(at - scene.now.monotonic, 50 * SECOND);
}
