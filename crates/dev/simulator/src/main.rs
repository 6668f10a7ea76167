//! `simulate`: the simulator by command line. `scripts/simulate` says how it is used.

use clap::Parser;
use posthaste_simulator::damage::{Sample, Sweep, child};
use posthaste_simulator::process::visitor;
use posthaste_simulator::report::Tally;
use posthaste_simulator::run::{Settings, run};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Looks for states after a crash in which the embedded store is not what it must be.
#[derive(Parser, Debug)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this state of the first seed, with its story.
    #[arg(long)]
    state: Option<usize>,
    /// Different states to look at, over as many seeds as that takes.
    #[arg(long, default_value_t = 10_000)]
    states: usize,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Kill processes only: no power cut.
    #[arg(long)]
    no_power: bool,
    /// Changes of names survive in order only.
    #[arg(long)]
    no_posix_names: bool,
    /// No operation fails.
    #[arg(long)]
    no_faults: bool,
    /// The index is not made again.
    #[arg(long)]
    no_rebuild: bool,
    /// No cut before anything was acknowledged.
    #[arg(long)]
    from_first_answer: bool,
    /// Damage every region of every file of a small store instead.
    #[arg(long)]
    damage: bool,
    /// Bytes of a region.
    #[arg(long, default_value_t = 64)]
    region: usize,
    /// Of the regions, one in so many.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// No second process.
    #[arg(long)]
    no_visitor: bool,
    /// For the simulator's own use: the second process, on this store.
    #[arg(long, hide = true, requires = "sink")]
    visitor: Option<PathBuf>,
    /// Where the second process writes its operations.
    #[arg(long, hide = true)]
    sink: Option<PathBuf>,
    /// The second process expects that its disk fails.
    #[arg(long, hide = true)]
    expect_faults: bool,
    /// For the sweep's own use: judges the damage that its input names.
    #[arg(long, hide = true)]
    damage_child: bool,
}

impl Arguments {
    fn settings(&self) -> Settings {
        Settings {
            power: !self.no_power,
            posix_names: !self.no_posix_names,
            faults: !self.no_faults,
            rebuild: !self.no_rebuild,
            visitor: std::env::current_exe().ok().filter(|_| !self.no_visitor),
            from_first_answer: self.from_first_answer,
            ..Settings::all()
        }
    }
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let settings = arguments.settings();
    if arguments.damage_child {
        return child(arguments.seed, &settings.base, settings.rebuild).map_err(std::io::Error::other);
    }
    if let (Some(root), Some(sink)) = (&arguments.visitor, &arguments.sink) {
        return visitor(root, sink, arguments.seed, arguments.expect_faults).map_err(std::io::Error::other);
    }
    let tally = if arguments.damage {
        damage(&arguments)?
    } else if let Some(state) = arguments.state {
        one(&arguments, state)?
    } else {
        crashes(&arguments)
    };
    print!("{tally}");
    std::process::exit(i32::from(!tally.is_empty()));
}

/// One state, with its story.
fn one(arguments: &Arguments, state: usize) -> std::io::Result<Tally> {
    let outcome = run(arguments.seed, &arguments.settings(), Some(state))?;
    let mut tally = Tally::default();
    for finding in outcome.findings.into_iter().filter(|f| f.state == state) {
        println!("{}{}\n", finding.story, finding.violation);
        tally.add(&format!("seed {} state {state}", finding.seed), &finding.violation);
    }
    Ok(tally)
}

fn crashes(arguments: &Arguments) -> Tally {
    let settings = arguments.settings();
    let (next, states) = (AtomicU64::new(arguments.seed), AtomicUsize::new(0));
    let operations = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let tally = Mutex::new(Tally::default());
    let started = Instant::now();
    let work = || {
        while states.load(Ordering::Relaxed) < arguments.states && !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let outcome = match run(seed, &settings, None) {
                Ok(outcome) => outcome,
                Err(error) => {
                    println!("seed {seed} could not be run: {error}");
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
            };
            operations.fetch_add(outcome.operations, Ordering::Relaxed);
            let before = states.fetch_add(outcome.states, Ordering::Relaxed);
            let now = before + outcome.states;
            let mut tally = tally.lock().unwrap_or_else(|e| e.into_inner());
            for f in &outcome.findings {
                println!("seed {} state {}: {}", f.seed, f.state, f.violation);
                tally.add(&format!("seed {} state {}", f.seed, f.state), &f.violation);
            }
            if before / 1_000 != now / 1_000 {
                let seconds = started.elapsed().as_secs_f64();
                println!("{now} states in {seconds:.0} s, {} findings, at seed {seed}", tally.len());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(work);
        }
    });
    println!(
        "{} states, {} operations, {} seeds in {:.0} s",
        states.load(Ordering::Relaxed),
        operations.load(Ordering::Relaxed),
        next.load(Ordering::Relaxed) - arguments.seed,
        started.elapsed().as_secs_f64()
    );
    tally.into_inner().unwrap_or_else(|e| e.into_inner())
}

fn damage(arguments: &Arguments) -> std::io::Result<Tally> {
    let base = arguments.settings().base;
    let sample = Sample::make(arguments.seed, &base).map_err(std::io::Error::other)?;
    let all: Vec<_> = sample.all(arguments.region).into_iter().step_by(arguments.every).collect();
    let (next, started) = (AtomicUsize::new(0), Instant::now());
    let tally = Mutex::new(Tally::default());
    let program = std::env::current_exe()?;
    let work = || -> std::io::Result<()> {
        let mut sweep = Sweep::new(program.clone(), arguments.seed);
        if arguments.no_rebuild {
            sweep = sweep.without_rebuild();
        }
        while let Some(damage) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let judged = sweep.judge(damage)?;
            let done = next.load(Ordering::Relaxed);
            let mut tally = tally.lock().unwrap_or_else(|e| e.into_inner());
            if let Err(violation) = judged {
                println!("{damage}: {violation}");
                tally.add(&damage.to_string(), &violation);
            }
            if done % 1_000 == 0 {
                let seconds = started.elapsed().as_secs_f64();
                println!("{done} of {} regions in {seconds:.0} s, {} findings", all.len(), tally.len());
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.threads).map(|_| scope.spawn(work)).collect();
        let ended =
            threads.into_iter().map(|t| t.join().unwrap_or(Err(std::io::Error::other("a thread ended"))));
        ended.collect::<std::io::Result<Vec<()>>>()
    })?;
    println!("{} regions in {:.0} s", all.len(), started.elapsed().as_secs_f64());
    Ok(tally.into_inner().unwrap_or_else(|e| e.into_inner()))
}
