//! `posthaste report folders`: the largest folders of all accounts, and what they cost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use std::time::Duration;

use bytesize::ByteSize;
use posthaste_metrics::FolderSize;
use serde_json::json;

use super::curve::{Curves, Saving};
use super::served::{self, OfCommand, Use, Uses, class_of};
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::Result;
use crate::logging::{for_line, json_line};
use crate::open::{self, Opened};

/// Accounts read at a time.
const PAGE: usize = 200;

/// The options of the command line.
pub struct FolderOptions {
    pub account: Option<String>,
    pub top: usize,
    pub cut: u32,
    pub json: bool,
}

/// A folder, ordered by its messages.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Folder {
    messages: u32,
    bytes: u64,
    account: String,
    name: String,
}

impl Folder {
    fn is_inbox(&self) -> bool {
        self.name == "INBOX"
    }

    /// Whether a use was in this folder, or in another one of the account that is counted with it:
    /// folders of one size are counted together, except the INBOX.
    fn has(&self, used: &Use) -> bool {
        match self.is_inbox() {
            true => used.inbox,
            false => !used.inbox && class_of(&used.folder) == Some(FolderSize::of(self.messages)),
        }
    }
}

/// The costs that the running server has counted.
struct Costs {
    curves: Curves,
    uses: Uses,
    cut: u32,
}

impl Costs {
    async fn read(config: &Config, cut: u32) -> Result<Self> {
        let cost = served::cost(&config.data).await?;
        let curves = Curves::of(&served::of_value::<Vec<OfCommand>>(&cost["commands"])?);
        Ok(Self { curves, uses: served::uses(&config.data).await?, cut })
    }

    fn of(&self, folder: &Folder) -> Saving {
        let uses = self.uses.of(&folder.account).iter().filter(|used| folder.has(used));
        self.curves.cut(uses, self.cut)
    }
}

/// The largest of all folders that were offered. It holds only the requested number.
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

pub async fn run(config: Config, options: FolderOptions) -> Result<()> {
    let opened = open::existing(&config).await?;
    let largest = match &options.account {
        Some(name) => {
            let mut largest = Largest::new(options.top);
            let account = opened.found(&full_name(name, &config)).await?;
            offer_all(&opened, &account, &mut largest).await?;
            largest
        }
        None => of_all_accounts(&opened, options.top).await?,
    };
    let costs = match Costs::read(&config, options.cut).await {
        Ok(costs) => Some(costs),
        Err(error) => {
            eprintln!("posthaste: without what they cost: {error}");
            None
        }
    };
    let (mut out, folders) = (std::io::stdout().lock(), largest.finish());
    match options.json {
        true => write_json(&mut out, &folders, costs.as_ref())?,
        false => write_text(&mut out, &folders, costs.as_ref())?,
    }
    Ok(())
}

fn write_json(out: &mut impl Write, folders: &[Folder], costs: Option<&Costs>) -> std::io::Result<()> {
    for folder in folders {
        let Folder { messages, bytes, account, name } = folder;
        let mut line = json!({"account": account, "folder": name, "messages": messages, "bytes": bytes});
        if let Some(costs) = costs {
            line["cost"] = costs.of(folder).as_json();
            line["cost"]["of"] = if folder.is_inbox() { "inbox" } else { "folders of this size" }.into();
        }
        writeln!(out, "{}", json_line(&line))?;
    }
    Ok(())
}

fn write_text(out: &mut impl Write, folders: &[Folder], costs: Option<&Costs>) -> std::io::Result<()> {
    for folder in folders {
        let Folder { messages, bytes, account, name } = folder;
        write!(out, "{messages:>9} messages {:>12}", ByteSize(*bytes))?;
        if let Some(costs) = costs {
            let Saving { now, then, unknown } = costs.of(folder);
            let less = match unknown > 0.0 {
                true => "?".to_owned(),
                false => format!("{:.3}", (now - then) / 1e9),
            };
            write!(out, " {:>10.3} s CPU {less:>10} s less", now / 1e9)?;
        }
        writeln!(out, "  {}  {}", for_line(account), for_line(name))?;
    }
    let Some(Costs { uses, cut, .. }) = costs.filter(|_| !folders.is_empty()) else { return Ok(()) };
    let since = humantime::format_duration(Duration::from_secs(uses.seconds));
    writeln!(
        out,
        "\nCPU: of the INBOX, or of all other folders of the account in the same size class, in the {since} since \
         the start of the server. Less: with at most {cut} messages in each; `posthaste report cost --account` \
         shows how this is estimated. `?`: too little data for a part of it."
    )
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
    use super::super::curve::tests::{commands, used};
    use super::super::served::OfAccount;
    use super::*;

    fn folder(messages: u32, name: &str) -> Folder {
        Folder { messages, bytes: 7, account: "ana".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn the_largest_are_kept_and_come_first() {
        let mut largest = Largest::new(3);
        for messages in [5, 1, 9, 7, 3, 9] {
            largest.offer(folder(messages, "INBOX"));
        }
        let kept: Vec<u32> = largest.finish().iter().map(|folder| folder.messages).collect();
        assert_eq!(kept, [9, 9, 7]);
    }

    /// The INBOX has a cost of its own. Other folders share theirs with those of the same size.
    #[test]
    fn folders_have_the_cost_of_their_owner_there() {
        let uses = vec![
            used("FETCH", "100000", true, 100, 60_000, 700_000_000),
            used("FETCH", "100000", false, 10, 60_000, 70_000_000),
            used("SORT", "50000", false, 1, 30_000, 9_000_000),
        ];
        let uses = Uses { seconds: 3_720, accounts: vec![OfAccount { account: "ana".to_owned(), uses }] };
        let costs = Costs { curves: Curves::of(&commands()), uses, cut: 10_000 };
        let folders =
            [folder(61_000, "INBOX"), folder(60_000, "Old"), folder(30_000, "Lists"), folder(5, "New")];
        let mut text = Vec::new();
        write_text(&mut text, &folders, Some(&costs)).unwrap();
        let text = String::from_utf8(text).unwrap();
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let cost = |n: usize| (words[n][4], words[n][7], words[n][11]);
        assert_eq!(cost(0), ("0.700", "0.500", "INBOX"), "{text}");
        assert_eq!(cost(1), ("0.070", "0.050", "Old"), "{text}");
        assert_eq!(cost(2), ("0.009", "?", "Lists"), "{text}");
        assert_eq!(cost(3), ("0.000", "0.000", "New"), "{text}");
        assert!(text.contains("in the 1h 2m since"), "{text}");
        let mut json = Vec::new();
        write_json(&mut json, &folders[..1], Some(&costs)).unwrap();
        let line: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(line["cost"]["of"], "inbox");
        assert!((line["cost"]["then_s"].as_f64().unwrap() - 0.2).abs() < 1e-6, "{line}");
        // Without a server the list is the same, without costs.
        let mut text = Vec::new();
        write_text(&mut text, &folders[..1], None).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.split_whitespace().eq(["61000", "messages", "7", "B", "ana", "INBOX"]), "{text}");
    }
}
