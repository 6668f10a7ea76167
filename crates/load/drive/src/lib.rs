//! Sessions with a server: virtual users at work, mailboxes filled, mail accounted for.
//!
//! - [`run`] lets virtual users do a workload and checks every answer.
//! - [`populate`] fills mailboxes before that.
//! - [`audit`] compares what is there afterwards with what was acknowledged.
//! - [`Accounts`] says who logs in, [`Target`] where.
//! - [`observed()`] is what a server counted, from which a workload is made.
//! - [`interrupt`] is Ctrl-C for the whole program.
//!
//! Of the server, only its addresses are known here.

mod accounts;
pub mod audit;
pub mod interrupt;
mod observed;
pub mod populate;
pub mod run;
mod target;

pub use accounts::Accounts;
pub use observed::observed;
pub use target::{Scheme, Target};
