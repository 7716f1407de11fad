//! Macroscopic cross-section look-ups, and their independent re-evaluation.

use pagewalk_code::{Class, Register};

use super::grid::{Grids, NuclidePoint};
use super::materials::{self, MATERIALS, NUCLIDES};
use crate::code::{FLAGS, Op, Site, r};
use crate::emit::{Emitter, Stop};
use crate::random::{SplitMix64, mix};
use crate::space::AddressSpace;
use crate::traced::Traced;

/// Instructions per step of the binary search.
const SEARCH_INSTRUCTIONS: u64 = 11;
/// Instructions per nuclide of a look-up.
const NUCLIDE_INSTRUCTIONS: u64 = 75;
/// Instructions per look-up beside those: draws, the choice of the material, the hash of the result.
const LOOKUP_INSTRUCTIONS: u64 = 190;

/// Instructions per nuclide of a material when the table is built; assumed.
const TABLE_INSTRUCTIONS: u64 = 10;

/// The energy that is looked for, the material, and random numbers.
const ENERGY: Register = r(0);
const MATERIAL: Register = r(1);
const DRAWN: Register = r(2);
/// The search: where the rest begins, half of its length, its length, the point in the middle and its energy.
const LOW: Register = r(3);
const HALF: Register = r(4);
const LENGTH: Register = r(5);
const MIDDLE: Register = r(6);
const FOUND: Register = r(7);
/// A material's nuclides and concentrations, a place in both, and a nuclide.
const NUCLIDES_OF: Register = r(8);
const CONCENTRATIONS: Register = r(9);
const AT: Register = r(10);
const NUCLIDE: Register = r(11);
/// Where a nuclide's points lie; values of both points of an interpolation.
const POINTS: Register = r(12);
const HIGH_VALUE: Register = r(13);
const LOW_VALUE: Register = r(14);
const SHARE: Register = r(15);

/// Draws the energy and the material.
static DRAW: Site = Site::new(&[
    Op::new(Class::Multiply, DRAWN, &[DRAWN]),
    Op::new(Class::CrossConvert, ENERGY, &[DRAWN]),
    Op::new(Class::FloatMultiply, ENERGY, &[ENERGY]),
    Op::new(Class::Multiply, MATERIAL, &[DRAWN]),
    Op::new(Class::CrossConvert, MATERIAL, &[MATERIAL]),
    Op::new(Class::Zero, LOW, &[]),
    Op::new(Class::Zero, LENGTH, &[]),
])
.of(LOOKUP_INSTRUCTIONS - ARRAYS.instructions());
/// Compares with the energy in the middle: the upper half is the rest, or the lower.
static STEP: Site = Site::new(&[
    Op::new(Class::Shift, HALF, &[LENGTH]),
    Op::integer(MIDDLE, &[LOW, HALF]),
    Op::load(FOUND, 8, &[MIDDLE]),
    Op::new(Class::FloatCompare, FLAGS, &[FOUND, ENERGY]),
])
.branches(&LOWER)
.of(SEARCH_INSTRUCTIONS - UPPER.instructions());
static UPPER: Site = Site::new(&[
    Op::new(Class::Move, LOW, &[MIDDLE]),
    Op::integer(LENGTH, &[LENGTH, HALF]),
    Op::compare(&[LENGTH]),
])
.branches(&STEP);
static LOWER: Site = Site::new(&[Op::new(Class::Move, LENGTH, &[HALF]), Op::compare(&[LENGTH])])
    .branches(&STEP)
    .of(UPPER.instructions());
/// Loads where the arrays of the material lie.
static ARRAYS: Site =
    Site::new(&[Op::load(NUCLIDES_OF, 8, &[MATERIAL]), Op::load(CONCENTRATIONS, 8, &[MATERIAL])]);
/// Interpolates between two points of a nuclide, and adds.
static INTERPOLATE: Site = Site::new(&INTERPOLATE_OPS).repeats().of(NUCLIDE_INSTRUCTIONS);
const INTERPOLATE_OPS: [Op; 45] = {
    let mut ops = [Op::compare(&[AT]); 45];
    let head = [
        Op::load(NUCLIDE, 4, &[NUCLIDES_OF, AT]),
        Op::load(SHARE, 8, &[CONCENTRATIONS, AT]),
        Op::load(POINTS, 8, &[LOW]),
        Op::load(MIDDLE, 4, &[POINTS, NUCLIDE]),
        Op::load(POINTS, 8, &[NUCLIDE]),
        Op::load(LOW_VALUE, 8, &[POINTS, MIDDLE]),
        Op::load(HIGH_VALUE, 8, &[POINTS, MIDDLE]),
        Op::new(Class::FloatAdd, LOW_VALUE, &[LOW_VALUE, HIGH_VALUE]),
        Op::new(Class::FloatAdd, HIGH_VALUE, &[HIGH_VALUE, ENERGY]),
        Op::new(Class::FloatDivide, SHARE, &[HIGH_VALUE, LOW_VALUE]),
    ];
    // Of each of five cross sections; the sums are in registers of their own, which nothing else waits for.
    let section = [
        Op::load(HIGH_VALUE, 8, &[POINTS, MIDDLE]),
        Op::load(LOW_VALUE, 8, &[POINTS, MIDDLE]),
        Op::new(Class::FloatAdd, LOW_VALUE, &[LOW_VALUE, HIGH_VALUE]),
        Op::new(Class::FloatMultiply, LOW_VALUE, &[LOW_VALUE, SHARE]),
        Op::new(Class::FloatAdd, HIGH_VALUE, &[HIGH_VALUE, LOW_VALUE]),
        Op::new(Class::FloatMultiply, HIGH_VALUE, &[HIGH_VALUE, SHARE]),
    ];
    let mut at = 0;
    while at < head.len() + 5 * section.len() {
        ops[at] = if at < head.len() { head[at] } else { section[(at - head.len()) % section.len()] };
        at += 1;
    }
    ops[43] = Op::integer(AT, &[AT]);
    ops
};
/// Stores where the arrays of a material lie; stores a nuclide and its concentration.
static MATERIAL_OF: Site = Site::new(&[Op::store(8, &[AT], &[]), Op::store(8, &[AT], &[])]);
static NUCLIDE_OF: Site = Site::new(&[
    Op::store(4, &[AT], &[]),
    Op::store(8, &[AT], &[]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT]),
])
.repeats()
.of(TABLE_INSTRUCTIONS);

/// Total, elastic, absorption, fission and nu-fission.
pub(crate) type CrossSections = [f64; 5];

/// The material table: per material, an array of nuclide numbers and one of concentrations.
pub(crate) struct MaterialTable {
    /// Where each material's arrays lie.
    pointers: Traced<(), 8>,
    nuclides: Vec<Traced<u32, 4>>,
    concentrations: Vec<Traced<f64, 8>>,
}

/// What a look-up asks for: a function of seed and number.
#[derive(Clone, Copy)]
pub(crate) struct Query {
    pub(crate) energy: f64,
    pub(crate) material: usize,
}

impl Query {
    #[inline]
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut random = SplitMix64::of_item(!seed, number);
        Self { energy: random.unit(), material: materials::pick(random.unit()) }
    }
}

impl MaterialTable {
    pub(crate) fn build(seed: u64, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<Self, Stop> {
        let mut table = Self {
            pointers: Traced::new(2 * MATERIALS.len(), (), space, out)?,
            nuclides: Vec::new(),
            concentrations: Vec::new(),
        };
        for (m, (material, amounts)) in MATERIALS.iter().zip(materials::concentrations(seed)).enumerate() {
            let mut nuclides = Traced::new(amounts.len(), 0, space, out)?;
            let mut concentrations = Traced::new(amounts.len(), 0.0, space, out)?;
            out.enter(&MATERIAL_OF)?;
            table.pointers.store(2 * m, (), out)?;
            table.pointers.store(2 * m + 1, (), out)?;
            for (i, (nuclide, amount)) in material.nuclides().zip(amounts).enumerate() {
                out.block(&NUCLIDE_OF)?;
                nuclides.store(i, nuclide, out)?;
                concentrations.store(i, amount, out)?;
            }
            table.nuclides.push(nuclides);
            table.concentrations.push(concentrations);
        }
        Ok(table)
    }
}

/// The macroscopic cross sections of a query, by the unionised grid.
#[inline]
pub(crate) fn look_up(
    query: Query,
    grids: &Grids,
    table: &MaterialTable,
    out: &mut Emitter<'_>,
) -> Result<CrossSections, Stop> {
    out.work(LOOKUP_INSTRUCTIONS);
    out.enter(&DRAW)?;
    let row = search(query.energy, &grids.union, out)?;
    out.enter(&ARRAYS)?;
    table.pointers.load(2 * query.material, out)?;
    table.pointers.load(2 * query.material + 1, out)?;
    let nuclides = &table.nuclides[query.material];
    let concentrations = &table.concentrations[query.material];
    let mut macroscopic = CrossSections::default();
    for i in 0..nuclides.len() {
        out.block(&INTERPOLATE)?;
        let nuclide = nuclides.load(i, out)? as usize;
        let concentration = concentrations.load(i, out)?;
        grids.union.load_part(row, 8, 8, out)?;
        let at = grids.index.load(row * NUCLIDES + nuclide, out)? as usize;
        grids.nuclide_pointers.load(nuclide, out)?;
        // The last point has none above it to interpolate with.
        let low = nuclide * grids.points + at.min(grids.points - 2);
        let [low, high] = load_pair(&grids.nuclides, low, out)?;
        add(&mut macroscopic, concentration, interpolate(query.energy, &low, &high));
    }
    Ok(macroscopic)
}

/// The last point of the unionised grid at or below `energy`; the first one if there is none.
#[inline]
fn search(energy: f64, union: &Traced<f64, 16>, out: &mut Emitter<'_>) -> Result<usize, Stop> {
    let (mut low, mut length) = (0, union.len() - 1);
    while length > 1 {
        out.work(SEARCH_INSTRUCTIONS);
        out.enter(&STEP)?;
        let half = length / 2;
        if union.load_part(low + half, 0, 8, out)? <= energy {
            out.enter(&UPPER)?;
            low += half;
            length -= half;
        } else {
            out.enter(&LOWER)?;
            length = half;
        }
    }
    Ok(low)
}

/// Two neighbouring points, in the order in which interpolation reads them.
#[inline(always)]
fn load_pair(
    nuclides: &Traced<NuclidePoint, 48>,
    low: usize,
    out: &mut Emitter<'_>,
) -> Result<[NuclidePoint; 2], Stop> {
    let points = [nuclides.load_part(low, 0, 8, out)?, nuclides.load_part(low + 1, 0, 8, out)?];
    for field in 1..6 {
        nuclides.load_part(low + 1, 8 * field, 8, out)?;
        nuclides.load_part(low, 8 * field, 8, out)?;
    }
    Ok(points)
}

#[inline(always)]
fn interpolate(energy: f64, low: &NuclidePoint, high: &NuclidePoint) -> CrossSections {
    let share = (high[0] - energy) / (high[0] - low[0]);
    std::array::from_fn(|k| high[k + 1] - share * (high[k + 1] - low[k + 1]))
}

#[inline(always)]
fn add(sum: &mut CrossSections, concentration: f64, microscopic: CrossSections) {
    for (sum, value) in sum.iter_mut().zip(microscopic) {
        *sum += concentration * value;
    }
}

/// The same cross sections by another way: from the materials' definition and a binary search in each nuclide's
/// own grid, without the unionised grid, its index or the material table. No events.
pub(crate) fn evaluate(
    query: Query,
    points: usize,
    nuclides: &[NuclidePoint],
    concentrations: &[Vec<f64>],
) -> CrossSections {
    let mut macroscopic = CrossSections::default();
    let amounts = &concentrations[query.material];
    for (nuclide, &concentration) in MATERIALS[query.material].nuclides().zip(amounts) {
        let grid = &nuclides[nuclide as usize * points..][..points];
        let below = grid.partition_point(|point| point[0] <= query.energy);
        let low = below.saturating_sub(1).min(points - 2);
        add(&mut macroscopic, concentration, interpolate(query.energy, &grid[low], &grid[low + 1]));
    }
    macroscopic
}

/// A hash of a result, by its bits.
#[inline]
pub(crate) fn hash(sections: &CrossSections) -> u64 {
    sections.iter().fold(0, |hash, value| mix(hash ^ value.to_bits()).wrapping_add(1))
}
