//! Graph500, version 2 of the specification: a Kronecker graph, and breadth-first searches from sampled roots.
//!
//! Two data structures, as in the sequential reference implementations: `list` threads linked lists through the
//! array of edges, `csr` builds compressed sparse rows. Footprint per edge: 16 bytes (two vertex numbers) and
//! 16 more (two links, or two neighbours); per vertex: 8 (list head) or 16 (row bounds), 8 (parent), 8 (queue).
//!
//! `graph500-paper`: the paper's run has 1010 MiB; its scale is not known. The list variant of scale 21 and edge
//! factor 15 (the artifact's edge factor) has 2^21 (32 * 15 + 24) bytes = 1008 MiB.

mod bfs;
mod csr;
mod kronecker;
mod list;
mod sites;
mod verify;

use self::bfs::{Search, Structure};
use self::csr::Csr;
use self::kronecker::Kronecker;
use self::list::EdgeLists;
use crate::emit::{Emitter, Halt, Stop};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::random::SplitMix64;
use crate::space::{AddressSpace, mapping_bytes};
use crate::traced::Traced;
use crate::values::Values;

pub(crate) const ENTRY: Entry = Entry {
    name: "graph500",
    summary: "breadth-first searches of a Kronecker graph (Graph500, sequential)",
    phases: &["generate", "build", "bfs"],
    parameters: &[
        Parameter {
            name: "scale",
            summary: "log2 of the number of vertices",
            kind: Kind::Count { min: 4, max: 31 },
            default: "18",
        },
        Parameter {
            name: "edge-factor",
            summary: "edges per vertex",
            kind: Kind::Count { min: 1, max: 1024 },
            default: "16",
        },
        Parameter {
            name: "roots",
            summary: "searches, each from another root",
            kind: Kind::Count { min: 1, max: 1024 },
            default: "4",
        },
        Parameter {
            name: "variant",
            summary: "the graph's data structure",
            kind: Kind::Choice(&["csr", "list"]),
            default: "csr",
        },
    ],
    presets: &[
        Preset {
            name: "graph500-small",
            summary: "9 MiB, for tests",
            values: &[("scale", "14"), ("roots", "2")],
        },
        Preset {
            name: "graph500-paper",
            summary: "the Mosaic paper's footprint, 1010 MiB, list variant",
            values: &[("scale", "21"), ("edge-factor", "15"), ("variant", "list")],
        },
    ],
    make: |values| Ok(Box::new(Graph500::new(values)?)),
};

/// An edge: two vertex numbers of 8 bytes each in the program, of 4 here.
pub(crate) type EdgeList = Traced<[u32; 2], 16>;

struct Graph500 {
    scale: u32,
    edge_factor: u64,
    roots: usize,
    list: bool,
    seed: u64,
}

impl Graph500 {
    fn new(values: &Values) -> Result<Self, String> {
        let graph = Self {
            scale: values.get("scale") as u32,
            edge_factor: values.get("edge-factor"),
            roots: values.get("roots") as usize,
            list: values.get("variant") == 1,
            seed: values.seed,
        };
        // Positions among the edges' ends are held in 32 bits here.
        let most = u64::from(u32::MAX) / 2;
        if graph.edges() > most {
            return Err(format!(
                "scale={} with edge-factor={} makes {} edges; at most {most} are supported, choose a smaller scale",
                graph.scale,
                graph.edge_factor,
                graph.edges(),
            ));
        }
        if graph.roots as u64 * 8 > graph.vertices() {
            return Err(format!(
                "roots={} is too many for {} vertices; choose at most an eighth, {}",
                graph.roots,
                graph.vertices(),
                graph.vertices() / 8
            ));
        }
        Ok(graph)
    }

    fn vertices(&self) -> u64 {
        1 << self.scale
    }

    fn edges(&self) -> u64 {
        self.edge_factor << self.scale
    }

    fn generate(&self, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<EdgeList, Stop> {
        let kronecker = Kronecker::new(self.scale, self.seed);
        let mut edges = EdgeList::new(self.edges() as usize, [0; 2], space, out)?;
        for i in 0..edges.len() {
            out.blocks(&sites::LEVEL, self.scale.into())?;
            out.block(&sites::STORE_EDGE)?;
            let edge = kronecker.edge(i as u64);
            edges.store_part(i, 0, 8, out)?;
            *edges.store_part(i, 8, 8, out)? = edge;
        }
        Ok(edges)
    }

    /// Distinct roots with at least one neighbour other than themselves, uniformly drawn.
    fn sample_roots(&self, edges: &[[u32; 2]]) -> Result<Vec<u32>, Halt> {
        let mut connected = vec![false; self.vertices() as usize];
        for &[a, b] in edges.iter().filter(|[a, b]| a != b) {
            connected[a as usize] = true;
            connected[b as usize] = true;
        }
        let available = connected.iter().filter(|&&c| c).count();
        if available < self.roots {
            return Err(Halt::Wrong(format!(
                "only {available} vertices have an edge, {} roots wanted",
                self.roots
            )));
        }
        let mut random = SplitMix64::of_item(self.seed, u64::MAX - 1);
        let mut roots = Vec::with_capacity(self.roots);
        while roots.len() < self.roots {
            let root = random.below(self.vertices()) as u32;
            // A drawn root is not available again.
            if std::mem::take(&mut connected[root as usize]) {
                roots.push(root);
            }
        }
        Ok(roots)
    }

    fn search_all(
        &self,
        structure: &impl Structure,
        edges: &[[u32; 2]],
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<(), Halt> {
        out.phase("bfs")?;
        let roots = self.sample_roots(edges)?;
        let mut search = Search::new(self.vertices() as usize, space, out)?;
        for root in roots {
            search.run(structure, root, out)?;
            verify::tree(root, search.parents(), edges).map_err(Halt::Wrong)?;
        }
        Ok(())
    }
}

impl Program for Graph500 {
    fn footprint_bytes(&self) -> u64 {
        let per_vertex = if self.list { 8 } else { 16 };
        let arrays = [16 * self.edges(), 16 * self.edges(), per_vertex * self.vertices()];
        let search = [8 * self.vertices(); 2];
        arrays.into_iter().chain(search).map(mapping_bytes).sum()
    }

    fn host_bytes(&self) -> u64 {
        // Half of each traced array, the layout of the lists, and what verification knows of each vertex.
        let layout = if self.list { 16 * self.edges() + 4 * self.vertices() } else { 0 };
        self.footprint_bytes() / 2 + layout + 13 * self.vertices() + (4 << 20)
    }

    fn expected_accesses(&self) -> u64 {
        let (edges, vertices, roots) = (self.edges(), self.vertices(), self.roots as u64);
        // Of a Kronecker graph, all but a few edges hang together; isolated vertices are many.
        let (build, search) = match self.list {
            true => (2 * edges + vertices + 8 * edges, 6 * edges + 3 * vertices),
            false => (2 * edges + 5 * vertices + 6 * edges + 8 * edges, 4 * edges + 3 * vertices),
        };
        2 * edges + build + roots * search
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("generate")?;
        let mut space = AddressSpace::new(out);
        let edges = self.generate(&mut space, out)?;

        out.phase("build")?;
        let highest = highest_vertex(&edges, out)?;
        if u64::from(highest) >= self.vertices() {
            return Err(Halt::Wrong(format!("vertex {highest} is beyond 2^{}", self.scale)));
        }
        let vertices = self.vertices() as usize;
        if self.list {
            let lists = EdgeLists::build(&edges, vertices, &mut space, out)?;
            self.search_all(&lists, edges.untraced(), &mut space, out)
        } else {
            let csr = Csr::build(&edges, vertices, &mut space, out)?;
            self.search_all(&csr, edges.untraced(), &mut space, out)
        }
    }
}

/// The highest vertex number, from a pass over the edges: the builders are told nothing else.
fn highest_vertex(edges: &EdgeList, out: &mut Emitter<'_>) -> Result<u32, Stop> {
    let mut highest = 0;
    for i in 0..edges.len() {
        out.block(&sites::HIGHEST)?;
        let [a, b] = load_edge(edges, i, out)?;
        highest = highest.max(a).max(b);
    }
    Ok(highest)
}

/// Both ends of an edge, by two loads.
#[inline(always)]
fn load_edge(edges: &EdgeList, index: usize, out: &mut Emitter<'_>) -> Result<[u32; 2], Stop> {
    edges.load_part(index, 0, 8, out)?;
    edges.load_part(index, 8, 8, out)
}
