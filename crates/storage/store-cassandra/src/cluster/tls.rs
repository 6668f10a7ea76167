//! Encryption of the connections to the cluster.
//!
//! Nodes are known by their IP addresses: the driver learns of most of them from the cluster
//! itself, which names no hosts. So a node's certificate must name its address: an `IP` subject
//! alternative name (RFC 5280 §4.2.1.6). An authority of the file that the options name must have
//! signed it. No other authority is trusted, not even the system's.

use std::path::Path;
use std::sync::Arc;

use posthaste_store::{Result, StoreError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::options::Tls;

/// The TLS configuration of the driver.
pub(crate) fn config(tls: &Tls) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.ca)? {
        roots.add(certificate).map_err(|e| unusable(&tls.ca, &e))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| unusable(&tls.ca, &e))?
        .with_root_certificates(roots);
    let config = match &tls.client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let private = PrivateKeyDer::from_pem_file(key).map_err(|e| unusable(key, &e))?;
            builder.with_client_auth_cert(chain, private).map_err(|e| unusable(key, &e))?
        }
    };
    Ok(Arc::new(config))
}

/// The certificates of a PEM file: at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(file).map_err(|e| unusable(file, &e))?;
    let found: Vec<_> = found.collect::<std::result::Result<_, _>>().map_err(|e| unusable(file, &e))?;
    if found.is_empty() {
        return Err(unusable(file, &"it holds no certificate in PEM"));
    }
    Ok(found)
}

fn unusable(file: &Path, why: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unavailable(format!(
        "{} cannot be used to encrypt connections to Cassandra: {why}",
        file.display()
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn files_are_read_and_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let write = |name: &str, text: &str| -> PathBuf {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (cert, key) =
            (write("c.pem", &made.cert.pem()), write("k.pem", &made.signing_key.serialize_pem()));
        let empty = write("e.pem", "nothing here");
        let with = |ca: &PathBuf, client| config(&Tls { ca: ca.clone(), client });
        assert!(with(&cert, None).is_ok());
        assert!(with(&cert, Some((cert.clone(), key.clone()))).is_ok());
        for (outcome, file) in [
            (with(&empty, None), "e.pem"),
            (with(&dir.path().join("gone.pem"), None), "gone.pem"),
            (with(&cert, Some((cert.clone(), empty.clone()))), "e.pem"),
        ] {
            let why = outcome.unwrap_err().to_string();
            assert!(why.contains(file), "{why}");
        }
    }
}
