//! The engine against a real Cassandra (`scripts/cassandra env`).

mod conformance;
#[path = "../keyspace/mod.rs"]
mod keyspace;
mod lease;
mod limits;
mod objects;
mod secure;
