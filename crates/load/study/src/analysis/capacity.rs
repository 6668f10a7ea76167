//! Seed 001's figures: CPU against users for each mailbox size, fits, users at the limit, daily
//! users.
//!
//! The plot has the fits of the medians over the rounds. Users at the limit are projected in each
//! round: a cell is the median of these, with the least and the greatest.

use posthaste_load_results::capacity::{
    CPU_LIMIT_PERCENT, HEAVY_USER_MESSAGES_PER_SECOND, PEAK_LOAD_FACTOR, Projection, daily_users,
    fetch_rate_at, project,
};
use posthaste_load_results::fit::Polynomial;
use posthaste_load_results::{Analysis, Curve, Plot, RunResult, StudyPoint, Table};

use super::points::{Points, articles_mark, cpu_ms_per_user, figure, memory_mb, plot, whole};
use super::spread::{Spread, shown};
use super::versions;

/// A figure of a run; `None` where it was not measured.
type Figure<'f> = &'f dyn Fn(&RunResult) -> Option<f64>;

/// Points of a fitted curve.
const STEPS: u32 = 24;

/// The article's users a day, at 75 % CPU.
const ARTICLE_DAILY_USERS: f64 = 62_000.0;

/// The columns of the table.
const HEAD: [&str; 9] = [
    "Server, mailbox",
    "linear fit of the medians",
    "quadratic fit of the medians",
    "residual, linear",
    "residual, quadratic",
    "users at 75 % CPU",
    "beyond the measured range",
    "fetches per s at 75 % CPU",
    "daily users at 75 % CPU",
];

/// Makes the whole analysis.
pub fn analyse(points: Points) -> Analysis {
    let lines = lines(points);
    let each = |of: Figure<'_>| -> Vec<Curve> { lines.iter().map(|line| line.curve(of)).collect() };
    let projected = lines.iter().map(|line| Projected::of(*line));
    let projected: Vec<Projected> = projected.filter(|one| !one.measured.points.is_empty()).collect();
    let mut findings = Vec::new();
    for server in points.servers() {
        let mine: Vec<&Projected> = projected.iter().filter(|one| one.line.server == server).collect();
        findings.extend(mine.iter().filter_map(|one| one.sentence()));
        findings.extend(drops(server, &mine));
    }
    let mut plots = vec![against_users(&projected), against_daily_users(&each)];
    plots.extend(plots_per_user(&each));
    let mut tables = vec![capacity(&projected)];
    if points.servers().count() > 1 {
        tables.extend(versions::tables(points));
    }
    tables.push(versions::every_point(points));
    plots.retain(|plot| !plot.curves.is_empty());
    Analysis { findings, plots, tables, ..Analysis::default() }
}

/// A row for each line. Below them are the article's users a day. It does not say with which size
/// of mailbox.
fn capacity(projected: &[Projected]) -> Table {
    let mut rows: Vec<Vec<String>> = projected.iter().map(Projected::row).collect();
    if !rows.is_empty() {
        let daily = format!("about {}", whole(ARTICLE_DAILY_USERS));
        let article =
            ["the article, eight processors of 2 GHz", "–", "–", "–", "–", "–", "–", "–", daily.as_str()];
        rows.push(article.map(str::to_owned).to_vec());
    }
    Table { title: "Capacity".into(), head: HEAD.map(str::to_owned).to_vec(), rows }
}

/// The CPU against the users, with the fits.
fn against_users(projected: &[Projected]) -> Plot {
    let mut cpu: Vec<Curve> = projected.iter().map(|one| one.measured.clone()).collect();
    // Measured curves first: fits take their colours.
    cpu.extend(projected.iter().flat_map(Projected::fitted));
    let mut plot = plot("Server CPU against users", "virtual users", "server CPU (% of all processors)", cpu);
    plot.marks.push((format!("{CPU_LIMIT_PERCENT} %"), "y".into(), CPU_LIMIT_PERCENT));
    plot
}

/// The CPU against the users a day that the measured fetch rate serves, as the article draws it.
fn against_daily_users(each: &dyn Fn(Figure<'_>) -> Vec<Curve>) -> Plot {
    let cpu = each(&cpu_percent);
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
    plot.marks.extend(articles_mark(&plot.curves, ARTICLE_DAILY_USERS));
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
        plot("Server memory", x, "PSS, highest (MB)", each(&memory_mb)),
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

/// A server with one size of mailbox: its points differ by their users and rounds alone.
#[derive(Clone, Copy)]
struct Line<'a> {
    points: Points<'a>,
    server: &'a str,
    mailbox_mb: f64,
    /// Messages delivered to each user in an hour, if any.
    delivered: Option<f64>,
}

impl Line<'_> {
    fn has(&self, point: &StudyPoint) -> bool {
        point.server == self.server
            && point.at.get("mailbox_mb") == Some(&self.mailbox_mb)
            && delivered(point) == self.delivered
    }

    fn name(&self) -> String {
        let mail = |rate: f64| format!(", {rate} messages a user and hour delivered");
        format!("{}, {} MB{}", self.server, self.mailbox_mb, self.delivered.map_or(String::new(), mail))
    }

    /// A figure against the users: medians over the rounds.
    fn curve(&self, of: Figure<'_>) -> Curve {
        self.points.curve(&self.name(), "clients", |point| self.has(point), of)
    }

    /// The same in one round.
    fn in_round(&self, round: u32, of: Figure<'_>) -> Vec<(f64, f64)> {
        let is_wanted = |point: &StudyPoint| point.round == round && self.has(point);
        self.points.curve(&self.name(), "clients", is_wanted, of).points
    }

    /// The limit of each round. A round with fewer points than another is left out: its projection
    /// would be of another range.
    fn limits(&self) -> Vec<Limit> {
        let rounds = self.points.round_numbers().into_iter();
        let rounds: Vec<_> = rounds.map(|round| (round, self.in_round(round, &cpu_percent))).collect();
        let most = rounds.iter().map(|(_, cpu)| cpu.len()).max().unwrap_or(0);
        let limit = |(round, cpu): (u32, Vec<(f64, f64)>)| {
            let projection = project(&cpu, CPU_LIMIT_PERCENT)?;
            let fetches = |users| fetch_rate_at(&self.in_round(round, &fetch_rate), users);
            Some(Limit { round, fetches: projection.users.and_then(fetches), projection })
        };
        rounds.into_iter().filter(|(_, cpu)| cpu.len() == most).filter_map(limit).collect()
    }
}

/// All of them: each size without deliveries, and with them if they were swept.
fn lines(points: Points<'_>) -> Vec<Line<'_>> {
    let mut sizes: Vec<f64> =
        points.measured().filter_map(|(p, _)| p.at.get("mailbox_mb").copied()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let mut rates: Vec<Option<f64>> = points.measured().map(|(p, _)| delivered(p)).collect();
    rates.sort_by(|a, b| a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0)));
    rates.dedup();
    let mut lines = Vec::new();
    for server in points.servers() {
        for mailbox_mb in &sizes {
            let line = |delivered: &Option<f64>| Line {
                points,
                server,
                mailbox_mb: *mailbox_mb,
                delivered: *delivered,
            };
            lines.extend(rates.iter().map(line));
        }
    }
    lines
}

/// The CPU of one round, projected to the limit.
struct Limit {
    round: u32,
    projection: Projection,
    /// Messages fetched a second at the limit.
    fetches: Option<f64>,
}

/// A line with its projections: that of the medians, which the plot has, and that of each round.
struct Projected<'a> {
    line: Line<'a>,
    measured: Curve,
    of_medians: Option<Projection>,
    limits: Vec<Limit>,
}

impl<'a> Projected<'a> {
    fn of(line: Line<'a>) -> Self {
        let measured = line.curve(&cpu_percent);
        let of_medians = project(&measured.points, CPU_LIMIT_PERCENT);
        Self { line, measured, of_medians, limits: line.limits() }
    }

    /// A figure of the limit over the rounds.
    fn value(&self, of: impl Fn(&Limit) -> Option<f64>) -> Option<Spread> {
        self.line.points.among(self.limits.iter().filter_map(of).collect())
    }

    fn users(&self) -> Option<Spread> {
        self.value(|limit| limit.projection.users)
    }

    fn beyond(&self) -> Option<Spread> {
        self.value(|limit| limit.projection.extrapolation)
    }

    fn fetches(&self) -> Option<Spread> {
        self.value(|limit| limit.fetches)
    }

    fn daily(&self) -> Option<Spread> {
        self.value(|limit| limit.fetches.map(daily))
    }

    /// How many times as many users a line has as one with a larger mailbox, in each round.
    fn times(&self, larger: &Self) -> Option<Spread> {
        self.value(|limit| {
            let same = larger.limits.iter().find(|other| other.round == limit.round)?;
            Some(limit.projection.users? / same.projection.users?)
        })
    }

    /// In how many rounds something is so: ` in 1 of 3 rounds`, or an empty text for all of them.
    /// `None` if it is so in none.
    fn in_rounds(&self, is_so: impl Fn(&Limit) -> bool) -> Option<String> {
        let (all, some) = (self.limits.len(), self.limits.iter().filter(|limit| is_so(limit)).count());
        let part = if some == all { String::new() } else { format!(" in {some} of {all} rounds") };
        (some > 0).then_some(part)
    }

    /// In how many rounds the line was projected in place of the parabola.
    fn by_line(&self) -> Option<String> {
        self.in_rounds(|limit| limit.projection.by_line_instead)
    }

    /// In how many rounds no fit reaches the limit.
    fn never(&self) -> Option<String> {
        self.in_rounds(|limit| limit.projection.users.is_none())
    }

    fn sentence(&self) -> Option<String> {
        let (name, most) = (&self.measured.name, self.limits.first()?.projection.measured_max);
        let Some((users, beyond)) = self.users().zip(self.beyond()) else {
            return Some(format!("{name}: the fitted curve never reaches {CPU_LIMIT_PERCENT} % CPU"));
        };
        let users = users.show();
        let instead = |rounds: String| format!(" (by the line{rounds}: the parabola never reaches it)");
        let instead = self.by_line().map_or(String::new(), instead);
        let how = match beyond.greatest > 1.0 {
            true => format!("extrapolated to {} × the {most} users measured", beyond.show()),
            false => "measured".to_owned(),
        };
        let never = self.never().map_or(String::new(), |rounds| format!("; never{rounds}"));
        let served = self.fetches().zip(self.daily()).map_or(String::new(), |(rate, daily)| {
            let (rate, daily) = (rate.show(), daily.show());
            format!("; with {rate} fetches a second it serves {daily} users a day there")
        });
        Some(format!("{name}: {users} users at {CPU_LIMIT_PERCENT} % CPU{instead}, {how}{never}{served}"))
    }

    /// The fits of the medians. The projected one covers the measured range, and extends to the
    /// limit if that is at most twice as far. The parabola that it replaces covers the measured
    /// range.
    fn fitted(&self) -> Vec<Curve> {
        let Some(projection) = &self.of_medians else { return Vec::new() };
        let from = self.measured.points.first().map_or(0.0, |p| p.0);
        let drawn = |fit: &Polynomial, to: f64, name: &str| {
            let at = |n: u32| from + (to - from) * f64::from(n) / f64::from(STEPS);
            let points = (0..=STEPS).map(|n| (at(n), fit.at(at(n)))).collect();
            Curve { name: format!("{}, {name}", self.measured.name), points, fitted: true }
        };
        let max = projection.measured_max;
        let mut curves =
            vec![drawn(projection.fit(), projection.users.unwrap_or(0.0).clamp(max, max * 2.0), "fit")];
        if projection.by_line_instead {
            curves.push(drawn(projection.fits.chosen(), max, "parabola"));
        }
        curves
    }

    fn row(&self) -> Vec<String> {
        let none = || "–".to_owned();
        let mut row = vec![self.measured.name.clone()];
        let Some(fits) = self.of_medians.as_ref().map(|projection| &projection.fits) else {
            row.resize_with(HEAD.len(), none);
            return row;
        };
        let quadratic = fits.quadratic.as_ref();
        let residual = |v: f64| if v.is_finite() { format!("{} %", figure(v)) } else { none() };
        let line = self.by_line().map_or(String::new(), |rounds| format!(" (line{rounds})"));
        let never = self.never().map_or(String::new(), |rounds| format!(", never{rounds}"));
        row.extend([
            fits.linear.formula(),
            quadratic.map_or_else(none, |q| q.formula()),
            residual(fits.linear.residual_error),
            quadratic.map_or_else(none, |q| residual(q.residual_error)),
            self.users().map_or_else(none, |users| format!("{}{line}{never}", users.show())),
            self.beyond().map_or_else(none, |beyond| format!("{} ×", beyond.show())),
            shown(self.fetches()),
            shown(self.daily()),
        ]);
        row
    }
}

/// How many times fewer users each larger mailbox leaves without deliveries, beside the article's
/// drops. `lines`: those of one server, in the order of their sizes.
fn drops(server: &str, lines: &[&Projected]) -> Option<String> {
    let has_users = |one: &&Projected| one.line.delivered.is_none() && one.users().is_some();
    let lines: Vec<&Projected> = lines.iter().copied().filter(has_users).collect();
    let drop = |pair: &[&Projected]| match pair {
        [small, large] => {
            let (from, to) = (small.line.mailbox_mb, large.line.mailbox_mb);
            Some(format!("{} × from {from} to {to} MB", small.times(large)?.show()))
        }
        _ => None,
    };
    let drops: Vec<String> = lines.windows(2).filter_map(drop).collect();
    (!drops.is_empty()).then(|| {
        format!(
            "{server}: the users at {CPU_LIMIT_PERCENT} % CPU fall by {}; in the article by 10 × from 2 to 100 MB and by \
             2 × from 100 to 220 MB",
            drops.join(" and by ")
        )
    })
}

/// Messages delivered to each user in an hour, if any.
fn delivered(point: &StudyPoint) -> Option<f64> {
    point.at.get("arrivals_per_hour").copied().filter(|rate| *rate > 0.0)
}

fn cpu_percent(run: &RunResult) -> Option<f64> {
    Some(run.server.as_ref()?.cpu_percent)
}

fn fetch_rate(run: &RunResult) -> Option<f64> {
    run.commands.iter().find(|c| c.name == "FETCH").map(|c| c.summary.rate_per_s)
}

/// The users per day who cause this many fetches per second, by the article's arithmetic.
fn daily(fetch_rate: f64) -> f64 {
    daily_users(fetch_rate, HEAVY_USER_MESSAGES_PER_SECOND, PEAK_LOAD_FACTOR)
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{NamedSummary, Summary};

    use super::super::sample::{self, run};
    use super::*;

    /// A point of mailboxes of 2 MB. Each user fetches half a message a second.
    fn point(round: u32, clients: f64, cpu_percent: f64) -> StudyPoint {
        let mut run = run(1.0, 100);
        run.server.as_mut().unwrap().cpu_percent = cpu_percent;
        let fetches = Summary { rate_per_s: clients / 2.0, ..Summary::default() };
        run.commands = vec![NamedSummary { name: "FETCH".into(), summary: fetches }];
        StudyPoint { round, ..sample::point("it", &[("mailbox_mb", 2.0), ("clients", clients)], run) }
    }

    /// The line of such points.
    fn projected(points: &[StudyPoint]) -> Projected<'_> {
        let points = Points { servers: &[], points };
        Projected::of(Line { points, server: "it", mailbox_mb: 2.0, delivered: None })
    }

    #[test]
    fn a_parabola_that_stays_below_is_shown_and_not_projected() {
        let cpu = [(100.0, 18.0), (200.0, 32.0), (300.0, 42.0), (400.0, 48.0)];
        let points = cpu.map(|(clients, percent)| point(0, clients, percent));
        let it = projected(&points);
        assert_eq!(
            it.sentence().unwrap(),
            "it, 2 MB: 650 users at 75 % CPU (by the line: the parabola never reaches it), extrapolated to 1.62 × the \
             400 users measured; with 325 fetches a second it serves 58,453 users a day there"
        );
        let curves = it.fitted();
        let ends: Vec<_> = curves.iter().map(|c| *c.points.last().unwrap()).collect();
        assert_eq!(curves[1].name, "it, 2 MB, parabola");
        assert!((ends[0].0 - 650.0).abs() < 1e-6 && (ends[0].1 - 75.0).abs() < 1e-6, "{ends:?}");
        assert!((ends[1].0 - 400.0).abs() < 1e-6 && (ends[1].1 - 48.0).abs() < 1e-6, "{ends:?}");
        let row = it.row();
        assert_eq!(row[5], "650 (line)");
        assert!(row[1].starts_with("y = ") && row[2].contains("x^2"), "{row:?}");
    }

    #[test]
    fn a_fit_that_gets_there_stands_alone() {
        let points = [100.0, 200.0, 300.0, 400.0].map(|clients| point(0, clients, 5.0 + clients / 10.0));
        let it = projected(&points);
        let said = it.sentence().unwrap();
        assert!(said.contains("700 users at 75 % CPU, extrapolated"), "{said}");
        assert_eq!(it.fitted().len(), 1);
    }

    /// The points of a round whose CPU rises by `slope` percent for each user.
    fn round(number: u32, slope: f64) -> [StudyPoint; 3] {
        [100.0, 200.0, 500.0].map(|clients| point(number, clients, 5.0 + slope * clients))
    }

    #[test]
    fn each_round_is_projected_by_itself() {
        // 75 % is reached at 700 and at 1,000 users. Round 2 was not finished.
        let unfinished = round(2, 0.5).into_iter().take(2);
        let points: Vec<StudyPoint> = [round(0, 0.1), round(1, 0.07)].into_iter().flatten().collect();
        let points: Vec<StudyPoint> = points.into_iter().chain(unfinished).collect();
        let it = projected(&points);
        let cells = ["850 (700–1,000)", "1.70 (1.40–2.00) ×", "425 (350–500)", "76,439 (62,950–89,928)"];
        assert_eq!(it.row()[5..], cells);
        assert_eq!(
            it.sentence().unwrap(),
            "it, 2 MB: 850 (700–1,000) users at 75 % CPU, extrapolated to 1.70 (1.40–2.00) × the 500 users measured; \
             with 425 (350–500) fetches a second it serves 76,439 (62,950–89,928) users a day there"
        );
    }

    #[test]
    fn a_round_that_never_reaches_the_limit_is_counted() {
        let points = [round(0, 0.1), round(1, -0.005)].concat();
        let it = projected(&points);
        assert_eq!(it.row()[5], "700 (1 round), never in 1 of 2 rounds");
        let said = it.sentence().unwrap();
        assert!(said.contains(" the 500 users measured; never in 1 of 2 rounds; with 350"), "{said}");
        let points = round(0, -0.005);
        let said = projected(&points).sentence();
        assert_eq!(said.unwrap(), "it, 2 MB: the fitted curve never reaches 75 % CPU");
    }

    /// The findings on drops. Of each size: the users at the limit in each of two rounds.
    fn drops_of(sizes: &[(f64, [f64; 2])]) -> Vec<String> {
        let servers = sample::servers(["it"]);
        let point = |mb: f64, number: u32, limit: f64, (clients, arrivals): (f64, f64)| {
            let cpu = clients * CPU_LIMIT_PERCENT / limit * (1.0 + arrivals);
            let mut point = point(number, clients, cpu);
            point.at.extend([("mailbox_mb".to_owned(), mb), ("arrivals_per_hour".to_owned(), arrivals)]);
            point
        };
        let mut points = Vec::new();
        for (mb, limits) in sizes {
            for (number, limit) in (0..).zip(limits) {
                // Deliveries are another load, and no larger mailbox.
                for arrivals in [0.0, 10.0] {
                    points.extend([10.0, 20.0, 30.0].map(|n| point(*mb, number, *limit, (n, arrivals))));
                }
            }
        }
        let findings = analyse(Points { servers: &servers, points: &points }).findings;
        findings.into_iter().filter(|finding| finding.contains(" CPU fall by ")).collect()
    }

    #[test]
    fn fewer_users_of_larger_mailboxes_are_beside_the_articles() {
        let said = drops_of(&[(2.0, [3000.0, 4000.0]), (100.0, [400.0; 2]), (220.0, [200.0; 2])]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with(
                "it: the users at 75 % CPU fall by 8.75 (7.50–10.0) × from 2 to 100 MB and by 2.00 × from 100 to 220 MB; \
                 in the article"
            ),
            "{said:?}"
        );
        assert!(drops_of(&[(2.0, [3000.0; 2])]).is_empty());
    }

    #[test]
    fn daily_users_are_those_of_the_limit_with_and_without_deliveries() {
        let servers = sample::servers(["it"]);
        // CPU reaches 75 % at 700 users.
        let point = |clients: f64, arrivals: Option<f64>| {
            let mut point = point(0, clients, 5.0 + clients / 10.0);
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
        for row in &table.rows[..2] {
            assert_eq!(row[7..], ["350", "62,950"], "{row:?}");
        }
        assert_eq!((table.rows.len(), table.rows[2][8].as_str()), (3, "about 62,000"));
        assert_eq!(table.rows[2].len(), table.head.len());
        // 100 users with 50 fetches a second.
        let plot = analysis.plots.iter().find(|p| p.title == "Server CPU against daily users").unwrap();
        let (users, percent) = plot.curves[0].points[0];
        assert!((users - 8_992.8).abs() < 0.1 && (percent - 15.0).abs() < 1e-9, "{users} {percent}");
        assert_eq!([plot.curves.len(), plot.curves[1].points.len()], [2, 3]);
        assert!(
            analysis.findings[0].ends_with("with 350 fetches a second it serves 62,950 users a day there")
        );
    }

    #[test]
    fn the_articles_daily_users_are_marked_if_they_were_reached() {
        let servers = sample::servers(["it"]);
        let marks = |most: f64| -> Vec<String> {
            let points = [100.0, 200.0, most].map(|clients| point(0, clients, clients / 100.0));
            let plots = analyse(Points { servers: &servers, points: &points }).plots;
            let plot = plots.into_iter().find(|p| p.title == "Server CPU against daily users").unwrap();
            plot.marks.into_iter().map(|(label, ..)| label).collect()
        };
        assert_eq!(marks(400.0), ["75 %"]);
        assert_eq!(marks(1000.0), ["75 %", "the article: 62,000"]);
    }
}
