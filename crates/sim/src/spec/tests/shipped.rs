//! Every machine that comes with the program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pagewalk_vm::addr::{Granule, PAGE_BYTES, PageSize};

use crate::spec::settings::{
    FaultSteps, HugePagePolicy, IcebergSpec, MemoryCopySpec, OnePageEntries, RunEntries, TableKind, TlbKind,
};
use crate::spec::table::{RadixSpec, TocSpec};
use crate::spec::{MachineSpec, builtin, builtin_names, load, load_all, parse, reference, show};

fn machines_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines")
}

fn sound(name: &str) -> MachineSpec {
    load(name).unwrap_or_else(|error| panic!("{name}:\n{error}"))
}

#[test]
fn each_file_of_the_folder_is_built_in() {
    let files: BTreeSet<String> = std::fs::read_dir(machines_dir())
        .expect("the folder of machines")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    assert_eq!(files, builtin_names().map(str::to_owned).collect());
    assert_eq!(builtin_names().len(), files.len(), "a machine is listed twice");
}

#[test]
fn each_loads_under_its_own_name_with_a_description() {
    for name in builtin_names() {
        let spec = sound(name);
        assert_eq!(spec.name, name);
        assert!(!spec.description.is_empty(), "{name}");
    }
    let names: Vec<&str> = builtin_names().collect();
    assert_eq!(load_all(&names).expect("all load").len(), names.len());
}

#[test]
fn each_is_the_same_as_a_file_and_as_shown() {
    for name in builtin_names() {
        let spec = sound(name);
        let path = machines_dir().join(format!("{name}.toml"));
        assert_eq!(load(path.to_str().expect("a plain path")).expect("the file loads"), spec, "{name}");
        let shown = show(name).expect("it shows");
        assert_eq!(
            parse(&shown, "shown.toml").unwrap_or_else(|error| panic!("{error}\n{shown}")),
            spec,
            "{name}"
        );
    }
}

#[test]
fn each_constant_of_a_base_has_a_source() {
    for machine in builtin::ALL.iter().filter(|machine| !machine.text.contains("extends")) {
        let shown = show(machine.name).expect("it shows");
        for section in ["\n[core]", "\n[kernel]", "\n[caches."] {
            let (before, _) =
                shown.rsplit_once(section).unwrap_or_else(|| panic!("{}: no {section}", machine.name));
            let above = before.lines().last().unwrap_or_default();
            assert!(above.starts_with("#   (machines/"), "{}: no source above {section}", machine.name);
        }
    }
}

#[test]
fn the_reference_machine_is_what_its_file_says() {
    let spec = sound("x86-64");
    assert_eq!(spec.core.cycle_ps, 333);
    assert_eq!(spec.translation.table, TableKind::from(RadixSpec { levels: 4, granule: Granule::Size4K }));
    assert_eq!(spec.translation.huge_pages, HugePagePolicy::Never);
    assert_eq!(tlb_sizes(&spec), [vec![(96, 6), (32, 4), (8, 8)], vec![(2048, 16), (16, 4)]]);
    assert_eq!(spec.translation.tlb[1].latency_ps, 7 * 333);
    let caches: Vec<(u64, u32)> =
        spec.hierarchy.caches.iter().map(|cache| (cache.bytes, cache.ways)).collect();
    assert_eq!(caches, [(48 << 10, 12), (2 << 20, 16), (30 << 20, 15)]);
    assert_eq!(spec.translation.walk_cache.expect("walk caches").entries, [4, 4, 32]);
    assert_eq!((spec.translation.walker.count, spec.translation.walker.enters), (4, 1));
}

/// Entries and ways of each TLB array, by level.
fn tlb_sizes(spec: &MachineSpec) -> Vec<Vec<(u32, u32)>> {
    let levels = spec.translation.tlb.iter();
    levels.map(|level| level.arrays.iter().map(|array| (array.entries, array.ways)).collect()).collect()
}

/// Those of `docs/processors.md`.
#[test]
fn real_processors_have_their_tlbs() {
    let expected = [
        ("sapphire-rapids", vec![(96, 6), (32, 4), (8, 8)], vec![(2048, 16), (1024, 8)]),
        ("zen3", vec![(64, 64)], vec![(2048, 16)]),
        ("zen4", vec![(72, 72)], vec![(3072, 24)]),
        ("neoverse-v2", vec![(48, 48)], vec![(2048, 8)]),
        ("apple-m1", vec![(160, 5)], vec![(3072, 12)]),
        ("riscv-sv57", vec![(64, 64)], vec![(1024, 1)]),
        ("riscv-sv39", vec![(16, 16), (1, 1)], vec![(1024, 4)]),
    ];
    for (name, first, second) in expected {
        assert_eq!(tlb_sizes(&sound(name)), [first, second], "{name}");
    }
}

/// A line about something that a file cannot say yet begins with the table where it will stand.
#[test]
fn what_is_not_expressed_yet_has_a_table() {
    for machine in builtin::ALL {
        for line in machine.text.lines().filter(|line| line.starts_with("# not expressed")) {
            assert!(line.starts_with("# not expressed yet: ["), "{}: {line}", machine.name);
        }
    }
}

#[test]
fn the_family_differs_from_its_base_in_the_named_point_only() {
    let base = sound("x86-64");
    let thp = sound("x86-64-thp");
    assert_eq!(thp.translation.huge_pages, HugePagePolicy::Always);
    assert_eq!(as_named(thp, &base, |spec| spec.translation.huge_pages = base.translation.huge_pages), base);

    let la57 = sound("x86-64-la57");
    assert_eq!(la57.translation.table, TableKind::from(RadixSpec { levels: 5, granule: Granule::Size4K }));
    let same = as_named(la57, &base, |spec| {
        spec.translation.table = base.translation.table.clone();
        spec.translation.walk_cache = base.translation.walk_cache.clone();
    });
    assert_eq!(same, base);

    for arity in [4, 8, 16, 32, 64] {
        let mosaic = sound(&format!("mosaic-{arity}"));
        for level in &mosaic.translation.tlb {
            assert_eq!(level.arrays[0].kind, TlbKind::from(RunEntries { arity }));
        }
        let IcebergSpec { shape, ordinary_bytes, .. } =
            mosaic.paging.frames.settings().expect("hash-placed frames");
        assert_eq!((shape.front, shape.back, shape.choices), (56, 8, 6));
        assert_eq!(shape.frames() * PAGE_BYTES + ordinary_bytes, base.paging.frames.memory_bytes());
        assert_eq!(mosaic.translation.table, TableKind::from(TocSpec));
        let same = as_named(mosaic, &base, |spec| {
            (spec.translation.table, spec.paging.frames) =
                (base.translation.table.clone(), base.paging.frames.clone());
            spec.paging.reclaim = None;
            for (level, base) in spec.translation.tlb.iter_mut().zip(&base.translation.tlb) {
                level.arrays[0].kind = base.arrays[0].kind.clone();
            }
        });
        assert_eq!(same, base);
    }
}

#[test]
fn the_papers_machines_have_one_tlb_of_1024_entries() {
    let plain = sound("gem5-plain");
    let expected = [
        ("gem5-plain", 8, None),
        ("gem5-plain-full", 1024, None),
        ("gem5-mosaic-4", 8, Some(4)),
        ("gem5-mosaic-8", 8, Some(8)),
        ("gem5-mosaic-16", 8, Some(16)),
        ("gem5-mosaic-32", 8, Some(32)),
        ("gem5-mosaic-64", 8, Some(64)),
        ("gem5-mosaic-4-full", 1024, Some(4)),
        ("gem5-mosaic-8-direct", 1, Some(8)),
    ];
    for (name, ways, arity) in expected {
        let spec = sound(name);
        let [level] = spec.translation.tlb.as_slice() else { panic!("{name} has one level") };
        let [array] = level.arrays.as_slice() else { panic!("{name} has one array") };
        assert_eq!((array.entries, array.ways), (1024, ways), "{name}");
        let kind = match arity {
            Some(arity) => TlbKind::from(RunEntries { arity }),
            None => TlbKind::from(OnePageEntries { pages: vec![PageSize::Size4K, PageSize::Size2M] }),
        };
        assert_eq!(array.kind, kind, "{name}");
        assert_eq!(
            as_named(spec.clone(), &plain, |spec| spec.translation.tlb = plain.translation.tlb.clone()),
            plain,
            "{name}"
        );
    }
}

/// `spec` after `undo`, under the name of `base`.
fn as_named(mut spec: MachineSpec, base: &MachineSpec, undo: impl FnOnce(&mut MachineSpec)) -> MachineSpec {
    undo(&mut spec);
    spec.name.clone_from(&base.name);
    spec.description.clone_from(&base.description);
    spec
}

#[test]
fn a_shown_machine_names_the_place_of_every_value() {
    insta::assert_snapshot!(show("mosaic-8").expect("it shows"));
}

#[test]
fn the_readme_holds_the_current_reference() {
    let path = machines_dir().join("README.md");
    let readme = std::fs::read_to_string(&path).expect("machines/README.md");
    let (head, rest) = readme.split_once("<!-- reference -->\n").expect("the reference's mark");
    let current = format!("{head}<!-- reference -->\n{}", reference());
    if std::env::var_os("PAGEWALK_BLESS").is_some() {
        std::fs::write(&path, current).expect("the README is written");
        return;
    }
    assert_eq!(rest, reference(), "run the test with PAGEWALK_BLESS=1 to write the reference anew");
    for name in builtin_names() {
        assert!(head.contains(&format!("`{name}`")), "machines/README.md does not mention {name}");
    }
}

/// The medians behind `linux-zram`, and the sum of Figure 17 behind `rocket-swap`.
#[test]
fn the_steps_of_a_fault_add_up_to_what_was_measured() {
    let steps = |spec: &MachineSpec| {
        let FaultSteps { trap_ps, find_ps, allocate_ps, request_ps, enter_ps, book_ps, .. } =
            spec.kernel.paging;
        (trap_ps, find_ps + allocate_ps + enter_ps + book_ps, request_ps)
    };
    assert_eq!(steps(&sound("rocket-swap")), (113_000, 4_808_000, 727_000));
    let zram = sound("linux-zram");
    let &MemoryCopySpec { out_ps, in_ps } = zram.paging.swap.kind.settings().expect("memory");
    let (trap_ps, processing_ps, request_ps) = steps(&zram);
    let fault_ps = trap_ps + processing_ps + request_ps + in_ps;
    assert_eq!(fault_ps, 5_100_000);
    assert_eq!(fault_ps + zram.kernel.paging.evict_ps + request_ps + out_ps, 12_300_000);
    assert_eq!(zram.kernel.minor_fault_ps + zram.kernel.zero_page_ps, 1_280_000);
    let accelerator = sound("rocket-accelerator").paging.accelerator.expect("an accelerator");
    assert_eq!((accelerator.detect_ps, accelerator.request_ps), (113_000, 244_000));
}
