//! The words that the installed assembler accepts: words that its file contains, tried as instructions with operands of each kind.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use iced_x86::Instruction;

use super::table::decode;

/// Each accepted line lies in a slot of its own, which is larger than any instruction.
const SLOT: usize = 16;
const MEMORY: &str = "64(%rdi)";
const VECTORS: [&str; 2] = ["%xmm", "%ymm"];

/// The words of the assembler's file that can be names of instructions.
fn words(assembler: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(assembler).expect("the assembler");
    let strings = bytes.split(|byte| !byte.is_ascii_lowercase() && !byte.is_ascii_digit());
    let words = strings.filter(|word| (2..=20).contains(&word.len()) && word[0].is_ascii_lowercase());
    words.map(|word| String::from_utf8(word.to_vec()).expect("ASCII")).collect()
}

/// Lists of operands with one in memory, and the empty list.
fn operands() -> Vec<String> {
    let mut lists = vec![String::new(), MEMORY.to_owned(), format!("*{MEMORY}"), format!("$1, {MEMORY}")];
    let general = ["%al", "%ax", "%eax", "%rax"];
    for register in general.into_iter().chain(["%fs", "%mm0", "%xmm0", "%ymm0", "%st"]) {
        lists.push(format!("{MEMORY}, {register}"));
        lists.push(format!("{register}, {MEMORY}"));
        lists.push(format!("$1, {MEMORY}, {register}"));
        lists.push(format!("$1, {register}, {MEMORY}"));
        lists.push(format!("%cl, {register}, {MEMORY}"));
        lists.push(format!("%xmm0, {MEMORY}, {register}"));
        lists.push(format!("{MEMORY}, {register}, {register}"));
        lists.push(format!("{register}, {MEMORY}, {register}"));
    }
    for vector in VECTORS {
        let register = |number: u8| format!("{vector}{number}");
        let (a, b, c) = (register(0), register(1), register(3));
        lists.push(format!("{a}, {b}, {MEMORY}"));
        lists.push(format!("{MEMORY}, {a}, {b}, {c}"));
        lists.push(format!("{a}, {MEMORY}, {b}, {c}"));
        lists.push(format!("$1, {MEMORY}, {a}, {b}"));
        lists.push(format!("$1, {MEMORY}, {a}, {b}, {c}"));
        lists.push(format!("$1, {a}, {MEMORY}, {b}, {c}"));
        for mask in VECTORS {
            lists.push(format!("{mask}1, 64(%rdi,{vector}2), {mask}0"));
        }
    }
    // Parts of a vector beside a memory operand of another width.
    for list in ["$1, %ymm0, 64(%rdi)", "$1, 64(%rdi), %ymm1, %ymm0", "64(%rdi), %xmm1, %ymm0"] {
        lists.push(list.to_owned());
    }
    lists
}

/// Assembles one line a slot; the numbers of the lines that are refused.
fn assemble(assembler: &Path, folder: &Path, lines: &[String]) -> BTreeSet<usize> {
    let mut text = String::new();
    for line in lines {
        writeln!(text, ".balign {SLOT}; {line}").expect("a string");
    }
    std::fs::write(folder.join("lines.s"), text).expect("a file");
    let output =
        Command::new(assembler).current_dir(folder).args(["-o", "lines.o", "lines.s"]).output().expect("as");
    let said = String::from_utf8_lossy(&output.stderr);
    let number = |line: &str| line.strip_prefix("lines.s:")?.split_once(": Error")?.0.parse::<usize>().ok();
    said.lines().filter_map(number).map(|number| number - 1).collect()
}

/// The instructions of all lines that the assembler accepts.
pub(crate) fn accepted(assembler: &Path, folder: &Path) -> Vec<(String, Instruction)> {
    let lists = operands();
    let words = words(assembler);
    let lines: Vec<String> =
        words.iter().flat_map(|word| lists.iter().map(move |list| format!("{word} {list}"))).collect();
    let refused = assemble(assembler, folder, &lines);
    let kept: Vec<String> =
        lines.into_iter().enumerate().filter(|(i, _)| !refused.contains(i)).map(|(_, line)| line).collect();
    assert!(assemble(assembler, folder, &kept).is_empty(), "a line is refused only now");
    let copy = ["-O", "binary", "-j", ".text", "lines.o", "lines.bin"];
    let status = Command::new("objcopy").current_dir(folder).args(copy).status().expect("objcopy");
    assert!(status.success());
    let code = std::fs::read(folder.join("lines.bin")).expect("code");
    kept.into_iter()
        .zip(code.chunks(SLOT))
        .filter_map(|(line, slot)| Some((line, decode(slot, 0)?)))
        .collect()
}
