//! Seed 001's figures: CPU against users for each mailbox size, fits, users at the limit, daily users.

use super::{Points, cpu_ms_per_user, figure, plot};
use crate::results::{Analysis, Curve, RunResult, Table};
use crate::stats::capacity::{
    CPU_LIMIT_PERCENT, HEAVY_USER_MESSAGES_PER_SECOND, PEAK_LOAD_FACTOR, Projection, daily_users, project,
};

/// Points of a fitted curve.
const STEPS: u32 = 24;

/// All of it.
pub fn analyse(points: Points) -> Analysis {
    let mut sizes: Vec<f64> =
        points.measured().filter_map(|(p, _)| p.at.get("mailbox_mb").copied()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let curve = |server: &str, mb: f64, of: &dyn Fn(&RunResult) -> Option<f64>| {
        let pass = |p: &crate::results::StudyPoint| p.server == server && p.at.get("mailbox_mb") == Some(&mb);
        points.curve(&format!("{server}, {mb} MB"), "clients", pass, of)
    };
    let (mut cpu, mut findings, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for server in points.servers() {
        for mb in &sizes {
            let measured = curve(server, *mb, &|r| Some(r.server.as_ref()?.cpu_percent));
            let projection = project(&measured.points, CPU_LIMIT_PERCENT);
            let fetches = curve(server, *mb, &fetch_rate).points.last().map(|p| p.1);
            if let Some(projection) = &projection {
                findings.push(sentence(&measured.name, projection));
                cpu.push(fitted(&measured, projection));
            }
            rows.push(row(&measured, projection.as_ref(), fetches));
            cpu.push(measured);
        }
    }
    let each = |of: &dyn Fn(&RunResult) -> Option<f64>| -> Vec<Curve> {
        points
            .servers()
            .flat_map(|s| sizes.iter().map(move |mb| (s, *mb)))
            .map(|(s, mb)| curve(s, mb, of))
            .collect()
    };
    // Measured curves first: fits take their colours.
    cpu.sort_by_key(|c| c.fitted);
    let x = "virtual users";
    let mut against_users = plot("Server CPU against users", x, "server CPU (% of all processors)", cpu);
    against_users.marks.push((format!("{CPU_LIMIT_PERCENT} %"), "y".into(), CPU_LIMIT_PERCENT));
    let plots = vec![
        against_users,
        plot("Server CPU per user", x, "CPU per user (ms per second)", each(&cpu_ms_per_user)),
        plot(
            "Server memory",
            x,
            "PSS, highest (MB)",
            each(&|r| r.server.as_ref()?.pss_max_bytes.value().map(|b| *b as f64 / 1e6)),
        ),
        plot(
            "Disk operations per user",
            x,
            "disk operations per user and second",
            each(&|r| {
                let s = r.server.as_ref()?;
                s.disk_operations.value().map(|n| *n as f64 / s.seconds / f64::from(r.clients.max(1)))
            }),
        ),
    ];
    let head = [
        "Server, mailbox",
        "linear fit",
        "quadratic fit",
        "residual, linear",
        "residual, quadratic",
        "users at 75 % CPU",
        "beyond what was measured",
        "daily users",
    ];
    let table = Table { title: "Capacity".into(), head: head.map(str::to_owned).to_vec(), rows };
    Analysis {
        findings,
        plots: plots.into_iter().filter(|p| !p.curves.is_empty()).collect(),
        tables: vec![table],
    }
}

fn fetch_rate(run: &RunResult) -> Option<f64> {
    run.commands.iter().find(|c| c.name == "FETCH").map(|c| c.summary.rate_per_s)
}

fn sentence(name: &str, projection: &Projection) -> String {
    match (projection.users, projection.extrapolation) {
        (Some(users), Some(beyond)) if beyond > 1.0 => format!(
            "{name}: {} users at {CPU_LIMIT_PERCENT} % CPU, extrapolated to {} × the {} users measured",
            figure(users),
            figure(beyond),
            projection.measured_max
        ),
        (Some(users), _) => format!("{name}: {} users at {CPU_LIMIT_PERCENT} % CPU, measured", figure(users)),
        _ => format!("{name}: the fitted curve never reaches {CPU_LIMIT_PERCENT} % CPU"),
    }
}

/// The chosen fit, over the measured range and to the limit if that is at most twice as far.
fn fitted(measured: &Curve, projection: &Projection) -> Curve {
    let from = measured.points.first().map_or(0.0, |p| p.0);
    let to = projection.users.unwrap_or(0.0).clamp(projection.measured_max, projection.measured_max * 2.0);
    let at = |n: u32| from + (to - from) * f64::from(n) / f64::from(STEPS);
    let chosen = projection.fits.chosen();
    let points = (0..=STEPS).map(|n| (at(n), chosen.at(at(n)))).collect();
    Curve { name: format!("{}, fit", measured.name), points, fitted: true }
}

fn row(measured: &Curve, projection: Option<&Projection>, fetches: Option<f64>) -> Vec<String> {
    let none = || "–".to_owned();
    let mut row = vec![measured.name.clone()];
    let Some(p) = projection else {
        row.resize_with(8, none);
        return row;
    };
    let quadratic = p.fits.quadratic.as_ref();
    let residual = |v: f64| if v.is_finite() { format!("{} %", figure(v)) } else { none() };
    row.extend([
        p.fits.linear.formula(),
        quadratic.map_or_else(none, |q| q.formula()),
        residual(p.fits.linear.residual_error),
        quadratic.map_or_else(none, |q| residual(q.residual_error)),
        p.users.map_or_else(none, figure),
        p.extrapolation.map_or_else(none, |b| format!("{} ×", figure(b))),
        // What the busiest point fetched, by the article's arithmetic.
        fetches.map_or_else(none, |rate| {
            figure(daily_users(rate, HEAVY_USER_MESSAGES_PER_SECOND, PEAK_LOAD_FACTOR))
        }),
    ]);
    row
}
