//! Insertions that are foreseen: what they will want of the host's memory is asked for before they want it.
//!
//! An insertion waits for one item after the other: where the second is, the first says. The items of a table that is
//! larger than the host's caches take a hundred times as long to come as to be looked at. So a program that knows what will be
//! put in next [says so](super::Cuckoo::foresee), and a *scout* goes ahead of each insertion, by the same hashes and the
//! same random numbers. It reads what has come by now, and asks for what it would read next.
//!
//! Scouts change nothing, and nothing depends on them: what insertions meanwhile change on a scout's way costs time only.

use super::{Cuckoo, FirstWay, Keyed, WayHashes};
use crate::random::SplitMix64;

/// So many insertions ahead of its own a scout begins, and takes a step with every [`PACE`]th that comes before: memory
/// has the time of two insertions between two steps, and nineteen of twenty insertions move fewer items than there are
/// steps.
const AHEAD: usize = 16;
const PACE: usize = 2;

/// Without padding: unwritten bytes, copied across the edges of written ones, wait for these.
#[derive(Clone, Copy, Debug)]
struct Scout {
    /// The hashes of the item that would be moved next.
    word: u64,
    random: SplitMix64,
    /// The way that the item would go to.
    way: u32,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum Stage {
    /// The tags of all its slots are on their way: it takes a free one.
    Chooses,
    /// What is in the scout's slot is on its way.
    Looks,
    /// A free slot has been found.
    There,
}

/// The scouts of the next insertions, in a ring.
#[derive(Debug)]
pub(super) struct Ahead {
    scouts: [Scout; AHEAD],
    /// The number of the next insertion to be foreseen.
    next: u64,
}

impl Ahead {
    pub(super) const fn new() -> Self {
        let scout = Scout { stage: Stage::There, word: 0, way: 0, random: SplitMix64::new(0) };
        Self { scouts: [scout; AHEAD], next: 0 }
    }
}

impl<T: Keyed, H: WayHashes> Cuckoo<T, H> {
    /// Insertions ahead of its own that an item is best foreseen.
    pub const AHEAD: usize = AHEAD;

    /// Says that an item of this key will be put in after all that have been foreseen so far, with no other between. The
    /// table is the same without, or if that turns out to be wrong; large ones fill in half the time with it.
    #[inline]
    pub fn foresee(&mut self, key: u64) {
        if self.policy.bucket_slots > 1 {
            // Nearly all items find a free slot at once.
            return;
        }
        let number = self.ahead.next.max(self.insertions);
        self.ahead.next = number + 1;
        for before in (PACE..AHEAD).step_by(PACE) {
            let at = number.wrapping_sub(before as u64) as usize % AHEAD;
            if self.ahead.scouts[at].stage != Stage::There {
                self.ahead.scouts[at] = self.step_on(self.ahead.scouts[at]);
            }
        }
        let mut random = self.random_of(number);
        let way = self.first_way(&mut random);
        self.ahead.scouts[number as usize % AHEAD] = self.go_to(key, way, random);
    }

    #[inline(always)]
    fn step_on(&self, scout: Scout) -> Scout {
        let Scout { word, mut random, way, stage } = scout;
        let way = way as usize;
        match stage {
            Stage::Chooses => {
                let way = self.free_way(word).unwrap_or(way);
                // Its tag has come.
                self.ways[way].ask_for_item(self.ways[way].place(way, word));
                Scout { way: way as u32, stage: Stage::Looks, ..scout }
            }
            Stage::Looks => match self.ways[way].item(self.ways[way].place(way, word)) {
                Some(item) => {
                    let next = self.other_way(way, &mut random);
                    self.go_to(item.key(), next, random)
                }
                None => Scout { stage: Stage::There, ..scout },
            },
            Stage::There => scout,
        }
    }

    #[inline(always)]
    fn go_to(&self, key: u64, way: usize, random: SplitMix64) -> Scout {
        let word = self.hashes.word(key);
        let stage = match self.policy.first_way {
            FirstWay::Free => {
                let ways = self.ways.iter().enumerate();
                ways.for_each(|(way, slots)| slots.ask_for_tag(slots.place(way, word)));
                Stage::Chooses
            }
            FirstWay::Uniform | FirstWay::ByFreeSlots => {
                let place = self.ways[way].place(way, word);
                self.ways[way].ask_for_tag(place);
                self.ways[way].ask_for_item(place);
                Stage::Looks
            }
        };
        Scout { word, random, way: way as u32, stage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::LineHash;
    use crate::{ChunkSource, NoChunk, Policy};

    struct Endless(u64);

    impl ChunkSource for Endless {
        fn chunk_bytes(&self, _way: usize, bytes: u64) -> Option<u64> {
            Some(bytes)
        }

        fn allocate(&mut self, bytes: u64) -> Result<u64, NoChunk> {
            self.0 += bytes;
            Ok(self.0 - bytes)
        }

        fn free(&mut self, _base: u64, _bytes: u64) {}
    }

    #[test]
    fn a_scout_goes_where_its_insertion_goes() {
        for first_way in [FirstWay::Uniform, FirstWay::ByFreeSlots, FirstWay::Free] {
            let mut memory = Endless(0);
            let policy = Policy { first_way, ..Policy::MEMORY_EFFICIENT };
            let mut table = Cuckoo::<u64, _>::new(policy, LineHash::mixed(3), 4, &mut memory).unwrap();
            let (mut moved, mut wrong) = (0, 0);
            for key in 0..20_000 {
                table.foresee(key);
                let mut scout = table.ahead.scouts[key as usize % AHEAD];
                let mut looks = 0;
                // A scout may go in circles where an insertion, which moves what it meets, does not.
                while scout.stage != Stage::There && looks < 100 {
                    looks += u32::from(scout.stage == Stage::Looks);
                    scout = table.step_on(scout);
                }
                let moves = table.insert(key, &mut memory).unwrap().moves;
                wrong += u32::from(moves + 1 != looks);
                moved += moves;
            }
            assert!(moved > 1_000 && wrong < 20_000 / 50, "{first_way:?}: {moved} moved, {wrong} wrong");
        }
    }
}
