//! One run: virtual users by the thousand, their answers checked, their times kept.
//!
//! - [`engine`]: threads, phases, putting the result together. - [`user`]: one virtual user's life.
//! - [`session`], [`read`], [`change`]: IMAP steps. - [`pop3`], [`mailer`]: the other protocols.
//! - [`follow`]: every response checked against [`model`]. - [`ledger`]: what an audit will expect.
//! - [`recorder`]: times and errors. - [`open_loop`]: tasks by the clock instead of by the last
//!   answer.
//!
//! Threads share nothing while measuring but counters: each has its own runtime, its own users, its
//! own recorder.

mod arrivals;
mod change;
mod engine;
mod failure;
mod follow;
mod ledger;
pub mod live;
mod mailer;
mod model;
mod open_loop;
mod options;
mod phase;
mod pop3;
mod pop3_user;
mod read;
mod recorder;
mod session;
mod shared;
mod user;

pub use engine::{Ended, run};
pub use failure::Failure;
pub use follow::{Follow, Wanted, flag_bits};
pub use ledger::{Ledger, Span};
pub use mailer::{Mailer, MailerError};
pub use model::{FOLDER_PREFIX, MailboxModel, Message, folder_name};
pub use options::{Arrivals, ClusterOptions, RunOptions, SendBy};
pub use phase::Phase;
