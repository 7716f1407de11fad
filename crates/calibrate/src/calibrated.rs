//! The machine file of a computer that has been measured.

use std::fmt::Write;

use toml_edit::{DocumentMut, Item, Table, value};

use crate::host::{Cache, Host};
use crate::machine::machine_file;
use crate::measure::{Measurements, NOISY, Quantity, Steadiness};
use crate::recalibrated::cache_size;
use crate::tlbs::Pages;

/// The way in which a machine file writes a number.
#[derive(Clone, Copy)]
enum Form {
    /// A whole number, from 1 to the most that a machine file takes.
    Count(u32),
    /// Whole cycles beyond a hit in the first cache; it may be 0.
    BeyondFirstCache,
    /// Whole cycles beyond the one of an addition; it may be 0.
    BeyondAddition,
    /// A time in whole cycles.
    Cycles,
    /// A time in nanoseconds, with one decimal place; it may be 0.
    Nanoseconds,
    /// A cycle time in nanoseconds as a frequency in MHz.
    Frequency,
    /// Bytes of a cache, rounded so that its ways divide them; at least 64 KiB a way.
    CacheBytes,
    /// Gigabytes per second, as bytes in a second.
    Bandwidth,
    /// Cycles of translation in huge pages, as the size of the host's pages.
    HostPages,
}

/// The place of a quantity in a machine file.
struct Row {
    quantity: Quantity,
    /// The table and the key; an empty key for a check, which the table's source mentions only.
    table: &'static str,
    key: &'static str,
    form: Form,
    /// How it is measured.
    how: &'static str,
}

const fn row(
    quantity: Quantity,
    table: &'static str,
    key: &'static str,
    form: Form,
    how: &'static str,
) -> Row {
    Row { quantity, table, key, form, how }
}

/// All quantities, with the key of each.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(Quantity::Cycle,              "core", "frequency", Form::Frequency, "a chain of additions"),
    row(Quantity::Width,              "core", "width", Form::Count(64), "instructions of several kinds, per cycle"),
    row(Quantity::Window,             "core", "window", Form::Count(65_536), "instructions between two misses that still overlap"),
    row(Quantity::Registers,          "core.dataflow", "registers", Form::Count(65_536), "results in general registers between two misses that still overlap"),
    row(Quantity::VectorRegisters,    "core.dataflow", "vector-registers", Form::Count(65_536), "the same in vector registers"),
    row(Quantity::Outstanding,        "core", "outstanding", Form::Count(4_096), "latency of one chain over the time of a load in 8 to 32 chains"),
    row(Quantity::Misprediction,      "core.dataflow", "misprediction", Form::Count(1_000), "random branches against known ones, less the 3 cycles of a branch"),
    row(Quantity::LoadUnits,          "core.dataflow", "load-units", Form::Count(8), "independent loads per cycle"),
    row(Quantity::StoreUnits,         "core.dataflow", "store-units", Form::Count(8), "independent stores per cycle"),
    row(Quantity::IntegerUnits,       "core.dataflow", "integer-units", Form::Count(8), "independent additions per cycle"),
    row(Quantity::MultiplyUnits,      "core.dataflow", "multiply-units", Form::Count(8), "independent multiplications per cycle"),
    row(Quantity::FloatUnits,         "core.dataflow", "float-units", Form::Count(8), "independent additions of doubles per cycle"),
    row(Quantity::VectorUnits,        "core.dataflow", "vector-units", Form::Count(8), "independent additions of vectors of integers per cycle"),
    row(Quantity::VectorLoadUnits,    "core.dataflow", "vector-load-units", Form::Count(8), "independent loads of doubles per cycle"),
    row(Quantity::VectorStoreUnits,   "core.dataflow", "vector-store-units", Form::Count(8), "independent stores of doubles per cycle"),
    row(Quantity::ShiftUnits,         "core.dataflow", "shift-units", Form::Count(8), "independent shifts per cycle"),
    row(Quantity::BranchUnits,        "core.dataflow", "branch-units", Form::Count(8), "branches that are not taken per cycle"),
    row(Quantity::FloatMultiplyUnits, "core.dataflow", "float-multiply-units", Form::Count(8), "independent multiplications of doubles per cycle"),
    row(Quantity::ShuffleUnits,       "core.dataflow", "shuffle-units", Form::Count(8), "independent permutations of vectors per cycle"),
    row(Quantity::CrossUnits,         "core.dataflow", "cross-units", Form::Count(8), "copies from a general register to vectors per cycle"),
    row(Quantity::ScaledLoad,         "core.dataflow", "complex-address", Form::BeyondFirstCache, "a chain of loads with a scaled index, less one without"),
    row(Quantity::Foreseen,           "core.dataflow.latencies", "foreseen-forward", Form::BeyondAddition, "a chain of additions to a word that is stored and loaded"),
    row(Quantity::Multiplication,     "core.dataflow.latencies", "multiply", Form::Count(200), "a chain of multiplications"),
    row(Quantity::FloatAddition,      "core.dataflow.latencies", "float-add", Form::Count(200), "a chain of additions of doubles"),
    row(Quantity::SecondTlb,          "tlb.l2", "latency", Form::Cycles, "a line of each of 512 pages, beyond as many lines of a huge page"),
    row(Quantity::FirstTlbReach,      "tlb.l2", "", Form::Count(65_536), "pages of 4 KiB that hit in the first TLB"),
    row(Quantity::SecondTlbReach,     "tlb.l2", "", Form::Count(65_536), "pages of 4 KiB that hit in the second TLB"),
    row(Quantity::Walk,               "tlb.l2", "", Form::Cycles, "a walk whose entries are cached, on 4,096 pages"),
    row(Quantity::FirstCache,         "caches.l1", "latency", Form::Cycles, "a chain over half of the cache"),
    row(Quantity::SecondCache,        "caches.l2", "latency", Form::Cycles, "a chain over four times the first cache, at most half of the second"),
    row(Quantity::ThirdCache,         "caches.l3", "latency", Form::Cycles, "a chain over four times the second cache, less its translation"),
    row(Quantity::ThirdCacheBytes,    "caches.l3", "size", Form::CacheBytes, "usable now, by chains over 1 to 32 MiB; other processors and guests have the rest"),
    row(Quantity::HostPages,          "host", "pages", Form::HostPages, "translation from 4 KiB to 4 KiB of one huge page, on 512 of them; with entries for huge pages, none"),
    row(Quantity::Dram,               "memory", "latency", Form::Nanoseconds, "a chain over 256 MiB in huge pages, less their translation"),
    row(Quantity::RefreshEvery,       "memory.refresh", "every", Form::Nanoseconds, "the period with which loads of a line take 60 ns longer than most"),
    row(Quantity::RefreshLasts,       "memory.refresh", "lasts", Form::Nanoseconds, "by the share of loads that do so, less those at other times"),
    row(Quantity::RefreshSpread,      "memory.refresh", "spread", Form::Nanoseconds, "by how many loads are late where the most are"),
    row(Quantity::ReadBandwidth,      "memory", "bandwidth", Form::Bandwidth, "reading memory in order, in a second"),
    row(Quantity::WriteBandwidth,     "memory", "write-bandwidth", Form::Bandwidth, "writing memory in order"),
    row(Quantity::MinorFault,         "kernel", "minor-fault", Form::Nanoseconds, "first touch of 4 KiB, less the zeroing"),
    row(Quantity::ZeroPage,           "kernel", "zero-page", Form::Nanoseconds, "first touch of 2 MiB less that of 4 KiB, by 511"),
    row(Quantity::ZeroHugePage,       "kernel", "zero-huge-page", Form::Nanoseconds, "first touch of 2 MiB, less minor-fault"),
    row(Quantity::UnmapPage,          "kernel", "unmap-page", Form::Nanoseconds, "unmapping pages of 4 KiB that were touched"),
    row(Quantity::UnmapHugePage,      "kernel", "unmap-huge-page", Form::Nanoseconds, "unmapping pages of 2 MiB that were touched"),
    row(Quantity::FileFault,          "kernel", "file-fault", Form::Nanoseconds, "a load of each 64 KiB of a file that no cache has"),
    row(Quantity::CopyPage,           "kernel", "copy-page", Form::Nanoseconds, "a store to each page of a private mapping of that file, less minor-fault and zero-page"),
    row(Quantity::ChangeMapping,      "kernel", "change-mapping", Form::Nanoseconds, "mapping 64 KiB, protecting a page of them in two ways, unmapping them: a call, less system-call"),
    row(Quantity::SystemCall,         "kernel", "system-call", Form::Nanoseconds, "a system call that does nothing"),
];

/// Returns the machine file of a computer with this name: as it describes itself, with what was measured in place of what it
/// inherited. The source of each table says how each value was measured, its median and least sample, and its spread.
///
/// # Panics
///
/// If the file of its description is not TOML, which is this crate's own mistake.
pub fn calibrated_file(host: &Host, name: &str, measured: &Measurements) -> String {
    let described = machine_file(host, name);
    let mut document: DocumentMut = described.parse().expect("the description of a computer is TOML");
    let (known, missing): (Vec<&Row>, Vec<&Row>) =
        ROWS.iter().partition(|row| text(row, host, measured, &document).is_some());
    describe(&mut document, measured, &missing);
    for row in known {
        enter(&mut document, row, host, measured);
    }
    if !have_schedulers_own_units(measured) {
        table(&mut document, "core.dataflow")["schedulers"] = value("shared");
    }
    document.to_string()
}

/// Returns whether schedulers may have units of their own, as those of the base machine may: machine files demand four units of vectors for that, and at
/// most four of general registers.
fn have_schedulers_own_units(measured: &Measurements) -> bool {
    let units = |quantity: Quantity| measured.value(quantity).map_or(4.0, f64::round);
    units(Quantity::IntegerUnits) <= 4.0 && units(Quantity::VectorUnits) == 4.0
}

/// Says at the top what the file is, and how far to believe it.
fn describe(document: &mut DocumentMut, measured: &Measurements, missing: &[&Row]) {
    let precision = match (measured.imprecise().next().is_some(), measured.is_partial) {
        (true, _) => "measured on a noisy host: not all is precise",
        (false, true) => "measured in part",
        (false, false) => "measured",
    };
    let description = document["description"].as_str().unwrap_or_default();
    document["description"] = value(description.replace("as it describes itself", precision));
    let base = document["extends"].as_str().unwrap_or_default().to_owned();
    let lines = [
        conditions(measured),
        left_out(missing),
        format!("Values that do not stand here are those of {base}."),
    ];
    document["source"] = value(lines.concat());
}

/// Says how was measured, and how steady the host was.
fn conditions(measured: &Measurements) -> String {
    let Steadiness { cycle_moved, dram_moved, shared, disturbed, stolen } = measured.steadiness;
    let [cycle, dram, shared, disturbed, stolen] =
        [cycle_moved, dram_moved, shared, disturbed, stolen].map(|part| 100.0 * part);
    let mut text = format!(
        "`pagewalk calibrate`, {} rounds. Of times the lower quartile counts, of what a core does per cycle the 95th percentile, of\n\
         bandwidths and the window the upper quartile, of sizes and refreshes the median; the spread is the interquartile range over the median, and halves\n\
         are those of the run. The cycle time moved by {cycle:.0} %, the latency of DRAM by {dram:.0} %; another thread had a part of the core at\n\
         {shared:.0} % of the looks, beside which no sample counts if there are enough others; another thread had the processor in\n\
         {disturbed:.1} % of the samples, and the host of a virtual machine took {stolen:.1} % of the time.\n",
        measured.rounds,
    );
    if let Some(imprecise) = imprecise(measured) {
        let _ = writeln!(text, "Not precise, {imprecise}.");
    }
    if measured.is_partial {
        text.push_str("The run was ended before everything was measured.\n");
    }
    text
}

/// Says which values are not precise, and why; none if all are precise.
pub fn imprecise(measured: &Measurements) -> Option<String> {
    let name = |quantity: Quantity| {
        let row = ROWS.iter().find(|row| row.quantity == quantity).expect("each quantity has a row");
        if row.key.is_empty() {
            format!("{} ({})", row.table, row.how)
        } else {
            format!("{}.{}", row.table, row.key)
        }
    };
    let (mut few, mut different) = (Vec::new(), Vec::new());
    for (quantity, difference) in measured.imprecise() {
        match difference {
            None => few.push(name(quantity)),
            Some(difference) => different.push(format!("{} ({:.0} %)", name(quantity), 100.0 * difference)),
        }
    }
    let mut parts = Vec::new();
    if !different.is_empty() {
        let most = 100.0 * NOISY;
        parts.push(format!(
            "the two halves of the run differ by more than {most:.0} %: {}",
            different.join(", ")
        ));
    }
    if !few.is_empty() {
        parts
            .push(format!("there are too few rounds without another thread on the core: {}", few.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Says which keys have no measured value.
fn left_out(missing: &[&Row]) -> String {
    let keys: Vec<String> = missing
        .iter()
        .filter(|row| !row.key.is_empty())
        .map(|row| format!("{}.{}", row.table, row.key))
        .collect();
    if keys.is_empty() { String::new() } else { format!("Not measured here: {}.\n", keys.join(", ")) }
}

/// Enters a quantity and its source into its table.
fn enter(document: &mut DocumentMut, row: &Row, host: &Host, measured: &Measurements) {
    let (Some(text), Some(found)) = (text(row, host, measured, document), measured.values.get(&row.quantity))
    else {
        return;
    };
    let name = if row.key.is_empty() { "check" } else { row.key };
    let line = format!(
        "{name} = {text}: {}; median {}, least {}, spread {:.1} %{}.",
        row.how,
        row.form.sample(found.median),
        row.form.sample(found.least),
        100.0 * found.spread,
        found.difference.map(|part| format!(", halves {:.1} %", 100.0 * part)).unwrap_or_default()
    );
    let table = table(document, row.table);
    match (row.key, text.parse::<i64>()) {
        ("", _) => {}
        (key, Ok(count)) => table[key] = value(count),
        (key, Err(_)) => table[key] = value(text),
    }
    let source = table.remove("source").and_then(|source| Some(source.as_str()?.to_owned()));
    let before = source.map(|source| source + "\n").unwrap_or_default();
    table["source"] = value(before + &line);
}

/// Returns the table of a path, which is made if there is none.
fn table<'d>(document: &'d mut DocumentMut, path: &str) -> &'d mut Table {
    path.split('.').fold(document.as_table_mut(), |table, name| {
        let below = table.entry(name).or_insert_with(|| {
            let mut table = Table::new();
            // Without a header of its own, unless it gets keys.
            table.set_implicit(true);
            Item::Table(table)
        });
        below.as_table_mut().expect("machine files have tables there")
    })
}

/// Returns what a machine file has for a quantity; none if it was not measured, or contradicts another one.
fn text(row: &Row, host: &Host, measured: &Measurements, document: &DocumentMut) -> Option<String> {
    let found = measured.value(row.quantity)?;
    let is_sound = match row.quantity {
        Quantity::Cycle
        | Quantity::FirstCache
        | Quantity::SecondCache
        | Quantity::ThirdCache
        | Quantity::Dram => latencies_grow(host, measured),
        Quantity::Window => {
            measured.value(Quantity::Width).is_some_and(|width| found.round() >= width.round())
        }
        Quantity::HostPages => host.is_guest,
        Quantity::RefreshEvery | Quantity::RefreshLasts | Quantity::RefreshSpread => refreshes_end(measured),
        _ => true,
    };
    is_sound.then_some(())?;
    Some(match row.form {
        Form::Count(most) => format!("{}", found.round().clamp(1.0, f64::from(most))),
        Form::BeyondFirstCache => {
            format!("{}", (found.round() - measured.value(Quantity::FirstCache)?.round()).clamp(0.0, 100.0))
        }
        Form::BeyondAddition => format!("{}", (found.round() - 1.0).clamp(0.0, 200.0)),
        Form::Cycles => format!("{} cycles", found.round().max(1.0)),
        Form::Nanoseconds => format!("{found:.1} ns"),
        Form::Frequency => format!("{:.0} MHz", 1e3 / found),
        Form::Bandwidth => format!("{:.0}MiB", (found * 1e9 / f64::from(1 << 20)).max(1.0)),
        Form::HostPages => {
            let is_small = found > measured.value(Quantity::SecondTlb)? / 2.0;
            if is_small { Pages::Small.text() } else { Pages::Large.text() }.to_owned()
        }
        Form::CacheBytes => {
            let ways = document.get("caches")?.get("l3")?.get("ways")?.as_integer()?;
            cache_size(found, ways)
        }
    })
}

/// Returns whether refreshes were measured, each ends well before the next, and the mean wait for one is a small part of a load, as machine files
/// demand.
fn refreshes_end(measured: &Measurements) -> bool {
    // The base machines' memory takes longer than that.
    let load = measured.value(Quantity::Dram).unwrap_or(f64::INFINITY).min(80.0);
    let refresh = measured.value(Quantity::RefreshEvery).zip(measured.value(Quantity::RefreshLasts));
    let spread = measured.value(Quantity::RefreshSpread);
    refresh.zip(spread).is_some_and(|((every, lasts), spread)| {
        let wait = lasts * lasts / (2.0 * every);
        lasts >= 1.0 && 1.1 * (lasts + spread) < every && every < 1e6 && wait < load / 2.0
    })
}

/// Returns whether all levels were measured, and each takes longer than the one before, in whole cycles, as machine files demand: noise
/// may say otherwise. The levels, and the cycle time that joins those of caches to that of DRAM, stand together: a measured one beside one
/// of the base machine may contradict it.
fn latencies_grow(host: &Host, measured: &Measurements) -> bool {
    let of_level = |level| match level {
        1 => Some(Quantity::FirstCache),
        2 => Some(Quantity::SecondCache),
        3 => Some(Quantity::ThirdCache),
        _ => None,
    };
    let cycles = |cache: &Cache| measured.value(of_level(cache.level)?);
    // A frequency in whole MHz makes the file's cycles a little longer or shorter.
    let dram = measured.value(Quantity::Dram).zip(measured.value(Quantity::Cycle));
    let dram = dram.map(|(ns, cycle)| (0.99 * ns / cycle).floor());
    let caches = host.caches.iter().map(|cache| cycles(cache).map(|cycles| cycles.round().max(1.0)));
    let levels: Option<Vec<f64>> = caches.chain([dram]).collect();
    // A computer that tells nothing of its caches has those of the base machine.
    !host.caches.is_empty() && levels.is_some_and(|levels| levels.is_sorted_by(|near, far| near < far))
}

impl Form {
    /// Returns a sample of a quantity as a reader wants it: more exactly than the file's value.
    fn sample(self, sample: f64) -> String {
        match self {
            Self::Count(_) => format!("{sample:.2}"),
            Self::Cycles | Self::BeyondFirstCache | Self::BeyondAddition | Self::HostPages => {
                format!("{sample:.1} cycles")
            }
            Self::Nanoseconds => format!("{sample:.1} ns"),
            Self::Frequency => format!("a cycle of {sample:.4} ns"),
            Self::CacheBytes => format!("{:.1} MiB", sample / f64::from(1 << 20)),
            Self::Bandwidth => format!("{sample:.1} GB/s"),
        }
    }
}
