//! The system's list of frames, and its page-fault handler.

use super::*;

/// A device and the list beside it.
fn pair(depths: Depths, fetches: usize) -> (Accelerator, FrameFifo) {
    (device_with(depths, fetches), FrameFifo::new(depths))
}

fn frames(range: std::ops::Range<u64>) -> impl Iterator<Item = Pfn> {
    range.map(frame)
}

/// Number and frame of each drained page.
fn drain(fifo: &mut FrameFifo, device: &mut Accelerator) -> Vec<(u32, Pfn)> {
    let pages = fifo.drain(device).unwrap();
    pages.iter().for_each(|page| assert_eq!(page.addr.0, addr(page.id.number()).0 & !0xfff));
    pages.iter().map(|page| (page.id.number(), page.frame)).collect()
}

#[test]
fn filling_stops_when_the_queue_is_full_and_takes_no_frame_too_many() {
    let (mut device, mut fifo) = pair(depths(3, 2, 1), 1);
    let mut pool = frames(0..10);
    assert_eq!(fifo.fill(&mut device, &mut pool), Ok(3));
    assert_eq!(pool.next(), Some(frame(3)));
    assert_eq!(fifo.fill(&mut device, &mut pool), Ok(0), "legal, if needless");
    fetch(&mut device, 1);
    assert_eq!(fifo.fill(&mut device, std::iter::empty()), Ok(0));
    assert_eq!(fifo.fill(&mut device, &mut pool), Ok(1));
    assert_eq!(fifo.len(), 4, "with that of the page that is not booked");
}

#[test]
fn draining_finds_each_pages_frame() {
    let (mut device, mut fifo) = pair(depths(4, 4, 4), 1);
    fifo.fill(&mut device, [9, 2, 7].map(frame)).unwrap();
    assert_eq!(drain(&mut fifo, &mut device), [], "legal, if needless");
    fetch(&mut device, 30);
    fetch(&mut device, 10);
    assert_eq!(drain(&mut fifo, &mut device), [(30, frame(9)), (10, frame(2))]);
    fetch(&mut device, 20);
    assert_eq!(drain(&mut fifo, &mut device), [(20, frame(7))]);
    assert!(fifo.is_empty());
}

#[test]
fn draining_takes_nothing_when_the_queues_are_out_of_step() {
    let (mut device, mut fifo) = pair(depths(4, 4, 4), 1);
    fifo.fill(&mut device, frames(0..2)).unwrap();
    fetch(&mut device, 1);
    fetch(&mut device, 2);
    device.pop_new_id().unwrap();
    let before = device.clone();
    assert_eq!(fifo.drain(&mut device), Err(BookError::OutOfStep));
    assert_eq!((device == before, fifo.len()), (true, 2));
}

#[test]
fn a_frame_of_the_device_is_neither_given_nor_evicted_until_its_page_is_booked() {
    let (mut device, mut fifo) = pair(depths(4, 4, 4), 1);
    fifo.give(&mut device, frame(1)).unwrap();
    let mut handle = None;
    for stage in ["free", "being filled", "not booked"] {
        let before = device.clone();
        assert_eq!(fifo.give(&mut device, frame(1)), Err(BookError::NotOurs(frame(1))), "{stage}");
        assert_eq!(fifo.evict(&mut device, id(5), frame(1)), Err(BookError::NotOurs(frame(1))), "{stage}");
        assert_eq!(device, before, "{stage}");
        match stage {
            "free" => handle = Some(read(&mut device, 3).0),
            "being filled" => drop(device.finish_fetch(handle.unwrap()).unwrap()),
            _ => assert_eq!(drain(&mut fifo, &mut device), [(3, frame(1))]),
        }
    }
    fifo.evict(&mut device, id(5), frame(1)).unwrap();
}

#[test]
fn what_the_device_refuses_is_not_in_the_list() {
    let (mut device, mut fifo) = pair(depths(1, 1, 1), 1);
    assert_eq!(fifo.give(&mut device, RAM.end), Err(Illegal::NoMemory(RAM.end.addr()).into()));
    fifo.give(&mut device, frame(0)).unwrap();
    assert_eq!(fifo.give(&mut device, frame(1)), Err(Illegal::FreeQueueFull { depth: 1 }.into()));
    assert!(fifo.len() == 1 && !fifo.contains(frame(1)));
    assert!(fifo.evict(&mut device, id(1), RAM.end).is_err());
}

#[test]
fn the_list_follows_refused_fetches() {
    let (mut device, mut fifo) = pair(depths(8, 8, 8), 4);
    fifo.fill(&mut device, frames(0..6)).unwrap();
    fetch(&mut device, 9);
    let handles = [1, 2, 3, 4].map(|number| read(&mut device, number).0);
    // Frames 1 and 2 go back to the head, the later one last, and 3 and 4 have overtaken both.
    for at in [0, 1] {
        fifo.refused(device.refuse_fetch(handles[at]).unwrap());
    }
    device.finish_fetch(handles[3]).unwrap();
    device.finish_fetch(handles[2]).unwrap();
    let again = [1, 2].map(|number| fetch(&mut device, number));
    assert_eq!(again, [frame(2), frame(1)]);
    let drained = drain(&mut fifo, &mut device);
    assert_eq!(drained, [(9, 0), (3, 3), (4, 4), (1, 2), (2, 1)].map(|(number, at)| (number, frame(at))));
}

#[test]
fn the_handler_tells_a_service_request_from_an_ordinary_fault() {
    let mut device = device(depths(1, 1, 1));
    let request = |device: &Accelerator, word| ServiceRequest::of_fault(word, device);
    let reasons = |no_frames, new_queue_full| Some(ServiceRequest { no_frames, new_queue_full });
    for ordinary in [0, remote(1).local(frame(1)), remote(1).encode() | 1, remote(1).encode() & !2] {
        assert_eq!(request(&device, ordinary), None);
    }
    let entry = remote(1).encode();
    assert_eq!(request(&device, entry), reasons(true, false));
    give(&mut device, 0..1);
    assert_eq!(request(&device, entry), reasons(false, false));
    fetch(&mut device, 2);
    assert_eq!(request(&device, entry), reasons(true, true));
    give(&mut device, 1..2);
    assert_eq!(request(&device, entry), reasons(false, true));
}

#[test]
fn the_handler_fills_and_drains_and_tells_the_daemon() {
    let (mut device, mut fifo) = pair(depths(2, 2, 1), 1);
    let mut timer = BookkeepingTimer::default();
    let mut pool = frames(0..100);
    assert_eq!(touch(&mut device, 1), Fetch::NoFreeFrame);
    let served = fifo.serve(&mut device, &mut timer, &mut pool).unwrap();
    assert_eq!((served.given, served.pages.len()), (2, 0));
    fetch(&mut device, 1);
    fetch(&mut device, 2);
    assert_eq!(touch(&mut device, 3), Fetch::NoFreeFrame);
    let served = fifo.serve(&mut device, &mut timer, &mut pool).unwrap();
    assert_eq!((served.given, served.pages.len()), (2, 2));
    assert_eq!(*timer.sleep_ps().start(), 8_000_000_000);
    fetch(&mut device, 3);
}
