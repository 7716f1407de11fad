//! Exceptions and interrupts: what they are called, and their numbers.

/// The reason why an instruction did not complete. The discriminant is the cause's number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u64)]
pub enum Exception {
    /// No instructions are at this address.
    InstructionAccessFault = 1,
    /// No such instruction, or not here.
    IllegalInstruction = 2,
    /// The program executed EBREAK.
    Breakpoint = 3,
    /// A load-reserved that is not aligned.
    LoadAddressMisaligned = 4,
    /// The address cannot be loaded from.
    LoadAccessFault = 5,
    /// An atomic that is not aligned.
    StoreAddressMisaligned = 6,
    /// The address cannot be stored to.
    StoreAccessFault = 7,
    /// ECALL of a program.
    UserCall = 8,
    /// ECALL of a supervisor.
    SupervisorCall = 9,
    /// ECALL of the machine mode.
    MachineCall = 11,
    /// An instruction's page cannot be used.
    InstructionPageFault = 12,
    /// A load's page cannot be used.
    LoadPageFault = 13,
    /// A store's or atomic's page cannot be used.
    StorePageFault = 15,
}

impl Exception {
    /// Returns the number of the exception, as `mcause` has it.
    pub const fn number(self) -> u64 {
        self as u64
    }
}

/// An exception with what `mtval` gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trap {
    pub(crate) cause: Exception,
    pub(crate) value: u64,
}

impl Trap {
    pub(crate) const fn new(cause: Exception, value: u64) -> Self {
        Self { cause, value }
    }
}

/// The purpose of an access, which decides on permissions and on the exception.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// The fetch of an instruction.
    Fetch,
    /// A load, or a load-reserved.
    Load,
    /// A store or an atomic.
    Store,
}

impl Access {
    pub(crate) const fn page_fault(self, addr: u64) -> Trap {
        let cause = match self {
            Self::Fetch => Exception::InstructionPageFault,
            Self::Load => Exception::LoadPageFault,
            Self::Store => Exception::StorePageFault,
        };
        Trap::new(cause, addr)
    }

    pub(crate) const fn access_fault(self, addr: u64) -> Trap {
        let cause = match self {
            Self::Fetch => Exception::InstructionAccessFault,
            Self::Load => Exception::LoadAccessFault,
            Self::Store => Exception::StoreAccessFault,
        };
        Trap::new(cause, addr)
    }
}

/// Interrupts, by their bit in `mip`.
pub(crate) mod interrupt {
    pub(crate) const SUPERVISOR_SOFTWARE: u64 = 1 << 1;
    pub(crate) const MACHINE_SOFTWARE: u64 = 1 << 3;
    pub(crate) const SUPERVISOR_TIMER: u64 = 1 << 5;
    pub(crate) const MACHINE_TIMER: u64 = 1 << 7;
    pub(crate) const SUPERVISOR_EXTERNAL: u64 = 1 << 9;
    pub(crate) const MACHINE_EXTERNAL: u64 = 1 << 11;
    pub(crate) const SUPERVISOR: u64 = SUPERVISOR_SOFTWARE | SUPERVISOR_TIMER | SUPERVISOR_EXTERNAL;
    pub(crate) const MACHINE: u64 = MACHINE_SOFTWARE | MACHINE_TIMER | MACHINE_EXTERNAL;
    /// By number, the most urgent first.
    pub(crate) const ORDER: [u64; 6] = [11, 3, 7, 9, 1, 5];
}
