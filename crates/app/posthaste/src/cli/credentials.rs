//! Credentials of an account other than its password.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub enum AppPasswords {
    /// Create an app password. It is printed only once.
    Add {
        /// The account.
        name: String,
        /// A label, such as the device that uses the password.
        label: String,
        /// Only for this protocol; repeat for more. The default is all protocols.
        #[arg(long, value_enum)]
        protocol: Vec<Scope>,
        /// How long it is valid, for example `90 days`. By default it is valid until it is removed.
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        expires: Option<Duration>,
    },
    /// List app passwords, a line each: label, id, protocols, last use (to a day).
    List {
        /// The account.
        name: String,
        /// As JSON, a line each.
        #[arg(long)]
        json: bool,
    },
    /// Remove an app password. Its sessions end.
    Remove {
        /// The account.
        name: String,
        /// The label or the id of the app password.
        which: String,
    },
}

/// The protocols that an app password can be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// IMAP
    Imap,
    /// POP3
    Pop3,
    /// Submission
    Submission,
    /// ManageSieve
    Sieve,
}

#[derive(Debug, Args)]
pub struct Certificates {
    /// Accept this client certificate at logins: its PEM file or its SHA-256 fingerprint; repeat
    /// for more. An account with such a list takes no other certificate. See `login.certificates`.
    #[arg(long, value_name = "FILE|FINGERPRINT")]
    pub certificate: Vec<String>,
    /// Remove a certificate from the list. Its sessions end.
    #[arg(long, value_name = "FILE|FINGERPRINT")]
    pub remove_certificate: Vec<String>,
}

impl Certificates {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.certificate.is_empty() && self.remove_certificate.is_empty()
    }
}
