//! How many connections may be open: in all, from one address, and without a login.
//!
//! Connections without a login have a share of the total. When that share is full, a newcomer gets
//! the place of the oldest one of the network that has the most of them. So somebody new can log in
//! while others fill the server with connections.
//!
//! Invariants: a connection with a login, or from a trusted peer, is never closed for another one.
//! A newcomer is admitted while there is a connection that can be closed for it. Each call takes
//! O(log n), and closes at most [`CLOSED_AT_ONCE`] connections.

mod strangers;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use self::strangers::Task;
use self::strangers::{Stranger, Strangers};
use crate::network::Tiers;
use crate::turns::Turns;

/// Connections in all. At 48 KiB for an idle TLS session they take about 1 GiB. They are some way
/// under the 65,536 file descriptors to which a process can usually raise its limit. For twice as
/// many, the administrator would have to raise that limit.
pub const TOTAL_DEFAULT: usize = 20_000;

/// Connections from one address: twenty people behind it, with five connections each. Twice as many
/// gain little. Such an office should set its own number.
const PER_ADDRESS_MOST: usize = 100;

/// Multiples of the limit that a /64, a /56 and a /48 may have. A wider network holds 256 of
/// the next: without a bound of its own, 80 machines of one /48 would have all connections.
const TIER_FACTORS: [usize; 3] = [1, 4, 16];

/// The part of the total that is kept for logins and for trusted peers: a quarter. With half of it,
/// mail by LMTP would wait for strangers on a small server. Twice as much would leave a server of
/// 16 connections only eight for people who log in.
const RESERVED_PART: usize = 4;

/// How many connections a newcomer may close. Each closes one. After the total was lowered it
/// closes two, until the bounds hold again.
const CLOSED_AT_ONCE: usize = 2;

/// Connections without a login that end before other tasks have a turn. Ten thousand may be closed
/// by their peers at once, and each end takes some 40 µs. With twice as many, others would wait for
/// 2.5 ms. With half of them, ten thousand ends would take seconds on a busy server.
const ENDS_AT_ONCE: usize = 32;

/// The connections that one address may have if nothing is configured: at most half of the total.
pub fn per_address(total: usize) -> usize {
    PER_ADDRESS_MOST.min(total.div_ceil(2))
}

/// The bounds, shared by all listeners of a server. Clones count together.
#[derive(Clone, Debug)]
pub struct ConnectionLimits(Arc<LimitsState>);

#[derive(Debug)]
struct LimitsState {
    open: Mutex<Open>,
    /// The turns of connections that end.
    ends: Turns,
}

#[derive(Debug)]
struct Open {
    total_max: usize,
    per_address_max: usize,
    total: usize,
    /// The untrusted connections without a login.
    strangers: usize,
    /// The strangers that may be closed.
    closable: Strangers,
    /// By tier and first address of the network.
    by_network: HashMap<(usize, IpAddr), usize>,
    /// The number of the next connection.
    next: u64,
}

/// Whether the configuration trusts a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It counts as a stranger until it has logged in.
    Stranger,
    /// It has no limit by address, and is not closed for others.
    Trusted,
}

/// One open connection; gives its place back when dropped.
#[derive(Debug)]
pub struct ConnectionPermit(Box<OpenConnection>);

#[derive(Debug)]
struct OpenConnection {
    limits: ConnectionLimits,
    number: u64,
    /// The networks that it counts for.
    tiers: Option<Tiers>,
    /// The network that it is a stranger of.
    network: IpAddr,
    stage: Stage,
    task: Arc<Task>,
    closed_for_it: Option<IpAddr>,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No login. It may be closed, or was closed already.
    Stranger,
    /// No login, but its message is being delivered.
    Working,
    LoggedIn,
    Trusted,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The server is full.
    #[error("too many connections")]
    Total,
    /// This address, or a network around it, has its share.
    #[error("too many connections from this address or its network")]
    Address,
}

/// A connection that was closed for another: its network and its task.
type Closed = (IpAddr, Arc<Task>);

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::new(TOTAL_DEFAULT, per_address(TOTAL_DEFAULT))
    }
}

impl Trust {
    /// Processes of this very machine are trusted: webmail, proxies and measurements come from
    /// there.
    fn of(self, peer: IpAddr) -> Self {
        if peer.to_canonical().is_loopback() { Self::Trusted } else { self }
    }

    fn tiers(self, peer: IpAddr) -> Option<Tiers> {
        (self == Self::Stranger).then(|| Tiers::of(peer))
    }

    fn stage(self) -> Stage {
        match self {
            Self::Stranger => Stage::Stranger,
            Self::Trusted => Stage::Trusted,
        }
    }
}

impl ConnectionLimits {
    /// Bounds for all connections and for those of one address: of one /64 in IPv6. A /56 may have
    /// 4 times as many, a /48 and in IPv4 a /24 16 times, but at most the share of strangers.
    /// Trusted peers and the addresses of this very machine count only in the total.
    pub fn new(total: usize, per_address: usize) -> Self {
        let open = Mutex::new(Open {
            total_max: total,
            per_address_max: per_address,
            total: 0,
            strangers: 0,
            closable: Strangers::default(),
            by_network: HashMap::new(),
            next: 0,
        });
        Self(Arc::new(LimitsState { open, ends: Turns::new(ENDS_AT_ONCE) }))
    }

    /// Other bounds from now on. Connections above them stay; no new one comes until there is room,
    /// or one is closed for it.
    pub fn set(&self, total: usize, per_address: usize) {
        let mut open = self.lock();
        (open.total_max, open.per_address_max) = (total, per_address);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection from `peer`.
    pub fn admit(&self, peer: IpAddr, trust: Trust) -> Result<ConnectionPermit, Refused> {
        let trust = trust.of(peer);
        self.take(peer, trust.tiers(peer), trust.stage())
    }

    /// Takes a place for a connection whose peer is not known yet: [`ConnectionPermit::name`]
    /// names it. Until then it counts as a stranger of its proxy's network, whose address has no
    /// limit.
    pub fn admit_unnamed(&self, proxy: IpAddr) -> Result<ConnectionPermit, Refused> {
        self.take(proxy, None, Stage::Stranger)
    }

    fn take(&self, peer: IpAddr, tiers: Option<Tiers>, stage: Stage) -> Result<ConnectionPermit, Refused> {
        let mut open = self.lock();
        open.check(tiers)?;
        let closed = open.make_room(stage)?;
        open.total += 1;
        open.count(tiers);
        let mut place = OpenConnection {
            limits: self.clone(),
            number: 0,
            tiers,
            network: Tiers::of(peer).widest(),
            stage,
            task: Arc::default(),
            closed_for_it: closed[0].as_ref().map(|(network, _)| *network),
        };
        open.enter(&mut place, stage);
        drop(open);
        closed.into_iter().flatten().for_each(|(_, task)| task.end());
        Ok(ConnectionPermit(Box::new(place)))
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.lock().total
    }
}

impl Open {
    /// Connections that may be open without a login. At least one: otherwise nobody could log in.
    fn strangers_max(&self) -> usize {
        let reserved = self.total_max.div_ceil(RESERVED_PART);
        self.total_max.saturating_sub(reserved).max(self.total_max.min(1))
    }

    /// Whether an address and its networks may have one connection more.
    fn check(&self, tiers: Option<Tiers>) -> Result<(), Refused> {
        let Some(tiers) = tiers else { return Ok(()) };
        let may_have = |(tier, factor): (usize, usize)| {
            let Some(first) = tiers.all()[tier] else { return true };
            let max = self.per_address_max.saturating_mul(factor).min(self.strangers_max());
            let max = max.max(self.per_address_max);
            self.by_network.get(&(tier, first)).copied().unwrap_or(0) < max
        };
        match TIER_FACTORS.into_iter().enumerate().all(may_have) {
            true => Ok(()),
            false => Err(Refused::Address),
        }
    }

    /// Counts one connection more from an address and its networks.
    fn count(&mut self, tiers: Option<Tiers>) {
        for key in keys(tiers) {
            *self.by_network.entry(key).or_insert(0) += 1;
        }
    }

    /// Counts one less.
    fn give_back(&mut self, tiers: Option<Tiers>) {
        for key in keys(tiers) {
            if let Some(count) = self.by_network.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.by_network.remove(&key);
                }
            }
        }
    }

    /// Closes connections until there is room for one at this stage. The caller ends their tasks.
    fn make_room(&mut self, stage: Stage) -> Result<[Option<Closed>; CLOSED_AT_ONCE], Refused> {
        let mut closed = [const { None }; CLOSED_AT_ONCE];
        for one in &mut closed {
            if !self.has_room(stage) {
                *one = self.close_one();
            }
        }
        // One for one: the number of connections does not rise.
        if closed[0].is_some() || self.has_room(stage) { Ok(closed) } else { Err(Refused::Total) }
    }

    fn has_room(&self, stage: Stage) -> bool {
        let is_stranger = stage == Stage::Stranger;
        self.total < self.total_max && (!is_stranger || self.strangers < self.strangers_max())
    }

    fn close_one(&mut self) -> Option<Closed> {
        let (network, stranger) = self.closable.pop()?;
        self.total -= 1;
        self.strangers -= 1;
        self.give_back(stranger.tiers);
        Some((network, stranger.task))
    }

    /// Counts a place at this stage. A stranger is the latest of its network.
    fn enter(&mut self, place: &mut OpenConnection, stage: Stage) {
        place.stage = stage;
        if stage == Stage::Stranger {
            place.number = self.next;
            self.next += 1;
            self.strangers += 1;
            self.closable.insert(place.network, place.number, place.stranger());
        }
    }

    /// Counts it at its stage no longer. False if it was closed for another.
    fn leave(&mut self, place: &OpenConnection) -> bool {
        match place.stage {
            Stage::Stranger if self.closable.remove(place.network, place.number).is_none() => return false,
            Stage::Stranger | Stage::Working => self.strangers -= 1,
            Stage::LoggedIn | Stage::Trusted => {}
        }
        true
    }
}

fn keys(tiers: Option<Tiers>) -> impl Iterator<Item = (usize, IpAddr)> {
    let all = tiers.map(Tiers::all).unwrap_or_default();
    all.into_iter().enumerate().filter_map(|(tier, first)| Some((tier, first?)))
}

impl OpenConnection {
    fn stranger(&self) -> Stranger {
        Stranger { tiers: self.tiers, task: Arc::clone(&self.task) }
    }
}

impl ConnectionPermit {
    /// Counts the connection for this peer from now on, if the peer may have one more.
    pub fn name(&mut self, peer: IpAddr, trust: Trust) -> Result<(), Refused> {
        let place = &mut *self.0;
        let trust = trust.of(peer);
        let tiers = trust.tiers(peer);
        let limits = place.limits.clone();
        let mut open = limits.lock();
        open.check(tiers)?;
        if !open.leave(place) {
            return Err(Refused::Total);
        }
        open.count(tiers);
        open.give_back(std::mem::replace(&mut place.tiers, tiers));
        place.network = Tiers::of(peer).widest();
        open.enter(place, trust.stage());
        Ok(())
    }

    /// The peer has logged in: it is not closed for others any more.
    pub(crate) fn log_in(&mut self) {
        let place = &mut *self.0;
        if matches!(place.stage, Stage::Stranger | Stage::Working) {
            let limits = place.limits.clone();
            let mut open = limits.lock();
            if open.leave(place) {
                open.enter(place, Stage::LoggedIn);
            }
        }
    }

    /// The login has ended: the peer is a newcomer again. If strangers have their share already,
    /// one of them is closed.
    pub(crate) fn log_out(&mut self) {
        let place = &mut *self.0;
        if place.stage != Stage::LoggedIn {
            return;
        }
        let limits = place.limits.clone();
        let mut open = limits.lock();
        let is_full = open.strangers >= open.strangers_max();
        let closed = if is_full { open.close_one() } else { None };
        open.enter(place, Stage::Stranger);
        drop(open);
        if let Some((_, task)) = closed {
            task.end();
        }
    }

    /// A delivery begins, and the peer must get its outcome: the connection is not closed
    /// meanwhile. False if it was closed already.
    pub(crate) fn work_begins(&mut self) -> bool {
        let place = &mut *self.0;
        if place.stage != Stage::Stranger {
            return true;
        }
        let mut open = place.limits.lock();
        let is_open = open.closable.remove(place.network, place.number).is_some();
        drop(open);
        if is_open {
            place.stage = Stage::Working;
        }
        is_open
    }

    /// The work is done: the peer may be closed again, in its former turn.
    pub(crate) fn work_ends(&mut self) {
        let place = &mut *self.0;
        if place.stage == Stage::Working {
            place.stage = Stage::Stranger;
            let stranger = place.stranger();
            place.limits.lock().closable.insert(place.network, place.number, stranger);
        }
    }

    /// Waits for a turn to end. [`ENDS_AT_ONCE`] connections have one in a round.
    pub(crate) async fn turn_to_end(&self) {
        self.0.limits.0.ends.take().await;
    }

    /// The network whose connection was closed for this one.
    pub(crate) fn closed_for_it(&self) -> Option<IpAddr> {
        self.0.closed_for_it
    }

    /// The task that serves the connection.
    pub(crate) fn task(&self) -> Arc<Task> {
        Arc::clone(&self.0.task)
    }

    /// Whether it was closed for another.
    #[cfg(test)]
    fn is_closed(&self) -> bool {
        let place = &*self.0;
        place.stage == Stage::Stranger && !place.limits.lock().closable.has(place.network, place.number)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let place = &*self.0;
        let mut open = place.limits.lock();
        if open.leave(place) {
            open.total -= 1;
            open.give_back(place.tiers);
        }
    }
}
