use roxmltree::{Document as Xml, ParsingOptions};

use pagewalk_sim::metrics::names::reach;
use pagewalk_sim::metrics::{KernelStep, Lane, Number, Span as StepSpan};

use super::*;
use crate::papers::{BarGroup, Drawn, Figure, PaperRow};
use crate::samples;
use crate::timeline::{StepClass, TimelineRow, TimelineSpan};

/// The page, parsed as XML: every tag is closed, every attribute quoted, every special character escaped.
fn checked(document: &Document) -> String {
    parsed(page(document))
}

fn parsed(text: String) -> String {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let xml = Xml::parse_with_options(&text, options).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut ids: Vec<&str> = xml.descendants().filter_map(|node| node.attribute("id")).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "every id is used once");
    for svg in xml.descendants().filter(|node| node.has_tag_name("svg") && node.attribute("role").is_some()) {
        for id in svg.attribute("aria-labelledby").unwrap().split(' ') {
            let label =
                svg.children().find(|node| node.attribute("id") == Some(id)).expect("a label in the plot");
            assert!(!label.text().unwrap_or_default().is_empty());
        }
    }
    for node in xml.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        assert!(!["script", "link", "img", "iframe", "object", "use"].contains(&name), "{name}");
        for attribute in node.attributes() {
            assert!(!["src", "href", "srcset"].contains(&attribute.name()), "{attribute:?}");
            assert!(!attribute.name().starts_with("on"), "{attribute:?}");
            assert!(!["NaN", "inf"].iter().any(|bad| attribute.value().contains(bad)), "{attribute:?}");
        }
    }
    let style = include_str!("style.css");
    assert!(!style.contains("url(") && !style.contains("@import"));
    text
}

fn plots(text: &str) -> usize {
    text.matches("role=\"img\"").count()
}

#[test]
fn two_machines_with_time_and_phases() {
    let text = checked(&Document::new(samples::pair(), Some(samples::manifest())));
    assert!(!text.contains("http"), "nothing on the page leads anywhere");
    // Time, TLB, references, table, resident; two phases twice.
    assert_eq!(plots(&text), 5 + 4);
    // The style sheet is looked at with the eyes.
    let (_, body) = text.split_once("</style>").unwrap();
    insta::assert_snapshot!(body);
}

#[test]
fn a_miss_curve_is_drawn_once_for_all_machines() {
    let mut runs = samples::pair();
    for run in &mut runs {
        let curve = [(128, 0.25), (256, 0.125)]
            .map(|(entries, rate)| reach::miss_rate(entries).metric(None, Some(Number::Ratio(rate))));
        run.metrics.splice(0..0, curve);
    }
    let text = checked(&Document::new(runs, None));
    assert_eq!(text.matches("How much TLB the program wants").count(), 2, "a title, and the plot's own");
    assert!(text.contains("128 entries") && text.contains("25.0 %") && text.contains("12.5 %"), "{text}");
}

#[test]
fn one_machine_is_no_comparison() {
    let text = checked(&Document::new(vec![samples::counted("x86-64", 1.0)], None));
    assert!(!text.contains("baseline</span>") && !text.contains("class=\"change"));
    assert!(text.contains("1 memory system,") && text.contains("no manifest"));
    assert_eq!(plots(&text), 4, "no time without a clock");
}

#[test]
fn twelve_machines_are_all_there() {
    let text = checked(&Document::new(samples::many(12), None));
    for at in 0..12 {
        assert!(text.contains(&format!(">machine-number-{at}")));
    }
}

#[test]
fn missing_stages_leave_their_charts_out() {
    let runs = vec![samples::without_tlb("no-tlb"), samples::without_tlb("none-either")];
    let text = checked(&Document::new(runs, None));
    assert!(!text.contains("TLB misses per thousand"));
    assert!(text.contains("What walks read"));
    let runs = vec![samples::without_tlb("no-tlb"), samples::counted("x86-64", 1.0)];
    let text = checked(&Document::new(runs, None));
    assert!(text.contains("TLB misses per thousand") && text.contains(">none</text>"));
    let text = checked(&Document::new(vec![samples::without_stages("bare")], None));
    assert_eq!(plots(&text), 0);
    checked(&Document::new(vec![], None));
}

#[test]
fn zeros_and_uncounted_instructions_do_not_break_charts() {
    let zero = samples::timed("zero", 0.0);
    checked(&Document::new(vec![zero.clone(), zero], None));
    let text = checked(&Document::new(vec![samples::without_instructions("a")], None));
    assert!(text.contains("TLB misses per thousand accesses") && !text.contains("thousand instructions"));
}

#[test]
fn hostile_names_are_only_text() {
    let hostile = "</title><script>alert(1)</script>\"'&\u{0}\u{1b}[2J\u{202e}";
    let mut runs = samples::pair();
    for run in &mut runs {
        run.machine = hostile.into();
        run.source = hostile.into();
        for row in &mut run.metrics {
            if row.phase.is_some() {
                row.phase = Some(hostile.into());
            }
            if row.metric == "dirty-updates" {
                row.metric = hostile.into();
                row.unit = hostile.into();
            }
            if row.stage == "kernel" {
                row.stage = hostile.into();
            }
        }
    }
    let mut manifest = samples::manifest();
    manifest.command = vec![hostile.into()];
    manifest.source.name = hostile.into();
    manifest.machines[0].name = hostile.into();
    manifest.machines[0].description = hostile.into();
    manifest.machines[0].resolved = Some(hostile.into());
    let text = checked(&Document::new(runs, Some(manifest)));
    assert!(!text.contains("<script") && text.contains("&lt;script"));
    assert!(!text.contains(['\u{0}', '\u{1b}', '\u{202e}']));
}

#[test]
fn two_sources_are_two_comparisons() {
    let mut other = samples::counted("x86-64", 0.1);
    other.source = "sort".into();
    let text = checked(&Document::new(vec![samples::counted("x86-64", 1.0), other], None));
    assert_eq!(text.matches("<h1>").count(), 2);
}

#[test]
fn equal_documents_give_equal_pages() {
    let document = Document::new(samples::many(3), Some(samples::manifest()));
    assert_eq!(page(&document), page(&document.clone()));
}

#[test]
fn arguments_are_quoted_as_a_shell_needs_them() {
    assert_eq!(
        ["--limit", "100M", "", "a b", "it's"].map(quoted),
        ["--limit", "100M", "''", "'a b'", "'it'\\''s'"]
    );
}

#[test]
fn a_papers_page_draws_bars_and_lines() {
    let bars = Drawn::Bars {
        groups: vec![
            BarGroup { label: "Graph500".into(), values: vec![Some(0.281), Some(0.657)] },
            BarGroup { label: "BTree & more".into(), values: vec![Some(0.172), None] },
        ],
    };
    let lines = Drawn::Lines {
        x: "pages evicted".into(),
        points: vec![vec![[0.0, 0.1], [1000.0, 0.05], [2000.0, 0.04]], vec![[0.0, 0.2]], vec![]],
    };
    let figure = |title: &str, series: &[&str], drawn| Figure {
        title: title.into(),
        about: "what is to be seen".into(),
        unit: "fraction".into(),
        series: series.iter().map(|&name| name.into()).collect(),
        drawn,
    };
    let rows = vec![
        PaperRow::judged(
            "tlb/graph500/arity-4",
            None,
            Some(0.281),
            "fraction",
            Some([0.06, 0.81]),
            "printed: <6 to 81 %>",
        ),
        PaperRow::judged("tlb/graph500/arity-8", Some(0.4), None, "fraction", Some([0.3, 0.5]), ""),
    ];
    let figures = vec![
        figure("Misses", &["arity-4", "arity-64"], bars),
        figure("Ages", &["mean", "maximum", "none"], lines),
        figure("Nothing", &["one"], Drawn::Bars { groups: vec![] }),
    ];
    let text = parsed(paper_page(&PaperDocument::new("mosaic", rows, figures), "Mosaic Pages"));
    assert_eq!(plots(&text), 2);
    assert_eq!(text.matches("<polyline").count(), 3);
    assert_eq!(text.matches("<circle").count(), 4);
    let (_, body) = text.split_once("</style>").unwrap();
    insta::assert_snapshot!(body);
}

#[test]
fn a_papers_page_draws_time_lines() {
    let span = |start_us: f64, end_us: f64, step: &str, class| TimelineSpan {
        start_us,
        end_us,
        step: step.into(),
        class,
    };
    let software = vec![
        span(0.0, 1.2, "find", StepClass::Kernel),
        span(1.2, 5.3, "read", StepClass::Device),
        span(5.3, 7.1, "book", StepClass::Books),
        span(7.1, 10.0, "program <main>", StepClass::Program),
    ];
    let accelerator = vec![
        span(0.0, 0.113, "detect", StepClass::Hardware),
        span(0.113, 4.2, "read", StepClass::Device),
        span(4.2, 10.0, "program", StepClass::Program),
    ];
    let row = |label: &str, spans| TimelineRow { label: label.into(), spans };
    let figure = |title: &str, rows| Figure {
        title: title.into(),
        about: "what is to be seen".into(),
        unit: "us".into(),
        series: vec![],
        drawn: Drawn::Timeline { rows },
    };
    let figures = vec![
        figure(
            "Page faults",
            vec![
                row("software & co: core 0", software),
                row("accelerator: core 0", accelerator),
                row("accelerator: daemon", vec![]),
            ],
        ),
        figure("Nothing", vec![]),
    ];
    let document = PaperDocument::new("pfa", vec![], figures);
    let text = parsed(paper_page(&document, "A page-fault accelerator"));
    assert_eq!(plots(&text), 1);
    let (_, body) = text.split_once("</style>").unwrap();
    insta::assert_snapshot!(body);
    let read: PaperDocument = serde_json::from_str(&document.to_json()).unwrap();
    assert_eq!(read, document);
}

#[test]
fn the_last_faults_are_drawn_where_there_are_any() {
    let title = ">Time line of the last page faults</h2>";
    let mut runs = samples::pair();
    assert!(!checked(&Document::new(runs.clone(), None)).contains(title));
    let step = |lane, step, start_us: u64, end_us: u64| StepSpan {
        lane,
        step,
        start_ps: start_us * 1_000_000,
        end_ps: end_us * 1_000_000,
    };
    runs[1].machine = "a </title> machine".into();
    runs[1].spans = vec![
        step(Lane::Core(3), KernelStep::Trap, 70, 72),
        step(Lane::Core(3), KernelStep::Read, 72, 92),
        step(Lane::Daemon, KernelStep::Evict, 75, 80),
    ];
    let text = checked(&Document::new(runs.clone(), None));
    assert_eq!(text.matches(title).count(), 1);
    assert!(text.contains("a &lt;&#x2f;title&gt; machine: core 3"), "{text}");
    assert!(text.contains(": daemon") && text.contains("read: 20.0 µs, from 2.00 µs on"));
    assert!(!text.contains("x86-64: core"), "no steps, no row");
    // As many steps as a run keeps, and more.
    runs[0].spans = (0..5000).map(|at| step(Lane::Core(0), KernelStep::Book, 10 + at, 11 + at)).collect();
    checked(&Document::new(runs, None));
}

#[test]
fn a_validation_shows_ratios_errors_gains_and_ablations() {
    let text = parsed(validation_page(&samples::validation()));
    assert_eq!(plots(&text), 3, "ratios, gains of huge pages, ablations");
    for words in ["median error 20 %", "1 void", "1 left out", "void: it moved", "there is no", "held out"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(
        text.contains("100.0 to 200.0 ms by the third cache") && text.contains("series-1 void"),
        "{text}"
    );
    assert!(!text.contains("Partial:"));
}

#[test]
fn a_validation_that_was_ended_says_so_and_hostile_names_stay_text() {
    let mut validation = samples::validation();
    (validation.partial, validation.machine) = (true, "<b>\u{1b}[31m\"&".into());
    validation.programs.truncate(1);
    validation.programs[0].without.clear();
    validation.programs[0].program = "</svg><script>".into();
    validation.ablations.clear();
    let text = parsed(validation_page(&validation));
    assert!(text.contains("Partial:") && !text.contains("<script>") && !text.contains('\u{1b}'));
    assert_eq!(plots(&text), 1);
}
