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

/// Time between two scans of all messages that free nothing. A scan of 15,000 takes some 0.2 ms.
/// With a fifth of it, the scans of ten groups would take a fifth of a processor. Twice as much
/// would be noticed beside [`CHECK_PAUSE`].
const SCAN_PAUSE: Duration = Duration::from_millis(50);

/// Waiters that are woken when bytes are given back. Thousands may wait, and small messages of
/// strangers end at any time. Twice as many would rarely fit: a message needs 64 KiB at first.
const WOKEN_AT_ONCE: usize = 16;

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
    /// The waiters in their order, the first in front. Each has what wakes it.
    waiting: VecDeque<(u64, Arc<Notify>)>,
    next: u64,
    /// The last scan of all messages, if it freed nothing.
    scan: Option<Scan>,
    #[cfg(test)]
    scans: usize,
}

/// A scan that found too few bytes of slow messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scan {
    /// Until then no other message becomes slow, or the next scan has to wait.
    until: Instant,
    /// Bytes that slow messages have until then, at most.
    slow: usize,
}

/// The bytes of one group.
#[derive(Debug, Default)]
struct GroupBytes {
    bytes: usize,
    messages: usize,
    /// The last scan of its messages, if it freed nothing.
    scan: Option<Scan>,
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

    /// Bytes were given back. Wakes the first of those that wait in their order, and some of the
    /// others. Those who are not woken look after [`CHECK_PAUSE`].
    fn wake(&self) {
        if let Some((_, first)) = self.lock().waiting.front() {
            first.notify_one();
        }
        for _ in 0..WOKEN_AT_ONCE {
            self.shared.freed.notify_one();
        }
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
    fn displace(&mut self, bytes: usize, of: Option<Group>, of_permit: &BytePermit) -> Result<(), NetError> {
        let now = Instant::now();
        let scans = [self.scan, of.and_then(|group| self.groups.get(&group)?.scan)];
        if scans.into_iter().flatten().any(|scan| now < scan.until && scan.slow < bytes) {
            return Err(NetError::BudgetExhausted);
        }
        #[cfg(test)]
        {
            self.scans += 1;
        }
        let (slow, scan) = self.slow(of, now, of_permit);
        if slow.iter().map(|(held, _)| held).sum::<usize>() < bytes {
            // Only the senders that were examined are known to be slow or not.
            match of {
                None => self.scan = Some(scan),
                Some(group) => {
                    if let Some(held) = self.groups.get_mut(&group) {
                        held.scan = Some(scan);
                    }
                }
            }
            return Err(NetError::BudgetExhausted);
        }
        self.revoke(slow, bytes);
        Ok(())
    }

    /// The slow messages of one group, or of all, except for that of this permit. Reads all
    /// messages.
    fn slow(&self, of: Option<Group>, now: Instant, spared: &BytePermit) -> (Vec<(usize, u64)>, Scan) {
        let mut slow: Vec<(usize, u64)> = Vec::new();
        let (mut earliest, mut slow_bytes) = (None::<Instant>, 0);
        let counts = |message: &Message| {
            !message.complete && of.is_none_or(|group| message.groups.contains(&Some(group)))
        };
        for (&key, message) in self.messages.iter().filter(|(_, message)| counts(message)) {
            if message.moves_until > now {
                earliest = Some(earliest.map_or(message.moves_until, |at| at.min(message.moves_until)));
                continue;
            }
            slow_bytes += message.bytes;
            if key != spared.key {
                slow.push((message.bytes, key));
            }
        }
        // Senders that are nearly slow would have a scan made for each request.
        let soonest = now + SCAN_PAUSE.min(spared.budget.pause_max);
        let until = earliest.map_or(soonest, |earliest| earliest.max(soonest));
        (slow, Scan { until, slow: slow_bytes })
    }

    /// Revokes permits of these messages, the largest first, until this many bytes are free.
    fn revoke(&mut self, mut slow: Vec<(usize, u64)>, bytes: usize) {
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
    }

    /// A message has so many bytes more. If it may be slow before the next scan, they count as
    /// bytes of slow messages.
    fn note_grown(&mut self, message: (Instant, [Option<Group>; 4]), more: usize) {
        let (moves_until, groups) = message;
        let count = |scan: &mut Option<Scan>| {
            if let Some(scan) = scan.as_mut().filter(|scan| moves_until < scan.until) {
                scan.slow = scan.slow.saturating_add(more);
            }
        };
        count(&mut self.scan);
        for group in groups.iter().flatten() {
            if let Some(held) = self.groups.get_mut(group) {
                held.bytes += more;
                count(&mut held.scan);
            }
        }
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
        let (groups, own, moves_until) = (message.groups, message.bytes, message.moves_until);
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
                state.displace(held + more - most, Some(group), self)?;
            }
        }
        let most = self.budget.bound(total, bytes, state.held.saturating_sub(own));
        if state.held + more > most {
            let short = state.held + more - most;
            state.displace(short, None, self)?;
        }
        state.held += more;
        state.note_grown((moves_until, groups), more);
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
        self.budget.wake();
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
            let freed = waiter.as_ref().map_or(&self.budget.shared.freed, |waiter| &*waiter.freed);
            let mut freed = std::pin::pin!(freed.notified());
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
            self.budget.wake();
        }
    }
}

/// A waiter in the queue of a budget; leaves it when dropped.
struct Waiter<'b> {
    budget: &'b ByteBudget,
    key: u64,
    /// Wakes it when it is the first.
    freed: Arc<Notify>,
}

impl<'b> Waiter<'b> {
    /// Waits after all others.
    fn enqueue(budget: &'b ByteBudget, key: u64) -> Self {
        let freed = Arc::new(Notify::new());
        budget.lock().waiting.push_back((key, Arc::clone(&freed)));
        Self { budget, key, freed }
    }

    /// Whether nobody is before it.
    fn is_first(&self) -> bool {
        self.budget.lock().waiting.front().is_some_and(|(key, _)| *key == self.key)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        if let Some(at) = state.waiting.iter().position(|(key, _)| *key == self.key) {
            state.waiting.remove(at);
        }
        if let Some((_, first)) = state.waiting.front() {
            first.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
