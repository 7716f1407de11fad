//! Registers for results against closed forms: where results fill them before instructions fill the window, they limit what is in flight.

use super::dataflow::{LINE, LOADS, ROUNDS, assert_near, cycles_of_loop, load, zen3};
use super::*;

/// The most misses at once, and a window that is far from full.
fn with_registers(registers: u32) -> MachineSpec {
    changed(zen3(), |spec| {
        spec.core.window = 400;
        spec.core.outstanding = 64;
        let own = spec.core.dataflow.as_mut().expect("a core that executes instructions");
        (own.registers, own.vector_registers) = (registers, 8);
    })
}

#[test]
fn as_many_loads_miss_at_once_as_have_registers_for_their_results() {
    let cycles = |spec: &MachineSpec| cycles_of_loop(spec, 2 * ROUNDS * LINE, LOADS, load);
    let latency = 110_000.0 / zen3().core.cycle_ps as f64;
    // A load and the count of the loop have a result each; the branch has none.
    for (registers, loads) in [(24, 12.0), (40, 20.0), (64, 32.0)] {
        assert_near(
            cycles(&with_registers(registers)),
            latency / loads,
            "loads whose results fill the registers",
        );
    }
    assert_near(cycles(&with_registers(0)), latency / 64.0, "loads that as many miss at once as may");
}
