//! Compressed sparse rows: for each vertex where its neighbours begin and end, and all neighbours in one array.
//!
//! Each edge is held in both directions, self-loops are dropped, parallel edges are kept (the specification
//! leaves that open).

use super::bfs::{Structure, Visit, read_ahead};
use super::{EdgeList, load_edge, sites};
use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;
use crate::traced::Traced;

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
            out.block(&sites::CLEAR)?;
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
        out.work(sites::COUNT_INSTRUCTIONS);
        out.enter(&sites::COUNT)?;
        let ends = load_edge(edges, i, out)?;
        if ends[0] == ends[1] {
            continue;
        }
        out.enter(&sites::COUNT_ENDS)?;
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
        out.block(&sites::SUM)?;
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
        out.work(sites::FILL_INSTRUCTIONS);
        out.enter(&sites::FILL)?;
        let [a, b] = load_edge(edges, i, out)?;
        if a == b {
            continue;
        }
        out.enter(&sites::FILL_ENDS)?;
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
        out.work(sites::ROW_INSTRUCTIONS);
        out.enter(&sites::ROW)?;
        let [begin, end] = self.rows.load_part(v as usize, 0, 8, out)?;
        self.rows.load_part(v as usize, 8, 8, out)?;
        for at in begin..end {
            out.work(sites::NEIGHBOUR_INSTRUCTIONS);
            out.path(&[&sites::IN_ROW, &sites::LOOK])?;
            let neighbour = self.neighbours.load(at as usize, out)?;
            visit.neighbour(v, neighbour, out)?;
        }
        out.enter(&sites::IN_ROW)
    }
}
