//! The settings of handshakes other than the certificate, and the TLS configuration made of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::names::ByName;
use super::remedy::{CHECK_ACCESS, CHECK_KEY, unusable};
use crate::NetError;

const CHECK_CLIENT_CA: &str =
    "it must hold PEM `BEGIN CERTIFICATE` blocks of the authorities that sign certificates of clients";

/// The least version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 8314 §3, RFC 8997: nothing older.
    #[default]
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// Whether clients show certificates, and the file of the authorities that sign them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// The server requests none.
    #[default]
    Off,
    /// They may show one. One that is not valid ends the handshake.
    Optional(PathBuf),
    /// A handshake without a valid one fails.
    Required(PathBuf),
}

/// How handshakes are done, with any certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The least version.
    pub version_min: TlsVersion,
    /// Whether clients must show a certificate.
    pub clients: ClientCertificates,
}

impl TlsSettings {
    /// The configuration of a server that shows these certificates.
    pub(super) fn configuration(&self, shown: Arc<ByName>) -> Result<ServerConfig, NetError> {
        let file = shown.first.file.clone();
        let wrong = |error: rustls::Error| unusable(&file, error, CHECK_KEY);
        // The provider is named, so that another crate's choice of a default cannot change it.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = self.clients.verifier(&provider)?;
        let versions: &[&'static SupportedProtocolVersion] = match self.version_min {
            TlsVersion::Tls12 => &[&TLS13, &TLS12],
            TlsVersion::Tls13 => &[&TLS13],
        };
        let builder =
            ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).map_err(wrong)?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(shown);
        // Resumption by tickets alone: they cost the server no memory, and a client that comes back
        // saves us a signature. One for each connection: mail clients open few.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(wrong)?;
        config.send_tls13_tickets = 1;
        Ok(config)
    }
}

impl ClientCertificates {
    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, NetError> {
        let file = match self {
            Self::Off => return Ok(None),
            Self::Optional(file) | Self::Required(file) => file,
        };
        let builder = WebPkiClientVerifier::builder_with_provider(authorities(file)?, Arc::clone(provider));
        let builder =
            if matches!(self, Self::Optional(_)) { builder.allow_unauthenticated() } else { builder };
        builder.build().map(Some).map_err(|error| unusable(file, error, CHECK_CLIENT_CA))
    }
}

fn authorities(file: &Path) -> Result<Arc<RootCertStore>, NetError> {
    let pem = fs::read(file).map_err(|error| unusable(file, error, CHECK_ACCESS))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| unusable(file, error, CHECK_CLIENT_CA))?;
        roots.add(certificate).map_err(|error| unusable(file, error, CHECK_CLIENT_CA))?;
    }
    Ok(Arc::new(roots))
}
