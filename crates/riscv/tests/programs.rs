//! Bare-metal programs of `examples/riscv`, where there is a compiler for them: the same results with every device.

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;

use pagewalk_riscv::{Config, Counts, DeviceTimes, End, Host, Image, InProcess, Machine};
use pagewalk_vm::fault::Depths;

use crate::common::built;

/// What a program printed.
#[derive(Clone, Default)]
struct Printed(Rc<RefCell<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn run(program: &Path, depth: usize, times: DeviceTimes) -> (String, Counts) {
    let mut config = Config::default();
    config.times = times;
    run_with(program, depth, config)
}

fn run_with(program: &Path, depth: usize, mut config: Config) -> (String, Counts) {
    let image = Image::parse(&std::fs::read(program).expect("just built")).expect("an ELF file");
    let depths = Depths { free: depth, new: depth, evict: depth };
    (config.accelerator, config.memory) = (Some(depths), 16 << 20);
    let printed = Printed::default();
    let host = Host::new(Box::new(std::io::empty()), Box::new(printed.clone()), Box::new(std::io::sink()));
    let mut machine = Machine::new(&config, &image, Box::new(InProcess::new()), host).expect("a machine");
    let end = machine.run(2_000_000_000);
    assert_eq!(end, Some(End::Exit(0)), "{}, depth {depth}, {config:?}", program.display());
    let text = String::from_utf8(printed.0.borrow().clone()).expect("text");
    (text, machine.counts())
}

#[test]
fn programs_do_not_depend_on_how_deep_and_how_slow_the_device_is() {
    let Some(folder) = built() else { return };
    for program in ["selftest", "stress", "address"] {
        let path = folder.join(program).with_extension("elf");
        let (expected, usual) = run(&path, 64, DeviceTimes::default());
        assert!(expected.contains(program), "{expected}");
        for depth in [1, 2, 64, 256] {
            for (fetch, eviction) in [(0, 0), (4_000, 1), (10, 700)] {
                let (text, counts) = run(&path, depth, DeviceTimes { fetch, eviction });
                assert_eq!(text, expected, "depth {depth}");
                assert_eq!(counts.accelerator.fetches, usual.accelerator.fetches);
                assert!(counts.cycles >= counts.instructions + fetch * counts.accelerator.fetches);
            }
        }
    }
}

#[test]
fn runs_are_the_same_every_time() {
    let Some(folder) = built() else { return };
    let path = folder.join("quicksort.elf");
    let times = DeviceTimes { fetch: 1_000, eviction: 2_000 };
    let (text, counts) = run(&path, 64, times);
    assert!(text.starts_with("quicksort: sorted"), "{text}");
    assert_eq!(run(&path, 64, times), (text, counts));
}

#[test]
fn handlers_fence_what_they_have_made_good() {
    let Some(folder) = built() else { return };
    for program in ["selftest", "stress"] {
        let path = folder.join(program).with_extension("elf");
        let (expected, usual) = run(&path, 2, DeviceTimes::default());
        let mut config = Config::default();
        config.keeps_invalid = true;
        let (text, counts) = run_with(&path, 2, config);
        assert_eq!((text, counts.accelerator), (expected, usual.accelerator));
        assert_eq!(counts.walks.kept_invalid, 0, "{program}");
    }
}
