//! The extent tree: the file index that contiguous files do without, as ext4 keeps it.
//!
//! ```text
//!  inode, 60 bytes          node, a block of 4 KiB
//! +--------+-----------+   +--------+-----------------------+
//! | header | 4 entries |   | header | 340 entries           |
//! +--------+-----------+   +--------+-----------------------+
//!   12 B     12 B each       12 B     12 B each
//! ```
//!
//! An entry of a leaf is an extent: a run of the file's pages that lies in one run of frames, at most 32,768 of them. An entry
//! above names a node and the first page below it. A look-up halves the entries of one node a level.
//!
//! Format: Linux, `fs/ext4/ext4_extents.h`; Mathur et al., "The new ext4 filesystem", Linux Symposium 2007. Nodes that are
//! full are split in half where ext4 splits at the place of the insertion; nothing is removed.

use crate::addr::{Pfn, PhysAddr};

/// Pages of an extent at most: 128 MiB.
pub const MOST_EXTENT_PAGES: u64 = 1 << 15;
/// Bytes of a header, and of an entry.
const ENTRY_BYTES: u64 = 12;
/// Entries of the root, which lies in the inode.
const ROOT_ENTRIES: usize = 4;
/// Entries of any other node.
const NODE_ENTRIES: usize = 340;

/// A run of a file's pages in a run of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The first page, counted from the beginning of the file.
    pub page: u64,
    /// The length of the run in pages.
    pub pages: u64,
    /// The frame of the first page.
    pub frame: Pfn,
}

impl Extent {
    /// Returns the page behind the last one of the run.
    pub fn end(&self) -> u64 {
        self.page + self.pages
    }

    /// Whether `next` goes on where this ends, in the file and in memory.
    fn takes(&self, next: &Self) -> bool {
        let together = self.pages + next.pages <= MOST_EXTENT_PAGES;
        together && self.end() == next.page && self.frame.add(self.pages) == next.frame
    }
}

/// The index of a file: a tree of its extents.
#[derive(Clone, Debug)]
pub struct ExtentTree {
    /// The root is the first.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Node {
    at: PhysAddr,
    entries: Entries,
}

#[derive(Clone, Debug)]
enum Entries {
    Extents(Vec<Extent>),
    /// First pages and nodes by their number.
    Nodes(Vec<(u64, usize)>),
}

impl Node {
    fn len(&self) -> usize {
        match &self.entries {
            Entries::Extents(extents) => extents.len(),
            Entries::Nodes(nodes) => nodes.len(),
        }
    }

    fn first_page(&self, entry: usize) -> u64 {
        match &self.entries {
            Entries::Extents(extents) => extents[entry].page,
            Entries::Nodes(nodes) => nodes[entry].0,
        }
    }

    /// The last entry that begins at the page or before it, by halving; every entry that is looked at is read.
    fn search(&self, page: u64, read: &mut impl FnMut(PhysAddr)) -> Option<usize> {
        read(self.at);
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = (from + to) / 2;
            read(self.at.add(ENTRY_BYTES * (middle as u64 + 1)));
            if self.first_page(middle) <= page { from = middle + 1 } else { to = middle }
        }
        from.checked_sub(1)
    }

    /// Leaves the first half here.
    fn split(&mut self) -> Entries {
        let half = self.len() / 2;
        match &mut self.entries {
            Entries::Extents(extents) => Entries::Extents(extents.split_off(half)),
            Entries::Nodes(nodes) => Entries::Nodes(nodes.split_off(half)),
        }
    }
}

impl ExtentTree {
    /// Returns the index of an empty file, whose root lies at this address.
    pub fn new(root: PhysAddr) -> Self {
        Self { nodes: vec![Node { at: root, entries: Entries::Extents(Vec::new()) }] }
    }

    /// Returns the extent that holds a page of the file. Every address that is read on the way is named, in order.
    pub fn find(&self, page: u64, mut read: impl FnMut(PhysAddr)) -> Option<Extent> {
        let mut node = &self.nodes[0];
        loop {
            let entry = node.search(page, &mut read)?;
            match &node.entries {
                Entries::Extents(extents) => {
                    return Some(extents[entry]).filter(|extent| page < extent.end());
                }
                Entries::Nodes(nodes) => node = &self.nodes[nodes[entry].1],
            }
        }
    }

    /// Enters an extent of pages that have none. Every node that changes is named; a new one comes from `allocate`.
    ///
    /// # Errors
    ///
    /// What `allocate` answers; nothing has changed then.
    ///
    /// # Panics
    ///
    /// If it is empty or longer than [`MOST_EXTENT_PAGES`].
    pub fn insert<E>(
        &mut self,
        extent: Extent,
        mut allocate: impl FnMut() -> Result<Pfn, E>,
        mut changed: impl FnMut(PhysAddr),
    ) -> Result<(), E> {
        assert!((1..=MOST_EXTENT_PAGES).contains(&extent.pages), "{extent:?}");
        let path = self.path(extent.page);
        let leaf = *path.last().expect("the root at least");
        if self.join(leaf, &extent) {
            changed(self.nodes[leaf].at);
            return Ok(());
        }
        // From the root down, so that the parent of a node that is split has room for it; frames for nodes are taken before
        // anything changes.
        let is_full = |&&node: &&usize| self.nodes[node].len() == self.capacity(node);
        let full = path.iter().rev().take_while(is_full).count();
        let grows = full == path.len();
        let mut fresh = (0..full).map(|_| allocate()).collect::<Result<Vec<_>, E>>()?;
        let mut path = path;
        if grows {
            self.deepen(fresh.pop().expect("one for each level"), &mut changed);
            path = self.path(extent.page);
        }
        for at in path.len() - fresh.len()..path.len() {
            self.split_below(path[at - 1], path[at], fresh.pop().expect("one for each level"), &mut changed);
            path = self.path(extent.page);
        }
        let leaf = *path.last().expect("the root at least");
        let Entries::Extents(extents) = &mut self.nodes[leaf].entries else { unreachable!("a leaf") };
        let place = extents.partition_point(|other| other.page < extent.page);
        extents.insert(place, extent);
        changed(self.nodes[leaf].at);
        self.lower_first_pages(&path, extent.page, changed);
        Ok(())
    }

    fn capacity(&self, node: usize) -> usize {
        if node == 0 { ROOT_ENTRIES } else { NODE_ENTRIES }
    }

    /// The nodes from the root to the leaf that has or gets a page.
    fn path(&self, page: u64) -> Vec<usize> {
        let mut path = vec![0];
        while let Entries::Nodes(nodes) = &self.nodes[path[path.len() - 1]].entries {
            let entry = nodes.partition_point(|&(first, _)| first <= page).saturating_sub(1);
            path.push(nodes[entry].1);
        }
        path
    }

    /// Lets the extent before it in its leaf, or the one behind it, take it in.
    fn join(&mut self, leaf: usize, extent: &Extent) -> bool {
        let Entries::Extents(extents) = &mut self.nodes[leaf].entries else { unreachable!("a leaf") };
        let place = extents.partition_point(|other| other.page < extent.page);
        if place > 0 && extents[place - 1].takes(extent) {
            extents[place - 1].pages += extent.pages;
            return true;
        }
        match extents.get_mut(place) {
            // What is in the first place of a leaf also stands above it.
            Some(next) if place > 0 && extent.takes(next) => {
                *next = Extent { pages: extent.pages + next.pages, ..*extent };
                true
            }
            _ => false,
        }
    }

    /// Adds a level: moves the root's entries into a new node below the root.
    fn deepen(&mut self, frame: Pfn, changed: &mut impl FnMut(PhysAddr)) {
        let number = self.nodes.len();
        let first = self.nodes[0].first_page(0);
        let entries = std::mem::replace(&mut self.nodes[0].entries, Entries::Nodes(vec![(first, number)]));
        self.nodes.push(Node { at: frame.addr(), entries });
        [0, number].into_iter().for_each(|node| changed(self.nodes[node].at));
    }

    fn split_below(&mut self, above: usize, node: usize, frame: Pfn, changed: &mut impl FnMut(PhysAddr)) {
        let number = self.nodes.len();
        let entries = self.nodes[node].split();
        self.nodes.push(Node { at: frame.addr(), entries });
        let first = self.nodes[number].first_page(0);
        let Entries::Nodes(nodes) = &mut self.nodes[above].entries else { unreachable!("above a node") };
        let place = nodes.partition_point(|&(other, _)| other < first);
        nodes.insert(place, (first, number));
        [above, node, number].into_iter().for_each(|node| changed(self.nodes[node].at));
    }

    /// Writes the first page of each node on a path into the entries above it.
    fn lower_first_pages(&mut self, path: &[usize], page: u64, mut changed: impl FnMut(PhysAddr)) {
        for &[above, node] in path.array_windows() {
            let Entries::Nodes(nodes) = &mut self.nodes[above].entries else { continue };
            let entry = nodes.iter_mut().find(|(first, number)| *number == node && page < *first);
            if let Some((first, _)) = entry {
                *first = page;
                changed(self.nodes[above].at);
            }
        }
    }

    /// Levels below the root.
    pub fn depth(&self) -> u32 {
        let (mut depth, mut node) = (0, &self.nodes[0]);
        while let Entries::Nodes(nodes) = &node.entries {
            (depth, node) = (depth + 1, &self.nodes[nodes[0].1]);
        }
        depth
    }

    /// Returns the number of extents of the file.
    pub fn extents(&self) -> usize {
        let count =
            |node: &Node| if let Entries::Extents(extents) = &node.entries { extents.len() } else { 0 };
        self.nodes.iter().map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::random::SplitMix64;

    fn tree() -> (ExtentTree, u64) {
        (ExtentTree::new(PhysAddr(1 << 40)), 1 << 20)
    }

    fn insert(tree: &mut ExtentTree, next: &mut u64, extent: Extent) -> Vec<PhysAddr> {
        let mut changed = Vec::new();
        let allocate = || {
            *next += 1;
            Ok::<_, ()>(Pfn(*next))
        };
        tree.insert(extent, allocate, |at| changed.push(at)).expect("there are frames");
        changed
    }

    #[test]
    fn a_file_written_in_order_has_one_extent_for_128_mib() {
        let (mut tree, mut next) = tree();
        for page in 0..3 * MOST_EXTENT_PAGES {
            let changed = insert(&mut tree, &mut next, Extent { page, pages: 1, frame: Pfn(5 + page) });
            assert_eq!(changed, [PhysAddr(1 << 40)], "only the inode, at page {page}");
        }
        assert_eq!((tree.extents(), tree.depth()), (3, 0));
        let found = tree.find(2 * MOST_EXTENT_PAGES + 7, |_| {}).expect("it is there");
        assert_eq!((found.page, found.frame), (2 * MOST_EXTENT_PAGES, Pfn(5 + 2 * MOST_EXTENT_PAGES)));
        assert_eq!(tree.find(3 * MOST_EXTENT_PAGES, |_| {}), None);
    }

    /// 4 entries of the root, 340 of a node: pages that never join make it three levels deep.
    #[test]
    fn scattered_pages_are_found_where_a_map_says() {
        let (mut tree, mut next) = tree();
        let mut random = SplitMix64::new(7);
        let mut model = BTreeMap::new();
        for _ in 0..20_000 {
            let page = random.below(60_000);
            let frame = Pfn(random.below(1 << 19));
            if model.contains_key(&page) {
                continue;
            }
            model.insert(page, frame);
            insert(&mut tree, &mut next, Extent { page, pages: 1, frame });
        }
        assert_eq!(tree.depth(), 2);
        for page in 0..60_000 {
            let found = tree.find(page, |_| {}).map(|extent| extent.frame.add(page - extent.page));
            assert_eq!(found, model.get(&page).copied(), "page {page}");
        }
    }

    #[test]
    fn a_look_up_halves_one_node_a_level() {
        let (mut tree, mut next) = tree();
        for page in 0..340 {
            insert(&mut tree, &mut next, Extent { page, pages: 1, frame: Pfn(2 * page) });
        }
        let mut read = Vec::new();
        tree.find(200, |at| read.push(at)).expect("it is there");
        // A header and an entry of the root; a header and at most nine of 340 entries.
        assert_eq!(tree.depth(), 1);
        let nodes: Vec<Pfn> = read.iter().map(|at| at.frame()).collect();
        assert_eq!(nodes.iter().filter(|&&node| node == PhysAddr(1 << 40).frame()).count(), 2);
        assert!((5..=10).contains(&(read.len() - 2)), "{read:?}");
    }

    #[test]
    fn without_a_frame_nothing_changes() {
        let (mut tree, mut next) = tree();
        for page in 0..4 {
            insert(&mut tree, &mut next, Extent { page: 2 * page, pages: 1, frame: Pfn(9 * page) });
        }
        let more = Extent { page: 9, pages: 1, frame: Pfn(3) };
        assert_eq!(tree.insert(more, || Err("none"), |at| panic!("{at} changed")), Err("none"));
        assert_eq!((tree.extents(), tree.depth()), (4, 0));
        assert_eq!(tree.find(9, |_| {}), None);
    }
}
