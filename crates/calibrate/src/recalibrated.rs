//! A machine file brought up to date with what moves on a shared host.

use toml_edit::{DocumentMut, TomlError, value};

use crate::measure::Glance;

/// Returns a machine file with the clock, the usable third cache and the latency of DRAM of a short look in place of its own. The file
/// has to be complete, as `pagewalk machines show` prints it: a cache without `ways` of its own keeps its size.
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
        memory.insert("latency", value(format!("{:.1} ns", glance.dram_ns)));
    }
    Ok(document.to_string())
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

    const GLANCE: Glance = Glance {
        cycle_ns: 0.32,
        third_cache_bytes: 5_100_000.0,
        chain_bytes: 4_500_000.0,
        third_cache_range: [4_000_000.0, 5_100_000.0],
        dram_ns: 200.04,
        additions: [4.0; 2],
    };

    #[test]
    fn what_moved_is_replaced_and_nothing_else() {
        let text = "name = \"m\"\n[core]\nfrequency = \"3 GHz\" # measured\nwidth = 6\n[caches.l3]\nsize = \"32MiB\"\nways = 16\n\
                    [memory]\nlatency = \"90 ns\"\n";
        let expected = "name = \"m\"\n[core]\nfrequency = \"3125 MHz\"\nwidth = 6\n[caches.l3]\nsize = \"5120KiB\"\nways = 16\n\
                        [memory]\nlatency = \"200.0 ns\"\n";
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
