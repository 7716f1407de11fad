//! Betweenness centrality (Brandes, Journal of Mathematical Sociology 2001) of the shortest paths from some vertices:
//! a breadth-first search that counts paths and keeps the parents of each vertex, then the dependencies backwards.
//!
//! DEVIATION: the suite starts from every vertex; here from as many as `rounds` says.
//! DEVIATION: numbers of paths are floating-point numbers; the suite's whole ones can overflow. The lists' elements
//! are used again in the order of their first use.

use pagewalk_code::Class;
use pagewalk_vm::addr::VirtAddr;

use super::objects::Objects;
use super::queue::Queue;
use super::sites::{self, AT, FIRST as SHARE, LOADED, NUMBER, SECOND as SUM, VALUE, VERTEX};
use super::social::Edges;
use crate::code::{Op, Site};
use crate::emit::{Emitter, Stop};
use crate::space::{AddressSpace, chunk_bytes};
use crate::traced::Traced;

/// The field of the property: the centrality.
const CENTRALITY: u64 = 0;
/// Bytes of an element of a list of parents: next, previous, parent.
const PARENT_BYTES: u64 = 24;
/// The depth of a vertex that was not reached.
const UNREACHED: u32 = u32::MAX;
const NONE: u32 = u32::MAX;
/// Instructions per vertex of clearing, per edge, per parent kept, per dependency, per vertex of the way back (all
/// estimated by hand from the compiled loops).
const CLEAR_INSTRUCTIONS: u64 = 12;
const EDGE_INSTRUCTIONS: u64 = 6;
const PARENT_INSTRUCTIONS: u64 = 8;
const DEPENDENCY_INSTRUCTIONS: u64 = 10;
const BACK_INSTRUCTIONS: u64 = 6;
/// How far the same sums in another order may be from each other, relative.
const TOLERANCE: f64 = 1e-9;

/// Clears what is known of a vertex.
static CLEAR: Site = Site::new(&[
    Op::store(16, &[AT], &[]),
    Op::store(8, &[AT], &[]),
    Op::store(1, &[AT], &[]),
    Op::store(8, &[AT], &[]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT]),
])
.repeats()
.of(CLEAR_INSTRUCTIONS);
/// Loads the depth of a vertex, and stores it; adds to the number of its paths; keeps a parent.
static DEPTH: Site = Site::new(&[Op::load(LOADED, 1, &[NUMBER])]);
static NEW_DEPTH: Site = Site::new(&[Op::store(1, &[NUMBER], &[VALUE])]);
static PATHS: Site = Site::new(&[
    Op::load(LOADED, 8, &[VERTEX]),
    Op::load(VALUE, 8, &[NUMBER]),
    Op::new(Class::FloatAdd, VALUE, &[VALUE, LOADED]),
    Op::store(8, &[NUMBER], &[VALUE]),
]);
static PARENT: Site = Site::new(&[
    Op::store(16, &[AT], &[]),
    Op::store(8, &[AT], &[VERTEX]),
    Op::load(LOADED, 8, &[NUMBER]),
    Op::store(8, &[NUMBER], &[AT]),
    Op::integer(AT, &[AT]),
])
.of(PARENT_INSTRUCTIONS);
/// Begins with a vertex on the way back; goes to the next of its parents.
static BACK: Site = Site::new(&[
    Op::load(AT, 8, &[NUMBER]),
    Op::load(VALUE, 8, &[NUMBER]),
    Op::load(LOADED, 8, &[NUMBER]),
    Op::compare(&[AT]),
])
.branches(&DEPENDENCY)
.of(BACK_INSTRUCTIONS);
static DEPENDENCY: Site = Site::new(&[
    Op::load(VERTEX, 8, &[AT]),
    Op::load(AT, 8, &[AT]),
    Op::load(SHARE, 8, &[VERTEX]),
    Op::new(Class::FloatDivide, SHARE, &[SHARE, LOADED]),
    Op::load(SUM, 8, &[VERTEX]),
    Op::new(Class::FloatMultiplyAdd, SUM, &[SUM, SHARE, VALUE]),
    Op::store(8, &[VERTEX], &[SUM]),
    Op::compare(&[AT]),
])
.repeats()
.of(DEPENDENCY_INSTRUCTIONS);

/// The parents of all vertices: lists of elements that lie one after the other in the heap.
struct Parents {
    lists: Traced<u32, 24>,
    /// Where the first element lies, once there is one.
    place: Option<VirtAddr>,
    /// Parent and next element of each element in use, and how many elements were ever made.
    elements: Vec<[u32; 2]>,
    made: usize,
}

impl Parents {
    fn addr(&self, element: u32) -> VirtAddr {
        let first = self.place.expect("there is an element");
        first.add(u64::from(element) * chunk_bytes(PARENT_BYTES))
    }

    /// Adds a parent to the list of `v`.
    fn push(
        &mut self,
        v: u32,
        parent: u32,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        out.work(PARENT_INSTRUCTIONS);
        let element = self.elements.len() as u32;
        if self.elements.len() == self.made {
            let place = space.malloc(PARENT_BYTES, out)?;
            self.place.get_or_insert(place);
            debug_assert_eq!(place, self.addr(element), "elements are not in a row");
            self.made += 1;
        }
        out.enter(&PARENT)?;
        out.store(self.addr(element), 16)?;
        out.store(self.addr(element).add(16), 8)?;
        let first = self.lists.load_part(v as usize, 8, 8, out)?;
        self.elements.push([parent, first]);
        *self.lists.store_part(v as usize, 8, 8, out)? = element;
        Ok(())
    }
}

/// The arrays of a search.
struct Search {
    parents: Parents,
    paths: Traced<f64, 8>,
    depths: Traced<u32, 1>,
    updates: Traced<f64, 8>,
    queue: Queue,
    seen: Queue,
}

impl Search {
    fn new(vertices: usize, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<Self, Stop> {
        let lists = Traced::new(vertices, NONE, space, out)?;
        Ok(Self {
            parents: Parents { lists, place: None, elements: Vec::new(), made: 0 },
            paths: Traced::new(vertices, 0.0, space, out)?,
            depths: Traced::new(vertices, UNREACHED, space, out)?,
            updates: Traced::new(vertices, 0.0, space, out)?,
            queue: Queue::new(vertices, space, out)?,
            seen: Queue::new(vertices, space, out)?,
        })
    }

    fn clear(&mut self, root: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        for v in 0..self.paths.len() {
            out.iteration(v);
            out.block(&CLEAR)?;
            *self.parents.lists.store_part(v, 0, 16, out)? = NONE;
            let is_root = v == root as usize;
            self.paths.store(v, if is_root { 1.0 } else { 0.0 }, out)?;
            self.depths.store(v, if is_root { 0 } else { UNREACHED }, out)?;
            self.updates.store(v, 0.0, out)?;
        }
        self.parents.elements.clear();
        Ok(())
    }

    /// The search itself: counts shortest paths and keeps parents.
    fn forwards(
        &mut self,
        graph: &Objects,
        root: u32,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        self.queue.push(root, out)?;
        while let Some(v) = self.queue.pop_first(out)? {
            self.seen.push(v, out)?;
            graph.find(v, out)?;
            graph.begin(v, out)?;
            out.enter(&DEPTH)?;
            let next = self.depths.load(v as usize, out)? + 1;
            for edge in graph.edges().of(v) {
                out.work(EDGE_INSTRUCTIONS);
                let target = graph.step(edge, out)?;
                out.enter(&DEPTH)?;
                let mut depth = self.depths.load(target as usize, out)?;
                out.enter(&sites::ASK)?;
                if depth == UNREACHED {
                    out.enter(&sites::ANSWER)?;
                    self.queue.push(target, out)?;
                    out.enter(&NEW_DEPTH)?;
                    self.depths.store(target as usize, next, out)?;
                    depth = next;
                }
                if depth == next {
                    out.enter(&PATHS)?;
                    let paths = self.paths.load(v as usize, out)? + self.paths.load(target as usize, out)?;
                    self.paths.store(target as usize, paths, out)?;
                    self.parents.push(target, v, space, out)?;
                }
                out.enter(&sites::MORE)?;
            }
            out.next_thread();
        }
        Ok(())
    }

    /// From the last vertex to the first: what each depends on its parents.
    fn backwards(
        &mut self,
        graph: &Objects,
        root: u32,
        centrality: &mut [f64],
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        while let Some(w) = self.seen.pop_last(out)? {
            out.block(&BACK)?;
            let mut element = self.parents.lists.load_part(w as usize, 0, 8, out)?;
            let update = self.updates.load(w as usize, out)?;
            let paths = self.paths.load(w as usize, out)?;
            while element != NONE {
                out.block(&DEPENDENCY)?;
                out.load(self.parents.addr(element).add(16), 8)?;
                out.load(self.parents.addr(element), 8)?;
                let [v, next] = self.parents.elements[element as usize];
                let share = self.paths.load(v as usize, out)? / paths;
                let sum = self.updates.load(v as usize, out)? + share * (1.0 + update);
                self.updates.store(v as usize, sum, out)?;
                element = next;
            }
            if w != root {
                graph.find(w, out)?;
                graph.change(w, CENTRALITY, &sites::ADD, out)?;
                centrality[w as usize] += update;
            }
            out.next_thread();
        }
        Ok(())
    }
}

/// The centrality of each vertex on the shortest paths from `roots`.
pub(crate) fn run(
    graph: &Objects,
    roots: &[u32],
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<Vec<f64>, Stop> {
    let mut centrality = vec![0.0; graph.vertices()];
    let mut search = Search::new(graph.vertices(), space, out)?;
    for &root in roots {
        search.clear(root, out)?;
        search.forwards(graph, root, space, out)?;
        search.backwards(graph, root, &mut centrality, out)?;
    }
    Ok(centrality)
}

/// Computes it again without parents: level by level, each vertex pulls the number of its paths from the level above
/// and its dependency from the level below. And from each root, all dependencies together are the inner vertices of
/// its shortest paths, distance minus one for each vertex.
pub(crate) fn verify(edges: &Edges, roots: &[u32], centrality: &[f64]) -> Result<(), String> {
    let mut expected = vec![0.0; centrality.len()];
    for &root in roots {
        let levels = levels(edges, root);
        let mut depths = vec![UNREACHED; centrality.len()];
        let (mut paths, mut dependencies) = (vec![0.0; centrality.len()], vec![0.0; centrality.len()]);
        for (depth, level) in (0..).zip(&levels) {
            level.iter().for_each(|&v| depths[v as usize] = depth);
        }
        let neighbours = |v: u32, depth: u32, depths: &[u32]| -> Vec<usize> {
            let at = edges.neighbours(v).iter().map(|&n| n as usize);
            at.filter(|&n| depths[n] == depth).collect()
        };
        paths[root as usize] = 1.0;
        for (depth, level) in (0..).zip(&levels).skip(1) {
            for &v in level {
                paths[v as usize] = neighbours(v, depth - 1, &depths).into_iter().map(|n| paths[n]).sum();
            }
        }
        let (mut sum, mut inner) = (0.0, 0.0);
        for depth in (1..levels.len() as u32).rev() {
            for &v in &levels[depth as usize] {
                let below = neighbours(v, depth + 1, &depths).into_iter();
                let dependency: f64 =
                    below.map(|n| paths[v as usize] / paths[n] * (1.0 + dependencies[n])).sum();
                dependencies[v as usize] = dependency;
                expected[v as usize] += dependency;
                sum += dependency;
                inner += f64::from(depth - 1);
            }
        }
        if (sum - inner).abs() > TOLERANCE * inner.max(1.0) {
            return Err(format!("from root {root}, dependencies sum up to {sum}, distances to {inner}"));
        }
    }
    let differs = |v: usize| (centrality[v] - expected[v]).abs() > TOLERANCE * expected[v].max(1.0);
    match (0..centrality.len()).find(|&v| differs(v)) {
        Some(v) => Err(format!("vertex {v} has centrality {}, pulled {}", centrality[v], expected[v])),
        None => Ok(()),
    }
}

/// The vertices at each distance from `root`.
fn levels(edges: &Edges, root: u32) -> Vec<Vec<u32>> {
    let mut reached = vec![false; edges.vertices() as usize];
    reached[root as usize] = true;
    let mut levels = vec![vec![root]];
    while let Some(last) = levels.last().filter(|level| !level.is_empty()) {
        let next = last.iter().flat_map(|&v| edges.neighbours(v)).copied();
        let next = next.filter(|&n| !std::mem::replace(&mut reached[n as usize], true)).collect();
        levels.push(next);
    }
    levels
}
