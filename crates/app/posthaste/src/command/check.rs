//! `posthaste check`: verifies the store, or rebuilds its index or the search index.

use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use indicatif::{ProgressBar, ProgressStyle};
use posthaste_directory::{Directory, unix_time};
use posthaste_indexing::{SearchIndex, Size};
use posthaste_mail_model::{Id, MailboxId, MailboxName, UidValidity};
use posthaste_store::{CommitOutcome, Engine, ListCommit, MailboxEntry, MailboxList, StoreError};
use posthaste_store_lmdb::{LmdbEngine, Rebuild};

use crate::cli::Check;
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::for_terminal;
use crate::open::{self, Opened};

/// Accounts read at a time.
const ACCOUNTS_PAGE: usize = 200;
/// Memory for the search index in a command: it needs little more than one segment.
const INDEX_BYTES: usize = 16 << 20;
/// The attempts to put a mailbox into a list that its owner changes at the same time.
const RECOVER_TRIES: u32 = 20;

pub async fn run(config: Config, options: Check) -> Result<()> {
    if options.rebuild {
        return rebuild(&config, if options.force { Rebuild::Force } else { Rebuild::UnlessFaulty });
    }
    if let (Some(mailbox), Some(account)) = (&options.recover, &options.account) {
        return recover(&config, mailbox, &full_name(account, &config)).await;
    }
    if options.accept_loss {
        return accept_loss(&config).await;
    }
    let opened = open::existing(&config).await?;
    if options.reindex {
        return reindex(&config, &opened, options.account).await;
    }
    let bar = progress_bar("checking");
    let mut progress = |share: f64| bar.set_position((share * 1000.0) as u64);
    let report = opened.store.engine().check(&mut progress).await?;
    bar.finish_and_clear();
    println!("{} records examined", report.examined);
    say_size(&SearchIndex::new(opened.store.clone(), INDEX_BYTES)).await?;
    report.left_out.iter().for_each(|part| println!("left out: {}", for_terminal(part)));
    match (&report.faults[..], &report.left_out[..]) {
        ([], [_, ..]) => println!(
            "no faults in the rest; to check everything, run `posthaste check` while nothing is delivered or changed"
        ),
        (faults, _) => name(faults),
    }
    match report.faults.len() {
        0 => Ok(()),
        n => Err(Failure::Incomplete(format!(
            "{n} faults; the data named above is not served. `posthaste check --rebuild` rebuilds the index from \
             the packs"
        ))),
    }
}

/// The store of the embedded engine, for a flag that concerns no other.
fn embedded(config: &Config, flag: &str) -> Result<LmdbEngine> {
    if config.engine != "embedded" {
        return Err(Failure::Usage(format!(
            "{flag} is for the embedded engine. On a cluster, the sweep does this work"
        )));
    }
    if !config.data.join("format").is_file() {
        return Err(Failure::Usage(format!(
            "{} is not a store; name the store with --data",
            config.data.display()
        )));
    }
    Ok(LmdbEngine::open(&config.data, open::embedded(config))?)
}

/// Lets maintenance empty the packs that a forced rebuild marked.
async fn accept_loss(config: &Config) -> Result<()> {
    let packs = embedded(config, "--accept-loss")?.accept_loss().await?;
    match packs {
        0 => println!("no pack is marked as damaged"),
        n => println!(
            "{n} packs are no longer marked as damaged: maintenance frees their space as mail is deleted"
        ),
    }
    Ok(())
}

/// Puts a mailbox that is in no list into the list of an account.
async fn recover(config: &Config, id: &str, name: &str) -> Result<()> {
    // One at a time: two could give one mailbox to two accounts.
    let data = std::fs::File::open(&config.data)
        .map_err(|e| Failure::Usage(format!("{}: {e}; name the store with --data", config.data.display())))?;
    data.lock()?;
    let engine = Arc::new(embedded(config, "--recover")?);
    let account = Directory::new(engine.clone())?.account(name).await?;
    let account =
        account.ok_or_else(|| Failure::Usage(format!("--account {name}: there is no such account")))?;
    let unlisted = engine.unlisted().await?;
    let found = Id::parse(id).and_then(|id| unlisted.iter().find(|unlisted| unlisted.mailbox.0 == id));
    let found = found.ok_or_else(|| {
        Failure::Usage(format!(
            "--recover {id}: there is no mailbox of this id without an account; `posthaste check` names such mailboxes"
        ))
    })?;
    if posthaste_indexing::is_segments(found.mailbox) {
        return Err(Failure::Usage(format!(
            "--recover {id}: it has no mail, only a part of the search index: `posthaste check --reindex` rebuilds \
             that"
        )));
    }
    for _ in 0..RECOVER_TRIES {
        let list = engine.load_list(account.id).await?;
        let entry = recovered(&list, found.mailbox)?;
        let commit = ListCommit {
            account: account.id,
            expected: list.version,
            version: list.version.next(),
            upsert: vec![entry.clone()],
            remove: Vec::new(),
            subscribe: vec![entry.name.clone()],
            unsubscribe: Vec::new(),
            uid_validity_last: entry.uid_validity.value(),
        };
        if engine.commit_list(commit).await? == CommitOutcome::Done {
            println!("{name} has the mailbox as {}, with {} messages", entry.name, found.messages);
            return Ok(());
        }
    }
    Err(StoreError::Busy.into())
}

/// The entry of a recovered mailbox: a name that is free, and a UIDVALIDITY never given before.
fn recovered(list: &MailboxList, id: MailboxId) -> Result<MailboxEntry> {
    let name = (1..).find_map(|n| {
        MailboxName::new(&format!("Recovered-{n}")).ok().filter(|name| list.find(name).is_none())
    });
    let last = list.uid_validity_last.max(u32::try_from(unix_time::now()).unwrap_or(0));
    let uid_validity = last.checked_add(1).and_then(UidValidity::new);
    match (name, uid_validity) {
        (Some(name), Some(uid_validity)) => Ok(MailboxEntry { id, name, uid_validity, special_use: None }),
        _ => Err(Failure::Incomplete("the account has no UIDVALIDITY left to give".into())),
    }
}

/// Makes the search index of all mailboxes again, or of those of one account.
async fn reindex(config: &Config, opened: &Opened, account: Option<String>) -> Result<()> {
    let index = SearchIndex::new(opened.store.clone(), INDEX_BYTES);
    let (mut after, mut mailboxes) = (None, 0_u64);
    let only = match account {
        Some(name) => Some(opened.found(&full_name(&name, config)).await?),
        None => None,
    };
    loop {
        let page = match &only {
            Some(account) => vec![account.clone()],
            None => opened.directory.accounts(after.as_deref(), ACCOUNTS_PAGE).await?,
        };
        for account in &page {
            for entry in &opened.store.list(account.id).await?.entries {
                index.rebuild(entry.id).await?;
                mailboxes += 1;
            }
        }
        match page.last() {
            Some(last) if only.is_none() => after = Some(last.name.clone()),
            _ => break,
        }
    }
    println!("{mailboxes} mailboxes indexed");
    say_size(&index).await
}

/// Prints the size of the search index.
async fn say_size(index: &SearchIndex) -> Result<()> {
    let (mut sum, mut mailboxes, mut after) = (Size::default(), 0, None);
    loop {
        let sizes = index.sizes(after).await?;
        let Some((last, _)) = sizes.last() else { break };
        after = Some(*last);
        for (_, size) in sizes {
            sum += size;
            mailboxes += 1;
        }
    }
    let Size { segments, messages, bytes, sort_key_bytes, text_bytes } = sum;
    println!(
        "search index: {} in {segments} segments of {mailboxes} mailboxes, for {messages} messages; {:.1} % of their text \
         of {}; keys of SORT and THREAD: {}",
        ByteSize(bytes),
        bytes as f64 * 100.0 / text_bytes.max(1) as f64,
        ByteSize(text_bytes),
        ByteSize(sort_key_bytes),
    );
    Ok(())
}

fn rebuild(config: &Config, mode: Rebuild) -> Result<()> {
    let bar = progress_bar("rebuilding");
    let mut progress = |share: f64| bar.set_position((share * 1000.0) as u64);
    // Nothing is kept of an index that was lost.
    let kept = config.data.join("index").exists().then(|| posthaste_store_lmdb::kept_index(&config.data));
    let report = open::rebuild(config, mode, &mut progress)?;
    bar.finish_and_clear();
    println!("{} records read", report.examined);
    report.left_out.iter().for_each(|part| println!("{}", for_terminal(part)));
    name(&report.faults);
    let old = kept.as_ref().map_or_else(
        || {
            "\nwithout the old index, the rebuild cannot know whether a pack after the last one in `packs` is \
             missing: compare the newest mail with a backup"
                .to_owned()
        },
        |path| format!("; the old one is kept as {}: remove it when you trust the new one", path.display()),
    );
    match (report.faults.len(), mode) {
        (0, _) => println!("the new index is in place{old}"),
        (n, Rebuild::Force) => println!("{n} faults; the new index is in place{old}"),
        (n, Rebuild::UnlessFaulty) => {
            return Err(Failure::Incomplete(format!(
                "{n} faults; the index is unchanged. If no backup has this data, `posthaste check --rebuild \
                 --force` installs an index without what is named above"
            )));
        }
    }
    Ok(())
}

fn progress_bar(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(1000).with_prefix(what).with_style(
        ProgressStyle::with_template("{prefix} {wide_bar} {percent} %  {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn name(faults: &[String]) {
    for fault in faults {
        println!("fault: {}", for_terminal(fault));
    }
    if faults.is_empty() {
        println!("no faults");
    }
}
