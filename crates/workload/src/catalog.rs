//! The list of all workloads: one row each.

use crate::entry::Entry;
use crate::{
    array_swap, assembler, btree, graph, graph500, gups, hash_table, linear, masstree, mummer, objects,
    pages, quicksort, red_black_tree, silo, sysbench, tatp, tpcc, xsbench,
};

/// Returns all workloads of the catalogue.
pub fn catalog() -> &'static [Entry] {
    &[
        graph500::ENTRY,
        btree::ENTRY,
        gups::ENTRY,
        xsbench::ENTRY,
        graph::ENTRY,
        mummer::ENTRY,
        sysbench::ENTRY,
        quicksort::ENTRY,
        assembler::ENTRY,
        objects::ENTRY,
        linear::ENTRY,
        pages::ENTRY,
        array_swap::ENTRY,
        hash_table::ENTRY,
        red_black_tree::ENTRY,
        tatp::ENTRY,
        tpcc::ENTRY,
        silo::ENTRY,
        masstree::ENTRY,
    ]
}
