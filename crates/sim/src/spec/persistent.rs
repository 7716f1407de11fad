//! Persistent memory.

use super::quantity::SECOND_PS;
use super::section::{MILLISECOND_PS, Resolver, Table, section};

/// Bytes of a line.
const LINE_BYTES: u64 = 64;

/// The time of a line, by a bandwidth.
pub(super) fn line_ps(bytes_a_second: u64) -> u64 {
    LINE_BYTES * SECOND_PS / bytes_a_second
}

section! {
    /// The settings of persistent memory.
    pub struct PersistentSpec {
        bytes: u64 = "capacity" bytes(1 << 21, 1 << 40), "how much there is";
        read_random_ps: u64 = "read-random" time(MILLISECOND_PS), "a line whose neighbour was not read before it";
        read_sequential_ps: u64 = "read-sequential" time(MILLISECOND_PS), "the line behind the one before";
        write_ps: u64 = "write" time(MILLISECOND_PS), "a line, until it persists";
        modules: u32 = "modules" integer(1, 64) or "1", "modules that the memory is spread over";
        interleave_shift: u32 = "interleave" bytes(64, 1 << 30) or "\"4KiB\"" as u64::trailing_zeros, "bytes of one module before the next one's, a power of two";
        module_read_ps: u64 = "read-bandwidth" bytes(1 << 20, 1 << 50) or "\"64GiB\"" as line_ps, "of each module, in a second";
        module_write_ps: u64 = "write-bandwidth" bytes(1 << 20, 1 << 50) or "\"64GiB\"" as line_ps, "the same for writes";
        buffer_lines: u64 = "buffer" bytes(64, 1 << 30) or "\"16KiB\"" as |bytes| bytes / LINE_BYTES, "written bytes that a module takes in ahead of its bandwidth";
    }
}

/// Persistent memory whose modules address bits choose.
pub(super) fn memory(table: &Table, resolver: &mut Resolver<'_>) -> Option<PersistentSpec> {
    let (interleave, capacity) = (table.bytes("interleave")?, table.bytes("capacity")?);
    if !interleave.is_power_of_two() {
        let message = format!("persistent: an interleave of {interleave} bytes is no power of two");
        return resolver.refuse(message, "address bits choose a module", table, &["interleave"]);
    }
    if !capacity.is_multiple_of(2 << 20) {
        let message = format!("persistent: {capacity} bytes are no whole number of 2MiB");
        return resolver.refuse(message, "write a multiple of 2MiB", table, &["capacity"]);
    }
    PersistentSpec::resolve(table, resolver)
}
