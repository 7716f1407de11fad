//! More threads than ways: with the forward-progress bit every thread finishes, without it none need.

use super::*;
use crate::random::SplitMix64;

/// Two threads, one way, one access each, and the worst order: a thread that is woken finds that its page has left again.
fn rounds_until_done(resumed: Completion, rounds: u32) -> Option<u32> {
    let mut tier = tier(small(1, 2, 1, 2));
    let mut effects = Vec::new();
    let mut tries = [0; 2];
    let mut done = [false; 2];
    let mut ready = vec![0, 1];
    for round in 0..rounds {
        for thread in std::mem::take(&mut ready) {
            if tier.lookup(P(u64::from(thread)), false).is_some() {
                done[thread as usize] = true;
                continue;
            }
            let completes = if tries[thread as usize] == 0 { LATER } else { resumed };
            tries[thread as usize] += 1;
            let event = Event::Miss { page: P(u64::from(thread)), waiter: thread, completes };
            tier.step(event, &mut effects).unwrap();
        }
        if done == [true; 2] {
            return Some(round);
        }
        let arriving = tier.pending().next();
        if let Some((page, _)) = arriving {
            tier.step(Event::Arrived { page }, &mut effects).unwrap();
        }
        for effect in effects.drain(..) {
            match effect {
                Effect::Wake { waiter, completes: LATER, .. } => ready.push(waiter),
                Effect::Wake { waiter, .. } => done[waiter as usize] = true,
                _ => {}
            }
        }
    }
    None
}

#[test]
fn without_forward_progress_two_threads_can_keep_each_other_from_their_page() {
    assert_eq!(rounds_until_done(LATER, 100_000), None);
    assert_eq!(rounds_until_done(NOW, 100), Some(4));
}

/// Every thread has pages of its own, and all are of one set.
fn thrash(threads: u32, ways: u32, accesses: u32, seed: u64) -> u64 {
    let mut tier = tier(small(ways, 8, 4, 16));
    let mut random = SplitMix64::of_item(seed, ways.into());
    let mut effects = Vec::new();
    let mut left = vec![accesses; threads as usize];
    // With the forward-progress bit, or without.
    let mut ready: Vec<(u32, bool)> = (0..threads).map(|thread| (thread, false)).collect();
    let (mut reading, mut writing) = (Vec::new(), Vec::new());
    let mut steps = 0;
    while left.iter().any(|&left| left > 0) {
        steps += 1;
        assert!(steps < u64::from(threads * accesses) * 100, "{left:?} are left");
        let what = random.below(4);
        if what < 2 && !ready.is_empty() {
            let at = random.below(ready.len() as u64) as usize;
            let (thread, forced) = ready[at];
            // Two pages a thread, by turns; half of the accesses write.
            let page = P(u64::from(thread * 2 + left[thread as usize] % 2));
            let write = left[thread as usize] % 4 < 2;
            if tier.lookup(page, write).is_some() {
                left[thread as usize] -= 1;
                ready[at].1 = false;
            } else if tier.accepts() {
                ready.swap_remove(at);
                let completes = if forced { Completion::Now { write } } else { LATER };
                tier.step(Event::Miss { page, waiter: thread, completes }, &mut effects).unwrap();
            }
        } else if what == 2 && !reading.is_empty() {
            let page = reading.swap_remove(random.below(reading.len() as u64) as usize);
            tier.step(Event::Arrived { page }, &mut effects).unwrap();
        } else if !writing.is_empty() {
            let page = writing.swap_remove(random.below(writing.len() as u64) as usize);
            tier.step(Event::Written { page }, &mut effects).unwrap();
        }
        for effect in effects.drain(..) {
            match effect {
                Effect::Read { page, .. } => reading.push(page),
                Effect::Write { page, .. } => writing.push(page),
                Effect::Wake { waiter, completes: LATER, .. } => ready.push((waiter, true)),
                Effect::Wake { waiter, .. } => {
                    left[waiter as usize] -= 1;
                    ready.push((waiter, false));
                }
                _ => {}
            }
        }
        ready.retain(|&(thread, _)| left[thread as usize] > 0);
    }
    tier.check();
    steps
}

#[test]
fn with_it_sixty_four_threads_finish_in_one_set_of_four_ways() {
    for seed in 0..5 {
        for ways in [1, 4] {
            thrash(64, ways, 100, seed);
        }
    }
}
