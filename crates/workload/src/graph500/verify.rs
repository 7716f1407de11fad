//! The validation of a search tree by the rules of the Graph500 specification.

use super::bfs::UNREACHED;

/// Checks the tree of parents found from `root`, against the list of edges alone:
///
/// 1. it is a tree: following parents leads to the root, without cycles;
/// 2. each tree edge connects vertices whose levels differ by one (by construction of the levels in 1);
/// 3. each edge of the graph has both ends in the tree with levels at most one apart, or neither;
/// 4. so the tree spans the root's whole component;
/// 5. each tree edge is an edge of the graph.
///
/// Rules 1, 3 and 5 together imply that levels are distances: the search was breadth-first.
pub(crate) fn tree(root: u32, parents: &[u32], edges: &[[u32; 2]]) -> Result<(), String> {
    let levels = levels(root, parents)?;
    let mut in_graph = vec![false; parents.len()];
    in_graph[root as usize] = true;
    // Edges ask for levels in random order: hold them in a byte if they fit, for the host's caches' sake.
    let deepest = levels.iter().filter(|&&level| level != OUTSIDE).max();
    if deepest.is_some_and(|&level| level < u32::from(u8::MAX)) {
        let bytes: Vec<u8> = levels.iter().map(|&level| level.min(u32::from(u8::MAX)) as u8).collect();
        edges_fit(&bytes, u8::MAX, parents, edges, &mut in_graph)?;
    } else {
        edges_fit(&levels, OUTSIDE, parents, edges, &mut in_graph)?;
    }
    match (0..parents.len()).find(|&v| parents[v] != UNREACHED && !in_graph[v]) {
        Some(v) => Err(format!("tree edge {v}-{} is not an edge of the graph", parents[v])),
        None => Ok(()),
    }
}

/// Rule 3, and marks the vertices whose edge to their parent is among the graph's.
fn edges_fit<L: Copy + Into<u32> + PartialEq>(
    levels: &[L],
    outside: L,
    parents: &[u32],
    edges: &[[u32; 2]],
    in_graph: &mut [bool],
) -> Result<(), String> {
    for &[a, b] in edges.iter().filter(|[a, b]| a != b) {
        let [level_a, level_b] = [a, b].map(|v| levels[v as usize]);
        if (level_a == outside) != (level_b == outside) {
            return Err(format!("edge {a}-{b}: one end was reached from the root and the other was not"));
        }
        let [level_a, level_b]: [u32; 2] = [level_a.into(), level_b.into()];
        if level_a.abs_diff(level_b) > 1 {
            return Err(format!("edge {a}-{b}: levels {level_a} and {level_b} differ by more than one"));
        }
        // Few edges are tree edges: store only then.
        if parents[a as usize] == b {
            in_graph[a as usize] = true;
        }
        if parents[b as usize] == a {
            in_graph[b as usize] = true;
        }
    }
    Ok(())
}

/// The level of a vertex outside the tree.
const OUTSIDE: u32 = u32::MAX;

/// The level of each vertex, from parents alone.
fn levels(root: u32, parents: &[u32]) -> Result<Vec<u32>, String> {
    if parents[root as usize] != root {
        return Err(format!("the parent of root {root} is {}", parents[root as usize]));
    }
    let mut levels = vec![OUTSIDE; parents.len()];
    levels[root as usize] = 0;
    let mut path = Vec::new();
    for start in (0..parents.len() as u32).filter(|&v| parents[v as usize] != UNREACHED) {
        let mut v = start;
        while levels[v as usize] == OUTSIDE {
            path.push(v);
            v = parents[v as usize];
            if v as usize >= parents.len() {
                return Err(format!(
                    "the path from vertex {start} to the root leads to {v}, which is no vertex"
                ));
            }
            if path.len() > parents.len() {
                return Err(format!("following parents from vertex {start} goes round in a cycle"));
            }
        }
        let mut level = levels[v as usize];
        for v in path.drain(..).rev() {
            level += 1;
            levels[v as usize] = level;
        }
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    /// 0 - 1 - 2 - 3    5 - 6
    ///  \_____/    |
    ///             4 (and a self-loop at 4)
    /// ```
    const EDGES: [[u32; 2]; 7] = [[0, 1], [1, 2], [2, 0], [2, 3], [4, 3], [4, 4], [5, 6]];
    const GOOD: [u32; 7] = [0, 0, 0, 2, 3, UNREACHED, UNREACHED];

    #[test]
    fn a_good_tree_passes() {
        assert_eq!(tree(0, &GOOD, &EDGES), Ok(()));
    }

    #[test]
    fn a_tree_deeper_than_a_byte_is_checked_as_well() {
        let n = 1000;
        let edges: Vec<[u32; 2]> = (1..n).map(|v| [v - 1, v]).collect();
        let mut parents: Vec<u32> = (0..n).map(|v| v.saturating_sub(1)).collect();
        assert_eq!(tree(0, &parents, &edges), Ok(()));
        parents[n as usize - 1] = 499;
        assert!(tree(0, &parents, &edges).unwrap_err().contains("edge 998-999: levels 998 and 500"));
    }

    #[test]
    fn each_rule_catches_its_fault() {
        let broken = |v: usize, parent: u32| {
            let mut parents = GOOD;
            parents[v] = parent;
            tree(0, &parents, &EDGES).unwrap_err()
        };
        assert!(broken(0, 1).contains("parent of root"));
        assert!(broken(3, 4).contains("cycle"));
        assert!(broken(4, 99).contains("no vertex"));
        assert!(broken(4, UNREACHED).contains("one end was reached"));
        assert!(broken(5, 0).contains("one end was reached"));
        // 4 hung below 1: levels fit, but there is no such edge.
        assert!(broken(4, 2).contains("not an edge of the graph"));
        // 2 below 1 is an edge, but not the shortest way: 2 and 0 would be two levels apart.
        assert!(broken(2, 1).contains("levels"));
    }
}
