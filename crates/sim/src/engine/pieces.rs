//! A batch of events as what a driver does in turn: some accesses, then something else.

use pagewalk_trace::{Access, Batch, Event, Mark};

/// Accesses of a batch, and what follows them.
pub(crate) struct Piece<'a> {
    pub(crate) accesses: &'a [Access],
    pub(crate) then: Then<'a>,
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
    let mut done = 0;
    (0..=batch.marks.len()).map(move |number| {
        let Some(Mark { at, event, .. }) = batch.marks.get(number) else {
            return Piece { accesses: &batch.accesses[done..], then: Then::End };
        };
        let accesses = &batch.accesses[done..*at as usize];
        done = *at as usize;
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
                (piece.accesses.len(), then)
            })
            .collect();
        let expected = [(1, "10 hold 2"), (1, "Exec"), (1, "20 hold 0"), (0, "ProcessEnd"), (0, "end")];
        assert_eq!(taken, expected.map(|(accesses, then)| (accesses, then.to_owned())));
    }
}
