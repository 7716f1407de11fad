//! The energy grids: one per nuclide, and the unionised one over all of them.
//!
//! Version 18's layout: a nuclide's grid point is 48 bytes (energy and five cross sections); a point of the
//! unionised grid is 16 bytes (energy, pointer to its index row); an index row has 4 bytes per nuclide: the last
//! point of that nuclide's grid at or below the energy.

use pagewalk_code::{Class, Register};

use super::materials::NUCLIDES;
use crate::code::{FLAGS, Op, Site, r};
use crate::emit::{Emitter, Stop};
use crate::random::SplitMix64;
use crate::sort::{merge_sort, spare};
use crate::space::AddressSpace;
use crate::traced::Traced;

/// Energy, then total, elastic, absorption, fission and nu-fission cross section.
pub(crate) type NuclidePoint = [f64; 6];

/// Instructions per nuclide grid point drawn.
const DRAW_INSTRUCTIONS: u64 = 150;
/// Instructions per point copied into the unionised grid.
const UNION_INSTRUCTIONS: u64 = 6;
/// Instructions per entry of an index row.
const INDEX_INSTRUCTIONS: u64 = 8;

/// The number of a point or of a nuclide, arrays, an energy, a cursor with its limit, and a random number.
const AT: Register = r(0);
const FROM: Register = r(1);
const TO: Register = r(2);
const ENERGY: Register = r(3);
const CURSOR: Register = r(4);
const LIMIT: Register = r(5);
const DRAWN: Register = r(6);

/// Draws a point of a nuclide's grid.
static DRAW: Site = Site::new(&[
    Op::new(Class::Multiply, DRAWN, &[AT]),
    Op::new(Class::Multiply, DRAWN, &[DRAWN]),
    Op::new(Class::CrossConvert, DRAWN, &[DRAWN]),
    Op::store(8, &[TO, AT], &[DRAWN]),
    Op::store(8, &[TO, AT], &[DRAWN]),
    Op::store(8, &[TO, AT], &[DRAWN]),
    Op::store(8, &[TO, AT], &[DRAWN]),
    Op::store(8, &[TO, AT], &[DRAWN]),
    Op::store(8, &[TO, AT], &[DRAWN]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT]),
])
.repeats()
.of(DRAW_INSTRUCTIONS);
/// Stores where a nuclide's points begin.
static POINTER: Site = Site::new(&[Op::store(8, &[TO, AT], &[FROM]), Op::integer(AT, &[AT])]).repeats();
/// Copies an energy into the unionised grid; stores where the row of a point begins.
static UNION: Site = Site::new(&[
    Op::load(ENERGY, 8, &[FROM, AT]),
    Op::store(8, &[TO, AT], &[ENERGY]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT]),
])
.repeats()
.of(UNION_INSTRUCTIONS);
static ROW: Site = Site::new(&[Op::store(8, &[TO, AT], &[FROM]), Op::integer(AT, &[AT])])
    .repeats()
    .of(UNION_INSTRUCTIONS / 2);
/// Begins with a nuclide: its cursor and its limit.
static START: Site = Site::new(&[
    Op::store(4, &[TO, AT], &[]),
    Op::load(LIMIT, 8, &[FROM, AT]),
    Op::store(8, &[TO, AT], &[LIMIT]),
])
.repeats();
/// Begins with a point of the unionised grid.
static POINT: Site = Site::new(&[Op::load(ENERGY, 8, &[FROM]), Op::load(TO, 8, &[FROM])]);
/// Compares its energy with a nuclide's limit.
static CURSOR_OF: Site = Site::new(&[
    Op::load(CURSOR, 4, &[AT]),
    Op::load(LIMIT, 8, &[AT]),
    Op::new(Class::FloatCompare, FLAGS, &[LIMIT, ENERGY]),
])
.branches(&STORE);
/// Moves the cursor, to a point with another one behind, or to the last.
static MOVE: Site = Site::new(&[
    Op::store(4, &[AT], &[CURSOR]),
    Op::load(LIMIT, 8, &[FROM, CURSOR]),
    Op::store(8, &[AT], &[LIMIT]),
]);
static MOVE_TO_LAST: Site = Site::new(&[Op::store(4, &[AT], &[CURSOR]), Op::store(8, &[AT], &[])]);
/// Compares with the new limit.
static AGAIN: Site =
    Site::new(&[Op::load(LIMIT, 8, &[AT]), Op::new(Class::FloatCompare, FLAGS, &[LIMIT, ENERGY])])
        .branches(&STORE);
/// Stores an entry of a row.
static STORE: Site =
    Site::new(&[Op::store(4, &[TO, AT], &[CURSOR]), Op::integer(AT, &[AT]), Op::compare(&[AT])])
        .branches(&CURSOR_OF)
        .of(INDEX_INSTRUCTIONS - CURSOR_OF.instructions());

/// The grids of all nuclides, and the unionised one.
pub(crate) struct Grids {
    /// The number of points for each nuclide.
    pub(crate) points: usize,
    /// The points, nuclide by nuclide.
    pub(crate) nuclides: Traced<NuclidePoint, 48>,
    /// Where each nuclide's points begin.
    pub(crate) nuclide_pointers: Traced<(), 8>,
    /// The unionised grid's energies; the pointer beside each is implied.
    pub(crate) union: Traced<f64, 16>,
    /// The index of the unionised grid, row by row.
    pub(crate) index: Traced<u32, 4>,
}

impl Grids {
    pub(crate) fn build(
        points: usize,
        seed: u64,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Self, Stop> {
        let nuclides = nuclide_grids(points, seed, space, out)?;
        let mut nuclide_pointers = Traced::new(NUCLIDES, (), space, out)?;
        for nuclide in 0..NUCLIDES {
            out.enter(&POINTER)?;
            nuclide_pointers.store(nuclide, (), out)?;
        }
        let union = union(&nuclides, space, out)?;
        let index = Traced::new(NUCLIDES * union.len(), 0, space, out)?;
        let mut grids = Self { points, nuclides, nuclide_pointers, union, index };
        grids.fill_index(space, out)?;
        Ok(grids)
    }

    /// Walks the unionised grid once, with a cursor in each nuclide's grid.
    fn fill_index(&mut self, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<(), Stop> {
        // The cursor's point and the energy of the point after it, beyond which the cursor moves.
        let mut cursors: Traced<u32, 4> = Traced::new(NUCLIDES, 0, space, out)?;
        let mut limits: Traced<f64, 8> = Traced::new(NUCLIDES, 0.0, space, out)?;
        for nuclide in 0..NUCLIDES {
            out.enter(&START)?;
            cursors.store(nuclide, 0, out)?;
            let [next, ..] = self.nuclides.load_part(nuclide * self.points + 1, 0, 8, out)?;
            limits.store(nuclide, next, out)?;
        }
        for point in 0..self.union.len() {
            out.enter(&POINT)?;
            let energy = self.union.load_part(point, 0, 8, out)?;
            self.union.load_part(point, 8, 8, out)?;
            for nuclide in 0..NUCLIDES {
                out.work(INDEX_INSTRUCTIONS);
                out.enter(&CURSOR_OF)?;
                let mut cursor = cursors.load(nuclide, out)?;
                while energy >= limits.load(nuclide, out)? {
                    cursor += 1;
                    let after = cursor as usize + 1;
                    out.enter(if after < self.points { &MOVE } else { &MOVE_TO_LAST })?;
                    cursors.store(nuclide, cursor, out)?;
                    let limit = match after < self.points {
                        true => self.nuclides.load_part(nuclide * self.points + after, 0, 8, out)?[0],
                        false => f64::INFINITY,
                    };
                    limits.store(nuclide, limit, out)?;
                    out.enter(&AGAIN)?;
                }
                out.enter(&STORE)?;
                self.index.store(point * NUCLIDES + nuclide, cursor, out)?;
            }
        }
        limits.free(space, out)?;
        cursors.free(space, out)
    }
}

/// Random points for each nuclide, sorted by energy.
fn nuclide_grids(
    points: usize,
    seed: u64,
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<Traced<NuclidePoint, 48>, Stop> {
    let mut nuclides = Traced::<NuclidePoint, 48>::new(NUCLIDES * points, [0.0; 6], space, out)?;
    for i in 0..nuclides.len() {
        out.block(&DRAW)?;
        let mut random = SplitMix64::of_item(seed, i as u64);
        let point = std::array::from_fn(|_| random.unit());
        for field in 0..6 {
            *nuclides.store_part(i, 8 * field, 8, out)? = point;
        }
    }
    let mut room = spare(points, space, out)?;
    for nuclide in 0..NUCLIDES {
        merge_sort(&mut nuclides, nuclide * points, points, &mut room, |point| point[0], out)?;
    }
    room.free(space, out)?;
    Ok(nuclides)
}

/// All energies in one sorted array, each with the pointer to its row of the index.
fn union(
    nuclides: &Traced<NuclidePoint, 48>,
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<Traced<f64, 16>, Stop> {
    let mut union = Traced::<f64, 16>::new(nuclides.len(), 0.0, space, out)?;
    for i in 0..union.len() {
        out.block(&UNION)?;
        let [energy, ..] = nuclides.load_part(i, 0, 8, out)?;
        *union.store_part(i, 0, 8, out)? = energy;
    }
    let mut room = spare(union.len(), space, out)?;
    merge_sort(&mut union, 0, nuclides.len(), &mut room, |&energy| energy, out)?;
    room.free(space, out)?;
    for i in 0..union.len() {
        out.block(&ROW)?;
        union.store_part(i, 8, 8, out)?;
    }
    Ok(union)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    #[test]
    fn the_index_points_to_the_last_nuclide_point_at_or_below_each_energy() {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let points = 5;
        let grids = Grids::build(points, 3, &mut space, &mut out).unwrap();
        let union = grids.union.untraced();
        assert!(union.is_sorted());
        assert_eq!(union.len(), points * NUCLIDES);
        for (u, &energy) in union.iter().enumerate().step_by(7) {
            for nuclide in 0..NUCLIDES {
                let grid = &grids.nuclides.untraced()[nuclide * points..][..points];
                let below = grid.partition_point(|point| point[0] <= energy);
                let index = grids.index.untraced()[u * NUCLIDES + nuclide] as usize;
                assert_eq!(index, below.saturating_sub(1), "energy {energy}, nuclide {nuclide}");
            }
        }
    }
}
