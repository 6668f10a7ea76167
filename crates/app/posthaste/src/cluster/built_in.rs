//! The cluster itself, for programs built with the feature `cluster`.

use std::path::PathBuf;
use std::sync::Arc;

use posthaste_mail_model::{masked, masked_text};
use posthaste_store::Engine;
use posthaste_store_cassandra::{BodyStorage, CassandraEngine, Options, S3};

use crate::config::{Config, S3 as S3Config};
use crate::failure::{Failure, Result};
use crate::private;

/// The text of `--version`: the version and the engines.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (engines: embedded, cassandra)");

/// The address of a cluster, and the options of the connection.
pub struct Cluster(Options);

impl std::fmt::Debug for Cluster {
    /// The address without user and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Cluster {
    /// The cluster that `engine` names.
    pub fn configured(config: &Config) -> Result<Self> {
        let mut cluster = Self::at(&config.engine, config)?;
        let bodies = (!config.bodies.is_empty()).then(|| config.bodies.parse::<BodyStorage>());
        // Its error may name a part of a password, if one has a slash.
        let wrong = |why: String| match config.bodies.contains('@') {
            true => Failure::Usage(format!("`bodies`: {} is not s3://BUCKET", masked(&config.bodies))),
            false => Failure::Usage(format!("`bodies`: {}", masked_text(&why))),
        };
        let bodies = bodies.transpose().map_err(wrong)?;
        cluster.0.bodies = bodies;
        Ok(cluster)
    }

    /// The cluster with this address. Its bodies are where its keyspace keeps them.
    pub fn at(address: &str, config: &Config) -> Result<Self> {
        for (setting, file) in secret_files(address) {
            private::tighten_secret(setting, &file)?;
        }
        let mut options = Options::from_url(address).map_err(Failure::Usage)?;
        options.s3 = object_store(&config.s3)?;
        Ok(Self(options))
    }

    /// Opens its engine.
    pub async fn open(self) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(CassandraEngine::open(self.0).await?))
    }

    /// Changes that its administrator should make, a sentence each.
    pub async fn advice(&self) -> Result<Vec<String>> {
        Ok(posthaste_store_cassandra::advice(&self.0).await?)
    }

    /// Makes keyspace and tables where they are missing.
    pub async fn init(&self, replicas: u32) -> Result<()> {
        Ok(posthaste_store_cassandra::init(&self.0, replicas).await?)
    }

    /// Upgrades the tables to the version of this program: the versions that they had and have.
    pub async fn upgrade(&self) -> Result<(i32, i32)> {
        Ok(posthaste_store_cassandra::upgrade(&self.0).await?)
    }
}

/// The files with secrets that a cluster's address names.
fn secret_files(engine: &str) -> Vec<(&'static str, PathBuf)> {
    let query = engine.split_once('?').map_or("", |(_, query)| query);
    let file = |pair: &str| match pair.split_once('=')? {
        ("password-file", file) => Some(("engine: password-file", PathBuf::from(percent_decoded(file)))),
        ("key", file) => Some(("engine: key", PathBuf::from(percent_decoded(file)))),
        _ => None,
    };
    query.split('&').filter_map(file).collect()
}

/// RFC 3986 §2.1. Wrong encodings stay as they are: the engine refuses them.
fn percent_decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut out = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        match piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                out.extend_from_slice(&piece.as_bytes()[2..]);
            }
            None => out.extend(["%", piece].concat().bytes()),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Access to the object store; reads the file that holds its key's secret.
fn object_store(config: &S3Config) -> Result<S3> {
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let path = |path: &PathBuf| (!path.as_os_str().is_empty()).then(|| path.clone());
    let access_key = match (text(&config.access_key_id), path(&config.secret_access_key_file)) {
        (Some(id), Some(file)) => {
            private::tighten_secret("s3.secret_access_key_file", &file)?;
            let secret = std::fs::read_to_string(&file).map_err(|e| {
                Failure::Usage(format!("`s3.secret_access_key_file`: {}: {e}", file.display()))
            })?;
            Some((id, secret.lines().next().unwrap_or_default().trim().to_owned()))
        }
        _ => None,
    };
    Ok(S3 {
        endpoint: text(&config.endpoint),
        region: text(&config.region),
        access_key,
        allow_http: config.allow_http,
        virtual_host: config.virtual_host,
        ca: path(&config.ca),
        timeout: config.timeout,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_files_with_secrets_of_an_address_are_found() {
        let files = secret_files("cassandra://u@h/mail?tls=yes&password-file=/etc/a%20b&ca=/ca&key=/k%2");
        let files: Vec<_> = files.iter().map(|(_, file)| file.to_str().unwrap()).collect();
        assert_eq!(files, ["/etc/a b", "/k%2"]);
        assert!(secret_files("cassandra://h/mail").is_empty());
    }

    /// `copy-store` names a cluster that the configuration does not.
    #[test]
    fn the_files_with_secrets_of_any_cluster_are_closed_to_strangers() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "x").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let address = format!("cassandra://ana@127.0.0.1/mail?password-file={}", file.display());
        Cluster::at(&address, &Config::default()).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn the_storage_of_bodies_and_access_to_it_are_read() {
        let refusal = |config: &Config| Cluster::configured(config).unwrap_err().to_string();
        let address = "cassandra://127.0.0.1/mail";
        let mut config = Config { engine: address.into(), bodies: "s3://mail".into(), ..Config::default() };
        let Cluster(options) = Cluster::configured(&config).unwrap();
        assert_eq!(options.bodies.unwrap().to_string(), "s3://mail");
        assert_eq!(options.s3, S3::default());
        config.bodies = "ftp://mail".into();
        assert!(refusal(&config).starts_with("`bodies`: `ftp://mail` is no storage of bodies"));
        config.bodies = "s3://u:SECRET@mail".into();
        assert!(!refusal(&config).contains("SECRET"), "{}", refusal(&config));
        config.bodies.clear();
        config.s3.access_key_id = "id".into();
        let dir = tempfile::tempdir().unwrap();
        config.s3.secret_access_key_file = dir.path().join("secret");
        assert!(refusal(&config).starts_with("`s3.secret_access_key_file`: "));
        std::fs::write(&config.s3.secret_access_key_file, "of the first line\nand not of this\n").unwrap();
        let Cluster(options) = Cluster::configured(&config).unwrap();
        assert_eq!(options.s3.access_key, Some(("id".into(), "of the first line".into())));
        assert_eq!(options.bodies, None);
    }
}
