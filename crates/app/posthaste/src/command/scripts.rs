//! `posthaste sieve list|get|put|activate|deactivate|remove`: accounts' scripts, on the store
//! itself, so that a running server uses them from the next message on.

use std::io::{IsTerminal as _, Write as _};

use posthaste_directory::Account;

use crate::cli::{self, Sieve};
use crate::command::names::full_name;
use crate::command::sieve;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::{for_line, for_terminal};
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
            let mut out = std::io::stdout();
            let text = if out.is_terminal() { shown(&text) } else { text };
            out.write_all(text.as_bytes())?;
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

/// A script for a terminal. A user wrote it, so none of its control characters are sent.
fn shown(text: &str) -> String {
    for_terminal(&text.replace("\r\n", "\n"))
}

async fn list(opened: &Opened, account: &Account) -> Result<()> {
    let mut scripts = opened.directory.scripts().all(account.id).await?;
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = std::io::stdout().lock();
    for script in &scripts {
        let is_active = account.scripts.active.as_deref() == Some(script.name.as_str());
        let active = if is_active { "\tactive" } else { "" };
        writeln!(out, "{}\t{}{active}", for_line(&script.name), script.text.len())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_controls_no_terminal() {
        let script = "# \u{1b}[2J\u{9b}1A\r\n\tkeep;\r\n";
        assert_eq!(shown(script), "# \\u{1b}[2J\\u{9b}1A\n\tkeep;\n");
    }
}
