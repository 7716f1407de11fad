//! The measurements of a run, below everything that measures.
//!
//! A mechanism adds its counts to [`Rows`], each under a [`Name`] of `names.rs`: stage, metric, unit and fidelity stand there
//! once, for the mechanism that counts and for the report that reads. Snapshots of rows become [`Metric`]s, with the ratios of
//! `derived.rs`.
//!
//! # Contract
//!
//! In a [`RunResult`] each phase, stage and metric occur together once.

mod derived;
pub mod names;
mod phases;
mod result;
mod rows;
mod span;

pub(crate) use derived::metrics_of;
pub use names::Name;
pub(crate) use phases::{Boundary, Parts, Phases};
pub use result::{Fidelity, Metric, Number, RunResult};
pub(crate) use rows::share;
pub use rows::{Row, Rows};
pub(crate) use span::StepTimes;
pub use span::{KernelStep, Lane, Span};
