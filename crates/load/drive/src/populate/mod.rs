//! Fills mailboxes by the server's own protocols: APPEND with many messages in a command, or LMTP.
//!
//! The order of messages in each mailbox is a function of the seed, so an interrupted populate
//! continues at the end of the mailbox. The number of its messages determines the next one.

mod append;
mod maildir;
mod options;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use posthaste_load_text::for_terminal;
use posthaste_load_text::quantity::{show_bytes, show_duration};
use posthaste_load_workload::corpus::Corpus;
use tokio::sync::Semaphore;

use crate::interrupt;
use crate::run::{Failure, Mailer, Pop3};
use crate::target::{Scheme, Target};

pub use maildir::Maildirs;
pub use options::{Contents, PopulateOptions};

use work::Work;

/// The longest wait for the next of the messages that a server took.
const DELIVERED_WITHIN: Duration = Duration::from_secs(60);
/// The time between two looks whether they arrived.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The result of filling.
#[derive(Clone, Copy, Debug, Default)]
pub struct Populated {
    /// Messages put in now.
    pub added: u64,
    /// Messages found there.
    pub found: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Accounts that could not be filled.
    pub failed: u64,
    /// Ctrl-C ended it before all was in.
    pub interrupted: bool,
}

/// Fills every account. Errors of single accounts are reported and counted; the others are filled.
///
/// # Errors
/// The ways do not lead to all mailboxes, or the system has no thread left.
pub fn populate(options: PopulateOptions) -> std::io::Result<Populated> {
    options.check().map_err(std::io::Error::other)?;
    interrupt::listen();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let total = options.contents.messages() * u64::from(options.accounts.count());
    let (parallel, live) = (options.parallel.max(1), options.live);
    let work = Arc::new(Work {
        corpus: Corpus::with_shares(options.seed, options.contents.shares, &options.contents.sizes),
        options,
        added: AtomicU64::new(0),
        found: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let failed = runtime.block_on(async {
        let progress = tokio::spawn(show_progress(work.clone(), total, live));
        let stopper = tokio::spawn(stop_on_interrupt(work.clone()));
        let failed = fill_all(&work, parallel).await;
        stopper.abort();
        progress.abort();
        failed
    });
    Ok(Populated {
        added: work.added.load(Ordering::Relaxed),
        found: work.found.load(Ordering::Relaxed),
        bytes: work.bytes.load(Ordering::Relaxed),
        failed,
        interrupted: work.stop.load(Ordering::Relaxed),
    })
}

async fn stop_on_interrupt(work: Arc<Work>) {
    interrupt::wait().await;
    work.stop.store(true, Ordering::Relaxed);
}

async fn fill_all(work: &Arc<Work>, parallel: usize) -> u64 {
    let room = Arc::new(Semaphore::new(parallel));
    let mut tasks = tokio::task::JoinSet::new();
    let mut failed = 0;
    for account in 0..work.options.accounts.count() {
        let Ok(permit) = room.clone().acquire_owned().await else { break };
        if work.stop.load(Ordering::Relaxed) {
            break;
        }
        let task_work = work.clone();
        tasks.spawn(async move {
            let done = fill(&task_work, account).await;
            drop(permit);
            done.map_err(|failure| (account, failure))
        });
        while let Some(done) = tasks.try_join_next() {
            failed += report_failure(work, done);
        }
    }
    while let Some(done) = tasks.join_next().await {
        failed += report_failure(work, done);
    }
    failed
}

type Filled = Result<Result<(), (u32, Failure)>, tokio::task::JoinError>;

fn report_failure(work: &Work, done: Filled) -> u64 {
    match done {
        Ok(Ok(())) => 0,
        Ok(Err((account, failure))) => {
            let failure = for_terminal(&failure.to_string());
            eprintln!("{}: {failure}", work.options.accounts.name(account));
            1
        }
        Err(_) => 1,
    }
}

/// One account.
async fn fill(work: &Work, account: u32) -> Result<(), Failure> {
    if work.options.server.scheme == Scheme::Pop3 {
        return fill_inbox(work, account).await;
    }
    let mut filler = append::Filler::open(work, account).await?;
    for (folder, (name, wanted)) in work.options.contents.mailboxes.iter().enumerate() {
        let there = filler.prepare(name).await?.min(*wanted);
        work.found.fetch_add(u64::from(there), Ordering::Relaxed);
        match &work.options.lmtp {
            Some(lmtp) if folder == 0 => deliver(work, lmtp, account, there..*wanted).await?,
            _ => filler.append(name, folder as u32, there..*wanted).await?,
        }
        if work.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    filler.close().await
}

/// INBOX of a server without IMAP: by delivery, counted by POP3.
async fn fill_inbox(work: &Work, account: u32) -> Result<(), Failure> {
    let inbox = work.options.contents.mailboxes.first();
    let (Some((_, wanted)), Some(lmtp)) = (inbox, &work.options.lmtp) else { return Ok(()) };
    let there = count(work, account).await?.min(*wanted);
    work.found.fetch_add(u64::from(there), Ordering::Relaxed);
    deliver(work, lmtp, account, there..*wanted).await?;
    // By SMTP a server takes a message before it delivers it.
    let (mut last, mut since) = (there, Instant::now());
    while last < *wanted && !work.stop.load(Ordering::Relaxed) {
        let now = count(work, account).await?;
        if now > last {
            since = Instant::now();
        } else if since.elapsed() > DELIVERED_WITHIN {
            let seconds = DELIVERED_WITHIN.as_secs();
            let what = format!("{now} of {wanted} messages arrived, and none within {seconds} s");
            return Err(Failure::NotDelivered(what));
        }
        last = now;
        if last < *wanted {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
    Ok(())
}

/// Messages in INBOX by POP3.
async fn count(work: &Work, account: u32) -> Result<u32, Failure> {
    let options = &work.options;
    let mut pop3 = Pop3::connect(&options.dialer, &options.server.endpoint, account).await?;
    pop3.login(&options.accounts.name(account), &options.accounts.password(account)).await?;
    let (messages, _) = pop3.stat().await?;
    pop3.quit().await?;
    Ok(messages)
}

/// INBOX by LMTP or SMTP.
async fn deliver(
    work: &Work,
    target: &Target,
    account: u32,
    numbers: std::ops::Range<u32>,
) -> Result<(), Failure> {
    if numbers.is_empty() {
        return Ok(());
    }
    let mut mailer = Mailer::connect(&work.options.dialer, target, None, account).await?;
    let address = work.options.accounts.address(account);
    let mut mail = Vec::new();
    for number in numbers {
        if work.stop.load(Ordering::Relaxed) {
            break;
        }
        mail.clear();
        work.message(account, 0, number, &mut mail).map_err(posthaste_imap_client::Error::from)?;
        mailer.send("writer@example.com", &address, &mail).await?;
        work.note(1, mail.len() as u64);
    }
    mailer.quit().await;
    Ok(())
}

async fn show_progress(work: Arc<Work>, total: u64, live: bool) {
    if !live {
        return std::future::pending().await;
    }
    let start = Instant::now();
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} messages, {msg}, {eta} left") {
        bar.set_style(style);
    }
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    let mut seconds = 0u64;
    loop {
        ticks.tick().await;
        let so_far = Progress {
            added: work.added.load(Ordering::Relaxed),
            found: work.found.load(Ordering::Relaxed),
            bytes: work.bytes.load(Ordering::Relaxed),
            total,
            seconds: start.elapsed().as_secs_f64(),
        };
        if bar.is_hidden() {
            // A line every ten seconds; the first after one, when there is a rate to report.
            if seconds % 10 == 1 {
                eprintln!("{}", so_far.line());
            }
        } else {
            bar.set_position(so_far.added + so_far.found);
            bar.set_message(format!("{:.0}/s, {}", so_far.rate(), show_bytes(so_far.bytes)));
        }
        seconds += 1;
    }
}

/// The progress of the filling.
struct Progress {
    added: u64,
    found: u64,
    bytes: u64,
    total: u64,
    seconds: f64,
}

impl Progress {
    fn rate(&self) -> f64 {
        self.added as f64 / self.seconds.max(0.1)
    }

    /// For terminals that show no bar. Nothing added yet: the time left is unknown.
    fn line(&self) -> String {
        let there = self.added + self.found;
        let left = match self.added {
            0 => "time left is not known yet".to_owned(),
            _ => {
                let left = self.total.saturating_sub(there) as f64 / self.rate();
                format!("{} left", show_duration(Duration::from_secs(left as u64)))
            }
        };
        let (total, rate, bytes) = (self.total, self.rate(), show_bytes(self.bytes));
        format!("{there} of {total} messages, {rate:.0}/s, {bytes}, {left}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_shown_once_it_is_known() {
        let mut so_far = Progress { added: 0, found: 40, bytes: 0, total: 1040, seconds: 0.0 };
        assert!(so_far.line().ends_with("not known yet"), "{}", so_far.line());
        (so_far.added, so_far.bytes, so_far.seconds) = (200, 200_000, 10.0);
        assert!(so_far.line().starts_with("240 of 1040 messages, 20/s"), "{}", so_far.line());
        assert!(so_far.line().ends_with(&format!("{} left", show_duration(Duration::from_secs(40)))));
    }
}
