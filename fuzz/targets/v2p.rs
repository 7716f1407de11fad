//! Any text as the mapping beside a trace: by itself, and on a machine that runs the trace with it.
#![no_main]

use std::ops::ControlFlow;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pagewalk_sim::machine::{Detail, build};
use pagewalk_sim::spec::{self, MachineSpec};
use pagewalk_trace::foreign::parse_translations;
use pagewalk_trace::{Batch, Format, open};

static MACHINE: LazyLock<MachineSpec> = LazyLock::new(|| spec::load("x86-64").expect("a built-in machine"));

/// A header, its process, two loads and a footer.
fn trace() -> Vec<u8> {
    let entries: [(u16, u16, u64); 8] = [
        (25, 0, 7),
        (22, 0, 1),
        (24, 0, 1),
        (10, 4, 0x40_1000),
        (0, 8, 0x1000),
        (0, 8, 0x20_0000),
        (23, 0, 1),
        (26, 0, 0),
    ];
    let bytes = |(kind, size, value): (u16, u16, u64)| {
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
    };
    entries.into_iter().flat_map(bytes).collect()
}

fuzz_target!(|text: &str| {
    match parse_translations(text, "fuzz") {
        Ok(pages) => assert!(pages.iter().all(|page| {
            page.page_bytes.is_power_of_two() && (4 << 10..=1 << 30).contains(&page.page_bytes)
        })),
        Err(error) => {
            assert!(error.to_string().starts_with("fuzz: line "), "no place in `{error}`");
            return;
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("a.trace"), trace()).expect("room for it");
    std::fs::write(folder.path().join("v2p.textproto"), text).expect("room for it");
    let mut source = open(folder.path(), Format::Drmemtrace).expect("its text was read");
    let mut machine = build(&MACHINE, Detail::Counts, 1, &source.info()).expect("memory for a page table");
    let _ = source.run(&mut |batch: &mut Batch| {
        machine.batch(batch).expect("memory for two pages");
        ControlFlow::Continue(())
    });
});
