//! Linked lists through the array of edges: the simplest structure that the specification's reference has.
//!
//! The two ends of edge `k` are numbered `2k` and `2k + 1`. Each vertex has the list of its ends in the edges:
//! `heads[v]` is the first, `links[end]` the next one. The neighbour is the edge's other end.
//!
//! A host that followed the links would wait for its own memory at every element, a hundred times longer than it
//! takes to emit the events. So the finished lists are also laid out one after the other, and searches read them
//! from there; the events are those of following the links. A test compares the two.

use super::bfs::{Structure, Visit, read_ahead};
use super::{EdgeList, load_edge, sites};
use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;
use crate::traced::Traced;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// The graph as lists.
pub(crate) struct EdgeLists<'e> {
    edges: &'e EdgeList,
    heads: Traced<u32, 8>,
    links: Traced<u32, 8>,
    layout: Layout,
}

/// The lists one after the other.
struct Layout {
    /// By vertex: where its list begins; one more at the end.
    begins: Vec<u32>,
    /// Elements in the order of their list.
    elements: Vec<Element>,
}

/// An end of an edge at some vertex, and the vertex at the other end.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Element {
    end: u32,
    neighbour: u32,
}

impl Layout {
    fn new(edges: &[[u32; 2]], vertices: usize) -> Self {
        let proper = || edges.iter().enumerate().filter(|(_, [a, b])| a != b);
        let mut begins = vec![0; vertices + 1];
        for (_, edge) in proper() {
            edge.iter().for_each(|&v| begins[v as usize] += 1);
        }
        let mut sum = 0;
        for begin in &mut begins {
            sum += *begin;
            *begin = sum;
        }
        // Each new end is the head of its list: filling from the back puts it in front of those before it.
        let mut elements = vec![Element::default(); sum as usize];
        for (i, &[a, b]) in proper() {
            for (side, v, neighbour) in [(0, a, b), (1, b, a)] {
                begins[v as usize] -= 1;
                elements[begins[v as usize] as usize] = Element { end: 2 * i as u32 + side, neighbour };
            }
        }
        Self { begins, elements }
    }

    #[inline(always)]
    fn of(&self, v: u32) -> &[Element] {
        &self.elements[self.begins[v as usize] as usize..self.begins[v as usize + 1] as usize]
    }
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
            out.block(&sites::CLEAR)?;
            heads.store(v, NONE, out)?;
        }
        let mut links = Traced::new(2 * edges.len(), NONE, space, out)?;
        for i in 0..edges.len() {
            out.work(sites::LINK_INSTRUCTIONS);
            out.enter(&sites::LINK)?;
            let ends = load_edge(edges, i, out)?;
            if ends[0] == ends[1] {
                continue;
            }
            out.enter(&sites::LINK_ENDS)?;
            for (side, v) in ends.into_iter().enumerate() {
                let end = 2 * i + side;
                let next = heads.load(v as usize, out)?;
                links.store(end, next, out)?;
                heads.store(v as usize, end as u32, out)?;
            }
        }
        let layout = Layout::new(edges.untraced(), vertices);
        Ok(Self { edges, heads, links, layout })
    }
}

impl Structure for EdgeLists<'_> {
    #[inline(always)]
    fn bring_in(&self, v: u32) {
        read_ahead(self.layout.of(v));
    }

    #[inline(always)]
    fn for_each_neighbour(&self, v: u32, visit: &mut Visit<'_>, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.block(&sites::LIST)?;
        self.heads.touch(v as usize, out)?;
        for &Element { end, neighbour } in self.layout.of(v) {
            out.work(sites::LIST_NEIGHBOUR_INSTRUCTIONS);
            out.enter(&sites::LOOK_IN_LIST)?;
            let other = u64::from(end & 1 ^ 1);
            self.edges.touch_part(end as usize / 2, 8 * other, 8, out)?;
            visit.neighbour(v, neighbour, out)?;
            out.enter(&sites::FOLLOW)?;
            self.links.touch(end as usize, out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::super::kronecker::Kronecker;
    use super::*;

    #[test]
    fn the_layout_is_what_following_the_links_gives() {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let kronecker = Kronecker::new(7, 1);
        let mut edges = EdgeList::new(1000, [0; 2], &mut space, &mut out).unwrap();
        for (i, edge) in edges.untraced_mut().iter_mut().enumerate() {
            *edge = kronecker.edge(i as u64);
        }
        let lists = EdgeLists::build(&edges, 1 << 7, &mut space, &mut out).unwrap();
        let mut total = 0;
        for v in 0..1 << 7 {
            let mut followed = Vec::new();
            let mut end = lists.heads.untraced()[v as usize];
            while end != NONE {
                let edge = edges.untraced()[end as usize / 2];
                assert_eq!(edge[end as usize % 2], v);
                followed.push(Element { end, neighbour: edge[(end ^ 1) as usize % 2] });
                end = lists.links.untraced()[end as usize];
            }
            assert_eq!(lists.layout.of(v), followed, "vertex {v}");
            total += followed.len();
        }
        let loops = edges.untraced().iter().filter(|[a, b]| a == b).count();
        assert_eq!(total, 2 * (1000 - loops));
    }
}
