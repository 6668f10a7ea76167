//! The engine on Apache Cassandra, for stores that outgrow one machine.
//!
//! Any number of server nodes share one keyspace, and no node keeps any state. A commit is one
//! conditional batch on the mailbox's partition (Paxos). So two nodes never apply two commits to
//! one state. Bodies and summaries are written before the commit that refers to them, under ids
//! of their own. The sweep later removes those to which no commit refers.
//!
//! Invariants: a commit is applied whole or not at all. It is acknowledged only when a quorum has
//! it. After a lost answer the engine reads the outcome, and never guesses. The tables and the
//! reasons are in `docs/cassandra.md`.
//!
//! The folders, from the bottom up. No file uses one of a folder above it.
//!
//! | folder | what it has |
//! | --- | --- |
//! | `options` | the options, the address, names of storages of bodies, access to S3 |
//! | `stored` | the bytes of stored values, and their checksums |
//! | `cluster` | `Cluster`: the connection, the statements by table, ids and time |
//! | `mailboxes` | `Mailboxes`: partitions, rows, summaries |
//! | `bodies` | `Bodies`: in chunks, or as objects |
//! | `commits` | `Commits`: bodies and summaries first, then the conditional batch |
//! | `list_work`, `lists`, `directory` | work on long lists, `Lists`, `Directory` |
//! | `schema` | the tables, the settings of a keyspace, advice |
//! | `sweep`, `check` | `Sweep` removes what no commit refers to; `Check` reads everything |
//! | `engine` | builds the structs and delegates each call |

mod bodies;
mod check;
mod cluster;
mod commits;
mod directory;
mod engine;
mod list_work;
mod lists;
mod mailboxes;
mod options;
mod schema;
mod stored;
mod sweep;

#[cfg(test)]
mod tests;

pub use engine::{CassandraEngine, init, upgrade};
pub use options::body_storage::BodyStorage;
pub use options::s3::S3;
pub use options::{Options, Tls};
pub use schema::advice::advice;
