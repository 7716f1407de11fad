//! Tests of pages that come back.

use super::*;

#[test]
fn a_fetch_takes_one_frame_and_reports_one_page() {
    let mut device = device(depths(4, 4, 4));
    give(&mut device, 0..3);
    let (handle, into) = read(&mut device, 7);
    assert_eq!((into, device.new_pages()), (frame(0), 0), "not reported before it is there");
    assert_eq!(device.finish_fetch(handle), Ok(remote(7).local(frame(0))));
    assert_eq!((device.free_slots(), device.new_pages()), (2, 1));
    assert_eq!(pop(&mut device), (7, VirtAddr(0x4000_7000)));
    assert_eq!(device.new_pages(), 0);
}

#[test]
fn frames_leave_in_the_order_in_which_they_came() {
    let mut device = device(depths(8, 8, 8));
    for index in [5, 3, 9, 3] {
        device.give_frame(frame(index)).unwrap();
    }
    // In the reverse order of eviction, or any other: it does not matter which page.
    let frames: Vec<_> = [40, 30, 20].map(|number| fetch(&mut device, number)).into();
    assert_eq!(frames, [frame(5), frame(3), frame(9)]);
    give(&mut device, 1..2);
    assert_eq!((fetch(&mut device, 10), fetch(&mut device, 11)), (frame(3), frame(1)));
}

/// Whatever the id, one that is being evicted too.
#[test]
fn without_a_free_frame_it_is_a_page_fault_and_nothing_changes() {
    let mut device = device(depths(4, 4, 4));
    device.evict(id(1), frame(0)).unwrap();
    for number in [0, 1, 5, PageId::MAX.number()] {
        let before = device.clone();
        assert_eq!(touch(&mut device, number), Fetch::NoFreeFrame);
        assert_eq!(device, before);
    }
    give(&mut device, 1..2);
    assert_eq!(fetch(&mut device, 5), frame(1), "and once more, with a frame");
}

#[test]
fn with_a_full_new_queue_it_is_a_page_fault_and_nothing_changes() {
    let mut device = device(depths(4, 2, 4));
    give(&mut device, 0..3);
    fetch(&mut device, 1);
    fetch(&mut device, 2);
    device.evict(id(3), frame(9)).unwrap();
    for number in [3, 4] {
        let before = device.clone();
        assert_eq!(touch(&mut device, number), Fetch::NewQueueFull);
        assert_eq!(device, before);
    }
    pop(&mut device);
    assert_eq!(fetch(&mut device, 4), frame(2));
}

#[test]
fn either_of_the_two_new_queues_is_enough_to_fault() {
    for pops_ids in [false, true] {
        let mut device = device(depths(4, 1, 4));
        give(&mut device, 0..2);
        fetch(&mut device, 1);
        let pop_one = |device: &mut Accelerator, ids: bool| match ids {
            true => drop(device.pop_new_id().unwrap()),
            false => drop(device.pop_new_addr().unwrap()),
        };
        pop_one(&mut device, pops_ids);
        assert_eq!(touch(&mut device, 2), Fetch::NewQueueFull);
        pop_one(&mut device, !pops_ids);
        fetch(&mut device, 2);
    }
}

#[test]
fn an_empty_free_queue_comes_before_a_full_new_queue() {
    let mut device = device(depths(1, 1, 1));
    give(&mut device, 0..1);
    fetch(&mut device, 1);
    assert_eq!(touch(&mut device, 2), Fetch::NoFreeFrame);
    give(&mut device, 1..2);
    assert_eq!(touch(&mut device, 2), Fetch::NewQueueFull);
}

#[test]
fn ids_and_addresses_stay_in_step_however_they_are_popped() {
    let mut device = device(depths(4, 3, 4));
    give(&mut device, 0..4);
    fetch(&mut device, 1);
    fetch(&mut device, 2);
    // An address, another fetch, and only then the id.
    assert_eq!(device.pop_new_addr(), Ok(VirtAddr(0x4000_1000)));
    assert!(!device.new_queues_agree());
    fetch(&mut device, 3);
    assert_eq!(device.pop_new_id().unwrap().id, id(1));
    assert!(device.new_queues_agree());
    // All ids first, all addresses afterwards.
    assert_eq!([2, 3].map(|_| device.pop_new_id().unwrap().id), [id(2), id(3)]);
    fetch(&mut device, 4);
    give(&mut device, 4..5);
    assert_eq!(touch(&mut device, 5), Fetch::NewQueueFull, "there are three addresses");
    let addrs = [2, 3, 4].map(|_| device.pop_new_addr().unwrap().0);
    assert_eq!(addrs, [0x4000_2000, 0x4000_3000, 0x4000_4000]);
    assert_eq!(device.pop_new_id().unwrap().id, id(4));
}

/// The device knows no permissions: it fetches, and the ordinary check of the local entry follows.
#[test]
fn a_page_without_permissions_is_fetched_and_reported_all_the_same() {
    for protection in [0, RemotePte::READ, RemotePte::VALID, 0x3ff & !RemotePte::VALID] {
        let mut device = device(depths(4, 4, 4));
        give(&mut device, 0..1);
        let entry = RemotePte { protection, ..remote(1) };
        let Fetch::Read { handle, frame: into, .. } = device.begin_fetch(entry, addr(1)) else {
            panic!("a frame is there")
        };
        assert_eq!(device.finish_fetch(handle), Ok(into.0 << 10 | u64::from(protection)));
        assert_eq!(pop(&mut device).0, 1);
    }
}

#[test]
fn a_page_that_is_on_its_way_out_is_waited_for() {
    let mut device = device(depths(4, 4, 4));
    give(&mut device, 0..2);
    device.evict(id(1), frame(8)).unwrap();
    device.evict(id(2), frame(9)).unwrap();
    for sent in [false, true] {
        device.next_eviction().unwrap();
        let before = device.clone();
        assert_eq!(touch(&mut device, 1), Fetch::AfterEviction(id(1)), "sent too: {sent}");
        assert_eq!(touch(&mut device, 2), Fetch::AfterEviction(id(2)), "sent: {sent}");
        assert_eq!(device, before);
    }
    assert_eq!(device.finish_eviction(id(2)), Ok(frame(9)));
    assert_eq!(fetch(&mut device, 2), frame(0));
    assert_eq!(touch(&mut device, 1), Fetch::AfterEviction(id(1)));
    device.finish_eviction(id(1)).unwrap();
    assert_eq!(fetch(&mut device, 1), frame(1));
}

#[test]
fn a_page_that_is_evicted_twice_is_waited_for_twice() {
    let mut device = device(depths(4, 4, 4));
    give(&mut device, 0..1);
    for into in [8, 9] {
        device.evict(id(1), frame(into)).unwrap();
    }
    for _ in 0..2 {
        device.next_eviction().unwrap();
        assert_eq!(touch(&mut device, 1), Fetch::AfterEviction(id(1)));
        device.finish_eviction(id(1)).unwrap();
    }
    fetch(&mut device, 1);
}

#[test]
fn an_id_that_was_never_evicted_is_read_like_any_other() {
    let mut device = device(depths(4, 4, 4));
    give(&mut device, 0..1);
    fetch(&mut device, 77);
    assert_eq!(pop(&mut device).0, 77);
}

#[test]
fn a_refused_fetch_leaves_its_frame_at_the_head_and_reports_nothing() {
    let mut device = device(depths(4, 4, 4));
    give(&mut device, 0..2);
    let (handle, into) = read(&mut device, 1);
    assert_eq!(device.refuse_fetch(handle), Ok(RefusedFetch { frame: into, overtaken_by: 0 }));
    assert_eq!((device.free_slots(), device.new_pages()), (2, 0));
    assert_eq!(fetch(&mut device, 2), into);
}

#[test]
fn a_fetch_ends_once() {
    let mut device = device_with(depths(4, 4, 4), 2);
    give(&mut device, 0..2);
    let (older, _) = read(&mut device, 1);
    let (handle, _) = read(&mut device, 2);
    device.finish_fetch(handle).unwrap();
    let before = device.clone();
    assert_eq!(device.finish_fetch(handle), Err(NotUnderWay::Fetch(handle)));
    assert_eq!(device.refuse_fetch(handle), Err(NotUnderWay::Fetch(handle)));
    assert_eq!(device, before);
    device.refuse_fetch(older).unwrap();
    assert_eq!(device.finish_fetch(older).unwrap_err().to_string(), "fetch 0 is not under way");
}

#[test]
fn no_more_fetches_are_under_way_than_there_may_be() {
    let mut device = device_with(depths(8, 8, 8), 2);
    give(&mut device, 0..8);
    let (first, _) = read(&mut device, 1);
    let (second, _) = read(&mut device, 2);
    let before = device.clone();
    assert_eq!(touch(&mut device, 3), Fetch::AfterFetch);
    assert_eq!(device, before);
    device.finish_fetch(first).unwrap();
    read(&mut device, 3);
    assert_eq!(device.fetches_under_way(), 2);
    device.finish_fetch(second).unwrap();
    assert_eq!(device.fetches_under_way(), 1);
}

#[test]
fn a_page_that_is_being_fetched_is_not_fetched_again() {
    let mut device = device_with(depths(8, 8, 8), 4);
    give(&mut device, 0..8);
    let (handle, _) = read(&mut device, 1);
    assert!(device.is_fetching(id(1)) && !device.is_fetching(id(2)));
    assert_eq!(touch(&mut device, 1), Fetch::AfterFetch);
    device.finish_fetch(handle).unwrap();
    assert!(!device.is_fetching(id(1)));
    assert_eq!(device.new_pages(), 1);
}

/// The system finds frames by counting.
#[test]
fn pages_are_reported_in_the_order_of_their_frames_whatever_arrives_first() {
    let mut device = device_with(depths(8, 8, 8), 3);
    give(&mut device, 0..3);
    let handles = [1, 2, 3].map(|number| read(&mut device, number).0);
    assert_eq!(device.finish_fetch(handles[2]), Ok(remote(3).local(frame(2))), "the program goes on");
    assert_eq!(device.new_pages(), 0);
    device.finish_fetch(handles[0]).unwrap();
    assert_eq!((device.new_pages(), pop(&mut device).0), (1, 1));
    device.finish_fetch(handles[1]).unwrap();
    assert_eq!([2, 3].map(|_| pop(&mut device).0), [2, 3]);
}

#[test]
fn fetches_under_way_hold_room_in_the_new_queues() {
    let mut device = device_with(depths(8, 3, 8), 8);
    give(&mut device, 0..8);
    fetch(&mut device, 1);
    let (second, _) = read(&mut device, 2);
    read(&mut device, 3);
    assert_eq!(touch(&mut device, 4), Fetch::AfterFetch, "the system could not help");
    device.finish_fetch(second).unwrap();
    assert_eq!(touch(&mut device, 4), Fetch::AfterFetch);
    pop(&mut device);
    read(&mut device, 4);
}

#[test]
fn fetches_under_way_hold_the_slots_of_their_frames() {
    let mut device = device_with(depths(2, 8, 8), 8);
    give(&mut device, 0..2);
    let (first, _) = read(&mut device, 1);
    assert_eq!(device.free_slots(), 0);
    assert_eq!(device.give_frame(frame(5)), Err(Illegal::FreeQueueFull { depth: 2 }));
    let (second, _) = read(&mut device, 2);
    assert_eq!(touch(&mut device, 3), Fetch::AfterFetch, "the system could not help");
    device.finish_fetch(second).unwrap();
    assert_eq!((device.free_slots(), touch(&mut device, 3)), (1, Fetch::NoFreeFrame));
    device.refuse_fetch(first).unwrap();
    assert_eq!(fetch(&mut device, 3), frame(0));
}

/// Frame 0 is used after frames 1 and 2 then, and the page in frame 1 need not wait any more.
#[test]
fn a_refused_fetch_is_overtaken_by_those_after_it() {
    let mut device = device_with(depths(8, 8, 8), 3);
    give(&mut device, 0..3);
    let handles = [1, 2, 3].map(|number| read(&mut device, number).0);
    device.finish_fetch(handles[1]).unwrap();
    assert_eq!(device.new_pages(), 0);
    assert_eq!(device.refuse_fetch(handles[0]), Ok(RefusedFetch { frame: frame(0), overtaken_by: 2 }));
    assert_eq!(device.new_pages(), 1);
    device.finish_fetch(handles[2]).unwrap();
    assert_eq!(fetch(&mut device, 4), frame(0));
    assert_eq!([0; 3].map(|_| pop(&mut device).0), [2, 3, 4]);
}
