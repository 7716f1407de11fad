//! What is refused, and the words for it.

use super::{NAME, SOUND, refusal};
use crate::spec::{builtin, load, load_all, parse};

/// A level of one array with these keys.
fn level(name: &str, keys: &str) -> String {
    format!("{NAME}[tlb.{name}.set-associative]\n{keys}\n")
}

fn array(entries: &str, ways: &str, replacement: &str) -> String {
    level(
        "l1",
        &format!("entries = {entries}\nways = {ways}\nreplacement = \"{replacement}\"\npages = [\"4KiB\"]"),
    )
}

/// A sound machine with one text replaced.
fn sound_but(from: &str, to: &str) -> String {
    assert!(SOUND.contains(from), "{from}");
    SOUND.replacen(from, to, 1)
}

#[test]
fn units() {
    let memory = |value: &str| refusal(&format!("{NAME}[frames.buddy]\nmemory = {value}\n"));
    let latency = |value: &str| refusal(&format!("{NAME}[memory]\nlatency = {value}\n"));
    let frequency = |value: &str| refusal(&format!("{NAME}[core]\nfrequency = {value}\n"));
    transcript(
        "units",
        &[
            memory("\"64GB\""),
            memory("\"2M\""),
            memory("5"),
            memory("1.5"),
            memory("\"5\""),
            memory("\"much\""),
            memory("\"1KiB\""),
            memory("\"2PiB\""),
            memory("\"99999999999TiB\""),
            memory("\"1048577B\""),
            memory("[]"),
            latency("90"),
            latency("\"90\""),
            latency("\"90 nanoseconds\""),
            latency("\"1 h\""),
            latency("\"0.5 cycles\""),
            latency("\"1 ms\"\n[core]\nfrequency = \"3 Ghz\""),
            latency("\"1001 us\""),
            latency("\"10001 cycles\""),
            frequency("3"),
            frequency("\"3000 GHz\""),
            frequency("true"),
        ],
    );
}

#[test]
fn keys() {
    transcript(
        "keys",
        &[
            refusal(""),
            refusal("name = \"\"\n"),
            refusal("name = \"a machine\"\n"),
            refusal("name = 7\n"),
            refusal(&format!("{NAME}frequncy = \"3 GHz\"\n")),
            refusal(&format!("{NAME}[core]\nfrequncy = \"3 GHz\"\n")),
            refusal(&format!("{NAME}[tbl.l1.set-associative]\n")),
            refusal(&format!("{NAME}[walk_cache]\nentries = 32\n")),
            refusal(&format!("{NAME}[core]\ncolour = \"red\"\n")),
            refusal(&format!("{NAME}[tlb.l1]\nentries = 64\n")),
            refusal(&level("l1", "entries = 64\nways = 4\narity = 4\npages = [\"4KiB\"]")),
            refusal(&level("l4", "entries = 64")),
            refusal(&level("l1", "entries = 64")),
            refusal(&format!("{NAME}[tlb.l1]\nlatency = \"1 cycle\"\n")),
            refusal(&format!("{NAME}[tlb.l1.mosaic]\n[tlb.l1.split]\n")),
            refusal(&format!("{NAME}[tlb.l1.split]\n")),
            refusal(&format!("{NAME}[tlb.l1.split.\"sm all\".mosaic]\n")),
            refusal(&format!("{NAME}[tlb]\nl1 = 5\n")),
            refusal(&format!("{NAME}core = \"none\"\n")),
            refusal(&format!("{NAME}[table.inverted]\n")),
            refusal(&format!("{NAME}[[tlb]]\n")),
            refusal(&format!("{NAME}description = \"two\\nlines\"\n")),
            refusal(&format!("{NAME}source = 3\n")),
            refusal(&format!("{NAME}extends = 3\n[tlb.l1.mosaic]\narity = 4\n")),
            refusal(&format!(
                "{NAME}[caches.l9]\n[caches.l1]\nsize = \"48KiB\"\nways = 7\nlatency = \"1 ns\"\n"
            )),
        ],
    );
}

#[test]
fn numbers() {
    transcript(
        "numbers",
        &[
            refusal(&array("0", "1", "lru")),
            refusal(&array("2097152", "1", "lru")),
            refusal(&array("-4", "1", "lru")),
            refusal(&array("64.0", "\"four\"", "lru")),
            refusal(&array("\"64\"", "4", "lru")),
            refusal(&array("99999999999999999999", "4", "lru")),
            refusal(&array("64", "4", "least-recently-used")),
            refusal(&array("64", "4", "LRU")),
            refusal(&level("l1", "entries = 64\nways = 4\npages = [\"4K\", \"2M\"]")),
            refusal(&level("l1", "entries = 64\nways = 4\npages = []")),
            refusal(&level("l1", "entries = 64\nways = 4\npages = [\"4KiB\", \"4KiB\"]")),
            refusal(&level("l1", "entries = 64\nways = 4\npages = \"4KiB\"")),
            refusal(&format!("{NAME}[core]\ncount = 257\nwidth = 8\nwindow = 4\n")),
            refusal(&format!("{NAME}[table.radix]\nlevels = 2\n")),
            refusal(&format!("{NAME}[huge-pages]\ntransparent = \"sometimes\"\n")),
        ],
    );
}

#[test]
fn granules() {
    let radix = |keys: &str| format!("{NAME}[table.radix]\n{keys}\n");
    let small = level("l1", "entries = 64\nways = 4\npages = [\"4KiB\", \"2MiB\"]");
    let large = level("l1", "entries = 64\nways = 4\npages = [\"16KiB\"]");
    let arm = "[table.radix]\ngranule = \"16KiB\"\n";
    let mosaic = "[tlb.l2.mosaic]\nentries = 64\nways = 4\narity = 4\n";
    transcript(
        "granules",
        &[
            refusal(&radix("levels = 2")),
            refusal(&radix("granule = \"16KiB\"\nlevels = 5")),
            refusal(&radix("granule = \"64KiB\"")),
            refusal(&radix("granule = \"8KiB\"")),
            refusal(&format!("{small}{arm}")),
            refusal(&large),
            refusal(&format!("{large}{mosaic}{arm}")),
            refusal(&format!("{large}{arm}[huge-pages]\ntransparent = \"always\"\n")),
            refusal(&format!("{large}{arm}[huge-pages]\nexplicit = \"2MiB\"\n")),
            refusal(&format!("{NAME}{arm}[frames.iceberg]\n[reclaim.horizon-lru]\n")),
            refusal(&format!("{NAME}{arm}[frames.buddy]\nfragmentation = 10\n[reclaim.lru]\n")),
        ],
    );
}

#[test]
fn memory() {
    let free = "free-blocks = [5, 0, 1]";
    let frames = |keys: &str| format!("{NAME}[frames.buddy]\n{keys}\n");
    let refresh = |keys: &str| format!("{NAME}[memory.refresh]\n{keys}\n");
    transcript(
        "memory",
        &[
            refusal(&frames(&format!("fragmentation = 5\n{free}"))),
            refusal(&frames("free-blocks = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]")),
            refusal(&frames(&format!("{free}\n[table.radix]\ngranule = \"16KiB\""))),
            refusal(&refresh("every = \"1 us\"\nlasts = \"1 us\"")),
            refusal(&refresh("lasts = \"0 ns\"")),
            refusal(&refresh("every = \"1 us\"\nlasts = \"200 ns\"\nspread = \"900 ns\"")),
            refusal(&refresh("every = \"1 us\"\nlasts = \"500 ns\"")),
            refusal(&refresh("[memory.dram]")),
            refusal(&format!("{NAME}[memory]\nwrite-bandwidth = \"12GiB\"\n")),
        ],
    );
}

#[test]
fn geometry() {
    let mosaic = |arity: u32| format!("{NAME}[tlb.l1.mosaic]\nentries = 64\nways = 4\narity = {arity}\n");
    let split = |name: &str, pages: &str| {
        format!("[tlb.l1.split.{name}.set-associative]\nentries = 64\nways = 4\npages = [{pages}]\n")
    };
    let small = level("l1", "entries = 64\nways = 4\npages = [\"4KiB\"]");
    transcript(
        "geometry",
        &[
            refusal(&array("1536", "7", "lru")),
            refusal(&array("1536", "5", "lru")),
            refusal(&array("4", "8", "lru")),
            refusal(&array("1535", "8", "lru")),
            refusal(&array("4096", "128", "lru")),
            refusal(&array("1536", "4\nindex = \"xor-fold\"", "lru")),
            refusal(&array("16", "\"full\"\nindex = \"xor-fold\"", "lru")),
            refusal(&array("16", "4\nindex = \"hash\"", "lru")),
            refusal(&array("1024", "\"full\"", "nru")),
            refusal(&array("96", "6", "tree-plru")),
            refusal(&mosaic(6)),
            refusal(&mosaic(128)),
            refusal(&format!("{small}[tlb.l1]\nsharing = \"shared\"\n")),
            refusal(&format!(
                "{small}[tlb.l2]\nsharing = \"shared\"\ninclusion = \"exclusive\"\n[tlb.l2.set-associative]\nentries = 8\nways = 4\npages = [\"4KiB\"]\n"
            )),
            refusal(&format!(
                "{small}[tlb.l2]\nsharing = \"shared\"\n[tlb.l2.set-associative]\nentries = 8\nways = 4\npages = [\"4KiB\"]\n[tlb.l3.set-associative]\nentries = 8\nways = 4\npages = [\"4KiB\"]\n"
            )),
            refusal(&format!(
                "{small}[tlb.l2.set-associative]\nentries = 8\nways = 4\npages = [\"4KiB\"]\n[tlb.l2.stores.set-associative]\nentries = 8\nways = 4\npages = [\"4KiB\"]\n"
            )),
            refusal(&format!(
                "{small}[tlb.l1.stores.set-associative]\nentries = 8\nways = 4\npages = [\"2MiB\"]\n"
            )),
            refusal(&format!("{small}[tlb.l1.stores]\n")),
            refusal(&format!("{small}[tlb.l1]\ninclusion = \"exclusive\"\n")),
            refusal(&format!(
                "{small}[tlb.l2]\ninclusion = \"exclusive\"\n[tlb.l2.set-associative]\nentries = 8\nways = 4\npages = [\"4KiB\", \"2MiB\"]\n"
            )),
            refusal(&format!(
                "{small}[tlb.l2]\ninclusion = \"exclusive\"\n[tlb.l2.mosaic]\nentries = 8\nways = 4\narity = 4\n"
            )),
            refusal(&format!("{NAME}[tlb.l1.coalesced]\nentries = 64\nways = 4\nblock = 6\n")),
            refusal(&level("l1", "entries = 64\nways = 4\nvictims = 4\npages = [\"4KiB\"]")),
            refusal(&level("l1", "entries = 64\nways = 4\npages = [\"2MiB\"]")),
            refusal(&level("l2", "entries = 64\nways = 4\npages = [\"4KiB\"]")),
            refusal(&format!(
                "{NAME}{}{}",
                split("one", "\"4KiB\", \"2MiB\""),
                split("two", "\"2MiB\", \"1GiB\"")
            )),
            refusal(&format!(
                "{NAME}{}[tlb.l1.split.many.mosaic]\nentries = 8\nways = 8\narity = 4",
                split("one", "\"4KiB\"")
            )),
            refusal(&format!("{small}[huge-pages]\ntransparent = \"always\"\n")),
            refusal(&format!("{small}[huge-pages]\nexplicit = \"1GiB\"\n")),
            refusal(&format!("{NAME}[huge-pages]\ntransparent = \"madvise\"\nexplicit = \"2MiB\"\n")),
            refusal(&format!("{NAME}[huge-pages]\nexplicit = \"2MiB\"\n[reclaim.lru]\n")),
            refusal(&sound_but("[2, 4, 32]", "[2, 4, 8, 32]")),
            refusal(&sound_but("[2, 4, 32]", "[0, 0, 0]")),
            refusal(&sound_but("[2, 4, 32]", "[2, 4, 32]\nways = 4")),
            refusal(&sound_but("[2, 4, 32]", "[1, 2, 3, 4, 5, 6, 7, 8, 9]")),
            refusal(&sound_but("\"32KiB\"", "\"1000B\"")),
            refusal(&sound_but("\"32KiB\"", "\"100B\"")),
            refusal(&sound_but("\"14 cycles\"", "\"4 cycles\"")),
            refusal(&sound_but("[caches.l2]", "[caches.l3]")),
            refusal(&sound_but("[caches.l1]", "[walker]\nenters = \"l3\"\n[caches.l1]")),
            refusal(&sound_but("[caches.l1]", "[memory]\nlatency = \"4 ns\"\n[caches.l1]")),
        ],
    );
}

#[test]
fn all_mistakes_of_a_file_come_together() {
    let text = r#"
name = "bad machine"
[core]
cont = 4
frequency = "3GH"
[tlb.l1.set-associative]
entries = 1536
ways = 7
pages = ["4K"]
[tlb.l2.mosaic]
entries = 1024
ways = 12
arity = 5
[frames.buddy]
memory = "64GB"
[caches.l1]
size = "48KiB"
ways = 7
latency = 5
"#;
    let error = parse(text, "machines/bad.toml").expect_err("it is bad");
    assert_eq!(error.count(), 10, "{error}");
    transcript("together", &[error.to_string()]);
    assert!(error.render_coloured().contains("\u{1b}["));
    assert!(!error.to_string().contains('\u{1b}'));
}

/// A cache whose lines do not count in 32 bits was once built with as many as the low bits say.
#[test]
fn caches_have_as_many_lines_as_there_are_numbers_for() {
    let cache = |size: &str| format!("{NAME}[caches.l1]\nsize = \"{size}\"\nways = 16\nlatency = \"1 ns\"\n");
    for size in ["129GiB", "256GiB", "1TiB"] {
        let error = refusal(&cache(size));
        assert!(error.contains("128GiB"), "{error}");
    }
    let largest = parse(&cache("128GiB"), "large.toml").expect("the largest cache");
    let lines = largest.hierarchy.caches[0].bytes / 64;
    assert_eq!(u32::try_from(lines), Ok(1 << 31));
}

#[test]
fn hashed_tables() {
    let table = |keys: &str| refusal(&format!("{NAME}[table.hashed]\n{keys}\n"));
    transcript(
        "hashed",
        &[
            table("chunks = [\"1MiB\", \"8KiB\"]"),
            table("chunks = [\"12KiB\"]"),
            table("chunks = []"),
            table("chunks = \"8KiB\""),
            table("first-slots = 100"),
            table("upsize-above = 50\ndownsize-below = 30"),
            table("growth = 4"),
            table("ways = 5"),
            table("[walk-cache]\nentries = [1, 2, 3]"),
            table("[walk-cache]\nentries = [0, 16]"),
            table("[walk-cache]\nentries = [2, 16]\nways = 2"),
        ],
    );
}

/// Tables of the front end that have no whole number of sets, and a cache with more ways than dynamic replacement takes.
#[test]
fn front_end_and_replacement() {
    let with = |text: &str| refusal(&format!("name = \"x\"\nextends = \"zen3\"\n{text}"));
    transcript(
        "front-end",
        &[
            with("[core.dataflow.targets]\nentries = 1000\n"),
            with("[core.dataflow.targets.far]\nentries = 7000\nways = 7\n"),
            with("[core.dataflow.targets]\npairs = \"all\"\n"),
            with("[core.dataflow.latencies]\nmultiply = 0\n"),
            with("[core.dataflow]\nscheduler = 90\n"),
            with("[core.dataflow]\ninteger-units = 6\n"),
            with("[core.dataflow]\nvector-scheduler = 0\n"),
            with("[core.dataflow]\nvector-units = 3\n"),
            with("[fetch.decoded]\ninstructions = 4100\n"),
            with("[fetch.decoded]\nways = 3\n"),
            with("[caches.l3]\nways = 32\n"),
            with("[caches.l3]\nreplacement = \"fifo\"\n"),
        ],
    );
}

#[test]
fn instruction_fetch() {
    let array = "[fetch.tlb.set-associative]\nentries = 64\nways = \"full\"\n";
    let with = |base: &str, text: &str| refusal(&format!("name = \"x\"\nextends = \"{base}\"\n{text}"));
    transcript(
        "fetch",
        &[
            with("x86-64", "[fetch]\n"),
            with("x86-64", &format!("{array}pages = [\"2MiB\"]\n")),
            with(
                "x86-64",
                &format!("{array}pages = [\"4KiB\"]\n[fetch.cache]\nsize = \"48KiB\"\nways = 7\n"),
            ),
            with("x86-64", &format!("{array}pages = [\"4KiB\"]\n[fetch]\nahead = 0\n")),
            with("x86-64-exclusive-tlb", &format!("{array}pages = [\"4KiB\"]\n")),
            with("astriflash", &format!("{array}pages = [\"4KiB\"]\n")),
            refusal(&format!("{NAME}{array}pages = [\"4KiB\"]\n")),
            with("x86-64", "[kernel]\nfault-around = \"12KiB\"\n"),
        ],
    );
}

#[test]
fn paging() {
    let with = |text: &str| refusal(&format!("name = \"x\"\nextends = \"x86-64\"\n{text}"));
    transcript(
        "paging",
        &[
            with("[accelerator]\n"),
            with("[reclaim.lru]\n[swap]\nsize = \"1TiB\"\n[accelerator]\n"),
            with("[reclaim.lru]\n[accelerator]\nfree-queue = 0\n[accelerator.daemon]\nfirst = \"1 ms\"\n"),
            with("[reclaim.lru]\n[accelerator.daemon]\nfirst = \"1 ms\"\n"),
            with("[reclaim]\nbackground = 5\n[reclaim.horizon-lru]\n[frames.iceberg]\n"),
            with("[reclaim.lru]\nbackground = 5\n"),
            with("[swap]\nreadahead = 3\n"),
            with("tlb = \"none\"\n[tlb-prefetch.sequential]\n"),
            with("[tlb-prefetch]\nbuffer = 4\n"),
            with("[tlb.l1.mosaic]\nentries = 64\nways = 4\narity = 4\n[tlb-prefetch.distance]\nslots = 17\n"),
            with("[tlb.l1.mosaic]\nentries = 64\nways = 4\narity = 4\n[tlb-prefetch.distance]\n"),
            refusal(&format!(
                "{}[tlb-prefetch.sequential]\n",
                builtin::find("astriflash").expect("a built-in machine").text
            )),
            with("[swap]\nlatency = \"80 us\"\n"),
            with("[swap.blade]\nbandwidth = \"200 Gb/s\"\n[swap.memory]\n"),
            with("[kernel]\ndaemons = \"elsewhere\"\n"),
        ],
    );
}

#[test]
fn guests() {
    let guest = |keys: &str| refusal(&format!("{NAME}extends = \"x86-64\"\n{keys}\n"));
    transcript(
        "guests",
        &[
            guest("[host]\nlevels = 6"),
            guest("[host]\npages = \"16KiB\""),
            guest("[host]\nwalk-cache = [4, 4]"),
            refusal(
                "name = \"bad\"\n[host]\n[table.radix]\nlevels = 3\ngranule = \"16KiB\"\n[frames.buddy]\nmemory = \"1GiB\"\n",
            ),
            guest("[host]\nlevels = 3\n[frames.buddy]\nmemory = \"1TiB\""),
            guest("[host]\n[table.chained]"),
            guest("[host]\n[reclaim.lru]"),
            guest("[host]\n[frames.iceberg]\nmemory = \"1GiB\""),
        ],
    );
}

#[test]
fn syntax() {
    transcript(
        "syntax",
        &[
            refusal("name = \"x\"\n[core\ncount = 1\n"),
            refusal("name = x\nwidth = = 3\n"),
            refusal("name = \"x\"\nname = \"y\"\n"),
            refusal("name = \"x\n"),
            refusal(&format!("name = {}", "[".repeat(500))),
        ],
    );
}

#[test]
fn a_flood_of_mistakes_is_cut_short() {
    let text: String = (0..2_000).map(|n| format!("key{n} = 1\n")).collect();
    let error = parse(&text, "flood.toml").expect_err("unknown keys");
    assert_eq!(error.count(), 2_000, "and no word about the missing name, which may be one of them misspelt");
    assert!(error.to_string().ends_with("more"));
    assert!(error.to_string().len() < 50_000);
}

#[test]
fn names_of_machines() {
    let near = load("x86_64").expect_err("an underscore").to_string();
    assert!(near.contains("no machine `x86_64`") && near.contains("did you mean `x86-64`?"), "{near}");
    assert!(near.contains("built-in machines: x86-64, x86-64-thp"), "{near}");
    let far = load("pdp-11").expect_err("long gone").to_string();
    assert!(!far.contains("did you mean") && far.contains("named by its path"), "{far}");
    let lost = load("no/such/mosaic-4.toml").expect_err("no file").to_string();
    assert!(lost.contains("cannot read machine file no/such/mosaic-4.toml: No such file"), "{lost}");
    assert!(lost.contains("`mosaic-4` is a built-in machine"), "{lost}");
    let both = load_all(&["pdp-11", "x86-64", "vax"]).expect_err("two unknown ones");
    assert_eq!(both.count(), 2);
    let twice = load_all(&["x86-64", "x86-64"]).expect_err("the same twice").to_string();
    assert!(twice.contains("two machines are named `x86-64`"), "{twice}");
}

#[test]
fn foreign_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let refuse = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        load(path.to_str().expect("a plain path")).expect_err("no machine").to_string()
    };
    let binary = refuse("binary.toml", b"name = \"x\"\n# \xff\xfe\n");
    assert!(binary.contains("binary.toml:2: not UTF-8 text: byte 0xff at offset 13"), "{binary}");
    let long = refuse("long.toml", &vec![b'#'; (1 << 20) + 1]);
    assert!(long.contains("long.toml: more than 1MiB long"), "{long}");
    let nul = refuse("nul.toml", b"\0\0\0\0");
    assert!(nul.contains("nul.toml:1:1"), "{nul}");
    let folder = load(format!("{}/", dir.path().display())).expect_err("a folder").to_string();
    assert!(folder.contains("cannot read machine file"), "{folder}");
    let endless = load("/dev/zero").expect_err("endless").to_string();
    assert!(endless.contains("more than 1MiB long"), "{endless}");
}

/// One snapshot of several reports.
fn transcript(name: &str, reports: &[String]) {
    insta::assert_snapshot!(name, reports.join("\n\n----\n\n"));
}
