//! `sessions`: the session fuzzer by command line. `scripts/fuzz-sessions` describes its use.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use posthaste_hostile::sessions::{Report, play};
use posthaste_hostile::{Limits, Times};

/// Sends commands from the grammars of IMAP, LMTP, submission, POP3 and ManageSieve, whole and
/// changed ones. Several sessions send at once. Each seed has a server of its own.
///
/// The first fault ends it, with the seed that repeats the fault. These are faults: a session that
/// ends without a reply, an answer that does not come, and a panic. A poll with too many steps
/// panics. Faults are also a poll that uses over 100 ms of CPU time, memory out of bounds, and a
/// wrong answer to the well-behaved neighbour.
///
/// With --times the server is a release build, which counts no steps. A poll of over 10 ms of CPU
/// time is a fault there. Another neighbour lists its mailbox all the while. Its times are judged
/// by the rules of scripts/hostile, beside those of ten seconds in which it was alone. Nothing else
/// should run on the machine.
///
/// Exit status: 0, or 1 if something was found.
#[derive(Parser, Debug)]
#[command(name = "fuzz-sessions")]
struct Arguments {
    /// The server's program: a debug build, whose polls are counted. With --times a release build.
    #[arg(long)]
    binary: String,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seeds, one after the other; as many as there is time for if --minutes is given.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Commands and bursts of each seed.
    #[arg(long, default_value_t = 2000)]
    commands: usize,
    /// The time after which it ends.
    #[arg(long)]
    minutes: Option<u64>,
    /// Judges the times of a neighbour, too.
    #[arg(long)]
    times: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let limits = arguments.times.then(Limits::default);
    let began = Instant::now();
    let enough = |done: u64| match arguments.minutes {
        Some(minutes) => began.elapsed() >= Duration::from_secs(minutes * 60),
        None => done >= arguments.seeds,
    };
    let mut done = 0;
    while !enough(done) {
        let seed = arguments.seed + done;
        match play(&arguments.binary, seed, arguments.commands, limits) {
            Ok(report) => println!("seed {seed}: {}", line(&report)),
            Err(why) => {
                println!(
                    "seed {seed} FAILED: {why}\nagain: scripts/fuzz-sessions --seed {seed} --commands {}{}",
                    arguments.commands,
                    if arguments.times { " --times" } else { "" }
                );
                return ExitCode::FAILURE;
            }
        }
        done += 1;
    }
    ExitCode::SUCCESS
}

/// The work of a seed in one line.
fn line(report: &Report) -> String {
    let work = format!(
        "{} commands ({} OK), {} bursts, {} of IMAP inside TLS, {} MiB, {} polls over 10 ms",
        report.commands,
        report.taken,
        report.bursts,
        report.encrypted,
        report.memory >> 20,
        report.slow_polls
    );
    if report.times.count() == 0 {
        return work;
    }
    let [beside, alone] = [&report.times, &report.alone].map(figures);
    format!("{work}; neighbour in ms, median, 99 % and worst: {beside} (alone {alone})")
}

/// The times that are judged.
fn figures(times: &Times) -> String {
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    let [median, most, worst] = [times.median(), times.most_of_server(), times.worst_of_server()].map(ms);
    format!("{median} / {most} / {worst}")
}
