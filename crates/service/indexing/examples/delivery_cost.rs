//! What the index costs a delivery: appends the files of a directory to one mailbox, some at a
//! time, as deliveries in a row come. Count its instructions with and without the index.
//!
//! `cargo build --release -p posthaste-indexing --example delivery_cost`, then
//! `valgrind --tool=callgrind target/release/examples/delivery_cost DIRECTORY [off]`

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_indexing::SearchIndex;
use posthaste_mail_model::{AccountId, Id, MailboxName};
use posthaste_store::{IncomingMessage, MemoryEngine, Store, StoreOptions};

/// Messages that come within the quarter of a second after which the task begins.
const TOGETHER: usize = 128;

/// Memory for segments and terms.
const MEMORY: usize = 64 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let Some(folder) = arguments.get(1) else {
        eprintln!("name a directory with messages");
        return Ok(());
    };
    let is_indexed = arguments.len() == 2;
    let mut files: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(|file| file.file_name());
    let messages = files.iter().map(|file| std::fs::read(file.path())).collect::<Result<Vec<_>, _>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(deliver(messages, is_indexed))
}

async fn deliver(messages: Vec<Vec<u8>>, is_indexed: bool) -> Result<(), Box<dyn Error>> {
    let store = Store::new(Arc::new(MemoryEngine::new()), StoreOptions::default());
    let account = AccountId(Id::new(1_700_000_000_000, 7));
    let entry = store.create(account, &MailboxName::new("a")?, None).await?;
    let mailbox = store.open(entry.id).await?;
    let index = SearchIndex::new(store.clone(), MEMORY);
    for together in messages.chunks(TOGETHER) {
        let incoming = together.iter().map(|message| {
            let bytes = Bytes::copy_from_slice(message);
            let summary = Bytes::from(posthaste_delivery::summarize(&bytes));
            let body = store.new_body_id();
            IncomingMessage { bytes, summary, body, flags: Vec::new(), date: 1, saved: None }
        });
        mailbox.append(incoming.collect()).await?;
        if is_indexed {
            index.update(entry.id).await?;
        }
    }
    let heads = store.status(&[entry.id]).await?;
    let messages = heads.into_iter().flatten().map(|head| head.counts.messages).sum::<u32>();
    println!("{messages} messages, {} indexed", if is_indexed { "all" } else { "none" });
    Ok(())
}
