//! Does what the run of a script wants: files the message, sends mail and remembers it.

use std::sync::Arc;

use posthaste_delivery::DeliveryError;
use posthaste_directory::Recipient;
use posthaste_sieve::{Effect, Outcome};

use crate::file::Filing;
use crate::filter::{Filter, Served};
use crate::mail::Mail;
use crate::script_refusal::ScriptRefusal;

impl Filter {
    /// Does what a run wants. Its permit is released: mail that the script sends may run the script
    /// of the same account.
    pub(crate) async fn carry_out(
        &self,
        filing: &mut Filing<'_>,
        recipient: &Recipient,
        outcome: Outcome,
        mail: Mail<'_>,
    ) -> Served {
        let account = recipient.account.name.as_str();
        let active = recipient.account.scripts.active.as_deref();
        let bytes = outcome.memory_bytes();
        let Some(_held) = self.runs.hold(&self.delivery, recipient.account.id, bytes) else {
            tracing::warn!(
                account,
                script = active,
                "too many long outcomes of Sieve scripts: the message is deferred"
            );
            return Served::Failed(DeliveryError::Busy);
        };
        for note in &outcome.notes {
            tracing::debug!(account, script = active, note, "a Sieve script skipped an action");
        }
        // The script may have waited for its turn.
        let filed = match mail.chain.check_lease() {
            Ok(()) => filing.file(&outcome).await,
            lost => lost,
        };
        if let Err(error) = filed {
            return Served::Failed(error);
        }
        let sends = Arc::clone(&filing.sends);
        let done = match self.send_all(filing, recipient, &outcome, mail.counted(&sends)).await {
            Ok(()) => Served::Kept(filing.success(&outcome)),
            Err(error) => {
                tracing::warn!(
                    account,
                    script = active,
                    error = error.to_string(),
                    "a Sieve script's mail is not sent: the message is kept"
                );
                filing.keep_as_it_came().await.into()
            }
        };
        self.remember_all(recipient, &outcome).await;
        let refusal = outcome.effects.into_iter().find_map(|effect| match effect {
            Effect::Reject { reason, is_strict } => Some(ScriptRefusal { reason, is_strict }),
            _ => None,
        });
        match (done, refusal) {
            (Served::Kept(_), Some(refusal)) => Served::Rejected(refusal),
            (done, _) => done,
        }
    }
}
