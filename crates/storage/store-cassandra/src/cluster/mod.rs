//! The cluster: the connection to it, and every statement prepared.
//!
//! Mailboxes, lists, bodies and the sweep reach the database only through this module.

pub(crate) mod connection;
pub(crate) mod ids;
pub(crate) mod statements;
mod tls;
#[cfg(test)]
pub(crate) mod work;

use std::ops::Deref;

use posthaste_store::Result;

use crate::cluster::connection::Connection;
use crate::cluster::statements::Statements;

/// A keyspace on a connected cluster.
pub(crate) struct Cluster {
    connection: Connection,
    pub(crate) statements: Statements,
}

impl Cluster {
    /// Prepares every statement on a keyspace whose tables exist.
    pub(crate) async fn new(connection: Connection, keyspace: &str) -> Result<Self> {
        let statements = Statements::prepare(&connection, keyspace).await?;
        Ok(Self { connection, statements })
    }
}

impl Deref for Cluster {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}
