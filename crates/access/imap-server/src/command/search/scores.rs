//! How well the messages of a fuzzy search match: RELEVANCY (RFC 6203 §4). `fuzzy` has the levels.

use std::sync::Arc;

use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::{Tag, print};
use posthaste_mail_model::{NumSet, SeqNum};

use super::criteria::Question;
use super::fuzzy::{Level, at_level, in_subjects, scored_words, with_word};
use super::job::Job;
use crate::command::gather::Source;
use crate::heavy::Pace;
use crate::progress::{Progress, Reports};
use crate::reply::Failure;
use crate::session::Ctx;
use crate::wire::Wire;

/// Numbers printed between two checks of the output buffer.
pub(in crate::command) const NUMBERS_PER_RELIEF: usize = 4096;

/// The messages of a result by how well they match: RFC 6203 §4.
pub(crate) struct Scores {
    exact: NumSet<SeqNum>,
    words: NumSet<SeqNum>,
    /// For each word of the search, the other messages that have it as it is written.
    written: Vec<NumSet<SeqNum>>,
    /// Messages that match elsewhere than in their subject.
    elsewhere: NumSet<SeqNum>,
}

/// The lowest score of each level.
const EXACT: u8 = 100;
const WORDS: u8 = 75;
const STEMS: u8 = 50;
/// The points that a message loses if its subject does not match.
const SUBJECT: u8 = 10;

impl Scores {
    /// The score of a message, 1 … 100: RFC 6203 §4.
    pub(crate) fn of(&self, seq: u32) -> u8 {
        let level = if self.exact.contains(seq) {
            EXACT
        } else if self.words.contains(seq) {
            WORDS
        } else {
            STEMS + self.share(seq)
        };
        if self.elsewhere.contains(seq) { level - SUBJECT } else { level }
    }

    /// The points for words that a message has as they are written: less than the next level.
    fn share(&self, seq: u32) -> u8 {
        let has = self.written.iter().filter(|having| having.contains(seq)).count();
        // The result is 24 at most, so the cast loses nothing.
        (usize::from(WORDS - STEMS - 1) * has / self.written.len().max(1)) as u8
    }

    /// ` RELEVANCY (4 99 42)`: RFC 6203 §4.
    pub(crate) async fn print(
        &self,
        wire: &mut Wire,
        seqs: impl Iterator<Item = u32>,
    ) -> Result<(), Failure> {
        wire.out().extend_from_slice(b" RELEVANCY (");
        for (i, seq) in seqs.enumerate() {
            let out = wire.out();
            if i > 0 {
                out.push(b' ');
            }
            print::number(out, u64::from(self.of(seq)));
            if i % NUMBERS_PER_RELIEF == 0 {
                wire.relieve().await?;
            }
        }
        wire.out().push(b')');
        Ok(())
    }
}

/// The scores of the messages that a search found.
pub(crate) async fn scores(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    key: &SearchKey,
    found: &NumSet<SeqNum>,
) -> Result<Scores, Failure> {
    let source = Source { service: ctx.service, account: ctx.login.id, selected: ctx.selected };
    scores_in(ctx.wire, source, (tag, key), found).await
}

/// The scores of messages in any mailbox.
pub(crate) async fn scores_in(
    wire: &mut Wire,
    source: Source<'_>,
    (tag, key): (&Tag, &SearchKey),
    found: &NumSet<SeqNum>,
) -> Result<Scores, Failure> {
    let words = matching(wire, source, (tag, &at_level(key, Level::Words)), found).await?;
    let exact = matching(wire, source, (tag, &at_level(key, Level::Exact)), &words).await?;
    let stems = found.difference(&words);
    let mut written = Vec::new();
    for n in 0..scored_words(key) {
        written.push(matching(wire, source, (tag, &with_word(key, n)), &stems).await?);
    }
    let Some(key) = in_subjects(key) else {
        return Ok(Scores { exact, words, written, elsewhere: NumSet::new() });
    };
    let (mut elsewhere, others) = (found.clone(), words.difference(&exact));
    let by_level = [(at_level(&key, Level::Exact), &exact), (at_level(&key, Level::Words), &others)];
    for (key, within) in by_level.into_iter().chain([(key, &stems)]) {
        elsewhere = elsewhere.difference(&matching(wire, source, (tag, &key), within).await?);
    }
    Ok(Scores { exact, words, written, elsewhere })
}

async fn matching(
    wire: &mut Wire,
    source: Source<'_>,
    (tag, key): (&Tag, &SearchKey),
    within: &NumSet<SeqNum>,
) -> Result<NumSet<SeqNum>, Failure> {
    if within.is_empty() {
        return Ok(NumSet::new());
    }
    let now = (source.service.store.unix_ms() / 1000) as i64;
    let question = Box::pin(Question::compiled(source, key, now)).await?;
    // The search has reported its progress. This part reports none: a count must not fall.
    let progress = Arc::new(Progress::default());
    let reports = Reports { tag, progress: &progress, times: source.service.options.progress };
    let mut job = Job::new(source, question, Pace::default());
    let found = Box::pin(wire.while_reporting(reports, job.matching(within))).await??;
    Ok(found.seqs)
}
