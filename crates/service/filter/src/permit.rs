//! Where scripts run, and the memory that a run and its outcome may take.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use posthaste_delivery::{Delivery, SummariesHeld};
use posthaste_mail_model::AccountId;
use posthaste_net::{
    ByteBudget, BytePermit, Holder, KeyedPermit, KeyedSemaphore, OwnPermit, compute_threads,
};
use tokio::task::unconstrained;

/// How long a message waits until a script can run, and then for memory. Senders wait ten minutes
/// for an answer to their data (RFC 5321 §4.5.3.2.6).
const RUN_WITHIN: Duration = Duration::from_secs(60);
/// Memory of a run for each byte of its message. It is a decoded part, and its text in UTF-8. The
/// text may take three bytes for one, in a buffer that doubles. See
/// [`posthaste_sieve::Script::run`].
const RUN_FACTOR: usize = 8;
/// Further memory of a run: the fields and parts of a message, variables, what it makes. Before
/// the run, it is for the script that is read and compiled: [`crate::compilation`].
const RUN_BESIDE: usize = 4 << 20;

/// Bytes of an outcome that needs no permit. Few scripts have longer ones: their texts, and headers
/// that they edit.
const OUTCOME_FREE: usize = 48 * 1024;
/// Longer outcomes of an account that are held while their mail is filed and sent: 20 MiB.
const OUTCOMES_OF_ACCOUNT: usize = 4;
/// Outcomes that are held beside the budget of summaries, while that has no room. On a small
/// machine the longest one never has room there.
const OUTCOMES_BESIDE: usize = 1;
/// Bytes that these take: 4 MiB of headers, 1 MiB of texts, and notes of less than 200 octets.
pub const OUTCOMES_BYTES_BESIDE: u64 = OUTCOMES_BESIDE as u64 * ((5 << 20) + 64 * 200);

/// Large stored messages that are in memory at once for the scripts of mailboxes. No budget counts
/// them while they wait for a run.
const STORED_AT_ONCE: usize = 4;
/// Octets of a stored message that needs no turn, as for FETCH.
const STORED_FREE: u32 = 128 * 1024;

/// The permit and the memory of a run; released when dropped.
pub(crate) struct RunPermit {
    _thread: KeyedPermit<AccountId>,
    _memory: BytePermit,
}

/// A permit to hold the outcome of a run; released when dropped.
pub(crate) enum OutcomePermit {
    /// It is short.
    Short,
    /// Its bytes count for the budget of summaries.
    Counted { _memory: SummariesHeld, _of_account: OwnPermit<AccountId> },
    /// It is held beside that budget.
    Beside { _place: KeyedPermit<AccountId> },
}

/// Where scripts run: one at a time for an account, and on fewer threads than there are processors.
#[derive(Clone)]
pub(crate) struct Runs {
    threads: KeyedSemaphore<AccountId>,
    /// Each long outcome has a permit of its account. One beside the budget has a common one.
    outcomes: KeyedSemaphore<AccountId>,
}

impl Runs {
    pub(crate) fn new() -> Self {
        let threads = KeyedSemaphore::new(compute_threads(), 1);
        Self { threads, outcomes: KeyedSemaphore::new(OUTCOMES_BESIDE, OUTCOMES_OF_ACCOUNT) }
    }

    /// A permit to hold an outcome of this many bytes; `None` if too many are held. Nobody waits
    /// for one: a caller may hold others already, so waiters could wait for each other.
    pub(crate) fn hold(
        &self,
        delivery: &Delivery,
        account: AccountId,
        bytes: usize,
    ) -> Option<OutcomePermit> {
        if bytes <= OUTCOME_FREE {
            return Some(OutcomePermit::Short);
        }
        // Unconstrained: a permit that is free is taken at the first poll.
        if let Some(memory) = delivery.room_for_outcome(bytes) {
            let of_account = unconstrained(self.outcomes.acquire_own(account)).now_or_never().flatten()?;
            return Some(OutcomePermit::Counted { _memory: memory, _of_account: of_account });
        }
        let place = unconstrained(self.outcomes.acquire(account)).now_or_never().flatten()?;
        Some(OutcomePermit::Beside { _place: place })
    }

    /// A permit for a run over this many bytes, and the memory that it may take; `None` if that
    /// takes too long.
    pub(crate) async fn permit(
        &self,
        budget: &ByteBudget,
        account: AccountId,
        len: usize,
    ) -> Option<Arc<RunPermit>> {
        let thread = self.threads.acquire_within(account, RUN_WITHIN).await?;
        let memory = budget.begin(Holder::Account(account.0.to_bytes()));
        let wanted = (len * RUN_FACTOR + RUN_BESIDE).min(budget.largest());
        memory.grow_to_within(wanted, RUN_WITHIN).await.ok()?;
        memory.complete();
        Some(Arc::new(RunPermit { _thread: thread, _memory: memory }))
    }
}

/// The turns of scripts of mailboxes at large stored messages: one at a time for an account.
#[derive(Clone)]
pub(crate) struct StoredTurns(pub(crate) KeyedSemaphore<AccountId>);

impl StoredTurns {
    pub(crate) fn new() -> Self {
        Self(KeyedSemaphore::new(STORED_AT_ONCE, 1))
    }

    /// Waits for the turn at a message of this many octets, if it needs one. An error if that takes
    /// too long.
    pub(crate) async fn take(
        &self,
        account: AccountId,
        octets: u32,
    ) -> Result<Option<KeyedPermit<AccountId>>, TurnTimeout> {
        if octets <= STORED_FREE {
            return Ok(None);
        }
        self.0.acquire_within(account, RUN_WITHIN).await.map(Some).ok_or(TurnTimeout)
    }
}

/// A turn did not come in time.
#[derive(Debug)]
pub(crate) struct TurnTimeout;
