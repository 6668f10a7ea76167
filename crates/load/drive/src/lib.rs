//! Sessions with a server: virtual users at work, mailboxes filled, mail accounted for.
//!
//! - [`run`] lets virtual users do a workload and checks every answer.
//! - [`populate`] fills mailboxes before that.
//! - [`audit`] compares what is there afterwards with what was acknowledged.
//! - [`Accounts`] says who logs in, [`Target`] where.
//! - [`interrupt`] is Ctrl-C for the whole program.
//!
//! The server is a stranger here: all that is known of it is its addresses.

mod accounts;
pub mod audit;
pub mod interrupt;
pub mod populate;
pub mod run;
mod target;

pub use accounts::Accounts;
pub use target::{Scheme, Target};
