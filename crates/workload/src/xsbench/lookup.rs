//! Macroscopic cross-section look-ups, and their independent re-evaluation.

use super::grid::{Grids, NuclidePoint};
use super::materials::{self, MATERIALS, NUCLIDES};
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
            table.pointers.store(2 * m, (), out)?;
            table.pointers.store(2 * m + 1, (), out)?;
            for (i, (nuclide, amount)) in material.nuclides().zip(amounts).enumerate() {
                out.work(TABLE_INSTRUCTIONS);
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
    let row = search(query.energy, &grids.union, out)?;
    table.pointers.load(2 * query.material, out)?;
    table.pointers.load(2 * query.material + 1, out)?;
    let nuclides = &table.nuclides[query.material];
    let concentrations = &table.concentrations[query.material];
    let mut macroscopic = CrossSections::default();
    for i in 0..nuclides.len() {
        out.work(NUCLIDE_INSTRUCTIONS);
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
        let half = length / 2;
        if union.load_part(low + half, 0, 8, out)? <= energy {
            low += half;
            length -= half;
        } else {
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
