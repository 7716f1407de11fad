//! The code of a workload: at each place where it emits events, the instructions that a compiled program would execute there.
//!
//! A [`Site`] is a block of model instructions (`pagewalk_code::model`) in a `static` beside the function that emits its accesses:
//!
//! ```text
//! /// The next word of a list, and whether it is the one.
//! static NEXT: Site = Site::new(&[
//!     Op::load(NODE, 8, &[NODE]),             // waits for the node before
//!     Op::compare_with(KEY, 8, &[NODE]),
//! ]).repeats();                               // taken where NEXT is executed again
//!
//! out.block(&NEXT)?;                          // counts 3 instructions
//! out.load(node.next(), 8)?;
//! out.load(node.key(), 8)?;
//! ```
//!
//! Registers carry dependences, within a block and from block to block. A branch is taken if the site that is executed next is its
//! target, so that it goes where the program's data sends it, and a core has to predict it.

use pagewalk_code::Register;
use pagewalk_code::model::{self, WORD};
use pagewalk_trace::{BlockId, Code, Isa};
use pagewalk_vm::addr::VirtAddr;
use rustc_hash::FxHashMap;

pub(crate) use pagewalk_code::model::{FLAGS, Op, STACK};

/// The address of the first instruction: where a program lies that is linked to fixed addresses. Sites follow in the order in which
/// the program comes to them.
const TEXT_START: u64 = 0x40_1000;
/// The first of the registers that instructions without a name of their own compute with, and how many there are: as many chains of
/// dependences run side by side, which is about what a compiler finds (assumed).
const FILLERS: u8 = model::GENERAL - FILLER_CHAINS;
const FILLER_CHAINS: u8 = 4;
/// The first register of what workloads share, such as the allocator: the ones below are a workload's own.
pub(crate) const SHARED: u8 = 16;

/// Returns a register by its number.
pub(crate) const fn r(number: u8) -> Register {
    assert!(number < FILLERS, "the number of a register that fillers use");
    model::general(number)
}

/// A block of instructions of the modelled program, and where control goes behind it.
///
/// # Contract
///
/// A site is a `static`: its address names it. Its operands in memory are the accesses that the workload emits behind
/// [`Emitter::block`](crate::emit::Emitter::block), in their order, with direction and size.
pub(crate) struct Site {
    ops: &'static [Op],
    /// Instructions of no interest besides.
    fillers: u32,
    end: End,
}

/// The last instruction of a site.
enum End {
    /// None: control goes on to the site that is executed next.
    FallThrough,
    /// A branch that is taken if the site itself is executed next.
    Repeat,
    /// A branch that is taken if this site is executed next.
    Branch(&'static Site),
    /// A jump to this site.
    Jump(&'static Site),
}

/// Sites that differ in the size of their accesses, for some sizes in bytes.
macro_rules! by_size {
    ($($size:literal)*: $bytes:ident => $site:expr) => {
        [$({
            const $bytes: u32 = $size;
            $site
        }),*]
    };
}
pub(crate) use by_size;

impl Site {
    /// Creates a site of these instructions, which control leaves without a branch.
    pub(crate) const fn new(ops: &'static [Op]) -> Self {
        Self { ops, fillers: 0, end: End::FallThrough }
    }

    /// Lets the site end with a branch to itself.
    pub(crate) const fn repeats(self) -> Self {
        Self { end: End::Repeat, ..self }
    }

    /// Lets the site end with a branch to another one.
    pub(crate) const fn branches(self, to: &'static Site) -> Self {
        Self { end: End::Branch(to), ..self }
    }

    /// Lets the site end with a jump to another one.
    pub(crate) const fn jumps(self, to: &'static Site) -> Self {
        Self { end: End::Jump(to), ..self }
    }

    /// Makes it a site of so many instructions, its end included: those that are missing are operations of one cycle on other
    /// registers. It comes behind what says how the site ends.
    pub(crate) const fn of(self, instructions: u64) -> Self {
        let named = self.instructions();
        assert!(named <= instructions, "a site with more instructions than it is to have");
        Self { fillers: (instructions - named) as u32, ..self }
    }

    /// Returns the number of instructions.
    #[inline(always)]
    pub(crate) const fn instructions(&self) -> u64 {
        self.ops.len() as u64 + self.fillers as u64 + !matches!(self.end, End::FallThrough) as u64
    }

    fn bytes(&self) -> u64 {
        self.instructions() * WORD as u64
    }

    /// Returns the last instruction and its target, if the site ends with a branch.
    fn last(&self) -> Option<(Op, &Site)> {
        match self.end {
            End::FallThrough => None,
            End::Repeat => Some((Op::branch(), self)),
            End::Branch(to) => Some((Op::branch(), to)),
            End::Jump(to) => Some((Op::jump(), to)),
        }
    }
}

/// The code of the program as far as it was executed.
#[derive(Default)]
pub(crate) struct Text {
    sites: FxHashMap<*const Site, Place>,
    /// The bytes that are taken.
    bytes: u64,
    blocks: u32,
}

/// The place of a site in the program, and its number once it has been executed.
#[derive(Clone, Copy)]
struct Place {
    addr: u64,
    block: Option<BlockId>,
}

impl Text {
    /// Returns the number of a site, and its code if it is executed for the first time.
    #[inline(always)]
    pub(crate) fn block(&mut self, site: &'static Site) -> (BlockId, Option<Code>) {
        match self.sites.get(&std::ptr::from_ref(site)) {
            Some(&Place { block: Some(block), .. }) => (block, None),
            _ => self.first_block(site),
        }
    }

    /// The same of a site that has no number yet. Apart, because a known site is looked up before each execution.
    #[inline(never)]
    fn first_block(&mut self, site: &'static Site) -> (BlockId, Option<Code>) {
        let (addr, block) = (self.place(site).addr, BlockId(self.blocks));
        self.blocks += 1;
        self.sites.insert(site, Place { addr, block: Some(block) });
        let bytes = self.assemble(site, addr).into();
        (block, Some(Code { block, addr: VirtAddr(addr), isa: Isa::Model, bytes }))
    }

    /// Returns the place of a site, which is the next free one if it has none.
    fn place(&mut self, site: &Site) -> Place {
        let next = Place { addr: TEXT_START + self.bytes, block: None };
        let place = *self.sites.entry(site).or_insert(next);
        if place.addr == next.addr {
            self.bytes += site.bytes();
        }
        place
    }

    fn assemble(&mut self, site: &Site, addr: u64) -> Vec<u8> {
        let fillers = (0..site.fillers).map(|number| {
            let register = model::general(FILLERS + (number % u32::from(FILLER_CHAINS)) as u8);
            Op::integer(register, &[register])
        });
        let mut ops: Vec<Op> = fillers.chain(site.ops.iter().copied()).collect();
        if let Some((last, target)) = site.last() {
            let from = addr + (ops.len() * WORD) as u64;
            let distance = (self.place(target).addr as i64 - from as i64) / WORD as i64;
            let last = last.towards(distance).expect("a branch over more than 64 KiB");
            let fuses = ops.last().is_some_and(|op| op.is_comparison()) && last.is_conditional();
            ops.push(if fuses { last.fused() } else { last });
        }
        ops.into_iter().flat_map(Op::to_bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use pagewalk_code::{Block, Class, Flow};

    use super::*;

    static FIRST: Site = Site::new(&[Op::compare_with(r(1), 8, &[r(0)])]).branches(&THIRD).of(6);
    static SECOND: Site = Site::new(&[Op::load(r(0), 8, &[r(0)]), Op::compare(&[r(0)])]).repeats();
    static THIRD: Site = Site::new(&[]).jumps(&FIRST);

    fn decoded(text: &mut Text, site: &'static Site) -> Block {
        let code = text.block(site).1.expect("a new block");
        Block::of_model(code.addr.0, &code.bytes)
    }

    #[test]
    fn branches_lead_to_the_places_of_their_sites() {
        let mut text = Text::default();
        let [first, second, third] = [&FIRST, &SECOND, &THIRD].map(|site| decoded(&mut text, site));
        // The target of the first has its place before the second, which is executed earlier.
        assert_eq!([first.addr, third.addr, second.addr], [0x40_1000, 0x40_1018, 0x40_101c]);
        let flow = |block: &Block| block.instructions.last().map(|last| last.flow);
        assert_eq!(flow(&first), Some(Flow::Conditional { target: third.addr }));
        assert_eq!(flow(&second), Some(Flow::Conditional { target: second.addr }));
        assert_eq!(flow(&third), Some(Flow::Jump { target: first.addr }));
        assert_eq!(text.block(&SECOND), (BlockId(1), None));
    }

    #[test]
    fn fillers_make_up_the_number_and_branches_fuse_with_comparisons_of_registers() {
        let mut text = Text::default();
        let [first, second] = [&FIRST, &SECOND].map(|site| decoded(&mut text, site));
        assert_eq!([FIRST.instructions(), SECOND.instructions(), THIRD.instructions()], [6, 3, 1]);
        assert_eq!([first.instructions.len(), second.instructions.len()], [6, 3]);
        let fuses = |block: &Block| block.instructions.iter().map(|op| op.fuses).collect::<Vec<_>>();
        assert_eq!(fuses(&second), [false, false, true]);
        assert!(
            first.instructions[..4].iter().all(|op| op.class == Class::Integer && op.operands.is_empty())
        );
        assert_eq!(first.instructions[4].operands.len(), 1);
    }
}
