//! The machine file of a computer.

use std::fmt::Write;
use std::ops::RangeInclusive;

use crate::host::{Cache, Host, Processor};
use crate::tlbs::{Array, Pages};

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
/// The levels of caches that a machine file may have, and those that built-in machines have.
const CACHE_LEVELS: u32 = 4;
const BASE_LEVELS: u32 = 3;

/// Returns the machine file of a computer, with this name: what the computer says of itself, over the built-in machine that is
/// nearest to it, and where each value is from.
pub fn machine_file(host: &Host, name: &str) -> String {
    let base = base(&host.processor);
    let mut out = String::new();
    let described = match host.processor.name.as_str() {
        "" => "this computer's processor",
        name => name,
    };
    let guest = if host.is_guest { ", in a virtual machine" } else { "" };
    line(&mut out, format_args!("name = {}", quoted(name)));
    line(
        &mut out,
        format_args!("description = {}", quoted(&format!("{described}{guest}, as it describes itself"))),
    );
    line(&mut out, format_args!("extends = {}", quoted(base)));
    line(&mut out, format_args!("source = \"\"\""));
    line(
        &mut out,
        format_args!(
            "What the processor and the kernel say. Values that do not stand here are those of {base}: widths, walk"
        ),
    );
    line(
        &mut out,
        format_args!(
            "caches, walkers, all latencies and the kernel's costs are not known without measuring.\"\"\""
        ),
    );
    frequency(&mut out, host);
    tlbs(&mut out, host);
    caches(&mut out, &host.caches);
    memory(&mut out, host);
    if host.is_guest {
        guest_of(&mut out);
    }
    out
}

/// Returns the built-in machine that is nearest to a processor.
fn base(processor: &Processor) -> &'static str {
    /// Golden Cove and Raptor Cove in servers.
    const SAPPHIRE_RAPIDS: [u32; 2] = [0x8f, 0xcf];
    /// Models of family 19h with Zen 3 cores: servers, desktops, notebooks. The others have Zen 4.
    const ZEN_3: [RangeInclusive<u32>; 2] = [0x00..=0x0f, 0x20..=0x5f];
    match (processor.vendor.as_str(), processor.family, processor.mmu.as_str()) {
        ("AuthenticAMD", 0x19, _) if ZEN_3.iter().any(|models| models.contains(&processor.model)) => "zen3",
        ("AuthenticAMD", 0x17.., _) | ("HygonGenuine", ..) => "zen4",
        ("GenuineIntel", 6, _) if SAPPHIRE_RAPIDS.contains(&processor.model) => "sapphire-rapids",
        (vendor, ..) if vendor.starts_with("0x") => "neoverse-v2",
        (.., "sv57") => "riscv-sv57",
        (.., mmu) if mmu.starts_with("sv") => "riscv-sv39",
        _ => "x86-64",
    }
}

fn frequency(out: &mut String, host: &Host) {
    let Some((khz, file)) = host.frequency else { return };
    header(out, "core");
    match khz.is_multiple_of(1000) {
        true => line(out, format_args!("frequency = \"{} MHz\"", khz / 1000)),
        false => line(out, format_args!("frequency = \"{}.{:03} MHz\"", khz / 1000, khz % 1000)),
    }
    let meaning = if file.ends_with("cpuinfo") {
        "the nominal frequency; a core may run faster"
    } else {
        "the highest"
    };
    line(out, format_args!("source = \"/{file}: {meaning}\""));
}

fn tlbs(out: &mut String, host: &Host) {
    let levels = host.tlbs.iter().flat_map(|tlbs| &tlbs.levels);
    for (arrays, number) in levels.zip(1..) {
        let path = format!("tlb.l{number}");
        header(out, &path);
        line(
            out,
            format_args!("source = \"CPUID. How entries are replaced it does not say: lru is assumed\""),
        );
        match arrays.as_slice() {
            [array] => self::array(out, &format!("{path}.set-associative"), array),
            arrays => split(out, &path, arrays),
        }
    }
}

/// Several arrays, under the names that built-in machines have for theirs; those of the base that this computer does not have go.
fn split(out: &mut String, path: &str, arrays: &[Array]) {
    let name = |array: &Array| match array.pages[..] {
        [Pages::Small] => "small",
        [Pages::Large] => "huge",
        [Pages::Giant] => "giant",
        _ => "shared",
    };
    header(out, &format!("{path}.split"));
    for unused in ["small", "huge", "giant", "shared"] {
        if !arrays.iter().any(|array| name(array) == unused) {
            line(out, format_args!("{unused} = \"none\""));
        }
    }
    for array in arrays {
        self::array(out, &format!("{path}.split.{}.set-associative", name(array)), array);
    }
}

fn array(out: &mut String, path: &str, array: &Array) {
    header(out, path);
    line(out, format_args!("entries = {}", array.entries));
    match array.ways {
        Some(ways) => line(out, format_args!("ways = {ways}")),
        None => line(out, format_args!("ways = \"full\"")),
    }
    line(out, format_args!("replacement = \"lru\""));
    let pages: Vec<_> = array.pages.iter().map(|size| quoted(size.text())).collect();
    line(out, format_args!("pages = [{}]", pages.join(", ")));
}

fn caches(out: &mut String, caches: &[Cache]) {
    let Some(last) = caches.last() else { return };
    line(
        out,
        format_args!(
            "\n# Each is the whole cache, of which other cores and, in a virtual machine, its neighbours have a part."
        ),
    );
    line(out, format_args!("[caches]"));
    (last.level + 1..=BASE_LEVELS).for_each(|level| line(out, format_args!("l{level} = \"none\"")));
    caches.iter().for_each(|cache| self::cache(out, cache));
}

fn cache(out: &mut String, cache: &Cache) {
    let Cache { level, bytes, ways } = *cache;
    // Ways that do not divide the size would be refused.
    let Some(ways) = ways.filter(|&ways| level <= CACHE_LEVELS && bytes.is_multiple_of(u64::from(ways) * 64))
    else {
        line(
            out,
            format_args!(
                "\n# left out: a cache of level {level} with {} KiB, whose ways are not known",
                bytes / KIB
            ),
        );
        return;
    };
    header(out, &format!("caches.l{level}"));
    line(out, format_args!("size = \"{}KiB\"", bytes / KIB));
    line(out, format_args!("ways = {ways}"));
    line(out, format_args!("source = \"/sys/devices/system/cpu/cpu0/cache\""));
}

fn memory(out: &mut String, host: &Host) {
    header(out, "frames.buddy");
    line(out, format_args!("memory = \"{}GiB\"", host.memory_bytes.div_ceil(GIB)));
    let mut source = "/proc/meminfo, with what the kernel keeps: the next whole GiB".to_owned();
    if let Some(counts) = host.free_blocks {
        line(out, format_args!("free-blocks = {counts:?}"));
        line(out, format_args!("choice = \"any\""));
        source += ". /proc/pagetypeinfo, of movable pages, or /proc/buddyinfo: free blocks below 2 MiB";
    }
    line(out, format_args!("source = {}", quoted(&source)));
    // A machine without entries for huge pages must not have any.
    let mut arrays = host.tlbs.iter().flat_map(|tlbs| tlbs.levels.iter().flatten());
    let has_entries = host.tlbs.is_none() || arrays.any(|array| array.pages.contains(&Pages::Large));
    if let Some(rule) = host.huge_pages.as_ref().filter(|_| has_entries) {
        header(out, "huge-pages");
        line(out, format_args!("transparent = {}", quoted(rule)));
        line(out, format_args!("source = \"/sys/kernel/mm/transparent_hugepage/enabled\""));
    }
    header(out, "kernel");
    line(out, format_args!("fault-around = \"64KiB\""));
    line(out, format_args!("first-stores = \"fault\""));
    line(out, format_args!("writes = \"cached\""));
    line(out, format_args!("source = \"Linux, mm/memory.c: fault_around_bytes, do_anonymous_page\""));
}

/// The host of a virtual machine, of which the machine sees nothing.
fn guest_of(out: &mut String) {
    header(out, "host");
    line(out, format_args!("levels = 4"));
    line(out, format_args!("pages = \"2MiB\""));
    line(out, format_args!("given = \"before\""));
    line(out, format_args!("tlb = 32"));
    line(out, format_args!("walk-cache = [4, 4, 32]"));
    line(
        out,
        format_args!(
            "source = \"A flag of the processor says that this is a virtual machine. Its host shows nothing: its pages are assumed, the rest as in x86-64-guest. It has given them, because this computer has run for some time\""
        ),
    );
}

fn header(out: &mut String, path: &str) {
    line(out, format_args!("\n[{path}]"));
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string");
}

/// A TOML string of a text, which names of processors come from: what TOML does not take is left out.
fn quoted(text: &str) -> String {
    let plain = text.chars().filter(|&letter| !letter.is_control());
    let escaped =
        plain.flat_map(|letter| matches!(letter, '"' | '\\').then_some('\\').into_iter().chain([letter]));
    format!("\"{}\"", escaped.collect::<String>())
}
