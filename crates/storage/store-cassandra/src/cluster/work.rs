//! Counts an engine's requests to the database. Tests compare the costs of operations with it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The requests of the engine to the database so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    /// Queries, writes and batches sent. Each page is one.
    pub(crate) requests: u64,
    /// Statements in these requests.
    pub(crate) statements: u64,
    /// Rows of all answers.
    pub(crate) rows: u64,
}

impl Work {
    /// The requests after `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            statements: self.statements - earlier.statements,
            rows: self.rows - earlier.rows,
        }
    }
}

/// The counters of one connection.
#[derive(Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    statements: AtomicU64,
    rows: AtomicU64,
}

impl Counters {
    pub(crate) fn request(&self, statements: usize) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.statements.fetch_add(statements as u64, Ordering::Relaxed);
    }

    pub(crate) fn answer(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub(crate) fn so_far(&self) -> Work {
        Work {
            requests: self.requests.load(Ordering::Relaxed),
            statements: self.statements.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
        }
    }
}
