//! The dataflow model against closed forms: programs of a few instructions, whose time is known.

use pagewalk_trace::{BlockId, Code, Isa};

use super::*;
use crate::spec::settings::{NextLineSpec, PrefetchSpec, StreamSpec, StrideSpec};

pub(super) const CODE: u64 = 0x40_0000;
pub(super) const LINE: u64 = 64;
/// Rounds of a loop that are measured; twice as many are run, and the difference counts.
pub(super) const ROUNDS: u64 = 4_000;

/// A program that executes blocks.
pub(super) struct Script {
    batches: Vec<Batch>,
    blocks: u32,
}

impl Script {
    /// A program with so many bytes at [`BASE`], each page of which has been touched.
    pub(super) fn new(bytes: u64) -> Self {
        let mut script = Self { batches: vec![Batch::new()], blocks: 0 };
        map(script.batch(), BASE, bytes);
        for page in 0..bytes.div_ceil(4096) {
            script.batch().push(Access::store(VirtAddr(BASE + page * 4096), 8));
        }
        script
    }

    pub(super) fn batch(&mut self) -> &mut Batch {
        if self.batches.last().is_some_and(Batch::is_full) {
            self.batches.push(Batch::new());
        }
        self.batches.last_mut().expect("there is one")
    }

    /// Describes a block at an address.
    pub(super) fn block(&mut self, addr: u64, code: &[u8]) -> BlockId {
        self.block_of(Isa::X86_64, addr, code)
    }

    /// Describes a block of model instructions at an address.
    fn model_block(&mut self, addr: u64, code: &[u8]) -> BlockId {
        self.block_of(Isa::Model, addr, code)
    }

    pub(super) fn block_of(&mut self, isa: Isa, addr: u64, code: &[u8]) -> BlockId {
        let block = BlockId(self.blocks);
        self.blocks += 1;
        self.batch().mark(Event::Code(Code { block, addr: VirtAddr(addr), isa, bytes: code.into() }));
        block
    }

    pub(super) fn execute(&mut self, block: BlockId, accesses: &[Access]) {
        self.batch().execute(block);
        accesses.iter().for_each(|&access| self.batch().push(access));
    }

    pub(super) fn run(&self, spec: &MachineSpec) -> RunResult {
        self.take(Self::machine::<IntervalClock>(spec))
    }

    pub(super) fn run_counts(&self, spec: &MachineSpec) -> RunResult {
        self.take(Self::machine::<NoClock>(spec))
    }

    pub(super) fn run_counts_without_filters(&self, spec: &MachineSpec) -> RunResult {
        let mut machine = Self::machine::<NoClock>(spec);
        machine.engine.mmu.without_filters();
        self.take(machine)
    }

    fn machine<C: Clock>(spec: &MachineSpec) -> Machine<Plain, C> {
        let info = SourceInfo { gives_blocks: true, ..announced() };
        machine::<Plain, C>(spec, 0, &info).expect("a machine")
    }

    fn take<C: Clock>(&self, mut machine: Machine<Plain, C>) -> RunResult {
        for batch in &self.batches {
            machine.batch(batch).expect("a sound batch");
        }
        machine.finish("script")
    }
}

/// Cycles for each round of a loop of one block, whose round `n` makes the accesses that `accesses` tells.
pub(super) fn cycles_of_loop(
    spec: &MachineSpec,
    bytes: u64,
    code: &[u8],
    accesses: impl Fn(u64) -> Vec<Access>,
) -> f64 {
    cycles_of_part("elapsed", spec, bytes, code, accesses)
}

/// The same for a part of the time.
pub(super) fn cycles_of_part(
    part: &str,
    spec: &MachineSpec,
    bytes: u64,
    code: &[u8],
    accesses: impl Fn(u64) -> Vec<Access>,
) -> f64 {
    let time = |rounds: u64| {
        let mut script = Script::new(bytes);
        let block = script.block(CODE, code);
        (0..rounds).for_each(|round| script.execute(block, &accesses(round)));
        value(&script.run(spec), "time", part)
    };
    // The second half finds the caches as the first left them.
    let (first, both) = (time(ROUNDS), time(2 * ROUNDS));
    (both - first) as f64 / (ROUNDS * spec.core.cycle_ps) as f64
}

/// A machine whose memory is a latency, and whose caches do not have what the kernel zeroed.
pub(super) fn zen3() -> MachineSpec {
    changed(spec("zen3"), |spec| {
        spec.hierarchy.memory.line_ps = None;
        spec.kernel.writes_are_cached = false;
        spec.hierarchy.caches.iter_mut().for_each(|cache| cache.prefetch = None);
    })
}

pub(super) fn load(line: u64) -> Vec<Access> {
    vec![Access::load(VirtAddr(BASE + line * LINE), 8)]
}

pub(super) fn assert_near(found: f64, expected: f64, what: &str) {
    let error = (found - expected).abs() / expected;
    assert!(error < 0.03, "{what}: {found:.2} cycles, and not {expected:.2}");
}

/// mov (%rdi), %rdi; dec %rcx; jne: each load's address is the load before.
pub(super) const CHASE: &[u8] = &[0x48, 0x8b, 0x3f, 0x48, 0xff, 0xc9, 0x75, 0xf8];
/// mov (%rdi), %rax; dec %rcx; jne: no load waits for another.
pub(super) const LOADS: &[u8] = &[0x48, 0x8b, 0x07, 0x48, 0xff, 0xc9, 0x75, 0xf8];

#[test]
fn a_dependent_chain_pays_the_latency_of_the_level_where_its_data_is() {
    let spec = zen3();
    let chase = |kib: u64| {
        let lines = kib * 1024 / LINE;
        // The lines in an order that brings each page in turn, so that TLBs of fewer entries miss; not those first that touching the pages
        // brought into the caches.
        cycles_of_loop(&spec, kib * 1024, CHASE, |round| {
            load(round % (lines / 64) * 64 + (round / (lines / 64) + 1) % 64)
        })
    };
    assert_near(chase(16), 4.0, "first cache");
    // 60 pages, which the first TLB holds.
    assert_near(chase(240), 12.0, "second cache");
    // The time beyond a hit is charged to the cache that has the line.
    let second =
        |part| cycles_of_part(part, &spec, 240 << 10, CHASE, |round| load(round % 60 * 64 + round / 60 % 64));
    assert_near(second("memory.l2"), 8.0, "beyond the first cache, in the second");
    let memory = 110_000.0 / spec.core.cycle_ps as f64;
    // Both TLBs are looked up in vain, the walk starts and looks into the walk caches, then into the first cache, which has the entries of
    // eight pages in a line.
    let walk = chase(128 << 10) - memory;
    assert!((f64::from(7 + 14 + 4 + 4)..39.0).contains(&walk), "a walk: {walk} cycles");
}

#[test]
fn independent_loads_share_the_latency_among_the_outstanding_misses() {
    let spec = zen3();
    // Each line once: none is in a cache, and a page is used 64 times.
    let cycles = cycles_of_loop(&spec, 2 * ROUNDS * LINE, LOADS, load);
    assert_near(cycles, 110_000.0 / spec.core.cycle_ps as f64 / 24.0, "24 outstanding misses");
    let cycles = cycles_of_loop(&spec, 4096, LOADS, |_| load(0));
    assert_near(cycles, 1.0, "a taken branch a cycle");
}

#[test]
fn a_stream_takes_what_the_bandwidth_of_memory_allows() {
    // 8 GiB a second: a line takes 7.45 ns, which is more than a 24th of the latency.
    let limited = changed(zen3(), |spec| spec.hierarchy.memory.line_ps = Some(7_450));
    let line = 7_450.0 / limited.core.cycle_ps as f64;
    let bytes = 2 * ROUNDS * LINE;
    assert_near(cycles_of_loop(&limited, bytes, LOADS, load), line, "lines that are loaded");
    // mov %rax, (%rdi); dec %rcx; jne. A line is read before it is changed, and written back when it leaves the last cache, where
    // there is room for all.
    let stores = [0x48, 0x89, 0x07, 0x48, 0xff, 0xc9, 0x75, 0xf8];
    let store = |line| vec![Access::store(VirtAddr(BASE + line * LINE), 8)];
    assert_near(cycles_of_loop(&limited, bytes, &stores, store), line, "lines that are stored to");
    let small = changed(limited, |spec| spec.hierarchy.caches.truncate(1));
    assert_near(cycles_of_loop(&small, bytes, &stores, store), 2.0 * line, "lines that come and go");
    let apart = changed(small, |spec| spec.hierarchy.memory.write_line_ps = Some(7_450));
    assert_near(cycles_of_loop(&apart, bytes, &stores, store), line, "lines that go in a way of their own");
}

#[test]
fn prefetchers_hide_the_latency_of_memory_from_a_chain_that_goes_on_in_order() {
    let plain = changed(zen3(), |spec| {
        spec.hierarchy.memory.latency_ps = 140 * spec.core.cycle_ps;
    });
    // For each page of 64 lines.
    let chase = |spec: &MachineSpec| 64.0 * cycles_of_loop(spec, 2 * ROUNDS * LINE, CHASE, load);
    let memory = 140.0;
    // The first line of a page is in a cache, because the page was touched; its walk finds its entry in a cache, too.
    let first = chase(&plain) - 63.0 * memory;
    assert!((12.0..70.0).contains(&first), "{first} cycles for the first line");
    let with = |level: usize, prefetch: PrefetchSpec| {
        chase(&changed(plain.clone(), |spec| spec.hierarchy.caches[level].prefetch = Some(prefetch)))
    };
    let none = PrefetchSpec { next_line: None, stride: None, stream: None };
    // A stream goes on from page to page, sixteen lines ahead, which are more than memory's latency; six are less.
    let stream = |distance| {
        let stream = StreamSpec { pages: 8, distance, near: 0, crosses_pages: true };
        PrefetchSpec { stream: Some(stream), ..none.clone() }
    };
    assert_near(with(1, stream(16)), first + 63.0 * 12.0, "a stream");
    assert_near(with(1, stream(6)), first + 63.0 * memory / 7.0, "a stream that is too near");
    // With each line the next one is on its way, which hides a hit's time; and then the next one is there.
    let next_line = PrefetchSpec {
        next_line: Some(NextLineSpec { lines: 1, by_neighbours: false, remembered: 0 }),
        ..none.clone()
    };
    assert_near(with(1, next_line), first + 32.0 * (memory - 12.0) + 31.0 * 12.0, "the next line");
    // Steps go on from page to page. The first line of a page makes the prefetcher ask for the fortieth; those between miss.
    let stride = PrefetchSpec { stride: Some(StrideSpec { instructions: 16, distance: 40 }), ..none };
    assert_near(with(0, stride), first + 39.0 * memory + 24.0 * 4.0, "a stride");
}

#[test]
fn an_in_order_core_stops_at_the_first_instruction_that_needs_a_load() {
    let in_order = changed(zen3(), |spec| dataflow(spec).is_in_order = true);
    let cycles = |spec: &MachineSpec, code: &[u8]| cycles_of_loop(spec, 2 * ROUNDS * LINE, code, load);
    let memory = 110_000.0 / in_order.core.cycle_ps as f64;
    let loads = memory / 24.0;
    assert_near(cycles(&in_order, LOADS), loads, "loads that nothing needs");
    // mov (%rdi), %rax; add %rax, %rdx; dec %rcx; jne
    let used = [0x48, 0x8b, 0x07, 0x48, 0x01, 0xc2, 0x48, 0xff, 0xc9, 0x75, 0xf5];
    assert_near(cycles(&zen3(), &used), loads, "a sum, out of order");
    assert_near(cycles(&in_order, &used), cycles(&in_order, CHASE), "a sum, in order: as a chain of loads");
}

#[test]
fn a_store_hands_its_data_to_a_load_of_the_same_address() {
    // add $1, %rax; mov %rax, D(BASE); mov D(BASE), %rax; dec %rcx; jne, with the stack pointer and with another register as base
    let on_stack = [
        0x48, 0x83, 0xc0, 1, 0x48, 0x89, 0x44, 0x24, 8, 0x48, 0x8b, 0x44, 0x24, 8, 0x48, 0xff, 0xc9, 0x75,
        0xed,
    ];
    let other = [0x48, 0x83, 0xc0, 1, 0x48, 0x89, 0x43, 8, 0x48, 0x8b, 0x43, 8, 0x48, 0xff, 0xc9, 0x75, 0xef];
    let cycles = |code: &[u8], places: u64| {
        cycles_of_loop(&zen3(), 4096, code, |round| {
            let at = VirtAddr(BASE + 8 + round % places * 8);
            vec![Access::store(at, 8), Access::load(at, 8)]
        })
    };
    assert_near(cycles(&on_stack, 1), 1.0, "renamed: the addition alone");
    assert_near(cycles(&on_stack, 7), 1.0, "renamed wherever it is");
    assert_near(cycles(&other, 1), 1.0, "foreseen");
    assert_near(cycles(&other, 7), 1.0, "foreseen wherever it is");
}

#[test]
fn a_unit_that_is_wanted_more_often_than_there_are_any_takes_the_time() {
    let none = |_| Vec::new();
    // Five multiplications into registers of their own; dec; jne. There is one multiplier.
    let multiply = |register: u8| [0x48, 0x6b, 0xc7 | register << 3, 3];
    let code = [&[0, 2, 3, 5, 6].map(multiply).concat()[..], &[0x48, 0xff, 0xc9, 0x75, 0xe7]].concat();
    assert_near(cycles_of_loop(&zen3(), 4096, &code, none), 5.0, "multiplications");
    let unlimited = changed(zen3(), |spec| dataflow(spec).are_units_limited = false);
    assert_near(cycles_of_loop(&unlimited, 4096, &code, none), 1.0, "five, and a fused pair: six a cycle");
    // Three multiplications, each of the one before: three cycles each.
    let code =
        [&[multiply(7), multiply(7), multiply(7)].concat()[..], &[0x48, 0xff, 0xc9, 0x75, 0xef]].concat();
    assert_near(cycles_of_loop(&zen3(), 4096, &code, none), 9.0, "a chain of multiplications");
    let ignored = changed(zen3(), |spec| dataflow(spec).are_dependences_followed = false);
    assert_near(cycles_of_loop(&ignored, 4096, &code, none), 3.0, "the multiplier alone");
}

pub(super) fn dataflow(spec: &mut MachineSpec) -> &mut crate::spec::settings::DataflowSpec {
    spec.core.dataflow.as_mut().expect("the machine has the model")
}

/// Cycles for each round of a loop with a branch over one instruction, which is taken where `taken` says; and those that were
/// charged to mispredictions.
fn cycles_of_branch(spec: &MachineSpec, taken: impl Fn(u64) -> bool) -> [f64; 2] {
    let times = |rounds: u64| {
        let mut script = Script::new(4096);
        // test %eax, %eax; jne +3 | inc %rdx | jmp to the beginning
        let test = script.block(CODE, &[0x85, 0xc0, 0x75, 3]);
        let over = script.block(CODE + 4, &[0x48, 0xff, 0xc2]);
        let jump = script.block(CODE + 7, &[0xeb, 0xf7]);
        for round in 0..rounds {
            script.execute(test, &[]);
            if !taken(round) {
                script.execute(over, &[]);
            }
            script.execute(jump, &[]);
        }
        let result = script.run(spec);
        ["elapsed", "branch"].map(|metric| value(&result, "time", metric))
    };
    let (both, first) = (times(2 * ROUNDS), times(ROUNDS));
    [0, 1].map(|part| (both[part] - first[part]) as f64 / (ROUNDS * spec.core.cycle_ps) as f64)
}

#[test]
fn a_random_branch_costs_a_misprediction_every_other_time() {
    let mut generator = Random(9);
    let coins: Vec<bool> = (0..2 * ROUNDS).map(|_| generator.below(2) == 1).collect();
    let random = |round: u64| coins[round as usize];
    assert_near(cycles_of_branch(&zen3(), |_| true)[0], 2.0, "two taken branches a round");
    assert_near(
        cycles_of_branch(&zen3(), |round| round % 4 == 0)[0],
        1.25,
        "a pattern: one taken branch a round, or two",
    );
    // The right way is dispatched 16 cycles behind the branch, which is done two behind its dispatch.
    let [cycles, mispredicted] = cycles_of_branch(&zen3(), random);
    assert!((9.0..11.5).contains(&cycles), "{cycles}");
    assert!((7.5..8.5).contains(&mispredicted), "half of 16: {mispredicted}");
    let known = changed(zen3(), |spec| dataflow(spec).are_branches_predicted = false);
    assert_near(cycles_of_branch(&known, random)[0], 1.0, "two branches a round, two a cycle");
}

/// In a chain each load waits for its walk; beside each other, walks overlap with other loads and with each other.
#[test]
fn walks_are_exposed_in_a_chain_and_hidden_beside_one() {
    let pages = 3 * 4096_u64;
    let small = zen3();
    let huge = changed(zen3(), |spec| spec.translation.huge_pages = HugePagePolicy::Always);
    // A page after the other, more than all TLBs hold, and never the same line of its page's set again.
    let line = |round: u64| load(round * 64 % (pages * 64) + round % 61);
    let of =
        |part: &str, spec: &MachineSpec, code: &[u8]| cycles_of_part(part, spec, pages * 4096, code, line);
    let walked = |code: &[u8]| of("elapsed", &small, code) - of("elapsed", &huge, code);
    let (exposed, beside) = (walked(CHASE), walked(LOADS));
    // The second TLB is looked up in vain, the walk starts and looks into the walk caches, then at least the first cache is read.
    assert!(exposed >= f64::from(7 + 14 + 4 + 4), "{exposed}");
    assert!(beside < exposed / 3.0, "{beside} of {exposed}");
    // They are charged as they are waited for: a chain's in full, and otherwise a share of what loads wait for, with a miss register.
    assert_near(of("walk", &small, CHASE), exposed, "walks of a chain");
    let [walk, memory] = ["walk", "memory"].map(|part| of(part, &small, LOADS));
    let chain = of("memory", &small, CHASE);
    assert!(walk > 0.0 && walk / memory < exposed / chain, "{walk} and {memory} of walks beside each other");
}

/// Model instructions are executed as those of a processor are: a chain of loads pays its latency, and independent ones the units.
/// Control goes from a block to whichever comes next, and a branch is taken only if that is its target.
#[test]
fn model_instructions_have_dependences_and_branches() {
    use pagewalk_code::model::{Op, general};
    let spec = zen3();
    let [at, other] = [0, 1].map(general);
    let cycles = |loaded, repeats: bool| {
        let end = if repeats { Op::branch().towards(-2).expect("near") } else { Op::compare(&[other]) };
        let code = [Op::load(loaded, 8, &[at]), Op::compare(&[other]), end].map(Op::to_bytes).concat();
        let elapsed = |rounds: u64| {
            let mut script = Script::new(4096);
            let block = script.model_block(CODE, &code);
            (0..rounds).for_each(|_| script.execute(block, &load(0)));
            value(&script.run(&spec), "time", "elapsed")
        };
        (elapsed(2 * ROUNDS) - elapsed(ROUNDS)) as f64 / (ROUNDS * spec.core.cycle_ps) as f64
    };
    assert_near(cycles(at, true), 4.0, "a chain of hits in the first cache");
    assert_near(cycles(other, true), 1.0, "a taken branch a cycle");
    assert_near(cycles(other, false), 0.5, "six instructions a cycle, of blocks that fall through");
}

/// Instructions of RV64 are executed as those of x86-64 are. On an in-order core of one instruction a cycle, a load that misses stops the
/// one that needs it.
#[test]
fn riscv_instructions_have_dependences_and_branches() {
    let in_order = changed(zen3(), |spec| {
        spec.core.width = 1;
        spec.core.dataflow.as_mut().expect("the machine executes instructions").is_in_order = true;
    });
    let cycles = |spec: &MachineSpec, code: &[u8], lines: u64| {
        let elapsed = |rounds: u64| {
            let mut script = Script::new(2 * ROUNDS * LINE);
            let block = script.block_of(Isa::Riscv64, CODE, code);
            (0..rounds).for_each(|round| script.execute(block, &load(round % lines)));
            value(&script.run(spec), "time", "elapsed")
        };
        (elapsed(2 * ROUNDS) - elapsed(ROUNDS)) as f64 / (ROUNDS * spec.core.cycle_ps) as f64
    };
    // c.ld a0, 0(a0); c.addi a1, -1; c.bnez a1: each load's address is the load before.
    let chain = [0x08, 0x61, 0xfd, 0x15, 0xf5, 0xfd];
    // c.ld a2, 0(a0), and the same.
    let loads = [0x10, 0x61, 0xfd, 0x15, 0xf5, 0xfd];
    assert_near(cycles(&zen3(), &chain, 1), 4.0, "a chain of hits in the first cache");
    // The branch does not fuse with the subtraction.
    assert_near(cycles(&zen3(), &loads, 1), 1.0, "a taken branch a cycle");
    let memory = 110_000.0 / zen3().core.cycle_ps as f64;
    assert_near(cycles(&in_order, &chain, 2 * ROUNDS), memory, "a chain that misses");
    let all = cycles(&in_order, &loads, 2 * ROUNDS);
    assert!(all < memory / 20.0, "{all} cycles of loads whose data no instruction needs");
    assert_near(
        cycles(&in_order, &chain, 1),
        4.0,
        "the others are executed while a load waits for its address",
    );
    assert_near(cycles(&in_order, &loads, 1), 3.0, "three instructions, one a cycle");
}

/// A file may say anything.
#[test]
fn strange_blocks_and_accesses_that_no_instruction_makes_are_taken() {
    let mut script = Script::new(4096);
    let mut strange = |number: u32, addr: u64, code: &[u8]| {
        let (block, addr) = (BlockId(number), VirtAddr(addr));
        let bytes = code.into();
        script.batch().mark(Event::Code(Code { block, addr, isa: Isa::X86_64, bytes }));
        // Too few accesses, too many, and a part of one.
        script.execute(block, &[]);
        script.execute(block, &[load(0), load(1), load(2)].concat());
        let part = Access::load(VirtAddr(BASE), 8).continued();
        script.execute(block, &[part, part]);
    };
    strange(0, u64::MAX, CHASE);
    strange(1, 0, &[]);
    strange(1, CODE, &[0xff; 40]);
    strange(u32::MAX, CODE, LOADS);
    strange(2, CODE, &[0xf3, 0xa4]);
    let result = script.run(&zen3());
    assert_eq!(value(&result, "program", "accesses"), 1 + 5 * 5);
}

/// Time is the sum of what it went into, and the blocks of a program that no core model follows change nothing.
#[test]
fn the_parts_of_time_add_up() {
    let mut script = Script::new(64 * 4096);
    let blocks = [CHASE, LOADS].map(|code| script.block(CODE, code));
    let mut random = Random(5);
    for _ in 0..5_000 {
        let line = random.below(64 * 64);
        script.execute(blocks[(line % 2) as usize], &load(line));
    }
    let result = script.run(&zen3());
    let of = |metric| value(&result, "time", metric);
    let parts = ["compute", "branch", "fetch", "walk", "memory", "fault"].map(of);
    assert_eq!(parts.iter().sum::<u64>(), of("elapsed"), "{parts:?}");
    for (part, finer) in [
        ("compute", &["compute.width", "compute.dependences"][..]),
        ("memory", &["memory.l1", "memory.l2", "memory.l3", "memory.dram", "memory.stores"]),
        ("walk", &["walk.tlb", "walk.tables"]),
        ("fetch", &["fetch.translation", "fetch.lines"]),
    ] {
        assert_eq!(finer.iter().map(|metric| of(metric)).sum::<u64>(), of(part), "{part}");
    }

    let interval = changed(zen3(), |spec| spec.core.dataflow = None);
    let mut without = Script { batches: script.batches.clone(), blocks: 0 };
    for batch in &mut without.batches {
        batch.blocks.clear();
        batch.marks.retain_mut(|mark| {
            mark.blocks = 0;
            !matches!(mark.event, Event::Code(_))
        });
    }
    assert_eq!(script.run(&interval).metrics, without.run(&interval).metrics);
}
