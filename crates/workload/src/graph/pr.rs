//! PageRank: each vertex hands its rank on to its neighbours in equal shares, again and again.

use super::objects::Objects;
use super::sites;
use super::social::Edges;
use crate::emit::{Emitter, Stop};

/// The share of the rank that follows edges.
const DAMPING: f64 = 0.85;
/// Fields of the property.
const RANK: u64 = 0;
const OLD_RANK: u64 = 1;
/// Instructions per vertex of clearing, of pushing, of comparing (estimated by hand from the compiled loops), and per edge
/// (counted with callgrind over equivalent C++).
const CLEAR_INSTRUCTIONS: u64 = 4;
const PUSH_INSTRUCTIONS: u64 = 8;
const COMPARE_INSTRUCTIONS: u64 = 5;
const EDGE_INSTRUCTIONS: u64 = 3;
/// How far the same sums in another order may be from each other, relative (there are up to 5000 summands).
const TOLERANCE: f64 = 1e-10;

/// The ranks after `rounds`.
///
/// DEVIATION: the suite stops when a round changes little, which for large graphs is after the first.
pub(crate) fn run(graph: &Objects, rounds: u64, out: &mut Emitter<'_>) -> Result<Vec<f64>, Stop> {
    let vertices = graph.vertices() as f64;
    let mut ranks = vec![1.0 / vertices; graph.vertices()];
    let numbers = || 0..graph.vertices() as u32;
    for v in numbers() {
        out.iteration(v as usize);
        out.work(CLEAR_INSTRUCTIONS);
        out.enter(&sites::IN_TURN)?;
        graph.find(v, out)?;
        graph.store(v, RANK, out)?;
    }
    for _ in 0..rounds {
        for v in numbers() {
            out.iteration(v as usize);
            out.work(CLEAR_INSTRUCTIONS);
            out.enter(&sites::IN_TURN)?;
            graph.find(v, out)?;
            graph.load(v, RANK, out)?;
            graph.store(v, OLD_RANK, out)?;
            graph.store(v, RANK, out)?;
        }
        let old = std::mem::replace(&mut ranks, vec![(1.0 - DAMPING) / vertices; graph.vertices()]);
        for v in numbers() {
            out.iteration(v as usize);
            out.work(PUSH_INSTRUCTIONS);
            out.enter(&sites::IN_TURN)?;
            graph.find(v, out)?;
            graph.load(v, OLD_RANK, out)?;
            let share = DAMPING * old[v as usize] / f64::from(graph.load_degree(v, out)?);
            out.enter(&sites::SHARE)?;
            graph.begin(v, out)?;
            for edge in graph.edges().of(v) {
                out.work(EDGE_INSTRUCTIONS);
                let target = graph.step(edge, out)?;
                graph.find(target, out)?;
                graph.change(target, RANK, &sites::ADD, out)?;
                out.enter(&sites::MORE)?;
                ranks[target as usize] += share;
            }
        }
        for v in numbers() {
            out.iteration(v as usize);
            out.work(COMPARE_INSTRUCTIONS);
            out.enter(&sites::IN_TURN)?;
            graph.find(v, out)?;
            graph.load(v, RANK, out)?;
            graph.load(v, OLD_RANK, out)?;
        }
    }
    Ok(ranks)
}

/// Computes them again by pulling, backwards: the sum over a vertex's in-edges.
pub(crate) fn verify(edges: &Edges, rounds: u64, ranks: &[f64]) -> Result<(), String> {
    let vertices = f64::from(edges.vertices());
    let mut expected = vec![1.0 / vertices; ranks.len()];
    for _ in 0..rounds {
        let shares: Vec<f64> =
            (0..).zip(&expected).map(|(v, rank)| rank / f64::from(edges.degree(v))).collect();
        expected = (0..edges.vertices())
            .map(|v| edges.neighbours(v).iter().rev().map(|&n| shares[n as usize]).sum())
            .map(|sum: f64| DAMPING * sum + (1.0 - DAMPING) / vertices)
            .collect();
    }
    match (0..ranks.len()).find(|&v| (ranks[v] - expected[v]).abs() > TOLERANCE * expected[v]) {
        Some(v) => Err(format!("vertex {v} has rank {:e}, pulled {:e}", ranks[v], expected[v])),
        None => Ok(()),
    }
}
