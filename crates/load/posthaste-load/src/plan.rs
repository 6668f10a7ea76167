//! `posthaste-load plan`.

use std::path::PathBuf;

use clap::Args;
use posthaste_load_report::files;
use posthaste_load_results::capacity::{
    CPU_LIMIT_PERCENT, HEAVY_USER_MESSAGES_PER_SECOND, PEAK_LOAD_FACTOR, Projection, daily_users,
    fetch_rate_at, project,
};
use posthaste_load_results::fit::Polynomial;
use posthaste_load_results::{Results, RunResult, StudyPoint};

use crate::failure::Failure;

/// Flags of `plan`.
#[derive(Args)]
pub struct PlanArgs {
    /// Results of runs or studies at different numbers of clients, with the server's cost measured.
    /// Each server has a plan of its own, and so have each workload and each value that a study
    /// sweeps besides the clients.
    #[arg(value_name = "DIR")]
    results: Vec<PathBuf>,
    /// Measured points instead of files: USERS:CPU-PERCENT, for instance 100:12.5,200:25.1,400:50.
    #[arg(long, value_name = "POINTS", value_parser = points)]
    points: Option<MeasuredPoints>,
    /// A fetch rate to convert to daily users, per second, instead of the one that the results'
    /// users have at the limit.
    #[arg(long, value_name = "RATE", value_parser = above_zero)]
    fetch_rate: Option<f64>,
    /// CPU limit to project to, in percent of all processors.
    #[arg(long, value_name = "PERCENT", default_value_t = CPU_LIMIT_PERCENT, value_parser = above_zero)]
    cpu_limit: f64,
    /// Messages a user receives (and fetches) per second: 80 in a working day of 8 hours.
    #[arg(long, value_name = "RATE", default_value_t = HEAVY_USER_MESSAGES_PER_SECOND, value_parser = above_zero)]
    messages_per_user_per_second: f64,
    /// The load at the busiest time, as a multiple of the average.
    #[arg(long, value_name = "FACTOR", default_value_t = PEAK_LOAD_FACTOR, value_parser = above_zero)]
    peak_factor: f64,
}

/// (users, CPU percent). A type of its own, because the parser takes a plain list for a repeated
/// flag.
#[derive(Clone, Debug, PartialEq)]
struct MeasuredPoints(Vec<(f64, f64)>);

/// A divisor, or a limit: without one there is nothing to plan.
fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("`{text}` is not a number above zero"))
}

fn points(text: &str) -> Result<MeasuredPoints, String> {
    let wrong = || format!("`{text}`: write USERS:CPU-PERCENT,USERS:CPU-PERCENT,…");
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let point = |pair: &str| {
        let (users, cpu) = pair.split_once(':')?;
        Some((number(users)?, number(cpu)?))
    };
    text.split(',').map(|pair| point(pair).ok_or_else(wrong)).collect::<Result<_, _>>().map(MeasuredPoints)
}

/// Plans.
pub fn main(args: &PlanArgs) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for dir in &args.results {
        runs.extend(named(files::read(dir).map_err(Failure::usage)?));
    }
    let curves = curves(runs);
    let given = args.points.as_ref().map(|p| p.0.clone()).unwrap_or_default();
    let is_measured = |curve: &Curve| !cpu_points(&curve.runs).is_empty();
    if given.is_empty() && args.fetch_rate.is_none() && !curves.iter().any(is_measured) {
        return Err(Failure::usage(
            "nothing to plan with: give results with the server's cost, --points or --fetch-rate",
        ));
    }
    match curves.as_slice() {
        [] => plan(args, &given, &[]),
        [one] => plan(args, &[given, cpu_points(&one.runs)].concat(), &one.runs),
        _ if !given.is_empty() => {
            return Err(Failure::usage(
                "--points are of one server, and the results of several: leave one out",
            ));
        }
        several => {
            for curve in several {
                println!("{}:", curve.name);
                plan(args, &cpu_points(&curve.runs), &curve.runs);
                println!();
            }
        }
    }
    Ok(())
}

/// The runs of one server with one workload, at different numbers of users. A line through those of
/// several servers says nothing of any.
struct Curve {
    name: String,
    runs: Vec<RunResult>,
}

/// Runs by their curves, in the order of the first run of each.
fn curves(runs: Vec<(String, RunResult)>) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for (name, run) in runs {
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.runs.push(run),
            None => curves.push(Curve { name, runs: vec![run] }),
        }
    }
    curves
}

/// The runs of a result, each with the name of its curve.
fn named(results: Results) -> Vec<(String, RunResult)> {
    match results {
        Results::Run(run) => vec![(format!("{}, {}", run.label, run.workload.name), *run)],
        Results::Study(study) => {
            let named = |point: StudyPoint| {
                let name = curve_name(&point);
                Some((name, *point.run.ok()?))
            };
            study.points.into_iter().filter_map(named).collect()
        }
    }
}

/// The server, the workload, and what a study sweeps besides the users.
fn curve_name(point: &StudyPoint) -> String {
    let mut parts = vec![point.server.clone(), point.workload.clone()];
    let others = point.at.iter().filter(|(key, _)| *key != "clients");
    parts.extend(others.map(|(key, value)| format!("{} {value}", key.replace('_', " "))));
    parts.join(", ")
}

/// (users, CPU in percent) of the runs whose server was measured.
fn cpu_points(runs: &[RunResult]) -> Vec<(f64, f64)> {
    runs.iter().filter_map(|r| Some((f64::from(r.clients), r.server.as_ref()?.cpu_percent))).collect()
}

/// Prints the plan of one curve.
fn plan(args: &PlanArgs, measured: &[(f64, f64)], runs: &[RunResult]) {
    let projection = project(measured, args.cpu_limit);
    if let Some(projection) = &projection {
        print!("{}", describe(measured, projection, args.cpu_limit));
    } else if !measured.is_empty() {
        println!(
            "{} points cannot be fitted: at least two different numbers of users are needed",
            measured.len()
        );
    }
    if let Some(said) = daily(args, &fetch_rates(runs), projection.and_then(|p| p.users)) {
        println!("{said}");
    }
}

/// (users, FETCH commands per second) of each run that has some.
fn fetch_rates(runs: &[RunResult]) -> Vec<(f64, f64)> {
    let of = |r: &RunResult| {
        let fetch = r.commands.iter().find(|c| c.name == "FETCH")?;
        Some((f64::from(r.clients), fetch.summary.rate_per_s))
    };
    runs.iter().filter_map(of).collect()
}

/// The users per day: of the given fetch rate, of the rate at the CPU limit, or of the busiest run
/// if there is no limit to project to.
fn daily(args: &PlanArgs, rates: &[(f64, f64)], limit: Option<f64>) -> Option<String> {
    let at_limit = limit.and_then(|users| Some((users, fetch_rate_at(rates, users)?)));
    let busiest = rates.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let (what, rate, of) = match (args.fetch_rate, at_limit, busiest) {
        (Some(rate), ..) => ("daily users".to_owned(), rate, String::new()),
        (None, Some((users, rate)), _) => {
            (format!("daily users at {} % CPU", args.cpu_limit), rate, format!(" of {users:.0} users"))
        }
        (None, None, Some((users, rate))) => {
            ("daily users at the measured load".to_owned(), rate, format!(" of {users:.0} users"))
        }
        (None, None, None) => return None,
    };
    Some(format!(
        "{what}: {:.0}  = {rate:.2} fetches/s{of} ÷ {} messages/s per user ÷ {} (peak)",
        daily_users(rate, args.messages_per_user_per_second, args.peak_factor),
        args.messages_per_user_per_second,
        args.peak_factor
    ))
}

fn describe(points: &[(f64, f64)], projection: &Projection, limit: f64) -> String {
    let mut text = String::from("users  CPU % measured   linear  quadratic\n");
    for (users, cpu) in points {
        let linear = projection.fits.linear.at(*users);
        let quadratic =
            projection.fits.quadratic.as_ref().map_or("-".into(), |q| format!("{:.2}", q.at(*users)));
        text.push_str(&format!("{users:>5}  {cpu:>14.2}  {linear:>7.2}  {quadratic:>9}\n"));
    }
    let chosen = projection.fits.chosen();
    let mut fit = |name: &str, fit: &Polynomial| {
        let mark = if fit == chosen { "  <- chosen" } else { "" };
        text.push_str(&format!(
            "{name:<10} {}  residual {:.3} CPU %, R² {:.4}{mark}\n",
            fit.formula(),
            fit.residual_error,
            fit.r_squared
        ));
    };
    fit("linear", &projection.fits.linear);
    if let Some(quadratic) = &projection.fits.quadratic {
        fit("quadratic", quadratic);
    }
    if projection.by_line_instead {
        text.push_str(&format!(
            "the parabola never reaches {limit} % CPU: the line is projected in its place\n"
        ));
    }
    match (projection.users, projection.extrapolation) {
        (Some(users), Some(beyond)) => {
            let other = projection.users_by_other.map_or("nowhere".into(), |u| format!("{u:.0}"));
            text.push_str(&format!("users at {limit} % CPU: {users:.0} (by the other fit: {other})\n"));
            text.push_str(&match beyond {
                b if b > 1.0 => {
                    format!("extrapolated: {b:.1} times the {} users measured\n", projection.measured_max)
                }
                _ => format!("inside the measured range (up to {} users)\n", projection.measured_max),
            });
        }
        _ => text.push_str(&format!("the fitted curve never reaches {limit} % CPU\n")),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        plan: PlanArgs,
    }

    #[test]
    fn points_are_one_flag() {
        let line = <Line as clap::Parser>::try_parse_from(["plan", "--points", "100:12.5,200:25.1"]).unwrap();
        assert_eq!(line.plan.points, Some(MeasuredPoints(vec![(100.0, 12.5), (200.0, 25.1)])));
        for wrong in ["100", "100:NaN", "inf:5"] {
            assert!(<Line as clap::Parser>::try_parse_from(["plan", "--points", wrong]).is_err(), "{wrong}");
        }
        for flag in ["--peak-factor", "--messages-per-user-per-second", "--cpu-limit", "--fetch-rate"] {
            let parse = |value: &str| <Line as clap::Parser>::try_parse_from(["plan", flag, value]).is_ok();
            assert!(parse("1.5") && !parse("0") && !parse("NaN"), "{flag}");
        }
    }

    #[test]
    fn each_server_workload_and_size_has_a_curve_of_its_own() {
        let point = |server: &str, clients: f64, mailbox_mb: f64| {
            let at = [("clients", clients), ("mailbox_mb", mailbox_mb)];
            let at = at.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
            let run = RunResult { clients: clients as u32, ..RunResult::default() };
            let (server, workload) = (server.to_owned(), "outlook-express".to_owned());
            StudyPoint { server, at, workload, round: 0, run: Ok(Box::new(run)) }
        };
        let points = [
            point("Posthaste", 25.0, 2.0),
            point("Dovecot", 25.0, 2.0),
            point("Posthaste", 50.0, 2.0),
            point("Posthaste", 25.0, 100.0),
        ];
        let runs = points.into_iter().map(|point| (curve_name(&point), *point.run.unwrap())).collect();
        let found: Vec<(String, Vec<u32>)> = curves(runs)
            .into_iter()
            .map(|curve| (curve.name, curve.runs.iter().map(|run| run.clients).collect()))
            .collect();
        let expected = [
            ("Posthaste, outlook-express, mailbox mb 2", vec![25, 50]),
            ("Dovecot, outlook-express, mailbox mb 2", vec![25]),
            ("Posthaste, outlook-express, mailbox mb 100", vec![25]),
        ];
        assert_eq!(found, expected.map(|(name, clients)| (name.to_owned(), clients)));
    }

    #[test]
    fn daily_users_are_those_of_the_limit() {
        let said = |words: &[&str], rates: &[(f64, f64)], limit: Option<f64>| {
            let words = ["plan"].iter().chain(words);
            let line = <Line as clap::Parser>::try_parse_from(words).unwrap();
            daily(&line.plan, rates, limit)
        };
        // Half a message a second for each user: 350 a second of 700, and not the 200 of 400.
        let rates = [(100.0, 50.0), (200.0, 100.0), (400.0, 200.0)];
        let text = said(&[], &rates, Some(700.0)).unwrap();
        assert!(
            text.starts_with("daily users at 75 % CPU: 62950  = 350.00 fetches/s of 700 users ÷"),
            "{text}"
        );
        let text = said(&[], &rates, None).unwrap();
        assert!(text.starts_with("daily users at the measured load: 35971  = 200.00"), "{text}");
        let text = said(&["--fetch-rate", "344.72"], &rates, Some(700.0)).unwrap();
        assert!(text.starts_with("daily users: 62000  = 344.72 fetches/s ÷"), "{text}");
        assert_eq!(said(&[], &[], Some(700.0)), None);
    }

    #[test]
    fn a_plan_says_how_far_it_guesses() {
        let points = points("100:10,200:20.1,300:29.9,400:40").unwrap().0;
        let text = describe(&points, &project(&points, 75.0).unwrap(), 75.0);
        assert!(text.contains("extrapolated: 1.9 times the 400 users"), "{text}");
        assert!(super::points("100").is_err());
    }

    #[test]
    fn a_plan_falls_back_to_the_line() {
        let points = points("100:18,200:32,300:42,400:48").unwrap().0;
        let text = describe(&points, &project(&points, 75.0).unwrap(), 75.0);
        assert!(text.contains("the parabola never reaches 75 % CPU: the line is projected"), "{text}");
        assert!(text.contains("users at 75 % CPU: 650 (by the other fit: nowhere)"), "{text}");
        assert!(text.contains("linear ") && text.contains("quadratic "), "{text}");
    }
}
