//! The contract of swap devices, for every registered kind.

use pagewalk_vm::random::SplitMix64;

use super::SWAP;
use crate::time::device::Transfer;
use crate::time::device::store::BackingStore;

/// A device of a kind with the defaults of its keys.
fn device(name: &str) -> Box<dyn BackingStore> {
    let text = format!("name = \"x\"\n[swap.{name}]\n");
    let spec = crate::spec::parse(&text, "example.toml").unwrap_or_else(|error| panic!("{error}"));
    spec.paging.swap.kind.build()
}

fn each_kind(check: impl Fn(&'static str)) {
    SWAP.0.iter().for_each(|variant| check(variant.key.name));
}

/// Requests at times that do not decrease, now and then many at once.
fn requests() -> impl Iterator<Item = (u64, bool)> {
    let mut random = SplitMix64::new(6);
    let mut now_ps = 0;
    (0..5_000).map(move |_| {
        now_ps += if random.below(4) == 0 { random.below(40_000_000) } else { 0 };
        (now_ps, random.below(3) == 0)
    })
}

fn transfer(device: &mut dyn BackingStore, now_ps: u64, is_write: bool) -> Transfer {
    if is_write { device.write(now_ps) } else { device.read(now_ps) }
}

#[test]
fn an_idle_device_takes_as_long_at_any_time() {
    each_kind(|name| {
        for is_write in [false, true] {
            let idle = transfer(&mut *device(name), 0, is_write);
            let later = transfer(&mut *device(name), 1 << 50, is_write);
            assert_eq!(later, Transfer { done_ps: idle.done_ps + (1 << 50), ..idle }, "{name}");
            // And after a long pause again.
            let mut used = device(name);
            (0..100).for_each(|_| _ = transfer(&mut *used, 0, is_write));
            assert_eq!(transfer(&mut *used, 1 << 50, is_write), later, "{name}");
        }
    });
}

#[test]
fn no_request_is_done_sooner_than_by_an_idle_device() {
    each_kind(|name| {
        let idle_ps = [false, true].map(|is_write| transfer(&mut *device(name), 0, is_write).done_ps);
        let mut device = device(name);
        for (now_ps, is_write) in requests() {
            let done = transfer(&mut *device, now_ps, is_write);
            assert!(done.done_ps >= now_ps + idle_ps[usize::from(is_write)], "{name}: {done:?} at {now_ps}");
        }
    });
}

#[test]
fn requests_of_one_direction_are_done_in_order() {
    each_kind(|name| {
        let mut device = device(name);
        let mut last = [Transfer::default(); 2];
        for (now_ps, is_write) in requests() {
            let done = transfer(&mut *device, now_ps, is_write);
            let before = std::mem::replace(&mut last[usize::from(is_write)], done);
            assert!(done.done_ps >= before.done_ps, "{name}: {done:?} after {before:?}");
        }
    });
}

#[test]
fn the_same_requests_take_the_same_time() {
    each_kind(|name| {
        let run = || {
            let mut device = device(name);
            requests().map(|(now_ps, is_write)| transfer(&mut *device, now_ps, is_write)).collect::<Vec<_>>()
        };
        assert_eq!(run(), run(), "{name}");
    });
}
