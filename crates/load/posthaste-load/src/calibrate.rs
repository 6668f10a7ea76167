//! `posthaste-load calibrate`: runs the workload against a server that does almost no work.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;
use posthaste_imap_client::net::{Dialer, Trust};
use posthaste_load_drive::Accounts;
use posthaste_load_drive::Target;
use posthaste_load_drive::populate::{Contents, PopulateOptions, populate};
use posthaste_load_drive::run::{ClusterOptions, Pools, RunOptions, SendBy, run};
use posthaste_load_measure::WatchTarget;
use posthaste_load_null_server::{Faults, start};
use posthaste_load_report::files;
use posthaste_load_results::RunResult;
use posthaste_load_text::quantity;
use posthaste_load_workload::{self as workload, Protocol, Think};

use crate::failure::Failure;
use crate::run::default_threads;

/// Share of the machine's processors that a generator may use besides the server it measures.
const SHARE_MAX: f64 = 0.1;

/// Time in which users connect, for each of them: a thousand a second, which a listener's queue can
/// take.
const RAMP_PER_USER: Duration = Duration::from_millis(1);

/// Flags of `calibrate`.
///
/// Runs the workload without think time against a built-in server that answers from memory. Prints
/// the rate up to which the instrument's figures are reliable on this machine.
#[derive(Args)]
pub struct CalibrateArgs {
    /// A built-in workload or a file (IMAP, without TLS).
    #[arg(long, value_name = "NAME-OR-FILE", default_value = "koka-browse")]
    workload: String,
    /// Virtual users.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// Measure for this time.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::length)]
    measure: Duration,
    /// Threads of the generator [default: half the processors].
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Think time. With it, the result is the number of users that the generator can hold; without
    /// it, the generator's rate.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::duration)]
    think: Duration,
    /// Write results.json, CSV files and report.html into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite existing files in it.
    #[arg(long)]
    force: bool,
    /// Show nothing while running.
    #[arg(long)]
    quiet: bool,
}

/// Flags of the null server: none.
#[derive(Args)]
pub struct NullServerArgs {}

/// A null server in a process of its own, so that its cost is not the generator's.
struct NullServer(Child);

impl Drop for NullServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calibrates.
pub fn main(args: CalibrateArgs) -> Result<(), Failure> {
    if let Some(out) = &args.out {
        files::prepare(out, args.force).map_err(Failure::failed)?;
    }
    let (server, imap, lmtp) = start_child()?;
    let workload = workload::load(&args.workload).map_err(Failure::usage)?;
    if workload.protocol != Protocol::Imap {
        return Err(Failure::usage("the null server speaks IMAP and LMTP only"));
    }
    let accounts =
        Accounts::parse(&format!("user{{1..{}}}@example.org", args.clients)).map_err(Failure::usage)?;
    let accounts = accounts.with_password("x");
    let dialer = Dialer::new(Trust::Anyone, Duration::from_secs(60)).map_err(Failure::failed)?;
    let fill = &workload.fill;
    populate(PopulateOptions {
        server: imap.clone(),
        lmtp: None,
        accounts: accounts.clone(),
        contents: Contents::new(fill.inbox, fill.folders, fill.per_folder, fill.sizes.clone())
            .with_shares(workload.shares),
        seed: 1,
        mail: None,
        parallel: 4,
        dialer: dialer.clone(),
        live: false,
    })
    .map_err(Failure::failed)?;
    let threads = args.threads.unwrap_or_else(default_threads);
    let ended = run(
        RunOptions {
            workload,
            server: imap,
            cluster: ClusterOptions::default(),
            send: Some(SendBy::Mail(lmtp)),
            deliver: None,
            accounts,
            clients: args.clients,
            think: Some(Think::Fixed(args.think.as_secs_f64())),
            arrivals: None,
            ramp: RAMP_PER_USER.mul_f64(f64::from(args.clients)).max(Duration::from_secs(1)),
            warmup: Duration::from_secs(1),
            measure: args.measure,
            threads,
            seed: 1,
            audit: false,
            dialer,
            watch: WatchTarget::Local { pid: Some(server.0.id()), cgroup: None, data: None },
            pools: Pools::default(),
            transactions_each: None,
            figures: None,
            mhz: None,
            label: "null server".into(),
            command: crate::command_line::command_line(),
            settings: Default::default(),
            live: !args.quiet,
        },
        None,
    )
    .map_err(Failure::failed)?;
    let mut result = ended.result;
    // Against this server the generator is expected to use more CPU than the server.
    result.caveats.retain(|c| !c.starts_with("the generator used"));
    print!("{}\n{}", files::summary(&result), verdict(&result, threads));
    let clean = result.outcome.clean;
    if let Some(out) = &args.out {
        files::write(out, &posthaste_load_results::Results::Run(Box::new(result)))
            .map_err(Failure::failed)?;
    }
    if clean { Ok(()) } else { Err(Failure::Printed) }
}

fn verdict(result: &RunResult, threads: usize) -> String {
    let Some(us) = result.generator.cpu_us_per_transaction else {
        return users_held(result);
    };
    let cpus = f64::from(result.machine.cpus);
    let believed = SHARE_MAX * cpus * 1e6 / us;
    format!(
        "workload {}: {us:.0} µs of generator CPU per transaction on this machine ({} build).\n\
         On the server's machine the figures are valid up to {believed:.0} transactions/s \
         ({:.0} % of {cpus} processors);\non a machine of its own, with {threads} thread{}, up to {:.0}/s \
         (70 % of what they can do). Reached here: {:.0}/s.\n",
        result.workload.name,
        result.machine.build,
        SHARE_MAX * 100.0,
        if threads == 1 { "" } else { "s" },
        0.7 * threads as f64 * 1e6 / us,
        result.total.rate_per_s
    )
}

/// The result of a run in which no transaction ended: how many users the generator held, not how
/// fast it is.
fn users_held(result: &RunResult) -> String {
    let online = result.series.online.iter().copied().max().unwrap_or(0);
    let cpu_s = result.generator.cpu_user_s + result.generator.cpu_system_s;
    let seconds = (result.window.end_s - result.window.start_s).max(f64::MIN_POSITIVE);
    let (busy, cpus) = (cpu_s / seconds, f64::from(result.machine.cpus));
    let bytes = result.generator.rss_max_bytes as f64 / online.max(1) as f64;
    let mut text = format!(
        "workload {}: no transaction ended, so no rate can be stated. Held at once: {online} of {} users, with {busy:.3} \
         processors in all and {:.1} kB of memory each.\n",
        result.workload.name,
        result.clients,
        bytes / 1e3
    );
    if online > 0 && busy > 0.0 {
        let by_cpu = SHARE_MAX * cpus / busy * online as f64;
        let by_memory = SHARE_MAX * result.machine.memory_bytes as f64 / bytes;
        text.push_str(&format!(
            "On the server's machine the figures are valid up to {:.0} such users. They take {:.0} % of \
             {cpus} processors and of the memory. The instrument must be allowed to open as many files.\n",
            by_cpu.min(by_memory),
            SHARE_MAX * 100.0
        ));
    }
    text
}

fn start_child() -> Result<(NullServer, Target, Target), Failure> {
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let child = Command::new(program).arg("null-server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut server = NullServer(child.map_err(Failure::failed)?);
    let mut line = String::new();
    let out = server.0.stdout.take().ok_or_else(|| Failure::failed("the null server has no output"))?;
    BufReader::new(out).read_line(&mut line).map_err(Failure::failed)?;
    let mut words = line.split_ascii_whitespace().skip(1);
    let mut next = || words.next().unwrap_or_default().parse::<Target>().map_err(Failure::failed);
    let (imap, lmtp) = (next()?, next()?);
    Ok((server, imap, lmtp))
}

/// The null server: prints its address, runs until its input ends.
pub fn null_server(_args: &NullServerArgs) -> Result<(), Failure> {
    // One file for each port, if the system allows it: the number of clients is not known yet.
    posthaste_load_measure::own::raise_file_limit(u64::from(u16::MAX));
    let at = start(Faults::default()).map_err(Failure::failed)?;
    println!("ready imap://{} lmtp://{}", at.imap, at.lmtp);
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caveats_of_rates_and_of_users_are_printed() {
        // One transaction in 50 µs of CPU, on two processors.
        let mut result = RunResult::default();
        result.machine.cpus = 2;
        result.generator.cpu_us_per_transaction = Some(50.0);
        let said = verdict(&result, 1);
        assert!(said.contains("up to 4000 transactions/s (10 % of 2 processors)"), "{said}");
        assert!(said.contains("with 1 thread, up to 14000/s"), "{said}");
        // Idle users: none of them ends a transaction.
        result.generator.cpu_us_per_transaction = None;
        (result.generator.cpu_user_s, result.generator.cpu_system_s) = (0.1, 0.1);
        (result.window.start_s, result.window.end_s) = (10.0, 30.0);
        result.series.online = vec![5_000, 10_000];
        result.clients = 10_000;
        (result.generator.rss_max_bytes, result.machine.memory_bytes) = (100_000_000, 16_000_000_000);
        let said = verdict(&result, 1);
        assert!(
            said.contains("Held at once: 10000 of 10000 users, with 0.010 processors in all and 10.0 kB"),
            "{said}"
        );
        // A tenth of the processors would bear 200,000; a tenth of the memory holds 160,000.
        assert!(said.contains("up to 160000 such users"), "{said}");
    }
}
