//! TLS from the start, TLS on demand, and what ties logins to it.

use std::time::Duration;

use posthaste_net::{Certificates, ChannelBinding, Connection, Mode, NetError, TlsSettings};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::peer::{LONG, Server, echo, expect, handshake, handshake_for, noise, within};

fn certificates() -> Certificates {
    Certificates::self_signed_in_memory("mail.example.org").unwrap()
}

#[tokio::test]
async fn implicit_tls_carries_bytes_both_ways() {
    let held = certificates();
    let server = Server::start(Mode::ImplicitTls, |options| options.certificates = Some(held.clone()), echo);
    let (mut read, mut write) = tokio::io::split(handshake(server.connect().await, &held).await.unwrap());
    let sent = noise(2_000_000);
    let expected = sent.clone();
    let writer = tokio::spawn(async move {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    });
    let mut found = Vec::new();
    within(read.read_to_end(&mut found)).await.unwrap();
    assert!(found == expected);
    writer.await.unwrap();
}

#[tokio::test]
async fn keys_are_agreed_on_with_ml_kem_where_the_client_offers_it() {
    let held = certificates();
    let server = Server::start(Mode::ImplicitTls, |options| options.certificates = Some(held.clone()), echo);
    let client = handshake(server.connect().await, &held).await.unwrap();
    let group = client.get_ref().1.negotiated_key_exchange_group().map(|group| group.name());
    assert_eq!(group, Some(rustls::NamedGroup::X25519MLKEM768));
}

#[tokio::test]
async fn a_client_that_asks_for_another_protocol_is_refused() {
    let held = certificates();
    let imap = held.for_protocol("imap");
    let server = Server::start(Mode::ImplicitTls, |options| options.certificates = Some(imap), echo);
    for (asked, answer) in [
        (&[][..], Some(None)),
        (&["imap"], Some(Some("imap"))),
        (&["h2", "imap"], Some(Some("imap"))),
        (&["h2", "http/1.1"], None),
    ] {
        let stream = handshake_for(server.connect().await, &held, asked).await;
        let agreed = stream.ok().map(|stream| {
            let agreed = stream.get_ref().1.alpn_protocol();
            agreed.map(|name| String::from_utf8_lossy(name).into_owned())
        });
        assert_eq!(agreed.as_ref().map(Option::as_deref), answer, "{asked:?}");
    }
}

#[tokio::test]
async fn tls_needs_a_certificate() {
    let listener = posthaste_net::Listener::bind(&posthaste_net::Endpoint {
        address: "127.0.0.1:0".parse().unwrap(),
        mode: Mode::ImplicitTls,
    })
    .unwrap();
    let (_trigger, token) = posthaste_net::Shutdown::new();
    let refused = listener.serve(posthaste_net::ServeOptions::new(token), echo).await;
    assert!(matches!(refused, Err(NetError::NoCertificate(_))));
}

/// A session with a STARTTLS of its own: the outcome of the upgrade goes to the test, then it
/// echoes.
fn starttls_server(held: Certificates) -> (Server, mpsc::Receiver<Result<(), NetError>>) {
    let (said, heard) = mpsc::channel(1);
    let server = Server::start(
        Mode::Plain,
        |_| {},
        move |mut connection: Connection| {
            let (said, held) = (said.clone(), held.clone());
            async move {
                while !connection.input().contains(&b'\n') {
                    connection.fill(1000, LONG).await.unwrap();
                }
                let line = connection.input().iter().position(|byte| *byte == b'\n').unwrap() + 1;
                connection.consume(line);
                connection.write_all_within(b"OK\r\n", LONG).await.unwrap();
                let outcome = connection.start_tls(&held, LONG).await;
                let good = outcome.is_ok();
                said.send(outcome).await.unwrap();
                if good {
                    assert!(matches!(connection.start_tls(&held, LONG).await, Err(NetError::TlsActive)));
                    echo(connection).await;
                }
            }
        },
    );
    (server, heard)
}

#[tokio::test]
async fn starttls_upgrades_in_place() {
    let held = certificates();
    let (server, mut heard) = starttls_server(held.clone());
    let mut tcp = server.connect().await;
    tcp.write_all(b"STARTTLS\r\n").await.unwrap();
    expect(&mut tcp, b"OK\r\n").await;
    let mut tls = handshake(tcp, &held).await.unwrap();
    within(heard.recv()).await.unwrap().unwrap();
    tls.write_all(b"private").await.unwrap();
    expect(&mut tls, b"private").await;
}

#[tokio::test]
async fn starttls_refuses_what_was_sent_in_the_clear() {
    let (server, mut heard) = starttls_server(certificates());
    let mut tcp = server.connect().await;
    tcp.write_all(b"STARTTLS\r\nEVIL\r\n").await.unwrap();
    let outcome = within(heard.recv()).await.unwrap();
    assert!(matches!(outcome, Err(NetError::PipelinedUpgrade(6))), "{outcome:?}");
}

#[tokio::test]
async fn a_client_that_does_not_speak_tls_is_dropped() {
    let (server, mut heard) = starttls_server(certificates());
    let mut tcp = server.connect().await;
    tcp.write_all(b"STARTTLS\r\n").await.unwrap();
    expect(&mut tcp, b"OK\r\n").await;
    tcp.write_all(b"a NOOP\r\n").await.unwrap();
    assert!(matches!(within(heard.recv()).await.unwrap(), Err(NetError::Handshake(_))));
}

#[tokio::test]
async fn both_ends_agree_on_the_channel() {
    let held = certificates();
    let (said, mut heard) = mpsc::channel(1);
    let server = Server::start(
        Mode::ImplicitTls,
        |options| options.certificates = Some(held.clone()),
        move |connection: Connection| {
            let said = said.clone();
            async move {
                let exporter = connection.channel_binding(ChannelBinding::TlsExporter);
                let end_point = connection.channel_binding(ChannelBinding::TlsServerEndPoint);
                said.send((connection.tls(), exporter, end_point)).await.unwrap();
            }
        },
    );
    let client = handshake(server.connect().await, &held).await.unwrap();
    let (facts, exporter, end_point) = within(heard.recv()).await.unwrap();
    assert_eq!(facts.unwrap().version, "TLSv1.3");
    let session = client.get_ref().1;
    let expected = session.export_keying_material(vec![0; 32], b"EXPORTER-Channel-Binding", Some(b""));
    assert_eq!(exporter.unwrap(), expected.unwrap());
    assert_eq!(end_point.unwrap(), Sha256::digest(held.leaf()).to_vec());
}

#[tokio::test]
async fn plain_connections_have_no_channel() {
    let (said, mut heard) = mpsc::channel(1);
    let server = Server::start(
        Mode::Plain,
        |_| {},
        move |connection: Connection| {
            let said = said.clone();
            async move {
                let kinds = [ChannelBinding::TlsExporter, ChannelBinding::TlsServerEndPoint];
                said.send(kinds.map(|kind| connection.channel_binding(kind))).await.unwrap();
            }
        },
    );
    let _client = server.connect().await;
    assert_eq!(within(heard.recv()).await.unwrap(), [None, None]);
}

#[tokio::test]
async fn a_reload_changes_new_connections_only() {
    let directory = tempfile::tempdir().unwrap();
    let kept = || {
        let pair = Certificates::self_signed_pair(directory.path(), "localhost").unwrap();
        Certificates::load_all(vec![pair], TlsSettings::default()).unwrap()
    };
    let (held, old) = (kept(), kept());
    let server = Server::start(Mode::ImplicitTls, |options| options.certificates = Some(held.clone()), echo);
    let mut before = handshake(server.connect().await, &old).await.unwrap();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let new = kept();
    held.reload().unwrap();
    assert!(handshake(server.connect().await, &old).await.is_err());
    let mut after = handshake(server.connect().await, &new).await.unwrap();
    for stream in [&mut before, &mut after] {
        stream.write_all(b"still here").await.unwrap();
        expect(stream, b"still here").await;
    }
}

#[tokio::test]
async fn a_handshake_that_never_starts_is_given_up() {
    let held = certificates();
    let server = Server::start(
        Mode::ImplicitTls,
        |options| {
            options.certificates = Some(held);
            options.handshake_within = Duration::from_millis(10);
        },
        echo,
    );
    let mut silent = server.connect().await;
    assert!(matches!(within(silent.read(&mut [0])).await, Ok(0) | Err(_)));
}
