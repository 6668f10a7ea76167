//! The section `tls`: certificates, versions, and certificates of clients.

use std::path::PathBuf;

use posthaste_net::{self as net, TlsSettings, TlsVersion};
use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub others: Vec<CertificateFiles>,
    pub version_min: VersionMin,
    pub client_certificates: ClientCertificates,
    pub client_ca: PathBuf,
}

/// A further certificate.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum VersionMin {
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    Off,
    Optional,
    Required,
}

impl Tls {
    /// The settings of handshakes.
    pub fn settings(&self) -> TlsSettings {
        let ca = self.client_ca.clone();
        TlsSettings {
            version_min: match self.version_min {
                VersionMin::Tls12 => TlsVersion::Tls12,
                VersionMin::Tls13 => TlsVersion::Tls13,
            },
            clients: match self.client_certificates {
                ClientCertificates::Off => net::ClientCertificates::Off,
                ClientCertificates::Optional => net::ClientCertificates::Optional(ca),
                ClientCertificates::Required => net::ClientCertificates::Required(ca),
            },
        }
    }

    /// Checks rules that the types do not express.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.certificate.as_os_str().is_empty() != self.key.as_os_str().is_empty() {
            return Err("`tls.certificate` and `tls.key` go together: set both, or neither".into());
        }
        if !self.others.is_empty() && self.certificate.as_os_str().is_empty() {
            return Err("`tls.others` needs `tls.certificate` and `tls.key`: set these first".into());
        }
        let is_requested = self.client_certificates != ClientCertificates::Off;
        if is_requested == self.client_ca.as_os_str().is_empty() {
            return Err(
                "`tls.client_certificates` and `tls.client_ca` go together: name the authorities' file, \
                        or leave client_certificates \"off\" and client_ca empty"
                    .into(),
            );
        }
        Ok(())
    }
}
