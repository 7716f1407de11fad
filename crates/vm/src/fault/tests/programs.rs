//! Programs under the small operating system.

use std::collections::VecDeque;

use super::system::System;
use super::*;

fn random_programs(programs: u64, steps: u64) {
    let mut counts = [0; 4];
    for seed in 0..programs {
        let mut random = crate::random::SplitMix64::of_item(seed, 2);
        let mut depth = || 1 + random.below(5) as usize;
        let depths = depths(depth(), depth(), depth());
        let fetches = [1, 1, 2, 4][random.below(4) as usize];
        let mut system = System::new(seed, 24, 12, depths, fetches);
        system.spins = seed % 4 == 0;
        for _ in 0..steps {
            system.step();
            system.check_frames();
        }
        system.check_all();
        (0..4).for_each(|at| counts[at] += system.counts[at]);
    }
    let least = programs * steps / 500;
    assert!(counts.iter().all(|&count| count > least), "fetches, reports, waits, faults: {counts:?}");
}

#[test]
fn no_page_is_lost_and_no_frame_is_used_twice_in_a_million_steps() {
    random_programs(500, 2_000);
}

/// Many times more remote pages than slots, with a handler that refills and drains.
#[test]
fn a_program_ends_with_correct_memory_at_every_depth() {
    for depth in [1, 2, 64, 256] {
        for evict_depth in [1, depth] {
            let mut system = System::new(depth as u64, 2_000, 600, depths(depth, depth, evict_depth), 1);
            system.spins = true;
            for round in 0..3 {
                for page in 0..2_000 {
                    system.access(if round == 1 { 1_999 - page } else { page }, page % 3 != 0);
                }
            }
            let [fetches, _, _, faults] = system.counts;
            assert!(fetches > 2_800, "{fetches}");
            if depth == 1 {
                assert!(
                    faults >= fetches,
                    "with one slot every fetch needs the handler: {faults} of {fetches}"
                );
            } else {
                assert!(faults < fetches, "{faults} of {fetches}");
            }
            system.check_all();
        }
    }
}

/// With so many others queued before it, and completing after it.
#[test]
fn a_page_that_is_touched_while_it_leaves_comes_back_with_its_newest_data() {
    for others in 0..6 {
        for sent_before in 0..=others + 1 {
            let mut system = System::new(others as u64, 8, 16, depths(4, 4, 8), 1);
            (0..8).for_each(|page| system.access(page, true));
            system.serve();
            (0..others).for_each(|page| system.evict(page));
            system.evict(7);
            (0..sent_before).for_each(|_| system.send());
            system.access(7, true);
            assert!(system.counts[2] > 0, "it had to wait");
            system.check_all();
        }
    }
}

#[test]
fn a_page_has_its_newest_data_after_every_eviction() {
    let mut system = System::new(1, 3, 4, depths(2, 2, 2), 1);
    for round in 0..200 {
        system.access(round % 3, true);
        system.drain();
        if RemotePte::decode(system.entries[round % 3]).is_none() {
            system.evict(round % 3);
        }
    }
    system.check_all();
}

/// The same program on a system without the device: a fault reads the page and books it at once.
struct Baseline {
    entries: Vec<u64>,
    resident: Vec<usize>,
    pool: VecDeque<Pfn>,
}

impl Baseline {
    fn touch(&mut self, page: usize) {
        if self.entries[page] & 1 == 0 {
            let frame = self.pool.pop_front().unwrap();
            let allowed = RemotePte::READ | RemotePte::WRITE | RemotePte::USER | RemotePte::VALID;
            self.entries[page] = frame.0 << 10 | u64::from(allowed);
            self.resident.push(page);
        }
    }

    fn evict(&mut self, page: usize) {
        self.pool.push_back(Pfn(self.entries[page] >> 10));
        self.entries[page] = 0;
        self.resident.retain(|&other| other != page);
    }
}

#[test]
fn bookkeeping_leaves_the_same_entries_and_lists_as_the_system_without_the_device() {
    for seed in 0..20 {
        let mut system = System::new(seed, 30, 40, depths(4, 4, 4), 1);
        let mut baseline = Baseline { entries: vec![0; 30], resident: vec![], pool: system.pool.clone() };
        for page in 0..30 {
            system.access(page, true);
            baseline.touch(page);
        }
        for _ in 0..200 {
            let page = system.any(30);
            if system.any(3) == 0 {
                system.drain();
                if system.entries[page] & 1 == 1 {
                    system.evict(page);
                    baseline.evict(page);
                    system.settle();
                }
            } else {
                system.access(page, true);
                baseline.touch(page);
            }
        }
        system.settle();
        for page in 0..30 {
            let expected = baseline.entries[page];
            let entry = system.entries[page];
            assert!(entry == expected || expected == 0 && RemotePte::decode(entry).is_some(), "page {page}");
        }
        assert_eq!(system.resident, baseline.resident);
    }
}

#[test]
fn a_protection_change_never_leaves_more_permissions_than_the_mapping_has() {
    let mut system = System::new(3, 4, 8, depths(4, 4, 4), 1);
    (0..4).for_each(|page| system.access(page, true));
    (0..3).for_each(|page| system.evict(page));
    let permissions = |system: &System, page: usize| match RemotePte::decode(system.entries[page]) {
        Some(remote) => remote.protection & RemotePte::PERMISSIONS,
        None => system.entries[page] as u16 & RemotePte::PERMISSIONS,
    };
    // Remote; fetched and not booked; fetched after the change; and never remote.
    assert!(system.protect(0, RemotePte::READ));
    assert_eq!(permissions(&system, 0), RemotePte::READ);
    system.access(1, false);
    assert!(RemotePte::is_unbooked(system.entries[1]));
    assert!(system.protect(1, RemotePte::READ));
    assert!(!RemotePte::is_unbooked(system.entries[1]), "it was drained first");
    assert!(system.protect(2, 0) && system.protect(3, RemotePte::READ));
    system.access(0, false);
    system.access(2, false);
    let all = [0, 1, 2, 3].map(|page| permissions(&system, page));
    assert_eq!(all, [RemotePte::READ, RemotePte::READ, 0, RemotePte::READ]);
    assert!(system.protect(2, RemotePte::READ), "and back, when it is booked");
    assert_eq!(permissions(&system, 2), RemotePte::READ);
}
