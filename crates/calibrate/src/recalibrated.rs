//! A machine file brought up to date with what moves on a shared host.

use toml_edit::{DocumentMut, Item, TomlError, value};

use crate::measure::Glance;

/// Returns a machine file with the clock, the usable third cache, the latency of DRAM and the times of page faults of a short look in place of
/// its own. The file has to be complete, as `pagewalk machines show` prints it: a cache without `ways` of its own keeps its size, and a fault
/// has no times that the file does not have.
///
/// # Errors
///
/// The text is not TOML.
pub fn recalibrated(text: &str, glance: &Glance) -> Result<String, TomlError> {
    let mut document: DocumentMut = text.parse()?;
    let core = document.get_mut("core").and_then(|core| core.as_table_like_mut());
    if let Some(core) = core {
        core.insert("frequency", value(format!("{:.0} MHz", 1e3 / glance.cycle_ns)));
    }
    let caches = document.get_mut("caches").and_then(|caches| caches.get_mut("l3"));
    if let Some(third) = caches.and_then(|third| third.as_table_like_mut())
        && let Some(ways) = third.get("ways").and_then(|ways| ways.as_integer())
    {
        third.insert("size", value(cache_size(glance.third_cache_bytes, ways)));
    }
    if let Some(memory) = document.get_mut("memory").and_then(|memory| memory.as_table_like_mut()) {
        memory.insert("latency", nanoseconds(glance.dram_ns));
    }
    let kernel = document.get_mut("kernel").and_then(|kernel| kernel.as_table_like_mut());
    if let Some((kernel, faults)) = kernel.zip(glance.faults) {
        for (key, ns) in [
            ("minor-fault", faults.minor_ns),
            ("zero-page", faults.zero_ns),
            ("zero-huge-page", faults.zero_huge_ns()),
            ("unmap-page", faults.unmap_ns),
            ("unmap-huge-page", faults.unmap_huge_ns),
        ] {
            if let Some(own) = kernel.get_mut(key) {
                *own = nanoseconds(ns);
            }
        }
    }
    Ok(document.to_string())
}

fn nanoseconds(ns: f64) -> Item {
    value(format!("{ns:.1} ns"))
}

/// Returns the size of a cache with so many ways that is nearest to so many bytes, at least 1 KiB a way of 16.
pub(crate) fn cache_size(bytes: f64, ways: i64) -> String {
    // Sets of 64-byte lines in steps of 1,024.
    let unit = 64 * ways.max(1);
    format!("{}KiB", unit * (bytes / (1024 * unit) as f64).round().max(1.0) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::FaultTimes;

    const GLANCE: Glance = Glance {
        cycle_ns: 0.32,
        third_cache_bytes: 5_100_000.0,
        chain_bytes: 4_500_000.0,
        third_cache_range: [4_000_000.0, 5_100_000.0],
        dram_ns: 200.04,
        faults: Some(FaultTimes {
            minor_ns: 1_100.0,
            zero_ns: 90.5,
            unmap_ns: 200.0,
            unmap_huge_ns: 5_000.0,
        }),
        additions: [4.0; 2],
    };

    #[test]
    fn what_moved_is_replaced_and_nothing_else() {
        let text = "name = \"m\"\n[core]\nfrequency = \"3 GHz\" # measured\nwidth = 6\n[caches.l3]\nsize = \"32MiB\"\nways = 16\n\
                    [memory]\nlatency = \"90 ns\"\n[kernel]\nminor-fault = \"1 us\"\nzero-page = \"80 ns\"\nzero-huge-page = \"40 us\"\n\
                    system-call = \"160 ns\"\n";
        let expected = "name = \"m\"\n[core]\nfrequency = \"3125 MHz\"\nwidth = 6\n[caches.l3]\nsize = \"5120KiB\"\nways = 16\n\
                        [memory]\nlatency = \"200.0 ns\"\n[kernel]\nminor-fault = \"1100.0 ns\"\nzero-page = \"90.5 ns\"\n\
                        zero-huge-page = \"46336.0 ns\"\nsystem-call = \"160 ns\"\n";
        let found = recalibrated(text, &GLANCE).expect("TOML");
        assert_eq!(found.replace(" # measured", ""), expected);
    }

    #[test]
    fn a_machine_without_a_third_cache_gets_none() {
        assert_eq!(
            recalibrated("[caches]\nl3 = \"none\"\n", &GLANCE).expect("TOML"),
            "[caches]\nl3 = \"none\"\n"
        );
        assert!(recalibrated("[", &GLANCE).is_err());
    }
}
