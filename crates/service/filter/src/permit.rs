//! Where scripts run, and the memory that a run may take.

use std::sync::Arc;
use std::time::Duration;

use posthaste_mail_model::AccountId;
use posthaste_net::{ByteBudget, BytePermit, Holder, KeyedPermit, KeyedSemaphore, compute_threads};

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
/// The same of all accounts: 160 MiB. No budget counts them. A caller may hold others already, so
/// waiters could wait for each other.
const OUTCOMES_AT_ONCE: usize = 32;

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
pub(crate) struct OutcomePermit {
    _permit: Option<KeyedPermit<AccountId>>,
}

/// Where scripts run: one at a time for an account, and on fewer threads than there are processors.
#[derive(Clone)]
pub(crate) struct Runs {
    threads: KeyedSemaphore<AccountId>,
    outcomes: KeyedSemaphore<AccountId>,
}

impl Runs {
    pub(crate) fn new() -> Self {
        let threads = KeyedSemaphore::new(compute_threads(), 1);
        Self { threads, outcomes: KeyedSemaphore::new(OUTCOMES_AT_ONCE, OUTCOMES_OF_ACCOUNT) }
    }

    /// A permit to hold an outcome of this many bytes; `None` if too many are held.
    pub(crate) async fn hold(&self, account: AccountId, bytes: usize) -> Option<OutcomePermit> {
        let permit = match bytes > OUTCOME_FREE {
            true => Some(self.outcomes.acquire_within(account, Duration::ZERO).await?),
            false => None,
        };
        Some(OutcomePermit { _permit: permit })
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
