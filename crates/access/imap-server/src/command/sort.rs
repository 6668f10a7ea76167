//! SORT and UID SORT: RFC 5256, with SORT=DISPLAY (RFC 5957), ESORT (RFC 5267 §3) and MODSEQ
//! (RFC 7162 §3.1.5). The sort keys MODSEQ and UID are those of Cyrus.
//!
//! SEARCH finds the messages. Their keys become numbers, and the order is one stable sort by each
//! key. The answer is streamed: it is as long as the result.

use std::ops::Range;
use std::sync::Arc;

use posthaste_imap_codec::command::{SearchReturn, SortArgs, SortCriterion, SortKey};
use posthaste_imap_codec::response::Esearch;
use posthaste_imap_codec::{Numbering, PageRange, Tag, print};
use posthaste_mail_model::{ModSeq, NumSet, SeqNum};

use super::gather::{Gathered, KeysWanted, Source, dates, text_key};
use super::search;
use super::search::fuzzy;
use super::search::job::Matches;
use super::search::scores::{self, Scores};
use crate::annotate::search::Ranks;
use crate::annotate::{self, reader_of};
use crate::contexts::open::{InitialResult, RequestedContext};
use crate::gmail;
use crate::heavy::{Pace, Paced};
use crate::keys::{Direction, Order, OrderAnswer, OrderRequest, without_key};
use crate::offload::{find_steps, range_steps, row_steps};
use crate::progress::{Progress, Reports};
use crate::reply::{Failure, Reply};
use crate::saved_search::SavedSearch;
use crate::selected::Selected;
use crate::session::{Ctx, Session};

/// Steps of making a key.
const KEY_STEPS: u64 = 8;
/// Steps of sorting a message by a key, about. A slice has 33,000 messages.
const SORT_STEPS: u64 = 60;

/// Runs a SORT.
pub(super) async fn run(session: &mut Session, tag: &Tag, args: SortArgs) -> Result<Reply, Failure> {
    let returns = args.returns;
    let answer = Box::pin(execute(&mut session.ctx()?, tag, args)).await;
    search::empty_saved(session, returns, answer)
}

async fn execute(ctx: &mut Ctx<'_>, tag: &Tag, mut args: SortArgs) -> Result<Reply, Failure> {
    let by = search::filters::Replacing::of(ctx);
    ctx.reporting(tag, search::filters::replace(by, &mut args.key)).await?;
    let by_query = gmail::search::replace(ctx, tag, &mut args.key).await?.then_some(gmail::search::NOT_KEPT);
    let by_annotations = search::annotations(ctx, tag, &mut args.key).await? || !args.annotations.is_empty();
    let reader = reader_of(ctx.service, ctx.login.id, ctx.selected);
    let ranks = ctx.reporting(tag, Box::pin(annotate::search::ranks(reader, &args.annotations))).await?;
    let not_kept =
        by_annotations.then_some(search::NOT_KEPT).or(by_query).or(order_that_changes(&args.criteria));
    let by_relevancy = args.criteria.iter().any(|criterion| criterion.key == SortKey::Relevancy);
    let scored = by_relevancy || args.returns.is_some_and(|r| r.relevancy);
    fuzzy::check_relevancy(scored, &args.key)?;
    search::limit::refuse(ctx, &args.key).await?;
    let context = RequestedContext::of(ctx.selected, tag, args.returns, args.numbering, &args.key)?;
    let context = search::with_items(ctx, context, std::mem::take(&mut args.update_items));
    let Matches { seqs: found, expunged } = search::find(ctx, tag, &args.key, None).await?;
    let scores = match scored {
        true => Some(scores::scores(ctx, tag, &args.key, &found).await?),
        false => None,
    };
    let sorted = {
        let source = Source { service: ctx.service, account: ctx.login.id, selected: ctx.selected };
        // The search counted the messages. This part counts none, so that no count falls.
        let progress = Progress::default();
        let reports = Reports { tag, progress: &progress, times: source.service.options.progress };
        let mut pace = Pace::default();
        // Boxed, as in SEARCH.
        let job = Box::pin(sort(source, found, &args.criteria, (scores, &ranks), &mut pace));
        ctx.wire.while_reporting(reports, job).await??
    };
    let by_modseq = search::names_modseq(&args.key);
    match args.returns {
        Some(returns) => esearch(ctx, tag, args.numbering, returns, by_modseq, &sorted).await?,
        None => {
            let modseq = match by_modseq {
                true => highest(ctx, sorted.gathered.seqs.clone()).await?,
                false => None,
            };
            search::plain(ctx, "SORT", sorted.numbers(args.numbering), modseq).await?;
        }
    }
    if let Some(context) = context {
        match not_kept {
            Some(why) => context.refuse(ctx.wire, why),
            None => open_context(ctx, context, args.criteria, &sorted).await?,
        }
    }
    Ok(search::done(args.numbering, expunged + sorted.gathered.expunged))
}

/// The reason why an order is not kept up to date.
fn order_that_changes(criteria: &[SortCriterion]) -> Option<&'static str> {
    criteria.iter().find_map(|criterion| match criterion.key {
        // The score of a changed message depends on the words of all others.
        SortKey::Relevancy => Some("An order by relevancy is not kept up to date"),
        // Every change of a message moves it in this order.
        SortKey::ModSeq => Some("An order by mod-sequence is not kept up to date"),
        _ => None,
    })
}

/// Keeps the result up to date: RFC 5267 §4.3.
async fn open_context(
    ctx: &mut Ctx<'_>,
    context: RequestedContext,
    criteria: Vec<SortCriterion>,
    sorted: &SortResult,
) -> Result<(), Failure> {
    let uids = saved(ctx, sorted.gathered.seqs.clone()).await?;
    let (mut in_order, mut pace) = (Vec::with_capacity(sorted.gathered.uids.len()), Pace::default());
    for uid in sorted.numbers(Numbering::Uid) {
        in_order.push(uid);
        pace.worked(KEY_STEPS).await;
    }
    let initial = InitialResult { uids: Arc::unwrap_or_clone(uids), order: Some((criteria, in_order)) };
    let by = ctx.threads();
    context.open(ctx.wire, ctx.selected, by, initial).await;
    Ok(())
}

/// Messages in order.
struct SortResult {
    gathered: Arc<Gathered>,
    /// The sequence numbers in the order of the mailbox: as many as UIDs and places.
    seqs: Vec<u32>,
    /// The places among them, in the order of the result.
    places: Arc<[u32]>,
    /// The scores of the messages, if they are requested.
    scores: Option<Scores>,
}

impl SortResult {
    /// RFC 5182 §2.4, RFC 9394 §3.2: the messages of MIN, MAX and PARTIAL, or all.
    fn reported(&self, returns: SearchReturn, page: Option<&Range<usize>>) -> NumSet<SeqNum> {
        if returns.all || returns.count || !(returns.min || returns.max || page.is_some()) {
            return self.gathered.seqs.clone();
        }
        let mut numbers: Vec<u32> = Vec::new();
        let seqs = || self.numbers(Numbering::Seq);
        numbers.extend(seqs().next().filter(|_| returns.min));
        numbers.extend(seqs().next_back().filter(|_| returns.max));
        if let Some(page) = page {
            numbers.extend(seqs().skip(page.start).take(page.len()));
        }
        numbers.sort_unstable();
        numbers.into_iter().collect()
    }

    /// The number of a message, by its place in the mailbox.
    fn number(numbers: &[u32], place: u32) -> u32 {
        let number = numbers.get(place as usize).copied();
        debug_assert!(number.is_some(), "`sort` made {} places, not {place}", numbers.len());
        number.unwrap_or_default()
    }

    /// The numbers in order.
    fn numbers(&self, numbering: Numbering) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + '_ {
        let numbers: &[u32] = match numbering {
            Numbering::Seq => &self.seqs,
            Numbering::Uid => &self.gathered.uids,
        };
        self.places.iter().map(|place| Self::number(numbers, *place))
    }
}

async fn sort(
    source: Source<'_>,
    found: NumSet<SeqNum>,
    criteria: &[SortCriterion],
    (scores, ranks): (Option<Scores>, &[Ranks]),
    pace: &mut Pace,
) -> Result<SortResult, Failure> {
    let criteria = deduplicated(criteria);
    let mut gathered = Gathered::listed(source, found, pace).await?;
    let (request, mut answered) = (order_request(&criteria), None);
    if let Some(request) = &request {
        (gathered, answered) = gathered.answered(source, request.clone()).await?;
    }
    let (places, gathered) = match answered {
        Some(OrderAnswer::Sort(places)) => (places, Arc::new(gathered)),
        _ => {
            gathered.gather(source, &wanted(&criteria), pace).await?;
            let gathered = Arc::new(gathered);
            let places = order(&gathered, source, (&criteria, scores.as_ref(), ranks), pace).await?;
            if let Some(request) = request {
                gathered.remember(source, request, OrderAnswer::Sort(Arc::clone(&places))).await?;
            }
            (places, gathered)
        }
    };
    let of = Arc::clone(&gathered);
    let seqs = source.threads().run(gathered.uid_steps(), move || of.seqs.iter().collect()).await?;
    Ok(SortResult { gathered, seqs, places, scores })
}

/// What names the result in the cache. `None` if the keys may change, or belong to one search.
fn order_request(criteria: &[SortCriterion]) -> Option<OrderRequest> {
    let changes = |key| matches!(key, SortKey::Relevancy | SortKey::Annotation(_) | SortKey::ModSeq);
    (!criteria.iter().any(|criterion| changes(criterion.key))).then(|| OrderRequest::Sort(criteria.to_vec()))
}

fn wanted(criteria: &[SortCriterion]) -> KeysWanted {
    let mut wanted = KeysWanted { ranks: true, ..KeysWanted::default() };
    for criterion in criteria {
        match text_key(criterion.key) {
            Some(key) => wanted.texts.push(key),
            None => wanted.sent |= criterion.key == SortKey::Date,
        }
    }
    wanted
}

/// The places of the messages in the order of these criteria, each once.
async fn order(
    gathered: &Gathered,
    source: Source<'_>,
    (criteria, scores, ranks): (&[SortCriterion], Option<&Scores>, &[Ranks]),
    pace: &mut Pace,
) -> Result<Arc<[u32]>, Failure> {
    let (threads, count) = (source.threads(), gathered.uids.len());
    let steps = count as u64 * SORT_STEPS;
    let mut order = threads.run(gathered.uid_steps(), move || Order::new(count)).await?;
    // The sort is stable, so the least significant key is sorted by first.
    for criterion in criteria.iter().rev() {
        let keys = match (scores, criterion.key) {
            (Some(scores), SortKey::Relevancy) => by_scores(gathered, scores, pace).await,
            (_, SortKey::Annotation(at)) => by_ranks(gathered, ranks.get(usize::from(at)), pace).await,
            (_, key) => keys(gathered, source.selected, key, pace).await?,
        };
        if keys.len() != gathered.uids.len() {
            return Err(without_key("key to sort by").into());
        }
        let direction = match criterion.is_reverse {
            true => Direction::Descending,
            false => Direction::Ascending,
        };
        order = threads.run_paced(steps, pace, move |pace| sorted_by(order, keys, direction, pace)).await?;
    }
    threads.run(gathered.uid_steps(), move || order.places().collect()).await
}

fn sorted_by(mut order: Order, keys: Vec<u64>, direction: Direction, pace: &mut Pace) -> Paced<'_, Order> {
    Box::pin(async move {
        order.by(&keys, direction, pace).await;
        order
    })
}

/// The criteria without those whose key comes a second time: messages that are equal in a key are
/// so in either direction.
fn deduplicated(criteria: &[SortCriterion]) -> Vec<SortCriterion> {
    let is_first =
        |at: usize, one: &SortCriterion| criteria.iter().take(at).all(|other| other.key != one.key);
    criteria.iter().enumerate().filter(|(at, one)| is_first(*at, one)).map(|(_, one)| *one).collect()
}

/// RFC 6203 §5: the best match comes first.
async fn by_scores(gathered: &Gathered, scores: &Scores, pace: &mut Pace) -> Vec<u64> {
    let mut keys = Vec::with_capacity(gathered.uids.len());
    for seq in gathered.seqs.iter() {
        keys.push(u64::from(100 - scores.of(seq)));
        if pace.count(2 * KEY_STEPS) {
            pace.rest().await;
        }
    }
    keys
}

/// RFC 5257 §4.9: messages without a value come first.
async fn by_ranks(gathered: &Gathered, ranks: Option<&Ranks>, pace: &mut Pace) -> Vec<u64> {
    let mut keys = Vec::with_capacity(gathered.uids.len());
    for uid in &gathered.uids {
        // The grammar gives each key its annotation.
        keys.push(ranks.map_or(0, |ranks| ranks.of(*uid)));
        if pace.count(2 * KEY_STEPS) {
            pace.rest().await;
        }
    }
    keys
}

/// The keys of the messages as numbers in the same order.
async fn keys(
    gathered: &Gathered,
    selected: &Selected,
    key: SortKey,
    pace: &mut Pace,
) -> Result<Vec<u64>, Failure> {
    let mut keys = Vec::with_capacity(gathered.uids.len());
    let each = KEY_STEPS + find_steps(&gathered.seqs);
    let rows = || selected.announced.rows(&gathered.seqs).map(|(_, row)| row);
    match (key, text_key(key)) {
        (_, Some(key)) => {
            let column = gathered.table.text(key);
            let ranks = column.texts.ranks();
            for number in column.numbers.of(&gathered.uids) {
                let rank = number.and_then(|number| ranks.get(number as usize));
                keys.push(u64::from(*rank.ok_or_else(|| without_key("text to sort by"))?));
                if pace.count(KEY_STEPS) {
                    pace.rest().await;
                }
            }
        }
        (SortKey::Size, _) => {
            let sized = Box::pin(selected.mailbox.sized(&selected.announced, &gathered.seqs)).await?;
            for (_, row) in sized.rows(&gathered.seqs) {
                keys.push(u64::from(row.size()));
                if pace.count(each) {
                    pace.rest().await;
                }
            }
        }
        (SortKey::Date, _) => return Ok(dates(gathered, &selected.announced, pace).await),
        _ => {
            for row in rows() {
                keys.push(match key {
                    SortKey::Uid => u64::from(row.uid().value()),
                    SortKey::ModSeq => row.modseq().value(),
                    _ => u64::from(row.date()),
                });
                if pace.count(each) {
                    pace.rest().await;
                }
            }
        }
    }
    Ok(keys)
}

/// The highest mod-sequence among these messages.
async fn highest(ctx: &Ctx<'_>, seqs: NumSet<SeqNum>) -> Result<Option<ModSeq>, Failure> {
    let view = Arc::clone(&ctx.selected.announced);
    let steps = range_steps(seqs.ranges().len()) + row_steps(&view);
    ctx.threads().run(steps, move || search::highest(&view, &seqs)).await
}

/// `$`: these messages, as UIDs.
async fn saved(ctx: &Ctx<'_>, seqs: NumSet<SeqNum>) -> Result<Arc<NumSet>, Failure> {
    let (view, steps) = (Arc::clone(&ctx.selected.announced), range_steps(seqs.ranges().len()));
    ctx.threads().run(steps, move || Arc::new(view.uids_of_seqs(&seqs))).await
}

/// `* ESEARCH (TAG "a") UID COUNT 3 ALL 5,3:4`: RFC 5267 §3.1. MIN is the first in the order, MAX
/// the last; a page counts in the order (RFC 9394 §3.1).
async fn esearch(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    numbering: Numbering,
    mut returns: SearchReturn,
    by_modseq: bool,
    sorted: &SortResult,
) -> Result<(), Failure> {
    let scores = sorted.scores.as_ref().filter(|_| returns.relevancy);
    let count = sorted.places.len();
    let page = returns.partial.map(|range| (range, places_of(range, count)));
    let places = page.as_ref().map(|(_, places)| places);
    if returns.save {
        // The previous result frees its memory first. If this one cannot be saved, `$` is empty.
        ctx.selected.saved_search = SavedSearch::default();
        let uids = saved(ctx, sorted.reported(returns, places)).await?;
        ctx.selected.saved_search = SavedSearch::of(ctx.service, ctx.login.id, uids)?;
        if !(returns.min || returns.max || returns.all || returns.count || page.is_some()) {
            // RFC 5182 §2.1: SAVE alone returns nothing.
            return Ok(());
        }
    } else if returns.names_no_result() {
        returns.all = true;
    }
    let modseq = match by_modseq {
        true => highest(ctx, sorted.reported(returns, places)).await?,
        false => None,
    };
    let head = Esearch {
        mailbox: None,
        tag: Some(tag.clone()),
        numbering,
        min: sorted.numbers(numbering).next().filter(|_| returns.min),
        max: sorted.numbers(numbering).next_back().filter(|_| returns.max),
        count: returns.count.then_some(count as u32),
        all: None,
        partial: None,
        modseq,
        relevancy: None,
        updates: Vec::new(),
    };
    ctx.wire.out().extend_from_slice(b"* ");
    let names = ctx.wire.names;
    print::esearch(ctx.wire.out(), &head, names);
    if returns.all && count > 0 {
        ctx.wire.out().extend_from_slice(b" ALL ");
        ranges(ctx, sorted.numbers(numbering)).await?;
    }
    if let Some((range, page)) = page {
        print_page(ctx, range, sorted.numbers(numbering).skip(page.start).take(page.len())).await?;
        if let Some(scores) = scores {
            scores.print(ctx.wire, sorted.numbers(Numbering::Seq).skip(page.start).take(page.len())).await?;
        }
    } else if let Some(scores) = scores
        && returns.all
    {
        // RFC 6203 §4: in the order of the messages.
        scores.print(ctx.wire, sorted.numbers(Numbering::Seq)).await?;
    }
    ctx.wire.out().extend_from_slice(b"\r\n");
    Ok(())
}

/// ` PARTIAL (1:100 5,3:4)`: RFC 9394 §3.1.
async fn print_page(
    ctx: &mut Ctx<'_>,
    range: PageRange,
    numbers: impl ExactSizeIterator<Item = u32>,
) -> Result<(), Failure> {
    let out = ctx.wire.out();
    out.extend_from_slice(b" PARTIAL (");
    print::page_range(out, range);
    out.push(b' ');
    match numbers.len() {
        0 => out.extend_from_slice(b"NIL"),
        _ => ranges(ctx, numbers).await?,
    }
    ctx.wire.out().push(b')');
    Ok(())
}

/// The places of a page among this many.
fn places_of(range: PageRange, count: usize) -> Range<usize> {
    let (low, high) = range.places();
    let (low, high) = (low as usize - 1, (high as usize).min(count));
    match range {
        PageRange::First(..) => low.min(high)..high,
        PageRange::Last(..) => count - high..count - low.min(high),
    }
}

/// Numbers in their order. A run that ascends by one is a range (RFC 5267 §3.2).
async fn ranges(ctx: &mut Ctx<'_>, numbers: impl Iterator<Item = u32>) -> Result<(), Failure> {
    let mut numbers = numbers.peekable();
    let mut printed = 0;
    while let Some(first) = numbers.next() {
        let mut last = first;
        while let Some(next) = numbers.next_if(|next| last.checked_add(1) == Some(*next)) {
            last = next;
        }
        let out = ctx.wire.out();
        if printed > 0 {
            out.push(b',');
        }
        print::number(out, u64::from(first));
        if last > first {
            out.push(b':');
            print::number(out, u64::from(last));
        }
        printed += 1;
        if printed % search::NUMBERS_PER_RELIEF == 0 {
            ctx.wire.relieve().await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn a_page_matches_a_naive_count() {
        let n = |n| NonZeroU32::new(n).unwrap();
        for count in 0..6usize {
            for a in 1..8u32 {
                for b in 1..8u32 {
                    let (low, high) = (a.min(b) as usize, a.max(b) as usize);
                    let forwards: Vec<usize> = (0..count).skip(low - 1).take(high + 1 - low).collect();
                    assert_eq!(places_of(PageRange::First(n(a), n(b)), count).collect::<Vec<_>>(), forwards);
                    let mut backwards: Vec<usize> =
                        (0..count).rev().skip(low - 1).take(high + 1 - low).collect();
                    backwards.reverse();
                    assert_eq!(places_of(PageRange::Last(n(a), n(b)), count).collect::<Vec<_>>(), backwards);
                }
            }
        }
    }
}
