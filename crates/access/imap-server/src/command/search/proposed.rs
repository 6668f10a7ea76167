//! The messages that a search must read: those that may match by the search index, and those that
//! the index does not cover. The text of each decides (RFC 9051 §6.4.4).

use posthaste_indexing::{Answer, Full, Query, SEGMENT_MESSAGES_MIN, Scope, TermReader, summary_steps};
use posthaste_mail_model::{NumSet, SeqNum};
use posthaste_mime_summary::SearchKey as Text;

use super::criteria::{Criterion, Question};
use super::job::Job;
use crate::command::walk::Visited;
use crate::heavy::SLICE_STEPS;
use crate::offload::range_steps;

/// Keys that one search looks up in the index. The others exclude no message.
const ASKED_MAX: usize = 16;

/// Steps for a word of a message that is added to a segment under way. A message has 131,072 at
/// most, and a slice 31,250.
const WORD_STEPS: u64 = 64;

impl Job<'_> {
    /// Looks the words up in the index, and notes the messages that it leaves.
    pub(super) async fn ask_index(&mut self) {
        let question = std::sync::Arc::clone(&self.question);
        if question.text_keys() == 0 {
            return;
        }
        let (words, queries): (Vec<Word>, Vec<Query>) = words(&question).into_iter().unzip();
        // Boxed: no other search needs as much memory.
        let asked = Box::pin(self.service.index.query(self.selected.mailbox.id(), &queries));
        let Some(answer) = asked.await else { return };
        let proposed: usize = answer.proposed.iter().map(|uids| uids.ranges().len()).sum();
        // The proposed messages are copied, united, subtracted from those that are covered, and
        // translated.
        let steps = 4 * range_steps(proposed + answer.covered.ranges().len());
        let view = std::sync::Arc::clone(&self.selected.announced);
        let work = move || excluded(&question, &words, &answer).map(|uids| view.seqs_of_uids(&uids));
        let seqs = if steps <= SLICE_STEPS {
            self.pace.worked(steps).await;
            work()
        } else {
            // Without an answer of the index all messages are read.
            self.service.heavy.run(self.account, work).await.ok().flatten()
        };
        self.excluded = seqs.map(std::sync::Arc::new);
    }

    /// Begins to collect for the index, if the search must read enough messages.
    pub(super) async fn begin_collecting(&mut self, open: &NumSet<SeqNum>) {
        if self.collecting.is_none()
            && !self.question.texts.is_empty()
            && open.count() >= SEGMENT_MESSAGES_MIN as u64
        {
            self.collecting = Box::pin(self.service.index.collect(self.selected.mailbox.id())).await;
        }
    }

    /// A place with the terms of a message's summary; none if the message gets no place in the
    /// index.
    pub(super) async fn lend(&mut self, message: &Visited<'_>) -> Option<TermReader> {
        let summary = &message.stored.summary;
        let steps = summary_steps(summary);
        if steps > SLICE_STEPS {
            return None;
        }
        let mut terms = self.collecting.as_mut()?.lend(message.row.uid().value())?;
        terms.begin(summary);
        self.pace.worked(steps).await;
        Some(terms)
    }

    /// Takes the terms of a message that was read to its end.
    pub(super) async fn collected(&mut self, uid: u32, terms: TermReader) {
        let Some(mut collecting) = self.collecting.take() else { return };
        let steps = terms.count() as u64 * WORD_STEPS;
        let full = if steps <= SLICE_STEPS {
            self.pace.worked(steps).await;
            let full = collecting.add(uid, terms);
            self.collecting = Some(collecting);
            full
        } else {
            let work = move || {
                let full = collecting.add(uid, terms);
                (collecting, full)
            };
            // If it is lost, the next search collects again.
            let Ok((collecting, full)) = self.service.heavy.run(self.account, work).await else { return };
            self.collecting = Some(collecting);
            full
        };
        if let Some(full) = full {
            Box::pin(self.build(full)).await;
        }
    }

    /// Ends collecting.
    pub(super) async fn end_collecting(&mut self) {
        if let Some(rest) = self.collecting.take().and_then(|collecting| collecting.end()) {
            Box::pin(self.build(rest)).await;
        }
    }

    async fn build(&self, full: Full) {
        // A segment that was not made costs the next search its time, and nothing else.
        if let Ok(segment) = self.service.heavy.run(self.account, move || full.build()).await {
            self.service.index.add(self.selected.mailbox.id(), segment);
        }
    }
}

/// A key, folded, and which texts it is looked for in.
type Word = (Scope, Vec<u8>);

/// The words that are looked up in the index, each once. It proposes nothing for some keys.
fn words(question: &Question) -> Vec<(Word, Query)> {
    let mut words: Vec<(Word, Query)> = Vec::new();
    let _ = of(&question.criterion, question, &mut |scope, text| {
        let word = (scope, text.indexed().to_vec());
        if words.len() < ASKED_MAX
            && !words.iter().any(|(other, _)| *other == word)
            && let Some(query) = Query::new(scope, text.indexed())
        {
            words.push((word, query));
        }
        Some(NumSet::new())
    });
    words
}

/// The UIDs of the messages that the index knows not to match.
fn excluded(question: &Question, words: &[Word], answer: &Answer) -> Option<NumSet> {
    let mut ask = |scope, text: &Text| {
        let at = words.iter().position(|(other, word)| *other == scope && word == text.indexed())?;
        answer.proposed.get(at).cloned()
    };
    let proposed = of(&question.criterion, question, &mut ask)?;
    Some(answer.covered.difference(&proposed))
}

/// The indexed messages that may match. `None`: any of them.
fn of(
    criterion: &Criterion,
    question: &Question,
    ask: &mut dyn FnMut(Scope, &Text) -> Option<NumSet>,
) -> Option<NumSet> {
    use Criterion as C;
    match criterion {
        C::And(all) => {
            all.iter().filter_map(|criterion| of(criterion, question, ask)).reduce(|a, b| a.intersection(&b))
        }
        C::Or(a, b) => Some(of(a, question, ask)?.union(&of(b, question, ask)?)),
        C::Subject(text) | C::From(text) | C::To(text) | C::Cc(text) | C::Bcc(text) => {
            ask(Scope::Envelope, text)
        }
        C::Header { text, .. } => ask(Scope::Texts, text),
        C::Opened(number) => ask(Scope::Texts, &question.texts.get(*number)?.key),
        // Fields that a message lacks are in no index.
        _ => None,
    }
}
