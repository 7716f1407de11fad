//! Computers of several kinds, as their kernels show them, become machine files that the simulator takes.

use std::fs;
use std::path::Path;

use pagewalk_calibrate::{Cpuid, Host, HostError, machine_file};
use pagewalk_sim::spec;

const AMD: ((u32, u32), [u32; 4]) = ((0, 0), [0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65]);
const INTEL: ((u32, u32), [u32; 4]) = ((0, 0), [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]);
const MEMINFO: &str = "MemTotal:       24563912 kB\nMemFree:         1163912 kB\n";

/// Level, type, size and ways of a cache.
type Shown = (u32, &'static str, &'static str, &'static str);

fn host(cpuinfo: &str, caches: &[Shown], other: &[(&str, &str)], cpuid: &Cpuid) -> Result<Host, HostError> {
    let root = tempfile::tempdir().expect("a folder");
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        fs::write(path, text).expect("written");
    };
    put("proc/cpuinfo", cpuinfo);
    put("proc/meminfo", MEMINFO);
    for (number, (level, kind, size, ways)) in caches.iter().enumerate() {
        let folder = format!("sys/devices/system/cpu/cpu0/cache/index{number}");
        put(&format!("{folder}/level"), &format!("{level}\n"));
        put(&format!("{folder}/type"), &format!("{kind}\n"));
        put(&format!("{folder}/size"), &format!("{size}\n"));
        put(&format!("{folder}/ways_of_associativity"), &format!("{ways}\n"));
    }
    other.iter().for_each(|(path, text)| put(path, text));
    Host::read(root.path(), cpuid)
}

/// The file of a computer, which the simulator has taken.
fn taken(host: &Host) -> String {
    let text = machine_file(host, "here");
    let machine = spec::parse(&text, "here.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(machine.name, "here");
    text
}

const ZEN3: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n\
                    cpu MHz\t\t: 2445.412\nflags\t\t: fpu vme hypervisor lahf_lm\n";
const ZEN3_CACHES: [Shown; 4] = [
    (1, "Data", "32K", "8"),
    (1, "Instruction", "32K", "8"),
    (2, "Unified", "512K", "8"),
    (3, "Unified", "32768K", "16"),
];

fn zen3() -> Host {
    let cpuid = [
        AMD,
        ((0x8000_0005, 0), [0xff40_ff40, 0xff40_ff40, 0, 0]),
        ((0x8000_0006, 0), [0x4800_2200, 0x6800_4200, 0, 0]),
        ((0x8000_0019, 0), [0xf040_f040, 0, 0, 0]),
    ];
    let rule = ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    // Of 4,096 free pages, 256 + 256 lie in blocks of less than 2 MiB.
    let free = (
        "proc/buddyinfo",
        "Node 0, zone      DMA    256      0      0      0      0      0      0      0      0      1      1\n\
         Node 0, zone   Normal      0      0      0      0      0      0      0      0      1      0      2\n",
    );
    host(ZEN3, &ZEN3_CACHES, &[rule, free], &cpuid.into_iter().collect()).expect("it describes itself")
}

#[test]
fn free_blocks_are_those_of_movable_pages_where_the_kernel_tells() {
    let all = (
        "proc/buddyinfo",
        "Node 0, zone   Normal      9      9      9      9      9      9      9      9      9      9      9\n",
    );
    let types = (
        "proc/pagetypeinfo",
        "Free pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10\n\
         Node    0, zone    DMA32, type      Movable      1      1      4      2      5      4      3      3      4      2    752\n\
         Node    0, zone   Normal, type    Unmovable    543    947    570    379     86    193    103     57     15      0      0\n\
         Node    0, zone   Normal, type      Movable >100000   1340   2075   2330   1232    735    469    404    243    223    818\n\
         Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic      Isolate\n\
         Node 0, zone   Normal          106         2603          171            0            0\n",
    );
    let free_blocks = |files: &[(&str, &str)]| {
        host(ZEN3, &ZEN3_CACHES, files, &Cpuid::default()).expect("it describes itself").free_blocks
    };
    assert_eq!(free_blocks(&[all, types]), Some([100_001, 1341, 2079, 2332, 1237, 739, 472, 407, 247]));
    assert_eq!(free_blocks(&[all]), Some([9; 9]));
    assert_eq!(free_blocks(&[("proc/buddyinfo", "Node 0, zone Normal 1 2\n")]), None);
    assert_eq!(free_blocks(&[]), None);
}

#[test]
fn a_virtual_machine_on_zen_3_is_written_in_full() {
    let text = taken(&zen3());
    assert_eq!(text, include_str!("zen3-guest.toml"), "\n{text}");
}

#[test]
fn a_skylake_has_the_frequency_and_the_arrays_that_it_says() {
    let cpuinfo = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 94\nmodel name\t: Intel(R) Core(TM) \"i7\"\n\
                   cpu MHz\t\t: 800.000\nflags\t\t: fpu\n";
    let caches = [(1, "Data", "32K", "8"), (2, "Unified", "256K", "4"), (3, "Unified", "8192K", "16")];
    let frequency = ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4200000\n");
    let cpuid = [INTEL, ((2, 0), [0x7603_6301, 0x00f0_b5ff, 0, 0x00c3_0000])];
    let host =
        host(cpuinfo, &caches, &[frequency], &cpuid.into_iter().collect()).expect("it describes itself");
    let text = taken(&host);
    for expected in [
        "extends = \"x86-64\"",
        "Core(TM) \\\"i7\\\"",
        "frequency = \"4200 MHz\"",
        "[tlb.l1.split.small.set-associative]\nentries = 64\nways = 4",
        "[tlb.l2.split.shared.set-associative]\nentries = 1536\nways = 6",
        "[tlb.l2.split.giant.set-associative]\nentries = 16\nways = 4",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains("[host]"), "{text}");
}

#[test]
fn processors_without_cpuid_have_the_caches_that_the_kernel_shows() {
    let graviton = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\nFeatures\t: fp asimd\n";
    let caches = [(1, "Data", "64K", "4"), (2, "Unified", "2048K", "8"), (3, "Unified", "36864K", "0")];
    let text = taken(&host(graviton, &caches, &[], &Cpuid::default()).expect("it describes itself"));
    assert!(text.contains("extends = \"neoverse-v2\""), "{text}");
    assert!(text.contains("# left out: a cache of level 3 with 36864 KiB"), "{text}");
    let unmatched = "processor\t: 0\nisa\t\t: rv64imafdc\nmmu\t\t: sv39\nuarch\t\t: thead,c910\n";
    let caches = [(1, "Data", "64K", "2"), (2, "Unified", "1024K", "16")];
    let text = taken(&host(unmatched, &caches, &[], &Cpuid::default()).expect("it describes itself"));
    assert!(text.contains("extends = \"riscv-sv39\"") && text.contains("l3 = \"none\""), "{text}");
}

#[test]
fn a_computer_that_shows_nothing_is_the_generic_machine_with_its_memory() {
    let text = taken(&host("processor\t: 0\n", &[], &[], &Cpuid::default()).expect("it has memory"));
    assert!(text.contains("extends = \"x86-64\"") && text.contains("memory = \"24GiB\""), "{text}");
    assert!(!text.contains("[tlb") && !text.contains("[caches"), "{text}");
}

#[test]
fn what_is_missing_is_named() {
    let root = tempfile::tempdir().expect("a folder");
    let missing = Host::read(root.path(), &Cpuid::default()).expect_err("there is nothing").to_string();
    assert!(missing.starts_with("cannot read ") && missing.contains("cpuinfo"), "{missing}");
    fs::create_dir(root.path().join("proc")).expect("a folder");
    fs::write(root.path().join("proc/cpuinfo"), b"\xff\xfe: \xff\n").expect("written");
    fs::write(root.path().join("proc/meminfo"), "MemTotal: many\n").expect("written");
    let odd = Host::read(root.path(), &Cpuid::default()).expect_err("it does not say how much").to_string();
    assert!(odd.ends_with("no line `MemTotal: ... kB`"), "{odd}");
}

#[test]
fn whatever_a_kernel_shows_is_a_machine_or_is_left_out() {
    let words =
        ["", "0", "1", "3", "7", "12", "31", "4096", "x", "18446744073709551615", "99999999999999999999"];
    let mut state = 7_u64;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words[(state >> 33) as usize % words.len()]
    };
    for _ in 0..60 {
        let sizes: [String; 3] = std::array::from_fn(|_| format!("{}K", word()));
        let root = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            fs::write(path, text).expect("written");
        };
        put(
            "proc/cpuinfo",
            &format!("vendor_id: AuthenticAMD\ncpu family: {}\ncpu MHz: {}.000\n", word(), word()),
        );
        put("proc/meminfo", MEMINFO);
        for (number, size) in sizes.iter().enumerate() {
            let folder = format!("sys/devices/system/cpu/cpu0/cache/index{number}");
            put(&format!("{folder}/level"), word());
            put(&format!("{folder}/type"), "Data");
            put(&format!("{folder}/size"), size);
            put(&format!("{folder}/ways_of_associativity"), word());
        }
        let host = Host::read(Path::new(root.path()), &Cpuid::default()).expect("it has memory");
        let text = machine_file(&host, "here");
        assert!(toml_is_sound(&text), "{text}");
    }
}

/// A size that no machine has may be refused, but with the file's own line: the text is TOML with known keys.
fn toml_is_sound(text: &str) -> bool {
    match spec::parse(text, "here.toml") {
        Ok(_) => true,
        Err(error) => !error.to_string().contains("unknown") && !error.to_string().contains("TOML"),
    }
}
