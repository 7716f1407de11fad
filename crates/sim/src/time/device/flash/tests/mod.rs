//! A flash device against closed forms and an event-driven one.

mod collection;

use pagewalk_vm::random::SplitMix64;

use super::*;
use crate::spec::settings::{Distribution, GarbageSpec};

/// Reads and programs as Gupta et al., Table I, in microseconds; the transfers are small.
const SPEC: FlashSpec = FlashSpec {
    pages: 1 << 20,
    planes: 8,
    channels: 2,
    writes_waiting: 64,
    garbage: None,
    latency: Distribution::Fixed,
    seed: 1,
    times: FlashTimes {
        read_ps: 50,
        plane_read_ps: 50,
        write_ps: 100,
        plane_write_ps: 100,
        channel_page_ps: 3,
        bus_page_ps: 2,
    },
};

/// A plane's page, by its place there.
fn page_of(flash: &Flash, plane: usize, at: u64) -> u64 {
    let first = at * u64::from(flash.spec.planes);
    (first..).find(|&page| flash.place(page).0 == plane).expect("every stripe has one of every plane")
}

/// Everything that will be written.
fn written(flash: &mut Flash) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| flash.pop_written_by(u64::MAX)).collect()
}

#[test]
fn an_idle_device_takes_its_parts_one_after_the_other() {
    let mut flash = Flash::new(&SPEC);
    assert_eq!(flash.read(1_000, 5), 1_000 + 50 + 3 + 2);
    flash.write(2_000, 5);
    assert_eq!(flash.next_written_ps(), 2_000 + 2 + 3 + 100);
    assert_eq!(flash.pop_written_by(2_104), None);
    assert_eq!(flash.pop_written_by(2_105), Some((2_105, 5)));
    assert_eq!((flash.pop_written_by(9_000), flash.next_written_ps()), (None, u64::MAX));
    // The plane is idle again at that tick, and not one before.
    for (at, start) in [(2_104, 2_105), (2_105, 2_105)] {
        let mut flash = Flash::new(&SPEC);
        flash.write(2_000, 5);
        assert_eq!(flash.read(at, 5), start + 55);
    }
}

/// The slowest of `planes / plane time`, `channels / transfer` and `1 / bus`.
#[test]
fn a_saturated_device_is_as_fast_as_its_slowest_part() {
    const PAGES: u64 = 10_000;
    for (plane_read_ps, channel_page_ps, bus_page_ps, each) in
        [(50, 3, 2, 50.0 / 8.0), (50, 20, 2, 20.0 / 2.0), (8, 3, 2, 2.0), (0, 5, 1, 2.5), (50, 13, 9, 9.0)]
    {
        let spec = FlashSpec {
            times: FlashTimes { plane_read_ps, channel_page_ps, bus_page_ps, ..SPEC.times },
            ..SPEC
        };
        let mut flash = Flash::new(&spec);
        let last = (0..PAGES).map(|page| flash.read(0, page)).max().unwrap();
        let took = last as f64 / PAGES as f64;
        assert!((took / each - 1.0).abs() < 0.02, "{took} a read, not {each}: {spec:?}");
    }
    // A plane is held for a write's transfers too.
    for (channel_page_ps, bus_page_ps, each) in [(3, 2, 105.0 / 8.0), (60, 2, 30.0), (3, 25, 25.0)] {
        let mut flash = Flash::new(&FlashSpec {
            writes_waiting: 10_000,
            times: FlashTimes { channel_page_ps, bus_page_ps, ..SPEC.times },
            ..SPEC
        });
        (0..PAGES).for_each(|page| flash.write(0, page));
        let took = written(&mut flash).last().unwrap().0 as f64 / PAGES as f64;
        assert!((took / each - 1.0).abs() < 0.02, "{took} a write, not {each}");
    }
}

/// One slow plane does not keep a channel from the others.
#[test]
fn a_transfer_far_ahead_leaves_the_channel_to_others_before() {
    let mut flash = Flash::new(&SPEC);
    let slow: Vec<u64> = (0..4).map(|_| flash.read(0, 0)).collect();
    assert_eq!(slow, [55, 105, 155, 205]);
    assert_eq!(flash.read(1, 2), 1 + 55 + 2, "behind the first only");
    assert_eq!(flash.read(20, 4), 75);
}

/// M/D/1 at every plane: `load / 2 (1 - load)` service times.
#[test]
fn poisson_reads_wait_for_their_planes_as_the_formula_says() {
    const SERVICE_PS: u64 = 50_000_000;
    const READS: u64 = 3_000_000;
    for load in [0.3, 0.7] {
        let spec = FlashSpec {
            times: FlashTimes {
                read_ps: SERVICE_PS,
                plane_read_ps: SERVICE_PS,
                channel_page_ps: 0,
                bus_page_ps: 0,
                ..SPEC.times
            },
            ..SPEC
        };
        let (mut flash, mut random) = (Flash::new(&spec), SplitMix64::new(8));
        let (mut now, mut waited) = (0.0, 0.0);
        for _ in 0..READS {
            now += -(1.0 - random.unit()).ln() * SERVICE_PS as f64 / (load * 8.0);
            let done = flash.read(now as u64, random.below(spec.pages));
            waited += (done - now as u64 - SERVICE_PS) as f64 / SERVICE_PS as f64;
        }
        let (wait, expected) = (waited / READS as f64, load / (2.0 * (1.0 - load)));
        assert!((wait / expected - 1.0).abs() < 0.03, "at {load}: {wait}, not {expected}");
    }
}

#[test]
fn reads_go_before_waiting_writes_and_not_before_one_that_has_started() {
    let spec = FlashSpec { times: FlashTimes { channel_page_ps: 0, bus_page_ps: 0, ..SPEC.times }, ..SPEC };
    let mut flash = Flash::new(&spec);
    let other = page_of(&flash, 0, 1);
    assert_eq!(flash.read(0, 0), 50);
    flash.write(10, other);
    // A read that comes when the write would start goes first.
    assert_eq!([flash.read(20, 0), flash.read(100, 0)], [100, 150]);
    // It starts at 150, before this read.
    assert_eq!(flash.read(151, 0), 250 + 50);
    assert_eq!(written(&mut flash), [(250, other)]);
}

#[test]
fn with_too_many_writes_waiting_the_oldest_goes_before_reads() {
    let spec = FlashSpec {
        writes_waiting: 2,
        times: FlashTimes { channel_page_ps: 0, bus_page_ps: 0, ..SPEC.times },
        ..SPEC
    };
    let mut flash = Flash::new(&spec);
    let others = [1, 2, 3].map(|at| page_of(&flash, 0, at));
    flash.read(0, 0);
    flash.write(1, others[0]);
    flash.write(2, others[1]);
    assert_eq!(flash.read(3, 0), 100, "before both");
    flash.write(4, others[2]);
    assert_eq!(flash.counts().urgent_writes, 1);
    assert_eq!(flash.read(5, 0), 250, "behind the first write, before the others");
    assert_eq!(written(&mut flash), [(200, others[0]), (350, others[1]), (450, others[2])]);
}

/// One plane as it is: when it is idle it takes the oldest read, or the oldest write if there is none.
fn event_driven(requests: &[(u64, bool)]) -> (Vec<u64>, Vec<u64>) {
    let of = |writes: bool| requests.iter().filter(move |&&(_, write)| write == writes).map(|&(at, _)| at);
    let (mut reads, mut writes) = (of(false).peekable(), of(true).peekable());
    let (mut now, mut read, mut written) = (0, Vec::new(), Vec::new());
    while let Some(next) = reads.peek().into_iter().chain(writes.peek()).min().copied() {
        now = next.max(now);
        if reads.next_if(|&at| at <= now).is_some() {
            now += 50;
            read.push(now);
        } else if writes.next().is_some() {
            now += 100;
            written.push(now);
        }
    }
    (read, written)
}

#[test]
fn a_plane_does_at_every_time_what_an_event_driven_one_does() {
    let mut random = SplitMix64::new(4);
    for round in 0..3_000 {
        let mut now = 0;
        let gap = 60 << (round % 4);
        let requests: Vec<(u64, bool)> = (0..40)
            .map(|_| {
                now += random.below(gap) / 10 * 10;
                (now, random.below(3) == 0)
            })
            .collect();
        let spec = FlashSpec {
            planes: 1,
            channels: 1,
            times: FlashTimes { channel_page_ps: 0, bus_page_ps: 0, ..SPEC.times },
            ..SPEC
        };
        let mut flash = Flash::new(&spec);
        let (mut read, mut heard) = (Vec::new(), Vec::new());
        for &(at, write) in &requests {
            // As an event loop does it.
            while flash.next_written_ps() <= at {
                let asked = flash.next_written_ps();
                heard.extend(flash.pop_written_by(asked).map(|(done, _)| {
                    assert_eq!(done, asked, "heard of in time");
                    done
                }));
            }
            match write {
                true => flash.write(at, 0),
                false => read.push(flash.read(at, 0)),
            }
        }
        heard.extend(written(&mut flash).into_iter().map(|(done, _)| done));
        assert_eq!((read, heard), event_driven(&requests), "round {round}: {requests:?}");
    }
}

#[test]
fn every_write_is_heard_of_once_and_in_order() {
    let garbage = GarbageSpec {
        over_provisioning_percent: 20,
        pages_per_block: 16,
        erase_ps: 1_000,
        free_blocks: 2,
        holds: CollectionHolds::Channel,
        is_worn: true,
    };
    let latency = Distribution::LogNormal { sigma_percent: 40 };
    let spec = FlashSpec { pages: 8 * 1_024, garbage: Some(garbage), latency, writes_waiting: 4, ..SPEC };
    let run = |seed| {
        let mut flash = Flash::new(&FlashSpec { seed, ..spec.clone() });
        let mut random = SplitMix64::new(77);
        let (mut now, mut heard, mut read) = (0, Vec::new(), Vec::new());
        let mut pages = vec![0; spec.pages as usize];
        for _ in 0..20_000 {
            now += random.below(200);
            let page = random.below(spec.pages);
            if random.below(4) == 0 {
                pages[page as usize] += 1;
                flash.write(now, page);
            } else {
                read.push(flash.read(now, page));
            }
            while flash.next_written_ps() <= now {
                let asked = flash.next_written_ps();
                heard.extend(flash.pop_written_by(asked));
            }
        }
        heard.extend(written(&mut flash));
        heard.iter().for_each(|&(_, page)| pages[page as usize] -= 1);
        assert!(pages.iter().all(|&left| left == 0), "as many done as made");
        assert!(heard.is_sorted_by_key(|&(done, _)| done));
        assert!(flash.counts().urgent_writes > 0 && flash.counts().blocked_reads > 0);
        (heard, read, flash.counts())
    };
    assert!(run(1) == run(1), "the same seed, the same times");
    assert!(run(1) != run(2), "another seed, other times");
}
