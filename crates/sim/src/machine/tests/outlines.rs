//! The dataflow model on traces of ChampSim, whose instructions are described by their outlines, against closed forms.

use std::io::Cursor;
use std::ops::ControlFlow;

use pagewalk_trace::Source;
use pagewalk_trace::foreign::{ForeignSource, Format};

use super::dataflow::zen3;
use super::*;

const CODE: u64 = 0x40_0000;
const LINE: u64 = 64;
const ROUNDS: u64 = 4_000;
/// Pin's numbers of registers.
const RDI: u8 = 3;
const RSP: u8 = 6;
const RCX: u8 = 9;
const RAX: u8 = 10;
const FLAGS: u8 = 25;
const IP: u8 = 26;

/// A record of ChampSim with a load, if the address is not 0.
fn record(ip: u64, written: &[u8], read: &[u8], load: u64) -> [u8; 64] {
    let mut record = [0; 64];
    record[..8].copy_from_slice(&ip.to_le_bytes());
    record[10..][..written.len()].copy_from_slice(written);
    record[12..][..read.len()].copy_from_slice(read);
    record[32..40].copy_from_slice(&load.to_le_bytes());
    record
}

fn branch(ip: u64, taken: bool, written: &[u8], read: &[u8]) -> [u8; 64] {
    let mut record = record(ip, written, read, 0);
    record[8..10].copy_from_slice(&[1, taken.into()]);
    record
}

/// A part of the time that a trace takes, in picoseconds.
fn time(part: &str, spec: &MachineSpec, records: Vec<u8>) -> u64 {
    let reader = Box::new(Cursor::new(records));
    let mut source = ForeignSource::from_reader(reader, "trace", Format::ChampSim).expect("a trace");
    assert!(source.info().gives_blocks);
    let mut machine = machine::<Plain, IntervalClock>(spec, 0, &source.info()).expect("a machine");
    let mut sink = |batch: &mut Batch| {
        machine.batch(batch).expect("a sound batch");
        ControlFlow::Continue(())
    };
    source.run(&mut sink).expect("a sound trace");
    value(&machine.finish("trace"), "time", part)
}

/// Cycles of a part of the time for each round.
fn cycles(part: &str, spec: &MachineSpec, round: impl Fn(u64) -> Vec<u8>) -> f64 {
    let of = |rounds: u64| time(part, spec, (0..rounds).flat_map(&round).collect());
    let (first, both) = (of(ROUNDS), of(2 * ROUNDS));
    (both - first) as f64 / (ROUNDS * spec.core.cycle_ps) as f64
}

/// A load into a register, a subtraction, a branch that goes back.
fn loads(written: u8, line: u64) -> Vec<u8> {
    [
        record(CODE, &[written], &[RDI], BASE + line * LINE),
        record(CODE + 4, &[RCX, FLAGS], &[RCX], 0),
        branch(CODE + 7, true, &[IP], &[IP, FLAGS]),
    ]
    .concat()
}

fn assert_near(found: f64, expected: f64, what: &str) {
    let error = (found - expected).abs() / expected;
    assert!(error < 0.03, "{what}: {found:.2} cycles, and not {expected:.2}");
}

#[test]
fn a_chain_pays_its_latency_and_independent_loads_the_units() {
    let spec = zen3();
    assert_near(cycles("elapsed", &spec, |_| loads(RDI, 0)), 4.0, "a chain of hits in the first cache");
    assert_near(cycles("elapsed", &spec, |_| loads(RAX, 0)), 1.0, "a taken branch a cycle");
    let memory = 110_000.0 / spec.core.cycle_ps as f64;
    // A page has 64 lines. Faults do not count: their time is another part.
    let chain = cycles("memory", &spec, |round| loads(RDI, round));
    assert!((memory * 0.9..memory).contains(&chain), "{chain} of {memory}");
    let stream = cycles("memory", &spec, |round| loads(RAX, round));
    assert!(stream < chain / 4.0, "{stream} of {chain}");
}

#[test]
fn a_random_branch_costs_a_misprediction_every_other_time() {
    let spec = zen3();
    let mut generator = Random(9);
    let coins: Vec<bool> = (0..2 * ROUNDS).map(|_| generator.below(2) == 1).collect();
    // A branch over one instruction, or not, and a jump back.
    let round = |taken: bool| {
        let over = record(CODE + 5, &[RAX], &[], 0).to_vec();
        let begin = [record(CODE, &[RCX, FLAGS], &[RDI], 0), branch(CODE + 3, taken, &[IP], &[IP, FLAGS])];
        let end = branch(CODE + 8, true, &[IP], &[IP]);
        [begin.concat(), if taken { Vec::new() } else { over }, end.to_vec()].concat()
    };
    let random = cycles("branch", &spec, |at| round(coins[at as usize]));
    assert!((7.5..8.5).contains(&random), "half of 16: {random}");
    for known in [true, false] {
        assert_eq!(cycles("branch", &spec, |_| round(known)), 0.0);
    }
}

#[test]
fn returns_go_where_their_calls_were() {
    // Two calls of different lengths to one function.
    let call = |ip: u64, length: u64| {
        [
            branch(ip, true, &[RSP, IP], &[IP, RSP, RAX]),
            branch(CODE + 0x100, true, &[RSP, IP], &[RSP]),
            record(ip + length, &[RAX], &[RAX], 0),
        ]
        .concat()
    };
    let jump = |ip: u64| branch(ip, true, &[IP], &[IP]).to_vec();
    let round = [call(CODE, 3), jump(CODE + 6), call(CODE + 0x40, 6), jump(CODE + 0x49)].concat();
    assert_eq!(cycles("branch", &zen3(), |_| round.clone()), 0.0);
}
