//! `pagewalk fs bench`: the six micro-benchmarks of Li et al., ";login: 2022", Table 1, on this machine.
//!
//! The library's store lies in a folder; beside it, in the same minutes, system calls on a file of the same folder, the same file
//! mapped, and what bounds all: copying to memory. All take turns in each round; medians of times, and of each round's ratios.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use pagewalk_vm::random::SplitMix64;
use serde::Serialize;

use super::target::{Calls, Copies, LIMIT_BYTES, Library, Look, Mapping, Stores, Target};
use crate::args::{BenchArguments, BenchItem, FormatArgument};
use crate::ending;
use crate::exit::Done;
use crate::run::print;
use crate::say::Steps;

const SMALL: u64 = 4_096;
/// Bytes of a large operation at most; the article's 1 GiB of a file of 10.
const LARGE: u64 = 64 << 20;
/// The number of times that the clock is asked for its own cost.
const CLOCK_CALLS: u32 = 100_000;
/// In this order everywhere; ratios are to the second and to the last two.
const TARGETS: [&str; 5] = ["ctfs", "system calls", "mapped", "memcpy", "stores"];

#[derive(Serialize)]
struct Document {
    schema: u32,
    bytes: u64,
    rounds: usize,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    folder: String,
    item: &'static str,
    target: &'static str,
    gigabytes_per_second: f64,
    microseconds: f64,
    /// The speed over that of the system calls, by rounds; none for system calls alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    over_calls: Option<f64>,
    /// The same as the faster of both limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    over_copy: Option<f64>,
    /// The share of time that goes to reading and writing bytes, without what asking the clock takes.
    data_share: Option<f64>,
}

impl BenchItem {
    fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Swe => "swe",
            Self::Rr => "rr",
            Self::Rw => "rw",
            Self::Sr => "sr",
            Self::Sw => "sw",
        }
    }

    fn writes(self) -> bool {
        !matches!(self, Self::Rr | Self::Sr)
    }

    fn is_random(self) -> bool {
        matches!(self, Self::Rr | Self::Rw)
    }

    fn begins_empty(self) -> bool {
        matches!(self, Self::Append | Self::Swe)
    }

    fn operation_bytes(self, bytes: u64) -> u64 {
        if self == Self::Append || self.is_random() { SMALL } else { LARGE.min(bytes) }
    }
}

/// Runs the command `fs bench`.
pub(super) fn bench(arguments: &BenchArguments) -> anyhow::Result<Done> {
    let BenchArguments { folders, size, rounds, items, calls_alone, format } = arguments;
    anyhow::ensure!(
        *size >= 1 << 20 && size.is_power_of_two(),
        "{size} bytes; allowed: powers of two from 1MiB on"
    );
    anyhow::ensure!(*rounds > 0, "0 rounds; allowed: 1 and more");
    // The files of an interrupted measurement are removed, too.
    ending::watch()?;
    let mut rows = Vec::new();
    for folder in folders {
        let of = match calls_alone {
            true => measure_calls(folder, *size, *rounds, items),
            false => measure(folder, *size, *rounds, items),
        };
        rows.extend(of.with_context(|| folder.display().to_string())?);
    }
    let document = Document { schema: 2, bytes: *size, rounds: *rounds, rows };
    match format {
        FormatArgument::Json => print(&format!("{}\n", serde_json::to_string_pretty(&document)?))?,
        FormatArgument::Table => print(&table(&document))?,
    }
    Ok(Done::Well)
}

fn measure(folder: &Path, bytes: u64, rounds: usize, items: &[BenchItem]) -> anyhow::Result<Vec<Row>> {
    let steps = Steps::new();
    let mut targets: [Box<dyn Target>; 5] = [
        Box::new(Library::new(folder, bytes)?),
        Box::new(Calls::new(folder)?),
        Box::new(Mapping::new(folder, bytes)?),
        Box::new(Copies::new(bytes)),
        Box::new(Stores::new(folder, bytes)?),
    ];
    // What memory the host has to find for the guest, and a disk for a file, it finds now.
    for (number, target) in targets.iter_mut().enumerate() {
        ending::go_on()?;
        steps.show(format_args!("{}: {} of {} made ready", folder.display(), number + 1, TARGETS.len()));
        seconds(&mut **target, BenchItem::Swe, bytes, 0)?;
    }
    let mut rows = Vec::new();
    for item in items {
        let mut taken: [Vec<f64>; 5] = Default::default();
        for round in 0..rounds {
            let at = folder.display();
            steps.show(format_args!("{at}: {}, round {} of {rounds}", item.name(), round + 1));
            for (target, taken) in targets.iter_mut().zip(&mut taken) {
                ending::go_on()?;
                taken.push(seconds(&mut **target, *item, bytes, round as u64)?);
            }
        }
        let share = data_share(&mut *targets[0], *item, bytes, rounds)?;
        let limit: Vec<f64> = taken[3].iter().zip(&taken[4]).map(|(copy, store)| copy.min(*store)).collect();
        let operations = (bytes / item.operation_bytes(bytes)) as f64;
        for (number, (own, target)) in taken.iter().zip(TARGETS).enumerate() {
            let over =
                |other: &[f64]| median(own.iter().zip(other).map(|(own, other)| other / own).collect());
            let time = median(own.clone());
            rows.push(Row {
                folder: folder.display().to_string(),
                item: item.name(),
                target,
                gigabytes_per_second: bytes as f64 / time / 1e9,
                microseconds: time * 1e6 / operations,
                over_calls: Some(over(&taken[1])),
                over_copy: Some(over(&limit)),
                data_share: share.filter(|_| number == 0),
            });
        }
    }
    Ok(rows)
}

/// Returns the share of a benchmark's time that goes to bytes, if its target can tell them apart. In each round it runs twice, and
/// waits for bytes to be written both times: what the second run takes longer is the clock's, which it asks before and behind them.
fn data_share(
    target: &mut dyn Target,
    item: BenchItem,
    bytes: u64,
    rounds: usize,
) -> anyhow::Result<Option<f64>> {
    let clock = clock_seconds();
    let mut shares = Vec::new();
    for round in (rounds..2 * rounds).map(|round| round as u64) {
        target.look_at_data(Look::Waiting);
        let whole = seconds(target, item, bytes, round)?;
        target.look_at_data(Look::Timing);
        let timed = seconds(target, item, bytes, round)?;
        let Some((data, calls)) = target.look_at_data(Look::Away) else { return Ok(None) };
        // No two runs are alike: of few calls it is more than the clock that makes the difference.
        let clocks = (timed - whole).clamp(0.0, 2.0 * calls as f64 * clock);
        // Half of what asking twice takes lies between.
        shares.push((data.as_secs_f64() - clocks / 2.0) / (timed - clocks));
    }
    Ok(Some(median(shares).clamp(0.0, 1.0)))
}

/// Measures items through system calls, whichever of kernel and file system answers them.
fn measure_calls(folder: &Path, bytes: u64, rounds: usize, items: &[BenchItem]) -> anyhow::Result<Vec<Row>> {
    let steps = Steps::new();
    let mut target = Calls::new(folder)?;
    seconds(&mut target, BenchItem::Swe, bytes, 0)?;
    let row = |item: &BenchItem| {
        ending::go_on()?;
        steps.show(format_args!("{}: {}", folder.display(), item.name()));
        let taken = (0..rounds).map(|round| seconds(&mut target, *item, bytes, round as u64));
        let time = median(taken.collect::<anyhow::Result<_>>()?);
        let operations = (bytes / item.operation_bytes(bytes)) as f64;
        Ok(Row {
            folder: folder.display().to_string(),
            item: item.name(),
            target: TARGETS[1],
            gigabytes_per_second: bytes as f64 / time / 1e9,
            microseconds: time * 1e6 / operations,
            over_calls: None,
            over_copy: None,
            data_share: None,
        })
    };
    items.iter().map(row).collect()
}

/// Runs one benchmark once, and returns its seconds.
fn seconds(target: &mut dyn Target, item: BenchItem, bytes: u64, round: u64) -> anyhow::Result<f64> {
    if item.begins_empty() {
        target.empty()?;
    }
    let size = item.operation_bytes(bytes);
    let count = bytes / size;
    let mut data = vec![round as u8; size as usize];
    let mut random = SplitMix64::new(round);
    // Drawn beforehand: that is no part of what is measured.
    let place = |number| if item.is_random() { random.below(count) } else { number };
    let offsets: Vec<u64> = (0..count).map(place).map(|place| size * place).collect();
    let begun = Instant::now();
    for offset in offsets {
        match item.writes() {
            true => target.write(offset, &data)?,
            false => target.read(offset, &mut data)?,
        }
    }
    let taken = begun.elapsed().as_secs_f64();
    std::hint::black_box(&data);
    Ok(taken)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the seconds that asking the clock twice takes, alone.
fn clock_seconds() -> f64 {
    let begun = Instant::now();
    for _ in 0..CLOCK_CALLS {
        std::hint::black_box(Instant::now().elapsed());
    }
    begun.elapsed().as_secs_f64() / f64::from(CLOCK_CALLS)
}

fn table(document: &Document) -> String {
    let mut text = format!(
        "{} MiB, median of {}; memcpy and stores go through {} MiB of memory again and again\n",
        document.bytes >> 20,
        document.rounds,
        document.bytes.min(LIMIT_BYTES) >> 20
    );
    let mut folder = "";
    for row in &document.rows {
        if row.folder != folder {
            folder = &row.folder;
            let _ = writeln!(
                text,
                "\n{folder}\n{:<8}{:<14}{:>9}{:>13}{:>14}{:>12}{:>11}",
                "", "", "GB/s", "us each", "of the calls", "of a copy", "on bytes"
            );
        }
        let share = row.data_share.map_or(String::new(), |share| format!("{:.0} %", 100.0 * share));
        let [over_calls, over_copy] = [row.over_calls, row.over_copy]
            .map(|ratio| ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")));
        let _ = writeln!(
            text,
            "{:<8}{:<14}{:>9.2}{:>13.2}{over_calls:>14}{over_copy:>12}{share:>11}",
            row.item, row.target, row.gigabytes_per_second, row.microseconds
        );
    }
    let _ = writeln!(
        text,
        "\nOn bytes: in runs by themselves that wait for them, without what asking the clock takes."
    );
    if let Some(share) = share_of_all(&document.rows) {
        let _ = writeln!(text, "Of all patterns' time together, {:.1} % goes to bytes.", 100.0 * share);
    }
    text
}

/// Returns the share of all patterns' time, once each, that goes to reading and writing bytes.
fn share_of_all(rows: &[Row]) -> Option<f64> {
    let timed = rows.iter().filter_map(|row| Some((row.data_share?, 1.0 / row.gigabytes_per_second)));
    let (data, all) = timed.fold((0.0, 0.0), |(data, all), (share, time)| (data + share * time, all + time));
    (all > 0.0).then(|| data / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_all_is_weighed_by_time() {
        let row = |gigabytes_per_second, data_share| Row {
            folder: String::new(),
            item: "rr",
            target: "ctfs",
            gigabytes_per_second,
            microseconds: 0.0,
            over_calls: None,
            over_copy: None,
            data_share,
        };
        let share = share_of_all(&[row(1.0, Some(1.0)), row(3.0, Some(0.6)), row(9.0, None)]);
        assert!((share.expect("there are times") - 0.9).abs() < 1e-9);
        assert!(share_of_all(&[row(1.0, None)]).is_none());
    }

    #[test]
    fn each_item_uses_the_whole_file() {
        #[derive(Default)]
        struct Counting {
            written: u64,
            read: u64,
            emptied: u64,
            beyond: u64,
        }
        impl Target for Counting {
            fn empty(&mut self) -> anyhow::Result<()> {
                self.emptied += 1;
                Ok(())
            }
            fn write(&mut self, offset: u64, data: &[u8]) -> anyhow::Result<()> {
                self.written += data.len() as u64;
                self.beyond = self.beyond.max(offset + data.len() as u64);
                Ok(())
            }
            fn read(&mut self, offset: u64, into: &mut [u8]) -> anyhow::Result<()> {
                self.read += into.len() as u64;
                self.beyond = self.beyond.max(offset + into.len() as u64);
                Ok(())
            }
        }
        let bytes = 4 << 20;
        for item in
            [BenchItem::Append, BenchItem::Swe, BenchItem::Rr, BenchItem::Rw, BenchItem::Sr, BenchItem::Sw]
        {
            let mut target = Counting::default();
            seconds(&mut target, item, bytes, 1).expect("nothing fails");
            let (expected_written, expected_read) = if item.writes() { (bytes, 0) } else { (0, bytes) };
            assert_eq!((target.written, target.read), (expected_written, expected_read), "{}", item.name());
            assert_eq!(target.emptied, u64::from(item.begins_empty()));
            assert!(target.beyond <= bytes, "{}", item.name());
        }
    }
}
