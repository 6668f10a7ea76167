//! `posthaste-load plan`.

use std::path::PathBuf;

use clap::Args;
use posthaste_load_report::files;
use posthaste_load_results::capacity::{
    CPU_LIMIT_PERCENT, HEAVY_USER_MESSAGES_PER_SECOND, PEAK_LOAD_FACTOR, Projection, daily_users,
    fetch_rate_at, project,
};
use posthaste_load_results::fit::Polynomial;
use posthaste_load_results::{Results, RunResult};

use crate::failure::Failure;

/// Flags of `plan`.
#[derive(Args)]
pub struct PlanArgs {
    /// Results of runs or studies at different numbers of clients, with the server's cost measured.
    #[arg(value_name = "DIR")]
    results: Vec<PathBuf>,
    /// Measured points instead of files: USERS:CPU-PERCENT, for instance 100:12.5,200:25.1,400:50.
    #[arg(long, value_name = "POINTS", value_parser = points)]
    points: Option<MeasuredPoints>,
    /// A fetch rate to convert to daily users, per second, instead of the one that the results'
    /// users have at the limit.
    #[arg(long, value_name = "RATE")]
    fetch_rate: Option<f64>,
    /// CPU limit to project to, in percent of all processors.
    #[arg(long, value_name = "PERCENT", default_value_t = CPU_LIMIT_PERCENT)]
    cpu_limit: f64,
    /// Messages a user receives (and fetches) per second: 80 in a working day of 8 hours.
    #[arg(long, value_name = "RATE", default_value_t = HEAVY_USER_MESSAGES_PER_SECOND)]
    messages_per_user_per_second: f64,
    /// The load at the busiest time, as a multiple of the average.
    #[arg(long, value_name = "FACTOR", default_value_t = PEAK_LOAD_FACTOR)]
    peak_factor: f64,
}

/// (users, CPU percent). A type of its own, because the parser takes a plain list for a repeated
/// flag.
#[derive(Clone, Debug, PartialEq)]
struct MeasuredPoints(Vec<(f64, f64)>);

fn points(text: &str) -> Result<MeasuredPoints, String> {
    let wrong = || format!("`{text}`: write USERS:CPU-PERCENT,USERS:CPU-PERCENT,…");
    let point = |pair: &str| {
        let (users, cpu) = pair.split_once(':')?;
        Some((users.parse().ok()?, cpu.parse().ok()?))
    };
    text.split(',').map(|pair| point(pair).ok_or_else(wrong)).collect::<Result<_, _>>().map(MeasuredPoints)
}

/// Plans.
pub fn main(args: &PlanArgs) -> Result<(), Failure> {
    let mut runs: Vec<RunResult> = Vec::new();
    for dir in &args.results {
        match files::read(dir).map_err(Failure::usage)? {
            Results::Run(run) => runs.push(*run),
            Results::Study(study) => {
                runs.extend(study.points.into_iter().filter_map(|p| p.run.ok()).map(|r| *r))
            }
        }
    }
    let mut measured: Vec<(f64, f64)> = args.points.as_ref().map(|p| p.0.clone()).unwrap_or_default();
    measured.extend(runs.iter().filter_map(|r| Some((f64::from(r.clients), r.server.as_ref()?.cpu_percent))));
    if measured.is_empty() && args.fetch_rate.is_none() {
        return Err(Failure::usage(
            "nothing to plan with: give results with the server's cost, --points or --fetch-rate",
        ));
    }
    let projection = project(&measured, args.cpu_limit);
    if let Some(projection) = &projection {
        print!("{}", describe(&measured, projection, args.cpu_limit));
    } else if !measured.is_empty() {
        println!(
            "{} points cannot be fitted: at least two different numbers of users are needed",
            measured.len()
        );
    }
    if let Some(said) = daily(args, &fetch_rates(&runs), projection.and_then(|p| p.users)) {
        println!("{said}");
    }
    Ok(())
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
        assert!(<Line as clap::Parser>::try_parse_from(["plan", "--points", "100"]).is_err());
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
