//! `pagewalk riscv` as a process: what it refuses, and that programs compute the same wherever remote memory is.

mod common;

use std::process::Output;

use common::{Blade, Cable, built, loopback, pagewalk, text};

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
    assert_eq!(document["schema"], 1);
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
    let limited = pagewalk(&["riscv", "--record", trace, "--limit", "10k", program]);
    assert_eq!(limited.status.code(), Some(1));
    assert!(text(&limited.stderr).contains("the limit of 10000 instructions"), "{}", text(&limited.stderr));
    let unwritable = pagewalk(&["riscv", "--record", "/nowhere/trace.pwt", program]);
    assert_eq!(unwritable.status.code(), Some(2), "{}", text(&unwritable.stderr));
}
