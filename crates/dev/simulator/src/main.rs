//! `simulate`: the simulator by command line. `scripts/simulate` says how it is used.

use clap::Parser;
use posthaste_simulator::run::{Finding, Settings, run};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;
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
    #[arg(long, default_value_t = 1_000)]
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
    /// Stop at the first finding.
    #[arg(long)]
    first: bool,
}

impl Arguments {
    fn settings(&self) -> Settings {
        Settings {
            power: !self.no_power,
            posix_names: !self.no_posix_names,
            faults: !self.no_faults,
            rebuild: !self.no_rebuild,
            ..Settings::all()
        }
    }
}

/// A finding's words without its numbers, to count those of one kind.
fn kind(finding: &Finding) -> String {
    let long = |word: &str| word.len() > 20 || word.contains("/posthaste-simulator");
    let words = finding.violation.split(' ').filter(|word| !long(word)).collect::<Vec<_>>().join(" ");
    let mut text: String = words.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
    while text.contains("##") {
        text = text.replace("##", "#");
    }
    while text.contains("(#, #), (#, #)") {
        text = text.replace("(#, #), (#, #)", "(#, #)");
    }
    text.chars().take(100).collect()
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let settings = arguments.settings();
    if let Some(state) = arguments.state {
        let outcome = run(arguments.seed, &settings, Some(state))?;
        for finding in outcome.findings.iter().filter(|f| f.state == state) {
            println!("seed {} state {}\n{}{}\n", finding.seed, finding.state, finding.story, finding.violation);
        }
        std::process::exit(i32::from(!outcome.findings.is_empty()));
    }
    let (next, states, operations) = (AtomicU64::new(arguments.seed), AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    let findings = Mutex::new(Vec::new());
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                while states.load(Ordering::Relaxed) < arguments.states && !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    match run(seed, &settings, None) {
                        Ok(outcome) => {
                            let before = states.fetch_add(outcome.states, Ordering::Relaxed);
                            operations.fetch_add(outcome.operations, Ordering::Relaxed);
                            let now = before + outcome.states;
                            for f in &outcome.findings {
                                println!("seed {} state {}: {}", f.seed, f.state, f.violation);
                            }
                            if before / 1_000 != now / 1_000 {
                                println!("{now} states after {:.0} s, seed {seed}", started.elapsed().as_secs_f64());
                            }
                            if arguments.first && !outcome.findings.is_empty() {
                                stop.store(true, Ordering::Relaxed);
                            }
                            findings.lock().unwrap_or_else(|e| e.into_inner()).extend(outcome.findings);
                        }
                        Err(error) => {
                            println!("seed {seed} could not be run: {error}");
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let findings = findings.into_inner().unwrap_or_else(|e| e.into_inner());
    let mut kinds: BTreeMap<String, (usize, u64, usize)> = BTreeMap::new();
    for finding in &findings {
        kinds.entry(kind(finding)).or_insert((0, finding.seed, finding.state)).0 += 1;
    }
    for (kind, (count, seed, state)) in &kinds {
        println!("{count} times (seed {seed} state {state}): {kind}");
    }
    println!(
        "{} states, {} operations, {} seeds in {:.0} s: {} findings",
        states.load(Ordering::Relaxed),
        operations.load(Ordering::Relaxed),
        next.load(Ordering::Relaxed) - arguments.seed,
        started.elapsed().as_secs_f64(),
        findings.len()
    );
    std::process::exit(i32::from(!findings.is_empty()));
}
