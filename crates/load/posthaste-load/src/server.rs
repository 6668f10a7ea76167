//! Flags that choose the server, the accounts, and what to measure.

use crate::Trouble;
use clap::Args;
use posthaste_imap_client::net::{Dialer, Trust};
use posthaste_load_drive::Accounts;
use posthaste_load_drive::{Scheme, Target};
use posthaste_load_measure::WatchTarget;
use posthaste_load_text::quantity;
use std::path::PathBuf;
use std::time::Duration;

/// Accounts and how to reach them.
#[derive(Args, Clone, Debug)]
pub struct AccountArgs {
    /// Accounts, for instance 'user{0..1199}@example.org' or one name.
    #[arg(long, value_name = "PATTERN")]
    pub users: String,
    /// Password of all accounts; {} is replaced by the account's name, {n} by its number.
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    pub password: Option<String>,
    /// File with one password for all, or lines NAME:PASSWORD, or one password per account in
    /// order.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

impl AccountArgs {
    /// The accounts.
    pub fn accounts(&self) -> Result<Accounts, Trouble> {
        let accounts = Accounts::parse(&self.users).map_err(Trouble::usage)?;
        match (&self.password, &self.password_file) {
            (Some(password), _) => Ok(accounts.with_password(password)),
            (None, Some(file)) => accounts.with_password_file(file).map_err(Trouble::usage),
            (None, None) => Err(Trouble::usage("give --password or --password-file")),
        }
    }
}

/// How connections are made.
#[derive(Args, Clone, Debug)]
pub struct ConnectionArgs {
    /// Longest wait for a connection or an answer.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::duration)]
    pub timeout: Duration,
    /// Accept only certificates signed by those in this PEM file [default: any certificate].
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Let the kernel delay acknowledgements (up to 40 ms with some servers) instead of requesting
    /// quick ones.
    #[arg(long)]
    pub delayed_acks: bool,
}

impl ConnectionArgs {
    /// The dialer.
    pub fn dialer(&self) -> Result<Dialer, Trouble> {
        let trust = self.ca.as_deref().map_or(Trust::Anyone, Trust::Authority);
        let mut dialer = Dialer::new(trust, self.timeout).map_err(Trouble::failed)?;
        dialer.quick_ack = !self.delayed_acks;
        Ok(dialer)
    }
}

/// What to measure of the server.
#[derive(Args, Clone, Debug)]
pub struct WatchArgs {
    /// Measure the cost of this process and all its children.
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Measure the cost of this control group (its directory; version 1 cpuacct or version 2).
    #[arg(long, value_name = "DIR")]
    pub server_cgroup: Option<PathBuf>,
    /// Get the server's cost from this agent; with --server-pid, that of this process on its
    /// machine.
    #[arg(long, value_name = "HOST:PORT", requires = "token_file")]
    pub agent: Option<String>,
    /// File with the agent's token.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Clock rate that converts CPU seconds to megacycles [default: from /proc/cpuinfo].
    #[arg(long, value_name = "MHZ")]
    pub mhz: Option<f64>,
}

impl WatchArgs {
    /// The target.
    pub fn target(&self) -> Result<WatchTarget, Trouble> {
        Ok(match (&self.agent, self.server_pid, &self.server_cgroup) {
            (Some(address), pid, _) => {
                let file =
                    self.token_file.as_deref().ok_or_else(|| Trouble::usage("--agent needs --token-file"))?;
                WatchTarget::Agent { address: address.clone(), token: read_token(file)?, pid }
            }
            (None, None, None) => WatchTarget::Nothing,
            (None, pid, cgroup) => WatchTarget::Local { pid, cgroup: cgroup.clone() },
        })
    }
}

/// A token from a file: its first line.
pub fn read_token(file: &std::path::Path) -> Result<String, Trouble> {
    let text =
        std::fs::read_to_string(file).map_err(|e| Trouble::usage(format!("{}: {e}", file.display())))?;
    match text.lines().next().map(str::trim).filter(|t| t.len() >= 8) {
        Some(token) => Ok(token.to_owned()),
        None => Err(Trouble::usage(format!("{}: a token has at least 8 characters", file.display()))),
    }
}

/// A target of one of these protocols.
pub fn target(url: &str, allowed: &[Scheme], flag: &str) -> Result<Target, Trouble> {
    let target: Target = url.parse().map_err(Trouble::usage)?;
    if allowed.contains(&target.scheme) {
        return Ok(target);
    }
    Err(Trouble::usage(format!("{flag} {url}: not a protocol for this")))
}
