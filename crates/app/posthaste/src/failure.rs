//! The failure of a command: its message, and its exit code.

use posthaste_authentication::KeyError;
use posthaste_delivery::DeliveryError;
use posthaste_delivery::export::ExportError;
use posthaste_delivery::import::ImportError;
use posthaste_directory::{DirectoryError, ScriptError};
use posthaste_mail_model::NameError;
use posthaste_net::NetError;
use posthaste_queue::QueueError;
use posthaste_retention::RetentionError;
use posthaste_store::StoreError;
use posthaste_store_lmdb::LockError;

use crate::config::ConfigError;

/// Shorthand of this program.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting that the command cannot use.
    #[error("{0}")]
    Usage(String),
    /// Standard input or output.
    #[error("{0}")]
    Terminal(#[from] std::io::Error),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Accounts and aliases.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Keys of domains.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// Sieve scripts.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// Deliveries.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    /// Mail that waits to be sent.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Rules that remove old mail from folders.
    #[error(transparent)]
    Retention(#[from] RetentionError),
    /// Reading mail from files.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Writing mail to files.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The data directory is in use by another server.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Sockets and certificates.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A mailbox name.
    #[error("mailbox name `{name}`: {source}")]
    Name { name: String, source: NameError },
    /// Done, but not all of it: the details have been printed.
    #[error("{0}")]
    Incomplete(String),
    /// Done, except the part that needs an option that allows a loss.
    #[error("{0}")]
    WouldLose(String),
    /// A signal ended it between two steps. The report of what was done has been printed.
    #[error("interrupted; run the command again, and it continues")]
    Interrupted {
        /// The number of the signal.
        signal: u8,
        /// The part that was done before, for the record of administrative acts.
        done: String,
    },
}

impl Failure {
    /// Whether the reader of the output has left, as `head` does when it has enough.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Terminal(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// 2 for wrong usage, 3 if an option that allows a loss is needed. 128 and the number of the
    /// signal after one, as shells have it. 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::WouldLose(_) => 3,
            Self::Interrupted { signal, .. } => signal.saturating_add(128),
            Self::Usage(_) | Self::Config(_) | Self::Name { .. } => 2,
            _ => 1,
        }
    }
}
