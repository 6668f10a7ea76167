//! The part of a report that is about studies: the findings, the curves, a table of every point,
//! and the run of each point.

use posthaste_load_results::{BarChart, Plot, StudyPoint, StudyResult};
use posthaste_load_text::figure::{figure, whole};

use crate::bars::{BarGroup, BarPart, Bars};
use crate::chart::Chart;
use crate::legend::Look;
use crate::markup::Markup;
use crate::metric::METRICS;
use crate::paths::without_folders;
use crate::run_plots::Figure;
use crate::table::{Cell, Table};
use crate::{facts, runs};

/// Figures of a point that the table shows.
const POINT_KEYS: [&str; 11] = [
    "throughput_per_s",
    "p50_ms",
    "p99_ms",
    "errors",
    "server_cpu_percent",
    "megacycles_per_session",
    "megacycles_per_message",
    "megacycles_per_transaction",
    "pss_max_mb",
    "pss_own_max_mb",
    "disk_operations",
];

/// The details that a report shows of the points of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The run of each.
    Runs,
    /// Nothing: the report is short.
    Nothing,
}

/// Prints everything about one study.
pub fn section(study: &StudyResult, behind: Behind, out: &mut Markup) {
    let quick = if study.quick { " (quick)" } else { "" };
    out.element("h2", &[("id", &format!("study-{}", study.study))], &format!("Study {}{quick}", study.study));
    out.element("p", &[], &study.description);
    if !study.after.is_empty() {
        out.element("p", &[("class", &"quiet")], &format!("After: {}", study.after));
    }
    if !study.analysis.findings.is_empty() {
        out.element("h3", &[], "What it found").open("ul", &[]);
        for finding in &study.analysis.findings {
            out.element("li", &[], finding);
        }
        out.close("ul");
    }
    plots(&study.analysis.plots, out);
    charts(&study.analysis.charts, out);
    for table in &study.analysis.tables {
        out.element("h3", &[], &table.title);
        let rows = table.rows.iter().map(|row| cells(row)).collect();
        Table { head: table.head.clone(), rows, ..Table::default() }.draw(out);
    }
    out.element("h3", &[], "Every point");
    points(study, out);
    servers(study, out);
    if behind == Behind::Runs {
        runs_behind(study, out);
    }
}

/// The cells of a row. A reason why nothing is offered takes the columns of all figures that are
/// missing: in one of them, it would make the table wider than a page.
fn cells(row: &[String]) -> Vec<Cell> {
    let filled = row.iter().rposition(|text| !text.is_empty()).map_or(0, |at| at + 1);
    let (shown, missing) = row.split_at(filled);
    let is_reason = shown.last().is_some_and(|text| text.starts_with("not offered"));
    let shown = if is_reason { shown } else { row };
    let mut cells: Vec<Cell> = shown.iter().map(|text| Cell::from(without_folders(text))).collect();
    if let Some(reason) = cells.last_mut().filter(|_| is_reason) {
        reason.columns = missing.len() + 1;
    }
    cells
}

/// The run of each point, folded.
fn runs_behind(study: &StudyResult, out: &mut Markup) {
    let note = "The run behind each point is shown on the screen only. Its times, commands and settings are also in results.json.";
    out.element("p", &[("class", &"paper quiet")], note);
    for point in &study.points {
        if let Ok(run) = &point.run {
            out.raw("<details class=\"behind\">");
            out.element("summary", &[], &format!("Run of {}", point_name(point)));
            runs::details(run, out);
            facts::of_run(run, out);
            out.close("details");
        }
    }
}

fn plots(plots: &[Plot], out: &mut Markup) {
    out.raw("<div class=\"plots\">\n");
    plots.iter().for_each(|one| plot(one, out));
    out.raw("</div>\n");
}

/// One of them.
pub fn plot(plot: &Plot, out: &mut Markup) {
    if let Some(figure) = Figure::of(&Chart::from(plot.clone()), "") {
        figure.draw(out);
    }
}

fn charts(charts: &[BarChart], out: &mut Markup) {
    out.raw("<div class=\"plots\">\n");
    charts.iter().filter(|chart| !chart.rows.is_empty()).for_each(|one| chart(one, out));
    out.raw("</div>\n");
}

/// One chart of bars.
pub fn chart(chart: &BarChart, out: &mut Markup) {
    let part = |(series, value): &(usize, f64)| BarPart { value: *value, look: Look::Fill(*series) };
    let row = |row: &posthaste_load_results::BarRow| BarGroup {
        name: row.name.clone(),
        bars: row.bars.iter().map(|bar| (bar.parts.iter().map(part).collect(), bar.note.clone())).collect(),
    };
    // One colour needs no legend: the rows are named.
    let named = chart.series.iter().enumerate().filter(|_| chart.series.len() > 1);
    let bars = Bars {
        title: chart.title.clone(),
        x: chart.x.clone(),
        legend: named.map(|(at, name)| (name.clone(), Look::Fill(at))).collect(),
        rows: chart.rows.iter().map(row).collect(),
    };
    Figure { caption: chart.title.clone(), note: String::new(), svg: bars.draw() }.draw(out);
}

/// A point in words: `Dovecot, koka-browse, clients 30`.
pub fn point_name(point: &StudyPoint) -> String {
    let mut parts = vec![point.server.clone(), point.workload.clone()];
    parts.extend(point.at.iter().map(|(key, value)| format!("{} {}", key.replace('_', " "), plain(value))));
    parts.join(", ")
}

/// A swept value: whole ones with their thousands separated.
pub fn plain(value: &f64) -> String {
    if value.fract() == 0.0 { whole(*value as u64) } else { value.to_string() }
}

fn points(study: &StudyResult, out: &mut Markup) {
    let mut swept: Vec<&String> = study.points.iter().flat_map(|p| p.at.keys()).collect();
    swept.sort_unstable();
    swept.dedup();
    let measured = |key: &str| METRICS.iter().find(|m| m.key == key);
    let runs = || study.points.iter().filter_map(|p| p.run.as_ref().ok());
    let shown: Vec<_> =
        POINT_KEYS.into_iter().filter_map(measured).filter(|m| runs().any(|r| (m.of)(r).is_some())).collect();
    let mut table = Table { head: vec!["Server".into(), "workload".into()], ..Table::default() };
    table.head.extend(swept.iter().map(|s| s.replace('_', " ")));
    let rounds = study.points.iter().any(|point| point.round > 0);
    table.head.extend(rounds.then(|| "round".to_owned()));
    table.head.extend(shown.iter().map(|m| match m.unit {
        "" => m.name.to_owned(),
        unit => format!("{} ({unit})", m.name),
    }));
    if shown.is_empty() {
        // Only reasons are left.
        table.head.push("not measured".to_owned());
    }
    for point in &study.points {
        let mut row = vec![Cell::from(point.server.clone()), Cell::from(point.workload.clone())];
        row.extend(swept.iter().map(|s| Cell::from(point.at.get(*s).map_or("–".into(), plain))));
        row.extend(rounds.then(|| Cell::from((point.round + 1).to_string())));
        match &point.run {
            Ok(run) => row.extend(shown.iter().map(|m| {
                let value = (m.of)(run);
                Cell {
                    text: value.map_or("–".into(), figure),
                    bad: m.key == "errors" && value.is_some_and(|v| v > 0.0),
                    hint: value.map_or(String::new(), |v| v.to_string()),
                    ..Cell::default()
                }
            })),
            Err(why) => {
                let (text, columns) = (without_folders(why), shown.len());
                row.push(Cell { text, columns, bad: true, ..Cell::default() });
            }
        }
        table.rows.push(row);
    }
    table.draw(out);
}

fn servers(study: &StudyResult, out: &mut Markup) {
    out.element("h3", &[], "Servers and machine");
    let servers = study.servers.iter().map(|s| (s.name.clone(), without_folders(&s.version)));
    Table::words(servers.chain(facts::machine(&study.machine)).collect()).draw(out);
    for server in &study.servers {
        if !server.settings.is_empty() {
            facts::folded(&format!("Settings of {}", server.name), &without_folders(&server.settings), out);
        }
    }
    let commands: Vec<String> = match study.sittings.len() {
        0 | 1 => vec![facts::shown(&study.command)],
        _ => study.sittings.iter().map(|sitting| facts::shown(&sitting.command)).collect(),
    };
    out.element("h3", &[], if commands.len() > 1 { "Commands" } else { "Command" });
    out.element("pre", &[], &commands.join("\n"));
    if !study.toml.is_empty() {
        facts::folded(&format!("Study {}: the file, whole", study.study), &study.toml, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_reason_takes_the_columns_of_the_figures() {
        let row = |texts: [&str; 4]| cells(&texts.map(str::to_owned));
        let spans = |cells: &[Cell]| cells.iter().map(|cell| cell.columns).collect::<Vec<_>>();
        assert_eq!(spans(&row(["A", "browse", "not offered here: no counters", ""])), [0, 0, 2]);
        assert_eq!(spans(&row(["A", "browse", "1.00", "not offered here"])), [0, 0, 0, 1]);
        // A figure that is missing has an empty cell.
        assert_eq!(spans(&row(["the article", "both", "60", ""])), [0; 4]);
        assert_eq!(spans(&row([""; 4])), [0; 4]);
    }

    #[test]
    fn a_point_that_failed_has_its_reason_across_the_figures() {
        let mut study = sample::item_count(&["Posthaste"]);
        study.points.truncate(2);
        study.points[1].run = Err("no answer: see /home/somebody/log".into());
        let drawn = |study: &StudyResult| {
            let mut out = Markup::new();
            points(study, &mut out);
            out.into_string()
        };
        let page = drawn(&study);
        let heads = page.matches("<th>").count() + page.matches("<th ").count();
        // Besides server, workload and size.
        let figures = heads - 3;
        assert!(figures > 1, "{page}");
        let cell = format!("<td class=\"bad\" colspan=\"{figures}\">no answer: see …/log</td>");
        assert!(page.contains(&cell), "{cell} in {page}");
        // With no figure at all, the reasons have a column of their own.
        study.points.remove(0);
        let page = drawn(&study);
        assert!(page.contains(">not measured</th>"), "{page}");
        assert!(page.contains("<td class=\"bad\">no answer: see …/log</td>"), "{page}");
    }
}
