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
use posthaste_store::{StoreError, View};

use self::forest::{Forest, NODE_STEPS, NONE, Parents};
use self::references::{ThreadedMessage, link, merge_subjects};
use super::gather::{Gathered, KeysWanted, Source, dates};
use super::search;
use super::search::job::Matches;
use crate::gmail;
use crate::heavy::{Pace, Paced};
use crate::keys::{Direction, Order, OrderAnswer, OrderRequest, ThreadStep, without_key};
use crate::offload::find_steps;
use crate::progress::{Progress, Reports};
use crate::reply::{Failure, Reply};
use crate::session::Ctx;

/// Nodes printed between two checks of the output buffer.
const NODES_PER_RELIEF: usize = 2048;
/// Steps of a message in one part of the work, about. Threads of 20,000 messages are found by the
/// session itself, with pauses; more of them on another thread.
const PART_STEPS: u64 = 100;

/// Runs a THREAD.
pub(crate) async fn run(ctx: &mut Ctx<'_>, tag: &Tag, mut args: ThreadArgs) -> Result<Reply, Failure> {
    let by = search::filters::Replacing::of(ctx);
    ctx.reporting(tag, search::filters::replace(by, &mut args.key)).await?;
    gmail::search::replace(ctx, tag, &mut args.key).await?;
    search::annotations(ctx, tag, &mut args.key).await?;
    search::limit::refuse(ctx, &args.key).await?;
    let Matches { seqs: found, expunged } = search::find(ctx, tag, &args.key, None).await?;
    let (gathered, steps) = {
        let source = Source { service: ctx.service, account: ctx.login.id, selected: ctx.selected };
        // The search counted the messages. This part counts none, so that no count falls.
        let progress = Progress::default();
        let reports = Reports { tag, progress: &progress, times: source.service.options.progress };
        let mut pace = Pace::default();
        // Boxed, as in SEARCH.
        let job = Box::pin(threads(source, found, args.algorithm, &mut pace));
        ctx.wire.while_reporting(reports, job).await??
    };
    let (of, numbering) = (Arc::clone(&gathered), args.numbering);
    let work = move || match numbering {
        Numbering::Seq => of.seqs.iter().collect(),
        Numbering::Uid => of.uids.clone(),
    };
    let numbers: Vec<u32> = ctx.threads().run(gathered.uid_steps(), work).await?;
    print(ctx, &steps, &numbers).await?;
    Ok(search::done(args.numbering, expunged + gathered.expunged))
}

/// `* THREAD (2)(3 6 (4 23)(44 7 96))`: RFC 5256 §4.
async fn print(ctx: &mut Ctx<'_>, steps: &[ThreadStep], numbers: &[u32]) -> Result<(), Failure> {
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
    found: NumSet<SeqNum>,
    algorithm: ThreadAlgorithm,
    pace: &mut Pace,
) -> Result<(Arc<Gathered>, Arc<[ThreadStep]>), Failure> {
    let gathered = Gathered::listed(source, found, pace).await?;
    let request = OrderRequest::Thread(algorithm);
    let (mut gathered, answered) = gathered.answered(source, request.clone()).await?;
    if let Some(OrderAnswer::Thread(steps)) = answered {
        return Ok((Arc::new(gathered), steps));
    }
    let texts = if algorithm == ThreadAlgorithm::Refs { Vec::new() } else { vec![SortField::Subject] };
    let links = algorithm != ThreadAlgorithm::OrderedSubject;
    let wanted = KeysWanted { sent: true, texts, links, ranks: false };
    gathered.gather(source, &wanted, pace).await?;
    let job =
        Threading { gathered: Arc::new(gathered), view: Arc::clone(&source.selected.announced), algorithm };
    let steps = job.found(source, pace).await?;
    job.gathered.remember(source, request, OrderAnswer::Thread(Arc::clone(&steps))).await?;
    Ok((job.gathered, steps))
}

/// Messages whose threads are looked for. Clones are the same messages.
#[derive(Clone)]
struct Threading {
    gathered: Arc<Gathered>,
    view: Arc<View>,
    algorithm: ThreadAlgorithm,
}

impl Threading {
    /// Finds the threads, in three parts. Another thread may do each, and others have their turn
    /// there between two parts.
    async fn found(&self, source: Source<'_>, pace: &mut Pace) -> Result<Arc<[ThreadStep]>, Failure> {
        let (threads, steps) = (source.threads(), self.gathered.uids.len() as u64 * PART_STEPS);
        let job = self.clone();
        let ordered = threads.run_paced(steps, pace, move |pace| job.ordered(pace)).await?;
        let job = self.clone();
        let linked = threads.run_paced(steps, pace, move |pace| job.linked(ordered, pace)).await??;
        let job = self.clone();
        threads.run_paced(steps, pace, move |pace| job.steps(linked, pace)).await
    }

    /// The messages by date.
    fn ordered(self, pace: &mut Pace) -> Paced<'_, Vec<u32>> {
        Box::pin(async move { by_date(&dates(&self.gathered, &self.view, pace).await, pace).await })
    }

    /// The parents of all messages, in addition to their order.
    fn linked(
        self,
        ordered: Vec<u32>,
        pace: &mut Pace,
    ) -> Paced<'_, Result<(Parents, Vec<u32>), StoreError>> {
        Box::pin(async move {
            let parents = parents(&self.gathered, self.algorithm, &ordered, pace).await?;
            Ok((parents, ordered))
        })
    }

    /// The threads as they are printed.
    fn steps(self, (parents, ordered): (Parents, Vec<u32>), pace: &mut Pace) -> Paced<'_, Arc<[ThreadStep]>> {
        Box::pin(async move {
            let mut forest = Forest::new(&parents, &ordered, pace).await;
            if self.algorithm == ThreadAlgorithm::Refs {
                let by_arrival = by_date(&arrivals(&self.gathered, &self.view, pace).await, pace).await;
                forest.by_latest(&ranks(&by_arrival), pace).await;
            }
            forest.steps(pace).await
        })
    }
}

async fn parents(
    gathered: &Gathered,
    algorithm: ThreadAlgorithm,
    ordered: &[u32],
    pace: &mut Pace,
) -> Result<Parents, StoreError> {
    let subjects = gathered.table.text(SortField::Subject);
    let mut numbers = subjects.numbers.of(&gathered.uids);
    if algorithm == ThreadAlgorithm::OrderedSubject {
        let numbers: Option<Vec<u32>> = numbers.collect();
        let numbers = numbers.ok_or_else(|| without_key("subject"))?;
        return Ok(ordered_subject(&numbers, subjects.texts.len(), ordered, pace).await);
    }
    let column = &gathered.table.links;
    let mut messages = Vec::with_capacity(gathered.uids.len());
    for link in column.links.of(&gathered.uids) {
        let subject = match algorithm {
            // REFS ignores subjects, so none was read.
            ThreadAlgorithm::Refs => 0,
            _ => numbers.next().flatten().ok_or_else(|| without_key("subject"))?,
        };
        messages.push(ThreadedMessage { link: link.ok_or_else(|| without_key("references"))?, subject });
        if pace.count(NODE_STEPS) {
            pace.rest().await;
        }
    }
    let mut parents = link(&messages, column, pace).await;
    if algorithm == ThreadAlgorithm::References {
        merge_subjects(&mut parents, &messages, &subjects.texts, ordered, pace).await;
    }
    Ok(parents)
}

/// The arrival times of the messages.
async fn arrivals(gathered: &Gathered, view: &View, pace: &mut Pace) -> Vec<u64> {
    let mut arrived = Vec::with_capacity(gathered.uids.len());
    let steps = NODE_STEPS + find_steps(&gathered.seqs);
    for (_, row) in view.rows(&gathered.seqs) {
        arrived.push(u64::from(row.date()));
        if pace.count(steps) {
            pace.rest().await;
        }
    }
    arrived
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
        if pace.count(NODE_STEPS) {
            pace.rest().await;
        }
    }
    Parents { of, dummies: 0 }
}
