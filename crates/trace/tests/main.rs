//! Tests of traces: the container, the readers of other formats, the filter. One program, so that the libraries are linked once.

mod common;
mod container;
mod drmemtrace;
mod encodings;
mod filter;
mod foreign;
mod frames;
mod outlines;
mod pipes;
