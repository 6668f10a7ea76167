//! The memory of commits of many messages: of COPY, MOVE and RENAME of INBOX, and of STORE and
//! EXPUNGE. All messages of a COPY are one commit (RFC 9051 §6.4.7), so its memory grows with
//! them. A STORE or an EXPUNGE may be several.
//!
//! It comes from the budget of summaries, which deliveries use as well. An account has one such
//! command at a time there, and at most a quarter of the budget. Few messages need neither: they
//! take the memory that each connection has for a message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_imap_codec::response::Code;
use posthaste_mail_model::AccountId;
use posthaste_net::Holder;
use posthaste_store::HeldPermit;

use crate::reply::{Failure, Reply};
use crate::service::{ImapService, UNRESERVED_READ_BYTES};

/// Bytes that a copied message takes until the commit is made: its row, the new message in the
/// commit, and its part of the transaction.
pub(crate) const COPIED_BYTES: u64 = 700;

/// Messages that need no reservation: their memory is what each connection has for a message.
pub(crate) const COPIED_FREE: u64 = UNRESERVED_READ_BYTES / COPIED_BYTES;

/// Bytes that a message takes until the commit is made that changes its flags or removes it. The
/// list of changed rows takes up to 56 while it grows, and the next view 28. The record for the
/// log takes 28, and the sets of UIDs up to 16. Half of it would not hold them.
pub(crate) const CHANGED_BYTES: u64 = 128;

/// Messages whose change needs no reservation, as for [`COPIED_FREE`].
pub(crate) const CHANGED_FREE: u64 = UNRESERVED_READ_BYTES / CHANGED_BYTES;

/// One account may have this part of the budget: four hostile accounts are needed to use it up.
const SHARE_DIVISOR: u64 = 4;

/// The longest wait of a command for its turn and its memory. It is as long as a read waits.
const COPIES_WITHIN: Duration = Duration::from_secs(30);

impl ImapService {
    /// Messages that one COPY, MOVE or RENAME of INBOX may take.
    pub(crate) fn copied_max(&self) -> u64 {
        self.options.copied_max.min((self.share() / COPIED_BYTES).max(COPIED_FREE))
    }

    /// Messages that one commit of a STORE or an EXPUNGE may take.
    pub(crate) fn changed_max(&self) -> u64 {
        (self.share() / CHANGED_BYTES).max(CHANGED_FREE)
    }

    /// Bytes that a command may take.
    fn share(&self) -> u64 {
        self.delivery.summaries().largest() as u64 / SHARE_DIVISOR
    }

    /// Waits for the memory to copy or move this many messages. The change must hold the permit
    /// until it has ended.
    pub(crate) async fn reserve_to_copy(
        &self,
        account: AccountId,
        messages: u64,
    ) -> Result<Option<HeldPermit>, Failure> {
        self.reserve_to_copy_within(account, messages, COPIES_WITHIN).await
    }

    async fn reserve_to_copy_within(
        &self,
        account: AccountId,
        messages: u64,
        within: Duration,
    ) -> Result<Option<HeldPermit>, Failure> {
        match messages <= COPIED_FREE {
            true => Ok(None),
            false => {
                self.reserve_within(account, messages.saturating_mul(COPIED_BYTES), within).await.map(Some)
            }
        }
    }

    /// Waits for the memory to change or expunge this many messages, or [`Self::changed_max`]. Each
    /// commit must hold the permit until it has ended.
    pub(crate) async fn reserve_to_change(
        &self,
        account: AccountId,
        messages: u64,
    ) -> Result<HeldPermit, Failure> {
        let bytes = messages.min(self.changed_max()).saturating_mul(CHANGED_BYTES);
        self.reserve_within(account, bytes, COPIES_WITHIN).await
    }

    async fn reserve_within(
        &self,
        account: AccountId,
        bytes: u64,
        within: Duration,
    ) -> Result<HeldPermit, Failure> {
        let began = Instant::now();
        // The wait for a turn comes first: the budget has a queue of its own, in which deliveries
        // wait.
        let Some(turn) = self.copies.acquire_within(account, within).await else { return Err(too_much()) };
        let permit = self.delivery.summaries().begin(Holder::Account(account.0.to_bytes()));
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let left = within.saturating_sub(began.elapsed());
        permit.grow_to_within(bytes, left).await.map_err(|_| too_much())?;
        // The permit is complete: it is returned soon, so nobody may evict it.
        permit.complete();
        Ok(Arc::new((turn, permit)))
    }
}

fn too_much() -> Failure {
    let text = "Too much is being copied or changed at the moment, try again later";
    Reply::no(Code::Unavailable, text).into()
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;
    use posthaste_net::ByteBudget;

    use super::*;
    use crate::size_tests::service_summarizing;

    #[tokio::test]
    async fn an_account_has_a_share_and_one_turn() {
        let messages = |count: u64| (count * COPIED_BYTES) as usize;
        let service = service_summarizing(ByteBudget::new(messages(4000)));
        let budget = service.delivery.summaries();
        let account = |n: u64| AccountId(Id::new(n, u128::from(n)));
        let reserve = |n, messages| service.reserve_to_copy_within(account(n), messages, Duration::ZERO);
        assert_eq!(service.copied_max(), 1000);
        let held = reserve(1, 1000).await.unwrap();
        assert!(held.is_some());
        assert_eq!(budget.available(), messages(3000));
        // Another command of the account waits, one of another account does not.
        assert!(reserve(1, 1000).await.is_err());
        let other = reserve(2, 1000).await.unwrap();
        assert_eq!(budget.available(), messages(2000));
        // A copy of few messages needs no memory of the budget.
        assert!(reserve(1, COPIED_FREE).await.unwrap().is_none());
        drop(held);
        let held = reserve(1, 1000).await.unwrap();
        drop((held, other));
        assert_eq!(budget.available(), messages(4000));
        // Deliveries may take the whole budget. Copies are then refused after their timeout.
        let delivery = budget.begin(Holder::Account([0; 16]));
        delivery.grow_to(messages(3500)).unwrap();
        delivery.complete();
        assert!(reserve(1, 1000).await.is_err());
        assert!(reserve(1, 400).await.unwrap().is_some());
    }
}
