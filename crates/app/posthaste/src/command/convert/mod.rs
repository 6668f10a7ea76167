//! `posthaste convert`: converts stored mail to another format, while the server runs.
//!
//! SIGINT and SIGTERM end it after the current message. It prints what it did, and `audit.log`
//! has the same.

mod estimate;
mod place;

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use indicatif::{ProgressBar, ProgressStyle};
use posthaste_delivery::{
    ConvertMode, ConvertOptions, ConvertReport, Converter, Items, LossPolicy, SharedBodies, Uids,
};
use posthaste_directory::Format;
use posthaste_mail_model::NumSet;

use self::estimate::{commit_time, estimate};
use self::place::{MailboxToConvert, is_deleted};
use crate::cli::{self, Convert};
use crate::command::interruption::{Interrupted, Interruption};
use crate::command::names::{full_name, mailbox_name};
use crate::config::Config;
use crate::data_directory::DataDirectory;
use crate::failure::{Failure, Result};
use crate::open::{self, Opened};

/// The name of the file that keeps other conversions out.
const LOCK: &str = "convert.lock";
/// Messages that are named for each reason to stay: what fits a screen.
const NAMED_MAX: usize = 20;

pub async fn run(config: Config, command: Convert) -> Result<()> {
    let opened = open::existing(&config).await?;
    let places = places(&opened, &config, &command).await?;
    let _lock = if command.dry_run { None } else { lock(&config.data)? };
    let options = ConvertOptions {
        to: command.to.map(|to| match to {
            cli::Format::Mime => Format::Mime,
            cli::Format::Rich => Format::Rich,
            cli::Format::Keep => Format::Keep,
        }),
        items: if command.items { Items::Make } else { Items::Leave },
        mode: if command.dry_run { ConvertMode::DryRun } else { ConvertMode::Apply },
        loss: if command.lossy { LossPolicy::Allow } else { LossPolicy::Refuse },
        uids: if command.new_uids { Uids::Renew } else { Uids::Keep },
    };
    let mut interruption = Interruption::begin()?;
    let commit = commit_time(&config.data);
    let total = tokio::select! {
        biased;
        signal = interruption.wait() => {
            return Err(interrupted(signal, "the estimate was not finished; no message was changed".to_owned()));
        }
        total = estimate(&opened, &places, options, (commit, command.rate)) => total?,
    };
    let bar = bar(total);
    let pause = command.rate.map(|rate| Duration::from_secs(1) / rate);
    let mut run = Run { opened: &opened, options, bar: &bar, pause, interruption, done: Done::default() };
    let ended = run.all(&places).await;
    let done = run.done;
    bar.finish_and_clear();
    print(&done, options);
    ended?;
    done.outcome()
}

/// The work done so far.
#[derive(Default)]
struct Done {
    sum: ConvertReport,
    /// Names of the first messages that stay, by the reason.
    would_lose: Vec<String>,
    too_large: Vec<String>,
    failed: Vec<String>,
}

impl Done {
    /// Why the command fails although it did all that it could.
    fn outcome(&self) -> Result<()> {
        let ConvertReport { refused, failed, would_lose, .. } = self.sum;
        if refused > 0 {
            let why = format!(
                "the engine on a cluster cannot change this form of stored mail: {refused} messages stay as they \
                 are. --new-uids makes new messages of them, which clients download again"
            );
            return Err(Failure::Usage(why));
        }
        if failed > 0 {
            let why = format!("{failed} messages cannot be read or converted");
            return Err(Failure::Incomplete(why));
        }
        if would_lose > 0 {
            let why = format!("{would_lose} messages stay as they are: their rich originals would be lost");
            return Err(Failure::WouldLose(why));
        }
        Ok(())
    }

    /// In one line.
    fn in_short(&self) -> String {
        let ConvertReport {
            examined,
            converted,
            renumbered,
            items,
            would_lose,
            too_large,
            refused,
            failed,
            ..
        } = self.sum;
        format!(
            "examined {examined}, converted {converted}, new UIDs {renumbered}, items made {items}, \
             unchanged {would_lose}, kept {too_large}, refused {refused}, failed {failed}"
        )
    }
}

fn interrupted(signal: Interrupted, done: String) -> Failure {
    Failure::Interrupted { signal: signal.number(), done }
}

/// A conversion on its way.
struct Run<'o> {
    opened: &'o Opened,
    options: ConvertOptions,
    bar: &'o ProgressBar,
    /// Between two messages.
    pause: Option<Duration>,
    interruption: Interruption,
    done: Done,
}

impl Run<'_> {
    /// Converts all mailboxes. An error ends the work on its account only; the first one is
    /// returned. An interruption ends all work.
    async fn all(&mut self, places: &[MailboxToConvert]) -> Result<()> {
        let mut ended = Ok(());
        for places in places.chunk_by(|a, b| a.account.id == b.account.id) {
            for place in places {
                let Err(error) = self.one(place).await else { continue };
                if is_deleted(&error) {
                    continue;
                }
                if matches!(error, Failure::Interrupted { .. }) {
                    return Err(error);
                }
                self.bar.suspend(|| eprintln!("{}: its conversion ended: {error}", place.account.name));
                if ended.is_ok() {
                    ended = Err(error);
                }
                break;
            }
        }
        ended
    }

    /// Converts a mailbox, and adds what was done to the sum, also if an error ends it.
    async fn one(&mut self, place: &MailboxToConvert) -> Result<()> {
        let mailbox = self.opened.store.open(place.mailbox.id).await?;
        let delivery = &self.opened.delivery;
        let mut converter = delivery.converter(&place.account, mailbox, self.options, &place.shared).await?;
        let ended = self.each(&mut converter).await;
        let left = converter.unconverted();
        let name = |names: &mut Vec<String>, uids: &NumSet| {
            let more = NAMED_MAX.saturating_sub(names.len());
            let name = |uid| format!("{}  {}  UID {uid}", place.account.name, place.mailbox.name);
            names.extend(uids.iter().take(more).map(name));
        };
        name(&mut self.done.would_lose, &left.would_lose);
        name(&mut self.done.too_large, &left.too_large);
        name(&mut self.done.failed, &left.unreadable);
        name(&mut self.done.failed, &left.failed);
        ended
    }

    async fn each(&mut self, converter: &mut Converter<'_>) -> Result<()> {
        let before = self.done.sum;
        loop {
            let step = self.interruption.finish_or_stop(converter.advance()).await;
            let last = std::mem::replace(&mut self.done.sum, before.plus(*converter.report()));
            self.bar.inc(self.done.sum.examined - last.examined);
            let is_one = match step {
                Ok(step) => step?,
                Err(signal) => return Err(interrupted(signal, self.done.in_short())),
            };
            let pause = self.pause.filter(|_| is_one && has_worked(&last, &self.done.sum));
            if let Some(signal) = self.interruption.within(pause.unwrap_or_default()).await {
                return Err(interrupted(signal, self.done.in_short()));
            }
            if !is_one {
                return Ok(());
            }
        }
    }
}

/// The mailboxes that the command names.
async fn places(opened: &Opened, config: &Config, command: &Convert) -> Result<Vec<MailboxToConvert>> {
    let wanted = command.mailbox.as_deref().map(mailbox_name).transpose()?;
    let (mut places, run) = (Vec::new(), SharedBodies::default());
    let mut named = HashSet::new();
    for name in &command.accounts {
        let account = opened.found(&full_name(name, config)).await?;
        if !named.insert(account.id) {
            continue;
        }
        let list = opened.store.list(account.id).await?;
        let (before, shared) = (places.len(), Arc::new(run.of_another_account()));
        for entry in list.entries.iter().filter(|e| wanted.as_ref().is_none_or(|name| *name == e.name)) {
            let shared = Arc::clone(&shared);
            places.push(MailboxToConvert { account: account.clone(), mailbox: entry.clone(), shared });
        }
        // RFC 9051 §5.1: each account has INBOX. The first message makes it.
        let missing = wanted.as_ref().filter(|name| places.len() == before && !name.is_inbox());
        if let Some(wanted) = missing {
            let account = &account.name;
            return Err(Failure::Usage(format!(
                "{account} has no mailbox {wanted}; leave --mailbox out for all"
            )));
        }
    }
    Ok(places)
}

/// Keeps other conversions out until it is dropped. A host of a cluster may have no data
/// directory: there it keeps none out. It may have one of another user, who gets what root makes.
fn lock(data: &Path) -> Result<Option<File>> {
    let failed = |error: io::Error| Failure::Usage(format!("{}: {error}", data.join(LOCK).display()));
    let directory = match DataDirectory::open(data) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        directory => directory.map_err(failed)?,
    };
    let file = directory.file(LOCK).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let why = "another conversion is running; wait for its end, then run this one again";
            Err(Failure::Incomplete(why.into()))
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Whether a message was converted, or its items made. `--rate` counts these, and not those that
/// are only examined.
fn has_worked(before: &ConvertReport, now: &ConvertReport) -> bool {
    let works = |report: &ConvertReport| report.converted + report.renumbered + report.items;
    works(now) > works(before)
}

fn print(done: &Done, options: ConvertOptions) {
    let ConvertReport {
        examined,
        converted,
        renumbered,
        would_lose,
        too_large,
        refused,
        failed,
        vanished,
        bytes_before,
        bytes_after,
        ..
    } = done.sum;
    let size = |bytes| ByteSize::b(bytes).display().iec().to_string();
    println!("examined    {examined}");
    if options.to.is_some() {
        println!("converted   {converted}");
        println!("new UIDs    {renumbered}");
        println!("octets      {} before, {} after", size(bytes_before), size(bytes_after));
    }
    if options.items == Items::Make {
        println!("items made  {}, of {}", done.sum.items, size(done.sum.items_bytes));
    }
    if would_lose > 0 {
        println!(
            "unchanged   {would_lose}: their rich originals would be lost. `posthaste account set NAME --keep-original true` \
             keeps them, --lossy discards them"
        );
        print_names(&done.would_lose, would_lose);
    }
    if too_large > 0 {
        println!(
            "kept        {too_large}: their conversion may take more memory than `limits.summary_bytes` allows"
        );
        print_names(&done.too_large, too_large);
    }
    if refused > 0 {
        println!("refused     {refused}: the engine on a cluster cannot change their form; see --new-uids");
    }
    if failed > 0 {
        println!("failed      {failed}: they cannot be read or converted; see `posthaste check`");
        print_names(&done.failed, failed);
    }
    if vanished > 0 {
        println!("expunged    {vanished} meanwhile");
    }
    if options.mode == ConvertMode::DryRun {
        println!("nothing was changed: leave --dry-run out to do it");
    }
}

/// The first of some messages, a line each.
fn print_names(names: &[String], count: u64) {
    names.iter().for_each(|name| println!("            {name}"));
    let more = count.saturating_sub(names.len() as u64);
    if more > 0 {
        println!("            and {more} more");
    }
}

fn bar(messages: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} messages  {eta} left");
    let bar = ProgressBar::new(messages).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, chown, symlink};

    use posthaste_delivery::ConvertReport;

    use super::{Done, LOCK, has_worked, lock};
    use crate::private;

    /// A host of a cluster may have no data directory.
    #[test]
    fn conversions_take_turns_where_there_is_a_data_directory() {
        let data = tempfile::tempdir().unwrap();
        let held = lock(data.path()).unwrap();
        assert!(held.is_some());
        assert!(lock(data.path()).is_err());
        drop(held);
        assert!(lock(data.path()).unwrap().is_some());
        assert!(lock(&data.path().join("none")).unwrap().is_none());
        // A link in its place makes no file elsewhere.
        let elsewhere = data.path().join("elsewhere");
        std::fs::remove_file(data.path().join(LOCK)).unwrap();
        symlink(&elsewhere, data.path().join(LOCK)).unwrap();
        let refusal = lock(data.path()).unwrap_err().to_string();
        assert!(refusal.ends_with("/convert.lock: it is a symbolic link; remove it"), "{refusal}");
        assert!(!elsewhere.exists());
    }

    /// The server of the host runs as the owner, and refuses to start beside a file of root's.
    #[test]
    fn root_leaves_no_file_of_its_own_in_the_directory_of_another_user() {
        if private::user() != 0 {
            eprintln!("skipped: files of several users (run as root)");
            return;
        }
        let data = tempfile::tempdir().unwrap();
        chown(data.path(), Some(65_534), None).unwrap();
        let _held = lock(data.path()).unwrap();
        assert_eq!(std::fs::metadata(data.path().join(LOCK)).unwrap().uid(), 65_534);
    }

    /// After an interruption, no error names the messages that the engine refused.
    #[test]
    fn a_run_that_was_interrupted_counts_what_was_refused() {
        let sum = ConvertReport { examined: 5, refused: 2, failed: 1, ..ConvertReport::default() };
        let done = Done { sum, ..Done::default() }.in_short();
        assert!(done.starts_with("examined 5, ") && done.ends_with(", refused 2, failed 1"), "{done}");
    }

    #[test]
    fn the_rate_counts_work_alone() {
        let examined = ConvertReport { examined: 1, ..ConvertReport::default() };
        assert!(!has_worked(&ConvertReport::default(), &examined));
        for report in [
            ConvertReport { converted: 1, ..examined },
            ConvertReport { renumbered: 1, ..examined },
            ConvertReport { items: 1, ..examined },
        ] {
            assert!(has_worked(&examined, &report));
        }
    }
}
