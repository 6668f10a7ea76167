//! Compares a store with its known contents.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bytes::Bytes;
use posthaste_mail_model::{AccountId, MailboxId, ModSeq, NumSet};
use posthaste_store::{Engine, Result, Row, StoreError, Stored};

use crate::model::{Change, Knowledge, Message, ModelMailbox, Unit};

/// The violation that was found, in a sentence.
pub type Violation = String;

/// Times a mailbox is read again because it changed meanwhile.
const READINGS: usize = 4;

/// A mailbox as a client can read it; `None` if it was removed. If it changes while it is read, it
/// is read again. Another process may find a commit that was refused to its own process, where the
/// sync of a pack failed.
pub async fn mailbox(engine: &dyn Engine, id: MailboxId) -> Result<Option<ModelMailbox>> {
    for _ in 1..READINGS {
        let before = engine.heads(&[id]).await?;
        let read = read_mailbox(engine, id).await;
        if engine.heads(&[id]).await? == before {
            return read;
        }
    }
    read_mailbox(engine, id).await
}

async fn read_mailbox(engine: &dyn Engine, id: MailboxId) -> Result<Option<ModelMailbox>> {
    let Some(head) = engine.heads(&[id]).await?.pop().flatten() else { return Ok(None) };
    let mut rows: Vec<Row> = Vec::new();
    let loaded = engine.load(id, &mut |slice| rows.extend_from_slice(slice)).await?;
    if loaded != head {
        return Err(StoreError::Corrupt(format!("mailbox {id}: two readings of the head differ")));
    }
    let mut stored = Vec::new();
    let mut visit = |s: Stored<'_>| {
        stored.push((s.uid, s.body, s.saved, s.created, Bytes::copy_from_slice(s.summary)));
        ControlFlow::Continue(())
    };
    engine.summaries(id, &NumSet::range(1, u32::MAX), &mut visit).await?.refuse()?;
    if !rows.iter().map(Row::uid).eq(stored.iter().map(|s| s.0)) {
        return Err(StoreError::Corrupt(format!("mailbox {id}: rows and summaries name different messages")));
    }
    let changes = engine.changes_since(id, ModSeq::ZERO).await?;
    if changes.rows != rows || !changes.complete {
        return Err(StoreError::Corrupt(format!("mailbox {id}: the changes since ever are not the rows")));
    }
    let mut held = ModelMailbox { head, expunged: changes.expunged, ..ModelMailbox::default() };
    for (row, (uid, body, saved, created, summary)) in rows.into_iter().zip(stored) {
        let bytes = engine.read_body(body, 0..u64::MAX).await?;
        held.messages.insert(uid.value(), Message { row, body, saved, created, bytes, summary });
    }
    Ok(Some(held))
}

fn unreadable(error: &StoreError) -> Violation {
    format!("cannot be read: {error}")
}

async fn find_list(
    engine: &dyn Engine,
    known: &Knowledge,
    account: AccountId,
) -> Result<Option<usize>, Violation> {
    let there = engine.load_list(account).await.map_err(|e| format!("list {account}: {}", unreadable(&e)))?;
    let wanted = known.certain.list(account);
    if there == wanted {
        return Ok(None);
    }
    let doubt =
        known.doubts.iter().position(|doubt| matches!(doubt, Change::List(list, ..) if **list == there));
    if doubt.is_some() {
        return Ok(doubt);
    }
    let names = |l: &posthaste_store::MailboxList| {
        l.entries.iter().map(|e| (e.name.to_string(), e.uid_validity)).collect::<Vec<_>>()
    };
    Err(format!(
        "list {account} is at version {} with {:?}; it should be at {} with {:?}",
        there.version,
        names(&there),
        wanted.version,
        names(&wanted)
    ))
}

async fn find_mailbox(
    engine: &dyn Engine,
    known: &Knowledge,
    id: MailboxId,
) -> Result<Option<usize>, Violation> {
    let there = mailbox(engine, id).await.map_err(|e| format!("mailbox {id} {}", unreadable(&e)))?;
    let Some(wanted) = known.certain.boxes.get(&id) else { return Ok(None) };
    let Some(there) = there else {
        // A removal without an answer may have taken effect.
        let removes = |doubt: &Change| matches!(doubt, Change::List(_, _, went) if went.contains(&id));
        let doubt = known.doubts.iter().position(removes);
        return doubt.map(Some).ok_or_else(|| format!("mailbox {id} is not there"));
    };
    if there == **wanted {
        return Ok(None);
    }
    let is_there =
        |doubt: &Change| matches!(doubt, Change::Mailbox(of, held) if *of == id && **held == there);
    let doubt = known.doubts.iter().position(is_there);
    if doubt.is_some() {
        return Ok(doubt);
    }
    let doubts = known.doubts.iter().filter(|d| d.unit() == Unit::Mailbox(id)).count();
    Err(format!("mailbox {id} ({doubts} doubts): {}", wanted.difference(&there)))
}

async fn find_record(engine: &dyn Engine, known: &Knowledge, name: &str) -> Result<Option<usize>, Violation> {
    let entry =
        engine.directory_entry(name).await.map_err(|e| format!("record {name} {}", unreadable(&e)))?;
    let there = entry.map(|e| (e.version, e.value));
    let wanted = known.certain.directory.get(name);
    if there.as_ref() == wanted {
        return Ok(None);
    }
    let is_there =
        |doubt: &Change| matches!(doubt, Change::Record(of, record) if of == name && *record == there);
    let doubt = known.doubts.iter().position(is_there);
    if doubt.is_some() {
        return Ok(doubt);
    }
    Err(format!("record {name} is {there:?} and should be {wanted:?}"))
}

/// Reads one unit: it is as it certainly is, or as the doubt of this number has it.
pub async fn find(engine: &dyn Engine, known: &Knowledge, unit: &Unit) -> Result<Option<usize>, Violation> {
    match unit {
        Unit::List(account) => find_list(engine, known, *account).await,
        Unit::Mailbox(id) => find_mailbox(engine, known, *id).await,
        Unit::Record(name) => find_record(engine, known, name).await,
    }
}

/// Reads one unit and takes over its contents. A doubt that was not found stays: its answer was an
/// error, which leaves it open.
async fn observe(engine: &dyn Engine, known: &mut Knowledge, unit: &Unit) -> Result<(), Violation> {
    let found = find(engine, known, unit).await?;
    if let Some(doubt) = found.and_then(|n| known.doubts.get(n).cloned()) {
        known.found(&doubt);
    }
    Ok(())
}

/// Reads everything and takes over its contents. The store must find no fault with itself. A
/// request without an answer may still take effect, as long as nothing else was acknowledged for
/// the same unit. A rebuild finds its commit where an opening skipped it.
pub async fn verify(engine: &dyn Engine, known: &mut Knowledge) -> Result<(), Violation> {
    let units: BTreeSet<Unit> = known.doubts.iter().map(Change::unit).collect();
    let lists = units.iter().filter(|u| matches!(u, Unit::List(_))).cloned();
    let lists: BTreeSet<Unit> = known.certain.lists.keys().map(|a| Unit::List(*a)).chain(lists).collect();
    for unit in &lists {
        observe(engine, known, unit).await?;
    }
    let boxes: Vec<MailboxId> = known.certain.boxes.keys().copied().collect();
    for id in boxes {
        observe(engine, known, &Unit::Mailbox(id)).await?;
    }
    let records = units.into_iter().filter(|u| matches!(u, Unit::Record(_)));
    let names = known.certain.directory.keys().map(|n| Unit::Record(n.clone()));
    let records: BTreeSet<Unit> = names.chain(records).collect();
    for unit in &records {
        observe(engine, known, unit).await?;
    }
    let all = engine.directory_scan("", None, usize::MAX).await.map_err(|e| unreadable(&e))?;
    if !all.iter().map(|e| &e.name).eq(known.certain.directory.keys()) {
        return Err("a scan of the directory finds other names than were set".into());
    }
    for id in &known.certain.removed {
        if engine.heads(&[*id]).await.map_err(|e| unreadable(&e))? != [None] {
            return Err(format!("mailbox {id} was removed and is there"));
        }
    }
    let report = engine.check(&mut |_| {}).await.map_err(|e| format!("check: {e}"))?;
    match report.faults.first() {
        Some(fault) => Err(format!("check finds {} faults, the first: {fault}", report.faults.len())),
        None => Ok(()),
    }
}
