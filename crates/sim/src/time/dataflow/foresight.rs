//! Loads of which a core foresees that they get their data from a store in flight, before it knows both addresses.
//!
//! Two ways lead to that. A load that forms its address of the same registers as one of the last stores did, none of which was written in
//! between, gets that store's data when it is renamed. Of some other loads a core remembers how many stores lie between them and
//! the one from which they get their data. Measured on Zen 4 (docs/time.md); AMD, "Security Analysis of AMD Predictive Store Forwarding" (2021),
//! describes the second way.

use super::ready::Names;

/// How often a load got its data from as many stores before when the core believes that it will again. Assumed.
const SURE: u8 = 4;
/// Stores between a load that is remembered and the one that it gets its data from: 12 are foreseen on Zen 4, 16 are not.
const FARTHEST: u64 = 14;

/// What an address was formed of: the registers, and when the last of them was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Formed {
    pub(super) names: Names,
    pub(super) ready: u64,
}

impl Formed {
    /// Of nothing that is known.
    pub(super) const NONE: Self = Self { names: Names::NONE, ready: 0 };

    /// Of what a load cannot know that it gets: a vector.
    pub(super) const OF_VECTOR: Self = Self { names: Names::NONE, ready: u64::MAX };

    /// Returns whether an address was formed of the same registers as another one, with the same values in them.
    #[inline]
    fn is_like(self, other: Self) -> bool {
        self == other && self.names != Names::NONE
    }
}

/// By what a core foresees which loads get their data from a store in flight.
#[derive(Clone, Debug)]
pub(super) struct Foresight {
    /// How many of the last stores are looked at by the registers of their addresses.
    renamed: u64,
    /// The loads that are remembered, the last one first.
    loads: Box<[Handed]>,
}

/// The stores between a load and the one from which it got its data.
#[derive(Clone, Copy, Debug, Default)]
struct Handed {
    /// The address of the load in the code.
    load: u64,
    behind: u64,
    /// How often it was the same, up to [`SURE`].
    same: u8,
}

impl Foresight {
    /// Creates the memory of a core that looks at so many of the last stores, and remembers so many other loads.
    pub(super) fn new(renamed: u32, loads: u32) -> Self {
        let loads = vec![Handed::default(); loads as usize].into_boxed_slice();
        Self { renamed: renamed.into(), loads }
    }

    /// Returns whether the core has foreseen that a load gets its data from the store in front of so many others, as it does. The load has this address in
    /// the code, and both addresses were formed so.
    #[inline]
    pub(super) fn foresees(&mut self, load: u64, of: Formed, behind: u64, store: Formed) -> bool {
        behind < self.renamed && of.is_like(store) || self.repeats(load, behind)
    }

    /// Returns whether a load is remembered, and was handed data from as many stores before for some time.
    fn repeats(&mut self, load: u64, behind: u64) -> bool {
        let known = self.loads.iter().position(|handed| handed.load == load);
        let place = known.unwrap_or(self.loads.len().saturating_sub(1));
        let Some(to_first) = self.loads.get_mut(..=place) else { return false };
        to_first.rotate_right(1);
        let handed = &mut self.loads[0];
        if (handed.load, handed.behind) != (load, behind) {
            *handed = Handed { load, behind, same: 0 };
            return false;
        }
        let is_sure = handed.same == SURE;
        handed.same += u8::from(!is_sure);
        is_sure && behind < FARTHEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_gets_its_data_from_as_many_stores_before_as_ever_is_foreseen_while_it_is_remembered() {
        let mut foresight = Foresight::new(0, 2);
        let mut often = |load, behind, times| {
            (0..times)
                .map(|_| foresight.foresees(load, Formed::NONE, behind, Formed::NONE))
                .collect::<Vec<_>>()
        };
        assert_eq!(often(1, 2, 7), [false, false, false, false, false, true, true]);
        assert_eq!(often(1, 1, 1), [false], "from another one");
        assert_eq!(often(1, 2, 6), [false, false, false, false, false, true]);
        assert_eq!([often(2, 2, 1), often(1, 2, 1)], [[false], [true]], "a second one");
        assert_eq!(
            [often(2, 2, 1), often(3, 2, 1), often(1, 2, 1)],
            [[false]; 3],
            "the third drives out one"
        );
        assert_eq!(often(1, FARTHEST, 7), [false; 7], "too far away");
        assert!(!Foresight::new(0, 0).foresees(1, Formed::NONE, 2, Formed::NONE));
    }

    #[test]
    fn a_load_is_foreseen_that_names_the_same_registers_as_one_of_the_last_stores() {
        let mut foresight = Foresight::new(10, 0);
        let stack = Formed { names: Names::STACK, ready: 0 };
        assert!(foresight.foresees(1, stack, 9, stack));
        assert!(!foresight.foresees(1, stack, 10, stack), "too many stores in between");
        assert!(!foresight.foresees(1, Formed { ready: 7, ..stack }, 9, stack), "written in between");
        assert!(!foresight.foresees(1, Formed::NONE, 9, Formed::NONE), "no registers");
    }
}
