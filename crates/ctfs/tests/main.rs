//! Tests of the library as a program uses it, on stores in files. One program, so that the libraries are linked once.

mod grow;
mod missing;
mod read_only;
mod safe;
mod synced;
