//! The data of a thread: its recorder, its pool of mail connections, and in open loop its queue of
//! tasks.
//!
//! In open loop a task is due at its time, whether or not the server has finished the ones before.
//! Its response time counts from that moment. A server that stalls cannot hide by slowing down its
//! clients.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use posthaste_load_workload::Random;
use tokio::sync::Notify;

use super::by_append::append_as;
use super::failure::Failure;
use super::mailer::{Mailer, MailerError};
use super::options::{Arrivals, SendBy};
use super::recorder::Recorder;
use super::shared::Shared;
use crate::target::{Scheme, Target};

/// Idle mail connections a thread keeps, as an MTA would.
const POOL_MAX: usize = 16;

/// A message to be sent.
pub struct Outgoing<'a> {
    /// Name and password of its sender, for submission.
    pub login: (&'a str, &'a str),
    /// The sender's address.
    pub from: &'a str,
    /// The recipient's.
    pub to: &'a str,
    /// Number of the recipient's account, for APPEND.
    pub account: u32,
    /// The message.
    pub mail: &'a [u8],
    /// Chooses the source address on loopback.
    pub source: u32,
}

/// The state of one thread.
pub struct Lane {
    recorder: Arc<Mutex<Recorder>>,
    tasks: RefCell<VecDeque<Instant>>,
    ready: Notify,
    /// Idle connections, and where each leads.
    pool: RefCell<Vec<(Target, Mailer)>>,
}

impl Lane {
    /// A loop with this recorder, which the main thread reads once a second.
    pub fn new(recorder: Arc<Mutex<Recorder>>) -> Self {
        Self { recorder, tasks: RefCell::default(), ready: Notify::new(), pool: RefCell::default() }
    }

    /// Does something with the recorder.
    pub fn with<T>(&self, f: impl FnOnce(&mut Recorder) -> T) -> T {
        f(&mut self.recorder.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for the next task. Returns its due time.
    pub async fn next_task(&self) -> Instant {
        loop {
            let next = self.tasks.borrow_mut().pop_front();
            if let Some(due) = next {
                return due;
            }
            self.ready.notified().await;
        }
    }

    /// Hands out this thread's share of the tasks until the run ends.
    pub async fn dispatch(&self, shared: &Shared, arrivals: Arrivals, lane: usize, lanes: usize) {
        let mut random = Random::new(shared.options.seed, 2 << 40 | lane as u64);
        let gap = lanes as f64 / arrivals.rate();
        let mut due = shared.phase.start()
            + shared.options.ramp
            + Duration::from_secs_f64(gap * lane as f64 / lanes as f64);
        loop {
            if !shared.phase.sleep_until(due).await {
                return;
            }
            let late = due.elapsed();
            self.with(|r| r.lateness.record(late));
            self.tasks.borrow_mut().push_back(due);
            shared.task_due();
            self.ready.notify_one();
            due += Duration::from_secs_f64(match arrivals {
                Arrivals::Poisson(_) => random.exponential(gap),
                Arrivals::Even(_) => gap,
            });
        }
    }

    /// Sends a message. Bytes in and out.
    pub async fn send(
        &self,
        shared: &Shared,
        way: &SendBy,
        message: Outgoing<'_>,
    ) -> Result<(u64, u64), Failure> {
        match way {
            SendBy::Mail(target) => {
                let target = shared.options.sender_at(target, message.account);
                self.mail(shared, target, message).await
            }
            SendBy::Append(at) => {
                append_as(&shared.options, at, message.account, message.mail, message.source).await
            }
        }
    }

    /// Over LMTP and SMTP it uses a pooled connection, as an MTA does. For submission it opens a
    /// connection of its own, as a user does.
    async fn mail(
        &self,
        shared: &Shared,
        target: &Target,
        message: Outgoing<'_>,
    ) -> Result<(u64, u64), Failure> {
        let Outgoing { login, from, to, mail, source, .. } = message;
        let own = target.scheme == Scheme::Submission;
        let pooled = if own { None } else { self.idle(target) };
        let was_pooled = pooled.is_some();
        let mut mailer = match pooled {
            Some(mailer) => mailer,
            None => Mailer::connect(&shared.options.dialer, target, own.then_some(login), source).await?,
        };
        let before = mailer.bytes();
        let sent = match mailer.send(from, to, mail).await {
            // A pooled connection may have been closed for idling too long; nothing was said on it
            // yet.
            Err(MailerError::Closed) if was_pooled => {
                mailer = Mailer::connect(&shared.options.dialer, target, None, source).await?;
                mailer.send(from, to, mail).await
            }
            other => other,
        };
        let now = mailer.bytes();
        let bytes = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
        match sent {
            Ok(()) if own => mailer.quit().await,
            Ok(()) => {
                let mut pool = self.pool.borrow_mut();
                if pool.len() < POOL_MAX {
                    pool.push((target.clone(), mailer));
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(bytes)
    }

    /// An idle connection to this target.
    fn idle(&self, target: &Target) -> Option<Mailer> {
        let mut pool = self.pool.borrow_mut();
        let at = pool.iter().rposition(|(to, _)| to == target)?;
        Some(pool.swap_remove(at).1)
    }

    /// Closes pooled connections.
    pub async fn close(&self) {
        let pool = std::mem::take(&mut *self.pool.borrow_mut());
        for (_, mailer) in pool {
            mailer.quit().await;
        }
    }
}
