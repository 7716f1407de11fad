//! The quantities that are measured.

use std::collections::BTreeMap;

use super::samples::Statistic;

/// A measured quantity; its unit stands at its row in the table of a machine file's keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quantity {
    /// The time of a cycle, in nanoseconds.
    Cycle,
    /// Instructions dispatched per cycle.
    Width,
    /// Instructions between two misses that still overlap.
    Window,
    /// Results in general registers between two misses that still overlap.
    Registers,
    /// Results in vector registers between them.
    VectorRegisters,
    /// Loads that begin per cycle.
    LoadUnits,
    /// Stores that begin per cycle.
    StoreUnits,
    /// Additions of general registers per cycle.
    IntegerUnits,
    /// Multiplications of general registers per cycle.
    MultiplyUnits,
    /// Additions of doubles per cycle.
    FloatUnits,
    /// Additions of vectors of integers per cycle.
    VectorUnits,
    /// Loads of doubles that begin per cycle.
    VectorLoadUnits,
    /// Stores of doubles that begin per cycle.
    VectorStoreUnits,
    /// Shifts of general registers per cycle.
    ShiftUnits,
    /// Branches that are not taken, per cycle.
    BranchUnits,
    /// Multiplications of doubles per cycle.
    FloatMultiplyUnits,
    /// Permutations of vectors per cycle.
    ShuffleUnits,
    /// Copies from general registers to vectors per cycle.
    CrossUnits,
    /// Cycles of a load that hits in the first cache, at an address with a scaled index.
    ScaledLoad,
    /// Cycles of an addition to a word that is stored and loaded, from one to the next.
    Foreseen,
    /// Cycles from the end of a mispredicted branch to the dispatch of the right way.
    Misprediction,
    /// Cycles of a multiplication.
    Multiplication,
    /// Cycles of an addition of doubles.
    FloatAddition,
    /// Cycles of a load that hits in the first cache.
    FirstCache,
    /// Cycles of a load that hits in the second cache.
    SecondCache,
    /// Cycles of a load that hits in the third cache.
    ThirdCache,
    /// Bytes of the third cache that this processor can use now.
    ThirdCacheBytes,
    /// Cycles that translation adds to a load, from 4 KiB to 4 KiB of huge pages whose entries the first TLB could hold.
    HostPages,
    /// Nanoseconds of a load from DRAM, without translation.
    Dram,
    /// Nanoseconds from one moment at which a line of DRAM cannot be had to the next.
    RefreshEvery,
    /// Nanoseconds for which it cannot.
    RefreshLasts,
    /// Nanoseconds within which it begins, by chance.
    RefreshSpread,
    /// Misses that are under way at a time.
    Outstanding,
    /// Entries of the first TLB for data, as far as pages of 4 KiB hit in it.
    FirstTlbReach,
    /// Entries of the second TLB.
    SecondTlbReach,
    /// Cycles of a hit in the second TLB beyond one in the first.
    SecondTlb,
    /// Cycles of a page walk whose entries are cached, beyond a hit in the first TLB.
    Walk,
    /// Gigabytes read from DRAM per second.
    ReadBandwidth,
    /// Gigabytes written to DRAM per second.
    WriteBandwidth,
    /// Nanoseconds of a minor fault without zeroing its frame.
    MinorFault,
    /// Nanoseconds to zero 4 KiB.
    ZeroPage,
    /// Nanoseconds to zero 2 MiB.
    ZeroHugePage,
    /// Nanoseconds to unmap a page of 4 KiB that was touched.
    UnmapPage,
    /// The same of a page of 2 MiB.
    UnmapHugePage,
    /// Nanoseconds of a fault for a page of a file, which brings those around it, too.
    FileFault,
    /// Nanoseconds to read 4 KiB of a file that are copied, beside writing them.
    CopyPage,
    /// Nanoseconds of a call that changes the mappings of this process, beside those of a call that does nothing.
    ChangeMapping,
    /// Nanoseconds of a system call that does nothing.
    SystemCall,
}

impl Quantity {
    /// Returns the statistic that stands for samples of the quantity.
    pub fn statistic(self) -> Statistic {
        match self {
            Self::Width
            | Self::LoadUnits
            | Self::StoreUnits
            | Self::IntegerUnits
            | Self::MultiplyUnits
            | Self::FloatUnits
            | Self::VectorUnits
            | Self::VectorLoadUnits
            | Self::VectorStoreUnits
            | Self::ShiftUnits
            | Self::BranchUnits
            | Self::FloatMultiplyUnits
            | Self::ShuffleUnits
            | Self::CrossUnits => Statistic::Highest,
            // A sibling thread takes half of the window, too.
            Self::ReadBandwidth
            | Self::WriteBandwidth
            | Self::Window
            | Self::Registers
            | Self::VectorRegisters => Statistic::UpperQuartile,
            Self::Outstanding
            | Self::ThirdCacheBytes
            | Self::FirstTlbReach
            | Self::SecondTlbReach
            | Self::RefreshEvery
            | Self::RefreshLasts
            | Self::RefreshSpread => Statistic::Median,
            _ => Statistic::LowerQuartile,
        }
    }
}

/// A measured quantity, in the unit of its [`Quantity`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// The value to use; see [`Statistic`].
    pub value: f64,
    /// The least of the samples.
    pub least: f64,
    /// The median of the samples.
    pub median: f64,
    /// The interquartile range over the median, a fraction.
    pub spread: f64,
    /// By how much the values of the two halves of the run differ: the larger over the smaller, less 1. None if there is too little to tell.
    pub difference: Option<f64>,
}

/// The steadiness of the host while it was measured.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Steadiness {
    /// The movement of the cycle time during the run: largest over least, less 1.
    pub cycle_moved: f64,
    /// The movement of the latency of DRAM.
    pub dram_moved: f64,
    /// The share of the looks at which another thread had a part of the core.
    pub shared: f64,
    /// The share of the pieces of work in which another thread had the processor.
    pub disturbed: f64,
    /// The share of the time that the host of a virtual machine took, if the kernel tells it.
    pub stolen: f64,
}

/// The difference between the halves of a run beyond which a value is not precise.
pub const NOISY: f64 = 0.10;

/// The quantities that were measured of a computer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measurements {
    /// The quantities that could be measured.
    pub values: BTreeMap<Quantity, Measured>,
    /// The rounds over all probes that were begun.
    pub rounds: usize,
    /// The steadiness of the host meanwhile.
    pub steadiness: Steadiness,
    /// Whether the run was ended before every probe had run.
    pub is_partial: bool,
}

impl Measurements {
    /// Returns the quantities whose values are not precise, with the difference between the halves of the run, if one is known. Other
    /// programs and guests take what they take of the third cache: its usable part is never meant to be precise.
    pub fn imprecise(&self) -> impl Iterator<Item = (Quantity, Option<f64>)> {
        let others = self.values.iter().filter(|(quantity, _)| **quantity != Quantity::ThirdCacheBytes);
        others
            .map(|(quantity, measured)| (*quantity, measured.difference))
            .filter(|(_, difference)| difference.is_none_or(|difference| difference > NOISY))
    }

    /// Returns the value of a quantity, if it was measured.
    pub fn value(&self, quantity: Quantity) -> Option<f64> {
        self.values.get(&quantity).map(|measured| measured.value)
    }
}
