//! `posthaste-load study`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use posthaste_imap_client::net::{Dialer, Trust};
use posthaste_load_drive::interrupt;
use posthaste_load_drive::run::refuse_wrong_protocols;
use posthaste_load_measure::machine;
use posthaste_load_report::{command_to_type, files};
use posthaste_load_results::{Results, StudyResult};
use posthaste_load_study::{
    BUILTIN, Cassandra, CassandraPlace, Course, Data, Length, Options, Plan, ServerChoice, Study, Versions,
    Watched,
};
use posthaste_load_study::{conduct_on, expand, load, may_begin, may_resume, refuse_lacking};
use posthaste_load_text::quantity::{self, show_bytes, show_duration};

use crate::command_line::command_line;
use crate::failure::Failure;
use crate::run::default_threads;
use crate::server::read_token;

/// Flags of `study`.
#[derive(Args)]
pub struct StudyArgs {
    /// A built-in study (item-count, mailbox-size, koka, memory, pop3, compare, operations,
    /// regress, storage-format, scale-out, online-and-cached) or a file.
    #[arg(value_name = "NAME-OR-FILE")]
    name: String,
    /// A version that takes minutes and has the same shape.
    #[arg(long)]
    quick: bool,
    /// A version that takes seconds, to see that the study works here. Its figures mean nothing.
    #[arg(long, conflicts_with = "quick")]
    shortest: bool,
    /// Print the study's steps, how long it takes, and how much disk it needs, and exit.
    #[arg(long)]
    plan: bool,
    /// Print the study's file, as a start for your own, and exit.
    #[arg(long)]
    show: bool,
    /// Servers under test, in order; ratios are to the first. The study starts and stops
    /// posthaste, dovecot (dovecot-mdbox, dovecot-maildir, dovecot-mbox, dovecot-tuned,
    /// dovecot-zstd, dovecot-files, dovecot-sis, dovecot-crypt), cyrus and courier;
    /// NAME=/path/to/posthaste is another build of Posthaste.
    /// NAME=imap://HOST:PORT[,imap://NODE:PORT][,pop3://HOST:PORT][,lmtp://HOST:PORT]
    /// [,submission://HOST:PORT][,pid=N][,agent=HOST:PORT] is a running server, with its nodes.
    /// Each of several nodes may have its agent or pid, in their order. Mail arrives by lmtp://
    /// or smtp://, and users send by submission:// (STARTTLS), submissions:// (TLS) or
    /// submission+plain://, with a login. It must have the accounts that --plan names, all with
    /// the password `measured`.
    #[arg(long = "server", value_name = "SERVER", default_value = "posthaste", value_delimiter = ' ')]
    servers: Vec<ServerChoice>,
    /// Keep servers to this many processors, and the instrument to the others. CPU in percent is
    /// then of the server's own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    server_cpus: Option<u32>,
    /// The Apache Cassandra of a study that sweeps nodes: [cassandra://][USER@]HOST[:PORT][,HOST…]
    /// and options as of `posthaste --engine`. The study makes a keyspace of its own there, with a
    /// replica for each HOST, at most three. The keyspace stays; its name begins with
    /// posthaste_study_.
    #[arg(long, value_name = "ADDRESS")]
    cassandra: Option<CassandraPlace>,
    /// Measure the cost of these processes of Cassandra, on this machine.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    cassandra_pid: Vec<u32>,
    /// Measure the cost of Cassandra's nodes by these agents on their machines.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', requires = "token_file")]
    cassandra_agent: Vec<String>,
    /// File with the token that the agents of --server and --cassandra-agent know.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Measure each point this many times instead of the study's; servers take turns.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: Option<u32>,
    /// Start users over this time instead of the study's.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    ramp: Option<Duration>,
    /// Count nothing for this time instead of the study's.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    warmup: Option<Duration>,
    /// Measure for this time instead of the study's: the articles measured 20m and 1h.
    #[arg(long, value_name = "TIME", value_parser = quantity::length)]
    measure: Option<Duration>,
    /// The `posthaste` to start [default: the one beside this program, or in PATH].
    #[arg(long, value_name = "FILE")]
    posthaste: Option<PathBuf>,
    /// Write results.json, CSV and report.html into this directory [default: study-NAME].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite existing files in it.
    #[arg(long, conflicts_with_all = ["resume", "add_rounds"])]
    force: bool,
    /// Continue the study in --out. Its points are kept, and the others are measured. Without a
    /// result there, the study begins. Everything is saved after each point, so a study that was
    /// stopped or killed has all its points except the one in progress.
    ///
    /// The study's file, its length and times, the servers with their settings, and the machine
    /// must be the same. Otherwise it ends with an error that says what differs, and measures
    /// nothing.
    #[arg(long)]
    resume: bool,
    /// Continue the study in --out, and measure N more rounds. Medians, least and greatest are
    /// then of all rounds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    add_rounds: Option<u32>,
    /// Begin no point that would end later than this after the start. Then write the report of
    /// the points so far, and exit with 3; --resume continues. Servers that take turns at a point
    /// are all measured at it, or none. Installing and filling servers counts.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    max_time: Option<Duration>,
    /// Continue although a server, one of its settings or the kernel is not as in the result. The
    /// report names all versions. Figures of one cell may then be of several versions.
    #[arg(long)]
    mix_versions: bool,
    /// Keep servers' data here instead of in a temporary directory that is removed at the end.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Seed of everything random: the same seed sends the same requests.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads of the generator [default: half the processors].
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print nothing while running.
    #[arg(long)]
    quiet: bool,
}

/// Runs the study.
pub fn main(args: &StudyArgs) -> Result<(), Failure> {
    if args.show
        && let Some((_, text)) = BUILTIN.iter().find(|(name, _)| *name == args.name)
    {
        print!("{text}");
        return Ok(());
    }
    let mut study = named(args)?;
    if args.show {
        print!("{}", study.source);
        return Ok(());
    }
    let names: Vec<String> = expand(&study, &args.servers).iter().map(|s| s.name().to_owned()).collect();
    if let Some(n) = (1..names.len()).find(|n| names[..*n].contains(&names[*n])) {
        return Err(Failure::usage(format!(
            "--server: `{}` occurs twice: name one of them NAME=…",
            names[n]
        )));
    }
    refuse_lacking(&study, &args.servers).map_err(Failure::usage)?;
    let plan = Plan::of(&study, machine::facts(None).cpus);
    if args.plan {
        print!("{}", described(args, &study, &plan));
        if let Err(why) = room(disk_bytes(args, &study, &plan), &place(args)) {
            println!("note: {why}");
        }
        return Ok(());
    }
    let agent_token = args.token_file.as_deref().map(read_token).transpose()?;
    refuse(args, agent_token.as_deref()).map_err(Failure::usage)?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("study-{}", study.name)));
    let earlier = earlier(args, &out)?;
    study.rounds = rounds(args, &study, earlier.as_ref())?;
    let temporary = match &args.work {
        Some(_) => None,
        None => Some(Temporary::new().map_err(Failure::failed)?),
    };
    let options = options(args, temporary.as_ref(), agent_token);
    may_begin(&study, &options).map_err(Failure::usage)?;
    refuse_small_disk(args, disk_bytes(args, &study, &plan)).map_err(Failure::failed)?;
    if let Some(earlier) = &earlier {
        let versions = if args.mix_versions { Versions::Mixed } else { Versions::Same };
        may_resume(earlier, &study, &options, versions).map_err(Failure::usage)?;
    } else {
        files::prepare(&out, args.force).map_err(Failure::failed)?;
    }
    if !args.quiet {
        eprint!("{}", described(args, &study, &plan));
    }
    measure(args, &out, &study, &options, earlier)
}

/// The plan in words, with the time and the disk that all of it takes.
fn described(args: &StudyArgs, study: &Study, plan: &Plan) -> String {
    let servers = expand(study, &args.servers);
    let names: Vec<String> = servers.iter().map(|which| which.name().to_owned()).collect();
    plan.describe(study, &names) + &plan.totals(study, names.len(), disk_bytes(args, study, plan))
}

/// Bytes of disk for the servers that the study starts.
fn disk_bytes(args: &StudyArgs, study: &Study, plan: &Plan) -> u64 {
    let servers = expand(study, &args.servers);
    let started = servers.iter().filter(|which| which.is_started_here()).count();
    let data = if args.work.is_some() { Data::Kept } else { Data::Removed };
    plan.disk_bytes_of(study, started, data)
}

/// The folder in which servers keep their data, or the one above it.
fn place(args: &StudyArgs) -> PathBuf {
    args.work.clone().unwrap_or_else(std::env::temp_dir)
}

/// Refuses a study whose servers do not fit on the disk.
fn refuse_small_disk(args: &StudyArgs, needed: u64) -> Result<(), String> {
    let folder = place(args);
    let enough = room(needed, &folder);
    if let Err(why) = &enough
        && args.work.is_some()
        && has_entries(&folder)
    {
        // Data of an earlier study may be among them, and this one replaces it.
        eprintln!("note: {why}");
        return Ok(());
    }
    enough
}

fn has_entries(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// The options of the flags.
fn options(args: &StudyArgs, temporary: Option<&Temporary>, agent_token: Option<String>) -> Options {
    let folder = args.work.clone().or_else(|| temporary.map(|temporary| temporary.0.clone()));
    Options {
        servers: args.servers.clone(),
        folder: folder.unwrap_or_default(),
        keep: args.work.is_some(),
        posthaste: args.posthaste.clone(),
        server_cpus: args.server_cpus,
        agent_token,
        cassandra: cassandra(args),
        command: command_line(),
        threads: args.threads.unwrap_or_else(default_threads),
        seed: args.seed,
        live: !args.quiet,
    }
}

/// The Cassandra of the flags.
fn cassandra(args: &StudyArgs) -> Cassandra {
    let processes = args.cassandra_pid.iter().map(|pid| Watched::process(*pid));
    let agents = args.cassandra_agent.iter().map(|address| Watched::by_agent(address));
    Cassandra { place: args.cassandra.clone(), watched: processes.chain(agents).collect() }
}

/// The result to continue, if there is one.
fn earlier(args: &StudyArgs, out: &Path) -> Result<Option<StudyResult>, Failure> {
    if !args.resume && args.add_rounds.is_none() {
        return Ok(None);
    }
    if !files::has_results(out) {
        return match args.add_rounds {
            None => Ok(None),
            Some(_) => {
                let out = out.display();
                Err(Failure::usage(format!("{out} has no result to add rounds to: begin it by --resume")))
            }
        };
    }
    match files::read(out).map_err(Failure::usage)? {
        Results::Study(earlier) => Ok(Some(*earlier)),
        Results::Run(_) => {
            Err(Failure::usage(format!("{} has the result of a run, and of no study", out.display())))
        }
    }
}

/// The number of rounds when the study ends.
fn rounds(args: &StudyArgs, study: &Study, earlier: Option<&StudyResult>) -> Result<u32, Failure> {
    let Some(earlier) = earlier else { return Ok(study.rounds) };
    let before = earlier.rounds;
    let wanted = args.rounds.unwrap_or(before);
    if wanted < before {
        return Err(Failure::usage(format!(
            "the result is of {before} rounds, and --rounds {wanted} is fewer: leave the flag out, or name more"
        )));
    }
    match wanted + args.add_rounds.unwrap_or(0) {
        rounds @ ..=ROUNDS_MAX => Ok(rounds),
        rounds => Err(Failure::usage(format!("a study has at most {ROUNDS_MAX} rounds, and not {rounds}"))),
    }
}

/// Most rounds of a study.
const ROUNDS_MAX: u32 = 99;

/// Measures, saves after each point, and writes the report.
fn measure(
    args: &StudyArgs,
    out: &Path,
    study: &Study,
    options: &Options,
    earlier: Option<StudyResult>,
) -> Result<(), Failure> {
    let before = earlier.as_ref().map(|earlier| earlier.sittings.len());
    let save = |result: &StudyResult| {
        if let Err(why) = files::save(out, &Results::Study(Box::new(result.clone()))) {
            eprintln!("note: {why}; what was measured is not saved until the next point");
        }
    };
    let course = Course { earlier, save: Box::new(save), max_time: args.max_time };
    let result = conduct_on(study, options, course).map_err(Failure::failed)?;
    let clean = result.points.iter().all(|p| p.run.as_ref().is_ok_and(|r| r.outcome.clean));
    for finding in &result.analysis.findings {
        println!("{finding}");
    }
    let left = left_of(result.planned, result.unmeasured, result.simulations_left);
    let sittings = result.sittings.len();
    let took = result.took();
    let measured_now = result.sittings.get(before.unwrap_or(0)).map_or(0, |sitting| sitting.points);
    files::write(out, &Results::Study(Box::new(result))).map_err(Failure::failed)?;
    println!("report: {}", out.join("report.html").display());
    if let Some(took) = took {
        println!("filling and measuring took {}", show_duration(took));
    }
    if let Some(left) = left {
        if measured_now == 0 && args.max_time.is_some() {
            println!(
                "nothing was measured: --max-time is too short for filling and for a point of all servers"
            );
        }
        println!("not finished: {left}; go on with");
        println!("  {}", command_to_type(&going_on(command_line())));
        return Err(Failure::Undecided);
    }
    if before == Some(sittings) {
        println!("nothing was left to measure; --add-rounds N measures N more rounds");
    }
    if clean {
        Ok(())
    } else {
        Err(Failure::failed("some points had errors or could not be measured: see the report"))
    }
}

/// What is done and what is left of a study, in words. `None` if it is finished.
fn left_of(planned: usize, unmeasured: usize, simulations: usize) -> Option<String> {
    match (unmeasured, simulations) {
        (0, 0) => None,
        (0, _) => Some(format!(
            "all points are measured, and runs on a simulated processor are missing: {simulations}"
        )),
        _ => Some(format!("{} of {planned} points are measured", planned.saturating_sub(unmeasured))),
    }
}

/// The command that continues a study which this command began.
fn going_on(words: Vec<String>) -> Vec<String> {
    let mut words = words.into_iter();
    let mut command = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--force" | "--resume" => {}
            // The result has the planned number of rounds.
            "--add-rounds" => drop(words.next()),
            known if known.starts_with("--add-rounds=") => {}
            _ => command.push(word),
        }
    }
    command.push("--resume".into());
    command
}

/// The study with the rounds and times of the flags.
fn named(args: &StudyArgs) -> Result<Study, Failure> {
    let length = match (args.shortest, args.quick) {
        (true, _) => Length::Shortest,
        (false, true) => Length::Quick,
        (false, false) => Length::Full,
    };
    let mut study = load(&args.name, length).map_err(Failure::usage)?;
    study.rounds = args.rounds.unwrap_or(study.rounds);
    study.times.ramp = args.ramp.unwrap_or(study.times.ramp);
    study.times.warmup = args.warmup.unwrap_or(study.times.warmup);
    study.times.measure = args.measure.unwrap_or(study.times.measure);
    Ok(study)
}

/// Refuses a study that could only have errors: a server that already runs and has an agent without
/// a token, or answers in another protocol.
fn refuse(args: &StudyArgs, token: Option<&str>) -> Result<(), String> {
    let dialer = Dialer::new(Trust::Anyone, TIMEOUT).map_err(|e| e.to_string())?;
    for which in &args.servers {
        let ServerChoice::Running(running) = which else { continue };
        let name = &running.name;
        if running.watched().iter().any(|watched| watched.agent.is_some()) && token.is_none() {
            return Err(format!("{name} names an agent: its token is needed, by --token-file FILE"));
        }
        refuse_wrong_protocols(&dialer, running.targets())?;
    }
    Ok(())
}

/// Longest wait for a greeting's connection.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the disk has space for this many bytes of mail. The folder may not exist yet.
pub fn room(needed: u64, folder: &Path) -> Result<(), String> {
    let existing = folder.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
    let Some(free) = machine::free_bytes(existing) else { return Ok(()) };
    if free >= needed {
        return Ok(());
    }
    Err(format!(
        "the servers filled for this study take up to {}, and {} has {} free: name a folder on a larger disk by --work, or \
         take --quick",
        show_bytes(needed),
        folder.display(),
        show_bytes(free)
    ))
}

/// A directory with a short path (sockets' paths may have 107 bytes), removed at the end.
pub struct Temporary(pub PathBuf);

impl Temporary {
    /// Makes it.
    pub fn new() -> std::io::Result<Self> {
        let all = std::env::temp_dir();
        for left in left_over(&all) {
            eprintln!("note: a study that was killed has left {}: remove it", left.display());
        }
        let path = all.join(format!("{TEMPORARY}{}", std::process::id()));
        std::fs::create_dir(&path)?;
        interrupt::on_exit_remove(&path);
        // Servers run as other users and must pass through. The umask must not prevent it.
        std::fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(Self(path))
    }
}

/// The beginning of the names of temporary directories; the number of the process follows.
const TEMPORARY: &str = "posthaste-study-";

/// Temporary directories of processes that have ended.
fn left_over(all: &Path) -> Vec<PathBuf> {
    let ended = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let number = name.strip_prefix(TEMPORARY).and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| !Path::new(&format!("/proc/{number}")).exists())
    };
    let entries = std::fs::read_dir(all).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(ended).collect()
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        interrupt::removed(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_too_small_is_named_with_the_need() {
        let folder = tempfile::tempdir().unwrap();
        // Not there yet, as after --work DIR.
        for place in [folder.path().to_owned(), folder.path().join("new/work")] {
            let why = room(u64::MAX, &place).unwrap_err();
            assert!(why.contains("take up to") && why.contains("--work"), "{why}");
            assert!(why.contains(&place.display().to_string()), "{why}");
            assert_eq!(room(1, &place), Ok(()));
        }
        assert!(room(u64::MAX, Path::new("not-there")).is_err());
        assert!(!has_entries(folder.path()) && !has_entries(&folder.path().join("new")));
        std::fs::write(folder.path().join("store"), "").unwrap();
        assert!(has_entries(folder.path()));
    }

    #[test]
    fn the_data_of_a_killed_study_is_named_and_that_of_a_running_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let path = |number: u32| folder.path().join(format!("{TEMPORARY}{number}"));
        for number in [ended.id(), std::process::id()] {
            std::fs::create_dir(path(number)).unwrap();
        }
        std::fs::create_dir(folder.path().join("posthaste-study-mine")).unwrap();
        assert_eq!(left_over(folder.path()), [path(ended.id())]);
    }

    #[test]
    fn a_study_is_finished_with_its_last_point_and_its_last_simulation() {
        assert_eq!(left_of(8, 0, 0), None);
        assert_eq!(left_of(8, 3, 2).unwrap(), "5 of 8 points are measured");
        assert!(left_of(8, 0, 2).unwrap().ends_with("a simulated processor are missing: 2"));
    }

    #[test]
    fn the_command_that_goes_on_neither_begins_again_nor_adds_rounds_twice() {
        let said = |line: &str| going_on(line.split(' ').map(str::to_owned).collect()).join(" ");
        assert_eq!(
            said("posthaste-load study koka --force --out koka --max-time 1h"),
            "posthaste-load study koka --out koka --max-time 1h --resume"
        );
        assert_eq!(said("posthaste-load study x --resume --add-rounds 2"), "posthaste-load study x --resume");
        assert_eq!(
            said("posthaste-load study x --add-rounds=2 --quiet"),
            "posthaste-load study x --quiet --resume"
        );
    }
}
