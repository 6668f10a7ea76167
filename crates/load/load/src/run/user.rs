//! One virtual user: sessions, transactions, thinking; its times to the recorder.

use super::failure::Failure;
use super::model::AccountModel;
use super::open_loop::Lane;
use super::session::Asking;
use super::shared::Shared;
use crate::results::{ErrorSample, Slow};
use crate::target::Target;
use posthaste_imap_client::Client;
use posthaste_load_workload::Random;
use posthaste_load_workload::{Chooser, Messages, Protocol, SessionKind, Step};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Draws before a user gives up finding a transaction that its mailboxes allow, and thinks again.
const DRAWS_MAX: u32 = 50;
/// Wait after a failed session, doubled up to the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(8));

/// A virtual user.
pub struct User {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: Rc<Lane>,
    pub(super) index: u32,
    pub(super) account: u32,
    pub(super) name: String,
    pub(super) password: String,
    pub(super) address: String,
    pub(super) random: Random,
    pub(super) model: AccountModel,
    pub(super) client: Option<Client>,
    pub(super) read_only: bool,
    pub(super) uncertain_names: bool,
    pub(super) last_sent: u64,
    /// FETCH responses since the last transaction was recorded.
    pub(super) fetched: u64,
    pub(super) bytes_before: (u64, u64),
    /// Bytes of other connections (SMTP) in this transaction.
    pub(super) bytes_beside: (u64, u64),
    pub(super) sessions: u32,
    /// Turns it took to another server, since its own failed.
    turns: u32,
    chooser: Chooser,
    online: bool,
    slowest: (&'static str, Duration),
}

impl User {
    /// Virtual user `index`.
    pub fn new(shared: Arc<Shared>, lane: Rc<Lane>, index: u32) -> Self {
        let accounts = &shared.options.accounts;
        let account = index % accounts.count().max(1);
        Self {
            index,
            account,
            name: accounts.name(account),
            password: accounts.password(account),
            address: accounts.address(account),
            random: Random::new(shared.options.seed, 1 << 40 | u64::from(index)),
            model: AccountModel::default(),
            client: None,
            read_only: false,
            uncertain_names: false,
            last_sent: 0,
            fetched: 0,
            bytes_before: (0, 0),
            bytes_beside: (0, 0),
            sessions: 0,
            turns: 0,
            chooser: Chooser::default(),
            online: false,
            slowest: ("", Duration::ZERO),
            shared,
            lane,
        }
    }

    /// A number that chooses the source address on loopback: another one for each session, so that
    /// ports in TIME_WAIT never run out.
    pub(super) fn source(&self) -> u32 {
        self.index.wrapping_add(self.sessions.wrapping_mul(7919))
    }

    /// The server it is at: its own by its number, another one after that failed.
    pub(super) fn server(&self) -> &Target {
        self.shared.options.server_at(self.index.wrapping_add(self.turns))
    }

    /// Goes to the next server if it was the server that failed.
    fn turn_away(&mut self, failure: &Failure) {
        if matches!(failure, Failure::Connection(_)) {
            self.turns = self.turns.wrapping_add(1);
        }
    }

    /// Lives until the run ends.
    pub async fn live(mut self) {
        let start = self.shared.phase.user_start(self.index, self.shared.options.clients);
        if self.shared.phase.sleep_until(start).await {
            match (self.shared.options.workload.session, self.shared.options.workload.protocol) {
                (SessionKind::Online, Protocol::Imap) => self.live_online().await,
                _ => self.live_in_sessions().await,
            }
        }
        let _ = self.close().await;
    }

    /// One long session; a new one after a failure.
    async fn live_online(&mut self) {
        let mut backoff = BACKOFF.0;
        while !self.shared.phase.is_stopping() {
            if self.client.is_none() {
                self.sessions += 1;
                if let Err(failure) = self.open().await {
                    self.record_failure("(session)", None, &failure);
                    self.turn_away(&failure);
                    self.give_up_session();
                    if !self.pause(backoff.as_secs_f64()).await {
                        return;
                    }
                    backoff = (backoff * 2).min(BACKOFF.1);
                    continue;
                }
                backoff = BACKOFF.0;
                self.fetched = 0;
                self.bytes_since();
            }
            let Some(due) = self.next_task().await else { return };
            self.one_transaction(due).await;
            if self.shared.options.arrivals.is_none() && !self.think().await {
                return;
            }
        }
    }

    /// A session per transaction.
    async fn live_in_sessions(&mut self) {
        let mut backoff = BACKOFF.0;
        while !self.shared.phase.is_stopping() {
            let Some(due) = self.next_task().await else { return };
            self.sessions += 1;
            let drawn = self.chooser.draw(&self.shared.options.workload.choice, &mut self.random);
            self.chooser.took(drawn);
            let done = self.whole_session(drawn).await;
            let failed = done.is_err();
            self.record(drawn, due, done);
            self.give_up_session();
            if failed && !self.pause(backoff.as_secs_f64()).await {
                return;
            }
            backoff = if failed { (backoff * 2).min(BACKOFF.1) } else { BACKOFF.0 };
            if self.shared.options.arrivals.is_none() && !self.think().await {
                return;
            }
        }
    }

    async fn whole_session(&mut self, transaction: usize) -> Result<(), Failure> {
        if self.shared.options.workload.protocol == Protocol::Pop3 {
            return self.pop3_session(transaction).await;
        }
        self.open().await?;
        self.steps(transaction).await?;
        // Counted before the connection goes.
        let bytes = self.bytes_since();
        self.bytes_beside.0 += bytes.0;
        self.bytes_beside.1 += bytes.1;
        self.close().await
    }

    /// When the next transaction is due: now, or in open loop when one is handed out. `None` at the
    /// end.
    async fn next_task(&mut self) -> Option<Instant> {
        if self.shared.options.arrivals.is_none() {
            return Some(Instant::now());
        }
        tokio::select! {
            due = self.lane.next_task() => Some(due),
            () = self.shared.phase.stopping() => None,
        }
    }

    async fn think(&mut self) -> bool {
        let time = self.shared.options.think().draw(&mut self.random);
        if time.is_zero() {
            // Others on this thread must get their turn too.
            tokio::task::yield_now().await;
            return !self.shared.phase.is_stopping();
        }
        self.shared.phase.sleep_until(Instant::now() + time).await
    }

    async fn one_transaction(&mut self, due: Instant) {
        let shared = self.shared.clone();
        let choice = &shared.options.workload.choice;
        for _ in 0..DRAWS_MAX {
            let drawn = self.chooser.draw(choice, &mut self.random);
            if !self.is_possible(drawn) {
                self.lane.with(|r| {
                    if let Some(t) = r.transactions.get_mut(drawn) {
                        t.redrawn += 1;
                    }
                });
                continue;
            }
            self.chooser.took(drawn);
            let due = if shared.options.arrivals.is_some() { due } else { Instant::now() };
            let done = self.steps(drawn).await;
            let ends = done.as_ref().is_err_and(Failure::ends_session);
            self.record(drawn, due, done);
            if ends {
                self.give_up_session();
            } else {
                self.trim().await;
            }
            return;
        }
        if shared.options.arrivals.is_some() {
            shared.task_done();
        }
        self.pause(0.05).await;
    }

    async fn steps(&mut self, transaction: usize) -> Result<(), Failure> {
        self.slowest = ("", Duration::ZERO);
        let shared = self.shared.clone();
        let Some(transaction) = shared.options.workload.transactions.get(transaction) else { return Ok(()) };
        for step in &transaction.steps {
            self.timed_step(step).await?;
        }
        Ok(())
    }

    /// One step, its time kept by command.
    pub(super) async fn timed_step(&mut self, step: &Step) -> Result<(), Failure> {
        let start = Instant::now();
        let done = self.step(step).await;
        self.note_command(step.verb(), start, done.is_ok());
        done
    }

    /// Keeps a command's time.
    pub(super) fn note_command(&mut self, verb: &'static str, start: Instant, ok: bool) {
        let now = Instant::now();
        let time = now - start;
        if time > self.slowest.1 {
            self.slowest = (verb, time);
        }
        if self.shared.phase.counts(now) && verb != "pause" {
            self.lane.with(|r| {
                let tally = r.commands.entry(verb).or_default();
                if ok {
                    tally.latency.record(time);
                } else {
                    tally.errors += 1;
                }
            });
        }
    }

    async fn step(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::Capability => self.ask("CAPABILITY", Asking::default()).await.map(drop),
            Step::Raw(command) => self.ask(command, Asking::default()).await.map(drop),
            Step::Noop => self.ask("NOOP", Asking::default()).await.map(drop),
            Step::Check => self.ask("CHECK", Asking::default()).await.map(drop),
            Step::List(pattern) => self.list(pattern).await,
            Step::Status(mailbox, items) => self.status(mailbox, items).await,
            Step::Select { mailbox, examine } => self.select(mailbox, *examine).await,
            Step::Unselect => {
                let done = self.ask("UNSELECT", Asking::default()).await.map(drop);
                self.model.current = None;
                done
            }
            Step::Fetch(messages, items) => self.fetch(messages, items).await,
            Step::Search(criterion) => self.search(criterion).await,
            Step::Store { messages, how, flags } => self.store(messages, how, flags).await,
            Step::Copy(messages, to) => self.copy(messages, to).await,
            Step::Move(messages, to) => self.r#move(messages, to).await,
            Step::Expunge => self.expunge().await,
            Step::Append(mailbox) => self.append(mailbox).await,
            Step::Create => self.create().await,
            Step::Delete => self.delete().await,
            Step::Rename => self.rename().await,
            Step::Idle(seconds) => self.idle(*seconds).await,
            Step::Send { to } => self.send(*to).await,
            Step::AwaitDelivery(seconds) => self.await_delivery(*seconds).await,
            Step::Pause(seconds) => {
                self.pause(*seconds).await;
                Ok(())
            }
            // Only POP3 sessions have these; the file reader sees to it.
            Step::Stat | Step::Uidl | Step::Retr(_) | Step::Dele => Ok(()),
        }
    }

    /// Whether the mailboxes allow a transaction: thresholds kept, something there to work on.
    fn is_possible(&mut self, transaction: usize) -> bool {
        let shared = self.shared.clone();
        let workload = &shared.options.workload;
        let Some(transaction) = workload.transactions.get(transaction) else { return false };
        let removes = transaction.steps.iter().any(|s| matches!(s, Step::Expunge | Step::Move(..)));
        let adds = |s: &Step| matches!(s, Step::Store { .. });
        let removes = removes
            && (transaction.steps.iter().any(adds)
                || transaction.steps.iter().any(|s| matches!(s, Step::Move(..))));
        for step in &transaction.steps {
            let here = self.model.here().map_or(0, |m| m.messages.len() as u32);
            let boxes = self.model.mailboxes.len() as u32;
            let fine = match step {
                Step::Select { .. } => return true,
                Step::Raw(_) => self.is_offered(step),
                Step::Create => boxes < workload.mailboxes.max,
                Step::Delete | Step::Rename => {
                    let enough = boxes > workload.mailboxes.min || matches!(step, Step::Rename);
                    let mut known = self.random.clone();
                    let candidate = self.model.expendable(&mut known);
                    let audited = shared.ledger.is_some() && matches!(step, Step::Delete);
                    let listed = candidate
                        .and_then(|at| self.model.mailboxes.get(at))
                        .is_some_and(|m| m.is_known() && m.messages.iter().all(|m| m.serial != 0));
                    enough && candidate.is_some() && (!audited || listed)
                }
                Step::Copy(..) | Step::Move(..) => {
                    here > 0
                        && self.model.random(&mut self.random.clone(), true, workload.messages.max).is_some()
                }
                Step::Fetch(Messages::All | Messages::New, _) => self.model.current.is_some(),
                Step::Fetch(Messages::Unseen, _) => self
                    .model
                    .here()
                    .is_some_and(|m| m.messages.iter().any(|m| m.flags.is_some_and(|f| f & 1 == 0))),
                Step::Fetch(..) | Step::Store { .. } => here > 0,
                Step::Search(_) => self.model.current.is_some_and(|_| here > 0),
                _ => true,
            };
            if !fine || (removes && here <= workload.messages.min) {
                return false;
            }
        }
        true
    }

    /// Keeps INBOX below its threshold: what arrived beyond is deleted, oldest first, in one go.
    /// Recorded on its own, so that the mix of transactions stays as it was asked for.
    async fn trim(&mut self) {
        let limits = self.shared.options.workload.messages;
        let Some(mailbox) = self.model.here().filter(|m| m.is_inbox() && m.is_known()) else { return };
        let count = mailbox.messages.len();
        if count <= limits.max as usize || self.read_only {
            return;
        }
        let keep = (limits.min as usize + limits.max as usize) / 2;
        self.model.same = mailbox.messages.iter().take(count - keep).map(|m| m.uid).collect();
        let start = Instant::now();
        let done = match self.store(&Messages::Same, "+FLAGS.SILENT", "\\Deleted").await {
            Ok(()) => self.expunge().await,
            Err(failure) => Err(failure),
        };
        let ends = done.as_ref().is_err_and(Failure::ends_session);
        self.record(self.shared.options.workload.transactions.len() + super::engine::TRIM, start, done);
        if ends {
            self.give_up_session();
        }
    }

    /// Keeps a transaction's time, or what went wrong.
    pub(super) fn record(&mut self, transaction: usize, due: Instant, done: Result<(), Failure>) {
        let now = Instant::now();
        let shared = self.shared.clone();
        let workload = &shared.options.workload;
        let is_task = transaction < workload.transactions.len();
        if is_task && shared.options.arrivals.is_some() {
            shared.task_done();
        }
        let own = self.bytes_since();
        let bytes = (own.0 + self.bytes_beside.0, own.1 + self.bytes_beside.1);
        self.bytes_beside = (0, 0);
        let fetched = std::mem::take(&mut self.fetched);
        let name = workload.transactions.get(transaction).map_or("(trim)", |t| t.name.as_str());
        if let Err(failure) = &done {
            self.record_failure(name, Some(transaction), failure);
            self.turn_away(failure);
        }
        let (time, at_s, counts) = (now - due, shared.phase.seconds(now), shared.phase.counts(now));
        self.lane.with(|r| {
            let second = r.second(at_s);
            if done.is_ok() && is_task {
                let us = time.as_micros() as u64;
                second.done += 1;
                second.sum_us += us;
                second.max_us = second.max_us.max(us);
            }
            if !counts {
                return;
            }
            r.messages += fetched;
            let Some(tally) = r.transactions.get_mut(transaction) else { return };
            tally.bytes.0 += bytes.0;
            tally.bytes.1 += bytes.1;
            if done.is_err() {
                return;
            }
            tally.latency.record(time);
            let (verb, longest) = self.slowest;
            r.slow(time, |ms| Slow {
                ms,
                at_s,
                transaction: name.to_owned(),
                user: self.name.clone(),
                command: format!("{verb} {:.1} ms", longest.as_secs_f64() * 1e3),
            });
        });
    }

    pub(super) fn record_failure(&self, name: &str, transaction: Option<usize>, failure: &Failure) {
        if matches!(failure, Failure::Stopped) {
            return;
        }
        let now = Instant::now();
        let phase = &self.shared.phase;
        // What breaks because the run is being torn down is not the server's fault.
        if phase.is_stopping() && matches!(failure.kind(), "connection-lost" | "timeout") {
            return;
        }
        if self.shared.options.cluster.tolerate_outages && failure.is_outage() {
            self.lane.with(|r| *r.outages.entry(failure.kind()).or_default() += 1);
            return;
        }
        let at_s = phase.seconds(now);
        self.lane.with(|r| {
            r.second(at_s).errors += 1;
            if let Some(tally) = transaction.and_then(|t| r.transactions.get_mut(t)) {
                tally.errors += u64::from(phase.counts(now));
            }
            r.error(failure.kind(), || ErrorSample {
                at_s,
                user: self.name.clone(),
                transaction: name.to_owned(),
                what: failure.to_string(),
                transcript: self.client.as_ref().map(|c| c.transcript().to_string()).unwrap_or_default(),
            });
        });
    }

    /// Forgets the session. What is known of the mailboxes goes too, but not their names: after a
    /// fault nobody can say which half of a command was done.
    pub(super) fn give_up_session(&mut self) {
        if self.client.take().is_some() {
            self.went_offline();
        }
        if self.shared.options.workload.session == SessionKind::Online {
            self.model.mailboxes.clear();
            self.model.current = None;
        }
    }

    pub(super) fn went_online(&mut self) {
        if !self.online {
            self.online = true;
            let counts = self.shared.phase.counts(Instant::now());
            self.lane.with(|r| {
                r.online += 1;
                r.sessions += u64::from(counts);
            });
        }
    }

    pub(super) fn went_offline(&mut self) {
        if self.online {
            self.online = false;
            self.lane.with(|r| r.online -= 1);
        }
    }
}
