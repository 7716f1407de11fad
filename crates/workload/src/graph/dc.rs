//! Degree centrality: how many edges leave each vertex and how many arrive.

use super::objects::Objects;
use super::sites;
use super::social::Edges;
use crate::emit::{Emitter, Stop};

/// Fields of the property.
const IN: u64 = 0;
const OUT: u64 = 1;
/// Instructions per vertex (estimated by hand from the compiled loop), and per edge (counted with callgrind over
/// equivalent C++).
const VERTEX_INSTRUCTIONS: u64 = 4;
const EDGE_INSTRUCTIONS: u64 = 1;

/// The degrees of each vertex, in and out.
pub(crate) fn run(graph: &Objects, out: &mut Emitter<'_>) -> Result<Vec<[u32; 2]>, Stop> {
    let mut degrees = vec![[0; 2]; graph.vertices()];
    for v in 0..graph.vertices() as u32 {
        out.iteration(v as usize);
        graph.pass(v, out)?;
        out.work(VERTEX_INSTRUCTIONS);
        degrees[v as usize][1] = graph.load_degree(v, out)?;
        graph.store(v, OUT, out)?;
        graph.begin(v, out)?;
        for edge in graph.edges().of(v) {
            out.work(EDGE_INSTRUCTIONS);
            let target = graph.step(edge, out)?;
            graph.find(target, out)?;
            graph.change(target, IN, &sites::INCREMENT, out)?;
            out.enter(&sites::MORE)?;
            degrees[target as usize][0] += 1;
        }
    }
    Ok(degrees)
}

/// Each edge is there in both directions, so both degrees are the number of neighbours; all together count each edge
/// once.
pub(crate) fn verify(edges: &Edges, degrees: &[[u32; 2]]) -> Result<(), String> {
    for (v, &degrees) in (0..).zip(degrees) {
        let expected = edges.neighbours(v).len() as u32;
        if degrees != [expected; 2] {
            return Err(format!("vertex {v} has {expected} neighbours, but in- and out-degree {degrees:?}"));
        }
    }
    match degrees.iter().map(|d| u64::from(d[0])).sum::<u64>() == edges.len() as u64 {
        true => Ok(()),
        false => Err(format!("in-degrees do not sum up to the {} edges", edges.len())),
    }
}
