//! `posthaste-load learn`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use posthaste_load_drive::{interrupt, observed};
use posthaste_load_measure::{Figures, Reading};
use posthaste_load_report::files;
use posthaste_load_results::Counted;
use posthaste_load_text::quantity;
use posthaste_load_workload::Protocol;
use posthaste_load_workload::learned::{Profile, learn, of_dovecot_log};

use crate::failure::Failure;

/// Flags of `learn`.
#[derive(Args)]
pub struct LearnArgs {
    /// The server's own figures: http://HOST:PORT of its metrics, or its data directory
    /// (Posthaste).
    #[arg(long, value_name = "ADDRESS", group = "source")]
    server_metrics: Option<Figures>,
    /// The same figures from a file: the JSON of GET /cost.
    #[arg(long, value_name = "FILE", group = "source")]
    cost: Option<PathBuf>,
    /// A log of Dovecot: its lines of logins, ended sessions and deliveries.
    #[arg(long, value_name = "FILE", group = "source", required_unless_present_any = ["server_metrics", "cost"])]
    dovecot_log: Option<PathBuf>,
    /// Count for this time, so that the workload also has rates. Without it, the workload has all
    /// counts since the server's start, and no rates.
    #[arg(long = "for", value_name = "TIME", requires = "server_metrics", value_parser = quantity::length)]
    length: Option<Duration>,
    /// An earlier file of the same server: its counts are subtracted.
    #[arg(long, value_name = "FILE", requires = "cost")]
    since: Option<PathBuf>,
    /// The time between both files, or the time that a single file covers.
    #[arg(long, value_name = "TIME", requires = "cost", value_parser = quantity::length)]
    time: Option<Duration>,
    /// The protocol whose users the workload models [default: the one with more commands].
    #[arg(long)]
    protocol: Option<ReadProtocol>,
    /// The workload's name.
    #[arg(long, value_name = "NAME", default_value = "learned")]
    name: String,
    /// Write the workload to this file [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite it.
    #[arg(long)]
    force: bool,
}

/// A protocol in which mail is read.
#[derive(Clone, Copy, ValueEnum)]
enum ReadProtocol {
    /// IMAP.
    Imap,
    /// POP3.
    Pop3,
}

/// Makes the workload.
pub fn main(args: &LearnArgs) -> Result<(), Failure> {
    if let Some(out) = &args.out {
        files::prepare_file(out, args.force).map_err(Failure::failed)?;
    }
    let profile = profile(args)?;
    let protocol = args.protocol.map(|p| match p {
        ReadProtocol::Imap => Protocol::Imap,
        ReadProtocol::Pop3 => Protocol::Pop3,
    });
    let learned = learn(&args.name, &profile, protocol).map_err(Failure::failed)?;
    for note in &learned.notes {
        eprintln!("note: {note}");
    }
    match &args.out {
        Some(out) => {
            files::replace(out, learned.toml.as_bytes()).map_err(Failure::failed)?;
            println!("written to {}; run it by --workload {0}", out.display());
        }
        None => print!("{}", learned.toml),
    }
    Ok(())
}

fn profile(args: &LearnArgs) -> Result<Profile, Failure> {
    if let Some(log) = &args.dovecot_log {
        let text = std::fs::read(log).map_err(|e| Failure::failed(format!("{}: {e}", log.display())))?;
        return of_dovecot_log(&String::from_utf8_lossy(&text), &log.display().to_string())
            .map_err(Failure::failed);
    }
    let counted = match (&args.server_metrics, &args.cost) {
        (Some(figures), _) => watched(figures, args.length)?,
        (None, Some(file)) => {
            let earlier = args.since.as_deref().map(read).transpose()?;
            let mut counted = read(file)?.since(earlier.as_ref());
            counted.seconds = args.time.map_or(0.0, |t| t.as_secs_f64());
            counted
        }
        (None, None) => return Err(Failure::usage("give --server-metrics, --cost or --dovecot-log")),
    };
    Ok(of_counted(&counted))
}

fn read(file: &Path) -> Result<Reading, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read(file).map_err(|e| Failure::failed(format!("{name}: {e}")))?;
    Reading::parse(&text, &name).map_err(|e| Failure::failed(format!("{name}: {e}")))
}

/// The counts of a running server in this time, or so far. Ctrl-C ends it early.
fn watched(figures: &Figures, length: Option<Duration>) -> Result<Counted, Failure> {
    let before = figures.read().map_err(Failure::failed)?;
    let Some(length) = length else { return Ok(before.since(None)) };
    eprintln!("counting for {}; Ctrl-C ends it", quantity::show_duration(length));
    interrupt::listen();
    let end = Instant::now() + length;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|_| !interrupt::happened()) {
        std::thread::sleep(left.min(Duration::from_millis(200)));
    }
    Ok(figures.read().map_err(Failure::failed)?.since(Some(&before)))
}

/// The figures in the form from which a workload is made.
fn of_counted(counted: &Counted) -> Profile {
    Profile {
        source: counted.source.clone(),
        seconds: (counted.seconds > 0.0).then_some(counted.seconds),
        users: counted.accounts,
        commands: observed(counted),
        clients: counted.clients.iter().map(|c| (c.client.clone(), c.amounts.commands)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{Amounts, CountedCommand};

    use super::*;

    const LOG: &str = "\
Nov 25 02:00:01 imap(ana)<17><x>: Info: Disconnected: Logged out in=437 out=7132 deleted=1 expunged=1 trashed=0 hdr_count=2 hdr_bytes=500 body_count=1 body_bytes=3000
Nov 25 02:00:31 imap(bob)<18><y>: Info: Disconnected: Logged out in=40 out=900 deleted=0 expunged=0 trashed=0 hdr_count=0 hdr_bytes=0 body_count=0 body_bytes=0
";

    #[test]
    fn classes_of_folders_are_understood() {
        let command = |folder: &str| CountedCommand {
            folder: folder.into(),
            amounts: Amounts { commands: 1, ..Amounts::default() },
            ..CountedCommand::default()
        };
        let commands = ["none", "100", "+Inf"].map(command).to_vec();
        let profile = of_counted(&Counted { commands, ..Counted::default() });
        let classes: Vec<Option<u32>> = profile.commands.iter().map(|c| c.folder_most).collect();
        assert_eq!(classes, [None, Some(100), Some(u32::MAX)]);
        assert_eq!(profile.seconds, None);
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_refused() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (log, out) = (dir.path().join("log"), dir.path().join("mine.toml"));
        let new = elsewhere.path().join("new");
        std::fs::write(&log, LOG).unwrap();
        std::os::unix::fs::symlink(&new, &out).unwrap();
        let learned = |force| {
            main(&LearnArgs {
                server_metrics: None,
                cost: None,
                dovecot_log: Some(log.clone()),
                length: None,
                since: None,
                time: None,
                protocol: None,
                name: "mine".to_owned(),
                out: Some(out.clone()),
                force,
            })
        };
        for force in [false, true] {
            assert!(matches!(learned(force), Err(Failure::Failed(what)) if what.contains("is a link")));
            assert!(!new.exists());
        }
        std::fs::remove_file(&out).unwrap();
        assert!(learned(false).is_ok());
        assert!(matches!(learned(false), Err(Failure::Failed(what)) if what.contains("--force")));
        assert!(learned(true).is_ok());
        assert!(std::fs::read_to_string(&out).unwrap().contains("name = \"mine\""));
    }
}
