//! Is this file a program that can be observed? Asked before anything is started, for an answer in plain words.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, getxattr};

use crate::error::CaptureError;

const HEADER_BYTES: usize = 64;
/// What is read of a file: a header, or the line of a script as far as the system looks.
const HEAD_BYTES: usize = 256;

/// The file that running `program` would start: itself if it has a slash, else the first match in `path`.
///
/// # Errors
///
/// No such file, or one that may not be run.
pub(crate) fn resolve(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, CaptureError> {
    let name = program.to_string_lossy().into_owned();
    if program.as_bytes().contains(&b'/') {
        let file = PathBuf::from(program);
        if !file.exists() {
            return Err(CaptureError::NotFound { program: name, searched_path: false });
        }
        return runnable(&file).map(|()| file);
    }
    let default = OsStr::new("/bin:/usr/bin");
    std::env::split_paths(path.unwrap_or(default))
        .map(|folder| folder.join(program))
        .find(|file| runnable(file).is_ok())
        .ok_or(CaptureError::NotFound { program: name, searched_path: true })
}

fn runnable(file: &Path) -> Result<(), CaptureError> {
    let refuse = |why: &str| CaptureError::NotExecutable { path: file.to_owned(), why: why.to_owned() };
    let meta = file.metadata().map_err(|e| CaptureError::io(format!("reading `{}`", file.display()), e))?;
    if meta.is_dir() {
        return Err(refuse("it is a folder"));
    }
    if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 || access(file, Access::EXEC_OK).is_err() {
        return Err(refuse("it has no permission to execute; `chmod +x` gives it"));
    }
    if changes_rights(file) {
        return Err(refuse(
            "it is set-user-ID, set-group-ID or has capabilities of its own, and cannot be observed; copy it first",
        ));
    }
    Ok(())
}

/// Whether a file runs with other rights than those of the user who starts it.
pub(crate) fn changes_rights(file: &Path) -> bool {
    let mode = file.metadata().map_or(0, |meta| meta.permissions().mode());
    mode & 0o6000 != 0 || getxattr(file, "security.capability", &mut [0u8; 64][..]).is_ok()
}

/// The instruction set of a program that some front-end can observe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Machine {
    X86_64,
    AArch64,
    RiscV64,
    LoongArch64,
}

impl Machine {
    const ALL: [Self; 4] = [Self::X86_64, Self::AArch64, Self::RiscV64, Self::LoongArch64];

    /// As ELF headers number it.
    pub(crate) fn number(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::AArch64 => 183,
            Self::RiscV64 => 243,
            Self::LoongArch64 => 258,
        }
    }

    /// QEMU's program that emulates it.
    pub(crate) fn emulator(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-x86_64",
            Self::AArch64 => "qemu-aarch64",
            Self::RiscV64 => "qemu-riscv64",
            Self::LoongArch64 => "qemu-loongarch64",
        }
    }
}

/// What a file that can be observed is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A 64-bit ELF program.
    Program(Machine),
    /// A script: what its first line names, and perhaps one argument.
    Script { interpreter: OsString, argument: Option<OsString> },
}

/// What the file's content is.
///
/// # Errors
///
/// An architecture that no front-end knows, or no program at all.
pub(crate) fn kind(file: &Path) -> Result<Kind, CaptureError> {
    let io = |e| CaptureError::io(format!("reading `{}`", file.display()), e);
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let opened = File::open(file).map_err(io)?;
    let file_bytes = opened.metadata().map_err(io)?.len();
    opened.take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(io)?;
    check_head(&head, file_bytes).map_err(|refusal| match refusal {
        Refusal::Architecture(found) => {
            CaptureError::Architecture { path: file.to_owned(), found, emulated: false }
        }
        Refusal::NoProgram(why) => CaptureError::NotExecutable { path: file.to_owned(), why },
    })
}

/// Whether the processor itself can run the file: a 64-bit x86-64 ELF program, or a script.
///
/// # Errors
///
/// Another architecture, or no program at all.
pub(crate) fn check_native(file: &Path) -> Result<(), CaptureError> {
    match kind(file)? {
        Kind::Program(Machine::X86_64) | Kind::Script { .. } => Ok(()),
        Kind::Program(other) => {
            let found = format!("a program for {}", machine_name(other.number()));
            Err(CaptureError::Architecture { path: file.to_owned(), found, emulated: true })
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    Architecture(String),
    NoProgram(String),
}

/// The decision on a file's first bytes and its length (ELF header: class at 4, byte order at 5, type at 16,
/// machine at 18; in 64-bit files the program headers' offset at 32, their size at 54 and their number at 56).
fn check_head(head: &[u8], file_bytes: u64) -> Result<Kind, Refusal> {
    const X86_64: u16 = 62;
    let no_program = |why: &str| Err(Refusal::NoProgram(why.to_owned()));
    if let Some(line) = head.strip_prefix(b"#!") {
        return Ok(script(line));
    }
    if !head.starts_with(b"\x7fELF") {
        return no_program("it is neither an ELF program nor a script that begins with #!");
    }
    if head.len() < 20 {
        return no_program("its ELF header is cut short");
    }
    let half = |i: usize| match head[5] {
        2 => u16::from_be_bytes([head[i], head[i + 1]]),
        _ => u16::from_le_bytes([head[i], head[i + 1]]),
    };
    let (object, number) = (half(16), half(18));
    let known = Machine::ALL.into_iter().find(|machine| machine.number() == number && head[5] != 2);
    let machine = match (head[4], known) {
        (2, Some(machine)) => machine,
        (1, _) if number == X86_64 => {
            return Err(Refusal::Architecture("an x32 program (32-bit pointers)".to_owned()));
        }
        (1, _) => return Err(Refusal::Architecture(format!("a 32-bit program ({})", machine_name(number)))),
        (2, None) => return Err(Refusal::Architecture(format!("a program for {}", machine_name(number)))),
        (class, _) => return Err(Refusal::NoProgram(format!("its ELF class is {class}, not 1 or 2"))),
    };
    match object {
        2 | 3 => check_program_headers(head, file_bytes).map(|()| Kind::Program(machine)),
        1 => no_program("it is an object file that was not linked"),
        _ => no_program("it is an ELF file but no program"),
    }
}

/// What follows `#!`: the interpreter, then the rest of the line as one argument.
fn script(line: &[u8]) -> Kind {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    let end = line.iter().position(|byte| b" \t".contains(byte)).unwrap_or(line.len());
    let (interpreter, argument) = (&line[..end], line[end..].trim_ascii());
    Kind::Script {
        interpreter: OsStr::from_bytes(interpreter).to_owned(),
        argument: (!argument.is_empty()).then(|| OsStr::from_bytes(argument).to_owned()),
    }
}

/// Without program headers the system takes a file for a shell script.
fn check_program_headers(head: &[u8], file_bytes: u64) -> Result<(), Refusal> {
    let no_program = |why: String| Err(Refusal::NoProgram(why));
    let Some(header) = head.first_chunk::<HEADER_BYTES>() else {
        return no_program("its ELF header is cut short".to_owned());
    };
    let offset = header[32..40].iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
    let half = |i: usize| u64::from(u16::from_le_bytes([header[i], header[i + 1]]));
    let end = offset.saturating_add(half(54) * half(56));
    if half(56) == 0 {
        return no_program("its ELF header lists no program headers".to_owned());
    }
    if end > file_bytes {
        return no_program(format!("it is cut short: program headers end at byte {end} of {file_bytes}"));
    }
    Ok(())
}

fn machine_name(machine: u16) -> String {
    let name = match machine {
        3 => "i386",
        8 => "MIPS",
        20 => "PowerPC",
        21 => "64-bit PowerPC",
        22 => "S/390",
        40 => "ARM",
        183 => "AArch64",
        243 => "RISC-V",
        258 => "LoongArch",
        other => return format!("ELF machine {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(class: u8, order: u8, kind: u16, machine: u16) -> Vec<u8> {
        let half = |v: u16| if order == 2 { v.to_be_bytes() } else { v.to_le_bytes() };
        let mut head = vec![0x7f, b'E', b'L', b'F', class, order, 1];
        head.resize(16, 0);
        head.extend(half(kind));
        head.extend(half(machine));
        head.resize(HEADER_BYTES, 0);
        head[32] = 64;
        head[54] = 56;
        head[56] = 2;
        head
    }

    fn check_head(head: &[u8]) -> Result<Kind, Refusal> {
        super::check_head(head, 64 + 2 * 56)
    }

    #[test]
    fn a_file_that_ends_before_its_program_headers_is_refused() {
        let head = header(2, 1, 2, 62);
        assert_eq!(super::check_head(&head, 64 + 2 * 56), Ok(Kind::Program(Machine::X86_64)));
        assert!(matches!(super::check_head(&head, 64 + 2 * 56 - 1), Err(Refusal::NoProgram(_))));
        let mut none = head;
        none[56] = 0;
        assert!(matches!(super::check_head(&none, 1 << 20), Err(Refusal::NoProgram(_))));
    }

    #[test]
    fn programs_scripts_and_strangers_are_told_apart() {
        for machine in Machine::ALL {
            for object in [2, 3] {
                assert_eq!(check_head(&header(2, 1, object, machine.number())), Ok(Kind::Program(machine)));
            }
        }
        for (head, word) in [
            (header(1, 1, 2, 3), "32-bit"),
            (header(1, 1, 3, 62), "x32"),
            (header(2, 2, 3, 183), "AArch64"),
            (header(2, 2, 2, 22), "S/390"),
        ] {
            match check_head(&head) {
                Err(Refusal::Architecture(found)) => assert!(found.contains(word), "{found}"),
                other => panic!("{word}: {other:?}"),
            }
        }
        for head in
            [header(2, 1, 1, 62), header(2, 1, 4, 62), b"\x7fELF\x02\x01".to_vec(), b"hello".to_vec(), vec![]]
        {
            assert!(matches!(check_head(&head), Err(Refusal::NoProgram(_))), "{head:?}");
        }
    }

    #[test]
    fn scripts_name_an_interpreter_and_one_argument() {
        for (text, interpreter, argument) in [
            (&b"#!/bin/sh\nexit 1\n"[..], "/bin/sh", None),
            (b"#! /usr/bin/env  python3 -u \nx", "/usr/bin/env", Some("python3 -u")),
            (b"#!\t/bin/awk\t-f", "/bin/awk", Some("-f")),
            (b"#!\n", "", None),
        ] {
            let expected =
                Kind::Script { interpreter: interpreter.into(), argument: argument.map(OsString::from) };
            assert_eq!(check_head(text), Ok(expected), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_file_is_judged(mut head: Vec<u8>, begin in 0..4usize, file_bytes: u64) {
            let known: [&[u8]; 4] = [b"", b"#!", b"\x7fELF\x02\x01\x01", b"\x7fELF\x01\x02\x01"];
            head.splice(0..0, known[begin].iter().copied());
            head.truncate(HEAD_BYTES);
            let _ = super::check_head(&head, file_bytes);
        }
    }

    #[test]
    fn a_program_is_found_in_path_and_by_path() {
        let path = Some(OsStr::new("/nowhere:/bin"));
        assert_eq!(resolve(OsStr::new("sh"), path).unwrap(), PathBuf::from("/bin/sh"));
        assert_eq!(resolve(OsStr::new("/bin/sh"), None).unwrap(), PathBuf::from("/bin/sh"));
        let missing = resolve(OsStr::new("no-such-program"), path).unwrap_err().to_string();
        assert!(missing.contains("no-such-program") && missing.contains("PATH"), "{missing}");
        let folder = resolve(OsStr::new("/bin/"), None).unwrap_err().to_string();
        assert!(folder.contains("folder"), "{folder}");
        let plain = resolve(OsStr::new("/etc/passwd"), None).unwrap_err().to_string();
        assert!(plain.contains("permission"), "{plain}");
    }
}
