//! The workloads of the Mosaic Pages paper (IEEE Micro 2024), of "Memory-Efficient Hashed Page Tables" (Stojkovic et al.,
//! HPCA 2023) and of the page-fault accelerator (Pemberton, UCB/EECS-2019-154), computed for real and emitting their own
//! events.
//!
//! | workload | what it is | phases |
//! |---|---|---|
//! | `graph500` | Kronecker graph, breadth-first searches over a CSR array or over linked edge lists | generate, build, bfs |
//! | `btree` | a B+ tree of order 16 with separately allocated records | build, lookup |
//! | `gups` | HPC Challenge RandomAccess | init, updates |
//! | `xsbench` | cross-section look-ups in a unionised energy grid | build, lookup |
//! | `graph` | eight algorithms of GraphBIG on a social network of separate objects | build, the algorithm |
//! | `mummer` | maximal unique matches of two genomes, by a suffix tree | build, match |
//! | `sysbench` | reads or writes of a block, in order or at random | init, access |
//! | `quicksort` | random integers, sorted in place | fill, sort |
//! | `assembler` | a genome from its k-mers, by a hash table | load, insert, assemble |
//! | `objects` | small objects that refer to each other, changed, and copied by a collector | build, run |
//! | `linear` | a dense system of linear equations, factored and solved | fill, factor, solve |
//! | `pages` | no program: pages in a given order | fill, touches |
//! | `array-swap` | a server: exchanges of two elements of an array | warm-up, settle, serve |
//! | `hash-table` | a server: look-ups and updates in a hash table of chains | warm-up, settle, serve |
//! | `red-black-tree` | a server: look-ups, updates and inserts in a red-black tree | warm-up, settle, serve |
//! | `tatp` | a server: the transactions of a mobile network's subscriber database | warm-up, settle, serve |
//! | `tpcc` | a server: orders or payments of TPC-C | warm-up, settle, serve |
//! | `silo` | a server: optimistic transactions over a B+-tree, as Silo has them | warm-up, settle, serve |
//! | `masstree` | a server: gets and puts in a trie of B+-trees, as Masstree has them | warm-up, settle, serve |
//!
//! The programs run natively; each access of a compiled program to data in memory (arrays, structures, nodes; not
//! scalars that live in registers, not code) is pushed as an event beside the real access. Addresses are those
//! that a C program under Linux would see, synthetic and deterministic. Each program verifies
//! its own answer. Instruction counts are estimates: each basic operation (an edge looked at, a key compared) adds a constant,
//! which is the instructions of the same operation in C, counted once with callgrind 3.19 over gcc 12.2 -O2 for
//! x86-64 and glibc 2.36; for `graph`, `mummer` and `sysbench` mostly estimated by hand, as the constants say.
//!
//! Beside its accesses, a program says which instructions a compiled one would execute there (`code::Site`): with registers and branches, so
//! that a core model can execute them. They are handed on if the run wants them, and are nearly as many as are counted. `objects` and
//! `assembler` only count.

mod array_swap;
mod assembler;
mod btree;
mod catalog;
mod code;
mod emit;
mod entry;
mod graph;
mod graph500;
mod gups;
mod hash_table;
mod jobs;
mod linear;
mod masstree;
mod mummer;
mod objects;
mod packed_tree;
mod pages;
mod program;
mod quicksort;
mod random;
mod red_black_tree;
mod silo;
mod sort;
mod source;
mod space;
mod spec;
mod sysbench;
mod tatp;
mod thin;
mod tpcc;
mod traced;
mod units;
mod values;
mod xsbench;

pub use catalog::catalog;
pub use entry::{Entry, Kind, Parameter, Preset};
pub use source::{Workload, parse};
pub use values::SpecError;
