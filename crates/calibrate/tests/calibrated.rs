//! Measurements of computers of several kinds become machine files that the simulator takes.

use std::collections::BTreeMap;
use std::fs;

use pagewalk_calibrate::{Cpuid, Host, Measured, Measurements, Quantity, Steadiness, calibrated_file};
use pagewalk_sim::spec::{self, MachineSpec};

/// A Zen 3 guest as its kernel shows it, with a third cache of so many ways.
fn host(third_ways: &str) -> Host {
    let root = tempfile::tempdir().expect("a folder");
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        fs::write(path, text).expect("written");
    };
    put(
        "proc/cpuinfo",
        "vendor_id: AuthenticAMD\ncpu family: 25\nmodel: 1\nmodel name: AMD EPYC\ncpu MHz: 2445.412\nflags: fpu hypervisor\n",
    );
    put("proc/meminfo", "MemTotal: 24563912 kB\n");
    let caches =
        [("1", "Data", "32K", "8"), ("2", "Unified", "512K", "8"), ("3", "Unified", "33792K", third_ways)];
    for (number, (level, kind, size, ways)) in caches.into_iter().enumerate() {
        let folder = format!("sys/devices/system/cpu/cpu0/cache/index{number}");
        put(&format!("{folder}/level"), level);
        put(&format!("{folder}/type"), kind);
        put(&format!("{folder}/size"), size);
        put(&format!("{folder}/ways_of_associativity"), ways);
    }
    Host::read(root.path(), &Cpuid::default()).expect("it describes itself")
}

/// What a quiet host of the reference machine's kind measures.
const QUIET: [(Quantity, f64); 47] = [
    (Quantity::Cycle, 0.3115),
    (Quantity::Width, 5.83),
    (Quantity::Window, 248.0),
    (Quantity::Registers, 196.0),
    (Quantity::VectorRegisters, 156.0),
    (Quantity::Outstanding, 18.9),
    (Quantity::Misprediction, 16.4),
    (Quantity::LoadUnits, 3.01),
    (Quantity::StoreUnits, 2.02),
    (Quantity::IntegerUnits, 3.96),
    (Quantity::MultiplyUnits, 1.01),
    (Quantity::FloatUnits, 2.02),
    (Quantity::VectorUnits, 4.0),
    (Quantity::VectorLoadUnits, 2.04),
    (Quantity::VectorStoreUnits, 1.02),
    (Quantity::ShiftUnits, 2.04),
    (Quantity::BranchUnits, 1.98),
    (Quantity::FloatMultiplyUnits, 2.04),
    (Quantity::ShuffleUnits, 2.04),
    (Quantity::CrossUnits, 1.02),
    (Quantity::ScaledLoad, 4.95),
    (Quantity::Foreseen, 1.97),
    (Quantity::Multiplication, 2.95),
    (Quantity::FloatAddition, 3.02),
    (Quantity::SecondTlb, 6.75),
    (Quantity::FirstTlbReach, 64.0),
    (Quantity::Walk, 84.0),
    (Quantity::FirstCache, 4.02),
    (Quantity::SecondCache, 12.1),
    (Quantity::ThirdCache, 53.2),
    (Quantity::ThirdCacheBytes, 12_100_000.0),
    (Quantity::HostPages, 6.6),
    (Quantity::Dram, 141.26),
    (Quantity::RefreshEvery, 1_400.0),
    (Quantity::RefreshLasts, 170.0),
    (Quantity::RefreshSpread, 230.0),
    (Quantity::ReadBandwidth, 16.04),
    (Quantity::WriteBandwidth, 12.5),
    (Quantity::MinorFault, 1_790.0),
    (Quantity::ZeroPage, 410.0),
    (Quantity::ZeroHugePage, 209_920.0),
    (Quantity::UnmapPage, 310.0),
    (Quantity::UnmapHugePage, 7_400.0),
    (Quantity::FileFault, 770.0),
    (Quantity::CopyPage, 540.0),
    (Quantity::ChangeMapping, 1_090.0),
    (Quantity::SystemCall, 230.0),
];

fn measured(values: &[(Quantity, f64)]) -> Measurements {
    let each = |&(quantity, value): &(Quantity, f64)| {
        (quantity, Measured { value, least: value, median: value, spread: 0.01, difference: Some(0.02) })
    };
    let values: BTreeMap<_, _> = values.iter().map(each).collect();
    Measurements { values, rounds: 30, ..Measurements::default() }
}

/// The file, and the machine that the simulator makes of it.
fn taken(host: &Host, measured: &Measurements) -> (String, MachineSpec) {
    let text = calibrated_file(host, "here", measured);
    let machine = spec::parse(&text, "here.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    (text, machine)
}

#[test]
fn every_quantity_reaches_the_parameter_that_it_is_for() {
    let (text, machine) = taken(&host("16"), &measured(&QUIET));
    let core = &machine.core;
    let dataflow = core.dataflow.as_ref().expect("a core that executes");
    assert_eq!((core.cycle_ps, core.width, core.window, core.outstanding), (312, 6, 248, 19), "{text}");
    assert_eq!(dataflow.misprediction, 16);
    let latencies = &dataflow.latencies;
    assert_eq!([latencies.foreseen_forward, latencies.multiply, latencies.float_add], [1, 3, 3]);
    let units = [dataflow.load_units, dataflow.store_units, dataflow.integer_units];
    assert_eq!(units, [3, 2, 4]);
    assert_eq!([dataflow.multiply_units, dataflow.float_units, dataflow.vector_units], [1, 2, 4]);
    let latencies: Vec<u64> =
        machine.hierarchy.caches.iter().map(|cache| cache.latency_ps / core.cycle_ps).collect();
    assert_eq!(latencies, [4, 12, 53]);
    assert_eq!(machine.hierarchy.caches[2].bytes, 12 << 20);
    assert_eq!(machine.hierarchy.memory.latency_ps, 141_300);
    let refresh =
        machine.hierarchy.memory.refresh.as_ref().map(|refresh| (refresh.every_ps, refresh.lasts_ps));
    assert_eq!(refresh, Some((1_400_000, 170_000)));
    assert_eq!(machine.hierarchy.memory.line_ps, Some(3_990), "64 bytes at 16.04 GB in a second");
    let kernel = &machine.kernel;
    let costs = [kernel.minor_fault_ps, kernel.zero_page_ps, kernel.zero_huge_page_ps];
    assert_eq!(costs, [1_790_000, 410_000, 209_920_000]);
    assert_eq!(kernel.system_call_ps, 230_000);
    assert_eq!([kernel.unmap_page_ps, kernel.unmap_huge_page_ps], [310_000, 7_400_000]);
    assert!(text.contains("latency = 7 cycles: a line of each of 512 pages"), "{text}");
    assert!(!text.contains("Not measured") && !text.contains("noisy"), "{text}");
    assert!(text.contains("description = \"AMD EPYC, in a virtual machine, measured\""), "{text}");
    assert!(text.contains("[host]"), "it is a guest as before: {text}");
    assert_eq!(pages_of_the_host(&machine).as_deref(), Some("4KiB"), "{text}");
}

fn pages_of_the_host(machine: &MachineSpec) -> Option<String> {
    machine.translation.host.as_ref().map(|host| host.pages.to_string())
}

#[test]
fn a_host_whose_pages_cost_nothing_within_huge_ones_has_huge_pages() {
    let mut other = measured(&QUIET);
    other.values.get_mut(&Quantity::HostPages).expect("measured").value = 0.2;
    let (text, machine) = taken(&host("16"), &other);
    assert_eq!(pages_of_the_host(&machine).as_deref(), Some("2MiB"), "{text}");
    let (text, machine) = taken(&Host { is_guest: false, ..host("16") }, &measured(&QUIET));
    assert!(machine.translation.host.is_none() && !text.contains("[host]"), "{text}");
}

#[test]
fn what_was_not_measured_is_said_and_stays_the_base_machines() {
    let only: Vec<_> = QUIET.into_iter().filter(|(quantity, _)| *quantity == Quantity::StoreUnits).collect();
    let partial = Measurements { is_partial: true, ..measured(&only) };
    let (text, machine) = taken(&host("16"), &partial);
    let base = spec::load("zen3").expect("it is built in");
    assert_eq!(machine.core.width, base.core.width);
    assert_eq!(machine.core.dataflow, base.core.dataflow);
    assert_eq!(machine.kernel, base.kernel);
    assert!(text.contains("Not measured here: core.frequency, core.width,"), "{text}");
    assert!(text.contains("measured in part") && text.contains("ended before everything"), "{text}");
    taken(&host("16"), &Measurements::default());
}

#[test]
fn values_that_the_halves_of_the_run_do_not_share_are_named() {
    let mut noisy = measured(&QUIET);
    noisy.steadiness = Steadiness { dram_moved: 0.26, shared: 0.4, ..Steadiness::default() };
    assert_eq!(noisy.imprecise().next(), None, "what was measured is the same in both halves");
    let differs = |noisy: &mut Measurements, quantity, difference| {
        noisy.values.get_mut(&quantity).expect("measured").difference = difference;
    };
    // Others have what they have of the third cache.
    differs(&mut noisy, Quantity::ThirdCacheBytes, Some(2.0));
    assert_eq!(noisy.imprecise().next(), None);
    differs(&mut noisy, Quantity::Walk, Some(0.11));
    differs(&mut noisy, Quantity::Dram, Some(0.13));
    differs(&mut noisy, Quantity::Window, None);
    let (text, _) = taken(&host("16"), &noisy);
    assert!(text.contains("measured on a noisy host: not all is precise"), "{text}");
    assert!(text.contains("the latency of DRAM by 26 %"), "{text}");
    let imprecise = "differ by more than 10 %: memory.latency (13 %), tlb.l2 (a walk whose entries are cached, on 4,096 pages) (11 %); \
                     there are too few rounds without another thread on the core: core.window.";
    assert!(text.contains(imprecise), "{text}");
    assert!(text.contains("spread 1.0 %, halves 11.0 %."), "{text}");
}

/// Each latency is to be longer than that of the level before; on a noisy host it may not be.
#[test]
fn latencies_that_contradict_one_another_are_left_out() {
    for (quantity, value) in
        [(Quantity::SecondCache, 3.9), (Quantity::ThirdCache, 12.2), (Quantity::Dram, 16.0)]
    {
        let mut odd = measured(&QUIET);
        odd.values.get_mut(&quantity).expect("measured").value = value;
        let (text, machine) = taken(&host("16"), &odd);
        assert!(
            text.contains("caches.l1.latency, caches.l2.latency, caches.l3.latency, memory.latency"),
            "{text}"
        );
        assert!(
            text.contains("core.frequency"),
            "the cycle joins times in cycles to those in seconds: {text}"
        );
        assert_eq!(machine.core.width, 6, "others stay");
    }
    let mut narrow = measured(&QUIET);
    narrow.values.get_mut(&Quantity::Window).expect("measured").value = 4.0;
    assert!(taken(&host("16"), &narrow).0.contains("Not measured here: core.window."));
}

/// Caches of Intel's servers have 11 ways, or 12 or 15.
#[test]
fn a_cache_of_any_number_of_ways_gets_a_size_that_they_divide() {
    for ways in [1, 11, 12, 16] {
        for bytes in [1.0, 1e6, 5_555_555.0, 33e6] {
            let mut some = measured(&QUIET);
            some.values.get_mut(&Quantity::ThirdCacheBytes).expect("measured").value = bytes;
            let (_, machine) = taken(&host(&ways.to_string()), &some);
            let found = machine.hierarchy.caches[2].bytes as f64;
            assert!((found - bytes).abs() <= 65_536.0 * f64::from(ways), "{ways} ways, {bytes}: {found}");
        }
    }
    // A cache whose ways the kernel does not tell stays the base machine's.
    let (text, machine) = taken(&host("0"), &measured(&QUIET));
    assert!(text.contains("Not measured here: caches.l3.size."), "{text}");
    assert_eq!(machine.hierarchy.caches[2].bytes, 32 << 20);
}

/// Any part of the quantities, with any values: a run may be ended between two probes, on a host that stops it for a while.
#[test]
fn whatever_is_measured_is_a_machine() {
    let mut state = 7_u64;
    let mut drawn = |of: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % of
    };
    for round in 0..200 {
        let mut some = Vec::new();
        for (quantity, usual) in QUIET {
            // The first rounds have all of them.
            if round >= 40 && drawn(2) == 0 {
                continue;
            }
            let value = match quantity {
                // A processor of 50 MHz is a stopped one.
                Quantity::Cycle => usual * [0.3, 1.0, 2.0, 10.0, 60.0][drawn(5)],
                _ => [1e-3, 0.4, 1.0, 3.0, 63.0, 900.0][drawn(6)],
            };
            some.push((quantity, value));
        }
        let text = calibrated_file(&host("16"), "here", &measured(&some));
        if let Err(error) = spec::parse(&text, "here.toml") {
            panic!("{error}\n{text}");
        }
    }
}

/// One level that was measured while the host stood still, beside the base machine's others.
#[test]
fn levels_that_were_measured_in_part_are_left_out() {
    let (text, machine) =
        taken(&host("16"), &measured(&[(Quantity::Cycle, 0.3115), (Quantity::FirstCache, 28.0)]));
    assert!(text.contains("caches.l1.latency") && !text.contains("28 cycles"), "{text}");
    assert_eq!(machine.hierarchy.caches[0].latency_ps / machine.core.cycle_ps, 4);
}
