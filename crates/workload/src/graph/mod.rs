//! GraphBIG's algorithms on an in-memory property graph (Nai et al., SC 2015), as the ME-HPT paper runs them.
//!
//! The graph is no compact array but a web of objects, `objects`: about 280 bytes an edge. The host holds 4 bytes of
//! an edge's other end and 4 of its place; while building, some more.

mod bc;
mod bfs;
mod cc;
mod dc;
mod dfs;
mod index;
mod objects;
mod pr;
mod queue;
mod sites;
mod social;
mod sssp;
mod tc;

use objects::Objects;
use social::{Edges, degrees};

use crate::emit::{Emitter, Halt};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::space::{AddressSpace, chunk_bytes, mapping_bytes};
use crate::values::Values;

/// The algorithms, by the number of the parameter.
const ALGORITHMS: [&str; 8] = ["bc", "bfs", "cc", "dc", "dfs", "pr", "sssp", "tc"];

pub(crate) const ENTRY: Entry = Entry {
    name: "graph",
    summary: "GraphBIG's algorithms on a social network of separately allocated vertices and edges",
    phases: &["build", "bc", "bfs", "cc", "dc", "dfs", "pr", "sssp", "tc"],
    parameters: &[
        Parameter {
            name: "algorithm",
            summary: "betweenness centrality, breadth-first search, connected components, degree centrality, \
                      depth-first search, PageRank, shortest paths, triangle counting",
            kind: Kind::Choice(&ALGORITHMS),
            default: "bfs",
        },
        Parameter {
            name: "vertices",
            summary: "vertices",
            kind: Kind::Count { min: 16, max: 100_000_000 },
            default: "100k",
        },
        Parameter {
            name: "degree",
            summary: "edges at a vertex on average, before repeated ones are left out",
            kind: Kind::Count { min: 1, max: 1000 },
            default: "29",
        },
        Parameter {
            name: "rounds",
            summary: "rounds of pr, and searches of bc, each from another vertex; nothing to the others",
            kind: Kind::Count { min: 1, max: 1000 },
            default: "2",
        },
        Parameter::THREADS,
    ],
    presets: &[
        Preset {
            name: "graph-small",
            summary: "20 MiB, for tests",
            values: &[("vertices", "3k"), ("degree", "20")],
        },
        Preset {
            name: "graph-paper",
            summary: "the ME-HPT paper's 1 M vertices: breadth-first search",
            values: &[("vertices", "1M")],
        },
        of_the_paper(
            "graph-bc",
            "betweenness centrality of 1 M vertices",
            &[("algorithm", "bc"), ("vertices", "1M")],
        ),
        of_the_paper(
            "graph-bfs",
            "breadth-first search of 1 M vertices",
            &[("algorithm", "bfs"), ("vertices", "1M")],
        ),
        of_the_paper(
            "graph-cc",
            "connected components of 1 M vertices",
            &[("algorithm", "cc"), ("vertices", "1M")],
        ),
        of_the_paper(
            "graph-dc",
            "degree centrality of 1 M vertices",
            &[("algorithm", "dc"), ("vertices", "1M")],
        ),
        of_the_paper(
            "graph-dfs",
            "depth-first search of 1 M vertices",
            &[("algorithm", "dfs"), ("vertices", "1M")],
        ),
        of_the_paper("graph-pr", "PageRank of 1 M vertices", &[("algorithm", "pr"), ("vertices", "1M")]),
        of_the_paper(
            "graph-sssp",
            "shortest paths in 1 M vertices",
            &[("algorithm", "sssp"), ("vertices", "1M")],
        ),
        of_the_paper("graph-tc", "triangles of 1 M vertices", &[("algorithm", "tc"), ("vertices", "1M")]),
    ],
    make: |values| Ok(Box::new(Graph::new(values)?)),
};

/// A preset of the ME-HPT paper's size.
const fn of_the_paper(
    name: &'static str,
    summary: &'static str,
    values: &'static [(&'static str, &'static str)],
) -> Preset {
    Preset { name, summary, values }
}

struct Graph {
    algorithm: &'static str,
    vertices: u32,
    degree: u32,
    rounds: u64,
    threads: u32,
    seed: u64,
}

impl Graph {
    fn new(values: &Values) -> Result<Self, String> {
        let graph = Self {
            algorithm: ALGORITHMS[values.get("algorithm") as usize],
            vertices: values.get("vertices") as u32,
            degree: values.get("degree") as u32,
            rounds: values.get("rounds"),
            threads: values.get("threads") as u32,
            seed: values.seed,
        };
        if graph.algorithm == "dfs" && graph.threads > 1 {
            return Err(
                "algorithm=dfs visits one vertex after the other; choose threads=1, or algorithm=bfs"
                    .to_owned(),
            );
        }
        // About 300 bytes an edge, and 600 a vertex.
        let about = u64::from(graph.vertices) * (u64::from(graph.degree) * 300 + 600);
        if about > objects::MOST_BYTES {
            return Err(format!(
                "vertices={} with degree={} takes about {about} bytes; at most {} are supported, choose fewer",
                graph.vertices,
                graph.degree,
                objects::MOST_BYTES
            ));
        }
        if graph.degree > graph.vertices / 8 {
            return Err(format!(
                "degree={} is too many for {} vertices; choose at most an eighth, {}",
                graph.degree,
                graph.vertices,
                graph.vertices / 8
            ));
        }
        Ok(graph)
    }

    /// About how many directed edges there are: those wanted without loops and repetitions, of which there are
    /// ν/2 and ν²/4 in the configuration model, where ν is how many other edges the end of an edge has on average.
    fn edges(&self) -> u64 {
        let wanted = u64::from(self.vertices) * u64::from(self.degree);
        let others = self.set_elements() as f64 / wanted as f64 - 1.0;
        wanted.saturating_sub((others + others * others / 2.0) as u64).max(1)
    }

    fn degrees(&self) -> impl Iterator<Item = u32> {
        degrees(self.vertices, self.degree, self.seed)
    }

    /// The elements of both sets of each edge: what triangle counting would look at, did an intersection not end with
    /// the first of them.
    fn set_elements(&self) -> u64 {
        self.degrees().map(|degree| u64::from(degree).pow(2)).sum()
    }

    fn roots(&self, edges: &Edges) -> Vec<u32> {
        (0..self.rounds).map(|number| edges.root(self.seed, number)).collect()
    }

    /// Runs the algorithm and verifies its answer.
    fn compute(&self, graph: &Objects, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<(), Halt> {
        let edges = graph.edges();
        let root = edges.root(self.seed, 0);
        out.divide(self.threads);
        let verified = match self.algorithm {
            "bc" => {
                let roots = self.roots(edges);
                bc::verify(edges, &roots, &bc::run(graph, &roots, space, out)?)
            }
            "bfs" => bfs::verify(edges, root, &bfs::run(graph, root, space, out)?),
            "cc" => cc::verify(edges, &cc::run(graph, space, out)?),
            "dc" => dc::verify(edges, &dc::run(graph, out)?),
            "dfs" => dfs::verify(edges, root, &dfs::run(graph, root, space, out)?),
            "pr" => pr::verify(edges, self.rounds, &pr::run(graph, self.rounds, out)?),
            "sssp" => {
                let distances = sssp::run(graph, root, self.seed, space, out)?;
                sssp::verify(edges, root, self.seed, &distances)
            }
            _ => tc::verify(edges, &tc::run(graph, space, out)?),
        };
        out.join();
        verified.map_err(|what| Halt::Wrong(format!("{}: {what}", self.algorithm)))
    }
}

impl Program for Graph {
    fn footprint_bytes(&self) -> u64 {
        let (vertices, edges) = (u64::from(self.vertices), self.edges());
        let queue = mapping_bytes(8 * vertices);
        let own = match self.algorithm {
            // A bit more than half of the edges lead to a vertex's parents.
            "bc" => edges * 28 / 100 * chunk_bytes(24) + mapping_bytes(41 * vertices) + 2 * queue,
            "bfs" | "cc" | "dfs" | "sssp" => queue,
            "tc" => self.degrees().map(|degree| chunk_bytes(8 * u64::from(degree))).sum(),
            _ => 0,
        };
        objects::heap_bytes(self.degrees(), edges) + mapping_bytes(8 * vertices) + own
    }

    fn host_bytes(&self) -> u64 {
        // Building: other ends, places, chains of the index of in-edges and its buckets. Later, what an algorithm and
        // its check know of vertices, and the parents of betweenness centrality.
        let own = if self.algorithm == "bc" { 8 } else { 0 };
        self.edges() * (4 + 4 + 4 + 8 + own) + u64::from(self.vertices) * 220 + (4 << 20)
    }

    fn expected_accesses(&self) -> u64 {
        let (vertices, edges) = (u64::from(self.vertices), self.edges());
        let algorithm = match self.algorithm {
            "bc" => self.rounds * (14 * vertices + 6 * edges),
            "bfs" => 10 * vertices + 6 * edges,
            "cc" => 10 * vertices + 6 * edges,
            "dc" => 4 * vertices + 7 * edges,
            "dfs" => 20 * vertices + 6 * edges,
            "pr" => 4 * vertices + self.rounds * (17 * vertices + 7 * edges),
            "sssp" => (10 * vertices + 8 * edges) * 5 / 4,
            _ => 12 * vertices + 9 * edges + self.set_elements() * 9 / 10,
        };
        50 * vertices + 75 * edges + algorithm
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("build")?;
        let edges = Edges::social(self.vertices, self.degree, self.seed);
        let mut space = AddressSpace::new(out);
        let graph = Objects::build(edges, &mut space, out)?;
        out.phase(self.algorithm)?;
        self.compute(&graph, &mut space, out)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    /// Hands a graph's objects over.
    fn with_graph<R>(edges: Edges, f: impl FnOnce(&Objects, &mut AddressSpace, &mut Emitter<'_>) -> R) -> R {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let graph = Objects::build(edges, &mut space, &mut out).unwrap();
        f(&graph, &mut space, &mut out)
    }

    /// A triangle with a tail of two, a pair, and a vertex by itself.
    ///
    /// ```text
    ///   0 - 1
    ///    \ /
    ///     2 - 3 - 4    5 - 6    7
    /// ```
    fn small() -> Edges {
        Edges::joining(8, &[[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [5, 6]])
    }

    #[test]
    fn answers_on_a_small_graph_are_those_worked_out_by_hand() {
        with_graph(small(), |graph, space, out| {
            const NO: u32 = u32::MAX;
            assert_eq!(bfs::run(graph, 0, space, out).unwrap(), [0, 1, 1, 2, 3, NO, NO, NO]);
            assert_eq!(cc::run(graph, space, out).unwrap(), [0, 0, 0, 0, 0, 5, 5, 7]);
            let degrees = [2, 2, 3, 2, 1, 1, 1, 0].map(|d| [d, d]);
            assert_eq!(dc::run(graph, out).unwrap(), degrees);
            assert_eq!(tc::run(graph, space, out).unwrap(), [1, 1, 1, 0, 0, 0, 0, 0]);
            // From everywhere: 2 lies between {0, 1} and {3, 4}, both ways; 3 between 4 and the rest.
            let roots: Vec<u32> = (0..8).collect();
            assert_eq!(bc::run(graph, &roots, space, out).unwrap(), [0.0, 0.0, 8.0, 6.0, 0.0, 0.0, 0.0, 0.0]);
        });
    }

    #[test]
    fn answers_on_a_social_network_are_right_and_corrupt_ones_are_found() {
        with_graph(Edges::social(2000, 10, 5), |graph, space, out| {
            let edges = graph.edges();
            let root = edges.root(5, 0);

            let mut levels = bfs::run(graph, root, space, out).unwrap();
            assert_eq!(bfs::verify(edges, root, &levels), Ok(()));
            levels[77] += 1;
            assert!(bfs::verify(edges, root, &levels).is_err());

            let mut times = dfs::run(graph, root, space, out).unwrap();
            assert_eq!(dfs::verify(edges, root, &times), Ok(()));
            times.corrupt();
            assert!(dfs::verify(edges, root, &times).is_err());

            let mut components = cc::run(graph, space, out).unwrap();
            assert_eq!(cc::verify(edges, &components), Ok(()));
            components[77] = 77;
            assert!(cc::verify(edges, &components).is_err());

            let mut degrees = dc::run(graph, out).unwrap();
            assert_eq!(dc::verify(edges, &degrees), Ok(()));
            degrees[77][0] -= 1;
            assert!(dc::verify(edges, &degrees).is_err());

            let mut ranks = pr::run(graph, 5, out).unwrap();
            assert_eq!(pr::verify(edges, 5, &ranks), Ok(()));
            ranks[77] *= 1.000_001;
            assert!(pr::verify(edges, 5, &ranks).is_err());

            let mut distances = sssp::run(graph, root, 5, space, out).unwrap();
            assert_eq!(sssp::verify(edges, root, 5, &distances), Ok(()));
            distances[77] -= 1;
            assert!(sssp::verify(edges, root, 5, &distances).is_err());

            let mut triangles = tc::run(graph, space, out).unwrap();
            assert_eq!(tc::verify(edges, &triangles), Ok(()));
            triangles[77] += 1;
            assert!(tc::verify(edges, &triangles).is_err());

            let roots = [root, edges.root(5, 1)];
            let mut centrality = bc::run(graph, &roots, space, out).unwrap();
            assert_eq!(bc::verify(edges, &roots, &centrality), Ok(()));
            centrality[77] += 0.001;
            assert!(bc::verify(edges, &roots, &centrality).is_err());
        });
    }
}
