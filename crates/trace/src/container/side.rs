//! The side stream of a chunk: the shape of its batches and their marks.
//!
//! For each batch: its number of accesses, its number of marks; then for each mark the accesses since the mark
//! before it (since the batch's start for the first), a tag byte and the event's fields. In a chunk that has a block stream, the
//! number of blocks follows on that of marks, and in each mark the blocks since the mark before it on the accesses. All numbers are
//! LEB128.
//!
//! | tag | event | fields |
//! |---|---|---|
//! | 0 | `Instructions` | count |
//! | 1, 2 | `Thread`, `ThreadEnd` | thread |
//! | 3, 4 | `Process`, `Fork` | process |
//! | 5, 6 | `Exec`, `ProcessEnd` | |
//! | 7 | `Map` | start, end, one byte: bits 0 to 2 read, write, execute; 3 file; 4 shared; 5 and 6 the explicit page size: 0 none, 1 4 KiB, 2 2 MiB, 3 1 GiB; from version 2 on 7: the number of the object and of its first page follow |
//! | 8 | `Unmap` | start, end |
//! | 9 | `Protect` | start, end, one byte: read, write, execute |
//! | 10 | `Advise` | start, end, one byte: the place in [`Advice::ALL`]; version 1 has the first four |
//! | 11 | `Remap` | start, end, new start, new end |
//! | 12 | `Break` | start, end |
//! | 13 | `Phase` | number of bytes, UTF-8 text |
//! | 14 | `JobBegin` | 0, or the arrival's picosecond plus 1 |
//! | 15 | `JobEnd` | |
//! | 16 | `ThreadStack` | start, end |
//! | 17 | `Unobserved`, from version 3 on | number of bytes, UTF-8 text |
//! | 18 | `Frame`, from version 3 on | page number, frame number, one byte: the page's size, 0 4 KiB, 1 2 MiB, 2 1 GiB |
//! | 19 | `Code`, from version 4 on | number of the block, address, one byte: the place in [`Isa::ALL`]; number of bytes, the bytes |
//! | 20 | `KernelWrite`, from version 5 on | start, end |

use pagewalk_vm::addr::{PageSize, Pfn, VirtAddr, VirtRange, Vpn};

use super::varint;
use crate::event::{
    Advice, Backing, BlockId, Code, Event, Isa, Mapping, Mark, ObjectId, ObjectPages, PageFrame, ProcessId,
    Protection, ThreadId,
};

/// The numbers of accesses, of marks and of executed blocks of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) accesses: u64,
    pub(super) marks: u64,
    pub(super) blocks: u64,
}

/// Appends a batch's shape and its sorted marks, for a chunk with a block stream or for one without.
pub(super) fn put_batch(out: &mut Vec<u8>, shape: Shape, marks: &[Mark], with_blocks: bool) {
    varint::put(out, shape.accesses);
    varint::put(out, shape.marks);
    if with_blocks {
        varint::put(out, shape.blocks);
    }
    let mut previous = (0, 0);
    for mark in marks {
        varint::put(out, u64::from(mark.at - previous.0));
        if with_blocks {
            varint::put(out, u64::from(mark.blocks - previous.1));
        }
        previous = (mark.at, mark.blocks);
        put_event(out, &mark.event);
    }
}

/// Takes the shape of the next batch of a chunk with a block stream, or of one without.
pub(super) fn take_shape(input: &mut &[u8], with_blocks: bool) -> Option<Shape> {
    let (accesses, marks) = (varint::take(input)?, varint::take(input)?);
    let blocks = if with_blocks { varint::take(input)? } else { 0 };
    Some(Shape { accesses, marks, blocks })
}

/// Takes the next mark of a batch, behind one at `previous` accesses and blocks.
pub(super) fn take_mark(input: &mut &[u8], previous: (u32, u32), with_blocks: bool) -> Option<Mark> {
    let mut next = |previous: u32| {
        let place = u64::from(previous).checked_add(varint::take(input)?)?;
        u32::try_from(place).ok()
    };
    let at = next(previous.0)?;
    let blocks = if with_blocks { next(previous.1)? } else { 0 };
    Some(Mark { at, blocks, event: take_event(input)? })
}

fn put_event(out: &mut Vec<u8>, event: &Event) {
    match event {
        Event::Instructions(count) => put_fields(out, 0, &[*count]),
        Event::Thread(thread) => put_fields(out, 1, &[thread.0.into()]),
        Event::ThreadEnd(thread) => put_fields(out, 2, &[thread.0.into()]),
        Event::Process(process) => put_fields(out, 3, &[process.0.into()]),
        Event::Fork { child } => put_fields(out, 4, &[child.0.into()]),
        Event::Exec => put_fields(out, 5, &[]),
        Event::ProcessEnd => put_fields(out, 6, &[]),
        Event::Map(mapping) => {
            put_range(out, 7, mapping.range);
            out.push(mapping_bits(mapping));
            if let Some(ObjectPages { object, first }) = mapping.object {
                varint::put(out, object.0);
                varint::put(out, first);
            }
        }
        Event::Unmap(range) => put_range(out, 8, *range),
        Event::Protect(range, protection) => {
            put_range(out, 9, *range);
            out.push(protection_bits(*protection));
        }
        Event::Advise(range, advice) => {
            put_range(out, 10, *range);
            let code = Advice::ALL.iter().position(|known| known == advice);
            out.push(code.expect("every advice is in the list") as u8);
        }
        Event::Remap { from, to } => {
            put_range(out, 11, *from);
            varint::put(out, to.start.0);
            varint::put(out, to.end.0);
        }
        Event::Break(range) => put_range(out, 12, *range),
        Event::Phase(name) => put_text(out, 13, name),
        Event::JobBegin { arrival_ps } => {
            put_fields(out, 14, &[arrival_ps.map_or(0, |ps| ps.saturating_add(1))])
        }
        Event::JobEnd => put_fields(out, 15, &[]),
        Event::ThreadStack(range) => put_range(out, 16, *range),
        Event::Unobserved(text) => put_text(out, 17, text),
        Event::Frame(given) => {
            put_fields(out, 18, &[given.page().0, given.frame().0]);
            out.push(given.size() as u8);
        }
        Event::Code(code) => {
            put_fields(out, 19, &[code.block.0.into(), code.addr.0]);
            let isa = Isa::ALL.iter().position(|isa| *isa == code.isa);
            out.push(isa.expect("every instruction set is in the list") as u8);
            varint::put(out, code.bytes.len() as u64);
            out.extend_from_slice(&code.bytes);
        }
        Event::KernelWrite(range) => put_range(out, 20, *range),
    }
}

fn put_text(out: &mut Vec<u8>, tag: u8, text: &str) {
    put_fields(out, tag, &[text.len() as u64]);
    out.extend_from_slice(text.as_bytes());
}

fn put_fields(out: &mut Vec<u8>, tag: u8, fields: &[u64]) {
    out.push(tag);
    for &field in fields {
        varint::put(out, field);
    }
}

fn put_range(out: &mut Vec<u8>, tag: u8, range: VirtRange) {
    put_fields(out, tag, &[range.start.0, range.end.0]);
}

fn take_event(input: &mut &[u8]) -> Option<Event> {
    Some(match take_byte(input)? {
        0 => Event::Instructions(varint::take(input)?),
        1 => Event::Thread(ThreadId(take_u32(input)?)),
        2 => Event::ThreadEnd(ThreadId(take_u32(input)?)),
        3 => Event::Process(ProcessId(take_u32(input)?)),
        4 => Event::Fork { child: ProcessId(take_u32(input)?) },
        5 => Event::Exec,
        6 => Event::ProcessEnd,
        7 => Event::Map(take_mapping(input)?),
        8 => Event::Unmap(take_range(input)?),
        9 => Event::Protect(take_range(input)?, protection_from(take_byte(input)?)?),
        10 => Event::Advise(take_range(input)?, *Advice::ALL.get(usize::from(take_byte(input)?))?),
        11 => Event::Remap { from: take_range(input)?, to: take_range(input)? },
        12 => Event::Break(take_range(input)?),
        13 => Event::Phase(take_text(input)?),
        14 => Event::JobBegin { arrival_ps: varint::take(input)?.checked_sub(1) },
        15 => Event::JobEnd,
        16 => Event::ThreadStack(take_range(input)?),
        17 => Event::Unobserved(take_text(input)?),
        18 => Event::Frame(take_page_frame(input)?),
        19 => Event::Code(take_code(input)?),
        20 => Event::KernelWrite(take_range(input)?),
        _ => return None,
    })
}

/// Takes a number of bytes, and the bytes.
fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let bytes = usize::try_from(varint::take(input)?).ok()?;
    let (taken, rest) = input.split_at_checked(bytes)?;
    *input = rest;
    Some(taken)
}

fn take_text(input: &mut &[u8]) -> Option<String> {
    std::str::from_utf8(take_bytes(input)?).ok().map(str::to_owned)
}

fn take_code(input: &mut &[u8]) -> Option<Code> {
    let (block, addr) = (BlockId(take_u32(input)?), VirtAddr(varint::take(input)?));
    let isa = *Isa::ALL.get(usize::from(take_byte(input)?))?;
    let bytes = take_bytes(input).filter(|bytes| bytes.len() <= Code::MAX_BYTES)?.into();
    Some(Code { block, addr, isa, bytes })
}

fn take_byte(input: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = input.split_first()?;
    *input = rest;
    Some(byte)
}

fn take_u32(input: &mut &[u8]) -> Option<u32> {
    u32::try_from(varint::take(input)?).ok()
}

fn take_range(input: &mut &[u8]) -> Option<VirtRange> {
    Some(VirtRange::new(VirtAddr(varint::take(input)?), VirtAddr(varint::take(input)?)))
}

fn protection_bits(protection: Protection) -> u8 {
    u8::from(protection.read) | u8::from(protection.write) << 1 | u8::from(protection.execute) << 2
}

fn protection_from(bits: u8) -> Option<Protection> {
    (bits < 8).then_some(Protection { read: bits & 1 != 0, write: bits & 2 != 0, execute: bits & 4 != 0 })
}

fn mapping_bits(mapping: &Mapping) -> u8 {
    let file = mapping.backing == Backing::File;
    let huge = mapping.huge.map_or(0, |size| size as u8 + 1);
    let object = u8::from(mapping.object.is_some()) << 7;
    protection_bits(mapping.protection)
        | u8::from(file) << 3
        | u8::from(mapping.shared) << 4
        | huge << 5
        | object
}

fn take_mapping(input: &mut &[u8]) -> Option<Mapping> {
    let range = take_range(input)?;
    let bits = take_byte(input)?;
    Some(Mapping {
        range,
        protection: protection_from(bits & 7)?,
        backing: if bits & 8 != 0 { Backing::File } else { Backing::Anonymous },
        shared: bits & 16 != 0,
        huge: (bits >> 5 & 3).checked_sub(1).map(|size| PageSize::ALL[usize::from(size)]),
        object: if bits & 0x80 != 0 { Some(take_object(input)?) } else { None },
    })
}

fn take_page_frame(input: &mut &[u8]) -> Option<PageFrame> {
    // Numbers of which the addresses would have more than 64 bits belong to no page.
    let mut address = || varint::take(input).filter(|number| number >> 52 == 0);
    let (page, frame) = (Vpn(address()?).addr(), Pfn(address()?).addr());
    let size = *PageSize::ALL.get(usize::from(take_byte(input)?))?;
    PageFrame::new(page, frame, size).ok()
}

fn take_object(input: &mut &[u8]) -> Option<ObjectPages> {
    Some(ObjectPages { object: ObjectId(varint::take(input)?), first: varint::take(input)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mapping_comes_back() {
        for bits in 0..=0xff {
            let mut bytes = Vec::new();
            put_fields(&mut bytes, 7, &[0x1000, 0x9000]);
            bytes.push(bits);
            if bits & 0x80 != 0 {
                varint::put(&mut bytes, 3);
                varint::put(&mut bytes, 1 << 40);
            }
            let event = take_event(&mut bytes.as_slice()).unwrap();
            let mut again = Vec::new();
            put_event(&mut again, &event);
            assert_eq!(again, bytes);
        }
    }

    #[test]
    fn unknown_codes_are_refused() {
        for bytes in [
            &[21][..],
            &[20, 1],
            &[19, 1, 0, 6, 0],
            &[19, 1, 0, 0, 2, 0x90],
            &[19, 0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0],
            &[18, 1, 0, 0],
            &[18, 1, 1, 1],
            &[18, 1, 1, 3],
            &[9, 0, 1, 8],
            &[10, 0, 1, 19],
            &[7, 0, 1, 0x80, 3],
            &[13, 1, 0xff],
            &[13, 9, b'x'],
            &[17, 9, b'x'],
        ] {
            assert_eq!(take_event(&mut &*bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_place_beyond_32_bits_is_refused() {
        let bytes = [4, 5];
        assert!(take_mark(&mut bytes.as_slice(), (u32::MAX - 4, 0), false).is_some());
        assert_eq!(take_mark(&mut bytes.as_slice(), (u32::MAX - 3, 0), false), None);
    }
}
