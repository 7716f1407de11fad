//! Executed blocks: which, how often, in which process and thread, and with which accesses.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use iced_x86::{Decoder, DecoderOptions};
use pagewalk_capture::{Frontend, Program};
use pagewalk_code::{Block, Direction, Records};
use pagewalk_trace::{Access, Batch, BlockId, Code, Event, ProcessId, Source, ThreadId};

use crate::common::{Build, compile, compile_for, program, unmodified};

/// What describes the code at an address.
type Describe = fn(u64, &[u8]) -> Block;

/// The executions of a program's blocks.
#[derive(Default)]
struct Executions {
    code: BTreeMap<BlockId, Code>,
    /// Each execution with its process, its thread and its accesses.
    executed: Vec<(ProcessId, ThreadId, BlockId, Vec<Access>)>,
    process: ProcessId,
    thread: ThreadId,
    /// Where each thread's last execution is.
    last: BTreeMap<(ProcessId, ThreadId), usize>,
    instructions: u64,
}

impl Executions {
    fn batch(&mut self, batch: &Batch) {
        batch.check().expect("a batch as its contract says");
        let (mut accesses, mut blocks) = (0, 0);
        for mark in &batch.marks {
            self.piece(batch, (accesses, mark.at as usize), (blocks, mark.blocks as usize));
            (accesses, blocks) = (mark.at as usize, mark.blocks as usize);
            match &mark.event {
                Event::Instructions(count) => self.instructions += count,
                Event::Process(process) => self.process = *process,
                Event::Thread(thread) => self.thread = *thread,
                Event::Code(code) => {
                    assert_eq!(self.code.insert(code.block, code.clone()), None, "a number comes once");
                }
                _ => {}
            }
        }
        self.piece(batch, (accesses, batch.accesses.len()), (blocks, batch.blocks.len()));
    }

    /// Takes the accesses and blocks between two marks.
    fn piece(&mut self, batch: &Batch, (mut at, end): (usize, usize), blocks: (usize, usize)) {
        let who = (self.process, self.thread);
        for block in &batch.blocks[blocks.0..blocks.1] {
            self.accesses(who, &batch.accesses[at..block.at as usize]);
            at = block.at as usize;
            assert!(self.code.contains_key(&block.block), "the code comes before the execution");
            self.last.insert(who, self.executed.len());
            self.executed.push((who.0, who.1, block.block, Vec::new()));
        }
        self.accesses(who, &batch.accesses[at..end]);
    }

    fn accesses(&mut self, who: (ProcessId, ThreadId), accesses: &[Access]) {
        if !accesses.is_empty() {
            let last = *self.last.get(&who).expect("every access is a block's");
            self.executed[last].3.extend_from_slice(accesses);
        }
    }

    /// The executions of blocks that begin at an address, as process, thread, bytes and accesses.
    fn at(&self, addr: u64) -> Vec<(ProcessId, ThreadId, &[u8], &[Access])> {
        let here = self.executed.iter().filter(|(_, _, block, _)| self.code[block].addr.0 == addr);
        here.map(|(process, thread, block, accesses)| {
            (*process, *thread, &*self.code[block].bytes, accesses.as_slice())
        })
        .collect()
    }
}

/// Runs a program that ends with a status; its executions.
fn executions_of(observed: &mut Program, status: i32, what: &str) -> Executions {
    let mut executions = Executions { thread: ThreadId(1), ..Executions::default() };
    observed
        .run(&mut |batch: &mut Batch| {
            executions.batch(batch);
            ControlFlow::Continue(())
        })
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(observed.outcome().expect("an outcome").status.code(), Some(status), "{what}");
    executions
}

/// Runs a mode of the program; its executions, and the addresses that it printed.
fn run(build: Build, mode: &str, count: u32) -> (Executions, Vec<u64>) {
    let path = compile("code", build);
    let args = [mode, &count.to_string()];
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out");
    // The program prints to a file: under a front-end, its addresses may be others.
    let script = format!("exec {} \"$@\" > {}", path.display(), output.display());
    let words = ["-c", &script, "code"].into_iter().chain(args);
    let words: Vec<&str> = words.collect();
    let mut observed = program("/bin/sh".as_ref(), &words, build.frontend()).blocks(true);
    let executions = executions_of(&mut observed, 0, &format!("{build:?} {mode}"));
    let text = std::fs::read_to_string(&output).expect("what it printed");
    let address = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("an address");
    (executions, text.split_whitespace().map(address).collect())
}

#[test]
fn a_block_is_executed_as_often_as_it_is_called_with_its_accesses() {
    for build in unmodified() {
        let (executions, addresses) = run(build, "calls", 1000);
        let calls = executions.at(addresses[0]);
        assert_eq!(calls.len(), 1000, "{build:?}");
        for (_, _, bytes, accesses) in calls {
            assert_eq!(bytes, [0x48, 0x8b, 7, 0x48, 0x83, 0xc0, 1, 0x48, 0x89, 7, 0xc3]);
            let kinds: Vec<_> = accesses.iter().map(|access| (access.bytes(), access.is_write())).collect();
            assert_eq!(kinds, [(8, false), (8, true), (8, false)], "{build:?}: load, store, return address");
        }
    }
}

/// The number that a front-end gives of a block is that of the instructions in its bytes.
#[test]
fn the_instructions_of_executed_blocks_are_those_that_are_counted() {
    for build in unmodified() {
        let (executions, _) = run(build, "calls", 10);
        let length = |code: &Code| {
            let decoder = Decoder::with_ip(64, &code.bytes, code.addr.0, DecoderOptions::NONE);
            decoder.into_iter().count() as u64
        };
        let lengths: BTreeMap<BlockId, u64> =
            executions.code.iter().map(|(block, code)| (*block, length(code))).collect();
        let executed: u64 = executions.executed.iter().map(|(_, _, block, _)| lengths[block]).sum();
        assert_eq!(executed, executions.instructions, "{build:?}");
    }
}

/// The description of a block's instructions says which accesses an execution makes, in which order and of which size.
#[test]
fn a_block_makes_the_accesses_that_its_instructions_are_described_with() {
    for build in unmodified() {
        let (executions, _) = run(build, "calls", 10);
        let checked = check_accesses(&executions, Block::of_x86_64, &format!("{build:?}"));
        assert!(checked > 1_000, "{build:?}");
    }
}

/// The same of other instruction sets, under QEMU.
#[test]
fn blocks_of_other_instruction_sets_make_the_accesses_that_are_described() {
    let programs = [
        ("foreign.c", "riscv64", "-march=rv64gc", Block::of_riscv64 as Describe, 1_000),
        ("foreign.c", "aarch64", "-march=armv8-a", Block::of_aarch64, 1_000),
        ("aarch64.S", "aarch64", "-march=armv8.3-a", Block::of_aarch64, 5),
    ];
    for (source, target, march, describe, least) in programs {
        let Some(path) = compile_for(source, target, march) else { continue };
        let (mut observed, what) =
            (program(&path, &[], Frontend::Qemu).blocks(true), format!("{source}, {target}"));
        let executions = executions_of(&mut observed, 7, &what);
        let checked = check_accesses(&executions, describe, &what);
        assert!(checked >= least, "{what}: {checked} blocks");
    }
}

/// Compares the accesses of blocks with their descriptions; returns the number of executions whose accesses do not depend on data.
fn check_accesses(executions: &Executions, describe: Describe, what: &str) -> usize {
    let described: BTreeMap<BlockId, Vec<(u64, bool)>> = executions
        .code
        .iter()
        .filter_map(|(block, code)| Some((*block, described(&describe(code.addr.0, &code.bytes))?)))
        .collect();
    let (mut checked, mut wrong) = (0, BTreeMap::<BlockId, Vec<Access>>::new());
    for (_, _, block, accesses) in &executions.executed {
        let Some(described) = described.get(block) else { continue };
        checked += 1;
        let made = accesses.iter().map(|access| (access.bytes(), access.is_write()));
        if !made.eq(described.iter().copied()) {
            wrong.insert(*block, accesses.clone());
        }
    }
    for (block, accesses) in &wrong {
        let bytes = &executions.code[block].bytes;
        println!("{what}: {bytes:02x?} made {accesses:?}, and not {:?}", described[block]);
    }
    assert!(wrong.is_empty(), "{what}: {} blocks", wrong.len());
    checked
}

/// The sizes and directions of a block's accesses; none if they depend on data.
fn described(block: &Block) -> Option<Vec<(u64, bool)>> {
    let mut all = Vec::new();
    for instruction in &block.instructions {
        for is_store in [false, true] {
            for operand in &instruction.operands {
                let is_wanted = match operand.direction {
                    Direction::Load => !is_store,
                    Direction::Modify => true,
                    Direction::Store => is_store,
                };
                let Records::Exactly(records) = operand.records else { return None };
                let bytes = (u64::from(operand.bytes) / u64::from(records.max(1))).next_power_of_two();
                let count = if is_wanted { usize::from(records) } else { 0 };
                all.extend(std::iter::repeat_n((bytes, is_store), count));
            }
        }
    }
    Some(all)
}

#[test]
fn code_that_is_written_anew_is_another_block() {
    for build in unmodified() {
        let (executions, addresses) = run(build, "rewrite", 50);
        let values: Vec<u8> = executions.at(addresses[0]).iter().map(|(_, _, bytes, _)| bytes[1]).collect();
        assert_eq!(values, [[1; 50], [2; 50]].concat(), "{build:?}");
    }
}

#[test]
fn each_thread_executes_its_own_blocks() {
    for build in unmodified() {
        let (executions, addresses) = run(build, "threads", 30_000);
        let mut threads = [(addresses[0], 3), (addresses[1], 5)].map(|(address, accesses)| {
            let calls = executions.at(address);
            assert_eq!(calls.len(), 30_000, "{build:?}");
            let thread = calls[0].1;
            assert!(calls.iter().all(|call| call.1 == thread && call.3.len() == accesses), "{build:?}");
            thread
        });
        // The numbers have the order of the threads' first accesses, which is the scheduler's.
        threads.sort();
        assert_eq!(threads, [ThreadId(2), ThreadId(3)], "{build:?}");
    }
}

#[test]
fn a_child_goes_on_with_its_parents_blocks() {
    for build in unmodified() {
        let (executions, addresses) = run(build, "fork", 40);
        let by_process = |address| {
            let calls = executions.at(address);
            [0, 1].map(|process| calls.iter().filter(|call| call.0 == ProcessId(process)).count())
        };
        assert_eq!(by_process(addresses[0]), [80, 0], "{build:?}");
        assert_eq!(by_process(addresses[1]), [0, 40], "{build:?}");
        // The loop that calls is the parent's code, and both execute it.
        let blocks_of = |process| -> BTreeSet<BlockId> {
            let own = executions.executed.iter().filter(|executed| executed.0 == ProcessId(process));
            own.map(|executed| executed.2).collect()
        };
        assert!(!blocks_of(0).is_disjoint(&blocks_of(1)), "{build:?}");
    }
}

/// An engine takes one repetition at a time: the blocks have as many accesses together as there are repetitions.
#[test]
fn a_repeated_instruction_has_all_its_accesses() {
    for build in unmodified() {
        let (executions, addresses) = run(build, "repeat", 1000);
        // The instruction behind `mov %rdx, %rcx`, and that one with it.
        let [start, repeat] = [addresses[2], addresses[2] + 3].map(|address| executions.at(address));
        let accesses =
            start.iter().chain(&repeat).flat_map(|call| call.3).filter(|access| access.bytes() == 1);
        assert_eq!(accesses.count(), 2000, "{build:?}");
    }
}

/// Without being asked, a front-end records no blocks; the call-out front-end has none to give.
#[test]
fn blocks_are_recorded_where_they_are_wanted() {
    let quiet = |frontend: Frontend, blocks: bool| {
        let path =
            compile("code", if frontend == Frontend::Callout { Build::GccCallout } else { Build::Plain });
        let mut observed = program(&path, &["calls", "1"], frontend).stdout_to_stderr(true).blocks(blocks);
        let (gives, mut count) = (observed.info().gives_blocks, 0);
        observed
            .run(&mut |batch: &mut Batch| {
                count += batch.blocks.len();
                ControlFlow::Continue(())
            })
            .expect("a run");
        (gives, count > 0)
    };
    assert_eq!(quiet(Frontend::Valgrind, false), (false, false));
    assert_eq!(quiet(Frontend::Valgrind, true), (true, true));
    assert_eq!(quiet(Frontend::Callout, true), (false, false));
}
