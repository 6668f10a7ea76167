//! The findings, tables and curves of studies as Markdown, for documents that quote them.

use posthaste_load_results::{Curve, Plot, Results, StudyResult, Table};
use posthaste_load_text::figure::figure;

use crate::paths::without_folders;
use crate::studies::plain;

/// All studies among these results; empty without one.
pub fn of_all(results: &[Results]) -> String {
    let studies = results.iter().filter_map(|one| match one {
        Results::Study(study) => Some(of_study(study)),
        Results::Run(_) => None,
    });
    studies.collect::<Vec<_>>().join("\n")
}

/// One study: its findings, a table below each title, and the points of each plot.
pub fn of_study(study: &StudyResult) -> String {
    let quick = if study.quick { " (quick)" } else { "" };
    let mut text = format!("# Study {}{quick}\n", study.study);
    if !study.analysis.findings.is_empty() {
        text.push_str("\n## What it found\n\n");
    }
    for finding in &study.analysis.findings {
        text.push_str(&format!("* {}\n", without_folders(finding)));
    }
    study.analysis.tables.iter().for_each(|table| draw(table, &mut text));
    study.analysis.plots.iter().filter_map(points).for_each(|table| draw(&table, &mut text));
    text
}

fn draw(table: &Table, text: &mut String) {
    text.push_str(&format!("\n## {}\n\n", table.title));
    row(&table.head, text);
    row(&vec!["---".to_owned(); table.head.len()], text);
    table.rows.iter().for_each(|cells| row(cells, text));
}

fn row(cells: &[String], text: &mut String) {
    for cell in cells {
        // A bar would end the cell.
        text.push_str(&format!("| {} ", without_folders(cell).replace('|', "\\|")));
    }
    text.push_str("|\n");
}

/// The measured points of a plot, with a column for each curve; `None` without any.
fn points(plot: &Plot) -> Option<Table> {
    let curves: Vec<&Curve> = plot.curves.iter().filter(|curve| !curve.fitted).collect();
    let mut swept: Vec<f64> = curves.iter().flat_map(|curve| curve.points.iter().map(|(x, _)| *x)).collect();
    swept.sort_by(f64::total_cmp);
    swept.dedup();
    let value = |curve: &Curve, x: f64| {
        let found = curve.points.iter().find(|point| point.0.total_cmp(&x).is_eq());
        found.map_or("–".to_owned(), |(_, y)| figure(*y))
    };
    let cells = |x: &f64| {
        let mut cells = vec![plain(x)];
        cells.extend(curves.iter().map(|curve| value(curve, *x)));
        cells
    };
    let rows: Vec<Vec<String>> = swept.iter().map(cells).collect();
    let mut head = vec![plot.x.clone()];
    head.extend(curves.iter().map(|curve| curve.name.clone()));
    (!rows.is_empty()).then(|| Table { title: format!("{}: {}", plot.title, plot.y), head, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn curve(name: &str, points: &[(f64, f64)], fitted: bool) -> Curve {
        Curve { name: name.into(), points: points.to_vec(), fitted }
    }

    #[test]
    fn findings_tables_and_curves_are_in_the_document() {
        let mut study = sample::item_count(&["A"]);
        study.analysis.findings = vec!["no knee; see /home/somebody/log".into()];
        study.analysis.tables = vec![Table {
            title: "CPU".into(),
            head: vec!["Server".into(), "a|b (%)".into()],
            rows: vec![vec!["A".into(), "12.5".into()]],
        }];
        study.analysis.plots = vec![
            Plot {
                title: "Throughput".into(),
                x: "users".into(),
                y: "transactions per second".into(),
                curves: vec![
                    curve("A", &[(10.0, 100.0), (1_000.0, 4_000.0)], false),
                    curve("B", &[(0.5, 1.5), (10.0, 50.0)], false),
                    curve("A, fitted", &[(7.0, 1.0)], true),
                ],
                ..Plot::default()
            },
            Plot::default(),
        ];
        let expected = "# Study item-count (quick)\n\n## What it found\n\n* no knee; see …/log\n\n\
            ## CPU\n\n| Server | a\\|b (%) |\n| --- | --- |\n| A | 12.5 |\n\n\
            ## Throughput: transactions per second\n\n| users | A | B |\n| --- | --- | --- |\n\
            | 0.5 | – | 1.50 |\n| 10 | 100 | 50.0 |\n| 1,000 | 4,000 | – |\n";
        assert_eq!(of_study(&study), expected);
        let results = [
            Results::Run(Box::new(sample::run("A", 1, 1.0))),
            Results::Study(Box::new(study.clone())),
            Results::Study(Box::new(study)),
        ];
        assert_eq!(of_all(&results), format!("{expected}\n{expected}"));
        assert_eq!(of_all(&results[..1]), "");
    }
}
