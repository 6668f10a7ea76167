//! `posthaste convert`: converts stored mail to another format, while the server runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use indicatif::{ProgressBar, ProgressStyle};
use posthaste_delivery::{
    ConvertMode, ConvertOptions, ConvertReport, DeliveryError, Estimator, Held, Items, Loss, Sample,
};
use posthaste_directory::{Account, Format};
use posthaste_store::{MailboxEntry, StoreError};

use crate::cli::{self, Convert};
use crate::command::names::{full_name, mailbox_name};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open::{self, Opened};

/// Messages that are looked at for the estimate, spread evenly over all mailboxes: some tenths of a
/// second.
const SAMPLE: u64 = 100;

/// A mailbox to convert.
struct MailboxToConvert {
    account: Account,
    mailbox: MailboxEntry,
    /// That of the account.
    held: Arc<Held>,
}

pub async fn run(config: Config, command: Convert) -> Result<()> {
    let opened = open::existing(&config).await?;
    let places = places(&opened, &config, &command).await?;
    let _lock = if command.dry_run { None } else { Some(lock(&config.data)?) };
    let options = ConvertOptions {
        to: command.to.map(|to| match to {
            cli::Format::Mime => Format::Mime,
            cli::Format::Rich => Format::Rich,
            cli::Format::Keep => Format::Keep,
        }),
        items: if command.items { Items::Make } else { Items::Leave },
        mode: if command.dry_run { ConvertMode::DryRun } else { ConvertMode::Apply },
        loss: if command.lossy { Loss::Allow } else { Loss::Refuse },
    };
    let commit = commit_time(&config.data);
    let total = estimate(&opened, &places, options, (commit, command.rate)).await?;
    let bar = bar(total);
    let pause = command.rate.map(|rate| Duration::from_secs(1) / rate);
    let (sum, ended) = all(&opened, &places, options, (&bar, pause)).await;
    bar.finish_and_clear();
    print(&sum, options);
    ended?;
    if sum.refused > 0 {
        let why = format!(
            "the engine on a cluster cannot change the form of stored mail: {} messages stay as they are",
            sum.refused
        );
        return Err(Failure::Usage(why));
    }
    if sum.failed > 0 {
        let why = format!("{} messages cannot be read or converted; the log names them", sum.failed);
        return Err(Failure::Incomplete(why));
    }
    Ok(())
}

/// Converts all mailboxes. An error ends the work on its account only; the first one is returned
/// with what was done.
async fn all(
    opened: &Opened,
    places: &[MailboxToConvert],
    options: ConvertOptions,
    pace: (&ProgressBar, Option<Duration>),
) -> (ConvertReport, Result<()>) {
    let (mut sum, mut ended) = (ConvertReport::default(), Ok(()));
    for places in places.chunk_by(|a, b| a.account.id == b.account.id) {
        for place in places {
            let Err(error) = one(opened, place, options, pace, &mut sum).await else { continue };
            if is_deleted(&error) {
                continue;
            }
            tracing::error!(account = place.account.name, %error, "the conversion of an account's mail ended");
            if ended.is_ok() {
                ended = Err(error);
            }
            break;
        }
    }
    (sum, ended)
}

/// Whether the mailbox was deleted meanwhile. Then there is nothing to convert.
fn is_deleted(error: &Failure) -> bool {
    let (Failure::Store(error) | Failure::Delivery(DeliveryError::Store(error))) = error else {
        return false;
    };
    matches!(error, StoreError::NoMailbox(_))
}

/// The mailboxes that the command names.
async fn places(opened: &Opened, config: &Config, command: &Convert) -> Result<Vec<MailboxToConvert>> {
    let wanted = command.mailbox.as_deref().map(mailbox_name).transpose()?;
    let (mut places, run) = (Vec::new(), Held::default());
    for name in &command.accounts {
        let account = opened.found(&full_name(name, config)).await?;
        let list = opened.store.list(account.id).await?;
        let (before, held) = (places.len(), Arc::new(run.of_another_account()));
        for entry in list.entries.iter().filter(|e| wanted.as_ref().is_none_or(|name| *name == e.name)) {
            let held = Arc::clone(&held);
            places.push(MailboxToConvert { account: account.clone(), mailbox: entry.clone(), held });
        }
        if let Some(wanted) = wanted.as_ref().filter(|_| places.len() == before) {
            let account = &account.name;
            return Err(Failure::Usage(format!(
                "{account} has no mailbox {wanted}; leave --mailbox out for all"
            )));
        }
    }
    Ok(places)
}

/// Keeps other conversions out until it is dropped.
fn lock(data: &Path) -> Result<File> {
    let path = data.join("convert.lock");
    let failed = |error: std::io::Error| Failure::Usage(format!("{}: {error}", path.display()));
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let why = "another conversion is running; wait for its end, then run this one again";
            Err(Failure::Incomplete(why.into()))
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// About how long a commit takes here. A message's commit syncs its body and the index, so it
/// counts as two syncs of a file. A disk that cannot be written to is reported by the conversion
/// itself.
fn commit_time(data: &Path) -> Duration {
    const SYNCS: u32 = 6;
    let path = data.join("convert.probe");
    let probe = || {
        let mut file = File::create(&path)?;
        let began = Instant::now();
        for _ in 0..SYNCS {
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
        }
        Ok::<_, std::io::Error>(began.elapsed() * 2 / SYNCS)
    };
    let time = probe().unwrap_or_default();
    let _ = std::fs::remove_file(&path);
    time
}

/// Estimates the time and the saved bytes by a sample that changes nothing. Answers with the number
/// of messages.
async fn estimate(
    opened: &Opened,
    places: &[MailboxToConvert],
    options: ConvertOptions,
    (commit, rate): (Duration, Option<u32>),
) -> Result<u64> {
    let ids: Vec<_> = places.iter().map(|place| place.mailbox.id).collect();
    let heads = opened.store.status(&ids).await?;
    let total: u64 = heads.iter().flatten().map(|head| u64::from(head.counts.messages)).sum();
    let (mut estimator, mut chosen) = (Estimator::new(&opened.delivery), Sample::new(SAMPLE, total));
    let dry = ConvertOptions { mode: ConvertMode::DryRun, ..options };
    for place in places {
        match of_sample(opened, place, dry, (&mut chosen, &mut estimator)).await {
            Err(error) if is_deleted(&error) => {}
            examined => examined?,
        }
    }
    let sample = estimator.finish(&ids).await?;
    let share = total as f64 / sample.examined.max(1) as f64;
    let of_all = |count: f64| (count * share).round();
    let changed = of_all(sample.changed);
    let work = sample.seconds * share + changed * commit.as_secs_f64();
    let seconds = seconds(work, changed, rate);
    let bytes = |bytes: f64| ByteSize::b((bytes * share) as u64).display().iec().to_string();
    let mut about = Vec::new();
    if options.to.is_some() {
        let (before, after) = (bytes(sample.bytes_before), bytes(sample.bytes_after));
        let converted = of_all(sample.converted);
        about.push(format!(
            "about {converted} to convert, {before} stored now and {after} then (both until maintenance)"
        ));
    }
    if options.items == Items::Make {
        let items = bytes(sample.items_bytes);
        about.push(format!("items of about {} to make, {items} more", of_all(sample.items)));
    }
    eprintln!(
        "{total} messages; by a sample of {}, {}, in at least {}",
        sample.examined,
        about.join(", "),
        humantime::format_duration(Duration::from_secs_f64(seconds)),
    );
    Ok(total)
}

/// The seconds that a conversion takes at least: its work, or that many messages at the rate.
fn seconds(work: f64, changed: f64, rate: Option<u32>) -> f64 {
    let paused = rate.map_or(0.0, |rate| changed / f64::from(rate));
    work.max(paused).ceil()
}

/// What would be done with those messages of a mailbox that are in the sample.
async fn of_sample(
    opened: &Opened,
    place: &MailboxToConvert,
    dry: ConvertOptions,
    (chosen, estimator): (&mut Sample, &mut Estimator<'_>),
) -> Result<()> {
    let mailbox = opened.store.open(place.mailbox.id).await?;
    let converter = opened.delivery.converter(&place.account, mailbox, dry, &place.held).await?;
    Ok(estimator.add(converter.sampled(chosen)).await?)
}

/// Converts a mailbox, and adds what was done to a sum, also if an error ends it.
async fn one(
    opened: &Opened,
    place: &MailboxToConvert,
    options: ConvertOptions,
    (bar, pause): (&ProgressBar, Option<Duration>),
    sum: &mut ConvertReport,
) -> Result<()> {
    let mailbox = opened.store.open(place.mailbox.id).await?;
    let mut converter = opened.delivery.converter(&place.account, mailbox, options, &place.held).await?;
    let before = *sum;
    loop {
        let step = converter.advance().await;
        let last = std::mem::replace(sum, before.plus(*converter.report()));
        bar.inc(sum.examined - last.examined);
        if !step? {
            return Ok(());
        }
        if let Some(pause) = pause.filter(|_| has_worked(&last, sum)) {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Whether a message was converted, or its items made. `--rate` counts these, and not those that
/// are only examined.
fn has_worked(before: &ConvertReport, now: &ConvertReport) -> bool {
    let works = |report: &ConvertReport| report.converted + report.renumbered + report.items;
    works(now) > works(before)
}

fn print(sum: &ConvertReport, options: ConvertOptions) {
    let ConvertReport {
        examined,
        converted,
        renumbered,
        would_lose,
        vanished,
        bytes_before,
        bytes_after,
        ..
    } = *sum;
    let size = |bytes| ByteSize::b(bytes).display().iec().to_string();
    println!("examined    {examined}");
    if options.to.is_some() {
        println!("converted   {converted}");
        println!("new UIDs    {renumbered}");
        println!("octets      {} before, {} after", size(bytes_before), size(bytes_after));
    }
    if options.items == Items::Make {
        println!("items made  {}, of {}", sum.items, size(sum.items_bytes));
    }
    if would_lose > 0 {
        println!(
            "unchanged   {would_lose}: their rich originals would be lost. `posthaste account set NAME --keep-original true` \
             keeps them, --lossy discards them"
        );
    }
    if vanished > 0 {
        println!("expunged    {vanished} meanwhile");
    }
    if options.mode == ConvertMode::DryRun {
        println!("nothing was changed: leave --dry-run out to do it");
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
    use posthaste_delivery::ConvertReport;

    use super::{has_worked, seconds};

    #[test]
    fn the_estimate_knows_the_rate() {
        assert_eq!(seconds(2.5, 1_000.0, None), 3.0);
        assert_eq!(seconds(2.5, 1_001.0, Some(50)), 21.0);
        assert_eq!(seconds(30.0, 1_000.0, Some(50)), 30.0);
        // Where nothing changes, nothing waits.
        assert_eq!(seconds(0.5, 0.0, Some(50)), 1.0);
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
