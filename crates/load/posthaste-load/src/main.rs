//! `posthaste-load`: a load generator and measuring instrument for IMAP, POP3, SMTP and LMTP
//! servers.
//!
//! This is its command line: `run | merge | study | regress | populate | learn | plan | report |
//! agent | sink | calibrate | workload`, a file each. The work is done by the crates below.
//! `posthaste-load-drive` drives a server with the workloads of `posthaste-load-workload`.
//! `posthaste-load-measure` measures the server's cost from outside. `posthaste-load-report` writes
//! the report.
//!
//! Exit codes: 0 done, 1 failed (a run with errors too), 2 wrong usage, 3 not decided (`regress`)
//! or not finished (`study`).

// Comments of flags are help texts: a bracket in them is a bracket, and no link.
#![allow(rustdoc::broken_intra_doc_links)]

mod agent;
mod calibrate;
mod command_line;
mod failure;
mod learn;
mod merge;
mod plan;
mod populate;
mod regress;
mod report;
mod run;
mod server;
mod sink;
mod study;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use posthaste_load_text::for_terminal;

use failure::Failure;

/// Load generator and measuring instrument for IMAP, POP3, SMTP and LMTP servers.
///
/// It drives any server with the workloads of five published studies (or your own). It checks every
/// answer, measures the server's cost from outside, and writes a report.
#[derive(Parser)]
#[command(name = "posthaste-load", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one workload against a server.
    ///
    /// Exit code 0: every answer was right. A run with errors reports them in its first line and
    /// exits with 1.
    Run(Box<run::RunArgs>),
    /// Merge results of generators that drove one server at the same time into one result.
    ///
    /// One machine may be too slow to load a server. Then several run posthaste-load against it at
    /// once, each with accounts of its own. Their results are merged into one, which `report` and
    /// `plan` take as any other.
    ///
    /// Exit code 0: merged, and every answer was right. 1: merged, and there were errors. 2: the
    /// results do not belong together.
    #[command(after_long_help = merge::DETAILS)]
    Merge(merge::MergeArgs),
    /// Run a whole study, from populating to the report; or a part of it, and continue later.
    ///
    /// A study of hours can be measured in pieces. `study koka --out koka --resume --max-time 1h`
    /// begins it, or continues it, for an hour. The same command again measures the next piece.
    /// Ctrl-C, SIGTERM or a crash lose only the point in progress.
    ///
    /// Exit code 0: finished, without errors. 1: some points had errors. 2: wrong usage, or a
    /// result that cannot be continued. 3: not finished; the last line is the command that
    /// continues.
    Study(study::StudyArgs),
    /// Compare two builds of Posthaste: is the new one worse?
    ///
    /// Before each measurement the filled store is put back and the build is started. So all
    /// measurements begin with the same mail. In a study of your own, `put_back` says whether they
    /// do.
    ///
    /// Exit code 0: no. 1: yes. 3: the rounds do not decide it.
    Regress(regress::RegressArgs),
    /// Fill mailboxes through the server's own protocols.
    Populate(populate::PopulateArgs),
    /// Create a workload from a server's counts or log, to model your own users.
    Learn(learn::LearnArgs),
    /// Project from measured runs how many users a server can serve.
    Plan(plan::PlanArgs),
    /// Write the report of one run or study, or compare several in one report.
    Report(report::ReportArgs),
    /// Report a server's cost to an instrument on another machine.
    Agent(agent::AgentArgs),
    /// Act as the mail server of other domains: count, verify and drop mail.
    Sink(sink::SinkArgs),
    /// Measure the highest rate at which the generator is reliable on this machine.
    Calibrate(calibrate::CalibrateArgs),
    /// List and show the built-in workloads.
    Workload(workload::WorkloadArgs),
    /// The server that `calibrate` measures against.
    #[command(hide = true)]
    NullServer(calibrate::NullServerArgs),
}

/// Parses the command line and runs the command.
fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => run::main(*args),
        Command::Merge(args) => merge::main(&args),
        Command::Study(args) => study::main(&args),
        Command::Populate(args) => populate::main(args),
        Command::Learn(args) => learn::main(&args),
        Command::Plan(args) => plan::main(&args),
        Command::Regress(args) => regress::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Agent(args) => agent::main(&args),
        Command::Sink(args) => sink::main(&args),
        Command::Calibrate(args) => calibrate::main(args),
        Command::Workload(args) => workload::main(&args),
        Command::NullServer(args) => calibrate::null_server(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Undecided) => ExitCode::from(3),
        Err(Failure::Printed) => ExitCode::from(1),
        Err(Failure::Failed(what)) => {
            eprintln!("posthaste-load: {}", for_terminal(&what));
            ExitCode::from(1)
        }
        Err(Failure::Usage(what)) => {
            eprintln!("posthaste-load: {}", for_terminal(&what));
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound_and_every_flag_explained() {
        let mut command = Cli::command();
        command.clone().debug_assert();
        command.build();
        for sub in command.get_subcommands().filter(|s| !s.is_hide_set() && s.get_name() != "help") {
            for flag in sub.get_arguments() {
                assert!(flag.get_help().is_some(), "{} {} has no help", sub.get_name(), flag.get_id());
                // clap prints a line break in its place.
                let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.contains("{n}"), "{} {} loses {{n}}", sub.get_name(), flag.get_id());
            }
        }
    }

    #[test]
    fn a_merge_needs_two_results_and_a_place() {
        let parse = |line: &str| Cli::try_parse_from(line.split_ascii_whitespace()).is_ok();
        assert!(parse("posthaste-load merge one two three --out all --overlap 0.5"));
        assert!(!parse("posthaste-load merge one --out all") && !parse("posthaste-load merge one two"));
        assert!(!parse("posthaste-load merge one two --out all --overlap 90"));
    }

    #[test]
    fn a_measurement_of_no_time_or_of_nobody_is_refused() {
        let parse = |line: &str| Cli::try_parse_from(line.split_ascii_whitespace());
        let run = "posthaste-load run --workload imaptest --imap imap://h --users a@example.org --password x";
        for (line, flag) in [
            (run, "--clients"),
            (run, "--measure"),
            ("posthaste-load study koka", "--measure"),
            ("posthaste-load regress old new", "--measure"),
            ("posthaste-load calibrate --workload imaptest", "--clients"),
            ("posthaste-load calibrate --workload imaptest", "--measure"),
        ] {
            assert!(parse(&format!("{line} {flag} 1")).is_ok(), "{line} {flag}");
            assert!(parse(&format!("{line} {flag} 0")).is_err(), "{line} {flag}");
        }
    }

    #[test]
    fn a_flag_that_would_have_no_effect_is_refused() {
        let run = "posthaste-load run --workload imaptest --imap imap://h --users a@example.org --password x";
        let said = |flags: &str| {
            let line = format!("{run} {flags}");
            Cli::try_parse_from(line.split_ascii_whitespace()).err().map(|error| error.to_string())
        };
        let agent = "--agent h:9200 --token-file t";
        let with_agent = |flags: &str| format!("{agent} {flags}");
        for good in ["--day 8h --tasks-per-user 40", agent, "--server-cgroup /g --mhz 2270"] {
            assert_eq!(said(good), None, "{good}");
        }
        for (wrong, named) in [
            ("--tasks-per-user 40".to_owned(), "--day"),
            ("--tasks-per-user 40 --arrivals 50/s".to_owned(), "--arrivals"),
            ("--tasks-per-user 40 --beside imaptest:1".to_owned(), "--beside"),
            (with_agent("--server-cgroup /g"), "--server-cgroup"),
            (with_agent("--server-data /d"), "--server-data"),
            ("--mhz 0".to_owned(), "not a clock rate"),
            ("--mhz inf".to_owned(), "not a clock rate"),
        ] {
            let why = said(&wrong).unwrap_or_default();
            assert!(why.contains(named), "{wrong}: {why}");
        }
    }

    #[test]
    fn a_run_with_most_of_its_flags_is_understood() {
        let line = "posthaste-load run --workload koka-browse --imap imaps://localhost:1993 --send lmtp://localhost:1024 \
                    --users user{0..1199}@example.org --password-file pw --clients 200 --think 4s --ramp 30s \
                    --warmup 1m --measure 5m --out results --audit --arrivals 50/s --server-pid 42 \
                    --start-at 2026-11-27T22:40:00Z";
        assert!(Cli::try_parse_from(line.split_ascii_whitespace()).is_ok());
    }
}
