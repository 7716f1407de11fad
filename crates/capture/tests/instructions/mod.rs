//! Tests of one instruction's accesses: each instruction that has an operand in memory, under each front-end that sees
//! instructions, beside what the manual says of it.

mod assembler;
mod expected;
mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use expected::{Touch, expected};
use iced_x86::{Code, EncodingKind, InstructionInfoFactory, Mnemonic, OpCodeOperandKind, OpKind};
use pagewalk_capture::{Frontend, Program};
use table::{AREA, Case, DATA, Form, code, data, table};

use crate::common::{self, Build, install};

const TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// The table, and the files of the program that executes it.
struct Bench {
    cases: Vec<Case>,
    program: PathBuf,
    folder: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Self {
        let folder = Path::new(TMP).join(format!("instructions-{name}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let cases = table();
        std::fs::write(folder.join("data"), data(&cases)).expect("data");
        Self { cases, program: common::compile("instructions", Build::Freestanding), folder }
    }

    /// The program's arguments. It executes the instructions that `is_in` names.
    fn args(&self, is_in: impl Fn(usize) -> bool) -> [PathBuf; 3] {
        std::fs::write(self.folder.join("code"), code(&self.cases, is_in)).expect("code");
        ["code", "data", "results"].map(|name| self.folder.join(name))
    }

    fn results(&self) -> Vec<u8> {
        std::fs::read(self.folder.join("results")).expect("results")
    }

    /// The instructions that this processor executes, outside a kernel.
    fn known_to_processor(&self) -> BTreeSet<usize> {
        let status = Command::new(&self.program).args(self.args(|_| true)).status().expect("the program");
        assert!(status.success(), "{status}");
        let results = self.results();
        (0..self.cases.len()).filter(|&i| results[i] == 0).collect()
    }

    /// Those of `wanted` that a front-end knows, and all accesses to each instruction's area.
    fn observed(&self, frontend: Frontend, wanted: &BTreeSet<usize>) -> (BTreeSet<usize>, Vec<Vec<Touch>>) {
        let args = self.args(|i| wanted.contains(&i));
        let program = Program::new(&self.program, args).frontend(frontend).install(install());
        let (stream, outcome) = common::record(program);
        assert!(outcome.status.success(), "{frontend:?}: {}", outcome.status);
        let mut touches = vec![Vec::new(); self.cases.len()];
        for (_, _, access) in &stream.accesses {
            let offset = access.addr().0.wrapping_sub(DATA);
            if let Some(touches) = touches.get_mut((offset / AREA) as usize) {
                touches.push(Touch { at: offset % AREA, bytes: access.bytes(), is_write: access.is_write() });
            }
        }
        let results = self.results();
        (wanted.iter().copied().filter(|&i| results[i] == 0).collect(), touches)
    }
}

/// Why a front-end cannot see what an instruction does: in the engine under it the instruction does something else.
fn exception(frontend: Frontend, case: &Case) -> Option<&'static str> {
    let instruction = &case.instruction;
    let is_repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    match (frontend, instruction.mnemonic()) {
        (Frontend::Valgrind, Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq)
            if is_repeated =>
        {
            Some("Valgrind executes it once")
        }
        (
            Frontend::Qemu,
            Mnemonic::Vmaskmovps | Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovd | Mnemonic::Vpmaskmovq,
        ) if instruction.op0_kind() == OpKind::Register && case.form != Form::Register => {
            Some("QEMU loads all elements")
        }
        (
            Frontend::Qemu,
            Mnemonic::Xsave
            | Mnemonic::Xsave64
            | Mnemonic::Xsaveopt
            | Mnemonic::Xsaveopt64
            | Mnemonic::Xrstor
            | Mnemonic::Xrstor64,
        ) => Some("QEMU accesses the fields of the state one by one"),
        _ => None,
    }
}

/// The Valgrind tool counted eight loads of `vfmadd231ps (%rax),%ymm1,%ymm0`, since Valgrind makes of an instruction what
/// suits it; it had none of `dpps $1`, which has no use of its operand, and loads and stores of `bt %eax,%ecx`, which has
/// none. QEMU makes two accesses of one of 16 bytes. All that are known to this processor are compared here.
fn compare(frontend: Frontend, name: &str, least: usize) {
    if !std::is_x86_feature_detected!("avx2") {
        return println!("skipped: this processor has no AVX2, which the program of the table uses");
    }
    let bench = Bench::new(name);
    let mut wanted = bench.known_to_processor();
    // Valgrind 3.19 writes over its own state: nothing to be seen but its end.
    wanted.retain(|&i| bench.cases[i].instruction.code() != Code::Fnsave_m94byte);
    let (known, touches) = bench.observed(frontend, &wanted);
    println!(
        "{} instructions, {} on this processor, {} of them known to {frontend:?}",
        bench.cases.len(),
        wanted.len(),
        known.len()
    );
    assert!(known.len() >= least, "only {} of {} instructions were compared", known.len(), bench.cases.len());
    let mut wrong = Vec::new();
    for &i in &known {
        let case = &bench.cases[i];
        let mut seen = touches[i].clone();
        seen.sort();
        let wanted = expected(case);
        match (seen == wanted, exception(frontend, case)) {
            (true, None) | (false, Some(_)) => {}
            (true, Some(why)) => wrong.push(format!("{}: no exception any more ({why})", case.name())),
            (false, None) => wrong.push(format!("{}: {seen:?}, the manual says {wanted:?}", case.name())),
        }
    }
    assert!(wrong.is_empty(), "{} differences under {frontend:?}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_instruction_has_the_accesses_of_the_manual_under_valgrind() {
    compare(Frontend::Valgrind, "valgrind", 4_000);
}

#[test]
fn each_instruction_has_the_accesses_of_the_manual_under_qemu() {
    if common::is_installed("qemu-x86_64") {
        compare(Frontend::Qemu, "qemu", 4_000);
    }
}

/// What the table leaves out beside AVX-512: forms that differ by the address-size prefix alone, what a prefix of its own
/// waits for x87 before, branches with 16 bits of address, and instructions of processors that are no more (MPX, whose
/// opcodes do nothing today, 3DNow!, Knights Corner).
fn is_left_out(code: Code) -> bool {
    let (op, name) = (code.op_code(), format!("{code:?}"));
    let is_ours = matches!(op.encoding(), EncodingKind::Legacy | EncodingKind::VEX | EncodingKind::XOP);
    !is_ours
        || op.fwait()
        || matches!(code, Code::Call_rm16 | Code::Jmp_rm16)
        || name.starts_with("Bnd")
        || name.contains("KNC")
        || name.ends_with("_r32_m512")
}

/// The table is made by trying prefixes and opcodes: what that misses would be missed in silence.
#[test]
fn the_table_has_every_instruction_with_an_operand_in_memory() {
    let in_table: BTreeSet<usize> = table().iter().map(|case| case.instruction.code() as usize).collect();
    let is_memory = |kind: &OpCodeOperandKind| {
        let name = format!("{kind:?}");
        name.starts_with("mem") || name.contains("_or_mem") || name.starts_with("seg_r") || name == "es_rDI"
    };
    let missing: Vec<Code> = Code::values()
        .filter(|code| code.op_code().is_instruction() && code.op_code().mode64() && !is_left_out(*code))
        .filter(|code| code.op_code().op_kinds().iter().any(is_memory))
        .filter(|code| !in_table.contains(&(*code as usize)))
        .collect();
    assert!(missing.is_empty(), "{} are missing: {missing:?}", missing.len());
}

/// The other way round: the table's source is a decoder, and the assembler may know more.
#[test]
#[ignore = "tries 200,000 lines, which takes ten seconds: `make soak`"]
fn the_table_has_what_the_assembler_accepts() {
    if !common::is_installed("as") || !common::is_installed("objcopy") {
        return;
    }
    let folder = Path::new(TMP).join("assembler");
    std::fs::create_dir_all(&folder).expect("a folder");
    let search = std::env::var_os("PATH").expect("PATH");
    let path = std::env::split_paths(&search).map(|folder| folder.join("as")).find(|path| path.is_file());
    let path = path.and_then(|path| path.canonicalize().ok()).expect("as");
    let in_table: BTreeSet<usize> = table().iter().map(|case| case.instruction.code() as usize).collect();
    let mut factory = InstructionInfoFactory::new();
    let mut codes = BTreeSet::new();
    let mut missing = Vec::new();
    for (line, instruction) in assembler::accepted(&path, &folder) {
        let code = instruction.code();
        if is_left_out(code)
            || factory.info(&instruction).used_memory().is_empty()
            || !codes.insert(code as usize)
        {
            continue;
        }
        if !in_table.contains(&(code as usize)) {
            missing.push(format!("{line} ({code:?})"));
        }
    }
    println!("{} forms that `{}` accepts", codes.len(), path.display());
    assert!(codes.len() > 1_000, "only {} forms were accepted", codes.len());
    assert!(missing.is_empty(), "{} are missing: {missing:?}", missing.len());
}
