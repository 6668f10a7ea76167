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
use posthaste_load_report::files;
use posthaste_load_results::{Results, StudyResult};
use posthaste_load_study::Which;
use posthaste_load_study::{BUILTIN, Length, Options, Plan, Study, add, conduct, expand, load, may_add};
use posthaste_load_text::quantity::{self, show_bytes};
use posthaste_load_workload::Protocol;

use crate::command_line::command_line;
use crate::run::default_threads;
use crate::server::read_token;
use crate::trouble::Trouble;

/// Flags of `study`.
#[derive(Args)]
pub struct StudyArgs {
    /// A built-in study (item-count, mailbox-size, koka, memory, pop3, compare, operations,
    /// regress, storage-format) or a file.
    #[arg(value_name = "NAME-OR-FILE")]
    name: String,
    /// A version that takes minutes and has the same shape.
    #[arg(long)]
    quick: bool,
    /// A version that takes seconds, to see that the study works here. Its figures mean nothing.
    #[arg(long, conflicts_with = "quick")]
    shortest: bool,
    /// Print the study's steps and how long they take, and exit.
    #[arg(long)]
    plan: bool,
    /// Print the study's file, as a start for your own, and exit.
    #[arg(long)]
    show: bool,
    /// Servers under test, in order; ratios are to the first. The study starts and stops posthaste,
    /// dovecot (dovecot-mdbox, dovecot-maildir, dovecot-mbox, dovecot-tuned), cyrus and courier;
    /// NAME=/path/to/posthaste is another build of Posthaste.
    /// NAME=imap://HOST:PORT[,imap://NODE:PORT][,pop3://HOST:PORT][,lmtp://HOST:PORT][,pid=N]
    /// [,agent=HOST:PORT] is a running server, with its nodes. It must have the accounts that
    /// --plan names, all with the password `measured`.
    #[arg(long = "server", value_name = "SERVER", default_value = "posthaste", value_delimiter = ' ')]
    servers: Vec<Which>,
    /// Keep servers to this many processors, and the instrument to the others. CPU in percent is
    /// then of the server's own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    server_cpus: Option<u32>,
    /// File with the token that the agents of --server know.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Measure each point so often instead of as the study says; servers take turns.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: Option<u32>,
    /// Start users over this time instead of the study's.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    ramp: Option<Duration>,
    /// Count nothing for this time instead of the study's.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    warmup: Option<Duration>,
    /// Measure for this time instead of the study's: the articles measured 20m and 1h.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    measure: Option<Duration>,
    /// The `posthaste` to start [default: the one beside this program, or in PATH].
    #[arg(long, value_name = "FILE")]
    posthaste: Option<PathBuf>,
    /// Write results.json, CSV and report.html into this directory [default: study-NAME].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite existing files in it.
    #[arg(long, conflicts_with = "add")]
    force: bool,
    /// Add the rounds to the result in --out, so that a long study is measured in several sittings,
    /// say by --rounds 1. The study, its windows, the servers' versions and the processor must be
    /// the same.
    #[arg(long)]
    add: bool,
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
pub fn main(args: &StudyArgs) -> Result<(), Trouble> {
    if args.show
        && let Some((_, text)) = BUILTIN.iter().find(|(name, _)| *name == args.name)
    {
        print!("{text}");
        return Ok(());
    }
    let study = named(args)?;
    if args.show {
        print!("{}", study.source);
        return Ok(());
    }
    let names: Vec<String> = expand(&study, &args.servers).iter().map(|s| s.name().to_owned()).collect();
    if (1..names.len()).any(|n| names[..n].contains(&names[n])) {
        return Err(Trouble::usage("two servers have the same name"));
    }
    let plan = Plan::of(&study, machine::facts(None).cpus);
    if args.plan {
        print!("{}", plan.describe(&study, &names));
        return Ok(());
    }
    let agent_token = args.token_file.as_deref().map(read_token).transpose()?;
    refuse(&study, args, agent_token.as_deref()).map_err(Trouble::usage)?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("study-{}", study.name)));
    let earlier = if args.add { Some(earlier(&out, &study)?) } else { None };
    files::prepare(&out, args.force || args.add).map_err(Trouble::failed)?;
    if !args.quiet {
        eprint!("{}", plan.describe(&study, &names));
    }
    let temporary = match &args.work {
        Some(_) => None,
        None => Some(Temporary::new().map_err(Trouble::failed)?),
    };
    let folder = match (&args.work, &temporary) {
        (Some(folder), _) => folder.clone(),
        (None, Some(temporary)) => temporary.0.clone(),
        (None, None) => PathBuf::new(),
    };
    let starts = args.servers.iter().any(|s| !matches!(s, Which::Running(_)));
    if starts && let Err(why) = room(plan.disk_bytes_of(&study, names.len()), &folder) {
        // A folder named by the user may contain some of it already.
        if temporary.is_some() {
            return Err(Trouble::failed(why));
        }
        eprintln!("note: {why}");
    }
    let options = Options {
        servers: args.servers.clone(),
        folder,
        keep: args.work.is_some(),
        posthaste: args.posthaste.clone(),
        server_cpus: args.server_cpus,
        agent_token,
        command: command_line(),
        threads: args.threads.unwrap_or_else(default_threads),
        seed: args.seed,
        live: !args.quiet,
    };
    let mut result = conduct(&study, &options).map_err(Trouble::failed)?;
    if let Some(earlier) = earlier {
        result = add_or_keep(&out, earlier, &study, result)?;
    }
    let clean = result.points.iter().all(|p| p.run.as_ref().is_ok_and(|r| r.outcome.clean));
    for finding in &result.analysis.findings {
        println!("{finding}");
    }
    files::write(&out, &Results::Study(Box::new(result))).map_err(Trouble::failed)?;
    println!("report: {}", out.join("report.html").display());
    if clean {
        Ok(())
    } else {
        Err(Trouble::failed("some points had errors or could not be measured: see the report"))
    }
}

/// The study with the rounds and times of the flags.
fn named(args: &StudyArgs) -> Result<Study, Trouble> {
    let length = match (args.shortest, args.quick) {
        (true, _) => Length::Shortest,
        (false, true) => Length::Quick,
        (false, false) => Length::Full,
    };
    let mut study = load(&args.name, length).map_err(Trouble::usage)?;
    study.rounds = args.rounds.unwrap_or(study.rounds);
    study.times.ramp = args.ramp.unwrap_or(study.times.ramp);
    study.times.warmup = args.warmup.unwrap_or(study.times.warmup);
    study.times.measure = args.measure.unwrap_or(study.times.measure);
    Ok(study)
}

/// The result to which rounds are added.
fn earlier(out: &Path, study: &Study) -> Result<StudyResult, Trouble> {
    let Results::Study(earlier) = files::read(out).map_err(Trouble::usage)? else {
        return Err(Trouble::usage(format!("{} has the result of a run, and of no study", out.display())));
    };
    may_add(&earlier, study, &machine::facts(None).cpu_model).map_err(Trouble::usage)?;
    Ok(*earlier)
}

/// Both results as one. If they do not belong together, the later one is written beside the other.
fn add_or_keep(
    out: &Path,
    earlier: StudyResult,
    study: &Study,
    later: StudyResult,
) -> Result<StudyResult, Trouble> {
    let why = match add(earlier, study, later.clone()) {
        Ok(result) => return Ok(result),
        Err(why) => why,
    };
    let mut beside = out.as_os_str().to_owned();
    beside.push("-not-added");
    let beside = PathBuf::from(beside);
    files::write(&beside, &Results::Study(Box::new(later))).map_err(Trouble::failed)?;
    Err(Trouble::failed(format!("not added: {why}; these rounds are in {}", beside.display())))
}

/// Refuses what could only be a run of errors: a server that already runs and lacks what the study
/// needs, or answers in another protocol.
fn refuse(study: &Study, args: &StudyArgs, token: Option<&str>) -> Result<(), String> {
    let dialer = Dialer::new(Trust::Anyone, PATIENCE).map_err(|e| e.to_string())?;
    let pop3 = study.workloads.iter().find(|workload| workload.protocol == Protocol::Pop3);
    for which in &args.servers {
        let Which::Running(running) = which else { continue };
        let name = &running.name;
        if let (Some(workload), None) = (pop3, &running.pop3) {
            return Err(format!(
                "the workload {} speaks POP3, and {name} has no address for it: add pop3://HOST:PORT",
                workload.name
            ));
        }
        if running.agent.is_some() && token.is_none() {
            return Err(format!("{name} names an agent: its token is needed, by --token-file FILE"));
        }
        refuse_wrong_protocols(&dialer, running.targets())?;
    }
    Ok(())
}

/// Longest wait for a greeting's connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the disk has room for this many bytes of mail.
pub fn room(needed: u64, folder: &Path) -> Result<(), String> {
    let Some(free) = machine::free_bytes(folder) else { return Ok(()) };
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
        let path = std::env::temp_dir().join(format!("posthaste-study-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        interrupt::on_exit_remove(&path);
        // Servers run as other users and must pass through. The umask must not prevent it.
        std::fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        interrupt::removed(&self.0);
    }
}
