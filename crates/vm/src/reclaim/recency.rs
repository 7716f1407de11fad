//! Pages in the order of their last use, with a mark at a fixed rank.

/// The frames in use, most recently used first: a list through the frame numbers.
///
/// A *mark* lies behind the first `limit` frames: whether a frame is among these is known at once ([`Recency::is_ripe`]).
/// Every operation takes constant time.
#[derive(Clone, Debug)]
pub struct Recency {
    /// By frame, and one more for both ends of the list.
    links: Vec<Link>,
    /// By frame: whether it stands behind the mark.
    ripe: Vec<bool>,
    /// The last frame before the mark; the list's end if there is none, whose `older` is the list's first.
    last_young: u32,
    length: u32,
    young: u32,
    limit: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
}

impl Recency {
    /// An empty list for frames below `frames`, with the mark behind the first `limit`.
    pub fn new(frames: u32, limit: u32) -> Self {
        let links = (0..=frames).map(|at| Link { newer: at, older: at }).collect();
        Self { links, ripe: vec![false; frames as usize], last_young: frames, length: 0, young: 0, limit }
    }

    /// Frames in the list.
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Puts in a frame that is not in the list, as the most recently used.
    pub fn insert(&mut self, frame: u32) {
        let end = self.end();
        let second = self.links[end as usize].older;
        self.links[frame as usize] = Link { newer: end, older: second };
        self.links[second as usize].newer = frame;
        self.links[end as usize].older = frame;
        self.length += 1;
        self.young += 1;
        if self.young == 1 {
            self.last_young = frame;
        }
        if self.young > self.limit {
            let ripened = self.last_young;
            self.ripe[ripened as usize] = true;
            self.last_young = self.links[ripened as usize].newer;
            self.young -= 1;
        }
    }

    /// A frame of the list is used.
    #[inline]
    pub fn touch(&mut self, frame: u32) {
        if self.links[self.end() as usize].older != frame {
            self.remove(frame);
            self.insert(frame);
        }
    }

    /// Takes a frame out.
    pub fn remove(&mut self, frame: u32) {
        let Link { newer, older } = self.links[frame as usize];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
        self.length -= 1;
        if std::mem::take(&mut self.ripe[frame as usize]) {
            return;
        }
        self.young -= 1;
        if self.last_young == frame {
            self.last_young = newer;
        }
        // The first behind the mark comes before it.
        let next = self.links[self.last_young as usize].older;
        if next != self.end() {
            self.ripe[next as usize] = false;
            self.last_young = next;
            self.young += 1;
        }
    }

    /// The least recently used frame.
    pub fn oldest(&self) -> Option<u32> {
        let oldest = self.links[self.end() as usize].newer;
        (oldest != self.end()).then_some(oldest)
    }

    /// Whether `limit` or more others were used since.
    #[inline]
    pub fn is_ripe(&self, frame: u32) -> bool {
        self.ripe[frame as usize]
    }

    /// All frames, most recently used first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let first = self.links[self.end() as usize].older;
        std::iter::successors(Some(first), |&frame| Some(self.links[frame as usize].older))
            .take(self.length as usize)
    }

    fn end(&self) -> u32 {
        self.ripe.len() as u32
    }
}
