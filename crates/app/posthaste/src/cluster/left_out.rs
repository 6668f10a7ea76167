//! Instead of a cluster, for programs built without the feature `cluster`: a refusal that names the
//! setting and the remedy.
#![cfg_attr(feature = "cluster", allow(dead_code, reason = "only its tests use it"))]

use std::convert::Infallible;
use std::sync::Arc;

use posthaste_mail_model::masked;
use posthaste_store::Engine;

use super::SCHEME;
use crate::config::Config;
use crate::failure::{Failure, Result};

/// The text of `--version`: the version and the engines.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (engines: embedded)");

/// The error text after the address of a cluster.
const REMEDY: &str = "is a cluster, and this program was built without clusters; build it with \
                      `cargo build --release --features cluster`";

/// A cluster that this program cannot reach: no value of it exists.
#[derive(Debug)]
pub struct Cluster(Infallible);

impl Cluster {
    /// Refuses the cluster that `engine` names.
    pub fn configured(config: &Config) -> Result<Self> {
        Err(Failure::Usage(format!("`engine`: {}", refusal(&config.engine))))
    }

    /// Refuses the cluster with this address.
    pub fn at(address: &str, _config: &Config) -> Result<Self> {
        Err(Failure::Usage(refusal(address)))
    }

    /// Never called.
    pub async fn open(self) -> Result<Arc<dyn Engine>> {
        match self.0 {}
    }

    /// Never called.
    pub async fn advice(&self) -> Result<Vec<String>> {
        match self.0 {}
    }

    /// Never called.
    pub async fn init(&self, _replicas: u32) -> Result<()> {
        match self.0 {}
    }

    /// Never called.
    pub async fn upgrade(&self) -> Result<(i32, i32)> {
        match self.0 {}
    }
}

/// Why this engine cannot be used, without its password.
fn refusal(engine: &str) -> String {
    let engine = masked(engine);
    match engine.starts_with(SCHEME) {
        true => format!("{engine} {REMEDY}"),
        false => format!("{engine} is neither `embedded` nor {SCHEME}HOST/KEYSPACE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_refused_with_the_setting_and_the_remedy_and_without_its_password() {
        let config = Config { engine: "cassandra://mail:hunter2@db1/mail".into(), ..Config::default() };
        let refused = Cluster::configured(&config).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`engine`: cassandra://mail:…@db1/mail is a cluster, and this program was built without clusters; build \
             it with `cargo build --release --features cluster`"
        );
        assert_eq!(refused.exit_code(), 2);
        let place = Cluster::at("cassandra://db1/mail", &config).unwrap_err().to_string();
        assert!(place.starts_with("cassandra://db1/mail is a cluster, and"), "{place}");
        let other = Config { engine: "postgres://db1/mail".into(), ..Config::default() };
        assert!(Cluster::configured(&other).unwrap_err().to_string().contains("is neither `embedded`"));
    }
}
