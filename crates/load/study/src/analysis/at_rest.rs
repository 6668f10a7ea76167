//! What the options for mail at rest cost and save: compression, single instances of attachments,
//! encryption. Each is compared with the same server without it.
//!
//! A server `NAME, option` is compared with the server `NAME`. A cell is the median of the rounds'
//! ratios, with the least and the greatest. A machine whose speed changes from round to round does
//! not change them.

use posthaste_load_results::{Bar, BarChart, BarRow, RunResult, Summary, Table};

use super::operations::cpu_us;
use super::points::Points;
use super::spread::{Spread, shown};
use crate::settings::FILLED_BYTES;

/// A figure of a run.
type ValueOf<'a> = &'a dyn Fn(&RunResult) -> Option<f64>;

/// The size of the filled store on the disk.
pub(super) fn disk_mb(run: &RunResult) -> Option<f64> {
    Some(run.settings.get(FILLED_BYTES)?.parse::<f64>().ok()? / 1e6)
}

/// Mean response time of all actions.
pub(super) fn mean_ms(run: &RunResult) -> Option<f64> {
    (run.total.count > 0).then_some(run.total.mean_ms)
}

/// Mean response time of one action.
pub(super) fn mean_of(run: &RunResult, name: &str) -> Option<f64> {
    transaction(run, name).filter(|t| t.count > 0).map(|t| t.mean_ms)
}

/// One of a run's transactions.
pub(super) fn transaction<'r>(run: &'r RunResult, name: &str) -> Option<&'r Summary> {
    run.transactions.iter().find(|t| t.name == name).map(|t| &t.summary)
}

/// The server that stores the same mail plainly: of `only MIME, zstd` it is `only MIME`.
pub(super) fn plain(server: &str) -> Option<&str> {
    Some(server.rsplit_once(", ")?.0)
}

/// The options that were measured with one workload.
pub(super) struct AtRest<'a> {
    points: Points<'a>,
    workload: &'a str,
    /// Each server with an option, and the one without it.
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> AtRest<'a> {
    /// The servers with their options, among the points of a workload.
    pub(super) fn of(points: Points<'a>, workload: &'a str) -> Self {
        let pair = |server: &'a str| Some((server, points.servers().find(|s| Some(*s) == plain(server))?));
        Self { points, workload, pairs: points.servers().filter_map(pair).collect() }
    }

    /// Whether a server is one with such an option.
    pub(super) fn has(&self, server: &str) -> bool {
        self.pairs.iter().any(|(with, _)| *with == server)
    }

    /// A value with the option ÷ that without it, in each round.
    fn ratio(&self, pair: (&str, &str), of: ValueOf) -> Option<Spread> {
        self.points.ratio(self.workload, pair, of)
    }

    /// A column for each option.
    pub(super) fn table(&self, actions: &[&str]) -> Option<Table> {
        let row = |name: &str, of: ValueOf| {
            let mut row = vec![name.to_owned()];
            row.extend(self.pairs.iter().map(|pair| shown(self.ratio(*pair, of))));
            row
        };
        let mut head = vec![self.workload.to_owned()];
        head.extend(self.pairs.iter().map(|(with, without)| format!("{with} ÷ {without}")));
        let mut rows = vec![
            row("the filled store on the disk", &disk_mb),
            row("CPU for each action", &cpu_us),
            row("response time, mean of all actions", &mean_ms),
        ];
        for name in actions {
            rows.push(row(&format!("response time, {name}"), &|run| mean_of(run, name)));
        }
        rows.push(row("set size, mean", &|run| Some(*run.server.as_ref()?.pss_mean_bytes.value()? as f64)));
        let title = format!("Mail at rest, ÷ the same server without it, {}", self.workload);
        (!self.pairs.is_empty()).then_some(Table { title, head, rows })
    }

    /// A row for each measure, with a bar for each option.
    pub(super) fn chart(&self) -> Option<BarChart> {
        let bar = |of: ValueOf, (at, pair): (usize, &(&'a str, &'a str))| {
            let ratio = self.ratio(*pair, of)?;
            Some(Bar { parts: vec![(at, ratio.median)], note: ratio.show() })
        };
        let row = |name: &str, of: ValueOf| BarRow {
            name: name.to_owned(),
            bars: self.pairs.iter().enumerate().filter_map(|pair| bar(of, pair)).collect(),
        };
        let rows = vec![row("disk", &disk_mb), row("CPU", &cpu_us), row("response time", &mean_ms)];
        let title = format!("Mail at rest, {}", self.workload);
        let series = self.pairs.iter().map(|(with, _)| (*with).to_owned()).collect();
        (!self.pairs.is_empty()).then(|| BarChart {
            title,
            x: "÷ the same server without it".into(),
            series,
            rows,
        })
    }

    /// A sentence for each option.
    pub(super) fn findings(&self) -> Vec<String> {
        let said = |pair: &(&'a str, &'a str)| {
            let ratio = |of: ValueOf| Some(self.ratio(*pair, of)?.show());
            let (disk, cpu, time) = (ratio(&disk_mb)?, ratio(&cpu_us)?, ratio(&mean_ms)?);
            let (with, without) = pair;
            Some(format!(
                "{}: {with} takes {disk} × the disk of {without}, {cpu} × the CPU for each action and {time} × the mean \
                 response time",
                self.workload
            ))
        };
        self.pairs.iter().filter_map(said).collect()
    }
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::StudyPoint;

    use super::super::sample::{self, run};
    use super::*;

    fn point(server: &str, round: u32, cpu_s: f64) -> StudyPoint {
        StudyPoint { workload: "oe6-busy".into(), round, ..sample::point(server, &[], run(cpu_s, 1000)) }
    }

    #[test]
    fn each_option_for_mail_at_rest_is_beside_the_same_server_without_it() {
        // CPU, and bytes of the filled store.
        let all = [
            ("only MIME", 1.0, 1000),
            ("only MIME, zstd", 1.3, 680),
            ("Dovecot", 2.0, 900),
            ("Dovecot, files", 2.2, 720),
            ("Dovecot, files, single instance", 2.42, 540),
            ("Dovecot, encrypted", 3.0, 990),
            ("Cyrus", 2.0, 900),
        ];
        let servers = sample::servers(all.map(|(name, ..)| name));
        let mut points = Vec::new();
        for round in 0..3 {
            for (name, cpu, bytes) in all {
                // The machine is slower in each round. Ratios within a round do not show it.
                let mut new = point(name, round, cpu * (1.0 + f64::from(round)));
                if let Ok(run) = &mut new.run {
                    run.total.mean_ms = cpu / 2.0;
                    run.settings.insert(FILLED_BYTES.into(), bytes.to_string());
                }
                points.push(new);
            }
        }
        let at_rest = AtRest::of(Points { servers: &servers, points: &points }, "oe6-busy");
        let table = at_rest.table(&[]).unwrap();
        let head = [
            "oe6-busy",
            "only MIME, zstd ÷ only MIME",
            "Dovecot, files ÷ Dovecot",
            "Dovecot, files, single instance ÷ Dovecot, files",
            "Dovecot, encrypted ÷ Dovecot",
        ];
        assert_eq!(table.head, head);
        assert_eq!(table.rows[0][1..], ["0.680", "0.800", "0.750", "1.10"]);
        assert_eq!(table.rows[1][1..], ["1.30", "1.10", "1.10", "1.50"]);
        assert_eq!(table.rows[2][1..], ["1.30", "1.10", "1.10", "1.50"]);
        let said = at_rest.findings().join("\n");
        let encrypted = "Dovecot, encrypted takes 1.10 × the disk of Dovecot, 1.50 × the CPU for each action and 1.50 × \
                         the mean response time";
        assert!(said.contains(encrypted), "{said}");
        let chart = at_rest.chart().unwrap();
        assert_eq!((chart.rows.len(), chart.series.len()), (3, 4));
        assert_eq!(chart.rows[1].bars[3].note, "1.50");
        assert!(at_rest.has("only MIME, zstd") && !at_rest.has("Dovecot") && !at_rest.has("Cyrus"));
        let alone = AtRest::of(Points { servers: &servers[1..2], points: &points }, "oe6-busy");
        assert!(alone.table(&[]).is_none() && alone.findings().is_empty());
    }
}
