//! A cache does not allocate after its creation.

use ndn_caching::{Cache, Capacity, Object, PolicyKind};
use ndn_sys::allocation::CountingAllocator;
use ndn_types::random::Random;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn requests_and_removals_do_not_allocate() {
    for kind in PolicyKind::ALL {
        let mut cache = Cache::new(kind, Capacity { weight: 3000, entries: 1000 });
        let mut random = Random::new(1, 0);
        let before = CountingAllocator::count_of_thread();
        let mut evicted = 0;
        for request in 0..200_000 {
            let key = random.below(3000).min(random.below(3000)) + request / 100;
            let weight = u32::try_from(1 + key % 5).expect("small");
            cache.request(Object::sized(key, weight), |_| evicted += 1);
            if random.below(50) == 0 {
                cache.erase(key);
            }
        }
        let allocations = CountingAllocator::count_of_thread() - before;
        assert_eq!(allocations, 0, "{kind}");
        assert!(evicted > 1000, "{kind}: {evicted} evictions");
    }
}
