//! Devices against closed forms.

use pagewalk_vm::random::SplitMix64;

use super::block::{BlockDevice, BlockSpec};
use super::link::Link;
use super::remote::{RemoteMemory, RemoteSpec};
use super::store::{BackingStore, MemoryCopy, Transfer};
use crate::time::pool::Pool;

const DISK: BlockSpec = BlockSpec { latency_ps: 100, page_ps: 10, queue: 3 };

/// Two hops of 2 us each way, 200 Gbit/s: the published network.
const BLADE: RemoteSpec = RemoteSpec {
    link_latency_ps: 4_000_000,
    bytes_a_second: 25_000_000_000,
    payload_bytes: 1_368,
    header_bytes: 40,
    service_ps: 100_000,
    servers: 1,
    acknowledges: true,
};

#[test]
fn a_disks_latencies_overlap_and_its_transfers_do_not() {
    let mut device = BlockDevice::new(&DISK);
    assert_eq!([0, 0, 0].map(|now| device.transfer(now)), [110, 120, 130]);
    // The fourth waits for the first place, the fifth for the second.
    assert_eq!([0, 115].map(|now| device.transfer(now)), [220, 230]);
    assert_eq!(device.transfer(1_000), 1_110);
}

/// Little's law: with `queue` requests of `latency + page`, or as fast as the bus.
#[test]
fn a_disk_is_as_fast_as_its_queue_or_its_bus() {
    for (queue, page_ps) in [(3, 110), (8, 110), (32, 25), (64, 110)] {
        let mut device = BlockDevice::new(&BlockSpec {
            latency_ps: 1_000,
            page_ps: if queue == 3 { 10 } else { page_ps },
            queue,
        });
        let page_ps = if queue == 3 { 10 } else { page_ps };
        let last = (0..10_000).map(|_| device.transfer(0)).last().unwrap();
        let each = (last as f64) / 10_000.0;
        let expected = ((1_000 + page_ps) as f64 / f64::from(queue)).max(page_ps as f64);
        assert!((each / expected - 1.0).abs() < 0.02, "{queue} at once: {each} ps a page, not {expected}");
    }
}

#[test]
fn an_idle_blade_answers_after_two_links_and_its_own_time() {
    let page_ps = (4_096 + 3 * 40) * 40;
    let header_ps = 40 * 40;
    let mut blade = RemoteMemory::new(&BLADE);
    assert_eq!(blade.read(0).done_ps, header_ps + 4_000_000 + 100_000 + page_ps + 4_000_000);
    let mut blade = RemoteMemory::new(&BLADE);
    assert_eq!(blade.write(7).done_ps, 7 + page_ps + 4_000_000 + 100_000 + header_ps + 4_000_000);
    let mut blade = RemoteMemory::new(&RemoteSpec { acknowledges: false, ..BLADE });
    assert_eq!(blade.write(7).done_ps, 7 + page_ps, "complete when it is sent");
}

#[test]
fn a_saturated_blade_is_as_fast_as_its_slowest_part() {
    let rate = |spec: &RemoteSpec| {
        let mut blade = RemoteMemory::new(spec);
        (0..10_000).map(|_| blade.read(0).done_ps).last().unwrap() as f64 / 10_000.0
    };
    let page_ps = ((4_096 + 3 * 40) * 40) as f64;
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
    assert!(near(rate(&BLADE), page_ps), "the link back");
    assert!(near(rate(&RemoteSpec { service_ps: 900_000, ..BLADE }), 900_000.0), "the blade");
    assert!(near(rate(&RemoteSpec { service_ps: 900_000, servers: 3, ..BLADE }), 300_000.0), "three blades");
}

#[test]
fn both_directions_of_a_link_are_busy_at_once_and_each_only_once() {
    let mut blade = RemoteMemory::new(&RemoteSpec { acknowledges: false, service_ps: 0, ..BLADE });
    let page_ps = (4_096 + 3 * 40) * 40;
    let first = blade.write(0).done_ps;
    // The request waits behind the page on its way out.
    assert_eq!((first, blade.read(0).done_ps), (page_ps, page_ps + 40 * 40 + 8_000_000 + page_ps));
    let mut link = Link::new(5, 1_000_000_000_000);
    assert_eq!(
        (link.send(0, 10).arrived_ps, link.send(0, 10).arrived_ps, link.send(40, 1).left_ps),
        (15, 25, 41)
    );
}

/// Mean wait of Poisson arrivals at a pool, in service times.
fn mean_wait(servers: u32, load: f64, service: impl Fn(&mut SplitMix64) -> u64) -> f64 {
    const MEAN: f64 = 1e6;
    const CUSTOMERS: u64 = 4_000_000;
    let mut random = SplitMix64::new(9);
    let mut pool = Pool::new(servers);
    let (mut now, mut waited) = (0.0, 0.0);
    for _ in 0..CUSTOMERS {
        now += exponential(&mut random, MEAN / (load * f64::from(servers)));
        let arrived = now as u64;
        let took = service(&mut random);
        waited += (pool.take(arrived, |start| start + took) - arrived) as f64;
    }
    waited / CUSTOMERS as f64 / MEAN
}

fn exponential(random: &mut SplitMix64, mean: f64) -> f64 {
    let uniform = (random.below(1 << 53) + 1) as f64 / (1u64 << 53) as f64;
    -mean * uniform.ln()
}

/// M/M/1: the mean wait is `load / (1 - load)` service times; M/D/1: half of it.
#[test]
fn stations_make_poisson_arrivals_wait_as_long_as_the_formulas_say() {
    for load in [0.3, 0.6, 0.8] {
        let expected = load / (1.0 - load);
        let random = mean_wait(1, load, |random| exponential(random, 1e6) as u64);
        assert!((random / expected - 1.0).abs() < 0.03, "M/M/1 at {load}: {random}, not {expected}");
        let fixed = mean_wait(1, load, |_| 1_000_000);
        assert!((2.0 * fixed / expected - 1.0).abs() < 0.03, "M/D/1 at {load}: {fixed}");
    }
}

/// Erlang's C formula for two servers: the mean wait is `load^2 / (1 - load^2)` service times.
#[test]
fn two_servers_wait_as_erlang_says() {
    let load: f64 = 0.7;
    let wait = mean_wait(2, load, |random| exponential(random, 1e6) as u64);
    let expected = load * load / (1.0 - load * load);
    assert!((wait / expected - 1.0).abs() < 0.03, "M/M/2: {wait}, not {expected}");
}

/// Poisson requests to whole devices: what waits is the station that is busy longest.
#[test]
fn devices_make_poisson_requests_wait_like_their_bottleneck() {
    let wait = |service_ps: u64, mut serve: Box<dyn FnMut(u64) -> u64>, idle_ps: u64| {
        let mut random = SplitMix64::new(4);
        let (mut now, mut waited) = (0.0, 0.0);
        const REQUESTS: u64 = 1_000_000;
        for _ in 0..REQUESTS {
            now += exponential(&mut random, service_ps as f64 / 0.7);
            waited += (serve(now as u64) - now as u64 - idle_ps) as f64;
        }
        waited / REQUESTS as f64 / service_ps as f64
    };
    let expected = 0.7 / 0.6;
    let slow = RemoteSpec { service_ps: 2_000_000, ..BLADE };
    let idle_ps = RemoteMemory::new(&slow).read(0).done_ps;
    let mut blade = RemoteMemory::new(&slow);
    let blade = wait(2_000_000, Box::new(move |now| blade.read(now).done_ps), idle_ps);
    assert!((blade / expected - 1.0).abs() < 0.03, "a blade: {blade}, not {expected}");
    let spec = BlockSpec { latency_ps: 5_000_000, page_ps: 1_000_000, queue: 1 << 16 };
    let mut disk = BlockDevice::new(&spec);
    let disk = wait(1_000_000, Box::new(move |now| disk.transfer(now)), 6_000_000);
    assert!((disk / expected - 1.0).abs() < 0.03, "a disk's bus: {disk}, not {expected}");
}

#[test]
fn memory_takes_the_processors_time() {
    let mut store = MemoryCopy { out_ps: 700, in_ps: 300 };
    assert_eq!(store.write(5), Transfer { done_ps: 705, holds_core: true });
    assert_eq!(store.read(5), Transfer { done_ps: 305, holds_core: true });
}
