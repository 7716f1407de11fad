//! Breadth-first search, top-down, with a queue that ends up holding the vertices in the order of discovery.

use super::sites;
use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;
use crate::traced::Traced;

/// The parent of a vertex that no search has reached.
pub(crate) const UNREACHED: u32 = u32::MAX;

/// How many vertices at a time are brought into the host's caches before their neighbours are looked at.
const AHEAD: usize = 8;
/// The line size of the host's caches.
const LINE_BYTES: usize = 64;
/// How many lines of a vertex's neighbours are brought in at most; the host's hardware recognises longer runs.
const LINES_AHEAD: usize = 4;

/// A graph's data structure, as a search sees it.
pub(crate) trait Structure {
    /// Reads where the neighbours of `v` lie, so that the host has them in its caches. No effect otherwise: several
    /// of these reads wait for memory together, while each search step alone would wait for its own.
    fn bring_in(&self, v: u32);

    /// Shows `visit` every neighbour of `v`, with the accesses that finding them takes.
    fn for_each_neighbour(&self, v: u32, visit: &mut Visit<'_>, out: &mut Emitter<'_>) -> Result<(), Stop>;
}

/// The state of searches: the tree and the queue.
pub(crate) struct Search {
    parents: Traced<u32, 8>,
    queue: Traced<u32, 8>,
    reached: Bits,
}

/// What happens to a neighbour.
pub(crate) struct Visit<'s> {
    parents: &'s mut Traced<u32, 8>,
    queue: &'s mut Traced<u32, 8>,
    reached: &'s mut Bits,
    tail: usize,
}

/// Which vertices have a parent. The program asks the array of parents; the host, to which the parent itself does
/// not matter, asks one bit that its caches can hold. Nearly every other access of a search is this question.
struct Bits(Vec<u64>);

impl Bits {
    #[inline(always)]
    fn get(&self, index: u32) -> bool {
        self.0[index as usize / 64] >> (index % 64) & 1 == 1
    }

    #[inline(always)]
    fn set(&mut self, index: u32) {
        self.0[index as usize / 64] |= 1 << (index % 64);
    }
}

impl Visit<'_> {
    /// Looks at a neighbour of `v`: the first time it becomes a child of `v`.
    #[inline(always)]
    pub(crate) fn neighbour(&mut self, v: u32, neighbour: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        self.parents.touch(neighbour as usize, out)?;
        if !self.reached.get(neighbour) {
            out.block(&sites::DISCOVER)?;
            self.reached.set(neighbour);
            self.parents.store(neighbour as usize, v, out)?;
            self.queue.store(self.tail, neighbour, out)?;
            self.tail += 1;
        }
        Ok(())
    }
}

/// Reads one element a line of the first lines of `run`.
#[inline(always)]
pub(crate) fn read_ahead<T: Copy>(run: &[T]) {
    let per_line = LINE_BYTES / size_of::<T>();
    for element in run.iter().step_by(per_line).take(LINES_AHEAD) {
        std::hint::black_box(*element);
    }
}

impl Search {
    pub(crate) fn new(
        vertices: usize,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Self, Stop> {
        let parents = Traced::new(vertices, UNREACHED, space, out)?;
        let queue = Traced::new(vertices, 0, space, out)?;
        Ok(Self { parents, queue, reached: Bits(vec![0; vertices.div_ceil(64)]) })
    }

    /// The parent of each vertex after a search; the root is its own.
    pub(crate) fn parents(&self) -> &[u32] {
        self.parents.untraced()
    }

    /// Searches from `root`.
    pub(crate) fn run(
        &mut self,
        structure: &impl Structure,
        root: u32,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        let Self { parents, queue, reached } = self;
        for v in 0..parents.len() {
            out.block(&sites::CLEAR_PARENT)?;
            parents.store(v, UNREACHED, out)?;
        }
        reached.0.fill(0);
        reached.set(root);
        out.enter(&sites::ROOT)?;
        parents.store(root as usize, root, out)?;
        queue.store(0, root, out)?;
        let mut visit = Visit { parents, queue, reached, tail: 1 };
        let mut head = 0;
        while head < visit.tail {
            if head.is_multiple_of(AHEAD) {
                let next = &visit.queue.untraced()[head..visit.tail.min(head + AHEAD)];
                next.iter().for_each(|&v| structure.bring_in(v));
            }
            out.block(&sites::DEQUEUE)?;
            let v = visit.queue.load(head, out)?;
            head += 1;
            structure.for_each_neighbour(v, &mut visit, out)?;
        }
        Ok(())
    }
}
