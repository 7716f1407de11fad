//! Which numbers of entries, ways and sets go together, and what to write instead when they do not.

use super::error::either;
use super::key::MAX_WAYS;

/// Why entries and ways do not go together.
#[derive(Debug)]
pub(super) struct Misfit {
    pub(super) message: String,
    pub(super) help: String,
}

/// The numbers of sets that an array allows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sets {
    /// Any number.
    Any,
    /// Those that bits of a number choose from.
    PowerOfTwo,
}

impl Sets {
    /// The number of sets of so many entries in so many ways, if it is allowed.
    fn of(self, entries: u64, ways: u64) -> Option<u64> {
        let sets = entries.is_multiple_of(ways).then_some(entries / ways)?;
        (sets > 0 && (self == Self::Any || sets.is_power_of_two())).then_some(sets)
    }

    /// The nearest allowed numbers, of which the first is 0 if there is none so small.
    fn near(self, entries: u64, ways: u64) -> [u64; 2] {
        match (self, entries / ways) {
            (_, 0) => [0, 1],
            (Self::Any, below) => [below, below + 1],
            (Self::PowerOfTwo, sets) => [1 << sets.ilog2(), 2 << sets.ilog2()],
        }
    }

    fn phrase(self) -> &'static str {
        match self {
            Self::Any => "a whole number",
            Self::PowerOfTwo => "a power of two",
        }
    }
}

/// Checks that `entries` in `ways` make an allowed number of sets, with at most 64 ways unless there is one set.
pub(super) fn check_ways(entries: u64, ways: u64, sets: Sets) -> Result<(), Misfit> {
    let message = if ways > entries {
        format!("{ways} ways do not fit into {entries} entries")
    } else if !entries.is_multiple_of(ways) {
        format!("{entries} entries do not divide into {ways} ways")
    } else if sets.of(entries, ways).is_none() {
        format!("{entries} entries in {ways} ways make {} sets", entries / ways)
    } else if ways > MAX_WAYS && ways != entries {
        format!("{ways} ways are too many for {entries} entries")
    } else {
        return Ok(());
    };
    let mut help = format!(
        "sets = entries / ways must be {}; {entries} entries allow {}",
        sets.phrase(),
        ways_of(entries, sets)
    );
    if ways <= MAX_WAYS
        && let Some(sizes) = sizes_near(entries, ways, sets)
    {
        help += &format!("; {ways} ways allow {sizes} entries");
    }
    Err(Misfit { message, help })
}

/// Checks that a cache of `bytes` in `ways` of 64-byte lines has a whole number of sets.
pub(super) fn check_cache(bytes: u64, ways: u64) -> Result<(), Misfit> {
    let way_bytes = 64 * ways;
    if Sets::Any.of(bytes, way_bytes).is_some() {
        return Ok(());
    }
    let size = super::quantity::format_bytes;
    let message = format!("{} in {ways} ways of 64 B lines do not make a whole number of sets", size(bytes));
    let fits = |ways: &u64| Sets::Any.of(bytes, 64 * ways).is_some();
    let allowed: Vec<u64> = (1..=MAX_WAYS).filter(fits).collect();
    let mut help = Vec::new();
    if !allowed.is_empty() {
        help.push(format!("{} allow {} ways", size(bytes), either(&allowed)));
    }
    let sizes = Sets::Any.near(bytes, way_bytes).into_iter().filter(|sets| *sets > 0);
    let sizes: Vec<String> = sizes.map(|sets| size(sets * way_bytes)).collect();
    help.push(format!("{ways} ways allow {}", either(&sizes)));
    Err(Misfit { message, help: help.join("; ") })
}

/// The ways that so many entries allow, as a phrase.
fn ways_of(entries: u64, sets: Sets) -> String {
    let fits = |ways: &u64| sets.of(entries, *ways).is_some();
    let allowed: Vec<u64> = (1..=MAX_WAYS.min(entries)).filter(fits).collect();
    match (allowed.as_slice(), entries > MAX_WAYS) {
        ([], _) => "only \"full\"".to_owned(),
        (_, true) => format!("{} ways, or \"full\"", either(&allowed)),
        (_, false) => format!("{} ways", either(&allowed)),
    }
}

/// The nearest numbers of entries that so many ways allow, as a phrase.
fn sizes_near(entries: u64, ways: u64, sets: Sets) -> Option<String> {
    let sizes = sets.near(entries, ways).map(|sets| sets * ways);
    let sizes: Vec<u64> = sizes.into_iter().filter(|size| *size > 0 && *size != entries).collect();
    (!sizes.is_empty()).then(|| either(&sizes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets_are_a_power_of_two(entries: u64, ways: u64) -> bool {
        (0..=20).any(|log2| ways << log2 == entries)
    }

    fn sets_are_whole(entries: u64, ways: u64) -> bool {
        (1..=300).any(|sets| ways * sets == entries)
    }

    #[test]
    fn the_check_agrees_with_the_definition() {
        for entries in 1..=300 {
            for ways in 1..=300 {
                let fits = ways <= 64 || ways == entries;
                let expected = fits && sets_are_a_power_of_two(entries, ways);
                let checked = check_ways(entries, ways, Sets::PowerOfTwo);
                assert_eq!(checked.is_ok(), expected, "{entries} entries, {ways} ways");
                let expected = fits && sets_are_whole(entries, ways);
                let checked = check_ways(entries, ways, Sets::Any);
                assert_eq!(checked.is_ok(), expected, "{entries} entries, {ways} ways");
            }
        }
    }

    #[test]
    fn the_advice_can_be_followed() {
        let wrong = [(1536, 7), (1024, 12), (1535, 8), (4, 8), (1537, 8), (4096, 128), (3, 2)];
        for (sets, (entries, ways)) in
            [Sets::Any, Sets::PowerOfTwo].into_iter().flat_map(|sets| wrong.map(|of| (sets, of)))
        {
            let help = check_ways(entries, ways, sets).expect_err("does not fit").help;
            let (_, advice) = help.split_once("; ").expect("two parts");
            let numbers = |text: &str| -> Vec<u64> {
                text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
            };
            let (first, second) = advice.split_once("; ").unwrap_or((advice, ""));
            let allowed = &numbers(first)[1..];
            assert!(allowed.iter().all(|ways| check_ways(entries, *ways, sets).is_ok()), "{help}");
            assert!(
                numbers(second).iter().skip(1).all(|entries| check_ways(*entries, ways, sets).is_ok()),
                "{help}"
            );
            assert!(!allowed.is_empty() || first.contains("full"), "{help}");
        }
    }

    #[test]
    fn caches_are_checked_alike() {
        for (bytes, ways) in [(48 << 10, 12), (48 << 10, 8), (105 << 20, 15)] {
            assert!(check_cache(bytes, ways).is_ok(), "{bytes} bytes in {ways} ways");
        }
        let help = check_cache(48 << 10, 7).expect_err("768 lines").help;
        assert_eq!(
            help,
            "48KiB allow 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48 or 64 ways; 7 ways allow 48832B or 49280B"
        );
        let help = check_cache(100, 2).expect_err("not lines").help;
        assert_eq!(help, "2 ways allow 128B");
    }
}
