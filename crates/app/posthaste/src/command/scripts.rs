//! `posthaste sieve list|get|put|activate|deactivate|remove`: accounts' scripts, on the store
//! itself, so that a running server uses them from the next message on.

use std::io::Write as _;

use posthaste_directory::Account;

use crate::cli::{self, Sieve};
use crate::command::names::full_name;
use crate::command::sieve;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open::{self, Opened};

pub async fn run(config: Config, command: Sieve) -> Result<()> {
    let name = match &command {
        Sieve::Check { .. } | Sieve::Test(_) => return Ok(()),
        Sieve::Put(cli::SievePut { account, .. }) => account,
        Sieve::List { account } | Sieve::Deactivate { account } => account,
        Sieve::Get { account, .. } | Sieve::Activate { account, .. } | Sieve::Remove { account, .. } => {
            account
        }
    };
    let opened = open::existing(&config).await?;
    let account = opened.found(&full_name(name, &config)).await?;
    let directory = &opened.directory;
    match command {
        Sieve::Check { .. } | Sieve::Test(_) => {}
        Sieve::List { .. } => list(&opened, &account).await?,
        Sieve::Get { name, .. } => {
            let text = directory.scripts().get(account.id, &name).await?;
            std::io::stdout().write_all(text.as_bytes())?;
        }
        Sieve::Put(options) => put(&opened, &account, &options).await?,
        Sieve::Activate { name, .. } => {
            directory.scripts().activate(&account, Some(&name)).await?;
            println!("{name} runs for {}", account.name);
        }
        Sieve::Deactivate { .. } => {
            directory.scripts().activate(&account, None).await?;
            println!("no script runs for {}", account.name);
        }
        Sieve::Remove { name, .. } => {
            directory.scripts().remove(&account, &name).await?;
            println!("removed {name}");
        }
    }
    Ok(())
}

async fn list(opened: &Opened, account: &Account) -> Result<()> {
    let mut scripts = opened.directory.scripts().all(account.id).await?;
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = std::io::stdout().lock();
    for script in &scripts {
        let is_active = account.scripts.active.as_deref() == Some(script.name.as_str());
        let active = if is_active { "\tactive" } else { "" };
        writeln!(out, "{}\t{}{active}", script.name, script.text.len())?;
    }
    Ok(())
}

async fn put(opened: &Opened, account: &Account, options: &cli::SievePut) -> Result<()> {
    let text = sieve::source(&options.script)?;
    posthaste_filter::compile(&text).map_err(|errors| {
        let file = options.script.display();
        let lines: Vec<String> = errors.0.iter().map(|e| format!("{file}: {e}")).collect();
        Failure::Incomplete(lines.join("\n"))
    })?;
    opened.directory.scripts().put(account, &options.name, &text).await?;
    if options.activate {
        opened.directory.scripts().activate(account, Some(&options.name)).await?;
    }
    let runs = if options.activate { ", which now runs" } else { "" };
    println!("stored {}{runs}", options.name);
    Ok(())
}
