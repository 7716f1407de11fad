//! The stream of jobs, and what serves them.

use super::job::{Job, Plan, STACK_BYTES, ThreadStack, random_of, stack_accesses};
use super::popularity::Popularity;
use crate::emit::{Emitter, Halt, Stop};
use crate::random::SplitMix64;
use crate::space::AddressSpace;
use crate::values::Values;

/// The phases of each of these workloads.
pub(crate) const PHASES: &[&str] = &["warm-up", "settle", "serve"];

/// What serves the jobs: a data structure, with its data.
///
/// # Contract
///
/// `serve` does what one client asks for, by `job.random` alone; it does the same whether the job is emitted as a whole
/// or not. It stops with [`Halt::Wrong`] where an answer is wrong. `verify` emits nothing.
pub(crate) trait Server {
    /// Serves one job.
    fn serve(&mut self, job: &mut Job<'_, '_>) -> Result<(), Halt>;

    /// Checks all that so many jobs touched.
    fn verify(&self, jobs: u64) -> Result<(), Halt>;
}

/// When jobs arrive: a Poisson process.
struct Arrivals {
    interval_ps: u64,
    now_ps: f64,
    random: SplitMix64,
}

impl Arrivals {
    fn new(interval_ps: u64, seed: u64) -> Self {
        let random = SplitMix64::of_item(seed, u64::from_be_bytes(*b"arrivals"));
        Self { interval_ps, now_ps: 0.0, random }
    }

    /// When the next job arrives; those of the warm-up never do.
    fn next(&mut self, is_thin: bool) -> Option<u64> {
        if self.interval_ps == 0 || is_thin {
            return None;
        }
        // Not 0, whose logarithm is none.
        let uniform = 1.0 - self.random.unit();
        self.now_ps -= self.interval_ps as f64 * uniform.ln();
        Some(self.now_ps as u64)
    }
}

/// The values of the parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jobs {
    pub(crate) dataset_bytes: u64,
    /// The exponent in thousandths.
    pub(crate) skew: u64,
    pub(crate) seed: u64,
    jobs: u64,
    settle: u64,
    warm: u64,
    work: u64,
    /// Picoseconds between two arrivals on average; 0 if another job is always waiting.
    interval_ps: u64,
}

impl Jobs {
    pub(crate) fn new(values: &Values) -> Self {
        Self {
            dataset_bytes: values.get("dataset"),
            skew: values.get("skew"),
            seed: values.seed,
            jobs: values.get("jobs"),
            settle: values.get("settle"),
            warm: values.get("warm"),
            work: values.get("work"),
            // In thousandths of a nanosecond.
            interval_ps: values.get("interval"),
        }
    }

    /// Which of `records` records jobs choose.
    pub(crate) fn popularity(&self, records: u64) -> Popularity {
        Popularity::new(records, self.skew, self.seed)
    }

    /// The random numbers of a job, to draw again what its client asked for.
    pub(crate) fn random_of(&self, number: u64) -> SplitMix64 {
        random_of(self.seed, number)
    }

    /// The jobs of all phases.
    pub(crate) fn total(&self) -> u64 {
        self.warm + self.settle + self.jobs
    }

    /// How many jobs are of a kind at most that has a share, in thousandths: half more than are to be expected, and some.
    pub(crate) fn share(&self, thousandths: u64) -> u64 {
        (self.total() * thousandths / 1000 * 3 / 2 + 100).min(self.total())
    }

    /// About how many accesses a run has: a job has `own` of its data structure and `instructions` of its own, and
    /// emits `thin` accesses when only its pages are of interest.
    pub(crate) fn expected_accesses(&self, own: f64, instructions: u64, thin: f64) -> u64 {
        let whole = own + stack_accesses(instructions + self.work, self.work) as f64;
        ((self.jobs + self.settle) as f64 * whole + self.warm as f64 * thin) as u64
    }

    /// The bytes that are mapped beside the data.
    pub(crate) fn stack_bytes(&self) -> u64 {
        STACK_BYTES
    }

    /// Has the server that `make` builds serve all jobs.
    pub(crate) fn run<S: Server>(
        &self,
        out: &mut Emitter<'_>,
        make: impl FnOnce(&mut AddressSpace, &mut Emitter<'_>) -> Result<S, Stop>,
    ) -> Result<(), Halt> {
        out.phase(PHASES[0])?;
        let mut space = AddressSpace::new(out);
        let mut server = make(&mut space, out)?;
        let stack = ThreadStack::new(&mut space, out);
        out.begin_thin();
        let mut next = 0;
        let mut arrivals = Arrivals::new(self.interval_ps, self.seed);
        let mut serve = |count: u64, is_thin: bool, out: &mut Emitter<'_>| -> Result<(), Halt> {
            let plan = Plan { seed: self.seed, work: self.work, is_thin };
            for number in next..next + count {
                let mut job = Job::begin(number, plan, arrivals.next(is_thin), &stack, out)?;
                server.serve(&mut job)?;
                job.end()?;
            }
            next += count;
            Ok(())
        };
        serve(self.warm, true, out)?;
        out.end_thin()?;
        out.phase(PHASES[1])?;
        serve(self.settle, false, out)?;
        out.phase(PHASES[2])?;
        serve(self.jobs, false, out)?;
        server.verify(self.total())
    }
}
