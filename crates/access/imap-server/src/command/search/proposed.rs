//! What the search index leaves of a mailbox: the messages that may match by it, and those that it
//! does not know. The text of each still decides (RFC 9051 §6.4.4).

use std::sync::Arc;

use posthaste_mail_model::NumSet;
use posthaste_mime_summary::{SearchKey as Text, tap_summary};
use posthaste_search_index::{Builder, Grams};

use super::criteria::{Criterion, Question};
use super::job::Job;
use crate::command::walk::Visited;
use crate::heavy::SLICE_STEPS;
use crate::index::{Known, SEGMENT_MESSAGES_MIN};

/// Keys that the index is asked for in one search. The others leave no message out.
const ASKED_MAX: usize = 16;

/// Steps for a byte of a summary that is decoded, folded and collected.
const SUMMARY_STEPS: u64 = 16;

impl Job<'_> {
    /// Asks the index, and notes what it leaves.
    pub(super) async fn ask_index(&mut self) {
        let asked = self.question.text_keys().min(ASKED_MAX as u64);
        if asked == 0 {
            return;
        }
        let known = self.service.index.known(self.selected.mailbox.id());
        if known.covered.is_empty() {
            return;
        }
        let steps = known.steps() * asked;
        let proposed = if steps <= SLICE_STEPS {
            self.pace.worked(steps).await;
            proposed(&self.question, &known)
        } else {
            let question = Arc::clone(&self.question);
            let work = move || proposed(&question, &known);
            // Without an answer of the index all messages are read.
            self.service.heavy.run(self.account, work).await.ok().flatten()
        };
        self.excluded = proposed.map(|uids| self.selected.announced.seqs_of_uids(&uids));
    }

    /// These messages without those that the index leaves out.
    pub(super) fn may_match(&self, seqs: NumSet) -> NumSet {
        match &self.excluded {
            Some(excluded) => seqs.difference(excluded),
            None => seqs,
        }
    }

    /// Begins to collect for the index, if enough messages are to be read.
    pub(super) fn begin_collecting(&mut self, open: &NumSet) {
        if self.collecting.is_none()
            && !self.question.texts.is_empty()
            && open.count() >= SEGMENT_MESSAGES_MIN as u64
        {
            self.collecting = self.service.index.collect(self.selected.mailbox.id());
        }
    }

    /// The trigrams of a message's summary; none if the message gets no place in the index.
    pub(super) async fn lend(&mut self, message: &Visited<'_>) -> Option<Grams> {
        let summary = &message.stored.summary;
        let steps = (summary.folded_len() + summary.fields_len()) as u64 * SUMMARY_STEPS;
        if steps > SLICE_STEPS {
            return None;
        }
        let mut grams = self.collecting.as_mut()?.lend(message.row.uid().value())?;
        tap_summary(summary, &mut |text| grams.add(text));
        self.pace.worked(steps).await;
        Some(grams)
    }

    /// Takes the grams of a message that was read to its end.
    pub(super) async fn collected(&mut self, uid: u32, grams: Grams) {
        self.pace.worked((grams.count() as u64 * 2).min(SLICE_STEPS)).await;
        let full = self.collecting.as_mut().and_then(|collecting| collecting.add(uid, grams));
        if let Some(full) = full {
            self.build(full).await;
        }
    }

    /// Ends collecting.
    pub(super) async fn end_collecting(&mut self) {
        if let Some(rest) = self.collecting.take().and_then(|collecting| collecting.end()) {
            self.build(rest).await;
        }
    }

    async fn build(&self, builder: Builder) {
        // A segment that was not made costs the next search its time, and nothing else.
        if let Ok(segment) = self.service.heavy.run(self.account, move || builder.build()).await {
            self.service.index.add(self.selected.mailbox.id(), segment);
        }
    }
}

/// The UIDs of the messages that the index knows not to match.
fn proposed(question: &Question, known: &Known) -> Option<NumSet> {
    let mut asked = 0;
    let mut ask = |text: &Text| {
        asked += 1;
        if asked > ASKED_MAX { None } else { known.propose(text.folded()) }
    };
    let proposed = of(&question.criterion, question, &mut ask)?;
    Some(known.covered.difference(&proposed))
}

/// Of the messages in the index, those that may match. `None`: any of them.
fn of(
    criterion: &Criterion,
    question: &Question,
    ask: &mut dyn FnMut(&Text) -> Option<NumSet>,
) -> Option<NumSet> {
    use Criterion as C;
    match criterion {
        C::And(all) => {
            all.iter().filter_map(|criterion| of(criterion, question, ask)).reduce(|a, b| a.intersection(&b))
        }
        C::Or(a, b) => Some(of(a, question, ask)?.union(&of(b, question, ask)?)),
        C::Subject(text) | C::From(text) | C::To(text) | C::Cc(text) | C::Bcc(text) => ask(text),
        C::Header { text, .. } => ask(text),
        C::Opened(number) => ask(&question.texts.get(*number)?.key),
        // What a message lacks is in no index.
        _ => None,
    }
}
