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
use crate::service::UNRESERVED_READ_BYTES;

/// Keys that one search looks up in the index. The others exclude no message.
const ASKED_MAX: usize = 16;

/// Copies of their answers that a search makes. Keys beyond that exclude no message: a search may
/// name a word thousands of times, and each copy has a range for every second message.
const COPIES_MAX: u64 = 2 * ASKED_MAX as u64;

/// Octets for each message of the mailbox that is proposed for a word: its UID, and a part of a
/// range.
const PROPOSED_BYTES: u64 = 12;
/// Octets for each message in a copy of such an answer.
const COPIED_BYTES: u64 = 4;
/// Octets for each message in the sets of those that are covered, and of those that are excluded.
const EXCLUDED_BYTES: u64 = 8;

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
        if queries.is_empty() {
            return;
        }
        let bytes = u64::from(self.selected.announced.exists()) * message_bytes(&question, queries.len());
        let _paid = match bytes.min(self.service.reads.largest() as u64) {
            ..=UNRESERVED_READ_BYTES => None,
            // Without memory all messages are read.
            bytes => match Box::pin(self.service.reserve_to_read(self.account, bytes)).await {
                Ok(paid) => Some(paid),
                Err(_) => return,
            },
        };
        // Boxed: no other search needs as much memory.
        let asked = Box::pin(self.service.index.query(self.selected.mailbox.id(), &queries));
        let Some(answer) = asked.await else { return };
        let proposed: usize = answer.proposed.iter().map(|uids| uids.ranges().len()).sum();
        // The proposed messages are copied, united, subtracted from those that are covered, and
        // translated.
        let largest = answer.proposed.iter().map(|uids| uids.ranges().len()).max().unwrap_or_default();
        let copied = question.text_keys().min(COPIES_MAX) * range_steps(largest);
        let steps = copied + 4 * range_steps(proposed + answer.covered.ranges().len());
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
    let mut answers = Answers { words, answer, left: COPIES_MAX };
    let proposed = of(&question.criterion, question, &mut |scope, text| answers.copy(scope, text))?;
    Some(answer.covered.difference(&proposed))
}

/// The octets for each message that answers of so many words take.
fn message_bytes(question: &Question, words: usize) -> u64 {
    let copies = question.text_keys().min(COPIES_MAX);
    words as u64 * PROPOSED_BYTES + copies * COPIED_BYTES + EXCLUDED_BYTES
}

/// What the index proposes for each word.
struct Answers<'a> {
    words: &'a [Word],
    answer: &'a Answer,
    /// Copies that may still be made.
    left: u64,
}

impl Answers<'_> {
    /// The messages that may have a word. `None`: any of them.
    fn copy(&mut self, scope: Scope, text: &Text) -> Option<NumSet> {
        let at = self.words.iter().position(|(other, word)| *other == scope && word == text.indexed())?;
        self.left = self.left.checked_sub(1)?;
        self.answer.proposed.get(at).cloned()
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pause_tests::Paused;

    #[test]
    fn a_word_that_is_named_often_is_copied_a_few_times() {
        let text = Text::new("apple");
        let words = [(Scope::Envelope, text.indexed().to_vec())];
        let answer = Answer { proposed: vec![NumSet::range(1, 9)], ..Answer::default() };
        let mut answers = Answers { words: &words, answer: &answer, left: COPIES_MAX };
        assert_eq!(answers.copy(Scope::Texts, &text), None, "another scope is another word");
        let copied = (0..4096).filter_map(|_| answers.copy(Scope::Envelope, &text)).count();
        assert_eq!(copied as u64, COPIES_MAX);
    }

    /// They take 24 octets for each message of the mailbox, however few are searched.
    #[tokio::test]
    async fn answers_of_the_index_take_memory() {
        let mut paused = Paused::begin().await;
        let (service, account) = paused.account();
        let all = service.reads.available();
        let command = "SEARCH RETURN (COUNT) 1 SUBJECT apples";
        // 4,096 messages, and 8,192: 96 KiB need no reservation, and 192 KiB do.
        for (doublings, is_much) in [(12, false), (1, true)] {
            paused.doubled(doublings).await;
            let held = service.reserve_to_read(account, service.reads.largest() as u64).await.unwrap();
            assert_eq!(paused.waits_for(held, command).await, is_much, "{doublings} doublings");
            assert_eq!(service.reads.available(), all, "all is given back");
            paused.run(command).await;
        }
    }
}
