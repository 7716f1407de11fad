//! The lines that an instruction loads next, if it goes on in equal steps.

use super::wanted::{Heard, Wanted, want};
use crate::spec::settings::StrideSpec;

/// Equal steps after which an instruction is believed to go on.
const SURE: u8 = 2;

/// The stride prefetcher: a table of instructions, direct-mapped.
#[derive(Clone, Debug)]
pub(super) struct Stride {
    rows: Box<[Row]>,
    distance: i64,
}

/// An instruction, the line of its last access, and its steps in lines.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    instruction: u64,
    line: u64,
    step: i64,
    equal: u8,
}

impl Stride {
    pub(super) fn new(spec: &StrideSpec) -> Self {
        let rows = vec![Row::default(); spec.instructions.next_power_of_two() as usize];
        Self { rows: rows.into_boxed_slice(), distance: spec.distance.into() }
    }

    #[inline]
    pub(super) fn hear(&mut self, heard: &Heard, wanted: &mut Wanted) {
        let &Heard { instruction, line, .. } = heard;
        let slot = (instruction ^ instruction >> 8) as usize & (self.rows.len() - 1);
        let row = &mut self.rows[slot];
        if row.instruction != instruction {
            *row = Row { instruction, line, ..Row::default() };
            return;
        }
        if row.line == line {
            return;
        }
        let step = line.wrapping_sub(row.line) as i64;
        row.line = line;
        if step != row.step {
            (row.step, row.equal) = (step, 0);
            return;
        }
        row.equal = SURE.min(row.equal + 1);
        if row.equal == SURE {
            want(wanted, line.wrapping_add_signed(step.saturating_mul(self.distance)), heard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(lines: &[u64]) -> Vec<u64> {
        let mut stride = Stride::new(&StrideSpec { instructions: 16, distance: 4 });
        let mut wanted = Wanted::new();
        for &line in lines {
            stride.hear(&Heard { instruction: 0x1000, page: 0, line, is_miss: true, at_ps: 0 }, &mut wanted);
        }
        wanted.iter().map(|ask| ask.line).collect()
    }

    #[test]
    fn an_instruction_with_equal_steps_is_believed_after_three() {
        assert_eq!(wanted(&[0, 0, 3, 3, 6]), []);
        assert_eq!(wanted(&[0, 3, 6, 9, 12]), [21, 24]);
        assert_eq!(wanted(&[60, 58, 56, 54]), [46]);
        assert_eq!(wanted(&[0, 3, 6, 10, 13, 16]), []);
    }

    #[test]
    fn nothing_beyond_the_page_is_wanted() {
        assert_eq!(wanted(&[50, 54, 58, 62]), []);
        assert_eq!(wanted(&[0, u64::MAX / 2, u64::MAX - 1, u64::MAX / 2 - 3]), []);
    }
}
