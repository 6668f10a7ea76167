//! SEARCH and UID SEARCH: RFC 9051 §6.4.4, with ESEARCH (RFC 4731), SEARCHRES (RFC 5182),
//! MODSEQ (RFC 7162) and PARTIAL (RFC 9394).
//!
//! Flags and sets narrow the view down first, whole chunks at a time. Rows then decide what rows
//! can. Summaries are walked for the rest. Bodies are opened only for messages that are still
//! undecided. Of large mailboxes the search index leaves messages out before all that.
//!
//! The answer to SEARCH is a statement about every message. A client takes a message that is not
//! named for one that does not match. COUNT, MIN and MAX (RFC 9051 §7.3.4) cannot express "of
//! those that could be read". So no result is sent when a message cannot be read whose summary or
//! body is needed. The command ends in NO (RFC 9051 §6.4.4) with CORRUPTION (RFC 5530 §3), and
//! names the UIDs. A client that searches again with `NOT UID 7,9` gets all other matches, because
//! a UID decides without a summary. `$` is emptied (RFC 5182 §2.1).

mod criteria;
mod page;
mod proposed;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use posthaste_imap_codec::command::{SearchArgs, SearchKey, SearchReturn};
use posthaste_imap_codec::response::{Code, Esearch, StatusKind, Untagged};
use posthaste_imap_codec::{Numbering, PageRange, Tag, print};
use posthaste_mail_model::{AccountId, FlagSet, ModSeq, NumSet};
use posthaste_mime_summary::{TextKey, TextSearch};
use posthaste_search_index::Grams;
use posthaste_store::{View, named_ranges};

use self::criteria::{Answer, Criterion, Message, Question};
use super::walk::{Handled, Pass, SetAside, Unanswered, Visited, Walk};
use crate::heavy::{Pace, SLICE_STEPS};
use crate::index::Collecting;
use crate::progress::{Progress, Reports};
use crate::reply::{Failure, Reply};
use crate::selected::Selected;
use crate::service::ImapService;
use crate::session::Ctx;

/// Numbers printed between two checks of the output buffer.
const NUMBERS_PER_RELIEF: usize = 4096;
/// Messages up to this size are read without reserving memory, as FETCH does for small messages.
const WHOLE_BYTES_MAX: u64 = 128 * 1024;

/// Runs a SEARCH.
pub(crate) async fn run(ctx: &mut Ctx<'_>, tag: &Tag, args: SearchArgs) -> Result<Reply, Failure> {
    if ctx.enabled.utf8 && args.charset.is_some() {
        // RFC 6855 §3
        return Err(Reply::bad("After ENABLE UTF8=ACCEPT a search names no charset").into());
    }
    let by_modseq = names_modseq(&args.key);
    let saving = args.returns.is_some_and(|r| r.save);
    // A page can be found without the rest only if nothing else of the result is wanted.
    let page = args.returns.and_then(|r| r.partial.filter(|_| !(r.min || r.max || r.count)));
    let Found { seqs: found, expunged } = find_saving(ctx, tag, &args.key, saving, page).await?;
    let returns = match args.returns {
        Some(returns) => returns,
        // RFC 9051 §6.4.4: in IMAP4rev2 the answer is always ESEARCH.
        None if ctx.enabled.rev2 => SearchReturn { all: true, ..SearchReturn::default() },
        None => {
            let modseq = by_modseq.then(|| highest(&ctx.selected.announced, &found)).flatten();
            search(ctx, args.numbering, &found, modseq).await?;
            return Ok(done(args.numbering, expunged));
        }
    };
    let numbering = args.numbering;
    let wanted = Wanted { numbering, returns, by_modseq, is_page: page.is_some() };
    esearch(ctx, tag, wanted, &found).await?;
    Ok(done(numbering, expunged))
}

/// Finds the messages that match, or one page of them: what SEARCH, SORT and THREAD have in common.
/// `saving` says whether the result becomes `$`.
pub(super) async fn find_saving(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    key: &SearchKey,
    saving: bool,
    page: Option<PageRange>,
) -> Result<Found, Failure> {
    if names_modseq(key) {
        // RFC 7162 §3.1
        ctx.enable_condstore();
    }
    let now = (ctx.service.store.unix_ms() / 1000) as i64;
    let found = match Question::compile(key, ctx.selected, now) {
        Ok(question) => {
            let (service, account, selected) = (ctx.service, ctx.login.id, &*ctx.selected);
            let progress = match page {
                // Windows are searched until the page is full.
                Some(_) => Progress::in_parts(),
                None => Progress::default(),
            };
            let progress = Arc::new(progress);
            let reports = Reports { tag, progress: &progress, times: service.options.progress };
            let mut job = Job {
                service,
                account,
                selected,
                question: Arc::new(question),
                pace: Pace::reporting(Arc::clone(&progress)),
                excluded: None,
                collecting: None,
            };
            // Boxed: no other command needs as much memory, and without the box every command would
            // reserve as much.
            Box::pin(ctx.wire.while_reporting(reports, job.find(page))).await?
        }
        Err(error) => Err(error),
    };
    found.inspect_err(|error| {
        // RFC 5182 §2.1: a SEARCH that ends in NO empties `$`, one that ends in BAD leaves it.
        let is_bad = matches!(error, Failure::Reply(reply) if reply.kind == StatusKind::Bad);
        if saving && !is_bad {
            ctx.selected.saved_search = NumSet::new();
        }
    })
}

/// The reply. An expunged message whose data the search needs does not match (RFC 2180 §4.3). The
/// code says so (RFC 5530 §3). UID SEARCH reports the EXPUNGE right away.
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
        SearchKey::Not(key) => names_modseq(key),
        _ => false,
    }
}

/// The highest mod-sequence among these messages.
pub(super) fn highest(view: &View, seqs: &NumSet) -> Option<ModSeq> {
    view.rows(seqs).map(|(_, row)| row.modseq()).max()
}

/// `* SEARCH 2 5`: RFC 3501 §7.2.5, RFC 7162 §3.1.5.
async fn search(
    ctx: &mut Ctx<'_>,
    numbering: Numbering,
    found: &NumSet,
    modseq: Option<ModSeq>,
) -> Result<(), Failure> {
    let numbers = numbers(ctx.selected, numbering, found);
    ctx.wire.out().extend_from_slice(b"* SEARCH");
    for (i, number) in numbers.iter().enumerate() {
        let out = ctx.wire.out();
        out.push(b' ');
        print::number(out, u64::from(number));
        if i % NUMBERS_PER_RELIEF == 0 {
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

fn numbers(selected: &Selected, numbering: Numbering, seqs: &NumSet) -> NumSet {
    match numbering {
        Numbering::Seq => seqs.clone(),
        Numbering::Uid => selected.announced.uids_of_seqs(seqs),
    }
}

/// What an ESEARCH response has to contain.
struct Wanted {
    numbering: Numbering,
    returns: SearchReturn,
    /// Whether the search named a mod-sequence: then the response has one, too (RFC 7162 §3.1.10).
    by_modseq: bool,
    /// Whether only the page of PARTIAL was searched for.
    is_page: bool,
}

/// `* ESEARCH (TAG "a") UID ALL 2,5`
async fn esearch(ctx: &mut Ctx<'_>, tag: &Tag, wanted: Wanted, found: &NumSet) -> Result<(), Failure> {
    let Wanted { numbering, mut returns, by_modseq, .. } = wanted;
    let view = Arc::clone(&ctx.selected.announced);
    let ends = |low: bool, high: bool| {
        let low = found.first().filter(|_| low);
        let high = found.last().filter(|_| high);
        low.into_iter().chain(high).collect::<NumSet>()
    };
    // If the search stopped behind the page, `found` is that page.
    let on_page = |range: PageRange| if wanted.is_page { found.clone() } else { range.of(found) };
    let page = returns.partial.map(|range| (range, on_page(range)));
    let only_some = (returns.min || returns.max || page.is_some()) && !returns.all && !returns.count;
    // RFC 5182 §2.4, RFC 9394 §3.2: the messages of MIN, MAX and PARTIAL.
    let some = || {
        let ends = ends(returns.min, returns.max);
        page.as_ref().map_or(ends.clone(), |(_, page)| page.union(&ends))
    };
    if returns.save {
        let saved = if only_some { some() } else { found.clone() };
        ctx.selected.saved_search = view.uids_of_seqs(&saved);
        if !(returns.min || returns.max || returns.all || returns.count || page.is_some()) {
            // RFC 5182 §2.1: SAVE alone returns nothing.
            return Ok(());
        }
    } else if returns == SearchReturn::default() {
        returns.all = true;
    }
    let reported = if only_some { some() } else { found.clone() };
    let modseq = if by_modseq { highest(&view, &reported) } else { None };
    let partial =
        page.map(|(range, page)| (range, numbers(ctx.selected, numbering, &page).ranges().to_vec()));
    let numbers = numbers(ctx.selected, numbering, found);
    ctx.wire.say(Untagged::Esearch(Esearch {
        tag: Some(tag.clone()),
        numbering,
        min: numbers.first().filter(|_| returns.min),
        max: numbers.last().filter(|_| returns.max),
        count: returns.count.then(|| found.count() as u32),
        all: (returns.all && !numbers.is_empty()).then(|| numbers.ranges().to_vec()),
        partial,
        modseq,
    }));
    ctx.wire.relieve().await?;
    Ok(())
}

/// What a search found.
pub(super) struct Found {
    /// The sequence numbers of the messages that match.
    pub(super) seqs: NumSet,
    /// How many messages others had expunged when their data was needed.
    pub(super) expunged: u32,
}

impl From<NumSet> for Found {
    fn from(seqs: NumSet) -> Self {
        Found { seqs, expunged: 0 }
    }
}

/// A running search.
struct Job<'j> {
    service: &'j ImapService,
    account: AccountId,
    selected: &'j Selected,
    question: Arc<Question>,
    pace: Pace,
    /// The sequence numbers of messages that do not match, by the search index.
    excluded: Option<NumSet>,
    /// What this search adds to the index.
    collecting: Option<Collecting>,
}

/// Steps of heavy work between two pauses: some tens of milliseconds.
const HEAVY_STEPS: u64 = 40_000_000;

impl Job<'_> {
    /// The sequence numbers of the messages that match, or of one page of them.
    async fn find(&mut self, page: Option<PageRange>) -> Result<Found, Failure> {
        self.ask_index().await;
        if let Some(page) = page {
            return self.find_page(page).await;
        }
        let candidates = self.candidates();
        if matches!(self.question.criterion, Criterion::Flags { .. } | Criterion::All) {
            return Ok(candidates.into());
        }
        self.matching(&candidates).await
    }

    /// The messages that sets and flags leave: whole chunks are passed over.
    fn candidates(&self) -> NumSet {
        let (view, criterion) = (&self.selected.announced, &self.question.criterion);
        let (with, without) = criterion.flags();
        let candidates = match with.union(without) {
            FlagSet::EMPTY => view.all(),
            _ => view.with_flags(with, without),
        };
        self.may_match(match criterion.within(self.selected) {
            Some(within) => candidates.intersection(&within),
            None => candidates,
        })
    }

    /// Those of the candidates that match.
    async fn matching(&mut self, candidates: &NumSet) -> Result<Found, Failure> {
        let question = Arc::clone(&self.question);
        let (view, criterion) = (Arc::clone(&self.selected.announced), &question.criterion);
        let (mut found, mut open) = (NumSet::new(), NumSet::new());
        for (seq, row) in view.rows(candidates) {
            match criterion.evaluate(Message { seq, row, stored: None, texts: None }) {
                Answer::Yes => found.push(seq.value()),
                Answer::Unknown => open.push(seq.value()),
                Answer::No => {}
            }
            if self.pace.note(question.row_steps()) {
                self.pace.rest().await;
            }
        }
        if open.is_empty() {
            return Ok(found.into());
        }
        self.begin_collecting(&open);
        let Found { seqs: more, expunged } = self.by_summary(&view, &open).await?;
        self.end_collecting().await;
        let seqs = if found.is_empty() { more } else { found.union(&more) };
        Ok(Found { seqs, expunged })
    }

    async fn by_summary(&mut self, view: &View, open: &NumSet) -> Result<Found, Failure> {
        let question = Arc::clone(&self.question);
        let mut found = NumSet::new();
        // Matches stay in order: what is found behind a message set aside waits for it.
        let mut behind = Vec::new();
        let mut walk = Walk::new(&self.selected.mailbox, view, open);
        if let Some(progress) = self.pace.progress() {
            progress.expect(open.count());
        }
        while walk.more() {
            let each = |message: Visited<'_>, pass: &mut Pass| {
                if question.is_long(&message) {
                    return Handled::Aside;
                }
                pass.steps += question.summary_steps(&message.stored.summary);
                match question.evaluate(&message, None) {
                    Answer::Yes if pass.has_aside => behind.push(message.seq.value()),
                    Answer::Yes => found.push(message.seq.value()),
                    Answer::No => {}
                    Answer::Unknown => return Handled::Aside,
                }
                Handled::Done
            };
            walk.visit(&mut self.pace, each).await?;
            let (aside, faults) = walk.aside();
            for message in aside.iter() {
                let matches = self.matches_body(message).await;
                if let Some(progress) = self.pace.progress() {
                    progress.advance(1);
                }
                if faults.note(message.row.uid(), matches)? == Some(true) {
                    behind.push(message.seq.value());
                }
            }
            behind.sort_unstable();
            behind.drain(..).for_each(|seq| found.push(seq));
        }
        let Unanswered { expunged, unreadable } = walk.end();
        if !unreadable.is_empty() {
            let named = named_ranges(&unreadable);
            let text =
                format!("Stored data of UID {named} is damaged and cannot be searched; search without them");
            return Err(Reply::no(Code::Corruption, text).into());
        }
        Ok(Found { seqs: found, expunged })
    }

    /// Evaluates a message with its body, if its summary does not decide. A search holds one body
    /// at a time, however many it reads.
    async fn matches_body(&mut self, aside: SetAside<'_>) -> Result<bool, Failure> {
        let message = aside.read()?;
        if self.question.is_long(&message) {
            match self.evaluate(aside, None).await? {
                Answer::Unknown => {}
                answer => return Ok(answer == Answer::Yes),
            }
        }
        let row = message.row;
        let size = u64::from(row.size());
        let _paid = match size > WHOLE_BYTES_MAX {
            true => Some(self.service.room_to_read(self.account, size).await?),
            false => None,
        };
        let bytes = self.selected.mailbox.read_body(row.uid(), message.stored.body, 0..size).await?;
        let texts = self.look(&bytes, &message).await?;
        match self.evaluate(aside, Some(texts)).await? {
            Answer::Yes => Ok(true),
            Answer::No => Ok(false),
            Answer::Unknown => {
                debug_assert!(false, "a key was not looked for in the body");
                Err(Reply::no(Code::ServerBug, "The search did not look for all of its keys").into())
            }
        }
    }

    /// Searches a body for all keys in one pass.
    async fn look(&mut self, bytes: &Bytes, message: &Visited<'_>) -> Result<Vec<bool>, Failure> {
        let mut search = TextSearch::new(&self.question.texts, &message.stored.summary);
        let (uid, mut grams) = (message.row.uid().value(), self.lend(message).await);
        self.service.opened.fetch_add(1, Ordering::Relaxed);
        if self.question.body_steps(bytes.len() as u64) <= SLICE_STEPS {
            while let Some(steps) = step(&mut search, &self.question.texts, bytes, &mut grams) {
                self.pace.worked(steps.min(SLICE_STEPS)).await;
            }
            if let Some(grams) = grams {
                self.collected(uid, grams).await;
            }
            return Ok(search.into_found());
        }
        loop {
            let (question, bytes) = (Arc::clone(&self.question), bytes.clone());
            let work = move || {
                let mut steps = 0;
                while steps < HEAVY_STEPS {
                    match step(&mut search, &question.texts, &bytes, &mut grams) {
                        Some(more) => steps += more,
                        None => return (search, grams, true),
                    }
                }
                (search, grams, false)
            };
            let is_done;
            (search, grams, is_done) = self.service.heavy.run(self.account, work).await?;
            if is_done {
                if let Some(grams) = grams {
                    self.collected(uid, grams).await;
                }
                return Ok(search.into_found());
            }
        }
    }

    /// Evaluates a message with its summary and the results of its body search.
    async fn evaluate(&mut self, aside: SetAside<'_>, texts: Option<Vec<bool>>) -> Result<Answer, Failure> {
        let message = aside.read()?;
        if !self.question.is_long(&message) {
            self.pace.worked(self.question.row_steps()).await;
            return Ok(self.question.evaluate(&message, texts.as_deref()));
        }
        let question = Arc::clone(&self.question);
        let SetAside { seq, row: &row, body, saved, summary } = aside;
        let summary = summary.to_vec();
        let work = move || {
            let message = SetAside { seq, row: &row, body, saved, summary: &summary }.read()?;
            Ok(question.evaluate(&message, texts.as_deref()))
        };
        self.service.heavy.run(self.account, work).await?
    }
}

/// A step of a search through a body, which collects grams if there is a place for them.
fn step(search: &mut TextSearch, texts: &[TextKey], bytes: &[u8], grams: &mut Option<Grams>) -> Option<u64> {
    match grams {
        Some(grams) => search.step_tapped(texts, bytes, Some(&mut |text| grams.add(text))),
        None => search.step(texts, bytes),
    }
}
