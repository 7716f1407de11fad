//! Misses, arrivals, and what they wait for.

use super::*;

#[test]
fn a_miss_reads_then_evicts_and_an_arrival_installs_then_writes_then_wakes() {
    let mut tier = tier(small(1, 2, 2, 4));
    assert_eq!(tier.lookup(P(1), false), None);
    assert_eq!(miss(&mut tier, 1, 7, LATER), [read(1, 0)]);
    assert_eq!(tier.lookup(P(1), false), None, "requested is not installed");
    assert_eq!(arrive(&mut tier, 1), [install(1, 0), wake(7, LATER, 1, 0)]);
    assert_eq!(tier.lookup(P(1), true), Some(F(0)));

    let effects = miss(&mut tier, 2, 8, LATER);
    let [first, Effect::Copy { page, frame, slot }] = effects[..] else { panic!("{effects:?}") };
    assert_eq!((first, page, frame), (read(2, 0), P(1), F(0)));
    assert_eq!(tier.lookup(P(1), false), None, "a victim is invisible from its copy on");
    assert_eq!(arrive(&mut tier, 2), [install(2, 0), write(1, slot.0), wake(8, LATER, 2, 0)]);
    assert_eq!(written(&mut tier, 1), []);
    assert!(tier.is_idle());
}

#[test]
fn a_clean_victim_is_discarded() {
    let mut tier = tier(small(1, 2, 2, 4));
    fetch(&mut tier, 1, LATER);
    assert_eq!(miss(&mut tier, 2, 8, LATER), [read(2, 0), discard(1, 0)]);
    assert_eq!(arrive(&mut tier, 2), [install(2, 0), wake(8, LATER, 2, 0)]);
}

#[test]
fn requests_for_a_pending_page_end_at_the_miss_status() {
    let mut tier = tier(small(2, 1, 2, 4));
    assert_eq!(miss(&mut tier, 1, 0, LATER), [read(1, 0)]);
    for waiter in 1..10 {
        assert_eq!(miss(&mut tier, 1, waiter, LATER), []);
    }
    let woken: Vec<_> = (0..10).map(|waiter| wake(waiter, LATER, 1, 0)).collect();
    assert_eq!(arrive(&mut tier, 1)[1..], woken, "once each, in order");
    assert_eq!((tier.counts().reads, tier.counts().merged), (1, 9));
    // Their places are taken again.
    fetch(&mut tier, 2, LATER);
    assert_eq!(miss(&mut tier, 3, 5, LATER), [read(3, 0), discard(1, 0)]);
    assert_eq!(miss(&mut tier, 3, 6, NOW), []);
    assert_eq!(arrive(&mut tier, 3)[1..], [wake(5, LATER, 3, 0), wake(6, NOW, 3, 0)]);
}

#[test]
fn an_access_that_completes_on_arrival_makes_the_page_dirty() {
    for (completes, dirty) in [(LATER, false), (NOW, false), (NOW_WRITE, true)] {
        let mut tier = tier(small(1, 1, 1, 1));
        miss(&mut tier, 1, 0, LATER);
        miss(&mut tier, 1, 1, completes);
        miss(&mut tier, 1, 2, NOW);
        arrive(&mut tier, 1);
        assert_eq!(tier.resident(P(1)).unwrap().dirty, dirty, "{completes:?}");
    }
}

#[test]
fn a_full_set_of_the_miss_status_blocks_and_recovers() {
    let mut tier = tier(small(4, 1, 1, 3));
    miss(&mut tier, 1, 1, LATER);
    assert_eq!(miss(&mut tier, 2, 2, LATER), []);
    assert_eq!((tier.blocked(), tier.queued()), (Some(Blocked::MissStatus), 1));
    assert_eq!(miss(&mut tier, 1, 3, LATER), [], "it stands behind the blocked one although 1 is pending");
    assert_eq!(
        arrive(&mut tier, 1),
        [install(1, 0), wake(1, LATER, 1, 0), read(2, 1), wake(3, LATER, 1, 0)],
        "the entry is free, and the page that came meanwhile is not read again"
    );
    assert_eq!((tier.blocked(), tier.counts().blocked_by_miss_status), (None, 1));
    assert_eq!((tier.counts().raced, tier.counts().merged), (1, 0));
}

#[test]
fn a_set_of_the_miss_status_holds_the_pages_of_its_index() {
    let miss_status = MissStatusShape { sets: 2, ways: 1 };
    let mut tier = tier(TierDesign { sets: 4, index_shift: 1, miss_status, ..small(2, 1, 1, 3) });
    assert_eq!(miss(&mut tier, 0b000, 0, LATER), [read(0, 0)]);
    assert_eq!(miss(&mut tier, 0b010, 0, LATER), [read(2, 2)]);
    assert_eq!(miss(&mut tier, 0b100, 0, LATER), []);
    assert_eq!(tier.blocked(), Some(Blocked::MissStatus), "set 2 of the cache, set 0 of the miss status");
}

#[test]
fn a_miss_waits_for_a_way_that_is_not_reserved() {
    let mut tier = tier(small(1, 4, 1, 4));
    miss(&mut tier, 1, 1, LATER);
    assert_eq!(miss(&mut tier, 2, 2, LATER), []);
    assert_eq!(tier.blocked(), Some(Blocked::Ways));
    assert_eq!(arrive(&mut tier, 1), [install(1, 0), wake(1, LATER, 1, 0), read(2, 0), discard(1, 0)]);
}

#[test]
fn the_queue_is_as_deep_as_it_is_and_refuses_more() {
    let mut tier = tier(small(1, 4, 1, 2));
    miss(&mut tier, 1, 1, LATER);
    miss(&mut tier, 2, 2, LATER);
    assert!(tier.accepts());
    miss(&mut tier, 3, 3, LATER);
    assert!(!tier.accepts());
    let refused = Event::Miss { page: P(4), waiter: 4, completes: LATER };
    let mut effects = Vec::new();
    assert_eq!(tier.step(refused, &mut effects), Err(EventError::QueueFull { depth: 2 }));
    assert_eq!((tier.queued(), effects.len()), (2, 0));
    arrive(&mut tier, 1);
    assert!(tier.accepts());
}

#[test]
fn what_is_not_under_way_is_not_done() {
    let mut tier = tier(small(1, 4, 1, 2));
    let mut effects = Vec::new();
    miss(&mut tier, 1, 1, LATER);
    miss(&mut tier, 2, 2, LATER);
    for (event, error) in [
        (Event::Arrived { page: P(2) }, EventError::NotPending(P(2))),
        (Event::Written { page: P(1) }, EventError::NotWriting(P(1))),
    ] {
        assert_eq!(tier.step(event, &mut effects), Err(error));
    }
    assert_eq!(EventError::NotPending(P(18)).to_string(), "page 0x12 arrived, but is not pending");
    arrive(&mut tier, 1);
    assert_eq!(tier.step(Event::Arrived { page: P(1) }, &mut effects), Err(EventError::NotPending(P(1))));
    assert_eq!(effects, []);
}

#[test]
fn counts_are_counted_once() {
    let mut tier = tier(small(1, 1, 1, 4));
    fetch(&mut tier, 1, NOW_WRITE);
    fetch(&mut tier, 2, NOW_WRITE); // 1 is being written.
    miss(&mut tier, 3, 0, LATER); // Blocked by the evict buffer.
    miss(&mut tier, 3, 1, LATER);
    written(&mut tier, 1);
    arrive(&mut tier, 3);
    let expected = TierCounts {
        merged: 1,
        reads: 3,
        writes: 2,
        copies: 2,
        blocked_by_evict_buffer: 1,
        most_pending: 1,
        ..TierCounts::default()
    };
    assert_eq!(*tier.counts(), expected);
}
