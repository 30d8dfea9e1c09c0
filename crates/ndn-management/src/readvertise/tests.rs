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
        Self { readvertise: Readvertise::new(ReadvertiseOptions::nlsr(), Reserves::default()), now }
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
    scene.readvertise.set_advertised(scene.now, &name("/a"), true, Registrant::default());
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
    scene.readvertise.set_advertised(scene.now, &name("/a"), false, Registrant::default());
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
    scene.readvertise.set_advertised(scene.now, &name("/a"), true, Registrant::default());
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
        scene.readvertise.set_advertised(scene.now, &prefix, true, Registrant::default());
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
    let gone = name("/gone");
    let by_gone = Registrant { identity: Some(&gone), owner: None };
    scene.readvertise.set_available(scene.now, true);
    scene.readvertise.set_advertised(scene.now, &name("/a"), true, by_gone);
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
        scene.readvertise.set_advertised(scene.now, &prefix, true, Registrant::default());
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
        scene.readvertise.set_advertised(scene.now, &name(uri), true, Registrant::default());
    }
    let sent = scene.sent();
    assert_eq!(sent.len(), 2);
    assert!(scene.answer(&sent[1].1, 200));
    assert!(scene.answer(&sent[0].1, 403), "that was signed earlier");
    let again = scene.sent();
    assert_eq!((again.len(), again[0].0.as_str()), (1, "register /a"));
    scene.readvertise.set_advertised(scene.now, &name("/c"), true, Registrant::default());
    let third = scene.sent();
    assert!(scene.answer(&third[0].1, 200));
    assert!(scene.answer(&again[0].1, 403));
    assert!(scene.sent().is_empty(), "it is refused for another reason");
    let at = scene.readvertise.next_deadline().unwrap();
    assert_eq!(at - scene.now.monotonic, 50 * SECOND);
}

fn user(uid: u32) -> PrincipalKey {
    PrincipalKey::LocalApplication { uid, pid: 0 }
}

impl Scene {
    fn set(&mut self, uid: u32, number: usize, is_advertised: bool) {
        let by = Registrant { identity: None, owner: Some(user(uid)) };
        let prefix = name(&format!("/{uid}/{number}"));
        self.readvertise.set_advertised(self.now, &prefix, is_advertised, by);
    }
}

#[test]
fn prefix_that_the_receiver_cannot_know_is_forgotten() {
    let mut scene = Scene::new();
    scene.readvertise.set_available(scene.now, true);
    for number in 0..1000 {
        scene.set(1, number, true);
    }
    let sent = scene.sent().len();
    (0..1000).for_each(|number| scene.set(1, number, false));
    assert_eq!(scene.readvertise.entries.len(), sent);
    // A daemon that comes again knows nothing.
    scene.set(1, 0, true);
    scene.readvertise.set_available(scene.now, false);
    scene.readvertise.set_available(scene.now, true);
    scene.set(1, 0, false);
    assert!(scene.readvertise.entries.is_empty());
    assert!(scene.readvertise.withdrawals.report().is_zero());
}

#[test]
fn withdrawals_that_nobody_confirms_are_charged_and_the_oldest_give_way() {
    let mut scene = Scene::new();
    scene.readvertise.set_available(scene.now, true);
    let known = |scene: &mut Scene, uid, number| {
        scene.set(uid, number, true);
        let prefix = name(&format!("/{uid}/{number}"));
        scene.readvertise.update(&prefix, |entry| entry.was_sent = true);
        scene.set(uid, number, false);
    };
    known(&mut scene, 2, 0);
    // Half of what is open to a user beside others.
    for number in 0..9000 {
        known(&mut scene, 1, number);
    }
    let count = scene.readvertise.entries.len();
    assert!(count < WITHDRAWALS_MAX / 2, "{count}");
    assert!(scene.readvertise.entries.contains_key(&name("/2/0")), "it is another one's");
    assert!(scene.readvertise.entries.contains_key(&name("/1/8999")));
    assert!(!scene.readvertise.entries.contains_key(&name("/1/0")));
    scene.readvertise.set_available(scene.now, false);
    assert!(scene.readvertise.entries.is_empty());
    assert!(scene.readvertise.withdrawals.report().is_zero());
}

#[test]
fn prefix_with_a_route_of_another_owner_is_charged_to_that_one() {
    let mut scene = Scene::new();
    scene.readvertise.set_available(scene.now, true);
    let mut set = |uid| {
        let by = Registrant { identity: None, owner: Some(user(uid)) };
        scene.readvertise.set_advertised(scene.now, &name("/a"), true, by);
    };
    set(1);
    set(2);
    let (_, command) = scene.sent().pop().unwrap();
    assert_eq!(scene.readvertise.unanswered_of, BTreeMap::from([(Some(user(2)), 1)]));
    scene.answer(&command, 200);
    scene.readvertise.set_advertised(scene.now, &name("/a"), false, Registrant::default());
    let report = scene.readvertise.report();
    let held = report.principals.iter().filter(|one| one.held != [0]);
    assert_eq!(held.map(|one| one.key).collect::<Vec<_>>(), [user(2)]);
}

#[test]
fn owners_take_turns_and_leave_room_to_others() {
    let mut scene = Scene::new();
    scene.readvertise.set_available(scene.now, true);
    for number in 0..1000 {
        scene.set(1, number, true);
    }
    let of_first = scene.sent();
    assert_eq!(of_first.len(), UNANSWERED_MAX / 2, "nobody answers");
    scene.set(2, 0, true);
    scene.set(2, 1, true);
    let of_second = scene.sent();
    assert!(of_second.iter().all(|(what, _)| what.starts_with("register /2/")));
    assert_eq!(of_second.len(), 2);
    // The next place is that of the one with fewer commands.
    scene.set(2, 2, true);
    for (_, command) in of_first.iter().take(3) {
        scene.answer(command, 200);
    }
    assert_eq!(scene.sent()[0].0, "register /2/2");
}
