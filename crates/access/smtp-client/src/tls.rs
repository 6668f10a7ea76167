//! TLS as a client: opportunistic, or with a certificate that is verified.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

use crate::dane::{Dane, DaneVerifier};

/// How TLS is done, for all connections.
#[derive(Clone)]
pub struct Tls {
    pub(crate) verified: Option<TlsConnector>,
    pub(crate) opportunistic: TlsConnector,
    provider: Arc<CryptoProvider>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("verifies", &self.verified.is_some()).finish_non_exhaustive()
    }
}

impl Tls {
    /// Certificates are verified with the authorities of this PEM file. Without one, routes that
    /// require a verified certificate cannot be used.
    pub fn new(authorities: Option<&Path>) -> io::Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let builder = || {
            let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
            builder.with_safe_default_protocol_versions().map_err(io::Error::other)
        };
        let any = Arc::new(AnyCertificate(Arc::clone(&provider)));
        let opportunistic =
            builder()?.dangerous().with_custom_certificate_verifier(any).with_no_client_auth();
        let verified = match authorities {
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_file_iter(file).map_err(io::Error::other)? {
                    // A system's file may hold one that this library does not take.
                    let _ = roots.add(certificate.map_err(io::Error::other)?);
                }
                Some(builder()?.with_root_certificates(roots).with_no_client_auth())
            }
            None => None,
        };
        let connector = |config| TlsConnector::from(Arc::new(config));
        Ok(Self { verified: verified.map(connector), opportunistic: connector(opportunistic), provider })
    }

    /// TLS with a host whose certificate is to fit records of DANE.
    pub(crate) fn dane(&self, dane: &Arc<Dane>) -> Result<TlsConnector, rustls::Error> {
        let verifier = DaneVerifier::new(Arc::clone(dane), Arc::clone(&self.provider));
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_safe_default_protocol_versions()?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(TlsConnector::from(Arc::new(builder.with_no_client_auth())))
    }
}

/// Takes any certificate: opportunistic TLS (RFC 7435 §3) keeps off those who listen, and no more.
/// The handshake itself is checked.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
