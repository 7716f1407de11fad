//! Triangle counting: each vertex's neighbours in a sorted set, and for each edge the sets of its ends intersected.
//!
//! DEVIATION: the sets are sorted arrays; those of the suite are trees (`std::set`) in its first versions.

use pagewalk_vm::addr::VirtAddr;

use super::objects::Objects;
use super::sites;
use super::social::Edges;
use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;

/// Fields of the property: the count, and where the set lies.
const TRIANGLES: u64 = 0;
const SET: u64 = 1;
/// Instructions per element inserted, per edge, and per step of an intersection (estimated by hand from the compiled
/// loops).
const INSERT_INSTRUCTIONS: u64 = 8;
const EDGE_INSTRUCTIONS: u64 = 8;
const STEP_INSTRUCTIONS: u64 = 4;

/// How many triangles each vertex is in.
pub(crate) fn run(
    graph: &Objects,
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<Vec<u64>, Stop> {
    let edges = graph.edges();
    let sets = fill_sets(graph, space, out)?;
    let mut triangles = vec![0; graph.vertices()];
    for v in 0..graph.vertices() as u32 {
        out.iteration(v as usize);
        graph.pass(v, out)?;
        graph.load(v, SET, out)?;
        graph.begin(v, out)?;
        for edge in edges.of(v) {
            out.work(EDGE_INSTRUCTIONS);
            let target = graph.step(edge, out)?;
            out.enter(&sites::ASK)?;
            if v > target {
                out.enter(&sites::MORE)?;
                continue;
            }
            out.enter(&sites::ANSWER)?;
            graph.find(target, out)?;
            graph.load(target, SET, out)?;
            let [a, b] = [v, target].map(|v| (sets[v as usize], edges.neighbours(v)));
            let both = intersect(a, b, out)?;
            for end in [v, target] {
                graph.change(end, TRIANGLES, &sites::INCREMENT, out)?;
                triangles[end as usize] += both;
            }
            out.enter(&sites::MORE)?;
        }
    }
    for v in 0..graph.vertices() as u32 {
        out.iteration(v as usize);
        graph.pass(v, out)?;
        graph.change(v, TRIANGLES, &sites::INCREMENT, out)?;
        // Both edges of a triangle at a vertex have found it.
        triangles[v as usize] /= 2;
    }
    Ok(triangles)
}

/// Copies each vertex's neighbours, which come in rising order, to an array; answers where the arrays lie.
fn fill_sets(
    graph: &Objects,
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<Vec<VirtAddr>, Stop> {
    let mut sets = Vec::with_capacity(graph.vertices());
    for v in 0..graph.vertices() as u32 {
        out.iteration(v as usize);
        graph.pass(v, out)?;
        let degree = graph.load_degree(v, out)?;
        let set = space.malloc(u64::from(degree) * 8, out)?;
        graph.store(v, SET, out)?;
        graph.begin(v, out)?;
        for (edge, at) in graph.edges().of(v).zip(0..) {
            out.work(INSERT_INSTRUCTIONS);
            graph.step(edge, out)?;
            out.enter(&sites::INTO_SET)?;
            out.store(set.add(8 * at), 8)?;
        }
        sets.push(set);
    }
    Ok(sets)
}

/// How many numbers two rising sequences have in common. An element is loaded when it comes first.
fn intersect(a: (VirtAddr, &[u32]), b: (VirtAddr, &[u32]), out: &mut Emitter<'_>) -> Result<u64, Stop> {
    let (mut i, mut j, mut both) = (0, 0, 0);
    if a.1.is_empty() || b.1.is_empty() {
        return Ok(0);
    }
    out.enter(&sites::SETS)?;
    out.load(a.0, 8)?;
    out.load(b.0, 8)?;
    loop {
        out.work(STEP_INSTRUCTIONS);
        out.enter(&sites::COMPARE)?;
        let (x, y) = (a.1[i], b.1[j]);
        both += u64::from(x == y);
        if x <= y {
            i += 1;
            if i == a.1.len() {
                out.enter(&sites::END_OF_SET)?;
                return Ok(both);
            }
            out.enter(&sites::NEXT_OF_FIRST)?;
            out.load(a.0.add(8 * i as u64), 8)?;
        }
        if y <= x {
            j += 1;
            if j == b.1.len() {
                out.enter(&sites::END_OF_SET)?;
                return Ok(both);
            }
            out.enter(&sites::NEXT_OF_SECOND)?;
            out.load(b.0.add(8 * j as u64), 8)?;
        }
    }
}

/// Counts each triangle once, at its vertex of lowest rank: marks its neighbours of higher rank, and looks among
/// those of each of them for marks. Ranks rise with the degree, so that few neighbours are of higher rank.
pub(crate) fn verify(edges: &Edges, triangles: &[u64]) -> Result<(), String> {
    let rank = |v: u32| (edges.degree(v), v);
    let above = |v: u32| edges.neighbours(v).iter().copied().filter(move |&n| rank(n) > rank(v));
    let mut expected = vec![0u64; triangles.len()];
    let mut marked = vec![false; triangles.len()];
    for v in 0..edges.vertices() {
        above(v).for_each(|n| marked[n as usize] = true);
        for n in above(v) {
            for third in above(n).filter(|&third| marked[third as usize]) {
                for corner in [v, n, third] {
                    expected[corner as usize] += 1;
                }
            }
        }
        above(v).for_each(|n| marked[n as usize] = false);
    }
    match (0..triangles.len()).find(|&v| triangles[v] != expected[v]) {
        Some(v) => Err(format!("vertex {v} is in {} triangles, by marking in {}", triangles[v], expected[v])),
        None => Ok(()),
    }
}
