//! Depth-first search from one vertex: when each vertex was discovered, and when its search was finished.

use super::objects::Objects;
use super::queue::Queue;
use super::sites;
use super::social::Edges;
use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;

/// The time of what never happened.
const NEVER: u32 = u32::MAX;
/// Fields of the property.
const COLOUR: u64 = 0;
const DISCOVERED: u64 = 1;
const FINISHED: u64 = 2;
/// Where the search of a vertex stands: the next edge to look at.
const CURSOR: u64 = 3;
/// Instructions per neighbour, per discovery, and per return (estimated by hand from the compiled loop).
const NEIGHBOUR_INSTRUCTIONS: u64 = 4;
const DISCOVER_INSTRUCTIONS: u64 = 8;
const FINISH_INSTRUCTIONS: u64 = 6;

/// When the search of each vertex began and ended, counted from 0.
pub(crate) struct Times {
    discovered: Vec<u32>,
    finished: Vec<u32>,
    now: u32,
}

impl Times {
    fn tick(&mut self) -> u32 {
        self.now += 1;
        self.now - 1
    }
}

/// Searches from `root`, with a stack of the vertices on the way to the present one.
pub(crate) fn run(
    graph: &Objects,
    root: u32,
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<Times, Stop> {
    let never = || vec![NEVER; graph.vertices()];
    let mut times = Times { discovered: never(), finished: never(), now: 0 };
    let mut cursors: Vec<u32> = (0..graph.vertices() as u32).map(|v| graph.edges().of(v).start).collect();
    let mut stack = Queue::new(graph.vertices(), space, out)?;
    discover(graph, root, &mut times, &mut stack, out)?;
    while let Some(v) = stack.pop_last(out)? {
        graph.find(v, out)?;
        graph.load_by(v, CURSOR, &sites::BEGIN, out)?;
        let end = graph.edges().of(v).end;
        let mut found = None;
        while found.is_none() && cursors[v as usize] < end {
            out.work(NEIGHBOUR_INSTRUCTIONS);
            let target = graph.step(cursors[v as usize], out)?;
            cursors[v as usize] += 1;
            graph.find(target, out)?;
            graph.load(target, COLOUR, out)?;
            out.path(&[&sites::ASK, &sites::MORE])?;
            found = (times.discovered[target as usize] == NEVER).then_some(target);
        }
        graph.store(v, CURSOR, out)?;
        match found {
            Some(target) => {
                stack.push(v, out)?;
                discover(graph, target, &mut times, &mut stack, out)?;
            }
            None => {
                out.work(FINISH_INSTRUCTIONS);
                graph.store(v, FINISHED, out)?;
                times.finished[v as usize] = times.tick();
            }
        }
    }
    Ok(times)
}

fn discover(
    graph: &Objects,
    v: u32,
    times: &mut Times,
    stack: &mut Queue,
    out: &mut Emitter<'_>,
) -> Result<(), Stop> {
    out.work(DISCOVER_INSTRUCTIONS);
    graph.store(v, COLOUR, out)?;
    graph.store(v, DISCOVERED, out)?;
    graph.begin(v, out)?;
    graph.store(v, CURSOR, out)?;
    times.discovered[v as usize] = times.tick();
    stack.push(v, out)
}

/// The parenthesis theorem: times are all different, the root's search encloses all others, and the searches of two
/// neighbours enclose one another. (Were it not depth-first, some edge would join two searches one after the other.)
pub(crate) fn verify(edges: &Edges, root: u32, times: &Times) -> Result<(), String> {
    let span = |v: u32| (times.discovered[v as usize], times.finished[v as usize]);
    let mut happened = vec![false; times.now as usize];
    for v in 0..edges.vertices() {
        let (discovered, finished) = span(v);
        if (discovered, finished) == (NEVER, NEVER) {
            if let Some(&other) = edges.neighbours(v).iter().find(|&&n| span(n).0 != NEVER) {
                return Err(format!("vertex {v} was not reached, its neighbour {other} was"));
            }
            continue;
        }
        for time in [discovered, finished] {
            if happened.get_mut(time as usize).is_none_or(|happened| std::mem::replace(happened, true)) {
                return Err(format!("vertex {v}: time {time} is not one of its own"));
            }
        }
        for other in edges.neighbours(v).iter().copied().chain([root]) {
            let (other_discovered, other_finished) = span(other);
            let inside = other_discovered <= discovered && finished <= other_finished;
            let around = discovered <= other_discovered && other_finished <= finished;
            if discovered >= finished || !(inside || around) || (other == root && !inside) {
                return Err(format!(
                    "the search of vertex {v} from {discovered} to {finished} and that of {other} from \
                     {other_discovered} to {other_finished} do not enclose one another"
                ));
            }
        }
    }
    match happened.iter().position(|happened| !happened) {
        Some(time) => Err(format!("nothing happened at time {time}")),
        None => Ok(()),
    }
}

#[cfg(test)]
impl Times {
    /// Makes the answer wrong, for a test.
    pub(crate) fn corrupt(&mut self) {
        self.finished.swap(0, 1);
    }
}
