//! THREAD and UID THREAD: ORDEREDSUBJECT and REFERENCES of RFC 5256 §3, REFS of
//! draft-ietf-morg-inthread.
//!
//! SEARCH finds the messages. Their keys have the messages to which they refer. Each algorithm
//! gives every message a parent. Then all messages are put into one order, and the threads are
//! printed from it.

mod forest;
mod references;

use std::sync::Arc;

use posthaste_imap_codec::command::{ThreadAlgorithm, ThreadArgs};
use posthaste_imap_codec::print::ThreadPrinter;
use posthaste_imap_codec::response::ThreadNode;
use posthaste_imap_codec::{Numbering, Tag};
use posthaste_indexing::SortField;
use posthaste_mail_model::{NumSet, SeqNum};

use self::forest::{Forest, NODE_STEPS, NONE, Parents};
use self::references::{Message, link, merge_subjects};
use super::gather::{Gathered, KeysWanted, Source, dates};
use super::search;
use crate::apart::find_steps;
use crate::gmail;
use crate::heavy::{Pace, SLICE_STEPS};
use crate::keys::{Answered, Asked, Direction, Order, Step, without_key};
use crate::progress::{Progress, Reports};
use crate::reply::{Failure, Reply};
use crate::selected::Selected;
use crate::session::Ctx;

/// Nodes printed between two checks of the output buffer.
const NODES_PER_RELIEF: usize = 2048;
/// Steps of comparing a UID with that of a remembered result, or of noting one.
const UID_STEPS: u64 = 4;

/// Runs a THREAD.
pub(crate) async fn run(ctx: &mut Ctx<'_>, tag: &Tag, mut args: ThreadArgs) -> Result<Reply, Failure> {
    let by = search::filters::Replacing::of(ctx);
    search::filters::replace(by, &mut args.key).await?;
    gmail::search::replace(ctx, &mut args.key).await?;
    search::annotations(ctx, &mut args.key).await?;
    search::limit::refuse(ctx, &args.key)?;
    let found = search::find(ctx, tag, &args.key, None).await?;
    let (gathered, steps) = {
        let source = Source { service: ctx.service, account: ctx.login.id, selected: ctx.selected };
        // The search counted the messages. This part counts none, so that no count falls.
        let progress = Progress::default();
        let reports = Reports { tag, progress: &progress, times: source.service.options.progress };
        let mut pace = Pace::default();
        // Boxed, as in SEARCH.
        let job = Box::pin(threads(source, &found.seqs, args.algorithm, &mut pace));
        ctx.wire.while_reporting(reports, job).await??
    };
    let seqs: Vec<u32> = match args.numbering {
        Numbering::Seq => gathered.seqs.iter().collect(),
        Numbering::Uid => Vec::new(),
    };
    let numbers = match args.numbering {
        Numbering::Seq => &seqs,
        Numbering::Uid => &gathered.uids,
    };
    print(ctx, &steps, numbers).await?;
    Ok(search::done(args.numbering, found.expunged + gathered.expunged))
}

/// `* THREAD (2)(3 6 (4 23)(44 7 96))`: RFC 5256 §4.
async fn print(ctx: &mut Ctx<'_>, steps: &[Step], numbers: &[u32]) -> Result<(), Failure> {
    ctx.wire.out().extend_from_slice(b"* THREAD");
    let mut printer = ThreadPrinter::default();
    for (i, step) in steps.iter().enumerate() {
        let number = numbers.get(step.place as usize).copied();
        debug_assert!(
            number.is_some() || step.place == NONE,
            "a thread has message {} of {}",
            step.place,
            numbers.len()
        );
        let out = ctx.wire.out();
        if i == 0 {
            out.push(b' ');
        }
        printer.node(out, ThreadNode { number, children: step.children });
        if i.is_multiple_of(NODES_PER_RELIEF) {
            ctx.wire.relieve().await?;
        }
    }
    ctx.wire.out().extend_from_slice(b"\r\n");
    Ok(())
}

/// The messages, and their threads.
async fn threads(
    source: Source<'_>,
    found: &NumSet<SeqNum>,
    algorithm: ThreadAlgorithm,
    pace: &mut Pace,
) -> Result<(Gathered, Arc<[Step]>), Failure> {
    let mut gathered = Gathered::listed(source, found, pace).await?;
    let asked = Asked::Thread(algorithm);
    let answered = gathered.answered(source, &asked);
    pace.worked((gathered.uids.len() as u64 * UID_STEPS).min(SLICE_STEPS)).await;
    if let Some(Answered::Thread(steps)) = answered {
        return Ok((gathered, steps));
    }
    let texts = if algorithm == ThreadAlgorithm::Refs { Vec::new() } else { vec![SortField::Subject] };
    let links = algorithm != ThreadAlgorithm::OrderedSubject;
    let wanted = KeysWanted { sent: true, texts, links, ranks: false };
    gathered.gather(source, &wanted, pace).await?;
    let forest = forest(&gathered, source.selected, algorithm, pace).await?;
    let steps = forest.steps(pace).await;
    gathered.remember(source, asked, Answered::Thread(Arc::clone(&steps)));
    pace.worked((gathered.uids.len() as u64 * UID_STEPS).min(SLICE_STEPS)).await;
    Ok((gathered, steps))
}

async fn forest(
    gathered: &Gathered,
    selected: &Selected,
    algorithm: ThreadAlgorithm,
    pace: &mut Pace,
) -> Result<Forest, Failure> {
    let ordered = by_date(&dates(gathered, selected, pace).await, pace).await;
    let subjects = gathered.table.text(SortField::Subject);
    let mut numbers = subjects.numbers.of(&gathered.uids);
    if algorithm == ThreadAlgorithm::OrderedSubject {
        let numbers: Option<Vec<u32>> = numbers.collect();
        let numbers = numbers.ok_or_else(|| without_key("subject"))?;
        let parents = ordered_subject(&numbers, subjects.texts.len(), &ordered, pace).await;
        return Ok(Forest::new(&parents, &ordered, pace).await);
    }
    let column = &gathered.table.links;
    let mut messages = Vec::with_capacity(gathered.uids.len());
    for link in column.links.of(&gathered.uids) {
        let subject = match algorithm {
            // REFS ignores subjects, so none was read.
            ThreadAlgorithm::Refs => 0,
            _ => numbers.next().flatten().ok_or_else(|| without_key("subject"))?,
        };
        messages.push(Message { link: link.ok_or_else(|| without_key("references"))?, subject });
        if pace.note(NODE_STEPS) {
            pace.rest().await;
        }
    }
    let mut parents = link(&messages, column, pace).await;
    if algorithm == ThreadAlgorithm::References {
        merge_subjects(&mut parents, &messages, &subjects.texts, &ordered, pace).await;
    }
    let mut forest = Forest::new(&parents, &ordered, pace).await;
    if algorithm == ThreadAlgorithm::Refs {
        let mut arrived = Vec::with_capacity(gathered.uids.len());
        let steps = NODE_STEPS + find_steps(&gathered.seqs);
        for (_, row) in selected.announced.rows(&gathered.seqs) {
            arrived.push(u64::from(row.date()));
            if pace.note(steps) {
                pace.rest().await;
            }
        }
        let by_arrival = by_date(&arrived, pace).await;
        forest.by_latest(&ranks(&by_arrival), pace).await;
    }
    Ok(forest)
}

/// The messages by these dates; those of one date by sequence number (RFC 5256 §2.2).
async fn by_date(dates: &[u64], pace: &mut Pace) -> Vec<u32> {
    let mut order = Order::new(dates.len());
    order.by(dates, Direction::Ascending, pace).await;
    order.places().collect()
}

/// The place of each message in an order.
fn ranks(ordered: &[u32]) -> Vec<u32> {
    let mut ranks = vec![0; ordered.len()];
    for (rank, message) in (0u32..).zip(ordered) {
        if let Some(slot) = ranks.get_mut(*message as usize) {
            *slot = rank;
        }
    }
    ranks
}

/// ORDEREDSUBJECT: the first message of a subject is the parent of all others.
async fn ordered_subject(subjects: &[u32], texts: usize, ordered: &[u32], pace: &mut Pace) -> Parents {
    let mut firsts = vec![NONE; texts];
    let mut of = vec![NONE; subjects.len()];
    for message in ordered {
        let subject = subjects.get(*message as usize).and_then(|subject| firsts.get_mut(*subject as usize));
        match (subject, of.get_mut(*message as usize)) {
            (Some(first), _) if *first == NONE => *first = *message,
            (Some(first), Some(parent)) => *parent = *first,
            _ => {}
        }
        if pace.note(NODE_STEPS) {
            pace.rest().await;
        }
    }
    Parents { of, dummies: 0 }
}
