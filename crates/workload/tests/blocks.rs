//! Tests of the executed blocks: their operands are the accesses, their instructions are those that are counted, and without them a
//! workload emits the same.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::ops::{ControlFlow, Range};

use pagewalk_code::{Block, Class, Direction, Flow, Records};
use pagewalk_trace::{Access, Batch, Code, Event, Isa, Source};
use rustc_hash::FxHasher;

use super::{SERVERS, is_wanted, specs, workload};

/// By how much the instructions of the blocks may differ from those that are counted, as a ratio by phase: a site has at least an
/// instruction for each access, where the count of a whole operation has fewer of them for some of its paths.
const COUNTED: Range<f64> = 0.9..1.1;

/// Runs of more accesses are left out, and what there is in place of them.
const MOST_ACCESSES: u64 = 4_000_000;
const SPECS: [&str; 3] =
    ["btree:elements=6k,lookups=6k", "graph500:scale=11,roots=2", "xsbench:grid-points=5,particles=100"];

/// What a run emits, batch boundaries apart.
#[derive(Default)]
struct Emitted {
    digest: FxHasher,
    /// Where instructions were counted, and how many.
    segments: FxHasher,
    accesses: u64,
    phases: Vec<Phase>,
    blocks: Blocks,
}

/// The instructions of a phase.
#[derive(Default)]
struct Phase {
    name: String,
    counted: u64,
    executed: u64,
}

/// The blocks of a run with their accesses, and the one that is under execution.
#[derive(Default)]
struct Blocks {
    code: Vec<(Block, Vec<Made>)>,
    last: Option<usize>,
    /// How many accesses it has made.
    made: usize,
    taken: BTreeMap<u64, [u64; 2]>,
}

/// The direction and the size of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Made {
    write: bool,
    bytes: u64,
}

impl Emitted {
    fn of(spec: &str, wants_blocks: bool) -> Self {
        let mut emitted = Self::default();
        let mut source = workload(spec, 1).blocks(wants_blocks);
        let gives_blocks = source.info().gives_blocks;
        source
            .run(&mut |batch: &mut Batch| {
                batch.check().unwrap();
                assert!(gives_blocks || batch.blocks.is_empty());
                emitted.take(spec, batch);
                *batch = Batch::default();
                ControlFlow::Continue(())
            })
            .unwrap();
        emitted.blocks.assert_complete(spec);
        emitted
    }

    fn take(&mut self, spec: &str, batch: &Batch) {
        let mut marks = batch.marks.iter().peekable();
        let mut blocks = batch.blocks.iter().peekable();
        let mut executed = 0;
        for at in 0..=batch.accesses.len() {
            loop {
                if let Some(mark) = marks.next_if(|mark| mark.at as usize == at && mark.blocks == executed) {
                    self.mark(&mark.event);
                } else if let Some(block) = blocks.next_if(|block| block.at as usize == at) {
                    executed += 1;
                    let count = self.blocks.execute(spec, block.block.0 as usize);
                    self.phases.last_mut().expect("a block before the first phase").executed += count;
                } else {
                    break;
                }
            }
            let Some(&access) = batch.accesses.get(at) else { break };
            self.digest.write_u64(access.0);
            self.accesses += 1;
            // Of jobs that are only warming up, there are no blocks.
            if self.phases.last().is_some_and(|phase| phase.name != "warm-up") {
                self.blocks.access(spec, access, self.accesses);
            }
        }
        assert!(marks.next().is_none() && blocks.next().is_none(), "{spec}: out of order");
    }

    fn mark(&mut self, event: &Event) {
        match event {
            Event::Code(code) => return self.blocks.learn(code),
            Event::Instructions(count) => {
                if let Some(phase) = self.phases.last_mut() {
                    phase.counted += count;
                }
                self.segments.write_u64(self.accesses);
                self.segments.write_u64(*count);
                return;
            }
            Event::Phase(name) => self.phases.push(Phase { name: name.clone(), ..Phase::default() }),
            _ => {}
        }
        self.digest.write_u64(self.accesses);
        self.digest.write(format!("{event:?}").as_bytes());
    }
}

impl Blocks {
    fn learn(&mut self, code: &Code) {
        assert_eq!((code.block.0 as usize, code.isa), (self.code.len(), Isa::Model));
        let block = Block::of_model(code.addr.0, &code.bytes);
        assert!(block.instructions.iter().all(|instruction| instruction.class != Class::Unknown));
        assert!(!code.bytes.is_empty() && code.bytes.len() <= Code::MAX_BYTES);
        let mut accesses = Vec::new();
        for instruction in &block.instructions {
            for direction in [Direction::Load, Direction::Store] {
                for operand in &instruction.operands {
                    assert_eq!(operand.records, Records::Exactly(1));
                    let made = Made { write: direction == Direction::Store, bytes: operand.bytes.into() };
                    accesses.extend(
                        (operand.direction == direction || operand.direction == Direction::Modify)
                            .then_some(made),
                    );
                }
            }
        }
        self.code.push((block, accesses));
    }

    /// Executes a block; returns the number of its instructions.
    fn execute(&mut self, spec: &str, number: usize) -> u64 {
        self.assert_complete(spec);
        let (block, _) = &self.code[number];
        if let Some(before) = self.last.map(|last| &self.code[last].0)
            && let Some(Flow::Conditional { target }) = before.instructions.last().map(|last| last.flow)
        {
            self.taken.entry(before.addr).or_default()[usize::from(target == block.addr)] += 1;
        }
        (self.last, self.made) = (Some(number), 0);
        block.instructions.len() as u64
    }

    fn access(&mut self, spec: &str, access: Access, number: u64) {
        let Some(last) = self.last else { return };
        let made = Made { write: access.is_write(), bytes: access.bytes() };
        let expected = self.code[last].1.get(self.made);
        assert_eq!(expected, Some(&made), "{spec}: access {number} of block {:#x?}", self.code[last]);
        self.made += 1;
    }

    fn assert_complete(&self, spec: &str) {
        if let Some(last) = self.last.map(|last| &self.code[last]) {
            assert_eq!(self.made, last.1.len(), "{spec}: accesses of {last:#x?}");
        }
    }

    /// Addresses do not overlap, and branches lead to the beginning of a block, or to one that was not executed.
    fn assert_laid_out(&self, spec: &str) {
        let ranges: BTreeSet<(u64, u64)> =
            self.code.iter().map(|(block, _)| (block.addr, block.addr + u64::from(block.bytes))).collect();
        assert_eq!(ranges.len(), self.code.len(), "{spec}");
        let pairs = || ranges.iter().zip(ranges.iter().skip(1));
        assert!(pairs().all(|(before, behind)| before.1 <= behind.0), "{spec}: {ranges:#x?}");
        for (block, _) in &self.code {
            let Some(Flow::Conditional { target } | Flow::Jump { target }) =
                block.instructions.last().map(|last| last.flow)
            else {
                continue;
            };
            let inside = ranges.iter().find(|range| range.0 < target && target < range.1);
            assert_eq!(inside, None, "{spec}: a branch to {target:#x}");
        }
    }
}

#[test]
fn blocks_are_what_the_accesses_and_the_counts_say() {
    let mut wrong = Vec::new();
    for spec in specs().chain(SPECS.iter().copied().filter(|spec| is_wanted(spec))) {
        let info = workload(spec, 1).blocks(true).info();
        assert!(info.gives_blocks, "{spec}");
        if info.expected_accesses > Some(MOST_ACCESSES) {
            continue;
        }
        let [plain, executed] = [false, true].map(|wants| Emitted::of(spec, wants));
        assert!(plain.blocks.code.is_empty() && !executed.blocks.code.is_empty(), "{spec}");
        assert_eq!(plain.accesses, executed.accesses, "{spec}");
        assert_eq!(plain.digest.finish(), executed.digest.finish(), "{spec}: other accesses or marks");
        // Only jobs compute so long that blocks fill a batch before accesses do.
        let is_server = SERVERS.iter().any(|server| spec.starts_with(server));
        assert!(is_server || plain.segments.finish() == executed.segments.finish(), "{spec}: other counts");
        executed.blocks.assert_laid_out(spec);
        for (phase, same) in executed.phases.iter().zip(&plain.phases) {
            assert_eq!((&phase.name, phase.counted), (&same.name, same.counted), "{spec}");
            let ratio = phase.executed as f64 / phase.counted as f64;
            if phase.counted > 0 && phase.name != "warm-up" && !COUNTED.contains(&ratio) {
                wrong.push(format!(
                    "{spec}: {} executed, {} counted in {}",
                    phase.executed, phase.counted, phase.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Of the updates of a table, each instruction is counted.
#[test]
fn a_loop_of_one_site_is_counted_exactly() {
    for spec in ["gups-small", "gups-small:pair=on"] {
        let emitted = Emitted::of(spec, true);
        assert!(emitted.phases.iter().all(|phase| phase.executed == phase.counted), "{spec}");
        // The branch behind each of 256,000 updates but the last is taken.
        let updates = emitted.blocks.taken.values().last().expect("a branch");
        assert_eq!(*updates, [0, 255_999], "{spec}");
    }
}
