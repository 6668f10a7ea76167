//! Sessions of one account take turns at long reports.
//!
//! A change of a mailbox wakes all sessions that have it open. A change of the list of mailboxes
//! wakes all that watch it (NOTIFY). If each reports it slice by slice, a task of another account
//! waits for a slice of each of them: 40 sessions delayed it by 38 ms. So one session of an account
//! computes its report at a time. The others wait for their turn, and the runtime does not run them
//! meanwhile.
//!
//! Invariant: a session that waits for its client has no turn.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use posthaste_mail_model::AccountId;
use posthaste_net::{KeyedPermit, NetError};

use crate::offload::Threads;
use crate::wire::Wire;

/// Rows whose report needs no turn: some 0.1 ms.
const ROWS_FREE: u64 = 1000;
/// Rows that are compared without a turn. Nearly all of them are skipped as unchanged.
const COMPARED_FREE: u64 = 20 * ROWS_FREE;
/// Messages that are evaluated without a turn. Each may take some 60 summaries of others to find
/// its place in an order.
const EVALUATED_FREE: u64 = 20;

/// Names of mailboxes, before and after a change, that are compared without a turn: some 30 µs.
const NAMES_FREE: usize = 200;

/// A kind of work. A small amount of it needs no turn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LongWork {
    /// Rows that are reported.
    Rows(u64),
    /// Rows of two views that are compared.
    Compared(u64),
    /// Messages that are evaluated for a kept result.
    Evaluated(u64),
    /// Names of two lists of mailboxes that are compared.
    Names(usize),
}

impl LongWork {
    fn is_long(self) -> bool {
        match self {
            Self::Rows(count) => count > ROWS_FREE,
            Self::Compared(count) => count > COMPARED_FREE,
            Self::Evaluated(count) => count > EVALUATED_FREE,
            Self::Names(count) => count > NAMES_FREE,
        }
    }
}

/// The turn of a session, if it has it.
pub(crate) struct Turn<'s> {
    threads: Threads<'s>,
    permit: Option<KeyedPermit<AccountId>>,
}

impl<'s> Turn<'s> {
    /// A turn that the session has not taken yet.
    pub(crate) fn of(threads: Threads<'s>) -> Self {
        Self { threads, permit: None }
    }

    /// Waits for the turn if the work is long, unless the session has it.
    pub(crate) async fn take(&mut self, work: LongWork) {
        if self.permit.is_none() && work.is_long() {
            self.permit = self.threads.service.turns.acquire(self.threads.account).await;
        }
    }

    /// Lets another session have it.
    pub(crate) fn give(&mut self) {
        self.permit = None;
    }

    /// Sends the printed output if it is large. If the client has to be waited for, another session
    /// has the turn meanwhile.
    pub(crate) async fn relieve(&mut self, wire: &mut Wire) -> Result<(), NetError> {
        let mut sending = pin!(wire.relieve());
        match poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await {
            Poll::Ready(sent) => sent,
            Poll::Pending => {
                self.give();
                sending.await
            }
        }
    }
}
