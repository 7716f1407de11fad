//! `pagewalk riscv` as a process: what it refuses, and that programs compute the same wherever remote memory is.

use std::process::Output;

use crate::common::{Blade, Cable, built, loopback, pagewalk, text};

#[test]
fn what_is_no_program_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("not.elf");
    std::fs::write(&file, "not an ELF file").expect("written");
    let file = file.to_str().expect("text");
    for (arguments, word) in [
        (&["riscv", file][..], "not an ELF file of 64 bits"),
        (&["riscv", "/nowhere.elf"], "cannot read /nowhere.elf"),
        (&["riscv", env!("CARGO_BIN_EXE_pagewalk")], "not an executable for RISC-V"),
        (&["riscv", "--pfa-queues", "1,2", file], "one number, or three"),
        (&["riscv", "--pfa-queues", "64,0,64", file], "a queue holds 1 to 65536, not 0"),
        (&["riscv", "--memory", "12", file], "12"),
        (&["riscv", "--blade", "pigeon:1", file], "pigeon"),
    ] {
        let output = pagewalk(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(word), "{arguments:?}: {}", text(&output.stderr));
    }
}

/// A program of machine instructions as an ELF file, with these symbols. It has no `tohost` unless that is among them.
fn program(words: &[u32], symbols: &[(&str, u64)]) -> Vec<u8> {
    let base = 0x8000_0000u64;
    let mut code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    // The table of symbols is aligned to 8 bytes.
    code.resize(code.len().next_multiple_of(8), 0);
    let mut names = vec![0u8];
    let mut table = vec![0u8; 24];
    for (name, addr) in symbols {
        table.extend((names.len() as u32).to_le_bytes());
        table.extend([0x10, 0, 0xf1, 0xff]);
        table.extend([*addr, 8].into_iter().flat_map(u64::to_le_bytes));
        names.extend(name.bytes().chain([0]));
    }
    let (code_at, table_at) = (64 + 56 + 3 * 64, 64 + 56 + 3 * 64 + code.len());
    let names_at = table_at + table.len();
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 243, 0, 1, 0, 0, 0];
    file.extend([base, 64, 64 + 56].into_iter().flat_map(u64::to_le_bytes));
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, 1, 64, 3, 2].into_iter().flat_map(u16::to_le_bytes));
    file.extend([1u32, 7].into_iter().flat_map(u32::to_le_bytes));
    let bytes = code.len() as u64;
    file.extend([code_at as u64, base, base, bytes, bytes, 8].into_iter().flat_map(u64::to_le_bytes));
    // Sections: none, symbols, names.
    for (kind, at, bytes, link, entry) in
        [(0u32, 0, 0, 0u32, 0u64), (2, table_at, table.len(), 2, 24), (3, names_at, names.len(), 0, 0)]
    {
        file.extend([0, kind].into_iter().flat_map(u32::to_le_bytes));
        file.extend([0, 0, at as u64, bytes as u64].into_iter().flat_map(u64::to_le_bytes));
        file.extend([link, 0].into_iter().flat_map(u32::to_le_bytes));
        file.extend([8, entry].into_iter().flat_map(u64::to_le_bytes));
    }
    file.extend(code);
    file.extend(table);
    file.extend(names);
    file
}

/// `jal x0, 0`.
const FOREVER: u32 = 0x0000_006f;

/// An image without `tohost` ran for ever after a warning; so did one whose handler returned to what had trapped.
#[test]
fn programs_that_cannot_end_are_refused_or_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("program.elf");
    let run = |words: &[u32], symbols: &[(&str, u64)], arguments: &[&str]| {
        std::fs::write(&file, program(words, symbols)).expect("written");
        pagewalk(&[&["riscv", file.to_str().expect("text")], arguments].concat())
    };
    let output = run(&[FOREVER], &[], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--tohost"), "{}", text(&output.stderr));
    let output = run(&[FOREVER], &[], &["--limit", "1000"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the limit of 1000"), "{}", text(&output.stderr));
    let output = run(&[FOREVER], &[("tohost", 0x10)], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the word for the host at 0x10"), "{}", text(&output.stderr));
    // auipc x5, 0; addi x5, x5, 16; csrrw x0, mtvec, x5; an illegal instruction; the handler: addi x7, x7, 1; mret.
    let stuck = [0x0000_0297, 0x0102_8293, 0x3052_9073, 0, 0x0013_8393, 0x3020_0073];
    let output = run(&stuck, &[("tohost", 0x8000_1000)], &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("no progress: IllegalInstruction at 0x8000000c"), "{said}");
}

#[test]
fn the_end_can_be_told_by_address_and_the_signature_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let [file, to] = ["program.elf", "signature"].map(|name| folder.path().join(name));
    // auipc x5, 0; addi x6, x0, 7; sw x6, 32(x5); the end: slli x6, x6, 0; sd x6, 64(x5); and for ever. 7 is the exit code 3.
    let words =
        [0x0000_0297, 0x0070_0313, 0x0262_a023, 0x0003_1313, 0x0462_b023, FOREVER, 0, 0, 0, 0x89ab_cdef];
    let symbols = [("begin_signature", 0x8000_0020), ("end_signature", 0x8000_0028)];
    std::fs::write(&file, program(&words, &symbols)).expect("written");
    let [file, to] = [&file, &to].map(|path| path.to_str().expect("text"));
    let output = pagewalk(&["riscv", "--tohost", "0x80000040", "--signature", to, file]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(to).expect("written"), "00000007\n89abcdef\n");
    std::fs::write(file, program(&words, &symbols[..1])).expect("written");
    let output = pagewalk(&["riscv", "--tohost", "0x80000040", "--signature", to, file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no symbol `end_signature`"), "{}", text(&output.stderr));
}

/// Programs that expect the 2 GiB of other simulators had an access fault above 128 MiB.
#[test]
fn memory_has_2_gib_unless_it_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("program.elf");
    // addi x6, x0, 1; slli x6, x6, 32; addi x6, x6, -8; sd x6, 0(x6); addi x7, x0, 7; auipc x5, 0; sd x7, 44(x5); for ever.
    let words =
        [0x0010_0313, 0x0203_1313, 0xff83_0313, 0x0063_3023, 0x0070_0393, 0x0000_0297, 0x0272_b623, FOREVER];
    std::fs::write(&file, program(&words, &[("tohost", 0x8000_0040)])).expect("written");
    let file = file.to_str().expect("text");
    assert_eq!(pagewalk(&["riscv", file]).status.code(), Some(3), "the last word of 2 GiB is there");
    let small = pagewalk(&["riscv", "--memory", "128MiB", file]);
    assert!(text(&small.stderr).contains("traps itself"), "{}", text(&small.stderr));
}

/// A program ran on without its blade until it first needed a page of it.
#[test]
fn a_blade_that_cannot_be_reached_is_said_before_the_program_begins() {
    let Some(folder) = built() else { return };
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let at = format!("udp:{}", silent.local_addr().expect("bound"));
    let program = folder.join("selftest.elf");
    let output = pagewalk(&["riscv", "--blade", &at, program.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    assert!(said.contains(&format!("cannot use the blade at {at}")), "{said}");
    assert!(said.contains("did not answer"), "{said}");
}

/// A run elsewhere went well, and printed what the one here did.
fn agree(output: &Output, here: &str, how: &str) {
    assert_eq!(output.status.code(), Some(0), "{how}: {}", text(&output.stderr));
    assert_eq!(text(&output.stdout), here, "{how}");
}

/// Runs each program in this process and elsewhere. Pages that were never written are zeroes: each run has its own blade.
fn compare(elsewhere: impl Fn(&str, &str)) {
    let Some(folder) = built() else { return };
    for program in ["selftest", "stress", "quicksort", "address"] {
        let program = folder.join(program).with_extension("elf");
        let program = program.to_str().expect("text");
        let here = pagewalk(&["riscv", program]);
        assert_eq!(here.status.code(), Some(0), "{}", text(&here.stderr));
        elsewhere(program, &text(&here.stdout));
    }
}

#[test]
fn programs_compute_the_same_over_udp_and_a_ring_with_a_key_and_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let [key, ring] = ["key", "ring"].map(|name| folder.path().join(name));
    std::fs::write(&key, [7; 32]).expect("written");
    let key = key.to_str().expect("text");
    let ring = format!("ring:{}", ring.to_str().expect("text"));
    compare(|program, here| {
        for listen in [&loopback(), &ring] {
            for key in [&[][..], &["--key", key]] {
                let blade = Blade::start_at(listen, key);
                let output = pagewalk(&[&["riscv", "--blade", &blade.at], key, &[program]].concat());
                agree(&output, here, &blade.at);
                assert!(blade.end().contains("pages written"), "{listen} was used");
            }
        }
    });
}

#[test]
fn programs_compute_the_same_over_raw_ethernet() {
    let Some(cable) = Cable::new() else { return };
    let listen = format!("eth:{}", Cable::INTERFACE);
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 32]).expect("written");
    let key = ["--key", key.to_str().expect("text")];
    let certain = format!("{listen}/{}", Cable::CARDS[0]);
    // Without an address it is the blade that answers, or the one that the program names.
    for (at, key) in [(&certain, &key[..]), (&listen, &[])] {
        compare(|program, here| {
            let blade = Blade::start_with(cable.command(0), &listen, key);
            let output = cable.command(1).args(["riscv", "--blade", at, program]).args(key).output();
            agree(&output.expect("the command starts"), here, at);
            assert!(blade.end().contains("pages written"), "{program}");
        });
    }
}

#[test]
fn a_program_that_names_its_blade_has_that_one_and_no_other() {
    let (Some(folder), Some(cable)) = (built(), Cable::new()) else { return };
    let program = folder.join("address.elf");
    let listen = format!("eth:{}", Cable::INTERFACE);
    // It names the card at the other end of the cable.
    let blade = Blade::start_with(cable.command(1), &listen, &[]);
    let run = |at: &str| {
        cable.command(0).args(["riscv", "--blade", at]).arg(&program).output().expect("the command starts")
    };
    let output = run(&listen);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("remote memory does not answer"), "{}", text(&output.stderr));
    // What the command says comes first.
    let output = run(&format!("{listen}/{}", Cable::CARDS[1]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(blade.end().contains("pages written                            1\n"), "one run reached it");
}

#[test]
fn one_document_has_the_counts_and_the_exit_code() {
    let Some(folder) = built() else { return };
    let program = folder.join("selftest.elf");
    let output = pagewalk(&["riscv", "--format", "json", program.to_str().expect("text")]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["schema"], 2);
    assert_eq!(document["runs"][0]["exit"], 0);
    assert!(text(&output.stderr).contains("selftest: passed"));
}

#[test]
fn any_program_is_a_trace_source() {
    let Some(folder) = built() else { return };
    let (program, trace) = (folder.join("stress.elf"), folder.join("stress.pwt"));
    let (program, trace) = (program.to_str().expect("text"), trace.to_str().expect("text"));
    let plain = pagewalk(&["riscv", "--format", "json", program]);
    let recorded = pagewalk(&["riscv", "--format", "json", "--record", trace, program]);
    assert_eq!(recorded.status.code(), Some(0), "{}", text(&recorded.stderr));
    assert_eq!(text(&recorded.stdout), text(&plain.stdout), "recording changes nothing");
    let counted = |output: &Output, stage: &str, metric: &str| {
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
        let metrics = document["runs"][0]["metrics"].as_array().expect("metrics").clone();
        let found = metrics.iter().find(|row| row["stage"] == stage && row["metric"] == metric);
        found.unwrap_or_else(|| panic!("{stage} {metric}: {metrics:?}"))["value"].as_u64().expect("a count")
    };
    let simulated = pagewalk(&["run", "--trace", trace, "--machine", "x86-64", "--format", "json"]);
    assert_eq!(simulated.status.code(), Some(0), "{}", text(&simulated.stderr));
    assert_eq!(
        counted(&simulated, "program", "instructions"),
        counted(&plain, "hart", "instructions"),
        "{}",
        text(&simulated.stdout)
    );
    // An in-order core executes the recorded instructions.
    let machine = folder.join("in-order.toml");
    let text_of = "name = \"in-order\"\nextends = \"rocket\"\n[core.dataflow]\norder = \"in-order\"\n";
    std::fs::write(&machine, text_of).expect("a file");
    let machine = machine.to_str().expect("text");
    let timed = ["run", "--trace", trace, "--machine", machine, "--detail", "timed", "--format", "json"];
    let timed = pagewalk(&timed);
    assert_eq!(timed.status.code(), Some(0), "{}", text(&timed.stderr));
    assert!(!text(&timed.stderr).contains("lower bound"), "{}", text(&timed.stderr));
    let cycles = counted(&timed, "time", "elapsed") as f64 * 3.2e-3;
    let instructions = counted(&timed, "program", "instructions") as f64;
    assert!(cycles > instructions, "one instruction a cycle at most: {cycles} of {instructions}");
    let limited = pagewalk(&["riscv", "--record", trace, "--limit", "10k", program]);
    assert_eq!(limited.status.code(), Some(1));
    assert!(text(&limited.stderr).contains("the limit of 10000 instructions"), "{}", text(&limited.stderr));
    let unwritable = pagewalk(&["riscv", "--record", "/nowhere/trace.pwt", program]);
    assert_eq!(unwritable.status.code(), Some(2), "{}", text(&unwritable.stderr));
}
