//! The machines of an experiment file.

use std::collections::BTreeMap;

use anyhow::Context;
use pagewalk_sim::spec::{self, MachineSpec};
use pagewalk_vm::addr::PAGE_BYTES;
use serde::Deserialize;

/// The machines of an experiment file, beside the built-in ones.
pub(crate) struct Machines<'a> {
    /// By name, as machine files without one.
    pub(crate) files: &'a BTreeMap<String, String>,
    /// Machines that differ from others in how much memory there is for the program.
    pub(crate) variants: &'a BTreeMap<String, VariantSpec>,
}

/// A machine with another limit, or another cache over flash.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VariantSpec {
    of: String,
    limit_mib: Option<u64>,
    capacity_mib: Option<u64>,
}

impl Machines<'_> {
    /// Returns a machine of this file, or a built-in one.
    pub(crate) fn get(&self, name: &str) -> anyhow::Result<MachineSpec> {
        if let Some(variant) = self.variants.get(name) {
            // One of a built-in machine may have its name.
            let base = if variant.of == name { spec::load(name)? } else { self.get(&variant.of)? };
            let mut machine = MachineSpec { name: name.to_owned(), ..base };
            if let Some(capacity_mib) = variant.capacity_mib {
                let tier = machine.tier.as_mut().with_context(|| format!("machine {name} has no tier"))?;
                let pages = (capacity_mib << 20) / PAGE_BYTES;
                let sets_times_ways = u32::try_from(pages >> tier.design.index_shift)?;
                // As many ways as it had, or a few more, so that there is a power of two of sets.
                let ways = (tier.design.ways..2 * tier.design.ways).find(|ways| {
                    sets_times_ways.is_multiple_of(*ways) && (sets_times_ways / ways).is_power_of_two()
                });
                tier.design.ways =
                    ways.with_context(|| format!("machine {name}: no power of two of sets"))?;
                tier.design.sets = sets_times_ways / tier.design.ways;
            }
            let Some(limit_mib) = variant.limit_mib else { return Ok(machine) };
            let limited = machine.paging.reclaim.and_then(|policy| policy.limited(limit_mib << 20));
            machine.paging.reclaim = Some(
                limited.with_context(|| format!("machine {name}: {} has no limit to change", variant.of))?,
            );
            return Ok(machine);
        }
        Ok(match self.files.get(name) {
            Some(text) => spec::parse(&format!("name = \"{name}\"\n{text}"), name)?,
            None => spec::load(name)?,
        })
    }
}
