//! AUTH (RFC 4954) and STARTTLS (RFC 3207).

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use posthaste_directory::AccountChange;
use posthaste_mail_model::Secret;
use posthaste_net::Mode;
use posthaste_smtp_server::{PlaintextAuth, Role};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::talk::{PASSWORD, Setup, Talk};

async fn greet<T: AsyncRead + AsyncWrite + Unpin>(client: &mut Talk<T>) -> String {
    client.send(b"EHLO client.example\r\n").await;
    let mut offered = String::new();
    loop {
        let line = client.line().await;
        offered.push_str(&line);
        offered.push('\n');
        if line.starts_with("250 ") {
            return offered;
        }
    }
}

#[tokio::test]
async fn every_way_to_say_a_password() {
    let server = Setup::new(Role::Submission).start().await;
    let plain = BASE64.encode(format!("\0ana@example.org\0{PASSWORD}"));
    let (name, password) = (BASE64.encode("Ana@example.org"), BASE64.encode(PASSWORD));
    for script in [
        format!("C: AUTH PLAIN {plain}\n"),
        format!("C: AUTH PLAIN\nS: 334 \nC: {plain}\n"),
        format!("C: auth login\nS: 334 VXNlcm5hbWU6\nC: {name}\nS: 334 UGFzc3dvcmQ6\nC: {password}\n"),
        format!("C: AUTH LOGIN {name}\nS: 334 UGFzc3dvcmQ6\nC: {password}\n"),
    ] {
        let mut client = server.connect().await;
        client.play("S: 220 …").await;
        greet(&mut client).await;
        client.play(&(script + "S: 235 2.7.0 Logged in")).await;
        client.play("C: AUTH PLAIN =\nS: 503 5.5.1 You are logged in already").await;
    }
}

#[tokio::test]
async fn failures_have_their_codes() {
    let server = Setup::new(Role::Submission).start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …").await;
    greet(&mut client).await;
    let wrong = BASE64.encode("\0ana@example.org\0wrong");
    client
        .play(&format!(
            "C: AUTH PLAIN {wrong}
             S: 535 5.7.8 Name or password is wrong
             C: AUTH CRAM-MD5
             S: 504 5.5.4 No such authentication mechanism
             C: AUTH PLAIN =
             S: 501 5.5.2 …
             C: AUTH PLAIN
             S: 334 …
             C: *
             S: 501 5.7.0 Login cancelled
             C: AUTH LOGIN
             S: 334 VXNlcm5hbWU6
             C: not base 64
             S: 501 5.5.4 …
             C: AUTH SCRAM-SHA-256-PLUS
             S: 504 5.5.4 …
             C: NOOP
             S: 250 2.0.0 Nothing done"
        ))
        .await;
}

/// The client's side of SCRAM-SHA-256 (RFC 5802 §3, RFC 7677), with channel binding data or
/// without.
async fn scram<T: AsyncRead + AsyncWrite + Unpin>(client: &mut Talk<T>, header: &str, binding: &[u8]) {
    scram_to_signature(client, header, binding).await;
    client.play("C: \nS: 235 2.7.0 Logged in").await;
}

/// The same up to the server's signature. The client's empty response to that is missing.
async fn scram_to_signature<T: AsyncRead + AsyncWrite + Unpin>(
    client: &mut Talk<T>,
    header: &str,
    binding: &[u8],
) {
    let mechanism = if header.starts_with('p') { "SCRAM-SHA-256-PLUS" } else { "SCRAM-SHA-256" };
    let first = "n=ana@example.org,r=clientnonce".to_owned();
    let initial = BASE64.encode(format!("{header}{first}"));
    client.send(format!("AUTH {mechanism} {initial}\r\n").as_bytes()).await;
    let challenge = decoded(&client.line().await);
    let field = |name: &str| {
        challenge
            .split(',')
            .find_map(|field| field.strip_prefix(name))
            .unwrap_or_else(|| panic!("{challenge}"))
    };
    let (nonce, rounds) = (field("r="), field("i=").parse().unwrap());
    let salt = BASE64.decode(field("s=")).unwrap();
    let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(PASSWORD.as_bytes(), &salt, rounds);
    let bound = BASE64.encode([header.as_bytes(), binding].concat());
    let without_proof = format!("c={bound},r={nonce}");
    let message = format!("{first},{challenge},{without_proof}");
    let client_key = hmac(&salted, b"Client Key");
    let signature = hmac(&Sha256::digest(client_key), message.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, byte)| key ^ byte).collect();
    let last = BASE64.encode(format!("{without_proof},p={}", BASE64.encode(proof)));
    client.send(format!("{last}\r\n").as_bytes()).await;
    let server_signature = hmac(&hmac(&salted, b"Server Key"), message.as_bytes());
    assert_eq!(decoded(&client.line().await), format!("v={}", BASE64.encode(server_signature)));
}

fn decoded(line: &str) -> String {
    let challenge = line.strip_prefix("334 ").unwrap_or_else(|| panic!("{line}"));
    String::from_utf8(BASE64.decode(challenge).unwrap()).unwrap()
}

fn hmac(key: &[u8], data: &[u8]) -> [u8; 32] {
    Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(data).finalize().into_bytes().into()
}

#[tokio::test]
async fn scram_in_the_clear() {
    let server = Setup::new(Role::Submission).start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …").await;
    greet(&mut client).await;
    scram(&mut client, "n,,", b"").await;
}

#[tokio::test]
async fn a_login_that_began_before_a_change_of_the_account_is_refused() {
    let server = Setup::new(Role::Submission).start().await;
    let directory = server.delivery.directory();
    let mut client = server.connect().await;
    client.play("S: 220 …").await;
    greet(&mut client).await;
    scram_to_signature(&mut client, "n,,", b"").await;
    let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
    directory.set("ana@example.org", change).await.unwrap();
    client.play("C: \nS: 535 5.7.13 This account is disabled").await;
    let change = AccountChange { disabled: Some(false), ..AccountChange::default() };
    directory.set("ana@example.org", change).await.unwrap();
    scram_to_signature(&mut client, "n,,", b"").await;
    directory.set_password("ana@example.org", &Secret::new("battery staple".to_owned())).await.unwrap();
    // The commands that follow are in the same segment.
    client
        .play(
            "C: \n             C: MAIL FROM:<ana@example.org>
             S: 535 5.7.8 Name or password is wrong
             S: 530 5.7.0 Log in first",
        )
        .await;
}

#[tokio::test]
async fn nothing_is_offered_in_the_clear_unless_the_configuration_has_it() {
    let mut setup = Setup::new(Role::Submission);
    setup.options.plaintext_auth = PlaintextAuth::Never;
    setup.options.plaintext_scram = PlaintextAuth::Never;
    let server = setup.start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …").await;
    let offered = greet(&mut client).await;
    assert!(!offered.contains("AUTH") && offered.contains("STARTTLS"), "{offered}");
    client.play("C: AUTH SCRAM-SHA-256\nS: 538 5.7.11 …").await;
    client.play("C: STARTTLS\nS: 220 …").await;
    let mut client = client.handshake(server.certificates.leaf()).await;
    assert!(greet(&mut client).await.contains("250-AUTH SCRAM-SHA-256-PLUS SCRAM-SHA-256 PLAIN LOGIN"));
}

#[tokio::test]
async fn scram_bound_to_the_channel() {
    let server = Setup { mode: Mode::ImplicitTls, ..Setup::new(Role::Submission) }.start().await;
    let end_point = Sha256::digest(server.certificates.leaf()).to_vec();
    for kind in ["tls-exporter", "tls-server-end-point"] {
        let mut client = server.connect_tls().await;
        client.play("S: 220 …").await;
        assert!(greet(&mut client).await.contains("250-AUTH SCRAM-SHA-256-PLUS "));
        let session = client.stream().get_ref().1;
        let exported = session.export_keying_material(vec![0; 32], b"EXPORTER-Channel-Binding", Some(b""));
        let binding = if kind == "tls-exporter" { exported.unwrap() } else { end_point.clone() };
        scram(&mut client, &format!("p={kind},,"), &binding).await;
    }
}

#[tokio::test]
async fn starttls_resets_the_session() {
    let server = Setup::new(Role::Submission).start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …").await;
    assert!(greet(&mut client).await.contains("250-STARTTLS"));
    client.play("C: STARTTLS\nS: 220 2.0.0 Begin TLS").await;
    let mut client = client.handshake(server.certificates.leaf()).await;
    client.play("C: MAIL FROM:<>\nS: 503 5.5.1 Greet first").await;
    let offered = greet(&mut client).await;
    assert!(!offered.contains("STARTTLS") && offered.contains("SCRAM-SHA-256-PLUS"), "{offered}");
    let plain = BASE64.encode(format!("\0ana@example.org\0{PASSWORD}"));
    client.play(&format!("C: AUTH PLAIN {plain}\nS: 235 2.7.0 Logged in")).await;
}

#[tokio::test]
async fn nothing_may_follow_starttls() {
    let server = Setup::new(Role::Smtp).start().await;
    let mut client = server.connect().await;
    client
        .play(
            "S: 220 …
             C: STARTTLS
             C: MAIL FROM:<evil@example.net>
             S: 554 5.5.1 Commands were sent after STARTTLS",
        )
        .await;
    client.ends().await;
}
