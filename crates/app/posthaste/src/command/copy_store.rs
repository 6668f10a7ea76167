//! `posthaste copy-store`: accounts and all their mail from one store to another.
//!
//! Secrets and domains are copied if the target has none. Signing keys are made equal. So are
//! groups and the queue, if all accounts are copied.

use std::collections::BTreeSet;

use posthaste_directory::Account;
use posthaste_queue::{CopiedItems, compare_queues, copy_queue, has_other_items};
use posthaste_store::Compare;

use crate::cli::{Common, CopyStore};
use crate::command::ends::{OpenMode, StorePair, bar, open};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::for_terminal;

/// Differences that are printed.
const FAULTS_SHOWN: usize = 50;

pub async fn run(config: Config, common: &Common, options: CopyStore) -> Result<()> {
    if common.bodies.is_some() {
        return Err(Failure::Usage(
            "each keyspace records where its bodies are; leave out --bodies (`posthaste engine init --bodies` \
             decides it)".into(),
        ));
    }
    if options.from == options.to {
        return Err(Failure::Usage("--from and --to name the same store".into()));
    }
    let from = open(&config, &options.from, OpenMode::Read).await?;
    let to = open(&config, &options.to, OpenMode::Write).await?;
    let ends = StorePair::new(from, to)?;
    let whole = options.account.is_empty();
    if whole && has_other_items(&*ends.from, &*ends.to).await? {
        return Err(Failure::Usage(
            "mail waits to be sent in both stores; wait until the queue of one is empty (`posthaste queue list`), or copy \
             accounts by naming each with --account, which does not touch queues"
                .into(),
        ));
    }
    let accounts = ends.accounts(&options.account).await?;
    let total = ends.messages(&accounts).await?;
    let bar = bar("copying", total);
    ends.copy_records("secret/").await?;
    ends.copy_records("domain/").await?;
    ends.mirror_records("dkim/").await?;
    if whole {
        ends.mirror_records("group/").await?;
    }
    for account in &accounts {
        ends.mirror(account, &mut |n| bar.inc(n)).await?;
    }
    let names: BTreeSet<&str> = accounts.iter().map(|account| account.name.as_str()).collect();
    let aliases = ends.aliases(|account| whole || names.contains(account)).await?;
    ends.copy_aliases(&aliases).await?;
    bar.finish_and_clear();
    if whole {
        // Last, so that it is as new as can be.
        let items = copy_queue(&*ends.from, &*ends.to, CopiedItems::AsTheyAre).await?;
        println!("copied {items} messages that wait to be sent");
    }
    println!("copied {} accounts with {total} messages; comparing both stores", accounts.len());
    let compare = if options.skip_bodies { Compare::Summaries } else { Compare::All };
    let faults = match whole {
        true => compare_queues(&*ends.from, &*ends.to, CopiedItems::AsTheyAre, compare).await?,
        false => Vec::new(),
    };
    audit(&ends, &accounts, total, (compare, faults)).await
}

async fn audit(
    ends: &StorePair,
    accounts: &[Account],
    total: u64,
    (compare, mut faults): (Compare, Vec<String>),
) -> Result<()> {
    let bar = bar("comparing", total);
    for account in accounts {
        faults.extend(ends.compare(account, compare, &mut |n| bar.inc(n)).await?);
    }
    bar.finish_and_clear();
    faults.iter().take(FAULTS_SHOWN).for_each(|fault| println!("differs: {}", for_terminal(fault)));
    if faults.is_empty() {
        println!("both stores hold the same");
        return Ok(());
    }
    Err(Failure::Incomplete(format!(
        "{} differences: the first store was changed meanwhile; stop its servers and run the same command again, \
         which copies what is new",
        faults.len()
    )))
}
