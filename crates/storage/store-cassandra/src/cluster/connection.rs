//! The connection to the cluster, with retries.
//!
//! Reads and plain writes may be repeated freely: all of them are idempotent. They are tried a
//! few times with growing, random pauses, then the call fails as `Unavailable`. The driver skips
//! an unreachable node at once, and uses the next one.
//!
//! A conditional write is repeated only by a caller that can find out whether the first attempt was
//! applied: here with [`Connection::conditionally`], and in `commits`. The driver repeats one
//! only where the node said that it did not begin.
//!
//! Each request goes to a node that holds the partition: the driver reads the keyspace's
//! replication for that. Any other node would only forward it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use posthaste_mail_model::Id;
use posthaste_store::{CommitOutcome, Result, StoreError};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::deserialize::value::DeserializeValue;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::{DefaultPolicy, NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::policies::retry::DefaultRetryPolicy;
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch as CqlBatch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{CqlValue, Row as CqlRow};

use crate::cluster::ids::Ids;
#[cfg(test)]
use crate::cluster::work::Counters;
use crate::options::Options;

/// Attempts of a read or plain write. With the pauses below, about two seconds besides the
/// timeouts themselves. That is enough for the failure of one node, and short enough that a
/// client soon gets an error if the database is unreachable.
pub(crate) const ATTEMPTS_MAX: u32 = 6;

/// The first pause is at most this, each further one at most twice the one before.
const PAUSE_MS: u64 = 60;

/// A connection that is silent for this long is probed. It is closed if the probe is not answered
/// within as long again. A node whose machine is lost is then skipped. A shorter time would drop
/// nodes that only collect garbage.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// The number of times that a call starts again because of a concurrent change.
pub(crate) const RESTARTS_MAX: u32 = 8;

/// Requests of one call that run at the same time.
pub(crate) const AT_ONCE: usize = 32;

/// Bound values of one statement of a batch.
pub(crate) type Values = Vec<Option<CqlValue>>;

/// Statements that are one write.
pub(crate) type Batch<'s> = Vec<(&'s PreparedStatement, Values)>;

/// The connection to a cluster.
pub(crate) struct Connection {
    session: Session,
    ids: Ids,
    #[cfg(test)]
    pub(crate) counters: Counters,
}

/// The outcome of one attempt at a conditional write.
pub(crate) enum Attempt {
    Applied,
    /// A condition did not hold.
    Refused,
    /// The write may have been applied, or may yet be.
    Unknown(StoreError),
}

impl Connection {
    pub(crate) async fn open(options: &Options) -> Result<Self> {
        let mut nearest = DefaultPolicy::builder().token_aware(true);
        if let Some(datacenter) = &options.datacenter {
            nearest = nearest.prefer_datacenter(datacenter.clone());
        }
        let profile = ExecutionProfile::builder()
            .consistency(Consistency::LocalQuorum)
            .serial_consistency(Some(SerialConsistency::LocalSerial))
            .request_timeout(Some(options.request_timeout))
            .retry_policy(Arc::new(DefaultRetryPolicy::new()))
            .load_balancing_policy(nearest.build())
            .build();
        let mut builder = SessionBuilder::new()
            .known_nodes(&options.hosts)
            .default_execution_profile_handle(profile.into_handle())
            // Without a keyspace's replication the driver does not know which node has which rows.
            .keyspaces_to_fetch([&options.keyspace])
            .keepalive_interval(KEEPALIVE)
            .keepalive_timeout(KEEPALIVE)
            .connection_timeout(options.request_timeout);
        if let Some((user, password)) = &options.login {
            builder = builder.user(user, password);
        }
        if let Some(tls) = &options.tls {
            builder = builder.tls_context(Some(crate::cluster::tls::config(tls)?));
        }
        let session = builder.build().await.map_err(|e| {
            StoreError::Unavailable(format!("Cassandra at {}: {e}", options.hosts.join(", ")))
        })?;
        Ok(Self {
            session,
            ids: Ids::new()?,
            #[cfg(test)]
            counters: Counters::default(),
        })
    }

    /// Runs a statement of CQL's data definition.
    pub(crate) async fn define(&self, statement: &str) -> Result<()> {
        self.session.query_unpaged(statement, ()).await.map(drop).map_err(unavailable)
    }

    /// The one value that a statement selects.
    pub(crate) async fn value<T>(&self, statement: &str) -> Result<Option<T>>
    where
        T: for<'f> DeserializeValue<'f, 'f>,
    {
        let result = self.session.query_unpaged(statement, ()).await.map_err(unavailable)?;
        Ok(rows::<(Option<T>,)>(result)?.into_iter().next().and_then(|(value,)| value))
    }

    /// A keyspace's replication and whether its writes go through the commit log; `None` if there
    /// is no such keyspace.
    pub(crate) async fn replication(
        &self,
        keyspace: &str,
    ) -> Result<Option<(BTreeMap<String, String>, bool)>> {
        let question =
            "SELECT replication, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?";
        let result = self.session.query_unpaged(question, (keyspace,)).await.map_err(unavailable)?;
        Ok(rows::<(BTreeMap<String, String>, bool)>(result)?.into_iter().next())
    }

    /// A setting of each node, by the node's address.
    pub(crate) async fn settings(&self, name: &str) -> Vec<(String, Result<Option<String>>)> {
        let mut settings = Vec::new();
        for node in self.session.get_cluster_state().get_nodes_info() {
            // The table is a node's own view of itself.
            let mut question = Statement::new("SELECT value FROM system_views.settings WHERE name = ?");
            question.set_consistency(Consistency::One);
            let this = NodeIdentifier::Node(Arc::clone(node));
            question.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(this, None)));
            let answer = self.session.query_unpaged(question, (name,)).await.map_err(unavailable);
            let value = answer.and_then(|answer| {
                Ok(rows::<(Option<String>,)>(answer)?.into_iter().next().and_then(|(value,)| value))
            });
            settings.push((node.address.to_string(), value));
        }
        settings
    }

    /// Prepares a statement that may be repeated.
    pub(crate) async fn prepare(&self, statement: &str) -> Result<PreparedStatement> {
        let mut prepared = self
            .session
            .prepare(statement)
            .await
            .map_err(|e| StoreError::Unavailable(format!("{statement}: {e}")))?;
        prepared.set_is_idempotent(true);
        Ok(prepared)
    }

    /// A new, unique id for a commit, with the present time.
    pub(crate) fn new_id(&self) -> Id {
        self.ids.new_id()
    }

    /// Waits for a random time, longer with each attempt.
    pub(crate) async fn pause(&self, attempt: u32) {
        let most = PAUSE_MS << attempt.min(5);
        tokio::time::sleep(Duration::from_millis(self.ids.random() % most.max(1))).await;
    }

    /// Sends a request of this many statements until it is answered, up to a limit of attempts.
    async fn repeatedly<T, F>(&self, statements: usize, mut act: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, ExecutionError>>,
    {
        let mut attempt = 0;
        loop {
            self.count_request(statements);
            match act().await {
                Ok(done) => return Ok(done),
                Err(error) if attempt + 1 == ATTEMPTS_MAX || !is_temporary(&error) => {
                    return Err(unavailable(error));
                }
                Err(error) => tracing::debug!(%error, attempt, "the database did not answer; trying again"),
            }
            self.pause(attempt).await;
            attempt += 1;
        }
    }

    /// Tests count the requests.
    fn count_request(&self, statements: usize) {
        #[cfg(test)]
        self.counters.request(statements);
        #[cfg(not(test))]
        let _ = statements;
    }

    /// Tests count the rows of the answers.
    fn count_answer(&self, rows: usize) {
        #[cfg(test)]
        self.counters.answer(rows);
        #[cfg(not(test))]
        let _ = rows;
    }

    /// Runs a plain write.
    pub(crate) async fn write(&self, statement: &PreparedStatement, values: impl SerializeRow) -> Result<()> {
        self.repeatedly(1, || self.session.execute_unpaged(statement, &values)).await.map(drop)
    }

    /// Runs plain writes on one partition as one.
    pub(crate) async fn write_all(&self, statements: &[(&PreparedStatement, Values)]) -> Result<()> {
        let mut batch = CqlBatch::new(BatchType::Unlogged);
        batch.set_is_idempotent(true);
        for (statement, _) in statements {
            batch.append_statement((*statement).clone());
        }
        let values: Vec<&Values> = statements.iter().map(|(_, values)| values).collect();
        self.repeatedly(values.len(), || self.session.batch(&batch, &values)).await.map(drop)
    }

    /// Reads the rows of a query whose answer is small.
    pub(crate) async fn read<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Vec<R>>
    where
        R: for<'f> DeserializeRow<'f, 'f>,
    {
        let rows = rows(self.repeatedly(1, || self.session.execute_unpaged(statement, &values)).await?)?;
        self.count_answer(rows.len());
        Ok(rows)
    }

    /// Reads a page of an answer, and where the next begins.
    pub(crate) async fn page<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        from: PagingState,
    ) -> Result<(Vec<R>, Option<PagingState>)>
    where
        R: for<'f> DeserializeRow<'f, 'f>,
    {
        let ask = || self.session.execute_single_page(statement, &values, from.clone());
        let (result, next) = self.repeatedly(1, ask).await?;
        let next = match next {
            PagingStateResponse::HasMorePages { state } => Some(state),
            PagingStateResponse::NoMorePages => None,
        };
        let rows = rows(result)?;
        self.count_answer(rows.len());
        Ok((rows, next))
    }

    /// Reads the pages of an answer, each handed over as it comes; `Break` ends it early.
    pub(crate) async fn pages<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        mut take: impl FnMut(Vec<R>) -> Result<ControlFlow<()>>,
    ) -> Result<()>
    where
        R: for<'f> DeserializeRow<'f, 'f>,
    {
        let mut from = PagingState::start();
        loop {
            let (rows, next) = self.page(statement, &values, from).await?;
            if take(rows)?.is_break() {
                return Ok(());
            }
            let Some(next) = next else { return Ok(()) };
            from = next;
        }
    }

    /// Sends a conditional write until its outcome is known. `applied` says whether our write was
    /// applied.
    pub(crate) async fn conditionally<F>(
        &self,
        batch: Batch<'_>,
        applied: impl Fn() -> F,
    ) -> Result<CommitOutcome>
    where
        F: Future<Output = Result<bool>>,
    {
        let mut failure = StoreError::Busy;
        for attempt in 0..ATTEMPTS_MAX {
            match self.attempt(&batch).await? {
                Attempt::Applied => return Ok(CommitOutcome::Done),
                Attempt::Refused => match applied().await {
                    Ok(true) => return Ok(CommitOutcome::Done),
                    Ok(false) => return Ok(CommitOutcome::Conflict),
                    Err(error @ StoreError::Unavailable(_)) => failure = error,
                    Err(error) => return Err(error),
                },
                Attempt::Unknown(error) => failure = error,
            }
            self.pause(attempt).await;
        }
        match applied().await {
            Ok(true) => Ok(CommitOutcome::Done),
            _ => Err(failure),
        }
    }

    /// Makes an attempt at a conditional batch on one partition.
    pub(crate) async fn attempt(&self, statements: &[(&PreparedStatement, Values)]) -> Result<Attempt> {
        let mut batch = CqlBatch::new(BatchType::Unlogged);
        for (statement, _) in statements {
            batch.append_statement((*statement).clone());
        }
        let values: Vec<&Values> = statements.iter().map(|(_, values)| values).collect();
        self.count_request(values.len());
        match self.session.batch(&batch, values).await {
            Ok(result) => Ok(match applied(result)? {
                true => Attempt::Applied,
                false => Attempt::Refused,
            }),
            Err(error) if is_temporary(&error) => Ok(Attempt::Unknown(unavailable(error))),
            Err(error) => Err(unavailable(error)),
        }
    }
}

fn rows<R>(result: QueryResult) -> Result<Vec<R>>
where
    R: for<'f> DeserializeRow<'f, 'f>,
{
    let result = result.into_rows_result().map_err(|e| unexpected(&e))?;
    let rows = result.rows::<R>().map_err(|e| unexpected(&e))?;
    rows.collect::<std::result::Result<Vec<R>, _>>().map_err(|e| unexpected(&e))
}

/// The first column of the first row of a conditional write's answer.
fn applied(result: QueryResult) -> Result<bool> {
    let first =
        rows::<CqlRow>(result)?.into_iter().next().and_then(|row| row.columns.into_iter().next().flatten());
    match first {
        Some(CqlValue::Boolean(applied)) => Ok(applied),
        _ => Err(StoreError::Unavailable("a conditional write was answered without [applied]".into())),
    }
}

fn unexpected(error: &dyn std::error::Error) -> StoreError {
    StoreError::Unavailable(format!("the database answered in an unexpected form: {error}"))
}

fn unavailable(error: ExecutionError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// Whether a retry may help. It does not if the database refuses the statement itself.
fn is_temporary(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => !matches!(
            error,
            DbError::SyntaxError
                | DbError::Invalid
                | DbError::Unauthorized
                | DbError::ConfigError
                | DbError::AuthenticationError
                | DbError::AlreadyExists { .. }
        ),
        ExecutionError::BadQuery(_)
        | ExecutionError::PrepareError(_)
        | ExecutionError::UseKeyspaceError(_) => false,
        _ => true,
    }
}
