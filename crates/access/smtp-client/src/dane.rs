//! DANE for SMTP (RFC 7672): certificates that fit the TLSA records of a host.

use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use sha2::{Digest, Sha256, Sha512};

/// Certificates of a chain that are looked at.
const CHAIN_LEN_MAX: usize = 16;

/// A TLSA record (RFC 6698 §2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tlsa {
    /// 2: an authority of the chain (DANE-TA); 3: the host's own certificate (DANE-EE).
    pub usage: u8,
    /// 0: the certificate; 1: its public key.
    pub selector: u8,
    /// 0: all of it; 1: SHA-256 of it; 2: SHA-512.
    pub matching: u8,
    pub data: Vec<u8>,
}

impl Tlsa {
    /// Whether it says something about a host of mail (RFC 7672 §3.1): the usages 0 and 1 do not.
    pub fn is_usable(&self) -> bool {
        let fits = match self.matching {
            // A chain cannot be checked against the bare key of an authority.
            0 => !self.data.is_empty() && (self.usage, self.selector) != (2, 1),
            1 => self.data.len() == 32,
            2 => self.data.len() == 64,
            _ => false,
        };
        matches!(self.usage, 2 | 3) && self.selector <= 1 && fits
    }

    fn matches(&self, certificate: &CertificateDer<'_>) -> bool {
        let key;
        let selected: &[u8] = match self.selector {
            0 => certificate,
            _ => {
                let Ok(parsed) = ParsedCertificate::try_from(certificate) else { return false };
                key = parsed.subject_public_key_info();
                &key
            }
        };
        match self.matching {
            0 => selected == self.data,
            1 => Sha256::digest(selected).as_slice() == self.data,
            _ => Sha512::digest(selected).as_slice() == self.data,
        }
    }

    /// `3 1 1 HEX`, as reports quote it.
    pub fn text(&self) -> String {
        let hex: String = self.data.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
        format!("{} {} {} {hex}", self.usage, self.selector, self.matching)
    }
}

/// The records that a host's certificate must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dane {
    /// Usable records, at least one.
    pub records: Vec<Tlsa>,
    /// Names for a certificate under an authority. It must have one of them: that of the records,
    /// and the domain of the mail (RFC 7672 §3.2.3).
    pub names: Vec<String>,
}

/// The certificates that a host shows in a handshake, and the time.
#[derive(Clone, Copy)]
pub(crate) struct PeerChain<'c> {
    /// The host's own certificate.
    pub leaf: &'c CertificateDer<'c>,
    /// The certificates of its authorities.
    pub chain: &'c [CertificateDer<'c>],
    pub now: UnixTime,
}

impl Dane {
    /// Whether a certificate fits a record, by itself or by an authority of its chain.
    pub fn fits(&self, shown: PeerChain<'_>, algorithms: &WebPkiSupportedAlgorithms) -> bool {
        // RFC 7672 §3.1.1: neither the names nor the dates of the host's own certificate matter.
        let is_leaf = |record: &Tlsa| record.usage == 3 && record.matches(shown.leaf);
        self.records.iter().any(is_leaf) || self.has_authority(shown, algorithms)
    }

    /// Whether a chain ends at an authority of a record of usage 2.
    fn has_authority(&self, shown: PeerChain<'_>, algorithms: &WebPkiSupportedAlgorithms) -> bool {
        let PeerChain { leaf, chain, now } = shown;
        let mut roots = RootCertStore::empty();
        for record in self.records.iter().filter(|record| record.usage == 2) {
            let found = chain.iter().take(CHAIN_LEN_MAX).filter(|certificate| record.matches(certificate));
            found.for_each(|certificate| _ = roots.add(certificate.clone().into_owned()));
            if (record.selector, record.matching) == (0, 0) {
                // RFC 7672 §3.1.2: the authority's certificate may be in DNS and not in the chain.
                let _ = roots.add(CertificateDer::from(record.data.clone()));
            }
        }
        let Ok(leaf) = ParsedCertificate::try_from(leaf) else { return false };
        let is_named = || {
            let names = self.names.iter().filter_map(|name| ServerName::try_from(name.as_str()).ok());
            names.into_iter().any(|name| verify_server_name(&leaf, &name).is_ok())
        };
        !roots.is_empty()
            && verify_server_cert_signed_by_trust_anchor(&leaf, &roots, chain, now, algorithms.all).is_ok()
            && is_named()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PublicKeyData};
    use rustls::crypto::aws_lc_rs;

    use super::*;

    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A certificate and its key, as DER.
    fn leaf(name: &str, issuer: &CertifiedIssuer<'static, KeyPair>) -> (CertificateDer<'static>, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        (certificate.der().clone(), key.subject_public_key_info())
    }

    fn verifies(records: &[Tlsa], leaf: &CertificateDer<'_>, chain: &[CertificateDer<'_>]) -> bool {
        assert!(records.iter().all(Tlsa::is_usable));
        let dane = Dane { records: records.to_vec(), names: vec!["mx.x.test".into(), "x.test".into()] };
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        dane.fits(PeerChain { leaf, chain, now: UnixTime::now() }, &algorithms)
    }

    fn tlsa(usage: u8, selector: u8, matching: u8, of: &[u8]) -> Tlsa {
        let data = match matching {
            0 => of.to_vec(),
            1 => Sha256::digest(of).to_vec(),
            _ => Sha512::digest(of).to_vec(),
        };
        Tlsa { usage, selector, matching, data }
    }

    #[test]
    fn a_host_is_known_by_its_certificate_or_key() {
        let authority = authority();
        // Its names do not matter.
        let (leaf, key) = leaf("other.test", &authority);
        for matching in 0..=2 {
            assert!(verifies(&[tlsa(3, 0, matching, &leaf)], &leaf, &[]));
            assert!(verifies(&[tlsa(3, 1, matching, &key)], &leaf, &[]));
            assert!(!verifies(&[tlsa(3, 1, matching, &leaf)], &leaf, &[]));
        }
        // One of several records must fit: a new key may be announced in addition to the old one.
        assert!(verifies(&[tlsa(3, 1, 1, b"other"), tlsa(3, 1, 1, &key)], &leaf, &[]));
    }

    #[test]
    fn an_authority_vouches_for_its_names() {
        let (authority, other) = (authority(), self::authority());
        let ca = authority.der().clone();
        let chain = [ca.clone()];
        let ca_key = authority.key().subject_public_key_info();
        for name in ["mx.x.test", "x.test"] {
            let (leaf, _) = leaf(name, &authority);
            assert!(verifies(&[tlsa(2, 0, 1, &ca)], &leaf, &chain), "{name}");
            assert!(verifies(&[tlsa(2, 1, 2, &ca_key)], &leaf, &chain), "{name}");
            assert!(verifies(&[tlsa(2, 0, 0, &ca)], &leaf, &[]), "{name}");
            assert!(!verifies(&[tlsa(2, 0, 1, &ca)], &leaf, &[]), "{name}");
        }
        let (stranger, _) = leaf("mx.y.test", &authority);
        assert!(!verifies(&[tlsa(2, 0, 1, &ca)], &stranger, &chain));
        let (forged, _) = leaf("mx.x.test", &other);
        assert!(!verifies(&[tlsa(2, 0, 1, &ca)], &forged, &chain));
    }

    #[test]
    fn records_of_unknown_kinds_and_wrong_lengths_are_unusable() {
        let of = |usage, selector, matching, len| Tlsa { usage, selector, matching, data: vec![0; len] };
        assert!(of(3, 1, 1, 32).is_usable() && of(2, 0, 2, 64).is_usable());
        for unusable in [
            of(0, 1, 1, 32),
            of(1, 1, 1, 32),
            of(3, 2, 1, 32),
            of(3, 1, 3, 32),
            of(3, 1, 1, 31),
            of(2, 1, 0, 90),
        ] {
            assert!(!unusable.is_usable(), "{unusable:?}");
        }
    }
}
