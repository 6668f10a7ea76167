//! Seed 003's figures: disk operations and the time of SendMail against memory, CPU by role.

use posthaste_load_results::{Analysis, Curve, Offered, RunResult, ServerCost, Summary, Table};

use super::points::{Points, figure, plot};

/// How much slower than with the most memory a server may be up to the knee.
const KNEE_FACTOR: f64 = 1.2;

/// The least memory at which, and above which, a server is about as fast as with the
/// most.
fn knee(times: &Curve) -> Option<String> {
    let (most, best) = *times.points.last()?;
    let fast = times.points.iter().rev().take_while(|p| p.1 <= best * KNEE_FACTOR);
    let (least, time) = *fast.last()?;
    let name = &times.name;
    let enough = format!(
        "{name}: with {least} MB SendMail takes {} ms, within 20 % of what it takes with {most} MB",
        figure(time)
    );
    let slower = times.points.iter().rev().find(|p| p.0 < least);
    Some(
        slower
            .map_or(enough.clone(), |(mb, ms)| format!("{enough}; with {mb} MB it takes {} ms", figure(*ms))),
    )
}

/// The transaction whose time the article has: of a workload with others, it alone.
pub(super) fn send_mail(run: &RunResult) -> &Summary {
    run.transactions.iter().find(|t| t.name == "SendMail").map_or(&run.total, |t| &t.summary)
}

/// Operations that write: all but those that read.
fn write_rate(run: &RunResult) -> Option<f64> {
    Some(rate(run, |s| &s.disk_operations)? - rate(run, |s| &s.disk_read_operations)?)
}

/// What the server did, per second.
fn rate(run: &RunResult, of: fn(&ServerCost) -> &Offered<u64>) -> Option<f64> {
    let server = run.server.as_ref()?;
    Some(*of(server).value()? as f64 / server.seconds)
}

/// All of it.
pub fn analyse(points: Points) -> Analysis {
    let x = "memory of the server (MB)";
    let by = |of: fn(&RunResult) -> Option<f64>| points.by_server("memory_mb", of);
    let mut plots = vec![
        plot("Disk operations", x, "disk operations per second", by(|r| rate(r, |s| &s.disk_operations))),
        plot(
            "Disk operations that read",
            x,
            "disk operations per second",
            by(|r| rate(r, |s| &s.disk_read_operations)),
        ),
        plot("Disk operations that write", x, "disk operations per second", by(write_rate)),
        plot("Read from disk", x, "MB per second", by(|r| Some(rate(r, |s| &s.disk_read_bytes)? / 1e6))),
        plot("Written to disk", x, "MB per second", by(|r| Some(rate(r, |s| &s.disk_write_bytes)? / 1e6))),
        plot("Time of SendMail, mean", x, "response time (ms)", by(|r| Some(send_mail(r).mean_ms))),
        plot("Time of SendMail, 95 %", x, "response time (ms)", by(|r| Some(send_mail(r).p95_ms))),
        plot(
            "Memory used",
            x,
            "PSS, highest (MB)",
            by(|r| r.server.as_ref()?.pss_max_bytes.value().map(|b| *b as f64 / 1e6)),
        ),
    ];
    plots.retain(|p| !p.curves.is_empty());
    for plot in &mut plots {
        plot.log_x = true;
        // Below what a server needs its times grow a hundredfold.
        plot.log_y = plot.y.ends_with("(ms)");
    }
    let findings = by(|r| Some(send_mail(r).mean_ms).filter(|_| send_mail(r).count > 0))
        .iter()
        .filter_map(knee)
        .collect();
    let mut rows = Vec::new();
    for place in points.places() {
        let memory = place.point.at.get("memory_mb").map_or("–".into(), f64::to_string);
        let mut names: Vec<&str> = Vec::new();
        for role in place.runs.iter().filter_map(|run| run.server.as_ref()).flat_map(|s| &s.roles) {
            if !names.contains(&role.name.as_str()) {
                names.push(&role.name);
            }
        }
        for name in names {
            let cpu = place.cell(|run| {
                run.server.as_ref()?.roles.iter().find(|role| role.name == name).map(|role| role.cpu_s)
            });
            rows.push(vec![place.point.server.clone(), memory.clone(), name.to_owned(), cpu]);
        }
    }
    let head = ["Server", "memory (MB)", "program", "CPU (s)"].map(str::to_owned).to_vec();
    Analysis {
        findings,
        plots,
        tables: vec![Table { title: "CPU by role".into(), head, rows }],
        ..Analysis::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_memory_that_is_enough_is_named() {
        let curve =
            |points: &[(f64, f64)]| Curve { name: "A".into(), points: points.to_vec(), fitted: false };
        let said = knee(&curve(&[(32.0, 5000.0), (128.0, 20.0), (512.0, 19.0)])).unwrap();
        assert!(
            said.starts_with("A: with 128 MB SendMail takes 20")
                && said.ends_with("with 32 MB it takes 5,000 ms"),
            "{said}"
        );
        assert!(knee(&curve(&[(32.0, 10.0), (64.0, 10.0)])).unwrap().starts_with("A: with 32 MB"));
        assert_eq!(knee(&curve(&[])), None);
    }
}
