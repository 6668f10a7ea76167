//! `posthaste group`: addresses with members.

use std::io::Write as _;

use posthaste_directory::{Directory, ResolveError};
use serde_json::json;

use crate::cli;
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::Result;
use crate::open;

/// Groups read at a time.
const PAGE: usize = 100;

pub async fn run(config: Config, command: cli::Group) -> Result<()> {
    use cli::Group as Command;
    let directory = open::existing(&config).await?.directory;
    match command {
        Command::Set { address, members, owner } => {
            let members: Vec<String> = members.iter().map(|member| full_name(member, &config)).collect();
            let owner = owner.map(|owner| full_name(&owner, &config));
            let group =
                directory.groups().set(&full_name(&address, &config), &members, owner.as_deref()).await?;
            for member in &group.members {
                if let Err(ResolveError::NoSuchUser) = directory.target(member).await {
                    eprintln!(
                        "warning: no account, alias or group here has the address {member}: its mail is refused"
                    );
                }
            }
            match group.members.len() {
                1 => println!("{} has 1 member", group.address),
                count => println!("{} has {count} members", group.address),
            }
        }
        Command::Remove { address } => {
            let address = full_name(&address, &config);
            directory.groups().remove(&address).await?;
            println!("removed {address}");
        }
        Command::List { json } => list(&directory, json).await?,
    }
    Ok(())
}

async fn list(directory: &Directory, json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut after: Option<String> = None;
    loop {
        let page = directory.groups().list(after.as_deref(), PAGE).await?;
        for group in &page {
            let owner = group.owner.as_deref();
            let line = match json {
                true => json!({"group": group.address, "members": group.members, "owner": owner}).to_string(),
                false => format!("{}\t{}\t{}", group.address, group.members.join(","), owner.unwrap_or("-")),
            };
            writeln!(out, "{line}")?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.address.clone()),
            _ => return Ok(()),
        }
    }
}
