//! `pagewalk machines` and `pagewalk workloads`.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use pagewalk_calibrate::{Cpuid, Host, machine_file};
use pagewalk_sim::spec;
use pagewalk_trace::Source;
use pagewalk_workload::Workload;

use crate::args::{MachinesArguments, MachinesCommand};
use crate::exit::Done;
use crate::run::print;

/// The name of this computer's machine.
pub(crate) const HERE: &str = "here";

/// Lists the built-in machines, shows one, or describes this computer.
pub(crate) fn machines(arguments: &MachinesArguments) -> anyhow::Result<Done> {
    match &arguments.command {
        Some(MachinesCommand::Show { machine }) => print(&spec::show(machine)?)?,
        Some(MachinesCommand::Detect) => print(&detect()?)?,
        None => print(&list()?)?,
    }
    Ok(Done::Well)
}

/// Returns this computer's machine file.
fn detect() -> anyhow::Result<String> {
    let text = machine_file(&Host::read(Path::new("/"), &Cpuid::read())?, HERE);
    spec::parse(&text, "this computer's machine file").context(
        "what this computer says of itself makes no machine; `pagewalk machines` lists others to extend",
    )?;
    Ok(text)
}

fn list() -> anyhow::Result<String> {
    let mut text = String::new();
    for name in spec::builtin_names() {
        let _ = writeln!(text, "{name:<22} {}", spec::load(name)?.description);
    }
    text.push_str("\n`pagewalk machines show NAME` prints one; a file of your own may extend any of them.\n");
    text.push_str(
        "`pagewalk machines detect` prints one for this computer, `pagewalk calibrate` measures it.\n",
    );
    Ok(text)
}

/// Lists the built-in workloads.
pub(crate) fn workloads() -> anyhow::Result<Done> {
    let mut text = String::new();
    for entry in pagewalk_workload::catalog() {
        let _ = writeln!(text, "{:<14} {}", entry.name, entry.summary);
        let _ = writeln!(text, "  phases       {}", entry.phases.join(", "));
        let is_stated = Workload::parse(entry.name, 0)?.blocks(true).info().gives_blocks;
        let instructions = if is_stated { "stated, for cores that execute them" } else { "counted only" };
        let _ = writeln!(text, "  instructions {instructions}");
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
