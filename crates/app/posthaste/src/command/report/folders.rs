//! `posthaste report folders`: the largest folders of all accounts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use bytesize::ByteSize;
use serde_json::json;

use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::Result;
use crate::open::{self, Opened};

/// Accounts read at a time.
const PAGE: usize = 200;

/// A folder, ordered by its messages.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Folder {
    messages: u32,
    bytes: u64,
    account: String,
    name: String,
}

/// The largest of all folders that were offered. It holds only as many as are wanted.
struct Largest {
    wanted: usize,
    least_first: BinaryHeap<Reverse<Folder>>,
}

impl Largest {
    fn new(wanted: usize) -> Self {
        Self { wanted, least_first: BinaryHeap::new() }
    }

    fn offer(&mut self, folder: Folder) {
        self.least_first.push(Reverse(folder));
        if self.least_first.len() > self.wanted {
            self.least_first.pop();
        }
    }

    /// Largest first.
    fn finish(self) -> Vec<Folder> {
        self.least_first.into_sorted_vec().into_iter().map(|Reverse(folder)| folder).collect()
    }
}

pub async fn run(config: Config, account: Option<String>, top: usize, json: bool) -> Result<()> {
    let opened = open::existing(&config).await?;
    let largest = match account {
        Some(name) => {
            let mut largest = Largest::new(top);
            let account = opened.found(&full_name(&name, &config)).await?;
            offer_all(&opened, &account, &mut largest).await?;
            largest
        }
        None => of_all_accounts(&opened, top).await?,
    };
    let mut out = std::io::stdout().lock();
    for Folder { messages, bytes, account, name } in largest.finish() {
        if json {
            let line = json!({"account": account, "folder": name, "messages": messages, "bytes": bytes});
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{messages:>9} messages {:>12}  {account}  {name}", ByteSize(bytes))?;
        }
    }
    Ok(())
}

async fn of_all_accounts(opened: &Opened, top: usize) -> Result<Largest> {
    let mut largest = Largest::new(top);
    let mut after: Option<String> = None;
    loop {
        let page = opened.directory.accounts(after.as_deref(), PAGE).await?;
        for account in &page {
            offer_all(opened, account, &mut largest).await?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.name.clone()),
            _ => return Ok(largest),
        }
    }
}

/// Offers the folders of an account, by their heads: no folder is loaded.
async fn offer_all(
    opened: &Opened,
    account: &posthaste_directory::Account,
    largest: &mut Largest,
) -> Result<()> {
    let list = opened.store.list(account.id).await?;
    let ids: Vec<_> = list.entries.iter().map(|entry| entry.id).collect();
    let heads = opened.store.status(&ids).await?;
    for (entry, head) in list.entries.iter().zip(heads) {
        // A folder that was deleted meanwhile has no head.
        let Some(head) = head else { continue };
        let counts = head.counts;
        largest.offer(Folder {
            messages: counts.messages,
            bytes: counts.octets(),
            account: account.name.clone(),
            name: entry.name.to_string(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_and_come_first() {
        let mut largest = Largest::new(3);
        for messages in [5, 1, 9, 7, 3, 9] {
            let (account, name) = ("ana".to_owned(), "INBOX".to_owned());
            largest.offer(Folder { messages, bytes: 0, account, name });
        }
        let kept: Vec<u32> = largest.finish().iter().map(|folder| folder.messages).collect();
        assert_eq!(kept, [9, 9, 7]);
    }
}
