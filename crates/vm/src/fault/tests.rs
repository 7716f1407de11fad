//! One test for each rule of the specification and each exceptional case, then random traces against an independent model
//! (`trace.rs`) and under a small operating system with data in its pages (`system.rs`).

mod entries;
mod evicting;
mod fetching;
mod model;
mod programs;
mod register_rules;
mod service;
mod system;
mod timer;
mod trace;

use super::*;
use crate::addr::{Pfn, VirtAddr};

const RAM: std::ops::Range<Pfn> = Pfn(0x80000)..Pfn(0x81000);

fn depths(free: usize, new: usize, evict: usize) -> Depths {
    Depths { free, new, evict }
}

/// One fetch at a time, as published.
fn device(depths: Depths) -> Accelerator {
    device_with(depths, 1)
}

fn device_with(depths: Depths, fetches: usize) -> Accelerator {
    Accelerator::new(AcceleratorDesign { depths, fetches, ..AcceleratorDesign::of_ram(RAM) }).unwrap()
}

/// Frame number `index` of memory.
fn frame(index: u64) -> Pfn {
    RAM.start.add(index)
}

fn id(number: u32) -> PageId {
    PageId::new(number).unwrap()
}

fn remote(number: u32) -> RemotePte {
    RemotePte { id: id(number), protection: 0xd7, reserved: 0 }
}

/// Any access within the page that [`remote`] belongs to in these tests.
fn addr(number: u32) -> VirtAddr {
    VirtAddr(0x4000_0000 + u64::from(number) * 4096 + 0x123)
}

fn touch(device: &mut Accelerator, number: u32) -> Fetch {
    device.begin_fetch(remote(number), addr(number))
}

/// A touch that begins a fetch.
fn read(device: &mut Accelerator, number: u32) -> (FetchHandle, Pfn) {
    match touch(device, number) {
        Fetch::Read { handle, id: read, frame } => {
            assert_eq!(read, id(number));
            (handle, frame)
        }
        fetch => panic!("page {number}: {fetch:?}"),
    }
}

/// A whole fetch; gives the frame.
fn fetch(device: &mut Accelerator, number: u32) -> Pfn {
    let (handle, frame) = read(device, number);
    assert_eq!(device.finish_fetch(handle), Ok(remote(number).local(frame)));
    frame
}

/// A whole eviction.
fn evict(device: &mut Accelerator, number: u32, frame: Pfn) {
    device.evict(id(number), frame).unwrap();
    assert_eq!(device.next_eviction(), Some(Eviction { id: id(number), frame }));
    assert_eq!(device.finish_eviction(id(number)), Ok(frame));
}

/// The next page that the device reports.
fn pop(device: &mut Accelerator) -> (u32, VirtAddr) {
    (device.pop_new_id().unwrap().id.number(), device.pop_new_addr().unwrap())
}

fn give(device: &mut Accelerator, frames: std::ops::Range<u64>) {
    frames.for_each(|index| device.give_frame(frame(index)).unwrap());
}
