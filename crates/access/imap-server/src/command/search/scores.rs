//! How well the messages of a fuzzy search match: RELEVANCY (RFC 6203 §4). `fuzzy` has the levels.

use std::sync::Arc;

use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::{Tag, print};
use posthaste_mail_model::{NumSet, SeqNum};

use super::criteria::Question;
use super::fuzzy::{Level, at_level};
use super::job::Job;
use crate::command::gather::Source;
use crate::heavy::Pace;
use crate::progress::{Progress, Reports};
use crate::reply::Failure;
use crate::session::Ctx;
use crate::wire::Wire;

/// Numbers printed between two checks of the output buffer.
pub(in crate::command) const NUMBERS_PER_RELIEF: usize = 4096;

/// How well the messages of a result match.
pub(crate) struct Scores {
    exact: NumSet<SeqNum>,
    words: NumSet<SeqNum>,
}

impl Scores {
    /// The score of a message, 1 … 100: RFC 6203 §4.
    pub(crate) fn of(&self, seq: u32) -> u8 {
        if self.exact.contains(seq) {
            100
        } else if self.words.contains(seq) {
            75
        } else {
            50
        }
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

/// How well each of these messages, which a search found, matches.
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
    Ok(Scores { exact, words })
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
