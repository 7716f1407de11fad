//! A bank and its schedule.

use std::collections::VecDeque;

use super::{DramCounts, DramRequest};
use crate::spec::settings::DramSpec;
use crate::time::calendar::Calendar;

/// Columns of 8 bytes in a line, and in a page.
const LINE_COLUMNS: u64 = 64 / 8;
const PAGE_COLUMNS: u64 = 4_096 / 8;

/// The times of commands.
#[derive(Clone, Debug)]
pub(super) struct Times {
    ras_ps: u64,
    cas_ps: u64,
    burst_ps: u64,
    precharge_ps: u64,
    command_ps: u64,
    tag_columns: u64,
    compare_ps: u64,
    overtakes: u32,
}

/// A bank's row buffer and what it is going to do.
#[derive(Clone, Debug, Default)]
pub(super) struct Bank {
    /// The row that the last finished request left open.
    open: Option<u64>,
    /// When that request had finished.
    free_ps: u64,
    /// The requests that have not finished, in order.
    planned: VecDeque<Planned>,
    /// The requests that have finished: the tests replay them.
    #[cfg(test)]
    pub(super) finished: Vec<Planned>,
}

/// A request and its place in the schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) row: u64,
    pub(super) request: DramRequest,
    /// The time at which the request arrived.
    pub(super) at_ps: u64,
    /// Later requests that go first.
    pub(super) overtaken: u32,
    pub(super) plan: Plan,
    #[cfg(test)]
    pub(super) number: u64,
}

/// When a request has its bank, and when its bytes have the bus.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    /// The time of the request's first command.
    pub(super) start_ps: u64,
    /// The time of the first tag byte.
    pub(super) tags_ps: u64,
    /// The time of the first data byte.
    pub(super) data_ps: u64,
    /// The time of the last byte, when the bank is free again.
    pub(super) end_ps: u64,
    pub(super) found_open: bool,
}

impl Times {
    pub(super) fn new(spec: &DramSpec) -> Self {
        Self {
            ras_ps: spec.ras_ps,
            cas_ps: spec.cas_ps,
            burst_ps: spec.burst_ps,
            precharge_ps: spec.precharge_ps,
            command_ps: spec.command_ps,
            tag_columns: u64::from(spec.tags.columns),
            compare_ps: spec.tags.compare_ps,
            overtakes: spec.overtakes,
        }
    }

    /// Returns the times for which the tags of a request, and its data, hold the bus.
    #[inline]
    pub(super) fn bus_ps(&self, request: DramRequest) -> (u64, u64) {
        let (tags, data) = match request {
            DramRequest::Line => (0, LINE_COLUMNS),
            DramRequest::Hit => (self.tag_columns, LINE_COLUMNS),
            DramRequest::Miss => (self.tag_columns, 0),
            DramRequest::Page => (0, PAGE_COLUMNS),
            DramRequest::Status => (0, 1),
        };
        (tags * self.burst_ps, data * self.burst_ps)
    }

    pub(super) fn has_tags(&self) -> bool {
        self.tag_columns > 0
    }

    /// Returns the time from a request's last byte until it is done.
    #[inline]
    fn answer_ps(&self, request: DramRequest) -> u64 {
        match request {
            DramRequest::Line | DramRequest::Hit => self.command_ps,
            DramRequest::Miss => self.compare_ps + self.command_ps,
            DramRequest::Page | DramRequest::Status => 0,
        }
    }

    /// Plans a request from `from_ps` on, on a bank with an open row, and reserves the bus for it.
    #[inline]
    fn plan(
        &self,
        from_ps: u64,
        open: Option<u64>,
        row: u64,
        request: DramRequest,
        bus: &mut Calendar,
    ) -> Plan {
        let (tags_bus_ps, data_bus_ps) = self.bus_ps(request);
        let found_open = open == Some(row);
        let mut plan = Plan { start_ps: from_ps, found_open, ..Plan::default() };
        let mut at_ps = from_ps;
        if !found_open {
            at_ps += if open.is_some() { self.precharge_ps } else { 0 };
            at_ps += self.command_ps + self.ras_ps;
        }
        // A column's first 8 bytes are on the bus at the end of its CAS.
        let to_bus_ps = self.command_ps + self.cas_ps - self.burst_ps;
        let has_tags = matches!(request, DramRequest::Hit | DramRequest::Miss) && self.has_tags();
        if has_tags {
            plan.tags_ps = bus.reserve(at_ps + to_bus_ps, tags_bus_ps);
            at_ps = plan.tags_ps + tags_bus_ps;
        }
        if request != DramRequest::Miss {
            at_ps += if has_tags { self.compare_ps } else { 0 };
            plan.data_ps = bus.reserve(at_ps + to_bus_ps, data_bus_ps);
            at_ps = plan.data_ps + data_bus_ps;
        }
        plan.end_ps = at_ps;
        plan
    }

    /// Gives back the bus.
    fn give_back(&self, planned: &Planned, bus: &mut Calendar) {
        let (tags_bus_ps, data_bus_ps) = self.bus_ps(planned.request);
        bus.release(planned.plan.tags_ps, tags_bus_ps);
        bus.release(planned.plan.data_ps, data_bus_ps);
    }
}

impl Bank {
    /// Drops what has finished by `now_ps`.
    #[inline]
    pub(super) fn finish(&mut self, now_ps: u64) {
        while let Some(first) = self.planned.front()
            && first.plan.end_ps <= now_ps
        {
            (self.open, self.free_ps) = (Some(first.row), first.plan.end_ps);
            #[cfg(test)]
            self.finished.push(*first);
            self.planned.pop_front();
        }
    }

    /// Takes a request into the schedule; returns when it is done. `now_ps` is the channel's time: what has started by
    /// then is not overtaken.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn schedule(
        &mut self,
        at_ps: u64,
        now_ps: u64,
        row: u64,
        request: DramRequest,
        times: &Times,
        bus: &mut Calendar,
        counts: &mut DramCounts,
    ) -> u64 {
        let place = match self.planned.is_empty() {
            true => 0,
            false => self.place(now_ps, row, times.overtakes),
        };
        // All the bus's times are free before the first is planned again, so that none takes another's place.
        for overtaken in self.planned.range(place..) {
            times.give_back(overtaken, bus);
        }
        let (open, free_ps) = self.before(place);
        let plan = times.plan(at_ps.max(free_ps), open, row, request, bus);
        counts.row_hits += u64::from(plan.found_open);
        #[cfg(test)]
        let number = counts.requests - 1;
        let new = Planned {
            row,
            request,
            at_ps,
            overtaken: 0,
            plan,
            #[cfg(test)]
            number,
        };
        self.planned.insert(place, new);
        for index in place + 1..self.planned.len() {
            self.plan_again(index, times, bus, counts);
        }
        plan.end_ps + times.answer_ps(request)
    }

    /// Requests that have not finished.
    #[cfg(test)]
    pub(super) fn planned(&self) -> usize {
        self.planned.len()
    }

    /// Returns the place of a request to `row`: behind the last one to its row, or behind all. The first one planned has started.
    fn place(&self, now_ps: u64, row: u64, overtakes: u32) -> usize {
        let last = self.planned.len();
        let same = self.planned.iter().rposition(|planned| planned.row == row);
        let place = match same {
            Some(index) => index + 1,
            None => return last,
        };
        // What has started, and what was overtaken too often, stays ahead; then the row is not open any more.
        let may_pass = |planned: &Planned| planned.plan.start_ps > now_ps && planned.overtaken < overtakes;
        match self.planned.range(place..).all(may_pass) {
            true => place,
            false => last,
        }
    }

    /// Returns the row that is open before the request at `index`, and since when the bank is free.
    #[inline]
    fn before(&self, index: usize) -> (Option<u64>, u64) {
        match index.checked_sub(1) {
            None => (self.open, self.free_ps),
            Some(before) => (Some(self.planned[before].row), self.planned[before].plan.end_ps),
        }
    }

    /// Plans the request at `index` again, which was overtaken: it starts when the one before it has finished.
    fn plan_again(&mut self, index: usize, times: &Times, bus: &mut Calendar, counts: &mut DramCounts) {
        let (open, free_ps) = self.before(index);
        let Planned { row, request, at_ps, plan: old, .. } = self.planned[index];
        let plan = times.plan(at_ps.max(free_ps), open, row, request, bus);
        debug_assert_eq!(
            plan.found_open, old.found_open,
            "the request before one that is overtaken stays the same"
        );
        counts.overtaken += 1;
        counts.early_ps += plan.end_ps.saturating_sub(old.end_ps);
        let planned = &mut self.planned[index];
        (planned.plan, planned.overtaken) = (plan, planned.overtaken + 1);
    }
}
