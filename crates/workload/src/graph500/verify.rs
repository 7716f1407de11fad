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
/// Rules 3 and 1 together imply that levels are distances: the search was breadth-first.
pub(crate) fn tree(root: u32, parents: &[u32], edges: &[[u32; 2]]) -> Result<(), String> {
    let levels = levels(root, parents)?;
    let mut in_graph = vec![false; parents.len()];
    in_graph[root as usize] = true;
    for &[a, b] in edges {
        let [level_a, level_b] = [a, b].map(|v| levels[v as usize]);
        if (level_a == UNREACHED) != (level_b == UNREACHED) {
            return Err(format!("edge {a}-{b}: one end was reached from root {root} and the other was not"));
        }
        if level_a == UNREACHED {
            continue;
        }
        if level_a.abs_diff(level_b) > 1 {
            return Err(format!("edge {a}-{b}: levels {level_a} and {level_b} from root {root}"));
        }
        in_graph[a as usize] |= parents[a as usize] == b && a != b;
        in_graph[b as usize] |= parents[b as usize] == a && a != b;
    }
    match (0..parents.len()).find(|&v| parents[v] != UNREACHED && !in_graph[v]) {
        Some(v) => Err(format!("tree edge {v}-{} is not an edge of the graph", parents[v])),
        None => Ok(()),
    }
}

/// The level of each vertex, from parents alone: 0 for the root, `UNREACHED` outside the tree.
fn levels(root: u32, parents: &[u32]) -> Result<Vec<u32>, String> {
    if parents[root as usize] != root {
        return Err(format!("the parent of root {root} is {}", parents[root as usize]));
    }
    let mut levels = vec![UNREACHED; parents.len()];
    levels[root as usize] = 0;
    let mut path = Vec::new();
    for start in 0..parents.len() as u32 {
        if parents[start as usize] == UNREACHED {
            continue;
        }
        let mut v = start;
        while levels[v as usize] == UNREACHED {
            path.push(v);
            v = match parents.get(v as usize) {
                Some(&parent) if (parent as usize) < parents.len() => parent,
                _ => return Err(format!("vertex {v} is in the tree, but its parent is not a vertex")),
            };
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
    fn each_rule_catches_its_fault() {
        let broken = |v: usize, parent: u32| {
            let mut parents = GOOD;
            parents[v] = parent;
            tree(0, &parents, &EDGES).unwrap_err()
        };
        assert!(broken(0, 1).contains("parent of root"));
        assert!(broken(3, 4).contains("cycle"));
        assert!(broken(4, 99).contains("not a vertex"));
        assert!(broken(4, UNREACHED).contains("one end was reached"));
        assert!(broken(5, 0).contains("one end was reached"));
        // 4 hung below 1: levels fit, but there is no such edge.
        assert!(broken(4, 2).contains("not an edge of the graph"));
        // 2 below 1 is an edge, but not the shortest way: 2 and 0 would be two levels apart.
        assert!(broken(2, 1).contains("levels"));
    }
}
