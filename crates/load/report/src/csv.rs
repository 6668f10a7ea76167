//! Tables as CSV (RFC 4180): a head of column names, one record a line, for spreadsheets and
//! scripts.

use std::collections::BTreeSet;

use posthaste_load_results::{Results, RunResult, StudyResult, Summary};

use crate::metric::METRICS;

/// The CSV files of one result: names and contents.
pub fn files(results: &Results) -> Vec<(&'static str, String)> {
    match results {
        Results::Run(run) => vec![("transactions.csv", transactions(run)), ("series.csv", series(run))],
        Results::Study(study) => vec![("points.csv", points(study))],
    }
}

/// Every run of every result, a line each.
pub fn all(inputs: &[Results]) -> String {
    let mut lines = Lines::new();
    let swept: BTreeSet<&String> = inputs
        .iter()
        .filter_map(|input| match input {
            Results::Study(study) => Some(study.points.iter().flat_map(|p| p.at.keys())),
            Results::Run(_) => None,
        })
        .flatten()
        .collect();
    let mut head = vec!["study", "server"];
    head.extend(swept.iter().map(|k| k.as_str()));
    head.extend(["round", "workload", "virtual_users", "failed"]);
    head.extend(METRICS.iter().map(|m| m.key));
    lines.words(&head);
    for input in inputs {
        match input {
            Results::Run(run) => {
                let mut line = vec![String::new(), run.label.clone()];
                line.extend(swept.iter().map(|_| String::new()));
                line.push(String::new());
                line.extend(of_run(&run.workload.name, Ok(run)));
                lines.record(&line);
            }
            Results::Study(study) => {
                for point in &study.points {
                    let mut line = vec![study.study.clone(), point.server.clone()];
                    line.extend(swept.iter().map(|k| point.at.get(*k).map_or(String::new(), f64::to_string)));
                    line.push((point.round + 1).to_string());
                    line.extend(of_run(&point.workload, point.run.as_deref()));
                    lines.record(&line);
                }
            }
        }
    }
    lines.text
}

fn of_run(workload: &str, run: Result<&RunResult, &String>) -> Vec<String> {
    let mut line = vec![workload.to_owned()];
    match run {
        Ok(run) => {
            line.extend([run.clients.to_string(), String::new()]);
            line.extend(METRICS.iter().map(|m| (m.of)(run).map_or(String::new(), |v| v.to_string())));
        }
        Err(why) => {
            line.extend([String::new(), why.clone()]);
            line.extend(METRICS.iter().map(|_| String::new()));
        }
    }
    line
}

fn points(study: &StudyResult) -> String {
    all(&[Results::Study(Box::new(study.clone()))])
}

fn transactions(run: &RunResult) -> String {
    let mut lines = Lines::new();
    lines.words(&[
        "kind",
        "name",
        "share_asked",
        "share_realised",
        "count",
        "rate_per_s",
        "mean_ms",
        "p50_ms",
        "p90_ms",
        "p95_ms",
        "p99_ms",
        "p999_ms",
        "max_ms",
        "errors",
        "bytes_in",
        "bytes_out",
        "redrawn",
    ]);
    let mut line = |kind: &str, name: &str, shares: [String; 2], s: &Summary, redrawn: String| {
        let mut record = vec![kind.to_owned(), name.to_owned()];
        record.extend(shares);
        record.push(s.count.to_string());
        let times = [s.rate_per_s, s.mean_ms, s.p50_ms, s.p90_ms, s.p95_ms, s.p99_ms, s.p999_ms, s.max_ms];
        record.extend(times.map(|v| v.to_string()));
        record.extend([s.errors, s.bytes_in, s.bytes_out].map(|v| v.to_string()));
        record.push(redrawn);
        lines.record(&record);
    };
    let none = || [String::new(), String::new()];
    line("total", "", none(), &run.total, String::new());
    for t in &run.transactions {
        let shares = [t.share_asked.map_or(String::new(), |s| s.to_string()), t.share_realised.to_string()];
        line("transaction", &t.name, shares, &t.summary, t.redrawn.to_string());
    }
    for g in &run.generators {
        line("generator", &g.name, none(), &g.total, String::new());
    }
    for c in &run.commands {
        line("command", &c.name, none(), &c.summary, String::new());
    }
    lines.text
}

fn series(run: &RunResult) -> String {
    let mut lines = Lines::new();
    lines.words(&[
        "second",
        "done",
        "errors",
        "mean_ms",
        "max_ms",
        "online",
        "unfinished",
        "server_cpus",
        "generator_cpus",
    ]);
    let s = &run.series;
    let whole = |v: &[u64], at: usize| v.get(at).map_or(String::new(), u64::to_string);
    let real = |v: &[f64], at: usize| v.get(at).map_or(String::new(), f64::to_string);
    for at in 0..s.done.len() {
        lines.record(&[
            at.to_string(),
            whole(&s.done, at),
            whole(&s.errors, at),
            real(&s.mean_ms, at),
            real(&s.max_ms, at),
            whole(&s.online, at),
            whole(&s.unfinished, at),
            real(&s.server_cpus, at),
            real(&s.generator_cpus, at),
        ]);
    }
    lines.text
}

struct Lines {
    text: String,
}

impl Lines {
    fn new() -> Self {
        Self { text: String::new() }
    }

    fn words(&mut self, fields: &[&str]) {
        self.record(&fields.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>());
    }

    fn record(&mut self, fields: &[String]) {
        for (at, field) in fields.iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            quote(field, &mut self.text);
        }
        self.text.push_str("\r\n");
    }
}

/// A field, in quotes if it needs them. Text a spreadsheet would run as a formula gets an
/// apostrophe before it.
fn quote(field: &str, out: &mut String) {
    let is_number = field.parse::<f64>().is_ok();
    let formula = !is_number && field.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if !formula && !field.contains(['"', ',', '\n', '\r']) {
        return out.push_str(field);
    }
    out.push('"');
    if formula {
        out.push('\'');
    }
    out.push_str(&field.replace('"', "\"\""));
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn fields_with_a_meaning_are_quoted() {
        let mut lines = Lines::new();
        lines.words(&["a,b", "say \"hi\"", "=1+1", "-3.5", "plain"]);
        assert_eq!(lines.text, "\"a,b\",\"say \"\"hi\"\"\",\"'=1+1\",-3.5,plain\r\n");
    }

    #[test]
    fn every_line_has_every_column() {
        let results = [
            Results::Run(Box::new(sample::run("Posthaste", 30, 1.0))),
            Results::Study(Box::new(sample::item_count(&["Posthaste", "Dovecot"]))),
        ];
        let mut tables: Vec<String> = vec![all(&results)];
        tables.extend(results.iter().flat_map(files).map(|(_, text)| text));
        for table in tables {
            let columns = table.lines().next().unwrap().matches(',').count();
            assert!(table.lines().count() > 2);
            for line in table.lines().filter(|l| !l.contains('"')) {
                assert_eq!(line.matches(',').count(), columns, "{line}");
            }
        }
    }
}
