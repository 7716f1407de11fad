//! Iceberg placement: a page has few frames to choose from, and yet nearly all memory can be used.
//!
//! M. A. Bender et al., "Iceberg Hashing" (2021), in the form of J. Han et al., "Mosaic Pages", IEEE Micro 2024. Memory
//! is divided into buckets of 64 frames. 56 of them are the bucket's *front*, 8 its *back*. A page may stand in the
//! front of one bucket, given by a hash of its number, or in the back of one of six others: 56 + 6 * 8 = 104 frames.
//! A placed page never moves. Which of them it has fits in seven bits ([`CpfnCodec`]).
//!
//! The first page that finds all of its frames taken comes when 98 % of memory is in use. What happens then is the
//! [reclaim](crate::reclaim) policy's business; this module only knows which page stands where.

use super::PageKey;
use super::cpfn::{Cpfn, CpfnCodec, Spot};
use crate::addr::{Asid, Pfn, Vpn};
use crate::hash::{HashFamily, PAGE_NUMBER_BITS};
use crate::random::mix;

/// Shape of an [`Iceberg`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IcebergShape {
    /// Frames of a bucket's front, 1 to 255.
    pub front: u32,
    /// Frames of a bucket's back, 0 to 255.
    pub back: u32,
    /// Back buckets that a page may choose from.
    pub choices: u32,
    /// The parts of memory in which a page's back buckets lie.
    pub ranges: BackRanges,
    /// The number of buckets.
    pub buckets: u32,
}

/// The parts of memory in which a page's back buckets lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BackRanges {
    /// Each choice in a part of memory of its own. This is what reaches the published utilisation.
    #[default]
    Disjoint,
    /// All choices in all of memory, for comparison.
    Common,
}

impl IcebergShape {
    /// Returns the published geometry over so many buckets of 64 frames.
    pub fn mosaic(buckets: u32) -> Self {
        Self { front: 56, back: 8, choices: 6, ranges: BackRanges::Disjoint, buckets }
    }

    /// Returns a memory partitioned into sets of `ways` frames, to be used with
    /// [`PageHash::LowBits`](crate::hash::PageHash): a page's only choice is its set.
    pub fn partitioned(ways: u32, sets: u32) -> Self {
        Self { front: ways, back: 0, choices: 0, ranges: BackRanges::Disjoint, buckets: sets }
    }

    /// Frames of a bucket.
    pub fn bucket_frames(&self) -> u32 {
        self.front + self.back
    }

    /// Returns the layout of the codes of the spots.
    pub fn codec(&self) -> CpfnCodec {
        CpfnCodec::new(self.front, self.back, self.choices)
    }

    /// Returns the number of frames in all buckets.
    pub fn frames(&self) -> u64 {
        u64::from(self.buckets) * u64::from(self.bucket_frames())
    }

    /// Checks that a memory can have the shape.
    ///
    /// # Errors
    ///
    /// It is not.
    pub fn check(&self) -> Result<(), IcebergShapeError> {
        let possible = (1..=255).contains(&self.front)
            && self.back <= 255
            && (self.back == 0) == (self.choices == 0)
            && self.choices <= MAX_CHOICES
            && self.buckets > self.choices
            && self.frames() <= u64::from(u32::MAX);
        if possible { Ok(()) } else { Err(IcebergShapeError { shape: *self }) }
    }
}

/// Most back buckets of a page.
pub const MAX_CHOICES: u32 = 16;

/// The error of a shape that no memory can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "Iceberg frames of {} buckets with {} front and {} back frames and {} choices are impossible: 1 to 255 front \
     frames, up to 255 back frames with 1 to {MAX_CHOICES} choices or none with none, more buckets than choices, \
     fewer than 2^32 frames",
    .shape.buckets, .shape.front, .shape.back, .shape.choices
)]
pub struct IcebergShapeError {
    /// The shape that was asked for.
    pub shape: IcebergShape,
}

/// Frames, placed by hashing. `H` gives the functions: member 0 the front bucket, member `1 + i` back choice `i`.
///
/// Frame numbers are relative to `base`: bucket by bucket, the front's frames first.
#[derive(Clone, Debug)]
pub struct Iceberg<H> {
    shape: IcebergShape,
    base: Pfn,
    hash: H,
    codec: CpfnCodec,
    /// The page that has each frame, packed; 0 for a free frame. A large memory that a program uses little of costs
    /// the host little.
    owners: Vec<u64>,
    /// The frames of each yard, by frame, in the order in which they will be taken. Free ones are a queue in a ring.
    queue: Vec<u8>,
    /// The front and the back yard of each bucket.
    yards: Vec<[Yard; 2]>,
    used: u64,
}

/// The free frames of a bucket's front or back.
#[derive(Clone, Copy, Debug)]
struct Yard {
    /// The place where the queue of free frames begins in its ring.
    head: u8,
    free: u8,
}

/// The yard of a bucket: front or back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Front,
    Back,
}

impl<H: HashFamily> Iceberg<H> {
    /// Frames from `base` on, all free.
    ///
    /// # Errors
    ///
    /// The shape is impossible.
    pub fn new(shape: IcebergShape, base: Pfn, hash: H) -> Result<Self, IcebergShapeError> {
        shape.check()?;
        let slots = (0..shape.front).chain(0..shape.back).map(|slot| slot as u8);
        let queue = slots.cycle().take(shape.frames() as usize).collect();
        // Each bucket begins with another slot. If all began with the first, the pages of a nearly empty memory would
        // lie in every 64th frame, and would share a small part of a cache that is indexed by physical addresses.
        let yard = |bucket: u32, slots: u32| Yard {
            head: (mix(bucket.into()) % u64::from(slots.max(1))) as u8,
            free: slots as u8,
        };
        let yards = (0..shape.buckets).map(|bucket| [yard(bucket, shape.front), yard(bucket, shape.back)]);
        Ok(Self {
            shape,
            base,
            hash,
            codec: shape.codec(),
            owners: vec![0; shape.frames() as usize],
            queue,
            yards: yards.collect(),
            used: 0,
        })
    }

    /// Returns the shape of the memory.
    pub fn shape(&self) -> IcebergShape {
        self.shape
    }

    /// Returns the layout of the codes of the spots.
    pub fn codec(&self) -> CpfnCodec {
        self.codec
    }

    /// Returns the number of frames in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Returns the bucket in whose front the page may stand.
    #[inline]
    pub fn front_bucket(&self, key: PageKey) -> u32 {
        let (hash, buckets) = (self.hash.hash(hash_key(key), 0), u64::from(self.shape.buckets));
        // As it usually is; a division takes as long as the rest.
        (if buckets.is_power_of_two() { hash & (buckets - 1) } else { hash % buckets }) as u32
    }

    /// Returns the bucket of back choice `choice`.
    #[inline]
    pub fn back_bucket(&self, key: PageKey, choice: u32) -> u32 {
        let IcebergShape { buckets, choices, ranges, .. } = self.shape;
        let hash = self.hash.hash(hash_key(key), 1 + choice);
        match ranges {
            BackRanges::Common => (hash % u64::from(buckets)) as u32,
            BackRanges::Disjoint => {
                // As in the prototype: the last range may reach beyond the last bucket, which then stands for it.
                let range = buckets / choices + 1;
                (choice * range + (hash % u64::from(range)) as u32).min(buckets - 1)
            }
        }
    }

    /// Returns the page's back buckets, by choice.
    pub fn back_buckets(&self, key: PageKey) -> impl Iterator<Item = u32> {
        (0..self.shape.choices).map(move |choice| self.back_bucket(key, choice))
    }

    /// Returns the frames of a bucket's front.
    pub fn front_frames(&self, bucket: u32) -> std::ops::Range<u32> {
        let first = bucket * self.shape.bucket_frames();
        first..first + self.shape.front
    }

    /// Returns the frames of a bucket's back.
    pub fn back_frames(&self, bucket: u32) -> std::ops::Range<u32> {
        let first = bucket * self.shape.bucket_frames() + self.shape.front;
        first..first + self.shape.back
    }

    /// Takes a free frame in the page's front bucket, the one that has been free for longest.
    pub fn take_front(&mut self, key: PageKey) -> Option<u32> {
        let bucket = self.front_bucket(key);
        self.take(key, bucket, Side::Front)
    }

    /// Returns the page's back bucket with the fewest frames in use, the last of equals.
    pub fn emptiest_back(&self, key: PageKey) -> Option<u32> {
        self.back_buckets(key).max_by_key(|&bucket| self.yards[bucket as usize][1].free)
    }

    /// Takes a free frame in the back of `bucket`, one of the page's.
    pub fn take_back(&mut self, key: PageKey, bucket: u32) -> Option<u32> {
        debug_assert!(self.back_buckets(key).any(|own| own == bucket), "not a bucket of {key:?}");
        self.take(key, bucket, Side::Back)
    }

    /// Takes a free frame where the page may stand: in front, or in the emptiest of its back buckets.
    pub fn take_free(&mut self, key: PageKey) -> Option<u32> {
        self.take_front(key).or_else(|| {
            let bucket = self.emptiest_back(key)?;
            self.take(key, bucket, Side::Back)
        })
    }

    fn take(&mut self, key: PageKey, bucket: u32, side: Side) -> Option<u32> {
        let ring = self.ring(bucket, side);
        let yard = &mut self.yards[bucket as usize][side as usize];
        yard.free = yard.free.checked_sub(1)?;
        let frame = ring.start + u32::from(self.queue[(ring.start + u32::from(yard.head)) as usize]);
        yard.head = next_in(&ring, yard.head, 1);
        self.owners[frame as usize] = pack(key);
        self.used += 1;
        Some(frame)
    }

    /// Takes a frame that has just been given back, the only free one of its yard.
    pub(crate) fn retake(&mut self, key: PageKey, frame: u32) -> u32 {
        let (bucket, side) = self.yard_of(frame);
        let taken = self.take(key, bucket, side).expect("a frame of this yard is free");
        debug_assert_eq!(taken, frame, "another frame of the yard was free, too");
        taken
    }

    /// Gives a frame back; it will be taken after the others of its yard that are free.
    ///
    /// # Panics
    ///
    /// If no page has the frame.
    pub fn release(&mut self, frame: u32) -> PageKey {
        let owner = unpack(std::mem::take(&mut self.owners[frame as usize]));
        let owner = owner.unwrap_or_else(|| panic!("frame {frame} is given back but not in use"));
        let (bucket, side) = self.yard_of(frame);
        let ring = self.ring(bucket, side);
        let yard = &mut self.yards[bucket as usize][side as usize];
        let tail = next_in(&ring, yard.head, yard.free);
        self.queue[(ring.start + u32::from(tail)) as usize] = (frame - ring.start) as u8;
        yard.free += 1;
        self.used -= 1;
        owner
    }

    /// Returns the page that has a frame.
    #[inline]
    pub fn owner(&self, frame: u32) -> Option<PageKey> {
        unpack(self.owners[frame as usize])
    }

    /// Another page has the frame now, that may have no code for it.
    pub(crate) fn give_to(&mut self, frame: u32, key: PageKey) {
        debug_assert_ne!(self.owners[frame as usize], 0, "frame {frame} is free");
        self.owners[frame as usize] = pack(key);
    }

    /// Returns the frame's number in physical memory.
    #[inline]
    pub fn pfn(&self, frame: u32) -> Pfn {
        Pfn(self.base.0 + u64::from(frame))
    }

    /// Returns the number among this memory's frames of a physical frame; `None` for a frame of another memory.
    #[inline]
    pub fn frame(&self, pfn: Pfn) -> Option<u32> {
        let frame = pfn.0.checked_sub(self.base.0).filter(|&frame| frame < self.shape.frames())?;
        Some(frame as u32)
    }

    /// Returns the code by which `key` finds the frame that it has.
    pub fn cpfn(&self, key: PageKey, frame: u32) -> Option<Cpfn> {
        let (bucket, side) = self.yard_of(frame);
        let slot = frame - self.ring(bucket, side).start;
        let spot = match side {
            Side::Front if self.front_bucket(key) == bucket => Spot::Front { slot },
            Side::Front => return None,
            Side::Back => {
                let choice = self.back_buckets(key).position(|own| own == bucket)?;
                Spot::Back { choice: choice as u32, slot }
            }
        };
        Some(self.codec.encode(spot))
    }

    /// Returns the frame that a code means for `key`: what the hardware computes with one evaluation of the hash.
    #[inline]
    pub fn translate(&self, key: PageKey, code: Cpfn) -> Option<u32> {
        Some(match self.codec.decode(code)? {
            Spot::Front { slot } => self.front_frames(self.front_bucket(key)).start + slot,
            Spot::Back { choice, slot } => self.back_frames(self.back_bucket(key, choice)).start + slot,
        })
    }

    fn yard_of(&self, frame: u32) -> (u32, Side) {
        let bucket = frame / self.shape.bucket_frames();
        let side =
            if frame % self.shape.bucket_frames() < self.shape.front { Side::Front } else { Side::Back };
        (bucket, side)
    }

    fn ring(&self, bucket: u32, side: Side) -> std::ops::Range<u32> {
        match side {
            Side::Front => self.front_frames(bucket),
            Side::Back => self.back_frames(bucket),
        }
    }
}

/// The place `steps` behind `place` in a ring.
fn next_in(ring: &std::ops::Range<u32>, place: u8, steps: u8) -> u8 {
    let next = u32::from(place) + u32::from(steps);
    (if next >= ring.len() as u32 { next - ring.len() as u32 } else { next }) as u8
}

const OWNED: u64 = 1 << 63;
const ASID_SHIFT: u32 = 47;

/// A page as a word that is not 0.
fn pack(key: PageKey) -> u64 {
    debug_assert!(key.page.0 < 1 << ASID_SHIFT, "{key:?} is not a page of a 57-bit address space");
    OWNED | u64::from(key.asid.0) << ASID_SHIFT | key.page.0
}

#[inline]
fn unpack(word: u64) -> Option<PageKey> {
    let page = Vpn(word & ((1 << ASID_SHIFT) - 1));
    (word != 0).then_some(PageKey { asid: Asid((word >> ASID_SHIFT) as u16), page })
}

/// Page number and, above its 36 bits, the address space.
#[inline]
fn hash_key(key: PageKey) -> u64 {
    key.page.0 | u64::from(key.asid.0) << PAGE_NUMBER_BITS
}

#[cfg(test)]
mod tests;
