//! `posthaste queue`: mail that waits to be sent to other domains.

use std::io::Write as _;
use std::time::Duration;

use bytesize::ByteSize;
use posthaste_directory::unix_time;
use posthaste_queue::{Item, Outcome, Queue, QueueError, Recipient, TlsRequirement, Wait, date_time};
use serde_json::json;

use crate::cli;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::json_line;
use crate::open;

pub async fn run(config: Config, command: cli::Queue) -> Result<()> {
    use cli::Queue as Command;
    let opened = open::existing(&config).await?;
    let queue = Queue::open(opened.delivery.clone()).await?;
    let now = unix_time::signed(opened.store.unix_ms() / 1000);
    match command {
        Command::List { json } => list(&queue, now, json).await?,
        Command::Show { item } => show(&queue, item, now).await?,
        Command::Retry(which) => {
            change(&queue, &which, "is tried at once", |item| item.next = Item::AT_ONCE).await?;
        }
        Command::Hold(which) => change(&queue, &which, "is held", |item| item.held = true).await?,
        Command::Release(which) => {
            let release = |item: &mut Item| (item.held, item.next) = (false, Item::AT_ONCE);
            change(&queue, &which, "is released", release).await?;
        }
        Command::Drop(which) => {
            for id in chosen(&queue, &which).await? {
                report(&which, "is dropped", queue.drop_item(id).await)?;
            }
        }
    }
    if !opened.relays(&config).await? {
        eprintln!("note: a server with this configuration sends nothing: {}", open::TO_RELAY);
    }
    Ok(())
}

/// Changes items, and prints a line for each.
async fn change(
    queue: &Queue,
    which: &cli::QueueItems,
    done: &str,
    change: impl Fn(&mut Item) + Send + Sync,
) -> Result<()> {
    for id in chosen(queue, which).await? {
        report(which, done, queue.administer(id, &change).await)?;
    }
    Ok(())
}

/// Prints what was done. With all items, one may leave the queue before its turn.
fn report(which: &cli::QueueItems, done: &str, outcome: std::result::Result<Item, QueueError>) -> Result<()> {
    match outcome {
        Ok(item) => println!("item {} {done}", item.id),
        Err(QueueError::NoItem(_)) if which.items.is_empty() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// The numbers of the items that are meant.
async fn chosen(queue: &Queue, which: &cli::QueueItems) -> Result<Vec<u32>> {
    if !which.items.is_empty() {
        return Ok(which.items.clone());
    }
    let is_meant = |item: &&Item| match &which.domain {
        Some(domain) => {
            let (of_item, _) = TlsRequirement::split(&item.destination);
            domain.eq_ignore_ascii_case(of_item) || domain.eq_ignore_ascii_case(&item.destination)
        }
        None => which.all,
    };
    let (mut found, mut after) = (Vec::new(), None);
    while let Some(page) = queue.page(after).await? {
        after = Some(page.last);
        found.extend(page.items.iter().filter(is_meant).map(|item| item.id));
    }
    match (&which.domain, found.is_empty()) {
        (Some(domain), true) => Err(Failure::Usage(format!(
            "nothing waits for {domain}: `posthaste queue list` shows the domains"
        ))),
        _ => Ok(found),
    }
}

async fn list(queue: &Queue, now: i64, json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let (mut after, mut count, mut size) = (None, 0u64, 0u64);
    while let Some(page) = queue.page(after).await? {
        after = Some(page.last);
        for error in &page.damaged {
            eprintln!("warning: {}", printable(&error.to_string()));
        }
        for item in &page.items {
            let wait = queue.wait_of(&item.destination).await?;
            let line = if json { as_json(item, wait.as_ref()) } else { as_line(item, wait.as_ref(), now) };
            writeln!(out, "{line}")?;
            count += 1;
            size += item.size;
        }
    }
    if !json {
        writeln!(out, "{count} items, {}", ByteSize::b(size).display().iec())?;
    }
    Ok(())
}

/// The time when an item is tried, and why it was not sent before.
fn waits(item: &Item, wait: Option<&Wait>) -> (i64, String) {
    match wait {
        Some(wait) if wait.until > item.next && item.next != Item::AT_ONCE => {
            (wait.until, wait.reason.clone())
        }
        _ => (item.next, item.reason.clone()),
    }
}

fn as_line(item: &Item, wait: Option<&Wait>, now: i64) -> String {
    let (next, reason) = waits(item, wait);
    let next = match next - now {
        _ if item.held => "held".to_owned(),
        ..=0 => "now".to_owned(),
        seconds => format!("in {}", time(seconds)),
    };
    let from = if item.from.is_empty() { "<>" } else { &item.from };
    let to: Vec<&str> = item.waiting().map(|r| r.address.as_str()).collect();
    // No address of SMTP has control characters, but the queue may be that of a forged backup.
    printable(&format!(
        "{}\t{}\t{}\t{from}\t{}\t{}\t{next}\t{reason}",
        item.id,
        time(now - item.arrived),
        ByteSize::b(item.size).display().iec(),
        item.destination,
        to.join(",")
    ))
}

/// A text of others without control characters except tabs. On a terminal they could hide or forge
/// what is shown.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// The header of a message, for a terminal.
fn printed_header(message: &[u8]) -> String {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(message.len());
    let header = String::from_utf8_lossy(message.get(..end).unwrap_or_default());
    let lines = header.split_inclusive('\n');
    let printed = lines.map(|line| {
        let (text, end) = line.split_at(line.trim_end_matches(['\r', '\n']).len());
        printable(text) + end
    });
    printed.collect()
}

fn as_json(item: &Item, wait: Option<&Wait>) -> String {
    let (next, reason) = waits(item, wait);
    json_line(&json!({
        "item": item.id,
        "arrived": item.arrived,
        "bytes": item.size,
        "from": item.from,
        "domain": item.destination,
        "recipients": item.recipients.iter().map(|r| json!({"address": r.address, "outcome": r.outcome})).collect::<Vec<_>>(),
        "next": next,
        "attempts": item.attempts,
        "held": item.held,
        "reason": reason,
    }))
}

/// A recipient and what it got, for a terminal.
fn recipient_line(recipient: &Recipient) -> String {
    let outcome = match &recipient.outcome {
        Outcome::Waiting => "waits".to_owned(),
        Outcome::Sent => "has received it".to_owned(),
        Outcome::Unreported { .. } => "has received it; the sender gets a report".to_owned(),
        Outcome::Failed { reply, .. } => format!("has failed: {reply}"),
        Outcome::Reported if recipient.wants_failure() => "has failed; the sender has a report".to_owned(),
        Outcome::Reported => "has failed; the sender requested no report".to_owned(),
    };
    let notify = recipient.notify.map(|notify| format!(" (NOTIFY={notify})")).unwrap_or_default();
    printable(&format!("{}{notify} {outcome}", recipient.address))
}

async fn show(queue: &Queue, id: u32, now: i64) -> Result<()> {
    let item = queue.item(id).await?.ok_or(QueueError::NoItem(id))?;
    let wait = queue.wait_of(&item.destination).await?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", as_line(&item, wait.as_ref(), now))?;
    writeln!(out, "arrived {}, {} attempts", date_time(item.arrived), item.attempts)?;
    if !item.priority.is_normal() {
        writeln!(out, "priority {}", item.priority)?;
    }
    for recipient in &item.recipients {
        writeln!(out, "{}", recipient_line(recipient))?;
    }
    let message = queue.message(&item).await?;
    writeln!(out)?;
    out.write_all(printed_header(&message).as_bytes()).map_err(Failure::Terminal)?;
    writeln!(out)?;
    Ok(())
}

fn time(seconds: i64) -> String {
    let exact = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    // Two units are enough for a person.
    let text = humantime::format_duration(exact).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use posthaste_delivery::{Delivery, DeliveryOptions};
    use posthaste_directory::{Directory, Policy};
    use posthaste_mail_model::{BodyId, Id};
    use posthaste_store::{Engine, MemoryEngine, Store, StoreOptions, set_directory_entry};

    use super::*;

    /// A restore names `posthaste queue list --data BACKUP`, and the backup may be forged.
    #[tokio::test]
    async fn an_item_of_a_forged_backup_controls_no_terminal() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let record = json!({
            "v": 2, "body": BodyId(Id::new(1, 2)).to_string(), "size": 1, "arrived": 1, "next": 2,
            "destination": "x.test\u{1b}[2J", "from": "a\r@b.test", "reason": "no\u{9b}1A",
            "recipients": [{ "address": "c\u{9b}2J@d.test", "outcome": { "is": "waiting" } }],
        });
        let record = Bytes::from(record.to_string());
        set_directory_entry(&*engine, "queue/0000000007", Some(record)).await.unwrap();
        let directory = Directory::with_policy(Arc::clone(&engine), Policy::cheap_for_tests()).unwrap();
        let store = Store::new(engine, StoreOptions::default());
        let delivery = Delivery::new(store, Arc::new(directory), DeliveryOptions::default());
        let item = Queue::open(delivery).await.unwrap().item(7).await.unwrap().unwrap();
        let line = as_line(&item, None, 3);
        assert!(line.contains("\ta\u{fffd}@b.test\tx.test\u{fffd}[2J\tc\u{fffd}2J@d.test\t"), "{line:?}");
        for shown in [line, as_json(&item, None), recipient_line(&item.recipients[0])] {
            assert!(shown.chars().all(|c| c == '\t' || !c.is_control()), "{shown:?}");
        }
    }

    /// A host or a sender cleared the administrator's screen.
    #[test]
    fn texts_of_others_control_no_terminal() {
        assert_eq!(printable("550 \u{1b}[2Jno\r\u{9b}1A"), "550 \u{fffd}[2Jno\u{fffd}\u{fffd}1A");
        let message = b"From: a@b\r\nSubject: \x1b]0;x\x07\r\n\tmore\r\n\r\nbody\x1b";
        let header = "From: a@b\r\nSubject: \u{fffd}]0;x\u{fffd}\r\n\tmore";
        assert_eq!(printed_header(message), header);
        assert_eq!(printed_header(b"From: \ra@b\n"), "From: \u{fffd}a@b\n");
    }
}
