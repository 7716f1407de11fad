//! The price of contiguous memory.

/// Cycles to allocate and zero contiguous memory, at 2 GHz and a fragmentation index of 0.7, by size: the ME-HPT paper,
/// section III. Between the sizes, straight lines in logarithms.
const ALLOCATION_CYCLES: [(u64, f64); 5] =
    [(4 << 10, 4e3), (8 << 10, 5e3), (1 << 20, 750e3), (8 << 20, 13e6), (64 << 20, 120e6)];

/// Returns the cycles that it takes to allocate and zero so many contiguous bytes.
///
/// Source: the ME-HPT paper (HPCA 2023), section III, for a clock of 2 GHz and a fragmentation index of 0.7.
pub fn allocation_cycles(bytes: u64) -> f64 {
    let table = &ALLOCATION_CYCLES;
    let above = table.iter().position(|&(size, _)| size >= bytes).unwrap_or(table.len() - 1).max(1);
    let [(low, low_cycles), (high, high_cycles)] = [table[above - 1], table[above]];
    let share = (bytes as f64 / low as f64).ln() / (high as f64 / low as f64).ln();
    low_cycles * (high_cycles / low_cycles).powf(share)
}
