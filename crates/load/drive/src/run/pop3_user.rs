//! The steps of a virtual user in a POP3 session.

use std::time::Instant;

use posthaste_load_workload::corpus::{Serial, Verdict, serial_token};
use posthaste_load_workload::{Messages, Step};

use super::failure::Failure;
use super::pop3::Pop3;
use super::user::User;

/// The maildrop as the session knows it.
#[derive(Default)]
struct Maildrop {
    /// STAT: messages and bytes.
    stat: Option<(u32, u64)>,
    /// Messages retrieved, with their serials if they are ours.
    retrieved: Vec<(u32, Option<Serial>)>,
    /// Those marked deleted; the server removes them at QUIT.
    deleted: Vec<Serial>,
}

impl User {
    /// One session: log in, the steps, QUIT.
    pub(super) async fn pop3_session(&mut self, transaction: usize) -> Result<(), Failure> {
        let shared = self.shared.clone();
        let options = &shared.options;
        let start = Instant::now();
        let mut pop3 = Pop3::connect(&self.dialer(), &self.server().endpoint, self.source()).await?;
        pop3.login(&self.who.name, &self.who.password).await?;
        self.note_command("login", start, true);
        self.went_online();
        let mut drop = Maildrop::default();
        let Some(transaction) = options.workload.transactions.get(transaction) else { return Ok(()) };
        for step in &transaction.steps {
            let start = Instant::now();
            let done = self.pop3_step(&mut pop3, &mut drop, step).await;
            // These two are any number of commands, none included: each is noted where it is given.
            if !matches!(step, Step::Retr(_) | Step::Dele) {
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
        if let Some(ledger) = &shared.ledger {
            drop.deleted.iter().for_each(|serial| ledger.removed(self.who.account, *serial));
        }
        Ok(())
    }

    async fn pop3_step(&mut self, pop3: &mut Pop3, drop: &mut Maildrop, step: &Step) -> Result<(), Failure> {
        match step {
            Step::Stat => {
                drop.stat = Some(pop3.stat().await?);
                Ok(())
            }
            Step::Uidl => {
                pop3.command("UIDL").await?;
                let (mut count, mut in_order) = (0u32, true);
                pop3.lines(|line| {
                    count += 1;
                    in_order &= line.starts_with(format!("{count} ").as_bytes());
                })
                .await?;
                self.used.fetched += u64::from(count);
                let stat = drop.stat.map_or(count, |s| s.0);
                if count == stat && in_order {
                    return Ok(());
                }
                Err(Failure::Wrong(format!(
                    "UIDL lists {count} messages (in order: {in_order}), STAT has {stat}"
                )))
            }
            Step::Retr(which) => self.pop3_retrieve(pop3, drop, which).await,
            Step::Dele => {
                for (number, serial) in std::mem::take(&mut drop.retrieved) {
                    if let (Some(ledger), Some(serial)) = (&self.shared.ledger, serial) {
                        ledger.removing(self.who.account, serial);
                        drop.deleted.push(serial);
                    }
                    let start = Instant::now();
                    let done = pop3.command(&format!("DELE {number}")).await;
                    self.note_command(step.verb(), start, done.is_ok());
                    done?;
                }
                Ok(())
            }
            Step::Send { to } => self.send(*to).await,
            Step::Pause(seconds) => {
                self.pause(*seconds).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn pop3_retrieve(
        &mut self,
        pop3: &mut Pop3,
        drop: &mut Maildrop,
        which: &Messages,
    ) -> Result<(), Failure> {
        let count = match drop.stat {
            Some((count, _)) => count,
            None => pop3.stat().await?.0,
        };
        if count == 0 {
            return Ok(());
        }
        let numbers = match which {
            Messages::One | Messages::Unseen => {
                let n = 1 + self.random.below(u64::from(count)) as u32;
                n..=n
            }
            Messages::Last => count..=count,
            Messages::LastN(n) | Messages::Range(n) => {
                count.saturating_sub(n.saturating_sub(1)).max(1)..=count
            }
            Messages::All | Messages::New | Messages::Same => 1..=count,
        };
        for number in numbers {
            let start = Instant::now();
            let done = pop3.retrieve(number).await;
            self.note_command("RETR", start, done.is_ok());
            let (verifier, _) = done?;
            self.used.fetched += 1;
            match verifier.verdict() {
                Verdict::Good(serial) => drop.retrieved.push((number, Some(serial))),
                Verdict::Foreign => drop.retrieved.push((number, None)),
                Verdict::Altered(serial, how) => {
                    let which = serial.map(serial_token).unwrap_or_default();
                    return Err(Failure::Wrong(format!("message {number} {which} was altered: {how}")));
                }
            }
        }
        Ok(())
    }
}
