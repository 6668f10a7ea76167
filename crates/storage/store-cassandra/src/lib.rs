//! The engine on Apache Cassandra, for those who outgrow one machine.
//!
//! Any number of server nodes share one keyspace, and none of them keeps anything: a commit is one
//! conditional batch on the mailbox's partition (Paxos), so that two nodes never apply two commits
//! to one state. What a commit refers to (bodies, summaries) is written before it, under ids of its
//! own; the sweep removes later what no commit refers to.
//!
//! What always holds: a commit is applied whole or not at all; it is acknowledged only when a
//! quorum has it; after a lost answer the engine reads what happened, and never guesses. The tables
//! and the reasons are in `docs/cassandra.md`.
//!
//! The rooms, from the bottom up. No file uses one of a room above it.
//!
//! | room | files |
//! | --- | --- |
//! | stored values | `seal`, `chunk`, `values`; `place`, `s3`, `objects`, `keeping` of `bodies` |
//! | the cluster | `options`, `tls`, `connection`, `statements`, `cluster` |
//! | its tables | `setting`, `schema`, `advice`, `url` |
//! | `Mailboxes`, `Bodies` | `mailboxes`, `bodies` |
//! | what changes them | `contents`, `commit`, `lists`, `directory` |
//! | what looks after them | `lease`, `sweep`, `check` |
//! | the engine | `engine`: only puts the rooms together and delegates |

mod advice;
mod bodies;
mod check;
mod chunk;
mod cluster;
mod commit;
mod connection;
mod contents;
mod directory;
mod engine;
mod lease;
mod lists;
mod mailboxes;
mod options;
mod schema;
mod seal;
mod setting;
mod statements;
mod sweep;
mod tls;
mod url;
mod values;

#[cfg(test)]
mod tests;

pub use advice::advice;
pub use bodies::place::BodyPlace;
pub use bodies::s3::S3;
pub use engine::{CassandraEngine, init, upgrade};
pub use options::{Options, Tls};
