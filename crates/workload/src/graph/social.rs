//! A social network: an undirected simple graph whose degrees follow a power law.
//!
//! Degrees are drawn from a Pareto distribution and their ends joined at random: the configuration model (Molloy
//! and Reed, Random Structures & Algorithms 1995). Self-loops and repeated edges, of which there are few, are left
//! out. It stands for the LDBC social network of GraphBIG, of which it has the vertices and the average degree, not
//! the communities.

use crate::random::SplitMix64;

/// The exponent of the power law (assumed; measured social networks lie between 2 and 3).
const EXPONENT: f64 = 2.5;
/// The most friends that a person may have (that of the network LDBC's generator is modelled on). In small networks
/// it is the square root of all friendships, so that few of them are joined twice.
const MOST_FRIENDS: f64 = 5000.0;
/// Numbers of the seed's streams: the degrees, and the friendships.
const DEGREES: u64 = 1;
const JOINS: u64 = 2;

/// A graph as the host holds it: each edge in both directions, ordered by source, then by target.
pub(crate) struct Edges {
    /// Where each vertex's edges begin, and their number at the end.
    first: Vec<u32>,
    targets: Vec<u32>,
}

impl Edges {
    /// The graph of `vertices` vertices with about `degree` edges at each.
    pub(crate) fn social(vertices: u32, degree: u32, seed: u64) -> Self {
        let mut ends = Vec::new();
        for (v, degree) in degrees(vertices, degree, seed).enumerate() {
            ends.resize(ends.len() + degree as usize, v as u32);
        }
        let mut random = SplitMix64::of_item(seed, JOINS);
        for i in (1..ends.len()).rev() {
            ends.swap(i, random.below(i as u64 + 1) as usize);
        }
        Self::joining(vertices, ends.as_chunks().0)
    }

    /// The simple graph with these edges, in both directions.
    pub(crate) fn joining(vertices: u32, pairs: &[[u32; 2]]) -> Self {
        let mut first = vec![0; vertices as usize + 2];
        for &v in pairs.as_flattened() {
            first[v as usize + 2] += 1;
        }
        for v in 2..first.len() {
            first[v] += first[v - 1];
        }
        // Filling moves each begin, kept one further, to its end: the next vertex's begin.
        let mut targets = vec![0; pairs.len() * 2];
        for &[a, b] in pairs {
            for (v, target) in [(a, b), (b, a)] {
                let at = &mut first[v as usize + 1];
                targets[*at as usize] = target;
                *at += 1;
            }
        }
        first.pop();
        let mut edges = Self { first, targets };
        edges.simplify();
        edges
    }

    /// Sorts each vertex's edges; leaves out self-loops and repetitions.
    fn simplify(&mut self) {
        let mut kept = 0;
        for v in 0..self.vertices() {
            let (begin, end) = (self.first[v as usize] as usize, self.first[v as usize + 1] as usize);
            self.targets[begin..end].sort_unstable();
            self.first[v as usize] = kept as u32;
            for at in begin..end {
                let target = self.targets[at];
                let repeated = kept > self.first[v as usize] as usize && self.targets[kept - 1] == target;
                if target != v && !repeated {
                    self.targets[kept] = target;
                    kept += 1;
                }
            }
        }
        *self.first.last_mut().expect("one more than vertices") = kept as u32;
        self.targets.truncate(kept);
    }

    pub(crate) fn vertices(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    /// Directed edges: twice the undirected ones.
    pub(crate) fn len(&self) -> usize {
        self.targets.len()
    }

    /// The numbers of a vertex's edges.
    #[inline(always)]
    pub(crate) fn of(&self, v: u32) -> std::ops::Range<u32> {
        self.first[v as usize]..self.first[v as usize + 1]
    }

    pub(crate) fn degree(&self, v: u32) -> u32 {
        self.of(v).len() as u32
    }

    #[inline(always)]
    pub(crate) fn target(&self, edge: u32) -> u32 {
        self.targets[edge as usize]
    }

    /// A vertex's neighbours, in rising order.
    #[inline(always)]
    pub(crate) fn neighbours(&self, v: u32) -> &[u32] {
        &self.targets[self.first[v as usize] as usize..self.first[v as usize + 1] as usize]
    }

    /// Each directed edge: source and target.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.vertices()).flat_map(|v| self.neighbours(v).iter().map(move |&target| (v, target)))
    }

    /// A vertex with edges, for searches to start from: the first from a random one on.
    pub(crate) fn root(&self, seed: u64, number: u64) -> u32 {
        let mut random = SplitMix64::of_item(seed, u64::MAX - number);
        let start = random.below(u64::from(self.vertices())) as u32;
        let from = |start| (start..self.vertices()).find(|&v| self.degree(v) > 0);
        from(start).or_else(|| from(0)).unwrap_or(start)
    }
}

/// How many edges each vertex is to have.
pub(crate) fn degrees(vertices: u32, degree: u32, seed: u64) -> impl Iterator<Item = u32> {
    let most = MOST_FRIENDS.min((f64::from(degree) * f64::from(vertices)).sqrt());
    // The distribution's mean without its cap; what the cap takes away is given back to all.
    let mean = (EXPONENT - 1.0) / (EXPONENT - 2.0);
    let weight = move |random: &mut SplitMix64| {
        (1.0 - random.unit()).powf(-1.0 / (EXPONENT - 1.0)).min(most * mean / f64::from(degree))
    };
    let stream = || SplitMix64::of_item(seed, DEGREES);
    let mut random = stream();
    let sum: f64 = (0..vertices).map(|_| weight(&mut random)).sum();
    let share = f64::from(degree) * f64::from(vertices) / sum;
    let (mut random, mut rounded) = (stream(), 0.0);
    (0..vertices).map(move |_| {
        // What rounding leaves goes to the next.
        let wanted = weight(&mut random) * share + rounded;
        rounded = wanted - wanted.floor();
        wanted as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_simple_and_symmetric_with_nearly_the_wanted_degrees() {
        let edges = Edges::social(20_000, 12, 3);
        let wanted: u32 = degrees(20_000, 12, 3).sum();
        assert!((20_000 * 12 - 1..=20_000 * 12).contains(&wanted), "{wanted}");
        assert!(edges.len() as f64 > 0.98 * f64::from(wanted), "{} of {wanted}", edges.len());
        let mut degrees: Vec<u32> = (0..20_000).map(|v| edges.degree(v)).collect();
        degrees.sort_unstable();
        // Pareto: the median lies well below the mean, the largest far above.
        assert!(degrees[10_000] < 9 && degrees[19_999] > 300, "{} {}", degrees[10_000], degrees[19_999]);
        for (a, b) in edges.pairs() {
            assert!(a != b && edges.neighbours(b).binary_search(&a).is_ok(), "{a}-{b}");
        }
        assert!((0..20_000).all(|v| edges.neighbours(v).is_sorted_by(|a, b| a < b)));
    }

    #[test]
    fn loops_and_repetitions_are_left_out() {
        let edges = Edges::joining(4, &[[0, 1], [1, 0], [2, 2], [2, 1], [0, 1]]);
        assert_eq!(edges.pairs().collect::<Vec<_>>(), [(0, 1), (1, 0), (1, 2), (2, 1)]);
        assert_eq!(edges.root(9, 0), edges.root(9, 0));
        assert_eq!(edges.degree(3), 0);
    }
}
