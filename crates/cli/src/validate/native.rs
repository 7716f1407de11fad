//! A program on this computer, by its own clock.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::programs::Runnable;
use crate::ending;

/// How often it is looked whether the program has ended, or is to end.
const LOOK: Duration = Duration::from_millis(2);

/// The cost of a run of a program and of all processes that it waited for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Native {
    /// Time of processors in user mode and in the kernel, in nanoseconds.
    pub(super) cpu_ns: f64,
    /// The part of it that the program says its work took, if it is one that does.
    pub(super) work_ns: Option<f64>,
    /// Page faults that needed no device.
    pub(super) minor_faults: u64,
}

impl Native {
    /// Returns the least of two runs: what else happens on a computer adds to each part.
    pub(super) fn least(self, other: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.min(other.cpu_ns),
            work_ns: self.work_ns.zip(other.work_ns).map(|(one, two)| one.min(two)),
            minor_faults: self.minor_faults.min(other.minor_faults),
        }
    }

    /// Returns the run without the program's work; none if that is not known.
    pub(super) fn idle(&self) -> Option<Self> {
        let cpu_ns = self.cpu_ns - self.work_ns?;
        Some(Self { cpu_ns, work_ns: None, ..*self })
    }
}

/// Runs a program, silently.
///
/// # Errors
///
/// The program cannot be started, fails, or the command is to end.
pub(super) fn run(program: &Runnable) -> anyhow::Result<Native> {
    let name = program.path.to_string_lossy().into_owned();
    let before = children()?;
    let mut command = Command::new(&program.path);
    let tells_work = program.idle.is_some();
    let errors = if tells_work { Stdio::piped() } else { Stdio::null() };
    command.args(&program.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let told = child.stderr.take();
    let status = wait(child)?;
    if let Some(signal) = status.signal() {
        ending::go_on()?;
        bail!("{name} was killed by signal {signal}");
    }
    if !status.success() {
        bail!("{name} failed with exit code {}; its time is that of a failure", status.code().unwrap_or(-1));
    }
    let after = children()?;
    let work_ns = told.map(|told| work_ns(told, &name)).transpose()?;
    let cpu = |usage: &Usage| nanoseconds(usage.user_time()) + nanoseconds(usage.system_time());
    let faults = |usage: &Usage| u64::try_from(usage.minor_page_faults()).unwrap_or(0);
    Ok(Native { cpu_ns: cpu(&after) - cpu(&before), work_ns, minor_faults: faults(&after) - faults(&before) })
}

/// Returns the time of its work that a program has told, as `capture/programs/work.h` does. It tells less than a pipe holds, and has ended.
fn work_ns(mut told: ChildStderr, name: &str) -> anyhow::Result<f64> {
    let mut text = String::new();
    told.read_to_string(&mut text).with_context(|| format!("cannot read what {name} says"))?;
    let found = text.lines().find_map(|line| line.strip_prefix("work ")?.strip_suffix(" ns")?.parse().ok());
    found.with_context(|| format!("{name} does not tell the time of its work"))
}

/// Waits for a program; kills it if the command is to end.
fn wait(mut child: Child) -> anyhow::Result<std::process::ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a program")? {
            return Ok(status);
        }
        if let Err(interrupted) = ending::go_on() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(interrupted);
        }
        std::thread::sleep(LOOK);
    }
}

/// Returns what all children that were waited for have used.
fn children() -> anyhow::Result<Usage> {
    getrusage(UsageWho::RUSAGE_CHILDREN).context("the system does not tell what programs have used")
}

fn nanoseconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 * 1e9 + time.tv_usec() as f64 * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Runnable {
        let arguments = ["-c", script].map(Into::into);
        Runnable::of_user("/bin/sh".as_ref(), &arguments)
    }

    /// The system counts all children of a process, and other tests have some: this one runs in a process of its own.
    #[test]
    fn a_program_and_its_children_are_counted() {
        const ALONE: &str = "PAGEWALK_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = "validate::native::tests::a_program_and_its_children_are_counted";
            let tests = std::env::current_exe().expect("this program");
            let output =
                Command::new(tests).args(["--exact", name]).env(ALONE, "1").output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let one = run(&shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")).expect("it runs");
        assert!(one.cpu_ns > 0.0 && one.minor_faults > 0, "{one:?}");
        let child = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; true";
        let two = run(&shell(child)).expect("it runs");
        assert!(two.minor_faults > one.minor_faults, "{two:?} {one:?}");
    }

    #[test]
    fn a_program_tells_the_time_of_its_work() {
        let telling = |script| Runnable { idle: Some(Vec::new()), ..shell(script) };
        let told = run(&telling("echo and more >&2; echo work 1500 ns >&2")).expect("it runs");
        assert_eq!(told.work_ns, Some(1500.0));
        assert_eq!(told.idle().map(|idle| idle.cpu_ns), Some(told.cpu_ns - 1500.0));
        assert_eq!(run(&shell("echo work 5 ns >&2")).expect("it runs").work_ns, None, "it is not asked");
        let error = run(&telling("echo work is done >&2")).expect_err("no time").to_string();
        assert!(error.contains("does not tell the time of its work"), "{error}");
    }

    #[test]
    fn the_least_of_runs_has_the_least_of_each_part() {
        let of = |cpu_ns, work_ns, minor_faults| Native { cpu_ns, work_ns, minor_faults };
        let least = of(5.0, Some(2.0), 7).least(of(4.0, Some(3.0), 6));
        assert_eq!(least, of(4.0, Some(2.0), 6));
    }

    #[test]
    fn a_program_that_fails_has_no_time() {
        let error = |script| run(&shell(script)).expect_err("it fails").to_string();
        assert!(error("exit 3").contains("exit code 3"), "{}", error("exit 3"));
        assert!(error("kill -9 $$").contains("signal 9"), "{}", error("kill -9 $$"));
        let none = Runnable::of_user("/none".as_ref(), &[]);
        assert!(run(&none).expect_err("it is not there").to_string().contains("cannot start /none"));
    }
}
