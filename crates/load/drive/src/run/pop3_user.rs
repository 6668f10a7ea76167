//! The steps of a virtual user in a POP3 session.

use std::time::Instant;

use posthaste_load_workload::corpus::{Verdict, serial_token};
use posthaste_load_workload::{Messages, Transaction, TransactionStep};

use super::failure::Failure;
use super::maildrop::Maildrop;
use super::pop3::Pop3;
use super::user::User;

impl User {
    /// One session: log in, the steps, QUIT. Steps that need no maildrop are done without one.
    pub(super) async fn pop3_session(&mut self, transaction: usize) -> Result<(), Failure> {
        let shared = self.shared.clone();
        let Some(transaction) = shared.options.workload.transactions.get(transaction) else { return Ok(()) };
        if !transaction.steps.iter().any(TransactionStep::is_pop3) {
            return self.without_maildrop(transaction).await;
        }
        let start = Instant::now();
        let mut pop3 = Pop3::connect(&self.dialer(), &self.server().endpoint, self.source()).await?;
        pop3.login(&self.who.name, &self.who.password).await?;
        self.note_command("login", start, true);
        self.went_online();
        let mut drop = Maildrop::default();
        for step in &transaction.steps {
            let start = Instant::now();
            let done = self.pop3_step(&mut pop3, &mut drop, step).await;
            // These two steps send any number of commands, or none. Each is noted where it is sent.
            if !matches!(step, TransactionStep::Retr(_) | TransactionStep::Dele) {
                self.note_command(step.verb(), start, done.is_ok());
            }
            if let Err(failure) = done {
                self.went_offline();
                return Err(failure);
            }
        }
        let start = Instant::now();
        let bytes = pop3.quit().await;
        self.note_command("QUIT", start, bytes.is_ok());
        self.went_offline();
        let bytes = bytes?;
        self.used.bytes_beside.0 += bytes.0;
        self.used.bytes_beside.1 += bytes.1;
        self.remembered.after(&drop);
        if let Some(ledger) = &shared.ledger {
            drop.deleted.iter().for_each(|serial| ledger.removed(self.who.account, *serial));
        }
        Ok(())
    }

    async fn without_maildrop(&mut self, transaction: &Transaction) -> Result<(), Failure> {
        for step in &transaction.steps {
            let start = Instant::now();
            let done = self.step_beside(step).await;
            self.note_command(step.verb(), start, done.is_ok());
            done?;
        }
        Ok(())
    }

    /// A step that is not of POP3.
    async fn step_beside(&mut self, step: &TransactionStep) -> Result<(), Failure> {
        match step {
            TransactionStep::Send { to } => self.send(*to).await,
            TransactionStep::Pause(seconds) => {
                self.pause(*seconds).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn pop3_step(
        &mut self,
        pop3: &mut Pop3,
        drop: &mut Maildrop,
        step: &TransactionStep,
    ) -> Result<(), Failure> {
        match step {
            TransactionStep::Stat => {
                drop.stat = Some(pop3.stat().await?);
                Ok(())
            }
            TransactionStep::Uidl => self.pop3_list(pop3, drop).await,
            TransactionStep::Retr(which) => self.pop3_retrieve(pop3, drop, which).await,
            TransactionStep::Dele => {
                for (number, serial) in std::mem::take(&mut drop.retrieved) {
                    if let (Some(ledger), Some(serial)) = (&self.shared.ledger, serial) {
                        ledger.removing(self.who.account, serial);
                        drop.deleted.push(serial);
                    }
                    let start = Instant::now();
                    let done = pop3.command(&format!("DELE {number}")).await;
                    self.note_command(step.verb(), start, done.is_ok());
                    done?;
                    drop.delete(number);
                }
                Ok(())
            }
            _ => self.step_beside(step).await,
        }
    }

    async fn pop3_list(&mut self, pop3: &mut Pop3, drop: &mut Maildrop) -> Result<(), Failure> {
        pop3.command("UIDL").await?;
        let mut uidl = drop.uidl();
        pop3.lines(|line| uidl.line(line)).await?;
        let count = drop.list(uidl).map_err(Failure::Wrong)?;
        self.used.fetched += u64::from(count);
        Ok(())
    }

    /// The numbers of these messages. New ones are those whose unique-ids this user does not
    /// remember from earlier sessions.
    async fn pop3_numbers(
        &mut self,
        pop3: &mut Pop3,
        drop: &mut Maildrop,
        which: &Messages,
    ) -> Result<Vec<u32>, Failure> {
        if *which == Messages::New {
            if !drop.is_listed() {
                let start = Instant::now();
                let done = self.pop3_list(pop3, drop).await;
                self.note_command(TransactionStep::Uidl.verb(), start, done.is_ok());
                done?;
            }
            return Ok(drop.unknown(&self.remembered));
        }
        let count = match drop.stat {
            Some((count, _)) => count,
            None => pop3.stat().await?.0,
        };
        let first = match which {
            _ if count == 0 => return Ok(Vec::new()),
            Messages::One | Messages::Unseen => {
                return Ok(vec![1 + self.random.below(u64::from(count)) as u32]);
            }
            Messages::Last => count,
            Messages::LastN(n) | Messages::Range(n) => count.saturating_sub(n.saturating_sub(1)).max(1),
            Messages::All | Messages::New | Messages::Same | Messages::LastSame => 1,
        };
        Ok((first..=count).collect())
    }

    async fn pop3_retrieve(
        &mut self,
        pop3: &mut Pop3,
        drop: &mut Maildrop,
        which: &Messages,
    ) -> Result<(), Failure> {
        for number in self.pop3_numbers(pop3, drop, which).await? {
            let start = Instant::now();
            let done = pop3.retrieve(number).await;
            self.note_command("RETR", start, done.is_ok());
            let (verifier, _) = done?;
            self.used.fetched += 1;
            let serial = match verifier.verdict() {
                Verdict::Good(serial) => Some(serial),
                Verdict::Foreign => None,
                Verdict::Altered(serial, how) => {
                    let which = serial.map(serial_token).unwrap_or_default();
                    return Err(Failure::Wrong(format!("message {number} {which} was altered: {how}")));
                }
            };
            drop.read(&self.remembered, number, serial).map_err(Failure::Wrong)?;
        }
        Ok(())
    }
}
