//! `posthaste-load regress`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use posthaste_load_measure::machine;
use posthaste_load_report::files;
use posthaste_load_results::Results;
use posthaste_load_study::{
    Analysis, Build, Cassandra, Data, Judgement, Length, Options, Plan, ServerChoice, Study, conduct, judge,
    load,
};
use posthaste_load_text::quantity;

use crate::command_line::command_line;
use crate::failure::Failure;
use crate::run::default_threads;
use crate::study::{Temporary, room};

/// Flags of `regress`.
#[derive(Args)]
pub struct RegressArgs {
    /// The `posthaste` binary of the old build.
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The `posthaste` binary of the new build.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// A study whose analysis is `regress`: what is compared [default: the built-in one].
    #[arg(long, value_name = "FILE", default_value = "regress")]
    study: String,
    /// A version that takes three minutes.
    #[arg(long)]
    quick: bool,
    /// Print what is measured, how long it takes, and how much disk it needs, and exit.
    #[arg(long)]
    plan: bool,
    /// Rounds: how often each build is measured at each point [default: the study's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=99))]
    rounds: Option<u32>,
    /// How long each build is measured in each round [default: the study's].
    #[arg(long, value_name = "TIME", value_parser = quantity::length)]
    measure: Option<Duration>,
    /// Write results.json, CSV and report.html into this directory [default: study-regress].
    #[arg(long, value_name = "DIR", default_value = "study-regress")]
    out: PathBuf,
    /// Overwrite existing files in it.
    #[arg(long)]
    force: bool,
    /// Keep both builds' data here instead of in a temporary directory.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Keep both builds to this many processors, and the instrument to the others.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    server_cpus: Option<u32>,
    /// Threads of the generator [default: half the processors].
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print nothing while running.
    #[arg(long)]
    quiet: bool,
}

/// Compares.
pub fn main(args: &RegressArgs) -> Result<(), Failure> {
    let mut study =
        load(&args.study, if args.quick { Length::Quick } else { Length::Full }).map_err(Failure::usage)?;
    if study.analysis != Analysis::Regress {
        return Err(Failure::usage(format!("{}: the study needs `analysis = \"regress\"`", args.study)));
    }
    study.rounds = args.rounds.unwrap_or(study.rounds).max(2);
    study.times.measure = args.measure.unwrap_or(study.times.measure);
    let servers = [("old", &args.old), ("new", &args.new)].map(|(name, program)| build(name, program));
    let servers = servers.into_iter().collect::<Result<Vec<_>, _>>()?;
    if args.plan {
        let (words, needed) = planned(args, &study);
        print!("{words}");
        if let Err(why) = room(needed, &args.work.clone().unwrap_or_else(std::env::temp_dir)) {
            println!("note: {why}");
        }
        return Ok(());
    }
    files::prepare(&args.out, args.force).map_err(Failure::failed)?;
    // Removed at the end.
    let (_temporary, folder) = match &args.work {
        Some(work) => (None, work.clone()),
        None => {
            let temporary = Temporary::new().map_err(Failure::failed)?;
            let folder = temporary.0.clone();
            (Some(temporary), folder)
        }
    };
    let options = Options {
        servers,
        folder,
        keep: args.work.is_some(),
        posthaste: None,
        server_cpus: args.server_cpus,
        agent_token: None,
        cassandra: Cassandra::default(),
        command: command_line(),
        threads: args.threads.unwrap_or_else(default_threads),
        seed: 1,
        live: !args.quiet,
    };
    conclude(args, &study, &options)
}

/// A server to start. A missing file is an error before anything is measured.
fn build(name: &str, program: &std::path::Path) -> Result<ServerChoice, Failure> {
    let found = program.canonicalize().ok().filter(|p| p.is_file());
    let program = found.ok_or_else(|| {
        Failure::usage(format!("{}: no such file; name the `posthaste` of each build", program.display()))
    })?;
    Ok(ServerChoice::Build(Build { name: name.into(), program }))
}

/// The plan in words, and the disk that both builds take.
fn planned(args: &RegressArgs, study: &Study) -> (String, u64) {
    let plan = Plan::of(study, machine::facts(None).cpus);
    let data = if args.work.is_some() { Data::Kept } else { Data::Removed };
    let names = ["old".to_owned(), "new".to_owned()];
    let needed = plan.disk_bytes_of(study, names.len(), data);
    (plan.describe(study, &names) + &plan.totals(study, names.len(), needed), needed)
}

fn conclude(args: &RegressArgs, study: &Study, options: &Options) -> Result<(), Failure> {
    let (words, needed) = planned(args, study);
    room(needed, &options.folder).map_err(Failure::failed)?;
    if !args.quiet {
        eprint!("{words}");
    }
    let result = conduct(study, options).map_err(Failure::failed)?;
    let clean = result.points.iter().all(|p| p.run.as_ref().is_ok_and(|r| r.outcome.clean));
    for finding in &result.analysis.findings {
        println!("{finding}");
    }
    let judgement = judge(&result);
    files::write(&args.out, &Results::Study(Box::new(result))).map_err(Failure::failed)?;
    println!("report: {}", args.out.join("report.html").display());
    if !clean {
        return Err(Failure::failed("some rounds had errors or could not be measured: see the report"));
    }
    match judgement {
        Some(Judgement::Worse) => {
            println!("WORSE: {} costs more than {}", args.new.display(), args.old.display());
            Err(Failure::Printed)
        }
        Some(Judgement::Better) => {
            println!("BETTER");
            Ok(())
        }
        Some(Judgement::Same) => {
            println!("SAME");
            Ok(())
        }
        Some(Judgement::Undecided) => {
            println!(
                "NOT DECIDED: no point is shown to be worse, and some intervals are too wide; raise --rounds or --measure"
            );
            Err(Failure::Undecided)
        }
        None => Err(Failure::failed("too few rounds were measured on both builds")),
    }
}
