//! Every statement, prepared once, by the table it is for. `{k}` is the keyspace.

use posthaste_store::Result;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use crate::cluster::connection::Connection;

/// Declares the statements of each table: a name, the CQL, rows in a page.
macro_rules! statements {
    ($($table:ident: $Table:ident { $($name:ident: $cql:literal, $page:literal;)* })*) => {
        $(
            /// The statements of one table.
            pub(crate) struct $Table { $(pub(crate) $name: PreparedStatement,)* }
        )*

        /// Every statement.
        pub(crate) struct Statements { $(pub(crate) $table: $Table,)* }

        impl Statements {
            pub(crate) async fn prepare(connection: &Connection, keyspace: &str) -> Result<Self> {
                let mut statements = Self { $($table: $Table { $($name: {
                    let mut prepared = connection.prepare(&$cql.replace("{k}", keyspace)).await?;
                    prepared.set_page_size($page);
                    prepared
                },)* },)* };
                statements.set_serial();
                Ok(statements)
            }
        }
    };
}

impl Statements {
    /// A serial read first completes, or rules out, what other conditional writes began.
    fn set_serial(&mut self) {
        for serial in [
            &mut self.mailbox.head_serial,
            &mut self.mailbox.log_at,
            &mut self.list.read_serial,
            &mut self.directory.read_serial,
            &mut self.lease.read,
        ] {
            serial.set_consistency(Consistency::LocalSerial);
        }
    }
}

statements! {
    mailbox: MailboxTable {
        head: "SELECT DISTINCT modseq, head FROM {k}.mailbox WHERE mailbox = ?", 10;
        head_serial: "SELECT DISTINCT modseq, head, fence FROM {k}.mailbox WHERE mailbox = ?", 10;
        owner: "SELECT DISTINCT account FROM {k}.mailbox WHERE mailbox = ?", 10;
        all: "SELECT DISTINCT mailbox, account, modseq FROM {k}.mailbox", 100;
        // 128 chunks are at most 800 KiB.
        chunks: "SELECT modseq, low, value FROM {k}.mailbox WHERE mailbox = ? AND kind = 0 AND low >= ? AND low <= ?", 128;
        floor: "SELECT modseq, head, fence, low, value FROM {k}.mailbox WHERE mailbox = ? AND kind = 0 AND low <= ? \
            ORDER BY kind DESC, low DESC LIMIT 1", 10;
        log: "SELECT modseq, head, low, value FROM {k}.mailbox WHERE mailbox = ? AND kind = 1 AND low > ?", 2000;
        log_at: "SELECT value FROM {k}.mailbox WHERE mailbox = ? AND kind = 1 AND low = ?", 10;
        create: "UPDATE {k}.mailbox SET modseq = 0, head = ?, account = ?, fence = ? WHERE mailbox = ? \
            IF modseq = null", 10;
        advance: "UPDATE {k}.mailbox SET modseq = ?, head = ? WHERE mailbox = ? IF modseq = ? AND fence = ?", 10;
        fence: "UPDATE {k}.mailbox SET fence = ? WHERE mailbox = ? IF modseq >= 0 AND fence = ?", 10;
        close: "UPDATE {k}.mailbox SET modseq = -1 WHERE mailbox = ? IF modseq >= 0 AND fence = ?", 10;
        put: "UPDATE {k}.mailbox SET value = ? WHERE mailbox = ? AND kind = ? AND low = ?", 10;
        trim: "DELETE FROM {k}.mailbox WHERE mailbox = ? AND kind = 1 AND low <= ?", 10;
        erase: "UPDATE {k}.mailbox SET modseq = null, head = null, account = null, fence = null WHERE mailbox = ? \
            IF modseq = -1", 10;
        erase_rows: "DELETE FROM {k}.mailbox WHERE mailbox = ? AND kind = ?", 10;
    }

    list: ListTable {
        read: "SELECT version, value, fence FROM {k}.list WHERE account = ?", 10;
        read_serial: "SELECT version, value, fence FROM {k}.list WHERE account = ?", 10;
        put: "UPDATE {k}.list SET version = ?, value = ? WHERE account = ? IF version = ? AND fence = ?", 10;
        fence: "UPDATE {k}.list SET fence = ? WHERE account = ? IF version = ? AND fence = ?", 10;
    }

    directory: DirectoryTable {
        read: "SELECT version, commit, value FROM {k}.directory WHERE bucket = ? AND name = ?", 10;
        read_serial: "SELECT version, commit, value FROM {k}.directory WHERE bucket = ? AND name = ?", 10;
        scan: "SELECT name, version, value FROM {k}.directory WHERE bucket = ? AND name >= ? AND name < ? \
            LIMIT ?", 500;
        names: "SELECT name, version FROM {k}.directory WHERE bucket = ? AND name >= ? AND name < ? LIMIT ?", 5000;
        put: "UPDATE {k}.directory SET version = ?, commit = ?, value = ? WHERE bucket = ? AND name = ? \
            IF version = ?", 10;
        delete: "DELETE FROM {k}.directory WHERE bucket = ? AND name = ? IF version = ?", 10;
    }

    summary: SummaryTable {
        read: "SELECT uid, commit, value, created FROM {k}.summary WHERE mailbox = ? AND bucket = ? AND uid >= ? \
            AND uid <= ?", 512;
        keys: "SELECT uid, commit FROM {k}.summary WHERE mailbox = ? AND bucket = ?", 1000;
        put: "UPDATE {k}.summary SET value = ?, created = ? WHERE mailbox = ? AND bucket = ? AND uid = ? \
            AND commit = ?", 10;
        replace: "UPDATE {k}.summary SET value = ? WHERE mailbox = ? AND bucket = ? AND uid = ? AND commit = ?", 10;
        delete: "DELETE FROM {k}.summary WHERE mailbox = ? AND bucket = ? AND uid = ? AND commit = ?", 10;
    }

    body: BodyTable {
        // 16 chunks are 4 MiB.
        read: "SELECT n, len, value FROM {k}.body WHERE body = ? AND n >= ? AND n <= ?", 16;
        put: "UPDATE {k}.body SET len = ?, value = ? WHERE body = ? AND n = ?", 10;
        describe: "UPDATE {k}.body USING TIMESTAMP ? SET len = ?, value = ? WHERE body = ? AND n = ?", 10;
        len: "SELECT DISTINCT len FROM {k}.body WHERE body = ?", 10;
        delete: "DELETE FROM {k}.body USING TIMESTAMP ? WHERE body = ?", 10;
    }

    reference: ReferenceTable {
        of_body: "SELECT mailbox, uid, commit FROM {k}.bodyref WHERE body = ?", 500;
        all: "SELECT body, mailbox, uid, commit FROM {k}.bodyref", 1000;
        put: "INSERT INTO {k}.bodyref (body, mailbox, uid, commit) VALUES (?, ?, ?, ?)", 10;
        delete: "DELETE FROM {k}.bodyref WHERE body = ? AND mailbox = ? AND uid = ? AND commit = ?", 10;
        delete_all: "DELETE FROM {k}.bodyref USING TIMESTAMP ? WHERE body = ?", 10;
    }

    lease: LeaseTable {
        read: "SELECT holder, ended FROM {k}.lease WHERE name = 'sweep'", 10;
        take: "UPDATE {k}.lease USING TTL ? SET holder = ? WHERE name = 'sweep' IF holder = ?", 10;
        end: "UPDATE {k}.lease SET holder = null, ended = ? WHERE name = 'sweep' IF holder = ?", 10;
    }
}
