//! Seed 004's comparison: a POP3 workload beside the IMAP mixes.

use posthaste_load_results::{Analysis, Counters, RunResult, Table};

use super::koka::kernel_percent;
use super::points::{Points, figure, memory_mb, own_memory_mb, plot};
use super::spread::PointRuns;
use crate::settings::{ARRIVES_BY, SENT_BY, TAKEN_BY_OTHER};

/// The share of kernel time that the article has of POP3 (SPECmail2001) and of IMAP, in percent.
const ARTICLE_KERNEL: [(&str, f64); 2] = [("pop3", 4.4), ("koka", 15.0)];

/// Makes the whole analysis.
pub fn analyse(points: Points) -> Analysis {
    let x = "times as fast as users are";
    let each = |of: fn(&RunResult) -> Option<f64>| {
        let mut curves = Vec::new();
        for workload in points.workloads() {
            for server in points.servers() {
                let name = format!("{server}, {workload}");
                curves.push(points.curve(
                    &name,
                    "speed",
                    |p| p.server == server && p.workload == workload,
                    of,
                ));
            }
        }
        curves
    };
    let mut plots = vec![
        plot("Throughput", x, "transactions per second", each(|r| Some(r.total.rate_per_s))),
        plot(
            "Server CPU per transaction",
            x,
            "megacycles per transaction",
            each(|r| r.server.as_ref()?.megacycles_per_transaction),
        ),
        plot("Kernel's share of server CPU", x, "kernel time (% of CPU)", each(kernel_percent)),
        plot("Median response time", x, "response time (ms)", each(|r| Some(r.total.p50_ms))),
    ];
    plots.retain(|p| !p.curves.is_empty());
    plots.iter_mut().for_each(|p| p.log_x = true);
    let tables = vec![table(points), mail_table(points)];
    Analysis { findings: findings(points), plots, tables, ..Analysis::default() }
}

/// The cost of a POP3 transaction beside one of each IMAP mix, at the highest speed of each.
fn findings(points: Points) -> Vec<String> {
    let (workloads, places) = (points.workloads(), points.places());
    let cost = |server: &str, workload: &str| {
        let mine = places.iter().filter(|p| p.point.server == server && p.point.workload == workload);
        let fastest = mine.max_by(|a, b| speed(a).total_cmp(&speed(b)))?;
        let megacycles = fastest.value(|r| r.server.as_ref()?.megacycles_per_transaction)?;
        let kernel = fastest.value(kernel_percent).map_or("–".to_owned(), |k| figure(k.median));
        Some((figure(megacycles.median), kernel))
    };
    let mut findings = Vec::new();
    let Some(check) = workloads.iter().copied().find(|name| is_pop3(name)) else { return findings };
    for server in points.servers() {
        let Some((pop3, kernel)) = cost(server, check) else { continue };
        for mix in workloads.iter().copied().filter(|name| !is_pop3(name)) {
            let Some((imap, imap_kernel)) = cost(server, mix) else { continue };
            findings.push(format!(
                "{server}: a POP3 check costs {pop3} megacycles, {kernel} % of them in the kernel; a transaction of \
                 {mix} costs {imap}, {imap_kernel} % in the kernel"
            ));
        }
    }
    findings
}

fn is_pop3(workload: &str) -> bool {
    workload.starts_with("pop3")
}

fn speed(place: &PointRuns) -> f64 {
    place.point.at.get("speed").copied().unwrap_or(0.0)
}

fn table(points: Points) -> Table {
    let head = [
        "Workload",
        "Server",
        "users",
        "speed",
        "transactions per s",
        "median (ms)",
        "99 % (ms)",
        "CPU (%)",
        "megacycles per transaction",
        "kernel (%)",
        "kernel, the article's (%)",
        "memory, PSS (MB)",
        "memory without pages of files (MB)",
        "cycles per instruction",
        "cache misses",
    ];
    let mut rows = Vec::new();
    for workload in points.workloads() {
        for place in points.places().iter().filter(|p| p.point.workload == workload) {
            let show = |value: Option<f64>| value.map_or("–".to_owned(), figure);
            let article = ARTICLE_KERNEL.iter().find(|(prefix, _)| workload.starts_with(prefix)).map(|a| a.1);
            rows.push(vec![
                workload.to_owned(),
                place.point.server.clone(),
                place.clients().to_string(),
                show(place.point.at.get("speed").copied()),
                place.cell(|run| Some(run.total.rate_per_s)),
                place.cell(|run| Some(run.total.p50_ms)),
                place.cell(|run| Some(run.total.p99_ms)),
                place.cell(|run| Some(run.server.as_ref()?.cpu_percent)),
                place.cell(|run| run.server.as_ref()?.megacycles_per_transaction),
                place.cell(kernel_percent),
                show(article),
                place.cell(memory_mb),
                place.cell(own_memory_mb),
                place.offered(|run| Some(counters(run)?.cpi)),
                place.offered(|run| Some(counters(run)?.cache_misses as f64)),
            ]);
        }
    }
    Table { title: "POP3 beside IMAP".into(), head: head.map(str::to_owned).to_vec(), rows }
}

/// The processor's counters, where the kernel offers them.
fn counters(run: &RunResult) -> Option<&Counters> {
    run.server.as_ref()?.counters.value()
}

/// The mail of the POP3 users: what they sent, and what arrived.
fn mail_table(points: Points) -> Table {
    let head = [
        "Workload",
        "Server",
        "speed",
        "sent by",
        "sent by users",
        "of these taken by the other server",
        "arrived by",
        "arrived",
    ];
    let mut rows = Vec::new();
    for place in points.places().iter().filter(|p| is_pop3(&p.point.workload)) {
        let setting = |name: &str| {
            let found = place.runs.iter().find_map(|run| run.settings.get(name));
            found.map_or("–".to_owned(), Clone::clone)
        };
        let count = |name: &'static str| {
            place.cell(|run| run.transactions.iter().find(|t| t.name == name).map(|t| t.summary.count as f64))
        };
        rows.push(vec![
            place.point.workload.clone(),
            place.point.server.clone(),
            place.point.at.get("speed").copied().map_or("–".to_owned(), figure),
            setting(SENT_BY),
            count("send"),
            place.cell(|run| run.settings.get(TAKEN_BY_OTHER)?.parse().ok()),
            setting(ARRIVES_BY),
            count("(arrival)"),
        ]);
    }
    Table { title: "Mail of the POP3 users".into(), head: head.map(str::to_owned).to_vec(), rows }
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{Offered, StudyPoint};

    use super::super::sample::{self, run};
    use super::*;
    use crate::{Length, load};

    #[test]
    fn both_lengths_of_the_study_have_both_mixes() {
        for length in [Length::Full, Length::Quick] {
            let study = load("pop3", length).unwrap();
            let names: Vec<&str> = study.workloads.iter().map(|workload| workload.name.as_str()).collect();
            assert_eq!(names, ["pop3-check", "koka-browse-frequencies", "koka-manage-frequencies"]);
        }
    }

    #[test]
    fn the_processors_counters_are_of_both_protocols_or_not_offered() {
        let servers = sample::servers(["A"]);
        let point = |workload: &str, counters: Option<Counters>| {
            let mut run = run(2.0, 1000);
            if let (Some(server), Some(counters)) = (&mut run.server, counters) {
                server.counters = Offered::Value(counters);
            }
            StudyPoint { workload: workload.into(), ..sample::point("A", &[("speed", 1.0)], run) }
        };
        let known = Counters { cycles: 30, instructions: 20, cache_misses: 7, cpi: 1.5 };
        let points = [point("pop3-check", Some(known)), point("koka-browse-frequencies", None)];
        let table = table(Points { servers: &servers, points: &points });
        assert_eq!(table.head[13..], ["cycles per instruction", "cache misses"]);
        assert_eq!(table.rows[0][13..], ["1.50", "7.00"]);
        assert_eq!(table.rows[1][13..], ["not offered here", "not offered here"]);
    }

    #[test]
    fn both_protocols_have_rows_and_a_sentence() {
        let servers = sample::servers(["A"]);
        let point = |workload: &str, speed: f64, megacycles: f64| {
            let mut run = run(2.0, 1000);
            if let Some(server) = &mut run.server {
                (server.cpu_system_s, server.megacycles_per_transaction) = (0.5, Some(megacycles));
            }
            run.settings.insert(SENT_BY.into(), "submission".into());
            run.settings.insert(TAKEN_BY_OTHER.into(), "7".into());
            StudyPoint { workload: workload.into(), ..sample::point("A", &[("speed", speed)], run) }
        };
        let points = [
            point("pop3-check", 1.0, 9.0),
            point("pop3-check", 60.0, 0.5),
            point("koka-browse-frequencies", 1.0, 8.0),
            point("koka-browse-frequencies", 60.0, 2.0),
            point("koka-manage-frequencies", 60.0, 3.0),
        ];
        let analysis = analyse(Points { servers: &servers, points: &points });
        let said = |mix: &str| {
            format!(
                "A: a POP3 check costs 0.500 megacycles, 20.0 % of them in the kernel; a transaction of {mix}, 20.0 % \
                 in the kernel"
            )
        };
        let mixes = ["koka-browse-frequencies costs 2.00", "koka-manage-frequencies costs 3.00"];
        assert_eq!(analysis.findings, mixes.map(said), "each mix, at its highest speed");
        let rows = &analysis.tables[0].rows;
        assert_eq!((rows.len(), rows[0][10].as_str(), rows[2][10].as_str()), (5, "4.40", "15.0"));
        assert_eq!(analysis.plots[0].curves.len(), 3);
        let mail = &analysis.tables[1].rows;
        assert_eq!(mail.len(), 2, "the IMAP mixes have tables of their own");
        assert_eq!(mail[1], ["pop3-check", "A", "60.0", "submission", "–", "7.00", "–", "–"]);
    }
}
