//! The steps of a transaction, one after the other; and whether the mailboxes allow them.

use std::time::{Duration, Instant};

use posthaste_load_workload::{Mailbox, Messages, TransactionStep};

use super::failure::Failure;
use super::session::Expected;
use super::user::User;

impl User {
    /// Does all steps of a transaction.
    pub(super) async fn steps(&mut self, transaction: usize) -> Result<(), Failure> {
        self.used.slowest = ("", Duration::ZERO);
        let shared = self.shared.clone();
        let Some(transaction) = shared.options.workload.transactions.get(transaction) else { return Ok(()) };
        for step in &transaction.steps {
            self.timed_step(step).await?;
        }
        Ok(())
    }

    /// One step, its time kept by command.
    pub(super) async fn timed_step(&mut self, step: &TransactionStep) -> Result<(), Failure> {
        let start = Instant::now();
        let done = self.step(step).await;
        self.note_command(step.verb(), start, done.is_ok());
        done
    }

    /// One step.
    pub(super) async fn step(&mut self, step: &TransactionStep) -> Result<(), Failure> {
        match step {
            TransactionStep::Capability => self.command("CAPABILITY", Expected::default()).await.map(drop),
            TransactionStep::Raw(command) => self.command(command, Expected::default()).await.map(drop),
            TransactionStep::Noop => self.command("NOOP", Expected::default()).await.map(drop),
            TransactionStep::Check => self.command("CHECK", Expected::default()).await.map(drop),
            TransactionStep::List(pattern) => self.list(pattern).await,
            TransactionStep::Status(mailbox, items) => self.status(mailbox, items).await,
            TransactionStep::Select { mailbox, examine } => self.select(mailbox, *examine).await,
            TransactionStep::Unselect => {
                let done = self.command("UNSELECT", Expected::default()).await.map(drop);
                self.model.current = None;
                done
            }
            TransactionStep::Fetch(messages, items) => self.fetch(messages, items).await,
            TransactionStep::Search(criterion) => self.search(criterion).await,
            TransactionStep::Store { messages, how, flags } => self.store(messages, how, flags).await,
            TransactionStep::Copy(messages, to) => self.copy(messages, to).await,
            TransactionStep::Move(messages, to) => self.r#move(messages, to).await,
            TransactionStep::Expunge => self.expunge().await,
            TransactionStep::Append(mailbox) => self.append(mailbox).await,
            TransactionStep::Create => self.create().await,
            TransactionStep::Delete => self.delete().await,
            TransactionStep::Rename => self.rename().await,
            TransactionStep::Idle(seconds) => self.idle(*seconds).await,
            TransactionStep::Send { to } => self.send(*to).await,
            TransactionStep::AwaitDelivery(seconds) => self.await_delivery(*seconds).await,
            TransactionStep::Pause(seconds) => {
                self.pause(*seconds).await;
                Ok(())
            }
            // The reader of workload files refuses these steps in other sessions than POP3.
            TransactionStep::Stat
            | TransactionStep::Uidl
            | TransactionStep::Retr(_)
            | TransactionStep::Dele => Ok(()),
        }
    }

    /// Whether the mailboxes allow a transaction: thresholds kept, something there to work on.
    pub(super) fn is_possible(&mut self, transaction: usize) -> bool {
        let shared = self.shared.clone();
        let workload = &shared.options.workload;
        let Some(transaction) = workload.transactions.get(transaction) else { return false };
        let removes = transaction
            .steps
            .iter()
            .any(|s| matches!(s, TransactionStep::Expunge | TransactionStep::Move(..)));
        let adds = |s: &TransactionStep| matches!(s, TransactionStep::Store { .. });
        let removes = removes
            && (transaction.steps.iter().any(adds)
                || transaction.steps.iter().any(|s| matches!(s, TransactionStep::Move(..))));
        for step in &transaction.steps {
            let here = self.model.here().map_or(0, |m| m.messages.len() as u32);
            let boxes = self.model.mailboxes.len() as u32;
            let fine = match step {
                TransactionStep::Select { mailbox: Mailbox::Fresh, .. } => {
                    return self.model.fresh().is_some();
                }
                TransactionStep::Select { .. } => return true,
                TransactionStep::Raw(_) => self.is_offered(step),
                TransactionStep::Create => boxes < workload.mailboxes.max,
                TransactionStep::Delete | TransactionStep::Rename => {
                    let enough = boxes > workload.mailboxes.min || matches!(step, TransactionStep::Rename);
                    let mut known = self.random.clone();
                    let candidate = self.model.expendable(&mut known);
                    let audited = shared.ledger.is_some() && matches!(step, TransactionStep::Delete);
                    let listed = candidate
                        .and_then(|at| self.model.mailboxes.get(at))
                        .is_some_and(|m| m.is_known() && m.messages.iter().all(|m| m.serial != 0));
                    enough && candidate.is_some() && (!audited || listed)
                }
                TransactionStep::Copy(..) | TransactionStep::Move(..) => {
                    here > 0
                        && self
                            .model
                            .random(&mut self.random.clone(), self.model.current, workload.messages.max)
                            .is_some()
                }
                TransactionStep::Fetch(Messages::All | Messages::New, _) => self.model.current.is_some(),
                TransactionStep::Fetch(Messages::Unseen, _) => self
                    .model
                    .here()
                    .is_some_and(|m| m.messages.iter().any(|m| m.flags.is_some_and(|f| f & 1 == 0))),
                TransactionStep::Fetch(..) | TransactionStep::Store { .. } => here > 0,
                TransactionStep::Search(_) => self.model.current.is_some_and(|_| here > 0),
                _ => true,
            };
            if !fine || (removes && here <= workload.messages.min) {
                return false;
            }
        }
        true
    }
}
