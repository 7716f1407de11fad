//! Compressed sparse rows: for each vertex where its neighbours begin and end, and all neighbours in one array.
//!
//! Each edge is held in both directions, self-loops are dropped, parallel edges are kept (the specification
//! leaves that open).

use super::bfs::{Structure, Visit, read_ahead};
use super::{EdgeList, load_edge};
use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;
use crate::traced::Traced;

/// Instructions per vertex of clearing the rows.
const CLEAR_INSTRUCTIONS: u64 = 4;
/// Instructions per vertex of the prefix sum.
const SUM_INSTRUCTIONS: u64 = 8;
/// Instructions per edge of counting degrees.
const COUNT_INSTRUCTIONS: u64 = 11;
/// Instructions per edge of filling the rows.
const FILL_INSTRUCTIONS: u64 = 20;
/// Instructions per row of a search.
const ROW_INSTRUCTIONS: u64 = 8;
/// Instructions per neighbour of a search.
const NEIGHBOUR_INSTRUCTIONS: u64 = 7;

/// The graph as rows.
pub(crate) struct Csr {
    /// By vertex: where its row begins and ends.
    rows: Traced<[u32; 2], 16>,
    neighbours: Traced<u32, 8>,
}

impl Csr {
    pub(crate) fn build(
        edges: &EdgeList,
        vertices: usize,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Self, Stop> {
        let mut rows = Traced::<[u32; 2], 16>::new(vertices, [0; 2], space, out)?;
        for v in 0..vertices {
            out.work(CLEAR_INSTRUCTIONS);
            rows.store_part(v, 8, 8, out)?;
        }
        count_degrees(edges, &mut rows, out)?;
        let ends = sum_up(&mut rows, out)?;
        let mut neighbours = Traced::new(ends as usize, 0, space, out)?;
        fill(edges, &mut rows, &mut neighbours, out)?;
        Ok(Self { rows, neighbours })
    }
}

/// Leaves each vertex's degree in the end of its row.
fn count_degrees(
    edges: &EdgeList,
    rows: &mut Traced<[u32; 2], 16>,
    out: &mut Emitter<'_>,
) -> Result<(), Stop> {
    for i in 0..edges.len() {
        out.work(COUNT_INSTRUCTIONS);
        let ends = load_edge(edges, i, out)?;
        if ends[0] == ends[1] {
            continue;
        }
        for v in ends {
            rows.load_part(v as usize, 8, 8, out)?;
            rows.store_part(v as usize, 8, 8, out)?[1] += 1;
        }
    }
    Ok(())
}

/// Turns degrees into empty rows, begin = end; returns the sum of the degrees.
fn sum_up(rows: &mut Traced<[u32; 2], 16>, out: &mut Emitter<'_>) -> Result<u32, Stop> {
    let mut sum = 0;
    for v in 0..rows.len() {
        out.work(SUM_INSTRUCTIONS);
        let [_, degree] = rows.load_part(v, 8, 8, out)?;
        rows.store_part(v, 0, 8, out)?;
        *rows.store_part(v, 8, 8, out)? = [sum, sum];
        sum += degree;
    }
    Ok(sum)
}

fn fill(
    edges: &EdgeList,
    rows: &mut Traced<[u32; 2], 16>,
    neighbours: &mut Traced<u32, 8>,
    out: &mut Emitter<'_>,
) -> Result<(), Stop> {
    for i in 0..edges.len() {
        out.work(FILL_INSTRUCTIONS);
        let [a, b] = load_edge(edges, i, out)?;
        if a == b {
            continue;
        }
        for (v, neighbour) in [(a, b), (b, a)] {
            let [_, end] = rows.load_part(v as usize, 8, 8, out)?;
            neighbours.store(end as usize, neighbour, out)?;
            rows.store_part(v as usize, 8, 8, out)?[1] = end + 1;
        }
    }
    Ok(())
}

impl Structure for Csr {
    #[inline(always)]
    fn bring_in(&self, v: u32) {
        let [begin, end] = self.rows.untraced()[v as usize];
        read_ahead(&self.neighbours.untraced()[begin as usize..end as usize]);
    }

    #[inline(always)]
    fn for_each_neighbour(&self, v: u32, visit: &mut Visit<'_>, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.work(ROW_INSTRUCTIONS);
        let [begin, end] = self.rows.load_part(v as usize, 0, 8, out)?;
        self.rows.load_part(v as usize, 8, 8, out)?;
        for at in begin..end {
            out.work(NEIGHBOUR_INSTRUCTIONS);
            let neighbour = self.neighbours.load(at as usize, out)?;
            visit.neighbour(v, neighbour, out)?;
        }
        Ok(())
    }
}
