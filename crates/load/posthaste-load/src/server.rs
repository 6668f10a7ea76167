//! Flags that choose the server, the accounts, and what to measure.

use std::fmt::Display;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use posthaste_imap_client::net::{Dialer, Security, Trust};
use posthaste_load_drive::Accounts;
use posthaste_load_drive::{Scheme, Target};
use posthaste_load_measure::{Figures, WatchTarget};
use posthaste_load_text::quantity;

use crate::failure::Failure;

/// Accounts and how to reach them.
#[derive(Args, Clone, Debug)]
pub struct AccountArgs {
    /// Accounts, for instance 'user{0..1199}@example.org' or one name.
    #[arg(long, value_name = "PATTERN")]
    pub users: String,
    /// Password of all accounts; {} is replaced by the account's name, an n in braces by its
    /// number.
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    pub password: Option<String>,
    /// File with one password for all, or lines NAME:PASSWORD, or one password per account in
    /// order.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

impl AccountArgs {
    /// The accounts.
    pub fn accounts(&self) -> Result<Accounts, Failure> {
        let accounts = Accounts::parse(&self.users).map_err(Failure::usage)?;
        match (&self.password, &self.password_file) {
            (Some(password), _) => Ok(accounts.with_password(password)),
            (None, Some(file)) => accounts.with_password_file(file).map_err(Failure::usage),
            (None, None) => Err(Failure::usage("give --password or --password-file")),
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
    /// The dialer for connections to these servers. They get passwords, so it names those whose
    /// certificates are not verified, and those without TLS.
    pub fn dialer<'a>(&self, servers: impl IntoIterator<Item = &'a Target>) -> Result<Dialer, Failure> {
        let servers: Vec<&Target> = servers.into_iter().collect();
        if let Some(hosts) = in_the_clear(servers.iter().copied()) {
            eprintln!(
                "note: passwords for {hosts} are sent without TLS, so every host on the way can read them; an address of \
                 the kind imaps:// or imap+starttls:// uses TLS"
            );
        }
        if let (None, Some(hosts)) = (&self.ca, unverified(servers)) {
            eprintln!(
                "note: certificates of {hosts} are not verified, so any host that answers under that name gets the passwords; \
                 --ca FILE verifies them"
            );
        }
        let trust = self.ca.as_deref().map_or(Trust::Anyone, Trust::Authority);
        let mut dialer = Dialer::new(trust, self.timeout).map_err(Failure::failed)?;
        dialer.quick_ack = !self.delayed_acks;
        Ok(dialer)
    }
}

/// Hosts on other machines whose certificates matter, if there are any.
fn unverified<'a>(servers: impl IntoIterator<Item = &'a Target>) -> Option<String> {
    away(servers, |target| target.endpoint.security != Security::Plain)
}

/// Hosts on other machines that get passwords without TLS, if there are any. Nobody logs in where
/// mail is delivered.
fn in_the_clear<'a>(servers: impl IntoIterator<Item = &'a Target>) -> Option<String> {
    away(servers, |target| {
        target.endpoint.security == Security::Plain && !matches!(target.scheme, Scheme::Smtp | Scheme::Lmtp)
    })
}

/// The hosts of these targets that are on other machines, if there are any.
fn away<'a>(
    servers: impl IntoIterator<Item = &'a Target>,
    wanted: impl Fn(&Target) -> bool,
) -> Option<String> {
    let is_away = |host: &&str| {
        *host != "localhost" && !host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
    };
    let servers = servers.into_iter().filter(|target| wanted(target));
    let mut hosts: Vec<&str> = servers.map(|target| target.endpoint.host.as_str()).filter(is_away).collect();
    hosts.sort_unstable();
    hosts.dedup();
    (!hosts.is_empty()).then(|| hosts.join(", "))
}

/// The parts of the server that are measured.
#[derive(Args, Clone, Debug)]
pub struct WatchArgs {
    /// Measure the cost of this process and all its children.
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Measure the cost of this control group (its directory; version 1 cpuacct or version 2). An
    /// agent has a flag of its own.
    #[arg(long, value_name = "DIR", conflicts_with = "agent")]
    pub server_cgroup: Option<PathBuf>,
    /// The folder of the server's mail: measure how busy its disk is. An agent has a flag of its
    /// own.
    #[arg(long, value_name = "DIR", conflicts_with = "agent")]
    pub server_data: Option<PathBuf>,
    /// Get the server's cost from this agent; with --server-pid, that of this process on its
    /// machine.
    #[arg(long, value_name = "HOST:PORT", requires = "token_file")]
    pub agent: Option<String>,
    /// File with the agent's token, readable by its owner only.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Read the server's own figures at both ends of the measured window: http://HOST:PORT of its
    /// metrics, or its data directory (Posthaste).
    #[arg(long, value_name = "ADDRESS")]
    pub server_metrics: Option<Figures>,
    /// Clock rate that converts CPU seconds to megacycles [default: from /proc/cpuinfo].
    #[arg(long, value_name = "MHZ", value_parser = megahertz)]
    pub mhz: Option<f64>,
}

/// `2270`: all costs in megacycles are multiples of it.
fn megahertz(text: &str) -> Result<f64, String> {
    let mhz = text.parse::<f64>().ok().filter(|mhz| mhz.is_finite() && *mhz > 0.0);
    mhz.ok_or_else(|| format!("`{text}` is not a clock rate in MHz, for instance 2270"))
}

impl WatchArgs {
    /// The target.
    pub fn target(&self) -> Result<WatchTarget, Failure> {
        Ok(match (&self.agent, self.server_pid, &self.server_cgroup) {
            (Some(address), pid, _) => {
                let file =
                    self.token_file.as_deref().ok_or_else(|| Failure::usage("--agent needs --token-file"))?;
                WatchTarget::Agent { address: address.clone(), token: read_token(file)?, pid }
            }
            (None, None, None) if self.server_data.is_some() => {
                return Err(Failure::usage("--server-data needs --server-pid or --server-cgroup"));
            }
            (None, None, None) => WatchTarget::Nothing,
            (None, pid, cgroup) => {
                WatchTarget::Local { pid, cgroup: cgroup.clone(), data: self.server_data.clone() }
            }
        })
    }
}

/// Characters that a token has at least. A peer that reads a connection can try tokens offline: 32
/// hexadecimal digits are 128 bits, more than anybody can try.
const TOKEN_CHARACTERS_MIN: usize = 32;

/// A token from a file: its first line.
pub fn read_token(file: &Path) -> Result<String, Failure> {
    let wrong = |what: &dyn Display| Failure::usage(format!("{}: {what}", file.display()));
    let mode = std::fs::metadata(file).map_err(|e| wrong(&e))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(wrong(&"other users may read this token; make it private: chmod 600"));
    }
    let text = std::fs::read_to_string(file).map_err(|e| wrong(&e))?;
    match text.lines().next().map(str::trim).filter(|t| t.len() >= TOKEN_CHARACTERS_MIN) {
        Some(token) => Ok(token.to_owned()),
        None => Err(wrong(&format!(
            "a token has at least {TOKEN_CHARACTERS_MIN} characters; make one by openssl rand -hex 32"
        ))),
    }
}

/// A target of one of these protocols. `flag` names the option in an error.
pub fn target(url: &str, allowed: &[Scheme], flag: &str) -> Result<Target, Failure> {
    let target: Target = url.parse().map_err(Failure::usage)?;
    if allowed.contains(&target.scheme) {
        return Ok(target);
    }
    let schemes: Vec<&str> = allowed.iter().flat_map(|scheme| scheme.names()).collect();
    Err(Failure::usage(format!("{flag} {url}: this option takes {}", schemes.join(", "))))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    fn said(failure: Failure) -> String {
        match failure {
            Failure::Usage(what) | Failure::Failed(what) => what,
            Failure::Printed | Failure::Undecided => String::new(),
        }
    }

    #[test]
    fn servers_on_other_machines_are_named_if_their_certificates_are_not_verified() {
        let of = |urls: &[&str]| {
            let targets: Vec<Target> = urls.iter().map(|url| url.parse().unwrap()).collect();
            unverified(&targets)
        };
        assert_eq!(of(&["imaps://127.0.0.1", "imap+starttls://localhost", "imaps://[::1]"]), None);
        assert_eq!(of(&["imap://mail.example.org", "lmtp://192.0.2.1"]), None);
        let two = ["imaps://b.example.org", "submissions://a.example.org", "imaps://b.example.org:1993"];
        assert_eq!(of(&two), Some("a.example.org, b.example.org".to_owned()));
    }

    #[test]
    fn servers_on_other_machines_are_named_if_they_get_passwords_without_tls() {
        let of = |urls: &[&str]| {
            let targets: Vec<Target> = urls.iter().map(|url| url.parse().unwrap()).collect();
            in_the_clear(&targets)
        };
        assert_eq!(of(&["imap://127.0.0.1", "pop3://localhost", "imap://[::1]"]), None);
        assert_eq!(of(&["imaps://a.example.org", "imap+starttls://b.example.org"]), None);
        assert_eq!(of(&["lmtp://192.0.2.1", "smtp://b.example.org"]), None);
        let three = ["submission+plain://b.example.org", "imap://a.example.org", "pop3://b.example.org"];
        assert_eq!(of(&three), Some("a.example.org, b.example.org".to_owned()));
    }

    #[test]
    fn a_token_is_long_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let read = |text: &str, mode: u32| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            read_token(&file).map_err(said)
        };
        let token = "0123456789abcdef0123456789abcdef";
        assert_eq!(read(&format!("{token}\n"), 0o600), Ok(token.to_owned()));
        assert!(read(&token[1..], 0o600).unwrap_err().contains("at least 32 characters"));
        for readable in [0o640, 0o604, 0o644] {
            assert!(read(token, readable).unwrap_err().contains("chmod 600"));
        }
    }
}
