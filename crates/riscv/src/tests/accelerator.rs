//! The accelerator behind the walker, on its registers.

use pagewalk_vm::fault::{Depths, PageId, RemotePte};

use super::*;
use crate::DeviceTimes;

pub(super) const BLOCK: u64 = 0x1001_7000;
pub(super) const FREE: u64 = BLOCK;
const FREE_STAT: u64 = BLOCK + 8;
pub(super) const EVICT: u64 = BLOCK + 16;
const EVICT_STAT: u64 = BLOCK + 24;
const NEW_PGID: u64 = BLOCK + 32;
const NEW_VADDR: u64 = BLOCK + 40;
const NEW_STAT: u64 = BLOCK + 48;
const INIT_MEM: u64 = BLOCK + 56;

/// A root, and the two tables below it, of pages from 0 on.
const ROOT: u64 = RAM_BASE + 0x10_0000;
pub(super) const LEAVES: u64 = ROOT + 2 * 4_096;
/// Frames.
pub(super) const FRAMES: u64 = RAM_BASE + 0x20_0000;
/// V R W A D, for kernels.
const LOCAL: u16 = 0xc7;

fn remote(id: u32, protection: u16) -> u64 {
    RemotePte { id: PageId::new(id).unwrap(), protection, reserved: 0 }.encode()
}

fn config(depth: usize, times: DeviceTimes) -> Config {
    let depths = Depths { free: depth, new: depth, evict: depth };
    Config { accelerator: Some(depths), times, ..Config::default() }
}

/// A machine with kernels' pages translated, and where its remote pages are.
pub(super) fn pager(depth: usize, times: DeviceTimes) -> (Machine, Shared) {
    let shared = Shared::default();
    let mut machine = machine_of(&config(depth, times), &[0], shared.clone());
    machine.put(ROOT, (ROOT + 4_096) >> 12 << 10 | 1);
    machine.put(ROOT + 4_096, LEAVES >> 12 << 10 | 1);
    // Memory and the registers where they are.
    machine.put(ROOT + 2 * 8, RAM_BASE >> 12 << 10 | u64::from(LOCAL));
    machine.csrs.write(0x180, 8 << 60 | ROOT >> 12);
    // Registers are reached as machine mode does: without translation.
    machine.update_context();
    (machine, shared)
}

fn put_page(shared: &Shared, id: u32, byte: u8) {
    shared.0.borrow_mut().write_page(id.into(), &[byte; 4_096]).unwrap();
}

impl Machine {
    fn register(&mut self, addr: u64) -> Result<u64, Trap> {
        let mode = self.mode;
        self.in_mode(Mode::Machine);
        let value = self.load(addr, 8);
        self.in_mode(mode);
        value
    }

    fn set_register(&mut self, addr: u64, value: u64) -> Result<(), Trap> {
        let mode = self.mode;
        self.in_mode(Mode::Machine);
        let stored = self.store(addr, 8, value);
        self.in_mode(mode);
        stored
    }

    fn entry(&self, page: u64) -> u64 {
        self.peek(LEAVES + 8 * page)
    }

    fn set_entry(&mut self, page: u64, raw: u64) {
        self.put(LEAVES + 8 * page, raw);
        self.mmu.fence(None, None);
    }

    /// Loads as a kernel.
    fn touch(&mut self, addr: u64) -> Result<u64, Trap> {
        self.in_mode(Mode::Supervisor);
        let value = self.load(addr, 8);
        self.in_mode(Mode::Machine);
        value
    }
}

fn evict_word(frame: u64, id: u32) -> u64 {
    u64::from(id) << 36 | frame >> 12
}

#[test]
fn a_remote_page_comes_without_a_trap() {
    for bytes in [1, 2, 4, 8] {
        for write in [false, true] {
            let (mut machine, shared) = pager(4, DeviceTimes::default());
            put_page(&shared, 77, 0xab);
            machine.set_entry(3, remote(77, LOCAL));
            machine.set_register(FREE, FRAMES).unwrap();
            machine.set_register(FREE, FRAMES + 4_096).unwrap();
            machine.in_mode(Mode::Supervisor);
            if write {
                machine.store(0x3010, bytes, 0).unwrap();
            } else {
                let expected = 0xabab_abab_abab_abab >> (64 - 8 * bytes);
                assert_eq!(machine.load(0x3010, bytes), Ok(expected));
            }
            machine.in_mode(Mode::Machine);
            assert_eq!(machine.entry(3), FRAMES >> 2 | u64::from(LOCAL), "in the first frame");
            assert_eq!(machine.register(FREE_STAT), Ok(3));
            assert_eq!(machine.register(NEW_STAT), Ok(1));
            assert_eq!(machine.register(NEW_VADDR), Ok(0x3000));
            assert_eq!(machine.register(NEW_STAT), Ok(1), "the fuller of the two");
            assert_eq!(machine.register(NEW_PGID), Ok(77));
            assert_eq!(machine.register(NEW_STAT), Ok(0));
        }
    }
}

#[test]
fn atomics_and_instructions_are_fetched_too() {
    let (mut machine, shared) = pager(4, DeviceTimes::default());
    put_page(&shared, 1, 0x13);
    machine.set_register(FREE, FRAMES).unwrap();
    machine.set_register(FREE, FRAMES + 4_096).unwrap();
    machine.set_entry(1, remote(1, LOCAL | RemotePte::EXECUTE));
    machine.set_entry(2, remote(1, LOCAL));
    machine.in_mode(Mode::Supervisor);
    assert_eq!(machine.fetch_offset(0x1008), Ok(FRAMES - RAM_BASE + 8));
    assert!(machine.atomic_offset(0x2008, 8, crate::Access::Store).is_ok());
    assert_eq!(machine.counts().accelerator.fetches, 2);
}

#[test]
fn without_a_frame_or_with_a_full_queue_it_is_an_ordinary_page_fault() {
    let (mut machine, shared) = pager(2, DeviceTimes::default());
    put_page(&shared, 9, 1);
    let entries = [9, 9, 9].map(|id| remote(id, LOCAL));
    (0..).zip(entries).for_each(|(page, raw)| machine.set_entry(page, raw));
    assert_eq!(cause(machine.touch(0x10)), Some((Exception::LoadPageFault, 0x10)), "no frame");
    assert_eq!(machine.entry(0), entries[0]);
    for frame in 0..2 {
        machine.set_register(FREE, FRAMES + frame * 4_096).unwrap();
    }
    assert_eq!(
        cause(machine.set_register(FREE, FRAMES)),
        Some((Exception::StoreAccessFault, FREE)),
        "strict"
    );
    assert!(machine.touch(0x10).is_ok() && machine.touch(0x1010).is_ok());
    machine.set_register(FREE, FRAMES + 2 * 4_096).unwrap();
    for popped in [NEW_PGID, NEW_VADDR] {
        assert_eq!(cause(machine.touch(0x2010)), Some((Exception::LoadPageFault, 0x2010)), "one is full");
        assert_eq!(machine.register(FREE_STAT), Ok(1), "the frame is still there");
        machine.register(popped).unwrap();
    }
    assert!(machine.touch(0x2010).is_ok());
    let counts = machine.counts().accelerator;
    assert_eq!((counts.fetches, counts.without_frame, counts.new_queue_full), (3, 1, 2));
}

#[test]
fn permissions_are_checked_behind_the_fetch() {
    let (mut machine, _) = pager(4, DeviceTimes::default());
    for frame in 0..3 {
        machine.set_register(FREE, FRAMES + frame * 4_096).unwrap();
    }
    machine.set_entry(0, remote(5, LOCAL & !RemotePte::VALID));
    assert_eq!(cause(machine.touch(8)), Some((Exception::LoadPageFault, 8)));
    assert_eq!(machine.entry(0), FRAMES >> 2 | u64::from(LOCAL & !RemotePte::VALID));
    machine.set_entry(1, remote(6, LOCAL & !RemotePte::WRITE));
    machine.in_mode(Mode::Supervisor);
    assert_eq!(cause(machine.store(0x1008, 8, 1)), Some((Exception::StorePageFault, 0x1008)));
    machine.in_mode(Mode::Machine);
    assert_eq!(machine.register(NEW_STAT), Ok(2), "both came");
    // A remote entry that would be a large page.
    machine.put(ROOT + 4_096 + 8, remote(7, LOCAL));
    assert_eq!(cause(machine.touch(0x20_0000)), Some((Exception::LoadPageFault, 0x20_0000)));
    assert_eq!(machine.register(NEW_STAT), Ok(2));
}

#[test]
fn what_is_illegal_is_an_access_fault_and_changes_nothing() {
    let (mut machine, _) = pager(2, DeviceTimes::default());
    for addr in [FREE, EVICT, INIT_MEM, NEW_PGID, NEW_VADDR, BLOCK + 64, BLOCK + 4] {
        assert_eq!(cause(machine.register(addr)), Some((Exception::LoadAccessFault, addr)), "{addr:#x}");
    }
    for addr in [FREE_STAT, EVICT_STAT, NEW_PGID, NEW_VADDR, NEW_STAT, BLOCK + 64, BLOCK + 12] {
        assert_eq!(cause(machine.set_register(addr, 0)), Some((Exception::StoreAccessFault, addr)));
    }
    for bytes in [1, 2, 4] {
        assert_eq!(cause(machine.load(FREE_STAT, bytes)), Some((Exception::LoadAccessFault, FREE_STAT)));
        assert_eq!(cause(machine.store(FREE, bytes, FRAMES)), Some((Exception::StoreAccessFault, FREE)));
    }
    for frame in [0x1000, FRAMES + 8, RAM_BASE + MEMORY] {
        assert_eq!(cause(machine.set_register(FREE, frame)), Some((Exception::StoreAccessFault, FREE)));
    }
    assert_eq!(
        cause(machine.set_register(EVICT, evict_word(0x1000, 1))),
        Some((Exception::StoreAccessFault, EVICT))
    );
    assert_eq!(machine.set_register(INIT_MEM, u64::MAX), Ok(()));
    assert_eq!(
        (machine.register(FREE_STAT), machine.register(EVICT_STAT), machine.register(NEW_STAT)),
        (Ok(2), Ok(2), Ok(0))
    );
}

#[test]
fn evictions_take_their_time_and_fetches_wait_for_them() {
    let times = DeviceTimes { fetch: 50, eviction: 1_000 };
    let (mut machine, shared) = pager(2, times);
    for (frame, id) in [(0, 1), (1, PageId::MAX.number())] {
        machine.put(FRAMES + frame * 4_096, 100 + frame);
        machine.set_register(EVICT, evict_word(FRAMES + frame * 4_096, id)).unwrap();
    }
    assert_eq!(machine.register(EVICT_STAT), Ok(0));
    let full = machine.set_register(EVICT, evict_word(FRAMES, 3));
    assert_eq!(cause(full), Some((Exception::StoreAccessFault, EVICT)));
    machine.set_register(FREE, FRAMES + 8 * 4_096).unwrap();
    machine.set_entry(0, remote(1, LOCAL));
    let before = machine.cycles();
    assert_eq!(machine.touch(0), Ok(100), "the evicted data");
    assert_eq!(machine.cycles() - before, 1_050, "after the eviction, and its own time");
    assert_eq!(machine.register(EVICT_STAT), Ok(2));
    // The newest data of an id wins, in whatever time.
    for value in 0..5 {
        machine.put(FRAMES, value);
        while machine.register(EVICT_STAT) == Ok(0) {
            machine.idle += 100;
        }
        machine.set_register(EVICT, evict_word(FRAMES, 9)).unwrap();
    }
    machine.idle += 10_000;
    assert_eq!(machine.register(EVICT_STAT), Ok(2));
    let mut page = [0; 4_096];
    shared.0.borrow_mut().read_page(9, &mut page).unwrap();
    assert_eq!(page[0], 4);
}

#[test]
fn a_page_that_remote_memory_refuses_is_an_access_fault() {
    let mut machine = machine_of(&config(2, DeviceTimes::default()), &[0], InProcess::new().strict());
    machine.put(ROOT, (ROOT + 4_096) >> 12 << 10 | 1);
    machine.put(ROOT + 4_096, LEAVES >> 12 << 10 | 1);
    machine.csrs.write(0x180, 8 << 60 | ROOT >> 12);
    machine.set_entry(0, remote(1, LOCAL));
    machine.set_register(FREE, FRAMES).unwrap();
    assert_eq!(cause(machine.touch(16)), Some((Exception::LoadAccessFault, 16)));
    assert_eq!(machine.entry(0), remote(1, LOCAL));
    assert_eq!((machine.register(FREE_STAT), machine.register(NEW_STAT)), (Ok(1), Ok(0)));
}

/// Many more remote pages than there are slots, at every depth.
#[test]
fn a_handler_that_refills_and_drains_gets_through() {
    for depth in [1, 2, 64, 256] {
        let (mut machine, shared) = pager(depth, DeviceTimes { fetch: 7, eviction: 333 });
        const PAGES: u64 = 300;
        for page in 0..PAGES {
            put_page(&shared, page as u32 + 1, page as u8);
            machine.set_entry(page, remote(page as u32 + 1, LOCAL));
        }
        let mut frames: Vec<u64> = (0..600).map(|frame| FRAMES + frame * 4_096).collect();
        let mut seen = Vec::new();
        for page in 0..PAGES {
            let addr = page * 7 % PAGES * 4_096 + 8;
            let value = loop {
                match machine.touch(addr) {
                    Ok(value) => break value,
                    Err(trap) => assert_eq!(trap.cause, Exception::LoadPageFault),
                }
                while machine.register(FREE_STAT).unwrap() > 0 {
                    let frame = frames.pop().unwrap();
                    machine.set_register(FREE, frame).unwrap();
                }
                for _ in 0..machine.register(NEW_STAT).unwrap() {
                    seen.push((machine.register(NEW_PGID).unwrap(), machine.register(NEW_VADDR).unwrap()));
                }
            };
            assert_eq!(value as u8, (page * 7 % PAGES) as u8, "depth {depth}");
        }
        for _ in 0..machine.register(NEW_STAT).unwrap() {
            seen.push((machine.register(NEW_PGID).unwrap(), machine.register(NEW_VADDR).unwrap()));
        }
        let expected: Vec<_> =
            (0..PAGES).map(|page| (page * 7 % PAGES + 1, page * 7 % PAGES * 4_096)).collect();
        assert_eq!(seen, expected, "every page once, in the order in which they were touched");
    }
}

const CLIENT: u64 = 0x1001_8000;
const PAYLOAD: u64 = FRAMES + 0x10_0000;
const ANSWER: u64 = FRAMES + 0x11_0000;

/// Makes a request and hears of its end.
fn request(machine: &mut Machine, op: u64, source: u64, destination: u64, page: u64) -> Result<u64, Trap> {
    machine.store(CLIENT, 8, source)?;
    machine.store(CLIENT + 0x08, 8, destination)?;
    machine.store(CLIENT + 0x10, 8, 0x0200_0000_0002)?;
    machine.store(CLIENT + 0x16, 1, op)?;
    machine.store(CLIENT + 0x18, 8, page)?;
    let number = machine.load(CLIENT + 0x20, 4)?;
    assert_eq!(machine.load(CLIENT + 0x2c, 4), Ok(1));
    assert_eq!(machine.load(CLIENT + 0x24, 4), Ok(number));
    Ok(number)
}

/// A word operation's answer, over a word of ones.
fn word(machine: &mut Machine, op: u64, offset: u64, size: u64, arguments: [u64; 2]) -> u64 {
    machine.put(PAYLOAD, offset << 4 | size);
    machine.put(PAYLOAD + 8, arguments[0]);
    machine.put(PAYLOAD + 16, arguments[1]);
    machine.put(ANSWER, u64::MAX);
    request(machine, op, PAYLOAD, ANSWER, 40).unwrap();
    machine.peek(ANSWER)
}

/// Remote memory with room for so many pages.
struct Small(Shared, usize);

impl Small {
    fn take(&mut self, page: u64) -> Result<(), RemoteError> {
        let mut inner = self.0.0.borrow_mut();
        let is_there = inner.read_page(page, &mut [0; 4_096]).is_ok();
        if is_there || self.1 > 0 {
            self.1 -= usize::from(!is_there);
            return Ok(());
        }
        Err(RemoteError::Refused { page, why: "it is full".to_owned() })
    }
}

impl RemoteMemory for Small {
    fn read_page(&mut self, page: u64, into: &mut Page) -> Result<(), RemoteError> {
        self.0.read_page(page, into)
    }

    fn begin_write(&mut self, page: u64, data: &Page) -> Result<(), RemoteError> {
        self.take(page)?;
        self.0.begin_write(page, data)
    }

    fn write_page(&mut self, page: u64, data: &Page) -> Result<(), RemoteError> {
        self.take(page)?;
        self.0.write_page(page, data)
    }

    fn finished_write(&mut self, wait: bool) -> Result<Option<u64>, RemoteError> {
        self.0.finished_write(wait)
    }

    fn word(&mut self, request: WordRequest) -> Result<u64, RemoteError> {
        self.0.word(request)
    }
}

/// A blade that was full ended the run, because its refusal came after the store to EVICT. Wherever remote memory is, the store
/// of a page that has no room there is an access fault (thesis, Appendix B) and changes nothing; the trace says why.
#[test]
fn a_store_to_evict_is_an_access_fault_when_remote_memory_is_full_wherever_it_is() {
    let limited = Config { remote_pages: Some(2), ..config(4, DeviceTimes { fetch: 0, eviction: 1_000 }) };
    let unlimited = Config { remote_pages: None, ..limited.clone() };
    let strict = || Shared(Rc::new(RefCell::new(InProcess::new().strict())), Rc::default());
    let elsewhere = strict();
    for (mut machine, shared, word) in [
        (
            machine_of(&unlimited, &[asm::jal(0, 0)], Small(elsewhere.clone(), 2)),
            elsewhere,
            "page 3: it is full",
        ),
        (
            machine_of(&limited, &[asm::jal(0, 0)], strict()),
            strict(),
            "remote memory refuses page 3: it holds 2 pages, as many as it may (`--remote-pages`)",
        ),
    ] {
        let notes = Rc::new(RefCell::new(Vec::new()));
        let heard = notes.clone();
        machine.listen(Box::new(move |note| heard.borrow_mut().push(note.to_string())));
        machine.put(FRAMES, 7);
        // The second of page 1 waits for the first; what comes behind them waits, too.
        for id in [1, 1, 2] {
            assert_eq!(machine.set_register(EVICT, evict_word(FRAMES, id)), Ok(()));
        }
        let refused = machine.set_register(EVICT, evict_word(FRAMES, 3));
        assert_eq!(cause(refused), Some((Exception::StoreAccessFault, EVICT)), "{word}");
        assert_eq!(machine.register(EVICT_STAT), Ok(1), "the page took no slot");
        let last = notes.borrow().iter().rfind(|note| note.contains("refused")).cloned().unwrap();
        assert!(last.starts_with("store 0x10017010 = ") && last.contains(word), "{last}");
        let first = machine.first_refusal().expect("the end of a run says it, too").to_string();
        assert!(first.contains(word), "{first}");
        assert_eq!(machine.counts().accelerator.refused, 1, "{word}");
        assert_eq!(machine.run(5_000), None, "the run goes on: {word}");
        assert_eq!(machine.set_register(EVICT, evict_word(FRAMES, 2)), Ok(()), "a page that has its room");
        assert!(machine.finish_evictions().is_ok());
        drop(shared);
    }
}

/// `load 0x10017018 refused` was the last line of a trace whose run ended because remote memory did not answer.
#[test]
fn a_trace_says_why_a_run_or_an_access_ended() {
    struct Silent;
    impl RemoteMemory for Silent {
        fn read_page(&mut self, _: u64, _: &mut Page) -> Result<(), RemoteError> {
            Err(RemoteError::Unreachable("no route".to_owned()))
        }
        fn begin_write(&mut self, _: u64, _: &Page) -> Result<(), RemoteError> {
            Err(RemoteError::Unreachable("no route".to_owned()))
        }
        fn write_page(&mut self, _: u64, _: &Page) -> Result<(), RemoteError> {
            Err(RemoteError::Unreachable("no route".to_owned()))
        }
        fn finished_write(&mut self, _: bool) -> Result<Option<u64>, RemoteError> {
            Err(RemoteError::Unreachable("no route".to_owned()))
        }
        fn word(&mut self, _: WordRequest) -> Result<u64, RemoteError> {
            Err(RemoteError::Unreachable("no route".to_owned()))
        }
    }
    let mut machine = machine_of(&config(4, DeviceTimes::default()), &[0], Silent);
    let notes = Rc::new(RefCell::new(Vec::new()));
    let heard = notes.clone();
    machine.listen(Box::new(move |note| heard.borrow_mut().push(note.to_string())));
    assert!(machine.register(NEW_PGID).is_err());
    assert!(machine.set_register(EVICT_STAT, 0).is_err());
    assert!(machine.register(BLOCK - 8).is_err());
    assert!(machine.set_register(EVICT, evict_word(FRAMES, 5)).is_err());
    assert!(machine.finish_evictions().is_err());
    assert_eq!(
        *notes.borrow(),
        [
            "load 0x10017020 refused: the new queue is empty",
            "store 0x10017018 = 0x0 refused: EVICT_STAT cannot be stored to",
            "load 0x10016ff8 refused: no such register",
            "the run ends: remote memory does not answer: no route",
        ]
    );
    assert!(matches!(machine.run(1), Some(crate::End::Failed(RemoteError::Unreachable(_)))));
}

#[test]
fn the_client_block_does_all_operations() {
    let (mut machine, shared) = pager(2, DeviceTimes::default());
    machine.put(FRAMES + 16, 0x1122_3344_5566_7788);
    assert_eq!(request(&mut machine, 1, FRAMES, 0, 40), Ok(0));
    assert_eq!(request(&mut machine, 0, 0, FRAMES + 4_096, 40), Ok(1));
    assert_eq!(machine.peek(FRAMES + 4_096 + 16), 0x1122_3344_5566_7788);
    let whole = u64::MAX;
    assert_eq!(word(&mut machine, 2, 16, 3, [0; 2]), 0x1122_3344_5566_7788);
    assert_eq!(word(&mut machine, 2, 18, 1, [0; 2]), whole << 16 | 0x5566, "as many bytes as it has");
    assert_eq!(word(&mut machine, 3, 17, 0, [0xff, 0]), whole, "a write answers nothing");
    assert_eq!(word(&mut machine, 4, 16, 1, [0x0100, 0]), whole << 16 | 0xff88, "the old value");
    assert_eq!(word(&mut machine, 2, 16, 1, [0; 2]), whole << 16 | 0x88, "it wrapped");
    assert_eq!(word(&mut machine, 5, 20, 2, [7, 0x1122_3344]), whole << 32 | 1);
    assert_eq!(word(&mut machine, 5, 20, 2, [8, 0x1122_3344]), whole << 32);
    assert_eq!(word(&mut machine, 2, 20, 2, [0; 2]), whole << 32 | 7);
    let mut page = [0; 4_096];
    shared.0.borrow_mut().read_page(40, &mut page).unwrap();
    assert_eq!(page[16..24], 0x0000_0007_5566_0088u64.to_le_bytes());
}

#[test]
fn the_client_block_refuses_what_it_cannot_do() {
    let (mut machine, _) = pager(2, DeviceTimes::default());
    assert!(machine.load(CLIENT + 0x24, 4).is_err(), "nothing has ended");
    for (op, source, destination) in [
        (6, FRAMES, FRAMES),
        (0, 0, FRAMES + 8),
        (0, 0, 0x1000),
        (1, FRAMES + 8, 0),
        (2, 0x1000, ANSWER),
        (2, PAYLOAD, 0),
    ] {
        let refused = cause(request(&mut machine, op, source, destination, 0));
        assert_eq!(
            refused,
            Some((Exception::LoadAccessFault, CLIENT + 0x20)),
            "{op} {source:#x} {destination:#x}"
        );
    }
    machine.put(PAYLOAD, 4_093 << 4 | 2);
    assert!(request(&mut machine, 2, PAYLOAD, ANSWER, 0).is_err(), "across the end of the page");
    assert!(machine.store(CLIENT, 4, 0).is_err() && machine.load(CLIENT + 0x20, 8).is_err());
    for _ in 0..64 {
        machine.store(CLIENT, 8, FRAMES).unwrap();
        machine.store(CLIENT + 0x16, 1, 1).unwrap();
        machine.load(CLIENT + 0x20, 4).unwrap();
    }
    assert_eq!(machine.load(CLIENT + 0x28, 4), Ok(0));
    assert!(machine.load(CLIENT + 0x20, 4).is_err(), "too many that no program asked for");
}

#[test]
fn remote_memory_is_where_the_program_says_unless_that_is_a_page_of_memory() {
    let (mut machine, shared) = pager(2, DeviceTimes::default());
    let heard = || std::mem::take(&mut *shared.1.borrow_mut());
    let (mac, bits) = ([0x02, 0xf1, 0x22, 0x33, 0x44, 0x55], 0xbeef_5544_3322_f102);
    assert_eq!(machine.set_register(INIT_MEM, bits), Ok(()));
    assert_eq!(heard(), [mac], "48 bits, the lowest first");
    for nowhere in [FRAMES, RAM_BASE, 0, 0xffff << 48] {
        assert_eq!(machine.set_register(INIT_MEM, nowhere), Ok(()));
        assert_eq!(heard(), [[0; 6]; 0], "{nowhere:#x}");
    }
    // The client block's register has the operation above the address.
    machine.store(CLIENT + 0x10, 8, 0x0001_5544_3322_f102).unwrap();
    assert_eq!(heard(), [mac]);
    assert_eq!(request(&mut machine, 1, FRAMES, 0, 40), Ok(0));
    assert_eq!(heard(), [[2, 0, 0, 0, 0, 2]]);
    machine.store(CLIENT + 0x10, 8, 1 << 48).unwrap();
    assert_eq!(heard(), [[0; 6]; 0], "an operation alone");
    // Its network card is the one before, as the authors' programs count.
    let own = machine.register(0x1001_6018).unwrap();
    machine.set_register(INIT_MEM, own + (1 << 40)).unwrap();
    assert_eq!(heard(), [[2, 0, 0, 0, 0, 2]]);
}
