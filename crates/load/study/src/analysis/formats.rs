//! Seed 002's tables: what each form of storing mail costs. A column for each arm and server, and
//! the article's figures beside ours as ratios to `mime`.
//!
//! A cell is the median over the rounds, with the least and the greatest. A ratio is made in each
//! round, and its cell is the same of them.

use posthaste_load_results::{Analysis, Bar, BarChart, BarRow, Offered, RunResult, ServerCost, Table};

use super::at_rest::{AtRest, disk_mb, mean_ms, mean_of, plain, transaction};
use super::offset;
use super::operations::cpu_us;
use super::points::{Points, figure};
use super::roles::{self, counted};
use super::spread::{Spread, Verdict, shown, spread};
use crate::settings::TAKEN_BY_OTHER;

/// The arm that others are compared with: the article's cheapest.
const CHEAPEST: &str = "mime";
/// The arm whose mail servers of others get, too.
const PEERS_MAIL: &str = "only MIME";
/// The article's mean CPU by arm, in percent of its machine.
const ARTICLE_CPU: [(&str, f64); 3] = [("mime", 46.5), ("rich", 65.3), ("keep", 63.85)];
/// The article's other arms.
const WITHOUT_ITEMS: [&str; 2] = ["rich", "keep"];
/// The arms with items made at delivery, and the same without. The article: over 10 % less.
const WITH_ITEMS: [(&str, &str); 2] = [("rich + items", "rich"), ("keep + items", "keep")];

/// The saving by items in the article, as a cell: over 10 % less.
const ARTICLE_GAIN: &str = "under 0.90";

/// A figure of a run.
type ValueOf<'a> = &'a dyn Fn(&RunResult) -> Option<f64>;

/// Makes the whole analysis.
pub fn analyse(points: Points) -> Analysis {
    let mut analysis = Analysis::default();
    for workload in points.workloads() {
        let column = Columns { points, workload };
        analysis.tables.extend([
            column.transactions(),
            column.cpu(),
            column.roles(),
            column.memory(),
            column.times(),
        ]);
        let at_rest = AtRest::of(points, workload);
        analysis.tables.extend(at_rest.table(&column.actions()));
        analysis.charts.extend([column.cpu_chart(), column.roles_chart(), column.times_chart()]);
        analysis.charts.extend(at_rest.chart());
        analysis.findings.extend(column.findings(&at_rest));
        analysis.findings.extend(at_rest.findings());
    }
    analysis
}

/// The servers and arms of one workload.
#[derive(Clone, Copy)]
struct Columns<'a> {
    points: Points<'a>,
    workload: &'a str,
}

/// The arm in a server's name: `new: mime` is `mime`.
fn arm(server: &str) -> &str {
    server.rsplit_once(": ").map_or(server, |(_, arm)| arm)
}

/// The server in the arm that a server is compared with: the same build's.
fn beside(server: &str, arm: &str) -> String {
    server.rsplit_once(": ").map_or(arm.to_owned(), |(build, _)| format!("{build}: {arm}"))
}

impl<'a> Columns<'a> {
    fn servers(self) -> impl Iterator<Item = &'a str> {
        self.points.servers()
    }

    fn value(self, server: &str, of: ValueOf) -> Option<Spread> {
        spread(self.points, server, |p| p.workload == self.workload, of)
    }

    fn table(self, title: &str, rows: Vec<Vec<String>>) -> Table {
        let mut head = vec![self.workload.to_owned()];
        head.extend(self.servers().map(str::to_owned));
        Table { title: format!("{title}, {}", self.workload), head, rows }
    }

    fn row(self, name: &str, of: ValueOf) -> Vec<String> {
        let mut row = vec![name.to_owned()];
        row.extend(self.servers().map(|server| shown(self.value(server, of))));
        row
    }

    /// The ratio of a value to that of an arm in the same build, round by round.
    fn ratio(self, server: &str, to: &str, of: ValueOf) -> Option<Spread> {
        self.points.ratio(self.workload, (server, &beside(server, to)), of)
    }

    fn ratios(self, name: &str, of: ValueOf) -> Vec<String> {
        let mut row = vec![name.to_owned()];
        let ratio = |server: &str| match article_or_items(arm(server)) {
            true => self.ratio(server, CHEAPEST, of),
            // It has another mail.
            false => None,
        };
        row.extend(self.servers().map(|server| shown(ratio(server))));
        row
    }

    fn article(self, name: &str, of: fn(f64) -> f64) -> Vec<String> {
        let mut row = vec![name.to_owned()];
        let known = |server: &str| ARTICLE_CPU.iter().find(|(name, _)| *name == arm(server));
        row.extend(
            self.servers().map(|server| known(server).map_or("–".into(), |(_, cpu)| figure(of(*cpu)))),
        );
        row
    }

    /// The ratios of arms with items to the same arms without them, round by round.
    fn gains(self, name: &str, of: ValueOf) -> Vec<String> {
        let mut row = vec![name.to_owned()];
        let ratio = |server: &str| self.ratio(server, without_items(arm(server))?, of);
        row.extend(self.servers().map(|server| shown(ratio(server))));
        row
    }

    fn article_gains(self, name: &str) -> Vec<String> {
        let mut row = vec![name.to_owned()];
        let cell = |server: &str| without_items(arm(server)).map_or("–", |_| ARTICLE_GAIN).to_owned();
        row.extend(self.servers().map(cell));
        row
    }

    /// Names of the runs' transactions, in order.
    fn names(self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for (_, run) in self.points.measured().filter(|(p, _)| p.workload == self.workload) {
            for transaction in &run.transactions {
                if !names.contains(&transaction.name.as_str()) {
                    names.push(&transaction.name);
                }
            }
        }
        names
    }

    /// Names of the users' actions, without what the instrument does.
    fn actions(self) -> Vec<&'a str> {
        self.names().into_iter().filter(|name| !name.starts_with('(')).collect()
    }

    fn transactions(self) -> Table {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for name in self.names() {
            let shown = match name {
                "(arrival)" => "mail delivered here",
                "(routed)" => "mail for the other server",
                name => name,
            };
            rows.push(self.row(shown, &|run| transaction(run, name).map(|t| t.count as f64)));
        }
        // It counts from the start of the run, and the rows above count the window.
        rows.push(self.row("taken by the other server, with ramp and warm-up", &|run| {
            run.settings.get(TAKEN_BY_OTHER)?.parse().ok()
        }));
        rows.extend(self.old_reads());
        self.table("Transactions and mail routed in the window", rows)
    }

    /// The share of reads that are of old mail. Where nothing is new, another action is drawn, so
    /// it is larger than the workload's transitions alone give.
    fn old_reads(self) -> Option<Vec<String>> {
        const OLD: &str = "read-old";
        let count = |run: &RunResult, name: &str| Some(transaction(run, name)?.count as f64);
        let share: ValueOf = &|run| {
            let (old, new) = (count(run, OLD)?, count(run, "read-new")?);
            (old + new > 0.0).then(|| old / (old + new) * 100.0)
        };
        self.names().contains(&OLD).then(|| self.row("old mail among what was read, %", share))
    }

    fn cpu(self) -> Table {
        let percent: ValueOf = &|run| Some(run.server.as_ref()?.cpu_percent);
        let each: ValueOf = &cpu_us;
        let rows = vec![
            self.row("CPU of the server, % of the machine", percent),
            self.ratios("÷ mime", percent),
            self.row("CPU for each action, µs", each),
            self.ratios("÷ mime", each),
            self.article("the article's CPU, %", |cpu| cpu),
            self.article("the article's ÷ mime", |cpu| cpu / ARTICLE_CPU[0].1),
            self.gains("CPU in percent ÷ the same without items", percent),
            self.gains("CPU for each action ÷ the same without items", each),
            self.article_gains("the article's CPU in percent ÷ the same without items"),
            self.row("conversions of rich mail for each action", &|run| {
                let conversions = counted(run)?.total().conversions;
                (run.total.count > 0).then(|| conversions as f64 / run.total.count as f64)
            }),
            self.row("CPU of the generator ÷ the server's", &|run| run.generator.share_of_server),
        ];
        self.table("CPU", rows)
    }

    /// A row for each arm and server.
    fn cpu_chart(self) -> BarChart {
        let row = |server: &str| {
            let value = self.value(server, &|run| Some(run.server.as_ref()?.cpu_percent))?;
            let bar = Bar { parts: vec![(0, value.median)], note: format!("{} %", value.show()) };
            Some(BarRow { name: server.to_owned(), bars: vec![bar] })
        };
        BarChart {
            title: format!("CPU, {}", self.workload),
            x: "CPU of the server (% of the machine)".into(),
            series: vec!["CPU".into()],
            rows: self.servers().filter_map(row).collect(),
        }
    }

    /// A row for each arm and server, its parts the roles.
    fn roles_chart(self) -> BarChart {
        let series = self.role_names();
        let row = |server: &str| {
            let part = |(at, role): (usize, &String)| Some((at, self.minutes(server, role)?.median));
            let parts: Vec<(usize, f64)> = series.iter().enumerate().filter_map(part).collect();
            let all = parts.iter().map(|(_, minutes)| minutes).sum();
            let bar = Bar { note: format!("{} min", figure(all)), parts };
            (!bar.parts.is_empty()).then(|| BarRow { name: server.to_owned(), bars: vec![bar] })
        };
        BarChart {
            title: format!("CPU minutes by role, {}", self.workload),
            x: "CPU minutes in the window".into(),
            rows: self.servers().filter_map(row).collect(),
            series,
        }
    }

    /// A row for each user action, with a bar for each arm and server. Options for mail at rest
    /// have a chart of their own.
    fn times_chart(self) -> BarChart {
        let at_rest = AtRest::of(self.points, self.workload);
        let servers: Vec<&str> = self.servers().filter(|server| !at_rest.has(server)).collect();
        let bar = |name: &str, (at, server): (usize, &str)| {
            let value = self.value(server, &|run| mean_of(run, name))?;
            Some(Bar { parts: vec![(at, value.median)], note: figure(value.median) })
        };
        let row = |name: &str| BarRow {
            name: name.to_owned(),
            bars: servers.iter().copied().enumerate().filter_map(|column| bar(name, column)).collect(),
        };
        BarChart {
            title: format!("Mean response time of each user action, {}", self.workload),
            x: "response time (ms)".into(),
            series: servers.iter().copied().map(str::to_owned).collect(),
            rows: self.actions().into_iter().map(row).collect(),
        }
    }

    fn role_names(self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (_, run) in self.points.measured().filter(|(p, _)| p.workload == self.workload) {
            for (name, _) in roles::of(run).into_iter().filter(|(_, seconds)| *seconds > 0.0) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names.sort();
        names
    }

    /// CPU minutes of a role on a server.
    fn minutes(self, server: &str, role: &str) -> Option<Spread> {
        self.value(server, &|run| minutes(run, role))
    }

    fn roles(self) -> Table {
        let row = |role: &String| self.row(role, &|run| minutes(run, role));
        let mut rows: Vec<Vec<String>> = self.role_names().iter().map(row).collect();
        rows.push(self.row("all, by the system's account", &|run| {
            run.server.as_ref().map(|s| (s.cpu_user_s + s.cpu_system_s) / 60.0)
        }));
        self.table("CPU minutes by role in the window", rows)
    }

    fn memory(self) -> Table {
        let row = |name: &str, of: fn(&ServerCost) -> &Offered<u64>| {
            self.row(name, &move |run| Some(*of(run.server.as_ref()?).value()? as f64 / 1e6))
        };
        let rows = vec![
            row("set size, mean", |s| &s.pss_mean_bytes),
            row("set size, highest", |s| &s.pss_max_bytes),
            row("the same without pages of files", |s| &s.pss_own_max_bytes),
            self.row("the filled store on the disk", &disk_mb),
        ];
        self.table("Memory and disk (MB)", rows)
    }

    fn times(self) -> Table {
        let mut rows: Vec<Vec<String>> =
            self.actions().iter().map(|name| self.row(name, &|run| mean_of(run, name))).collect();
        rows.push(self.row("all", &mean_ms));
        self.table("Mean response time of each user action (ms)", rows)
    }

    fn findings(self, at_rest: &AtRest) -> Vec<String> {
        let mut said = Vec::new();
        let cheapest: Vec<&str> = self.servers().filter(|server| arm(server) == CHEAPEST).collect();
        for mime in cheapest {
            for arms in [WITHOUT_ITEMS, WITH_ITEMS.map(|(with, _)| with)] {
                said.extend(self.order_of(mime, arms));
            }
            for (with, without) in WITH_ITEMS {
                said.extend(self.gain_of_items(mime, (with, without)));
                let (with, without) = (beside(mime, with), beside(mime, without));
                said.extend(offset::finding(self.points, self.workload, (&with, &without)));
            }
        }
        if let Some(own) = self.servers().find(|server| arm(server) == PEERS_MAIL) {
            let is_peer = |server: &&str| arm(server) == *server && !is_arm(server) && !at_rest.has(server);
            for peer in self.servers().filter(is_peer) {
                let Some(ratio) = self.points.ratio(self.workload, (peer, own), cpu_us) else { continue };
                said.push(format!(
                    "{}: with MIME mail alone {peer} takes {} × the CPU for each action",
                    self.workload,
                    ratio.show()
                ));
            }
        }
        said
    }

    /// The CPU for each action in two arms, with that in `mime` as 1, and whether `mime` is the
    /// cheapest.
    fn order_of(self, mime: &str, arms: [&str; 2]) -> Option<String> {
        let ratios = arms.map(|arm| self.ratio(&beside(mime, arm), CHEAPEST, &cpu_us));
        let part = |(arm, ratio): (&str, Option<Spread>)| {
            let article = ARTICLE_CPU.iter().find(|(name, _)| *name == arm);
            let article = article
                .map(|(_, cpu)| format!(" (the article: {} ×)", figure(cpu / ARTICLE_CPU[0].1)))
                .unwrap_or_default();
            Some(format!("{} {} ×{article}", beside(mime, arm), ratio?.show()))
        };
        let parts: Vec<String> = arms.into_iter().zip(ratios).filter_map(part).collect();
        if parts.is_empty() {
            return None;
        }
        let (parts, order) = (parts.join(", "), order(&ratios));
        Some(format!("{}: CPU for each action, {mime} as 1: {parts}: {order}", self.workload))
    }

    /// The saving by items made at delivery, in the build of an arm.
    fn gain_of_items(self, mime: &str, (with, without): (&str, &str)) -> Option<String> {
        let with = beside(mime, with);
        let ratio = self.ratio(&with, without, &cpu_us)?;
        let much = figure(((ratio.median - 1.0) * 100.0).abs());
        let what = match ratio.verdict() {
            Verdict::Less => format!("{with} takes {much} % less CPU than {without}"),
            Verdict::More => format!("{with} takes {much} % more CPU than {without}"),
            Verdict::RoundsDiffer | Verdict::OneRound => {
                format!("{with} against {without}: no difference is shown")
            }
        };
        Some(format!(
            "{}: items made at delivery: {what}, {} × (the article: over 10 % less)",
            self.workload,
            ratio.show()
        ))
    }
}

/// Whether arms with these ratios to `mime` cost more than it, as in the article.
fn order(ratios: &[Option<Spread>]) -> &'static str {
    let verdicts: Vec<Verdict> = ratios.iter().flatten().map(|ratio| ratio.verdict()).collect();
    let has = |verdict: Verdict| verdicts.contains(&verdict);
    if verdicts.len() < ratios.len() {
        "no order is shown, since an arm was not measured"
    } else if has(Verdict::OneRound) {
        "no order is shown by one round"
    } else if has(Verdict::Less) {
        "not the article's order"
    } else if has(Verdict::RoundsDiffer) {
        "no order is shown, since rounds differ"
    } else {
        "the article's order"
    }
}

/// The arm that has no items, of one that has them.
fn without_items(arm: &str) -> Option<&'static str> {
    WITH_ITEMS.iter().find(|(with, _)| *with == arm).map(|(_, without)| *without)
}

fn article_or_items(arm: &str) -> bool {
    ARTICLE_CPU.iter().any(|(name, _)| *name == arm) || WITH_ITEMS.iter().any(|(name, _)| *name == arm)
}

/// Servers that get rich mail, and those that get MIME alone: the other arms and other servers.
pub(super) fn by_mail<'a>(servers: impl Iterator<Item = &'a str>) -> [Vec<&'a str>; 2] {
    let (rich, mime) = servers.partition(|server| article_or_items(arm(server)));
    [rich, mime]
}

fn is_arm(name: &str) -> bool {
    article_or_items(name) || plain(name).unwrap_or(name) == PEERS_MAIL
}

/// CPU minutes of one role.
fn minutes(run: &RunResult, role: &str) -> Option<f64> {
    roles::seconds(run, role).map(|seconds| seconds / 60.0)
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{StudyPoint, Summary, Transaction};

    use super::super::sample::{self, run};
    use super::*;

    fn point(server: &str, round: u32, cpu_s: f64) -> StudyPoint {
        StudyPoint { workload: "oe6-busy".into(), round, ..sample::point(server, &[], run(cpu_s, 1000)) }
    }

    #[test]
    fn arms_are_compared_with_mime_and_with_the_article() {
        let arms = [
            ("mime", 1.0),
            ("rich", 1.5),
            ("keep", 1.4),
            ("rich + items", 1.2),
            ("keep + items", 1.3),
            ("only MIME", 0.9),
            ("Dovecot", 1.8),
            ("Dovecot, encrypted", 3.6),
        ];
        let servers = sample::servers(arms.map(|(name, _)| name));
        let points: Vec<StudyPoint> = (0..3)
            .flat_map(|round| {
                arms.iter().map(move |(name, cpu)| point(name, round, cpu * (1.0 + f64::from(round) / 100.0)))
            })
            .collect();
        let analysis = analyse(Points { servers: &servers, points: &points });
        let said = analysis.findings.join("\n");
        assert!(
            said.contains("rich 1.50 × (the article: 1.40 ×), keep 1.40 × (the article: 1.37 ×)"),
            "{said}"
        );
        assert_eq!(said.matches(": the article's order").count(), 2, "{said}");
        assert!(said.contains("mime as 1: rich + items 1.20 ×, keep + items 1.30 ×: "), "{said}");
        assert!(said.contains("rich + items takes 20.0 % less CPU than rich"), "{said}");
        assert!(said.contains("Dovecot takes 2.00 × the CPU"), "{said}");
        assert!(!said.contains("alone Dovecot, encrypted"), "{said}");
        let times = &analysis.charts[2];
        assert_eq!((times.series.len(), analysis.charts[3].series.len()), (7, 1));
        let cpu = &analysis.tables[1];
        assert_eq!(cpu.head[1..], arms.map(|(name, _)| name.to_owned()));
        assert_eq!(cpu.rows[2][1], "1,010 (1,000–1,020)");
        assert_eq!(
            cpu.rows[3][1..],
            ["1.00", "1.50", "1.40", "1.20", "1.30", "–", "–", "–"].map(str::to_owned)
        );
        assert_eq!(cpu.rows[5][1..4], ["1.00", "1.40", "1.37"].map(str::to_owned));
        assert_eq!(cpu.rows[7][3..7], ["–", "0.800", "0.929", "–"].map(str::to_owned));
        assert_eq!(cpu.rows[8][3..7], ["–", "under 0.90", "under 0.90", "–"].map(str::to_owned));
        assert_eq!(analysis.tables[2].rows.last().unwrap()[1], "0.0168 (0.0167–0.0170)");
    }

    /// The machine is slower in each round. A ratio of medians would hide how far rounds differ.
    #[test]
    fn ratios_to_mime_have_a_spread() {
        let arms = [("mime", [1.0, 2.0, 4.0]), ("rich", [1.2, 2.2, 6.0]), ("keep", [0.9, 2.2, 4.8])];
        let servers = sample::servers(arms.map(|(name, _)| name));
        let of_arm = |(name, rounds): (&'static str, [f64; 3])| {
            (0..).zip(rounds).map(move |(round, cpu)| point(name, round, cpu))
        };
        let points: Vec<StudyPoint> = arms.into_iter().flat_map(of_arm).collect();
        let analysis = analyse(Points { servers: &servers, points: &points });
        let ratios = ["1.00", "1.20 (1.10–1.50)", "1.10 (0.900–1.20)"];
        assert_eq!(analysis.tables[1].rows[3][1..], ratios.map(str::to_owned));
        let said = analysis.findings.join("\n");
        assert!(said.contains("rich 1.20 (1.10–1.50) × (the article: 1.40 ×)"), "{said}");
        assert!(said.contains(": no order is shown, since rounds differ"), "{said}");
    }

    #[test]
    fn the_share_of_old_mail_is_in_the_table() {
        let servers = sample::servers(["mime"]);
        let mut point = point("mime", 0, 1.0);
        for (name, count) in [("read-new", 300), ("read-old", 100)] {
            let summary = Summary { count, ..Summary::default() };
            let transaction = Transaction { name: name.into(), summary, ..Transaction::default() };
            point.run.as_mut().unwrap().transactions.push(transaction);
        }
        let points = [point];
        let analysis = analyse(Points { servers: &servers, points: &points });
        let row = analysis.tables[0].rows.last().unwrap();
        assert_eq!(row[..], ["old mail among what was read, %", "25.0"]);
    }

    /// The findings of arms with the CPU of each round.
    fn findings(arms: &[(&'static str, &[f64])]) -> String {
        let servers: Vec<_> = arms.iter().flat_map(|(name, _)| sample::servers([*name])).collect();
        let mut points = Vec::new();
        for (name, rounds) in arms {
            points.extend((0..).zip(*rounds).map(|(round, cpu)| point(name, round, *cpu)));
        }
        analyse(Points { servers: &servers, points: &points }).findings.join("\n")
    }

    #[test]
    fn one_round_shows_no_order_and_no_gain() {
        let arms =
            [("mime", 1.0), ("rich", 1.5), ("keep", 1.4), ("rich + items", 1.2), ("keep + items", 1.3)];
        let one: Vec<_> = arms.iter().map(|(name, cpu)| (*name, std::slice::from_ref(cpu))).collect();
        let said = findings(&one);
        assert_eq!(said.matches(": no order is shown by one round").count(), 2, "{said}");
        assert!(said.contains("rich + items against rich: no difference is shown, 0.800 ×"), "{said}");
        assert!(!said.contains("article's order") && !said.contains("% less CPU"), "{said}");
    }

    #[test]
    fn an_arm_that_was_not_measured_shows_no_order() {
        let said = findings(&[("mime", &[1.0, 1.0]), ("keep", &[1.4, 1.5])]);
        let expected =
            "mime as 1: keep 1.45 (1.40–1.50) × (the article: 1.37 ×): no order is shown, since an arm was";
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("article's order"), "{said}");
    }

    /// An arm may be cheaper than `mime`, and items may cost something.
    #[test]
    fn the_opposite_is_said() {
        let said = findings(&[
            ("mime", &[1.0, 1.0]),
            ("rich", &[1.5, 1.6]),
            ("keep", &[0.8, 0.9]),
            ("rich + items", &[1.4, 1.7]),
            ("keep + items", &[1.2, 1.2]),
        ]);
        assert!(
            said.contains("keep 0.850 (0.800–0.900) × (the article: 1.37 ×): not the article's"),
            "{said}"
        );
        assert!(said.contains("keep + items 1.20 ×: the article's order"), "{said}");
        assert!(said.contains("rich + items against rich: no difference is shown"), "{said}");
        assert!(said.contains("keep + items takes 41.7 % more CPU than keep"), "{said}");
    }

    #[test]
    fn two_builds_are_each_compared_with_their_own_arms() {
        assert_eq!((arm("new: keep"), beside("new: keep", "mime")), ("keep", "new: mime".to_owned()));
        assert_eq!((arm("keep"), beside("keep", "mime")), ("keep", "mime".to_owned()));
    }
}
