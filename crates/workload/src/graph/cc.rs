//! Connected components: breadth-first searches from every vertex that none has reached yet.

use super::objects::Objects;
use super::queue::Queue;
use super::sites;
use super::social::Edges;
use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;

/// The component of a vertex that has none yet.
const NONE: u32 = u32::MAX;
/// The field of the property: the component.
const COMPONENT: u64 = 0;
/// Instructions per neighbour (counted with callgrind over a breadth-first search in C++), and more per one that is new
/// (estimated by hand from the compiled loop).
const NEIGHBOUR_INSTRUCTIONS: u64 = 5;
const DISCOVER_INSTRUCTIONS: u64 = 3;

/// The component of each vertex: the lowest vertex of it.
pub(crate) fn run(
    graph: &Objects,
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<Vec<u32>, Stop> {
    let mut components = vec![NONE; graph.vertices()];
    let mut queue = Queue::new(graph.vertices(), space, out)?;
    for start in 0..graph.vertices() as u32 {
        out.iteration(start as usize);
        graph.pass(start, out)?;
        graph.load(start, COMPONENT, out)?;
        out.enter(&sites::ASK)?;
        if components[start as usize] != NONE {
            continue;
        }
        graph.store(start, COMPONENT, out)?;
        components[start as usize] = start;
        queue.push(start, out)?;
        while let Some(v) = queue.pop_first(out)? {
            graph.find(v, out)?;
            graph.begin(v, out)?;
            for edge in graph.edges().of(v) {
                out.work(NEIGHBOUR_INSTRUCTIONS);
                let target = graph.step(edge, out)?;
                graph.find(target, out)?;
                graph.load(target, COMPONENT, out)?;
                out.enter(&sites::ASK)?;
                if components[target as usize] == NONE {
                    out.work(DISCOVER_INSTRUCTIONS);
                    out.enter(&sites::ANSWER)?;
                    graph.store(target, COMPONENT, out)?;
                    components[target as usize] = start;
                    queue.push(target, out)?;
                }
                out.enter(&sites::MORE)?;
            }
            out.next_thread();
        }
    }
    Ok(components)
}

/// Compares with the union of all edges' ends, kept as a forest whose roots are the lowest vertices.
pub(crate) fn verify(edges: &Edges, components: &[u32]) -> Result<(), String> {
    let mut parents: Vec<u32> = (0..edges.vertices()).collect();
    for (a, b) in edges.pairs() {
        let [a, b] = [a, b].map(|v| root(&mut parents, v));
        parents[a.max(b) as usize] = a.min(b);
    }
    for (v, &component) in (0..).zip(components) {
        let expected = root(&mut parents, v);
        if component != expected {
            return Err(format!("vertex {v} is in component {component}, by union of edges in {expected}"));
        }
    }
    Ok(())
}

/// The root of a vertex's tree; on the way, each vertex is hung to its grandparent.
fn root(parents: &mut [u32], mut v: u32) -> u32 {
    while parents[v as usize] != v {
        parents[v as usize] = parents[parents[v as usize] as usize];
        v = parents[v as usize];
    }
    v
}
