//! A batch of events as what a driver does in turn: some accesses, then something else.

use pagewalk_trace::{Access, Batch, BlockId, Event, Executed, Mark};

/// Accesses of a batch, and what follows them.
pub(crate) struct Piece<'a> {
    pub(crate) accesses: Accesses<'a>,
    pub(crate) then: Then<'a>,
}

/// Accesses of a thread that follow each other, with the blocks of instructions that make them.
#[derive(Clone, Copy)]
pub(crate) struct Accesses<'a> {
    pub(crate) list: &'a [Access],
    /// The place of the first of them in the batch.
    first: usize,
    /// The blocks from there on, some of which may begin behind the accesses.
    blocks: &'a [Executed],
    /// How many of the blocks begin among the accesses.
    own: usize,
    /// The place in the batch behind the accesses of the last block.
    end: usize,
    /// The number of the first block.
    first_block: usize,
}

/// Where in a batch some accesses are, which are taken later.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    first: usize,
    count: usize,
    first_block: usize,
    blocks: usize,
    own: usize,
    end: usize,
}

impl Place {
    /// Returns the accesses in their batch.
    pub(crate) fn of(self, batch: &Batch) -> Accesses<'_> {
        let Self { first, count, first_block, blocks, own, end } = self;
        let list = &batch.accesses[first..first + count];
        let blocks = &batch.blocks[first_block..first_block + blocks];
        Accesses { list, first, blocks, own, end, first_block }
    }

    /// Returns the number of accesses and of blocks that begin among them.
    pub(crate) fn len(self) -> usize {
        self.count + self.own
    }
}

/// The execution of a block.
pub(crate) struct Execution<'a> {
    pub(crate) block: BlockId,
    /// The number of accesses that it makes.
    pub(crate) count: usize,
    /// Those among them that are made now.
    pub(crate) accesses: &'a [Access],
}

impl<'a> Accesses<'a> {
    /// Divides them before an access; a block that begins there is behind.
    pub(crate) fn split_at(self, count: usize) -> (Self, Self) {
        let (before, after) = self.list.split_at(count);
        let first = self.first + count;
        let own = blocks_before(&self.blocks[..self.own], first);
        (
            Self { list: before, own, ..self },
            Self {
                list: after,
                first,
                blocks: &self.blocks[own..],
                own: self.own - own,
                first_block: self.first_block + own,
                ..self
            },
        )
    }

    /// Returns where they are in their batch.
    pub(crate) fn place(self) -> Place {
        let Self { list, first, blocks, own, end, first_block } = self;
        Place { first, count: list.len(), first_block, blocks: blocks.len(), own, end }
    }

    /// Returns whether there is neither an access nor a block.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.own == 0
    }

    /// Returns the accesses before the first block, and the executions of the blocks.
    pub(crate) fn by_block(self) -> (&'a [Access], impl Iterator<Item = Execution<'a>>) {
        let Self { list, first, blocks, own, end, .. } = self;
        let start = move |block: Option<&Executed>| block.map_or(end, |block| block.at as usize);
        let mut from = start(blocks.first());
        let (before, mut rest) = list.split_at(list.len().min(from - first));
        let executions = blocks[..own].iter().zip(1..).map(move |(&Executed { block, .. }, next)| {
            let to = start(blocks.get(next));
            let count = to - from;
            let accesses;
            (accesses, rest) = rest.split_at(rest.len().min(count));
            from = to;
            Execution { block, count, accesses }
        });
        (before, executions)
    }
}

/// Returns how many blocks begin before an access.
fn blocks_before(blocks: &[Executed], access: usize) -> usize {
    /// Cores that take turns take one access at a time, and the first blocks decide.
    const FEW: usize = 4;
    let is_before = |block: &Executed| (block.at as usize) < access;
    match blocks.iter().take(FEW).take_while(|block| is_before(block)).count() {
        FEW => FEW + blocks[FEW..].partition_point(is_before),
        few => few,
    }
}

/// The event, or the end, behind the accesses of a piece.
pub(crate) enum Then<'a> {
    /// So many instructions hold the next accesses.
    Segment { instructions: u64, accesses: u64 },
    /// An event of another kind.
    Event(&'a Event),
    /// The end of the batch.
    End,
}

/// Returns the pieces of a batch, in order.
pub(crate) fn pieces(batch: &Batch) -> impl Iterator<Item = Piece<'_>> {
    let (mut first, mut first_block) = (0, 0);
    let mut up_to = move |end: usize, end_block: usize| {
        let (list, blocks) = (&batch.accesses[first..end], &batch.blocks[first_block..end_block]);
        let accesses = Accesses { list, first, blocks, own: blocks.len(), end, first_block };
        (first, first_block) = (end, end_block);
        accesses
    };
    (0..=batch.marks.len()).map(move |number| {
        let Some(Mark { at, blocks, event }) = batch.marks.get(number) else {
            return Piece { accesses: up_to(batch.accesses.len(), batch.blocks.len()), then: Then::End };
        };
        let accesses = up_to(*at as usize, *blocks as usize);
        let then = match event {
            Event::Instructions(count) => {
                Then::Segment { instructions: *count, accesses: accesses_of_segment(batch, number) }
            }
            event => Then::Event(event),
        };
        Piece { accesses, then }
    })
}

/// Returns how many accesses the instruction count at a mark reaches to: up to the next one.
fn accesses_of_segment(batch: &Batch, mark: usize) -> u64 {
    let next = batch.marks[mark + 1..].iter().find(|mark| matches!(mark.event, Event::Instructions(_)));
    let end = next.map_or(batch.accesses.len(), |mark| mark.at as usize);
    (end - batch.marks[mark].at as usize) as u64
}

#[cfg(test)]
mod tests {
    use pagewalk_vm::addr::VirtAddr;

    use super::*;

    #[test]
    fn a_batch_is_its_pieces_in_order_and_an_instruction_count_reaches_to_the_next() {
        let mut batch = Batch::new();
        let access = |at| Access::load(VirtAddr(at), 8);
        batch.push(access(0));
        batch.mark(Event::Instructions(10));
        batch.push(access(1));
        batch.mark(Event::Exec);
        batch.push(access(2));
        batch.mark(Event::Instructions(20));
        batch.mark(Event::ProcessEnd);
        let taken: Vec<(usize, String)> = pieces(&batch)
            .map(|piece| {
                let then = match piece.then {
                    Then::Segment { instructions, accesses } => format!("{instructions} hold {accesses}"),
                    Then::Event(event) => format!("{event:?}"),
                    Then::End => "end".to_owned(),
                };
                (piece.accesses.list.len(), then)
            })
            .collect();
        let expected = [(1, "10 hold 2"), (1, "Exec"), (1, "20 hold 0"), (0, "ProcessEnd"), (0, "end")];
        assert_eq!(taken, expected.map(|(accesses, then)| (accesses, then.to_owned())));
    }

    /// An execution as block, number of all its accesses, and addresses of those that are made now.
    type Seen = (u32, usize, Vec<u64>);

    /// The addresses before the first block, and the executions.
    fn executions(accesses: Accesses<'_>) -> (Vec<u64>, Vec<Seen>) {
        let addresses = |list: &[Access]| list.iter().map(|access| access.addr().0).collect::<Vec<_>>();
        let (before, executions) = accesses.by_block();
        let each = executions.map(|each| (each.block.0, each.count, addresses(each.accesses)));
        (addresses(before), each.collect())
    }

    #[test]
    fn a_block_has_all_its_accesses_however_they_are_divided() {
        let mut batch = Batch::new();
        let execute = |batch: &mut Batch, block: u32, accesses: std::ops::Range<u64>| {
            batch.execute(BlockId(block));
            accesses.for_each(|at| batch.push(Access::load(VirtAddr(at), 1)));
        };
        batch.push(Access::load(VirtAddr(1), 1));
        execute(&mut batch, 7, 2..4);
        execute(&mut batch, 8, 0..0);
        execute(&mut batch, 9, 4..5);
        execute(&mut batch, 8, 0..0);
        batch.mark(Event::Exec);
        execute(&mut batch, 6, 5..7);
        let all: Vec<Piece<'_>> = pieces(&batch).collect();
        let expected = vec![(7, 2, vec![2, 3]), (8, 0, vec![]), (9, 1, vec![4]), (8, 0, vec![])];
        assert_eq!(executions(all[0].accesses), (vec![1], expected));
        assert_eq!(executions(all[1].accesses), (vec![], vec![(6, 2, vec![5, 6])]));

        let (first, rest) = all[0].accesses.split_at(2);
        assert_eq!(executions(first), (vec![1], vec![(7, 2, vec![2])]));
        let (second, rest) = rest.split_at(2);
        assert_eq!(executions(second), (vec![3], vec![(8, 0, vec![]), (9, 1, vec![4])]));
        let (none, last) = rest.split_at(0);
        assert!(none.is_empty() && !last.is_empty());
        assert_eq!(executions(last), (vec![], vec![(8, 0, vec![])]));
    }
}
