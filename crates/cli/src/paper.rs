//! `pagewalk paper`: experiments as data, run and judged beside the published numbers.

use std::fmt::Arguments;

use anyhow::bail;
use pagewalk_papers::{Experiment, Host, Outcome, Paper, Settings, papers};
use pagewalk_report::{PaperDocument, ProgressShown, paper_page, paper_table, partial_heading};
use pagewalk_trace::Stop;

use crate::args::{FormatArgument, PaperArguments};
use crate::ending::{self, Interrupted};
use crate::exit::Done;
use crate::outputs::Files;
use crate::run::{deliver, prepare_folder, print, style, threads};
use crate::say::{self, note};

/// This command, as experiments see it.
struct Command;

impl Host for Command {
    fn note(&self, text: Arguments<'_>) {
        say::inform(text);
    }

    fn progress(&self) -> ProgressShown {
        say::progress(false)
    }

    fn steps(&self) -> Box<dyn pagewalk_papers::Steps> {
        Box::new(say::Steps::new())
    }

    fn stop(&self) -> &Stop {
        ending::stop()
    }

    fn go_on(&self) -> anyhow::Result<()> {
        ending::go_on()
    }
}

impl pagewalk_papers::Steps for say::Steps {
    fn show(&self, text: Arguments<'_>) {
        say::Steps::show(self, text);
    }
}

/// Runs the command.
pub(crate) fn paper(arguments: &PaperArguments) -> anyhow::Result<Done> {
    let Some(name) = &arguments.name else {
        for Paper { name, title, .. } in papers() {
            print(&format!("{name:<10} {title}\n"))?;
        }
        return Ok(Done::Well);
    };
    let Some(Paper { title, files, .. }) = papers().iter().find(|paper| paper.name == name) else {
        let known: Vec<_> = papers().iter().map(|paper| paper.name).collect();
        bail!("there is no paper `{name}`; there are: {}", known.join(", "));
    };
    let item = arguments.item.as_deref().unwrap_or("");
    let experiments =
        files.iter().map(|text| Experiment::parse(text, item)).collect::<anyhow::Result<Vec<_>>>()?;
    if experiments.iter().all(Experiment::is_empty) {
        bail!("paper `{name}` has no item that begins with `{item}`");
    }
    Files::default().writes_report(arguments.out.as_deref())?;
    if let Some(folder) = &arguments.out {
        prepare_folder(folder)?;
    }
    ending::watch()?;
    let settings = Settings {
        item: item.to_owned(),
        small: arguments.small,
        quick: arguments.quick,
        threads: threads(arguments.threads),
        hardware: arguments.hardware.clone(),
    };
    let (mut outcome, mut early) = (Outcome::default(), None);
    for experiment in &experiments {
        if item.is_empty() && experiment.is_on_request() {
            continue;
        }
        if arguments.quick && experiment.is_long() && !experiment.is_empty() {
            note!("an experiment that takes minutes is left out");
            continue;
        }
        if let Err(error) = experiment.run(&Command, &settings, &mut outcome) {
            // Rows that were made before are a result.
            let Interrupted(ended) = error.downcast()?;
            early = Some(ended);
            break;
        }
    }
    let mut document = PaperDocument::new(name, outcome.rows, outcome.figures);
    document.partial = early.as_ref().map(ending::Early::partial);
    let heading =
        document.partial.as_ref().map(|partial| partial_heading(partial) + "\n\n").unwrap_or_default();
    let text = match arguments.format {
        FormatArgument::Json => document.to_json(),
        FormatArgument::Table => heading + &paper_table(&document, style()),
    };
    deliver(arguments.out.as_deref(), &text, || (document.to_json(), paper_page(&document, title)))?;
    Ok(match early {
        Some(early) => {
            early.tell(format_args!("this result, of {} rows,", document.rows.len()));
            early.done()
        }
        None if document.passes() => Done::Well,
        None => Done::GateFailed,
    })
}
