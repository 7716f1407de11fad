//! Kinds of operations, as the execution units of a core distinguish them.

/// The kind of an operation: which execution unit it needs, and which latency it has.
///
/// A class is about the operation alone. The loads and stores of an instruction are in its operands: an addition to a word in memory
/// is [`Class::Integer`] with an operand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// No work beyond the place in the pipeline: no-operations, hints, prefetches.
    Nop,
    /// A register is set to zero, by an operation on itself that cores recognise when they rename registers.
    Zero,
    /// A whole register is copied to another, which a core may do by renaming.
    Move,
    /// An operation of one cycle on general registers.
    Integer,
    /// An address computed of at most two parts, one of which may be scaled.
    Lea,
    /// An address computed of three parts.
    LeaComplex,
    /// A shift or a rotation of a general register.
    Shift,
    /// A multiplication of general registers, or an operation that shares its unit: `crc32`, `pdep`, `pext`.
    Multiply,
    /// A division of general registers of 32 bits or fewer.
    Divide32,
    /// A division of general registers of 64 bits.
    Divide64,
    /// A search for a bit, or a count of bits, in a general register.
    BitScan,
    /// A move or a byte that depends on the flags.
    Condition,
    /// A jump, a call, or a return.
    Branch,
    /// An addition or a subtraction of floating-point numbers.
    FloatAdd,
    /// A multiplication of floating-point numbers, or an approximation of a quotient or of a root.
    FloatMultiply,
    /// A multiplication and an addition of floating-point numbers in one operation.
    FloatMultiplyAdd,
    /// A division of floating-point numbers.
    FloatDivide,
    /// A square root of floating-point numbers.
    FloatSquareRoot,
    /// A comparison of floating-point numbers, their minimum or maximum.
    FloatCompare,
    /// A conversion between number formats, or a rounding.
    Convert,
    /// An operation of one cycle on vectors: integers, masks, bits.
    VectorInteger,
    /// A multiplication of integers in vectors, or a sum of absolute differences.
    VectorMultiply,
    /// A permutation of a vector's elements, or a shift of each.
    Shuffle,
    /// A copy between vector registers that renaming does not do.
    VectorMove,
    /// A transfer between general and vector registers, or from vectors to the flags.
    Cross,
    /// A step of a cipher, of a hash or of a carry-less product, or a comparison of strings in vectors.
    Crypto,
    /// An operation of the x87 unit, the slow ones apart.
    X87,
    /// A division, a root, a remainder or a transcendental function of the x87 unit.
    X87Divide,
    /// No work but the loads and stores of the operands.
    LoadStore,
    /// One step, or the repetition, of a string instruction.
    String,
    /// An atomic operation on memory.
    Locked,
    /// A barrier, a pause, or a flush of a cache line: later instructions wait.
    Fence,
    /// An instruction that microcode or the kernel executes.
    System,
    /// Bytes that the decoder does not know.
    Unknown,
    /// A conversion between a number in a general register and one in a vector.
    CrossConvert,
}

impl Class {
    /// All classes, in the order of their declaration: `Class::ALL[class as usize]` is `class`. Recordings hold these numbers: a new class
    /// comes last.
    pub const ALL: [Self; 35] = [
        Self::Nop,
        Self::Zero,
        Self::Move,
        Self::Integer,
        Self::Lea,
        Self::LeaComplex,
        Self::Shift,
        Self::Multiply,
        Self::Divide32,
        Self::Divide64,
        Self::BitScan,
        Self::Condition,
        Self::Branch,
        Self::FloatAdd,
        Self::FloatMultiply,
        Self::FloatMultiplyAdd,
        Self::FloatDivide,
        Self::FloatSquareRoot,
        Self::FloatCompare,
        Self::Convert,
        Self::VectorInteger,
        Self::VectorMultiply,
        Self::Shuffle,
        Self::VectorMove,
        Self::Cross,
        Self::Crypto,
        Self::X87,
        Self::X87Divide,
        Self::LoadStore,
        Self::String,
        Self::Locked,
        Self::Fence,
        Self::System,
        Self::Unknown,
        Self::CrossConvert,
    ];
}
