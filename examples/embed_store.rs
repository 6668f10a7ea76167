//! The mail store inside a program of your own: open, append, list, search, expunge.
//!
//! `cargo run --example embed_store [FOLDER]`. Without a folder the store is made in a new one
//! below the system's temporary folder.
//!
//! The program needs an engine (`store-lmdb`), the store over it (`store`), and the function that
//! makes a message's summary (`delivery`). `mail-model` and `mime-summary` have the types of
//! values.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_delivery::summarize;
use posthaste_mail_model::{AccountId, Flag, FlagSet, Id, MailboxName, NumSet, Uid};
use posthaste_mime_summary::SummaryRef;
use posthaste_store::{FlagChange, IncomingMessage, Mailbox, Store, StoreOptions, Stored};
use posthaste_store_lmdb::{LmdbEngine, Options};

#[tokio::main]
#[allow(dead_code, reason = "the test of the examples calls `run`")]
async fn main() -> Result<(), Box<dyn Error>> {
    let own = std::env::temp_dir().join(format!("posthaste-example-{}", std::process::id()));
    let dir = std::env::args().nth(1).map_or(own, Into::into);
    for line in run(&dir).await? {
        println!("{line}");
    }
    println!("The store is in {}", dir.display());
    Ok(())
}

/// Does everything on a store in `dir` and says what it found, a line for each thing.
pub async fn run(dir: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    // 1. Open. The engine makes index and packs if the folder has none. The store needs nothing of
    //    the engine but the trait, so an engine on a cluster would do as well.
    let engine = LmdbEngine::open(dir, Options::new(summarize))?;
    let store = Store::new(Arc::new(engine), StoreOptions::default());

    // 2. A mailbox. An account is an id: names and passwords are the business of `directory`.
    let account = AccountId(Id::new(1, 1));
    let name = MailboxName::new("INBOX")?;
    let entry = match store.list(account).await?.find(&name) {
        Some(entry) => entry.clone(),
        None => store.create(account, &name, None).await?,
    };
    let inbox = store.open(entry.id).await?;
    let before = inbox.view();

    // 3. Append. When this returns, the messages are on disk.
    let messages = [("Ana", "Minutes of Monday"), ("Bo", "Lunch?"), ("Ana", "Minutes of Tuesday")];
    let messages = messages.map(|(from, subject)| message(&store, from, subject));
    let appended = inbox.append(messages.to_vec()).await?;
    let new: NumSet = appended.uids.iter().map(|uid| uid.value()).collect();
    let mut said = vec![format!("appended {} messages", appended.uids.len())];

    // 4. List. A view is one state of the mailbox and never changes: `before` still has none of the
    //    new messages. Rows are in memory; summaries come from the engine, for a set in one call.
    let view = inbox.view();
    said.push(format!("{} more than before", view.exists() - before.exists()));
    for (uid, subject) in subjects(&inbox, &new).await? {
        let size = view.row_of_uid(uid).map_or(0, |(_, row)| row.size());
        said.push(format!("{size} octets: {subject}"));
    }

    // 5. Search. Flags are searched in the view, texts in the summaries. No message is opened.
    let minutes: NumSet = subjects(&inbox, &new)
        .await?
        .into_iter()
        .filter(|(_, subject)| subject.contains("minutes"))
        .map(|(uid, _)| uid.value())
        .collect();
    said.push(format!("{} have \"minutes\" in their subject", minutes.count()));
    inbox.store_flags(&minutes, FlagChange::Add, &[Flag::Seen], None).await?;
    let unseen = inbox.view().with_flags(FlagSet::EMPTY, FlagSet::SEEN);
    said.push(format!("{} unseen", unseen.count()));

    // 6. Expunge: mark as deleted, then remove what is marked.
    inbox.store_flags(&new, FlagChange::Add, &[Flag::Deleted], None).await?;
    inbox.expunge(Some(&new)).await?;
    said.push(format!("{} left of them", inbox.view().existing(&new).count()));
    Ok(said)
}

/// A message with its summary, which `delivery` makes from its bytes, once.
fn message(store: &Store, from: &str, subject: &str) -> IncomingMessage {
    let text =
        format!("From: {from} <{}@example.org>\r\nSubject: {subject}\r\n\r\nHello.\r\n", from.to_lowercase());
    let bytes = Bytes::from(text);
    IncomingMessage {
        summary: summarize(&bytes).into(),
        bytes,
        body: store.new_body_id(),
        flags: Vec::new(),
        date: u32::try_from(store.unix_ms() / 1000).unwrap_or(u32::MAX),
        saved: None,
    }
}

/// UIDs and subjects, folded for searching: lower case, without encoded words.
async fn subjects(inbox: &Mailbox, uids: &NumSet) -> Result<Vec<(Uid, String)>, Box<dyn Error>> {
    let mut subjects = Vec::new();
    let mut visit = |stored: Stored<'_>| {
        if let Ok(summary) = SummaryRef::new(stored.summary) {
            let subject = String::from_utf8_lossy(summary.subject_folded()).into_owned();
            subjects.push((stored.uid, subject));
        }
        ControlFlow::Continue(())
    };
    // A message whose summary cannot be read is an error here, not a shorter list.
    inbox.summaries(uids, &mut visit).await?.refuse()?;
    Ok(subjects)
}
