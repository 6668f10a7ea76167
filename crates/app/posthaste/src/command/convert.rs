//! `posthaste convert`: converts stored mail to another format, while the server runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use indicatif::{ProgressBar, ProgressStyle};
use posthaste_delivery::{ConvertMode, ConvertOptions, ConvertReport, Held, Items, Loss, Sample};
use posthaste_directory::{Account, Format};
use posthaste_store::MailboxEntry;

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
    if open::cluster(&config)?.is_some() && command.to.is_some() && !command.dry_run {
        let why = "the engine on a cluster cannot change the form of stored mail; --dry-run shows what would change";
        return Err(Failure::Usage(why.into()));
    }
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
    let total = estimate(&opened, &places, options).await?;
    let bar = bar(total);
    let pause = command.rate.map(|rate| Duration::from_secs(1) / rate);
    let mut sum = ConvertReport::default();
    for place in &places {
        let report = one(&opened, place, options, (&bar, pause)).await?;
        sum = sum.plus(report);
    }
    bar.finish_and_clear();
    print(&sum, options);
    if sum.failed > 0 {
        let why = format!("{} messages cannot be read or converted; the log names them", sum.failed);
        return Err(Failure::Incomplete(why));
    }
    Ok(())
}

/// The mailboxes that the command names.
async fn places(opened: &Opened, config: &Config, command: &Convert) -> Result<Vec<MailboxToConvert>> {
    let wanted = command.mailbox.as_deref().map(mailbox_name).transpose()?;
    let mut places = Vec::new();
    for name in &command.accounts {
        let account = opened.found(&full_name(name, config)).await?;
        let list = opened.store.list(account.id).await?;
        let (before, held) = (places.len(), Arc::new(Held::default()));
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

/// Estimates the time and the saved bytes by a sample that changes nothing. Answers with the number
/// of messages.
async fn estimate(opened: &Opened, places: &[MailboxToConvert], options: ConvertOptions) -> Result<u64> {
    let ids: Vec<_> = places.iter().map(|place| place.mailbox.id).collect();
    let heads = opened.store.status(&ids).await?;
    let total: u64 = heads.iter().flatten().map(|head| u64::from(head.counts.messages)).sum();
    let (began, mut sample, mut chosen) =
        (Instant::now(), ConvertReport::default(), Sample::new(SAMPLE, total));
    for place in places {
        let mailbox = opened.store.open(place.mailbox.id).await?;
        let dry = ConvertOptions { mode: ConvertMode::DryRun, ..options };
        let converter = opened.delivery.converter(&place.account, mailbox, dry, &place.held).await?;
        let mut converter = converter.sampled(&mut chosen);
        while converter.advance().await? {}
        sample = sample.plus(*converter.report());
    }
    let share = total as f64 / sample.examined.max(1) as f64;
    let of_all = |count: u64| (count as f64 * share).round();
    let seconds = (began.elapsed().as_secs_f64() * share).ceil();
    let bytes = |bytes: u64| ByteSize::b((bytes as f64 * share) as u64).display().iec().to_string();
    let mut about = Vec::new();
    if options.to.is_some() {
        let (before, after) = (bytes(sample.bytes_before), bytes(sample.bytes_after));
        let converted = of_all(sample.converted + sample.renumbered);
        about.push(format!("about {converted} to convert, {before} stored now and {after} then"));
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

async fn one(
    opened: &Opened,
    place: &MailboxToConvert,
    options: ConvertOptions,
    (bar, pause): (&ProgressBar, Option<Duration>),
) -> Result<ConvertReport> {
    let mailbox = opened.store.open(place.mailbox.id).await?;
    let mut converter = opened.delivery.converter(&place.account, mailbox, options, &place.held).await?;
    let mut examined = 0;
    while converter.advance().await? {
        bar.inc(converter.report().examined - examined);
        examined = converter.report().examined;
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
    Ok(*converter.report())
}

fn print(sum: &ConvertReport, options: ConvertOptions) {
    let ConvertReport { examined, converted, renumbered, would_lose, bytes_before, bytes_after, .. } = *sum;
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
