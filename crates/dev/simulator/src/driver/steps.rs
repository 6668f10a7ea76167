//! The steps: the requests of clients, deliveries and maintenance to a store.

use std::collections::BTreeSet;
use std::sync::Arc;

use posthaste_mail_model::{AccountId, FlagSet, Id, Keyword, MailboxId, MailboxName, NumSet, UidValidity};
use posthaste_store::{
    Content, DirectoryChange, Engine, ListCommit, MailboxCommit, MailboxEntry, MailboxHead, NewMessage, Row,
};

use super::{Attempt, Driver, Request, StepResult, Who, message, summarize};
use crate::model::{Change, Message, ModelMailbox, Unit, World};
use crate::verify::Violation;

impl Driver {
    pub(super) async fn step(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        self.time_passes(engine).await?;
        if self.is_shared_next() {
            return self.write_shared(engine).await;
        }
        if self.own_boxes().is_empty() {
            return self.create(engine).await;
        }
        match self.random.below(100) {
            0..24 => self.append(engine).await,
            24..28 => self.append_many(engine).await,
            28..33 => self.deliver(engine).await,
            33..45 => self.flag(engine).await,
            45..52 => self.copy(engine, 8).await,
            52..58 => self.copy(engine, 80).await,
            58..63 => self.move_some(engine).await,
            63..73 => self.expunge(engine).await,
            73..76 => self.create(engine).await,
            76..78 => self.remove(engine).await,
            78..80 => self.rename(engine).await,
            80..85 => self.record(engine).await,
            85..92 => self.maintain(engine).await,
            92..96 => self.group(engine).await,
            _ => self.read(engine).await,
        }
    }

    fn a_box(&mut self) -> MailboxId {
        let boxes = self.own_boxes();
        self.random.pick(&boxes).copied().unwrap_or(MailboxId(Id::new(0, 0)))
    }

    fn held(&self, id: MailboxId) -> Arc<ModelMailbox> {
        self.known.certain.boxes.get(&id).cloned().unwrap_or_default()
    }

    fn some_uids(&mut self, id: MailboxId, most: usize) -> Vec<u32> {
        let uids: Vec<u32> = self.held(id).messages.keys().copied().collect();
        if uids.is_empty() {
            return uids;
        }
        let from = self.random.below(uids.len());
        let count = 1 + self.random.below(most);
        let every = if self.random.chance(70) { 1 } else { 2 };
        uids.into_iter().skip(from).step_by(every).take(count).collect()
    }

    fn new_message(&mut self, from: &mut MailboxHead) -> NewMessage {
        let len = match self.random.below(20) {
            0 => 70_000 + self.random.below(5_000),
            1 => 0,
            2..6 => self.random.below(6_000),
            _ => self.random.below(900),
        };
        let body = self.body_id();
        let bytes = message(self.ids, len);
        let uid = from.uid_next;
        from.uid_next = uid.next().unwrap_or(uid);
        let flags = if self.random.chance(20) { FlagSet::SEEN } else { FlagSet::EMPTY };
        let row = Row::new(uid, len as u32, self.passing.date(), flags, from.modseq);
        let summary = summarize(&bytes).into();
        let (saved, created) = (self.passing.saved(1), row.modseq());
        NewMessage { row, body, saved, created, content: Content::New { bytes, summary } }
    }

    pub(super) fn commit_on(held: &ModelMailbox, mailbox: MailboxId) -> MailboxCommit {
        let expected = held.head.modseq;
        let head = MailboxHead { modseq: expected.next(), ..held.head.clone() };
        MailboxCommit { mailbox, expected, head, appended: vec![], changed: vec![], expunged: vec![] }
    }

    fn append_to(&mut self, world: &World, to: MailboxId, count: usize) -> Attempt {
        let held = world.boxes.get(&to).cloned().unwrap_or_default();
        let mut commit = Self::commit_on(&held, to);
        for _ in 0..count {
            let new = self.new_message(&mut commit.head);
            commit.appended.push(new);
        }
        finished(world, commit)
    }

    async fn append(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let to = self.a_box();
        let count = 1 + self.random.below(3);
        let requested = self.append_to(&self.known.certain.clone(), to, count);
        self.submit(engine, format!("append {count} to {to}"), vec![requested]).await
    }

    async fn append_many(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let to = self.a_box();
        let count = 34 + self.random.below(30);
        let requested = self.append_to(&self.known.certain.clone(), to, count);
        self.submit(engine, format!("append {count} to {to}"), vec![requested]).await
    }

    /// One body to two mailboxes, as a message for two recipients comes.
    async fn deliver(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let (first, second) = (self.a_box(), self.a_box());
        let requested = self.append_to(&self.known.certain.clone(), first, 1);
        let Request::Mailbox(commit) = &requested.0 else { return Ok(()) };
        let Some(new) = commit.appended.first().cloned() else { return Ok(()) };
        self.submit(engine, format!("deliver to {first}"), vec![requested]).await?;
        // A removal that was not answered may have been found meanwhile.
        if !self.known.certain.boxes.contains_key(&second) {
            return Ok(());
        }
        let mut commit = Self::commit_on(&self.held(second), second);
        let uid = commit.head.uid_next;
        commit.head.uid_next = uid.next().unwrap_or(uid);
        let row = Row::new(uid, new.row.size(), new.row.date(), FlagSet::EMPTY, commit.head.modseq);
        commit.appended.push(NewMessage { row, created: row.modseq(), ..new });
        let requested = finished(&self.known.certain, commit);
        self.submit(engine, format!("deliver the same to {second}"), vec![requested]).await
    }

    async fn flag(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let id = self.a_box();
        let uids = self.some_uids(id, 30);
        let held = self.held(id);
        let mut commit = Self::commit_on(&held, id);
        let mut flags = FlagSet::from_bits(self.random.draw() & 31);
        if self.random.chance(30) {
            let mut table = (*commit.head.keywords).clone();
            let keyword = Keyword::new(&format!("$Word{}", self.random.below(12)));
            if let Some(slot) =
                keyword.ok().and_then(|k| table.slot_or_insert(&k, FlagSet::from_bits(u64::MAX)).ok())
            {
                flags = flags.union(FlagSet::keyword(slot));
                commit.head.keywords = Arc::new(table);
            }
        }
        let rows = uids.iter().filter_map(|uid| held.messages.get(uid));
        commit.changed = rows.map(|m| m.row.with_flags(flags, commit.head.modseq)).collect();
        let requested = finished(&self.known.certain, commit);
        self.submit(engine, format!("flag {} in {id}", uids.len()), vec![requested]).await
    }

    fn copying(&mut self, from: MailboxId, uids: &[u32], to: MailboxId) -> Attempt {
        let source = self.held(from);
        let mut commit = Self::commit_on(&self.held(to), to);
        for message in uids.iter().filter_map(|uid| source.messages.get(uid)) {
            let uid = commit.head.uid_next;
            commit.head.uid_next = uid.next().unwrap_or(uid);
            let old = message.row;
            let system = FlagSet::from_bits(old.flags().bits() & 31);
            let row = Row::new(uid, old.size(), old.date(), system, commit.head.modseq);
            let content = Content::CopyOf { mailbox: from, uid: old.uid() };
            commit.appended.push(NewMessage {
                row,
                body: message.body,
                saved: self.passing.saved(2),
                created: row.modseq(),
                content,
            });
        }
        finished(&self.known.certain, commit)
    }

    async fn copy(&mut self, engine: Who<'_>, most: usize) -> Result<(), Violation> {
        let (from, to) = (self.a_box(), self.a_box());
        let uids = self.some_uids(from, most);
        let requested = self.copying(from, &uids, to);
        self.submit(engine, format!("copy {} from {from} to {to}", uids.len()), vec![requested]).await
    }

    async fn move_some(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let (from, to) = (self.a_box(), self.a_box());
        let uids = self.some_uids(from, 40);
        let requested = self.copying(from, &uids, to);
        self.submit(engine, format!("move {} from {from} to {to}: copy", uids.len()), vec![requested])
            .await?;
        self.expunge_these(engine, from, &uids).await
    }

    async fn expunge_these(
        &mut self,
        engine: Who<'_>,
        from: MailboxId,
        uids: &[u32],
    ) -> Result<(), Violation> {
        if !self.known.certain.boxes.contains_key(&from) {
            return Ok(());
        }
        let held = self.held(from);
        let set: NumSet = uids.iter().copied().filter(|uid| held.messages.contains_key(uid)).collect();
        let mut commit = Self::commit_on(&held, from);
        if !set.is_empty() {
            commit.expunged.push((commit.head.modseq, set));
        }
        let requested = finished(&self.known.certain, commit);
        self.submit(engine, format!("expunge {} from {from}", uids.len()), vec![requested]).await
    }

    async fn expunge(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let from = self.a_box();
        let uids = self.some_uids(from, 70);
        self.expunge_these(engine, from, &uids).await
    }

    fn an_account(&mut self) -> AccountId {
        AccountId(Id::new((10 * self.actor + 1 + self.random.below(3)) as u64, 0))
    }

    pub(super) fn list_commit(&self, account: AccountId) -> ListCommit {
        let list = self.known.certain.list(account);
        ListCommit {
            account,
            expected: list.version,
            version: list.version.next(),
            upsert: Vec::new(),
            remove: Vec::new(),
            subscribe: Vec::new(),
            unsubscribe: Vec::new(),
            uid_validity_last: list.uid_validity_last,
        }
    }

    pub(super) fn list_change(&self, commit: ListCommit) -> Attempt {
        let list = self.known.certain.list(commit.account);
        let came = commit.upsert.iter().map(|e| e.id).filter(|id| !list.entries.iter().any(|e| e.id == *id));
        let change = Change::List(Arc::new(list.apply(&commit)), came.collect(), commit.remove.clone());
        (Request::List(commit), change)
    }

    async fn create(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let account = self.an_account();
        let mut commit = self.list_commit(account);
        let id = MailboxId(self.id());
        commit.uid_validity_last += 1;
        let name = MailboxName::new(&format!("box {}", self.ids));
        let (Ok(name), Some(uid_validity)) = (name, UidValidity::new(commit.uid_validity_last)) else {
            return Ok(());
        };
        commit.subscribe.push(name.clone());
        commit.upsert.push(MailboxEntry { id, name, uid_validity, special_use: None });
        let requested = self.list_change(commit);
        self.submit(engine, format!("create {id}"), vec![requested]).await
    }

    async fn remove(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let Some((account, entry)) = self.an_entry() else { return Ok(()) };
        if self.known.certain.boxes.len() < 3 {
            return Ok(());
        }
        let mut commit = self.list_commit(account);
        commit.remove.push(entry.id);
        commit.unsubscribe.push(entry.name);
        let requested = self.list_change(commit);
        self.submit(engine, format!("remove {}", entry.id), vec![requested]).await
    }

    async fn rename(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let Some((account, entry)) = self.an_entry() else { return Ok(()) };
        let mut commit = self.list_commit(account);
        self.ids += 1;
        let Ok(name) = MailboxName::new(&format!("renamed {}", self.ids)) else { return Ok(()) };
        let what = format!("rename {}", entry.id);
        commit.upsert.push(MailboxEntry { name, ..entry });
        let requested = self.list_change(commit);
        self.submit(engine, what, vec![requested]).await
    }

    fn an_entry(&mut self) -> Option<(AccountId, MailboxEntry)> {
        let lists = self.known.certain.lists.values().filter(|list| self.is_own_list(list));
        let all: Vec<_> = lists.flat_map(|l| l.entries.iter().map(|e| (l.account, e.clone()))).collect();
        self.random.pick(&all).cloned()
    }

    async fn record(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let name = format!("account/{}", 10 * self.actor + self.random.below(4));
        let there = self.known.certain.directory.get(&name).map(|(version, _)| *version);
        let expected = there.unwrap_or(0);
        let removed = there.is_some() && self.random.chance(20);
        let value = (!removed).then(|| message(self.random.draw() % 1_000, 60));
        let record = value.clone().map(|value| (expected + 1, value));
        let change = DirectoryChange { name: name.clone(), expected, value };
        let requested = (Request::Record(change), Change::Record(name.clone(), record));
        self.submit(engine, format!("set {name}"), vec![requested]).await
    }

    async fn maintain(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        for _ in 0..1 + self.random.below(12) {
            let start = self.now();
            let Some(engine) = engine else {
                match self.next_remote_result() {
                    Some(StepResult::More) => continue,
                    _ => break,
                }
            };
            let done = engine.maintain().await;
            let rest = done.as_ref().map_or(true, |r| !r.faults.is_empty() || r.examined > 0);
            self.publish(if rest { StepResult::More } else { StepResult::Nothing });
            self.moment("maintain".into(), start, Vec::new());
            match done {
                Ok(report) if report.faults.is_empty() && report.examined == 0 => break,
                Ok(report) => match report.faults.first() {
                    Some(fault) if !self.faulty => return Err(format!("maintenance finds a fault: {fault}")),
                    _ => {}
                },
                Err(error) => self.excuse("maintenance", &error)?,
            }
        }
        Ok(())
    }

    /// Commits on several mailboxes, and on one, at the same time.
    async fn group(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let mut world = self.known.certain.clone();
        let mut requested = Vec::new();
        let mut taken = BTreeSet::new();
        for _ in 0..2 + self.random.below(4) {
            let to = self.a_box();
            // A commit that was not answered may yet be found in the mailbox. If two commits follow
            // on that mailbox, the first meets a conflict. The second fits the mod-sequence of the
            // mailbox found, though it was not made for that state. No server sends the second
            // before the first is answered.
            let is_open = self.known.doubts.iter().any(|doubt| doubt.unit() == Unit::Mailbox(to));
            if !taken.insert(to) && is_open {
                continue;
            }
            let one = self.append_to(&world, to, 1);
            world.apply(&one.1);
            requested.push(one);
        }
        self.submit(engine, format!("append {} at once", requested.len()), requested).await
    }

    /// Time passes: the index follows. The read contents must be the known ones.
    async fn read(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let id = self.a_box();
        let start = self.now();
        self.observe(engine, &Unit::Mailbox(id)).await?;
        self.moment(format!("read {id}"), start, Vec::new());
        Ok(())
    }
}

/// A commit whose head's counts fit, and the mailbox after it.
pub(super) fn finished(world: &World, mut commit: MailboxCommit) -> Attempt {
    let mut held = world.boxes.get(&commit.mailbox).map(|h| (**h).clone()).unwrap_or_default();
    for row in &commit.changed {
        if let Some(message) = held.messages.get_mut(&row.uid().value()) {
            message.row = *row;
        }
    }
    for (_, expunged) in &commit.expunged {
        held.messages.retain(|uid, _| !expunged.contains(*uid));
        held.expunged = held.expunged.union(expunged);
    }
    for new in &commit.appended {
        let (bytes, summary) = match &new.content {
            Content::New { bytes, summary } => (bytes.clone(), summary.clone()),
            Content::CopyOf { mailbox, uid } => {
                let original = world.boxes.get(mailbox).and_then(|h| h.messages.get(&uid.value()));
                original.map(|m| (m.bytes.clone(), m.summary.clone())).unwrap_or_default()
            }
        };
        let &NewMessage { row, body, saved, created, .. } = new;
        let message = Message { row, body, saved, created, bytes, summary };
        held.messages.insert(new.row.uid().value(), message);
    }
    commit.head.counts = held.counts();
    held.head = commit.head.clone();
    let change = Change::Mailbox(commit.mailbox, Arc::new(held));
    (Request::Mailbox(commit), change)
}
