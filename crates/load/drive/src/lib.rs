//! Sessions with a server: virtual users at work, mailboxes filled, mail accounted for.
//!
//! - [`run`] lets virtual users do a workload and checks every answer.
//! - [`populate`] fills mailboxes before that.
//! - [`audit`] compares the messages found afterwards with the acknowledged ones.
//! - [`Accounts`] has the accounts that log in, [`Target`] the address.
//! - [`observed()`] makes a workload from a server's own counts.
//! - [`interrupt`] is Ctrl-C for the whole program.
//!
//! This crate knows only the addresses of the server.

mod accounts;
pub mod audit;
pub mod interrupt;
mod mailbox_list;
mod observed;
pub mod populate;
pub mod run;
mod target;

pub use accounts::Accounts;
pub use observed::observed;
pub use target::{Scheme, Target};
