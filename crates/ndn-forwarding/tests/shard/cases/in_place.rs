//! Bursts of which each shard takes its own packets where they lie.

use super::{Case, data, from, interest};
use crate::bed::Bed;
use crate::model::Arrival;
use crate::world::World;

/// Burst after burst, those of one shard as they come and those of several in place: what leaves is the same.
fn compare(world: &World, bursts: &[Vec<Arrival>]) {
    let sent = |shard_count, process: fn(&mut Bed, u64, &[Arrival])| -> Vec<_> {
        let mut bed = world.bed(shard_count);
        let mut all = Vec::new();
        for (now, burst) in (0..).zip(bursts) {
            process(&mut bed, now, burst);
            let mut sent: Vec<_> =
                bed.sent.0.drain(..).map(|one| (one.face, one.kind, one.wire)).collect();
            sent.sort();
            all.push(sent);
        }
        all
    };
    let expected = sent(1, Bed::process);
    assert!(expected.iter().all(|sent| sent.len() >= 30), "every burst has an effect");
    for shard_count in [2, 3, 8] {
        assert_eq!(sent(shard_count, Bed::process_in_place), expected, "{shard_count} shards");
    }
}

#[test]
fn what_leaves_is_what_one_shard_sends() {
    let world = Case::new("in place").route("/a", 2).route("/b", 3).world;
    let names: Vec<String> =
        (0..30).flat_map(|n| [format!("/a/{n}/x"), format!("/b/{n}")]).collect();
    let each = |make: &dyn Fn(u32, &str) -> Arrival| -> Vec<Arrival> {
        (0..).zip(&names).map(|(number, uri)| make(number, uri)).collect()
    };
    let up = |uri: &str| if uri.starts_with("/a") { 2 } else { 3 };
    let asked = each(&|number, uri| from(1, interest(uri, number)));
    let answered = each(&|_, uri| from(up(uri), data(uri)));
    // From the Content Store, and further ones that are pending, among each other.
    let again = each(&|number, uri| from(4, interest(uri, 1000 + number)));
    let longer = |uri: &str| format!("{uri}/more");
    let mixed: Vec<Arrival> = (0..)
        .zip(&names)
        .flat_map(|(number, uri)| {
            let more = longer(uri);
            [from(1, interest(&more, 2000 + number)), from(up(uri), data(&more))]
        })
        .collect();
    let bursts = [asked, answered, again, mixed[..60].to_vec(), mixed[60..].to_vec()];
    compare(&world, &bursts);
}
