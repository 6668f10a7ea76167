//! The server's certificates and keys: read from files, or self-signed, and replaced while the
//! server runs.
//!
//! A failed reload leaves the present certificate in use. Existing connections keep theirs.

mod expiry;
mod names;
mod remedy;
mod settings;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};

pub use self::expiry::Expiry;
pub(crate) use self::expiry::not_after;
use self::names::{ByName, ServerCertificate};
use self::remedy::{CHECK_ACCESS, SET_FILES, unusable};
pub use self::settings::{ClientCertificates, TlsSettings, TlsVersion};
use crate::NetError;

/// Names of the files of a self-signed certificate in the data directory.
const CERTIFICATE_FILE: &str = "tls-certificate.pem";
const KEY_FILE: &str = "tls-key.pem";

/// The certificates, shared by all TLS listeners. Clones are the same certificates: they reload
/// and are replaced together.
#[derive(Clone)]
pub struct Certificates {
    held: Arc<ArcSwap<LoadedCertificate>>,
    /// The one protocol that is spoken inside, by its name in TLS.
    protocol: Option<&'static str>,
}

#[derive(Clone)]
struct LoadedCertificate {
    /// `None` for a certificate that is in memory only.
    files: Option<Arc<Files>>,
    active: Arc<Active>,
}

/// All that is read again on a reload.
#[derive(Debug)]
struct Files {
    pairs: Vec<Pair>,
    settings: TlsSettings,
}

/// The files of one certificate, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The server's own certificate first, and then its chain.
    pub chain: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The certificates and settings that a handshake needs.
pub(crate) struct Active {
    config: Arc<ServerConfig>,
    /// The settings for protocols that have an ALPN name, made when first used: one or two.
    named: Mutex<Vec<(&'static str, Arc<ServerConfig>)>>,
    pub(crate) shown: Arc<ByName>,
}

impl Certificates {
    /// Reads several certificates. Each is shown to clients that name a host it was issued for
    /// (SNI), and the first to all others.
    pub fn load_all(pairs: Vec<Pair>, settings: TlsSettings) -> Result<Self, NetError> {
        let files = Files { pairs, settings };
        Ok(Self::holding(files.read()?, Some(Arc::new(files))))
    }

    /// The files of the self-signed certificate kept in `directory`, made at the first start: for
    /// `localhost`, the loopback addresses and `host`. The key can be read by its owner only.
    pub fn self_signed_pair(directory: &Path, host: &str) -> Result<Pair, NetError> {
        let (chain, key) = (directory.join(CERTIFICATE_FILE), directory.join(KEY_FILE));
        if !(chain.exists() && key.exists()) {
            let (chain_pem, key_pem) = generate(host).map_err(|error| unusable(&chain, error, SET_FILES))?;
            // The key first: a chain without its key would look complete after a crash between the
            // two.
            write_whole(&key, key_pem.as_bytes(), 0o600)?;
            write_whole(&chain, chain_pem.as_bytes(), 0o644)?;
        }
        Ok(Pair { chain, key })
    }

    /// A self-signed certificate that is in no file, for tests. [`reload`](Self::reload) keeps it.
    pub fn self_signed_in_memory(host: &str) -> Result<Self, NetError> {
        let nowhere = Path::new("(in memory)");
        let (chain, key) = generate(host).map_err(|error| unusable(nowhere, error, SET_FILES))?;
        let first = ServerCertificate::parse((nowhere, chain.as_bytes()), (nowhere, key.as_bytes()))?;
        let active = Active::new(ByName { first, others: Vec::new() }, &TlsSettings::default())?;
        Ok(Self::holding(active, None))
    }

    fn holding(active: Active, files: Option<Arc<Files>>) -> Self {
        let held = LoadedCertificate { files, active: Arc::new(active) };
        Self { held: Arc::new(ArcSwap::from_pointee(held)), protocol: None }
    }

    /// The same certificate where one protocol is spoken, by its name in the registry of ALPN
    /// (RFC 7301 §6). A client that offers other protocols only is refused in the handshake, so
    /// that nobody can lead a browser here (RFC 9325 §3.8). One that offers none is served.
    #[must_use]
    pub fn for_protocol(&self, name: &'static str) -> Self {
        Self { held: Arc::clone(&self.held), protocol: Some(name) }
    }

    /// Reads the files again (SIGHUP): new connections use what they hold now. On an error the old
    /// one stays.
    pub fn reload(&self) -> Result<(), NetError> {
        let held = self.held.load_full();
        if let Some(files) = &held.files {
            let active = Arc::new(files.read()?);
            self.held.store(Arc::new(LoadedCertificate { files: held.files.clone(), active }));
        }
        Ok(())
    }

    /// Takes the certificates of another, and its files for later reloads. So do all clones: every
    /// listener and every session that offers STARTTLS shows them from the next handshake on.
    pub fn replace_by(&self, other: &Self) {
        self.held.store(other.held.load_full());
    }

    /// The server's own certificate (the first), DER.
    pub fn leaf(&self) -> CertificateDer<'static> {
        self.active().shown.first.leaf.clone()
    }

    /// SHA-256 of the server's own certificate (the first), as users compare it: `AB:CD:…`.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(&self.active().shown.first.leaf);
        let pairs: Vec<String> = digest.iter().map(|byte| format!("{byte:02X}")).collect();
        pairs.join(":")
    }

    /// The configuration of a handshake with one of our certificates, for this protocol.
    pub(crate) fn config_of(&self, active: &Active) -> Arc<ServerConfig> {
        active.config_for(self.protocol)
    }

    pub(crate) fn active(&self) -> Arc<Active> {
        Arc::clone(&self.held.load().active)
    }
}

impl Active {
    fn new(shown: ByName, settings: &TlsSettings) -> Result<Self, NetError> {
        let shown = Arc::new(shown);
        let config = settings.configuration(Arc::clone(&shown))?;
        Ok(Self { config: Arc::new(config), named: Mutex::default(), shown })
    }

    fn config_for(&self, protocol: Option<&'static str>) -> Arc<ServerConfig> {
        let Some(name) = protocol else { return Arc::clone(&self.config) };
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = named.iter().find(|(known, _)| *known == name) {
            return Arc::clone(config);
        }
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = vec![name.as_bytes().to_vec()];
        let config = Arc::new(config);
        named.push((name, Arc::clone(&config)));
        config
    }
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("files", &self.held.load().files).finish_non_exhaustive()
    }
}

impl Files {
    fn read(&self) -> Result<Active, NetError> {
        let mut pairs = self.pairs.iter().map(Pair::read);
        let first = pairs.next().ok_or_else(|| unusable(Path::new(""), "there is no file", SET_FILES))??;
        let others = pairs.collect::<Result<_, _>>()?;
        Active::new(ByName { first, others }, &self.settings)
    }
}

impl Pair {
    fn read(&self) -> Result<ServerCertificate, NetError> {
        let contents = |path| fs::read(path).map_err(|error| unusable(path, error, CHECK_ACCESS));
        ServerCertificate::parse((&self.chain, &contents(&self.chain)?), (&self.key, &contents(&self.key)?))
    }
}

/// A new key (ECDSA P-256: every client of the last decade knows it) and its certificate, as PEM.
fn generate(host: &str) -> Result<(String, String), rcgen::Error> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !host.is_empty() && !names.iter().any(|name| name == host) {
        names.push(host.to_owned());
    }
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let mut params = rcgen::CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    let common_name = if host.is_empty() { "localhost" } else { host };
    params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
    params.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Writes a file so that it is there whole or not at all.
fn write_whole(path: &Path, contents: &[u8], mode: u32) -> Result<(), NetError> {
    let named = |error: io::Error| unusable(path, error, CHECK_ACCESS);
    let new = path.with_extension("pem.new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(error)),
        _ => {}
    }
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&new).map_err(named)?;
    file.write_all(contents).and_then(|()| file.sync_all()).map_err(named)?;
    fs::rename(&new, path).map_err(named)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// The self-signed certificate in this directory.
    fn kept(directory: &Path) -> Certificates {
        let pair = Certificates::self_signed_pair(directory, "localhost").unwrap();
        Certificates::load_all(vec![pair], TlsSettings::default()).unwrap()
    }

    #[test]
    fn a_self_signed_one_is_made_once_and_guarded() {
        let directory = tempfile::tempdir().unwrap();
        let one = kept(directory.path());
        let two = kept(directory.path());
        assert_eq!(one.fingerprint(), two.fingerprint());
        assert_eq!(one.fingerprint().len(), 32 * 3 - 1);
        let key = fs::metadata(directory.path().join(KEY_FILE)).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
        // Half of a pair, as a crash may leave it, is replaced.
        fs::remove_file(directory.path().join(CERTIFICATE_FILE)).unwrap();
        let three = kept(directory.path());
        assert_ne!(one.fingerprint(), three.fingerprint());
    }

    #[test]
    fn a_failed_reload_keeps_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let held = kept(directory.path());
        let before = held.fingerprint();
        fs::write(directory.path().join(CERTIFICATE_FILE), "nonsense").unwrap();
        assert!(held.reload().is_err());
        assert_eq!(held.fingerprint(), before);
        fs::remove_file(directory.path().join(CERTIFICATE_FILE)).unwrap();
        kept(directory.path());
        held.reload().unwrap();
        assert_ne!(held.fingerprint(), before);
    }

    #[test]
    fn clones_are_replaced_together_and_reload_the_new_files() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let held = kept(one.path());
        let listener = held.clone();
        let next = kept(two.path());
        held.replace_by(&next);
        assert_eq!(listener.fingerprint(), next.fingerprint());
        fs::remove_file(two.path().join(CERTIFICATE_FILE)).unwrap();
        kept(two.path());
        held.reload().unwrap();
        assert_ne!(listener.fingerprint(), next.fingerprint());
    }

    #[test]
    fn errors_name_file_and_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let (chain, key) = (directory.path().join("a.pem"), directory.path().join("b.pem"));
        let pair = Pair { chain: chain.clone(), key: key.clone() };
        let load = || Certificates::load_all(vec![pair.clone()], TlsSettings::default());
        let says = |expected: [&str; 2]| {
            let message = load().unwrap_err().to_string();
            assert!(expected.iter().all(|part| message.contains(part)), "{message}");
        };
        says(["a.pem", "check that it exists"]);
        let (chain_pem, key_pem) = generate("mail.example").unwrap();
        fs::write(&chain, "").unwrap();
        fs::write(&key, "").unwrap();
        says(["a.pem", "BEGIN CERTIFICATE"]);
        fs::write(&chain, chain_pem).unwrap();
        says(["b.pem", "PRIVATE KEY"]);
        fs::write(&key, generate("mail.example").unwrap().1).unwrap();
        says(["b.pem: it is not the key of", "issued for"]);
        fs::write(&key, key_pem).unwrap();
        load().unwrap();
    }
}
