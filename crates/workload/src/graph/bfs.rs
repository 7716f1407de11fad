//! Breadth-first search from one vertex: the level of each vertex.

use super::objects::Objects;
use super::queue::Queue;
use super::sites;
use super::social::Edges;
use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;

/// The level of a vertex that was not reached.
const UNREACHED: u32 = u32::MAX;
/// Fields of the property.
const COLOUR: u64 = 0;
const LEVEL: u64 = 1;
/// Instructions per neighbour (counted with callgrind over a breadth-first search in C++), and more per one that is new
/// (estimated by hand from the compiled loop).
const NEIGHBOUR_INSTRUCTIONS: u64 = 5;
const DISCOVER_INSTRUCTIONS: u64 = 6;

/// Searches from `root`.
pub(crate) fn run(
    graph: &Objects,
    root: u32,
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<Vec<u32>, Stop> {
    let mut levels = vec![UNREACHED; graph.vertices()];
    let mut queue = Queue::new(graph.vertices(), space, out)?;
    graph.find(root, out)?;
    graph.store(root, COLOUR, out)?;
    graph.store(root, LEVEL, out)?;
    levels[root as usize] = 0;
    queue.push(root, out)?;
    while let Some(v) = queue.pop_first(out)? {
        graph.find(v, out)?;
        graph.begin(v, out)?;
        for edge in graph.edges().of(v) {
            out.work(NEIGHBOUR_INSTRUCTIONS);
            let target = graph.step(edge, out)?;
            graph.find(target, out)?;
            graph.load(target, COLOUR, out)?;
            out.enter(&sites::ASK)?;
            if levels[target as usize] == UNREACHED {
                out.work(DISCOVER_INSTRUCTIONS);
                out.enter(&sites::ANSWER)?;
                graph.store(target, COLOUR, out)?;
                graph.load(v, LEVEL, out)?;
                graph.store(target, LEVEL, out)?;
                levels[target as usize] = levels[v as usize] + 1;
                queue.push(target, out)?;
            }
            out.enter(&sites::MORE)?;
        }
        out.next_thread();
    }
    Ok(levels)
}

/// Levels are distances if no edge spans more than one, and each vertex but the root has a neighbour one below.
pub(crate) fn verify(edges: &Edges, root: u32, levels: &[u32]) -> Result<(), String> {
    for (v, &level) in (0..).zip(levels) {
        let neighbours = || edges.neighbours(v).iter().map(|&n| levels[n as usize]);
        let lowest = neighbours().min();
        let right = match level {
            0 => v == root,
            UNREACHED => lowest.is_none_or(|lowest| lowest == UNREACHED),
            _ => lowest.is_some_and(|lowest| lowest.checked_add(1) == Some(level)),
        };
        if !right || (v == root && level != 0) {
            return Err(format!(
                "vertex {v} has level {level}, its lowest neighbour {lowest:?}; the root is {root}"
            ));
        }
    }
    Ok(())
}
