//! `posthaste group`: addresses with members.

use std::io::Write as _;

use posthaste_directory::{Directory, Group, ResolveError};
use serde_json::json;

use crate::cli;
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::Result;
use crate::logging::{for_line, json_line};
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
            let line = if json { as_json(group) } else { as_line(group) };
            writeln!(out, "{line}")?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.address.clone()),
            _ => return Ok(()),
        }
    }
}

fn as_json(Group { address, members, owner }: &Group) -> String {
    json_line(&json!({"group": address, "members": members, "owner": owner}))
}

fn as_line(Group { address, members, owner }: &Group) -> String {
    let owner = owner.as_deref().unwrap_or("-");
    format!("{}\t{}\t{}", for_line(address), for_line(&members.join(",")), for_line(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its names may be those of a forged backup.
    #[test]
    fn a_group_sends_a_terminal_no_control_characters() {
        let forged = || "a\u{1b}[2J\u{9b}1A\n@b.test".to_owned();
        let group = Group { address: forged(), members: vec![forged()], owner: Some(forged()) };
        for line in [as_json(&group), as_line(&group)] {
            assert!(!line.chars().any(|c| c.is_control() && c != '\t'), "{line:?}");
        }
    }
}
