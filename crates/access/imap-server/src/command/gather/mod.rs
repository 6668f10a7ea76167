//! Gathers the keys of messages for SORT and THREAD. Cached keys are used first, then those that
//! the segments of the search index have. The others come from the summaries. No message is read.

mod growing;
mod missing;

use std::collections::HashMap;
use std::sync::Arc;

use posthaste_imap_codec::command::SortKey;
use posthaste_imap_codec::response::Code;
use posthaste_indexing::{SEGMENT_MESSAGES_MIN, SortField, SortTexts};
use posthaste_mail_model::{AccountId, NumSet, SeqNum};
use posthaste_net::BytePermit;
use posthaste_store::{View, named_ranges};

use self::growing::{Growing, MADE_BYTE_STEPS};
pub(super) use self::missing::KeysWanted;
use self::missing::{Missing, ROW_STEPS};
use super::walk::{Pass, Unanswered, VisitOutcome, Visited, Walk};
use crate::heavy::Pace;
use crate::keys::{OrderAnswer, OrderRequest, Table, without_key};
use crate::offload::{RANGE_STEPS, Threads, find_steps, range_steps};
use crate::reply::{Failure, Reply};
use crate::selected::Selected;
use crate::service::{ImapService, UNRESERVED_READ_BYTES};

/// Bytes that a message takes while it is sorted, in addition to its entry in the cache. They are
/// its UID and number, two entries of the order, two keys, and one more value of each column that
/// grows.
const MESSAGE_BYTES: usize = 64;

/// Messages requested at once: nothing is printed meanwhile, and a message takes less than a
/// microsecond.
const BATCH: usize = 1024;

/// Steps of finding a message and its summary.
const MESSAGE_STEPS: u64 = 100;

/// Steps of comparing a UID with that of a remembered result, or of noting one.
const UID_STEPS: u64 = 4;
/// Steps of finding a UID in a set.
const FIND_UID_STEPS: u64 = 20;

/// Messages with their keys.
pub(super) struct Gathered {
    /// The sequence numbers, in order. A message that was expunged when its summary was needed is
    /// left out.
    pub(super) seqs: NumSet<SeqNum>,
    /// The UIDs, in the same order.
    pub(super) uids: Vec<u32>,
    /// The keys.
    pub(super) table: Table,
    /// The number of messages that were expunged.
    pub(super) expunged: u32,
    /// Memory for all of it.
    _paid: Option<BytePermit>,
}

/// The selected mailbox, and the account that reads it.
#[derive(Clone, Copy)]
pub(crate) struct Source<'s> {
    pub(crate) service: &'s ImapService,
    pub(crate) account: AccountId,
    pub(crate) selected: &'s Selected,
}

impl<'s> Source<'s> {
    /// The threads that do long work.
    pub(crate) fn threads(self) -> Threads<'s> {
        Threads { service: self.service, account: self.account }
    }
}

impl Gathered {
    /// Messages of the announced view, without keys.
    pub(super) async fn listed(
        source: Source<'_>,
        found: NumSet<SeqNum>,
        pace: &mut Pace,
    ) -> Result<Self, Failure> {
        let Source { service, account, selected } = source;
        let count = found.count() as usize;
        let bytes = (count * MESSAGE_BYTES).min(service.reads.largest()) as u64;
        let _paid = match bytes > UNRESERVED_READ_BYTES {
            true => Some(service.reserve_to_read(account, bytes).await?),
            false => None,
        };
        let mut uids = Vec::with_capacity(count);
        for (_, rows) in selected.announced.runs(&found) {
            uids.extend(rows.iter().map(|row| row.uid().value()));
            pace.worked(RANGE_STEPS + rows.len() as u64 * ROW_STEPS).await;
        }
        if found.count() != uids.len() as u64 {
            return Err(without_key("UID").into());
        }
        Ok(Self { seqs: found, uids, table: Table::default(), expunged: 0, _paid })
    }

    /// Gathers their keys. Messages without some that were expunged meanwhile are left out.
    pub(super) async fn gather(
        &mut self,
        source: Source<'_>,
        wanted: &KeysWanted,
        pace: &mut Pace,
    ) -> Result<(), Failure> {
        let Source { service, selected, .. } = source;
        let (mailbox, threads) = (selected.mailbox.id(), source.threads());
        let mut table = service.keys.table(mailbox);
        let missing = Missing::of(&table, &self.uids, (wanted, threads), pace).await?;
        let is_unranked = |key: &SortField| wanted.ranks && !table.text(*key).texts.is_ranked();
        if !missing.uids.is_empty() || wanted.texts.iter().any(is_unranked) {
            service.keys.forget(mailbox);
            let missing = match missing.uids.count() {
                count if count < SEGMENT_MESSAGES_MIN as u64 => missing,
                _ => missing.read_stored(source, &mut table, (&self.uids, wanted), pace).await?,
            };
            let unread = missing.read(source, &mut table, pace).await?;
            for key in wanted.texts.iter().filter(|_| wanted.ranks) {
                let column = table.text_mut(*key);
                if !column.texts.is_ranked() {
                    Arc::make_mut(column).texts.rank(pace).await;
                }
            }
            service.keys.keep(mailbox, table.clone(), selected.announced.exists() as usize);
            self.expunged = unread.count() as u32;
            if self.expunged > 0 {
                self.leave_out(source, unread).await?;
            }
        }
        if self.seqs.count() != self.uids.len() as u64 {
            return Err(without_key("UID").into());
        }
        self.table = table;
        Ok(())
    }

    async fn leave_out(&mut self, source: Source<'_>, unread: NumSet) -> Result<(), Failure> {
        let (seqs, mut uids) = (std::mem::take(&mut self.seqs), std::mem::take(&mut self.uids));
        let view = Arc::clone(&source.selected.announced);
        let steps = FIND_UID_STEPS * uids.len() as u64 + range_steps(unread.ranges().len());
        let work = move || {
            uids.retain(|uid| !unread.contains(*uid));
            (seqs.difference(&view.seqs_of_uids(&unread)), uids)
        };
        (self.seqs, self.uids) = source.threads().run(steps, work).await?;
        Ok(())
    }

    /// Steps of looking at all UIDs once.
    pub(super) fn uid_steps(&self) -> u64 {
        self.uids.len() as u64 * UID_STEPS
    }

    /// The result for these messages, if it is remembered.
    pub(super) async fn answered(
        self,
        source: Source<'_>,
        request: OrderRequest,
    ) -> Result<(Self, Option<OrderAnswer>), Failure> {
        let (keys, mailbox) = (source.service.keys.clone(), source.selected.mailbox.id());
        let steps = self.uid_steps();
        let work = move || {
            let answered = keys.answered(mailbox, &request, &self.uids);
            (self, answered)
        };
        source.threads().run(steps, work).await
    }

    /// Remembers the result for these messages.
    pub(super) async fn remember(
        self: &Arc<Self>,
        source: Source<'_>,
        request: OrderRequest,
        answered: OrderAnswer,
    ) -> Result<(), Failure> {
        let Selected { mailbox, announced, .. } = source.selected;
        let (keys, mailbox) = (source.service.keys.clone(), (mailbox.id(), announced.exists() as usize));
        let this = Arc::clone(self);
        let work = move || keys.remember(mailbox, request, &this.uids, answered);
        source.threads().run(self.uid_steps(), work).await
    }
}

/// RFC 5256 §2.2: when messages were sent, in UTC; without a date that can be read, INTERNALDATE.
/// As unsigned numbers in the same order.
pub(super) async fn dates(gathered: &Gathered, view: &View, pace: &mut Pace) -> Vec<u64> {
    let mut dates = Vec::with_capacity(gathered.uids.len());
    let sent = gathered.table.sent.of(&gathered.uids);
    let steps = ROW_STEPS + find_steps(&gathered.seqs);
    for (sent, (_, row)) in sent.zip(view.rows(&gathered.seqs)) {
        let date = sent.flatten().unwrap_or(i64::from(row.date()));
        dates.push(date.cast_unsigned() ^ (1 << 63));
        if pace.count(steps) {
            pace.rest().await;
        }
    }
    dates
}

/// The value that SORT compares of one message by one key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Value {
    Number(i64),
    Text(Box<[u8]>),
}

/// Bytes of a text that are compared. SORT puts longer texts that differ only later into an
/// arbitrary order.
const TEXT_BYTES_MAX: usize = 1000;

/// The text that a key compares; `None` if it compares a number.
pub(super) fn text_key(key: SortKey) -> Option<SortField> {
    match key {
        SortKey::Cc => Some(SortField::Cc),
        SortKey::From => Some(SortField::From),
        SortKey::Subject => Some(SortField::Subject),
        SortKey::To => Some(SortField::To),
        SortKey::DisplayFrom => Some(SortField::DisplayFrom),
        SortKey::DisplayTo => Some(SortField::DisplayTo),
        SortKey::Arrival
        | SortKey::Date
        | SortKey::Size
        | SortKey::Uid
        | SortKey::ModSeq
        | SortKey::Relevancy
        | SortKey::Annotation(_) => None,
    }
}

/// The values that SORT compares of a few messages, by UID. `None` if somebody expunged one of
/// them.
pub(crate) async fn values(
    source: Source<'_>,
    keys: &[SortKey],
    uids: &NumSet,
    pace: &mut Pace,
) -> Result<Option<HashMap<u32, Vec<Value>>>, Failure> {
    let view = &source.selected.announced;
    let seqs = view.seqs_of_uids(uids);
    let mut values_of = HashMap::new();
    if keys.iter().all(|key| matches!(key, SortKey::Arrival | SortKey::Size | SortKey::Uid)) {
        let view = match keys.contains(&SortKey::Size) {
            true => &Box::pin(source.selected.mailbox.sized(view, &seqs)).await?,
            false => view,
        };
        for (_, row) in view.rows(&seqs) {
            let value = |key: &SortKey| match key {
                SortKey::Size => Value::Number(i64::from(row.size())),
                SortKey::Uid => Value::Number(i64::from(row.uid().value())),
                _ => Value::Number(i64::from(row.date())),
            };
            values_of.insert(row.uid().value(), keys.iter().map(value).collect());
            pace.worked(ROW_STEPS).await;
        }
        return Ok(Some(values_of));
    }
    let (mut texts, mut text) = (SortTexts::default(), Vec::new());
    let mut walk = Walk::new(&source.selected.mailbox, view, &seqs);
    while walk.more() {
        let each = |message: Visited<'_>, pass: &mut Pass| {
            pass.steps += MESSAGE_STEPS;
            let (row, summary) = (message.row, &message.stored.summary);
            let mut values = Vec::with_capacity(keys.len());
            for key in keys {
                let arrived = i64::from(row.date());
                values.push(match (key, text_key(*key)) {
                    (_, Some(key)) => {
                        text.clear();
                        texts.append_whole(key, summary, &mut text);
                        pass.steps += text.len() as u64 * MADE_BYTE_STEPS;
                        Value::Text(text.get(..TEXT_BYTES_MAX).unwrap_or(&text).into())
                    }
                    (SortKey::Size, _) => Value::Number(i64::from(row.size())),
                    (SortKey::Uid, _) => Value::Number(i64::from(row.uid().value())),
                    // RFC 5256 §2.2
                    (SortKey::Date, _) => Value::Number(summary.sent().map_or(arrived, |sent| sent.unix_s)),
                    _ => Value::Number(arrived),
                });
            }
            values_of.insert(row.uid().value(), values);
            VisitOutcome::Done
        };
        walk.visit(pace, each).await?;
    }
    let Unanswered { expunged, unreadable } = walk.end();
    if !unreadable.is_empty() {
        let text = format!("Stored data of UID {} is damaged", named_ranges(&unreadable));
        return Err(Reply::no(Code::Corruption, text).into());
    }
    Ok((expunged == 0).then_some(values_of))
}

impl Missing {
    /// Adds the keys that the segments of the search index have. Returns what is missing still.
    async fn read_stored(
        mut self,
        source: Source<'_>,
        table: &mut Table,
        (uids, wanted): (&[u32], &KeysWanted),
        pace: &mut Pace,
    ) -> Result<Self, Failure> {
        let (Source { service, selected, .. }, threads) = (source, source.threads());
        let unavailable = |error| tracing::debug!(%error, "stored sort keys are not read");
        let stored = service.index.sort_keys(selected.mailbox.id()).await.map_err(unavailable);
        let Ok(mut stored) = stored else { return Ok(self) };
        let mut next = stored.next().await;
        while let Ok(Some(_)) = &next {
            // This loop takes segments whose messages follow those of the segment before. After
            // any other segment, the missing messages are computed again: two segments may have
            // the same ones.
            let mut growing = Growing::begin(threads, table, Arc::new(self)).await?;
            let mut last = None;
            while let Ok(Some(segment)) = &next {
                if let Some(front) = segment.front() {
                    if last.is_some() && front.uids().next() <= last {
                        break;
                    }
                    last = front.uids().last().or(last);
                    let steps = growing.push_stored(&front);
                    growing = growing.numbered(threads).await?;
                    pace.worked(steps).await;
                }
                next = stored.next().await;
            }
            growing.put_back(threads, table).await?;
            self = Self::of(table, uids, (wanted, threads), pace).await?;
        }
        if let Err(error) = next {
            unavailable(error);
        }
        Ok(self)
    }

    /// Reads the summaries and adds the keys to the table. Returns the UIDs of messages that were
    /// expunged meanwhile.
    async fn read(self, source: Source<'_>, table: &mut Table, pace: &mut Pace) -> Result<NumSet, Failure> {
        let (Source { selected, .. }, threads) = (source, source.threads());
        let (view, missing) = (&selected.announced, Arc::new(self));
        let (of, among, steps) =
            (Arc::clone(view), Arc::clone(&missing), range_steps(missing.uids.ranges().len()));
        let seqs = threads.run(steps, move || of.seqs_of_uids(&among.uids)).await?;
        let mut growing = Growing::begin(threads, table, Arc::clone(&missing)).await?;
        let mut read = NumSet::new();
        let mut walk = Walk::new(&selected.mailbox, view, &seqs).in_batches_of(BATCH);
        while walk.more() {
            let each = |message: Visited<'_>, pass: &mut Pass| {
                let uid = message.row.uid().value();
                read.push(uid);
                pass.steps += MESSAGE_STEPS + growing.push(uid, &message.stored.summary);
                VisitOutcome::Done
            };
            walk.visit(pace, each).await?;
            growing = growing.numbered(threads).await?;
        }
        refuse_damaged(&walk.end())?;
        growing.put_back(threads, table).await?;
        let steps = range_steps(missing.uids.ranges().len() + read.ranges().len());
        threads.run(steps, move || missing.uids.difference(&read)).await
    }
}

/// An order without some of the messages would be wrong.
fn refuse_damaged(unanswered: &Unanswered) -> Result<(), Failure> {
    if unanswered.unreadable.is_empty() {
        return Ok(());
    }
    let named = named_ranges(&unanswered.unreadable);
    let text = format!("Stored data of UID {named} is damaged; search without them");
    Err(Reply::no(Code::Corruption, text).into())
}
