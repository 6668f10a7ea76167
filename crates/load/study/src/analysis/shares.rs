//! What the servers' CPU is spent on, by the samples of their functions, beside the article's
//! shares.

use posthaste_load_results::{Offered, RunResult, SampledFunction, Table};

use super::points::{Points, figure, mix, whole};
use super::work_kind::WorkKind;

/// The article's shares of user time in percent, by tprof: 84 in the function `unix_mbxline`, 2 in
/// TLS. With the names of their rows.
const ARTICLE: [(WorkKind, &str, &str); 2] = [
    (WorkKind::Parsing, "parsing of text, of user time", "84 (unix_mbxline)"),
    (WorkKind::Tls, "TLS and cryptography, of user time", "2"),
];
/// The article's share of the kernel, of all time.
const ARTICLE_KERNEL: &str = "15";

/// The time that is 100 %.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    /// All time.
    All,
    /// Time in user mode, as the article counts.
    User,
}

/// The samples of one server in one mix.
struct SampledMix<'a> {
    server: &'a str,
    mix: &'a str,
    /// `None` where no samples could be taken.
    sampled: Option<&'a [SampledFunction]>,
}

impl SampledMix<'_> {
    /// The share of a kind of work in percent.
    fn share(&self, kind: WorkKind, base: Base) -> Option<f64> {
        let all = self.sampled?;
        let of = |wanted: &dyn Fn(WorkKind) -> bool| {
            all.iter().filter(|f| wanted(WorkKind::of(f))).map(|f| f.weight as f64).sum::<f64>()
        };
        let part = of(&|found| found == kind);
        let whole = of(&|found| base == Base::All || found != WorkKind::Kernel);
        (whole > 0.0).then(|| part / whole * 100.0)
    }

    fn samples(&self) -> Option<u64> {
        Some(self.sampled?.iter().map(|f| f.samples).sum())
    }
}

/// The profiles that were asked for. A result of an earlier version has the hottest functions
/// alone, so it has no shares.
fn profiles(points: Points<'_>) -> Vec<SampledMix<'_>> {
    let all = points.measured();
    all.filter_map(|(point, run)| {
        Some(SampledMix { server: &point.server, mix: mix(&point.workload), sampled: sampled(run)? })
    })
    .collect()
}

fn sampled(run: &RunResult) -> Option<Option<&[SampledFunction]>> {
    let server = run.server.as_ref()?;
    match server.hottest.as_ref()? {
        Offered::NotOffered(_) => Some(None),
        Offered::Value(_) if server.sampled.is_empty() => None,
        Offered::Value(_) => Some(Some(&server.sampled)),
    }
}

/// A row for each kind of work, a column for each server and mix; nothing if no point asked for
/// samples.
pub(super) fn table(points: Points) -> Option<Table> {
    let profiles = profiles(points);
    if profiles.is_empty() {
        return None;
    }
    let mut head = vec!["Share of CPU (%)".to_owned()];
    head.extend(profiles.iter().map(|p| format!("{}, {}", p.server, p.mix)));
    head.push("the article, IMAP".to_owned());
    let cell = |share: Option<String>| share.unwrap_or_else(|| "not offered".to_owned());
    let row = |(kind, name): (WorkKind, &str), base: Base, article: &str| {
        let mut row = vec![name.to_owned()];
        row.extend(profiles.iter().map(|p| cell(p.share(kind, base).map(figure))));
        row.push(article.to_owned());
        row
    };
    let of_all = |(kind, name): (WorkKind, &str)| {
        let article = if kind == WorkKind::Kernel { ARTICLE_KERNEL } else { "–" };
        row((kind, name), Base::All, article)
    };
    let mut rows: Vec<Vec<String>> = WorkKind::ALL.into_iter().map(of_all).collect();
    rows.extend(ARTICLE.into_iter().map(|(kind, name, article)| row((kind, name), Base::User, article)));
    let mut samples = vec!["samples".to_owned()];
    samples.extend(profiles.iter().map(|p| cell(p.samples().map(|n| whole(n as f64)))));
    samples.push("–".to_owned());
    rows.push(samples);
    // A function of the allocator does not say for whom it allocates.
    let title = "Share of the server's CPU by kind of work (perf record; memory allocation is a kind of its own, and not \
                 divided among the others)"
        .to_owned();
    Some(Table { title, head, rows })
}

/// A sentence for each server and mix with samples.
pub(super) fn findings(points: Points) -> Vec<String> {
    let said = |profile: &SampledMix| {
        let share = |kind| profile.share(kind, Base::User).map(figure);
        Some(format!(
            "{}, {}: of the CPU in user mode {} % is parsing of text, {} % TLS, {} % storage, {} % the search index, and \
             {} % is not classified; in the article 84 % is parsing and 2 % TLS",
            profile.server,
            profile.mix,
            share(WorkKind::Parsing)?,
            share(WorkKind::Tls)?,
            share(WorkKind::Storage)?,
            share(WorkKind::SearchIndex)?,
            share(WorkKind::Unknown)?
        ))
    };
    profiles(points).iter().filter_map(said).collect()
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{HotFunction, StudyPoint};

    use super::super::sample::{self, run};
    use super::*;

    fn function(object: &str, function: &str, weight: u64) -> SampledFunction {
        let (object, function) = (object.to_owned(), function.to_owned());
        SampledFunction { object, function, kernel: false, samples: weight / 10, weight }
    }

    fn point(
        server: &str,
        hottest: Option<Offered<Vec<HotFunction>>>,
        sampled: Vec<SampledFunction>,
    ) -> StudyPoint {
        let mut run = run(1.0, 10);
        if let Some(cost) = &mut run.server {
            (cost.hottest, cost.sampled) = (hottest, sampled);
        }
        let workload = "koka-browse-frequencies".into();
        StudyPoint { workload, ..sample::point(server, &[("clients", 90.0)], run) }
    }

    #[test]
    fn shares_are_beside_the_articles_and_what_is_not_known_is_a_row() {
        let servers = sample::servers(["A", "B", "C"]);
        let sampled = vec![
            function("posthaste", "posthaste_imap_codec::parse", 100),
            function("posthaste", "rustls::conn::read", 200),
            function("posthaste", "mdb_get", 250),
            function("posthaste", "posthaste_search_index::words", 50),
            function("posthaste", "0x1234", 400),
            SampledFunction { kernel: true, ..function("[kernel.kallsyms]", "tcp_sendmsg", 1000) },
        ];
        let points = [
            point("A", Some(Offered::Value(Vec::new())), sampled),
            point("B", Some(Offered::NotOffered("perf is not installed".into())), Vec::new()),
            // A result of an earlier version, and a point that asked for none.
            point("C", Some(Offered::Value(vec![HotFunction::default()])), Vec::new()),
            point("A", None, Vec::new()),
        ];
        let points = Points { servers: &servers, points: &points };
        let table = table(points).unwrap();
        assert_eq!(table.head[1..], ["A, browse", "B, browse", "the article, IMAP"]);
        let row = |name: &str| table.rows.iter().find(|row| row[0] == name).unwrap()[1..].to_vec();
        assert_eq!(row("parsing of text"), ["5.00", "not offered", "–"]);
        assert_eq!(row("storage"), ["12.5", "not offered", "–"]);
        assert_eq!(row("search index"), ["2.50", "not offered", "–"]);
        assert!(table.title.contains("not divided among the others"), "{}", table.title);
        assert_eq!(row("kernel"), ["50.0", "not offered", "15"]);
        assert_eq!(row("not classified"), ["20.0", "not offered", "–"]);
        // The article's shares are of user time.
        assert_eq!(row("parsing of text, of user time"), ["10.0", "not offered", "84 (unix_mbxline)"]);
        assert_eq!(row("TLS and cryptography, of user time"), ["20.0", "not offered", "2"]);
        assert_eq!(row("samples"), ["200", "not offered", "–"]);
        let sum: f64 = table.rows[..10].iter().map(|row| row[1].parse::<f64>().unwrap()).sum();
        assert!((sum - 100.0).abs() < 0.1, "{sum}");
        let said = findings(points);
        assert!(
            said.len() == 1 && said[0].starts_with("A, browse: of the CPU in user mode 10.0 % is parsing"),
            "{said:?}"
        );
    }

    #[test]
    fn results_without_samples_have_no_table() {
        let servers = sample::servers(["C"]);
        let points = [point("C", Some(Offered::Value(vec![HotFunction::default()])), Vec::new())];
        assert!(table(Points { servers: &servers, points: &points }).is_none());
    }
}
