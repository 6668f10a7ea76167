//! `hostile`: every attack against a server of its own, as a table. `scripts/hostile` builds both.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use posthaste_hostile::{ATTACKS, Attack, Limits, Row, Rules, Scale, Stage, try_attack};
use posthaste_testkit::ServerBuilder;

/// Attacks a server of its own in every way that is known here, one after the other, and prints a
/// table.
///
/// A well-behaved neighbour lists its mailbox of 200 messages all the while. For each attack the
/// table has the server's answer. It has the neighbour's times: the median and the worst, and
/// without the waits of both for a processor what 99 of 100 took, and the worst. Each row also has
/// the figures of ten seconds in which it was alone: before the attacks, or right after this one if
/// they were slower and the row would break a rule. A processor may change its speed. Then come the
/// server's memory above its level just before, and the bound of that. Then comes the CPU time that
/// the server took after the attacker had left. Last is the longest poll of a session or background
/// task: the CPU time of its thread, if it was over 5 ms.
///
/// An attack is held if the server lives. Somebody else must have logged in and got a message
/// during it, and can log in afterwards. Each listing must have been right, and memory must have
/// stayed in its bound. Without --quick the times count as well. A first login during `logins` or
/// `together`, which takes a hash, may take 4 s. The median, and the other times without waits,
/// are at most --factor times those alone. 99 of 100 may take --turns more, and the worst
/// --grain. CPU afterwards is at most --cpu-after, and no poll takes over --poll. The attackers'
/// own threads run at nice 10, since a real attacker computes elsewhere.
///
/// With --quick, an attack that is too small to break its rule is not judged. Its row says so.
///
/// Exit status: 0 if all were held, 1 if not, 2 if it could not be tried.
#[derive(Parser, Debug)]
#[command(
    name = "hostile",
    after_help = "ENVIRONMENT\n  POSTHASTE_BINARY  the server, as --binary\n\nEXAMPLES\n  scripts/hostile                          all of it, some minutes\n  scripts/hostile --only search --only list\n  scripts/hostile --quick                  under a minute; answers and memory only"
)]
struct Arguments {
    /// The server's program.
    #[arg(long, default_value = "target/release/posthaste")]
    binary: PathBuf,
    /// Only this attack; may be given more than once.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Less of everything, and no times: what the test command does.
    #[arg(long)]
    quick: bool,
    /// How many times as long as alone the neighbour may wait.
    #[arg(long, default_value_t = Limits::FACTOR)]
    factor: f64,
    /// Milliseconds by which 99 of 100 listings may be over that: turns of the other sessions.
    #[arg(long, default_value_t = Limits::TURNS_MS)]
    turns: u64,
    /// Milliseconds by which its worst may be over that: turns of the processor that attacker and
    /// server share here.
    #[arg(long, default_value_t = Limits::GRAIN_MS)]
    grain: u64,
    /// Milliseconds of CPU that the server may take after the attacker left. The space of 50,000
    /// expunged messages is freed then, in 300 to 600.
    #[arg(long, default_value_t = 1000)]
    cpu_after: u64,
    /// Milliseconds of CPU that one poll of the server may take, 5 at least.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(5..))]
    poll: u64,
    /// Only list the attacks.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if let Some(binary) = std::env::var_os("POSTHASTE_BINARY") {
        arguments.binary = binary.into();
    }
    if arguments.list {
        ATTACKS.iter().for_each(|attack| println!("{:14} {}", attack.name, attack.what));
        return ExitCode::SUCCESS;
    }
    if let Some(name) = arguments.only.iter().find(|name| !ATTACKS.iter().any(|a| a.name == **name)) {
        eprintln!("hostile: there is no attack {name:?}; hostile --list says which there are");
        return ExitCode::from(2);
    }
    if !arguments.binary.is_file() {
        eprintln!(
            "hostile: there is no {}; build it, or name another with --binary",
            arguments.binary.display()
        );
        return ExitCode::from(2);
    }
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("hostile: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all attacks were held.
fn run(arguments: &Arguments) -> std::io::Result<bool> {
    // Thousands of logins are not worth a line each here; warnings are. The attacker has one
    // account, and some attacks need hundreds of sessions.
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("hostile.toml");
    let rest = "[log]\nlevel = \"warn\"\nlong_polls = \"5 ms\"\n[limits]\naccount_connections = 0\n";
    let dns = Stage::name_server();
    std::fs::write(&config, Stage::settings(&dns) + rest)?;
    let server = ServerBuilder::new(&arguments.binary).arg("--config").arg(config.to_string_lossy());
    let server = Stage::listen(server).start();
    let scale = if arguments.quick { Scale::Quick } else { Scale::Full };
    let stage = Stage::new(server, scale)?;
    let rules = if arguments.quick { Rules::Counts } else { times(arguments, &stage)? };
    println!("{}", Row::HEAD);
    let mut held = true;
    let wanted =
        |attack: &&Attack| arguments.only.is_empty() || arguments.only.iter().any(|name| name == attack.name);
    for attack in ATTACKS.iter().filter(wanted) {
        let row = try_attack(&stage, attack, &rules);
        held &= row.faults.is_empty();
        println!("{row}");
        if !stage.is_alive() {
            break;
        }
    }
    Ok(held)
}

/// Measures the neighbour alone. From then on this thread, and those that it starts, have a lower
/// priority.
fn times(arguments: &Arguments, stage: &Stage) -> std::io::Result<Rules> {
    let alone = stage.neighbour.alone();
    // On Linux this is about the calling thread alone.
    rustix::process::setpriority_process(None, 10)?;
    Ok(Rules::Times {
        alone,
        limits: Limits {
            factor: arguments.factor,
            turns: Duration::from_millis(arguments.turns),
            grain: Duration::from_millis(arguments.grain),
        },
        cpu_after: Duration::from_millis(arguments.cpu_after),
        poll: Duration::from_millis(arguments.poll),
    })
}
