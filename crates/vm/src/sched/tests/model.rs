//! The rules once more, as they read: two lists and no memory of anything that can be looked up.

use super::*;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Job {
    pub(super) job: u32,
    pub(super) missed_at: u64,
    pub(super) there: bool,
}

pub(super) struct Model {
    design: SchedulerDesign,
    pub(super) new: Vec<u32>,
    pub(super) pending: Vec<Job>,
    /// Missed, without a place among the pending.
    pub(super) outside: Option<Job>,
    /// All responses, oldest first.
    pub(super) responses: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Choice {
    New(u32),
    Pending(Job),
    Wait(Option<u64>),
}

impl Model {
    pub(super) fn new(design: SchedulerDesign) -> Self {
        Self { design, new: Vec::new(), pending: Vec::new(), outside: None, responses: Vec::new() }
    }

    /// In eighths, from the beginning.
    pub(super) fn average(&self) -> u64 {
        match self.design.response {
            Response::Constant(constant) => constant,
            Response::Measured { start } => {
                self.responses.iter().fold(start * 8, |sum, response| sum - sum / 8 + response) / 8
            }
        }
    }

    fn is_ready(&self, now: u64, job: Job) -> bool {
        match self.design.notification {
            Notification::Arrival => job.there,
            Notification::Age => now - job.missed_at > self.average(),
        }
    }

    pub(super) fn choose(&mut self, now: u64, missed: Option<Job>) -> Choice {
        if let Some(job) = missed {
            if self.pending.len() < self.design.pending_capacity as usize {
                self.pending.push(job);
            } else {
                self.outside = Some(job);
            }
        }
        if let Some(outside) = self.outside {
            let oldest = self.pending[0];
            if self.design.notification == Notification::Arrival && !oldest.there {
                return Choice::Wait(None);
            }
            self.pending.remove(0);
            self.pending.push(outside);
            self.outside = None;
            return Choice::Pending(oldest);
        }
        let ready: Vec<Job> = self.pending.iter().copied().filter(|&job| self.is_ready(now, job)).collect();
        let oldest_ready = ready.first().filter(|job| **job == self.pending[0]).copied();
        let (candidate, looks) = match (self.design.policy, self.design.notification) {
            (Policy::Priority, Notification::Arrival) => (ready.first().copied(), true),
            (Policy::Priority, Notification::Age) => (oldest_ready, true),
            (Policy::Fifo, _) => (oldest_ready, missed.is_some() || self.new.is_empty()),
        };
        if let Some(job) = candidate.filter(|_| looks) {
            self.pending.retain(|other| *other != job);
            return Choice::Pending(job);
        }
        if !self.new.is_empty() {
            return Choice::New(self.new.remove(0));
        }
        let due = self.pending.first().map(|job| job.missed_at + self.average() + 1);
        Choice::Wait(due.filter(|_| self.design.notification == Notification::Age))
    }
}
