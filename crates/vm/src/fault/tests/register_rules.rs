//! The register block: what is legal, and what it answers.

use super::*;
use crate::addr::PhysAddr;

/// What the specification's table says of one register: whether it may be loaded and stored to at all, and what else a
/// store or load depends on.
const TABLE: [(u64, &str, bool, bool); 8] = [
    (0, "FREE", false, true),
    (8, "FREE_STAT", true, false),
    (16, "EVICT", false, true),
    (24, "EVICT_STAT", true, false),
    (32, "NEW_PGID", true, false),
    (40, "NEW_VADDR", true, false),
    (48, "NEW_STAT", true, false),
    (56, "INIT_MEM", false, true),
];

/// How full each queue is: empty, partial, full.
const FILLS: [usize; 3] = [0, 1, 2];

/// A device of depth 2 whose queues hold so much. Ids and addresses can differ.
fn filled(free: usize, ids: usize, addrs: usize, evict: usize) -> Accelerator {
    let mut device = device(depths(2, 2, 2));
    for number in 0..ids.max(addrs) as u32 {
        give(&mut device, u64::from(number)..u64::from(number) + 1);
        fetch(&mut device, number);
    }
    for _ in ids..addrs {
        device.pop_new_id().unwrap();
    }
    for _ in addrs..ids {
        device.pop_new_addr().unwrap();
    }
    give(&mut device, 10..10 + free as u64);
    (0..evict).for_each(|at| device.evict(id(100 + at as u32), frame(20 + at as u64)).unwrap());
    device
}

/// All registers, all states, all sizes, aligned or not, stores of good and bad values.
#[test]
fn exactly_the_illegal_operations_are_refused_and_they_change_nothing() {
    let good = frame(30).addr().0;
    let stores = [good, good | 8, 0, RAM.end.addr().0, (RAM.end.addr().0 - 1) & !0xfff, u64::MAX];
    let mut checked = 0;
    for (free, ids, addrs, evict) in FILLS.into_iter().flat_map(|free| {
        FILLS.into_iter().flat_map(move |ids| {
            FILLS.into_iter().flat_map(move |addrs| FILLS.map(|evict| (free, ids, addrs, evict)))
        })
    }) {
        let device = filled(free, ids, addrs, evict);
        for offset in (0..72).chain([0x100, 0xff8, 0x1000, u64::MAX - 7, 1 << 32]) {
            let row = TABLE.iter().find(|row| row.0 == offset);
            for bytes in [0, 1, 2, 4, 8, 16] {
                let known = row.filter(|_| bytes == 8);
                let allowed = known.is_some_and(|&(_, name, load, _)| {
                    load && !(name == "NEW_PGID" && ids == 0) && !(name == "NEW_VADDR" && addrs == 0)
                });
                let mut after = device.clone();
                let result = after.load(offset, bytes);
                assert_eq!(result.is_ok(), allowed, "load of {bytes} at {offset}: {result:?} of {device:?}");
                assert!(allowed || after == device, "an illegal load changed {device:?} to {after:?}");
                for value in stores {
                    let in_ram = RAM.contains(&PhysAddr(value).frame());
                    let evicts_ram = RAM.contains(&Pfn(value & 0xf_ffff_ffff));
                    let allowed = known.is_some_and(|&(_, name, _, store)| match name {
                        "FREE" => free < 2 && in_ram && value % 4096 == 0,
                        "EVICT" => evict < 2 && evicts_ram,
                        _ => store,
                    });
                    let mut after = device.clone();
                    let result = after.store(offset, bytes, value);
                    assert_eq!(result.is_ok(), allowed, "store of {value:#x} at {offset}: {result:?}");
                    assert!(allowed || after == device, "an illegal store changed {device:?} to {after:?}");
                    checked += 1;
                }
            }
        }
    }
    assert_eq!(checked, 81 * 77 * 6 * 6);
}

#[test]
fn free_takes_frames_until_its_queue_is_full() {
    let mut device = device(depths(3, 4, 4));
    for unused in (0..3).rev() {
        device.store(0, 8, frame(unused).addr().0).unwrap();
        assert_eq!(device.load(8, 8), Ok(unused));
    }
    assert_eq!(device.store(0, 8, frame(9).addr().0), Err(Illegal::FreeQueueFull { depth: 3 }));
    assert_eq!(device.load(0, 8), Err(Illegal::StoreOnly(Register::Free)));
    assert_eq!(fetch(&mut device, 1), frame(2), "the first one");
    assert_eq!(device.load(8, 8), Ok(1));
}

#[test]
fn free_takes_only_addresses_of_frames_in_memory() {
    let mut device = device(depths(3, 4, 4));
    for outside in [0, RAM.start.addr().0 - 4096, RAM.end.addr().0, !0xfff] {
        assert_eq!(device.store(0, 8, outside), Err(Illegal::NoMemory(PhysAddr(outside))));
    }
    let inside = frame(1).addr().0 + 8;
    assert_eq!(device.store(0, 8, inside), Err(Illegal::Unaligned(PhysAddr(inside))));
    assert_eq!(device.load(8, 8), Ok(3));
}

#[test]
fn an_idle_device_reads_its_depths_and_no_new_page() {
    for (free, new, evict) in [(64, 64, 64), (1, 2, 256), (256, 1, 10)] {
        let mut device = device(depths(free, new, evict));
        let stats = [8, 24, 48].map(|offset| device.load(offset, 8).unwrap());
        assert_eq!(stats, [free as u64, evict as u64, 0]);
    }
    assert_eq!(Depths::default(), depths(64, 64, 64));
}

/// Appendix B.4.3, not Figure 7.
#[test]
fn evict_takes_a_packed_frame_number_and_id() {
    let mut device = device(Depths::default());
    let word = 0xabc_def1 << 36 | frame(5).0;
    assert_eq!(Accelerator::evict_word(id(0xabc_def1), frame(5)), word);
    assert_eq!((word << 28) >> 16, frame(5).addr().0);
    device.store(16, 8, word).unwrap();
    assert_eq!(device.next_eviction(), Some(Eviction { id: id(0xabc_def1), frame: frame(5) }));
}

#[test]
fn evict_takes_only_frames_in_memory() {
    let mut device = device(Depths::default());
    for outside in [Pfn(0), Pfn(RAM.start.0 - 1), RAM.end, Pfn((1 << 36) - 1)] {
        let word = Accelerator::evict_word(id(1), outside);
        assert_eq!(device.store(16, 8, word), Err(Illegal::NoMemory(outside.addr())));
    }
    assert_eq!(device.load(24, 8), Ok(64));
}

#[test]
fn new_pgid_has_52_bits_and_new_vaddr_is_that_of_the_page() {
    let mut device = device(Depths::default());
    give(&mut device, 0..1);
    let entry = RemotePte { id: PageId::MAX, protection: 0, reserved: 0xabcdef };
    let Fetch::Read { handle, .. } = device.begin_fetch(entry, VirtAddr(0xffff_ffc0_1234_5678)) else {
        panic!("a frame is there")
    };
    device.finish_fetch(handle).unwrap();
    assert_eq!(device.load(32, 8), Ok(0xabcdef << 28 | 0xfff_ffff));
    assert_eq!(device.load(40, 8), Ok(0xffff_ffc0_1234_5000));
}

#[test]
fn init_mem_takes_anything_and_cannot_be_loaded() {
    let mut device = device(Depths::default());
    assert_eq!(device.init_word(), None);
    for value in [0, 0x1234, 0x0000_a0b1_c2d3_e4f5, u64::MAX] {
        device.store(56, 8, value).unwrap();
        assert_eq!(device.init_word(), Some(value));
    }
    assert_eq!(device.load(56, 8), Err(Illegal::StoreOnly(Register::InitMem)));
}

#[test]
fn the_device_needs_no_init_mem() {
    let mut device = device(Depths::default());
    give(&mut device, 0..1);
    assert_eq!(fetch(&mut device, 1), frame(0));
}

/// NEW_STAT is the maximum of both.
#[test]
fn new_stat_counts_the_fuller_queue() {
    let mut device = filled(0, 2, 2, 0);
    assert_eq!(device.load(48, 8), Ok(2));
    device.load(32, 8).unwrap();
    assert_eq!(device.load(48, 8), Ok(2), "there are two addresses");
    device.load(32, 8).unwrap();
    device.load(40, 8).unwrap();
    assert_eq!(device.load(48, 8), Ok(1));
    assert_eq!(device.load(32, 8), Err(Illegal::NewQueueEmpty));
    device.load(40, 8).unwrap();
    assert_eq!(device.load(48, 8), Ok(0));
    assert_eq!(device.load(40, 8), Err(Illegal::NewQueueEmpty));
}

#[test]
fn impossible_designs_are_named() {
    let good = AcceleratorDesign::of_ram(RAM);
    for (what, design) in [
        ("free queue", AcceleratorDesign { depths: depths(0, 1, 1), ..good.clone() }),
        ("new queue", AcceleratorDesign { depths: depths(1, 0, 1), ..good.clone() }),
        ("evict queue", AcceleratorDesign { depths: depths(1, 1, 1 << 17), ..good.clone() }),
        ("fetches at once", AcceleratorDesign { fetches: 0, ..good.clone() }),
        ("frames", AcceleratorDesign { ram: Pfn(5)..Pfn(5), ..good.clone() }),
        ("frames", AcceleratorDesign { ram: Pfn(5)..Pfn((1 << 36) + 1), ..good.clone() }),
    ] {
        assert_eq!(Accelerator::new(design).unwrap_err().what, what);
    }
    assert!(Accelerator::new(good).is_ok());
}

#[test]
fn complaints_say_what_and_how_much() {
    let mut device = device(depths(1, 1, 1));
    let text = |result: Result<u64, Illegal>| result.unwrap_err().to_string();
    assert_eq!(
        text(device.load(12, 4)),
        "no register of 4 bytes at offset 0xc; there are eight of 8 bytes, at 0 to 56"
    );
    assert_eq!(text(device.load(16, 8)), "EVICT cannot be loaded");
    assert_eq!(device.store(48, 8, 0).unwrap_err().to_string(), "NEW_STAT cannot be stored to");
    give(&mut device, 0..1);
    assert_eq!(device.give_frame(frame(1)).unwrap_err().to_string(), "the free queue is full: 1 frames");
    for (register, (offset, name, ..)) in Register::ALL.into_iter().zip(TABLE) {
        assert_eq!((register.offset(), register.name()), (offset, name));
    }
}
