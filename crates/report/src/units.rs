//! Numbers as people read them: three significant digits and a unit.

use crate::text::width;

/// What kind of number it is, which decides how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// A count: `12.3 M`.
    Count,
    /// Bytes: `4.00 MiB`.
    Bytes,
    /// Picoseconds: `12.3 us`.
    Time,
    /// A share of a whole, 0 to 1: `12.3 %`.
    Share,
    /// A ratio: `12.3`.
    Ratio,
}

impl Quantity {
    /// The value with its unit.
    pub(crate) fn write(self, value: f64) -> String {
        match self {
            Self::Count => scaled(value, 1000.0, &["", " k", " M", " G", " T", " P", " E"]),
            Self::Bytes => scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"]),
            Self::Time => scaled(value, 1000.0, &[" ps", " ns", " us", " ms", " s"]),
            Self::Share => share(value),
            Self::Ratio => ratio(value),
        }
    }

    /// How `value` differs from `baseline`: relative, in points for shares; none where the baseline is zero.
    pub(crate) fn change(self, value: f64, baseline: f64) -> Option<String> {
        if value == baseline {
            return Some("=".into());
        }
        match self {
            Self::Share => Some(points(value - baseline)),
            _ => (baseline > 0.0).then(|| relative(value / baseline)),
        }
    }
}

/// Three significant digits of a value below 1000.
fn digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    if value < 999.5 && value.fract() == 0.0 {
        return format!("{value:.0}{}", units[0]);
    }
    let mut at = 0;
    // 999.7 k would be written 1000 k; between 1000 and 1024 KiB four digits are right.
    let most = if step == 1024.0 { 1023.5 } else { 999.5 };
    while value >= most && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    format!("{}{}", digits(value), units[at])
}

fn share(value: f64) -> String {
    match 100.0 * value {
        0.0 => "0 %".into(),
        v if v < 0.0 => format!("-{}", share(-value)),
        v if v < 0.1 => "<0.1 %".into(),
        100.0 => "100 %".into(),
        v => format!("{:.1} %", v.min(if v < 100.0 { 99.9 } else { v })),
    }
}

fn ratio(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        v if v >= 999.5 => Quantity::Count.write(v),
        v if v >= 0.9995 => digits(v),
        v if v >= 0.001 => format!("{v:.3}"),
        _ => "<0.001".into(),
    }
}

fn points(difference: f64) -> String {
    let points = 100.0 * difference;
    if points.abs() < 0.05 { "~0 pt".into() } else { format!("{points:+.1} pt") }
}

/// `-46 %`, `+7.3 %`, `x12.3`. Never rounds something to nothing: -100 % is zero exactly.
fn relative(factor: f64) -> String {
    let percent = 100.0 * (factor - 1.0);
    match percent {
        p if factor == 0.0 => format!("{p:.0} %"),
        p if p < -99.0 => format!("{:.2} %", p.max(-99.99)),
        p if p.abs() < 0.05 => "~0 %".into(),
        p if p.abs() < 9.95 => format!("{p:+.1} %"),
        p if factor < 9.995 => format!("{p:+.0} %"),
        _ => format!("x{}", Quantity::Count.write(factor)),
    }
}

/// A whole number with its digits in groups of three: `12,345,678`.
pub(crate) fn grouped(value: u64) -> String {
    let plain = value.to_string();
    let mut out = String::with_capacity(plain.len() + plain.len() / 3);
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of unknown kind, to `significant` digits, without trailing zeros: `0.9803`, `1,234,568`, `-2.5`.
pub(crate) fn plain(value: f64, significant: usize) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let magnitude = value.abs();
    if magnitude >= 1e15 || (magnitude > 0.0 && magnitude < 1e-6) {
        return format!("{value:.*e}", significant - 1);
    }
    let whole_digits = if magnitude >= 1.0 { magnitude.log10().floor() as usize + 1 } else { 0 };
    let leading_zeros =
        if magnitude > 0.0 && magnitude < 1.0 { (-magnitude.log10().ceil()) as usize } else { 0 };
    let text = format!("{magnitude:.*}", (significant + leading_zeros).saturating_sub(whole_digits));
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    let whole = grouped(whole.parse().unwrap_or(u64::MAX));
    let sign = if value < 0.0 { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// The longest of the texts, in columns.
pub(crate) fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(width).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_bytes_and_times_have_three_digits_and_a_unit() {
        let write = |quantity: Quantity, values: &[f64]| {
            values.iter().map(|&value| quantity.write(value)).collect::<Vec<_>>().join(" | ")
        };
        insta::assert_snapshot!(
            write(Quantity::Count, &[0.0, 7.0, 999.0, 1000.0, 9994.0, 9996.0, 999_499.0, 999_500.0, 12.3e6, 1e12, 1.8e19]),
            @"0 | 7 | 999 | 1.00 k | 9.99 k | 10.0 k | 999 k | 1.00 M | 12.3 M | 1.00 T | 18.0 E"
        );
        insta::assert_snapshot!(
            write(Quantity::Bytes, &[0.0, 512.0, 1023.0, 4096.0, 1_047_552.0, 1_048_576.0, 1.5e9]),
            @"0 B | 512 B | 1023 B | 4.00 KiB | 1023 KiB | 1.00 MiB | 1.40 GiB"
        );
        insta::assert_snapshot!(
            write(Quantity::Time, &[0.0, 250.0, 1500.0, 999_900.0, 2.5e9, 1.23e12, 4e15]),
            @"0 ps | 250 ps | 1.50 ns | 1.00 us | 2.50 ms | 1.23 s | 4000 s"
        );
        insta::assert_snapshot!(
            write(Quantity::Share, &[0.0, 0.0001, 0.1234, 0.99999, 1.0]),
            @"0 % | <0.1 % | 12.3 % | 99.9 % | 100 %"
        );
        insta::assert_snapshot!(
            write(Quantity::Ratio, &[0.0, 0.0001, 0.0123, 0.9999, 4.0, 45.67, 999.9, 12345.6]),
            @"0 | <0.001 | 0.012 | 1.00 | 4.00 | 45.7 | 1.00 k | 12.3 k"
        );
    }

    #[test]
    fn changes_are_relative_and_never_round_to_nothing() {
        let change = |value, baseline| Quantity::Count.change(value, baseline).unwrap_or("none".into());
        let changes: Vec<_> = [
            change(54.0, 100.0),
            change(107.3, 100.0),
            change(100.0, 100.0),
            change(100.01, 100.0),
            change(0.0, 100.0),
            change(1.0, 1e6),
            change(9.0, 1.0),
            change(10.0, 1.0),
            change(1e7, 1.0),
            change(1.0, 0.0),
            change(0.0, 0.0),
            Quantity::Share.change(0.25, 0.20).unwrap(),
            Quantity::Share.change(0.20, 0.0).unwrap(),
        ]
        .into();
        insta::assert_snapshot!(
            changes.join(" | "),
            @"-46 % | +7.3 % | = | ~0 % | -100 % | -99.99 % | +800 % | x10 | x10.0 M | none | = | +5.0 pt | +20.0 pt"
        );
    }

    #[test]
    fn plain_numbers_keep_what_matters() {
        let texts: Vec<_> =
            [0.9803, 0.98049, 1_234_567.8, 0.0, -2.5, 0.000_123_46, 100.0, 9.99999, f64::NAN, 3e20]
                .map(|value| plain(value, 4))
                .into();
        insta::assert_snapshot!(texts.join(" | "), @"0.9803 | 0.9805 | 1,234,568 | 0 | -2.5 | 0.0001235 | 100 | 10 | - | 3.000e20");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }
}
