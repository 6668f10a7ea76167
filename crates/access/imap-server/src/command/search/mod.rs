//! SEARCH and UID SEARCH: RFC 9051 §6.4.4, with ESEARCH (RFC 4731), SEARCHRES (RFC 5182),
//! MODSEQ (RFC 7162), PARTIAL (RFC 9394) and FUZZY (RFC 6203).
//!
//! Flags and sets narrow the view down first, whole chunks at a time. Then the rows decide the keys
//! that need no summary. Summaries are read for the other keys, and bodies only for messages that
//! are still undecided. In large mailboxes the search index excludes messages before all that.
//!
//! The answer to SEARCH is a statement about every message. If a message is not named, a client
//! concludes that it does not match. COUNT, MIN and MAX (RFC 9051 §7.3.4) cannot express "of those
//! that could be read". So no result is sent when a needed summary or body cannot be read. The
//! command ends in NO (RFC 9051 §6.4.4) with CORRUPTION (RFC 5530 §3), which names the UIDs. A
//! client that searches again with `NOT UID 7,9` gets all other matches, because UIDs need no
//! summary. `$` is emptied (RFC 5182 §2.1).

pub(crate) mod criteria;
pub(super) mod filters;
pub(super) mod fuzzy;
pub(crate) mod job;
pub(super) mod limit;
mod narrowing;
mod page;
mod pieces;
mod proposed;
mod rows;
pub(super) mod scores;
pub(super) mod weight;

use std::sync::Arc;

use posthaste_imap_codec::command::{FetchItem, SearchArgs, SearchKey, SearchReturn};
use posthaste_imap_codec::response::{Code, Esearch, StatusKind};
use posthaste_imap_codec::{Numbering, PageRange, Tag, print};
use posthaste_mail_model::{ModSeq, NumSet, ResponseNum, SeqNum};
use posthaste_store::View;

use self::criteria::Question;
use self::job::{Job, Matches};
pub(super) use self::scores::NUMBERS_PER_RELIEF;
use self::scores::Scores;
use super::gather::Source;
use crate::annotate::{self, reader_of};
use crate::contexts::open::{self, RequestedContext};
use crate::gmail;
use crate::heavy::Pace;
use crate::offload::{Threads, print_ranges, range_steps, row_steps};
use crate::progress::{Progress, Reports};
use crate::reply::{Failure, Reply};
use crate::saved_search::SavedSearch;
use crate::session::{Ctx, Session};
use crate::wire::Wire;

/// Runs a SEARCH.
pub(super) async fn run(session: &mut Session, tag: &Tag, args: SearchArgs) -> Result<Reply, Failure> {
    let returns = args.returns;
    let answer = Box::pin(execute(&mut session.ctx()?, tag, args)).await;
    empty_saved(session, returns, answer)
}

async fn execute(ctx: &mut Ctx<'_>, tag: &Tag, mut args: SearchArgs) -> Result<Reply, Failure> {
    if ctx.enabled.utf8 && args.charset.is_some() {
        // RFC 6855 §3
        return Err(Reply::bad("After ENABLE UTF8=ACCEPT a search names no charset").into());
    }
    let by = filters::Replacing::of(ctx);
    ctx.reporting(tag, filters::replace(by, &mut args.key)).await?;
    let by_query = gmail::search::replace(ctx, tag, &mut args.key).await?;
    let by_annotations = annotations(ctx, tag, &mut args.key).await?;
    fuzzy::check_relevancy(args.returns.is_some_and(|r| r.relevancy), &args.key)?;
    limit::apply(ctx, &mut args.key).await?;
    let asked = RequestedContext::of(ctx.selected, tag, args.returns, args.numbering, &args.key)?;
    let asked = with_items(ctx, asked, std::mem::take(&mut args.update_items));
    let by_modseq = names_modseq(&args.key);
    // A page is searched for alone only if no other part of the result is requested.
    let page = args.returns.and_then(|r| r.partial.filter(|_| !(r.min || r.max || r.count || r.update)));
    let Matches { seqs: found, expunged } = find(ctx, tag, &args.key, page).await?;
    let found = Arc::new(found);
    let returns = match args.returns {
        Some(returns) => returns,
        // RFC 9051 §6.4.4: in IMAP4rev2 the answer is always ESEARCH.
        None if ctx.enabled.rev2 => SearchReturn { all: true, ..SearchReturn::default() },
        None => {
            Box::pin(list_numbers(ctx, found, args.numbering, &args.key)).await?;
            return Ok(done(args.numbering, expunged));
        }
    };
    let numbering = args.numbering;
    let scores = match returns.relevancy {
        true => Some(scores::scores(ctx, tag, &args.key, &found).await?),
        false => None,
    };
    let wanted = EsearchItems { numbering, returns, by_modseq, is_page: page.is_some() };
    esearch(ctx, tag, wanted, scores, &found).await?;
    if let Some(asked) = asked {
        if by_annotations || by_query {
            asked.refuse(ctx.wire, if by_query { gmail::search::NOT_KEPT } else { NOT_KEPT });
            return Ok(done(numbering, expunged));
        }
        let (view, steps) = (Arc::clone(&ctx.selected.announced), range_steps(found.ranges().len()));
        let uids = ctx.threads().run(steps, move || view.uids_of_seqs(&found)).await?;
        let by = ctx.threads();
        asked.open(ctx.wire, ctx.selected, by, open::InitialResult { uids, order: None }).await;
    }
    Ok(done(numbering, expunged))
}

/// The context that a command requests, with the items of its UPDATE.
pub(super) fn with_items(
    ctx: &mut Ctx<'_>,
    asked: Option<RequestedContext>,
    items: Vec<FetchItem>,
) -> Option<RequestedContext> {
    if items.contains(&FetchItem::ModSeq) {
        // RFC 7162 §3.1
        ctx.enable_condstore();
    }
    if items.contains(&FetchItem::ObjectIds) {
        // OBJECTID+ (draft 06 §2.2)
        ctx.enable_object_ids();
    }
    asked.map(|asked| asked.fetching(items))
}

/// The reason why a result that annotations decide is not kept up to date.
pub(super) const NOT_KEPT: &str = "A result by annotations is not kept up to date";

/// Replaces criteria that name annotations (RFC 5257 §4.8). Returns whether there were any.
pub(super) async fn annotations(ctx: &mut Ctx<'_>, tag: &Tag, key: &mut SearchKey) -> Result<bool, Failure> {
    let reader = reader_of(ctx.service, ctx.login.id, ctx.selected);
    // Boxed: few searches need it.
    ctx.reporting(tag, Box::pin(annotate::search::replace(reader, key))).await
}

/// RFC 5182 §2.1: a command that ends in NO, and would save its result, empties `$`. One that ends
/// in BAD leaves it.
pub(super) fn empty_saved(
    session: &mut Session,
    returns: Option<SearchReturn>,
    answer: Result<Reply, Failure>,
) -> Result<Reply, Failure> {
    let kind = match &answer {
        Ok(reply) => reply.kind,
        Err(Failure::Reply(reply)) => reply.kind,
        Err(_) => StatusKind::No,
    };
    if kind == StatusKind::No
        && returns.is_some_and(|returns| returns.save)
        && let Some(selected) = &mut session.selected
    {
        selected.saved_search = SavedSearch::default();
    }
    answer
}

/// Finds the messages that match, or one page of them: what SEARCH, SORT and THREAD have in common.
pub(super) async fn find(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    key: &SearchKey,
    page: Option<PageRange>,
) -> Result<Matches, Failure> {
    if names_modseq(key) {
        // RFC 7162 §3.1
        ctx.enable_condstore();
    }
    let now = (ctx.service.store.unix_ms() / 1000) as i64;
    let source = Source { service: ctx.service, account: ctx.login.id, selected: ctx.selected };
    let question = Box::pin(Question::compiled(source, key, now)).await?;
    let progress = match page {
        // Windows are searched until the page is full.
        Some(_) => Progress::in_parts(),
        None => Progress::default(),
    };
    let progress = Arc::new(progress);
    let reports = Reports { tag, progress: &progress, times: ctx.service.options.progress };
    let mut job = Job::new(source, question, Pace::reporting(Arc::clone(&progress)));
    // Boxed: no other command needs as much memory, and without the box every command would reserve
    // as much.
    let mut found: Matches = Box::pin(ctx.wire.while_reporting(reports, job.find(page))).await??;
    if ctx.selected.held_since.is_some() {
        // Some messages may have matched that are expunged, but still known to the session.
        let (view, newest) = (Arc::clone(&ctx.selected.announced), ctx.selected.mailbox.view());
        let (seqs, steps) = (found.seqs.clone(), 3 * range_steps(found.seqs.ranges().len()));
        let work = move || newest.missing(&view.uids_of_seqs(&seqs)).count();
        let expunged = ctx.threads().run(steps, work).await?;
        found.expunged = found.expunged.saturating_add(u32::try_from(expunged).unwrap_or(u32::MAX));
    }
    Ok(found)
}

/// The reply. An expunged message whose data the search needs does not match (RFC 2180 §4.3). One
/// that matches anyway is in the answer, because its EXPUNGE is held back. The code says so (RFC
/// 5530 §3). UID SEARCH reports the EXPUNGE right away.
pub(super) fn done(numbering: Numbering, expunged: u32) -> Reply {
    match numbering {
        Numbering::Seq if expunged > 0 => {
            Reply::ok("Some of the messages were expunged").with(Code::ExpungeIssued)
        }
        _ => Reply::ok(""),
    }
}

/// Whether the client searches by mod-sequence, so that the answer contains one.
pub(super) fn names_modseq(key: &SearchKey) -> bool {
    match key {
        SearchKey::ModSeq { .. } => true,
        SearchKey::And(keys) => keys.iter().any(names_modseq),
        SearchKey::Or(a, b) => names_modseq(a) || names_modseq(b),
        SearchKey::Not(key) | SearchKey::Fuzzy(key) => names_modseq(key),
        _ => false,
    }
}

/// The highest mod-sequence among these messages.
pub(super) fn highest(view: &View, seqs: &NumSet<SeqNum>) -> Option<ModSeq> {
    view.rows(seqs).map(|(_, row)| row.modseq()).max()
}

/// `* SEARCH 2 5`
async fn list_numbers(
    ctx: &mut Ctx<'_>,
    found: Arc<NumSet<SeqNum>>,
    numbering: Numbering,
    key: &SearchKey,
) -> Result<(), Failure> {
    let (view, by_modseq) = (Arc::clone(&ctx.selected.announced), names_modseq(key));
    let by_rows = if by_modseq { row_steps(&view) } else { 0 };
    let steps = range_steps(found.ranges().len()) + by_rows;
    let work = move || {
        let modseq = by_modseq.then(|| highest(&view, &found)).flatten();
        (modseq, in_numbering(&view, &found, numbering))
    };
    let (modseq, numbers) = ctx.threads().run(steps, work).await?;
    plain(ctx, "SEARCH", numbers.iter(), modseq).await
}

/// `* SEARCH 2 5` (RFC 3501 §7.2.5) or `* SORT 5 2` (RFC 5256 §4), with the highest mod-sequence
/// if the command names one (RFC 7162 §3.1.5).
pub(super) async fn plain(
    ctx: &mut Ctx<'_>,
    name: &str,
    numbers: impl Iterator<Item = u32>,
    modseq: Option<ModSeq>,
) -> Result<(), Failure> {
    ctx.wire.out().extend_from_slice(b"* ");
    ctx.wire.out().extend_from_slice(name.as_bytes());
    for (i, number) in numbers.enumerate() {
        let out = ctx.wire.out();
        out.push(b' ');
        print::number(out, u64::from(number));
        if i.is_multiple_of(NUMBERS_PER_RELIEF) {
            ctx.wire.relieve().await?;
        }
    }
    let out = ctx.wire.out();
    if let Some(modseq) = modseq {
        out.extend_from_slice(b" (MODSEQ ");
        print::number(out, modseq.value());
        out.push(b')');
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// The items of an ESEARCH response.
#[derive(Clone, Copy)]
pub(super) struct EsearchItems {
    pub(super) numbering: Numbering,
    pub(super) returns: SearchReturn,
    /// Whether the search named a mod-sequence: then the response has one, too (RFC 7162 §3.1.10).
    pub(super) by_modseq: bool,
    /// Whether only the page of PARTIAL was searched for.
    pub(super) is_page: bool,
}

/// The form in which a result is sent or saved.
pub(super) struct EsearchAnswer {
    /// `$`, as UIDs, if the client requests that it is saved.
    pub(super) saved: Option<Arc<NumSet>>,
    /// The ESEARCH response; `None` after SAVE alone.
    pub(super) response: Option<Esearch>,
    /// The messages that it names one by one.
    pub(super) listed: Option<NumSet<SeqNum>>,
}

/// `* ESEARCH (TAG "a") UID ALL 2,5`
async fn esearch(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    wanted: EsearchItems,
    scores: Option<Scores>,
    found: &Arc<NumSet<SeqNum>>,
) -> Result<(), Failure> {
    let threads = ctx.threads();
    let answering = answered(threads, &ctx.selected.announced, (tag, wanted), found);
    let EsearchAnswer { saved, response, listed } = Box::pin(answering).await?;
    if let Some(saved) = saved {
        // The previous result frees its memory first. If this one cannot be saved, `$` is empty.
        ctx.selected.saved_search = SavedSearch::default();
        ctx.selected.saved_search = SavedSearch::of(ctx.service, ctx.login.id, saved)?;
    }
    let Some(head) = response else { return Ok(()) };
    print_esearch(ctx.wire, &head).await?;
    // RFC 6203 §4: the scores of the messages of ALL or PARTIAL, in the same order.
    if let (Some(scores), Some(listed)) = (scores, listed) {
        scores.print(ctx.wire, listed.iter()).await?;
    }
    ctx.wire.out().extend_from_slice(b"\r\n");
    ctx.wire.relieve().await?;
    Ok(())
}

/// `* ESEARCH (TAG "a") UID ALL 2,5`, without the end of the line. Sets are printed in slices.
pub(super) async fn print_esearch(wire: &mut Wire, response: &Esearch) -> Result<(), Failure> {
    wire.out().extend_from_slice(b"* ");
    let names = wire.names;
    print::esearch_begin(wire.out(), response, names);
    if let Some(all) = response.all.as_ref().filter(|all| !all.is_empty()) {
        wire.out().extend_from_slice(b" ALL ");
        print_ranges(wire, all).await?;
    }
    if let Some((range, page)) = &response.partial {
        print::partial_begin(wire.out(), *range);
        match page.is_empty() {
            true => wire.out().extend_from_slice(b"NIL"),
            false => print_ranges(wire, page).await?,
        }
        wire.out().push(b')');
    }
    print::esearch_end(wire.out(), response);
    Ok(())
}

/// The response to a search, and the result that it saves. For a large result, another thread
/// makes it.
pub(super) async fn answered(
    threads: Threads<'_>,
    view: &Arc<View>,
    (tag, wanted): (&Tag, EsearchItems),
    found: &Arc<NumSet<SeqNum>>,
) -> Result<EsearchAnswer, Failure> {
    // The steps of copying the result, and of translating it to UIDs, a few times.
    let sets = 4 * range_steps(found.ranges().len());
    let steps = sets + if wanted.by_modseq { row_steps(view) } else { 0 };
    let (view, tag, found) = (Arc::clone(view), tag.clone(), Arc::clone(found));
    threads.run(steps, move || answer(&view, &tag, wanted, &found)).await
}

/// The numbers of these messages in the numbering of the client's command, for its response.
fn in_numbering(view: &View, seqs: &NumSet<SeqNum>, numbering: Numbering) -> NumSet<ResponseNum> {
    match numbering {
        Numbering::Seq => seqs.clone().into_response(),
        Numbering::Uid => view.uids_of_seqs(seqs).into_response(),
    }
}

fn answer(view: &View, tag: &Tag, wanted: EsearchItems, found: &NumSet<SeqNum>) -> EsearchAnswer {
    let EsearchItems { numbering, mut returns, by_modseq, .. } = wanted;
    let mut saved = None;
    let ends = |low: bool, high: bool| {
        let low = found.first().filter(|_| low);
        let high = found.last().filter(|_| high);
        low.into_iter().chain(high).collect::<NumSet<SeqNum>>()
    };
    // If the search stopped after the page, `found` is that page.
    let on_page = |range: PageRange| if wanted.is_page { found.clone() } else { range.of(found) };
    let page = returns.partial.map(|range| (range, on_page(range)));
    let page_seqs = page.as_ref().map(|(_, page)| page.clone());
    let only_some = (returns.min || returns.max || page.is_some()) && !returns.all && !returns.count;
    // RFC 5182 §2.4, RFC 9394 §3.2: the messages of MIN, MAX and PARTIAL.
    let some = || {
        let ends = ends(returns.min, returns.max);
        page.as_ref().map_or(ends.clone(), |(_, page)| page.union(&ends))
    };
    if returns.save {
        saved = Some(Arc::new(view.uids_of_seqs(&if only_some { some() } else { found.clone() })));
        if !(returns.min || returns.max || returns.all || returns.count || page.is_some()) {
            // RFC 5182 §2.1: SAVE alone returns nothing.
            return EsearchAnswer { saved, response: None, listed: None };
        }
    } else if returns.names_no_result() {
        returns.all = true;
    }
    let reported = if only_some { some() } else { found.clone() };
    let modseq = if by_modseq { highest(view, &reported) } else { None };
    let partial = page.map(|(range, page)| (range, in_numbering(view, &page, numbering).ranges().to_vec()));
    let numbers = in_numbering(view, found, numbering);
    let response = Esearch {
        tag: Some(tag.clone()),
        mailbox: None,
        numbering,
        min: numbers.first().filter(|_| returns.min),
        max: numbers.last().filter(|_| returns.max),
        count: returns.count.then(|| found.count() as u32),
        all: (returns.all && !numbers.is_empty()).then(|| numbers.ranges().to_vec()),
        partial,
        modseq,
        relevancy: None,
        updates: Vec::new(),
    };
    let listed = page_seqs.or_else(|| returns.all.then(|| found.clone()));
    EsearchAnswer { saved, response: Some(response), listed }
}
