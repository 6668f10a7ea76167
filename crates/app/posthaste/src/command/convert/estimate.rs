//! Estimates the work of a conversion, by a random sample of the messages.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use posthaste_delivery::{ConvertMode, ConvertOptions, Estimate, Estimator, Figure, Items, Sample};

use super::place::{MailboxToConvert, is_deleted};
use crate::failure::Result;
use crate::open::Opened;

/// Messages that are examined for the estimate, or all if they are fewer: a second of work. Of a
/// share of 10 %, 300 messages show that it is from 7 to 13 %. Four times as many would halve that.
const SAMPLE: u64 = 300;

/// About how long a commit takes here. A message's commit syncs its body and the index, so it
/// counts as two syncs of a file. The file has no name (`O_TMPFILE` of open(2)), so a dry run
/// changes nothing, and a kill leaves nothing. Some file systems have no such files: the commits
/// are left out of the estimate there. A disk that cannot be written to is reported by the
/// conversion itself.
pub(super) fn commit_time(data: &Path) -> Duration {
    const SYNCS: u32 = 6;
    let measure = || {
        let mut file = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(data)?;
        let began = Instant::now();
        for _ in 0..SYNCS {
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
        }
        Ok::<_, std::io::Error>(began.elapsed() * 2 / SYNCS)
    };
    measure().unwrap_or_default()
}

/// Estimates the time and the saved bytes by a sample that changes nothing. Answers with the number
/// of messages.
pub(super) async fn estimate(
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
    let changed = (sample.changed * share).round();
    let work = sample.seconds * share + changed * commit.as_secs_f64();
    let time = humantime::format_duration(Duration::from_secs_f64(seconds(work, changed, rate)));
    eprintln!("{}, in at least {time}", summary_text(&sample, options, total));
    Ok(total)
}

/// The estimate for all messages, as text. An interval contains the true value with 95 %
/// certainty.
fn summary_text(sample: &Estimate, options: ConvertOptions, total: u64) -> String {
    let examined = sample.examined;
    let count = |figure: &Figure| {
        let (count, within) = figure.count_of_all(examined, total);
        with_interval(count.round(), within.ceil(), |count| format!("{count:.0}"))
    };
    let size = |figure: &Figure| {
        let (bytes, within) = figure.of_all(examined, total);
        with_interval(bytes, within, |bytes| ByteSize::b(bytes as u64).display().iec().to_string())
    };
    let by = match examined < total {
        true => format!("by a random sample of {examined} (± is the 95 % interval)"),
        false => "all of them examined".to_owned(),
    };
    let mut about = vec![format!("{total} messages; {by}")];
    if options.to.is_some() {
        let (before, after) = (size(&sample.bytes_before), size(&sample.bytes_after));
        let converted = count(&sample.converted);
        about.push(format!(
            "about {converted} to convert, {before} stored now and {after} then (both until maintenance)"
        ));
    }
    if options.items == Items::Make {
        let items = size(&sample.items_bytes);
        about.push(format!("items of about {} to make, {items} more", count(&sample.items)));
    }
    about.join(", ")
}

/// `120 ± 30`; without an interval, the number alone.
fn with_interval(value: f64, within: f64, print: impl Fn(f64) -> String) -> String {
    match within > 0.0 {
        true => format!("{} ± {}", print(value), print(within)),
        false => print(value),
    }
}

/// The seconds that a conversion takes at least: its work, or that many messages at the rate.
fn seconds(work: f64, changed: f64, rate: Option<u32>) -> f64 {
    let paused = rate.map_or(0.0, |rate| changed / f64::from(rate));
    work.max(paused).ceil()
}

/// Examines those messages of a mailbox that are in the sample.
async fn of_sample(
    opened: &Opened,
    place: &MailboxToConvert,
    dry: ConvertOptions,
    (chosen, estimator): (&mut Sample, &mut Estimator<'_>),
) -> Result<()> {
    let mailbox = opened.store.open(place.mailbox.id).await?;
    let converter = opened.delivery.converter(&place.account, mailbox, dry, &place.shared).await?;
    Ok(estimator.add(converter.sampled(chosen)).await?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::{commit_time, seconds, with_interval};

    /// A new name would change the time of the directory.
    #[test]
    fn a_measurement_makes_no_file() {
        let data = tempfile::tempdir().unwrap();
        let directory = File::open(data.path()).unwrap();
        directory.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        commit_time(data.path());
        assert_eq!(directory.metadata().unwrap().modified().unwrap(), SystemTime::UNIX_EPOCH);
        assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
        // A host of a cluster may have no data directory.
        commit_time(&data.path().join("none"));
    }

    #[test]
    fn the_estimate_knows_the_rate() {
        assert_eq!(seconds(2.5, 1_000.0, None), 3.0);
        assert_eq!(seconds(2.5, 1_001.0, Some(50)), 21.0);
        assert_eq!(seconds(30.0, 1_000.0, Some(50)), 30.0);
        // Where nothing changes, nothing waits.
        assert_eq!(seconds(0.5, 0.0, Some(50)), 1.0);
    }

    #[test]
    fn an_interval_is_printed_where_there_is_one() {
        let print = |value: f64| format!("{value:.0}");
        assert_eq!(with_interval(120.0, 30.0, print), "120 ± 30");
        assert_eq!(with_interval(120.0, 0.0, print), "120");
    }
}
