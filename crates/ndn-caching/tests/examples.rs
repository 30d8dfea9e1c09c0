//! Sequences whose evictions are computed by hand from the papers.

use ndn_caching::cache::{Cache, CacheOutcome};
use ndn_caching::{Capacity, Class, Object, PolicyKind};

/// Requests `keys` and returns the evicted keys in order.
fn evictions(cache: &mut Cache, keys: &[u64]) -> Vec<u64> {
    let mut evicted = Vec::new();
    for &key in keys {
        cache.request(Object::unit(key), |object| evicted.push(object.key));
    }
    evicted
}

fn cache(kind: PolicyKind, entries: u32) -> Cache {
    Cache::new(kind, Capacity::entries(entries))
}

#[test]
fn lru_evicts_the_least_recently_used() {
    let mut cache = cache(PolicyKind::Lru, 3);
    assert_eq!(evictions(&mut cache, &[1, 2, 3, 1, 4, 5]), [2, 3]);
}

#[test]
fn priority_fifo_evicts_unsolicited_then_stale_then_fresh() {
    let mut cache = cache(PolicyKind::PriorityFifo, 3);
    for (key, class) in [(1, Class::Fresh), (2, Class::Unsolicited), (3, Class::Fresh)] {
        cache.request(Object { key, weight: 1, class }, |_| ());
    }
    cache.reclassify(3, Class::Stale);
    // The hit of 1 does not matter.
    assert_eq!(evictions(&mut cache, &[1, 4, 5, 6]), [2, 3, 1]);
}

#[test]
fn priority_fifo_keeps_stale_unsolicited_data_in_its_queue() {
    let mut cache = cache(PolicyKind::PriorityFifo, 2);
    for (key, class) in [(1, Class::Stale), (2, Class::Unsolicited)] {
        cache.request(Object { key, weight: 1, class }, |_| ());
    }
    cache.reclassify(2, Class::Stale);
    assert_eq!(evictions(&mut cache, &[3, 4]), [2, 1]);
}

#[test]
fn lfu_evicts_the_least_frequently_used() {
    let mut cache = cache(PolicyKind::Lfu, 3);
    assert_eq!(evictions(&mut cache, &[1, 1, 2, 2, 3, 4, 5]), [3, 4]);
}

#[test]
fn lfu_forgets_old_requests() {
    let mut cache = cache(PolicyKind::Lfu, 2);
    // Alone, the count of 1 is halved at 11: at requests 11, 16, 21 and 26. It is 10 after 30.
    // With eleven requests for 2 the sum is 21, more than twice 10: the counts become 5 and 6.
    let requests = [vec![1; 30], vec![2; 11], vec![3]].concat();
    assert_eq!(evictions(&mut cache, &requests), [1]);
}

#[test]
fn windowed_lfu_stores_only_what_is_requested_as_often() {
    let mut cache = cache(PolicyKind::WindowedLfu, 2);
    assert_eq!(evictions(&mut cache, &[1, 1, 2, 2]), [0; 0]);
    assert_eq!(cache.request(Object::unit(3), |_| ()), CacheOutcome::Refused);
    assert_eq!(evictions(&mut cache, &[3]), [1]);
}

#[test]
fn windowed_lfu_forgets_requests_outside_the_window() {
    let mut cache = cache(PolicyKind::WindowedLfu, 2);
    // The window has 2 × 8 requests: after 16 others, none for 1 is left.
    let requests = [vec![1; 8], vec![2; 16], vec![3]].concat();
    assert_eq!(evictions(&mut cache, &requests), [1]);
}

#[test]
fn w_tiny_lfu_stores_what_is_requested_more_often_than_its_victim() {
    let mut cache = cache(PolicyKind::WTinyLfu, 3);
    // The window has one place. 3 leaves it with as many requests as 1 has: 3 is evicted.
    assert_eq!(evictions(&mut cache, &[1, 2, 3, 4]), [3]);
    // 4 leaves it with two requests.
    assert_eq!(evictions(&mut cache, &[4, 5]), [1]);
}

/// Objects of half of the capacity, which are heavier than the window of 1.
#[test]
fn w_tiny_lfu_compares_what_is_heavier_than_its_window() {
    let mut cache = Cache::new(PolicyKind::WTinyLfu, Capacity { weight: 9, entries: 9 });
    let mut request = |key: u64| {
        let mut evicted = Vec::new();
        let outcome = cache.request(Object::sized(key, 4), |object| evicted.push(object.key));
        (outcome, evicted)
    };
    for key in [1, 2] {
        assert_eq!(request(key), (CacheOutcome::Stored, vec![]));
    }
    assert_eq!(request(3), (CacheOutcome::Refused, vec![]), "as many requests as 1 has");
    assert_eq!(request(3), (CacheOutcome::Stored, vec![1]));
    // 2 is the next victim, with one request.
    assert_eq!(request(1), (CacheOutcome::Stored, vec![2]));
}

#[test]
fn s3_fifo_keeps_what_is_requested_twice_in_the_small_queue() {
    let mut cache = cache(PolicyKind::S3Fifo, 10);
    assert_eq!(evictions(&mut cache, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2, 2, 11]), [1]);
    // 2 moves to the main queue.
    assert_eq!(evictions(&mut cache, &[12]), [3]);
    // The ghost of 1 lets it enter the main queue: the small queue has 4 to 12, and goes first.
    assert_eq!(
        evictions(&mut cache, &[1, 13, 14, 15, 16, 17, 18, 19, 20]),
        [4, 5, 6, 7, 8, 9, 10, 11, 12]
    );
    assert!(cache.contains(1) && cache.contains(2));
}

#[test]
fn sieve_evicts_at_the_hand_what_was_not_requested() {
    let mut cache = cache(PolicyKind::Sieve, 3);
    // The hand clears 1 and evicts 2; it stays at 3.
    assert_eq!(evictions(&mut cache, &[1, 2, 3, 1, 4]), [2]);
    // 3 is requested: cleared; 4 is evicted. Then the hand reaches the end and starts over at 1.
    assert_eq!(evictions(&mut cache, &[3, 5, 5, 6]), [4, 1]);
}

#[test]
fn arc_adapts_to_hits_of_ghosts() {
    let mut cache = cache(PolicyKind::Arc, 2);
    // 1 leaves no ghost (L1 is full of T1). 2 becomes frequent; 4 replaces 3, which leaves a ghost.
    // 3 returns: the target of T1 is 1, so 2 leaves T2.
    assert_eq!(evictions(&mut cache, &[1, 2, 3, 2, 4, 3]), [1, 3, 2]);
}

#[test]
fn gdsf_prefers_small_objects() {
    let mut cache = Cache::new(PolicyKind::Gdsf, Capacity { weight: 10, entries: 10 });
    let mut evicted = Vec::new();
    // Priorities 1/4, 1/5; 2 leaves and the clock is 0.2; 3 has 0.2 + 1/3. Then 1 leaves.
    for (key, weight) in [(1, 4), (2, 5), (3, 3), (4, 4)] {
        cache.request(Object::sized(key, weight), |object| evicted.push(object.key));
    }
    assert_eq!(evicted, [2, 1]);
}

#[test]
fn random_evicts_every_object_equally_often() {
    let mut cache = cache(PolicyKind::Random, 10);
    let mut ages = [0u32; 10];
    (0..10)
        .for_each(|key| assert_eq!(cache.request(Object::unit(key), |_| ()), CacheOutcome::Stored));
    let mut order: Vec<u64> = (0..10).collect();
    for key in 10..10_010 {
        let mut evicted = 0;
        cache.request(Object::unit(key), |object| evicted = object.key);
        let position = order.iter().position(|cached| *cached == evicted).expect("was cached");
        order.remove(position);
        order.push(key);
        ages[position] += 1;
    }
    // 1000 are expected of each age, with a deviation of 30.
    assert!(ages.iter().all(|count| (850..1150).contains(count)), "{ages:?}");
}

#[test]
fn object_above_the_capacity_is_refused() {
    for kind in PolicyKind::ALL {
        let mut cache = cache(kind, 4);
        assert_eq!(evictions(&mut cache, &[1, 2, 3, 4]), [0; 0], "{kind}");
        assert_eq!(cache.request(Object::sized(5, 5), |_| ()), CacheOutcome::Refused, "{kind}");
        assert_eq!((cache.len(), cache.weight()), (4, 4), "{kind}");
    }
}

#[test]
fn cache_without_capacity_refuses() {
    for kind in PolicyKind::ALL {
        let mut cache = cache(kind, 0);
        assert_eq!(cache.request(Object::unit(1), |_| ()), CacheOutcome::Refused, "{kind}");
        assert_eq!(cache.request(Object::unit(1), |_| ()), CacheOutcome::Refused, "{kind}");
    }
}

#[test]
fn names_of_policies_are_parsed() {
    for kind in PolicyKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    let error = "mru".parse::<PolicyKind>().expect_err("unknown").to_string();
    assert!(error.contains("'mru'") && error.contains("s3-fifo"), "{error}");
}
