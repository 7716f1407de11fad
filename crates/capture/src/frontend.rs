//! The front-ends by which a program is observed.

/// The front-end by which accesses are observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Frontend {
    /// The own Valgrind tool: any x86-64 program, unmodified.
    #[default]
    Valgrind,
    /// The call-out runtime: a program compiled with `-fsanitize=thread` and linked with the runtime.
    Callout,
    /// The plugin of QEMU's user-mode emulation: any program for x86-64, AArch64, RISC-V or LoongArch of 64 bits,
    /// unmodified, its threads in parallel.
    Qemu,
}

impl Frontend {
    /// Returns whether the front-end counts instructions.
    pub(crate) fn counts_instructions(self) -> bool {
        match self {
            Self::Valgrind | Self::Qemu => true,
            Self::Callout => false,
        }
    }

    /// Returns whether the front-end can observe which blocks of instructions are executed.
    pub(crate) fn gives_blocks(self) -> bool {
        match self {
            Self::Valgrind | Self::Qemu => true,
            Self::Callout => false,
        }
    }
}
