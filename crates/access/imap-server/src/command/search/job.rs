//! A running search: which of the messages of a view match.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use posthaste_imap_codec::PageRange;
use posthaste_imap_codec::response::Code;
use posthaste_indexing::{Collecting, TermReader};
use posthaste_mail_model::{AccountId, FlagSet, NumSet, SeqNum};
use posthaste_mime_summary::{TextKey, TextSearch};
use posthaste_store::{View, named_ranges};

use super::criteria::{Candidate, Criterion, Evaluation, Question};
use super::pieces::Answers;
use super::rows::RowFilter;
use crate::command::gather::Source;
use crate::command::walk::{
    Deferred, LongOutcome, Pass, Unanswered, VisitOutcome, Visited, Walk, used_memory,
};
use crate::freed::freed_elsewhere;
use crate::heavy::{Pace, SLICE_STEPS};
use crate::offload::{Threads, find_steps, range_steps};
use crate::reply::{Failure, Reply};
use crate::selected::Selected;
use crate::service::{ImapService, UNRESERVED_READ_BYTES};

/// The result of a search.
pub(crate) struct Matches {
    /// The sequence numbers of the messages that match.
    pub(crate) seqs: NumSet<SeqNum>,
    /// The number of messages that others had expunged when their data was needed.
    pub(crate) expunged: u32,
}

impl From<NumSet<SeqNum>> for Matches {
    fn from(seqs: NumSet<SeqNum>) -> Self {
        Matches { seqs, expunged: 0 }
    }
}

/// A running search.
pub(crate) struct Job<'j> {
    pub(super) service: &'j ImapService,
    pub(super) account: AccountId,
    pub(super) selected: &'j Selected,
    pub(super) question: Arc<Question>,
    pub(super) pace: Pace,
    /// The sequence numbers of messages that do not match, by the search index.
    pub(super) excluded: Option<Arc<NumSet<SeqNum>>>,
    /// The terms that this search adds to the index.
    pub(super) collecting: Option<Collecting>,
}

/// Steps of opening a message, however short it is: some 5 µs.
const OPENED_STEPS: u64 = 5_000;

/// Steps of heavy work between two pauses: some tens of milliseconds.
const HEAVY_STEPS: u64 = 40_000_000;

impl<'j> Job<'j> {
    /// A search through messages of the announced view.
    pub(crate) fn new(source: Source<'j>, question: Question, pace: Pace) -> Self {
        let Source { service, account, selected } = source;
        let question = Arc::new(question);
        Self { service, account, selected, question, pace, excluded: None, collecting: None }
    }

    /// The sequence numbers of the messages that match, or of one page of them.
    pub(crate) async fn find(&mut self, page: Option<PageRange>) -> Result<Matches, Failure> {
        self.ask_index().await;
        if let Some(page) = page {
            return self.find_page(page).await;
        }
        let candidates = self.candidates().await?;
        if matches!(self.question.criterion, Criterion::Flags { .. } | Criterion::All) {
            return Ok(candidates.into());
        }
        self.matching(&candidates).await
    }

    /// The messages that sets and flags leave: whole chunks are skipped.
    pub(super) async fn candidates(&self) -> Result<NumSet<SeqNum>, Failure> {
        let (view, question) = (Arc::clone(&self.selected.announced), Arc::clone(&self.question));
        let excluded = self.excluded.clone();
        let excluding = excluded.as_ref().map_or(0, |excluded| range_steps(excluded.ranges().len()));
        let steps = question.narrowing_steps(&view) + excluding;
        let work = move || {
            let (with, without) = question.criterion.flags();
            let candidates = match with.union(without) {
                FlagSet::EMPTY => view.all(),
                _ => view.with_flags(with, without),
            };
            let candidates = match question.criterion.within(&view) {
                Some(within) => candidates.intersection(&within),
                None => candidates,
            };
            without_excluded(candidates, excluded.as_deref())
        };
        self.threads().run(steps, work).await
    }

    /// The threads that do long work on sets.
    pub(super) fn threads(&self) -> Threads<'j> {
        Threads { service: self.service, account: self.account }
    }

    /// The candidates that match.
    pub(crate) async fn matching(&mut self, candidates: &NumSet<SeqNum>) -> Result<Matches, Failure> {
        let question = Arc::clone(&self.question);
        let (view, criterion) = (Arc::clone(&self.selected.announced), &question.criterion);
        if let Some(filter) = RowFilter::of(criterion).filter(|filter| filter.decides(&view)) {
            return Ok(filter.matching(&view, candidates, &mut self.pace).await.into());
        }
        let (mut found, mut open) = (NumSet::new(), NumSet::new());
        let steps = question.row_steps() + find_steps(candidates);
        for (seq, row) in view.rows(candidates) {
            match criterion.evaluate(Candidate { seq, row, stored: None, texts: None }) {
                Evaluation::Yes => found.push(seq.value()),
                Evaluation::Unknown => open.push(seq.value()),
                Evaluation::No => {}
            }
            if self.pace.count(steps) {
                self.pace.rest().await;
            }
        }
        if open.is_empty() {
            return Ok(found.into());
        }
        self.begin_collecting(&open).await;
        let Matches { seqs: more, expunged } = self.by_summary(&view, &open).await?;
        self.end_collecting().await;
        let seqs = if found.is_empty() { more } else { found.union(&more) };
        Ok(Matches { seqs, expunged })
    }

    async fn by_summary(&mut self, view: &View, open: &NumSet<SeqNum>) -> Result<Matches, Failure> {
        let question = Arc::clone(&self.question);
        let mut found = NumSet::new();
        // Matches stay in order: what is found after a deferred message waits for it.
        let mut behind = Vec::new();
        let mut walk = Walk::new(&self.selected.mailbox, view, open);
        if let Some(progress) = self.pace.progress() {
            progress.expect(open.count());
        }
        while walk.more() {
            let each = |message: Visited<'_>, pass: &mut Pass| {
                let steps = question.summary_steps(&message.stored.summary);
                if steps > SLICE_STEPS {
                    return VisitOutcome::Deferred;
                }
                pass.steps += steps;
                match question.evaluate(&message, None) {
                    Evaluation::Yes if pass.has_deferred => behind.push(message.seq.value()),
                    Evaluation::Yes => found.push(message.seq.value()),
                    Evaluation::No => {}
                    Evaluation::Unknown => return VisitOutcome::Deferred,
                }
                VisitOutcome::Done
            };
            walk.visit(&mut self.pace, each).await?;
            let (deferred, faults) = walk.deferred();
            for message in deferred.iter() {
                let matches = self.matches_deferred(message).await;
                if let Some(progress) = self.pace.progress() {
                    progress.advance(1);
                }
                match faults.collect(message.row.uid(), matches)? {
                    Some(Some(true)) => behind.push(message.seq.value()),
                    Some(None) => faults.expunged(),
                    _ => {}
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
        Ok(Matches { seqs: found, expunged })
    }

    /// Evaluates a message that was deferred. `None` if it was expunged.
    async fn matches_deferred(&mut self, deferred: Deferred<'_>) -> Result<Option<bool>, Failure> {
        if !deferred.is_long() {
            return self.matches_body(deferred).await.map(Some);
        }
        match Box::pin(deferred.read_long(self.threads(), &self.selected.mailbox)).await? {
            LongOutcome::Read(long) => self.matches_body(deferred.with(Some(&long))).await.map(Some),
            LongOutcome::Expunged => Ok(None),
        }
    }

    /// Evaluates a message with its body, if its summary does not decide. A search holds one body
    /// at a time, however many it reads.
    async fn matches_body(&mut self, deferred: Deferred<'_>) -> Result<bool, Failure> {
        let message = deferred.read()?;
        if self.question.is_long(&message) {
            match self.evaluate(deferred, None).await? {
                Evaluation::Unknown => {}
                answer => return Ok(answer == Evaluation::Yes),
            }
        }
        let row = message.row;
        let size = u64::from(row.size());
        let _reserved = match size > UNRESERVED_READ_BYTES {
            true => {
                // Memory may be reserved for a long summary, too. Both must fit the budget.
                let beside = message.stored.summary.record_len();
                let room = self.service.reads.largest().saturating_sub(beside) as u64;
                Some(self.service.reserve_to_read(self.account, size.min(room)).await?)
            }
            false => None,
        };
        self.pace.worked(OPENED_STEPS).await;
        let bytes = self.selected.mailbox.read_body(row.uid(), message.stored.body, 0..size).await?;
        // Also if the client leaves meanwhile.
        let bytes = freed_elsewhere(bytes);
        let texts = self.search_body(&bytes, &message).await?;
        match self.evaluate(deferred, Some(texts)).await? {
            Evaluation::Yes => Ok(true),
            Evaluation::No => Ok(false),
            Evaluation::Unknown => {
                debug_assert!(false, "a key was not looked for in the body");
                Err(Reply::no(Code::ServerBug, "The search did not evaluate all of its keys").into())
            }
        }
    }

    /// Searches a body for all keys in one pass.
    async fn search_body(&mut self, bytes: &Bytes, message: &Visited<'_>) -> Result<Vec<bool>, Failure> {
        let mut search = TextSearch::new(&self.question.texts, &message.stored.summary);
        let (uid, mut terms) = (message.row.uid().value(), self.lend(message).await);
        self.service.opened.fetch_add(1, Ordering::Relaxed);
        if self.question.body_steps(bytes.len() as u64) <= SLICE_STEPS {
            while let Some(steps) = step(&mut search, &self.question.texts, bytes, &mut terms) {
                // `body_steps` counts each octet of the whole body. A step counts some of them,
                // those of a nested message again, and four steps more for each one collected.
                self.pace.worked(steps).await;
            }
            if let Some(terms) = terms {
                self.collected(uid, terms).await;
            }
            return Ok(search.into_found());
        }
        loop {
            let (question, bytes) = (Arc::clone(&self.question), bytes.clone());
            let work = move || {
                let mut steps = 0;
                while steps < HEAVY_STEPS {
                    match step(&mut search, &question.texts, &bytes, &mut terms) {
                        Some(more) => steps += more,
                        None => return (search, terms, true),
                    }
                }
                (search, terms, false)
            };
            let is_done;
            (search, terms, is_done) = self.service.heavy.run(self.account, work).await?;
            if is_done {
                if let Some(terms) = terms {
                    self.collected(uid, terms).await;
                }
                return Ok(search.into_found());
            }
        }
    }

    /// Evaluates a message with its summary and the results of its body search.
    async fn evaluate(
        &mut self,
        deferred: Deferred<'_>,
        texts: Option<Vec<bool>>,
    ) -> Result<Evaluation, Failure> {
        let message = deferred.read()?;
        if !self.question.is_long(&message) {
            self.pace.worked(self.question.row_steps()).await;
            return Ok(self.question.evaluate(&message, texts.as_deref()));
        }
        let Deferred { seq, row: &row, body, saved, created, summary, .. } = deferred;
        let mut copy = used_memory(summary.len()).await;
        copy.extend_from_slice(summary);
        let (summary, texts) = (freed_elsewhere(copy), texts.map(Arc::new));
        let mut answers = Answers::default();
        loop {
            let (question, summary, texts) = (Arc::clone(&self.question), summary.clone(), texts.clone());
            let work = move || {
                let message = Deferred::of((seq, &row), (body, saved, created), &summary).read()?;
                let texts = texts.as_deref().map(Vec::as_slice);
                let answer = question.evaluate_piece(&message, texts, HEAVY_STEPS, &mut answers);
                Ok::<_, Failure>((answer, answers))
            };
            let answer;
            (answer, answers) = self.service.heavy.run(self.account, work).await??;
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }
}

/// The messages without those that the index leaves out.
pub(super) fn without_excluded(seqs: NumSet<SeqNum>, excluded: Option<&NumSet<SeqNum>>) -> NumSet<SeqNum> {
    match excluded {
        Some(excluded) => seqs.difference(excluded),
        None => seqs,
    }
}

/// A step of a search through a body, which collects terms if there is a place for them.
fn step(
    search: &mut TextSearch,
    texts: &[TextKey],
    bytes: &[u8],
    terms: &mut Option<TermReader>,
) -> Option<u64> {
    match terms {
        Some(terms) => terms.step(search, texts, bytes),
        None => search.step(texts, bytes),
    }
}
