//! Arbitrary texts: never a panic, and what is accepted shows and reads again as the same machine.

use proptest::prelude::*;

use super::SOUND;
use crate::spec::{builtin, load, parse, show};

/// Reads, and if it is a machine, shows it and reads that again.
fn try_text(text: &str) {
    match parse(text, "fuzz.toml") {
        Ok(spec) => {
            let dir = tempfile::tempdir().expect("a folder");
            let path = dir.path().join("fuzz.toml");
            std::fs::write(&path, text).expect("a file");
            let path = path.to_str().expect("a plain path");
            assert_eq!(load(path).expect("it was accepted before"), spec);
            let shown = show(path).expect("it was accepted before");
            assert_eq!(parse(&shown, "shown.toml").unwrap_or_else(|error| panic!("{error}\n{shown}")), spec);
        }
        Err(error) => {
            assert!(error.to_string().starts_with("error: "));
            assert!(error.count() > 0);
        }
    }
}

/// Words of machine files and others, to be strung together.
fn word() -> impl Strategy<Value = String> {
    let words = [
        "name",
        "=",
        "\"x\"",
        "[tlb.l1.mosaic]\n",
        "[tlb.l2.split.a.set-associative]\n",
        "[core]\n",
        "\n",
        "entries",
        "ways",
        "\"full\"",
        "64",
        "0",
        "-1",
        "\"4KiB\"",
        "[\"4KiB\"]",
        "pages",
        "extends",
        "\"x86-64\"",
        "\"none\"",
        "tlb",
        "caches",
        ".",
        "l1",
        "[",
        "]",
        "{",
        "}",
        ",",
        "#",
        "'",
        "\"",
        "\"64GB\"",
        "é",
        "[walk-cache]\n",
        "arity",
        "latency",
        "\"5 cycles\"",
        "[caches.l1]\n",
        "size",
        "source",
        "\"\"\"",
        "1e9",
        "inf",
        "1979-05-27",
        "\u{0}",
    ];
    prop::sample::select(words.map(str::to_owned).to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "\\PC*") {
        try_text(&text);
    }

    #[test]
    fn any_words(words in prop::collection::vec(word(), 0..60)) {
        try_text(&words.join(" "));
    }

    #[test]
    fn any_value_for_any_key(
        line in 0..64usize,
        value in prop::sample::select(vec![
            "0", "1", "3", "64", "1048576", "99999999999", "\"full\"", "\"none\"", "\"1 cycle\"", "\"7 ns\"", "\"1 ms\"",
            "\"3 MiB\"", "\"1PiB\"", "\"10 MHz\"", "[\"4KiB\"]", "[1, 2, 3]", "[]", "{}", "{ mosaic = {} }", "true",
            "\"always\"", "\"tree-plru\"", "\"random\"", "\"l3\"",
        ]),
        machine in 0..builtin::ALL.len() + 1,
    ) {
        let text = builtin::ALL.get(machine).map_or(SOUND, |machine| machine.text);
        let keys: Vec<usize> = text
            .lines()
            .enumerate()
            .filter(|(_, text)| text.contains(" = ") && !text.contains("\"\"\""))
            .map(|(number, _)| number)
            .collect();
        let changed = keys[line % keys.len()];
        let lines = text.lines().enumerate().map(|(number, text)| {
            let key = text.split(" = ").next().unwrap_or_default();
            if number == changed { format!("{key} = {value}\n") } else { format!("{text}\n") }
        });
        try_text(&lines.collect::<String>());
    }

    #[test]
    fn any_byte_cut_or_flipped(place in 0..10_000usize, byte in 0..128u8, cut: bool, machine in 0..builtin::ALL.len()) {
        let mut text = builtin::ALL[machine].text.as_bytes().to_vec();
        let place = place % text.len();
        if cut {
            text.truncate(place);
        } else {
            text[place] = byte;
        }
        try_text(&String::from_utf8_lossy(&text));
    }
}

/// The dearest texts must not take long: counted by the test's own time limit, these take well under a second each. A file may have
/// four times as much.
#[test]
fn long_texts_are_refused_in_bounded_time() {
    let fill = |unit: &str| format!("name = \"x\"\n{}", unit.repeat((1 << 18) / unit.len() - 16));
    for unit in [
        "a.", "[", "{", "[a]\n", "'", "\"", "=", "a=1\n", "\n", "[[a]]\n", "a = \"é", "#", "x", "\\",
        "[tlb.l1.", "\r",
    ] {
        assert!(parse(&fill(unit), "long.toml").is_err() || unit == "\n" || unit == "#", "{unit:?}");
    }
    let names: String = (0..5_000).map(|n| format!("k{n} = 1\n")).collect();
    assert!(parse(&names, "names.toml").is_err());
    let arrays: String = (0..1_000).map(|n| format!("[tlb.l1.split.a{n}.mosaic]\n")).collect();
    assert!(parse(&arrays, "arrays.toml").is_err());
}
