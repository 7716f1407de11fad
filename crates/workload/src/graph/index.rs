//! The hash table by edge number that openG keeps beside each list of edges: chains in buckets, a prime number of
//! them, as many again when there are more edges than buckets (`std::tr1::unordered_map` of libstdc++).
//!
//! ```text
//!   header, in the vertex      +8 buckets   +16 number of buckets   +24 number of nodes   +32 policy
//!   node, 24 bytes             +0 edge number   +8 where the edge lies   +16 next
//! ```

use pagewalk_vm::addr::VirtAddr;

use super::sites;
use crate::emit::{Emitter, Stop};
use crate::space::{AddressSpace, chunk_bytes};

/// The buckets of an empty table.
const FIRST_BUCKETS: u32 = 11;
/// Bytes of a node.
pub(crate) const NODE_BYTES: u64 = 24;
/// Bytes of the header.
pub(crate) const HEADER_BYTES: u64 = 48;
/// The widest store of a loop that clears buckets.
const CLEAR_BYTES: u64 = 32;

/// The number that stands for no edge.
const NONE: u32 = u32::MAX;

/// One table of an index.
pub(crate) struct Index {
    place: VirtAddr,
    /// The first edge of each bucket's chain.
    heads: Vec<u32>,
    len: u32,
}

/// What a table's nodes have in common with those of others: where they lie and what follows them.
pub(crate) struct Nodes<'n> {
    /// The next edge in the chain, of each edge from `first` on.
    pub(crate) next: &'n mut [u32],
    pub(crate) first: u32,
    /// Where the first of the objects of each edge lies, in units.
    pub(crate) places: &'n [u32],
    /// Where the node lies from there.
    pub(crate) offset: u64,
}

impl Nodes<'_> {
    #[inline(always)]
    fn addr(&self, edge: u32) -> VirtAddr {
        super::objects::addr(self.places[edge as usize]).add(self.offset)
    }

    #[inline(always)]
    fn next(&mut self, edge: u32) -> &mut u32 {
        &mut self.next[(edge - self.first) as usize]
    }
}

impl Index {
    pub(crate) fn new(space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<Self, Stop> {
        let place = allocate(FIRST_BUCKETS, space, out)?;
        Ok(Self { place, heads: vec![NONE; FIRST_BUCKETS as usize], len: 0 })
    }

    /// Makes room for one more, if there is none.
    pub(crate) fn grow_if_full(
        &mut self,
        header: VirtAddr,
        nodes: &mut Nodes<'_>,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        if self.len < self.heads.len() as u32 {
            return Ok(());
        }
        let buckets = buckets_after(self.heads.len() as u32);
        let place = allocate(buckets, space, out)?;
        let mut heads = vec![NONE; buckets as usize];
        for bucket in 0..self.heads.len() {
            let mut edge = self.heads[bucket];
            out.enter(&sites::OLD_BUCKET)?;
            out.load(slot(self.place, bucket as u32), 8)?;
            while edge != NONE {
                out.block(&sites::MOVE)?;
                out.load(nodes.addr(edge), 8)?;
                out.load(nodes.addr(edge).add(16), 8)?;
                let to = edge % buckets;
                out.load(slot(place, to), 8)?;
                out.store(nodes.addr(edge).add(16), 8)?;
                out.store(slot(place, to), 8)?;
                let next = std::mem::replace(nodes.next(edge), heads[to as usize]);
                heads[to as usize] = edge;
                edge = next;
            }
        }
        space.free(self.place, bytes(self.heads.len() as u32), out)?;
        out.enter(&sites::NEW_BUCKETS)?;
        out.store(header.add(8), 16)?;
        *self = Self { place, heads, len: self.len };
        Ok(())
    }

    /// Inserts an edge that is not there yet; answers where its node came to lie.
    pub(crate) fn insert(
        &mut self,
        edge: u32,
        header: VirtAddr,
        nodes: &mut Nodes<'_>,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<VirtAddr, Stop> {
        out.work(sites::INSERT_INSTRUCTIONS);
        out.enter(&sites::OPEN_BUCKET)?;
        out.load(header.add(8), 8)?;
        out.load(header.add(16), 8)?;
        let bucket = edge % self.heads.len() as u32;
        out.load(slot(self.place, bucket), 8)?;
        let mut other = self.heads[bucket as usize];
        while other != NONE {
            out.block(&sites::IN_BUCKET)?;
            out.load(nodes.addr(other), 8)?;
            out.load(nodes.addr(other).add(16), 8)?;
            other = *nodes.next(other);
        }
        let node = space.malloc(NODE_BYTES, out)?;
        out.enter(&sites::INTO_BUCKET)?;
        out.store(node, 16)?;
        out.store(node.add(16), 8)?;
        out.store(slot(self.place, bucket), 8)?;
        out.load(header.add(24), 8)?;
        out.store(header.add(24), 8)?;
        *nodes.next(edge) = std::mem::replace(&mut self.heads[bucket as usize], edge);
        self.len += 1;
        Ok(node)
    }
}

/// The bytes of the heap that the buckets of a table with `len` nodes take, and those of the tables before it.
pub(crate) fn heap_bytes(len: u32) -> (u64, u64) {
    let (mut buckets, mut before) = (FIRST_BUCKETS, 0);
    while buckets < len {
        before += chunk_bytes(bytes(buckets));
        buckets = buckets_after(buckets);
    }
    (chunk_bytes(bytes(buckets)), before)
}

/// The bytes of the heap that an empty table takes.
pub(crate) const EMPTY_HEAP_BYTES: u64 = chunk_bytes((FIRST_BUCKETS as u64 + 1) * 8);

/// The next size: the first prime from twice the last on.
pub(crate) fn buckets_after(buckets: u32) -> u32 {
    let prime = |n: u32| (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    (2 * buckets..).find(|&n| prime(n)).expect("there is a prime between n and 2n")
}

/// One bucket more marks the end.
fn bytes(buckets: u32) -> u64 {
    (u64::from(buckets) + 1) * 8
}

fn slot(place: VirtAddr, bucket: u32) -> VirtAddr {
    place.add(u64::from(bucket) * 8)
}

/// `malloc` of empty buckets.
pub(crate) fn allocate(
    buckets: u32,
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<VirtAddr, Stop> {
    let place = space.malloc(bytes(buckets), out)?;
    for at in (0..bytes(buckets)).step_by(CLEAR_BYTES as usize) {
        let left = CLEAR_BYTES.min(bytes(buckets) - at) as u32;
        out.block(match left {
            8 => &sites::CLEAR_WORD,
            16 => &sites::CLEAR_HALF,
            _ => &sites::CLEAR,
        })?;
        out.store(place.add(at), left)?;
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    #[test]
    fn every_edge_is_in_its_bucket_after_growth() {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let mut index = Index::new(&mut space, &mut out).unwrap();
        let header = VirtAddr(0x5555_5555_9000);
        let (mut next, places) = (vec![NONE; 1000], vec![0; 1000]);
        let mut nodes = Nodes { next: &mut next, first: 0, places: &places, offset: 0 };
        for edge in (0..1000).step_by(7) {
            index.grow_if_full(header, &mut nodes, &mut space, &mut out).unwrap();
            index.insert(edge, header, &mut nodes, &mut space, &mut out).unwrap();
        }
        assert_eq!(index.heads.len(), 197);
        for edge in (0..1000).step_by(7) {
            let mut other = index.heads[(edge % 197) as usize];
            while other != edge {
                other = *nodes.next(other);
            }
        }
        assert_eq!([11, 23, 47, 97].map(buckets_after), [23, 47, 97, 197]);
        assert_eq!(heap_bytes(11), (112, 0));
        assert_eq!(heap_bytes(24), (400, 112 + 208));
    }
}
