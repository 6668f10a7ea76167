//! A mailbox to which several processes write.
//!
//! Each process reads it, makes a commit of what it saw, and sends the commit. Where another was
//! quicker, the store must answer with a conflict. A commit appends a message with a number of its
//! own, so that a state is known by the number of its last message. A process says what it saw and
//! what it is about to send ([`Sight`]) before it sends it. So the process that keeps the log knows
//! each state that others may see.

use std::sync::Arc;

use posthaste_mail_model::{BodyId, FlagSet, Id, MailboxId, MailboxName, NumSet, UidValidity};
use posthaste_store::{
    CommitOutcome, Content, Engine, MailboxEntry, MailboxList, NewMessage, Row, StoreError,
};
use posthaste_store_lmdb::LmdbEngine;

use super::sight::{Sight, States, account, fingerprint, shared_box};
use super::steps::finished;
use super::{Attempt, Driver, StepResult, Who, message, summarize};
use crate::model::{Change, ModelMailbox, World};
use crate::verify::{Violation, mailbox};

/// Times a mailbox is read again because another process changed it meanwhile.
const READINGS: usize = 8;

/// The commit on what was seen.
fn attempt(sight: Sight, seen: &Arc<ModelMailbox>) -> Attempt {
    let id = shared_box();
    let mut world = World::default();
    world.boxes.insert(id, Arc::clone(seen));
    let mut commit = Driver::commit_on(seen, id);
    let [first, second] = sight.choices;
    let uids: Vec<u32> = seen.messages.keys().copied().collect();
    // The last message stays: a state is known by it.
    if let Some((_, others)) = uids.split_last() {
        let chosen = others.get(second as usize % others.len().max(1)).copied();
        match (first % 4, chosen) {
            (0, Some(uid)) => {
                let taken: NumSet = std::iter::once(uid).collect();
                commit.expunged.push((commit.head.modseq, taken));
            }
            (1, Some(uid)) => {
                let flags = FlagSet::from_bits((second >> 32) & 31);
                let row = seen.messages.get(&uid).map(|m| m.row.with_flags(flags, commit.head.modseq));
                commit.changed.extend(row);
            }
            _ => {}
        }
    }
    let bytes = message(sight.number, (first >> 8) as usize % 900);
    let uid = commit.head.uid_next;
    commit.head.uid_next = uid.next().unwrap_or(uid);
    let row = Row::new(uid, bytes.len() as u32, sight.date, FlagSet::EMPTY, commit.head.modseq);
    let summary = summarize(&bytes).into();
    let content = Content::New { bytes, summary };
    let (body, created) = (body_of(sight.number), row.modseq());
    commit.appended.push(NewMessage { row, body, saved: 1, created, content });
    finished(&world, commit)
}

/// Its time is the number. The rest has little in common with other ids.
fn body_of(number: u64) -> BodyId {
    BodyId(Id::new(number, u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)))
}

/// The number of the last message.
fn number_of(held: &ModelMailbox) -> u64 {
    let Some((_, last)) = held.messages.last_key_value() else { return 0 };
    let mut time = [0; 8];
    time[2..].copy_from_slice(&last.body.0.to_bytes()[..6]);
    u64::from_be_bytes(time)
}

impl States {
    /// Notes what is about to be sent.
    pub(crate) fn expect(&self, sight: Sight) -> Result<(), Violation> {
        let (_, change) = attempt(sight, &self.seen(sight)?);
        if let Change::Mailbox(_, held) = change {
            self.insert(sight.number, held);
        }
        Ok(())
    }
}

impl Driver {
    /// The states that other processes may make, for a driver that follows a process.
    pub(crate) fn share(&mut self, states: &States) {
        self.states = Some(states.clone());
    }

    /// Mailboxes that no other process writes to.
    pub(super) fn own_boxes(&self) -> Vec<MailboxId> {
        let is_shared = |id: &MailboxId| self.shared.is_some() && *id == shared_box();
        self.known.certain.boxes.keys().copied().filter(|id| !is_shared(id)).collect()
    }

    /// Whether no other process has mailboxes in a list.
    pub(super) fn is_own_list(&self, list: &MailboxList) -> bool {
        self.shared.is_none() || list.account != account()
    }

    /// Whether the next step is a commit on the mailbox that all processes share.
    pub(super) fn is_shared_next(&mut self) -> bool {
        self.shared.as_mut().is_some_and(|part| part.random.chance(30))
    }

    /// A commit on the mailbox that all processes share.
    pub(super) async fn write_shared(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let Some(part) = &mut self.shared else { return Ok(()) };
        let choices = [part.random.draw(), part.random.draw()];
        if self.actor == 0 && !self.known.certain.lists.contains_key(&account()) {
            return self.create_shared(engine).await;
        }
        self.ids += 1;
        let start = self.now();
        let Some((sight, held)) = self.see(engine, choices).await? else {
            self.moment("look at the shared mailbox".into(), start, Vec::new());
            return Ok(());
        };
        self.known.saw(shared_box(), held.clone()).map_err(|why| format!("the shared mailbox {why}"))?;
        self.forget_outdated(&held);
        let (request, change) = attempt(sight, &held);
        let outcome = self.outcomes(engine, vec![request]).await.pop();
        match &outcome {
            Some(Ok(CommitOutcome::Done)) => {
                self.known.done(&change);
                if let Change::Mailbox(_, held) = &change {
                    self.forget_outdated(held);
                }
            }
            Some(Ok(CommitOutcome::Conflict) | Err(StoreError::NoMailbox(_))) | None => {}
            Some(Err(error)) => {
                if engine.is_some() {
                    self.excuse("a commit on the shared mailbox", error)?;
                }
                self.shared.iter_mut().for_each(|part| part.doubts.push(change.clone()));
            }
        }
        let what = format!("message {} to the shared mailbox: {outcome:?}", sight.number);
        self.moment(what, start, vec![change]);
        Ok(())
    }

    /// Forgets commits that were not answered and cannot happen any more.
    fn forget_outdated(&mut self, now: &ModelMailbox) {
        let may_happen = |change: &Change| matches!(change, Change::Mailbox(_, held) if held.head.modseq > now.head.modseq);
        self.shared.iter_mut().for_each(|part| part.doubts.retain(may_happen));
    }

    /// Reads the mailbox, and notes what was seen. `None` if it is not there, or changes during
    /// each reading.
    async fn see(
        &mut self,
        engine: Who<'_>,
        choices: [u64; 2],
    ) -> Result<Option<(Sight, Arc<ModelMailbox>)>, Violation> {
        let Some(engine) = engine else {
            let Some(StepResult::Saw(sight)) = self.next_remote_result() else { return Ok(None) };
            let Some(states) = &self.states else { return Ok(None) };
            return Ok(Some((sight, states.seen(sight)?)));
        };
        let Some(held) = self.read_shared(engine).await? else {
            self.publish(StepResult::Nothing);
            return Ok(None);
        };
        let (number, date) = (self.ids, self.passing.date());
        let sight = Sight { seen: number_of(&held), fingerprint: fingerprint(&held), number, choices, date };
        self.publish(StepResult::Saw(sight));
        Ok(Some((sight, Arc::new(held))))
    }

    async fn read_shared(&self, engine: &LmdbEngine) -> Result<Option<ModelMailbox>, Violation> {
        let id = shared_box();
        for _ in 0..READINGS {
            let before = engine.heads(&[id]).await;
            let read = mailbox(engine, id).await;
            let after = engine.heads(&[id]).await;
            if !matches!((&before, &after), (Ok(before), Ok(after)) if before == after) && read.is_ok() {
                continue;
            }
            match read {
                Ok(held) => return Ok(held),
                Err(error) if error.is_temporary() => {
                    self.excuse("reading the shared mailbox", &error)?;
                    return Ok(None);
                }
                Err(error) if matches!((before, after), (Ok(b), Ok(a)) if b == a) => {
                    return Err(format!("reading the shared mailbox: {error}"));
                }
                Err(_) => {}
            }
        }
        Ok(None)
    }

    async fn create_shared(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let mut commit = self.list_commit(account());
        commit.uid_validity_last += 1;
        let names = (MailboxName::new("shared"), UidValidity::new(commit.uid_validity_last));
        let (Ok(name), Some(uid_validity)) = names else { return Ok(()) };
        commit.upsert.push(MailboxEntry { id: shared_box(), name, uid_validity, special_use: None });
        let requested = self.list_change(commit);
        self.submit(engine, "create the shared mailbox".into(), vec![requested]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_known_by_its_last_message() {
        let states = States::default();
        let (mut seen, mut held) = (0, Arc::new(ModelMailbox::default()));
        for number in 1..30 {
            let choices = [number * 5 + 256 * number, number << 33 | number];
            let sight = Sight { seen, fingerprint: fingerprint(&held), number, choices, date: 9 };
            states.expect(sight).unwrap();
            seen = number;
            held = states.get(number).unwrap();
            assert_eq!(number_of(&held), number);
        }
        assert!(!held.expunged.is_empty() && !held.messages.is_empty());
        let choices = [0, 0];
        let wrong = Sight { seen, fingerprint: 1, number: 99, choices, date: 9 };
        assert!(states.expect(wrong).unwrap_err().contains("no commit has made"));
        assert!(states.expect(Sight { seen: 77, ..wrong }).unwrap_err().contains("nobody has sent"));
    }
}
