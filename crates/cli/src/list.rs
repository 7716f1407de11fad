//! `pagewalk machines` and `pagewalk workloads`.

use std::fmt::Write;

use pagewalk_sim::spec;

use crate::args::{MachinesArguments, MachinesCommand};
use crate::exit::Done;
use crate::run::print;

/// Lists the built-in machines, or shows one.
pub(crate) fn machines(arguments: &MachinesArguments) -> anyhow::Result<Done> {
    if let Some(MachinesCommand::Show { machine }) = &arguments.command {
        print(&spec::show(machine)?)?;
        return Ok(Done::Well);
    }
    let mut text = String::new();
    for name in spec::builtin_names() {
        let _ = writeln!(text, "{name:<22} {}", spec::load(name)?.description);
    }
    text.push_str("\n`pagewalk machines show NAME` prints one; a file of your own may extend any of them.\n");
    print(&text)?;
    Ok(Done::Well)
}

/// Lists the built-in workloads.
pub(crate) fn workloads() -> anyhow::Result<Done> {
    let mut text = String::new();
    for entry in pagewalk_workload::catalog() {
        let _ = writeln!(text, "{:<14} {}", entry.name, entry.summary);
        let _ = writeln!(text, "  phases       {}", entry.phases.join(", "));
        for parameter in entry.parameters {
            let _ =
                writeln!(text, "  {:<12} = {:<9} {}", parameter.name, parameter.default, parameter.summary);
        }
        for preset in entry.presets {
            let _ = writeln!(text, "  preset {:<16} {}", preset.name, preset.summary);
        }
        text.push('\n');
    }
    text.push_str("A spec is a name, a preset, or name:key=value,key=value.\n");
    print(&text)?;
    Ok(Done::Well)
}
