//! Pages in the order of their last use, with a mark at a fixed rank.

/// The frames in use, most recently used first: a list through the frame numbers.
///
/// A *mark* lies behind the first `limit` frames: whether a frame is among these is known at once ([`Recency::is_ripe`]).
/// Every operation takes constant time.
#[derive(Clone, Debug)]
pub struct Recency {
    /// Both ends of the list, then the frames; as many as were ever put in.
    links: Vec<Link>,
    /// The last node before the mark; [`SENTINEL`] if there is none, whose `older` is the list's first.
    last_young: u32,
    length: u32,
    young: u32,
    limit: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
    /// Whether it stands behind the mark.
    is_ripe: bool,
}

/// The node that stands for both ends of the list; frame `n` is node `n + 1`.
const SENTINEL: u32 = 0;
const UNUSED: Link = Link { newer: SENTINEL, older: SENTINEL, is_ripe: false };

impl Recency {
    /// Creates an empty list with the mark behind the first `limit` frames.
    pub fn new(limit: u32) -> Self {
        Self { links: vec![UNUSED], last_young: SENTINEL, length: 0, young: 0, limit }
    }

    /// Frames in the list.
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Returns whether the list holds no frame.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Puts in a frame that is not in the list, as the most recently used.
    pub fn insert(&mut self, frame: u32) {
        let node = frame + 1;
        if self.links.len() <= node as usize {
            self.links.resize(node as usize + 1, UNUSED);
        }
        let second = self.links[SENTINEL as usize].older;
        self.links[node as usize] = Link { newer: SENTINEL, older: second, is_ripe: false };
        self.links[second as usize].newer = node;
        self.links[SENTINEL as usize].older = node;
        self.length += 1;
        self.young += 1;
        if self.young == 1 {
            self.last_young = node;
        }
        if self.young > self.limit {
            let ripened = &mut self.links[self.last_young as usize];
            ripened.is_ripe = true;
            self.last_young = ripened.newer;
            self.young -= 1;
        }
    }

    /// Puts in a frame that is not in the list, as the least recently used.
    pub fn insert_oldest(&mut self, frame: u32) {
        let node = frame + 1;
        if self.links.len() <= node as usize {
            self.links.resize(node as usize + 1, UNUSED);
        }
        let last = self.links[SENTINEL as usize].newer;
        let is_ripe = self.young >= self.limit;
        self.links[node as usize] = Link { newer: last, older: SENTINEL, is_ripe };
        self.links[last as usize].older = node;
        self.links[SENTINEL as usize].newer = node;
        self.length += 1;
        if !is_ripe {
            self.young += 1;
            self.last_young = node;
        }
    }

    /// Moves a frame of the list to the front, because it is used.
    #[inline]
    pub fn touch(&mut self, frame: u32) {
        if self.links[SENTINEL as usize].older != frame + 1 {
            self.remove(frame);
            self.insert(frame);
        }
    }

    /// Takes a frame out.
    pub fn remove(&mut self, frame: u32) {
        let node = frame + 1;
        let Link { newer, older, is_ripe } = self.links[node as usize];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
        self.length -= 1;
        if is_ripe {
            return;
        }
        self.young -= 1;
        if self.last_young == node {
            self.last_young = newer;
        }
        // The first behind the mark comes before it.
        let next = self.links[self.last_young as usize].older;
        if next != SENTINEL {
            self.links[next as usize].is_ripe = false;
            self.last_young = next;
            self.young += 1;
        }
    }

    /// Returns the least recently used frame.
    pub fn oldest(&self) -> Option<u32> {
        self.links[SENTINEL as usize].newer.checked_sub(1)
    }

    /// Returns whether `limit` or more other frames were used since; the frame must be in the list.
    #[inline]
    pub fn is_ripe(&self, frame: u32) -> bool {
        self.links.get(frame as usize + 1).is_some_and(|link| link.is_ripe)
    }

    /// Returns all frames, most recently used first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let first = self.links[SENTINEL as usize].older;
        std::iter::successors(Some(first), |&node| Some(self.links[node as usize].older))
            .take(self.length as usize)
            .map(|node| node - 1)
    }
}
