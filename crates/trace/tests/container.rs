//! The `.pwt` container: what goes in comes out, and nothing else gets through.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::PathBuf;

use pagewalk_trace::container::{CHUNK_ACCESSES, PwtSource, Reader, Writer};
use pagewalk_trace::{
    Access, Advice, Backing, Batch, BlockId, Code, Event, Executed, Isa, Mapping, Mark, ObjectId,
    ObjectPages, PageFrame, Partial, PartialReason, ProcessId, Protection, Recorder, Sink, Source,
    SourceInfo, ThreadId,
};
use pagewalk_vm::addr::{PageSize, PhysAddr, VirtAddr, VirtRange};
use proptest::prelude::*;

use crate::common::{collect, decode, encode, listing, named, write};

fn range() -> impl Strategy<Value = VirtRange> {
    (any::<u64>(), any::<u64>()).prop_map(|(start, end)| VirtRange::new(VirtAddr(start), VirtAddr(end)))
}

fn protection() -> impl Strategy<Value = Protection> {
    any::<(bool, bool, bool)>().prop_map(|(read, write, execute)| Protection { read, write, execute })
}

fn event() -> impl Strategy<Value = Event> {
    let advice = prop::sample::select(Advice::ALL.to_vec());
    let huge = prop::option::of(prop::sample::select(PageSize::ALL.to_vec()));
    let object = prop::option::of(any::<(u64, u64)>());
    let mapping = (range(), protection(), any::<(bool, bool)>(), huge, object).prop_map(
        |(range, protection, (file, shared), huge, object)| Mapping {
            range,
            protection,
            backing: if file { Backing::File } else { Backing::Anonymous },
            shared,
            huge,
            object: object.map(|(object, first)| ObjectPages { object: ObjectId(object), first }),
        },
    );
    let size = prop::sample::select(PageSize::ALL.to_vec());
    let given = (any::<u64>(), 1..(1_u64 << 52) - (1 << 40), size).prop_filter_map(
        "frame 0",
        |(page, frame, size)| {
            let start = |address| address & !(size.bytes() - 1);
            PageFrame::new(VirtAddr(start(page)), PhysAddr(start(frame)), size).ok()
        },
    );
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    let isa = prop::sample::select(Isa::ALL.to_vec());
    let code = (any::<u32>(), any::<u64>(), isa, bytes).prop_map(|(block, addr, isa, bytes)| Code {
        block: BlockId(block),
        addr: VirtAddr(addr),
        isa,
        bytes: bytes.into(),
    });
    prop_oneof![
        given.prop_map(Event::Frame),
        code.prop_map(Event::Code),
        any::<u64>().prop_map(Event::Instructions),
        any::<u32>().prop_map(|id| Event::Thread(ThreadId(id))),
        any::<u32>().prop_map(|id| Event::ThreadEnd(ThreadId(id))),
        any::<u32>().prop_map(|id| Event::Process(ProcessId(id))),
        any::<u32>().prop_map(|id| Event::Fork { child: ProcessId(id) }),
        Just(Event::Exec),
        Just(Event::ProcessEnd),
        mapping.prop_map(Event::Map),
        range().prop_map(Event::Unmap),
        (range(), protection()).prop_map(|(range, protection)| Event::Protect(range, protection)),
        (range(), advice).prop_map(|(range, advice)| Event::Advise(range, advice)),
        (range(), range()).prop_map(|(from, to)| Event::Remap { from, to }),
        range().prop_map(Event::Break),
        range().prop_map(Event::KernelWrite),
        ".{0,20}".prop_map(Event::Phase),
        ".{0,20}".prop_map(Event::Unobserved),
        proptest::option::of(0..u64::MAX).prop_map(|arrival_ps| Event::JobBegin { arrival_ps }),
        Just(Event::JobEnd),
        range().prop_map(Event::ThreadStack),
    ]
}

/// Any record without reserved bits; some near each other, some anywhere.
fn access() -> impl Strategy<Value = Access> {
    prop_oneof![
        (0..1_u64 << 52).prop_map(Access),
        (0..100_000_u64).prop_map(|offset| Access::load(VirtAddr(0x7f00_0000_0000 + offset), 8)),
        Just(Access::NONE),
    ]
}

/// An entry of a batch.
#[derive(Clone, Debug)]
enum Entry {
    Access(Access),
    Block(u32),
    Mark(Event),
}

fn batch() -> impl Strategy<Value = Batch> {
    // Some batches have no blocks; some blocks are executed again and again.
    let block = prop_oneof![3 => 0..4_u32, 1 => any::<u32>()];
    let entry = |blocks: u32| {
        prop_oneof![
            20 => access().prop_map(Entry::Access),
            blocks => block.clone().prop_map(Entry::Block),
            1 => event().prop_map(Entry::Mark),
        ]
    };
    let entries =
        prop_oneof![prop::collection::vec(entry(0), 0..300), prop::collection::vec(entry(9), 0..300)];
    entries.prop_map(|entries| {
        let mut batch = Batch::new();
        for entry in entries {
            match entry {
                Entry::Access(access) => batch.push(access),
                Entry::Block(block) => batch.execute(BlockId(block)),
                Entry::Mark(event) => batch.mark(event),
            }
        }
        batch
    })
}

fn without_blocks(mut batch: Batch) -> Batch {
    batch.blocks.clear();
    batch.marks.iter_mut().for_each(|mark| mark.blocks = 0);
    batch
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn batches_come_back_exactly(batches in prop::collection::vec(batch(), 0..8)) {
        prop_assert_eq!(decode(&encode(&batches)).unwrap(), batches);
    }

    #[test]
    fn batches_come_without_blocks_if_these_are_not_wanted(batches in prop::collection::vec(batch(), 0..8)) {
        let mut reader = Reader::new(Cursor::new(encode(&batches)), "t.pwt".to_owned()).unwrap();
        reader.make_no_blocks();
        let mut found = Vec::new();
        let mut sink = |batch: &mut Batch| {
            found.push(batch.clone());
            ControlFlow::Continue(())
        };
        PwtSource::new(reader).run(&mut sink).unwrap();
        prop_assert_eq!(found, batches.into_iter().map(without_blocks).collect::<Vec<_>>());
    }

    #[test]
    fn random_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(decode(&bytes).is_err());
    }
}

/// A deterministic batch of `accesses` accesses with a count of instructions.
fn full_batch(accesses: usize, seed: u64) -> Batch {
    let mut batch = Batch::new();
    batch.mark(Event::Instructions(seed * 1000 + accesses as u64));
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for at in 0..accesses {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let address = 0x5500_0000_0000 + if at % 3 == 0 { state % (1 << 30) } else { at as u64 * 8 };
        batch.push(Access::new(VirtAddr(address), 1 << (state % 7), state & 64 != 0));
    }
    batch
}

#[test]
fn chunks_hold_whole_batches_and_can_be_read_alone() {
    let sizes = [CHUNK_ACCESSES, 1, CHUNK_ACCESSES, 40_000, 25_536, 1, 0, 60_000, 6_000];
    let batches: Vec<Batch> = (1..).zip(sizes).map(|(seed, size)| full_batch(size, seed)).collect();
    let bytes = encode(&batches);
    let mut reader = Reader::new(Cursor::new(&bytes), "t.pwt".to_owned()).unwrap();
    let accesses: Vec<u32> = reader.chunks().iter().map(|chunk| chunk.accesses).collect();
    // The writer fills a chunk up to the limit and never splits a batch.
    assert_eq!(accesses, [65_536, 1, 65_536, 65_536, 60_001, 6_000]);
    let (mut batch, mut number) = (Batch::new(), batches.len());
    for chunk in (0..accesses.len()).rev() {
        let info = reader.chunks()[chunk];
        number -= info.batches as usize;
        assert_eq!(info.first_access, batches[..number].iter().map(|b| b.accesses.len() as u64).sum::<u64>());
        let mut cursor = reader.chunk(chunk).unwrap();
        for expected in &batches[number..number + info.batches as usize] {
            assert!(cursor.next_batch(&mut batch).unwrap());
            assert_eq!(&batch, expected);
        }
        assert!(!cursor.next_batch(&mut batch).unwrap());
    }
    assert_eq!(number, 0);
}

#[test]
fn the_index_knows_who_runs_at_each_chunk() {
    let mut batches: Vec<Batch> = (1..=3).map(|seed| full_batch(CHUNK_ACCESSES, seed)).collect();
    batches[0].mark(Event::Process(ProcessId(7)));
    batches[1].mark(Event::Thread(ThreadId(9)));
    let bytes = encode(&batches);
    let reader = Reader::new(Cursor::new(&bytes), "t.pwt".to_owned()).unwrap();
    let current: Vec<(u32, u32)> =
        reader.chunks().iter().map(|chunk| (chunk.process.0, chunk.thread.0)).collect();
    assert_eq!(current, [(0, 1), (7, 1), (7, 9)]);
    let totals = reader.totals();
    assert_eq!((totals.accesses, totals.marks, totals.batches), (3 * 65_536, 5, 3));
    assert_eq!(totals.instructions, 6_000 + 3 * 65_536);
}

#[test]
fn what_the_source_said_of_itself_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.pwt");
    let info = SourceInfo {
        name: "sort wörter.txt".to_owned(),
        expected_accesses: None,
        announces_mappings: true,
        counts_instructions: true,
        gives_frames: true,
        gives_blocks: true,
    };
    write(&path, &info, &[full_batch(10, 1)]);
    let found = PwtSource::open(&path).unwrap().info();
    assert_eq!(found, SourceInfo { expected_accesses: Some(10), ..info });
    write(&path, &named(""), &[]);
    let found = PwtSource::open(&path).unwrap().info();
    assert_eq!((found.name, found.expected_accesses), (path.display().to_string(), Some(0)));
}

#[test]
fn a_file_cut_anywhere_is_an_error_with_its_place() {
    let bytes = encode(&[full_batch(200, 1), full_batch(0, 2), full_batch(100, 3)]);
    for length in 0..bytes.len() {
        let error = decode(&bytes[..length]).unwrap_err();
        assert!(error.starts_with("t.pwt: byte "), "cut at {length}: {error}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(decode(&longer).unwrap_err().contains("no trailer"));
}

#[test]
fn a_recording_that_died_says_where_its_whole_chunks_end() {
    let batches: Vec<Batch> = (1..=3).map(|seed| full_batch(CHUNK_ACCESSES, seed)).collect();
    let bytes = encode(&batches);
    let third = Reader::new(Cursor::new(&bytes), "t.pwt".to_owned()).unwrap().chunks()[2].offset;
    let error = decode(&bytes[..third as usize + 1000]).unwrap_err();
    assert!(error.contains(&format!("end at byte {third} (2 chunks, 131072 accesses)")), "{error}");
}

/// A cut file gave only its error.
#[test]
fn the_whole_chunks_before_a_cut_are_read_and_then_the_error() {
    let mut batches: Vec<Batch> = (1..=3).map(|seed| full_batch(CHUNK_ACCESSES, seed)).collect();
    batches[0].marks.push(Mark::at(CHUNK_ACCESSES as u32, Event::Process(ProcessId(3))));
    batches[0].marks.push(Mark::at(CHUNK_ACCESSES as u32, Event::Thread(ThreadId(7))));
    let bytes = encode(&batches);
    let chunks = Reader::new(Cursor::new(&bytes), "t.pwt".to_owned()).unwrap().chunks().to_vec();
    let salvaged = |bytes: &[u8]| Reader::new_or_salvaged(Cursor::new(bytes.to_vec()), "t.pwt".to_owned());
    let ends = [chunks[1].offset, chunks[2].offset, chunks[2].offset + u64::from(chunks[2].bytes)];
    for length in [ends[0], ends[1] - 1, ends[1], ends[1] + 70, ends[2] - 1, ends[2], bytes.len() as u64 - 1]
    {
        let whole = ends.iter().filter(|&&end| end <= length).count();
        let reader = salvaged(&bytes[..length as usize]).unwrap();
        assert_eq!(reader.chunks(), &chunks[..whole], "cut at {length}");
        let mut source = PwtSource::new(reader);
        for _ in 0..2 {
            let (read, result) = collect(&mut source);
            assert_eq!(read, batches[..whole], "cut at {length}");
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with(&format!("t.pwt: byte {length}: the file has no trailer")), "{error}");
        }
    }
    // A damaged chunk in front of a damaged end.
    let mut damaged = bytes[..bytes.len() - 1].to_vec();
    damaged[ends[0] as usize + 100] ^= 1;
    assert_eq!(salvaged(&damaged).unwrap().chunks(), &chunks[..1]);
    damaged[chunks[0].offset as usize + 100] ^= 1;
    assert!(salvaged(&damaged).is_err(), "nothing is whole");
    // A damaged index costs no chunk.
    let mut damaged = bytes.clone();
    damaged[ends[2] as usize + 100] ^= 1;
    let reader = salvaged(&damaged).unwrap();
    assert_eq!((reader.chunks(), reader.totals().chunks), (&chunks[..], 3));
    assert!(reader.damage().unwrap().contains("the index or the trailer is damaged"));
    assert!(salvaged(&bytes).unwrap().damage().is_none());
}

#[test]
fn a_recording_that_was_ended_early_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.pwt");
    let partial = Partial { reason: PartialReason::TimeLimit, text: "ended by the time limit of 60s".into() };
    for batches in [vec![], vec![full_batch(60, 1), full_batch(3, 2)]] {
        let mut writer = Writer::create(&path, &named("test")).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.mark_partial(partial.clone());
        writer.finish().unwrap();
        let mut source = PwtSource::open(&path).unwrap();
        assert_eq!(source.reader().partial(), Some(&partial));
        let (read, result) = collect(&mut source);
        result.unwrap();
        assert_eq!(read, batches);
    }
    let bytes = std::fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(decode(&damaged).is_err(), "a changed byte {at} went unnoticed");
    }
    write(&path, &named("test"), &[full_batch(3, 1)]);
    assert_eq!(PwtSource::open(&path).unwrap().reader().partial(), None);
}

#[test]
fn every_flipped_bit_is_found() {
    let batches = [full_batch(60, 1), full_batch(3, 2)];
    let bytes = encode(&batches);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let result = decode(&damaged);
            assert!(result.is_err(), "bit {bit} of byte {at} went unnoticed");
        }
    }
}

#[test]
fn a_file_of_another_version_or_kind_says_so() {
    let mut bytes = encode(&[]);
    bytes[8] = 7;
    assert!(decode(&bytes).unwrap_err().contains("format version 7; this program reads versions 1 to 6"));
    assert!(decode(&[b'x'; 500]).unwrap_err().contains("not a .pwt file"));
}

#[test]
fn damage_in_a_later_chunk_leaves_the_earlier_ones_readable() {
    let batches: Vec<Batch> = (1..=2).map(|seed| full_batch(CHUNK_ACCESSES, seed)).collect();
    let mut bytes = encode(&batches);
    let second = Reader::new(Cursor::new(&bytes), "t.pwt".to_owned()).unwrap().chunks()[1];
    bytes[second.offset as usize + 200] ^= 1;
    let mut source = PwtSource::new(Reader::new(Cursor::new(&bytes), "t.pwt".to_owned()).unwrap());
    let (read, result) = collect(&mut source);
    assert_eq!(read, batches[..1]);
    let error = result.unwrap_err().to_string();
    assert!(error.starts_with(&format!("t.pwt: byte {}: chunk 1 is damaged", second.offset)), "{error}");
}

#[test]
fn nothing_half_written_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.pwt");
    let mut writer = Writer::create(&path, &named("dropped")).unwrap();
    for seed in 0..4 {
        writer.write(&full_batch(CHUNK_ACCESSES, seed)).unwrap();
    }
    assert!(!path.exists(), "it has its name only when it is complete");
    drop(writer);
    assert_eq!(listing(folder.path()), [""; 0]);

    std::fs::write(&path, "older").unwrap();
    let mut writer = Writer::create(&path, &named("fails")).unwrap();
    writer.write(&Batch { accesses: vec![Access(1 << 60)], ..Batch::default() }).unwrap();
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("access 0 cannot be stored: 0x1000000000000000 has bits 52 to 63 set"), "{error}");
    assert_eq!(listing(folder.path()), ["t.pwt"]);
    assert_eq!(std::fs::read(&path).unwrap(), b"older");
}

#[test]
fn a_batch_that_breaks_its_contract_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.pwt");
    let mut writer = Writer::create(&path, &named("test")).unwrap();
    let mark = |at, blocks| Mark { at, blocks, event: Event::Exec };
    let block = |at| Executed { at, block: BlockId(7) };
    let of = |accesses, blocks: &[u32], marks: &[Mark]| Batch {
        accesses: vec![Access(1); accesses],
        blocks: blocks.iter().map(|&at| block(at)).collect(),
        marks: marks.to_vec(),
    };
    for (batch, expected) in [
        (of(65_537, &[], &[]), "at most 65536"),
        (of(0, &[0; 65_537], &[]), "at most 65536"),
        (of(5, &[], &[mark(6, 0)]), "a mark or a block behind 6 accesses in a batch of 5"),
        (of(5, &[6], &[]), "a mark or a block behind 6 accesses in a batch of 5"),
        (of(5, &[], &[mark(2, 0), mark(1, 0)]), "ascending"),
        (of(5, &[2, 1], &[]), "ascending"),
        (of(5, &[2], &[mark(3, 2)]), "a mark behind 2 blocks in a batch of 1"),
        (of(5, &[2], &[mark(1, 1)]), "a mark behind 1 accesses and 1 blocks, which lie elsewhere"),
        (of(5, &[2], &[mark(3, 0)]), "a mark behind 3 accesses and 0 blocks, which lie elsewhere"),
        (of(5, &[2], &[mark(2, 1), mark(2, 0)]), "lie elsewhere"),
    ] {
        let error = writer.write(&batch).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn only_regular_files_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    for path in [PathBuf::from("/dev/null"), folder.path().to_path_buf()] {
        let error = Writer::create(&path, &named("test")).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
    let missing = folder.path().join("no/such/folder.pwt");
    let error = Writer::create(&missing, &named("test")).unwrap_err().to_string();
    assert!(error.contains("no/such/folder.pwt"), "{error}");
    // A symbolic link stays one.
    let (target, link) = (folder.path().join("target.pwt"), folder.path().join("link.pwt"));
    std::fs::write(&target, "older").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    write(&link, &named("test"), &[full_batch(3, 1)]);
    assert!(link.is_symlink());
    assert!(Reader::open(&target).is_ok());
}

#[test]
fn a_recorder_stops_its_source_on_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(&folder.path().join("t.pwt"), &named("test")).unwrap();
    assert!(recorder.batch(&mut full_batch(5, 1)).is_continue());
    let mut broken = Batch { marks: vec![Mark::at(1, Event::Exec)], ..Batch::default() };
    assert!(recorder.batch(&mut broken).is_break());
    assert!(recorder.batch(&mut full_batch(5, 1)).is_break());
    assert!(recorder.finish().is_err());
    assert_eq!(listing(folder.path()), [""; 0]);
}

#[test]
fn many_small_batches_and_marks_only_keep_chunks_bounded() {
    let batches: Vec<Batch> = (0..70_000)
        .map(|at| Batch { marks: vec![Mark::at(0, Event::Instructions(at))], ..Batch::default() })
        .collect();
    let bytes = encode(&batches);
    let reader = Reader::new(Cursor::new(&bytes), "t.pwt".to_owned()).unwrap();
    assert_eq!(reader.chunks().len(), 2);
    assert_eq!(decode(&bytes).unwrap(), batches);
}

#[test]
fn blocks_without_accesses_keep_chunks_bounded() {
    let batches: Vec<Batch> = (0..5)
        .map(|seed| {
            let mut batch = Batch::new();
            (0..60_000).for_each(|at| batch.execute(BlockId(at % 7 * seed)));
            batch
        })
        .collect();
    let bytes = encode(&batches);
    let reader = Reader::new(Cursor::new(&bytes), "t.pwt".to_owned()).unwrap();
    assert_eq!(reader.chunks().iter().map(|chunk| chunk.batches).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(decode(&bytes).unwrap(), batches);
    assert!(bytes.len() < 20_000, "{} bytes for 300,000 blocks of seven kinds", bytes.len());
}

/// The batches of the file that stands for format version 1.
fn golden() -> Vec<Batch> {
    let mut first = full_batch(500, 1);
    first.mark(Event::Map(Mapping {
        huge: Some(PageSize::Size2M),
        shared: true,
        ..Mapping::anonymous(VirtRange::sized(VirtAddr(0x7f00_0020_0000), 2 << 20))
    }));
    first.mark(Event::Phase("update".to_owned()));
    let mut second = full_batch(100, 2);
    second.mark(Event::Thread(ThreadId(2)));
    vec![first, Batch::default(), second]
}

/// The batches of the file that stands for format version 2: advice and files that version 1 did not know.
fn golden_2() -> Vec<Batch> {
    let range = VirtRange::sized(VirtAddr(0x7f00_0020_0000), 2 << 20);
    let mut advised = full_batch(100, 3);
    advised.mark(Event::Map(Mapping {
        backing: Backing::File,
        object: Some(ObjectPages { object: ObjectId(5), first: 1 << 20 }),
        ..Mapping::anonymous(range)
    }));
    Advice::ALL.into_iter().for_each(|advice| advised.mark(Event::Advise(range, advice)));
    golden().into_iter().chain([advised]).collect()
}

/// The batches of the file that stands for format version 3: frames, and a process that was not observed.
fn golden_3() -> Vec<Batch> {
    let mut given = full_batch(100, 4);
    for (page, frame, size) in [
        (0x7f00_0000_1000, 0xf_fe00_0000_1000, PageSize::Size4K),
        (0x7f00_0020_0000, 0x4000_0000, PageSize::Size2M),
        (0x7f00_4000_0000, 0x8000_0000, PageSize::Size1G),
    ] {
        given.mark(Event::Frame(PageFrame::new(VirtAddr(page), PhysAddr(frame), size).unwrap()));
    }
    given.mark(Event::Unobserved("process 1, /bin/true: not observed".to_owned()));
    given.mark(Event::ProcessEnd);
    golden_2().into_iter().chain([given]).collect()
}

/// The batches of the file that stands for format version 4: blocks of instructions.
fn golden_4() -> Vec<Batch> {
    let mut executed = Batch::new();
    executed.mark(Event::Instructions(42));
    for (number, isa) in (0..).zip(Isa::OF_PROCESSORS) {
        let (block, addr) = (BlockId(number), VirtAddr(0x40_1000 + u64::from(number) * 16));
        executed.mark(Event::Code(Code { block, addr, isa, bytes: vec![0x90; number as usize * 5].into() }));
    }
    for round in 0..20 {
        executed.execute(BlockId(1));
        (0..3)
            .for_each(|at| executed.push(Access::load(VirtAddr(0x7f00_0000_0000 + 24 * round + 8 * at), 8)));
        executed.execute(BlockId(3));
        if round == 7 {
            executed.mark(Event::Thread(ThreadId(3)));
            executed.execute(BlockId(2));
        }
    }
    golden_3().into_iter().chain([executed]).collect()
}

/// The batches of the file that stands for format version 5: what system calls write, and all instruction sets.
fn golden_5() -> Vec<Batch> {
    let mut written = full_batch(100, 5);
    for (number, isa) in (10..).zip(Isa::ALL) {
        let (block, addr) = (BlockId(number), VirtAddr(0x40_2000 + u64::from(number) * 64));
        written.mark(Event::Code(Code {
            block,
            addr,
            isa,
            bytes: vec![number as u8; number as usize].into(),
        }));
    }
    written.mark(Event::KernelWrite(VirtRange::sized(VirtAddr(0x7f00_0000_0123), 5000)));
    written.execute(BlockId(15));
    golden_4().into_iter().chain([written]).collect()
}

/// The batches of the file that stands for format version 6: blocks that data decides, and batches of many blocks.
fn golden_6() -> Vec<Batch> {
    let mut decided = Batch::new();
    for round in 0..100_u64 {
        decided.execute(BlockId(1));
        decided.push(Access::load(VirtAddr(0x7f00_0000_0000 + 8 * round), 8));
        decided.execute(BlockId(if round * round % 7 < 3 { 2 } else { 3 }));
        (0..round % 13 / 12).for_each(|_| decided.push(Access::store(VirtAddr(0x7f00_0001_0000), 4)));
    }
    golden_5().into_iter().chain([decided.clone(), decided]).collect()
}

/// Files that were once written must stay readable: these are never written again. (To make the first one of a
/// new format version, run with `PAGEWALK_WRITE_GOLDEN=1`; it leaves alone what is there.)
#[test]
fn a_file_of_every_format_version_is_read() {
    let of_versions = [golden(), golden_2(), golden_3(), golden_4(), golden_5(), golden_6()];
    for (version, expected) in (1..).zip(of_versions) {
        let file = format!("tests/data/version-{version}.pwt");
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
        if std::env::var_os("PAGEWALK_WRITE_GOLDEN").is_some() && !path.exists() {
            write(&path, &named("golden"), &expected);
        }
        let mut source = PwtSource::open(&path).unwrap();
        assert_eq!((source.info().name.as_str(), source.reader().version()), ("golden", version));
        let (batches, result) = collect(&mut source);
        result.unwrap();
        assert_eq!(batches, expected, "version {version}");
    }
}
