#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use ndn_packet::InterestBuilder;

use super::*;
use crate::testing::name;

const fn at(milliseconds: u64) -> Now {
    Now { monotonic: Timestamp::from_millis(milliseconds), unix: Duration::ZERO }
}

fn find(
    stream: &mut NotificationStream,
    now: Now,
    uri: &str,
    can_be_prefix: bool,
    must_be_fresh: bool,
) -> Option<Vec<u8>> {
    let name = name(uri);
    let builder =
        InterestBuilder::new(&name).can_be_prefix(can_be_prefix).must_be_fresh(must_be_fresh);
    let wire = builder.to_vec().unwrap();
    Some(stream.find(now, &Interest::parse(&wire).unwrap())?.content.clone())
}

#[test]
fn sequence_numbers_increase_and_the_latest_events_are_kept() {
    let mut stream = NotificationStream::new(name("/events"), 3);
    assert_eq!(find(&mut stream, at(0), "/events", true, false), None);
    for number in 0..5_u8 {
        assert_eq!(find(&mut stream, at(0), &format!("/events/seq={number}"), false, false), None);
        let posted = stream.post(at(0), vec![number]).unwrap();
        assert_eq!(posted.name, name(&format!("/events/seq={number}")));
    }
    for (number, kept) in
        [(0, false), (1, false), (2, true), (3, true), (4, true), (5, false), (9, false)]
    {
        let found = find(&mut stream, at(0), &format!("/events/seq={number}"), false, false);
        assert_eq!(found, kept.then(|| vec![number]), "{number}");
    }
}

#[test]
fn prefix_is_answered_with_the_latest_event_while_fresh() {
    let mut stream = NotificationStream::new(name("/events"), 3);
    let _ = stream.post(at(0), vec![0]);
    let _ = stream.post(at(100), vec![1]);
    assert_eq!(find(&mut stream, at(1099), "/events", true, true), Some(vec![1]));
    assert_eq!(find(&mut stream, at(1100), "/events", true, true), None);
    assert_eq!(find(&mut stream, at(9999), "/events", true, false), Some(vec![1]));
    assert_eq!(find(&mut stream, at(100), "/events", false, false), None);
    for other in ["/other", "/events/v=1", "/events/seq=1/x", "/eventsx", "/event"] {
        assert_eq!(find(&mut stream, at(100), other, true, false), None, "{other}");
    }
}

#[test]
fn event_is_returned_for_sending_only_if_an_interest_for_it_was_here_before() {
    let mut stream = NotificationStream::new(name("/events"), 3);
    let mut is_sent = |uri: Option<(&str, bool)>, time: u64| {
        if let Some((uri, must_be_fresh)) = uri {
            assert_eq!(find(&mut stream, at(time), uri, true, must_be_fresh), None, "{uri}");
        }
        stream.post(at(time), vec![0]).is_some()
    };
    // Events 0 to 7.
    assert!(!is_sent(None, 0));
    assert!(is_sent(Some(("/events/seq=1", false)), 0));
    assert!(!is_sent(None, 0), "the Interest was for the event before");
    assert!(is_sent(Some(("/events", true)), 5000), "no fresh event answered it");
    assert!(!is_sent(Some(("/events/v=4", false)), 5000), "not a name of the stream");
    assert!(is_sent(Some(("/events/seq=6", false)), 5000), "there is an Interest for a later one");
    assert!(is_sent(None, 5000));
    assert!(!is_sent(None, 5000));
    assert_eq!(find(&mut stream, at(5000), "/events/seq=7", false, false), Some(vec![0]));
}
