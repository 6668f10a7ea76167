//! Seed 003's figures: disk operations and the time of SendMail against memory, CPU by role.

use super::{Points, figure, plot};
use crate::results::{Analysis, RunResult, Table};

/// All of it.
pub fn analyse(points: Points) -> Analysis {
    let x = "memory of the server (MB)";
    let by = |of: fn(&RunResult) -> Option<f64>| points.by_server("memory_mb", of);
    let mut plots = vec![
        plot(
            "Disk operations",
            x,
            "disk operations per second",
            by(|r| {
                let s = r.server.as_ref()?;
                s.disk_operations.value().map(|n| *n as f64 / s.seconds)
            }),
        ),
        plot(
            "Read from disk",
            x,
            "MB per second",
            by(|r| {
                let s = r.server.as_ref()?;
                s.disk_read_bytes.value().map(|n| *n as f64 / 1e6 / s.seconds)
            }),
        ),
        plot("Time of SendMail, mean", x, "response time (ms)", by(|r| Some(r.total.mean_ms))),
        plot("Time of SendMail, 95 %", x, "response time (ms)", by(|r| Some(r.total.p95_ms))),
        plot(
            "Memory used",
            x,
            "PSS, highest (MB)",
            by(|r| r.server.as_ref()?.pss_max_bytes.value().map(|b| *b as f64 / 1e6)),
        ),
    ];
    plots.retain(|p| !p.curves.is_empty());
    plots.iter_mut().for_each(|p| p.log_x = true);
    let mut rows = Vec::new();
    for (point, run) in points.measured() {
        for role in run.server.iter().flat_map(|s| &s.roles) {
            let memory = point.at.get("memory_mb").map_or("–".into(), f64::to_string);
            rows.push(vec![point.server.clone(), memory, role.name.clone(), figure(role.cpu_s)]);
        }
    }
    let head = ["Server", "memory (MB)", "program", "CPU (s)"].map(str::to_owned).to_vec();
    Analysis { findings: Vec::new(), plots, tables: vec![Table { title: "CPU by role".into(), head, rows }] }
}
