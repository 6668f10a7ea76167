//! A bound on the message bytes that all sessions together hold in memory. When it is reached, a
//! rule decides which message loses its bytes.
//!
//! A message takes bytes of the budget as they arrive, not when its size is announced. An
//! announcement costs its sender nothing, so it reserves nothing. When memory is short, a message
//! that makes progress has precedence over one that does not. The permit of a slow message is
//! revoked, and its session drops the bytes that came.
//!
//! Invariants:
//! * all permits together are within the budget, those of one holder within its share;
//! * hosts that have not logged in have at most three quarters together, and those of one network
//!   at most its share;
//! * a message that is complete keeps its bytes until its permit is dropped, however long its
//!   delivery takes;
//! * nothing waits without a deadline, and no lock is held across a wait.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use tokio::sync::Notify;

use crate::NetError;
use crate::network::Tiers;

/// The least pace of a sender that nobody can displace, in bytes a second: an uplink of 128
/// kbit/s. Twice this would evict messages of people on bad lines.
const LEAST_PACE: u64 = 16 * 1024;

/// How long a sender may pause before it counts as slow. Longer than the pauses of a line that
/// loses packets; twice as long lets one client keep others waiting for twice as long.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Time from the first byte of a message to its last, whatever its pace: 64 MiB at [`LEAST_PACE`]
/// take 68 minutes.
pub const MESSAGE_WITHIN: Duration = Duration::from_secs(75 * 60);

/// Time between two checks of a waiter whether a sender has become slow.
const CHECK_PAUSE: Duration = Duration::from_millis(250);

/// One holder's share is the budget divided by this: four hostile accounts are needed to use it up.
/// A share of an eighth would be two of the largest messages with the default budget.
const SHARE_DIVISOR: usize = 4;

/// A message of up to this many bytes is small. Most mail is.
const SMALL_MAX: usize = 64 * 1024;

/// This part of each bound is for small messages, where a budget has such a part.
const SMALL_DIVISOR: usize = 16;

/// The holder of bytes: all that one holder has is bounded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// An account, once somebody has logged in: its identifier.
    Account([u8; 16]),
    /// The address of a peer that has not logged in. Networks around it have bounds, too:
    ///
    /// | network | shares |
    /// | --- | --- |
    /// | IPv6 /64 | 1 |
    /// | IPv6 /56 | 1½ |
    /// | IPv6 /48 | 2 |
    /// | IPv4 address | 1 |
    /// | IPv4 /24 | 2 |
    Address(IpAddr),
}

/// Holders whose bytes count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    Account([u8; 16]),
    /// A network of this tier.
    Network(usize, IpAddr),
    /// All that have not logged in, except for loopback.
    Strangers,
}

impl Holder {
    /// The groups that the bytes of a message count for.
    fn groups(self) -> [Option<Group>; 4] {
        let address = match self {
            Self::Account(id) => return [Some(Group::Account(id)), None, None, None],
            Self::Address(address) => address.to_canonical(),
        };
        let mut tiers = Tiers::of(address).all().into_iter().enumerate();
        let mut next = || tiers.next().and_then(|(tier, first)| Some(Group::Network(tier, first?)));
        let strangers = (!address.is_loopback()).then_some(Group::Strangers);
        [next(), next(), next(), strangers]
    }
}

/// The bytes all sessions share; clones count against the same bound.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    shared: Arc<Shared>,
    share: usize,
    pause_max: Duration,
    message_within: Duration,
    in_order: bool,
    small_first: bool,
}

#[derive(Debug)]
struct Shared {
    total: usize,
    state: Mutex<BudgetState>,
    /// Somebody gave bytes back.
    freed: Notify,
}

#[derive(Debug, Default)]
struct BudgetState {
    held: usize,
    /// The part of them that belongs to complete messages.
    complete: usize,
    groups: HashMap<Group, GroupBytes>,
    messages: HashMap<u64, Message>,
    /// The waiters in their order, the first in front.
    waiting: VecDeque<u64>,
    next: u64,
    /// The earliest time at which a message can count as slow, from the last scan of all
    /// messages.
    all_move_until: Option<Instant>,
}

/// The bytes of one group.
#[derive(Debug, Default)]
struct GroupBytes {
    bytes: usize,
    messages: usize,
    /// The earliest time at which one of its messages can count as slow, from the last scan.
    all_move_until: Option<Instant>,
}

/// A message whose bytes count.
#[derive(Debug)]
struct Message {
    groups: [Option<Group>; 4],
    bytes: usize,
    /// When it counts as slow: each byte puts this off by what it takes at the least pace, up to
    /// the longest pause.
    moves_until: Instant,
    complete: bool,
    revoked: Arc<Notify>,
}

/// Bytes of one message, reserved from a [`ByteBudget`]; given back when dropped.
#[derive(Debug)]
pub struct BytePermit {
    budget: ByteBudget,
    key: u64,
    began: Instant,
    revoked: Arc<Notify>,
}

impl ByteBudget {
    /// A budget of this many bytes, of which one holder may have a quarter.
    pub fn new(bytes: usize) -> Self {
        let total = bytes.max(1);
        let shared = Shared { total, state: Mutex::default(), freed: Notify::new() };
        let share = total.div_ceil(SHARE_DIVISOR);
        let (pause_max, message_within) = (PAUSE_MAX, MESSAGE_WITHIN);
        let shared = Arc::new(shared);
        Self { shared, share, pause_max, message_within, in_order: false, small_first: false }
    }

    /// Lets one holder have at least this many bytes, if there are as many: the largest message
    /// must fit its share.
    #[must_use]
    pub fn with_share_of_at_least(mut self, bytes: usize) -> Self {
        self.share = self.share.max(bytes).min(self.shared.total);
        self
    }

    /// Another longest pause, after which a sender counts as slow.
    #[must_use]
    pub fn with_pause_max(mut self, pause: Duration) -> Self {
        self.pause_max = pause;
        self
    }

    /// Another time from the first byte of a message to its last than [`MESSAGE_WITHIN`].
    #[must_use]
    pub fn with_message_within(mut self, time: Duration) -> Self {
        self.message_within = time;
        self
    }

    /// Serves waiters in their order, so that small ones do not starve a large one. For work that
    /// ends by itself: with messages that senders trickle in, one that waits would keep all others
    /// waiting.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Leaves a sixteenth of each bound to messages of up to 64 KiB. Large messages that fill the
    /// share of a host then refuse no ordinary mail from it.
    #[must_use]
    pub fn small_first(mut self) -> Self {
        self.small_first = true;
        self
    }

    /// What a bound is for a message of this size. Alone, a large message may have all of it.
    const fn bound(&self, most: usize, bytes: usize, others: usize) -> usize {
        match self.small_first && bytes > SMALL_MAX && others > 0 {
            true => most - most / SMALL_DIVISOR,
            false => most,
        }
    }

    /// Bytes that a group may hold. The shares of wider networks and of all clients without a
    /// login grow with that of one holder.
    fn most_of(&self, group: Group) -> usize {
        let total = self.shared.total;
        let most = match group {
            Group::Account(_) | Group::Network(0, _) => self.share,
            Group::Network(1, _) => total / 8 * 3,
            Group::Network(..) => total / 2,
            Group::Strangers => total / 4 * 3,
        };
        most.max(self.share)
    }

    /// Bytes that nobody holds at the moment.
    pub fn available(&self) -> usize {
        self.shared.total - self.lock().held
    }

    /// Bytes that one message may hope for: all but those of complete messages, within one share.
    pub fn attainable(&self) -> usize {
        (self.shared.total - self.lock().complete).min(self.share)
    }

    /// Bytes that one message can ever have, when nobody else has any.
    pub fn largest(&self) -> usize {
        self.share.min(self.shared.total)
    }

    /// Begins a message. Nothing is reserved yet.
    pub fn begin(&self, holder: Holder) -> BytePermit {
        let (began, revoked) = (Instant::now(), Arc::new(Notify::new()));
        let mut state = self.lock();
        let key = state.next;
        state.next += 1;
        let moves_until = began + self.pause_max;
        let groups = holder.groups();
        let message =
            Message { groups, bytes: 0, moves_until, complete: false, revoked: Arc::clone(&revoked) };
        state.messages.insert(key, message);
        for group in groups.into_iter().flatten() {
            state.groups.entry(group).or_default().messages += 1;
        }
        drop(state);
        BytePermit { budget: self.clone(), key, began, revoked }
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetState {
    /// Takes a message out and its bytes back. Nothing if that was done before.
    fn end(&mut self, key: u64) -> Option<Message> {
        let message = self.messages.remove(&key)?;
        self.held -= message.bytes;
        if message.complete {
            self.complete -= message.bytes;
        }
        for group in message.groups.iter().flatten() {
            if let Some(held) = self.groups.get_mut(group) {
                held.bytes -= message.bytes;
                held.messages -= 1;
                if held.messages == 0 {
                    self.groups.remove(group);
                }
            }
        }
        Some(message)
    }

    /// Revokes permits of slow messages, the largest first, until this many bytes are free; those
    /// of one group, or of all. Revokes none if that would not do.
    fn displace(&mut self, bytes: usize, of: Option<Group>, spared: u64) -> Result<(), NetError> {
        let now = Instant::now();
        let of_group = of.and_then(|group| self.groups.get(&group)?.all_move_until);
        if [self.all_move_until, of_group].into_iter().flatten().any(|until| now < until) {
            return Err(NetError::BudgetExhausted);
        }
        let mut slow: Vec<(usize, u64)> = Vec::new();
        let mut earliest: Option<Instant> = None;
        let counts = |message: &Message| {
            !message.complete && of.is_none_or(|group| message.groups.contains(&Some(group)))
        };
        for (&key, message) in self.messages.iter().filter(|(_, message)| counts(message)) {
            if message.moves_until > now {
                earliest = Some(earliest.map_or(message.moves_until, |at| at.min(message.moves_until)));
            } else if key != spared {
                slow.push((message.bytes, key));
            }
        }
        if slow.iter().map(|(held, _)| held).sum::<usize>() < bytes {
            // Only a scan without a slow sender shows when the next scan can find one. It shows
            // this for the senders that it examined.
            let until = earliest.filter(|_| slow.is_empty());
            match of {
                None => self.all_move_until = until,
                Some(group) => {
                    if let Some(held) = self.groups.get_mut(&group) {
                        held.all_move_until = until;
                    }
                }
            }
            return Err(NetError::BudgetExhausted);
        }
        slow.sort_unstable_by(|one, other| other.cmp(one));
        let mut freed = 0;
        for (held, key) in slow {
            if freed >= bytes {
                break;
            }
            freed += held;
            if let Some(message) = self.end(key) {
                message.revoked.notify_one();
            }
        }
        Ok(())
    }
}

impl BytePermit {
    /// Bytes reserved; 0 after the permit was revoked.
    pub fn bytes(&self) -> usize {
        self.budget.lock().messages.get(&self.key).map_or(0, |message| message.bytes)
    }

    /// Time left for the message to become complete.
    pub fn time_left(&self) -> Duration {
        self.budget.message_within.saturating_sub(self.began.elapsed())
    }

    /// Notes that this many bytes came: the sender moves.
    pub fn note_arrived(&self, bytes: usize) {
        let now = Instant::now();
        if let Some(message) = self.budget.lock().messages.get_mut(&self.key) {
            let earned = Duration::from_micros((bytes as u64).saturating_mul(1_000_000) / LEAST_PACE);
            let latest = now + self.budget.pause_max;
            let since = message.moves_until.max(now);
            message.moves_until = since.checked_add(earned).map_or(latest, |until| until.min(latest));
        }
    }

    /// Has at least this many bytes reserved, at once or not at all. Slow messages may lose theirs
    /// for it.
    pub fn grow_to(&self, bytes: usize) -> Result<(), NetError> {
        let (total, share) = (self.budget.shared.total, self.budget.share);
        let mut state = self.budget.lock();
        let Some(message) = state.messages.get(&self.key) else { return Err(NetError::BudgetExhausted) };
        let (groups, own) = (message.groups, message.bytes);
        let more = bytes.saturating_sub(own);
        if more == 0 {
            return Ok(());
        }
        if bytes > share {
            return Err(NetError::BudgetExhausted);
        }
        for group in groups.into_iter().flatten() {
            let held = state.groups.get(&group).map_or(0, |held| held.bytes);
            let most = self.budget.bound(self.budget.most_of(group), bytes, held.saturating_sub(own));
            if held + more > most {
                state.displace(held + more - most, Some(group), self.key)?;
            }
        }
        let most = self.budget.bound(total, bytes, state.held.saturating_sub(own));
        if state.held + more > most {
            let short = state.held + more - most;
            state.displace(short, None, self.key)?;
        }
        state.held += more;
        for group in groups.iter().flatten() {
            if let Some(held) = state.groups.get_mut(group) {
                held.bytes += more;
            }
        }
        let mut complete = false;
        if let Some(message) = state.messages.get_mut(&self.key) {
            message.bytes += more;
            complete = message.complete;
        }
        if complete {
            state.complete += more;
        }
        Ok(())
    }

    /// Gives back all but this many bytes.
    pub fn shrink_to(&self, bytes: usize) {
        let mut state = self.budget.lock();
        let Some(message) = state.messages.get_mut(&self.key) else { return };
        let less = message.bytes.saturating_sub(bytes);
        if less == 0 {
            return;
        }
        message.bytes -= less;
        let (groups, complete) = (message.groups, message.complete);
        state.held -= less;
        if complete {
            state.complete -= less;
        }
        for group in groups.iter().flatten() {
            if let Some(held) = state.groups.get_mut(group) {
                held.bytes -= less;
            }
        }
        drop(state);
        self.budget.shared.freed.notify_waiters();
    }

    /// [`grow_to`](Self::grow_to); waits for others to finish or to become slow. A waiter
    /// counts as moving.
    pub async fn grow_to_within(&self, bytes: usize, within: Duration) -> Result<(), NetError> {
        if self.grew_at_once(bytes) {
            return Ok(());
        }
        let deadline = Instant::now() + within.min(MESSAGE_WITHIN);
        let waiter = self.budget.in_order.then(|| Waiter::enqueue(&self.budget, self.key));
        loop {
            let mut freed = std::pin::pin!(self.budget.shared.freed.notified());
            // From here on nothing that is given back is missed.
            freed.as_mut().enable();
            let is_next = waiter.as_ref().is_none_or(Waiter::is_first);
            match if is_next { self.grow_to(bytes) } else { Err(NetError::BudgetExhausted) } {
                Ok(()) => return Ok(()),
                Err(error) if bytes > self.budget.share || self.is_revoked() => return Err(error),
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => {}
            }
            self.note_arrived(usize::MAX);
            let left = deadline.saturating_duration_since(Instant::now());
            // Whether bytes came free or time passed: look.
            let _ = tokio::time::timeout(left.min(CHECK_PAUSE), freed).await;
        }
    }

    /// Has this many bytes reserved, if they are free and nobody waits for some already. This needs
    /// neither a place in the queue nor the time.
    pub fn grew_at_once(&self, bytes: usize) -> bool {
        let others_are_first = self.budget.in_order && !self.budget.lock().waiting.is_empty();
        !others_are_first && self.grow_to(bytes).is_ok()
    }

    /// The message is complete: from now on nobody can displace it.
    pub fn complete(&self) {
        let mut state = self.budget.lock();
        if let Some(message) = state.messages.get_mut(&self.key)
            && !message.complete
        {
            message.complete = true;
            let bytes = message.bytes;
            state.complete += bytes;
        }
    }

    /// Whether the bytes were taken away.
    pub fn is_revoked(&self) -> bool {
        !self.budget.lock().messages.contains_key(&self.key)
    }

    /// Waits until the bytes are taken away. The caller then drops the bytes that it holds.
    pub async fn revoked(&self) {
        while !self.is_revoked() {
            self.revoked.notified().await;
        }
    }
}

impl Drop for BytePermit {
    fn drop(&mut self) {
        let ended = self.budget.lock().end(self.key);
        if ended.is_some_and(|message| message.bytes > 0) {
            self.budget.shared.freed.notify_waiters();
        }
    }
}

/// A waiter in the queue of a budget; leaves it when dropped.
struct Waiter<'b> {
    budget: &'b ByteBudget,
    key: u64,
}

impl<'b> Waiter<'b> {
    /// Waits after all others.
    fn enqueue(budget: &'b ByteBudget, key: u64) -> Self {
        budget.lock().waiting.push_back(key);
        Self { budget, key }
    }

    /// Whether nobody is before it.
    fn is_first(&self) -> bool {
        self.budget.lock().waiting.front() == Some(&self.key)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        if let Some(at) = state.waiting.iter().position(|key| *key == self.key) {
            state.waiting.remove(at);
        }
        let others_wait = !state.waiting.is_empty();
        drop(state);
        if others_wait {
            self.budget.shared.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
