//! `extends`: what is inherited, replaced and taken away, and where the base is found.

use std::path::PathBuf;

use super::{SOUND, refusal};
use crate::spec::settings::{Replacement, RunEntries, TlbKind};
use crate::spec::{MachineSpec, load, parse, show};

fn child(text: &str) -> MachineSpec {
    let text = format!("name = \"child\"\nextends = \"x86-64\"\n{text}");
    parse(&text, "child.toml").unwrap_or_else(|error| panic!("{error}"))
}

/// A folder with a sound base and files of the given names and texts.
fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, impl Fn(&str) -> String) {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).expect("a file");
    }
    let path: PathBuf = dir.path().to_owned();
    (dir, move |name| path.join(name).to_str().expect("a plain path").to_owned())
}

#[test]
fn keys_are_laid_over_the_base_one_by_one() {
    let base = load("x86-64").expect("it loads");
    let spec = child("[core]\ncount = 4\n[tlb.l1.split.small.set-associative]\nreplacement = \"fifo\"\n");
    assert_eq!(spec.core.count, 4);
    assert_eq!(spec.core.window, base.core.window);
    let array = &spec.translation.tlb[0].arrays[0];
    assert_eq!((array.entries, array.ways, array.replacement), (96, 6, Replacement::Fifo));
    assert_eq!(spec.translation.tlb[1], base.translation.tlb[1]);
    assert_eq!((spec.name.as_str(), spec.description.as_str()), ("child", ""));
}

#[test]
fn another_variant_replaces_the_bases_whole() {
    let spec = child("[tlb.l2.mosaic]\nentries = 512\nways = 8\narity = 4\n");
    assert_eq!(spec.translation.tlb[1].arrays.len(), 1);
    assert_eq!(spec.translation.tlb[1].arrays[0].kind, TlbKind::from(RunEntries { arity: 4 }));
    assert_eq!(
        spec.translation.tlb[1].latency_ps,
        load("x86-64").expect("it loads").translation.tlb[1].latency_ps
    );

    let lacks = "name = \"child\"\nextends = \"x86-64\"\n[tlb.l2.mosaic]\narity = 4\n";
    let report = refusal(lacks);
    assert!(report.contains("[tlb.l2.mosaic] lacks `entries`"), "{report}");
    assert!(report.contains("[tlb.l2.mosaic] lacks `ways`"), "{report}");
}

#[test]
fn none_takes_a_stage_away() {
    let base = load("x86-64").expect("it loads");
    let spec = child("walk-cache = \"none\"\ntlb.l2 = \"none\"\n[tlb.l1.split]\ngiant = \"none\"\n");
    assert_eq!(spec.translation.walk_cache, None);
    assert_eq!(spec.translation.tlb.len(), 1);
    assert_eq!(spec.translation.tlb[0].arrays, base.translation.tlb[0].arrays[..2]);
    assert!(child("tlb = \"none\"\ncaches = \"none\"\n").translation.tlb.is_empty());
    let bare = parse("name = \"bare\"\ntlb = \"none\"\n", "bare.toml").expect("none without a base");
    assert!(
        bare.translation.tlb.is_empty()
            && bare.hierarchy.caches.is_empty()
            && bare.translation.walk_cache.is_none()
    );
    let report = refusal("name = \"child\"\nextends = \"x86-64\"\n[tlb]\nl1 = \"none\"\n");
    assert!(report.contains("TLB level `l2` stands above no `l1`"), "{report}");
}

#[test]
fn a_mistake_shared_with_the_base_is_shown_in_the_child() {
    let report = refusal(
        "name = \"child\"\nextends = \"x86-64\"\n[tlb.l1.split.small.set-associative]\nentries = 100\n",
    );
    assert!(report.contains("TLB `l1.small`: 100 entries do not divide into 6 ways"), "{report}");
    assert!(report.contains("--> bad.toml:4:11"), "{report}");
    assert!(report.contains("`ways = 6` comes from machines/x86-64.toml:"), "{report}");
    let report = refusal("name = \"child\"\nextends = \"x86-64\"\n[table.radix]\nlevels = 5\n");
    assert!(report.contains("walk cache: 3 levels for a table of 5"), "{report}");
    assert!(report.contains("bad.toml:4"), "{report}");
}

#[test]
fn a_base_lies_beside_its_child_or_is_built_in() {
    let (_dir, path) = folder(&[
        ("base.toml", SOUND),
        ("by-name.toml", "name = \"a\"\nextends = \"base\"\n"),
        ("by-file.toml", "name = \"b\"\nextends = \"base.toml\"\n"),
        ("x86-64.toml", "name = \"mine\"\nextends = \"x86-64\"\n[core]\ncount = 2\n"),
        ("edited.toml", "name = \"c\"\nextends = \"mosaic-4\"\n"),
        ("mosaic-4.toml", SOUND),
    ]);
    let sound = load(path("base.toml")).expect("it loads");
    for name in ["by-name.toml", "by-file.toml"] {
        let spec = load(path(name)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(spec.translation.tlb, sound.translation.tlb);
        assert_eq!(parse(&show(path(name)).expect("it shows"), "shown").expect("it parses"), spec);
    }
    assert_eq!(load(path("x86-64.toml")).expect("refines the built-in of its own name").core.count, 2);
    assert_eq!(
        load(path("edited.toml")).expect("it loads").translation.tlb,
        sound.translation.tlb,
        "the file beside it comes first"
    );
}

#[test]
fn a_machine_extends_once() {
    let (_dir, path) = folder(&[
        ("self.toml", "name = \"a\"\nextends = \"self\"\n"),
        ("one.toml", "name = \"a\"\nextends = \"two\"\n"),
        ("two.toml", "name = \"b\"\nextends = \"one\"\n"),
        ("orphan.toml", "name = \"b\"\nextends = \"mosaik-4\"\n[core]\ncont = 1\n"),
        ("heir.toml", "name = \"b\"\nextends = \"broken\"\n"),
        ("broken.toml", "name = \"b\"\n[core]\ncount = 0\n"),
        ("unclosed.toml", "name = \"b\n"),
        ("heir2.toml", "name = \"b\"\nextends = \"unclosed\"\n"),
    ]);
    let report = |name: &str| load(path(name)).expect_err("refused").to_string();
    assert!(report("self.toml").contains("a machine cannot extend itself"), "{}", report("self.toml"));
    assert!(report("one.toml").contains("`two` itself extends another machine"), "{}", report("one.toml"));
    assert!(report("two.toml").contains("a machine extends once"), "{}", report("two.toml"));
    let orphan = report("orphan.toml");
    assert!(
        orphan.contains("did you mean `mosaic-4`?") && orphan.contains("did you mean `count`?"),
        "{orphan}"
    );
    assert!(report("heir.toml").contains("broken.toml:3:9"), "{}", report("heir.toml"));
    assert!(report("heir2.toml").contains("unclosed.toml:1"), "{}", report("heir2.toml"));
    let report = refusal("name = \"a\"\nextends = \"mosaic-4\"\n");
    assert!(report.contains("write extends = \"x86-64\" and repeat the keys of `mosaic-4`"), "{report}");
}
