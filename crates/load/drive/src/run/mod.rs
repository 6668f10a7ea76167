//! One run: virtual users by the thousand, their answers checked, their times kept.
//!
//! - [`engine`]: threads, phases. [`result`], [`doubts`]: the result of a run.
//! - [`user`]: a virtual user. [`life`], [`steps`]: what it does. [`times`]: what is noted of it.
//! - [`session`], [`read`], [`change`], [`by_append`]: IMAP steps.
//! - [`pop3`], [`pop3_user`], [`maildrop`]: POP3. - [`mailer`]: mail that is sent.
//! - [`follow`]: every response checked against [`model`]. - [`ledger`]: what an audit will expect.
//! - [`recorder`]: times and errors. - [`open_loop`]: tasks by the clock instead of by the last
//!   answer. [`alone`]: each transaction measured alone. [`rehearsal`]: reading alone, to count its
//!   cost.
//!
//! Threads share nothing while measuring but counters: each has its own runtime, its own users, its
//! own recorder.

mod alone;
mod alone_cost;
mod answering;
mod arrivals;
mod by_append;
mod change;
mod doubts;
mod engine;
mod failure;
mod follow;
mod identity;
mod ledger;
mod life;
mod live;
mod maildrop;
mod mailer;
mod model;
mod open_loop;
mod options;
mod phase;
mod pop3;
mod pop3_user;
mod read;
mod recorder;
mod rehearsal;
mod result;
mod session;
mod shared;
mod steps;
mod times;
mod user;
mod watched;

pub use answering::refuse_wrong_protocols;
pub use engine::{Begin, Ended, run, run_from};
pub use failure::Failure;
pub use identity::identify;
pub use ledger::{CountBounds, Ledger};
pub(crate) use mailer::Mailer;
pub use mailer::MailerError;
pub(crate) use model::folder_name;
pub use options::{Arrivals, ClusterOptions, Outside, Pools, RunOptions, SendBy};
pub(crate) use pop3::Pop3;
pub use rehearsal::Rehearsal;
