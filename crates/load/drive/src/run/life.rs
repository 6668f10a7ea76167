//! The life of a virtual user: sessions, transactions, thinking.

use std::time::{Duration, Instant};

use posthaste_load_workload::{Costing, Messages, Protocol, SessionKind};

use super::failure::Failure;
use super::recorder::TRIM;
use super::user::User;

/// Draws after which a user stops looking for a transaction that its mailboxes allow, and thinks
/// again.
const DRAWS_MAX: u32 = 50;
/// Wait after a failed session, doubled up to the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(8));

impl User {
    /// Lives until the run ends.
    pub async fn live(mut self) {
        let start = self.shared.phase.user_start(self.who.index, self.shared.options.clients);
        if self.shared.phase.sleep_until(start).await {
            match (self.shared.options.workload.session, self.shared.options.workload.protocol) {
                (SessionKind::Online, Protocol::Imap) => self.live_online().await,
                _ => self.live_in_sessions().await,
            }
        }
        let _ = self.close().await;
        if self.has_done_all() {
            self.shared.user_done();
        }
    }

    /// Whether it has done the requested number of transactions.
    fn has_done_all(&self) -> bool {
        self.shared.options.transactions_each.is_some_and(|most| self.done >= most)
    }

    /// One long session; a new one after a failure.
    async fn live_online(&mut self) {
        let mut backoff = BACKOFF.0;
        while !self.shared.phase.is_stopping() && !self.has_done_all() {
            if self.link.client.is_none() {
                self.link.sessions += 1;
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
                self.used.fetched = 0;
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
        while !self.shared.phase.is_stopping() && !self.has_done_all() {
            let Some(due) = self.next_task().await else { return };
            self.link.sessions += 1;
            let drawn = self.chooser.draw(&self.shared.options.workload.choice, &mut self.random);
            self.chooser.note_done(drawn);
            let done = self.whole_session(drawn).await;
            let failed = done.is_err();
            self.done += 1;
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
        self.used.bytes_beside.0 += bytes.0;
        self.used.bytes_beside.1 += bytes.1;
        self.close().await
    }

    /// The time at which the next transaction is due: now, or in open loop when one is handed
    /// out. `None` at the end.
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
            // Others on this thread get their turn whenever this one waits for an answer. If its
            // answers are always there already, its budget ends, and they get it then.
            tokio::task::coop::consume_budget().await;
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
            self.chooser.note_done(drawn);
            if shared.options.workload.transactions.get(drawn).is_some_and(|t| t.cost == Costing::Alone) {
                return self.transaction_alone(drawn, due).await;
            }
            let due = if shared.options.arrivals.is_some() { due } else { Instant::now() };
            let done = self.steps(drawn).await;
            let ends = done.as_ref().is_err_and(Failure::ends_session);
            self.done += 1;
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
        // With a fixed number of transactions the run ends, also if the mailboxes allow no
        // further one.
        self.done += u32::from(shared.options.transactions_each.is_some());
        self.pause(0.05).await;
    }

    /// Keeps INBOX below its threshold: the oldest messages above it are deleted at once.
    /// Recorded on its own, so that the mix of transactions stays as requested.
    async fn trim(&mut self) {
        let limits = self.shared.options.workload.messages;
        let Some(mailbox) = self.model.here().filter(|m| m.is_inbox() && m.is_known()) else { return };
        let count = mailbox.messages.len();
        if count <= limits.max as usize || self.model.read_only {
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
        self.record(self.shared.options.workload.transactions.len() + TRIM, start, done);
        if ends {
            self.give_up_session();
        }
    }
}
