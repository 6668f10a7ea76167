//! `posthaste import`: mail from files into an account, resumed where an earlier run was cut off.
//!
//! On a data directory, a file lock per account excludes a second import. The kernel releases it
//! when the process ends in any way. On a cluster there is no such lock: there an import waits if
//! the previous one may still be running.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use posthaste_delivery::import::{Alone, Fault, ImportError, ImportOptions, ImportReport, Importer, Repeat};
use posthaste_directory::{Account, Precompute};

use crate::cli::{self, Import};
use crate::command::names::{full_name, mailbox_name};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::for_terminal;
use crate::open;

/// Levels of folders that are looked into for the length of the progress bar: as many as an import
/// reads.
const DEPTH_MAX: usize = 32;

pub async fn run(mut config: Config, options: Import) -> Result<()> {
    if let Some(when) = options.precompute {
        config.store.precompute = match when {
            cli::Precompute::Delivery => Precompute::Delivery,
            cli::Precompute::FirstFetch => Precompute::FirstFetch,
            cli::Precompute::Never => Precompute::Never,
        };
    }
    let opened = open::existing(&config).await?;
    let account = opened.found(&full_name(&options.account, &config)).await?;
    let mailbox = options.mailbox.as_deref().map(mailbox_name).transpose()?;
    let (_lock, alone) = match open::cluster(&config)? {
        None => (Some(lock(&config.data, &account)?), Alone::Locked),
        Some(_) => (None, Alone::default()),
    };
    let repeat = if options.again { Repeat::Import } else { Repeat::Skip };
    let into = ImportOptions { mailbox, repeat, alone };
    let mut importer = opened.delivery.importer(&account, &into).await?;
    let bar = bar(options.sources.iter().map(|source| octets(source, 0)).sum());
    let run = take_all(&mut importer, &options, &bar).await?;
    bar.finish_and_clear();
    println!("imported {} messages into {}, {} were there already", run.messages, account.name, run.present);
    if run.failed > 0 {
        return Err(Failure::Incomplete(format!(
            "{} messages or files could not be imported completely; the first of them are named above",
            run.failed
        )));
    }
    Ok(())
}

/// The sums over all sources.
#[derive(Default)]
struct ImportSums {
    messages: u64,
    present: u64,
    failed: u64,
    /// Octets, of messages that were there as well.
    bytes: u64,
}

async fn take_all(importer: &mut Importer<'_>, options: &Import, bar: &ProgressBar) -> Result<ImportSums> {
    let mut run = ImportSums::default();
    for source in &options.sources {
        let (messages, bytes) = (run.messages + run.present, run.bytes);
        let mut progress = |report: &ImportReport| {
            // A message has CRLF in the store and often LF in its file.
            let position = bytes + report.bytes + report.present_bytes;
            bar.set_position(position.min(bar.length().unwrap_or(position)));
            bar.set_message((messages + report.messages + report.present).to_string());
        };
        let report = match importer.import(source, &mut progress).await {
            Ok(report) => report,
            // One source that cannot be read does not stop the others.
            Err(error @ ImportError::Source { .. }) if options.sources.len() > 1 => {
                run.failed += 1;
                bar.suspend(|| eprintln!("posthaste: {}", for_terminal(&error.to_string())));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        run.messages += report.messages;
        run.present += report.present;
        run.bytes += report.bytes + report.present_bytes;
        run.failed += report.failed;
        bar.suspend(|| report.faults.iter().for_each(|fault: &Fault| eprintln!("posthaste: {fault}")));
    }
    Ok(run)
}

/// Keeps other imports into the account out until it is dropped.
fn lock(data: &Path, account: &Account) -> Result<File> {
    let directory = data.join("imports");
    let path = directory.join(format!("{}.lock", account.id));
    let failed = |error: std::io::Error| Failure::Usage(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let open = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = open.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::Incomplete(format!(
            "another import into {} is running; wait for its end, then run this one again",
            account.name
        ))),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Octets of the files of a source: the length of the bar, which need not be exact.
fn octets(path: &Path, depth: usize) -> u64 {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return if meta.is_file() { meta.len() } else { 0 };
    }
    if depth > DEPTH_MAX {
        return 0;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| octets(&entry.path(), depth + 1)).sum()
}

fn bar(octets: u64) -> ProgressBar {
    let style = "{wide_bar} {msg} messages  {bytes}/{total_bytes}  {eta} left";
    let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(octets).with_style(style).with_message("0");
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Work whose length is not known in advance: a count and a rate.
pub fn spinner(done: &'static str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(&format!("{{spinner}} {done} {{human_pos}} messages, {{per_sec}}"));
    let bar =
        ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
