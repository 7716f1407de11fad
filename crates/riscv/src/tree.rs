//! The device tree: what a program finds in `a1`.

use pagewalk_vm::addr::PAGE_BYTES;
use vm_fdt::{Error, FdtWriter};

use crate::map::{CLINT_BASE, CLINT_BYTES, CYCLES_PER_TICK, RAM_BASE};

/// Where it lies: outside of memory, so that no program is in its way.
pub(crate) const ROM_BASE: u64 = 0x1000;
/// Cycles of the hart in a second, as the tree says.
const FREQUENCY: u64 = 1_000_000_000;
/// The hart's interrupt controller, by a number of our choice.
const CONTROLLER: u32 = 1;

/// The flattened tree of a machine with so much memory.
pub(crate) fn device_tree(memory: u64) -> Result<Vec<u8>, String> {
    let mut tree = build(memory).map_err(|error| error.to_string())?;
    // Programs copy it by words: the ROM does not end with the tree.
    tree.resize(tree.len().next_multiple_of(PAGE_BYTES as usize), 0);
    Ok(tree)
}

fn build(memory: u64) -> Result<Vec<u8>, Error> {
    let mut tree = FdtWriter::new()?;
    let root = tree.begin_node("")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_string("compatible", "pagewalk,riscv")?;
    tree.property_string("model", "pagewalk,riscv")?;

    let node = tree.begin_node(&format!("memory@{RAM_BASE:x}"))?;
    tree.property_string("device_type", "memory")?;
    tree.property_array_u64("reg", &[RAM_BASE, memory])?;
    tree.end_node(node)?;

    let cpus = tree.begin_node("cpus")?;
    tree.property_u32("#address-cells", 1)?;
    tree.property_u32("#size-cells", 0)?;
    tree.property_u32("timebase-frequency", (FREQUENCY / CYCLES_PER_TICK) as u32)?;
    let cpu = tree.begin_node("cpu@0")?;
    tree.property_string("device_type", "cpu")?;
    tree.property_u32("reg", 0)?;
    tree.property_string("status", "okay")?;
    tree.property_string("compatible", "riscv")?;
    tree.property_string("riscv,isa", "rv64imac")?;
    tree.property_string("mmu-type", "riscv,sv48")?;
    tree.property_u32("clock-frequency", FREQUENCY as u32)?;
    let controller = tree.begin_node("interrupt-controller")?;
    tree.property_u32("#interrupt-cells", 1)?;
    tree.property_null("interrupt-controller")?;
    tree.property_string("compatible", "riscv,cpu-intc")?;
    tree.property_phandle(CONTROLLER)?;
    tree.end_node(controller)?;
    tree.end_node(cpu)?;
    tree.end_node(cpus)?;

    let soc = tree.begin_node("soc")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_string_list("compatible", vec!["pagewalk,riscv-soc".into(), "simple-bus".into()])?;
    tree.property_null("ranges")?;
    let clint = tree.begin_node(&format!("clint@{CLINT_BASE:x}"))?;
    tree.property_string("compatible", "riscv,clint0")?;
    // The hart's software interrupt is its number 3, the timer's 7.
    tree.property_array_u32("interrupts-extended", &[CONTROLLER, 3, CONTROLLER, 7])?;
    tree.property_array_u64("reg", &[CLINT_BASE, CLINT_BYTES])?;
    tree.end_node(clint)?;
    tree.end_node(soc)?;

    let htif = tree.begin_node("htif")?;
    tree.property_string("compatible", "ucb,htif0")?;
    tree.end_node(htif)?;
    tree.end_node(root)?;
    tree.finish()
}
