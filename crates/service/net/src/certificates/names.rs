//! The certificates of a server, each for the names that it was issued for (SNI, RFC 6066 §3).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::remedy::{CHECK_CHAIN, CHECK_KEY, CHECK_PAIR, unusable};
use crate::{NetError, channel_binding};

/// A certificate with its chain and key, ready for handshakes.
#[derive(Debug)]
pub(crate) struct ServerCertificate {
    /// Where it came from.
    pub(super) file: PathBuf,
    pub(super) leaf: CertificateDer<'static>,
    key: Arc<CertifiedKey>,
    /// See [`channel_binding::server_end_point`].
    pub(crate) end_point: Option<Vec<u8>>,
}

impl ServerCertificate {
    /// Reads the contents of a chain and of a key file.
    pub(super) fn parse(chain: (&Path, &[u8]), key: (&Path, &[u8])) -> Result<Self, NetError> {
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain.1)
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(chain.0, error, CHECK_CHAIN))?;
        let leaf = certificates
            .first()
            .cloned()
            .ok_or_else(|| unusable(chain.0, "there is no certificate in it", CHECK_CHAIN))?;
        let secret =
            PrivateKeyDer::from_pem_slice(key.1).map_err(|error| unusable(key.0, error, CHECK_KEY))?;
        let certified = CertifiedKey::from_der(certificates, secret, &aws_lc_rs::default_provider());
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                unusable(key.0, format!("it is not the key of {}", chain.0.display()), CHECK_PAIR)
            }
            rustls::Error::InvalidCertificate(_) => unusable(chain.0, error, CHECK_CHAIN),
            error => unusable(key.0, error, CHECK_KEY),
        })?;
        let end_point = channel_binding::server_end_point(&leaf);
        Ok(Self { file: chain.0.to_owned(), leaf, key: Arc::new(certified), end_point })
    }

    /// Whether it was issued for a name (RFC 6125 §6.4), a wildcard included.
    fn is_for(&self, name: &ServerName<'_>) -> bool {
        ParsedCertificate::try_from(&self.leaf).is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok())
    }
}

/// All certificates of a server. The first is shown to clients that name nobody, or somebody
/// unknown: refusing them would only hide which names there are.
#[derive(Debug)]
pub(crate) struct ByName {
    pub(super) first: ServerCertificate,
    pub(super) others: Vec<ServerCertificate>,
}

impl ByName {
    /// The certificate that is shown to a client which names `name`.
    pub(crate) fn choose(&self, name: Option<&str>) -> &ServerCertificate {
        if self.others.is_empty() {
            return &self.first;
        }
        let Some(name) = name.and_then(|name| ServerName::try_from(name).ok()) else { return &self.first };
        self.all().find(|shown| shown.is_for(&name)).unwrap_or(&self.first)
    }

    /// The first one, and then the others.
    pub(super) fn all(&self) -> impl Iterator<Item = &ServerCertificate> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.choose(hello.server_name()).key))
    }
}
