//! `posthaste-load run`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use posthaste_load_drive::audit::{AuditOptions, audit, baseline};
use posthaste_load_drive::run::{
    Arrivals, Begin, ClusterOptions, Outside, Pools, RunOptions, SendBy, identify, refuse_wrong_protocols,
    run_from,
};
use posthaste_load_drive::{Scheme, Target};
use posthaste_load_measure::processors::{keep_to_the_last, keeps_to_the_first, of_its_own};
use posthaste_load_measure::{Reference, machine};
use posthaste_load_report::files;
use posthaste_load_results::{Results, RunResult, together};
use posthaste_load_text::quantity;
use posthaste_load_workload::{self as workload, Mix, Protocol, Think, Track, Workload};

use crate::command_line::command_line;
use crate::failure::Failure;
use crate::server::{AccountArgs, ConnectionArgs, WatchArgs, target};

/// Flags of `run`.
#[derive(Args)]
pub struct RunArgs {
    /// A built-in workload or mix of users (see `workload list`), or a file. In a mix --clients are
    /// split by its shares.
    #[arg(long, value_name = "NAME-OR-FILE")]
    pub workload: String,
    /// Another workload at the same time, and its virtual users: imaptest:25. Repeated for more.
    /// Its users get the accounts after those of the workloads before it.
    #[arg(long, value_name = "WORKLOAD:CLIENTS", value_parser = further_workload, conflicts_with_all = ["audit", "arrivals", "day"])]
    pub beside: Vec<FurtherWorkload>,
    /// The server: imap://HOST:PORT, imaps://… or imap+starttls://…. Repeated for several
    /// servers of the same accounts: clients are spread over them in turn. A client whose server is
    /// unreachable uses the next one.
    #[arg(long, value_name = "URL", required_unless_present = "pop3")]
    pub imap: Vec<String>,
    /// The server, for POP3 workloads: pop3://HOST:PORT, pop3s://… or pop3+starttls://….
    #[arg(long, value_name = "URL")]
    pub pop3: Option<String>,
    /// How users send mail: submission://HOST:PORT (with STARTTLS), submissions:// (TLS) or
    /// submission+plain://, with a login, or smtp:// or lmtp://. `append` uses an IMAP session of
    /// the recipient and APPEND.
    #[arg(long, value_name = "URL")]
    pub send: Option<String>,
    /// How mail from outside arrives: lmtp:// or smtp://HOST:PORT, or `append` [default: as
    /// --send].
    #[arg(long, value_name = "URL")]
    pub deliver: Option<String>,
    #[command(flatten)]
    accounts: AccountArgs,
    /// Virtual users [default: one per account].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: Option<u32>,
    /// Send mail only to this many of the first accounts [default: all]. Accounts beyond --clients
    /// only receive. Accounts beyond this number are registered and get no mail.
    #[arg(long, value_name = "N")]
    pub receiving: Option<u32>,
    /// Users of another server get a share of the mail that users send: DOMAIN:SHARE, for instance
    /// example.net:0.3. The server must send it on; see `sink`.
    #[arg(long, value_name = "DOMAIN:SHARE", value_parser = outside, requires = "send")]
    pub outside: Option<Outside>,
    /// Think time instead of the workload's: 4s, 0, 2s-18s (uniform) or exp:10s (exponential).
    #[arg(long, value_name = "TIME", value_parser = think)]
    pub think: Option<Think>,
    /// Open loop: tasks are due at this rate, however fast the server is (50/s, 3000/m), at random
    /// times. Response time counts from when a task was due.
    #[arg(long, value_name = "RATE", value_parser = quantity::rate)]
    pub arrivals: Option<f64>,
    /// Open loop by a simulated day of this length: tasks are spread evenly over it; see
    /// --tasks-per-user.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, conflicts_with = "arrivals", requires = "tasks_per_user")]
    pub day: Option<Duration>,
    /// Tasks of each user in the simulated day.
    #[arg(long, value_name = "N", requires = "day", conflicts_with_all = ["arrivals", "beside"])]
    pub tasks_per_user: Option<f64>,
    /// Spread the start of the virtual users over this time.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    pub ramp: Duration,
    /// Warm-up: after the start, nothing is counted for this time.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    pub warmup: Duration,
    /// Length of the measured window, after the warm-up.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = quantity::length)]
    pub measure: Duration,
    /// Begin the ramp at this time, so that generators on several machines measure one window:
    /// 2026-11-27T22:40:00Z, or seconds since 1970. With --agent it is the time of the agent's
    /// clock. Otherwise it is that of this machine's clock, which must be synchronised. See
    /// `merge`.
    #[arg(long, value_name = "TIME", value_parser = quantity::moment)]
    pub start_at: Option<f64>,
    /// Account for every message at the end: acknowledged ones exist exactly once, expunged ones
    /// do not exist.
    #[arg(long)]
    pub audit: bool,
    /// Count lost and refused connections, NO [UNAVAILABLE] and SMTP 4yz separately and not as
    /// errors: for runs in which servers are made to fail. Wrong answers and findings of the audit
    /// still count as errors.
    #[arg(long)]
    pub tolerate_outages: bool,
    /// Fetch and verify every body in the audit too.
    #[arg(long, requires = "audit")]
    pub audit_bodies: bool,
    #[command(flatten)]
    watch: WatchArgs,
    /// The server uses only the first N processors. The instrument uses the others.
    /// CPU in percent is then of the server's own. Start the server by `taskset -c 0-(N-1)`.
    #[arg(long, value_name = "N", requires = "server_pid", conflicts_with = "agent", value_parser = clap::value_parser!(u32).range(1..))]
    server_cpus: Option<u32>,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// The server's name in the report [default: its address].
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// Seed of everything random: the same seed sends the same requests.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Threads of the generator [default: half the processors].
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Write results.json, CSV files and report.html into this directory.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Overwrite existing files in it.
    #[arg(long)]
    pub force: bool,
    /// Show nothing while running.
    #[arg(long)]
    pub quiet: bool,
}

/// A workload that runs with the first one.
#[derive(Clone, Debug, PartialEq)]
pub struct FurtherWorkload {
    name: String,
    clients: u32,
}

/// `imaptest:25`.
fn further_workload(text: &str) -> Result<FurtherWorkload, String> {
    let wrong = || format!("`{text}` is not WORKLOAD:CLIENTS, for instance imaptest:25");
    let (name, clients) = text.rsplit_once(':').ok_or_else(wrong)?;
    let clients = clients.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
    Ok(FurtherWorkload { name: name.to_owned(), clients })
}

/// `4s`, `2s-18s`, `exp:10s`.
fn think(text: &str) -> Result<Think, String> {
    let seconds = |text: &str| quantity::duration(text).map(|d| d.as_secs_f64());
    match (text.strip_prefix("exp:"), text.split_once('-')) {
        (Some(mean), _) => Ok(Think::Exponential(seconds(mean)?)),
        (None, Some((low, high))) => Ok(Think::Uniform(seconds(low)?, seconds(high)?)),
        (None, None) => Ok(Think::Fixed(seconds(text)?)),
    }
}

/// `example.net:0.3`.
fn outside(text: &str) -> Result<Outside, String> {
    let wrong =
        || format!("`{text}` is not DOMAIN:SHARE with a share from 0 to 1, for instance example.net:0.3");
    let (domain, share) = text.rsplit_once(':').ok_or_else(wrong)?;
    let share: f64 = share.parse().map_err(|_| wrong())?;
    if domain.is_empty() || domain.contains('@') || !(0.0..=1.0).contains(&share) {
        return Err(wrong());
    }
    Ok(Outside { domain: domain.to_owned(), share, by: None })
}

/// Threads without --threads: half the processors, since the server may be on the same machine.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get() / 2).max(1)
}

/// Runs.
pub fn main(args: RunArgs) -> Result<(), Failure> {
    let mix = workload::load_mix(&args.workload).map_err(Failure::usage)?;
    let (options, audit_options) = options(&args, &mix)?;
    share_processors(&args)?;
    // Wrong usage leaves no folder.
    if let Some(out) = &args.out {
        files::prepare(out, args.force).map_err(Failure::failed)?;
    }
    let quiet = args.quiet;
    let server_says = identify(&options.dialer, &options.server);
    let begin = begin(&args, &options)?;
    let mut result = match args.beside.is_empty() && mix.kinds.len() == 1 {
        true => run_audited(options, audit_options.filter(|_| args.audit), &begin)?,
        false => run_several(&args, &mix, options, &begin)?,
    };
    of_its_own(&mut result, args.server_cpus);
    result.server_says = server_says;
    if !quiet {
        print!("{}", files::summary(&result));
    }
    let clean = result.outcome.clean;
    if let Some(out) = &args.out {
        files::write(out, &Results::Run(Box::new(result))).map_err(Failure::failed)?;
        println!("written to {}", out.display());
    }
    if clean { Ok(()) } else { Err(Failure::Printed) }
}

/// Keeps this process to the processors that the server does not use.
fn share_processors(args: &RunArgs) -> Result<(), Failure> {
    let (Some(cpus), Some(pid)) = (args.server_cpus, args.watch.server_pid) else { return Ok(()) };
    keeps_to_the_first(pid, cpus).map_err(Failure::usage)?;
    keep_to_the_last(cpus, machine::facts(None).cpus).map_err(Failure::usage)
}

/// The longest wait for --start-at. A longer one is a mistake in the date.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The start of the run, and the clock that it is of.
fn begin(args: &RunArgs, options: &RunOptions) -> Result<Begin, Failure> {
    let clock = Reference::of(&options.watch);
    let Some(at) = args.start_at else {
        // An agent of an earlier version has no clock. Only merging needs it.
        return Ok(Begin { at: None, clock: clock.unwrap_or_else(|_| Reference::own()) });
    };
    let clock = clock.map_err(|e| Failure::failed(format!("--start-at: {e}")))?;
    let now = clock.unix_s(Instant::now());
    let by = clock.words();
    let Some(moment) = clock.moment(at).filter(|_| at > now) else {
        return Err(Failure::usage(format!(
            "--start-at: this time was {:.1} s ago by {by}: name a later one",
            now - at
        )));
    };
    let wait = moment.saturating_duration_since(Instant::now());
    if wait > WAIT_MAX {
        return Err(Failure::usage(format!(
            "--start-at: by {by}, this time is in {}: the program waits for a day at most",
            quantity::show_duration(wait)
        )));
    }
    if !args.quiet {
        eprintln!("the ramp begins in {} by {by}", quantity::show_duration(wait));
    }
    Ok(Begin { at: Some(moment), clock })
}

/// A run between a look at all mailboxes before it and an audit after it, if requested.
fn run_audited(
    options: RunOptions,
    audit_options: Option<AuditOptions>,
    begin: &Begin,
) -> Result<RunResult, Failure> {
    let ledger = match &audit_options {
        Some(options) => {
            Some(baseline(options).map_err(|f| Failure::failed(format!("before the run: {f}")))?)
        }
        None => None,
    };
    let ended = run_from(options, ledger, begin).map_err(Failure::failed)?;
    let mut result = ended.result;
    if let (Some(options), Some(ledger)) = (&audit_options, &ended.ledger) {
        let found = audit(options, ledger).map_err(|f| Failure::failed(format!("audit: {f}")))?;
        if !found.is_clean() {
            result.outcome.clean = false;
            result.outcome.headline = format!(
                "AUDIT FAILED ({} missing, {} duplicated, {} unexpected, {} altered, {} UIDs given twice, {} accounts unreadable): {}",
                found.missing,
                found.duplicated,
                found.unexpected,
                found.altered,
                found.reused,
                found.unreadable,
                result.outcome.headline
            );
        }
        result.audit = Some(found);
    }
    Ok(result)
}

const NO_USERS: &str = "the mix has no kind of users: add one to its file";

/// All workloads at once, each with accounts of its own.
fn run_several(args: &RunArgs, mix: &Mix, first: RunOptions, begin: &Begin) -> Result<RunResult, Failure> {
    if mix.kinds.len() > 1 && (args.audit || first.arrivals.is_some()) {
        return Err(Failure::usage("a mix of users has no --audit, --arrivals and --day"));
    }
    let split = mix.split(first.clients).ok_or_else(|| {
        Failure::usage(format!("{} has {} kinds of users: give as many --clients", mix.name, mix.kinds.len()))
    })?;
    let mut kinds: Vec<(Workload, u32)> =
        mix.kinds.iter().map(|kind| kind.workload.clone()).zip(split).collect();
    for beside in &args.beside {
        kinds.push((workload::load(&beside.name).map_err(Failure::usage)?, beside.clients));
    }
    let (mut all, mut taken): (Vec<RunOptions>, u32) = (Vec::new(), 0);
    for (workload, clients) in kinds {
        if workload.protocol != first.workload.protocol {
            return Err(Failure::usage(format!(
                "{}: all workloads of a run must have one protocol",
                workload.name
            )));
        }
        if workload.submits() && first.send.is_none() {
            return Err(Failure::usage(format!("{} sends mail: give --send", workload.name)));
        }
        if workload.arrivals_per_user_per_s > 0.0 && first.send.is_none() && first.deliver.is_none() {
            return Err(Failure::usage(format!("mail arrives in {}: give --deliver", workload.name)));
        }
        let accounts = first.accounts.part(taken, clients);
        if accounts.count() < clients {
            let what = format!(
                "--users names {} accounts, and all workloads together have more users",
                first.accounts.count()
            );
            return Err(Failure::usage(what));
        }
        taken += clients;
        // One of them shows how far the run is.
        let live = first.live && all.is_empty();
        all.push(RunOptions { workload, accounts, clients, live, ..first.clone() });
    }
    let results: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> =
            all.into_iter().map(|options| scope.spawn(move || run_from(options, None, begin))).collect();
        running.into_iter().map(|thread| thread.join()).collect()
    });
    let mut runs = Vec::new();
    for result in results {
        match result {
            Ok(Ok(ended)) => runs.push(ended.result),
            Ok(Err(error)) => return Err(Failure::failed(error)),
            Err(_) => return Err(Failure::failed("a workload's thread failed")),
        }
    }
    together(runs).ok_or_else(|| Failure::usage(NO_USERS))
}

/// The options of a run of the first kind of users, all of them counted.
fn options(args: &RunArgs, mix: &Mix) -> Result<(RunOptions, Option<AuditOptions>), Failure> {
    let first = mix.kinds.first().ok_or_else(|| Failure::usage(NO_USERS))?;
    let workload = first.workload.clone();
    let imaps =
        args.imap.iter().map(|url| target(url, &[Scheme::Imap], "--imap")).collect::<Result<Vec<_>, _>>()?;
    let (imap, others) = (imaps.first().cloned(), imaps.get(1..).unwrap_or_default().to_vec());
    let pop3 = args.pop3.as_deref().map(|url| target(url, &[Scheme::Pop3], "--pop3")).transpose()?;
    let server = match workload.protocol {
        Protocol::Imap => imap.clone().ok_or_else(|| Failure::usage("this workload needs --imap"))?,
        Protocol::Pop3 => pop3.ok_or_else(|| Failure::usage("this workload needs --pop3"))?,
    };
    let (send, deliver) = ways(args, &workload, imap.as_ref())?;
    let accounts = args.accounts.accounts()?;
    let clients = args.clients.unwrap_or(accounts.count());
    let pools = pools(args, accounts.count(), send.as_ref())?;
    if clients > accounts.count() && workload.track == Track::Messages {
        return Err(Failure::usage(format!(
            "{clients} clients share {} accounts: workload {} follows every mailbox, so each client needs its own",
            accounts.count(),
            workload.name
        )));
    }
    let arrivals = arrivals(args, clients)?;
    let mail = || [&send, &deliver].into_iter().flatten().map(SendBy::target);
    let all = || [&server].into_iter().chain(&imap).chain(&others).chain(mail());
    let dialer = args.connection.dialer(all())?;
    refuse_wrong_protocols(&dialer, all()).map_err(Failure::usage)?;
    let audit_options = imap.map(|imap| AuditOptions {
        imap,
        others: others.clone(),
        accounts: accounts.clone(),
        dialer: dialer.clone(),
        bodies: args.audit_bodies,
    });
    if args.audit && audit_options.is_none() {
        return Err(Failure::usage("--audit needs --imap, for workloads of any protocol"));
    }
    let endpoint = &server.endpoint;
    let label = args.label.clone().unwrap_or_else(|| format!("{}:{}", endpoint.host, endpoint.port));
    let options = RunOptions {
        cluster: ClusterOptions {
            others: if workload.protocol == Protocol::Imap { others } else { Vec::new() },
            tolerate_outages: args.tolerate_outages,
            ..ClusterOptions::default()
        },
        send,
        deliver,
        accounts,
        clients,
        think: args.think,
        arrivals,
        ramp: args.ramp,
        warmup: args.warmup,
        measure: args.measure,
        threads: args.threads.unwrap_or_else(default_threads),
        seed: args.seed,
        audit: args.audit,
        dialer,
        watch: args.watch.target()?,
        pools,
        transactions_each: None,
        figures: args.watch.server_metrics.clone(),
        mhz: args.watch.mhz,
        label,
        command: command_line(),
        settings: settings(args, clients, arrivals),
        live: !args.quiet,
        server,
        workload,
    };
    Ok((options, audit_options))
}

/// The ways in which users send mail and mail from outside arrives.
fn ways(
    args: &RunArgs,
    workload: &Workload,
    imap: Option<&Target>,
) -> Result<(Option<SendBy>, Option<SendBy>), Failure> {
    let way = |given: Option<&str>, flag: &str, allowed: &[Scheme]| -> Result<Option<SendBy>, Failure> {
        match (given, imap) {
            (None, _) => Ok(None),
            (Some("append"), Some(imap)) => Ok(Some(SendBy::Append(imap.clone()))),
            (Some("append"), None) => {
                Err(Failure::usage(format!("{flag} append is done by IMAP: give --imap as well")))
            }
            (Some(url), _) => Ok(Some(SendBy::Mail(target(url, allowed, flag)?))),
        }
    };
    let send = way(args.send.as_deref(), "--send", &[Scheme::Smtp, Scheme::Lmtp, Scheme::Submission])?;
    let deliver = way(args.deliver.as_deref(), "--deliver", &[Scheme::Smtp, Scheme::Lmtp])?;
    let arrives = workload.arrivals_per_user_per_s > 0.0;
    if workload.submits() && send.is_none() || arrives && send.is_none() && deliver.is_none() {
        let what = "this workload sends mail: give --send smtp://, lmtp:// or submission://HOST:PORT, or --send append";
        return Err(Failure::usage(what));
    }
    Ok((send, deliver))
}

/// The arrival of tasks, if it does not depend on the answers.
fn arrivals(args: &RunArgs, clients: u32) -> Result<Option<Arrivals>, Failure> {
    let arrivals = match (args.arrivals, args.day, args.tasks_per_user) {
        (Some(rate), ..) => Some(Arrivals::Poisson(rate)),
        // Interval between tasks = day ÷ (users × tasks per user), as Exchange Load Generator
        // dispatches them.
        (None, Some(day), Some(tasks)) => {
            Some(Arrivals::Even(f64::from(clients) * tasks / day.as_secs_f64()))
        }
        _ => None,
    };
    if arrivals.is_some_and(|a| a.rate() <= 0.0 || !a.rate().is_finite()) {
        return Err(Failure::usage("tasks must arrive at a rate above zero"));
    }
    Ok(arrivals)
}

/// The recipients of mail; an error if mail cannot be sent to them.
fn pools(args: &RunArgs, accounts: u32, send: Option<&SendBy>) -> Result<Pools, Failure> {
    if let Some(n) = args.receiving.filter(|n| *n == 0 || *n > accounts) {
        return Err(Failure::usage(format!("--receiving {n}: --users names {accounts} accounts")));
    }
    let sends = match send {
        Some(SendBy::Mail(target)) => target.scheme != Scheme::Lmtp,
        Some(SendBy::Append(_)) | None => false,
    };
    if args.outside.is_some() && !sends {
        let what = "--outside needs --send submission:// or smtp://: LMTP and APPEND deliver only to accounts of \
                    this server";
        return Err(Failure::usage(what));
    }
    Ok(Pools { receiving: args.receiving, outside: args.outside.clone() })
}

fn settings(args: &RunArgs, clients: u32, arrivals: Option<Arrivals>) -> BTreeMap<String, String> {
    let seconds = |d: Duration| quantity::show_duration(d);
    let mut settings = BTreeMap::from([
        ("users".to_owned(), args.accounts.users.clone()),
        ("clients".to_owned(), clients.to_string()),
        ("ramp".to_owned(), seconds(args.ramp)),
        ("warmup".to_owned(), seconds(args.warmup)),
        ("measure".to_owned(), seconds(args.measure)),
        ("seed".to_owned(), args.seed.to_string()),
        ("timeout".to_owned(), seconds(args.connection.timeout)),
        (
            "acknowledgements".to_owned(),
            if args.connection.delayed_acks { "delayed" } else { "quick" }.to_owned(),
        ),
    ]);
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            settings.insert(name.to_owned(), value);
        }
    };
    add("imap", Some(args.imap.join(" ")).filter(|urls| !urls.is_empty()));
    let others: Vec<String> = args.beside.iter().map(|b| format!("{}:{}", b.name, b.clients)).collect();
    add("beside", (!others.is_empty()).then(|| others.join(" ")));
    add("receiving", args.receiving.map(|n| n.to_string()));
    add(
        "outside",
        args.outside.as_ref().map(|o| format!("{} of what users send is for {}", o.share, o.domain)),
    );
    add("outages", args.tolerate_outages.then(|| "tolerated".to_owned()));
    add("server-metrics", args.watch.server_metrics.as_ref().map(ToString::to_string));
    add("pop3", args.pop3.clone());
    add("send", args.send.clone());
    add("deliver", args.deliver.clone());
    add("think", args.think.map(|t| format!("{t:?} s")));
    add("arrivals", arrivals.map(|a| format!("{:.3}/s", a.rate())));
    add("server's processors", args.server_cpus.map(|n| n.to_string()));
    add("threads", Some(args.threads.unwrap_or_else(default_threads).to_string()));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_beside_the_first() {
        assert_eq!(
            further_workload("imaptest:25"),
            Ok(FurtherWorkload { name: "imaptest".into(), clients: 25 })
        );
        assert_eq!(further_workload("./my:own.toml:1").map(|b| b.name), Ok("./my:own.toml".into()));
        for wrong in ["imaptest", "imaptest:0", "imaptest:many"] {
            assert!(further_workload(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_share_for_another_server() {
        assert_eq!(
            outside("example.net:0.3"),
            Ok(Outside { domain: "example.net".into(), share: 0.3, by: None })
        );
        for wrong in ["example.net", ":0.3", "example.net:30", "a@example.net:0.3"] {
            assert!(outside(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn think_times() {
        assert_eq!(think("4s"), Ok(Think::Fixed(4.0)));
        assert_eq!(think("0"), Ok(Think::Fixed(0.0)));
        assert_eq!(think("2s-18s"), Ok(Think::Uniform(2.0, 18.0)));
        assert_eq!(think("exp:10s"), Ok(Think::Exponential(10.0)));
        assert!(think("often").is_err());
    }
}
