//! A suffix tree, built as McCreight does (Journal of the ACM 1976), in the arrays of Kurtz (Software: Practice and
//! Experience 1999) that MUMmer 3 has: four bytes a leaf, five words a branching node.
//!
//! ```text
//!   leaf            +0 brother
//!   branching node  +0 first child  +4 brother  +8 suffix link  +12 depth  +16 where it occurs
//! ```
//!
//! A node of depth `d` stands for the `d` bases that begin where it occurs; the label of the edge to a child follows
//! from the depths of both. Children are a list of brothers.
//!
//! DEVIATION: MUMmer packs some nodes into two words and keeps suffix links in spare references; here all nodes are
//! large. Their array grows by blocks, where MUMmer's is reallocated.

use pagewalk_vm::addr::VirtAddr;

use super::sites;
use crate::emit::{Emitter, Stop};
use crate::space::{AddressSpace, chunk_bytes};
use crate::traced::Traced;

/// Nodes in a block, and bytes of a node.
const BLOCK_NODES: usize = 1024;
const NODE_BYTES: u64 = 20;
/// The words of a node.
const FIRST_CHILD: usize = 0;
const BROTHER: usize = 1;
const LINK: usize = 2;
const DEPTH: usize = 3;
const OCCURS: usize = 4;

/// Instructions per suffix inserted, per node created, per child looked at, per base compared, and per 32 bases read
/// in (estimated by hand from the compiled loops).
pub(super) const SUFFIX_INSTRUCTIONS: u64 = 20;
pub(super) const NODE_INSTRUCTIONS: u64 = 12;
pub(super) const CHILD_INSTRUCTIONS: u64 = 9;
const BASE_INSTRUCTIONS: u64 = 5;
pub(super) const READ_INSTRUCTIONS: u64 = 8;
/// How many bases one store of the reading loop writes.
const READ_BASES: usize = 32;

/// The end of a text: a letter of its own.
pub(crate) const TEXT_END: u8 = u8::MAX;

/// A node or a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference(u32);

impl Reference {
    pub(crate) const ROOT: Self = Self(0);
    const NONE: Self = Self(u32::MAX);
    const LEAF: u32 = 1 << 31;

    fn leaf(suffix: usize) -> Self {
        Self(suffix as u32 | Self::LEAF)
    }

    /// Of a leaf, where its suffix begins.
    pub(crate) fn suffix(self) -> Option<usize> {
        (self.0 & Self::LEAF != 0).then_some((self.0 & !Self::LEAF) as usize)
    }

    fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// Bases in memory, one byte each, with [`TEXT_END`] behind them.
pub(crate) struct Text(Traced<u8, 1>);

impl Text {
    /// Reads the bases into memory.
    pub(crate) fn new(bases: &[u8], space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<Self, Stop> {
        let mut text = Traced::new(bases.len() + 1, TEXT_END, space, out)?;
        for (i, chunk) in bases.chunks(READ_BASES).enumerate() {
            let log2 = chunk.len().next_power_of_two().ilog2();
            out.block(&sites::READ[log2 as usize])?;
            text.store_part(i * READ_BASES, 0, chunk.len() as u32, out)?;
        }
        text.untraced_mut()[..bases.len()].copy_from_slice(bases);
        Ok(Self(text))
    }

    /// Returns the number of bases.
    pub(crate) fn len(&self) -> usize {
        self.0.len() - 1
    }

    pub(crate) fn bases(&self) -> &[u8] {
        &self.0.untraced()[..self.len()]
    }

    /// Loads the letter at a place that a node of the tree names.
    #[inline(always)]
    pub(crate) fn load(&self, at: usize, out: &mut Emitter<'_>) -> Result<u8, Stop> {
        out.enter(&sites::THERE)?;
        self.0.load(at, out)
    }

    /// Loads the letter at a place that follows from the one before.
    #[inline(always)]
    pub(crate) fn next(&self, at: usize, out: &mut Emitter<'_>) -> Result<u8, Stop> {
        out.enter(&sites::NEXT)?;
        self.0.load(at, out)
    }
}

/// The tree over a text.
pub(crate) struct Tree {
    text: Text,
    /// By suffix: the brother of its leaf.
    leaves: Traced<u32, 4>,
    nodes: Vec<[u32; 5]>,
    blocks: Vec<VirtAddr>,
}

/// A child of a node, and the brother before it, or none.
#[derive(Clone, Copy)]
pub(crate) struct Child {
    pub(crate) at: Reference,
    before: Reference,
}

impl Tree {
    /// Inserts the suffixes of `text` from the longest to the shortest.
    pub(crate) fn build(text: Text, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<Self, Stop> {
        let leaves = Traced::new(text.len() + 1, Reference::NONE.0, space, out)?;
        // A few more nodes than random texts have.
        let nodes = Vec::with_capacity(text.len() * 2 / 3);
        let mut tree = Self { text, leaves, nodes, blocks: Vec::new() };
        let root = tree.create([Reference::NONE.0, Reference::NONE.0, 0, 0, 0], space, out)?;
        // The head of the last suffix, the node where its leaf hangs, and that node's parent.
        let (mut head, mut parent) = (root, root);
        for suffix in 0..=tree.text.len() {
            out.work(SUFFIX_INSTRUCTIONS);
            out.enter(&sites::SUFFIX)?;
            (head, parent) = tree.insert(suffix, head, parent, space, out)?;
        }
        Ok(tree)
    }

    /// Inserts a suffix, given where the leaf of the last one hangs; answers the same of this one.
    fn insert(
        &mut self,
        suffix: usize,
        last: Reference,
        parent: Reference,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<(Reference, Reference), Stop> {
        // All but the first base of the last head is known to be in the tree: go there by depths alone.
        let linked = self.load(last, LINK, out)?;
        let known = (self.load(last, DEPTH, out)? as usize).saturating_sub(1);
        let from = match linked {
            link if link != Reference::NONE.0 => Reference(link),
            _ => Reference(self.load(parent, LINK, out)?),
        };
        let mut place = Place { node: from, depth: self.load(from, DEPTH, out)? as usize, above: from };
        while place.depth < known {
            let child = self.child(place, suffix, out)?.1.expect("known to be in the tree");
            let end = self.depth(child.at, out)?;
            if end > known {
                // The head ends inside an edge: by McCreight's theorem, here.
                let node = self.split(place.node, child, suffix, known, space, out)?;
                self.store(last, LINK, node.0, out)?;
                self.hang(node, child.at, suffix, out)?;
                return Ok((node, place.node));
            }
            place = Place { node: child.at, depth: end, above: place.node };
        }
        if linked == Reference::NONE.0 {
            self.store(last, LINK, place.node.0, out)?;
        }
        // From here on bases must be compared.
        loop {
            let (youngest, child) = self.child(place, suffix, out)?;
            let Some(child) = child else {
                self.hang(place.node, youngest, suffix, out)?;
                return Ok((place.node, place.above));
            };
            let (start, end) = (self.start(child.at, out)?, self.depth(child.at, out)?);
            // The first base is that by which the child was found.
            let mut depth = place.depth + 1;
            while depth < end && self.same(start + depth, suffix + depth, out)? {
                depth += 1;
            }
            if depth < end {
                let node = self.split(place.node, child, suffix, depth, space, out)?;
                self.hang(node, child.at, suffix, out)?;
                return Ok((node, place.node));
            }
            place = Place { node: child.at, depth: end, above: place.node };
        }
    }

    /// Whether two places of the text have the same letter.
    fn same(&self, a: usize, b: usize, out: &mut Emitter<'_>) -> Result<bool, Stop> {
        out.work(BASE_INSTRUCTIONS);
        out.enter(&sites::COMPARE)?;
        let are_same = self.text.load(a, out)? == self.text.next(b, out)?;
        out.enter(&sites::ARE_SAME)?;
        Ok(are_same)
    }

    /// The child of a node on the way of a suffix, and the last child that was looked at.
    fn child(
        &self,
        place: Place,
        suffix: usize,
        out: &mut Emitter<'_>,
    ) -> Result<(Reference, Option<Child>), Stop> {
        let letter = self.text.next(suffix + place.depth, out)?;
        self.child_by(place.node, place.depth, letter, out)
    }

    /// The child of a node whose edge begins with `letter`, and the last child that was looked at.
    pub(crate) fn child_by(
        &self,
        node: Reference,
        depth: usize,
        letter: u8,
        out: &mut Emitter<'_>,
    ) -> Result<(Reference, Option<Child>), Stop> {
        let mut before = Reference::NONE;
        let mut at = Reference(self.load(node, FIRST_CHILD, out)?);
        while !at.is_none() {
            out.work(CHILD_INSTRUCTIONS);
            out.enter(&sites::LOOK)?;
            let start = self.start(at, out)?;
            let is_child = self.text.load(start + depth, out)? == letter;
            out.enter(&sites::IS_CHILD)?;
            if is_child {
                out.enter(&sites::FOUND)?;
                return Ok((at, Some(Child { at, before })));
            }
            before = at;
            at = self.brother(at, out)?;
        }
        Ok((before, None))
    }

    /// A new node on the edge to a child, at `depth` on the way of `suffix`, in the child's place.
    fn split(
        &mut self,
        node: Reference,
        child: Child,
        suffix: usize,
        depth: usize,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Reference, Stop> {
        let brother = self.brother(child.at, out)?;
        let words = [child.at.0, brother.0, Reference::NONE.0, depth as u32, suffix as u32];
        let new = self.create(words, space, out)?;
        match child.before.is_none() {
            true => self.store(node, FIRST_CHILD, new.0, out)?,
            false => self.set_brother(child.before, new, out)?,
        }
        self.set_brother(child.at, Reference::NONE, out)?;
        Ok(new)
    }

    /// Hangs a suffix's leaf under a node, behind its youngest child.
    fn hang(
        &mut self,
        node: Reference,
        youngest: Reference,
        suffix: usize,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        let leaf = Reference::leaf(suffix);
        out.enter(&sites::STORE_LEAF)?;
        self.leaves.store(suffix, Reference::NONE.0, out)?;
        match youngest.is_none() {
            true => self.store(node, FIRST_CHILD, leaf.0, out),
            false => self.set_brother(youngest, leaf, out),
        }
    }

    fn create(
        &mut self,
        words: [u32; 5],
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Reference, Stop> {
        if self.nodes.len().is_multiple_of(BLOCK_NODES) {
            self.blocks.push(space.malloc(BLOCK_NODES as u64 * NODE_BYTES, out)?);
        }
        out.block(&sites::CREATE)?;
        let node = Reference(self.nodes.len() as u32);
        self.nodes.push(words);
        out.store(self.addr(node, 0), 16)?;
        out.store(self.addr(node, OCCURS), 4)?;
        Ok(node)
    }

    #[inline(always)]
    fn addr(&self, node: Reference, word: usize) -> VirtAddr {
        let at = node.0 as usize;
        self.blocks[at / BLOCK_NODES].add((at % BLOCK_NODES) as u64 * NODE_BYTES + 4 * word as u64)
    }

    #[inline(always)]
    fn load(&self, node: Reference, word: usize, out: &mut Emitter<'_>) -> Result<u32, Stop> {
        out.enter(&sites::LOAD[word])?;
        out.load(self.addr(node, word), 4)?;
        Ok(self.nodes[node.0 as usize][word])
    }

    #[inline(always)]
    fn store(&mut self, node: Reference, word: usize, value: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.enter(&sites::STORE)?;
        out.store(self.addr(node, word), 4)?;
        self.nodes[node.0 as usize][word] = value;
        Ok(())
    }

    fn brother(&self, of: Reference, out: &mut Emitter<'_>) -> Result<Reference, Stop> {
        Ok(Reference(match of.suffix() {
            Some(suffix) => {
                out.enter(&sites::LEAF)?;
                self.leaves.load(suffix, out)?
            }
            None => self.load(of, BROTHER, out)?,
        }))
    }

    fn set_brother(&mut self, of: Reference, brother: Reference, out: &mut Emitter<'_>) -> Result<(), Stop> {
        match of.suffix() {
            Some(suffix) => {
                out.enter(&sites::STORE_LEAF)?;
                self.leaves.store(suffix, brother.0, out)
            }
            None => self.store(of, BROTHER, brother.0, out),
        }
    }

    /// Where a node occurs in the text; a leaf says so itself.
    pub(crate) fn start(&self, of: Reference, out: &mut Emitter<'_>) -> Result<usize, Stop> {
        match of.suffix() {
            Some(suffix) => Ok(suffix),
            None => Ok(self.load(of, OCCURS, out)? as usize),
        }
    }

    /// How many letters lie between the root and a node; at a leaf, [`TEXT_END`] is the last of them.
    pub(crate) fn depth(&self, of: Reference, out: &mut Emitter<'_>) -> Result<usize, Stop> {
        match of.suffix() {
            Some(suffix) => Ok(self.text.len() + 1 - suffix),
            None => Ok(self.load(of, DEPTH, out)? as usize),
        }
    }

    /// Where a node's suffix link leads: one base less in front.
    pub(crate) fn link(&self, node: Reference, out: &mut Emitter<'_>) -> Result<Reference, Stop> {
        Ok(Reference(self.load(node, LINK, out)?))
    }

    pub(crate) fn text(&self) -> &Text {
        &self.text
    }
}

/// A node on the way down, its depth and its parent.
#[derive(Clone, Copy)]
struct Place {
    node: Reference,
    depth: usize,
    above: Reference,
}

/// The bytes of the heap for `nodes` branching nodes.
pub(crate) fn node_bytes(nodes: u64) -> u64 {
    nodes.div_ceil(BLOCK_NODES as u64) * chunk_bytes(BLOCK_NODES as u64 * NODE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;
    use crate::mummer::genome;

    /// The suffixes below a node, in the order of its children's first letters.
    fn suffixes(tree: &Tree, node: Reference, out: &mut Emitter<'_>, found: &mut Vec<usize>) {
        if let Some(suffix) = node.suffix() {
            return found.push(suffix);
        }
        let depth = tree.depth(node, out).unwrap();
        let children =
            [0, 1, 2, 3, TEXT_END].map(|letter| tree.child_by(node, depth, letter, out).unwrap().1);
        assert!(
            children.iter().flatten().count() >= 2 || node == Reference::ROOT,
            "{node:?} does not branch"
        );
        children.into_iter().flatten().for_each(|child| suffixes(tree, child.at, out, found));
    }

    #[test]
    fn leaves_in_order_are_the_sorted_suffixes_and_links_drop_one_base() {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        for bases in [genome::reference(5000, 3), vec![0; 50], vec![0, 1, 0, 1, 0, 1, 0], vec![2]] {
            let mut space = AddressSpace::new(&mut out);
            let text = Text::new(&bases, &mut space, &mut out).unwrap();
            let tree = Tree::build(text, &mut space, &mut out).unwrap();
            let mut found = Vec::new();
            suffixes(&tree, Reference::ROOT, &mut out, &mut found);
            let letters = tree.text.0.untraced();
            let mut expected: Vec<usize> = (0..letters.len()).collect();
            expected.sort_by_key(|&suffix| &letters[suffix..]);
            assert_eq!(found, expected);
            for node in 1..tree.nodes.len() {
                let [_, _, link, depth, occurs] = tree.nodes[node].map(|word| word as usize);
                let [_, _, _, linked_depth, linked] = tree.nodes[link].map(|word| word as usize);
                assert_eq!(linked_depth, depth - 1);
                assert_eq!(letters[occurs + 1..occurs + depth], letters[linked..linked + depth - 1]);
            }
        }
    }
}
