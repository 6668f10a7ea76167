//! The cost of the server's work, and the account that causes it. CPU time, octets, commits and
//! reads of the store are counted for each protocol, command, folder size, account and client
//! program.
//!
//! A session runs as a [`Metered`] task. While the task is polled, its meter is the current one of
//! the thread. Code of any layer adds to the current meter with [`count`]; where there is none,
//! this does nothing. A session names each command with [`command`], and ends its cost with
//! [`command_answered`] or [`command_ended`]. Then everything counted since the end of the command
//! before is added to the [`Registry`].
//!
//! A task that a session spawns is metered for the session by [`Current::metered`].
//!
//! So nothing is passed through the layers. A poll reads the machine's clock twice, and each
//! further command in the same poll reads it again. Few of them read the thread's CPU clock. The
//! registry grows with the number of commands, folder sizes, accounts, their uses, and client
//! programs. Each of these has a bound. The registry never grows with the number of messages.

mod account;
mod clock;
mod command_key;
mod counters;
mod fit;
mod folder_size;
mod long_poll;
mod meter;
mod registry;
mod threads;

pub use account::{ACCOUNTS_MAX, AccountCost, OpenFolder, USES_MAX, Use};
pub use command_key::CommandKey;
pub use counters::{Amounts, Counter};
pub use fit::Line;
pub use folder_size::FolderSize;
pub use long_poll::{LongPoll, watch_polls};
pub use meter::{
    Continued, Current, Metered, account, client, command, command_answered, command_ended, count, current,
    verb,
};
pub use registry::{CLIENTS_MAX, Registry, Snapshot};
pub use threads::{ThreadCpu, thread_ends, threads};
