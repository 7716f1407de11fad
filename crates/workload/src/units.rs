//! Sizes, counts and decimals as people write them: `64MiB`, `4M`, `0.95`.

/// The units of a size, largest first.
const SIZE_UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
/// The suffixes of a count, largest first.
const COUNT_UNITS: [(&str, u64); 3] = [("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)];

/// Thousandths of a unit in the last of so many decimals.
const POWERS: [u64; 4] = [1000, 100, 10, 1];

/// Reads a size such as `64MiB`; the unit is required. None if it is not one, or beyond 2^64.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (unit, shift) = SIZE_UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    digits(text.strip_suffix(unit)?)?.checked_mul(1 << shift)
}

/// Reads a count such as `4M`, `100k` or `12345`. None if it is not one, or beyond 2^64.
pub(crate) fn parse_count(text: &str) -> Option<u64> {
    match COUNT_UNITS.into_iter().find(|(unit, _)| text.ends_with(unit)) {
        Some((unit, factor)) => digits(text.strip_suffix(unit)?)?.checked_mul(factor),
        None => digits(text),
    }
}

/// Reads a number such as `1.234` or `2`, with at most three decimals, in thousandths. None if it is not one, or beyond
/// 2^64.
pub(crate) fn parse_decimal(text: &str) -> Option<u64> {
    let (whole, decimals) = match text.split_once('.') {
        Some((whole, decimals)) if (1..=3).contains(&decimals.len()) => {
            (whole, digits(decimals)? * POWERS[decimals.len()])
        }
        Some(_) => return None,
        None => (text, 0),
    };
    digits(whole)?.checked_mul(1000)?.checked_add(decimals)
}

/// Writes thousandths exactly, without noughts at the end.
pub(crate) fn format_decimal(thousandths: u64) -> String {
    let (whole, decimals) = (thousandths / 1000, format!("{:03}", thousandths % 1000));
    match decimals.trim_end_matches('0') {
        "" => whole.to_string(),
        decimals => format!("{whole}.{decimals}"),
    }
}

/// Writes a size exactly, with the largest unit that divides it.
pub(crate) fn format_size(bytes: u64) -> String {
    let divides = |shift: u32| bytes.is_multiple_of(1 << shift) && bytes > 0;
    match SIZE_UNITS.into_iter().find(|&(_, shift)| divides(shift)) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes}B"),
    }
}

/// Writes a count exactly, with the largest suffix that divides it.
pub(crate) fn format_count(count: u64) -> String {
    match COUNT_UNITS.into_iter().find(|&(_, factor)| count > 0 && count.is_multiple_of(factor)) {
        Some((unit, factor)) => format!("{}{unit}", count / factor),
        None => count.to_string(),
    }
}

/// Writes a size for people, rounded to a tenth of the largest unit below it: `8.0 GiB`.
pub(crate) fn about(bytes: u64) -> String {
    match SIZE_UNITS.into_iter().find(|&(_, shift)| shift > 0 && bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

fn digits(text: &str) -> Option<u64> {
    // `parse` alone would take a sign.
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_a_binary_unit() {
        assert_eq!(parse_size("64MiB"), Some(64 << 20));
        assert_eq!(parse_size("512B"), Some(512));
        for wrong in
            ["64", "64M", "64MB", "64mib", "MiB", "-1MiB", "+1MiB", "1.5GiB", "64 MiB", "99999999TiB", ""]
        {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn counts_take_decimal_suffixes() {
        assert_eq!(parse_count("4M"), Some(4_000_000));
        assert_eq!(parse_count("12345"), Some(12345));
        for wrong in ["4m", "4K", "4Mi", "M", "4e6", "-4", "", "99999999999G"] {
            assert_eq!(parse_count(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn decimals_have_three_places() {
        for (text, thousandths) in [("1.234", 1234), ("0.9", 900), ("0.05", 50), ("4", 4000), ("2.50", 2500)]
        {
            assert_eq!(parse_decimal(text), Some(thousandths), "{text}");
        }
        for wrong in ["1.2345", "1.", ".5", "", "-1", "1.-2", "1,5", "1e3", "1.2.3", "99999999999999999"] {
            assert_eq!(parse_decimal(wrong), None, "{wrong}");
        }
        assert_eq!([1234, 900, 50, 4000, 0].map(format_decimal), ["1.234", "0.9", "0.05", "4", "0"]);
    }

    #[test]
    fn what_is_written_can_be_read() {
        for value in [0, 1, 999, 1000, 1024, 1536, 26_214_400, 8 << 30, u64::MAX] {
            assert_eq!(parse_size(&format_size(value)), Some(value));
            assert_eq!(parse_count(&format_count(value)), Some(value));
            assert_eq!(parse_decimal(&format_decimal(value)), Some(value));
        }
        assert_eq!(format_size(1536), "1536B");
        assert_eq!(format_size(8 << 30), "8GiB");
        assert_eq!(format_count(1_360_000), "1360k");
        assert_eq!(about((8 << 30) + (100 << 20)), "8.1 GiB");
    }
}
