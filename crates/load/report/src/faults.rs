//! The faults, the most important first. The verdict is in the first line. Caveats, errors by kind
//! with their last commands, and the audit's findings follow.

use posthaste_load_results::{AuditResult, ErrorCount, RunResult, Slow, StudyResult};
use posthaste_load_text::figure::{figure, whole};

use crate::markup::Markup;
use crate::table::{Cell, Table, faults};

/// The outcome of a run in one line.
pub fn verdict(name: &str, run: &RunResult, out: &mut Markup) {
    let outcome = &run.outcome;
    let audited = run.audit.as_ref().is_none_or(AuditResult::is_clean);
    let good = outcome.clean && outcome.errors == 0 && audited && !outcome.saturated;
    let mut text = if name.is_empty() { String::new() } else { format!("{name}: ") };
    text.push_str(&outcome.headline);
    if !audited {
        text.push_str(" · the audit found mail missing, doubled or altered");
    }
    if outcome.saturated {
        let most = whole(outcome.unfinished_max);
        text.push_str(&format!(" · saturated: up to {most} tasks due and not finished"));
    }
    if outcome.interrupted {
        text.push_str(" · ended early by Ctrl-C");
    }
    line(good, &text, out);
}

/// The outcome of a study in one line.
pub fn study_verdict(study: &StudyResult, out: &mut Markup) {
    let failed = study.points.iter().filter(|p| p.run.is_err()).count();
    let errors: u64 = study.points.iter().filter_map(|p| p.run.as_ref().ok()).map(|r| r.outcome.errors).sum();
    let with_errors =
        study.points.iter().filter_map(|p| p.run.as_ref().ok()).filter(|r| !r.outcome.clean).count();
    let points = study.points.len();
    let of_errors = || {
        let errors = if errors == 1 { "1 error".to_owned() } else { format!("{} errors", whole(errors)) };
        format!("{}: {errors} in {with_errors} of {points} points", study.study)
    };
    let text = match (failed, with_errors) {
        _ if points == 0 => format!("{}: nothing was measured", study.study),
        (0, 0) if study.unmeasured > 0 => {
            format!("{}: not finished: {points} of {} points measured, no errors", study.study, study.planned)
        }
        (0, 0) => format!("{}: {points} points measured, no errors", study.study),
        (0, _) => of_errors(),
        (f, 0) => format!("{}: {f} of {points} points could not be measured", study.study),
        (f, _) => format!("{}; {f} could not be measured", of_errors()),
    };
    line(failed == 0 && with_errors == 0 && points > 0, &text, out);
}

fn line(good: bool, text: &str, out: &mut Markup) {
    let class = if good { "verdict good" } else { "verdict bad" };
    let mark = if good { "✓ " } else { "✗ " };
    out.element("p", &[("class", &class)], &format!("{mark}{text}"));
}

/// A caveat, and the name of its run: (name, caveat).
type NamedCaveat = (String, String);

/// Every caveat to read before the figures. One that several runs share is printed once; where only
/// the figures in it differ, each is behind a fold.
pub fn caveats(said: &[NamedCaveat], out: &mut Markup) {
    let mut grouped: Vec<Vec<&NamedCaveat>> = Vec::new();
    for one in said {
        let alike =
            |group: &&mut Vec<&NamedCaveat>| group.first().is_some_and(|g| pattern(&g.1) == pattern(&one.1));
        match grouped.iter_mut().find(alike) {
            Some(group) => group.push(one),
            None => grouped.push(vec![one]),
        }
    }
    if grouped.is_empty() {
        return;
    }
    out.raw("<section class=\"caveats\"><h2>Before you believe a figure</h2><ul>\n");
    for group in grouped {
        caveat(&group, out);
    }
    out.raw("</ul></section>\n");
}

fn caveat(group: &[&NamedCaveat], out: &mut Markup) {
    let Some((name, text)) = group.first() else { return };
    out.open("li", &[]);
    if let [_] = group {
        out.text(text);
        if !name.is_empty() {
            out.element("span", &[("class", &"quiet")], &format!(" ({name})"));
        }
    } else {
        let more = format!(" ({} times)", group.len());
        out.raw("<details>").open("summary", &[]).text(text);
        out.element("span", &[("class", &"quiet")], &more).close("summary");
        if group.iter().all(|(_, other)| other == text) {
            // All have the same text: a list of their names is enough.
            let names: Vec<&str> = group.iter().map(|(n, _)| n.as_str()).filter(|n| !n.is_empty()).collect();
            out.element("p", &[("class", &"quiet small")], &names.join("; "));
        } else {
            out.raw("<ul>");
            for (name, text) in group {
                let of = if name.is_empty() { String::new() } else { format!("{name}: ") };
                out.element("li", &[], &format!("{of}{text}"));
            }
            out.raw("</ul>");
        }
        out.close("details");
    }
    out.close("li");
}

/// The text without its figures.
fn pattern(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit() && !matches!(c, '-' | '.' | ',')).collect()
}

/// Errors by kind, with the transcript of the first few.
pub fn errors(errors: &[ErrorCount], out: &mut Markup) {
    if errors.is_empty() {
        return;
    }
    out.element("h3", &[], "Errors by kind, whole run");
    let mut table = Table::new(&["Kind", "Errors"]);
    table.rows = errors.iter().map(|e| vec![Cell::from(e.kind.clone()), faults(e.count)]).collect();
    table.draw(out);
    for (kind, sample) in errors.iter().flat_map(|e| e.samples.iter().map(|s| (&e.kind, s))) {
        let summary = format!(
            "{kind} at {} s: {} in {}: {}",
            figure(sample.at_s),
            sample.user,
            sample.transaction,
            sample.what
        );
        super::facts::folded(&summary, &sample.transcript, out);
    }
}

/// The slowest transactions.
pub fn slowest(slow: &[Slow], out: &mut Markup) {
    if slow.is_empty() {
        return;
    }
    out.element("h3", &[], "Slowest transactions");
    let mut table = Table::new(&["Transaction", "ms", "ended at (s)", "user", "its longest command"]);
    table.rows = slow
        .iter()
        .map(|s| {
            [s.transaction.clone(), figure(s.ms), figure(s.at_s), s.user.clone(), s.command.clone()]
                .map(Cell::from)
                .to_vec()
        })
        .collect();
    table.draw(out);
}

/// The findings of the audit.
pub fn audit(audit: Option<&AuditResult>, out: &mut Markup) {
    let Some(audit) = audit else { return };
    out.element("h3", &[], "Audit: every message accounted for");
    let mut table = Table::new(&[
        "Accounts",
        "found",
        "expected",
        "missing",
        "doubled",
        "unexpected",
        "altered",
        "UIDs given twice",
        "unreadable accounts",
    ]);
    let mut row: Vec<Cell> =
        [audit.accounts, audit.messages_found, audit.messages_expected].map(|n| whole(n).into()).to_vec();
    row.extend(
        [audit.missing, audit.duplicated, audit.unexpected, audit.altered, audit.reused, audit.unreadable]
            .map(faults),
    );
    table.rows.push(row);
    table.draw(out);
    if !audit.findings.is_empty() {
        super::facts::folded("What it found, the first few", &audit.findings.join("\n"), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caveats_that_differ_in_figures_only_are_folded_together() {
        let said: Vec<NamedCaveat> =
            (0..5).map(|n| (format!("run {n}"), format!("not steady: drift -{n} %"))).collect();
        let mut out = Markup::new();
        caveats(&said, &mut out);
        let html = out.into_string();
        assert_eq!(html.matches("<details>").count(), 1);
        assert!(html.contains("drift -0 %") && html.contains("(5 times)"), "{html}");
        assert!(html.contains("run 4: not steady: drift -4 %"), "{html}");
    }

    #[test]
    fn a_study_that_measured_nothing_is_no_success() {
        let said = |study: &StudyResult| {
            let mut out = Markup::new();
            study_verdict(study, &mut out);
            out.into_string()
        };
        let mut study = crate::sample::item_count(&["Posthaste"]);
        assert!(said(&study).contains("✓ item-count: 8 points measured, no errors"), "{}", said(&study));
        if let Ok(run) = &mut study.points[0].run {
            (run.outcome.clean, run.outcome.errors) = (false, 1);
        }
        assert!(said(&study).contains("✗ item-count: 1 error in 1 of 8 points<"), "{}", said(&study));
        study.points[1].run = Err("no answer".into());
        assert!(said(&study).contains("1 error in 1 of 8 points; 1 could not be"), "{}", said(&study));
        study.points.clear();
        (study.planned, study.unmeasured) = (8, 8);
        assert!(said(&study).contains("✗ item-count: nothing was measured"), "{}", said(&study));
    }

    #[test]
    fn equal_caveats_of_several_runs_are_printed_once() {
        let said: Vec<NamedCaveat> =
            ["", "A", "B"].map(|n| (n.to_owned(), "shared machine".to_owned())).into();
        let mut out = Markup::new();
        caveats(&said, &mut out);
        let html = out.into_string();
        assert_eq!(html.matches("shared machine").count(), 1, "{html}");
        assert!(html.contains("(3 times)") && html.contains(">A; B<"), "{html}");
    }
}
