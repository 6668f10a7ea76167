//! Several runs side by side: every figure, and its ratio to the first run's.

use posthaste_load_results::{RunResult, Summary};
use posthaste_load_text::figure::{figure, ratio};

use crate::markup::Markup;
use crate::metric::METRICS;
use crate::run_plots::{NamedRun, transaction_names};
use crate::table::{Cell, Table};

/// Names for runs in one report: their labels, with more of the run where labels are the same.
pub fn named<'a>(runs: &[&'a RunResult]) -> Vec<NamedRun<'a>> {
    let parts: Vec<[String; 3]> = runs
        .iter()
        .map(|r| [r.label.clone(), r.workload.name.clone(), format!("{} users", r.clients)])
        .collect();
    let differs = |at: usize| parts.iter().any(|p| p[at] != parts[0][at]);
    let mut names: Vec<NamedRun> = Vec::new();
    for (parts, run) in parts.iter().zip(runs) {
        let differing: Vec<&str> = parts
            .iter()
            .enumerate()
            .filter(|(at, _)| *at == 0 || differs(*at))
            .map(|(_, p)| p.as_str())
            .collect();
        let base = differing.join(", ");
        let mut name = base.clone();
        let mut again = 2;
        while names.iter().any(|(taken, _)| *taken == name) {
            name = format!("{base} ({again})");
            again += 1;
        }
        names.push((name, run));
    }
    names
}

/// Every metric of every run, with ratios to the first.
pub fn metrics(runs: &[NamedRun], out: &mut Markup) {
    let mut table = Table { head: vec![String::new()], ..Table::default() };
    table.head.extend(runs.iter().map(|(name, _)| name.clone()));
    for metric in METRICS {
        let values: Vec<Option<f64>> = runs.iter().map(|(_, r)| (metric.of)(r)).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let unit = if metric.unit.is_empty() { String::new() } else { format!(" ({})", metric.unit) };
        let mut row = vec![Cell::from(format!("{}{unit}", metric.name))];
        let counts = if metric.key == "errors" { Counts::Faults } else { Counts::Amounts };
        row.extend(cells(&values, counts));
        table.rows.push(row);
    }
    table.draw(out);
}

/// The unit of the figures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Times and amounts: they are compared by ratio.
    Amounts,
    /// Faults: each is one too many.
    Faults,
}

/// Figures with their ratios to the first.
pub fn cells(values: &[Option<f64>], counts: Counts) -> Vec<Cell> {
    let faults = counts == Counts::Faults;
    let first = values.first().copied().flatten();
    let cell = |(at, value): (usize, &Option<f64>)| match value {
        None => Cell::from("–"),
        Some(value) => Cell {
            text: figure(*value),
            aside: first.filter(|_| at > 0 && !faults).and_then(|f| ratio(*value, f)),
            bad: faults && *value > 0.0,
            hint: value.to_string(),
            ..Cell::default()
        },
    };
    values.iter().enumerate().map(cell).collect()
}

/// One time of every transaction in every run, with ratios.
pub fn times(runs: &[NamedRun], of: fn(&Summary) -> f64, out: &mut Markup) {
    let mut table = Table { head: vec!["Transaction".into()], total: true, ..Table::default() };
    table.head.extend(runs.iter().map(|(name, _)| name.clone()));
    let value = |s: &Summary| (s.count > 0).then(|| of(s));
    for name in transaction_names(runs) {
        let find =
            |r: &RunResult| r.transactions.iter().find(|t| t.name == name).and_then(|t| value(&t.summary));
        let values: Vec<Option<f64>> = runs.iter().map(|(_, r)| find(r)).collect();
        let mut row = vec![Cell::from(name)];
        row.extend(cells(&values, Counts::Amounts));
        table.rows.push(row);
    }
    let totals: Vec<Option<f64>> = runs.iter().map(|(_, r)| value(&r.total)).collect();
    let mut row = vec![Cell::from("all")];
    row.extend(cells(&totals, Counts::Amounts));
    table.rows.push(row);
    table.draw(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn runs_are_distinguished() {
        let (a, mut b) = (sample::run("Posthaste", 30, 1.0), sample::run("Posthaste", 90, 1.0));
        let name = |runs: &[&RunResult]| named(runs).into_iter().map(|n| n.0).collect::<Vec<_>>();
        assert_eq!(name(&[&a, &b]), ["Posthaste, 30 users", "Posthaste, 90 users"]);
        b.clients = 30;
        assert_eq!(name(&[&a, &b, &a]), ["Posthaste", "Posthaste (2)", "Posthaste (3)"]);
        b.label = "Dovecot".into();
        assert_eq!(name(&[&a, &b]), ["Posthaste", "Dovecot"]);
    }

    #[test]
    fn ratios_are_to_the_first() {
        let cells = cells(&[Some(2.0), Some(1.0), None], Counts::Amounts);
        assert_eq!((cells[0].aside.clone(), cells[1].aside.as_deref()), (None, Some("0.500 ×")));
        assert_eq!(cells[2].text, "–");
    }
}
