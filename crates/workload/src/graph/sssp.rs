//! Shortest paths from one vertex along weighted edges, by Bellman and Ford with a queue of vertices to look at again.

use super::objects::Objects;
use super::queue::Queue;
use super::sites;
use super::social::Edges;
use crate::emit::{Emitter, Stop};
use crate::random::mix;
use crate::space::AddressSpace;

/// The distance of a vertex that was not reached.
const UNREACHED: u32 = u32::MAX;
/// The heaviest edge (assumed).
const HEAVIEST: u64 = 8;
/// Fields of the property.
const DISTANCE: u64 = 0;
const WAITS: u64 = 1;
/// Instructions per edge, and more per one that makes a path shorter (estimated by hand from the compiled loop).
const EDGE_INSTRUCTIONS: u64 = 6;
const SHORTER_INSTRUCTIONS: u64 = 6;

/// The weight of the edge between two vertices, from 1 on.
fn weight(a: u32, b: u32, seed: u64) -> u32 {
    let edge = u64::from(a.min(b)) << 32 | u64::from(a.max(b));
    (mix(edge ^ mix(seed ^ 0x5550)) % HEAVIEST) as u32 + 1
}

/// The distance of each vertex from `root`.
pub(crate) fn run(
    graph: &Objects,
    root: u32,
    seed: u64,
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<Vec<u32>, Stop> {
    let mut distances = vec![UNREACHED; graph.vertices()];
    let mut waits = vec![false; graph.vertices()];
    let mut queue = Queue::new(graph.vertices(), space, out)?;
    graph.find(root, out)?;
    graph.store(root, DISTANCE, out)?;
    distances[root as usize] = 0;
    queue.push(root, out)?;
    while let Some(v) = queue.pop_first(out)? {
        graph.find(v, out)?;
        graph.store(v, WAITS, out)?;
        waits[v as usize] = false;
        graph.load(v, DISTANCE, out)?;
        graph.begin(v, out)?;
        for edge in graph.edges().of(v) {
            out.work(EDGE_INSTRUCTIONS);
            let target = graph.step(edge, out)?;
            graph.load_edge(edge, out)?;
            graph.find(target, out)?;
            graph.load(target, DISTANCE, out)?;
            out.enter(&sites::ASK)?;
            let distance = distances[v as usize] + weight(v, target, seed);
            if distance < distances[target as usize] {
                out.work(SHORTER_INSTRUCTIONS);
                out.enter(&sites::ANSWER)?;
                graph.store(target, DISTANCE, out)?;
                distances[target as usize] = distance;
                graph.load(target, WAITS, out)?;
                if !std::mem::replace(&mut waits[target as usize], true) {
                    graph.store(target, WAITS, out)?;
                    queue.push(target, out)?;
                }
            }
            out.enter(&sites::MORE)?;
        }
        out.next_thread();
    }
    Ok(distances)
}

/// Distances are right if no edge would make one shorter, and each but the root's is that of a neighbour and the
/// edge between (weights are positive, so there are no circles of these).
pub(crate) fn verify(edges: &Edges, root: u32, seed: u64, distances: &[u32]) -> Result<(), String> {
    for (v, &distance) in (0..).zip(distances) {
        let through = |n: u32| distances[n as usize].saturating_add(weight(v, n, seed));
        let shortest = edges.neighbours(v).iter().map(|&n| through(n)).min().unwrap_or(UNREACHED);
        let expected = if v == root { 0 } else { shortest };
        if distance != expected {
            return Err(format!("vertex {v} lies at {distance}, by its neighbours at {expected}"));
        }
    }
    Ok(())
}
