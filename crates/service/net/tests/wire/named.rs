//! Several certificates, the least version of TLS, and certificates of clients.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use posthaste_net::{
    Certificates, ChannelBinding, ClientCertificates, Connection, Mode, Pair, TlsSettings, TlsVersion,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use crate::peer::{LONG, Server, echo, expect, within};

/// An authority, and the certificates that it signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Signs a certificate for a name into files of a directory.
    fn pair(&self, directory: &Path, file: &str, name: &str) -> Pair {
        let (certificate, key) = self.sign(name);
        let pair =
            Pair { chain: directory.join(format!("{file}.pem")), key: directory.join(format!("{file}.key")) };
        fs::write(&pair.chain, certificate.pem()).unwrap();
        fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }
}

/// A client that trusts the authority.
struct Client<'a> {
    authority: &'a Authority,
    versions: &'a [&'static SupportedProtocolVersion],
    own: Option<(rcgen::Certificate, KeyPair)>,
}

impl<'a> Client<'a> {
    fn of(authority: &'a Authority) -> Self {
        Self { authority, versions: rustls::ALL_VERSIONS, own: None }
    }

    /// Asks for a name, and checks the certificate against it.
    async fn connect(
        self,
        server: &Server,
        name: &str,
    ) -> std::io::Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.certificate.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match self.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
                builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        };
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let tcp = server.connect().await;
        within(TlsConnector::from(Arc::new(config)).connect(name, tcp)).await
    }
}

fn serving(certificates: &Certificates) -> Server {
    let held = certificates.clone();
    Server::start(Mode::ImplicitTls, |options| options.certificates = Some(held), echo)
}

fn leaf_of(stream: &tokio_rustls::client::TlsStream<tokio::net::TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test]
async fn each_name_is_shown_its_certificate_also_after_a_reload() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    let pairs = ["one.example", "two.example", "*.three.example"].map(|name| {
        let file = name.trim_start_matches("*.");
        authority.pair(directory.path(), file, name)
    });
    let certificates = Certificates::load_all(pairs.to_vec(), TlsSettings::default()).unwrap();
    let server = serving(&certificates);
    let mut seen = Vec::new();
    for name in ["one.example", "two.example", "TWO.example", "any.three.example"] {
        let stream = Client::of(&authority).connect(&server, name).await.unwrap();
        seen.push(leaf_of(&stream));
    }
    assert!(seen[0] != seen[1] && seen[1] == seen[2] && seen[0] != seen[3]);
    assert_eq!(seen[0], certificates.leaf());
    // A name that nobody has, and none at all: the first, which the client finds to be another's.
    for unknown in ["four.example", "127.0.0.1"] {
        assert!(Client::of(&authority).connect(&server, unknown).await.is_err());
    }
    let renewed = authority.pair(directory.path(), "two.example", "two.example");
    certificates.reload().unwrap();
    let stream = Client::of(&authority).connect(&server, "two.example").await.unwrap();
    assert!(leaf_of(&stream) != seen[1]);
    fs::remove_file(&renewed.key).unwrap();
    assert!(certificates.reload().unwrap_err().to_string().contains("two.example.key: "));
    Client::of(&authority).connect(&server, "two.example").await.unwrap();
}

#[tokio::test]
async fn logins_are_bound_to_the_certificate_that_was_shown() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    let pairs =
        ["one.example", "two.example"].map(|name| authority.pair(directory.path(), name, name)).to_vec();
    let certificates = Certificates::load_all(pairs, TlsSettings::default()).unwrap();
    let session = |mut connection: Connection| async move {
        let binding = connection.channel_binding(ChannelBinding::TlsServerEndPoint).unwrap();
        connection.write_all_within(&binding, LONG).await.unwrap();
    };
    let held = certificates.clone();
    let server = Server::start(Mode::ImplicitTls, |options| options.certificates = Some(held), session);
    for name in ["one.example", "two.example"] {
        let mut stream = Client::of(&authority).connect(&server, name).await.unwrap();
        let shown = leaf_of(&stream);
        // RFC 5929 §4.1: the hash of the certificate's own signature, here ECDSA with SHA-256.
        expect(&mut stream, &Sha256::digest(&shown)).await;
    }
}

#[tokio::test]
async fn a_version_below_the_least_is_refused() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    for (version_min, works) in [(TlsVersion::Tls12, true), (TlsVersion::Tls13, false)] {
        let pair = authority.pair(directory.path(), "one", "one.example");
        let settings = TlsSettings { version_min, ..TlsSettings::default() };
        let server = serving(&Certificates::load_all(vec![pair], settings).unwrap());
        for (versions, expected) in [(&[&TLS12], works), (&[&TLS13], true)] {
            let client = Client { versions, ..Client::of(&authority) };
            assert_eq!(client.connect(&server, "one.example").await.is_ok(), expected, "{version_min:?}");
        }
    }
}

#[tokio::test]
async fn clients_are_let_in_by_their_certificates() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    fs::write(&ca, authority.certificate.pem()).unwrap();
    for (clients, expected) in [
        (ClientCertificates::Off, [true, true, true]),
        (ClientCertificates::Optional(ca.clone()), [true, false, true]),
        (ClientCertificates::Required(ca.clone()), [false, false, true]),
    ] {
        let pair = authority.pair(directory.path(), "one", "one.example");
        let settings = TlsSettings { clients: clients.clone(), ..TlsSettings::default() };
        let server = serving(&Certificates::load_all(vec![pair], settings).unwrap());
        let owned = [None, Some(stranger.sign("client")), Some(authority.sign("client"))];
        for (own, works) in owned.into_iter().zip(expected) {
            let client = Client { own, ..Client::of(&authority) };
            // In TLS 1.3 the client hears of the refusal with the first answer.
            let mut answer = [0; 2];
            let outcome = async {
                let mut stream = client.connect(&server, "one.example").await?;
                stream.write_all(b"hi").await?;
                within(stream.read_exact(&mut answer)).await
            };
            assert_eq!(outcome.await.is_ok(), works, "{clients:?}");
        }
    }
    let pair = authority.pair(directory.path(), "one", "one.example");
    fs::write(&ca, "").unwrap();
    let settings = TlsSettings { clients: ClientCertificates::Required(ca), ..TlsSettings::default() };
    let refused = Certificates::load_all(vec![pair], settings).unwrap_err().to_string();
    assert!(refused.contains("ca.pem: ") && refused.contains("BEGIN CERTIFICATE"), "{refused}");
}
