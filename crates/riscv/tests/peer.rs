//! Random programs here and under QEMU, which shares no code with this machine: every register and every word of memory
//! must be the same at the end.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use pagewalk_riscv::{Config, End, Host, Image, InProcess, Machine};
use pagewalk_vm::random::SplitMix64;

const PROGRAMS: u64 = 8;
const LENGTH: u64 = 1_500;

const BINARY: [&str; 28] = [
    "add", "sub", "sll", "slt", "sltu", "xor", "srl", "sra", "or", "and", "addw", "subw", "sllw", "srlw",
    "sraw", "mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu", "mulw", "divw", "divuw", "remw",
    "remuw",
];
const IMMEDIATE: [&str; 7] = ["addi", "slti", "sltiu", "xori", "ori", "andi", "addiw"];
const SHIFTS: [(&str, u64); 6] =
    [("slli", 64), ("srli", 64), ("srai", 64), ("slliw", 32), ("srliw", 32), ("sraiw", 32)];
const LOADS: [&str; 7] = ["lb", "lh", "lw", "ld", "lbu", "lhu", "lwu"];
const STORES: [&str; 4] = ["sb", "sh", "sw", "sd"];
const ATOMICS: [&str; 9] = ["swap", "add", "xor", "and", "or", "min", "max", "minu", "maxu"];
const BRANCHES: [&str; 6] = ["beq", "bne", "blt", "bge", "bltu", "bgeu"];
const VALUES: [u64; 10] =
    [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 31, (1 << 31) - 1, 1 << 63, (1 << 63) - 1, 0xffff_ffff];

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

fn pick<'a, T>(random: &mut SplitMix64, of: &'a [T]) -> &'a T {
    &of[random.below(of.len() as u64) as usize]
}

/// A register that programs use; half of them one that compressed instructions name.
fn register(random: &mut SplitMix64) -> u64 {
    if random.below(2) == 0 { 8 + random.below(8) } else { 5 + random.below(27) }
}

/// A program over the registers 5 to 31 and 2 KiB of memory at x4; x3 is for addresses.
fn body(random: &mut SplitMix64) -> String {
    let mut text = String::from(".text\n.globl body\nbody:\n");
    for register in 5..32 {
        let value = if random.below(2) == 0 { *pick(random, &VALUES) } else { random.next() };
        writeln!(text, " li x{register}, {value:#x}").unwrap();
    }
    for at in 0..LENGTH {
        let (d, a, b) = (register(random), register(random), register(random));
        let d = if random.below(30) == 0 { 0 } else { d };
        let a = if random.below(3) == 0 { d } else { a };
        let place = if random.below(2) == 0 { random.below(2_040) } else { 8 * random.below(32) };
        match random.below(100) {
            0..40 => writeln!(text, " {} x{d}, x{a}, x{b}", pick(random, &BINARY)),
            40..55 => {
                let range = if random.below(2) == 0 { 2_048 } else { 32 };
                let immediate = random.below(2 * range) as i64 - range as i64;
                writeln!(text, " {} x{d}, x{a}, {immediate}", pick(random, &IMMEDIATE))
            }
            55..65 => {
                let &(name, bits) = pick(random, &SHIFTS);
                writeln!(text, " {name} x{d}, x{a}, {}", random.below(bits))
            }
            65..68 => {
                let bits = 5 + 15 * random.below(2);
                writeln!(text, " lui x{d}, {}", random.below(1 << bits))
            }
            68..76 => writeln!(text, " {} x{d}, {place}(x4)", pick(random, &LOADS)),
            76..84 => writeln!(text, " {} x{b}, {place}(x4)", pick(random, &STORES)),
            84..90 => {
                let width = *pick(random, &["w", "d"]);
                let name = pick(random, &ATOMICS);
                let place = if width == "d" { 8 * random.below(64) } else { 4 * random.below(128) };
                writeln!(text, " addi x3, x4, {place}\n amo{name}.{width} x{d}, x{b}, (x3)")
            }
            90..92 => {
                let width = *pick(random, &["w", "d"]);
                let (place, other) = (8 * random.below(64), 8 * random.below(64));
                let moved = if random.below(3) == 0 { other } else { place };
                write!(text, " addi x3, x4, {place}\n lr.{width} x{d}, (x3)\n addi x3, x4, {moved}\n")
                    .unwrap();
                writeln!(text, " sc.{width} x{a}, x{b}, (x3)")
            }
            92..98 => {
                writeln!(text, " {} x{a}, x{b}, .L{at}", pick(random, &BRANCHES)).unwrap();
                for _ in 0..random.below(4) {
                    let (d, a, b) = (register(random), register(random), register(random));
                    writeln!(text, " {} x{d}, x{a}, x{b}", pick(random, &BINARY)).unwrap();
                }
                writeln!(text, ".L{at}:")
            }
            _ => writeln!(text, " la x{b}, .L{at}\n jalr x1, 0(x{b})\n.L{at}:"),
        }
        .unwrap();
    }
    text + " la x1, dump\n jr x1\n"
}

/// Calls the program, and prints what it leaves.
const FRAME: &str = r#"
#include "machine.h"
uint64_t area[512] __attribute__((aligned(4096)));
uint64_t left[32], saved[16];
void run(void);
int main(void)
{
   uint64_t x = 12345;
   for (int at = 0; at < 512; at++)
      area[at] = x = x * 6364136223846793005ul + 1442695040888963407ul;
   run();
   for (int at = 5; at < 32; at++) {
      put_hex(left[at]);
      put_char('\n');
   }
   x = 0;
   for (int at = 0; at < 512; at++)
      x = x * 31 + area[at];
   put_hex(x);
   put_char('\n');
   return 0;
}
asm(".text\n.globl run, dump\n"
    "run: la t0, saved\n sd ra, 0(t0)\n sd sp, 8(t0)\n sd gp, 16(t0)\n sd tp, 24(t0)\n"
    "sd s0, 32(t0)\n sd s1, 40(t0)\n sd s2, 48(t0)\n sd s3, 56(t0)\n sd s4, 64(t0)\n sd s5, 72(t0)\n"
    "sd s6, 80(t0)\n sd s7, 88(t0)\n sd s8, 96(t0)\n sd s9, 104(t0)\n sd s10, 112(t0)\n sd s11, 120(t0)\n"
    "la tp, area\n j body\n"
    "dump: la ra, left\n"
    ".irp i,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n sd x\\i, 8*\\i(ra)\n.endr\n"
    "la t0, saved\n ld ra, 0(t0)\n ld sp, 8(t0)\n ld gp, 16(t0)\n ld tp, 24(t0)\n"
    "ld s0, 32(t0)\n ld s1, 40(t0)\n ld s2, 48(t0)\n ld s3, 56(t0)\n ld s4, 64(t0)\n ld s5, 72(t0)\n"
    "ld s6, 80(t0)\n ld s7, 88(t0)\n ld s8, 96(t0)\n ld s9, 104(t0)\n ld s10, 112(t0)\n ld s11, 120(t0)\n ret\n");
"#;

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

fn ours(program: &Path) -> String {
    let image = Image::parse(&std::fs::read(program).expect("just built")).expect("an ELF file");
    let printed = Printed::default();
    let host = Host::new(Box::new(std::io::empty()), Box::new(printed.clone()), Box::new(std::io::sink()));
    let mut machine =
        Machine::new(&Config::default(), &image, Box::new(InProcess::new()), host).expect("a machine");
    assert_eq!(machine.run(10_000_000), Some(End::Exit(0)));
    String::from_utf8(printed.0.borrow().clone()).expect("text")
}

#[test]
fn random_programs_compute_what_they_compute_elsewhere() {
    const COMPILER: &str = "riscv64-unknown-elf-gcc";
    const QEMU: &str = "qemu-system-riscv64";
    if !is_installed(COMPILER) || !is_installed(QEMU) {
        return;
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/riscv");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peer");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("frame.c"), FRAME).expect("written");
    for seed in 0..PROGRAMS {
        let (source, program) = (folder.join("body.S"), folder.join("program.elf"));
        std::fs::write(&source, body(&mut SplitMix64::new(seed))).expect("written");
        let built = Command::new(COMPILER)
            .args(["-march=rv64imac_zicsr_zifencei", "-mabi=lp64", "-mcmodel=medany", "-O2", "-nostdlib"])
            .args(["-nostartfiles", "-ffreestanding", "-I"])
            .arg(&examples)
            .arg("-T")
            .args([examples.join("link.ld"), examples.join("start.S"), folder.join("frame.c"), source])
            .arg("-o")
            .arg(&program)
            .status();
        assert!(built.expect("the compiler").success());
        let theirs = Command::new(QEMU)
            .args(["-machine", "spike", "-nographic", "-bios", "none", "-kernel"])
            .arg(&program)
            .output()
            .expect("QEMU");
        let theirs = String::from_utf8(theirs.stdout).expect("text");
        assert_eq!(theirs.lines().count(), 28, "seed {seed}: {theirs}");
        assert_eq!(ours(&program), theirs, "seed {seed}");
    }
}
