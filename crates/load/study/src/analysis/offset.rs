//! Seed 002's sentence on items made at delivery: "the increase in router CPU is more than offset
//! by the gains in IMAP CPU".

use posthaste_load_results::RunResult;

use super::points::Points;
use super::roles;
use super::spread::Verdict;

/// Who makes the items at delivery.
const ROUTER: &str = "router";
/// Who makes them at a request otherwise.
const SESSIONS: &str = "IMAP sessions";

/// CPU of a role for each action, in microseconds.
fn role_us(run: &RunResult, role: &str) -> Option<f64> {
    let done = run.total.count;
    let seconds = roles::seconds(run, role)?;
    (done > 0).then(|| seconds * 1e6 / done as f64)
}

/// Whether the sentence holds for an arm with items and the same arm without them. Both have to be
/// lower together in each round.
pub(super) fn finding(points: Points, workload: &str, (with, without): (&str, &str)) -> Option<String> {
    let pair = (with, without);
    let difference =
        |role: &str| Some(points.difference(workload, pair, |run| role_us(run, role))?.signed(" µs"));
    let (router, sessions) = (difference(ROUTER)?, difference(SESSIONS)?);
    let both = |run: &RunResult| Some(role_us(run, ROUTER)? + role_us(run, SESSIONS)?);
    let together = points.ratio(workload, pair, both)?;
    let holds = match together.verdict() {
        Verdict::Less => "so the router's CPU is more than offset, as in the article",
        Verdict::More => "so the router's CPU is not offset; in the article it is more than offset",
        Verdict::RoundsDiffer => {
            "rounds differ on what the article says, that the router's CPU is more than offset"
        }
        Verdict::OneRound => {
            "one round does not show what the article says, that the router's CPU is more than offset"
        }
    };
    Some(format!(
        "{workload}: CPU for each action of {with} against {without}: router {router}, IMAP sessions {sessions}, both {} ×: \
         {holds}",
        together.show()
    ))
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{Role, StudyPoint};

    use super::super::sample;
    use super::*;

    /// A point of a thousand actions. Milliseconds of CPU for all are microseconds for each.
    fn point(server: &str, round: u32, [router, sessions]: [f64; 2]) -> StudyPoint {
        let mut run = sample::run(1.0, 1000);
        let role = |name: &str, ms: f64| Role { name: name.into(), cpu_s: ms / 1e3, processes: 1 };
        run.server.as_mut().unwrap().roles = vec![role(ROUTER, router), role(SESSIONS, sessions)];
        StudyPoint { round, ..sample::point(server, &[], run) }
    }

    /// The finding on `rich`, with these CPU of the router and of sessions in each round.
    fn said(with: &[[f64; 2]], without: &[[f64; 2]]) -> String {
        let of = |server: &'static str, rounds: &[[f64; 2]]| -> Vec<StudyPoint> {
            (0..).zip(rounds).map(|(round, cpu)| point(server, round, *cpu)).collect()
        };
        let points = [of("rich + items", with), of("rich", without)].concat();
        finding(Points { servers: &[], points: &points }, "w", ("rich + items", "rich")).unwrap()
    }

    #[test]
    fn what_the_router_adds_is_compared_with_what_sessions_save() {
        let less = said(&[[150.0, 60.0], [160.0, 50.0]], &[[100.0, 140.0], [100.0, 120.0]]);
        assert_eq!(
            less,
            "w: CPU for each action of rich + items against rich: router +55.0 µs (+50.0 to +60.0), IMAP sessions −75.0 \
             µs (−80.0 to −70.0), both 0.915 (0.875–0.955) ×: so the router's CPU is more than offset, as in the article"
        );
        let more = said(&[[150.0, 60.0]; 2], &[[100.0, 70.0]; 2]);
        assert!(more.contains(" is not offset; in the article it is "), "{more}");
        let differ = said(&[[150.0, 60.0]; 2], &[[100.0, 70.0], [100.0, 140.0]]);
        assert!(differ.contains(": rounds differ on what the article says, that"), "{differ}");
        let one = said(&[[150.0, 60.0]], &[[100.0, 140.0]]);
        assert!(one.contains(": one round does not show what the article says, that"), "{one}");
    }

    #[test]
    fn without_the_cpu_of_roles_nothing_is_said() {
        let points = ["rich + items", "rich"].map(|server| sample::point(server, &[], sample::run(1.0, 9)));
        let points = Points { servers: &[], points: &points };
        assert_eq!(finding(points, "w", ("rich + items", "rich")), None);
    }
}
