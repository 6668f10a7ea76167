//! The engine on Apache Cassandra, for those who outgrow one machine.
//!
//! Any number of server nodes share one keyspace, and none of them keeps anything: a commit is one conditional batch on the
//! mailbox's partition (Paxos), so that two nodes never apply two commits to one state. What a commit refers to (bodies,
//! summaries) is written before it, under ids of its own; what no commit came to refer to is swept away later.
//!
//! What always holds: a commit is applied whole or not at all; it is acknowledged only when a quorum has it; a lost answer
//! is settled by asking again, never guessed. The tables and the reasons are in `docs/cassandra.md`.

mod advice;
mod bodies;
mod check;
mod chunk;
mod commit;
mod contents;
mod engine;
mod lease;
mod lifetime;
mod lists;
mod options;
mod read;
mod schema;
mod seal;
mod session;
mod setting;
mod sweep;
mod tls;
mod url;
mod values;

#[cfg(test)]
mod tests;

pub use advice::advice;
pub use bodies::{BodyPlace, S3};
pub use engine::{CassandraEngine, init, upgrade};
pub use options::{Options, Tls};
