//! Workload specs: `gups`, `gups-small`, `gups:table=64MiB,updates=4M`.

use crate::catalog::catalog;
use crate::entry::Entry;
use crate::source::Workload;
use crate::values::{SpecError, Values, nearest};

/// Reads the spec of a workload. `seed` holds unless the spec itself sets one.
pub(crate) fn parse(spec: &str, seed: u64) -> Result<Workload, SpecError> {
    let (name, pairs) = match spec.split_once(':') {
        Some((name, pairs)) => (name, Some(pairs)),
        None => (spec, None),
    };
    let (entry, mut values) = named(name, seed)?;
    let mut given: Vec<&str> = Vec::new();
    for pair in pairs.into_iter().flat_map(|pairs| pairs.split(',')) {
        let Some((key, value)) = pair.split_once('=') else {
            let first = &entry.parameters[0];
            return Err(SpecError::NotKeyValue {
                workload: entry.name,
                given: pair.to_owned(),
                example: format!("{}={}", first.name, first.default),
            });
        };
        if given.contains(&key) {
            return Err(SpecError::Repeated { workload: entry.name, key: key.to_owned() });
        }
        given.push(key);
        values.set(key, value)?;
    }
    let program =
        (entry.make)(&values).map_err(|problem| SpecError::Combination { workload: entry.name, problem })?;
    Ok(Workload::new(values.canonical(), program))
}

/// The workload or preset of a name, with its values.
fn named(name: &str, seed: u64) -> Result<(&'static Entry, Values), SpecError> {
    for entry in catalog() {
        let mut values = Values::defaults(entry, seed);
        if entry.name == name {
            return Ok((entry, values));
        }
        if let Some(preset) = entry.presets.iter().find(|p| p.name == name) {
            for (key, text) in preset.values {
                values.set(key, text)?;
            }
            return Ok((entry, values));
        }
    }
    let names =
        || catalog().iter().flat_map(|e| [e.name].into_iter().chain(e.presets.iter().map(|p| p.name)));
    Err(SpecError::UnknownWorkload {
        name: name.to_owned(),
        nearest: nearest(name, names()),
        allowed: names().collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use pagewalk_trace::Source;

    use super::*;

    fn error(spec: &str) -> String {
        match parse(spec, 0) {
            Ok(_) => panic!("`{spec}` was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_name_of_the_catalogue_is_a_spec_and_its_canonical_form_means_the_same() {
        for entry in catalog() {
            let presets = entry.presets.iter().map(|p| p.name);
            for name in presets.chain([entry.name]) {
                let canonical = parse(name, 42).unwrap().info().name;
                assert!(canonical.starts_with(&format!("{}:", entry.name)), "{canonical}");
                assert!(canonical.ends_with(",seed=42"), "{canonical}");
                // The canonical spec carries its seed; another default does not matter.
                assert_eq!(parse(&canonical, 7).unwrap().info().name, canonical);
            }
            // These have a paper's size by default, or there is none to repeat.
            let no_paper = ["quicksort", "assembler", "objects", "linear"].contains(&entry.name)
                || entry.phases == crate::jobs::PHASES;
            for suffix in if no_paper { &["small"][..] } else { &["small", "paper"] } {
                let name = format!("{}-{suffix}", entry.name);
                assert!(entry.presets.iter().any(|p| p.name == name), "no preset {name}");
            }
        }
    }

    #[test]
    fn values_override_presets_and_defaults() {
        let name = |spec| parse(spec, 1).unwrap().info().name;
        assert_eq!(
            name("gups:table=64MiB,updates=4M"),
            "gups:table=64MiB,updates=4M,pair=off,init=on,threads=1,seed=1"
        );
        assert_eq!(
            name("gups-paper:updates=1000k,seed=9"),
            "gups:table=8GiB,updates=1M,pair=on,init=on,threads=1,seed=9"
        );
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let text = error("gusp");
        assert!(
            text.starts_with("unknown workload `gusp` (did you mean `gups`?); there are graph500, "),
            "{text}"
        );
        assert!(!error("firefox").contains("did you mean"));
        assert_eq!(
            error("gups:tabel=64MiB"),
            "workload `gups` has no parameter `tabel` (did you mean `table`?); it has table, updates, pair, init, threads, seed"
        );
        assert_eq!(
            error("gups:table=64M"),
            "workload `gups`: table = `64M` is not a size from 4KiB to 1TiB, a power of two"
        );
        assert!(error("gups:table=96MiB").contains("a power of two"));
        assert_eq!(error("gups:pair=maybe"), "workload `gups`: pair = `maybe` is not off or on");
        assert_eq!(
            error("gups:updates"),
            "workload `gups`: `updates` is not of the form key=value, for example table=256MiB"
        );
        assert!(error("gups:").contains("not of the form"));
        assert_eq!(
            error("gups:updates=1k,updates=2k"),
            "workload `gups`: parameter `updates` is given twice"
        );
        assert!(error("gups:seed=-1").contains("seed = `-1` is not a whole number"));
        assert!(error("graph500:scale=30,edge-factor=64").contains("edges"));
    }
}
