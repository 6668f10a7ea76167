//! Seed 001's figures: CPU against users for each mailbox size, fits, users at the limit, daily
//! users.

use posthaste_load_results::capacity::{
    CPU_LIMIT_PERCENT, HEAVY_USER_MESSAGES_PER_SECOND, PEAK_LOAD_FACTOR, Projection, daily_users,
    fetch_rate_at, project,
};
use posthaste_load_results::fit::Polynomial;
use posthaste_load_results::{Analysis, Curve, Plot, RunResult, StudyPoint, Table};

use super::points::{Points, cpu_ms_per_user, figure, plot, whole};
use super::versions;

/// A figure of a run; `None` where it was not measured.
type Figure<'f> = &'f dyn Fn(&RunResult) -> Option<f64>;

/// Points of a fitted curve.
const STEPS: u32 = 24;

/// The columns of the table.
const HEAD: [&str; 9] = [
    "Server, mailbox",
    "linear fit",
    "quadratic fit",
    "residual, linear",
    "residual, quadratic",
    "users at 75 % CPU",
    "beyond the measured range",
    "fetches per s at 75 % CPU",
    "daily users at 75 % CPU",
];

/// Makes the whole analysis.
pub fn analyse(points: Points) -> Analysis {
    let sizes = sizes(points);
    let curve = |server: &str, (mb, rate): (f64, Option<f64>), of: &dyn Fn(&RunResult) -> Option<f64>| {
        let pass = |p: &StudyPoint| {
            p.server == server && p.at.get("mailbox_mb") == Some(&mb) && delivered(p) == rate
        };
        let mail = rate.map_or(String::new(), |rate| format!(", {rate} messages a user and hour delivered"));
        points.curve(&format!("{server}, {mb} MB{mail}"), "clients", pass, of)
    };
    let (mut cpu, mut findings, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for server in points.servers() {
        let mut limits: Vec<(f64, f64)> = Vec::new();
        for place in &sizes {
            let measured = curve(server, *place, &|r| Some(r.server.as_ref()?.cpu_percent));
            let projection = project(&measured.points, CPU_LIMIT_PERCENT);
            if measured.points.is_empty() {
                continue;
            }
            let limit = projection.as_ref().and_then(|p| p.users);
            let at_limit =
                limit.and_then(|users| fetch_rate_at(&curve(server, *place, &fetch_rate).points, users));
            limits.extend(limit.filter(|_| place.1.is_none()).map(|users| (place.0, users)));
            if let Some(projection) = &projection {
                findings.push(sentence(&measured.name, projection, at_limit));
                cpu.extend(fitted(&measured, projection));
            }
            rows.push(row(&measured, projection.as_ref(), at_limit));
            cpu.push(measured);
        }
        findings.extend(drops(server, &limits));
    }
    let each = |of: Figure<'_>| -> Vec<Curve> {
        points
            .servers()
            .flat_map(|s| sizes.iter().map(move |place| (s, *place)))
            .map(|(s, place)| curve(s, place, of))
            .collect()
    };
    // Measured curves first: fits take their colours.
    cpu.sort_by_key(|c| c.fitted);
    let x = "virtual users";
    let mut against_users = plot("Server CPU against users", x, "server CPU (% of all processors)", cpu);
    against_users.marks.push((format!("{CPU_LIMIT_PERCENT} %"), "y".into(), CPU_LIMIT_PERCENT));
    let mut plots = vec![against_users, against_daily_users(&each)];
    plots.extend(plots_per_user(&each));
    let table = Table { title: "Capacity".into(), head: HEAD.map(str::to_owned).to_vec(), rows };
    let mut tables = vec![table];
    if points.servers().count() > 1 {
        tables.extend(versions::tables(points));
    }
    tables.push(versions::every_point(points));
    plots.retain(|plot| !plot.curves.is_empty());
    Analysis { findings, plots, tables, ..Analysis::default() }
}

/// The CPU against the users a day that the measured fetch rate serves, as the article draws it.
fn against_daily_users(each: &dyn Fn(Figure<'_>) -> Vec<Curve>) -> Plot {
    let cpu = each(&|r| Some(r.server.as_ref()?.cpu_percent));
    let curves = cpu.into_iter().zip(each(&fetch_rate)).map(|(cpu, rates)| {
        let at = |(users, percent): &(f64, f64)| {
            let (_, rate) = rates.points.iter().find(|(same, _)| same == users)?;
            Some((daily(*rate), *percent))
        };
        let mut points: Vec<(f64, f64)> = cpu.points.iter().filter_map(at).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Curve { points, ..cpu }
    });
    let (x, y) = ("daily users, by the fetch rate", "server CPU (% of all processors)");
    let mut plot = plot("Server CPU against daily users", x, y, curves.collect());
    plot.marks.push((format!("{CPU_LIMIT_PERCENT} %"), "y".into(), CPU_LIMIT_PERCENT));
    plot
}

/// The figures that are drawn against users beside the CPU. `each`: a figure's curve for each
/// server and size.
fn plots_per_user(each: &dyn Fn(Figure<'_>) -> Vec<Curve>) -> Vec<Plot> {
    let x = "virtual users";
    vec![
        plot("Server CPU per user", x, "CPU per user (ms per second)", each(&cpu_ms_per_user)),
        plot("MHz per user", x, "megacycles per second and user", each(&versions::mhz_per_user)),
        plot(
            "Store operations per user (the server's own count)",
            x,
            "operations per user and second",
            each(&versions::store_operations),
        ),
        plot(
            "Records of messages read per user (the server's own count)",
            x,
            "records per user and second",
            each(&versions::record_reads),
        ),
        plot(
            "Directory look-ups per user (the server's own count)",
            x,
            "look-ups per user and second",
            each(&versions::look_ups),
        ),
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
    ]
}

/// Each size of mailbox without deliveries, and with them if they were swept.
fn sizes(points: Points) -> Vec<(f64, Option<f64>)> {
    let mut sizes: Vec<f64> =
        points.measured().filter_map(|(p, _)| p.at.get("mailbox_mb").copied()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let mut rates: Vec<Option<f64>> = points.measured().map(|(p, _)| delivered(p)).collect();
    rates.sort_by(|a, b| a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0)));
    rates.dedup();
    sizes.iter().flat_map(|mb| rates.iter().map(move |rate| (*mb, *rate))).collect()
}

/// Messages delivered to each user in an hour, if any.
fn delivered(point: &StudyPoint) -> Option<f64> {
    point.at.get("arrivals_per_hour").copied().filter(|rate| *rate > 0.0)
}

fn fetch_rate(run: &RunResult) -> Option<f64> {
    run.commands.iter().find(|c| c.name == "FETCH").map(|c| c.summary.rate_per_s)
}

/// The users per day who cause this many fetches per second, by the article's arithmetic.
fn daily(fetch_rate: f64) -> f64 {
    daily_users(fetch_rate, HEAVY_USER_MESSAGES_PER_SECOND, PEAK_LOAD_FACTOR)
}

/// `fetches`: messages fetched a second at the limit.
fn sentence(name: &str, projection: &Projection, fetches: Option<f64>) -> String {
    let instead =
        if projection.by_line_instead { " (by the line: the parabola never reaches it)" } else { "" };
    let served = fetches.map_or(String::new(), |rate| {
        format!("; with {} fetches a second it serves {} users a day there", figure(rate), whole(daily(rate)))
    });
    match (projection.users, projection.extrapolation) {
        (Some(users), Some(beyond)) if beyond > 1.0 => format!(
            "{name}: {} users at {CPU_LIMIT_PERCENT} % CPU{instead}, extrapolated to {} × the {} users measured{served}",
            figure(users),
            figure(beyond),
            projection.measured_max
        ),
        (Some(users), _) => {
            format!("{name}: {} users at {CPU_LIMIT_PERCENT} % CPU{instead}, measured{served}", figure(users))
        }
        _ => format!("{name}: the fitted curve never reaches {CPU_LIMIT_PERCENT} % CPU"),
    }
}

/// How many times fewer users each larger mailbox leaves, beside the article's drops. `limits` has
/// sizes and users at the limit, without deliveries.
fn drops(server: &str, limits: &[(f64, f64)]) -> Option<String> {
    let drop = |pair: &[(f64, f64)]| match pair {
        [(small, many), (large, few)] if *few > 0.0 => {
            Some(format!("{} × from {small} to {large} MB", figure(many / few)))
        }
        _ => None,
    };
    let drops: Vec<String> = limits.windows(2).filter_map(drop).collect();
    (!drops.is_empty()).then(|| {
        format!(
            "{server}: the users at {CPU_LIMIT_PERCENT} % CPU fall by {}; in the article by 10 × from 2 to 100 MB and by \
             2 × from 100 to 220 MB",
            drops.join(" and by ")
        )
    })
}

/// The fits that belong to the projection. The projected one covers the measured range, and extends
/// to the limit if that is at most twice as far. The parabola that it replaces covers the measured
/// range.
fn fitted(measured: &Curve, projection: &Projection) -> Vec<Curve> {
    let from = measured.points.first().map_or(0.0, |p| p.0);
    let drawn = |fit: &Polynomial, to: f64, name: &str| {
        let at = |n: u32| from + (to - from) * f64::from(n) / f64::from(STEPS);
        let points = (0..=STEPS).map(|n| (at(n), fit.at(at(n)))).collect();
        Curve { name: format!("{}, {name}", measured.name), points, fitted: true }
    };
    let max = projection.measured_max;
    let mut curves =
        vec![drawn(projection.fit(), projection.users.unwrap_or(0.0).clamp(max, max * 2.0), "fit")];
    if projection.by_line_instead {
        curves.push(drawn(projection.fits.chosen(), max, "parabola"));
    }
    curves
}

fn row(measured: &Curve, projection: Option<&Projection>, fetches: Option<f64>) -> Vec<String> {
    let none = || "–".to_owned();
    let mut row = vec![measured.name.clone()];
    let Some(p) = projection else {
        row.resize_with(HEAD.len(), none);
        return row;
    };
    let quadratic = p.fits.quadratic.as_ref();
    let residual = |v: f64| if v.is_finite() { format!("{} %", figure(v)) } else { none() };
    row.extend([
        p.fits.linear.formula(),
        quadratic.map_or_else(none, |q| q.formula()),
        residual(p.fits.linear.residual_error),
        quadratic.map_or_else(none, |q| residual(q.residual_error)),
        p.users.map_or_else(none, |u| {
            format!("{}{}", figure(u), if p.by_line_instead { " (line)" } else { "" })
        }),
        p.extrapolation.map_or_else(none, |b| format!("{} ×", figure(b))),
        fetches.map_or_else(none, figure),
        fetches.map_or_else(none, |rate| whole(daily(rate))),
    ]);
    row
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{NamedSummary, Summary};

    use super::super::sample::{self, run};
    use super::*;

    fn curve(points: &[(f64, f64)]) -> (Curve, Projection) {
        let measured = Curve { name: "it, 2 MB".into(), points: points.to_vec(), fitted: false };
        let projection = project(points, CPU_LIMIT_PERCENT).unwrap();
        (measured, projection)
    }

    #[test]
    fn a_parabola_that_stays_below_is_shown_and_not_projected() {
        let (measured, projection) = curve(&[(100.0, 18.0), (200.0, 32.0), (300.0, 42.0), (400.0, 48.0)]);
        assert_eq!(
            sentence(&measured.name, &projection, None),
            "it, 2 MB: 650 users at 75 % CPU (by the line: the parabola never reaches it), \
             extrapolated to 1.62 × the 400 users measured"
        );
        let curves = fitted(&measured, &projection);
        let ends: Vec<_> = curves.iter().map(|c| *c.points.last().unwrap()).collect();
        assert_eq!(curves[1].name, "it, 2 MB, parabola");
        assert!((ends[0].0 - 650.0).abs() < 1e-6 && (ends[0].1 - 75.0).abs() < 1e-6, "{ends:?}");
        assert!((ends[1].0 - 400.0).abs() < 1e-6 && (ends[1].1 - 48.0).abs() < 1e-6, "{ends:?}");
        let row = row(&measured, Some(&projection), None);
        assert_eq!(row[5], "650 (line)");
        assert!(row[1].starts_with("y = ") && row[2].contains("x^2"), "{row:?}");
    }

    #[test]
    fn fewer_users_of_larger_mailboxes_are_beside_the_articles() {
        let said = drops("it", &[(2.0, 3000.0), (100.0, 400.0), (220.0, 200.0)]).unwrap();
        assert!(
            said.starts_with(
                "it: the users at 75 % CPU fall by 7.50 × from 2 to 100 MB and by 2.00 × from 100 to 220 MB; in the"
            ),
            "{said}"
        );
        assert_eq!(drops("it", &[(2.0, 3000.0)]), None);
        // Deliveries are another load, and no larger mailbox.
        let servers = sample::servers(["it"]);
        let point = |mb: f64, clients: f64, arrivals: f64| {
            let mut run = run(1.0, 100);
            run.server.as_mut().unwrap().cpu_percent = clients * mb * (1.0 + arrivals) / 10.0;
            let at = [("mailbox_mb", mb), ("clients", clients), ("arrivals_per_hour", arrivals)];
            sample::point("it", &at, run)
        };
        let points: Vec<StudyPoint> = [1.0, 5.0]
            .into_iter()
            .flat_map(|mb| [0.0, 10.0].map(|arrivals| [10.0, 20.0, 30.0].map(|n| point(mb, n, arrivals))))
            .flatten()
            .collect();
        let findings = analyse(Points { servers: &servers, points: &points }).findings;
        let drops: Vec<&String> =
            findings.iter().filter(|finding| finding.contains(" CPU fall by ")).collect();
        assert!(drops.len() == 1 && drops[0].contains("by 5.00 × from 1 to 5 MB; in"), "{drops:?}");
    }

    #[test]
    fn a_fit_that_gets_there_stands_alone() {
        let (measured, projection) = curve(&[(100.0, 15.0), (200.0, 25.0), (300.0, 35.0), (400.0, 45.0)]);
        let said = sentence(&measured.name, &projection, None);
        assert!(said.contains("700 users at 75 % CPU, extrapolated"), "{said}");
        assert_eq!(fitted(&measured, &projection).len(), 1);
    }

    #[test]
    fn daily_users_are_those_of_the_limit_with_and_without_deliveries() {
        let servers = sample::servers(["it"]);
        let point = |clients: f64, arrivals: Option<f64>| {
            let mut run = run(1.0, 100);
            // CPU reaches 75 % at 700 users. Each user fetches half a message a second.
            run.server.as_mut().unwrap().cpu_percent = 5.0 + clients / 10.0;
            let fetches = Summary { rate_per_s: clients / 2.0, ..Summary::default() };
            run.commands = vec![NamedSummary { name: "FETCH".into(), summary: fetches }];
            let mut point = sample::point("it", &[("mailbox_mb", 2.0), ("clients", clients)], run);
            point.at.extend(arrivals.map(|rate| ("arrivals_per_hour".to_owned(), rate)));
            point
        };
        let clients = [100.0, 200.0, 400.0];
        let points: Vec<StudyPoint> = [None, Some(10.0)]
            .into_iter()
            .flat_map(|arrivals| clients.map(|clients| point(clients, arrivals)))
            .collect();
        let analysis = analyse(Points { servers: &servers, points: &points });
        let table = analysis.tables.iter().find(|t| t.title == "Capacity").unwrap();
        assert_eq!(table.head[8], "daily users at 75 % CPU");
        // 350 fetches a second ÷ 0.00278 ÷ 2; the 200 of the busiest point would be 35,971.
        for row in &table.rows {
            assert_eq!(row[7..], ["350", "62,949"], "{row:?}");
        }
        assert_eq!(table.rows.len(), 2);
        // 100 users with 50 fetches a second.
        let plot = analysis.plots.iter().find(|p| p.title == "Server CPU against daily users").unwrap();
        let (users, percent) = plot.curves[0].points[0];
        assert!((users - 8_992.8).abs() < 0.1 && (percent - 15.0).abs() < 1e-9, "{users} {percent}");
        assert_eq!([plot.curves.len(), plot.curves[1].points.len()], [2, 3]);
        assert!(
            analysis.findings[0].ends_with("with 350 fetches a second it serves 62,949 users a day there")
        );
    }
}
