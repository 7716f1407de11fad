//! A dense system of linear equations, by the routines of LINPACK (Dongarra, Bunch, Moler, Stewart, 1979): `dgefa`
//! factors the matrix with partial pivoting, column by column, `dgesl` solves with the factors. Nearly all work is `daxpy`,
//! a multiple of one column added to another.
//!
//! DEVIATION: the matrix comes from SplitMix64. The generator of LINPACK's benchmark has a period of 16384, which makes
//! columns repeat, and the matrix singular, where large powers of two divide `n`.

use std::ops::Range;

use pagewalk_code::{Class, Register};
use pagewalk_trace::Access;
use pagewalk_vm::addr::VirtAddr;

use crate::code::{FLAGS, Op, Site, r};
use crate::emit::{Emitter, Halt, Stop};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::random::SplitMix64;
use crate::space::{AddressSpace, mapping_bytes};
use crate::traced::Traced;

pub(crate) const ENTRY: Entry = Entry {
    name: "linear",
    summary: "a dense system of linear equations, factored and solved (LINPACK)",
    phases: &["fill", "factor", "solve"],
    parameters: &[Parameter {
        name: "n",
        summary: "equations and unknowns",
        kind: Kind::Count { min: 2, max: 100_000 },
        // The matrix takes 16 MiB.
        default: "1448",
    }],
    presets: &[Preset { name: "linear-small", summary: "0.5 MiB, for tests", values: &[("n", "256")] }],
    make: |values| Ok(Box::new(Linear { n: values.get("n") as usize, seed: values.seed })),
};

/// Instructions per element that is drawn, summed up, compared for the pivot, scaled, or added to another (`daxpy`); per
/// step of elimination and per column of one, beside its elements.
const DRAW_INSTRUCTIONS: u64 = 21;
const SUM_INSTRUCTIONS: u64 = 7;
const COMPARE_INSTRUCTIONS: u64 = 9;
const SCALE_INSTRUCTIONS: u64 = 6;
const DAXPY_INSTRUCTIONS: u64 = 7;
const STEP_INSTRUCTIONS: u64 = 40;
const COLUMN_INSTRUCTIONS: u64 = 22;

/// The place in a column or two, a factor, elements, and a random number.
const AT: Register = r(0);
const FACTOR: Register = r(1);
const ELEMENT: Register = r(2);
const OTHER: Register = r(3);
const DRAWN: Register = r(4);
const MOST: Register = r(5);

/// Draws an element; clears a sum; adds an element to a sum.
static DRAW: Site = Site::new(&[
    Op::integer(DRAWN, &[DRAWN]),
    Op::new(Class::Multiply, ELEMENT, &[DRAWN]),
    Op::new(Class::Multiply, ELEMENT, &[ELEMENT]),
    Op::new(Class::CrossConvert, ELEMENT, &[ELEMENT]),
    Op::new(Class::FloatAdd, ELEMENT, &[ELEMENT]),
    Op::store(8, &[AT], &[ELEMENT]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT]),
])
.repeats()
.of(DRAW_INSTRUCTIONS);
static CLEAR: Site = Site::new(&[Op::store(8, &[AT], &[]), Op::integer(AT, &[AT])]).repeats();
static SUM: Site = Site::new(&[
    Op::load(OTHER, 8, &[AT]),
    Op::load(ELEMENT, 8, &[AT]),
    Op::new(Class::FloatAdd, ELEMENT, &[ELEMENT, OTHER]),
    Op::store(8, &[AT], &[ELEMENT]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT]),
])
.repeats()
.of(SUM_INSTRUCTIONS);
/// Looks for the largest element: is it this one?
static COMPARE: Site = Site::new(&[
    Op::load(ELEMENT, 8, &[AT]),
    Op::integer(AT, &[AT]),
    Op::new(Class::FloatCompare, FLAGS, &[ELEMENT, MOST]),
])
.branches(&LARGER)
.of(COMPARE_INSTRUCTIONS - NEXT.instructions());
static LARGER: Site = Site::new(&[Op::new(Class::Move, MOST, &[ELEMENT])]);
static NEXT: Site = Site::new(&[Op::compare(&[AT])]).branches(&COMPARE);
/// Scales an element; adds a multiple of one to another.
static SCALE: Site = Site::new(&[
    Op::load(ELEMENT, 8, &[AT]),
    Op::new(Class::FloatMultiply, ELEMENT, &[ELEMENT, FACTOR]),
    Op::store(8, &[AT], &[ELEMENT]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT]),
])
.repeats()
.of(SCALE_INSTRUCTIONS);
static DAXPY: Site = Site::new(&[
    Op::load(ELEMENT, 8, &[AT]),
    Op::new(Class::FloatMultiply, ELEMENT, &[ELEMENT, FACTOR]),
    Op::with_operand(Class::FloatAdd, ELEMENT, ELEMENT, 8, &[AT]),
    Op::store(8, &[AT], &[ELEMENT]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT]),
])
.repeats()
.of(DAXPY_INSTRUCTIONS);
/// Begins a step and a column of one; stores the pivot, and loads it; brings an element to another place.
static STEP: Site = Site::new(&[]).of(STEP_INSTRUCTIONS - 8);
static COLUMN: Site = Site::new(&[]).of(COLUMN_INSTRUCTIONS - 5);
static PIVOT: Site = Site::new(&[Op::store(4, &[AT], &[AT])]);
static PIVOT_OF: Site = Site::new(&[Op::load(AT, 4, &[AT])]);
static STAY: Site = Site::new(&[Op::load(FACTOR, 8, &[AT])]);
static BRING: Site = Site::new(&[
    Op::load(FACTOR, 8, &[AT]),
    Op::load(OTHER, 8, &[AT]),
    Op::store(8, &[AT], &[OTHER]),
    Op::store(8, &[AT], &[FACTOR]),
]);
/// Divides by the diagonal.
static DIVIDE: Site = Site::new(&[
    Op::load(FACTOR, 8, &[AT]),
    Op::load(ELEMENT, 8, &[AT]),
    Op::new(Class::FloatDivide, FACTOR, &[FACTOR, ELEMENT]),
    Op::store(8, &[AT], &[FACTOR]),
]);

/// LINPACK's bound for the normalised residual, of which a good solution has about 1.
const MOST_RESIDUAL: f64 = 16.0;

type Reals = Traced<f64, 8>;

struct Linear {
    n: usize,
    seed: u64,
}

impl Linear {
    /// A column of the matrix, uniform in [-0.5, 0.5).
    fn column(&self, j: usize) -> impl Iterator<Item = f64> {
        let mut random = SplitMix64::of_item(self.seed, j as u64);
        (0..self.n).map(move |_| random.unit() - 0.5)
    }

    /// Where a column begins.
    fn at(&self, j: usize) -> usize {
        j * self.n
    }

    /// The matrix, and as right-hand side the sums of its rows: all unknowns are 1.
    fn fill(&self, a: &mut Reals, b: &mut Reals, out: &mut Emitter<'_>) -> Result<(), Stop> {
        for j in 0..self.n {
            for (i, element) in self.column(j).enumerate() {
                out.block(&DRAW)?;
                a.store(self.at(j) + i, element, out)?;
            }
        }
        for i in 0..self.n {
            out.enter(&CLEAR)?;
            b.store(i, 0.0, out)?;
        }
        for j in 0..self.n {
            for i in 0..self.n {
                out.block(&SUM)?;
                let sum = b.load(i, out)? + a.load(self.at(j) + i, out)?;
                b.store(i, sum, out)?;
            }
        }
        Ok(())
    }

    /// `dgefa`: the factors take the matrix's place, the lower one negated and without its diagonal of ones.
    fn factor(&self, a: &mut Reals, pivots: &mut Traced<u32, 4>, out: &mut Emitter<'_>) -> Result<(), Halt> {
        let n = self.n;
        for k in 0..n - 1 {
            out.work(STEP_INSTRUCTIONS);
            out.enter(&STEP)?;
            let column = self.at(k);
            let pivot = largest(a, column + k..column + n, out)? - column;
            out.enter(&PIVOT)?;
            pivots.store(k, pivot as u32, out)?;
            let element = bring(a, column + pivot, column + k, out)?;
            if element == 0.0 {
                return Err(Halt::Wrong(format!("column {k} has no pivot")));
            }
            scale(a, -1.0 / element, column + k + 1..column + n, out)?;
            for j in k + 1..n {
                out.work(COLUMN_INSTRUCTIONS);
                out.enter(&COLUMN)?;
                let factor = bring(a, self.at(j) + pivot, self.at(j) + k, out)?;
                let [x_at, y_at] = [column, self.at(j)].map(|at| a.addr(at + k + 1));
                let (left, right) = a.untraced_mut().split_at_mut(self.at(j));
                daxpy(factor, (&left[column + k + 1..column + n], x_at), (&mut right[k + 1..n], y_at), out)?;
            }
        }
        out.enter(&PIVOT)?;
        pivots.store(n - 1, n as u32 - 1, out)?;
        Ok(())
    }

    /// `dgesl`: the solution takes the place of the right-hand side.
    fn solve(
        &self,
        a: &Reals,
        pivots: &Traced<u32, 4>,
        b: &mut Reals,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        let n = self.n;
        for k in 0..n - 1 {
            out.work(COLUMN_INSTRUCTIONS);
            out.enter(&COLUMN)?;
            out.enter(&PIVOT_OF)?;
            let pivot = pivots.load(k, out)? as usize;
            let factor = bring(b, pivot, k, out)?;
            let (x, y_at) = (self.at(k) + k + 1..self.at(k) + n, b.addr(k + 1));
            daxpy(
                factor,
                (&a.untraced()[x.clone()], a.addr(x.start)),
                (&mut b.untraced_mut()[k + 1..], y_at),
                out,
            )?;
        }
        for k in (0..n).rev() {
            out.work(COLUMN_INSTRUCTIONS);
            out.enter(&COLUMN)?;
            out.enter(&DIVIDE)?;
            let unknown = b.load(k, out)? / a.load(self.at(k) + k, out)?;
            b.store(k, unknown, out)?;
            let (x, y_at) = (self.at(k)..self.at(k) + k, b.addr(0));
            daxpy(
                -unknown,
                (&a.untraced()[x.clone()], a.addr(x.start)),
                (&mut b.untraced_mut()[..k], y_at),
                out,
            )?;
        }
        Ok(())
    }

    /// The residual as LINPACK's benchmark normalises it: by the number of unknowns, the largest element of the matrix,
    /// the largest of the solution, and the precision.
    fn verify(&self, x: &[f64]) -> Result<(), Halt> {
        let mut differences = vec![0.0; self.n];
        let mut norm = 0.0f64;
        for (j, unknown) in x.iter().enumerate() {
            for (difference, element) in differences.iter_mut().zip(self.column(j)) {
                *difference += element * (unknown - 1.0);
                norm = norm.max(element.abs());
            }
        }
        let greatest = |of: &[f64]| of.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let residual = greatest(&differences) / (self.n as f64 * norm * greatest(x) * f64::EPSILON);
        // `max` would hide what is no number.
        match residual <= MOST_RESIDUAL && x.iter().all(|unknown| unknown.is_finite()) {
            true => Ok(()),
            false => {
                Err(Halt::Wrong(format!("the normalised residual is {residual}, not below {MOST_RESIDUAL}")))
            }
        }
    }
}

/// `idamax`: the place of the element with the largest magnitude, the first of equal ones.
fn largest(a: &Reals, range: Range<usize>, out: &mut Emitter<'_>) -> Result<usize, Stop> {
    let (mut place, mut most) = (range.start, -1.0);
    for at in range {
        out.work(COMPARE_INSTRUCTIONS);
        out.enter(&COMPARE)?;
        let magnitude = a.load(at, out)?.abs();
        if magnitude > most {
            out.enter(&LARGER)?;
            (place, most) = (at, magnitude);
        }
        out.enter(&NEXT)?;
    }
    Ok(place)
}

/// `dscal`: multiplies elements by a factor.
fn scale(a: &mut Reals, factor: f64, range: Range<usize>, out: &mut Emitter<'_>) -> Result<(), Stop> {
    for at in range {
        out.block(&SCALE)?;
        let element = a.load(at, out)?;
        a.store(at, factor * element, out)?;
    }
    Ok(())
}

/// `daxpy`: adds a multiple of a vector to another, unless the factor is 0. Vectors come with their addresses.
fn daxpy(
    factor: f64,
    x: (&[f64], VirtAddr),
    y: (&mut [f64], VirtAddr),
    out: &mut Emitter<'_>,
) -> Result<(), Stop> {
    if factor == 0.0 {
        return Ok(());
    }
    let [load_x, load_y, store_y] = [Access::load(x.1, 8), Access::load(y.1, 8), Access::store(y.1, 8)];
    for ((x, y), offset) in x.0.iter().zip(y.0).zip((0..).step_by(8)) {
        out.block(&DAXPY)?;
        out.push_all([load_x, load_y, store_y].map(|first| Access(first.0 + offset)))?;
        *y += factor * x;
    }
    Ok(())
}

/// Brings an element to another place and that one's to its; answers it.
fn bring(a: &mut Reals, from: usize, to: usize, out: &mut Emitter<'_>) -> Result<f64, Stop> {
    out.enter(if from == to { &STAY } else { &BRING })?;
    let element = a.load(from, out)?;
    if from != to {
        let other = a.load(to, out)?;
        a.store(from, other, out)?;
        a.store(to, element, out)?;
    }
    Ok(element)
}

impl Program for Linear {
    fn footprint_bytes(&self) -> u64 {
        let n = self.n as u64;
        mapping_bytes(n * n * 8) + n * (8 + 4)
    }

    fn host_bytes(&self) -> u64 {
        let n = self.n as u64;
        n * n * 8 + 32 * n + (4 << 20)
    }

    fn expected_accesses(&self) -> u64 {
        let n = self.n as u64;
        // A step that leaves `m` rows: `dgefa` makes m + 1 comparisons, scales m elements, exchanges in m + 1 columns and
        // adds to m; `dgesl` passes its column twice.
        let steps: u64 = (1..n).map(|m| 3 * m * m + 13 * m + 14).sum();
        4 * n * n + n + steps
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("fill")?;
        let mut space = AddressSpace::new(out);
        let mut a = Reals::new(self.n * self.n, 0.0, &mut space, out)?;
        let mut b = Reals::new(self.n, 0.0, &mut space, out)?;
        let mut pivots = Traced::new(self.n, 0, &mut space, out)?;
        self.fill(&mut a, &mut b, out)?;
        out.phase("factor")?;
        self.factor(&mut a, &mut pivots, out)?;
        out.phase("solve")?;
        self.solve(&a, &pivots, &mut b, out)?;
        self.verify(b.untraced())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    /// Runs all phases, with a change of the factors in between; accesses and the verdict.
    fn run(linear: &Linear, change: impl FnOnce(&mut [f64])) -> (u64, Result<(), Halt>) {
        let mut accesses = 0;
        let mut sink = |batch: &mut Batch| {
            accesses += batch.accesses.len() as u64;
            ControlFlow::Continue(())
        };
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let n = linear.n;
        let mut a = Reals::new(n * n, 0.0, &mut space, &mut out).unwrap();
        let mut b = Reals::new(n, 0.0, &mut space, &mut out).unwrap();
        let mut pivots = Traced::new(n, 0, &mut space, &mut out).unwrap();
        linear.fill(&mut a, &mut b, &mut out).unwrap();
        linear.factor(&mut a, &mut pivots, &mut out).unwrap();
        change(a.untraced_mut());
        linear.solve(&a, &pivots, &mut b, &mut out).unwrap();
        out.finish().unwrap();
        (accesses, linear.verify(b.untraced()))
    }

    #[test]
    fn systems_of_any_size_are_solved() {
        // Many of 17, 64 and 100 need all their pivots.
        for n in (2..20).chain([64, 100, 257]) {
            for seed in 0..3 {
                let linear = Linear { n, seed };
                let (accesses, verdict) = run(&linear, |_| ());
                assert_eq!(verdict, Ok(()), "n = {n}, seed {seed}");
                assert!(accesses <= linear.expected_accesses() + 16, "n = {n}: {accesses}");
            }
        }
    }

    #[test]
    fn a_wrong_factor_is_found() {
        let linear = Linear { n: 100, seed: 1 };
        let wrong = |value: f64| {
            let Err(Halt::Wrong(text)) = run(&linear, |a| a[100 * 50 + 20] = value).1 else {
                panic!("{value}")
            };
            assert!(text.contains("residual"), "{text}");
        };
        wrong(3.0);
        wrong(f64::NAN);
    }
}
