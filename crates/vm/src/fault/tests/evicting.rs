//! Tests of pages that leave memory.

use super::*;

#[test]
fn evict_stat_is_what_is_neither_queued_nor_sent() {
    let mut device = device(depths(4, 4, 3));
    for number in 1..=3 {
        device.evict(id(number), frame(number.into())).unwrap();
        assert_eq!(device.evict_slots(), 3 - number as usize, "several at once, without asking in between");
    }
    assert_eq!(device.evict(id(4), frame(4)), Err(Illegal::EvictQueueFull { depth: 3 }));
    device.next_eviction().unwrap();
    device.next_eviction().unwrap();
    assert_eq!((device.evict_slots(), device.evictions_under_way()), (0, 2), "sent is not complete");
    device.finish_eviction(id(2)).unwrap();
    assert_eq!(device.evict_slots(), 1);
    device.finish_eviction(id(1)).unwrap();
    device.next_eviction().unwrap();
    assert_eq!(device.evict_slots(), 2);
    device.finish_eviction(id(3)).unwrap();
    assert_eq!(device.evict_slots(), 3);
}

#[test]
fn pages_leave_in_order_and_arrive_in_any() {
    let mut device = device(depths(4, 4, 4));
    (1..=3).for_each(|number| device.evict(id(number), frame(number.into())).unwrap());
    let sent: Vec<_> = std::iter::from_fn(|| device.next_eviction()).map(|next| next.id.number()).collect();
    assert_eq!(sent, [1, 2, 3]);
    for number in [2, 3, 1] {
        assert_eq!(device.finish_eviction(id(number)), Ok(frame(number.into())));
    }
    assert_eq!(device.next_eviction(), None);
}

#[test]
fn an_eviction_is_complete_once_and_only_when_it_was_sent() {
    let mut device = device(depths(4, 4, 4));
    device.evict(id(1), frame(1)).unwrap();
    let before = device.clone();
    assert_eq!(device.finish_eviction(id(1)), Err(NotUnderWay::Eviction(id(1))));
    assert_eq!(device, before);
    device.next_eviction().unwrap();
    device.finish_eviction(id(1)).unwrap();
    assert_eq!(
        device.finish_eviction(id(1)).unwrap_err().to_string(),
        "no eviction of page 0x1 is under way"
    );
}

#[test]
fn the_smallest_and_the_largest_id_can_be_evicted_and_fetched() {
    for number in [0, 1, PageId::MAX.number()] {
        let mut device = device(depths(4, 4, 4));
        evict(&mut device, number, frame(3));
        give(&mut device, 3..4);
        assert_eq!(fetch(&mut device, number), frame(3));
        assert_eq!(pop(&mut device).0, number);
    }
}

/// The second must not overtake the first, or the older data would be the last to arrive.
#[test]
fn a_present_id_can_be_evicted_again_and_the_newest_arrives_last() {
    let mut device = device(depths(4, 4, 4));
    evict(&mut device, 1, frame(1));
    for (number, from) in [(1, 2), (1, 3), (9, 4)] {
        device.evict(id(number), frame(from)).unwrap();
    }
    assert_eq!(device.next_eviction(), Some(Eviction { id: id(1), frame: frame(2) }));
    assert_eq!(device.next_eviction(), None, "frame 3 is not sent yet");
    assert_eq!(device.finish_eviction(id(1)), Ok(frame(2)));
    assert_eq!(device.next_eviction(), Some(Eviction { id: id(1), frame: frame(3) }));
    assert_eq!(device.next_eviction(), Some(Eviction { id: id(9), frame: frame(4) }));
    assert_eq!(device.finish_eviction(id(1)), Ok(frame(3)));
}

#[test]
fn a_full_remote_memory_refuses_pages_that_it_does_not_have() {
    let design = AcceleratorDesign { remote_pages: Some(2), ..AcceleratorDesign::of_ram(RAM) };
    let mut device = Accelerator::new(design).unwrap();
    evict(&mut device, 5, frame(1));
    device.evict(id(6), frame(2)).unwrap();
    let before = device.clone();
    assert_eq!(device.evict(id(7), frame(3)), Err(Illegal::RemoteMemoryFull { pages: 2 }));
    assert_eq!(device.evict(id(6), RAM.end), Err(Illegal::NoMemory(RAM.end.addr())));
    assert_eq!(device, before);
    give(&mut device, 4..5);
    fetch(&mut device, 5);
    assert!(device.evict(id(7), frame(3)).is_err(), "a page that was fetched is kept");
    device.evict(id(5), frame(4)).unwrap();
}

/// Reading is not destructive.
#[test]
fn a_page_can_be_fetched_again_without_being_evicted_again() {
    let mut device = device(depths(4, 4, 4));
    evict(&mut device, 1, frame(1));
    give(&mut device, 2..4);
    assert_eq!((fetch(&mut device, 1), fetch(&mut device, 1)), (frame(2), frame(3)));
    assert_eq!(device.new_pages(), 2, "each is reported");
}

/// A system that always waits for EVICT_STAT to read the depth works with a device that is never busy, too.
#[test]
fn evictions_may_complete_at_once() {
    let mut device = device(depths(4, 4, 1));
    for number in 0..10 {
        evict(&mut device, number, frame(1));
        assert_eq!(device.load(24, 8), Ok(1));
    }
}
