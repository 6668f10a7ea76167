//! Options: where the cluster is, and the engine's limits and timeouts.

pub(crate) mod body_storage;
pub(crate) mod keyspace;
pub(crate) mod s3;
mod url;

use std::path::PathBuf;
use std::time::Duration;

use self::body_storage::BodyStorage;
use self::s3::S3;

/// Encryption of the connections to the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the authorities that signed the nodes' certificates; no other authority is
    /// trusted.
    pub ca: PathBuf,
    /// PEM files of our certificate and its key, for a cluster that requires client certificates.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// The options with which an engine is opened.
#[derive(Clone)]
pub struct Options {
    /// Some of the cluster's nodes as `host` or `host:port`; the others are learnt from them.
    pub hosts: Vec<String>,
    /// The keyspace: lower-case letters, digits and `_`.
    pub keyspace: String,
    /// User and password, if the cluster requires a login.
    pub login: Option<(String, String)>,
    /// Encryption, if the cluster's connections are encrypted.
    pub tls: Option<Tls>,
    /// The data centre whose nodes are used, if the cluster has several. `None`: nodes of any
    /// data centre.
    pub datacenter: Option<String>,
    /// The storage of bodies. `None`: where the keyspace stores them; in Cassandra if the
    /// keyspace is created now. A keyspace that stores them elsewhere is refused.
    pub bodies: Option<BodyStorage>,
    /// Access to the object store, if bodies are stored in one.
    pub s3: S3,
    /// The timeout of a request. It is longer than Cassandra's own timeouts (5 s for reads, 1.8 s
    /// for Paxos under contention). So the database times out first and reports the reason.
    pub request_timeout: Duration,
    /// Bytes of rows that one commit changes at most; a larger one is refused before anything is
    /// written. Cassandra refuses a mutation of half a commit log segment (16 MiB of 32), and
    /// Paxos also stores the proposal. The default of 8 MiB is the rows of 160,000 to 290,000
    /// messages.
    pub commit_bytes_max: usize,
    /// Records to which no commit refers are kept for this long, so that commits in progress are
    /// not disturbed. It is far longer than any commit takes. A commit that takes longer is
    /// written again, if a sweep came between. The deletion of a body alone relies on clocks:
    /// they must differ by less than half of this.
    pub sweep_after: Duration,
    /// The least time between two sweeps of all nodes together. A sweep reads all keys.
    pub sweep_every: Duration,
    /// The length of the lease of the node that sweeps, which renews it; whole seconds, at least
    /// one. If the node fails, another one takes over after this. It is far longer than one piece
    /// of a sweep.
    pub sweep_lease: Duration,
}

impl Options {
    /// For a server.
    pub fn new(hosts: Vec<String>, keyspace: impl Into<String>) -> Self {
        Self {
            hosts,
            keyspace: keyspace.into(),
            login: None,
            tls: None,
            datacenter: None,
            bodies: None,
            s3: S3::default(),
            request_timeout: Duration::from_secs(8),
            commit_bytes_max: 8 << 20,
            sweep_after: Duration::from_secs(3600),
            sweep_every: Duration::from_secs(7 * 86_400),
            sweep_lease: Duration::from_secs(600),
        }
    }
}

impl std::fmt::Debug for Options {
    /// Does not print user and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cassandra://{}/{}", self.hosts.join(","), self.keyspace)
    }
}
