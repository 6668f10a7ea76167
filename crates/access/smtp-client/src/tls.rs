//! TLS as a client: opportunistic, or with a certificate that is verified.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    WantsVerifier,
};
use tokio_rustls::TlsConnector;

use crate::dane::{Dane, PeerChain};

/// The settings of TLS, for all connections.
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
        let provider = Arc::new(aws_lc_rs::default_provider());
        let opportunistic = accepting(Accepted::Any, &provider).map_err(io::Error::other)?;
        let verified = match authorities {
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_file_iter(file).map_err(io::Error::other)? {
                    // A system's file may hold one that this library does not take.
                    let _ = roots.add(certificate.map_err(io::Error::other)?);
                }
                let builder = builder(&provider).map_err(io::Error::other)?;
                let config = builder.with_root_certificates(roots).with_no_client_auth();
                Some(TlsConnector::from(Arc::new(config)))
            }
            None => None,
        };
        Ok(Self { verified, opportunistic, provider })
    }

    /// TLS with a host whose certificate must fit records of DANE.
    pub(crate) fn dane(&self, dane: &Arc<Dane>) -> Result<TlsConnector, rustls::Error> {
        accepting(Accepted::Dane(Arc::clone(dane)), &self.provider)
    }
}

type Builder = ConfigBuilder<ClientConfig, WantsVerifier>;

fn builder(provider: &Arc<CryptoProvider>) -> Result<Builder, rustls::Error> {
    ClientConfig::builder_with_provider(Arc::clone(provider)).with_safe_default_protocol_versions()
}

/// TLS with hosts whose certificate is taken.
fn accepting(accepted: Accepted, provider: &Arc<CryptoProvider>) -> Result<TlsConnector, rustls::Error> {
    let verifier = Verifier { accepted, algorithms: provider.signature_verification_algorithms };
    let builder = builder(provider)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(TlsConnector::from(Arc::new(builder.with_no_client_auth())))
}

/// The certificates that are accepted.
#[derive(Debug)]
enum Accepted {
    /// Any: opportunistic TLS (RFC 7435 §3) protects only against passive eavesdroppers.
    Any,
    /// Certificates that match records of DANE.
    Dane(Arc<Dane>),
}

/// Verifies without public authorities. The handshake itself is checked.
#[derive(Debug)]
struct Verifier {
    accepted: Accepted,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_accepted = match &self.accepted {
            Accepted::Any => true,
            Accepted::Dane(dane) => dane.fits(PeerChain { leaf, chain, now }, &self.algorithms),
        };
        match is_accepted {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
