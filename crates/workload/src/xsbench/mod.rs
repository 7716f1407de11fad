//! XSBench (Tramm et al., PHYSOR 2014): the cross-section look-ups of Monte Carlo neutron transport, with a
//! unionised energy grid and the 355 nuclides of the large Hoogenboom-Martin problem.
//!
//! Footprint: 355 * grid-points * (16 + 4 * 355 + 48) bytes, 1005 MiB at 2000 points.
//!
//! DEVIATION: random numbers come from SplitMix64 by look-up number, not from the original's linear generator, so
//! that the check can recompute any look-up.

mod grid;
mod lookup;
mod materials;

use self::grid::Grids;
use self::lookup::{MaterialTable, Query};
use self::materials::NUCLIDES;
use crate::emit::{Emitter, Halt};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::sort;
use crate::space::{AddressSpace, mapping_bytes};
use crate::values::Values;

pub(crate) const ENTRY: Entry = Entry {
    name: "xsbench",
    summary: "cross-section look-ups in a unionised energy grid (XSBench, large problem)",
    phases: &["build", "lookup"],
    parameters: &[
        Parameter {
            name: "grid-points",
            summary: "energy points per nuclide",
            kind: Kind::Count { min: 2, max: 33_000 },
            default: "200",
        },
        Parameter {
            name: "particles",
            summary: "particles followed",
            kind: Kind::Count { min: 1, max: 1_000_000_000 },
            default: "2000",
        },
        Parameter {
            name: "lookups",
            summary: "look-ups per particle",
            kind: Kind::Count { min: 1, max: 1_000_000 },
            default: "34",
        },
    ],
    presets: &[
        Preset {
            name: "xsbench-small",
            summary: "10 MiB, for tests",
            values: &[("grid-points", "20"), ("particles", "200")],
        },
        Preset {
            name: "xsbench-paper",
            summary: "the Mosaic paper's footprint, 1012 MiB: 2000 grid points, 40 000 particles",
            values: &[("grid-points", "2000"), ("particles", "40k")],
        },
    ],
    make: |values| Ok(Box::new(XsBench::new(values))),
};

/// How many look-ups of a run are evaluated a second time, about.
const SAMPLES: u64 = 4_000;

struct XsBench {
    points: usize,
    lookups: u64,
    seed: u64,
}

/// The hash of every sampled look-up's result, in order.
type Samples = Vec<u64>;

impl XsBench {
    fn new(values: &Values) -> Self {
        Self {
            points: values.get("grid-points") as usize,
            lookups: values.get("particles") * values.get("lookups"),
            seed: values.seed,
        }
    }

    fn union_points(&self) -> u64 {
        (NUCLIDES * self.points) as u64
    }

    /// Every so manieth look-up is a sample.
    fn stride(&self) -> u64 {
        self.lookups.div_ceil(SAMPLES)
    }

    fn look_up_all(
        &self,
        grids: &Grids,
        table: &MaterialTable,
        out: &mut Emitter<'_>,
    ) -> Result<Samples, Halt> {
        let stride = self.stride();
        let mut samples = Samples::new();
        for number in 0..self.lookups {
            let query = Query::new(self.seed, number);
            let sections = lookup::look_up(query, grids, table, out)?;
            if number.is_multiple_of(stride) {
                samples.push(lookup::hash(&sections));
            }
        }
        Ok(samples)
    }

    fn verify(&self, grids: &Grids, samples: &Samples) -> Result<(), Halt> {
        let concentrations = materials::concentrations(self.seed);
        let nuclides = grids.nuclides.untraced();
        for (number, &hash) in (0..self.lookups).step_by(self.stride() as usize).zip(samples) {
            let query = Query::new(self.seed, number);
            let sections = lookup::evaluate(query, self.points, nuclides, &concentrations);
            if lookup::hash(&sections) != hash {
                return Err(Halt::Wrong(format!(
                    "look-up {number} (energy {}, material {}) differs from its evaluation without the unionised \
                     grid, {sections:?}",
                    query.energy, query.material
                )));
            }
        }
        Ok(())
    }
}

impl Program for XsBench {
    fn footprint_bytes(&self) -> u64 {
        let points = self.union_points();
        [points * 48, points * 16, points * 4 * NUCLIDES as u64].into_iter().map(mapping_bytes).sum()
    }

    fn host_bytes(&self) -> u64 {
        // The unionised grid is held in half its size, but sorting takes as much again.
        self.footprint_bytes() + (4 << 20)
    }

    fn expected_accesses(&self) -> u64 {
        let points = self.union_points();
        let sorts = sort::passes(self.points) * sort::accesses_per_element(48)
            + sort::passes(points as usize) * sort::accesses_per_element(16);
        let build = points * (6 + 3 + sorts + 3 * NUCLIDES as u64 + 4);
        let lookup = (points as f64).log2() + 2.0 + 17.0 * materials::mean_nuclides();
        build + (self.lookups as f64 * lookup) as u64
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("build")?;
        let mut space = AddressSpace::new(out);
        let grids = Grids::build(self.points, self.seed, &mut space, out)?;
        let table = MaterialTable::build(self.seed, &mut space, out)?;
        out.phase("lookup")?;
        let samples = self.look_up_all(&grids, &table, out)?;
        self.verify(&grids, &samples)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    #[test]
    fn a_corrupt_index_entry_is_found() {
        let xsbench = XsBench { points: 8, lookups: 500, seed: 1 };
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let mut grids = Grids::build(xsbench.points, xsbench.seed, &mut space, &mut out).unwrap();
        let table = MaterialTable::build(xsbench.seed, &mut space, &mut out).unwrap();
        let samples = xsbench.look_up_all(&grids, &table, &mut out).unwrap();
        assert_eq!(samples.len(), 500);
        assert_eq!(xsbench.verify(&grids, &samples), Ok(()));

        // A nuclide of the most common material, in the row of look-up 0's energy and everywhere else.
        for entry in grids.index.untraced_mut().iter_mut().skip(64).step_by(NUCLIDES) {
            *entry = (*entry + 1) % 7;
        }
        let samples = xsbench.look_up_all(&grids, &table, &mut out).unwrap();
        let answer = xsbench.verify(&grids, &samples);
        assert!(matches!(&answer, Err(Halt::Wrong(text)) if text.contains("differs")), "{answer:?}");
    }
}
