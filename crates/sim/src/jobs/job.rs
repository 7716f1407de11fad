//! Jobs that have been read: what they do, and when they arrive.

use std::collections::VecDeque;

use pagewalk_trace::{Access, BlockId};

use crate::engine::Accesses;
use crate::metrics::Boundary;

/// A job: its accesses, its boundaries and its progress.
#[derive(Default)]
pub(super) struct Job {
    pub(super) accesses: Vec<Access>,
    blocks: Blocks,
    /// From which access on, how many instructions contain how many accesses.
    segments: Vec<(usize, u64, u64)>,
    /// The place of the next access.
    pub(super) access: usize,
    segment: usize,
    pub(super) arrival_ps: Option<u64>,
    pub(super) started_ps: u64,
    /// Boundaries that are crossed with its start.
    pub(super) boundaries: Vec<Boundary>,
    /// The part of the run that it started in.
    pub(super) part: usize,
}

/// The blocks of instructions that a job executes.
#[derive(Default)]
struct Blocks {
    /// By block, the place of the first of its accesses among the job's.
    list: Vec<(usize, BlockId)>,
    /// How many of them have begun.
    begun: usize,
}

/// A block of instructions that a job executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JobBlock {
    pub(super) block: BlockId,
    /// The number of its accesses, and how many of them have been made.
    pub(super) accesses: usize,
    pub(super) made: usize,
}

impl Job {
    /// Adds accesses to the job, with the blocks that make them where those are wanted.
    pub(super) fn read(&mut self, accesses: Accesses<'_>, wants_blocks: bool) {
        let mut at = self.accesses.len();
        self.accesses.extend_from_slice(accesses.list);
        if wants_blocks {
            let (before, executions) = accesses.by_block();
            at += before.len();
            for execution in executions {
                self.blocks.list.push((at, execution.block));
                at += execution.accesses.len();
            }
        }
    }

    /// Begins the next block, if it begins before the next access.
    pub(super) fn next_block(&mut self) -> Option<JobBlock> {
        let &(at, _) = self.blocks.list.get(self.blocks.begun)?;
        if at > self.access {
            return None;
        }
        self.blocks.begun += 1;
        self.current_block()
    }

    /// Returns the block that the job is in.
    pub(super) fn current_block(&self) -> Option<JobBlock> {
        let number = self.blocks.begun.checked_sub(1)?;
        let (at, block) = self.blocks.list[number];
        let end = self.blocks.list.get(number + 1).map_or(self.accesses.len(), |next| next.0);
        Some(JobBlock { block, accesses: end - at, made: self.access - at })
    }

    /// Returns the instructions and accesses of the segment that the next access begins, if it begins one.
    pub(super) fn next_segment(&mut self) -> Option<(u64, u64)> {
        let &(at, instructions, accesses) = self.segments.get(self.segment)?;
        if at > self.access {
            return None;
        }
        self.segment += 1;
        Some((instructions, accesses))
    }

    /// Returns the instructions and accesses of the segment that the job is in.
    pub(super) fn current_segment(&self) -> Option<(u64, u64)> {
        let &(_, instructions, accesses) = self.segments.get(self.segment.checked_sub(1)?)?;
        Some((instructions, accesses))
    }
}

/// The jobs that have been read and are not finished, by number; numbers are reused.
#[derive(Default)]
pub(super) struct JobList {
    jobs: Vec<Job>,
    free: Vec<u32>,
    /// Read, and not arrived.
    backlog: VecDeque<u32>,
    /// The job that is being read.
    open: Option<u32>,
    /// Boundaries that are crossed with the next job.
    boundaries: Vec<Boundary>,
}

impl JobList {
    /// Returns whether no job was read yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn job(&mut self, number: u32) -> &mut Job {
        &mut self.jobs[number as usize]
    }

    /// Returns the place of a job's next access.
    pub(super) fn place(&self, number: u32) -> u64 {
        self.jobs[number as usize].access as u64
    }

    /// Begins to read a job.
    pub(super) fn open(&mut self, arrival_ps: Option<u64>) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(Job::default());
            self.jobs.len() as u32 - 1
        });
        let boundaries = std::mem::take(&mut self.boundaries);
        let job = self.job(number);
        job.accesses.clear();
        job.segments.clear();
        job.blocks.list.clear();
        job.blocks.begun = 0;
        (job.access, job.segment, job.arrival_ps, job.boundaries) = (0, 0, arrival_ps, boundaries);
        self.open = Some(number);
    }

    /// Closes the job that was being read.
    pub(super) fn close(&mut self) {
        self.backlog.extend(self.open.take());
    }

    /// Returns the job that is being read.
    pub(super) fn being_read(&mut self) -> Option<&mut Job> {
        self.open.map(|number| &mut self.jobs[number as usize])
    }

    /// Adds so many instructions, which hold so many accesses, to the job that is being read.
    pub(super) fn read_segment(&mut self, instructions: u64, accesses: u64) {
        if let Some(job) = self.being_read() {
            job.segments.push((job.accesses.len(), instructions, accesses));
        }
    }

    /// Crosses a boundary with the next job.
    pub(super) fn read_boundary(&mut self, boundary: Boundary) {
        self.boundaries.push(boundary);
    }

    /// Returns the next job that has not arrived, and its time of arrival if it has one.
    pub(super) fn next(&self) -> Option<Option<u64>> {
        self.backlog.front().map(|&job| self.jobs[job as usize].arrival_ps)
    }

    /// Returns the next arrival of a job that has a time; the end of time if the next one has none.
    pub(super) fn next_arrival_ps(&self) -> u64 {
        self.next().flatten().unwrap_or(u64::MAX)
    }

    /// Lets the next job arrive, and returns its number.
    pub(super) fn arrive(&mut self, at_ps: u64) -> u32 {
        let job = self.backlog.pop_front().expect("it was looked at");
        self.job(job).arrival_ps = Some(at_ps);
        job
    }

    /// Removes a job that has arrived and for which there is no room. Its boundaries are crossed all the same, with the
    /// next one.
    pub(super) fn refuse(&mut self, number: u32) {
        let mut boundaries = std::mem::take(&mut self.job(number).boundaries);
        self.boundaries.append(&mut boundaries);
        self.free.push(number);
    }

    /// Removes a job that is done.
    pub(super) fn finish(&mut self, number: u32) {
        self.free.push(number);
    }
}

#[cfg(test)]
mod tests {
    use pagewalk_vm::addr::VirtAddr;

    use super::*;

    fn read(list: &mut JobList, arrival_ps: Option<u64>, accesses: usize) {
        list.open(arrival_ps);
        let job = list.being_read().expect("it is open");
        job.accesses.extend((0..accesses).map(|at| Access::load(VirtAddr(at as u64), 8)));
        list.close();
    }

    #[test]
    fn jobs_arrive_in_the_order_in_which_they_were_read() {
        let mut list = JobList::default();
        assert!(list.is_untouched() && list.next().is_none());
        assert_eq!(list.next_arrival_ps(), u64::MAX);
        read(&mut list, Some(7), 1);
        read(&mut list, None, 2);
        assert_eq!((list.next(), list.next_arrival_ps()), (Some(Some(7)), 7));
        let first = list.arrive(7);
        assert_eq!((list.next(), list.next_arrival_ps()), (Some(None), u64::MAX));
        let second = list.arrive(9);
        assert_eq!((list.job(second).arrival_ps, list.job(second).accesses.len()), (Some(9), 2));
        assert!(list.next().is_none() && !list.is_untouched());
        list.finish(first);
        read(&mut list, None, 3);
        assert_eq!(list.arrive(0), first, "numbers are reused");
        assert_eq!(list.job(first).accesses.len(), 3, "and nothing is left of the job before");
    }

    #[test]
    fn the_boundaries_of_a_refused_job_are_crossed_with_the_next() {
        let mut list = JobList::default();
        list.read_boundary(Boundary::Phase("serve".into()));
        read(&mut list, None, 1);
        let refused = list.arrive(0);
        list.refuse(refused);
        list.read_boundary(Boundary::Measuring);
        read(&mut list, None, 1);
        let next = list.arrive(1);
        assert_eq!(list.job(next).boundaries, [Boundary::Phase("serve".into()), Boundary::Measuring]);
    }

    #[test]
    fn a_segment_begins_with_its_first_access() {
        let mut list = JobList::default();
        list.open(None);
        list.read_segment(10, 1);
        list.being_read().unwrap().accesses.push(Access::load(VirtAddr(0), 8));
        list.read_segment(20, 1);
        list.close();
        let number = list.arrive(0);
        let job = list.job(number);
        assert_eq!((job.current_segment(), job.next_segment()), (None, Some((10, 1))));
        assert_eq!((job.next_segment(), job.current_segment()), (None, Some((10, 1))));
        job.access = 1;
        assert_eq!((list.place(number), list.job(number).next_segment()), (1, Some((20, 1))));
    }

    #[test]
    fn a_job_is_in_the_block_whose_accesses_are_made() {
        let mut batch = pagewalk_trace::Batch::new();
        for (block, accesses) in [(7, 2), (8, 0), (9, 1)] {
            batch.execute(BlockId(block));
            (0..accesses).for_each(|at| batch.push(Access::load(VirtAddr(at), 8)));
        }
        let pieces: Vec<_> = crate::engine::pieces(&batch).collect();
        let mut job = Job::default();
        job.read(pieces[0].accesses, true);
        let seen = |block, accesses, made| Some(JobBlock { block: BlockId(block), accesses, made });
        assert_eq!((job.current_block(), job.next_block()), (None, seen(7, 2, 0)));
        assert_eq!(job.next_block(), None, "its accesses are not made");
        job.access = 1;
        assert_eq!((job.next_block(), job.current_block()), (None, seen(7, 2, 1)));
        job.access = 2;
        assert_eq!([(); 3].map(|()| job.next_block()), [seen(8, 0, 0), seen(9, 1, 0), None]);
        job.access = 3;
        assert_eq!((job.next_block(), job.current_block()), (None, seen(9, 1, 1)));
    }
}
