//! The tree as it is: loaded nodes as arithmetic has them, and those that were changed or inserted.
//!
//! A node of 64 bytes, as the Linux kernel's rbtree lays it out, with a key and a value behind:
//!
//! ```text
//!  0 parent, with the colour in its lowest bit   24 key
//!  8 right child                                 32 value, 32 bytes
//! 16 left child
//! ```

use pagewalk_vm::addr::VirtAddr;
use rustc_hash::FxHashMap;

use super::shape::Shape;
use crate::emit::Stop;
use crate::jobs::Job;

pub(super) const NODE_BYTES: u64 = 64;
const KEY: u64 = 24;
pub(super) const VALUE: u64 = 32;
pub(super) const VALUE_BYTES: u64 = 32;
/// Keys between those of two loaded nodes, as a power of two: room for what is inserted.
pub(super) const GAP_LOG2: u32 = 20;
/// The number that stands for no node.
pub(super) const NIL: u64 = u64::MAX;

/// Instructions per node on the way down, per new node, and per step of the rebalancing (assumed).
const NODE_INSTRUCTIONS: u64 = 5;
const INSERT_INSTRUCTIONS: u64 = 30;
const BALANCE_INSTRUCTIONS: u64 = 12;

/// What binds a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Links {
    pub(super) parent: u64,
    pub(super) right: u64,
    pub(super) left: u64,
    pub(super) is_red: bool,
}

/// The side of a child below its node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    /// Where in a node the link is.
    fn offset(self) -> u64 {
        match self {
            Self::Right => 8,
            Self::Left => 16,
        }
    }
}

/// What a search came to.
pub(super) enum Found {
    /// The node with this key.
    Node(u64),
    /// None: where it would be.
    Place(Place),
}

/// Where there is no node yet.
pub(super) struct Place {
    parent: u64,
    side: Side,
    key: u64,
}

/// The tree.
#[derive(Clone)]
pub(super) struct Tree {
    pub(super) shape: Shape,
    root: u64,
    /// Loaded nodes whose links were changed.
    pub(super) changed: FxHashMap<u64, Links>,
    /// Inserted nodes, numbered on from the loaded ones: key and links.
    pub(super) inserted: Vec<(u64, Links)>,
    /// Inserted nodes that there is room for.
    room: usize,
    nodes: VirtAddr,
    /// Where the pointer to the root is.
    head: VirtAddr,
}

impl Tree {
    /// A tree as loaded, its nodes from `nodes` on with room for `room` more behind them.
    pub(super) fn new(shape: Shape, room: u64, nodes: VirtAddr, head: VirtAddr) -> Self {
        let (changed, inserted) = (FxHashMap::default(), Vec::new());
        Self { shape, root: shape.root(), changed, inserted, room: room as usize, nodes, head }
    }

    pub(super) fn root(&self) -> u64 {
        self.root
    }

    pub(super) fn has_room(&self) -> bool {
        self.inserted.len() < self.room
    }

    pub(super) fn addr(&self, node: u64) -> VirtAddr {
        self.nodes.add(node * NODE_BYTES)
    }

    /// The key of a loaded node.
    pub(super) const fn loaded_key(node: u64) -> u64 {
        (node + 1) << GAP_LOG2
    }

    pub(super) fn key(&self, node: u64) -> u64 {
        match node.checked_sub(self.shape.nodes()) {
            Some(inserted) => self.inserted[inserted as usize].0,
            None => Self::loaded_key(node),
        }
    }

    pub(super) fn links(&self, node: u64) -> Links {
        self.kept(node).copied().unwrap_or_else(|| Links {
            parent: self.shape.parent(node).unwrap_or(NIL),
            right: self.shape.right(node).unwrap_or(NIL),
            left: self.shape.left(node).unwrap_or(NIL),
            is_red: self.shape.is_red(node),
        })
    }

    /// The links of a node that is not as arithmetic has it.
    fn kept(&self, node: u64) -> Option<&Links> {
        match node.checked_sub(self.shape.nodes()) {
            Some(inserted) => Some(&self.inserted[inserted as usize].1),
            None => self.changed.get(&node),
        }
    }

    fn links_mut(&mut self, node: u64) -> &mut Links {
        let loaded = self.shape.nodes();
        match node.checked_sub(loaded) {
            Some(inserted) => &mut self.inserted[inserted as usize].1,
            None => {
                let links = self.links(node);
                self.changed.entry(node).or_insert(links)
            }
        }
    }

    /// Looks for a key.
    pub(super) fn find(&self, key: u64, job: &mut Job<'_, '_>) -> Result<Found, Stop> {
        job.seek()?;
        job.follow(self.head, 8)?;
        let (mut node, mut place) = (self.root, Place { parent: NIL, side: Side::Left, key });
        while node != NIL {
            job.compute(NODE_INSTRUCTIONS)?;
            job.load(self.addr(node).add(KEY), 8)?;
            let here = self.key(node);
            if here == key {
                return Ok(Found::Node(node));
            }
            place.side = if key < here { Side::Left } else { Side::Right };
            place.parent = node;
            job.decide(place.side == Side::Left)?;
            node = self.child(node, place.side, job)?;
        }
        Ok(Found::Place(place))
    }

    /// Inserts a node where a search came to an end, and balances the tree again.
    pub(super) fn insert(&mut self, place: Place, job: &mut Job<'_, '_>) -> Result<u64, Stop> {
        debug_assert!(self.has_room());
        let node = self.shape.nodes() + self.inserted.len() as u64;
        let links = Links { parent: place.parent, right: NIL, left: NIL, is_red: true };
        self.inserted.push((place.key, links));
        job.compute(INSERT_INSTRUCTIONS)?;
        (0..4).try_for_each(|word| job.store(self.addr(node).add(8 * word), 8))?;
        job.copy(self.addr(node).add(VALUE), VALUE_BYTES, true)?;
        self.set_child(place.parent, place.side, node, job)?;
        self.balance(node, job)?;
        Ok(node)
    }

    /// `RB-INSERT-FIXUP` of Cormen, Leiserson, Rivest and Stein, "Introduction to Algorithms" (2009), section 13.3: `node`
    /// is red, and its parent may be, too.
    fn balance(&mut self, mut node: u64, job: &mut Job<'_, '_>) -> Result<(), Stop> {
        loop {
            job.compute(BALANCE_INSTRUCTIONS)?;
            let (mut parent, _) = self.up(node, job)?;
            if parent == NIL {
                return self.paint(node, false, job);
            }
            // A red node is never the root, so that there is one more above.
            let (above, is_red) = self.up(parent, job)?;
            if !is_red {
                return Ok(());
            }
            let side = if self.child(above, Side::Left, job)? == parent { Side::Left } else { Side::Right };
            let uncle = self.child(above, side.other(), job)?;
            if uncle != NIL && self.up(uncle, job)?.1 {
                self.paint(parent, false, job)?;
                self.paint(uncle, false, job)?;
                self.paint(above, true, job)?;
                node = above;
                continue;
            }
            if self.child(parent, side.other(), job)? == node {
                self.rotate(parent, side, job)?;
                parent = node;
            }
            self.paint(parent, false, job)?;
            self.paint(above, true, job)?;
            return self.rotate(above, side.other(), job);
        }
    }

    /// Moves `node` down to `side`, its child of the other side up.
    fn rotate(&mut self, node: u64, side: Side, job: &mut Job<'_, '_>) -> Result<(), Stop> {
        let up = self.child(node, side.other(), job)?;
        let inner = self.child(up, side, job)?;
        self.set_child(node, side.other(), inner, job)?;
        if inner != NIL {
            self.set_parent(inner, node, job)?;
        }
        let (parent, _) = self.up(node, job)?;
        self.set_parent(up, parent, job)?;
        if parent == NIL {
            self.root = up;
            job.store(self.head, 8)?;
        } else {
            let is_left = self.child(parent, Side::Left, job)? == node;
            self.set_child(parent, if is_left { Side::Left } else { Side::Right }, up, job)?;
        }
        self.set_child(up, side, node, job)?;
        self.set_parent(node, up, job)
    }

    fn child(&self, node: u64, side: Side, job: &mut Job<'_, '_>) -> Result<u64, Stop> {
        job.follow(self.addr(node).add(side.offset()), 8)?;
        Ok(match (self.kept(node), side) {
            (Some(links), Side::Left) => links.left,
            (Some(links), Side::Right) => links.right,
            (None, Side::Left) => self.shape.left(node).unwrap_or(NIL),
            (None, Side::Right) => self.shape.right(node).unwrap_or(NIL),
        })
    }

    /// The parent, and whether the node is red: one word.
    fn up(&self, node: u64, job: &mut Job<'_, '_>) -> Result<(u64, bool), Stop> {
        job.load(self.addr(node), 8)?;
        let links = self.links(node);
        Ok((links.parent, links.is_red))
    }

    fn set_child(&mut self, node: u64, side: Side, child: u64, job: &mut Job<'_, '_>) -> Result<(), Stop> {
        let links = self.links_mut(node);
        *(if side == Side::Left { &mut links.left } else { &mut links.right }) = child;
        job.store(self.addr(node).add(side.offset()), 8)
    }

    fn set_parent(&mut self, node: u64, parent: u64, job: &mut Job<'_, '_>) -> Result<(), Stop> {
        self.links_mut(node).parent = parent;
        job.store(self.addr(node), 8)
    }

    fn paint(&mut self, node: u64, is_red: bool, job: &mut Job<'_, '_>) -> Result<(), Stop> {
        self.links_mut(node).is_red = is_red;
        job.store(self.addr(node), 8)
    }
}
