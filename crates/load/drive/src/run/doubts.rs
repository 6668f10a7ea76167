//! Caveats for the reader of a run's figures.

use posthaste_load_results::{RunResult, Series, Window};
use posthaste_load_workload::{SessionKind, Transaction, TransactionStep, Workload};

use super::options::RunOptions;

/// Unfinished tasks per user beyond which a run is saturated: Exchange Load Generator's figure.
pub const SATURATED_PER_USER: f64 = 1.5;
/// The generator's share of the server's CPU beyond which figures may be its own.
const OWN_SHARE_MAX: f64 = 0.1;
/// The generator's own lateness in dispatching, 99 %, beyond which figures may be its own.
const LATE_MS_MAX: f64 = 10.0;
/// Share of the machine that other work may take before it limits throughput and times.
const OTHERS_SHARE_MAX: f64 = 0.1;

/// Every reason to doubt the figures, in words.
pub fn doubts(options: &RunOptions, result: &RunResult) -> Vec<String> {
    let (outcome, generator, window) = (&result.outcome, &result.generator, &result.window);
    let mut caveats = Vec::new();
    if let Some(share) = generator.share_of_server.filter(|s| *s > OWN_SHARE_MAX) {
        caveats.push(format!(
            "the generator used {:.0} % of the CPU the server used: on a busy machine the measured times may be its \
             own",
            share * 100.0
        ));
    }
    if let Some(late) = generator.late_p99_ms.filter(|l| *l > LATE_MS_MAX) {
        caveats.push(format!(
            "the generator was late: 1 % of tasks were dispatched {late:.0} ms or more after they were due"
        ));
    }
    let cpus = f64::from(result.machine.cpus);
    if let Some(others) = generator.other_cpus.filter(|o| *o > OTHERS_SHARE_MAX * cpus) {
        caveats.push(format!(
            "other work on this machine took {others:.2} of its {cpus} processors: the figures are from the rest"
        ));
    }
    if outcome.saturated {
        caveats.push(format!(
            "saturated: up to {} tasks were due and unfinished, more than {SATURATED_PER_USER} per user",
            outcome.unfinished_max
        ));
    }
    if outcome.interrupted {
        caveats.push(format!(
            "interrupted: the window is {:.0} s instead of {:.0} s",
            window.end_s - window.start_s,
            options.measure.as_secs_f64()
        ));
    }
    // If no transaction ends, as with idle sessions, no throughput can be steady. The same holds if
    // a transaction waits until the server is at rest.
    let has_throughput = result.total.count > 0 && !options.workload.is_measured_alone();
    if !window.steady && has_throughput {
        caveats.push(format!(
            "throughput was not steady in the window (drift {:.0} %, or too few seconds to judge)",
            window.drift * 100.0
        ));
    }
    if result.machine.build == "debug" {
        caveats
            .push("the generator is a debug build: it costs several times what a release build does".into());
    }
    let tls = options.server.endpoint.security != posthaste_imap_client::net::Security::Plain;
    if options.workload.tls != tls {
        let (wants, has) = if tls { ("no TLS", "TLS") } else { ("TLS", "no TLS") };
        caveats.push(format!("the article of the workload used {wants}; this run used {has}"));
    }
    caveats.extend(nothing_ended(&options.workload, result.total.count));
    caveats.extend(absent(options, &result.series, window));
    caveats
}

/// A server that answers nothing in a short window causes no error, either.
fn nothing_ended(workload: &Workload, ended: u64) -> Option<String> {
    let idles = |drawn: &Transaction| drawn.steps.iter().any(|step| matches!(step, TransactionStep::Idle(_)));
    (ended == 0 && !workload.chosen().any(idles)).then(|| {
        "no transaction ended well in the window, so it has no times and no costs: a longer --measure may help".into()
    })
}

/// Fewer users online than the run has: users that still wait to connect cause no failures and no
/// measurements.
fn absent(options: &RunOptions, series: &Series, window: &Window) -> Option<String> {
    let online = series.online.iter().skip(window.start_s as usize).max().copied()?;
    (options.workload.session == SessionKind::Online && online < u64::from(options.clients)).then(|| {
        format!(
            "of {} users at most {online} were online at a time: a longer --ramp may help",
            options.clients
        )
    })
}

#[cfg(test)]
mod tests {
    use posthaste_load_workload::load;

    use super::*;

    #[test]
    fn a_window_in_which_nothing_ended_is_no_result() {
        let browse = load("koka-browse").unwrap();
        assert!(nothing_ended(&browse, 0).unwrap().contains("--measure"));
        assert_eq!(nothing_ended(&browse, 1), None);
        // IDLE lasts for minutes.
        assert_eq!(nothing_ended(&load("idle-many").unwrap(), 0), None);
    }
}
