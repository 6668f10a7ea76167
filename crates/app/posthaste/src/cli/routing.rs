//! `posthaste group` and `posthaste route`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Group {
    /// Create a group, or replace its members and its owner. Applies from the next message on.
    #[command(after_long_help = SET_EXAMPLES)]
    Set {
        /// The group's address. `@example.org` is the group of a whole domain: it takes mail for
        /// all other addresses of the domain.
        address: String,
        /// The members: accounts, aliases, groups, and addresses of other servers (needs
        /// `relay.enabled`).
        #[arg(required = true)]
        members: Vec<String>,
        /// The address that gets reports about undeliverable copies. Without an owner, the sender
        /// of the mail gets them.
        #[arg(long, value_name = "ADDRESS")]
        owner: Option<String>,
    },
    /// Remove a group. Its members stay.
    Remove {
        /// The group's address.
        address: String,
    },
    /// List groups, a line each: address, members, owner.
    List {
        /// As JSON, a line each.
        #[arg(long)]
        json: bool,
    },
}

const SET_EXAMPLES: &str = "\
Examples:
  posthaste group set sales@example.org ana@example.org bo@example.org
  posthaste group set list@example.org ana@example.org x@example.net --owner ana@example.org
  posthaste group set @example.org postmaster@example.org";

#[derive(Debug, Args)]
pub struct Route {
    /// The address.
    pub address: String,
    /// As JSON, a line for each step.
    #[arg(long)]
    pub json: bool,
}
