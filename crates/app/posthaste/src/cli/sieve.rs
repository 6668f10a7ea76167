//! `posthaste sieve`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Sieve {
    /// Compile a script, and list all its faults.
    Check {
        /// The script.
        #[arg(value_name = "SCRIPT")]
        script: PathBuf,
    },
    /// Show what a script would do with a message. Nothing is stored and nothing is sent.
    ///
    /// `include :personal "NAME"` reads NAME.sieve from the script's directory, `include :global`
    /// from its subdirectory `global`, or from --global.
    Test(Box<SieveTest>),
    /// List an account's scripts, a line each: name, size, and `active` for the one that runs.
    List {
        /// The account.
        #[arg(value_name = "ACCOUNT")]
        account: String,
    },
    /// Print a script as it is stored.
    Get {
        /// The account.
        #[arg(value_name = "ACCOUNT")]
        account: String,
        /// The script's name.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Compile a script, and store it if it has no fault.
    ///
    /// It replaces a script of the same name. If that one is active, the new one runs from the next
    /// message on. Otherwise use --activate. An account has at most 32 scripts of 256 KiB each.
    Put(SievePut),
    /// Make a script the active one. The previous one stays stored.
    Activate {
        /// The account.
        #[arg(value_name = "ACCOUNT")]
        account: String,
        /// The script's name.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Run no script: all mail goes to INBOX. The scripts stay stored.
    Deactivate {
        /// The account.
        #[arg(value_name = "ACCOUNT")]
        account: String,
    },
    /// Remove a script that is not active.
    Remove {
        /// The account.
        #[arg(value_name = "ACCOUNT")]
        account: String,
        /// The script's name.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Debug, Args)]
pub struct SievePut {
    /// The account.
    #[arg(value_name = "ACCOUNT")]
    pub account: String,
    /// The name to store it under: at most 128 characters.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The file with the script; `-` for standard input.
    #[arg(value_name = "FILE")]
    pub script: PathBuf,
    /// Make it the active script.
    #[arg(long)]
    pub activate: bool,
}

#[derive(Debug, Args)]
pub struct SieveTest {
    /// The script.
    #[arg(value_name = "SCRIPT")]
    pub script: PathBuf,
    /// The message, as an .eml file; `-` for standard input.
    #[arg(value_name = "MESSAGE")]
    pub message: PathBuf,
    /// Sender of the envelope. The default is the address in Return-Path or From; `<>` for none.
    #[arg(long, value_name = "ADDRESS")]
    pub from: Option<String>,
    /// Recipient of the envelope. The default is the first address in To.
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<String>,
    /// A mailbox that exists, in addition to INBOX; repeat for more.
    #[arg(long, value_name = "NAME")]
    pub mailbox: Vec<String>,
    /// The id of a mailbox that exists (RFC 9042); repeat for more.
    #[arg(long, value_name = "ID")]
    pub mailbox_id: Vec<String>,
    /// A mailbox that has a special use, such as `Spam=\\Junk` (RFC 8579); repeat for more.
    #[arg(long, value_name = "NAME=USE", value_parser = special_use)]
    pub special_use: Vec<(String, String)>,
    /// A value of `duplicate` (RFC 7352) that was seen before, by default a Message-ID; repeat for
    /// more.
    #[arg(long, value_name = "VALUE")]
    pub seen: Vec<String>,
    /// A folder of scripts that run before this one, as `sieve.before`.
    #[arg(long, value_name = "FOLDER")]
    pub before: Option<PathBuf>,
    /// A folder of scripts that run after this one, as `sieve.after`.
    #[arg(long, value_name = "FOLDER")]
    pub after: Option<PathBuf>,
    /// A folder of scripts for `include :global`, as `sieve.global`.
    #[arg(long, value_name = "FOLDER")]
    pub global: Option<PathBuf>,
    /// An item of `environment` (RFC 5183), such as `remote-ip=192.0.2.1`; repeat for more. By
    /// default they are those of a delivery on this machine: host, domain, location `MDA`, phase
    /// `during`, name and version.
    #[arg(long, value_name = "ITEM=VALUE", value_parser = environment_item)]
    pub environment: Vec<(String, String)>,
}

/// An item and its value. Names of items have no case (RFC 5183 §4).
fn environment_item(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((item, value)) if !item.is_empty() => Ok((item.to_ascii_lowercase(), value.to_owned())),
        _ => Err("write ITEM=VALUE, for example remote-ip=192.0.2.1".to_owned()),
    }
}

/// A mailbox and its use.
fn special_use(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, flag)) if !name.is_empty() && flag.starts_with('\\') => {
            Ok((name.to_owned(), flag.to_owned()))
        }
        _ => Err("write NAME=USE, for example Spam=\\Junk".to_owned()),
    }
}
