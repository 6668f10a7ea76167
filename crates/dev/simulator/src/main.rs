//! `simulate`: the simulator's command line. `scripts/simulate` shows its use.

mod memory;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::Parser;
use posthaste_simulator::actor::{ActorPaths, act};
use posthaste_simulator::damage::{Sample, Sweep, child};
use posthaste_simulator::driver::Strict;
use posthaste_simulator::process::visitor;
use posthaste_simulator::report::Tally;
use posthaste_simulator::run::{Settings, run};

/// Searches for crashes after which the embedded store breaks its promises.
#[derive(Parser, Debug)]
#[command(args_override_self = true)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Check only this state of the first seed, and print its story.
    #[arg(long)]
    state: Option<usize>,
    /// With --state: the directory for the files of that state, each try under its own name.
    #[arg(long, requires = "state")]
    keep: Option<PathBuf>,
    /// Number of different states to check, over as many seeds as that takes.
    #[arg(long, default_value_t = 10_000)]
    states: usize,
    /// Processes that run at the same time.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The distance from one seed to the next.
    #[arg(long, default_value_t = 1, hide = true)]
    step: u64,
    /// For the simulator's own use: one of its processes.
    #[arg(long, hide = true)]
    worker: bool,
    /// Allow a rebuild after a crash to find faults; it is forced then.
    #[arg(long)]
    lenient_rebuild: bool,
    /// Kill processes only: no power cut.
    #[arg(long)]
    no_power: bool,
    /// Changes of names survive in order only.
    #[arg(long)]
    no_posix_names: bool,
    /// Let no operation fail.
    #[arg(long)]
    no_faults: bool,
    /// Never rebuild the index.
    #[arg(long)]
    no_rebuild: bool,
    /// Rebuild the index at once after one state in this many; all others are rebuilt later, by
    /// chance.
    #[arg(long, default_value_t = 1)]
    rebuild_at_once: u64,
    /// Make no cut before anything was acknowledged.
    #[arg(long)]
    from_first_answer: bool,
    /// Damage every region of every file of a small store instead.
    #[arg(long)]
    damage: bool,
    /// Bytes of a region.
    #[arg(long, default_value_t = 64)]
    region: usize,
    /// Damage one region in this many.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Run no second process.
    #[arg(long)]
    no_visitor: bool,
    /// Seeds of 100 in which several processes write to the store and copy it at the same time.
    #[arg(long, default_value_t = 40)]
    together: usize,
    /// For the simulator's own use: one of several processes, by its number.
    #[arg(long, hide = true, requires_all = ["root", "sink", "gate"])]
    actor: Option<usize>,
    /// The store of such a process.
    #[arg(long, hide = true)]
    root: Option<PathBuf>,
    /// The socket at which it waits for permission before each operation.
    #[arg(long, hide = true)]
    gate: Option<PathBuf>,
    /// For the simulator's own use: the second process, on this store.
    #[arg(long, hide = true, requires = "sink")]
    visitor: Option<PathBuf>,
    /// The file to which the second process writes its operations.
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
            rebuild_at_once: self.rebuild_at_once,
            together: self.together,
            visitor: std::env::current_exe().ok().filter(|_| !self.no_visitor),
            strict: if self.lenient_rebuild { Strict::No } else { Strict::Yes },
            from_first_answer: self.from_first_answer,
            keep: self.keep.clone(),
            ..Settings::all()
        }
    }
}

fn main() -> std::io::Result<()> {
    memory::keep_zeroes_cheap();
    let arguments = Arguments::parse();
    let settings = arguments.settings();
    if arguments.damage_child {
        return child(arguments.seed, &settings.base, settings.rebuild).map_err(std::io::Error::other);
    }
    if let (Some(number), Some(root), Some(sink), Some(gate)) =
        (arguments.actor, &arguments.root, &arguments.sink, &arguments.gate)
    {
        let place = ActorPaths { root, sink, gate };
        return act(&place, arguments.seed, number, arguments.expect_faults).map_err(std::io::Error::other);
    }
    if let (Some(root), Some(sink)) = (&arguments.visitor, &arguments.sink) {
        return visitor(root, sink, arguments.seed, arguments.expect_faults).map_err(std::io::Error::other);
    }
    let tally = if arguments.damage {
        damage(&arguments)?
    } else if let Some(state) = arguments.state {
        one(&arguments, state)?
    } else if arguments.worker {
        return work(&arguments);
    } else {
        crashes(&arguments)?
    };
    print!("{tally}");
    std::process::exit(i32::from(!tally.is_empty()));
}

/// Checks one state and prints its story.
fn one(arguments: &Arguments, state: usize) -> std::io::Result<Tally> {
    let outcome = run(arguments.seed, &arguments.settings(), Some(state))?;
    let mut tally = Tally::default();
    for finding in outcome.findings.into_iter().filter(|f| f.state == state) {
        println!("{}{}\n", finding.story, finding.violation);
        tally.add(&format!("seed {} state {state}", finding.seed), &finding.violation);
    }
    Ok(tally)
}

/// One worker: checks seeds in steps, and prints a line for each finding and each seed.
fn work(arguments: &Arguments) -> std::io::Result<()> {
    let settings = arguments.settings();
    let (mut states, mut seed) = (0, arguments.seed);
    while states < arguments.states {
        let outcome = run(seed, &settings, None)?;
        for f in &outcome.findings {
            println!("finding seed {} state {}: {}", f.seed, f.state, f.violation.replace('\n', " "));
        }
        println!("done {seed} {} {}", outcome.states, outcome.operations);
        states += outcome.states;
        seed += arguments.step;
    }
    Ok(())
}

/// Processes rather than threads. A new process has a copy of its parent's files for a moment, and
/// so the locks of all its threads.
fn crashes(arguments: &Arguments) -> std::io::Result<Tally> {
    let (mut tally, started) = (Tally::default(), Instant::now());
    let (send, lines) = std::sync::mpsc::channel();
    let mut workers = Vec::new();
    for n in 0..arguments.threads {
        let seed = arguments.seed + n as u64;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).arg("--worker");
        command.args(["--seed", &seed.to_string(), "--step", &arguments.threads.to_string()]);
        command.args(["--states", &arguments.states.div_ceil(arguments.threads).to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or_else(|| std::io::Error::other("no pipe"))?;
        workers.push(child);
        let send = send.clone();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.take_while(|line| send.send(line.clone()).is_ok()).for_each(drop);
        });
    }
    drop(send);
    let (mut states, mut operations, mut seeds) = (0, 0, 0);
    for line in lines {
        if let Some((place, violation)) = line.strip_prefix("finding ").and_then(|l| l.split_once(": ")) {
            println!("{place}: {violation}");
            tally.add(place, violation);
        } else if let Some(done) = line.strip_prefix("done ") {
            let numbers: Vec<usize> = done.split(' ').filter_map(|n| n.parse().ok()).collect();
            let [seed, new, ops] = numbers[..] else { continue };
            if states / 1_000 != (states + new) / 1_000 {
                let seconds = started.elapsed().as_secs_f64();
                println!(
                    "{} states in {seconds:.0} s, {} findings, at seed {seed}",
                    states + new,
                    tally.len()
                );
            }
            (states, operations, seeds) = (states + new, operations + ops, seeds + 1);
        }
    }
    for mut worker in workers {
        let status = worker.wait()?;
        if !status.success() {
            tally.add("a worker", &format!("a worker ended: {status}"));
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{states} states, {operations} operations, {seeds} seeds in {seconds:.0} s");
    Ok(tally)
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
