//! `posthaste-load merge`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use posthaste_load_drive::Accounts;
use posthaste_load_report::files;
use posthaste_load_results::{OVERLAP_MIN, Results, RunResult, merge};
use posthaste_load_workload::{self as workload, Track};

use crate::command_line::command_line;
use crate::failure::Failure;

/// The end of `merge --help`.
pub const DETAILS: &str = "\
Start:
  All generators begin at one time: `run --start-at TIME`. With the same --ramp, --warmup and
  --measure their windows coincide. With --agent, TIME is by the agent's clock: each generator
  compares its own clock with it, within half of the shortest round trip. Without --agent, TIME is
  by each machine's own clock, so synchronise them (NTP). The bound is then what the kernels say
  (adjtimex). A kernel whose clock nobody synchronises says nothing, and the result says so.

Result:
  transactions, errors, bytes   sums. Each rate is of a generator's own window; rates are added.
  response times                histograms, added by the counts of equal edges.
  generator                     CPU of all generators together, and a row for each.
  server                        once: the reading whose window is nearest to the common window. If
                                readings differ by more than 5 %, the result says so.
  series                        values of each second, by the common clock.

Refused, with exit code 2:
  windows that have less than --overlap in common; results of different versions, builds, workloads
  or servers (by ID or CAPA); accounts that two generators drove, if the workload follows mailboxes;
  studies and merged results.

Noted in the result:
  settings that differ; generators with the same --seed; clocks with an unknown difference; a server
  that does not name itself; every caveat of each generator.

Examples:
  Two machines drive one server, on which an agent runs (`posthaste-load agent --server-pid PID
  --token-file token --listen 0.0.0.0:8117`). Compute the time once:

    AT=$(date -u -d '+2 min' +%FT%TZ)
    one$ posthaste-load run --workload koka-browse --imap imap://mail:143 --send lmtp://mail:24 \\
           --users 'user{0..499}@example.org' --password-file pw --agent mail:8117 \\
           --token-file token --start-at $AT --seed 1 --out one
    two$ posthaste-load run --workload koka-browse --imap imap://mail:143 --send lmtp://mail:24 \\
           --users 'user{500..999}@example.org' --password-file pw --agent mail:8117 \\
           --token-file token --start-at $AT --seed 2 --out two

  Copy both results to one machine, and merge them:

    $ posthaste-load merge one two --out both
    $ posthaste-load report both other-server --out compared.html
";

/// Flags of `merge`.
#[derive(Args)]
pub struct MergeArgs {
    /// Results of `run`, one of each generator.
    #[arg(value_name = "DIR", required = true, num_args = 2..)]
    results: Vec<PathBuf>,
    /// Write results.json, CSV files and report.html into this directory.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The least share of the longest window that must be common to all windows, from 0 to 1. A
    /// possible difference of the clocks reduces it.
    #[arg(long, value_name = "SHARE", default_value_t = OVERLAP_MIN, value_parser = share)]
    overlap: f64,
    /// Overwrite existing files in --out.
    #[arg(long)]
    force: bool,
    /// Show nothing.
    #[arg(long)]
    quiet: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is not a share from 0 to 1, for instance 0.9"))
}

/// Merges.
pub fn main(args: &MergeArgs) -> Result<(), Failure> {
    let mut named = Vec::with_capacity(args.results.len());
    for (dir, name) in args.results.iter().zip(names(&args.results)) {
        match files::read(dir).map_err(Failure::usage)? {
            Results::Run(run) => named.push((name, *run)),
            Results::Study(_) => {
                let what = "the result of a study: merge takes results of `run`";
                return Err(Failure::usage(format!("{}: {what}", dir.display())));
            }
        }
    }
    let shared = shared_accounts(&named).map_err(Failure::usage)?;
    let followed = named.iter().any(|(_, run)| follows_mailboxes(run));
    if let Some(what) = shared.as_ref().filter(|_| followed) {
        return Err(Failure::usage(format!(
            "{what}: each generator compared the mailboxes with its own changes only; give each accounts of its own \
             (--users)"
        )));
    }
    let mut all = merge(named, args.overlap).map_err(Failure::usage)?;
    all.command = command_line();
    all.caveats.extend(shared);
    files::prepare(&args.out, args.force).map_err(Failure::failed)?;
    if !args.quiet {
        print!("{}", files::summary(&all));
    }
    let clean = all.outcome.clean;
    files::write(&args.out, &Results::Run(Box::new(all))).map_err(Failure::failed)?;
    if !args.quiet {
        println!("written to {}", args.out.display());
    }
    if clean { Ok(()) } else { Err(Failure::Printed) }
}

/// A name for each result: that of its directory, or its path where two directories have one name.
fn names(dirs: &[PathBuf]) -> Vec<String> {
    let short = |dir: &Path| dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned();
    let all: Vec<String> = dirs.iter().map(|dir| short(dir)).collect();
    let unique = |name: &String| all.iter().filter(|other| *other == name).count() == 1;
    let name = |(dir, short): (&PathBuf, &String)| match unique(short) {
        true => short.clone(),
        false => dir.display().to_string(),
    };
    dirs.iter().zip(&all).map(name).collect()
}

/// Whether its users compared mailboxes with what they changed in them. A workload that cannot be
/// read is one that does.
fn follows_mailboxes(run: &RunResult) -> bool {
    workload::parse(&run.workload.toml, &run.workload.name).map_or(true, |w| w.track == Track::Messages)
}

/// Says which accounts two generators drove, if any.
fn shared_accounts(named: &[(String, RunResult)]) -> Result<Option<String>, String> {
    let mut owners = BTreeMap::<String, &str>::new();
    for (name, run) in named {
        let pattern = run.settings.get("users").map(String::as_str).unwrap_or_default();
        let accounts = Accounts::parse(pattern).map_err(|what| format!("{name}: {what}"))?;
        for account in (0..run.clients.min(accounts.count())).map(|n| accounts.name(n)) {
            if let Some(other) = owners.get(&account) {
                return Ok(Some(format!(
                    "{other} and {name} drove the same accounts, for instance {account}"
                )));
            }
            owners.insert(account, name);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(users: &str, clients: u32) -> RunResult {
        let settings = [("users".to_owned(), users.to_owned())].into();
        RunResult { clients, settings, ..RunResult::default() }
    }

    #[test]
    fn accounts_of_two_generators_are_found_by_their_names() {
        let shared = |one: (&str, u32), two: (&str, u32)| {
            let named = [("one".to_owned(), run(one.0, one.1)), ("two".to_owned(), run(two.0, two.1))];
            shared_accounts(&named).unwrap()
        };
        assert_eq!(shared(("u{0..9}", 10), ("u{10..19}", 10)), None);
        let said = shared(("u{0..9}", 10), ("u{9..19}", 10)).unwrap();
        assert!(said.starts_with("one and two drove the same accounts, for instance u9"), "{said}");
        // Accounts beyond the clients only receive mail.
        assert_eq!(shared(("u{0..9}", 5), ("u{5..9}", 5)), None);
        // Patterns of other shapes may have the same names.
        assert!(shared(("u{10..19}", 10), ("u1{0..9}", 1)).is_some());
        assert_eq!(shared(("ana", 4), ("bo", 4)), None);
    }

    #[test]
    fn mailboxes_that_only_one_generator_follows_are_not_shared() {
        let with = |name: &str| {
            let mut run = run("u", 1);
            run.workload.toml = workload::load(name).unwrap().source;
            follows_mailboxes(&run)
        };
        assert!(with("koka-browse") && !with("inbox-sync"));
        assert!(follows_mailboxes(&run("u", 1)), "a mix");
    }

    #[test]
    fn results_are_named_by_their_directories() {
        let of = |dirs: &[&str]| names(&dirs.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&["/tmp/one", "two/"]), ["one", "two"]);
        assert_eq!(of(&["a/out", "b/out", "c"]), ["a/out", "b/out", "c"]);
    }
}
