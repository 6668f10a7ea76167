//! The rows of one mailbox, as they count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, MailboxId};

use super::{IdleMailbox, Lacking, OpenViews, RowsFor, UNCOUNTED};
use crate::error::Result;
use crate::row::Row;

/// Bytes of a message in a view: its row, and its part of a chunk and a group.
const ROW_BYTES: u64 = Row::LEN as u64 + 1;

/// The bytes that a mailbox of this many messages counts.
fn bytes_of(messages: u32) -> u64 {
    u64::from(messages.saturating_sub(UNCOUNTED)) * ROW_BYTES
}

/// A number of bytes in a sum, until it is dropped.
struct Part {
    sum: Arc<AtomicU64>,
    bytes: AtomicU64,
}

/// The part of a mailbox in the sum of an account.
struct OwnPart {
    views: Arc<OpenViews>,
    account: AccountId,
    part: Part,
}

/// The account for which rows count, and the sessions that have the mailbox open.
#[derive(Default)]
struct Openings {
    /// Set while rows are read for an account, and while it has the mailbox open. It stays while
    /// nobody has the mailbox open: the account evicts its own mailboxes first.
    own: Option<OwnPart>,
    /// Openings by sessions.
    sessions: u32,
    /// Those of them that are of the account of `own`.
    of_account: u32,
}

/// How an opening by a session counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// The rows count for the session's account.
    ForAccount,
    /// They count for another account, or for none.
    Beside,
}

/// The rows of one mailbox, as they count. They count until this is dropped.
pub(crate) struct CountedRows {
    views: Arc<OpenViews>,
    mailbox: MailboxId,
    reader: RowsFor,
    all: Part,
    openings: Mutex<Openings>,
}

impl Part {
    fn of(sum: Arc<AtomicU64>) -> Self {
        Self { sum, bytes: AtomicU64::new(0) }
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Adds bytes, unless the sum would exceed a limit. Other parts may do so at the same time.
    fn add_within(&self, more: u64, most: u64) -> bool {
        if more == 0 {
            return true;
        }
        let within = |sum: u64| sum.checked_add(more).filter(|sum| *sum <= most);
        let is_added = self.sum.fetch_update(Ordering::AcqRel, Ordering::Acquire, within).is_ok();
        if is_added {
            self.bytes.fetch_add(more, Ordering::AcqRel);
        }
        is_added
    }

    /// The bytes that [`Self::add_within`] lacks.
    fn lacks(&self, more: u64, most: u64) -> u64 {
        if more == 0 { 0 } else { self.over(most.saturating_sub(more)) }
    }

    /// The bytes of the sum beyond a limit.
    fn over(&self, most: u64) -> u64 {
        self.sum.load(Ordering::Acquire).saturating_sub(most)
    }

    /// Sets the bytes, whatever the sum is then.
    fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::AcqRel);
        if bytes >= before {
            self.sum.fetch_add(bytes - before, Ordering::AcqRel);
        } else {
            self.sum.fetch_sub(before - bytes, Ordering::AcqRel);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl OwnPart {
    fn of(views: &Arc<OpenViews>, account: AccountId) -> Self {
        let sum = Arc::clone(views.accounts.lock().entry(account).or_default());
        Self { views: Arc::clone(views), account, part: Part::of(sum) }
    }
}

impl Drop for OwnPart {
    fn drop(&mut self) {
        self.part.set(0);
        let mut accounts = self.views.accounts.lock();
        // Parts get and drop a sum under the lock only. So the last one sees that it is the last.
        drop(std::mem::take(&mut self.part.sum));
        if accounts.get(&self.account).is_some_and(|sum| Arc::strong_count(sum) == 1) {
            accounts.remove(&self.account);
        }
    }
}

impl Openings {
    fn account(&self) -> Option<AccountId> {
        self.own.as_ref().map(|own| own.account)
    }
}

impl CountedRows {
    /// The rows of a mailbox, which are not read yet.
    pub fn new(views: &Arc<OpenViews>, mailbox: MailboxId, reader: RowsFor) -> Self {
        let own = match reader {
            RowsFor::Account(account) => Some(OwnPart::of(views, account)),
            RowsFor::Server | RowsFor::Anyone => None,
        };
        let all = Part::of(Arc::clone(&views.counted));
        let openings = Mutex::new(Openings { own, ..Openings::default() });
        Self { views: Arc::clone(views), mailbox, reader, all, openings }
    }

    /// Whether [`Self::reserve`] may refuse them.
    pub fn may_be_refused(&self) -> bool {
        self.views.most_for(self.reader).is_some()
    }

    /// What is known of them while nobody holds the mailbox. `used` is the time of its last use.
    pub fn idle(&self, used: u64) -> IdleMailbox {
        let openings = self.openings.lock();
        let own_bytes = openings.own.as_ref().map_or(0, |own| own.part.bytes());
        let (account, bytes) = (openings.account(), self.all.bytes());
        IdleMailbox { id: self.mailbox, account, bytes, own_bytes, used }
    }

    /// Reserves the memory for the rows of this many messages, before they are read: once. The
    /// caller must lead.
    pub fn reserve(&self, messages: u32) -> Result<()> {
        let Some(most) = self.views.most_for(self.reader) else { return Ok(()) };
        let bytes = bytes_of(messages);
        if bytes == 0 {
            return Ok(());
        }
        if bytes > most {
            // No eviction would help.
            return Err(self.views.refusal(self.mailbox));
        }
        self.views.with_room(self.mailbox, || self.try_reserve(bytes, most))?;
        self.note(0);
        Ok(())
    }

    /// Adds bytes to both sums, or to none. The account's comes first: no other account finds less
    /// room meanwhile.
    fn try_reserve(&self, bytes: u64, most: u64) -> Result<(), Lacking> {
        let (openings, in_share) = (self.openings.lock(), self.views.in_share(bytes));
        let own = openings.own.as_ref().map(|own| &own.part);
        if own.is_none_or(|own| own.add_within(in_share, self.views.share)) {
            if self.all.add_within(bytes, most) {
                return Ok(());
            }
            if let Some(own) = own {
                own.set(0);
            }
        }
        Err(Lacking {
            all: self.all.lacks(bytes, most),
            own: own.map_or(0, |own| own.lacks(in_share, self.views.share)),
            account: openings.account(),
        })
    }

    /// Counts this many messages from now on, if they are more than are known. They are about to
    /// be stored. If the result is true, the caller must call [`Self::set`] afterwards, also if
    /// they were not stored. The caller must lead.
    ///
    /// Rows of a mailbox that no session has open are not refused: they can be evicted, and the
    /// cache has a bound of its own.
    pub fn grow(&self, messages: u32, reader: RowsFor) -> Result<bool> {
        let Some(most) = self.views.most_for(reader) else { return Ok(false) };
        let (before, bytes) = (self.all.bytes(), bytes_of(messages));
        if bytes <= before || self.openings.lock().sessions == 0 {
            return Ok(false);
        }
        if bytes - before > most {
            // No eviction would help.
            return Err(self.views.refusal(self.mailbox));
        }
        self.views.with_room(self.mailbox, || self.try_grow(bytes, (reader, most)))?;
        self.note(before);
        Ok(true)
    }

    fn try_grow(&self, bytes: u64, (reader, most): (RowsFor, u64)) -> Result<(), Lacking> {
        let openings = self.openings.lock();
        let (more, in_share) = (bytes.saturating_sub(self.all.bytes()), self.views.in_share(bytes));
        let own = openings.own.as_ref();
        // The share of an account bounds what its own sessions add.
        let bounded = own.filter(|own| reader == RowsFor::Account(own.account)).map(|own| &own.part);
        let lacks_own = |own: &Part| own.lacks(in_share.saturating_sub(own.bytes()), self.views.share);
        let own_lacks = bounded.map_or(0, lacks_own);
        if own_lacks == 0 && self.all.add_within(more, most) {
            if let Some(own) = own {
                own.part.set(in_share);
            }
            return Ok(());
        }
        Err(Lacking { all: self.all.lacks(more, most), own: own_lacks, account: openings.account() })
    }

    /// A session of this account opens the mailbox, whose rows are known. They count for the
    /// account, unless another one has the mailbox open. `TooManyOpen` if no session has it open,
    /// and this one could not have read the rows. After an admission the caller must call
    /// [`Self::leave`].
    pub fn admit(&self, account: AccountId) -> Result<Admitted> {
        self.views.with_room(self.mailbox, || self.try_admit(account))
    }

    fn try_admit(&self, account: AccountId) -> Result<Admitted, Lacking> {
        let mut openings = self.openings.lock();
        if openings.account() != Some(account) && openings.of_account == 0 {
            match self.part_for(account, &openings) {
                Ok(part) => openings.own = Some(part),
                // The rows stay in memory in any case: a refusal would free nothing.
                Err(_) if openings.sessions > 0 => {}
                Err(lacking) => return Err(lacking),
            }
        }
        openings.sessions += 1;
        if openings.account() != Some(account) {
            return Ok(Admitted::Beside);
        }
        openings.of_account += 1;
        Ok(Admitted::ForAccount)
    }

    /// The rows as a part of an account's share.
    fn part_for(&self, account: AccountId, openings: &Openings) -> Result<OwnPart, Lacking> {
        let (new, bytes) = (OwnPart::of(&self.views, account), self.all.bytes());
        let in_share = self.views.in_share(bytes);
        // The server has read them for itself.
        let is_of_server = bytes > 0 && openings.own.is_none();
        let all = if is_of_server { self.all.over(self.views.for_sessions) } else { 0 };
        if all == 0 && new.part.add_within(in_share, self.views.share) {
            return Ok(new);
        }
        Err(Lacking { all, own: new.part.lacks(in_share, self.views.share), account: Some(account) })
    }

    /// A session closes the mailbox. If only others have it open then, the rows do not count for
    /// its account any more.
    pub fn leave(&self, admitted: Admitted) {
        let mut openings = self.openings.lock();
        openings.sessions = openings.sessions.saturating_sub(1);
        if admitted == Admitted::ForAccount {
            openings.of_account = openings.of_account.saturating_sub(1);
        }
        if openings.of_account == 0 && openings.sessions > 0 {
            openings.own = None;
        }
    }

    /// Counts this many messages from now on: they are known. The caller must lead.
    pub fn set(&self, messages: u32) {
        let (before, bytes) = (self.all.bytes(), bytes_of(messages));
        if before == bytes {
            return;
        }
        {
            // An admission at the same time sees both or none.
            let openings = self.openings.lock();
            self.all.set(bytes);
            if let Some(own) = &openings.own {
                own.part.set(self.views.in_share(bytes));
            }
        }
        self.note(before);
    }

    /// Notes whether the mailbox counts at all, after it counted this many bytes.
    fn note(&self, before: u64) {
        match (before > 0, self.all.bytes() > 0) {
            (false, true) => self.views.begin(self.mailbox),
            (true, false) => self.views.end(self.mailbox),
            _ => {}
        }
    }
}

impl Drop for CountedRows {
    fn drop(&mut self) {
        if self.all.bytes() > 0 {
            self.views.end(self.mailbox);
        }
    }
}
