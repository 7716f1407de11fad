//! Tests of the map as a program uses it. One program, so that the libraries are linked once.

mod common;
mod model_based;
mod promises;
mod threads;
