//! `sessions`: the session fuzzer by command line. `scripts/fuzz-sessions` describes its use.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use posthaste_hostile::sessions::play;

/// Sends commands from the grammars of IMAP, LMTP, submission, POP3 and ManageSieve, whole and
/// changed ones. Several sessions send at once. Each seed has a server of its own.
///
/// The first fault ends it, with the seed that repeats the fault. These are faults: a session that
/// ends without a reply, an answer that does not come, and a panic. A poll with too many steps
/// panics. Faults are also a poll that uses over 100 ms of CPU time, memory out of bounds, and a
/// wrong answer to the well-behaved neighbour. Exit status: 0, or 1 if something was found.
#[derive(Parser, Debug)]
#[command(name = "fuzz-sessions")]
struct Arguments {
    /// The server's program: a debug build, whose polls are counted.
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let began = Instant::now();
    let enough = |done: u64| match arguments.minutes {
        Some(minutes) => began.elapsed() >= Duration::from_secs(minutes * 60),
        None => done >= arguments.seeds,
    };
    let mut done = 0;
    while !enough(done) {
        let seed = arguments.seed + done;
        match play(&arguments.binary, seed, arguments.commands) {
            Ok(report) => println!(
                "seed {seed}: {} commands ({} OK), {} bursts, {} MiB, {} polls over 10 ms",
                report.commands,
                report.taken,
                report.bursts,
                report.memory >> 20,
                report.slow_polls
            ),
            Err(why) => {
                println!(
                    "seed {seed} FAILED: {why}\nagain: scripts/fuzz-sessions --seed {seed} --commands {}",
                    arguments.commands
                );
                return ExitCode::FAILURE;
            }
        }
        done += 1;
    }
    ExitCode::SUCCESS
}
