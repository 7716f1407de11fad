//! What this computer's kernel says of it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cpuid::Cpuid;
use crate::tlbs::Tlbs;

/// The most levels of caches, and the most folders that are looked at for them.
const MOST_CACHES: usize = 16;
/// The sizes of blocks of pages that are smaller than 2 MiB.
const BLOCKS: usize = 9;

/// The processor, as `/proc/cpuinfo` names it; an empty text, or 0, is what it does not say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Processor {
    /// The name that it gives itself.
    pub name: String,
    /// The vendor (x86-64), or the implementer's number (Arm).
    pub vendor: String,
    /// The family (x86-64).
    pub family: u32,
    /// The model (x86-64), or the part's number (Arm).
    pub model: u32,
    /// The mode of address translation (RISC-V).
    pub mmu: String,
}

/// A level of data caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cache {
    /// The number of the level, 1 for the nearest.
    pub level: u32,
    /// The size in bytes.
    pub bytes: u64,
    /// The number of ways, if it is known.
    pub ways: Option<u32>,
}

/// A computer, as far as it describes itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The processor, by its own description.
    pub processor: Processor,
    /// The caches for data, the nearest first; empty if the kernel does not show them.
    pub caches: Vec<Cache>,
    /// The TLBs for data; none if the processor does not describe them.
    pub tlbs: Option<Tlbs>,
    /// The highest frequency in kHz, and the file that gives it.
    pub frequency: Option<(u64, &'static str)>,
    /// The memory in bytes, without what the kernel keeps for itself.
    pub memory_bytes: u64,
    /// The kernel's rule for transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// The free blocks of 4, 8, 16 KiB and so on below 2 MiB, if its pages have 4 KiB and the kernel tells.
    pub free_blocks: Option<[u32; BLOCKS]>,
    /// Whether it is a virtual machine.
    pub is_guest: bool,
}

/// The reason why a computer cannot be described.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The system's reason for that.
        reason: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {what}", path.display())]
    Content {
        /// The path of the file.
        path: PathBuf,
        /// A sentence on what is missing.
        what: &'static str,
    },
}

const MAX_FREQUENCY: &str = "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
const CPUINFO: &str = "proc/cpuinfo";

impl Host {
    /// Reads the description of a computer whose file system begins at `root` (`/` for this one), and whose processor answers so.
    ///
    /// # Errors
    ///
    /// If `/proc/cpuinfo` or `/proc/meminfo` cannot be read, or the latter does not say how much memory there is.
    pub fn read(root: &Path, cpuid: &Cpuid) -> Result<Self, HostError> {
        let cpuinfo = read(root, CPUINFO)?;
        let field = |name| field(&cpuinfo, name);
        let number = |name| field(name).and_then(integer).unwrap_or(0);
        let text = |name| field(name).unwrap_or_default().to_owned();
        let is_x86 = field("vendor_id").is_some();
        let processor = Processor {
            name: field("model name").or_else(|| field("uarch")).unwrap_or_default().to_owned(),
            vendor: if is_x86 { text("vendor_id") } else { text("CPU implementer") },
            family: number("cpu family"),
            model: if is_x86 { number("model") } else { number("CPU part") },
            mmu: text("mmu"),
        };
        let meminfo = read(root, "proc/meminfo")?;
        let memory =
            self::field(&meminfo, "MemTotal").and_then(|text| text.strip_suffix(" kB")?.trim().parse().ok());
        let no_memory =
            || HostError::Content { path: root.join("proc/meminfo"), what: "no line `MemTotal: ... kB`" };
        let memory_kib: u64 = memory.filter(|&kib| kib > 0).ok_or_else(no_memory)?;
        let has_flag = |flag| field("flags").is_some_and(|flags| flags.split(' ').any(|word| word == flag));
        Ok(Self {
            processor,
            caches: caches(root),
            tlbs: Tlbs::of(cpuid),
            frequency: frequency(root, &cpuinfo),
            memory_bytes: memory_kib.saturating_mul(1024),
            huge_pages: huge_pages(root),
            // Pages of Arm may be larger.
            free_blocks: field("CPU implementer").is_none().then(|| free_blocks(root)).flatten(),
            is_guest: has_flag("hypervisor"),
        })
    }
}

fn read(root: &Path, file: &str) -> Result<String, HostError> {
    let path = root.join(file);
    match fs::read(&path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(reason) => Err(HostError::Read { path, reason }),
    }
}

/// Returns the value of the first line `name : value`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name);
    line.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
}

/// A decimal number, or a hexadecimal one behind `0x`.
fn integer(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The highest frequency, or what the kernel takes for the processor's nominal one.
fn frequency(root: &Path, cpuinfo: &str) -> Option<(u64, &'static str)> {
    let highest = read(root, MAX_FREQUENCY).ok().and_then(|text| text.trim().parse().ok());
    let nominal = || {
        let (mhz, rest) = field(cpuinfo, "cpu MHz")?.split_once('.')?;
        let khz = rest.get(..3)?.parse::<u64>().ok()?;
        mhz.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(khz)
    };
    let found = highest.map(|khz| (khz, MAX_FREQUENCY)).or_else(|| Some((nominal()?, CPUINFO)));
    // What machine files take.
    found.filter(|&(khz, _)| (10_000..=20_000_000).contains(&khz))
}

/// The caches for data of the first processor.
fn caches(root: &Path) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for number in 0..MOST_CACHES {
        let folder = format!("sys/devices/system/cpu/cpu0/cache/index{number}");
        let text =
            |name: &str| read(root, &format!("{folder}/{name}")).ok().map(|text| text.trim().to_owned());
        let (Some(kind), Some(level), Some(size)) = (text("type"), text("level"), text("size")) else {
            continue;
        };
        if kind == "Instruction" {
            continue;
        }
        let (Ok(level), Some(bytes)) = (level.parse(), size_bytes(&size)) else { continue };
        let ways = text("ways_of_associativity").and_then(|ways| ways.parse().ok());
        // The kernel writes 0 for what it does not know.
        caches.push(Cache { level, bytes, ways: ways.filter(|&ways| ways > 0) });
    }
    caches.sort_by_key(|cache| cache.level);
    caches.dedup_by_key(|cache| cache.level);
    caches
}

fn size_bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix(['K', 'M']) {
        Some(number) if text.ends_with('K') => (number, 1 << 10),
        Some(number) => (number, 1 << 20),
        None => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|&bytes| bytes > 0)
}

fn huge_pages(root: &Path) -> Option<String> {
    let text = read(root, "sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    ["always", "madvise", "never"].contains(&word).then(|| word.to_owned())
}

/// Returns the free blocks of each size below 2 MiB, from pages of 4 KiB on. Programs' pages come from those for movable pages, which only
/// the administrator is told of; elsewhere all count.
fn free_blocks(root: &Path) -> Option<[u32; BLOCKS]> {
    // `Node    0, zone   Normal, type      Movable`, or `Node 0, zone   Normal`, and the number of free blocks by order.
    let movable = read(root, "proc/pagetypeinfo").ok();
    let movable = movable.and_then(|text| free_blocks_of(&text, "Movable"));
    movable.or_else(|| free_blocks_of(&read(root, "proc/buddyinfo").ok()?, "zone"))
}

/// Returns the sums of the counts in all lines that have such a word; none without such lines.
fn free_blocks_of(text: &str, word: &str) -> Option<[u32; BLOCKS]> {
    // The kernel writes `>100000` of more.
    let count = |word: &str| word.trim_start_matches('>').parse::<u32>().ok();
    let mut sums = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let names = words.iter().rposition(|word| count(word).is_none()).map_or(0, |last| last + 1);
        let (names, counts) = words.split_at(names);
        if counts.len() < BLOCKS || !names.contains(&word) {
            continue;
        }
        let sums = sums.get_or_insert([0u32; BLOCKS]);
        for (sum, count) in sums.iter_mut().zip(counts.iter().filter_map(|word| count(word))) {
            *sum = sum.saturating_add(count);
        }
    }
    sums
}
