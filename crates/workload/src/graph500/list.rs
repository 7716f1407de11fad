//! Linked lists through the array of edges: the simplest structure that the specification's reference has.
//!
//! The two ends of edge `k` are numbered `2k` and `2k + 1`. Each vertex has the list of its ends in the edges:
//! `heads[v]` is the first, `links[end]` the next one. The neighbour is the edge's other end.

use super::bfs::{Structure, Visit};
use super::{EdgeList, load_edge};
use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;
use crate::traced::Traced;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Instructions per vertex of clearing the heads.
const HEAD_INSTRUCTIONS: u64 = 4;
/// Instructions per edge of linking.
const LINK_INSTRUCTIONS: u64 = 16;
/// Instructions per list of a search.
const LIST_INSTRUCTIONS: u64 = 6;
/// Instructions per element of a list in a search.
const NEIGHBOUR_INSTRUCTIONS: u64 = 10;

/// The graph as lists.
pub(crate) struct EdgeLists<'e> {
    edges: &'e EdgeList,
    heads: Traced<u32, 8>,
    links: Traced<u32, 8>,
}

impl<'e> EdgeLists<'e> {
    pub(crate) fn build(
        edges: &'e EdgeList,
        vertices: usize,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Self, Stop> {
        let mut heads = Traced::new(vertices, NONE, space, out)?;
        for v in 0..vertices {
            out.work(HEAD_INSTRUCTIONS);
            heads.store(v, NONE, out)?;
        }
        let mut links = Traced::new(2 * edges.len(), NONE, space, out)?;
        for i in 0..edges.len() {
            out.work(LINK_INSTRUCTIONS);
            let ends = load_edge(edges, i, out)?;
            if ends[0] == ends[1] {
                continue;
            }
            for (side, v) in ends.into_iter().enumerate() {
                let end = 2 * i + side;
                let next = heads.load(v as usize, out)?;
                links.store(end, next, out)?;
                heads.store(v as usize, end as u32, out)?;
            }
        }
        Ok(Self { edges, heads, links })
    }
}

impl Structure for EdgeLists<'_> {
    #[inline(always)]
    fn for_each_neighbour(&self, v: u32, visit: &mut Visit<'_>, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.work(LIST_INSTRUCTIONS);
        let mut end = self.heads.load(v as usize, out)?;
        while end != NONE {
            out.work(NEIGHBOUR_INSTRUCTIONS);
            let other = (end ^ 1) & 1;
            let edge = self.edges.load_part(end as usize / 2, 8 * u64::from(other), 8, out)?;
            visit.neighbour(v, edge[other as usize], out)?;
            end = self.links.load(end as usize, out)?;
        }
        Ok(())
    }
}
