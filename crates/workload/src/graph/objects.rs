//! The graph in memory, as GraphBIG's openG keeps it (Nai et al., SC 2015): objects, each allocated by itself.
//!
//! ```text
//!   vertex, 200 bytes   +0 next  +8 previous  +16 number  +24 property  +56 in-edges  +128 out-edges
//!   a list of edges     +0 first  +8 last  +16 count  +24 index by edge number
//!   edge, 48 bytes      +0 next  +8 previous  +16 number  +24 other end  +32 property  +40 its reference count
//! ```
//!
//! Each edge is two such list elements, at its source and at its target, which share a property (8 bytes) and its
//! reference count (32), and has a node in either index. Vertices have an index too. The edges arrive by source, as
//! in the suite's files, so that the host needs no more than one place for all objects of an edge.
//!
//! DEVIATION: an index that is full grows before the edge's first object is allocated, not before its node is; so
//! the six objects of an edge lie side by side.
//! DEVIATION: every algorithm's property has the size of the largest, and the suite's reading of text files and
//! copying of temporaries is left out.

use pagewalk_vm::addr::VirtAddr;

use super::index::{self, HEADER_BYTES, Index, NODE_BYTES, Nodes};
use super::sites;
use super::social::Edges;
use crate::code::Site;
use crate::emit::{Emitter, Stop};
use crate::space::{AddressSpace, HEAP_START, chunk_bytes};

/// Places are counted in these from the heap's start.
const UNIT_BYTES: u64 = 16;
/// The largest heap whose places fit in 32 bits.
pub(crate) const MOST_BYTES: u64 = UNIT_BYTES << 32;

/// The offset of the property in a vertex.
const VERTEX_PROPERTY: u64 = 24;
const PROPERTY_BYTES: u64 = 32;
const IN_EDGES: u64 = VERTEX_PROPERTY + PROPERTY_BYTES;
const OUT_EDGES: u64 = IN_EDGES + LIST_BYTES;
const VERTEX_BYTES: u64 = OUT_EDGES + LIST_BYTES;
/// Of a list of edges.
const LAST: u64 = 8;
const COUNT: u64 = 16;
const INDEX: u64 = 24;
const LIST_BYTES: u64 = INDEX + HEADER_BYTES;
/// The offset of the other end in an edge.
const OTHER_END: u64 = 24;
const EDGE_PROPERTY: u64 = 32;
const EDGE_BYTES: u64 = 48;
/// Of what both elements of an edge share.
const SHARED_BYTES: u64 = 8;
const REFERENCES_BYTES: u64 = 32;

/// Where the objects of an edge lie from its place on.
const REFERENCES_AT: u64 = chunk_bytes(SHARED_BYTES);
const OUT_AT: u64 = REFERENCES_AT + chunk_bytes(REFERENCES_BYTES);
const OUT_NODE_AT: u64 = OUT_AT + chunk_bytes(EDGE_BYTES);
const IN_AT: u64 = OUT_NODE_AT + chunk_bytes(NODE_BYTES);
const IN_NODE_AT: u64 = IN_AT + chunk_bytes(EDGE_BYTES);
const EDGE_HEAP_BYTES: u64 = IN_NODE_AT + chunk_bytes(NODE_BYTES);

const NONE: u32 = u32::MAX;

/// The address of a place.
#[inline(always)]
pub(crate) fn addr(place: u32) -> VirtAddr {
    VirtAddr(HEAP_START.0 + u64::from(place) * UNIT_BYTES)
}

fn place(addr: VirtAddr) -> u32 {
    u32::try_from((addr.0 - HEAP_START.0) / UNIT_BYTES).expect("checked against MOST_BYTES")
}

/// The graph's objects: their addresses, and the edges themselves.
pub(crate) struct Objects {
    edges: Edges,
    vertices: Vec<u32>,
    /// By edge: the shared property, and behind it all else.
    places: Vec<u32>,
    /// The buckets of the vertices' index; vertex `v` is alone in bucket `v`.
    buckets: VirtAddr,
}

impl Objects {
    /// Creates all vertices, then all edges.
    pub(crate) fn build(edges: Edges, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<Self, Stop> {
        let vertices = Vec::with_capacity(edges.vertices() as usize);
        let places = Vec::with_capacity(edges.len());
        let mut objects = Self { edges, vertices, places, buckets: HEAP_START };
        let (outgoing, mut incoming) = objects.create_vertices(space, out)?;
        // The last of each vertex's in-edges, and what follows an edge in its chain of either index.
        let mut last_in = vec![NONE; objects.vertices()];
        let mut next_in = vec![NONE; objects.edges.len()];
        let mut next_out = Vec::new();
        for (source, mut outgoing) in (0..).zip(outgoing) {
            let numbers = objects.edges.of(source);
            next_out.resize(numbers.len(), NONE);
            for edge in numbers.clone() {
                let target = objects.edges.target(edge);
                let [from, to] = objects.create_edge_begin(source, target, out)?;
                let incoming = &mut incoming[target as usize];
                let places = &objects.places;
                let mut out_nodes =
                    Nodes { next: &mut next_out, first: numbers.start, places, offset: OUT_NODE_AT };
                outgoing.grow_if_full(from.add(INDEX), &mut out_nodes, space, out)?;
                let mut in_nodes = Nodes { next: &mut next_in, first: 0, places, offset: IN_NODE_AT };
                incoming.grow_if_full(to.add(INDEX), &mut in_nodes, space, out)?;

                let shared = create_shared(space, out)?;
                let last = (edge > numbers.start).then(|| objects.element(edge - 1));
                append(from, last, space, out)?;
                outgoing.insert(edge, from.add(INDEX), &mut out_nodes, space, out)?;

                out.enter(&sites::REFER)?;
                out.load(shared.add(REFERENCES_AT + 8), 4)?;
                out.store(shared.add(REFERENCES_AT + 8), 4)?;
                let last = std::mem::replace(&mut last_in[target as usize], edge);
                let last = (last != NONE).then(|| addr(objects.places[last as usize]).add(IN_AT));
                append(to, last, space, out)?;
                let end = incoming.insert(edge, to.add(INDEX), &mut in_nodes, space, out)?;
                debug_assert_eq!(end, shared.add(IN_NODE_AT), "the objects of edge {edge} are not in a row");
                objects.places.push(place(shared));
            }
        }
        Ok(objects)
    }

    /// Creates the vertices with empty lists; answers their indices of out-edges and of in-edges.
    fn create_vertices(
        &mut self,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<(Vec<Index>, Vec<Index>), Stop> {
        let count = self.edges.vertices();
        let (mut outgoing, mut incoming) = (Vec::new(), Vec::new());
        for v in 0..count {
            out.work(sites::VERTEX_INSTRUCTIONS);
            let vertex = space.malloc(VERTEX_BYTES, out)?;
            out.enter(&sites::NEW_VERTEX)?;
            for field in (0..VERTEX_BYTES).step_by(16) {
                out.store(vertex.add(field), 16.min(VERTEX_BYTES - field) as u32)?;
            }
            if let Some(&last) = self.vertices.last() {
                out.enter(&sites::LINK_VERTEX)?;
                out.store(addr(last), 8)?;
            }
            incoming.push(Index::new(space, out)?);
            outgoing.push(Index::new(space, out)?);
            let node = space.malloc(NODE_BYTES, out)?;
            debug_assert_eq!(node, vertex.add(VERTEX_NODE_AT), "the objects of vertex {v} are not in a row");
            out.enter(&sites::NEW_NODE)?;
            out.store(node, 16)?;
            out.store(node.add(16), 8)?;
            self.vertices.push(place(vertex));
        }
        // DEVIATION: the index of the vertices gets its final size at once.
        self.buckets = index::allocate(count, space, out)?;
        for v in 0..count {
            out.enter(&sites::BUCKET)?;
            out.store(self.buckets.add(u64::from(v) * 8), 8)?;
        }
        Ok((outgoing, incoming))
    }

    /// Finds both ends of a new edge: the lists that it goes to.
    fn create_edge_begin(
        &self,
        source: u32,
        target: u32,
        out: &mut Emitter<'_>,
    ) -> Result<[VirtAddr; 2], Stop> {
        out.work(sites::EDGE_INSTRUCTIONS);
        out.enter(&sites::NEW_EDGE)?;
        self.find(source, out)?;
        self.find(target, out)?;
        Ok([self.vertex(source).add(OUT_EDGES), self.vertex(target).add(IN_EDGES)])
    }

    pub(crate) fn edges(&self) -> &Edges {
        &self.edges
    }

    pub(crate) fn vertices(&self) -> usize {
        self.edges.vertices() as usize
    }

    #[inline(always)]
    fn vertex(&self, v: u32) -> VirtAddr {
        addr(self.vertices[v as usize])
    }

    /// An edge's element in the list of its source.
    #[inline(always)]
    fn element(&self, edge: u32) -> VirtAddr {
        addr(self.places[edge as usize]).add(OUT_AT)
    }

    /// Finds a vertex by its number.
    #[inline(always)]
    pub(crate) fn find(&self, v: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.block(&sites::FIND)?;
        out.load(self.buckets.add(u64::from(v) * 8), 8)?;
        let node = self.vertex(v).add(VERTEX_NODE_AT);
        out.load(node, 8)?;
        out.load(node.add(8), 8)
    }

    /// Steps from a vertex to the next in the list of all.
    #[inline(always)]
    pub(crate) fn pass(&self, v: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.block(&sites::PASS)?;
        out.load(self.vertex(v), 8)
    }

    /// Loads 8 bytes of a vertex's property, from 8 times `field` on.
    #[inline(always)]
    pub(crate) fn load(&self, v: u32, field: u64, out: &mut Emitter<'_>) -> Result<(), Stop> {
        self.load_by(v, field, &sites::LOAD, out)
    }

    /// Loads 8 bytes of a vertex's property, by a site of its own.
    #[inline(always)]
    pub(crate) fn load_by(
        &self,
        v: u32,
        field: u64,
        site: &'static Site,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        out.enter(site)?;
        out.load(self.vertex(v).add(VERTEX_PROPERTY + 8 * field), 8)
    }

    /// Loads and stores 8 bytes of a vertex's property, by a site that changes them.
    #[inline(always)]
    pub(crate) fn change(
        &self,
        v: u32,
        field: u64,
        site: &'static Site,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        self.load_by(v, field, site, out)?;
        out.store(self.vertex(v).add(VERTEX_PROPERTY + 8 * field), 8)
    }

    /// Stores 8 bytes of a vertex's property, from 8 times `field` on.
    #[inline(always)]
    pub(crate) fn store(&self, v: u32, field: u64, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.enter(&sites::STORE)?;
        out.store(self.vertex(v).add(VERTEX_PROPERTY + 8 * field), 8)
    }

    /// Loads the count of a vertex's out-edges.
    pub(crate) fn load_degree(&self, v: u32, out: &mut Emitter<'_>) -> Result<u32, Stop> {
        out.enter(&sites::DEGREE)?;
        out.load(self.vertex(v).add(OUT_EDGES + COUNT), 8)?;
        Ok(self.edges.degree(v))
    }

    /// Loads where a vertex's list of out-edges begins.
    #[inline(always)]
    pub(crate) fn begin(&self, v: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.enter(&sites::BEGIN)?;
        out.load(self.vertex(v).add(OUT_EDGES), 8)
    }

    /// Looks at an out-edge: loads its target, and where the next one lies.
    #[inline(always)]
    pub(crate) fn step(&self, edge: u32, out: &mut Emitter<'_>) -> Result<u32, Stop> {
        out.work(sites::STEP_INSTRUCTIONS);
        out.enter(&sites::STEP)?;
        out.load(self.element(edge).add(OTHER_END), 8)?;
        out.load(self.element(edge), 8)?;
        Ok(self.edges.target(edge))
    }

    /// Loads an edge's property.
    #[inline(always)]
    pub(crate) fn load_edge(&self, edge: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.enter(&sites::EDGE_PROPERTY)?;
        out.load(self.element(edge).add(EDGE_PROPERTY), 8)?;
        out.load(addr(self.places[edge as usize]), 8)
    }
}

/// Where a vertex's node in the index lies from the vertex on: behind the buckets of its two empty indices.
const VERTEX_NODE_AT: u64 = chunk_bytes(VERTEX_BYTES) + 2 * index::EMPTY_HEAP_BYTES;

/// The property that both elements of an edge share, and its reference count.
fn create_shared(space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<VirtAddr, Stop> {
    let shared = space.malloc(SHARED_BYTES, out)?;
    out.enter(&sites::NEW_SHARED)?;
    out.store(shared, 8)?;
    let references = space.malloc(REFERENCES_BYTES, out)?;
    out.enter(&sites::NEW_REFERENCES)?;
    out.store(references, 16)?;
    out.store(references.add(16), 16)?;
    Ok(shared)
}

/// Appends a new element to a list of edges whose last element is `last`.
fn append(
    list: VirtAddr,
    last: Option<VirtAddr>,
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<(), Stop> {
    let element = space.malloc(EDGE_BYTES, out)?;
    out.enter(&sites::APPEND)?;
    for field in [16, 32, 0] {
        out.store(element.add(field), 16)?;
    }
    out.load(list.add(LAST), 8)?;
    out.store(last.unwrap_or(list), 8)?;
    out.store(list.add(LAST), 8)?;
    out.load(list.add(COUNT), 8)?;
    out.store(list.add(COUNT), 8)
}

/// The bytes of the heap that a graph with these degrees and `edges` takes, by arithmetic.
pub(crate) fn heap_bytes(degrees: impl Iterator<Item = u32>, edges: u64) -> u64 {
    let vertices: u64 = degrees
        .map(|degree| {
            let (buckets, before) = index::heap_bytes(degree);
            // Out-edges come one vertex after the other: what one table leaves behind the next one takes, but for
            // the first tables, which all are there from the start. In-edges come to all vertices at once.
            let left = before.saturating_sub(index::EMPTY_HEAP_BYTES);
            let own = if before > 0 { 2 * buckets + LEFT_SHARE * left / 100 } else { 0 };
            VERTEX_NODE_AT + chunk_bytes(NODE_BYTES) + own
        })
        .sum();
    vertices + edges * EDGE_HEAP_BYTES
}

/// Of the tables that in-edges outgrow, how many per cent find no taker (measured).
const LEFT_SHARE: u64 = 20;
