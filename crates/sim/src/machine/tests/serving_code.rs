//! Machines that serve jobs whose instructions they execute: against closed forms.

use pagewalk_trace::{BlockId, Code, Isa};

use super::*;

const CODE: u64 = 0x40_0000;
const PAGE: u64 = 4_096;
const JOBS: u64 = 2_000;

/// add (%rdi), %rax, so many times imul %rax, %rax, and a jump to the first: a chain through all jobs.
fn chain(multiplications: usize) -> Vec<u8> {
    let mut code = [&[0x48, 0x03, 0x07][..], &[0x48, 0x0f, 0xaf, 0xc0].repeat(multiplications)].concat();
    let behind = code.len() as i32 + 5;
    code.push(0xe9);
    code.extend((-behind).to_le_bytes());
    code
}

/// One core, which serves jobs of one block each; every job loads from another page, of which so many are in DRAM.
fn serve(name: &str, code: &[u8], warm: u64) -> RunResult {
    let mut spec = spec(name);
    (spec.core.count, spec.hierarchy.mesh) = (1, None);
    if let Some(tier) = &mut spec.tier {
        (tier.design.sets, tier.design.ways) = (1 << 12, 4);
    }
    let info = SourceInfo { gives_blocks: true, ..announced() };
    let mut machine = machine::<Plain, IntervalClock>(&spec, 1, &info).expect("a machine");
    let mut batch = Batch::new();
    map(&mut batch, BASE, JOBS * PAGE);
    (0..warm).for_each(|page| batch.push(Access::load(VirtAddr(BASE + page * PAGE), 8)));
    let block = BlockId(0);
    batch.mark(Event::Code(Code { block, addr: VirtAddr(CODE), isa: Isa::X86_64, bytes: code.into() }));
    batch.mark(Event::Phase("serve".into()));
    for job in 0..JOBS {
        batch.mark(Event::JobBegin { arrival_ps: None });
        batch.execute(block);
        batch.push(Access::load(VirtAddr(BASE + job * PAGE), 8));
        batch.mark(Event::JobEnd);
    }
    machine.batch(&batch).expect("a sound batch");
    machine.end().expect("an end");
    machine.finish("jobs")
}

/// The cycles of a job, of two cycles a nanosecond.
fn cycles(result: &RunResult) -> f64 {
    value(result, "time", "elapsed") as f64 / 500.0 / JOBS as f64
}

#[test]
fn a_job_takes_the_time_of_its_instructions() {
    for multiplications in [100, 200] {
        let result = serve("flash-dram-only", &chain(multiplications), JOBS);
        let found = cycles(&result);
        // The next job's load does not wait for the chain.
        let expected = 3.0 * multiplications as f64 + 1.0;
        assert!((found / expected - 1.0).abs() < 0.02, "{found} cycles, and not {expected}");
    }
}

#[test]
fn a_job_goes_on_from_the_instruction_that_missed_and_executes_the_rest_once() {
    let run = |multiplications| serve("astriflash", &chain(multiplications), 0);
    let (short, long) = (run(100), run(200));
    // How often a job waits for another's page depends on how long jobs take; the time of instructions does not.
    let compute = |result| value(result, "time", "compute") as f64 / 500.0 / JOBS as f64;
    let more = compute(&long) - compute(&short);
    assert!((299.0..303.0).contains(&more), "{more} cycles for 100 multiplications more");
    for result in [&short, &long] {
        let misses = value(result, "jobs", "misses");
        assert_eq!(misses, JOBS);
        // The front end goes to the handler as after a misprediction.
        assert_eq!(value(result, "time", "fault.flush"), misses * 11 * 500);
    }
}

#[test]
fn counts_of_jobs_are_the_same_whether_their_instructions_are_executed_or_not() {
    let (with, without) = (serve("astriflash", &chain(10), 0), serve("astriflash", &[0x48, 0x03, 0x07], 0));
    for (stage, metric) in [("tier", "misses"), ("jobs", "finished"), ("program", "accesses")] {
        assert_eq!(value(&with, stage, metric), value(&without, stage, metric), "{stage} {metric}");
    }
}
