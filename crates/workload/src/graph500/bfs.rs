//! Breadth-first search, top-down, with a queue that ends up holding the vertices in the order of discovery.

use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;
use crate::traced::Traced;

/// The parent of a vertex that no search has reached.
pub(crate) const UNREACHED: u32 = u32::MAX;

/// Instructions per vertex of clearing the parents.
const CLEAR_INSTRUCTIONS: u64 = 4;
/// Instructions per vertex taken from the queue.
const DEQUEUE_INSTRUCTIONS: u64 = 4;
/// Instructions per vertex discovered, beyond those of looking at it.
const DISCOVER_INSTRUCTIONS: u64 = 4;

/// A graph's data structure, as a search sees it.
pub(crate) trait Structure {
    /// Shows `visit` every neighbour of `v`, with the accesses that finding them takes.
    fn for_each_neighbour(&self, v: u32, visit: &mut Visit<'_>, out: &mut Emitter<'_>) -> Result<(), Stop>;
}

/// The state of searches: the tree and the queue.
pub(crate) struct Search {
    parents: Traced<u32, 8>,
    queue: Traced<u32, 8>,
}

/// What happens to a neighbour.
pub(crate) struct Visit<'s> {
    parents: &'s mut Traced<u32, 8>,
    queue: &'s mut Traced<u32, 8>,
    tail: usize,
}

impl Visit<'_> {
    /// Looks at a neighbour of `v`: the first time it becomes a child of `v`.
    #[inline(always)]
    pub(crate) fn neighbour(&mut self, v: u32, neighbour: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        if self.parents.load(neighbour as usize, out)? == UNREACHED {
            out.work(DISCOVER_INSTRUCTIONS);
            self.parents.store(neighbour as usize, v, out)?;
            self.queue.store(self.tail, neighbour, out)?;
            self.tail += 1;
        }
        Ok(())
    }
}

impl Search {
    pub(crate) fn new(vertices: usize, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<Self, Stop> {
        let parents = Traced::new(vertices, UNREACHED, space, out)?;
        let queue = Traced::new(vertices, 0, space, out)?;
        Ok(Self { parents, queue })
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
        let Self { parents, queue } = self;
        for v in 0..parents.len() {
            out.work(CLEAR_INSTRUCTIONS);
            parents.store(v, UNREACHED, out)?;
        }
        parents.store(root as usize, root, out)?;
        queue.store(0, root, out)?;
        let mut visit = Visit { parents, queue, tail: 1 };
        let mut head = 0;
        while head < visit.tail {
            out.work(DEQUEUE_INSTRUCTIONS);
            let v = visit.queue.load(head, out)?;
            head += 1;
            structure.for_each_neighbour(v, &mut visit, out)?;
        }
        Ok(())
    }
}
