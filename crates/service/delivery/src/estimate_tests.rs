//! Estimates of conversions whose messages share bodies, on the in-memory engine.

use bytes::Bytes;
use posthaste_directory::{Account, AccountChange, Format};
use posthaste_tnef::samples;

use super::*;
use crate::convert::{ConvertMode, ConvertOptions, Items, Sample};
use crate::held::Held;
use crate::step::Loss;
use crate::tests::{add, delivery, message, open};

const FOLDERS: [&str; 2] = ["INBOX", "Archive"];

/// Converts the mail of accounts, and returns the sum of what was done.
async fn run(delivery: &Delivery, accounts: &[&Account], options: ConvertOptions) -> ConvertReport {
    let (run, mut sum) = (Held::default(), ConvertReport::default());
    for account in accounts {
        let held = run.of_another_account();
        for name in FOLDERS {
            let mailbox = open(delivery, account, name).await;
            let mut converter = delivery.converter(account, mailbox, options, &held).await.unwrap();
            while converter.advance().await.unwrap() {}
            sum = sum.plus(*converter.report());
        }
    }
    sum
}

/// An estimate by every n-th message of these accounts.
async fn estimate(
    delivery: &Delivery,
    accounts: &[&Account],
    (wanted, of): (u64, u64),
    options: ConvertOptions,
) -> Estimate {
    let (mut estimator, mut sample) = (Estimator::new(delivery), Sample::new(wanted, of));
    let (held, mut ids) = (Held::default(), Vec::new());
    for account in accounts {
        for name in FOLDERS {
            let mailbox = open(delivery, account, name).await;
            ids.push(mailbox.id());
            let converter = delivery.converter(account, mailbox, options, &held).await.unwrap();
            estimator.add(converter.sampled(&mut sample)).await.unwrap();
        }
    }
    estimator.finish(&ids).await.unwrap()
}

fn is_about(a: f64, b: u64) -> bool {
    (a - b as f64).abs() < 0.01
}

#[tokio::test]
async fn a_shared_body_counts_once() {
    let (delivery, ana) = delivery().await;
    let ben = add(&delivery, "ben@example.org").await;
    let rich = AccountChange { format: Some(Some(Format::Keep)), ..AccountChange::default() };
    let ana = delivery.directory().set(&ana.name, rich).await.unwrap();
    let mut recipients = Vec::new();
    for name in [&ana.name, &ben.name] {
        recipients.push(delivery.resolve(name).await.unwrap());
    }
    let note = Bytes::from(samples::mail(&samples::note()));
    let meeting = Bytes::from(samples::mail(&samples::meeting("IPM.Schedule.Meeting.Request")));
    // Both have the note, Ana with eight copies. She alone has a meeting, without copies.
    for (sent, to) in
        [(note, &recipients[..]), (meeting, &recipients[..1]), (message("plain"), &recipients[..1])]
    {
        for delivered in delivery.deliver(sent, to).await {
            delivered.unwrap();
        }
    }
    let inbox = open(&delivery, &ana, "INBOX").await;
    let archive = open(&delivery, &ana, "Archive").await;
    for to in [&inbox, &archive] {
        for _ in 0..4 {
            to.copy_from(&inbox, &NumSet::range(1, 1)).await.unwrap();
        }
    }
    let both = [&ana, &ben];
    let options =
        |mode| ConvertOptions { to: Some(Format::Mime), items: Items::Leave, mode, loss: Loss::Allow };
    let dry = options(ConvertMode::DryRun);
    let all = estimate(&delivery, &both, (12, 12), dry).await;
    // The first message of a folder, and each third one after it.
    let some = estimate(&delivery, &both, (4, 12), dry).await;
    let would = run(&delivery, &both, dry).await;
    let done = run(&delivery, &both, options(ConvertMode::Apply)).await;
    assert_eq!((done.examined, done.converted, done.failed), (12, 2, 0));
    assert_eq!(would, done, "a dry run says what happens");
    assert_eq!(all.examined, 12);
    assert!(is_about(all.converted, done.converted) && is_about(all.changed, done.converted), "{all:?}");
    assert!(is_about(all.bytes_before, done.bytes_before), "{all:?}, {done:?}");
    assert!(is_about(all.bytes_after, done.bytes_after), "{all:?}, {done:?}");
    // They are the note and three copies: of a body with ten messages, each counts a tenth.
    assert_eq!(some.examined, 4);
    assert!((some.converted - 0.4).abs() < 0.01, "{some:?}");
}
