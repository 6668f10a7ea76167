//! Stored mail in another form: what `posthaste convert` does, while a server may run.
//!
//! | stored | to `keep` | to `mime` | to `rich` |
//! | --- | --- | --- | --- |
//! | as MIME | stays | stays | TNEF that gives it back |
//! | as MIME, with the rich original | the original | stays, or MIME alone (below) | the original |
//! | rich, as sent | stays | MIME; the original after it, or lost (`keep_original`) | stays |
//! | TNEF made of MIME | the MIME | the MIME | stays |
//! | rich, served as sent | a new message | a new message | a new message |
//! | rich, converted by an earlier program | a new message | a new message | a new message |
//!
//! Rich mail is served as sent if a client appended it, or a program before these forms stored it.
//!
//! A body in MIME is compressed if the server compresses new mail
//! ([`crate::DeliveryOptions::compress`]).
//!
//! Rich mail that delivery did not convert is rich, as sent. Its items can be made at the same time
//! ([`Items::Make`]), or alone. A damaged or signed message without items stays as it was sent.
//!
//! An original that this program converts to other bytes than the MIME before it becomes a new
//! message, too.
//!
//! In all lines but the last two, clients see the same bytes before and after. The body takes
//! another form, and the message keeps its UID ([`posthaste_store::Engine::recode`]). An engine may
//! be unable to do that. Then the message stays, or with [`Uids::Renew`] becomes a new one. In the
//! last two lines clients see other bytes. IMAP's messages never change (RFC 9051 §2.3.1.1), so the
//! message is added again, with its flags, its dates, and its annotations (RFC 5257) of all users.
//! The old one is expunged after that.
//!
//! With [`LossPolicy::Allow`] and without `keep_original`, a body loses its rich original, unless a
//! message of another account has it. Then it becomes MIME with the original after it.
//!
//! A superseded message becomes a new one without this command, too: see [`crate::Renewals`]. It
//! takes the same steps, for that message alone.
//!
//! Each step is durable by itself and finds the results of the steps before it. So a run that is
//! cut off loses nothing, and the next one continues.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_directory::{Account, Format, FormatSettings};
use posthaste_mail_model::{BodyId, NumSet, Uid};
use posthaste_net::on_compute_thread;
use posthaste_store::form::served_len;
use posthaste_store::{CommitOutcome, Holders, Keep, Mailbox, Recodes, StoreError};

use crate::body_change::{
    BodyChange, LossPolicy, beside_original, body_change, is_superseded, may_be_superseded, stays,
};
use crate::deliver::Delivery;
use crate::error::DeliveryError;
use crate::long_work::WorkFor;
use crate::replace::{ReadBodies, Replaced, Replacer};
use crate::sample::Sample;
use crate::shared_bodies::SharedBodies;

/// Messages whose bodies are looked up at a time.
const BATCH: u32 = 500;
/// Times that the messages with a body are counted again because it is copied meanwhile.
const TRIES_MAX: usize = 20;

/// Whether stored mail is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvertMode {
    /// Nothing is changed.
    DryRun,
    /// The mail is changed.
    Apply,
}

/// Whether items are made that messages lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Items {
    /// The items are left to the readers.
    Leave,
    /// The items are made and kept, whatever the server has for its readers.
    Make,
}

/// The options of a conversion of stored mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvertOptions {
    /// The format to convert to. `None`: the messages keep the form that they have.
    pub to: Option<Format>,
    /// Whether items are made.
    pub items: Items,
    /// Whether stored mail is changed.
    pub mode: ConvertMode,
    /// What happens to rich originals that the new form cannot hold.
    pub loss: LossPolicy,
    /// Whether messages may get new UIDs although clients see the same.
    pub uids: Uids,
}

/// What happens to a message that the engine cannot store in another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uids {
    /// The message stays as it is.
    Keep,
    /// It becomes a new message, as if clients saw other bytes.
    Renew,
}

/// The outcome for the messages of a mailbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConvertReport {
    /// Messages examined.
    pub examined: u64,
    /// Messages whose bodies have another form now.
    pub converted: u64,
    /// Messages that are new ones now, because clients see other bytes.
    pub renumbered: u64,
    /// Messages whose items were made.
    pub items: u64,
    /// Octets that these items take.
    pub items_bytes: u64,
    /// Messages that stay because their rich originals would be lost.
    pub would_lose: u64,
    /// Messages that stay because their conversion may take more memory than there ever is.
    pub too_large: u64,
    /// Messages that the engine cannot store in another form.
    pub refused: u64,
    /// Messages that were expunged meanwhile.
    pub vanished: u64,
    /// Messages that cannot be read or converted.
    pub failed: u64,
    /// Octets that the converted and renumbered messages took.
    pub bytes_before: u64,
    /// Octets that they take now.
    pub bytes_after: u64,
}

impl ConvertReport {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            examined: self.examined + other.examined,
            converted: self.converted + other.converted,
            renumbered: self.renumbered + other.renumbered,
            items: self.items + other.items,
            items_bytes: self.items_bytes + other.items_bytes,
            would_lose: self.would_lose + other.would_lose,
            too_large: self.too_large + other.too_large,
            refused: self.refused + other.refused,
            vanished: self.vanished + other.vanished,
            failed: self.failed + other.failed,
            bytes_before: self.bytes_before + other.bytes_before,
            bytes_after: self.bytes_after + other.bytes_after,
        }
    }
}

/// The UIDs of messages that stay as they are, by the reason.
#[derive(Debug, Clone, Default)]
pub struct Unconverted {
    /// The messages whose rich originals would be lost.
    pub would_lose: NumSet,
    /// The messages whose conversion may take more memory than there ever is.
    pub too_large: NumSet,
    /// The messages whose summaries cannot be read.
    pub unreadable: NumSet,
    /// The messages that cannot be read or converted for another reason.
    pub failed: NumSet,
}

/// The way in which a dry run counts a body that several messages share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counting {
    /// Once, as a conversion does: the other messages find it converted.
    Bodies,
    /// Once for each message of a sample.
    Messages,
}

/// A message to examine.
#[derive(Clone, Copy)]
struct Candidate {
    uid: Uid,
    body: BodyId,
    saved: i64,
    lacks_items: bool,
    /// Whether the message would share the items of another message.
    is_link: bool,
}

impl Candidate {
    const fn replaced(self) -> Replaced {
        let Self { uid, body, saved, .. } = self;
        Replaced { uid, body, saved }
    }
}

/// The messages that are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selection {
    All,
    /// The messages that an earlier version of this program converted in another way.
    Superseded,
}

/// A mailbox that is being converted, one message after the other.
pub struct Converter<'d> {
    delivery: &'d Delivery,
    account: Account,
    mailbox: Arc<Mailbox>,
    options: ConvertOptions,
    which: Selection,
    /// UIDs that are not read yet, and the messages that were read before.
    rest: NumSet,
    found: VecDeque<Candidate>,
    replacer: Replacer<'d>,
    shared: &'d SharedBodies,
    counting: Counting,
    /// The body of the message that was examined last.
    last: Option<BodyId>,
    report: ConvertReport,
    unconverted: Unconverted,
}

impl Delivery {
    /// Begins to convert the messages that a mailbox of an account has at this moment. `shared`
    /// is the same for all mailboxes of the account.
    #[boxed]
    pub async fn converter<'d>(
        &'d self,
        account: &Account,
        mailbox: Arc<Mailbox>,
        options: ConvertOptions,
        shared: &'d SharedBodies,
    ) -> Result<Converter<'d>, DeliveryError> {
        let view = mailbox.current().await?;
        let rest = view.uids_of_seqs(&view.all());
        let replacer = Replacer::new(self, account.id, Arc::clone(&mailbox));
        Ok(Converter {
            delivery: self,
            account: account.clone(),
            mailbox,
            options,
            which: Selection::All,
            rest,
            found: VecDeque::new(),
            replacer,
            shared,
            counting: Counting::Bodies,
            last: None,
            report: ConvertReport::default(),
            unconverted: Unconverted::default(),
        })
    }

    /// Makes a new message of one that is superseded. It is stored as sent, like the old one.
    /// `bodies` are those of the mailbox that are known, and then those that were read.
    pub(crate) async fn renewed(
        &self,
        account: &Account,
        mailbox: Arc<Mailbox>,
        uid: Uid,
        bodies: &mut ReadBodies,
    ) -> Result<ConvertReport, DeliveryError> {
        let shared = SharedBodies::default();
        let (to, items) = (Some(Format::Keep), Items::Leave);
        let (mode, loss, uids) = (ConvertMode::Apply, LossPolicy::Refuse, Uids::Keep);
        let options = ConvertOptions { to, items, mode, loss, uids };
        let mut converter = self.converter(account, mailbox, options, &shared).await?;
        converter.which = Selection::Superseded;
        converter.rest = NumSet::range(uid.value(), uid.value());
        std::mem::swap(converter.replacer.bodies_mut(), bodies);
        while converter.advance().await? {}
        std::mem::swap(converter.replacer.bodies_mut(), bodies);
        Ok(converter.report)
    }
}

impl Converter<'_> {
    /// Converts only a sample of the messages.
    #[must_use]
    pub fn sampled(mut self, sample: &mut Sample) -> Self {
        self.rest = sample.take(&self.rest);
        self.counting = Counting::Messages;
        self
    }

    /// Examines the next message alone: its body, and the outcome. `None` if there is none left.
    pub(crate) async fn sample(&mut self) -> Result<Option<(Option<BodyId>, ConvertReport)>, DeliveryError> {
        let is_one = self.advance().await?;
        Ok(is_one.then(|| (self.last.take(), std::mem::take(&mut self.report))))
    }

    /// The outcome so far.
    pub const fn report(&self) -> &ConvertReport {
        &self.report
    }

    /// The messages that stayed as they are so far.
    pub const fn unconverted(&self) -> &Unconverted {
        &self.unconverted
    }

    /// Looks at the next message, and converts it; `false` if no message is left. A message that
    /// cannot be converted is counted and logged. After an error of the store the call may be
    /// repeated. There is also an error if the mailbox was deleted.
    #[boxed]
    pub async fn advance(&mut self) -> Result<bool, DeliveryError> {
        if self.found.is_empty() && !self.look_up().await? {
            return Ok(false);
        }
        let Some(found) = self.found.pop_front() else { return Ok(true) };
        self.report.examined += 1;
        self.last = Some(found.body);
        match self.convert(found).await {
            Ok(()) => Ok(true),
            Err(error) if ends_the_mailbox(&error) => Err(error),
            Err(_) if self.mailbox.current().await?.row_of_uid(found.uid).is_none() => {
                self.report.vanished += 1;
                Ok(true)
            }
            Err(error) => {
                let (account, uid) = (&self.account.name, found.uid);
                tracing::error!(account, %uid, %error, "a message was not converted");
                self.report.failed += 1;
                self.unconverted.failed.push(found.uid.value());
                Ok(true)
            }
        }
    }

    /// Reads the bodies' ids of the next messages; `false` if there are none.
    async fn look_up(&mut self) -> Result<bool, DeliveryError> {
        let Some(first) = self.rest.iter().next() else { return Ok(false) };
        let some: NumSet = self.rest.iter().take(BATCH as usize).collect();
        let last = some.iter().last().unwrap_or(first);
        self.rest = self.rest.difference(&NumSet::range(first, last));
        let found = &mut self.found;
        let mut visit = |stored: posthaste_store::Stored<'_>| {
            let lacks_items = stored.summary.is_empty();
            found.push_back(Candidate {
                uid: stored.uid,
                body: stored.body,
                saved: stored.saved,
                lacks_items,
                is_link: stored.is_shared,
            });
            ControlFlow::Continue(())
        };
        let unreadable = self.mailbox.summaries(&some, &mut visit).await?;
        self.report.examined += unreadable.0.count();
        self.report.failed += unreadable.0.count();
        unreadable.0.iter().for_each(|uid| self.unconverted.unreadable.push(uid));
        Ok(true)
    }

    async fn convert(&mut self, found: Candidate) -> Result<(), DeliveryError> {
        let replaced_or_expunged = |report: &ConvertReport| report.renumbered + report.vanished;
        let before = replaced_or_expunged(&self.report);
        if let Some(to) = self.options.to {
            self.convert_to(to, found).await?;
        }
        // A message that took its place has its items.
        let is_there = replaced_or_expunged(&self.report) == before;
        if found.lacks_items && self.options.items == Items::Make && is_there {
            self.make_items(found).await?;
        }
        Ok(())
    }

    /// Makes the items of a message. A run before this one, or a reader, may have kept them by
    /// now. So may this run, for the original of this copy.
    async fn make_items(&mut self, found: Candidate) -> Result<(), DeliveryError> {
        let keep = match self.options.mode {
            ConvertMode::Apply if self.has_items_now(found.uid).await? => return Ok(()),
            ConvertMode::Apply => Keep::Always,
            ConvertMode::DryRun => Keep::Never,
        };
        if keep == Keep::Never && self.counting == Counting::Bodies {
            let is_made = match found.is_link {
                true => self.shared.makes_items_by_copy(found.body),
                false => self.shared.makes_items(found.body),
            };
            if !is_made {
                return Ok(());
            }
        }
        let summary = match self.mailbox.made_summary(found.uid, found.body, keep).await {
            // It has a new UID by now. After a dry run, a run would give it one.
            Err(StoreError::Superseded(_)) => {
                self.report.renumbered += 1;
                return Ok(());
            }
            made => made?,
        };
        self.report.items += 1;
        self.report.items_bytes += summary.len() as u64;
        Ok(())
    }

    async fn has_items_now(&self, uid: Uid) -> Result<bool, DeliveryError> {
        let mut has_items = false;
        let mut visit = |stored: posthaste_store::Stored<'_>| {
            has_items = !stored.summary.is_empty();
            ControlFlow::Continue(())
        };
        self.mailbox.summaries(&NumSet::range(uid.value(), uid.value()), &mut visit).await?.refuse()?;
        Ok(has_items)
    }

    /// Whether a dry run has found before that this body takes another form.
    fn is_counted(&self, body: BodyId) -> bool {
        let is_dry = self.options.mode == ConvertMode::DryRun && self.counting == Counting::Bodies;
        is_dry && self.shared.is_counted(body)
    }

    /// Counts a body that has another form now.
    fn count_converted(&mut self, body: BodyId, before: u64, after: &Bytes) {
        if self.options.mode == ConvertMode::DryRun && self.counting == Counting::Bodies {
            self.shared.count_converted(body);
        }
        self.report.converted += 1;
        self.report.bytes_before += before;
        self.report.bytes_after += after.len() as u64;
    }

    async fn convert_to(&mut self, to: Format, found: Candidate) -> Result<(), DeliveryError> {
        if self.is_counted(found.body) {
            return Ok(());
        }
        let stored = self.delivery.store().engine().read_body(found.body, 0..u64::MAX).await?;
        if self.which == Selection::Superseded && !may_be_superseded(&stored) {
            return Ok(());
        }
        let before = stored.len() as u64;
        let change = match self.change_of(&stored, to).await? {
            BodyChange::DropOriginal(by) => match self.drop_original(found.body, &by.stored).await? {
                OriginalOutcome::Done => {
                    self.count_converted(found.body, before, &by.stored);
                    return Ok(());
                }
                OriginalOutcome::Refused => {
                    self.report.refused += 1;
                    return Ok(());
                }
                OriginalOutcome::OthersHaveIt => match beside_original(&stored, &by.served) {
                    Some(new) => BodyChange::Recode(new),
                    None => return Ok(()),
                },
            },
            change => change,
        };
        match &change {
            BodyChange::Stays => {}
            BodyChange::WouldLose => {
                self.report.would_lose += 1;
                self.unconverted.would_lose.push(found.uid.value());
            }
            BodyChange::TooLarge => self.is_too_large(found, before),
            BodyChange::Recode(bytes) => {
                if self.recode(found, before, bytes).await? {
                    self.count_converted(found.body, before, bytes);
                }
            }
            BodyChange::DropOriginal(by) | BodyChange::Renumber(by) => {
                if self.options.mode == ConvertMode::Apply
                    && !self.replacer.replace(found.replaced(), by).await?
                {
                    self.report.vanished += 1;
                    return Ok(());
                }
                self.report.renumbered += 1;
                self.report.bytes_before += before;
                self.report.bytes_after += by.stored.len() as u64;
            }
        }
        Ok(())
    }

    fn is_too_large(&mut self, found: Candidate, bytes: u64) {
        let (account, uid) = (&self.account.name, found.uid);
        tracing::warn!(
            account,
            %uid,
            bytes,
            "a message stays as it is: its conversion may take more memory than `limits.summary_bytes` allows"
        );
        self.report.too_large += 1;
        self.unconverted.too_large.push(uid.value());
    }

    /// Decides the change of a stored body, on another thread and within the memory for
    /// conversions.
    async fn change_of(&self, stored: &Bytes, to: Format) -> Result<BodyChange, DeliveryError> {
        let largest = stored.len().max(served_len(stored));
        // A run converts one message after the other. It has a place of its own, so that it does
        // not wait for sessions of the account.
        let room = self.delivery.room_to_convert(WorkFor::mailbox(self.mailbox.id()), largest).await?;
        let (account, loss) = (self.account.name.clone(), self.options.loss);
        let server = self.delivery.options();
        let keep_original = self.account.stored_as(server.format).keep_original;
        let to = FormatSettings { format: to, keep_original };
        let (len_max, compress) = (server.message_len_max, server.compress);
        let stored = stored.clone();
        let (uids, recodes) = (self.options.uids, self.delivery.store().engine().recodes());
        // Clients cannot read a superseded message, so it must be replaced.
        let must_change = self.which == Selection::Superseded || is_superseded(&stored);
        let work = on_compute_thread(move || {
            let Some(_room) = room else {
                return match must_change {
                    true => {
                        Err("its conversion may take more memory than `limits.summary_bytes` allows".into())
                    }
                    false if stays(&stored, to.format) => Ok(BodyChange::Stays),
                    false => Ok(BodyChange::TooLarge),
                };
            };
            let change = body_change(&stored, &account, (to, loss), len_max)?.compressed(&stored, compress);
            Ok::<_, String>(match uids {
                Uids::Keep => change,
                Uids::Renew => change.or_new_message(&stored, recodes),
            })
        });
        let change = work.await.map_err(|error| DeliveryError::Interrupted(error.to_string()))?;
        change.map_err(DeliveryError::Interrupted)
    }

    /// Removes the rich original of a body, if all messages with the body are the account's.
    /// Messages may be copied meanwhile, so the engine compares the count again when it writes.
    async fn drop_original(&self, body: BodyId, bytes: &Bytes) -> Result<OriginalOutcome, DeliveryError> {
        let (store, account) = (self.delivery.store(), self.account.id);
        for _ in 0..TRIES_MAX {
            let all = store.engine().references(body).await?;
            if all > 1 && self.shared.count(store, account, body).await? < all {
                return Ok(OriginalOutcome::OthersHaveIt);
            }
            if self.options.mode == ConvertMode::DryRun {
                return Ok(match store.engine().recodes() {
                    Recodes::Everything => OriginalOutcome::Done,
                    Recodes::Short(_) | Recodes::Nothing => OriginalOutcome::Refused,
                });
            }
            match store.engine().recode(body, bytes.clone(), Holders::AtMost(all)).await {
                Ok(CommitOutcome::Done) => return Ok(OriginalOutcome::Done),
                Ok(CommitOutcome::Conflict) => {}
                Err(StoreError::Refused(_)) => return Ok(OriginalOutcome::Refused),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(OriginalOutcome::OthersHaveIt)
    }

    /// Stores a body in another form. `false` if it was expunged meanwhile, or the engine refuses.
    async fn recode(&mut self, found: Candidate, before: u64, bytes: &Bytes) -> Result<bool, DeliveryError> {
        let engine = self.delivery.store().engine();
        if self.options.mode == ConvertMode::DryRun {
            let fits = engine.recodes().fits(before, bytes.len() as u64);
            self.report.refused += u64::from(!fits);
            return Ok(fits);
        }
        match engine.recode(found.body, bytes.clone(), Holders::Any).await {
            Ok(CommitOutcome::Done) => return Ok(true),
            Ok(CommitOutcome::Conflict) => self.report.vanished += 1,
            Err(StoreError::Refused(_)) => self.report.refused += 1,
            Err(error) => return Err(error.into()),
        }
        Ok(false)
    }
}

/// The outcome for a body whose rich original is not needed.
enum OriginalOutcome {
    /// The body has lost its original.
    Done,
    /// Messages of other accounts have it, or may have it by now.
    OthersHaveIt,
    /// The engine cannot store it in another form.
    Refused,
}

/// Whether no other message of the mailbox can be converted now.
fn ends_the_mailbox(error: &DeliveryError) -> bool {
    matches!(error, DeliveryError::Store(error) if error.is_temporary() || matches!(error, StoreError::NoMailbox(_)))
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod loss_tests;
#[cfg(test)]
#[path = "new_uids_tests.rs"]
mod new_uids_tests;
#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
