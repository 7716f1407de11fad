//! Which numbers of entries, ways and sets go together, and what to write instead when they do not.

use super::error::either;
use super::key::MAX_WAYS;

/// Why entries and ways do not go together.
#[derive(Debug)]
pub(super) struct Misfit {
    pub(super) message: String,
    pub(super) help: String,
}

/// Checks that `entries` in `ways` make a power of two of sets, with at most 64 ways unless there is one set.
pub(super) fn check_ways(entries: u64, ways: u64) -> Result<(), Misfit> {
    let message = if ways > entries {
        format!("{ways} ways do not fit into {entries} entries")
    } else if !entries.is_multiple_of(ways) {
        format!("{entries} entries do not divide into {ways} ways")
    } else if !(entries / ways).is_power_of_two() {
        format!("{entries} entries in {ways} ways make {} sets", entries / ways)
    } else if ways > MAX_WAYS && ways != entries {
        format!("{ways} ways are too many for {entries} entries")
    } else {
        return Ok(());
    };
    let mut help =
        format!("sets = entries / ways must be a power of two; {entries} entries allow {}", ways_of(entries));
    if ways <= MAX_WAYS
        && let Some(sizes) = sizes_near(entries, ways)
    {
        help += &format!("; {ways} ways allow {sizes} entries");
    }
    Err(Misfit { message, help })
}

/// Checks that a cache of `bytes` in `ways` of 64-byte lines has a power of two of sets.
pub(super) fn check_cache(bytes: u64, ways: u64) -> Result<(), Misfit> {
    let way_bytes = 64 * ways;
    if bytes.is_multiple_of(way_bytes) && (bytes / way_bytes).is_power_of_two() {
        return Ok(());
    }
    let size = super::quantity::format_bytes;
    let message = format!("{} in {ways} ways of 64 B lines do not make a power of two of sets", size(bytes));
    let fits = |ways: &u64| bytes.is_multiple_of(64 * ways) && (bytes / (64 * ways)).is_power_of_two();
    let allowed: Vec<u64> = (1..=MAX_WAYS).filter(fits).collect();
    let mut help = Vec::new();
    if !allowed.is_empty() {
        help.push(format!("{} allow {} ways", size(bytes), either(&allowed)));
    }
    let below = if bytes < way_bytes { 0 } else { 1 << (bytes / way_bytes).ilog2() };
    let sizes = [below, (below * 2).max(1)].into_iter().filter(|sets| *sets > 0);
    let sizes: Vec<String> = sizes.map(|sets| size(sets * way_bytes)).collect();
    help.push(format!("{ways} ways allow {}", either(&sizes)));
    Err(Misfit { message, help: help.join("; ") })
}

/// The ways that so many entries allow, as a phrase.
fn ways_of(entries: u64) -> String {
    let fits = |ways: &u64| entries.is_multiple_of(*ways) && (entries / ways).is_power_of_two();
    let allowed: Vec<u64> = (1..=MAX_WAYS.min(entries)).filter(fits).collect();
    match (allowed.as_slice(), entries > MAX_WAYS) {
        ([], _) => "only \"full\"".to_owned(),
        (_, true) => format!("{} ways, or \"full\"", either(&allowed)),
        (_, false) => format!("{} ways", either(&allowed)),
    }
}

/// The nearest numbers of entries that so many ways allow, as a phrase.
fn sizes_near(entries: u64, ways: u64) -> Option<String> {
    let below = if entries < ways { 0 } else { ways << (entries / ways).ilog2() };
    let above = if below == 0 { ways } else { below * 2 };
    let sizes: Vec<u64> = [below, above].into_iter().filter(|size| *size > 0 && *size != entries).collect();
    (!sizes.is_empty()).then(|| either(&sizes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets_are_a_power_of_two(entries: u64, ways: u64) -> bool {
        (0..=20).any(|log2| ways << log2 == entries)
    }

    #[test]
    fn the_check_agrees_with_the_definition() {
        for entries in 1..=300 {
            for ways in 1..=300 {
                let expected = sets_are_a_power_of_two(entries, ways) && (ways <= 64 || ways == entries);
                assert_eq!(check_ways(entries, ways).is_ok(), expected, "{entries} entries, {ways} ways");
            }
        }
    }

    #[test]
    fn the_advice_can_be_followed() {
        for (entries, ways) in [(1536, 7), (1024, 12), (1535, 8), (4, 8), (1536, 8), (4096, 128), (3, 2)] {
            let help = check_ways(entries, ways).expect_err("does not fit").help;
            let (_, advice) = help.split_once("; ").expect("two parts");
            let numbers = |text: &str| -> Vec<u64> {
                text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
            };
            let (first, second) = advice.split_once("; ").unwrap_or((advice, ""));
            let allowed = &numbers(first)[1..];
            assert!(allowed.iter().all(|ways| check_ways(entries, *ways).is_ok()), "{help}");
            assert!(
                numbers(second).iter().skip(1).all(|entries| check_ways(*entries, ways).is_ok()),
                "{help}"
            );
            assert!(!allowed.is_empty() || first.contains("full"), "{help}");
        }
    }

    #[test]
    fn caches_are_checked_alike() {
        assert!(check_cache(48 << 10, 12).is_ok());
        assert!(check_cache(30 << 20, 15).is_ok());
        let help = check_cache(48 << 10, 8).expect_err("96 sets").help;
        assert_eq!(help, "48KiB allow 3, 6, 12, 24 or 48 ways; 8 ways allow 32KiB or 64KiB");
        let help = check_cache(100, 2).expect_err("not lines").help;
        assert_eq!(help, "2 ways allow 128B");
    }
}
